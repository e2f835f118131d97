#!/usr/bin/env bash
# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
# The packages in Debian roots, as root: on a machine without a database, over a stock installation with
# data, and back.
#
#   extra/package_test.sh PACKAGES ROOT MIRROR [oracle|installation]
#
# With `oracle` only the part about the layout of MySQL's own packages (Oracle's apt repository) is run; with
# `installation` only that on Debian 12 without MySQL, of packages around the developers' build, which has no X plugin.
#
# PACKAGES holds the .deb files, MIRROR is the archive. ROOT is made, a minbase root of sid (debootstrap), and a root
# of Debian 12 beside it. No systemd runs in a root: extra/fake_systemctl.sh starts and stops the
# server as its unit says, when the scripts of the packages ask for it. The packages are made on Debian 12,
# stock MySQL exists in sid only: the root of sid has both releases, and apt takes from Debian 12 what the
# packages need.
set -euo pipefail

packages=$1 sid=$2 mirror=$3 only=${4:-}
bookworm=$sid.bookworm
here=$(dirname "$(realpath "$0")")

die() {
  echo "package test: FAILED: $*" >&2
  exit 1
}
say() { echo "package test: $*"; }
# exec where the process id matters: everything up to the program is replaced by it.
root_env=(/usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive)
inside() { chroot "$root" "${root_env[@]}" "$@"; }
as_mysql() { inside setpriv --reuid=mysql --regid=mysql --init-groups "$@"; }
# What apt does may not wait for ever: a script of a package may start a server and wait for its end.
apt() { timeout --kill-after=10 300 chroot "$root" "${root_env[@]}" apt-get --quiet=2 --yes --no-install-recommends -o DPkg::Use-Pty=0 -o Dpkg::Options::=--force-confold "$@" >>"$tmp/apt.log" 2>&1; }
must() { apt "$@" || { tail -n 30 "$tmp/apt.log" >&2; die "apt-get $*"; }; }
sql() { inside mysql --no-defaults --user=root --socket=/run/mysqld/mysqld.sock --batch --skip-column-names --execute "$1"; }

# leave ROOT: end what runs there, and unmount.
leave() {
  ! server_is_running "$1" || kill -KILL "$(cat "$1/run/fake-systemctl.pid")" || true
  umount "$1/var/lib/mysql" 2>/dev/null || true
  umount "$1/proc" 2>/dev/null || true
}
clean_up() {
  [ -z "${listener:-}" ] || kill "$listener" 2>/dev/null || true
  leave "$sid"
  leave "$bookworm"
  rm -rf "$bookworm"
}
server_is_running() { [ -e "$1/run/fake-systemctl.pid" ] && readlink "/proc/$(cat "$1/run/fake-systemctl.pid")/exe" >/dev/null; }
listener=
trap clean_up EXIT

# use ROOT RELEASE...: work in that root from now on, with the archive's releases.
use() {
  root=$1 tmp=$1/tmp
  shift
  [ -d "$root/packages" ] && return
  # The tools bring services, which would go on after the test.
  printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
  chmod 755 "$root/usr/sbin/policy-rc.d"
  for release; do printf 'deb %s %s main\n' "$mirror" "$release"; done >"$root/etc/apt/sources.list"
  [ $# -eq 1 ] || printf 'Package: *\nPin: release n=%s\nPin-Priority: 100\n' "$2" >"$root/etc/apt/preferences.d/$2"
  apt-config dump | grep '^Acquire::.*\(Check-\|Proxy\)' >"$root/etc/apt/apt.conf.d/90machine" || true
  mount -t proc proc "$root/proc"
  mkdir -p "$root/packages" "$root/next"
  cp "$packages"/redstart-*.deb "$root/packages/"
  rm -f "$root"/packages/*-dbgsym_*
  mapfile -t ours < <(cd "$root" && find packages -name '*.deb' -printf '/%p\n' | sort)
  must update
  # Tools of the test. systemd is there for systemd-analyze.
  must install apparmor iproute2 logrotate systemd
  mv "$root/usr/bin/systemctl" "$root/usr/bin/systemctl.distrib"
  install -m 755 "$here/fake_systemctl.sh" "$root/usr/bin/systemctl"
  # From now on the scripts of packages see a running systemd, and may start services.
  printf '#!/bin/sh\nexit 0\n' >"$root/usr/sbin/policy-rc.d"
  mkdir -p "$root/run/systemd/system"
}

start() {
  inside systemctl start mysql.service && return
  tail -n 20 "$tmp/mysqld.log" "$root/var/log/mysql/error.log" >&2 || true
  die "the server of $(inside mysqld --version) did not start"
}
stop() {
  inside systemctl stop mysql.service
  tail -n 5 "$root/var/log/mysql/error.log" | grep -q 'Shutdown complete' || die "the server did not end cleanly"
}
kill_server() { inside systemctl kill --signal=KILL mysql.service; }
server_pid() { cat "$root/run/fake-systemctl.pid"; }
expect_running() {
  server_is_running "$root" && return
  tail -n 15 "$tmp/apt.log" "$tmp/systemctl.log" "$tmp/mysqld.log" "$root/var/log/mysql/error.log" >&2 || true
  die "no server runs after $1"
}
state() { sql 'CHECKSUM TABLE t.a, t.b; SELECT COUNT(*) FROM t.a; SELECT COUNT(*) FROM t.b'; }
expect_data() { [ "$(state)" = "$wanted" ] || die "the data differs after $1: $(state) instead of $wanted"; }
expect_server() { case "$(sql 'SELECT VERSION()')" in *"$1"*) ;; *) die "not $1 is running but $(sql 'SELECT VERSION()')" ;; esac; }
# expect_value EXPRESSION VALUE: what the running server has.
expect_value() { [ "$(sql "SELECT $1")" = "$2" ] || die "$1 is $(sql "SELECT $1"), not $2"; }
expect_plugin() { expect_value "(SELECT PLUGIN_STATUS FROM information_schema.PLUGINS WHERE PLUGIN_NAME = '$1')" "$2"; }
# shellcheck disable=SC2016  # dpkg-query's variables
installed() { [ "$(inside dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }
# Bytes, owners and modes of everything in the data directory, to see that a refusal touched nothing.
fingerprint() { (cd "$root/var/lib/mysql" && find . -printf '%p %u %m %s %T@\n' | sort && find . -type f -print0 | sort -z | xargs -0 cat | sha256sum) | sha256sum; }
# The same for files alone: the server makes and removes a file when it looks at its configuration.
fingerprint_of_files() { (cd "$root/var/lib/mysql" && find . -type f -printf '%p %u %m %s %T@\n' | sort) | sha256sum; }
# Names of all files, with those aside that each start makes anew.
state_files() { (cd "$root/var/lib/mysql" && find . -type f ! -path './#innodb_*' ! -name 'binlog*' ! -name '*.pid' ! -name 'ibtmp*' | sort); }
accounts() { sql "SHOW CREATE USER root@localhost; SHOW CREATE USER 'debian-sys-maint'@localhost; SHOW GRANTS FOR 'debian-sys-maint'@localhost"; }
purge_ours() { must purge redstart-server redstart-server-core redstart-client-core; }

# A machine without a database: the server runs, and root of the system is root of the database.
fresh() {
  say "$1: a machine without a database"
  must install "${ours[@]}"
  expect_running "the installation"
  expect_server redstart
  expect_value 'CURRENT_USER()' root@localhost
  expect_value '@@bind_address' 127.0.0.1
  if [ "$only" != installation ]; then
    expect_plugin mysqlx ACTIVE
    expect_value '@@mysqlx_port, @@mysqlx_socket, @@mysqlx_bind_address' '33060	/var/run/mysqld/mysqlx.sock	127.0.0.1'
    [ -n "$(ss -Hltn 'sport = :33060')" ] || die "nobody listens for the X protocol"
  fi
  if as_mysql mysql --no-defaults --user=root --socket=/run/mysqld/mysqld.sock --execute 'SELECT 1' >/dev/null 2>&1; then
    die "another user than root logs in as root"
  fi
  sql "CREATE DATABASE t; CREATE TABLE t.a (id INT PRIMARY KEY) SELECT 1 AS id; CREATE TABLE t.b SELECT 2 AS id"
  wanted=$(state)
}

check_unit() {
  say "$1: the unit, the AppArmor profile"
  local unit=/usr/lib/systemd/system/redstart.service output
  output=$(inside systemd-analyze verify --man=no "$unit" 2>&1) || die "systemd-analyze verify: $output"
  [ -z "$output" ] || die "systemd-analyze verify says: $output"
  inside apparmor_parser --skip-kernel-load --skip-cache --abort-on-error /etc/apparmor.d/usr.sbin.mysqld 2>"$tmp/apparmor.log" ||
    { cat "$tmp/apparmor.log" >&2; die "the AppArmor profile is not valid"; }
  if grep -qw owner "$root/etc/apparmor.d/usr.sbin.mysqld"; then die "the AppArmor profile asks for the owner of files"; fi
}

# check_rotation WHO: logrotate takes all files of /etc/logrotate.d, and the server goes on in a new log. It closes no
# table and begins no binary log.
check_rotation() {
  say "log rotation with the files of $1"
  local before log=/var/log/mysql/error.log
  before=$(sql "SHOW BINARY LOGS" | wc -l; sql "SHOW GLOBAL STATUS LIKE 'Flush_commands'")
  inside logrotate --force --state /tmp/rotated /etc/logrotate.conf >"$tmp/rotate.log" 2>&1 || { cat "$tmp/rotate.log" >&2; die "logrotate fails"; }
  if grep -i error "$tmp/rotate.log"; then die "logrotate finds an error"; fi
  sql 'SELECT 1' >/dev/null
  [ -e "$root$log" ] || die "there is no $log after its rotation"
  for _ in $(seq 50); do
    ! readlink "/proc/$(server_pid)/fd/"* | grep -q "$log$" || break
    sleep 0.1
  done
  readlink "/proc/$(server_pid)/fd/"* | grep -q "$log$" || die "the server does not write to $log"
  [ "$1" != redstart ] || [ "$(sql "SHOW BINARY LOGS" | wc -l; sql "SHOW GLOBAL STATUS LIKE 'Flush_commands'")" = "$before" ] ||
    die "the rotation flushed tables or binary logs"
  rm -f "$root"/var/log/mysql/*.[0-9]* "$tmp/rotated"
}

# The same packages with the next revision, in /next.
next_version() {
  local deb version tree=$root/next/tree
  version=$(dpkg-deb --field "$root${ours[0]}" Version)
  for deb in "${ours[@]}"; do
    dpkg-deb --raw-extract "$root$deb" "$tree"
    sed -i "s/$version/${version%-1}-2/g" "$tree/DEBIAN/control"
    dpkg-deb -Znone --root-owner-group --build "$tree" "$root/next/$(basename "$deb")" >/dev/null
    rm -rf "$tree"
  done
  mapfile -t next < <(cd "$root" && find next -name '*.deb' -printf '/%p\n' | sort)
}

# MySQL's own packages for Debian 12 cannot be had here. oracle_packages makes some with their names, relations, files
# and settings, as packaging/deb-in of MySQL's source has them, of what is in ours; what the scripts do that matters to
# other packages is done here as well. Their server is therefore ours, and so is nothing that this can say of theirs.
oracle_version=9.7.4-1debian12
triplet=$(dpkg-architecture -qDEB_HOST_MULTIARCH)
# oracle NAME [FIELD...]: build the tree /oracle/NAME.
oracle() {
  local name=$1 tree=$root/oracle/$1
  shift
  mkdir -p "$tree/DEBIAN"
  printf '%s\n' "Package: $name" "Version: $oracle_version" "Architecture: $(dpkg --print-architecture)" 'Maintainer: A test <test@example.org>' "$@" \
    'Description: has the layout of the package of MySQL' >"$tree/DEBIAN/control"
  [ ! -d "$tree/etc" ] || (cd "$tree" && find etc -type f -printf '/%p\n') >"$tree/DEBIAN/conffiles"
  dpkg-deb -Znone --root-owner-group --build "$tree" "$root/oracle/$name.deb" >/dev/null
  rm -rf "$tree"
}
# script NAME WHICH: a script of the package, from standard input.
script() {
  mkdir -p "$root/oracle/$1/DEBIAN"
  { printf '#!/bin/sh\nset -e\n'; cat; } >"$root/oracle/$1/DEBIAN/$2"
  chmod 755 "$root/oracle/$1/DEBIAN/$2"
}
# move PACKAGE PATH...: from the files of ours, which are in /oracle/server-core and /oracle/client-core.
move() {
  local path from package=$1
  shift
  for path; do
    from=$root/oracle/server-core/$path
    [ -e "$from" ] || from=$root/oracle/client-core/$path
    mkdir -p "$root/oracle/$package/$(dirname "$path")"
    mv "$from" "$root/oracle/$package/$path"
  done
}
oracle_packages() {
  local deb name share=usr/share/mysql-9.7 v="= $oracle_version"
  local -A needs
  mkdir -p "$root/oracle"
  for name in server-core client-core; do
    deb=$(find "$root/packages" -name "redstart-${name}_*.deb")
    dpkg-deb --extract "$deb" "$root/oracle/$name"
    needs[$name]=$(dpkg-deb --field "$deb" Depends)
  done
  for name in authentication_kerberos_client authentication_oci_client authentication_openid_connect_client \
    authentication_webauthn_client mysql_native_password telemetry_client; do
    move mysql-community-client-plugins "usr/lib/mysql/plugin/$name.so"
  done
  oracle mysql-community-client-plugins "Depends: ${needs[client-core]}"
  move mysql-community-client-core usr/{bin/mysql,share/man/man1/mysql.1.gz} usr/{bin/mysqldump,share/man/man1/mysqldump.1.gz}
  oracle mysql-community-client-core "Depends: ${needs[client-core]}, mysql-community-client-plugins ($v)" \
    'Provides: virtual-mysql-client-core' 'Conflicts: mysql-client-core-8.0'
  for name in mysqladmin mysqlcheck mysqlimport mysqlshow mysqlslap mysql_config_editor mysqldumpslow myisam_ftdump; do
    move mysql-community-client "usr/bin/$name" "usr/share/man/man1/$name.1.gz"
  done
  oracle mysql-community-client "Depends: mysql-common (>= $oracle_version), mysql-community-client-core ($v)" \
    'Provides: virtual-mysql-client' 'Conflicts: mysql-client-8.0, mysql-client-core-8.0, mysql-server-core'
  oracle mysql-client "Depends: mysql-community-client ($v)"
  mkdir -p "$root/oracle/libmysqlclient24/usr/lib/$triplet"
  touch "$root/oracle/libmysqlclient24/usr/lib/$triplet/libmysqlclient.so.24.3.0"
  oracle libmysqlclient24 "Depends: mysql-common (>= $oracle_version), mysql-community-client-plugins ($v)"

  mkdir -p "$root/oracle/mysql-common/etc/mysql/conf.d"
  printf '!includedir /etc/mysql/conf.d/\n' >"$root/oracle/mysql-common/etc/mysql/my.cnf.fallback"
  printf '[mysql]\n' >"$root/oracle/mysql-common/etc/mysql/conf.d/mysql.cnf"
  script mysql-common postinst <<<'update-alternatives --install /etc/mysql/my.cnf my.cnf /etc/mysql/my.cnf.fallback 100'
  script mysql-common postrm <<'SH'
[ "$1" != purge ] || update-alternatives --remove-all my.cnf
SH
  oracle mysql-common 'Multi-Arch: foreign' 'Conflicts: mysql, mysql-server-8.0, mysql-server-core-8.0, mysql-server-core, mysql-client-8.0, mysql-client-core-8.0'

  rm -r "$root/oracle/client-core" "$root"/oracle/server-core/usr/share/{doc,lintian}
  mv "$root/oracle/server-core/usr/share/mysql" "$root/oracle/server-core/$share"
  mv "$root/oracle/server-core" "$root/oracle/mysql-community-server-core"
  oracle mysql-community-server-core "Depends: ${needs[server-core]}" 'Provides: virtual-mysql-server-core' \
    'Conflicts: mysql, mysql-server-core-8.0, mysql-server-core' 'Replaces: mysql-server-core'

  local tree=$root/oracle/mysql-community-server
  mkdir -p "$tree/etc/mysql/mysql.conf.d" "$tree/usr/lib/systemd/system" "$tree/usr/lib/tmpfiles.d" "$tree/$share"
  printf '!includedir /etc/mysql/conf.d/\n!includedir /etc/mysql/mysql.conf.d/\n' >"$tree/etc/mysql/mysql.cnf"
  printf '[mysqld]\npid-file = /var/run/mysqld/mysqld.pid\nsocket = /var/run/mysqld/mysqld.sock\ndatadir = /var/lib/mysql\nlog-error = /var/log/mysql/error.log\n' \
    >"$tree/etc/mysql/mysql.conf.d/mysqld.cnf"
  printf 'd /run/mysqld 0755 mysql mysql -\n' >"$tree/usr/lib/tmpfiles.d/mysql.conf"
  printf '#!/bin/sh\n' >"$tree/$share/mysql-systemd-start"
  chmod 755 "$tree/$share/mysql-systemd-start"
  # The options are for the server, which is ours and looks for these elsewhere.
  printf '%s\n' '[Unit]' 'After=network-online.target' '[Install]' 'WantedBy=multi-user.target' '[Service]' 'User=mysql' 'Group=mysql' \
    'Type=notify' "ExecStartPre=+/$share/mysql-systemd-start pre" \
    "ExecStart=/usr/sbin/mysqld --lc-messages-dir=/$share --character-sets-dir=/$share/charsets" \
    'TimeoutSec=0' 'LimitNOFILE=10000' 'Restart=on-failure' >"$tree/usr/lib/systemd/system/mysql.service"
  script mysql-community-server preinst <<'SH'
getent group mysql >/dev/null || addgroup --system mysql >/dev/null
getent passwd mysql >/dev/null || adduser --ingroup mysql --system --no-create-home --home /var/lib/mysql --shell /bin/false mysql >/dev/null
SH
  script mysql-community-server postinst <<'SH'
[ "$1" = configure ] || exit 0
update-alternatives --force --install /etc/mysql/my.cnf my.cnf /etc/mysql/mysql.cnf 300
[ -d /var/lib/mysql ] || install -d -m 750 -o mysql -g mysql /var/lib/mysql
[ -d /var/lib/mysql-files ] || install -d -m 770 -o mysql -g mysql /var/lib/mysql-files
[ -d /var/lib/mysql-keyring ] || install -d -m 750 -o mysql -g mysql /var/lib/mysql-keyring
[ -d /var/log/mysql ] || install -d -m 750 -o mysql -g adm /var/log/mysql
if [ -z "$(ls -A /var/lib/mysql)" ]; then
  mysqld --lc-messages-dir=/usr/share/mysql-9.7 --character-sets-dir=/usr/share/mysql-9.7/charsets --initialize-insecure --user=mysql
fi
deb-systemd-helper enable mysql.service >/dev/null
deb-systemd-invoke start mysql.service
SH
  script mysql-community-server prerm <<'SH'
[ "$1" != remove ] || deb-systemd-invoke stop mysql.service
SH
  # Purging waits for the end of every server, and fails if one goes on. Whether to remove the data is asked; no is default.
  script mysql-community-server postrm <<'SH'
case $1 in
  remove) update-alternatives --remove my.cnf /etc/mysql/mysql.cnf ;;
  purge)
    for program in /proc/[0-9]*/exe; do [ ! "$program" -ef /usr/sbin/mysqld ] || exit 1; done
    deb-systemd-helper purge mysql.service >/dev/null || true
    ;;
esac
SH
  oracle mysql-community-server 'Pre-Depends: adduser' \
    "Depends: mysql-common (>= $oracle_version), mysql-client ($v), mysql-community-server-core ($v), perl, psmisc" \
    'Conflicts: mysql' 'Provides: virtual-mysql-server'
  oracle mysql-server "Depends: mysql-community-server ($v)"
  mapfile -t theirs < <(cd "$root" && find oracle -name '*.deb' -printf '/%p\n' | sort)
}
# In a root of Debian 12 without a server and without data.
oracle_layout() {
  say "the layout of MySQL's own packages on Debian 12, with data of a killed server"
  local name
  oracle_packages
  must install "${theirs[@]}"
  expect_running "the installation of the other packages"
  sql "CREATE DATABASE t; CREATE TABLE t.a (id INT PRIMARY KEY) SELECT 1 AS id; CREATE TABLE t.b SELECT 2 AS id"
  wanted=$(state)
  expect_value '@@bind_address' '*'
  printf '[mysqld]\nmax_connections = 77\n' >"$root/etc/mysql/mysql.conf.d/zz.cnf"
  kill_server
  must install "${ours[@]}"
  for name in mysql-server mysql-community-server mysql-community-server-core mysql-client mysql-community-client mysql-community-client-core mysql-community-client-plugins; do
    ! installed "$name" || die "$name is still installed"
  done
  # What is linked with the client library goes on: the plugins that it needs are here.
  for name in mysql-common libmysqlclient24; do installed "$name" || die "$name is gone"; done
  [ "$(inside readlink -f /etc/mysql/my.cnf)" = /etc/mysql/redstart.cnf ] || die "my.cnf is $(inside readlink -f /etc/mysql/my.cnf)"
  expect_running "the packages took over"
  expect_data "the packages took over"
  # Clients on other machines still reach it.
  expect_value '@@bind_address, @@max_connections, @@GLOBAL.datadir, @@log_error' '*	77	/var/lib/mysql/	/var/log/mysql/error.log'
  [ "$(inside stat -c '%U:%G %a' /var/lib/mysql /var/lib/mysql-files /var/log/mysql | xargs)" = 'mysql:mysql 750 mysql:mysql 770 mysql:adm 750' ] ||
    die "owners or modes changed: $(inside stat -c '%U:%G %a' /var/lib/mysql /var/lib/mysql-files /var/log/mysql | xargs)"
  [ "$(inside systemctl.distrib --root=/ is-enabled redstart.service)" = enabled ] || die "the service is not enabled"

  say "back to these packages, and to ours again; the others are purged, once the server was stopped"
  must install "${theirs[@]}"
  ! installed redstart-server-core || die "redstart-server-core is still installed"
  [ -e "$root/usr/lib/mysql/plugin/mysql_native_password.so" ] || die "the client's plugins were lost on the way back"
  # In ours it is a file of the server's package, which may not conflict with what the client's package provides.
  must install --reinstall /oracle/mysql-community-client-plugins.deb
  [ -e "$root/usr/lib/mysql/plugin/telemetry_client.so" ] || die "docs/packages.md: telemetry_client.so does not come back"
  for name in "${theirs[@]}"; do
    name=${name##*/}
    inside dpkg --verify "${name%.deb}" >"$tmp/verify.log" || true
    if grep missing "$tmp/verify.log"; then die "files of ${name%.deb} are missing on the way back"; fi
  done
  expect_running "the way back"
  expect_data "the way back"
  must install "${ours[@]}"
  expect_running "the second way"
  if apt purge mysql-community-server; then die "purging no longer needs a stop: docs/packages.md"; fi
  # The settings that went have pulled a trigger, which starts the server: at once, not in the next purge.
  inside dpkg --configure -a >>"$tmp/apt.log" 2>&1
  inside systemctl stop redstart.service
  must purge mysql-community-server
  inside systemctl start redstart.service
  expect_data "the purge of the other packages"
  expect_value '@@bind_address, @@max_connections' '*	77'
  inside systemctl stop redstart.service
  purge_ours
  # The first went with the plugins that it needs, unless apt keeps it.
  inside dpkg --purge libmysqlclient24 mysql-common >>"$tmp/apt.log" 2>&1
  rm -rf "$root"/var/lib/mysql "$root"/var/lib/mysql-*
}

# new_root RELEASE FOLDER
new_root() {
  say "making a root of $1"
  debootstrap --variant=minbase "$1" "$2" "$mirror" >"$2.log" 2>&1 || { tail -n 5 "$2.log" >&2; die "debootstrap"; }
  rm -f "$2.log"
}
new_root bookworm "$bookworm"
use "$bookworm" bookworm
[ "$only" = installation ] || oracle_layout
[ "$only" != oracle ] || { say "passed"; exit; }
fresh "Debian 12"
check_unit "Debian 12"
check_rotation redstart

say "many tables: the limit of open files is the server's to raise"
expect_value '@@open_files_limit' 10000
example=$here/../docs/examples/many-tables.cnf
wanted_files=$(sed -n 's/^open_files_limit *= *//p' "$example")
[ "$(sed -n 's/^LimitNOFILE=.*://p' "$root/usr/lib/systemd/system/redstart.service")" -ge "$wanted_files" ] || die "the unit allows fewer than $wanted_files open files"
without=
# Where root may not raise the limit so far, as far as it may, and without the caches that need more.
prlimit --nofile=10000:1048576 true 2>/dev/null || { wanted_files=$(ulimit -Hn) without=table_; say "only $wanted_files open files are asked for here"; }
[ "$wanted_files" -gt 10000 ] || die "$wanted_files open files are too few for this test"
sed -e "s/^open_files_limit .*/open_files_limit = $wanted_files/" -e "/^${without:-#}/d" "$example" >"$root/etc/mysql/redstart.conf.d/many-tables.cnf"
inside systemctl restart redstart.service
expect_value '@@open_files_limit' "$wanted_files"
rm "$root/etc/mysql/redstart.conf.d/many-tables.cnf"

say "an upgrade restarts the server, and a server that could not start again stays"
next_version
if apt install --no-remove "$(printf '%s\n' "${next[@]}" | grep server-core)"; then
  die "one package alone goes to another version: the server would not be restarted"
fi
before=$(server_pid)
printf '[mysqld]\ninnodb_no_such_setting = 1\n' >"$root/etc/mysql/redstart.conf.d/wrong.cnf"
if apt install "${next[@]}"; then die "the upgrade took a wrong setting"; fi
[ "$(server_pid)" = "$before" ] || die "the refused upgrade ended the server"
expect_running "the refused upgrade"
rm "$root/etc/mysql/redstart.conf.d/wrong.cnf"
inside dpkg --configure -a >>"$tmp/apt.log" 2>&1 || die "dpkg --configure does not go on after the setting was corrected"
[ "$(server_pid)" != "$before" ] || die "the upgrade did not restart the server"
expect_running "the upgrade"
expect_data "the upgrade"
purge_ours
[ -e "$root/var/lib/mysql/mysql.ibd" ] || die "purging removed the data"
leave "$bookworm"
[ "$only" != installation ] || { say "passed"; exit; }

new_root sid "$sid"
use "$sid" sid bookworm
fresh sid
check_unit sid
our_accounts=$(accounts)

say "to stock with a database that these packages made, and back"
must install mysql-server
expect_running "the installation of stock"
case "$(sql 'SELECT VERSION()')" in *redstart*) die "stock does not run" ;; esac
expect_data "the way to stock"
must install "${ours[@]}"
expect_running "the way back"
expect_server redstart
expect_data "the way back"
inside systemctl stop redstart.service
purge_ours
must purge mysql-server mysql-server-core mysql-client mysql-client-core
rm -rf "$root/var/lib/mysql" "$root/var/lib/mysql-files"

say "stock with data"
must install mysql-server
start
expect_server 9.7.
addresses=$(sql 'SELECT @@bind_address')
[ "$(accounts)" = "$our_accounts" ] || die "the accounts of a new database are not Debian's: $our_accounts instead of $(accounts)"
for key in Type User Group RuntimeDirectory RuntimeDirectoryMode TimeoutSec Restart Environment; do
  [ "$(grep "^$key=" "$here/../packaging/debian/redstart-server.redstart.service" | sed 's/Mode=0/Mode=/')" = "$(grep "^$key=" "$root/usr/lib/systemd/system/mysql.service")" ] ||
    die "the unit has another $key than Debian's"
done
sql "CREATE DATABASE t; CREATE TABLE t.a (id INT AUTO_INCREMENT PRIMARY KEY, s VARCHAR(200), KEY (s)) SELECT NULL AS id, HEX(RANDOM_BYTES(50)) AS s FROM information_schema.columns;
     CREATE TABLE t.b (id INT PRIMARY KEY, p LONGBLOB) ROW_FORMAT=COMPRESSED; INSERT INTO t.b SELECT id, RANDOM_BYTES(1000) FROM t.a LIMIT 500;"
wanted=$(state)
[ "$(sql 'SELECT COUNT(*) > 1000 FROM t.a')" = 1 ] || die "the test made no data"
# Settings in every place, the X plugin in every spelling, and a file that is not for everybody.
printf '\n[mysqld]\nmax_connections = 77\n' >>"$root/etc/mysql/mysql.cnf"
printf '[mysqld]\nmax_connect_errors = 78\n' >"$root/etc/mysql/conf.d/own.cnf"
printf '[mysqld]\nthread_cache_size = 79\n skip-mysqlx\nskip_mysqlx\ndisable-mysqlx\nmysqlx=OFF\nmysqlx_port = 33070\nloose_mysqlx_port = 33070\n' >"$root/etc/mysql/mysql.conf.d/zz.cnf"
printf '[mysqld]\nreport_password = secret\n' >"$root/etc/mysql/mysql.conf.d/secret.cnf"
chmod 600 "$root/etc/mysql/mysql.conf.d/secret.cnf"
inside chown mysql:adm /etc/mysql/mysql.conf.d/secret.cnf
expect_settings() {
  expect_value '@@max_connections, @@max_connect_errors, @@thread_cache_size, @@max_binlog_size' "$1"
}

say "apt puts redstart-server in the place of mysql-server, while the data was left by a killed server"
kill_server
must install "${ours[@]}"
for package in mysql-server mysql-server-core mysql-client mysql-client-core; do
  ! installed "$package" || die "$package is still installed"
done
[ "$(inside readlink -f /etc/mysql/my.cnf)" = /etc/mysql/redstart.cnf ] || die "my.cnf is $(inside readlink -f /etc/mysql/my.cnf)"
[ "$(stat -c %a "$root/var/lib/mysql")" = 700 ] || die "the data directory has mode $(stat -c %a "$root/var/lib/mysql")"
[ "$(inside stat -c %U:%G /var/lib/mysql)" = mysql:mysql ] || die "the data directory belongs to $(inside stat -c %U:%G /var/lib/mysql)"
expect_running "the packages took over"
expect_server redstart
expect_data "the packages took over"
[ "$(sql 'SELECT @@bind_address')" = "$addresses" ] || die "the server listens on other addresses than stock: $addresses"
[ "$(sql "SELECT @@GLOBAL.datadir, @@plugin_dir, @@secure_file_priv")" = "/var/lib/mysql/	/usr/lib/mysql/plugin/	/var/lib/mysql-files/" ] || die "paths are not Debian's: $(sql 'SELECT @@GLOBAL.datadir, @@plugin_dir, @@secure_file_priv')"
for plugin in clone:mysql_clone group_replication:group_replication rpl_semi_sync_source:semisync_source rpl_semi_sync_replica:semisync_replica; do
  sql "INSTALL PLUGIN ${plugin%:*} SONAME '${plugin#*:}.so'; UNINSTALL PLUGIN ${plugin%:*}" || die "plugin $plugin does not load"
done
# Replicas and clients of older servers. A client that cannot open its plugin goes on without a word.
inside env LD_DEBUG=files mysql --no-defaults --user=root --default-auth=mysql_native_password --execute 'SELECT 1' >"$tmp/client.log" 2>&1 ||
  die "a client with the plugin mysql_native_password does not log in"
grep -q 'calling init: .*/mysql_native_password\.so' "$tmp/client.log" || die "the client plugin mysql_native_password does not load"
for script in install_rewriter uninstall_rewriter; do
  inside mysql --no-defaults --user=root <"$root/usr/share/mysql/$script.sql" || die "$script.sql fails"
done
inside mysqlrepair --no-defaults --user=root --databases t >/dev/null || die "mysqlrepair fails"
# Its help ends with 1, as stock's.
[[ "$(inside mysqld_safe --help || true)" = "Usage: "* ]] || die "mysqld_safe does not run"
inside mysqld_multi --version >/dev/null || die "mysqld_multi does not run"
# All the spellings above turn it off, as in stock.
expect_plugin mysqlx DISABLED
sql "INSERT INTO t.a (s) SELECT s FROM t.a LIMIT 100; ALTER TABLE t.b ADD COLUMN c INT DEFAULT 7"
wanted=$(state)

say "the settings are stock's: those before, those changed later, and after mysql-server is purged"
expect_settings '77	78	79	104857600'
[ "$(find "$root/etc/mysql/redstart.from-mysql" -name secret.cnf -printf '%m %u %g')" = "$(find "$root/etc/mysql/mysql.conf.d" -name secret.cnf -printf '%m %u %g')" ] ||
  die "the copy of a file with a password can be read by others"
sed -i s/79/80/ "$root/etc/mysql/mysql.conf.d/zz.cnf"
inside systemctl restart redstart.service
expect_settings '77	78	80	104857600'
rm "$root/etc/mysql/mysql.conf.d/secret.cnf"
inside systemctl restart redstart.service
expect_value '@@report_password IS NULL OR 1' 1
[ ! -e "$root/etc/mysql/redstart.from-mysql/mysql.conf.d/secret.cnf" ] || die "a setting that was taken away stays"
check_rotation redstart
must purge mysql-server
expect_running "the purge of mysql-server"
expect_settings '77	78	80	104857600'
expect_data "the purge of mysql-server"
[ -s "$root/var/log/mysql/error.log" ] || die "there is no error log after the purge of mysql-server"
kill_server

say "purge; the data stays"
purge_ours
[ -e "$root/var/lib/mysql/mysql.ibd" ] || die "purging removed the data"
# shellcheck disable=SC2016
left=$(inside dpkg-query -W -f '${Package} ${db:Status-Status}\n' 'redstart-*' 2>/dev/null | grep -v not-installed || true)
[ -z "$left" ] || die "left after purge: $left"
for name in redstart.cnf redstart.from-mysql redstart.conf.d; do
  [ ! -e "$root/etc/mysql/$name" ] || die "$name is left after purge"
done

say "stock again"
rm -f "$root/etc/mysql/mysql.conf.d/zz.cnf" "$root/etc/mysql/conf.d/own.cnf"
must install mysql-server
start
case "$(sql 'SELECT VERSION()')" in *redstart*) die "stock is not back" ;; esac
expect_data "stock came back"
stop

say "apt swaps the other way too, without a purge between"
must install "${ours[@]}"
must install mysql-server
! installed redstart-server-core || die "redstart-server-core is still installed"
start
expect_data "the swap by apt"
check_rotation stock
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
expect_running "the refusals"
expect_server redstart
expect_data "the refusals"
stop

say "the same in another data directory"
purge_ours
mv "$root/var/lib/mysql" "$root/srv/data"
printf '\n[mysqld]\ndatadir = /srv/data\n' >>"$root/etc/mysql/mysql.cnf"
dd if="$tmp/8.0.38" of="$root/srv/data/mysql.ibd" bs=1 seek=8 conv=notrunc status=none
if apt install "${ours[@]}"; then die "the packages took data of MySQL 8.0 in another directory"; fi
grep -q '/srv/data was written by MySQL 8\.' "$tmp/apt.log" || die "no clear message about MySQL 8.0 data in another directory"
cp -a "$tmp/mysql.ibd" "$root/srv/data/mysql.ibd"
inside dpkg --configure -a >>"$tmp/apt.log" 2>&1 || die "dpkg --configure does not go on in another directory"
expect_running "the installation over another data directory"
expect_value '@@GLOBAL.datadir' /srv/data/
expect_data "the installation over another data directory"
[ ! -e "$root/var/lib/mysql" ] || die "a data directory was made that nobody asked for"
stop
sed -i '/^datadir/d' "$root/etc/mysql/mysql.cnf"
mv "$root/srv/data" "$root/var/lib/mysql"

say "a port that is taken"
before=$(state_files)
python3 -c 'import socket, sys, time
s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen(); print(s.getsockname()[1], flush=True); time.sleep(600)' >"$tmp/port" &
listener=$!
for _ in $(seq 100); do [ ! -s "$tmp/port" ] || break; sleep 0.1; done
inside /usr/share/redstart-server/prepare
: >"$root/var/log/mysql/error.log"
if as_mysql mysqld --port="$(cat "$tmp/port")" >>"$tmp/mysqld.log" 2>&1; then die "a server started on a port that is taken"; fi
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
stop

say "a file system without room for a new database"
purge_ours
mount -t tmpfs -o size=50m,mode=700 tmpfs "$root/var/lib/mysql"
inside chown mysql:mysql /var/lib/mysql
if apt install "${ours[@]}"; then die "the packages made a database in 50 MB"; fi
grep -q 'a new database needs' "$tmp/apt.log" || die "no clear message about the room"
[ -z "$(ls -A "$root/var/lib/mysql")" ] || die "something was left in the full file system"
umount "$root/var/lib/mysql"
inside dpkg --configure -a >>"$tmp/apt.log" 2>&1 || die "dpkg --configure does not go on after there was room"
expect_running "the full file system"
expect_server redstart
expect_data "the full file system"
stop

say "passed"
