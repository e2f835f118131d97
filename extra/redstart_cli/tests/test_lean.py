# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The packages around the developers' build, without a build."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from redstart_cli import lean
from redstart_cli.layout import Layout

REPO = Path(__file__).resolve().parents[3]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    shutil.copytree(REPO / "packaging/debian", tmp_path / "debian")
    for name in ("usr/bin/mysql", "usr/sbin/mysqld"):
        (tmp_path / "stage" / name).parent.mkdir(parents=True)
        (tmp_path / "stage" / name).touch()
    return tmp_path


def test_only_what_was_built_is_packaged(tree: Path) -> None:
    lean.adapt(tree)
    assert (tree / "debian/redstart-client-core.install").read_text() == "usr/bin/mysql\n"
    assert (tree / "debian/redstart-server-core.install").read_text() == "usr/sbin/mysqld\n"
    assert (tree / "debian/redstart-server.install").read_text() == ""


def test_settings_are_the_shipped_ones_and_paths(tree: Path) -> None:
    lean.adapt(tree)
    for name, head in (("redstart.cnf", 8), ("redstart-server.prepare", 0)):
        shipped = (REPO / "packaging/debian" / name).read_text().splitlines()
        found = (tree / "debian" / name).read_text().splitlines()
        assert [line.replace("loose_mysqlx-", "mysqlx-") for line in found[head:]] == shipped
        assert not any("mysqlx" in line and "loose_mysqlx-" not in line for line in found)


def test_nothing_else_is_different(tree: Path) -> None:
    lean.adapt(tree)
    shipped = REPO / "packaging/debian"
    differ = [path.name for path in shipped.iterdir() if path.read_text() != (tree / "debian" / path.name).read_text()]
    changed = {"redstart.cnf", "redstart-server.prepare", *(path.name for path in shipped.glob("*.install"))}
    assert set(differ) == changed


def test_packages_of_another_time_are_removed(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout, target = Layout(tmp_path / "clone"), tmp_path / "made"
    target.mkdir()
    (target / "redstart-server_1_all.deb").touch()
    monkeypatch.setattr(lean, "build", lambda *_: "9.7.4")

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(lean, "stage", stop)
    with pytest.raises(KeyboardInterrupt):
        lean.lean_packages(layout, target, None, None)
    assert list(target.iterdir()) == []
