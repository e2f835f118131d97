# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Servers with a keyring."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.keyring import with_keyring
from bench.layout import Layout
from bench.subjects import Binary
from bench.tables import Tables
from redstart_cli.keyring import COMPONENT
from redstart_cli.tools import Unavailable


def _layout(tmp_path: Path) -> Layout:
    layout = Layout(tmp_path / "bench")
    layout.data.mkdir(parents=True)
    return layout


def _file(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(path.name, encoding="ascii")
    return path


@pytest.mark.parametrize("folder", ["plugin_output_directory", "lib/plugin"])
def test_a_server_of_a_build_tree(folder: str, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    mysqld = _file(tree / "runtime_output_directory/mysqld")
    _file(tree / folder / f"{COMPONENT}.so")
    variables = {"basedir": f"{tree}/", "plugin_dir": f"{tree}/lib/plugin/"}
    layout = _layout(tmp_path)
    found = with_keyring(layout, Binary(mysqld, None, "mysql", "9.7.4", variables))
    place = layout.base / "keyring"
    assert (found.path, found.file.resolve()) == (place / "mysqld", mysqld)
    assert found.options == (f"--basedir={tree}/", f"--plugin-dir={place}")
    assert (place / f"{COMPONENT}.so").read_text(encoding="ascii") == f"{COMPONENT}.so"
    assert json.loads((place / "mysqld.my").read_text()) == {"components": f"file://{COMPONENT}"}
    assert Path(json.loads((place / f"{COMPONENT}.cnf").read_text())["path"]).parent == layout.data


def test_a_server_in_a_root_has_no_links_out_of_it(tmp_path: Path) -> None:
    root = tmp_path / "root"
    _file(root / "usr/sbin/mysqld")
    _file(root / f"usr/lib/mysql/plugin/{COMPONENT}.so")
    variables = {"basedir": "/usr/", "plugin_dir": "/usr/lib/mysql/plugin/"}
    for number in range(2):
        found = with_keyring(_layout(tmp_path / str(number)), Binary(Path("/usr/sbin/mysqld"), root, "mysql", "9.7.4", variables))
        assert found.path == Path("/keyring/mysqld")
        assert found.file.read_text(encoding="ascii") == "mysqld" and not found.file.is_symlink()
        assert not (root / f"keyring/{COMPONENT}.so").is_symlink()


def test_without_the_component_it_is_skipped(tmp_path: Path) -> None:
    mysqld = _file(tmp_path / "bin/mysqld")
    with pytest.raises(Unavailable, match="has no component_keyring_file"):
        with_keyring(_layout(tmp_path), Binary(mysqld, None, "mysql", "9.7.4", {"basedir": "/usr/"}))
    with pytest.raises(Unavailable):
        with_keyring(_layout(tmp_path / "2"), Binary(mysqld, None, "mariadb", "10.11", {"basedir": "/usr/"}))


def test_encrypted_tables_have_a_directory_of_their_own() -> None:
    plain, encrypted = Tables(20, 2), Tables(20, 2, is_encrypted=True)
    assert plain.key == "20t-2s" and encrypted.key == "20t-2s-encrypted"
    assert "encrypted" in encrypted.what and "encrypted" not in plain.what
