#!/usr/bin/env bash
# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
# Entry point of the image. With an empty data directory it makes a database as the variables say and
# runs /docker-entrypoint-initdb.d; then it becomes mysqld. docs/container.md names the variables.
set -euo pipefail
shopt -s nullglob

datadir=${REDSTART_DATADIR:-/var/lib/mysql}
initdb=${REDSTART_INITDB:-/docker-entrypoint-initdb.d}
# Belongs to the server's user; healthcheck.sh keeps its state there.
run=${REDSTART_RUN:-/run/mysqld}
socket=$datadir/.entrypoint.sock
# Written while a first start is under way; a data directory that has it is not complete.
unfinished=$datadir/.entrypoint-unfinished
start_limit_sec=${REDSTART_INIT_TIMEOUT_SEC:-300}
server=
# What root has now; empty until it is set.
root_password=

note() { printf 'entrypoint: %s\n' "$*" >&2; }
die() {
  note "error: $*"
  exit 1
}
clean_up() {
  if [ -n "$server" ]; then
    kill "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
  fi
}
trap clean_up EXIT

# NAME or the content of the file that NAME_FILE names, into NAME.
from_file() {
  local name=$1 file=$1_FILE
  if [ -n "${!file:-}" ]; then
    [ -z "${!name:-}" ] || die "$name and $file are both set; set one of them"
    [ -r "${!file}" ] || die "$file names ${!file}, which cannot be read"
    printf -v "$name" '%s' "$(<"${!file}")"
    unset "$file"
  fi
  printf -v "$name" '%s' "${!name:-}"
}

# A text between single quotes, where a function is not allowed.
quoted() { printf "'%s'" "$(printf %s "$1" | sed -e 's/\\/\\\\/g' -e "s/'/\\\\'/g")"; }
# shellcheck disable=SC2016  # backquotes of SQL
identifier() { printf '`%s`' "${1//\`/\`\`}"; }

client() { MYSQL_PWD=$root_password mysql --no-defaults --protocol=socket --socket="$socket" --user=root --default-character-set=utf8mb4 --comments "$@"; }

check_variables() {
  local name
  for name in MYSQL_ROOT_PASSWORD MYSQL_ROOT_HOST MYSQL_DATABASE MYSQL_USER MYSQL_PASSWORD; do from_file "$name"; done
  if [ -z "$MYSQL_ROOT_PASSWORD" ] && [ -z "${MYSQL_ALLOW_EMPTY_PASSWORD:-}" ] && [ -z "${MYSQL_RANDOM_ROOT_PASSWORD:-}" ]; then
    die "the data directory is empty and no password is given: set one of MYSQL_ROOT_PASSWORD, MYSQL_ROOT_PASSWORD_FILE, MYSQL_ALLOW_EMPTY_PASSWORD, MYSQL_RANDOM_ROOT_PASSWORD"
  fi
  if [ "$MYSQL_USER" = root ]; then die "MYSQL_USER cannot be root; MYSQL_ROOT_PASSWORD is for root"; fi
  if [ -n "$MYSQL_USER" ] && [ -z "$MYSQL_PASSWORD" ]; then die "MYSQL_USER needs MYSQL_PASSWORD"; fi
  if [ -z "$MYSQL_USER" ] && [ -n "$MYSQL_PASSWORD" ]; then die "MYSQL_PASSWORD needs MYSQL_USER"; fi
}

start_local() {
  "$@" --datadir="$datadir" --socket="$socket" --skip-networking --pid-file="$datadir/.entrypoint.pid" &
  server=$!
  local end=$((SECONDS + start_limit_sec))
  until client --execute 'SELECT 1' >/dev/null 2>&1; do
    kill -0 "$server" 2>/dev/null || { server=; die "the server ended while it was being set up (see above)"; }
    [ "$SECONDS" -lt "$end" ] || die "the server did not answer within $start_limit_sec s (REDSTART_INIT_TIMEOUT_SEC)"
    sleep 0.2
  done
}

stop_local() {
  kill "$server"
  wait "$server" || die "the server did not end cleanly"
  server=
}

set_up() {
  local host=${MYSQL_ROOT_HOST:-%}
  root_password=
  if [ -z "${MYSQL_INITDB_SKIP_TZINFO:-}" ] && [ -d /usr/share/zoneinfo ]; then
    mysql_tzinfo_to_sql /usr/share/zoneinfo 2>/dev/null | client --database=mysql
  fi
  if [ -n "${MYSQL_RANDOM_ROOT_PASSWORD:-}" ] && [ -z "$MYSQL_ROOT_PASSWORD" ]; then
    MYSQL_ROOT_PASSWORD=$(head -c 24 /dev/urandom | base64 | tr '+/' '-_')
    note "GENERATED ROOT PASSWORD: $MYSQL_ROOT_PASSWORD"
  fi
  {
    [ "$host" = localhost ] || echo "CREATE USER root@$(quoted "$host") IDENTIFIED BY $(quoted "$MYSQL_ROOT_PASSWORD"); GRANT ALL ON *.* TO root@$(quoted "$host") WITH GRANT OPTION;"
    [ -z "$MYSQL_DATABASE" ] || echo "CREATE DATABASE IF NOT EXISTS $(identifier "$MYSQL_DATABASE");"
    if [ -n "$MYSQL_USER" ]; then
      echo "CREATE USER $(quoted "$MYSQL_USER")@'%' IDENTIFIED BY $(quoted "$MYSQL_PASSWORD");"
      # In GRANT _ and % of a name are wildcards.
      [ -z "$MYSQL_DATABASE" ] || echo "GRANT ALL ON $(identifier "$(printf %s "$MYSQL_DATABASE" | sed 's/[_%]/\\&/g')").* TO $(quoted "$MYSQL_USER")@'%';"
    fi
    echo "ALTER USER root@localhost IDENTIFIED BY $(quoted "$MYSQL_ROOT_PASSWORD");"
  } | client
  root_password=$MYSQL_ROOT_PASSWORD
}

run_scripts() {
  local file database=()
  [ -z "$MYSQL_DATABASE" ] || database=(--database="$MYSQL_DATABASE")
  for file in "$initdb"/*; do
    note "running $file"
    case $file in
      *.sh) if [ -x "$file" ]; then "$file"; else bash "$file"; fi ;;
      *.sql) client "${database[@]}" <"$file" ;;
      *.sql.gz) gzip -dc "$file" | client "${database[@]}" ;;
      *.sql.xz) xz -dc "$file" | client "${database[@]}" ;;
      *.sql.zst) zstd -dc "$file" | client "${database[@]}" ;;
      *) note "ignoring $file: not .sh, .sql, .sql.gz, .sql.xz or .sql.zst" ;;
    esac || die "$file failed. The data directory is not complete: empty it and start again"
  done
}

first_start() {
  check_variables
  touch "$unfinished" 2>/dev/null || die "$datadir cannot be written by user $(id -un) ($(id -u)); its owner is $(stat -c %u "$datadir")"
  note "making a database in $datadir"
  # The server ignores names that begin with a dot.
  "$@" --initialize-insecure --datadir="$datadir" || die "the database could not be made (see above)"
  start_local "$@"
  set_up
  run_scripts
  if [ -n "${MYSQL_ONETIME_PASSWORD:-}" ]; then client --execute 'ALTER USER root@localhost PASSWORD EXPIRE'; fi
  stop_local
  rm -f "$unfinished"
  note "the database is ready"
}

contents() { find "$datadir/" -mindepth 1 -maxdepth 1 ! -name lost+found ! -name "${unfinished##*/}" | head -n 1; }

main() {
  if [ $# -eq 0 ] || [ "${1#-}" != "$1" ]; then set -- mysqld "$@"; fi
  if [ "$1" != mysqld ]; then
    trap - EXIT
    exec "$@"
  fi
  # A folder below a volume, which may hold lost+found.
  [ -d "$datadir" ] || mkdir -m 700 "$datadir" 2>/dev/null ||
    die "there is no directory $datadir, and user $(id -un) ($(id -u)) cannot make it"
  [ -w "$run" ] || die "$run cannot be written by user $(id -un) ($(id -u)); the server's socket is to be there"
  # The server has not answered since this start.
  rm -f "$run/.answered"
  if [ -e "$unfinished" ] && [ -n "$(contents)" ]; then
    die "the first start in $datadir did not come to its end. Empty the directory and start again; nothing was changed now"
  fi
  if [ -d "$datadir/mysql" ]; then
    [ -w "$datadir/mysql.ibd" ] || die "$datadir belongs to user $(stat -c %u "$datadir"), this is user $(id -u); nothing was changed"
  else
    [ -z "$(contents)" ] ||
      die "$datadir is not empty and holds no database; nothing was changed"
    first_start "$@"
  fi
  unset MYSQL_ROOT_PASSWORD MYSQL_PASSWORD
  trap - EXIT
  exec "$@" --datadir="$datadir"
}

main "$@"
