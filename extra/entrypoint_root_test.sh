#!/usr/bin/env bash
# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
# The entry point of the image when the container is started as root: what becomes whose, and who the server is.
#
#   extra/entrypoint_root_test.sh DOCKER_FOLDER WORK
#
# As root, with the programs that PATH has. WORK is an empty folder with a short path (sockets). Nobody stands for the
# user mysql; by mounts that only this test sees that user reaches the programs wherever the clone is.
set -euo pipefail

if [ -z "${ENTRYPOINT_ROOT_TEST:-}" ]; then exec env ENTRYPOINT_ROOT_TEST=1 unshare --mount -- "$0" "$@"; fi
what='entry point as root' work=$2
# shellcheck source=extra/entrypoint_common.sh
. "$(dirname "$0")/entrypoint_common.sh"
[ "$(id -u)" = 0 ] || die "it needs root"
chmod 711 "$work"
user=nobody
programs=$(dirname "$(command -v mysqld)")
mkdir "$work/Docker" "$work/build" "$work/init"
mount --bind "$1" "$work/Docker"
mount --bind "$(dirname "$programs")" "$work/build"
docker=$work/Docker
environment=(env -i PATH="$docker:$work/build/$(basename "$programs"):/usr/sbin:/usr/bin:/sbin:/bin" HOME=/root WORK="$work"
  REDSTART_USER="$user" REDSTART_DATADIR="$work/data" REDSTART_INITDB="$work/init" REDSTART_STARTDB="$work/none" REDSTART_RUN="$work/run"
  MYSQL_INITDB_SKIP_TZINFO=1)
options=(--no-defaults --socket="$work/run/mysqld.sock" --skip-networking --innodb-flush-method=nosync --innodb-redo-log-capacity=8M)
# Folders of root, as an engine makes them for a mount that is not there.
fresh() {
  rm -rf "$work/data" "$work/run"
  mkdir -m 755 "$work/data" "$work/run"
}
owner() { stat -c %U "$1"; }
sql() { MYSQL_PWD=x mysql --no-defaults --socket="$work/run/mysqld.sock" --user=root --batch --skip-column-names --execute "$1"; }
# belongs FOLDER: all that is in it is the server's.
belongs() { [ -z "$(find "$1" ! -user $user | head -n 1)" ] || die "not the server's: $(find "$1" ! -user $user | head -n 3)"; }

say "questions, and other programs"
fresh
"${environment[@]}" "$docker/entrypoint.sh" --version | grep -q Ver || die "no version"
"${environment[@]}" "$docker/entrypoint.sh" mysqld --verbose --help | grep -q '^datadir' || die "no help"
[ "$("${environment[@]}" "$docker/entrypoint.sh" id -un)" = root ] || die "another program is not run as it is"
[ "$(owner "$work/data") $(owner "$work/run")" = 'root root' ] || die "a question changed an owner"

say "what is not empty and no database stays as it is, and so does all else"
touch "$work/data/something"
refuses 'holds no database' MYSQL_ROOT_PASSWORD=x
[ "$(owner "$work/data/something") $(owner "$work/data") $(owner "$work/run")" = 'root root root' ] || die "a refusal changed an owner"
rm "$work/data/something"

say "a first start in folders of root, with a password that only root can read"
mkdir -m 700 "$work/data/lost+found"
printf x >"$work/password"
chmod 600 "$work/password"
# shellcheck disable=SC2016  # for the script
printf '#!/bin/sh\necho "$(id -un) $HOME" >"$WORK/data/who"\n' >"$work/init/1.sh"
chmod 755 "$work/init/1.sh"
# In one that everybody may write in nothing is to be changed; one that is not there is made.
mkdir -m 1777 "$work/everybody"
options+=(--pid-file="$work/everybody/a.pid" --slow-query-log-file="$work/logs/slow/a.log" --slow-query-log)
start MYSQL_ROOT_PASSWORD_FILE="$work/password"
[ "$(sql 'SELECT CURRENT_USER()')" = root@localhost ] || die "the password does not work"
# The entry point has become the server.
[ "$(stat -c %U "/proc/$server") $(cat "/proc/$server/comm")" = "$user mysqld" ] || die "the server is $(stat -c %U "/proc/$server")'s"
[ "$(sed -n 's/^Groups:\s*//p' "/proc/$server/status" | xargs)" = "$(id -G $user)" ] || die "the server has groups of root"
[ "$(sed -n 's/^Cap\(Eff\|Prm\|Amb\):\s*0*$/none/p' "/proc/$server/status" | xargs)" = 'none none none' ] || die "the server has rights of root"
[ "$(cat "$work/data/who")" = "$user $(getent passwd $user | cut -d: -f6)" ] || die "a script ran as $(cat "$work/data/who")"
stop
[ "$(stat -c '%U %a' "$work/data/lost+found")" = 'root 700' ] || die "lost+found was given away"
rmdir "$work/data/lost+found"
belongs "$work/data"
belongs "$work/run"
belongs "$work/logs/slow"
[ "$(owner "$work/everybody") $(owner "$work/logs") $(owner "$work/password")" = 'root root root' ] || die "more was given away than has to be"

say "a second start gives nothing away"
start
if grep -q 'giving' "$log"; then die "owners were changed again"; fi
stop

say "a database of somebody else, with a link out of it"
chown -R 12345:12345 "$work/data"
echo secret >"$work/outside"
ln -s "$work/outside" "$work/data/link"
start
grep -q "giving $work/data to user $user" "$log" || die "it is not said that owners change"
[ "$(sql 'SELECT 1')" = 1 ] || die "the database is not the same"
[ "$(owner "$work/outside")" = root ] || die "a file outside was given away"
stop
belongs "$work/data"

say "a folder that has other files is not given away"
rm -rf "$work/run"
mkdir -m 755 "$work/run"
touch "$work/run/other"
refuses 'cannot write in .*/run, which is not empty'
[ "$(owner "$work/run")" = root ] || die "it was given away"
rm "$work/run/other"

say "a value that the server refuses; a data directory in new folders"
options+=(--max-allowed-packet=false)
refuses "Error while setting value 'false' to 'max_allowed_packet'"
unset 'options[-1]'
options+=(--datadir="$work/new/data/dir")
start REDSTART_DATADIR= MYSQL_ROOT_PASSWORD=x
[ "$(sql 'SELECT @@datadir')" = "$work/new/data/dir/" ] || die "the data is elsewhere"
stop
[ "$(stat -c '%U %a' "$work/new/data/dir") $(owner "$work/new")" = "$user 700 root" ] || die "owners or mode of the new folders"

say "root that cannot become another user"
if setpriv --bounding-set=-setuid --inh-caps=-setuid "${environment[@]}" "$docker/entrypoint.sh" mysqld "${options[@]}" >"$log" 2>&1; then
  die "the server runs"
fi
grep -q "root cannot become user $user" "$log" || die "not said: root cannot become $user"
say "passed"
