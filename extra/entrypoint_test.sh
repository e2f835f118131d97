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
docker=$(realpath "$1") work=$2 what='entry point test'
# shellcheck source=extra/entrypoint_common.sh
. "$(dirname "$0")/entrypoint_common.sh"
mkdir "$work/init" "$work/start" "$work/run"
socket=$work/run/mysqld.sock
# MYSQL_UNIX_PORT stands for /etc/mysql/my.cnf, from which the clients in the image know the socket.
environment=(env -i PATH="$docker:$PATH" REDSTART_DATADIR="$work/data" REDSTART_INITDB="$work/init" REDSTART_STARTDB="$work/start"
  REDSTART_RUN="$work/run" MYSQL_UNIX_PORT="$socket" WORK="$work")
no_zones=MYSQL_INITDB_SKIP_TZINFO=1
# The last two make the six databases of this test faster.
options=(--no-defaults --socket="$socket" --skip-networking --secure-file-priv=NULL --innodb-flush-method=nosync --innodb-redo-log-capacity=8M)
fresh() {
  rm -rf "$work/data" "$work"/run/* "$work/run/.socket"
  mkdir -m 700 "$work/data"
}
sql() { MYSQL_PWD=$2 mysql --no-defaults --socket="$socket" --user="$1" --batch --skip-column-names --execute "$3"; }

say "the secret of compose.yaml, made as its first lines say"
(
  cp -r "$docker" "$work/Docker"
  cd "$work"
  sed -n 's/^#   //p' "$docker/compose.yaml" >"$work/commands"
  [ -s "$work/commands" ] || die "compose.yaml does not say how the secret is made"
  rm -rf "$work/Docker/secrets"
  bash -eu "$work/commands"
  secret=Docker/$(sed -n '/^secrets:/,$s/^ *file: \.\///p' "$docker/compose.yaml")
  [ -s "$secret" ] || die "compose.yaml names $secret, which its commands do not make"
  # It is mounted as it is, into a container of another user; on the host the folder keeps others out.
  [ "$(stat -c %a "$secret")" = 644 ] || die "the server in the container cannot read $secret"
  [ "$(stat -c %a "$(dirname "$secret")")" = 700 ] || die "every user of the host can read $secret"
  for list in .dockerignore .gitignore; do
    grep -qx "/\?$(dirname "$secret")/\?" "$docker/../$list" || die "$list does not leave out $secret"
  done
  rm -rf "$work/Docker" "$work/commands"
)

say "questions to the server are passed on, without a password"
fresh
ask() { "${environment[@]}" "$docker/entrypoint.sh" mysqld "${options[@]}" "$@"; }
ask --version | grep -q Ver || die "no version"
ask --verbose --help | grep -q "^datadir.*/" || die "no help"
ask --validate-config >"$log" 2>&1 || die "the configuration cannot be validated"
"${environment[@]}" "$docker/entrypoint.sh" --version | grep -q Ver || die "an option alone is not mysqld's"
"${environment[@]}" "$docker/entrypoint.sh" --print-defaults | grep -q 'mysqld would have been started with the following arguments' || die "no defaults"
[ "$("${environment[@]}" "$docker/entrypoint.sh" echo other program)" = 'other program' ] || die "another program does not run"
[ -z "$(ls -A "$work/data")" ] || die "a question wrote into the data directory"

say "refusals"
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
echo 'INSERT INTO a VALUES (5);' | bzip2 >"$work/init/5.sql.bz2"
# Not executable: a part of the entry point.
cat >"$work/init/6.sh" <<'SH'
echo 'INSERT INTO a VALUES (6)' | docker_process_sql
docker_process_sql --database=mysql --execute 'INSERT INTO `my_d``b`.a VALUES (7)' $UNSET
"${mysql[@]}" <<<'INSERT INTO a VALUES (8)'
[ "$SOCKET" = "$WORK/run/mysqld.sock" ] && [ "$DATADIR" = "$WORK/data" ]
SH
# Executable: a program of its own, with what it needs in the environment.
cat >"$work/init/7.sh" <<'SH'
#!/bin/bash
set -eu
mysql --no-defaults -uroot -p"$MYSQL_ROOT_PASSWORD" "$MYSQL_DATABASE" --execute 'INSERT INTO a VALUES (9)'
mysql --no-defaults -u"$MYSQL_USER" -p"$MYSQL_PASSWORD" "$MYSQL_DATABASE" --execute 'INSERT INTO a VALUES (10)'
if healthcheck.sh >"$WORK/health"; then touch "$WORK/too-early"; fi
SH
chmod +x "$work/init/7.sh"
echo 'x' >"$work/init/8.txt"
if health >/dev/null; then die "a server that was never started is healthy"; fi
start $no_zones MYSQL_ROOT_PASSWORD_FILE="$work/password" MYSQL_DATABASE='my_d`b' MYSQL_USER="o'neil" MYSQL_PASSWORD='p\w' MYSQL_ROOT_HOST=10.%
[ "$(sql root "sec'ret \\ \"x\"" 'SELECT GROUP_CONCAT(i ORDER BY i) FROM `my_d``b`.a')" = 1,2,3,4,5,6,7,8,9,10 ] || die "the scripts did not all run"
[ "$(sql "o'neil" 'p\w' 'INSERT INTO `my_d``b`.a VALUES (11); SELECT COUNT(*) FROM `my_d``b`.a')" = 11 ] || die "the user cannot use the database"
if sql "o'neil" 'p\w' 'SELECT * FROM mysql.user' 2>/dev/null; then die "the user has rights on mysql"; fi
[ "$(sql root "sec'ret \\ \"x\"" "SELECT GROUP_CONCAT(host ORDER BY host) FROM mysql.user WHERE user = 'root'")" = '10.%,localhost' ] || die "root may log in from elsewhere"
[ -s "$work/health" ] || die "the health check says nothing while the database is being made"
[ ! -e "$work/too-early" ] || die "healthy while the database is being made"
grep -q "ignoring $work/init/8.txt" "$log" || die "the text file was not passed over"
health || die "a running server is unhealthy"

say "an ended server is unhealthy; a second start needs no variable and changes nothing"
stop
if health >/dev/null; then die "an ended server is healthy"; fi
start
[ "$(sql root "sec'ret \\ \"x\"" 'SELECT COUNT(*) FROM `my_d``b`.a')" = 11 ] || die "the data changed"
stop
(exec "${environment[@]}" "$docker/entrypoint.sh" mysqld "${options[@]}" --port=none) >"$log" 2>&1 && die "a server with a wrong option started"
if health >/dev/null; then die "a server that ended at once is healthy"; fi

say "scripts before each start; data and socket where the options say"
echo 'UPDATE a SET i = 100 WHERE i = 11' >"$work/start/1.sql"
mv "$work/data" "$work/moved"
elsewhere=("${options[@]}" --socket="$work/run/other.sock" --datadir="$work/moved")
(exec "${environment[@]}" REDSTART_DATADIR= MYSQL_ROOT_PASSWORD_FILE="$work/password" MYSQL_DATABASE='my_d`b' \
  "$docker/entrypoint.sh" mysqld "${elsewhere[@]}") >"$log" 2>&1 &
server=$!
wait_until_healthy
[ "$(MYSQL_PWD=$(cat "$work/password") mysql --no-defaults --socket="$work/run/other.sock" --user=root --batch --skip-column-names --execute 'SELECT MAX(i) FROM `my_d``b`.a')" = 100 ] ||
  die "the script before the start did not run"
stop
[ ! -e "$work/data" ] || die "a directory was made that nobody asked for"
rm -rf "$work/moved" "$work"/start/*

say "a database that cannot be made, and the start after it"
fresh
options+=(--no-such-option)
refuses 'does not accept its configuration' MYSQL_ROOT_PASSWORD=x
unset 'options[-1]'
options+=(--max-allowed-packet=false)
refuses 'does not accept its configuration' MYSQL_ROOT_PASSWORD=x
grep -q "Error while setting value 'false' to 'max_allowed_packet'" "$log" || die "not said: which value is wrong"
unset 'options[-1]'
[ -z "$(ls -A "$work/data")" ] || die "a wrong option wrote into the data directory"
(ulimit -f 8192 && refuses 'could not be made' MYSQL_ROOT_PASSWORD=x)
refuses 'did not come to its end' MYSQL_ROOT_PASSWORD=x

say "a script that fails, and the start after it"
rm -rf "$work"/init/*
fresh
echo 'THIS IS NO SQL;' >"$work/init/1.sql"
refuses '1.sql failed' MYSQL_ROOT_PASSWORD=x
refuses 'did not come to its end' MYSQL_ROOT_PASSWORD=x
rm "$work/init/1.sql"
fresh
printf 'false\ntrue\n' >"$work/init/1.sh"
refuses '1.sh failed' MYSQL_ROOT_PASSWORD=x
rm "$work/init/1.sh"

say "random, one-time and empty passwords; time zones"
fresh
echo 'echo "$MYSQL_ROOT_PASSWORD" >"$WORK/random"' >"$work/init/1.sh"
(exec "${environment[@]}" $no_zones MYSQL_RANDOM_ROOT_PASSWORD=1 MYSQL_ONETIME_PASSWORD=1 \
  "$docker/entrypoint.sh" mysqld "${options[@]}") >"$work/output" 2>"$log" &
server=$!
wait_until_healthy
rm "$work/init/1.sh"
# The fourth word of its line on standard output.
password=$(awk '/^GENERATED ROOT PASSWORD: / { print $4 }' "$work/output")
[ -n "$password" ] || die "the generated password is not on standard output"
if sql root '' 'SELECT 1' 2>/dev/null; then die "root has no password"; fi
{ sql root "$password" 'SELECT 1' 2>&1 || true; } | grep -q 'connect-expired-password' || die "the one-time password need not be changed"
[ "$(MYSQL_PWD=$password mysql --no-defaults --socket="$socket" --user=root --connect-expired-password --batch --skip-column-names --execute "ALTER USER USER() IDENTIFIED BY 'new'; SELECT 1")" = 1 ] || die "the generated password does not work"
[ "$(cat "$work/random")" = "$password" ] || die "scripts do not know the generated password"
[ "$(sql root new "SELECT GROUP_CONCAT(host, password_expired ORDER BY host) FROM mysql.user WHERE user = 'root'")" = '%Y,localhostN' ] || die "not every root must change the password"
stop
fresh
options+=(--server-id=1 --gtid-mode=ON --enforce-gtid-consistency=ON)
start MYSQL_ALLOW_EMPTY_PASSWORD=1
[ "$(sql root '' 'SELECT @@log_bin, @@global.gtid_executed')" = '1	' ] || die "the first start wrote into the binary log: $(sql root '' 'SELECT @@log_bin, @@global.gtid_executed')"
[ "$(sql root '' 'SELECT 1')" = 1 ] || die "the empty password does not work"
[ ! -d /usr/share/zoneinfo ] || [ "$(sql root '' "SELECT CONVERT_TZ('2026-01-01', 'UTC', 'Europe/Berlin')")" = '2026-01-01 01:00:00' ] || die "there are no time zones"
stop
# What the tests of docker-library/official-images do with MySQL's image over the network, done here by TCP.
say "as the tests of official images: names with blanks, TCP, a data directory in a new folder, a binary log"
rm -rf "$work/data" "$work"/run/*
for port in $(shuf --input-range=20000-30000 --head-count=20); do
  (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || break
done
options=("${options[@]/--skip-networking/--bind-address=127.0.0.1}")
options+=(--port="$port" --skip-name-resolve --loose-mysqlx=OFF --datadir="$work/data/in/dir" --log-bin=foo-1)
environment+=(REDSTART_DATADIR=)
name=0123456789012345 database='a database with blanks'
# by_tcp USER PASSWORD STATEMENT
by_tcp() {
  MYSQL_PWD=$2 mysql --no-defaults --host=127.0.0.1 --port="$port" --user="$1" --silent "$database" <<<"$3"
}
variables=(MYSQL_ROOT_PASSWORD='a password of root' MYSQL_USER="$name" MYSQL_PASSWORD='a password' MYSQL_DATABASE="$database")
echo "CREATE TABLE init (c VARCHAR(255)); INSERT INTO init VALUES ('goodbye!');" >"$work/init/test.sql"
start $no_zones "${variables[@]}" MYSQL_ONETIME_PASSWORD=1
rm "$work/init/test.sql"
by_tcp $name 'a password' 'CREATE TABLE test (a INT, b INT, c VARCHAR(255))'
by_tcp $name 'a password' 'INSERT INTO test VALUES (1, 2, "hello"), (2, 3, "goodbye!"); DELETE FROM test WHERE a = 1'
[ "$(by_tcp $name 'a password' 'SELECT COUNT(*), MAX(c) FROM test')" = '1	goodbye!' ] || die "the user's rows are not there"
[ "$(by_tcp $name 'a password' 'SELECT COUNT(*), MAX(c) FROM init')" = '1	goodbye!' ] || die "the script's rows are not there"
[ "$(by_tcp $name 'a password' 'SELECT @@datadir, @@log_bin_basename')" = "$work/data/in/dir/	$work/data/in/dir/foo-1" ] || die "the options were not taken"
[ "$(by_tcp $name 'a password' "SELECT CONVERT_TZ('2018-01-01 00:00:00', 'US/Eastern', 'US/Central')")" = NULL ] || die "there are time zones"
{ by_tcp root 'a password of root' 'SELECT 1' 2>&1 || true; } | grep -q 'connect-expired-password' || die "root's password need not be changed"
stop
rm -rf "$work/data"
start $no_zones "${variables[@]}" MYSQL_ROOT_HOST=host-1
{ by_tcp root 'a password of root' 'SELECT 1' 2>&1 || true; } | grep -q '^ERROR 1045' || die "root may log in from another host"
[ "$(sql root 'a password of root' 'SELECT 1')" = 1 ] || die "root cannot log in from localhost"
stop
say "passed"
