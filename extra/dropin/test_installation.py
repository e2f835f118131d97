# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The packages on Debian 12, on a machine without a database (dropin.debian): installation, the running server, an upgrade, purge.

Each test goes on where the one before has ended.
"""

from __future__ import annotations

import re
import resource
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dropin.debian import MYSQL, OURS, REPO, WRONG_SETTING, Root, extract, field, make_deb

# Of a server without settings.
OPEN_FILES = 10000
# In tenths, as systemd 252 judges the unit without running it.
EXPOSURE = 59
ROTATION_SEC = 5


@pytest.fixture(scope="module")
def root() -> Iterator[Root]:
    with Root("bookworm") as found:
        yield found


# The same on sid: test_packages.py


def test_the_server_runs_after_the_installation(root: Root) -> None:
    root.install(*root.ours)
    root.assert_running()
    assert "redstart" in root.version()


def test_root_of_the_system_is_root_of_the_database(root: Root) -> None:
    assert root.values("CURRENT_USER()", "@@bind_address") == ["root@localhost", "127.0.0.1"]
    root.fill()


def test_another_user_is_not(root: Root) -> None:
    client = (*MYSQL, "--execute", "SELECT 1")
    assert root.call(*client).returncode == 0
    assert "Access denied" in root.call(*client, user="mysql").stderr


def test_the_x_protocol_is_served(root: Root) -> None:
    assert root.plugin("mysqlx") == "ACTIVE"
    found = root.values("@@mysqlx_port", "@@mysqlx_socket", "@@mysqlx_bind_address")
    assert found == ["33060", "/var/run/mysqld/mysqlx.sock", "127.0.0.1"]
    assert root.run("ss", "-Hltn", "sport = :33060")


def test_systemd_accepts_the_unit(root: Root) -> None:
    done = root.call("systemd-analyze", "verify", "--man=no", "/usr/lib/systemd/system/redstart.service")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_apparmor_profile_is_valid(root: Root) -> None:
    profile = "etc/apparmor.d/usr.sbin.mysqld"
    root.run("apparmor_parser", "--skip-kernel-load", "--skip-cache", "--abort-on-error", f"/{profile}")
    assert not re.search(r"\bowner\b", (root / profile).read_text()), "it asks for the owner of files"


def changed_by_a_flush(root: Root) -> tuple[int, str]:
    """Number of binary logs, and of flushes."""
    return len(root.sql("SHOW BINARY LOGS").splitlines()), root.sql("SHOW GLOBAL STATUS LIKE 'Flush_commands'")


def writes_to_error_log(root: Root) -> bool:
    find = ["find", f"/proc/{root.server}/fd", "-lname", "*/var/log/mysql/error.log"]
    return bool(subprocess.run(find, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout)


def rotate(root: Root) -> None:
    """logrotate takes all files of /etc/logrotate.d, and the server goes on in a new log."""
    done = root.call("logrotate", "--force", "--state", "/tmp/rotated", "/etc/logrotate.conf")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "error" not in (done.stdout + done.stderr).lower()
    root.sql("SELECT 1")
    assert root.error_log.exists()
    end = time.monotonic() + ROTATION_SEC
    while not writes_to_error_log(root):
        assert time.monotonic() < end, "the server does not write to the new log"
        time.sleep(0.1)
    for path in (*root.error_log.parent.glob("*.[0-9]*"), root / "tmp/rotated"):
        path.unlink()


def test_log_rotation_closes_no_table_and_begins_no_binary_log(root: Root) -> None:
    before = changed_by_a_flush(root)
    rotate(root)
    assert changed_by_a_flush(root) == before


# On Debian 12 alone


def test_the_unit_is_as_hardened_as_it_was(root: Root) -> None:
    command = ("systemd-analyze", "security", "--offline=true", f"--threshold={EXPOSURE}", "--no-pager")
    unit = (root / "usr/lib/systemd/system/redstart.service").read_text()
    judged = root / "tmp/redstart.service"
    judged.write_text(unit)
    root.run(*command, "/tmp/redstart.service")
    for name in ("NoNewPrivileges", "ProtectSystem", "ProtectHome"):
        judged.write_text(re.sub(f"^{name}=.*\n", "", unit, flags=re.MULTILINE))
        assert root.call(*command, "/tmp/redstart.service").returncode != 0, f"{name} makes no difference"
    judged.unlink()


def test_many_tables(root: Root) -> None:
    """The limit of open files is the server's to raise."""
    assert root.values("@@open_files_limit") == [str(OPEN_FILES)]
    example = (REPO / "docs/examples/many-tables.cnf").read_text()
    unit = (root / "usr/lib/systemd/system/redstart.service").read_text()
    (wanted,) = map(int, re.findall(r"^open_files_limit *= *(\d+)", example, re.MULTILINE))
    (allowed,) = map(int, re.findall(r"^LimitNOFILE=.*:(\d+)$", unit, re.MULTILINE))
    assert allowed >= wanted
    # Where root may not raise the limit so far, as far as it may, and without the caches that need more.
    if subprocess.run(["prlimit", f"--nofile={OPEN_FILES}:{allowed}", "true"], stderr=subprocess.DEVNULL).returncode != 0:
        wanted = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        example = re.sub(r"^table_.*\n", "", example, flags=re.MULTILINE)
    assert wanted > OPEN_FILES, "too few open files for this test"
    settings = root / "etc/mysql/redstart.conf.d/many-tables.cnf"
    settings.write_text(re.sub(r"^open_files_limit .*", f"open_files_limit = {wanted}", example, flags=re.MULTILINE))
    root.systemctl("restart")
    assert root.values("@@open_files_limit") == [str(wanted)]
    settings.unlink()


@pytest.fixture(scope="module")
def following(root: Root) -> list[str]:
    """The same packages with the next revision."""
    version = field(root.path / root.ours[0][1:], "Version")
    (root / "next").mkdir()
    for deb in root.ours:
        tree = root / "next/tree"
        extract(root / deb[1:], tree, control=True)
        control = tree / "DEBIAN/control"
        control.write_text(control.read_text().replace(version, f"{version.removesuffix('-1')}-2"))
        make_deb(tree, root / f"next/{Path(deb).name}")
    return root.debs("next")


def test_one_package_alone_is_not_upgraded(root: Root, following: list[str]) -> None:
    """The server would not be restarted."""
    (core,) = (deb for deb in following if "server-core" in deb)
    root.refusal("install", "--no-remove", core)


def test_an_upgrade_ends_no_server_that_could_not_start_again(root: Root, following: list[str]) -> None:
    before, wrong = root.server, root / "etc/mysql/redstart.conf.d/wrong.cnf"
    wrong.write_text(WRONG_SETTING)
    root.refusal("install", *following)
    assert root.server == before
    root.assert_running()
    wrong.unlink()


def test_an_upgrade_restarts_the_server(root: Root) -> None:
    before = root.server
    root.configure()
    assert root.server != before
    root.assert_data()


def test_a_purge_leaves_the_data(root: Root) -> None:
    root.purge(*OURS)
    assert (root.data / "mysql.ibd").exists()
