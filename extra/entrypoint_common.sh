# shellcheck shell=bash
# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
# What both tests of the entry point need. Who reads this has set `what`, the name of the test, and `work`, which is empty;
# before it starts anything also `docker`, and the arrays `environment` and `options`.
# shellcheck disable=SC2154  # see above
log=$work/entrypoint.log
die() {
  echo "$what: FAILED: $*" >&2
  [ ! -f "$log" ] || tail -n 20 "$log" >&2
  exit 1
}
say() { echo "$what: $*"; }
[ -z "$(ls -A "$work")" ] || die "$work is not empty"
server=
clean_up() { [ -z "$server" ] || kill -KILL "$server" 2>/dev/null || true; }
trap clean_up EXIT
entry_point() { "${environment[@]}" "$@" "$docker/entrypoint.sh" mysqld "${options[@]}"; }
health() { "${environment[@]}" "$docker/healthcheck.sh"; }
# refuses TEXT VARIABLE=VALUE...: the entry point must fail and say TEXT.
refuses() {
  local text=$1
  shift
  if entry_point MYSQL_INITDB_SKIP_TZINFO=1 "$@" >"$log" 2>&1; then die "no failure: $text"; fi
  grep -q -- "$text" "$log" || die "not said: $text"
}
# As long as the entry point lives; the limit ends a hang.
wait_until_healthy() {
  local end=$((SECONDS + 600))
  until health >/dev/null; do
    kill -0 "$server" 2>/dev/null || die "the entry point ended"
    [ "$SECONDS" -lt "$end" ] || die "the server does not answer"
    sleep 0.1
  done
}
start() {
  (exec "${environment[@]}" "$@" "$docker/entrypoint.sh" mysqld "${options[@]}") >"$log" 2>&1 &
  server=$!
  wait_until_healthy
}
stop() {
  kill "$server"
  wait "$server" || die "the server ended with $?"
  server=
}
