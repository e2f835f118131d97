# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Telling data directories apart."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from redstart_cli import datadir
from redstart_cli.console import RedstartError

SERVER = (9, 7, 4)


def make_mysql(folder: Path, number: int = 90704) -> Path:
    folder.mkdir()
    (folder / "mysql.ibd").write_bytes(struct.pack(">II", 0, 0) + struct.pack(">II", number, 1) + bytes(100))
    (folder / "ibdata1").write_bytes(bytes(100))
    return folder


def test_new_directories(tmp_path: Path) -> None:
    assert datadir.inspect(tmp_path / "none").kind is datadir.Kind.NEW
    (tmp_path / "empty").mkdir()
    assert datadir.inspect(tmp_path / "empty").kind is datadir.Kind.NEW


def test_own_version_needs_no_words(tmp_path: Path) -> None:
    found = datadir.inspect(make_mysql(tmp_path / "d"))
    assert found.kind is datadir.Kind.MYSQL and found.version == SERVER
    assert datadir.check_version(found, SERVER) is None


@pytest.mark.parametrize(
    ("number", "words"), [(90702, "last used by 9.7.2; 9.7.4 will upgrade it"), (90709, "newer 9.7.9; 9.7.4 is of")]
)
def test_same_series_is_a_note(tmp_path: Path, number: int, words: str) -> None:
    note = datadir.check_version(datadir.inspect(make_mysql(tmp_path / "d", number)), SERVER)
    assert note is not None and words in note


@pytest.mark.parametrize(
    ("number", "words"), [(80406, "MySQL 8.4.6. Opening .* upgrade it for good"), (100000, "MySQL 10.0.0, newer")]
)
def test_other_series_is_refused(tmp_path: Path, number: int, words: str) -> None:
    with pytest.raises(RedstartError, match=words):
        datadir.check_version(datadir.inspect(make_mysql(tmp_path / "d", number)), SERVER)


@pytest.mark.parametrize(
    ("files", "words"),
    [
        (["ibdata1", "aria_log_control"], "MariaDB"),
        (["ibdata1", "mariadb_upgrade_info", "mysql.ibd"], "MariaDB"),
        (["PG_VERSION"], "PostgreSQL"),
        (["ibdata1", "ib_logfile0"], "5.7 or older, or an initialisation that was cut short"),
        (["thesis.txt"], r"not empty and is no MySQL data directory \(it has thesis.txt\)"),
        (["mysql.ibd"], "names no server version"),
    ],
)
def test_foreign_directories_are_refused(tmp_path: Path, files: list[str], words: str) -> None:
    for name in files:
        (tmp_path / name).touch()
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(RedstartError, match=words + "(.|\n)*Nothing was touched"):
        datadir.inspect(tmp_path)
    assert sorted(os.listdir(tmp_path)) == before


def test_not_a_directory(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RedstartError, match="is not a directory"):
        datadir.inspect(tmp_path / "file")


LOCK = "import fcntl,sys; f=open(sys.argv[1],'r+b'); fcntl.lockf(f,fcntl.LOCK_EX); print('held',flush=True); input()"


def test_a_directory_in_use_names_the_server(tmp_path: Path) -> None:
    folder = make_mysql(tmp_path / "d")
    process = subprocess.Popen(
        [sys.executable, "-c", LOCK, str(folder / "ibdata1")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None and process.stdout.readline() == "held\n"
        with pytest.raises(RedstartError, match=rf"a running server \(process {process.pid}\) uses"):
            datadir.inspect(folder)
    finally:
        process.kill()
        process.wait()
    assert datadir.inspect(folder).version == SERVER
