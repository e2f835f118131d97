# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""What a client takes for a defect, and how much it writes at once."""

from __future__ import annotations

import random
import re
import threading
from collections import Counter
from pathlib import Path
from unittest import mock

import pymysql
import pytest

from torture import load
from torture.load import (
    DOC_IDS,
    DOC_ROWS,
    MAX_BYTES,
    MAX_DOC_STEP,
    PART_BYTES,
    Book,
    Client,
    Copies,
    Defect,
    Planner,
    discarded_files,
    opening_states,
    purge_position,
    stray_undo,
)
from torture.oracle import History, Journal, Op, State, Step, Table


def client_of(tmp_path: Path, **changes: object) -> Client:
    history = History(0, State(tables={"w": Table()}))
    book = Book(Journal(tmp_path / "journal", [history]), lambda: 0, threading.Event(), Copies(tmp_path, tmp_path / "copies"))
    for name, value in changes.items():
        setattr(book, name, value)
    return Client(tmp_path / "s", history, 0, Planner(0, random.Random(1), ["plain"]), book)


def timed_out() -> pymysql.err.OperationalError:
    """What pymysql raises after its time-out."""
    try:
        try:
            raise TimeoutError("timed out")
        except TimeoutError as slow:
            raise pymysql.err.OperationalError(2013, "Lost connection to MySQL server during query") from slow
    except pymysql.err.OperationalError as problem:
        return problem


def test_a_server_that_lives_and_does_not_answer_is_a_defect(tmp_path: Path) -> None:
    problem = timed_out()
    assert not client_of(tmp_path)._book.excuses(problem)
    assert client_of(tmp_path, has_died=lambda: True)._book.excuses(problem)
    assert client_of(tmp_path, errors_are_expected=True)._book.excuses(problem)
    assert client_of(tmp_path)._book.excuses(pymysql.err.OperationalError(2013, "Lost connection"))


@pytest.mark.parametrize("code", [1053, 1180, 1317, 1402, 1528, 1533, 1927])
def test_some_errors_come_only_with_a_shutdown(tmp_path: Path, code: int) -> None:
    problem = pymysql.err.OperationalError(code, "x")
    assert not client_of(tmp_path)._book.excuses(problem)
    assert client_of(tmp_path, is_ending=True)._book.excuses(problem)
    assert not client_of(tmp_path, is_ending=True)._book.excuses(pymysql.err.OperationalError(1146, "x"))
    cut_off = pymysql.err.InternalError(1815, "Internal error: Cannot reset LSNs in table `c2`.`t3` : Operation interrupted")
    assert client_of(tmp_path, is_ending=True)._book.excuses(cut_off)
    assert not client_of(tmp_path, is_ending=False)._book.excuses(cut_off)
    assert not client_of(tmp_path, is_ending=True)._book.excuses(pymysql.err.InternalError(1815, "Internal error: x"))


def test_an_update_writes_no_more_than_a_client_may_hold() -> None:
    planner = Planner(0, random.Random(1), ["plain"])
    rows = dict.fromkeys(range(400), (0, 10))
    state = State(tables={"w": Table(rows=dict(rows))})
    updates = [op for _ in range(3000) if (op := planner._change(state, True))[0] == "update"]
    written = [length * sum(low <= row < high for row in rows) for _, _, low, high, length in updates]
    assert MAX_BYTES // 2 < max(written) * PART_BYTES <= MAX_BYTES


def test_numbers_of_documents_only_grow_and_fit() -> None:
    planner, state, highest = Planner(0, random.Random(2), ["plain"]), opening_states()[0], 0
    written: Counter[str] = Counter()
    for number in range(MAX_DOC_STEP + 200):
        step = planner.next(state, number)
        docs = [op for op in within(step.ops) if op[1] == "d" and op[0] in ("insert", "update")]
        assert len(docs) <= 1
        for kind, _, low, high, _ in docs:
            assert number < MAX_DOC_STEP and 0 < high - low <= DOC_ROWS < DOC_IDS
            (text,) = load.statements(0, number, [kind, "d", low, high, 1])
            (shown,) = re.findall(r"(\d+) \+ id - (\d+)", text)
            assert highest < int(shown[0]) and int(shown[1]) == low
            highest = int(shown[0]) + high - 1 - low
            written[kind] += 1
        state.apply(step)
    assert highest <= 65535
    assert min(written["insert"], written["update"]) > 50
    # A table whose numbers are InnoDB's own has none in its statements.
    assert "FTS_DOC_ID" not in load.statements(1, 3, ["insert", "f", 1, 2, 1])[0]


def within(ops: list[Op]) -> list[Op]:
    return [one for op in ops for one in (within(op[1]) if op[0] == "undone" else [op])]


def test_definitions_of_texts_never_take_them_away() -> None:
    for client, (name, variant) in load.TEXTS.items():
        planner, state, kinds = Planner(client, random.Random(5), ["plain"]), opening_states()[client], Counter[str]()
        for number in range(2000):
            step = planner.next(state, number)
            if step.kind == "ddl" and step.ops[0][1] == name:
                kinds[step.ops[0][0]] += 1
            state.apply(step)
        # MySQL may give the numbers of rows again that are deleted while there is no index.
        index = {"index", "unindex"} if variant == load.DOCS else set()
        assert kinds.keys() == {"optimize", "rebuild", "truncate"} | index
        assert abs(kinds["index"] - kinds["unindex"]) <= 1
        assert state.tables[name].variant == variant


def test_a_text_with_numbers_of_innodb_is_made_anew_before_all_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def planner_of(client: int, **more: bool) -> Planner:
        return Planner(client, random.Random(1), ["plain"], **more)

    assert [planner_of(client).first() for client in range(3)] == [[], [["rebuild", "f", "COPY"]], []]
    assert planner_of(1, has_definitions=False).first() == []
    state = opening_states()[1]
    client = Client(tmp_path / "s", History(1, state), 5, planner_of(1), client_of(tmp_path)._book)
    done: list[Step] = []

    def do(step: Step) -> bool:
        done.append(step)
        if len(done) == 4:
            client._book.stop.set()
        return len(done) > 1  # the first is refused

    monkeypatch.setattr(client, "_do", do)
    monkeypatch.setattr(load, "connect", lambda _: mock.MagicMock())
    client.run()
    assert not client.defect
    assert [step.ops == [["rebuild", "f", "COPY"]] for step in done] == [True, True, False, False]
    assert [step.number for step in done] == [5, 6, 7, 8]


@pytest.mark.parametrize("client", [0, 1])
def test_plain_transactions_leave_texts_alone(client: int) -> None:
    planner, state = Planner(client, random.Random(4), ["plain"], has_definitions=False), opening_states()[client]
    for number in range(500):
        step = planner.next(state, number)
        assert not any(op[1] == load.TEXTS[client][0] for op in within(step.ops))
        state.apply(step)


def test_an_error_that_optimize_answers_is_a_defect(tmp_path: Path) -> None:
    class Answering:
        def execute(self, _: str) -> None:
            pass

        def fetchall(self) -> list[tuple[str, ...]]:
            return [("c0.d", "optimize", "error", "Lock wait timeout"), ("c0.d", "optimize", "status", "Operation failed")]

    step = Step(1, "ddl", [["optimize", "d"]])
    client = client_of(tmp_path)
    client._cursor = Answering()
    with pytest.raises(Defect, match="OPTIMIZE TABLE: Lock wait timeout"):
        client._run(step)
    client._book.is_ending = True
    client._run(step)


def test_files_come_back_as_they_were_taken(tmp_path: Path) -> None:
    (tmp_path / "c0").mkdir()
    copies = Copies(tmp_path, tmp_path / "away")
    for suffix in (".ibd", ".cfg"):
        (tmp_path / f"c0/t{suffix}").write_text(suffix)
    copies.take(0, "t")
    (tmp_path / "c0/t.ibd").unlink()
    (tmp_path / "c0/t.cfg").write_text("another")
    copies.give(0, "t")
    assert {path.name: path.read_text() for path in (tmp_path / "c0").iterdir()} == {"t.ibd": ".ibd", "t.cfg": ".cfg"}
    copies.remove(0, "t")
    copies.remove(0, "t")
    assert not list((tmp_path / "c0").iterdir())
    assert discarded_files(tmp_path, [State(tables={"t": Table(is_discarded=True), "u": Table()})]) == {
        tmp_path / "c0/t.ibd"
    }


def test_files_that_cannot_be_copied_are_a_defect_unless_the_server_ends(tmp_path: Path) -> None:
    step = Step(0, "ddl", [["import", "t"]])
    with pytest.raises(Defect, match=r"cannot give the files of c0\.t"):
        client_of(tmp_path)._run(step)
    with pytest.raises(FileNotFoundError):
        client_of(tmp_path, is_ending=True)._run(step)


STATUS = "Trx id counter {}\nPurge done for trx's n:o < {} undo n:o < 0 state: running but idle\n"


class Purging:
    """A cursor of a server whose purge is some transactions further each time it is asked."""

    def __init__(self, behind: int, step: int) -> None:
        self.asked = 0
        self._behind, self._step = behind, step

    def execute(self, text: str) -> None:
        assert text == "SHOW ENGINE INNODB STATUS"
        self.asked += 1

    def fetchone(self) -> tuple[str, str, str]:
        # Transactions go on.
        return "InnoDB", "", STATUS.format(1000 + self.asked, 1001 - self._behind + self._step * (self.asked - 1))


@pytest.mark.parametrize(("behind", "asked"), [(0, 1), (30, 4), (31, 5)])
def test_an_imported_table_is_used_when_purge_has_seen_the_import(
    behind: int, asked: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(load, "PURGE_POLL_SEC", 0)
    client = client_of(tmp_path)
    client._cursor = Purging(behind, 10)
    client._wait_for_purge()
    assert client._cursor.asked == asked


def test_a_purge_that_stands_still_is_a_defect(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(load, "PURGE_POLL_SEC", 0)
    monkeypatch.setattr(load, "PURGE_WAIT_SEC", 0.01)
    client = client_of(tmp_path)
    client._cursor = Purging(1, 0)
    with pytest.raises(Defect, match="has not reached transaction 1001"):
        client._wait_for_purge()
    with pytest.raises(Defect, match="does not say"):
        purge_position("Trx id counter 5")
    client._book.stop.set()
    client._wait_for_purge()


def test_no_undo_tablespace_is_made_beside_a_stray_file(tmp_path: Path) -> None:
    for name in ("u1.ibu", "u7.ibu", "t.ibd"):
        (tmp_path / name).touch()
    assert stray_undo(tmp_path, {"u1"}) == {"u7"}
    assert stray_undo(tmp_path, {"u1", "u7"}) == set()
    state = State(tables={"c0.w": Table()})
    made = {
        may: [
            op[0]
            for number in range(300)
            for op in Planner(load.BUILDER, random.Random(number), ["plain"], may_create_undo=may).next(state, number).ops
        ]
        for may in (True, False)
    }
    assert "undo-create" in made[True] and not any(kind.startswith("undo") for kind in made[False])
    state.undo = {"u1"}
    kinds = {Planner(load.BUILDER, random.Random(n), ["plain"], may_create_undo=False).next(state, n).ops[0][0] for n in range(300)}
    assert "undo-drop" in kinds and "undo-create" not in kinds


def test_what_is_built_in_the_file_of_a_table() -> None:
    builds: list[Op] = [["index", "t", "v"], ["rebuild", "t", "INPLACE"]]
    copies: list[Op] = [["rebuild", "t", "COPY"], ["rebuild", "t", "DEFAULT"]]
    others: list[Op] = [*copies, ["index", "t", load.TEXT_INDEX], ["unindex", "t", "v"]]
    assert [load._is_build(op) for op in builds + others] == [True, True, False, False, False, False]
