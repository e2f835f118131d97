# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pymysql
import pytest

from torture import life, load, rebuild
from torture.life import writes_once
from torture.oracle import NEVER
from torture.settings import BATCH_OFF, BATCH_ON, ONCE_OFF, ONCE_ON
from torture.tests.helpers import FakeConnection

if TYPE_CHECKING:
    from torture.oracle import Journal
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


ROWS = rebuild.rows_of(16384)
FINE: dict[str, list[tuple[Any, ...]]] = {
    "CHECK TABLE": [("rebuilt.t", "check", "status", "OK")],
    "SELECT @@innodb_page_size": [(16384,)],
    "(PRIMARY)": [(ROWS, ROWS)],
    "(a)": [(ROWS, ROWS)],
    "(b)": [(ROWS, ROWS)],
}


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ({}, ""),
        ({"CHECK TABLE": [("rebuilt.t", "check", "Error", "Table 'rebuilt.t' doesn't exist")]}, "doesn't exist"),
        ({"(PRIMARY)": [(0, None)], "(a)": [(0, None)], "(b)": [(0, None)]}, "index b holds 0 rows of 10000"),
        ({"CHECK TABLE": [("rebuilt.t", "check", "error", "Corrupt")]}, "CHECK TABLE rebuilt.t: Corrupt"),
        ({"(a)": [(ROWS - 1, ROWS - 1)]}, "index a holds 9999 rows of 10000, 9999 of them right"),
        ({"(b)": [(ROWS, ROWS - 2)]}, "index b holds 10000 rows of 10000, 9998 of them right"),
        ({"SELECT @@innodb_page_size": [(65536,)]}, "index a holds 10000 rows of 40000"),
    ],
)
def test_each_index_has_all_rows(answers: dict[str, list[tuple[Any, ...]]], said: str) -> None:
    found = rebuild.check(Answers({**FINE, **answers}))
    assert bool(found) == bool(said)
    assert said in "".join(found)


class Connection(FakeConnection):
    """A server whose answers to rebuilds are given; the last one ends the load."""

    def __init__(self, book: load.Book, answers: list[Exception | None]) -> None:
        self.book = book
        self.answers = answers

    def execute(self, statement: str) -> None:
        if not statement.startswith("ALTER"):
            return
        answer = self.answers.pop(0)
        if not self.answers:
            self.book.stop.set()
        if answer:
            raise answer

    def fetchone(self) -> tuple[str, int]:
        return ("Innodb_ddl_merge_extent_pages", 7)


LOCKED = pymysql.err.OperationalError(1205, "Lock wait timeout exceeded")
FULL = pymysql.err.OperationalError(1114, "The table is full")
GONE = pymysql.err.OperationalError(2013, "Lost connection")


@pytest.mark.parametrize(
    ("answers", "rebuilt", "refused", "steps", "defect"),
    [
        ([None, None], 2, 0, 2, ""),
        ([None, LOCKED, None], 2, 1, 2, ""),
        ([None, GONE], 1, 0, 2, ""),
        ([None, FULL], 1, 0, 2, "The table is full"),
        ([ValueError("no such answer")], 0, 0, 1, "no such answer"),
    ],
)
def test_only_the_end_of_a_server_excuses_an_error(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    answers: list[Exception | None],
    rebuilt: int,
    refused: int,
    steps: int,
    defect: str,
) -> None:
    journal = cast("Journal", SimpleNamespace())
    book = load.Book(journal, lambda: 0, threading.Event(), load.Copies(tmp_path, tmp_path / "exported"))
    monkeypatch.setattr(load, "connect", lambda socket: Connection(book, list(answers)))
    monkeypatch.setattr(rebuild, "MAX_PAUSE_SEC", 0)
    rebuilder = rebuild.Rebuilder(tmp_path / "s", book, 1)
    rebuilder.run()
    assert (rebuilder.rebuilt, rebuilder.refused, len(rebuilder.history.steps)) == (rebuilt, refused, steps)
    assert defect in rebuilder.defect
    assert bool(rebuilder.defect) == bool(defect)
    assert rebuilder.written_once == (7 if rebuilt else 0)


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


DIED = "ours died under load with -11: mysqld got signal 11"


@pytest.mark.parametrize(
    ("ended_by", "defect", "dies_at", "said"),
    [
        (None, "", NEVER, []),
        (GONE, "", NEVER, ["rebuild: a server that lives has ended the connection: (2013, 'Lost connection')"]),
        # At once, and some time after it has closed its connections.
        (None, "", 1, [DIED]),
        (GONE, "", 1, [DIED]),
        (GONE, "", 3, [DIED]),
        (FULL, "rebuild: full", NEVER, []),
    ],
)
def test_before_a_kill_the_server_and_its_connections_must_live(
    monkeypatch: pytest.MonkeyPatch, ended_by: Exception | None, defect: str, dies_at: float, said: list[str]
) -> None:
    class Dying:
        asked = 0
        binary = SimpleNamespace(name="ours")
        process = SimpleNamespace(returncode=-11)

        @property
        def has_died(self) -> bool:
            self.asked += 1
            return self.asked >= dies_at

        def errors(self) -> str:
            return "mysqld got signal 11"

    monkeypatch.setattr(life, "DEATH_SEC", 0.3)
    clients = life.Clients.__new__(life.Clients)
    clients._clients = {}
    clients._rebuilder = cast("rebuild.Rebuilder", SimpleNamespace(title="rebuild", defect=defect, ended_by=ended_by))
    clients._server = cast("Server", Dying())
    assert clients.note_ended() == (DIED not in said)
    assert clients._ended == said
