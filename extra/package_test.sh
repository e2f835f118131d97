#!/usr/bin/env bash
# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
# The packages in a Debian root, as root: over a stock installation with data, and back.
#
#   extra/package_test.sh PACKAGES ROOT MIRROR
#
# PACKAGES holds the .deb files, ROOT is a new minbase root of sid (debootstrap), MIRROR the archive.
# Nothing starts services in a root without systemd (policy-rc.d says no); the server is started by
# hand, as its unit does. The packages are made on Debian 12, stock MySQL exists in sid only: the root
# has both releases, and apt takes from Debian 12 what the packages need.
set -euo pipefail

packages=$1 root=$2 mirror=$3
tmp=$root/tmp

die() {
  echo "package test: FAILED: $*" >&2
  exit 1
}
say() { echo "package test: $*"; }
# exec where the process id matters: everything up to the program is replaced by it.
root_env=(/usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive)
inside() { chroot "$root" "${root_env[@]}" "$@"; }
apt() { inside apt-get --quiet=2 --yes --no-install-recommends -o DPkg::Use-Pty=0 "$@" >>"$tmp/apt.log" 2>&1; }
sql() { inside mysql --no-defaults --user=root --socket=/run/mysqld/mysqld.sock --batch --skip-column-names --execute "$1"; }

clean_up() {
  [ -z "${server:-}" ] || kill -KILL "$server" 2>/dev/null || true
  [ -z "${listener:-}" ] || kill "$listener" 2>/dev/null || true
  umount "$root/var/lib/mysql" 2>/dev/null || true
  umount "$root/proc" 2>/dev/null || true
}
trap clean_up EXIT

start() {
  mkdir -p "$root/run/mysqld"
  inside chown mysql:mysql /run/mysqld
  (exec chroot "$root" "${root_env[@]}" setpriv --reuid=mysql --regid=mysql --init-groups mysqld) >>"$tmp/mysqld.log" 2>&1 &
  server=$!
  for _ in $(seq 600); do
    sql 'SELECT 1' >/dev/null 2>&1 && return
    kill -0 "$server" 2>/dev/null || break
    sleep 0.1
  done
  tail -n 20 "$tmp/mysqld.log" "$root/var/log/mysql/error.log" >&2 || true
  die "the server of $(inside mysqld --version) did not start"
}
stop() {
  kill "$server"
  wait "$server" || die "the server ended with $?"
  server=
}
kill_server() {
  kill -KILL "$server"
  wait "$server" 2>/dev/null || true
  server=
}
state() { sql 'CHECKSUM TABLE t.a, t.b; SELECT COUNT(*) FROM t.a; SELECT COUNT(*) FROM t.b'; }
expect_data() { [ "$(state)" = "$wanted" ] || die "the data differs after $1: $(state) instead of $wanted"; }
expect_server() { case "$(sql 'SELECT VERSION()')" in *"$1"*) ;; *) die "not $1 is running but $(sql 'SELECT VERSION()')" ;; esac; }
# shellcheck disable=SC2016  # dpkg-query's variables
installed() { [ "$(inside dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }
# Bytes, owners and modes of everything in the data directory, to see that a refusal touched nothing.
fingerprint() { (cd "$root/var/lib/mysql" && find . -printf '%p %u %m %s %T@\n' | sort && find . -type f -print0 | sort -z | xargs -0 cat | sha256sum) | sha256sum; }
# The same for files alone: the server makes and removes a file when it looks at its configuration.
fingerprint_of_files() { (cd "$root/var/lib/mysql" && find . -type f -printf '%p %u %m %s %T@\n' | sort) | sha256sum; }
# Names of all files, with those aside that each start makes anew.
state_files() { (cd "$root/var/lib/mysql" && find . -type f ! -path './#innodb_*' ! -name 'binlog*' ! -name '*.pid' ! -name 'ibtmp*' | sort); }

printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
chmod 755 "$root/usr/sbin/policy-rc.d"
printf 'deb %s sid main\ndeb %s bookworm main\n' "$mirror" "$mirror" >"$root/etc/apt/sources.list"
printf 'Package: *\nPin: release n=bookworm\nPin-Priority: 100\n' >"$root/etc/apt/preferences.d/bookworm"
apt-config dump | grep '^Acquire::.*\(Check-\|Proxy\)' >"$root/etc/apt/apt.conf.d/90machine" || true
mount -t proc proc "$root/proc"
mkdir -p "$root/packages"
cp "$packages"/redstart-*.deb "$root/packages/"
rm -f "$root"/packages/*-dbgsym_*
apt update || { tail -n 5 "$tmp/apt.log" >&2; die "apt-get update failed"; }
mapfile -t ours < <(find "$root/packages" -name '*.deb' -printf '/packages/%f\n' | sort)

say "stock with data"
apt install mysql-server || { tail -n 20 "$tmp/apt.log" >&2; die "stock mysql-server does not install"; }
start
expect_server 9.7.
sql "CREATE DATABASE t; CREATE TABLE t.a (id INT AUTO_INCREMENT PRIMARY KEY, s VARCHAR(200), KEY (s)) SELECT NULL AS id, HEX(RANDOM_BYTES(50)) AS s FROM information_schema.columns;
     CREATE TABLE t.b (id INT PRIMARY KEY, p LONGBLOB) ROW_FORMAT=COMPRESSED; INSERT INTO t.b SELECT id, RANDOM_BYTES(1000) FROM t.a LIMIT 500;"
wanted=$(state)
[ "$(sql 'SELECT COUNT(*) > 1000 FROM t.a')" = 1 ] || die "the test made no data"

say "apt puts redstart-server in the place of mysql-server, while the data was left by a killed server"
kill_server
apt install "${ours[@]}" || { tail -n 30 "$tmp/apt.log" >&2; die "the packages do not install over stock"; }
for package in mysql-server mysql-server-core mysql-client-core; do
  ! installed "$package" || die "$package is still installed"
done
[ "$(inside readlink -f /etc/mysql/my.cnf)" = /etc/mysql/redstart.cnf ] || die "my.cnf is $(inside readlink -f /etc/mysql/my.cnf)"
[ "$(stat -c %a "$root/var/lib/mysql")" = 700 ] || die "the data directory has mode $(stat -c %a "$root/var/lib/mysql")"
[ "$(inside stat -c %U:%G /var/lib/mysql)" = mysql:mysql ] || die "the data directory belongs to $(inside stat -c %U:%G /var/lib/mysql)"
start
expect_server redstart
expect_data "the packages took over"
[ "$(sql "SELECT @@GLOBAL.datadir, @@plugin_dir, @@secure_file_priv")" = "/var/lib/mysql/	/usr/lib/mysql/plugin/	/var/lib/mysql-files/" ] || die "paths are not Debian's: $(sql 'SELECT @@GLOBAL.datadir, @@plugin_dir, @@secure_file_priv')"
for plugin in clone:mysql_clone group_replication:group_replication rpl_semi_sync_source:semisync_source rpl_semi_sync_replica:semisync_replica; do
  sql "INSTALL PLUGIN ${plugin%:*} SONAME '${plugin#*:}.so'; UNINSTALL PLUGIN ${plugin%:*}" || die "plugin $plugin does not load"
done
sql "INSERT INTO t.a (s) SELECT s FROM t.a LIMIT 100; ALTER TABLE t.b ADD COLUMN c INT DEFAULT 7"
wanted=$(state)
kill_server

say "purge; the data stays"
apt purge redstart-server redstart-server-core redstart-client-core || { tail -n 20 "$tmp/apt.log" >&2; die "purge failed"; }
[ -e "$root/var/lib/mysql/mysql.ibd" ] || die "purging removed the data"
# shellcheck disable=SC2016
left=$(inside dpkg-query -W -f '${Package} ${db:Status-Status}\n' 'redstart-*' 2>/dev/null | grep -v not-installed || true)
[ -z "$left" ] || die "left after purge: $left"
[ ! -e "$root/etc/mysql/redstart.cnf" ] || die "redstart.cnf is left after purge"

say "stock again"
apt install mysql-server || { tail -n 20 "$tmp/apt.log" >&2; die "stock does not install again"; }
start
case "$(sql 'SELECT VERSION()')" in *redstart*) die "stock is not back" ;; esac
expect_data "stock came back"
stop

say "apt swaps the other way too, without a purge between"
apt install "${ours[@]}" || die "second installation failed"
apt install mysql-server || die "apt does not put mysql-server in the place of redstart-server"
! installed redstart-server-core || die "redstart-server-core is still installed"
start
expect_data "the swap by apt"
stop

say "refusals: data of another version, wrong owner; the data is not touched"
before=$(fingerprint)
printf '\000\001\070\246' >"$tmp/8.0.38"
cp -a "$root/var/lib/mysql/mysql.ibd" "$tmp/mysql.ibd"
dd if="$tmp/8.0.38" of="$root/var/lib/mysql/mysql.ibd" bs=1 seek=8 conv=notrunc status=none
foreign=$(fingerprint)
if apt install "${ours[@]}"; then die "the packages took data of MySQL 8.0"; fi
grep -q 'was written by MySQL 8\.' "$tmp/apt.log" || die "no clear message about MySQL 8.0 data"
[ "$(fingerprint)" = "$foreign" ] || die "the refusal changed data"
cp -a "$tmp/mysql.ibd" "$root/var/lib/mysql/mysql.ibd"
[ "$(fingerprint)" = "$before" ] || die "the test did not restore its data"
inside dpkg --remove --force-depends redstart-server >>"$tmp/apt.log" 2>&1 || true
inside chown -R root:root /var/lib/mysql
before=$(fingerprint)
if apt install "${ours[@]}"; then die "the packages took data of root"; fi
grep -q 'belongs to root, not to mysql' "$tmp/apt.log" || die "no clear message about the owner"
[ "$(fingerprint)" = "$before" ] || die "the refusal changed data"
inside chown -R mysql:mysql /var/lib/mysql
inside dpkg --configure -a >>"$tmp/apt.log" 2>&1 || die "dpkg --configure does not go on after the owner was corrected"
start
expect_server redstart
expect_data "the refusals"
stop

say "a port that is taken"
before=$(state_files)
python3 -c 'import socket, sys, time
s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen(); print(s.getsockname()[1], flush=True); time.sleep(600)' >"$tmp/port" &
listener=$!
for _ in $(seq 100); do [ ! -s "$tmp/port" ] || break; sleep 0.1; done
: >"$root/var/log/mysql/error.log"
if inside setpriv --reuid=mysql --regid=mysql --init-groups mysqld --port="$(cat "$tmp/port")" >>"$tmp/mysqld.log" 2>&1; then die "a server started on a port that is taken"; fi
grep -q "another mysqld server running on port" "$root/var/log/mysql/error.log" || die "no clear message about the port"
kill "$listener"
listener=
[ "$(state_files)" = "$before" ] || die "files came or went: $(state_files)"
start
expect_data "the port that was taken"
stop

say "a setting that the server does not know, and the way on"
printf '[mysqld]\ninnodb_no_such_setting = 1\n' >"$root/etc/mysql/redstart.conf.d/wrong.cnf"
before=$(fingerprint_of_files)
if apt install --reinstall "${ours[@]}"; then die "the packages took a wrong setting"; fi
grep -q 'does not accept its configuration' "$tmp/apt.log" || die "no clear message about the setting"
[ "$(fingerprint_of_files)" = "$before" ] || die "the refusal changed data"
rm "$root/etc/mysql/redstart.conf.d/wrong.cnf"
inside dpkg --configure -a >>"$tmp/apt.log" 2>&1 || die "dpkg --configure does not go on after the setting was corrected"

say "a file system without room for a new database"
apt purge redstart-server redstart-server-core redstart-client-core || die "purge failed"
mount -t tmpfs -o size=50m,mode=700 tmpfs "$root/var/lib/mysql"
inside chown mysql:mysql /var/lib/mysql
if apt install "${ours[@]}"; then die "the packages made a database in 50 MB"; fi
grep -q 'a new database needs' "$tmp/apt.log" || die "no clear message about the room"
[ -z "$(ls -A "$root/var/lib/mysql")" ] || die "something was left in the full file system"
umount "$root/var/lib/mysql"
inside dpkg --configure -a >>"$tmp/apt.log" 2>&1 || die "dpkg --configure does not go on after there was room"
start
expect_server redstart
expect_data "the full file system"
stop

say "passed"
