# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""From the layout of MySQL's own packages on Debian 12 (dropin.mysql_layout) to ours, with data of a killed server; back; again.

Each test goes on where the one before has ended.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from dropin.debian import OURS, Root
from dropin.mysql_layout import make_packages

SERVER = ("mysql-server", "mysql-community-server", "mysql-community-server-core", "mysql-client", "mysql-community-client",
          "mysql-community-client-core", "mysql-community-client-plugins")  # fmt: skip
# What is linked with the client library goes on: the plugins that it needs are in ours.
LIBRARY = ("libmysqlclient24", "mysql-common")
PLUGINS = "usr/lib/mysql/plugin"


@pytest.fixture(scope="module")
def root() -> Iterator[Root]:
    with Root("bookworm") as found:
        yield found


@pytest.fixture(scope="module")
def theirs(root: Root) -> list[str]:
    return make_packages(root)


def test_the_other_packages_are_installed(root: Root, theirs: list[str]) -> None:
    root.install(*theirs)
    assert sorted(root.installed(*SERVER, *LIBRARY)) == sorted((*SERVER, *LIBRARY))
    root.assert_running()
    assert root.values("@@bind_address") == ["*"]
    root.fill()


def test_ours_take_over_from_a_killed_server(root: Root) -> None:
    (root / "etc/mysql/mysql.conf.d/zz.cnf").write_text("[mysqld]\nmax_connections = 77\n")
    root.kill()
    root.install(*root.ours)
    assert sorted(root.installed(*SERVER, *LIBRARY)) == sorted(LIBRARY)
    assert root.run("readlink", "-f", "/etc/mysql/my.cnf") == "/etc/mysql/redstart.cnf"
    root.assert_data()


def test_the_settings_stay(root: Root) -> None:
    """Clients on other machines still reach the server, for one."""
    found = root.values("@@bind_address", "@@max_connections", "@@GLOBAL.datadir", "@@log_error")
    assert found == ["*", "77", "/var/lib/mysql/", "/var/log/mysql/error.log"]


def test_owners_and_modes_stay(root: Root) -> None:
    found = root.run("stat", "-c", "%U:%G %a", "/var/lib/mysql", "/var/lib/mysql-files", "/var/log/mysql")
    assert found.splitlines() == ["mysql:mysql 750", "mysql:mysql 770", "mysql:adm 750"]


def test_the_service_is_enabled(root: Root) -> None:
    assert root.run("systemctl.distrib", "--root=/", "is-enabled", "redstart.service") == "enabled"


def test_the_way_back(root: Root, theirs: list[str]) -> None:
    root.install(*theirs)
    assert not root.installed("redstart-server-core")
    assert (root / PLUGINS / "mysql_native_password.so").exists(), "the client's plugins were lost"
    # In ours it is a file of the server's package, which may not conflict with what the client's package provides.
    root.apt("install", "--reinstall", "/oracle/mysql-community-client-plugins.deb")
    assert (root / PLUGINS / "telemetry_client.so").exists(), "docs/packages.md: it does not come back"
    for name in (Path(deb).stem for deb in theirs):
        assert "missing" not in root.call("dpkg", "--verify", name).stdout
    root.assert_data()


def test_a_purge_of_ours_takes_nothing_of_the_others(root: Root) -> None:
    root.purge_beside(*SERVER, *LIBRARY)


def test_the_second_way(root: Root) -> None:
    root.install(*root.ours)
    root.assert_running()


def test_the_purge_of_the_others_needs_a_stop(root: Root) -> None:
    root.refusal("purge", "mysql-community-server")
    # The settings that went have pulled a trigger, which starts the server: at once, not in the next purge.
    root.configure()
    root.systemctl("stop")
    root.purge("mysql-community-server")
    root.systemctl("start")
    root.assert_data()
    assert root.values("@@bind_address", "@@max_connections") == ["*", "77"]


def test_everything_can_be_purged(root: Root) -> None:
    root.systemctl("stop")
    root.purge(*OURS)
    # The first went with the plugins that it needs, unless apt keeps it.
    root.run("dpkg", "--purge", *LIBRARY)
    assert not root.installed(*OURS, *SERVER, *LIBRARY)


def test_the_others_take_over_a_database_that_ours_have_made(root: Root, theirs: list[str]) -> None:
    for path in (root.data, *(root / f"var/lib/mysql-{name}" for name in ("files", "keyring"))):
        shutil.rmtree(path, ignore_errors=True)
    root.install(*root.ours)
    root.fill()
    root.install(*theirs)
    assert not root.installed(*OURS)
    root.assert_data()
