#!/bin/sh
# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
# systemctl of a root in which no systemd runs, for extra/dropin/debian.py: starts, signals and stops the one
# database server as its unit says (user, limit of open files, what runs before). The real one is systemctl.distrib.
set -e

pid=/run/fake-systemctl.pid
verb='' unit='' signal=TERM
for word; do
  case $word in
    --signal=*) signal=${word#*=} ;;
    -*) ;;
    *) if [ -z "$verb" ]; then verb=$word; else unit=$word; fi ;;
  esac
done
printf '%s %s\n' "$verb" "$unit" >>/tmp/systemctl.log
# Links to units need no systemd that runs.
case $verb in enable | disable | preset | mask | unmask | is-enabled) SYSTEMD_OFFLINE=1 exec systemctl.distrib "$@" ;; esac
case $unit in redstart.service | mysql.service | mysql) ;; *) exit 0 ;; esac
unit=${unit%.service}.service

for folder in /etc/systemd/system /usr/lib/systemd/system; do
  [ -z "${file:-}" ] || break
  [ ! -e "$folder/$unit" ] || file=$folder/$unit
done
value() { sed -n "s/^$1=//p" "$file"; }
# A process that has ended and was not waited for has no program any more.
running() { [ -e "$pid" ] && readlink "/proc/$(cat "$pid")/exe" >/dev/null; }
end() {
  ! running || kill -s "$signal" "$(cat "$pid")"
  while running; do sleep 0.1; done
}
start() {
  ! running || return 0
  [ -n "${file:-}" ] || exit 5
  install -d -o mysql -g mysql /run/mysqld
  before=$(value ExecStartPre)
  ${before#+}
  limit=$(value LimitNOFILE)
  # As systemd: what may not be raised so far is raised as far as it may be.
  prlimit --nofile="$limit" true 2>/dev/null || limit=${limit%:*}:
  # shellcheck disable=SC2046  # ExecStart may have arguments
  prlimit --nofile="$limit" setpriv --reuid="$(value User)" --regid="$(value Group)" --init-groups \
    $(value ExecStart) >>/tmp/mysqld.log 2>&1 </dev/null &
  echo $! >"$pid"
  for _ in $(seq 600); do
    ! mysqladmin --no-defaults --socket=/run/mysqld/mysqld.sock ping >/dev/null 2>&1 || return 0
    running || exit 1
    sleep 0.1
  done
  exit 1
}

case $verb in
  start) start ;;
  stop) end ;;
  restart) end && start ;;
  kill)
    running || exit 1
    if [ "$signal" = KILL ]; then end; else kill -s "$signal" "$(cat "$pid")"; fi
    ;;
  is-active) running ;;
esac
