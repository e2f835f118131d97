# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""What two servers hold, and a server that stands still."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pymysql
import pytest

from torture import held as held_module
from torture import load
from torture.held import Held
from torture.server import Server

ROWS = Held({"c0.w": "1 | OK", "c1.t0": "2 | OK"}, {"files": "c0/w.ibd"})


@pytest.mark.parametrize(
    ("tables", "others", "said"),
    [
        ({}, {}, []),
        ({"c0.w": "1 | Corrupt"}, {}, ["c0.w: 1 | Corrupt, and not 1 | OK"]),
        ({"c2.t1": "3 | OK"}, {}, ["c2.t1: 3 | OK, and not nothing"]),
        ({}, {"files": ""}, ["files: , and not c0/w.ibd"]),
    ],
)
def test_differences_are_named(tables: dict[str, str], others: dict[str, str], said: list[str]) -> None:
    assert ROWS.differences(Held(ROWS.tables | tables, ROWS.others | others)) == said


def test_a_table_that_is_missing_differs() -> None:
    assert ROWS.differences(Held({"c0.w": "1 | OK"}, ROWS.others)) == ["c1.t0: is not there, and not 2 | OK"]


class Cursor:
    """Answers with an error, or one row."""

    def __init__(self, code: int) -> None:
        self._code = code

    def execute(self, text: str) -> None:
        if self._code and "CHECKSUM" in text:
            raise pymysql.err.OperationalError(self._code, "no")

    def fetchall(self) -> list[tuple[str, ...]]:
        return [("c0.w", "7")]


def test_tables_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_module, "check_indexes", lambda *_: ["index k1 holds less"])
    found = Held()
    held_module._ask_table(Cursor(0), "c0", "w", found)
    held_module._ask_table(Cursor(load.DISCARDED), "c0", "t0", found)
    assert found.tables == {"c0.w": "7 | 7 | 7 | index k1 holds less", "c0.t0": f"error {load.DISCARDED}"}
    assert found.discarded == {("c0", "t0")}
    with pytest.raises(pymysql.err.OperationalError):
        held_module._ask_table(Cursor(1146), "c0", "t1", found)


def test_a_frozen_server_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "counted"
    program = (
        "import sys, threading\n"
        "def work():\n"
        "    while True:\n"
        "        with open(sys.argv[1], 'ab') as file: file.write(b'x')\n"
        "for _ in range(3): threading.Thread(target=work, daemon=True).start()\n"
        "threading.Event().wait()\n"
    )
    server = object.__new__(Server)
    server.process = subprocess.Popen([sys.executable, "-c", program, path])

    def grows() -> bool:
        size = path.stat().st_size if path.exists() else 0
        end = time.monotonic() + 0.3
        while time.monotonic() < end:
            time.sleep(0.01)
            if path.exists() and path.stat().st_size > size:
                return True
        return False

    try:
        end = time.monotonic() + 30
        while not grows() and time.monotonic() < end:
            pass
        with server.frozen():
            assert not grows()
        assert grows()
    finally:
        server.process.kill()
        server.process.wait()
