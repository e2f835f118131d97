#!/usr/bin/env bash
# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
# Stock MySQL and this build take turns on one data directory, after clean and killed shutdowns.
#
#   extra/swap_test.sh MYSQLD SHARE ROOT WORK ROUNDS
#
# MYSQLD is this build's server, SHARE the folder with its messages, ROOT a Debian root with stock
# mysql-server-core and mysql-client-core, WORK an empty folder, ROUNDS the number of turns. The stock
# server may be of an earlier release of the same LTS series. In each
# turn a server starts, the tables must have the checksums they had, then it changes rows and tables of
# its own, under load, and is shut down or killed. Before a kill the checksums are taken after the load
# ended and everything was committed. An error log line that is a warning or an error must match EXPLAINED.
set -euo pipefail

mysqld=$1 share=$2 root=$3 work=$4 rounds=$5
data=$work/data
# Rows of the table that every turn changes.
ROWS=5000
options=(--skip-networking --loose-mysqlx=OFF)

# What both servers say in any start, with the reason.
explained=(
  'MY-010068' # the CA certificate that the server made for itself is self-signed
  "unknown variable 'loose-mysqlx=OFF'" # a build without the X plugin
  'MY-011810' # the pid file lies below a folder that everybody may write (a clone in /tmp)
)

die() {
  echo "swap: FAILED: $*" >&2
  [ ! -f "$work/log.err" ] || tail -n 15 "$work/log.err" >&2
  exit 1
}
for file in "$mysqld" "$root/usr/sbin/mysqld"; do [ -x "$file" ] || die "$file is missing"; done
[ "$(id -u)" -eq 0 ] || die "needs root (chroot)"
version_of() { "$@" --no-defaults --version | sed 's/.* Ver \([^ ]*\) .*/\1/'; }
declare -A versions
versions=([ours]=$(version_of "$mysqld") [stock]=$(version_of chroot "$root" /usr/sbin/mysqld))
[ "${versions[ours]}" != "${versions[stock]}" ] || die "both servers are ${versions[ours]}"
mkdir -p "$work"
[ -z "$(ls -A "$work")" ] || die "$work is not empty"
inside=$(mktemp -d "$root/srv/swap.XXXXXX")
here=${inside#"$root"}

clean_up() {
  [ -z "${server:-}" ] || kill -KILL "$server" 2>/dev/null || true
  umount "$inside" 2>/dev/null || true
  rmdir "$inside" 2>/dev/null || true
}
trap clean_up EXIT
mount --bind "$work" "$inside"

# The X plugin, which stock and the packages have, wants a socket outside of the data directory: it is off.
# Both see the folder under the same path inside and outside only through their own prefix.
start() {
  local who=$1
  shift
  : >"$work/log.err"
  case $who in
    stock) (exec chroot "$root" /usr/sbin/mysqld --no-defaults --user=root --datadir="$here/data" --socket="$here/sock" --secure-file-priv=NULL --log-error="$here/log.err" "${options[@]}" "$@") & ;;
    ours) (exec "$mysqld" --no-defaults --user=root --datadir="$data" --socket="$work/sock" --secure-file-priv=NULL --lc-messages-dir="$share" --log-error="$work/log.err" "${options[@]}" "$@") & ;;
  esac
  server=$!
}
await() {
  for _ in $(seq 600); do
    sql 'SELECT 1' >/dev/null 2>&1 && return
    kill -0 "$server" 2>/dev/null || break
    sleep 0.1
  done
  die "round $round: $who does not start"
}
sql() { chroot "$root" mysql --no-defaults --user=root --socket="$here/sock" --batch --skip-column-names "${@:2}" --execute "$1"; }
tables() { sql "SELECT CONCAT('t.', table_name) FROM information_schema.tables WHERE table_schema = 't' ORDER BY table_name" | paste -sd,; }
sums() { sql "CHECKSUM TABLE $(tables)"; }
check_log() {
  local lines code
  grep -q 'ready for connections' "$work/log.err" || die "round $round: the error log of $who does not tell that it started"
  lines=$(grep -E '\[(Warning|ERROR)\]' "$work/log.err" || true)
  for code in "${explained[@]}"; do lines=$(grep -v "$code" <<<"$lines" || true); done
  [ -z "$lines" ] || die "round $round: $who says: $lines"
  cat "$work/log.err" >>"$work/all.log"
}

round=0 who=stock
start stock --initialize-insecure
wait "$server" || die "stock does not initialise"
start stock
await
sql "CREATE DATABASE t; CREATE TABLE t.base (id BIGINT AUTO_INCREMENT PRIMARY KEY, s VARBINARY(120), n INT, KEY (n), KEY (s)) SELECT NULL AS id, RANDOM_BYTES(60) AS s, FLOOR(RAND() * 1000) AS n FROM information_schema.columns"
[ "$(sql 'SELECT COUNT(*) > 1000 FROM t.base')" = 1 ] || die "no data was made"
wanted=$(sums)
kill "$server"
wait "$server" || die "stock did not end cleanly"
killed=0 ours=0
for round in $(seq "$rounds"); do
  who=stock
  [ $((round % 2)) -eq 0 ] || who=ours
  start "$who"
  await
  [ "$(sql 'SELECT VERSION()')" = "${versions[$who]}" ] || die "the wrong server runs"
  got=$(sums)
  [ "$got" = "$wanted" ] || die "round $round: $who finds other checksums: $got; wanted: $wanted"
  # Tables and indexes of this turn; those of older turns are changed, renamed, truncated and dropped.
  sql "CREATE TABLE t.r$round (id INT AUTO_INCREMENT PRIMARY KEY, s VARBINARY(120), b LONGBLOB, KEY (s)) ROW_FORMAT=$([ $((round % 3)) -eq 0 ] && echo COMPRESSED || echo DYNAMIC);
       INSERT INTO t.r$round (s, b) SELECT s, REPEAT(s, 100) FROM t.base LIMIT 300;
       ALTER TABLE t.r$round ADD COLUMN c INT DEFAULT $round;
       ALTER TABLE t.base DROP KEY s, ADD KEY s (s), ALGORITHM=INPLACE;
       CREATE TABLE t.p$round (id INT PRIMARY KEY, v INT) PARTITION BY HASH (id) PARTITIONS 3;
       INSERT INTO t.p$round SELECT id, n FROM t.base LIMIT 200"
  if [ "$round" -gt 3 ]; then
    sql "RENAME TABLE t.r$((round - 1)) TO t.x$((round - 1)); ALTER TABLE t.x$((round - 1)) ENGINE=InnoDB;
         TRUNCATE TABLE t.p$((round - 1)); DROP TABLE t.p$((round - 3))"
  fi
  if [ "$round" -gt 6 ]; then sql "DROP TABLE t.x$((round - 3))"; fi
  # The table does not grow from turn to turn.
  n=$(sql 'SELECT COUNT(*) FROM t.base')
  [ "$n" -le "$ROWS" ] || sql "DELETE FROM t.base ORDER BY id DESC LIMIT $((n - ROWS))"
  before=$(sql 'SELECT COUNT(*), SUM(n) FROM t.base')
  # Each client changes rows of its own; with READ COMMITTED none has to wait for another, so that every
  # error is one.
  loads=()
  for client in 1 2 3; do
    (
      echo "SET SESSION transaction_isolation = 'READ-COMMITTED';"
      for i in $(seq 25); do
        echo "UPDATE t.base SET n = n + 1, s = RANDOM_BYTES(60) WHERE id % 97 = $((client * 25 + i));"
        echo "INSERT INTO t.base (s, n) SELECT s, n FROM t.base WHERE id % 101 = $i AND id % 3 = $((client - 1));"
      done
    ) | chroot "$root" mysql --no-defaults --user=root --socket="$here/sock" >"$work/load.$client" 2>&1 &
    loads+=($!)
  done
  for load in "${loads[@]}"; do
    wait "$load" || die "round $round: the load on $who failed: $(cat "$work"/load.*)"
  done
  [ "$(sql 'SELECT COUNT(*), SUM(n) FROM t.base')" != "$before" ] || die "round $round: the load changed nothing"
  wanted=$(sums)
  # A transaction that is never committed must be gone afterwards, whoever rolls it back.
  { echo "BEGIN; UPDATE t.base SET n = -1; SELECT SLEEP(60);"; } | chroot "$root" mysql --no-defaults --user=root --socket="$here/sock" >/dev/null 2>&1 &
  open=$!
  for _ in $(seq 300); do
    n=$(sql "SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_rows_modified > 1000")
    [ "$n" = 0 ] || break
    sleep 0.1
  done
  [ "$n" != 0 ] || die "round $round: there is no open transaction on $who"
  if [ $((round / 2 % 2)) -eq 0 ]; then
    kill -KILL "$server"
    wait "$server" 2>/dev/null || true
    killed=$((killed + 1))
  else
    kill "$server"
    wait "$server" || die "round $round: $who did not end cleanly"
  fi
  server=
  kill "$open" 2>/dev/null || true
  wait "$open" 2>/dev/null || true
  check_log
  [ "$who" = stock ] || ours=$((ours + 1))
done
round=end
for who in stock ours; do
  start "$who"
  await
  [ "$(sums)" = "$wanted" ] || die "$who finds other checksums at the end"
  for table in $(tables | tr , ' '); do
    sql "CHECK TABLE $table EXTENDED" | grep -q 'status	OK' || die "$who: CHECK TABLE $table: $(sql "CHECK TABLE $table")"
  done
  kill "$server"
  wait "$server" || die "$who did not end cleanly"
  server=
  check_log
done
echo "swap: passed: $rounds turns, $ours of this build, $killed ended by a kill; $(wc -l <<<"$wanted") tables with the same checksums; $(grep -cE '\[(Warning|ERROR)\]' "$work/all.log" || true) explained warnings"
