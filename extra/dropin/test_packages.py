# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The packages on sid, which has stock MySQL: on a machine without a database, over stock with data, and back; refusals.

Each test goes on where the one before has ended. The packages are made on Debian 12: apt takes from there what they need.
"""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from dropin import test_installation as new_machine
from dropin.debian import MIRROR, MYSQL, OURS, REPO, WRONG_SETTING, Root
from redstart_cli.roots import check_pinned

STOCK = ("mysql-server", "mysql-server-core", "mysql-client", "mysql-client-core")
TABLES = """
CREATE TABLE t.a (id INT AUTO_INCREMENT PRIMARY KEY, s VARCHAR(200), KEY (s))
  SELECT NULL AS id, HEX(RANDOM_BYTES(50)) AS s FROM information_schema.columns;
CREATE TABLE t.b (id INT PRIMARY KEY, p LONGBLOB) ROW_FORMAT=COMPRESSED;
INSERT INTO t.b SELECT id, RANDOM_BYTES(1000) FROM t.a LIMIT 500
"""
# In every place, with the X plugin in every spelling.
MORE_SETTINGS = """\
[mysqld]
thread_cache_size = 79
 skip-mysqlx
skip_mysqlx
disable-mysqlx
mysqlx=OFF
mysqlx_port = 33070
loose_mysqlx_port = 33070
"""
LIKE_STOCK = ("Type", "User", "Group", "RuntimeDirectory", "RuntimeDirectoryMode", "TimeoutSec", "Restart", "Environment")
# Where mysql.ibd has the release that has written it, and 8.0.38 there.
RELEASE_OFFSET, RELEASE_8_0_38 = 8, b"\x00\x01\x38\xa6"


@pytest.fixture(scope="module")
def root() -> Iterator[Root]:
    with Root("sid", "bookworm") as found:
        check_pinned(found.candidate("mysql-server"), MIRROR)
        yield found


test_the_server_runs_after_the_installation = new_machine.test_the_server_runs_after_the_installation
test_root_of_the_system_is_root_of_the_database = new_machine.test_root_of_the_system_is_root_of_the_database
test_another_user_is_not = new_machine.test_another_user_is_not
test_the_x_protocol_is_served = new_machine.test_the_x_protocol_is_served
test_systemd_accepts_the_unit = new_machine.test_systemd_accepts_the_unit
test_the_apparmor_profile_is_valid = new_machine.test_the_apparmor_profile_is_valid


# To stock with a database that these packages have made


def accounts_of(root: Root) -> str:
    names = ("root@localhost", "'debian-sys-maint'@localhost")
    asked = "; ".join(f"SHOW CREATE USER {name}" for name in names)
    return root.sql(f"{asked}; SHOW GRANTS FOR {names[1]}")


@pytest.fixture(scope="module")
def accounts(root: Root) -> str:
    """Those of a new database."""
    return accounts_of(root)


def test_stock_takes_over(root: Root, accounts: str) -> None:
    root.install("mysql-server")
    root.assert_data()
    assert "redstart" not in root.version()


def test_ours_take_over_again(root: Root) -> None:
    root.install(*root.ours)
    root.assert_data()
    assert "redstart" in root.version()
    root.systemctl("stop")
    root.purge(*OURS)
    root.purge(*STOCK)
    for path in (root.data, root / "var/lib/mysql-files"):
        shutil.rmtree(path)


# Over stock with data


@pytest.fixture(scope="module")
def addresses(root: Root) -> list[str]:
    """Those of a new installation of stock, which runs and gets tables."""
    root.install("mysql-server")
    root.start()
    assert "redstart" not in root.version()
    found = root.values("@@bind_address")
    root.fill(TABLES)
    assert root.sql("SELECT COUNT(*) > 1000 FROM t.a") == "1"
    return found


def test_the_accounts_are_stocks(root: Root, addresses: list[str], accounts: str) -> None:
    assert accounts_of(root) == accounts


@pytest.mark.parametrize("key", LIKE_STOCK)
def test_the_unit_has_it_as_stock(root: Root, key: str) -> None:
    ours = (REPO / "packaging/debian/redstart-server.redstart.service").read_text().replace("Mode=0", "Mode=")
    stock = (root / "usr/lib/systemd/system/mysql.service").read_text()
    found, wanted = (re.findall(f"^{key}=.*", text, re.MULTILINE) for text in (ours, stock))
    assert found == wanted != []


def test_ours_take_over_from_a_killed_server(root: Root, addresses: list[str]) -> None:
    settings, secret = root / "etc/mysql", root / "etc/mysql/mysql.conf.d/secret.cnf"
    with (settings / "mysql.cnf").open("a") as file:
        file.write("\n[mysqld]\nmax_connections = 77\n")
    (settings / "conf.d/own.cnf").write_text("[mysqld]\nmax_connect_errors = 78\n")
    (settings / "mysql.conf.d/zz.cnf").write_text(MORE_SETTINGS)
    secret.write_text("[mysqld]\nreport_password = secret\n")
    secret.chmod(0o600)
    root.run("chown", "mysql:adm", "/etc/mysql/mysql.conf.d/secret.cnf")
    root.kill()
    root.install(*root.ours)
    assert root.installed(*STOCK) == []
    assert root.run("readlink", "-f", "/etc/mysql/my.cnf") == "/etc/mysql/redstart.cnf"
    assert root.run("stat", "-c", "%U:%G %a", "/var/lib/mysql") == "mysql:mysql 700"
    root.assert_data()
    assert "redstart" in root.version()


def test_addresses_and_paths_are_stocks(root: Root, addresses: list[str]) -> None:
    assert root.values("@@bind_address") == addresses
    found = root.values("@@GLOBAL.datadir", "@@plugin_dir", "@@secure_file_priv")
    assert found == ["/var/lib/mysql/", "/usr/lib/mysql/plugin/", "/var/lib/mysql-files/"]


@pytest.mark.parametrize(
    ("name", "library"),
    [("clone", "mysql_clone"), ("group_replication", "group_replication"), ("rpl_semi_sync_source", "semisync_source"),
     ("rpl_semi_sync_replica", "semisync_replica")],
)  # fmt: skip
def test_a_plugin_loads(root: Root, name: str, library: str) -> None:
    root.sql(f"INSTALL PLUGIN {name} SONAME '{library}.so'; UNINSTALL PLUGIN {name}")


def test_the_client_plugin_for_older_servers_loads(root: Root) -> None:
    """A client that cannot open it goes on without a word."""
    client = ("mysql", "--no-defaults", "--user=root", "--default-auth=mysql_native_password", "--execute", "SELECT 1")
    done = root.call("env", "LD_DEBUG=files", *client)
    assert done.returncode == 0, done.stderr[-3000:]
    assert re.search(r"calling init: .*/mysql_native_password\.so", done.stdout + done.stderr)


@pytest.mark.parametrize("name", ["install_rewriter", "uninstall_rewriter"])
def test_a_script_of_the_rewriter_runs(root: Root, name: str) -> None:
    root.run(*MYSQL, stdin=root / f"usr/share/mysql/{name}.sql")


def test_other_programs_run(root: Root) -> None:
    root.run("mysqlrepair", "--no-defaults", "--user=root", "--databases", "t")
    # Its help ends with 1, as stock's.
    assert root.call("mysqld_safe", "--help").stdout.startswith("Usage: ")
    root.run("mysqld_multi", "--version")


def test_every_spelling_turns_the_x_plugin_off(root: Root) -> None:
    """As in stock."""
    assert root.plugin("mysqlx") == "DISABLED"


# The settings are stock's


def settings_of(root: Root) -> list[str]:
    return root.values("@@max_connections", "@@max_connect_errors", "@@thread_cache_size", "@@max_binlog_size")


def test_settings_from_before(root: Root) -> None:
    root.sql("INSERT INTO t.a (s) SELECT s FROM t.a LIMIT 100; ALTER TABLE t.b ADD COLUMN c INT DEFAULT 7")
    root.wanted = root.state()
    assert settings_of(root) == ["77", "78", "79", "104857600"]
    assert root.values("@@report_password") == ["secret"]


def test_the_copy_of_a_file_with_a_password_is_not_for_everybody(root: Root) -> None:
    (copy,) = (root / "etc/mysql/redstart.from-mysql").rglob("secret.cnf")
    found, wanted = (path.stat() for path in (copy, root / "etc/mysql/mysql.conf.d/secret.cnf"))
    assert (found.st_mode, found.st_uid, found.st_gid) == (wanted.st_mode, wanted.st_uid, wanted.st_gid)


def test_settings_that_are_changed_later(root: Root) -> None:
    settings = root / "etc/mysql/mysql.conf.d/zz.cnf"
    settings.write_text(MORE_SETTINGS.replace("79", "80"))
    root.systemctl("restart")
    assert settings_of(root) == ["77", "78", "80", "104857600"]


def test_a_setting_that_is_taken_away(root: Root) -> None:
    (root / "etc/mysql/mysql.conf.d/secret.cnf").unlink()
    root.systemctl("restart")
    assert root.values("@@report_password") == ["NULL"]
    assert not (root / "etc/mysql/redstart.from-mysql/mysql.conf.d/secret.cnf").exists()


test_log_rotation_closes_no_table_and_begins_no_binary_log = new_machine.test_log_rotation_closes_no_table_and_begins_no_binary_log


def test_a_purge_of_stock_takes_nothing(root: Root) -> None:
    root.purge("mysql-server")
    root.assert_data()
    assert settings_of(root) == ["77", "78", "80", "104857600"]
    assert root.error_log.stat().st_size > 0


def test_a_purge_leaves_the_data_and_nothing_else(root: Root) -> None:
    root.kill()
    root.purge(*OURS)
    assert (root.data / "mysql.ibd").exists()
    left = root.call("dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\\n", "redstart-*").stdout.splitlines()
    assert [line for line in left if not line.endswith(" not-installed")] == []
    for name in ("redstart.cnf", "redstart.from-mysql", "redstart.conf.d"):
        assert not (root / "etc/mysql" / name).exists()


# Back to stock


def test_stock_has_the_data_again(root: Root) -> None:
    for name in ("mysql.conf.d/zz.cnf", "conf.d/own.cnf"):
        (root / "etc/mysql" / name).unlink(missing_ok=True)
    root.install("mysql-server")
    root.start()
    assert "redstart" not in root.version()
    root.assert_data()
    root.stop()


def test_apt_swaps_both_ways_without_a_purge(root: Root) -> None:
    root.install(*root.ours)
    root.install("mysql-server")
    assert not root.installed("redstart-server-core")
    root.start()
    root.assert_data()


def test_log_rotation_of_stock(root: Root) -> None:
    new_machine.rotate(root)


def test_a_purge_of_ours_takes_nothing_of_stock(root: Root) -> None:
    root.purge_beside(*STOCK)
    root.stop()


# Refusals, which touch no data, and the way on


def write_release(data: Path, release: bytes) -> bytes:
    """Say in mysql.ibd by which release it was written; what was there."""
    with (data / "mysql.ibd").open("r+b") as file:
        file.seek(RELEASE_OFFSET)
        before = file.read(len(release))
        file.seek(RELEASE_OFFSET)
        file.write(release)
    return before


def test_data_of_another_version_are_refused(root: Root) -> None:
    release = write_release(root.data, RELEASE_8_0_38)
    before = root.fingerprint()
    assert "was written by MySQL 8." in root.refusal("install", *root.ours)
    assert root.fingerprint() == before
    assert write_release(root.data, release) == RELEASE_8_0_38
    # As far as it was installed.
    root.call("dpkg", "--remove", "--force-depends", "redstart-server")


def test_data_of_another_owner_are_refused(root: Root) -> None:
    root.run("chown", "-R", "root:root", "/var/lib/mysql")
    before = root.fingerprint()
    assert "belongs to root, not to mysql" in root.refusal("install", *root.ours)
    assert root.fingerprint() == before
    root.run("chown", "-R", "mysql:mysql", "/var/lib/mysql")
    root.configure()
    root.assert_data()
    assert "redstart" in root.version()
    root.stop()


@pytest.fixture
def elsewhere(root: Root) -> Iterator[Path]:
    """Another data directory, which has the data; they are taken back."""
    root.purge(*OURS)
    data, settings = root / "srv/data", root / "etc/mysql/mysql.cnf"
    root.data.rename(data)
    before = settings.read_text()
    settings.write_text(f"{before}\n[mysqld]\ndatadir = /srv/data\n")
    yield data
    settings.write_text(before)
    data.rename(root.data)


def test_data_of_another_version_in_another_directory_are_refused(root: Root, elsewhere: Path) -> None:
    release = write_release(elsewhere, RELEASE_8_0_38)
    assert "/srv/data was written by MySQL 8." in root.refusal("install", *root.ours)
    write_release(elsewhere, release)
    root.configure()
    root.assert_data()
    assert root.values("@@GLOBAL.datadir") == ["/srv/data/"]
    assert not root.data.exists(), "a data directory was made that nobody asked for"
    root.stop()


def names_of_files(root: Root) -> set[str]:
    """Of all in the data directory, with those aside that each start makes anew."""
    names = {str(path.relative_to(root.data)) for path in root.data.rglob("*") if path.is_file()}
    return {name for name in names if not re.match(r"#innodb_|(.*/)?(binlog|ibtmp)[^/]*$|.*\.pid$", name)}


def test_a_port_that_is_taken(root: Root) -> None:
    before = names_of_files(root)
    root.run("/usr/share/redstart-server/prepare")
    root.error_log.write_text("")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = root.call("mysqld", f"--port={taken.getsockname()[1]}", user="mysql")
    assert done.returncode != 0
    assert "another mysqld server running on port" in root.error_log.read_text(errors="replace")
    assert names_of_files(root) == before
    root.start()
    root.assert_data()
    root.stop()


def test_a_setting_that_the_server_does_not_know(root: Root) -> None:
    def files() -> dict[str, object]:
        """The server makes and removes a file when it looks at its configuration."""
        return {path: found for path, found in root.fingerprint().items() if Path(path).is_file()}

    wrong = root / "etc/mysql/redstart.conf.d/wrong.cnf"
    wrong.write_text(WRONG_SETTING)
    before = files()
    assert "does not accept its configuration" in root.refusal("install", "--reinstall", *root.ours)
    assert files() == before
    wrong.unlink()
    root.configure()
    root.stop()


def test_a_file_system_without_room_for_a_new_database(root: Root) -> None:
    root.purge(*OURS)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=50m,mode=700", "tmpfs", root.data], check=True)
    root.run("chown", "mysql:mysql", "/var/lib/mysql")
    assert "a new database needs" in root.refusal("install", *root.ours)
    assert list(root.data.iterdir()) == []
    subprocess.run(["umount", root.data], check=True)
    root.configure()
    root.assert_data()
    assert "redstart" in root.version()
    root.stop()
