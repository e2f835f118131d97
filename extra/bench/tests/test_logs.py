# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Error logs of real starts."""

from __future__ import annotations

import pytest

from bench import logs
from bench.tests.helpers import log_lines


def test_the_last_texts_are_few_short_and_different() -> None:
    hung = [f"no free blocks ({number} iterations)" for number in range(9)]
    assert logs.last(["begin", *hung, "x" * 10 + " y" * 300]) == ["begin", hung[-1], "x" * 10 + " y" * 143 + " ..."]
    assert logs.last([str(chr(97 + number)) for number in range(9)]) == list("efghi")
    assert logs.last([]) == []


def test_phases_and_counts_of_a_crash_start() -> None:
    lines = log_lines("mysql-crash-start.log")
    ready = next(line for line in lines if logs.is_ready(line)).time
    start = logs.parse_start(lines, lines[0].time, ready)
    seconds = {name: end - begin for name, (begin, end) in start.phases.items()}
    assert list(seconds) == [name for name in logs.PHASES if name not in ("checks", "upgrade")]
    assert seconds["listing"] == pytest.approx(0.204, abs=0.001)
    assert seconds["check"] == pytest.approx(0.866, abs=0.001)
    assert seconds["validate"] == pytest.approx(2.415, abs=0.001)
    assert sum(seconds.values()) == pytest.approx(ready - lines[0].time)
    assert (start.files_checked, start.threads) == (20004, 3)
    assert (start.tablespaces, start.validated) == (20006, 20006)
    assert start.recovered
    assert logs.errors(lines) == []


def test_an_upgrade_has_phases_of_its_own() -> None:
    lines = log_lines("mysql-upgrade-start.log")
    start = logs.parse_start(lines, lines[0].time, lines[-1].time)
    seconds = {name: end - begin for name, (begin, end) in start.phases.items()}
    assert list(seconds) == [name for name in logs.PHASES if name != "listing"]
    assert seconds["validate"] == pytest.approx(0.001, abs=0.001)
    assert seconds["checks"] == pytest.approx(0.240, abs=0.001)
    assert seconds["upgrade"] == pytest.approx(7.729, abs=0.001)
    assert seconds["finish"] == pytest.approx(0.212, abs=0.001)


def test_without_the_line_on_threads_listing_belongs_to_check() -> None:
    lines = [line for line in log_lines("mysql-crash-start.log") if "threads to" not in line.text]
    start = logs.parse_start(lines, lines[0].time, lines[-1].time)
    assert "listing" not in start.phases
    begin, end = start.phases["check"]
    assert end - begin == pytest.approx(1.071, abs=0.001)
    assert start.threads is None


def test_a_start_that_says_nothing_is_one_phase() -> None:
    start = logs.parse_start([], 10.0, 12.5)
    assert start.phases == {"boot": (10.0, 12.5)}
    assert not start.recovered


def test_lines_behind_the_progress_of_a_rollback_are_read() -> None:
    line = logs.parse_line(
        " 32026-11-21T10:16:30.885899Z 0 [System] [MY-010931] [Server] mysqld: ready for "
        "connections. Version: '9.7.4-2'",
        0.0,
    )
    assert line is not None
    assert logs.is_ready(line)
    assert line.time == pytest.approx(1795256190.885899)


def test_resurrection() -> None:
    lines = log_lines("mysql-undo-start.log")
    found = logs.parse_resurrection(lines)
    assert found is not None
    assert (found.records, found.pages) == (400000, 3417)
    assert found.end - found.begin == pytest.approx(0.285, abs=0.001)
    assert logs.parse_resurrection(log_lines("mysql-crash-start.log")) is None
    assert any(logs.is_ready(line) for line in lines)


def test_rollback() -> None:
    begin = logs.LogLine(1.0, "Note", "MY-013011", "Rolling back trx with id 1811, 400000 rows")
    end = logs.LogLine(3.5, "Note", "MY-013015", "Rollback of non-prepared transactions completed")
    assert logs.parse_rollback([begin, end]) == (1.0, 3.5)
    assert logs.parse_rollback([begin]) is None
    assert logs.parse_rollback(log_lines("mysql-crash-start.log")) is None


def test_the_load_of_the_buffer_pool() -> None:
    begin = logs.LogLine(1.0, "Note", "", "Loading buffer pool(s) from /d/ib_buffer_pool")
    middle = logs.LogLine(2.0, "Note", "", "Buffer pool load: read 5 pages with 1 reads")
    end = logs.LogLine(3.5, "Note", "", "Buffer pool(s) load completed at 261125 17:00:00")
    assert logs.parse_pool_load([begin, middle, end]) == (1.0, 3.5)
    assert logs.parse_pool_load([begin, middle]) is None


def test_mariadb_lines_take_the_time_they_were_seen() -> None:
    lines = log_lines("mariadb-crash-start.log", seen=123.0)
    assert {line.time for line in lines} == {123.0}
    assert any(logs.is_ready(line) for line in lines)
    assert logs.parse_start(lines, 120.0, 123.0).recovered


def test_errors_and_the_x_plugin() -> None:
    stamp = "2026-11-21T10:16:30.885899Z 0"
    error = logs.parse_line(f"{stamp} [ERROR] [MY-012209] [InnoDB] Multiple files found", 0.0)
    plugin = logs.parse_line(
        f"{stamp} [System] [MY-011323] [Server] X Plugin ready for connections.", 0.0
    )
    assert error is not None and plugin is not None
    assert logs.errors([error, plugin]) == ["Multiple files found"]
    assert not logs.is_ready(plugin)
    assert logs.parse_line("Version: '10.11'", 0.0) is None


def test_phases_of_several_starts_stand_in_order() -> None:
    """Stock's log says nothing of the listing where files are few, and stock comes first."""
    assert logs.in_order(["boot", "check", "other", "boot", "listing", "check"]) == ["boot", "listing", "check", "other"]
