# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The first-use experiment: what is asked, what is counted, and what makes a run wrong."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any, Self, cast

import pymysql
import pytest

from bench import html, load, report, results, stats
from bench.experiments import first_use, startup
from bench.logs import Start
from bench.results import Document, Run
from bench.server import Server, process_cpu_sec
from bench.subjects import MAP, Binary, Subject
from bench.tables import Tables
from bench.tests.helpers import make_document
from redstart_cli.tools import ToolError

TABLES = Tables(1000, 3)


class FakeServer:
    """Answers each statement after a while; `rows` are the answer to what a cursor asks."""

    log = Path("error.log")

    def __init__(self, rows: tuple[Any, ...] = (), bad: str = "", delay_sec: float = 0.0) -> None:
        self.rows = rows
        self.bad = bad
        self.delay_sec = delay_sec
        self.asked: Counter[str] = Counter()
        self.is_open: list[bool] = []
        self.is_killed = threading.Event()

    def connect(self, timeout_sec: float | None = None) -> FakeConnection:
        self.is_open.append(True)
        return FakeConnection(self, len(self.is_open) - 1)

    def kill(self) -> None:
        self.is_killed.set()


class FakeConnection:
    """A connection to a FakeServer, and its cursor."""

    def __init__(self, server: FakeServer, number: int) -> None:
        self._server = server
        self._number = number

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.is_open[self._number] = False

    def cursor(self) -> Self:
        return self

    def query(self, statement: str) -> None:
        if statement == self._server.bad:
            raise pymysql.OperationalError(1812, "Tablespace is missing")
        if self._server.is_killed.wait(self._server.delay_sec):
            raise pymysql.OperationalError(2013, "Lost connection")
        self._server.asked[statement] += 1

    execute = query

    def fetchall(self) -> list[tuple[Any, ...]]:
        return [self._server.rows]


def as_server(server: FakeServer) -> Server:
    return cast(Server, server)


def make_options(used: int = 100) -> first_use.Options:
    return first_use.Options(TABLES, used, ())


def make_first_use(subject: str, mode: str, ready: float, last: float, **metrics: float) -> Run:
    run = Run("first-use", subject, mode, 1, {"tables": 1000}, "2026-11-21T10:00:00", ["mysqld"])
    run.metrics |= {"ready_s": ready, "last_answer_s": last, "answers_s": last - ready, **metrics}
    return run


def test_percentiles() -> None:
    values = [float(number) for number in range(200, 0, -1)]
    assert stats.percentile(values, 50) == 100
    assert stats.percentile(values, 99) == 198
    assert stats.percentile(values, 100) == 200
    assert stats.percentile([7.0], 1) == 7


def test_different_tables_are_queried_all_over_the_schemas() -> None:
    found = first_use.statements(TABLES, 100)
    assert len(set(found)) == 100
    assert found == first_use.statements(TABLES, 100) != sorted(found)
    assert {statement.split(".")[0][-4:] for statement in found} == {"0000", "0001", "0002"}
    assert len(set(first_use.statements(TABLES, 1000))) == 1000
    assert first_use.statements(TABLES, 1) == ["SELECT 1 FROM bench0000.t0000000 LIMIT 1"]


def test_each_statement_is_asked_once_by_many_connections() -> None:
    server = FakeServer(delay_sec=0.002)
    wanted = first_use.statements(TABLES, 300)
    before = time.time()
    answers = load.ask(as_server(server), wanted, 10, connections=8)
    after = time.time()
    assert server.asked == Counter(wanted)
    assert len(answers.latencies_sec) == 300
    assert min(answers.latencies_sec) >= 0.002
    assert 300 / 8 * 0.002 <= answers.seconds < sum(answers.latencies_sec)
    assert before <= answers.end <= after
    assert server.is_open == [False] * 8
    assert not server.is_killed.is_set()


def test_a_query_that_fails_ends_all_of_them() -> None:
    wanted = first_use.statements(TABLES, 300)
    server = FakeServer(bad=wanted[20], delay_sec=0.002)
    with pytest.raises(ToolError, match="LIMIT 1: .*Tablespace is missing.* see error.log"):
        load.ask(as_server(server), wanted, 10, connections=8)
    assert server.is_killed.is_set()
    assert sum(server.asked.values()) < 300


def test_processor_time_of_a_process() -> None:
    before = process_cpu_sec(os.getpid())
    end = time.process_time() + 0.2
    while time.process_time() < end:
        pass
    assert 0.1 <= process_cpu_sec(os.getpid()) - before <= 0.4


def test_metrics_of_queries() -> None:
    run = make_first_use("stock", first_use.QUERIES, 1, 2)
    server = FakeServer(delay_sec=0.001)
    begin = time.time() - 5
    first_use.query(make_options(), run, as_server(server), begin, 10)
    first_use.query_no_table(make_options(), run, as_server(server), 10)
    assert sum(server.asked.values()) == 200
    assert server.asked[first_use.NO_TABLE] == 100
    metrics = run.metrics
    for prefix in ("", "no_table_"):
        p50, p99, most = (metrics[f"{prefix}latency_{name}_ms"] for name in ("p50", "p99", "max"))
        assert 1 <= p50 <= p99 <= most < 10_000
    assert metrics["answers_s"] > 0 < metrics["no_table_s"]
    assert 5 <= metrics["answered_p50_s"] <= metrics["answered_p99_s"] <= 5 + metrics["answers_s"] + 1


@pytest.mark.parametrize("mode", list(first_use.VIEWS))
def test_a_view_has_to_hold_every_table(mode: str) -> None:
    each = first_use.VIEWS[mode].bytes_per_table
    for rows, problems in (
        ((1000, 1000 * each), 0),
        ((999, 999 * each), 1),
        ((1000, 1000 * each - 1), 1),
        ((None, None), 1),
    ):
        run = make_first_use("map", mode, 1, 2)
        first_use.ask_view(make_options(), run, as_server(FakeServer(rows)), 10)
        assert len(run.problems) == problems
        assert (run.metrics["view_rows"], run.metrics["view_bytes"]) == tuple(value or 0 for value in rows)


def test_a_view_that_fails() -> None:
    view = first_use.VIEWS["files"]
    server = FakeServer((1, 1), bad=view.statement)
    with pytest.raises(ToolError, match="FILES: .*Tablespace is missing"):
        first_use.ask_view(make_options(), make_first_use("map", "files", 1, 2), as_server(server), 10)


@pytest.mark.parametrize(("value", "trusted", "problems"), [("ON", 1000, 0), ("ON", 999, 1), ("OFF", 0, 0)])
def test_a_map_that_is_not_used_is_not_measured(value: str, trusted: int, problems: int) -> None:
    binary = Binary(Path("/opt/mysqld"), None, "mysql", "9.7.4", {MAP: "ON"})
    subject = Subject("map", binary, {MAP: value}, "")
    run = make_first_use("map", first_use.QUERIES, 1, 2, recovered=0)
    run.status[first_use.TRUSTED] = str(trusted)
    item = startup.Prepared(subject, cast(Any, None), "clean-map", 1004)
    first_use.judge(run, Start({}, 1004, 1, None, None, False), item, make_options())
    assert len(run.problems) == problems


def document() -> Document:
    latencies = {"latency_p50_ms": 20.0, "latency_p99_ms": 90.0, "latency_max_ms": 95.0}
    return make_document(
        [
            make_first_use("stock", first_use.QUERIES, 4.0, 6.0, **latencies),
            make_first_use("map", first_use.QUERIES, 1.0, 3.0, **latencies),
            make_first_use("stock", "files", 4.0, 4.5),
        ]
    )


def test_report_has_the_columns_that_a_mode_has() -> None:
    queries, view = report.grids(document())
    assert queries.headings == [
        *("subject", "last answer, s", "ready, s", "queries, s", "50 %, ms", "99 %, ms", "longest, ms"),
        "speed (stock = 1)",
    ]
    assert queries.rows[1] == ["map", "3.00", "1.00", "2.00", "20.0", "90.0", "95.0", "2.00"]
    assert view.headings == ["subject", "last answer, s", "ready, s", "queries, s", "speed (stock = 1)"]


def test_plots(tmp_path: Path) -> None:
    text = html.html([document()])
    assert "First use: queries, profile local" in text
    assert "First use, latency: queries" in text
    assert "First use: files" in text
    assert "First use, latency: files" not in text
    results.save(document(), tmp_path / "out.json")


def test_a_map_is_waited_for(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="no tablespace map"):
        startup.wait_for_map(tmp_path / "map", 0.3)
    (tmp_path / "map").touch()
    with pytest.raises(ToolError, match="no tablespace map"):
        startup.wait_for_map(tmp_path / "map", 0.3)
    os.utime(tmp_path / "map", (0, time.time() - startup.MAP_QUIET_SEC - 1))
    startup.wait_for_map(tmp_path / "map", 0.3)
