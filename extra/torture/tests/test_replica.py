# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""A replica is counted only if it was compared, and only what MySQL does wrong itself is excused."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from redstart_cli.mysqld import Binary
from torture import replica as replicas
from torture.kill import KillLife
from torture.life import Rig
from torture.oracle import Verdict
from torture.replica import Replica
from torture.tests.helpers import FakeConnection

XA = (1399, "XAER_RMFAIL ... Query: 'ROLLBACK'")


class Fake(Replica):
    """Answers as it is told, one answer for each time that it is waited for."""

    def __init__(self, errors: list[tuple[int, str]], differences: list[list[str]], executed: list[int]) -> None:
        self._rig = Rig({}, "ours", Path(), [])
        self._server: Any = SimpleNamespace(binary=Binary("ours", []), errors=lambda: "", stop=lambda: "")
        self.problem = ""
        self._begin = 5
        self.errors, self.differences, self.executed = errors, differences, executed
        self.asked: list[str] = []

    def _ask(self, *texts: str) -> tuple[int]:
        self.asked += texts
        return (len(self.errors) > 0,)

    def _error(self) -> tuple[int, str]:
        return self.errors.pop(0)

    def _executed(self) -> int:
        return self.executed.pop(0) if len(self.executed) > 1 else self.executed[0]

    def _differences(self, states: object) -> list[str]:
        return self.differences.pop(0)


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> Any:
    class Connection(FakeConnection):
        def execute(self, _: str) -> None:
            pass

        def fetchone(self) -> tuple[str]:
            return ("a:1-9",)

    monkeypatch.setattr(replicas.load, "connect", lambda *_: Connection())
    return SimpleNamespace(socket=Path())


def test_a_replica_that_holds_the_same_is_counted(source: Any) -> None:
    fake = Fake([], [[], ["changed"]], [9])
    assert fake.compare(source, []) == Verdict()
    assert (fake._rig.counts.replicas, fake._rig.counts.replicated) == (1, 4)


@pytest.mark.parametrize(
    ("fake", "said"),
    [
        (Fake([], [["a row"]], [9]), "a row"),
        (Fake([], [[], []], [9]), "it was changed, and nothing differs"),
        (Fake([], [[]], [5]), "it has executed nothing"),
        (Fake([(1062, "Duplicate entry")], [], [9]), "it has stopped with error 1062: Duplicate entry"),
        (Fake([(1399, "Query: 'XA START'")], [], [9]), "it has stopped with error 1399"),
    ],
)
def test_anything_else_is_wrong_and_not_counted(fake: Fake, said: str, source: Any) -> None:
    verdict = fake.compare(source, [])
    assert said in verdict.wrong[0] and verdict.wrong[0].startswith("replica (ours): ")
    assert (fake._rig.counts.replicas, fake._rig.counts.replicated, verdict.known) == (0, 0, [])


def test_one_that_mysql_has_stopped_fetches_again(source: Any) -> None:
    fake = Fake([XA, XA], [[], ["changed"]], [6, 7, 9])
    verdict = fake.compare(source, [])
    assert verdict.wrong == [] and len(verdict.known) == 1 and fake._rig.counts.replicas == 1
    assert fake.asked.count("RESET REPLICA") == 2


COORDINATOR = "Coordinator stopped because there were error(s) in the worker(s)."


@pytest.mark.parametrize(
    ("status", "workers", "described"),
    [
        ((0, "", ""), [], (0, "")),
        ((0, "", "cannot connect"), [], (0, "cannot connect")),
        # What a worker has said of an earlier stop.
        ((0, "", "cannot connect"), [XA], (0, "cannot connect")),
        ((1399, COORDINATOR, ""), [(1062, "Duplicate"), XA], XA),
        ((1399, COORDINATOR, ""), [(1062, "Duplicate")], (1399, COORDINATOR)),
        # The worker that is named, and nobody else.
        ((1399, f"{COORDINATOR} Worker 2 failed", ""), [(1399, "an earlier one"), XA], XA),
        ((1399, f"{COORDINATOR} Worker 3 failed", ""), [XA, XA], (1399, f"{COORDINATOR} Worker 3 failed")),
    ],
)
def test_the_worker_says_what_it_did(status: Any, workers: Any, described: tuple[int, str]) -> None:
    answer = dict(zip(("Last_SQL_Errno", "Last_SQL_Error", "Last_IO_Error"), status, strict=True))
    names = ("WORKER_ID", "LAST_ERROR_NUMBER", "LAST_ERROR_MESSAGE")
    rows = [dict(zip(names, (number, *row), strict=True)) for number, row in enumerate(workers, 1)]
    assert replicas.describe_error(answer, rows) == described


def test_one_that_stands_still_is_wrong(source: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replicas, "STANDSTILL_SEC", -1)
    fake = Fake([(0, ""), (0, "cannot connect"), (0, "")], [], [7])
    assert "it executes nothing of what it lacks of a:1-9: cannot connect" in fake.compare(source, []).wrong[0]


@pytest.mark.parametrize(("problem", "uncompared", "wrong"), [("", 1, 0), ("it does not start", 0, 1)])
def test_what_is_known_of_the_source_excuses_no_other_problem(
    problem: str, uncompared: int, wrong: int, source: Any
) -> None:
    life = KillLife.__new__(KillLife)
    fake = Fake([], [], [9])
    fake.problem = problem
    life._rig, life._histories, life._verdict = fake._rig, [], Verdict(known=["prepared again"])
    life._compare(fake, source)
    assert (fake._rig.counts.uncompared, len(life._verdict.wrong)) == (uncompared, wrong)


def test_a_replica_that_has_died_is_wrong(source: Any) -> None:
    fake = Fake([], [], [9])
    fake._server.stop = lambda: "ours ended with -6 at its stop"
    assert fake.stop() == ["replica: ours ended with -6 at its stop"]
