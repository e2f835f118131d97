# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The experiment on a busy server that is killed: what makes it a crash that is worth measuring, and what is measured."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pymysql
import pytest

from bench import html, logs, report, results, sysbench
from bench.experiments import outage, redo
from bench.experiments.binlog import Binlog
from bench.experiments.undo import Undo
from bench.results import Run
from bench.server import Server, StartTimes
from bench.tables import Tables
from bench.tests.helpers import log_lines, make_document
from redstart_cli.tools import ToolError

MIB = 1 << 20
TABLES = Tables(1000, 3)
OPTIONS = outage.Options(TABLES, 100, 5000, 512, 60, 64, 100_000, 60, 30, ())
RECIPE = outage.Outage(TABLES, redo.Redo(5000, 60), Undo(200_000), Binlog(64))
TO_UNDO = "2 transaction(s) which must be rolled back or cleaned up in total {} row operations to undo"
LEFT = log_lines("mysql-outage-start.log")


def as_server(**parts: Any) -> Server:
    return cast(Server, SimpleNamespace(log=Path("error.log"), **parts))


def make_outage(subject: str, **metrics: float) -> Run:
    parameters = {"tables": 1000, "tables_queried": 100, "log_bin": "on"}
    run = Run("outage", subject, "crash", 1, parameters, "2026-11-25T10:00:00+00:00", ["mysqld"])
    run.metrics |= {"before_tps": 1000.0, **metrics}
    return run


def test_only_the_many_tables_are_not_copied() -> None:
    kept = ("bench/t.ibd", "sbtest/sbtest1.ibd", "mysql.ibd", "binlog.000001", "bench0000/made_last.ibd")
    assert [name for name in kept if not RECIPE.keeps_copy(name)] == []
    assert not RECIPE.keeps_copy("bench0001/t0000001.ibd")
    assert RECIPE.key == "outage-1000t-3s-redo-8x5000r-undo-200000r"
    assert RECIPE.final_bytes < RECIPE.peak_bytes


def test_transactions_that_are_left() -> None:
    assert logs.parse_unfinished(LEFT) == logs.Unfinished(100_000, 100_000)
    assert logs.parse_unfinished([]) == logs.Unfinished(0, 0)
    many = logs.LogLine(0.0, "Note", "", TO_UNDO.format("1200M"))
    assert logs.parse_unfinished([many]).rows_open == 1_200_000_000


def test_options_of_a_running_server() -> None:
    said: list[str] = []
    known = {"innodb_io_capacity", "innodb_adaptive_flushing"}
    server = as_server(query=said.append, binary=SimpleNamespace(knows=known.__contains__))
    outage.set_options(server, ("--innodb-io-capacity=100", "--loose-innodb-idle-flush-pct=0", "--innodb-adaptive-flushing=OFF"))
    assert said == ["SET GLOBAL innodb_io_capacity = 100", "SET GLOBAL innodb_adaptive_flushing = OFF"]


class Committing:
    """A server and a connection whose COMMIT writes so many bytes to a binary log, slowly, until the server is killed."""

    def __init__(self, log: Path, size: int, dies_at: int | None = None) -> None:
        self.log, self.size, self.dies_at = log, size, dies_at
        self.killed = threading.Event()

    def kill(self) -> None:
        self.killed.set()

    def query(self, statement: str) -> None:
        assert statement == "COMMIT"
        with open(self.log, "ab", buffering=0) as file:
            for number in range(self.size // 100):
                if self.killed.wait(0.001) or number * 100 == self.dies_at:
                    raise pymysql.OperationalError(2013, "Lost connection")
                file.write(bytes(100))


def _commit(log: Path, size: int, most: int, dies_at: int | None = None) -> Committing:
    log.write_bytes(bytes(1000))
    found = Committing(log, size, dies_at)
    outage.kill_in_commit(cast(Server, found), cast(Any, found), log, most)
    return found


def test_the_server_is_killed_while_the_transaction_is_written(tmp_path: Path) -> None:
    log = tmp_path / "binlog.000002"
    found = _commit(log, 100_000, 2000)
    assert found.killed.is_set()
    assert 3000 <= log.stat().st_size < 60_000


def test_a_transaction_that_has_ended_is_no_crash(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="had ended before the server was killed"):
        _commit(tmp_path / "binlog.000002", 1000, 2000)


def test_a_server_that_dies_by_itself_is_no_crash(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="had ended before the server was killed"):
        _commit(tmp_path / "binlog.000002", 100_000, 90_000, dies_at=1000)


def test_a_commit_that_hangs_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outage, "COMMIT_TIMEOUT_SEC", 0.1)
    with pytest.raises(ToolError, match="was not written to binlog.000002"):
        _commit(tmp_path / "binlog.000002", 100_000, 90_000)


def test_the_throughput_before_is_that_of_a_warm_server() -> None:
    seconds = [f"[ {second}s ] thds: 8 tps: {100 if second <= 8 else 500 + second}.00 qps: 1" for second in range(1, 13)]
    assert outage.throughput("\n".join(seconds), 12) == 510.5
    assert outage.throughput("\n".join(seconds[:10]), 12) == 509.5
    with pytest.raises(ToolError, match="1 of the last seconds only"):
        outage.throughput("\n".join(seconds[:9]), 12)


def test_waiting_ends() -> None:
    outage.wait_until(lambda: True, 0.0, "never")
    with pytest.raises(ToolError, match=r"the pages were not written out in 0 s"):
        outage.wait_until(lambda: False, 0.1, "the pages were not written out")


ANSWERS: dict[str, list[tuple[Any, ...]]] = {
    "SHOW BINARY LOGS": [("binlog.000001", 200, "No"), ("binlog.000002", 70 * MIB, "No"), ("binlog.000003", 158, "No")],
    outage.KNOWN_TABLES: [(1001, 1)],
    "SELECT COUNT(*) FROM bench.t WHERE v <> 0": [(0,)],
}
START = logs.Start({}, None, None, None, None, True)
REDO_LINES = log_lines("mysql-redo-start.log")


def _judged(
    changed: dict[str, list[tuple[Any, ...]]] | None = None,
    lines: list[logs.LogLine] = [*REDO_LINES, *LEFT],  # noqa: B006
    start: logs.Start = START,
    options: outage.Options = OPTIONS,
) -> Run:
    run = make_outage("stock")
    answers = ANSWERS | (changed or {})
    outage.judge(run, as_server(query=answers.__getitem__, read_log=lambda: lines), start, options)
    return run


def test_a_start_that_found_everything_counts() -> None:
    run = _judged()
    assert run.ok, run.problems
    assert run.metrics["redo_bytes"] == 82829657 - 19445853
    assert (run.metrics["binlog_bytes"], run.metrics["rows_open"], run.metrics["rows_prepared"]) == (70 * MIB, 100_000, 100_000)


def test_the_end_of_the_binary_log_is_torn_on_purpose_and_nothing_else() -> None:
    run = make_outage("mariadb")
    run.problems = [f"the error log says: {text}" for text in (f"{outage.TORN_BINLOG}, data_len: 8174", "Something else")]
    outage.judge(run, as_server(query=ANSWERS.__getitem__, read_log=lambda: [*REDO_LINES, *LEFT]), START, OPTIONS)
    assert run.problems == ["the error log says: Something else"]


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"SHOW BINARY LOGS": [("b.1", 64 * MIB - 1), ("b.2", 158)]}, "last binary log had 67,108,863 bytes, 64 MiB"),
        ({"SHOW BINARY LOGS": [("b.2", 70 * MIB)]}, "last binary log had 0 bytes"),
        ({outage.KNOWN_TABLES: [(0, None)]}, "0 tables are known"),
        ({outage.KNOWN_TABLES: [(1000, 1)]}, "1,000 tables are known"),
        ({outage.KNOWN_TABLES: [(1001, 0)]}, "0 of them made last"),
        ({"SELECT COUNT(*) FROM bench.t WHERE v <> 0": [(100_000,)]}, "never committed"),
    ],
)
def test_a_server_that_is_not_what_it_was_does_not_count(changed: dict[str, list[tuple[Any, ...]]], problem: str) -> None:
    (said,) = _judged(changed).problems
    assert problem in said


def test_a_start_without_what_a_crash_leaves_does_not_count() -> None:
    assert _judged(lines=LEFT).problems == ["no redo was applied"]
    assert _judged(start=logs.Start({}, None, None, None, None, False)).problems == ["no redo was applied"]
    nothing = [line for line in REDO_LINES if "Applying a batch" not in line.text]
    assert _judged(lines=[*nothing, *LEFT]).problems == ["no redo was applied"]
    more = outage.Options(TABLES, 100, 5000, 512, 80, 64, 100_000, 60, 30, ())
    assert "80 MiB were wanted" in _judged(options=more).problems[0]
    assert "an open transaction" in _judged(lines=[*REDO_LINES, *LEFT[1:]]).problems[0]
    (said,) = _judged(lines=[*REDO_LINES, *LEFT[:3]]).problems
    assert said == "a prepared transaction of 100,000 rows was wanted, 4 rows were found"


def _rates(*rates: float) -> list[tuple[float, float]]:
    return [(100.0 + second, rate) for second, rate in enumerate(rates, 1)]


def test_the_load_is_back_when_it_is_steady() -> None:
    assert outage.reached(_rates(900, 900, 900, 900), 900) is None
    assert outage.reached(_rates(0, 900, 900, 900, 900, 900), 900) == 101.0
    assert outage.reached(_rates(0, 4500, 0, 0, 0, 0), 900) == 100.0
    assert outage.reached(_rates(*[899.0] * 50), 900) is None


class FakeRunning:
    """A load with these seconds."""

    def __init__(self, rates: list[tuple[float, float]]) -> None:
        self.rates = rates
        self.is_bad = False

    def check(self) -> None:
        if self.is_bad:
            raise ToolError("sysbench ended with 1")


def _come_back(monkeypatch: pytest.MonkeyPatch, running: FakeRunning, first_query: float) -> Run:
    asked: list[list[str]] = []

    def ask(server: Server, statements: list[str], timeout_sec: float) -> Any:
        asked.append(statements)
        return SimpleNamespace(end=107.5)

    monkeypatch.setattr(outage.load, "ask", ask)
    monkeypatch.setattr(outage.sysbench, "Running", lambda words: contextlib.nullcontext(running))
    run = make_outage("stock")
    times = StartTimes(95.0, first_query - 0.1, first_query)
    outage.come_back(run, as_server(socket=Path("s")), times, OPTIONS, 10)
    assert len(set(asked[0])) == OPTIONS.used
    return run


def test_what_users_wait_for(monkeypatch: pytest.MonkeyPatch) -> None:
    run = _come_back(monkeypatch, FakeRunning(_rates(100, 950, 900, 900, 900, 900, 200)), 100.0)
    assert (run.metrics["tables_answered_s"], run.metrics["load_back_s"]) == (12.5, 6.0)
    assert (run.metrics["after_tps_001"], run.metrics["after_tps_007"]) == (100, 200)
    assert run.notes == []


def test_a_load_that_does_not_come_back_in_time_has_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    run = _come_back(monkeypatch, FakeRunning(_rates(*[800.0] * 20)), 100.0)
    assert "load_back_s" not in run.metrics
    assert run.ok
    assert run.notes == [
        "900 transactions/s, 90% of those before, were not reached 30 s after the first query; the best second had 800"
    ]


def test_a_load_that_fails_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    running = FakeRunning([])
    running.is_bad = True
    with pytest.raises(ToolError, match="sysbench ended"):
        _come_back(monkeypatch, running, time.time())


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], list[str]]]:
    """Makes a program that says something, in place of sysbench."""

    def make(text: str) -> list[str]:
        path = tmp_path / "program"
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return [str(path)]

    monkeypatch.setattr(sysbench.tools, "need", lambda *names: None)
    yield make


def test_a_running_load_tells_of_each_second(script: Callable[[str], list[str]]) -> None:
    words = script("echo '[ 1s ] thds: 8 tps: 12.50 qps: 3'; sleep 0.3; echo '[ 2s ] thds: 8 tps: 99.00 qps: 3'; sleep 100")
    begin = time.time()
    with sysbench.Running(words) as running:
        while len(running.rates) < 2:
            running.check()
            assert time.time() < begin + 20
            time.sleep(0.01)
    (first, one), (second, two) = running.rates
    assert (one, two) == (12.5, 99.0)
    assert begin <= first <= second - 0.2
    assert time.time() < begin + 30


def test_a_load_that_ends_says_why(script: Callable[[str], list[str]]) -> None:
    words = script("echo 'FATAL: no table' >&2; exit 3")
    with sysbench.Running(words) as running, pytest.raises(ToolError, match="3: FATAL: no table"):
        for _ in range(1000):
            running.check()
            time.sleep(0.01)


def test_a_load_is_waited_for_until_it_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redo, "LOAD_TIMEOUT_SEC", 0.1)
    seen: list[float] = []

    def is_enough(elapsed: float) -> bool:
        seen.append(elapsed)
        return len(seen) == 2

    redo.wait_for(Future(), is_enough, "5 MiB of redo")
    assert 0 <= seen[0] < seen[1]
    with pytest.raises(ToolError, match="5 MiB of redo did not come together"):
        redo.wait_for(Future(), lambda elapsed: False, "5 MiB of redo")


def test_the_report_shows_it(tmp_path: Path) -> None:
    slow = make_outage("stock", first_query_s=60.0, tables_answered_s=70.0, redo_bytes=60.0 * MIB)
    slow.notes.append("900 transactions/s were not reached")
    fast = make_outage("all-on", first_query_s=6.0, tables_answered_s=9.0, load_back_s=20.0, redo_bytes=61.0 * MIB)
    document = make_document([slow, fast])
    (grid,) = report.grids(document)
    assert "log bin on" in grid.caption
    rows = [dict(zip(grid.headings, row, strict=True)) for row in grid.rows]
    assert [row["90 % of the load, s"] for row in rows] == ["-", "20.0"]
    assert [row["first query, s"] for row in rows] == ["60.00", "6.00"]
    assert rows[1]["speed (stock = 1)"] == "10.00"
    assert grid.remarks == ["stock, round 1: 900 transactions/s were not reached"]
    assert html.html([document]).count("Outage: profile local") == 3
    results.save(document, tmp_path / "out.json")
    fast.parameters["log_bin"] = "perhaps"
    with pytest.raises(ToolError, match="not a bench document"):
        results.save(document, tmp_path / "out.json")
