#!/usr/bin/env bash
# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
# Entry point of the image. With an empty data directory it makes a database as the variables say and
# runs /docker-entrypoint-initdb.d; then it becomes mysqld. docs/container.md names the variables.
# shellcheck disable=SC2119,SC2120  # arguments of docker_process_sql come from scripts
set -euo pipefail
shopt -s nullglob

initdb=${REDSTART_INITDB:-/docker-entrypoint-initdb.d}
startdb=${REDSTART_STARTDB:-/docker-entrypoint-startdb.d}
# Belongs to the server's user.
run=${REDSTART_RUN:-/run/mysqld}
# Names the server's socket to healthcheck.sh; missing while a database is being made.
ready=$run/.socket
start_limit_sec=${REDSTART_INIT_TIMEOUT_SEC:-300}
server=
# The script that is being run.
script=
# Scripts may use these two: where the server has its data and its socket.
DATADIR='' SOCKET=''

note() { printf 'entrypoint: %s\n' "$*" >&2; }
die() {
  note "error: $*"
  exit 1
}
clean_up() {
  [ -z "$script" ] || note "error: $script failed. The data directory is not complete: empty it and start again"
  if [ -n "$server" ]; then
    kill "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
  fi
}
trap clean_up EXIT

# NAME or the content of the file that NAME_FILE names, into NAME, for scripts too.
from_file() {
  local name=$1 file=$1_FILE
  if [ -n "${!file:-}" ]; then
    [ -z "${!name:-}" ] || die "$name and $file are both set; set one of them"
    [ -r "${!file}" ] || die "$file names ${!file}, which cannot be read"
    printf -v "$name" '%s' "$(<"${!file}")"
    unset "$file"
  fi
  printf -v "$name" '%s' "${!name:-}"
  export "${name?}"
}

# A text between single quotes, where a function is not allowed.
quoted() { printf "'%s'" "$(printf %s "$1" | sed -e 's/\\/\\\\/g' -e "s/'/\\\\'/g")"; }
# shellcheck disable=SC2016  # backquotes of SQL
identifier() { printf '`%s`' "${1//\`/\`\`}"; }

# client PASSWORD [mysql's options]
client() {
  local password=$1
  shift
  MYSQL_PWD=$password mysql --no-defaults --protocol=socket --socket="$SOCKET" --user=root --default-character-set=utf8mb4 --comments "$@"
}

# For scripts, by the name and with the arguments that they know from MySQL's own image:
#   docker_process_sql [--dont-use-mysql-root-password] [mysql's options] <STATEMENTS
docker_process_sql() {
  local password=$MYSQL_ROOT_PASSWORD database=()
  if [ "${1:-}" = --dont-use-mysql-root-password ]; then
    password=
    shift
  fi
  [ -z "$MYSQL_DATABASE" ] || database=(--database="$MYSQL_DATABASE")
  client "$password" "${database[@]}" "$@"
}

read_variables() {
  local name
  for name in MYSQL_ROOT_PASSWORD MYSQL_ROOT_HOST MYSQL_DATABASE MYSQL_USER MYSQL_PASSWORD; do from_file "$name"; done
}

check_variables() {
  if [ -z "$MYSQL_ROOT_PASSWORD" ] && [ -z "${MYSQL_ALLOW_EMPTY_PASSWORD:-}" ] && [ -z "${MYSQL_RANDOM_ROOT_PASSWORD:-}" ]; then
    die "the data directory is empty and no password is given: set one of MYSQL_ROOT_PASSWORD, MYSQL_ROOT_PASSWORD_FILE, MYSQL_ALLOW_EMPTY_PASSWORD, MYSQL_RANDOM_ROOT_PASSWORD"
  fi
  if [ "$MYSQL_USER" = root ]; then die "MYSQL_USER cannot be root; MYSQL_ROOT_PASSWORD is for root"; fi
  if [ -n "$MYSQL_USER" ] && [ -z "$MYSQL_PASSWORD" ]; then die "MYSQL_USER needs MYSQL_PASSWORD"; fi
  if [ -z "$MYSQL_USER" ] && [ -n "$MYSQL_PASSWORD" ]; then die "MYSQL_PASSWORD needs MYSQL_USER"; fi
}

# start_local LIMIT_SEC COMMAND...: the server without network, until it answers. Access denied is an answer.
start_local() {
  local end=$((SECONDS + $1))
  shift
  "$@" --skip-networking &
  server=$!
  until mysqladmin --no-defaults --socket="$SOCKET" ping >/dev/null 2>&1; do
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

# Accounts of root and time zones are every server's own: a replica that has the same is not to get them, and a
# group would refuse a member that brings transactions of its own.
set_up() {
  local host=${MYSQL_ROOT_HOST:-%}
  if [ -z "${MYSQL_INITDB_SKIP_TZINFO:-}" ] && [ -d /usr/share/zoneinfo ]; then
    { echo 'SET SESSION sql_log_bin = 0;'; mysql_tzinfo_to_sql /usr/share/zoneinfo 2>/dev/null; } | client '' --database=mysql
  fi
  if [ -n "${MYSQL_RANDOM_ROOT_PASSWORD:-}" ] && [ -z "$MYSQL_ROOT_PASSWORD" ]; then
    MYSQL_ROOT_PASSWORD=$(head -c 24 /dev/urandom | base64 | tr '+/' '-_')
    note "GENERATED ROOT PASSWORD: $MYSQL_ROOT_PASSWORD"
  fi
  {
    [ -z "$MYSQL_DATABASE" ] || echo "CREATE DATABASE IF NOT EXISTS $(identifier "$MYSQL_DATABASE");"
    if [ -n "$MYSQL_USER" ]; then
      echo "CREATE USER $(quoted "$MYSQL_USER")@'%' IDENTIFIED BY $(quoted "$MYSQL_PASSWORD");"
      # In GRANT _ and % of a name are wildcards.
      [ -z "$MYSQL_DATABASE" ] || echo "GRANT ALL ON $(identifier "$(printf %s "$MYSQL_DATABASE" | sed 's/[_%]/\\&/g')").* TO $(quoted "$MYSQL_USER")@'%';"
    fi
    echo 'SET SESSION sql_log_bin = 0;'
    [ "$host" = localhost ] || echo "CREATE USER root@$(quoted "$host") IDENTIFIED BY $(quoted "$MYSQL_ROOT_PASSWORD"); GRANT ALL ON *.* TO root@$(quoted "$host") WITH GRANT OPTION;"
    echo "ALTER USER root@localhost IDENTIFIED BY $(quoted "$MYSQL_ROOT_PASSWORD");"
  } | client ''
}

# Every root: the password is known to whoever started the container.
expire_root() {
  local host=${MYSQL_ROOT_HOST:-%}
  {
    echo 'SET SESSION sql_log_bin = 0;'
    [ "$host" = localhost ] || echo "ALTER USER root@$(quoted "$host") PASSWORD EXPIRE;"
    echo 'ALTER USER root@localhost PASSWORD EXPIRE;'
  } | docker_process_sql
}

# A script that is not executable becomes part of this one: it may use docker_process_sql. It was not written for -u.
run_scripts() {
  # shellcheck disable=SC2034  # for scripts
  local mysql=(docker_process_sql)
  for script in "$1"/*; do
    note "running $script"
    case $script in
      *.sh)
        if [ -x "$script" ]; then
          "$script"
        else
          set +u
          # shellcheck source=/dev/null
          . "$script"
          set -u
        fi
        ;;
      *.sql) docker_process_sql <"$script" ;;
      *.sql.bz2) bzip2 -dc "$script" | docker_process_sql ;;
      *.sql.gz) gzip -dc "$script" | docker_process_sql ;;
      *.sql.xz) xz -dc "$script" | docker_process_sql ;;
      *.sql.zst) zstd -dc "$script" | docker_process_sql ;;
      *) note "ignoring $script: not .sh, .sql, .sql.bz2, .sql.gz, .sql.xz or .sql.zst" ;;
    esac
  done
  script=
}

first_start() {
  check_variables
  touch "$unfinished" 2>/dev/null || die "$DATADIR cannot be written by user $(id -un) ($(id -u)); its owner is $(stat -c %u "$DATADIR")"
  note "making a database in $DATADIR"
  # The server ignores names that begin with a dot.
  "$@" --initialize-insecure || die "the database could not be made (see above)"
  start_local "$start_limit_sec" "$@"
  set_up
  run_scripts "$initdb"
  if [ -n "${MYSQL_ONETIME_PASSWORD:-}" ]; then expire_root; fi
  stop_local
  rm -f "$unfinished"
  note "the database is ready"
}

contents() { find "$DATADIR/" -mindepth 1 -maxdepth 1 ! -name lost+found ! -name "${unfinished##*/}" | head -n 1; }

# Whether the server only says something and ends.
is_question() {
  local word
  for word; do
    case $word in '-?' | --help | --print-defaults | -V | --version | --validate-config) return 0 ;; esac
  done
  return 1
}

# configured NAME HELP: a value that the server has by its files, its options and its defaults.
configured() { awk -v name="$1 " 'index($0, name) == 1 { sub(/^[^ ]+ +/, ""); print; exit }' <<<"$2"; }

main() {
  local help
  if [ $# -eq 0 ] || [ "${1#-}" != "$1" ]; then set -- mysqld "$@"; fi
  if [ "$1" != mysqld ] || is_question "$@"; then
    trap - EXIT
    exec "$@"
  fi
  [ -z "${REDSTART_DATADIR:-}" ] || set -- "$@" --datadir="$REDSTART_DATADIR"
  help=$("$@" --verbose --help 2>/dev/null) || die "the server does not say what its configuration is"
  DATADIR=$(configured datadir "$help") SOCKET=$(configured socket "$help")
  DATADIR=${DATADIR%/}
  # Written while a first start is under way; a data directory that has it is not complete.
  unfinished=$DATADIR/.entrypoint-unfinished
  # A folder below a volume, which may hold lost+found.
  [ -d "$DATADIR" ] || mkdir -m 700 "$DATADIR" 2>/dev/null ||
    die "there is no directory $DATADIR, and user $(id -un) ($(id -u)) cannot make it"
  [ -w "$run" ] || die "$run cannot be written by user $(id -un) ($(id -u)); the server's socket is to be there"
  rm -f "$ready"
  if [ -e "$unfinished" ] && [ -n "$(contents)" ]; then
    die "the first start in $DATADIR did not come to its end. Empty the directory and start again; nothing was changed now"
  fi
  read_variables
  if [ -d "$DATADIR/mysql" ]; then
    [ -w "$DATADIR/mysql.ibd" ] || die "$DATADIR belongs to user $(stat -c %u "$DATADIR"), this is user $(id -u); nothing was changed"
    if [ -n "$(find "$startdb/" -type f 2>/dev/null | head -n 1)" ]; then
      # A recovery takes as long as it takes.
      start_local 1000000000 "$@"
      run_scripts "$startdb"
      stop_local
    fi
  else
    [ -z "$(contents)" ] ||
      die "$DATADIR is not empty and holds no database; nothing was changed"
    "$@" --validate-config || die "the server does not accept its configuration (see above)"
    first_start "$@"
  fi
  unset MYSQL_ROOT_PASSWORD MYSQL_PASSWORD
  printf '%s\n' "$SOCKET" >"$ready"
  trap - EXIT
  exec "$@"
}

main "$@"
