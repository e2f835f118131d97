# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Packages with the layout of MySQL's own ones for Debian 12, which cannot be had here.

They have the names, relations, files and settings that packaging/deb-in of MySQL's source has, of what is in ours; what the
scripts do that matters to other packages is done here as well. Their server is therefore ours, and so is nothing that this
can say of theirs.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from dropin.debian import Root, extract, field, make_deb

VERSION = "9.7.4-1debian12"
SAME = f"= {VERSION}"
SHARE = "usr/share/mysql-9.7"
CLIENT_PLUGINS = ("authentication_kerberos_client", "authentication_oci_client", "authentication_openid_connect_client",
                  "authentication_webauthn_client", "mysql_native_password", "telemetry_client")  # fmt: skip
CLIENTS = ("mysqladmin", "mysqlcheck", "mysqlimport", "mysqlshow", "mysqlslap", "mysql_config_editor", "mysqldumpslow",
           "myisam_ftdump")  # fmt: skip

COMMON_POSTINST = "update-alternatives --install /etc/mysql/my.cnf my.cnf /etc/mysql/my.cnf.fallback 100\n"
COMMON_POSTRM = '[ "$1" != purge ] || update-alternatives --remove-all my.cnf\n'
SERVER_PREINST = """\
getent group mysql >/dev/null || addgroup --system mysql >/dev/null
getent passwd mysql >/dev/null ||
  adduser --ingroup mysql --system --no-create-home --home /var/lib/mysql --shell /bin/false mysql >/dev/null
"""
SERVER_POSTINST = """\
[ "$1" = configure ] || exit 0
update-alternatives --force --install /etc/mysql/my.cnf my.cnf /etc/mysql/mysql.cnf 300
[ -d /var/lib/mysql ] || install -d -m 750 -o mysql -g mysql /var/lib/mysql
[ -d /var/lib/mysql-files ] || install -d -m 770 -o mysql -g mysql /var/lib/mysql-files
[ -d /var/lib/mysql-keyring ] || install -d -m 750 -o mysql -g mysql /var/lib/mysql-keyring
[ -d /var/log/mysql ] || install -d -m 750 -o mysql -g adm /var/log/mysql
if [ -z "$(ls -A /var/lib/mysql)" ]; then
  share=/usr/share/mysql-9.7
  mysqld --lc-messages-dir=$share --character-sets-dir=$share/charsets --initialize-insecure --user=mysql
fi
deb-systemd-helper enable mysql.service >/dev/null
deb-systemd-invoke start mysql.service
"""
SERVER_PRERM = '[ "$1" != remove ] || deb-systemd-invoke stop mysql.service\n'
# Purging waits for the end of every server, and fails if one goes on. Whether to remove the data is asked; no is default.
SERVER_POSTRM = """\
case $1 in
  remove) update-alternatives --remove my.cnf /etc/mysql/mysql.cnf ;;
  purge)
    for program in /proc/[0-9]*/exe; do [ ! "$program" -ef /usr/sbin/mysqld ] || exit 1; done
    deb-systemd-helper purge mysql.service >/dev/null || true
    ;;
esac
"""
SERVER_SETTINGS = """\
[mysqld]
pid-file = /var/run/mysqld/mysqld.pid
socket = /var/run/mysqld/mysqld.sock
datadir = /var/lib/mysql
log-error = /var/log/mysql/error.log
"""
# The options are for the server, which is ours and looks for these elsewhere.
UNIT = f"""\
[Unit]
After=network-online.target
[Service]
Type=notify
ExecStartPre=+/{SHARE}/mysql-systemd-start pre
ExecStart=/usr/sbin/mysqld --lc-messages-dir=/{SHARE} --character-sets-dir=/{SHARE}/charsets
Group=mysql
User=mysql
LimitNOFILE=10000
Restart=on-failure
TimeoutSec=0
[Install]
WantedBy=multi-user.target
"""


class _Maker:
    """Makes them in a folder, from our server and client that were unpacked there."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def make(self, name: str, *fields: str) -> None:
        """The package of the tree that has its name."""
        tree = self._folder / name
        architecture = subprocess.run(["dpkg", "--print-architecture"], capture_output=True, text=True, check=True).stdout.strip()
        control = [f"Package: {name}", f"Version: {VERSION}", f"Architecture: {architecture}",
                   "Maintainer: A test <test@example.org>", *fields,
                   "Description: has the layout of the package of MySQL"]  # fmt: skip
        self.write(name, "DEBIAN/control", "".join(f"{line}\n" for line in control))
        settings = sorted(path for path in (tree / "etc").rglob("*") if path.is_file())
        if settings:
            self.write(name, "DEBIAN/conffiles", "".join(f"/{path.relative_to(tree)}\n" for path in settings))
        make_deb(tree, self._folder / f"{name}.deb")

    def write(self, name: str, path: str, text: str, is_program: bool = False) -> None:
        file = self._folder / name / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        if is_program:
            file.chmod(0o755)

    def script(self, name: str, which: str, text: str) -> None:
        self.write(name, f"DEBIAN/{which}", f"#!/bin/sh\nset -e\n{text}", is_program=True)

    def move(self, name: str, *paths: str) -> None:
        """From the files of ours."""
        for path in paths:
            (found,) = (file for tree in ("server-core", "client-core") if (file := self._folder / tree / path).exists())
            target = self._folder / name / path
            target.parent.mkdir(parents=True, exist_ok=True)
            found.rename(target)


def with_manuals(names: tuple[str, ...]) -> list[str]:
    return [path for name in names for path in (f"usr/bin/{name}", f"usr/share/man/man1/{name}.1.gz")]


def make_packages(root: Root) -> list[str]:
    """The packages, as apt in the root is told them."""
    folder = root / "oracle"
    folder.mkdir()
    maker = _Maker(folder)
    needs = {}
    for name in ("server-core", "client-core"):
        (deb,) = (root / "packages").glob(f"redstart-{name}_*.deb")
        extract(deb, folder / name)
        needs[name] = field(deb, "Depends")

    maker.move("mysql-community-client-plugins", *(f"usr/lib/mysql/plugin/{name}.so" for name in CLIENT_PLUGINS))
    maker.make("mysql-community-client-plugins", f"Depends: {needs['client-core']}")
    maker.move("mysql-community-client-core", *with_manuals(("mysql", "mysqldump")))
    maker.make("mysql-community-client-core", f"Depends: {needs['client-core']}, mysql-community-client-plugins ({SAME})",
               "Provides: virtual-mysql-client-core", "Conflicts: mysql-client-core-8.0")  # fmt: skip
    maker.move("mysql-community-client", *with_manuals(CLIENTS))
    maker.make("mysql-community-client", f"Depends: mysql-common (>= {VERSION}), mysql-community-client-core ({SAME})",
               "Provides: virtual-mysql-client",
               "Conflicts: mysql-client-8.0, mysql-client-core-8.0, mysql-server-core")  # fmt: skip
    maker.make("mysql-client", f"Depends: mysql-community-client ({SAME})")
    host = ["dpkg-architecture", "-qDEB_HOST_MULTIARCH"]
    triplet = subprocess.run(host, capture_output=True, text=True, check=True).stdout.strip()
    maker.write("libmysqlclient24", f"usr/lib/{triplet}/libmysqlclient.so.24.3.0", "")
    maker.make("libmysqlclient24", f"Depends: mysql-common (>= {VERSION}), mysql-community-client-plugins ({SAME})")

    maker.write("mysql-common", "etc/mysql/my.cnf.fallback", "!includedir /etc/mysql/conf.d/\n")
    maker.write("mysql-common", "etc/mysql/conf.d/mysql.cnf", "[mysql]\n")
    maker.script("mysql-common", "postinst", COMMON_POSTINST)
    maker.script("mysql-common", "postrm", COMMON_POSTRM)
    maker.make("mysql-common", "Multi-Arch: foreign", "Conflicts: mysql, mysql-server-8.0, mysql-server-core-8.0, "
               "mysql-server-core, mysql-client-8.0, mysql-client-core-8.0")  # fmt: skip

    shutil.rmtree(folder / "client-core")
    for name in ("doc", "lintian"):
        shutil.rmtree(folder / "server-core/usr/share" / name)
    (folder / "server-core/usr/share/mysql").rename(folder / "server-core" / SHARE)
    (folder / "server-core").rename(folder / "mysql-community-server-core")
    maker.make("mysql-community-server-core", f"Depends: {needs['server-core']}", "Provides: virtual-mysql-server-core",
               "Conflicts: mysql, mysql-server-core-8.0, mysql-server-core", "Replaces: mysql-server-core")  # fmt: skip

    server = "mysql-community-server"
    maker.write(server, "etc/mysql/mysql.cnf", "!includedir /etc/mysql/conf.d/\n!includedir /etc/mysql/mysql.conf.d/\n")
    maker.write(server, "etc/mysql/mysql.conf.d/mysqld.cnf", SERVER_SETTINGS)
    maker.write(server, "usr/lib/tmpfiles.d/mysql.conf", "d /run/mysqld 0755 mysql mysql -\n")
    maker.write(server, f"{SHARE}/mysql-systemd-start", "#!/bin/sh\n", is_program=True)
    maker.write(server, "usr/lib/systemd/system/mysql.service", UNIT)
    for which, text in (("preinst", SERVER_PREINST), ("postinst", SERVER_POSTINST), ("prerm", SERVER_PRERM),
                        ("postrm", SERVER_POSTRM)):  # fmt: skip
        maker.script(server, which, text)
    maker.make(server, "Pre-Depends: adduser", f"Depends: mysql-common (>= {VERSION}), mysql-client ({SAME}), "
               f"mysql-community-server-core ({SAME}), perl, psmisc", "Conflicts: mysql",
               "Provides: virtual-mysql-server")  # fmt: skip
    maker.make("mysql-server", f"Depends: mysql-community-server ({SAME})")
    return root.debs("oracle")
