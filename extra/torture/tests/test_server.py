# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""How the rig starts a server: a script that says what it was given."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from redstart_cli import keyring
from redstart_cli.mysqld import Binary
from torture.server import Place, Server

PROGRAM = "import json, os, sys; print(json.dumps([sys.argv[1:], os.environ.get('PRELOAD')]))"


def _said(place: Place) -> tuple[list[str], str | None, Path]:
    """Words and variable of a server, and its folder."""
    with Server(Binary("ours", [sys.executable, "-c", PROGRAM]), place) as server:
        server.process.wait()
        words, variable = json.loads(server.output())
        return words, variable, server.run


def test_a_server_has_the_environment_of_its_place(tmp_path: Path) -> None:
    place = Place(tmp_path, tmp_path / "log", ["--x"], {"PRELOAD": "fault.so"})
    words, variable, _ = _said(place)
    assert (variable, "--x" in words) == ("fault.so", True)


def test_temporary_files_go_with_the_server(tmp_path: Path) -> None:
    """Those of one that is killed would stay elsewhere."""
    words, _, run = _said(Place(tmp_path, tmp_path / "log", []))
    assert words[-1] == f"--tmpdir={run}"


def test_the_keys_of_a_copy_are_its_own(tmp_path: Path) -> None:
    keyring.write_keyring(tmp_path, Path("/where/it/was/copied/from"))
    _said(Place(tmp_path, tmp_path / "log", []))
    path = json.loads((tmp_path / f"{keyring.COMPONENT}.cnf").read_text())["path"]
    assert path == str(tmp_path / "keyring")


def test_a_directory_without_keys_gets_none(tmp_path: Path) -> None:
    _said(Place(tmp_path, tmp_path / "log", []))
    assert not keyring.has_keyring(tmp_path)
