# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The archive that the stock server comes from, and which one is not compared with."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from redstart_cli import roots
from redstart_cli.console import RedstartError
from redstart_cli.layout import this_layout
from redstart_cli.tools import ToolError, Unavailable
from redstart_cli.upstream import ChecksumError, OlderServer, file_sha256, read_older_server, read_pins


def test_mirror_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    found = ["http://a.example/apt", "http://a.example/debian-security", "http://a.example/debian/", "http://b.example/debian"]
    monkeypatch.setattr(roots, "machine_mirrors", lambda: found)
    assert roots.machine_mirror() == "http://a.example/debian/"
    del found[2:]
    with pytest.raises(Unavailable, match="name no Debian archive"):
        roots.machine_mirror()


def test_stock_of_another_release_is_not_compared(tmp_path: Path) -> None:
    status = tmp_path / "stock/var/lib/dpkg/status"
    status.parent.mkdir(parents=True)
    pinned, _ = read_pins(this_layout().repo)
    others = "Package: mysql-client-core\nVersion: 1.0.0-1\n\n"
    status.write_text(f"{others}Package: mysql-server-core\nStatus: install ok installed\nVersion: {pinned}-2\n\n")
    assert roots.stock_root(tmp_path, tmp_path) == tmp_path / "stock"
    status.write_text(f"{others}Package: mysql-server-core\nVersion: 9.7.999-1\n\n")
    with pytest.raises(ToolError, match=f"is MySQL 9.7.999, cmake/upstream.json pins {pinned}") as caught:
        roots.stock_root(tmp_path, tmp_path)
    assert not isinstance(caught.value, Unavailable)
    status.write_text(others)
    with pytest.raises(ToolError, match="has no mysql-server-core"):
        roots.stock_root(tmp_path, tmp_path)


# The files of these packages belong to whoever makes them.
AS_USER = "--force-not-root"


def make_package(folder: Path, version: str) -> Path:
    """A package of the server that holds one file with its version."""
    tree = folder / "tree"
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "DEBIAN/control").write_text(
        f"Package: mysql-server-core\nVersion: {version}-1\nArchitecture: all\nMaintainer: x <x@localhost>\nDescription: x\n"
    )
    (tree / "usr/sbin").mkdir(parents=True)
    (tree / "usr/sbin/mysqld").write_text(version)
    package = folder / f"mysql-server-core_{version}-1_all.deb"
    subprocess.run(["dpkg-deb", "--build", tree, package], check=True, stdout=subprocess.DEVNULL)
    shutil.rmtree(tree)
    return package


def install(root: Path, package: Path) -> None:
    (root / "var/lib/dpkg/updates").mkdir(parents=True)
    (root / "var/lib/dpkg/info").mkdir()
    (root / "var/lib/dpkg/status").touch()
    subprocess.run(["dpkg", AS_USER, f"--root={root}", "--install", package], check=True, stdout=subprocess.DEVNULL)


@pytest.fixture
def older(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stock root with another release, and an archive that holds the older package; returns the package."""
    pinned, _ = read_pins(this_layout().repo)
    pool = tmp_path / "archive/pool"
    pool.mkdir(parents=True)
    install(tmp_path / "stock", make_package(pool, pinned))
    package = make_package(pool, "9.7.0")
    pin = OlderServer("9.7.0", f"pool/{package.name}", package.stat().st_size, file_sha256(package))
    monkeypatch.setattr(roots, "read_older_server", lambda _: pin)
    monkeypatch.setattr(roots, "machine_mirror", lambda: f"file://{tmp_path}/archive/")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(roots.tools, "need_root", lambda _: None)
    run = roots.tools.run

    def run_as_user(words: Sequence[str | Path], log: Path | None = None) -> str:
        return run([*words[:1], AS_USER, *words[1:]] if words[0] == "dpkg" else words, log)

    monkeypatch.setattr(roots.tools, "run", run_as_user)
    return package


def test_the_older_server_is_in_a_root_of_its_own(older: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pinned, _ = read_pins(this_layout().repo)
    (tmp_path / "older.making").mkdir()
    assert roots.older_root(tmp_path, tmp_path) == tmp_path / "older"
    assert (tmp_path / "older/usr/sbin/mysqld").read_text() == "9.7.0"
    assert (tmp_path / "stock/usr/sbin/mysqld").read_text() == pinned
    assert not (tmp_path / "older.making").exists()
    # The second time nothing is fetched, and without an archive there is the package that was.
    older.unlink()
    roots.older_root(tmp_path, tmp_path)
    shutil.rmtree(tmp_path / "older")
    roots.older_root(tmp_path, tmp_path)
    monkeypatch.setattr(roots, "read_older_server", lambda _: OlderServer("9.7.1", "", 0, ""))
    with pytest.raises(ToolError, match="has MySQL 9.7.0, cmake/upstream.json pins 9.7.1"):
        roots.older_root(tmp_path, tmp_path)


def test_an_older_server_that_cannot_be_had(older: Path, tmp_path: Path) -> None:
    older.rename(older.with_name("away"))
    with pytest.raises(Unavailable, match="the server of MySQL 9.7.0 cannot be had"):
        roots.older_root(tmp_path, tmp_path)
    older.write_text("something else")
    with pytest.raises(ChecksumError, match=f"{older.name} from the archive has sha256"):
        roots.older_root(tmp_path, tmp_path)
    assert not (tmp_path / "older").exists() and not list((tmp_path / "cache").rglob("*.deb"))


def test_the_pinned_older_server_is_one_of_the_same_series(tmp_path: Path) -> None:
    pinned, _ = read_pins(this_layout().repo)
    older = read_older_server(this_layout().repo)
    assert older.version != pinned and older.version.rpartition(".")[0] == pinned.rpartition(".")[0]
    assert f"_{older.version}-" in older.path
    (tmp_path / "cmake").mkdir()
    (tmp_path / "cmake/upstream.json").write_text("{}")
    with pytest.raises(RedstartError, match="is damaged: KeyError"):
        read_older_server(tmp_path)
