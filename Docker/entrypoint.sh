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
# Who the server is when the container is started as root.
user=${REDSTART_USER:-mysql}
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
    # Alone on standard output, for programs that read it from there.
    printf 'GENERATED ROOT PASSWORD: %s\n' "$MYSQL_ROOT_PASSWORD"
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
  touch "$unfinished" 2>/dev/null || die "$DATADIR cannot be written by user $(id -un) ($(id -u)); its owner is $(stat -c %u "$DATADIR"). A container that is started as root gives it to user $user"
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

# configured NAME: a value that the server has by its files, its options and its defaults, as its help says.
configured() { awk -v name="$1 " 'index($0, name) == 1 { sub(/^[^ ]+ +/, ""); print; exit }' <<<"$help"; }

# settings COMMAND...: where the command's server has its data and what else it writes.
settings() {
  local name value
  # Not in one call: standard output is the answer, and standard error has more than errors.
  help=$("$@" --verbose --help 2>/dev/null) || {
    "$@" --verbose --help >/dev/null || true
    die "the server does not accept its configuration (see above)"
  }
  DATADIR=$(configured datadir) SOCKET=$(configured socket)
  DATADIR=${DATADIR%/}
  # Written while a first start is under way; a data directory that has it is not complete.
  unfinished=$DATADIR/.entrypoint-unfinished
  folders=("$run" "$(dirname "$SOCKET")")
  value=$(configured secure-file-priv)
  [ "$value" = NULL ] || folders+=("$value")
  for name in pid-file general-log-file slow-query-log-file log-error; do folders+=("$(dirname "$(configured "$name")")"); done
}

make_datadir() { mkdir -p "$(dirname "$DATADIR")" && mkdir -m 700 "$DATADIR"; }

# What is neither empty nor a database is somebody's, and is left as it is.
check_contents() {
  if [ -e "$unfinished" ] && [ -n "$(contents)" ]; then
    die "the first start in $DATADIR did not come to its end. Empty the directory and start again; nothing was changed now"
  fi
  [ -d "$DATADIR/mysql" ] || [ -z "$(contents)" ] || die "$DATADIR is not empty and holds no database; nothing was changed"
}

# hand_over FOLDER: where the server's user cannot write, a new or empty folder becomes its own.
hand_over() {
  [ -d "$1" ] || mkdir -p "$1" || die "the directory $1 cannot be made"
  if "${as_user[@]}" test -w "$1"; then return; fi
  if [ -n "$(find "$1/" -mindepth 1 -maxdepth 1 | head -n 1)" ]; then
    note "user $user cannot write in $1, which is not empty; it is left as it is"
  else
    chown "$user:" "$1" || die "root cannot give $1 to user $user"
  fi
}

# As root only what has to be done by root: files of passwords are read, and what the server writes becomes its
# user's. All else is the same script, by that user.
leave_root() {
  local home folder as_user=(setpriv --reuid="$user" --regid="$(id -g "$user")" --init-groups)
  home=$(getent passwd "$user" | cut -d: -f6)
  as_user+=(env HOME="${home:-/}")
  "${as_user[@]}" true || die "root cannot become user $user"
  if ! is_question "$@"; then
    settings "${as_user[@]}" "$@" "${datadir[@]}"
    if [ -d "$DATADIR" ]; then check_contents; else make_datadir || die "the directory $DATADIR cannot be made"; fi
    read_variables
    # A start does not look at every file. Where others have put files there are some of theirs at the top.
    if [ -n "$(find "$DATADIR/" -maxdepth 1 ! -name lost+found ! -user "$user" | head -n 1)" ]; then
      note "giving $DATADIR to user $user"
      find "$DATADIR/" -path "$DATADIR/lost+found" -prune -o ! -user "$user" -exec chown --no-dereference "$user:" {} + ||
        die "root cannot give $DATADIR to user $user"
    fi
    # A name that is not a path is one in the data directory, or no file.
    for folder in "${folders[@]}"; do [ "${folder#/}" = "$folder" ] || hand_over "$folder"; done
  fi
  trap - EXIT
  exec "${as_user[@]}" "$0" "$@"
}

main() {
  local help folders datadir=()
  if [ $# -eq 0 ] || [ "${1#-}" != "$1" ]; then set -- mysqld "$@"; fi
  [ -z "${REDSTART_DATADIR:-}" ] || datadir=(--datadir="$REDSTART_DATADIR")
  if [ "$1" = mysqld ] && [ "$(id -u)" = 0 ]; then leave_root "$@"; fi
  if [ "$1" != mysqld ] || is_question "$@"; then
    trap - EXIT
    exec "$@"
  fi
  set -- "$@" "${datadir[@]}"
  settings "$@"
  # A folder below a volume, which may hold lost+found.
  [ -d "$DATADIR" ] || make_datadir 2>/dev/null ||
    die "there is no directory $DATADIR, and user $(id -un) ($(id -u)) cannot make it"
  [ -w "$run" ] || die "$run cannot be written by user $(id -un) ($(id -u)); the server's socket is to be there"
  rm -f "$ready"
  check_contents
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
    "$@" --validate-config || die "the server does not accept its configuration (see above)"
    first_start "$@"
  fi
  unset MYSQL_ROOT_PASSWORD MYSQL_PASSWORD
  printf '%s\n' "$SOCKET" >"$ready"
  trap - EXIT
  exec "$@"
}

main "$@"
