# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from torture import rebuild
from torture.life import writes_once
from torture.settings import BATCH_OFF, BATCH_ON, ONCE_OFF, ONCE_ON

if TYPE_CHECKING:
    from torture.server import Server


class Answers:
    """Answers statements by what they begin with, or end with."""

    def __init__(self, answers: dict[str, list[tuple[Any, ...]]]) -> None:
        self.answers = answers
        self.rows: list[tuple[Any, ...]] = []

    def execute(self, statement: str) -> None:
        self.rows = next(
            rows for part, rows in self.answers.items() if statement.startswith(part) or statement.endswith(part)
        )

    def fetchall(self) -> list[tuple[Any, ...]]:
        return self.rows

    def fetchone(self) -> tuple[Any, ...]:
        return self.rows[0]


FINE: dict[str, list[tuple[Any, ...]]] = {
    "table_name = 't'": [(1,)],
    "CHECK TABLE": [("rebuilt.t", "check", "status", "OK")],
    "(PRIMARY)": [(rebuild.ROWS, rebuild.ROWS)],
    "(a)": [(rebuild.ROWS, rebuild.ROWS)],
    "(b)": [(rebuild.ROWS, rebuild.ROWS)],
}


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ({}, ""),
        ({"table_name = 't'": [(0,)], "CHECK TABLE": [("rebuilt.t", "check", "Error", "no such table")]}, ""),
        # It was made, and its rows were not committed.
        ({"(PRIMARY)": [(0, None)], "(a)": [(0, None)], "(b)": [(0, None)]}, ""),
        ({"CHECK TABLE": [("rebuilt.t", "check", "error", "Corrupt")]}, "CHECK TABLE rebuilt.t: Corrupt"),
        ({"(a)": [(rebuild.ROWS - 1, rebuild.ROWS - 1)]}, "index a holds 3999 rows of 4000, 3999 of them right"),
        ({"(b)": [(rebuild.ROWS, rebuild.ROWS - 2)]}, "index b holds 4000 rows of 4000, 3998 of them right"),
        ({"(PRIMARY)": [(0, None)]}, "its indexes hold 0, 4000 rows"),
    ],
)
def test_its_rows_are_all_there_or_none(answers: dict[str, list[tuple[Any, ...]]], said: str) -> None:
    found = rebuild.check(Answers({**FINE, **answers}))
    assert len(found) == bool(said)
    assert said in "".join(found)


@pytest.mark.parametrize(
    ("options", "once"),
    [
        ([], False),
        ([ONCE_ON], True),
        ([ONCE_OFF], False),
        ([ONCE_ON, BATCH_OFF], False),
        # As --all-on has it.
        ([ONCE_OFF, BATCH_OFF, ONCE_ON, BATCH_ON], True),
        ([ONCE_ON, ONCE_OFF], False),
    ],
)
def test_of_options_the_last_holds(options: list[str], once: bool) -> None:
    place = SimpleNamespace(options=options)
    for is_ours in (True, False):
        server = SimpleNamespace(place=place, has=lambda option, is_ours=is_ours: is_ours and option in options)
        assert writes_once(cast("Server", server)) == (once and is_ours)
