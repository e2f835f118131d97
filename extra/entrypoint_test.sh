#!/usr/bin/env bash
# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
# The entry point and the health check of the image, as scripts, with the programs that PATH has.
#
#   extra/entrypoint_test.sh DOCKER_FOLDER WORK
#
# WORK is an empty folder with a short path (sockets). Root becomes another user in a user namespace, for
# whom a folder without write permission is not writable.
# shellcheck disable=SC2016  # backquotes of SQL
set -euo pipefail

if [ "$(id -u)" -eq 0 ]; then exec unshare --user --map-user=1000 --map-group=1000 -- "$0" "$@"; fi
docker=$(realpath "$1") work=$2
log=$work/entrypoint.log
die() {
  echo "entry point test: FAILED: $*" >&2
  [ ! -f "$log" ] || tail -n 20 "$log" >&2
  exit 1
}
say() { echo "entry point test: $*"; }
[ -z "$(ls -A "$work")" ] || die "$work is not empty"
server=
clean_up() { [ -z "$server" ] || kill -KILL "$server" 2>/dev/null || true; }
trap clean_up EXIT
mkdir "$work/init" "$work/run"
socket=$work/run/mysqld.sock
environment=(env -i PATH="$PATH" REDSTART_DATADIR="$work/data" REDSTART_INITDB="$work/init" REDSTART_RUN="$work/run")
no_zones=MYSQL_INITDB_SKIP_TZINFO=1
options=(--no-defaults --socket="$socket" --skip-networking --secure-file-priv=NULL)
fresh() {
  rm -rf "$work/data" "$work"/run/* "$work/run/.answered"
  mkdir -m 700 "$work/data"
}
entry_point() { "${environment[@]}" "$@" "$docker/entrypoint.sh" mysqld "${options[@]}"; }
health() { "${environment[@]}" "$docker/healthcheck.sh"; }
# refuses TEXT VARIABLE=VALUE...: the entry point must fail and say TEXT.
refuses() {
  local text=$1
  shift
  if entry_point $no_zones "$@" >"$log" 2>&1; then die "no failure: $text"; fi
  grep -q -- "$text" "$log" || die "not said: $text"
}
start() {
  (exec "${environment[@]}" "$@" "$docker/entrypoint.sh" mysqld "${options[@]}") >"$log" 2>&1 &
  server=$!
  for _ in $(seq 900); do
    ! mysqladmin --no-defaults --socket="$socket" ping >/dev/null 2>&1 || return 0
    kill -0 "$server" 2>/dev/null || die "the entry point ended"
    sleep 0.1
  done
  die "the server does not answer"
}
stop() {
  kill "$server"
  wait "$server" || die "the server ended with $?"
  server=
}
sql() { MYSQL_PWD=$2 mysql --no-defaults --socket="$socket" --user="$1" --batch --skip-column-names --execute "$3"; }

say "refusals"
fresh
refuses 'no password is given'
[ -z "$(ls -A "$work/data")" ] || die "the refusal wrote into the data directory"
refuses 'MYSQL_USER needs MYSQL_PASSWORD' MYSQL_ROOT_PASSWORD=x MYSQL_USER=u
refuses 'MYSQL_USER cannot be root' MYSQL_ROOT_PASSWORD=x MYSQL_USER=root MYSQL_PASSWORD=y
refuses 'both set' MYSQL_ROOT_PASSWORD=x MYSQL_ROOT_PASSWORD_FILE=/etc/hostname
refuses 'cannot be read' MYSQL_ROOT_PASSWORD_FILE=/no/such/file
touch "$work/data/something"
refuses 'holds no database' MYSQL_ROOT_PASSWORD=x
rm "$work/data/something"
chmod 500 "$work/data"
refuses 'data cannot be written by user' MYSQL_ROOT_PASSWORD=x
chmod 700 "$work/data"
chmod 500 "$work/run"
refuses 'run cannot be written by user' MYSQL_ROOT_PASSWORD=x
chmod 700 "$work/run"
[ -z "$(ls -A "$work/data")" ] || die "a refusal wrote into the data directory"

say "every variable and every kind of script"
fresh
printf '%s' "sec'ret \\ \"x\"" >"$work/password"
echo 'CREATE TABLE a (i INT); INSERT INTO a VALUES (1);' >"$work/init/1.sql"
echo 'INSERT INTO a VALUES (2);' | gzip >"$work/init/2.sql.gz"
echo 'INSERT INTO a VALUES (3);' | xz >"$work/init/3.sql.xz"
echo 'INSERT INTO a VALUES (4);' | zstd --quiet >"$work/init/4.sql.zst"
echo 'echo ran >"$REDSTART_DATADIR/script-ran"' >"$work/init/5.sh"
echo 'x' >"$work/init/6.txt"
[ "$(health)" = 'starting or recovering' ] || die "a starting server is unhealthy"
start $no_zones MYSQL_ROOT_PASSWORD_FILE="$work/password" MYSQL_DATABASE='my_d`b' MYSQL_USER="o'neil" MYSQL_PASSWORD='p\w' MYSQL_ROOT_HOST=10.%
[ "$(sql root "sec'ret \\ \"x\"" 'SELECT GROUP_CONCAT(i ORDER BY i) FROM `my_d``b`.a')" = 1,2,3,4 ] || die "the scripts did not all run"
[ "$(sql "o'neil" 'p\w' 'INSERT INTO `my_d``b`.a VALUES (5); SELECT COUNT(*) FROM `my_d``b`.a')" = 5 ] || die "the user cannot use the database"
if sql "o'neil" 'p\w' 'SELECT * FROM mysql.user' 2>/dev/null; then die "the user has rights on mysql"; fi
[ "$(sql root "sec'ret \\ \"x\"" "SELECT GROUP_CONCAT(host ORDER BY host) FROM mysql.user WHERE user = 'root'")" = '10.%,localhost' ] || die "root may log in from elsewhere"
[ -e "$work/data/script-ran" ] || die "the shell script did not run"
grep -q "ignoring $work/init/6.txt" "$log" || die "the text file was not passed over"
health || die "a running server is unhealthy"

say "an ended server is unhealthy; a second start needs no variable and changes nothing"
stop
if health >/dev/null; then die "an ended server is healthy"; fi
start
[ "$(sql root "sec'ret \\ \"x\"" 'SELECT COUNT(*) FROM `my_d``b`.a')" = 5 ] || die "the data changed"
[ -z "$(health)" ] || die "after a second start the health check says: $(health)"
stop
rm "$work/run/.answered"
touch "$work/run/.answered"
(exec "${environment[@]}" "$docker/entrypoint.sh" mysqld "${options[@]}" --port=none) >"$log" 2>&1 && die "a server with a wrong option started"
[ "$(health)" = 'starting or recovering' ] || die "the state of the container before is still there"

say "a database that cannot be made, and the start after it"
fresh
options+=(--no-such-option)
refuses 'could not be made' MYSQL_ROOT_PASSWORD=x
unset 'options[-1]'
refuses 'did not come to its end' MYSQL_ROOT_PASSWORD=x
fresh
(ulimit -f 8192 && refuses 'could not be made' MYSQL_ROOT_PASSWORD=x)
refuses 'did not come to its end' MYSQL_ROOT_PASSWORD=x

say "a script that fails, and the start after it"
rm -rf "$work"/init/*
fresh
echo 'THIS IS NO SQL;' >"$work/init/1.sql"
refuses '1.sql failed' MYSQL_ROOT_PASSWORD=x
refuses 'did not come to its end' MYSQL_ROOT_PASSWORD=x
rm "$work/init/1.sql"

say "random, one-time and empty passwords; time zones"
fresh
start $no_zones MYSQL_RANDOM_ROOT_PASSWORD=1 MYSQL_ONETIME_PASSWORD=1
password=$(sed -n 's/.*GENERATED ROOT PASSWORD: //p' "$log")
if sql root '' 'SELECT 1' 2>/dev/null; then die "root has no password"; fi
{ sql root "$password" 'SELECT 1' 2>&1 || true; } | grep -q 'connect-expired-password' || die "the one-time password need not be changed"
[ "$(MYSQL_PWD=$password mysql --no-defaults --socket="$socket" --user=root --connect-expired-password --batch --skip-column-names --execute "ALTER USER USER() IDENTIFIED BY 'new'; SELECT 1")" = 1 ] || die "the generated password does not work"
stop
fresh
start MYSQL_ALLOW_EMPTY_PASSWORD=1
[ "$(sql root '' 'SELECT 1')" = 1 ] || die "the empty password does not work"
[ ! -d /usr/share/zoneinfo ] || [ "$(sql root '' "SELECT CONVERT_TZ('2026-01-01', 'UTC', 'Europe/Berlin')")" = '2026-01-01 01:00:00' ] || die "there are no time zones"
stop
say "passed"
