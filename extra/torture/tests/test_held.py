# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""What two servers hold, and a server that stands still."""

from __future__ import annotations

import pymysql
import pytest

from torture import held as held_module
from torture import load
from torture.held import Held

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
