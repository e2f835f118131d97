#!/usr/bin/env bash
# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
# The entry point of the image, as a script, in a root that has the packages installed.
#
#   extra/entrypoint_test.sh DOCKER_FOLDER ROOT
# shellcheck disable=SC2016  # backquotes of SQL
set -euo pipefail

root=$2
die() {
  echo "entry point test: FAILED: $*" >&2
  tail -n 20 "$root/tmp/entrypoint.log" >&2 || true
  exit 1
}
say() { echo "entry point test: $*"; }
cp "$1/entrypoint.sh" "$1/healthcheck.sh" "$root/usr/local/bin/"
rm -rf "$root/srv/init" "$root/srv/data"
mkdir -p "$root/srv/init" "$root/run/mysqld"
server=
clean_up() { [ -z "$server" ] || kill -KILL "$server" 2>/dev/null || true; }
trap clean_up EXIT
user=(setpriv --reuid=mysql --regid=mysql --init-groups)
environment=(env -i PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin REDSTART_DATADIR=/srv/data REDSTART_INITDB=/srv/init MYSQL_INITDB_SKIP_TZINFO=1 REDSTART_HEALTH_STATE=/srv/data.answered)
options=(--no-defaults --socket=/run/mysqld/mysqld.sock --skip-networking --secure-file-priv=NULL)
fresh() {
  rm -rf "$root/srv/data" "$root/srv/data.answered"
  chroot "$root" install -d -o mysql -m 700 /srv/data
}
inside() { chroot "$root" "${environment[@]}" "$@"; }
# run VARIABLE=VALUE...: the entry point to its end; it must fail.
refuses() {
  local text=$1
  shift
  if inside "$@" "${user[@]}" entrypoint.sh mysqld "${options[@]}" >"$root/tmp/entrypoint.log" 2>&1; then die "no failure: $text"; fi
  grep -q -- "$text" "$root/tmp/entrypoint.log" || die "not said: $text"
}
start() {
  (exec chroot "$root" "${environment[@]}" "$@" "${user[@]}" entrypoint.sh mysqld "${options[@]}") >"$root/tmp/entrypoint.log" 2>&1 &
  server=$!
  for _ in $(seq 600); do
    [ ! -S "$root/run/mysqld/mysqld.sock" ] || ! inside mysqladmin --no-defaults --socket=/run/mysqld/mysqld.sock ping >/dev/null 2>&1 || return 0
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
sql() { inside MYSQL_PWD="$2" mysql --no-defaults --socket=/run/mysqld/mysqld.sock --user="$1" --batch --skip-column-names --execute "$3"; }

say "refusals"
fresh
refuses 'no password is given'
[ -z "$(ls -A "$root/srv/data")" ] || die "the refusal wrote into the data directory"
refuses 'MYSQL_USER needs MYSQL_PASSWORD' MYSQL_ROOT_PASSWORD=x MYSQL_USER=u
refuses 'MYSQL_USER cannot be root' MYSQL_ROOT_PASSWORD=x MYSQL_USER=root MYSQL_PASSWORD=y
refuses 'both set' MYSQL_ROOT_PASSWORD=x MYSQL_ROOT_PASSWORD_FILE=/etc/hostname
refuses 'cannot be read' MYSQL_ROOT_PASSWORD_FILE=/no/such/file
chroot "$root" chown root /srv/data
refuses 'cannot be written\|Permission denied\|cannot be read' MYSQL_ROOT_PASSWORD=x

say "every variable and every kind of script"
fresh
printf '%s' "sec'ret \\ \"x\"" >"$root/srv/password"
chmod 644 "$root/srv/password"
echo 'CREATE TABLE a (i INT); INSERT INTO a VALUES (1);' >"$root/srv/init/1.sql"
echo 'INSERT INTO a VALUES (2);' | gzip >"$root/srv/init/2.sql.gz"
echo 'INSERT INTO a VALUES (3);' | xz >"$root/srv/init/3.sql.xz"
echo 'INSERT INTO a VALUES (4);' | zstd --quiet >"$root/srv/init/4.sql.zst"
echo 'echo ran >/srv/data/script-ran' >"$root/srv/init/5.sh"
echo 'x' >"$root/srv/init/6.txt"
[ "$(inside healthcheck.sh /run/mysqld/mysqld.sock)" = 'starting or recovering' ] || die "a starting server is unhealthy"
start MYSQL_ROOT_PASSWORD_FILE=/srv/password MYSQL_DATABASE='my_d`b' MYSQL_USER="o'neil" MYSQL_PASSWORD='p\w' || die "start"
[ "$(sql root "sec'ret \\ \"x\"" 'SELECT GROUP_CONCAT(i ORDER BY i) FROM `my_d``b`.a')" = 1,2,3,4 ] || die "the scripts did not all run"
[ "$(sql "o'neil" 'p\w' 'INSERT INTO `my_d``b`.a VALUES (5); SELECT COUNT(*) FROM `my_d``b`.a')" = 5 ] || die "the user cannot use the database"
if sql "o'neil" 'p\w' 'SELECT * FROM mysql.user' 2>/dev/null; then die "the user has rights on mysql"; fi
[ -e "$root/srv/data/script-ran" ] || die "the shell script did not run"
grep -q 'ignoring /srv/init/6.txt' "$root/tmp/entrypoint.log" || die "the text file was not passed over"
inside healthcheck.sh /run/mysqld/mysqld.sock || die "a running server is unhealthy"

say "a second start needs no variable and changes nothing; an ended server is unhealthy"
stop
if inside healthcheck.sh /run/mysqld/mysqld.sock >/dev/null; then die "an ended server is healthy"; fi
start
[ "$(sql root "sec'ret \\ \"x\"" 'SELECT COUNT(*) FROM `my_d``b`.a')" = 5 ] || die "the data changed"
stop

say "a script that fails, and the start after it"
rm -rf "$root"/srv/init/*
fresh
echo 'THIS IS NO SQL;' >"$root/srv/init/1.sql"
refuses '1.sql failed' MYSQL_ROOT_PASSWORD=x
refuses 'did not come to its end' MYSQL_ROOT_PASSWORD=x
rm "$root/srv/init/1.sql"

say "random and empty passwords"
fresh
start MYSQL_RANDOM_ROOT_PASSWORD=1
password=$(sed -n 's/.*GENERATED ROOT PASSWORD: //p' "$root/tmp/entrypoint.log")
[ "$(sql root "$password" 'SELECT 1')" = 1 ] || die "the generated password does not work"
if sql root '' 'SELECT 1' 2>/dev/null; then die "root has no password"; fi
stop
fresh
start MYSQL_ALLOW_EMPTY_PASSWORD=1
[ "$(sql root '' 'SELECT 1')" = 1 ] || die "the empty password does not work"
stop
say "passed"
