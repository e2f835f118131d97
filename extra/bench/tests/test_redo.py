# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The experiment on redo."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bench import logs, report, sysbench
from bench.errors import BenchError
from bench.experiments import redo
from bench.server import Server
from bench.tests.helpers import log_lines, make_document, make_run

OPTIONS = redo.Options(1000, 100, None, 128, 0, ())


def test_redo_of_mysql() -> None:
    found = logs.parse_redo(log_lines("mysql-redo-start.log"))
    assert found is not None
    assert found.bytes == 82829657 - 19445853
    assert (found.batches, found.pages) == (2, 2395 + 2191)
    assert found.apply_s == pytest.approx(1.253 + 0.746, abs=0.001)
    assert found.end - found.begin == pytest.approx(3.471, abs=0.001)


def test_redo_of_mariadb() -> None:
    found = logs.parse_redo(log_lines("mariadb-crash-start.log", seen=7.0))
    assert found == logs.Redo(7.0, 7.0, 4129478 - 4104044, 102, None, None)


def test_a_start_without_redo() -> None:
    assert logs.parse_redo([]) is None
    lines = [line for line in log_lines("mysql-redo-start.log") if "crash recovery." not in line.text]
    assert logs.parse_redo(lines) is None


def test_transactions_of_each_second() -> None:
    text = "[ 1s ] thds: 8 tps: 120.50 qps: 723.0 (r/w/o: 0/1/2)\n[ 2s ] thds: 8 tps: 99.00 qps: 5\nSQL statistics:\n"
    assert sysbench.parse_seconds(text) == {1: 120.5, 2: 99.0}


def test_states_differ_by_load_and_pool() -> None:
    more = redo.Options(1000, 100, 500, 128, 0, ())
    assert (OPTIONS.state, more.state) == ("crash-100s-pool-128m", "crash-500m-pool-128m")
    assert redo.Options(1000, 100, 500, 128, 0, (), crash_by="defaults").state == "crash-500m-pool-128m-by-defaults"


def _server(**status: int) -> Server:
    rows = [(name, str(value)) for name, value in status.items()]
    flavour = "mariadb" if "Innodb_checkpoint_age" in status else "mysql"
    return cast(Server, SimpleNamespace(query=lambda sql: rows, binary=SimpleNamespace(flavour=flavour)))


def test_the_load_goes_on_until_there_is_enough_redo() -> None:
    options = redo.Options(1000, 100, 5, 128, 0, ())
    load: Future[str] = Future()
    redo._wait(_server(Innodb_redo_log_current_lsn=6 << 20, Innodb_redo_log_checkpoint_lsn=1 << 20), load, options)
    redo._wait(_server(Innodb_checkpoint_age=5 << 20), load, options)
    timer = threading.Timer(0.2, load.set_result, [""])
    timer.start()
    with pytest.raises(BenchError, match="before the server was killed"):
        redo._wait(_server(Innodb_checkpoint_age=(5 << 20) - 1), load, options)
    timer.join()


def test_the_load_lasts_as_long_as_it_was_asked_to(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 99.0, 100.0])
    monkeypatch.setattr(redo, "time", SimpleNamespace(monotonic=lambda: next(clock), sleep=lambda seconds: None))
    redo._wait(_server(), Future(), OPTIONS)
    assert next(clock, None) is None


def test_a_load_that_fails_is_no_crash() -> None:
    load: Future[str] = Future()
    load.set_exception(BenchError("FATAL: no table"))
    with pytest.raises(BenchError, match="no table"):
        redo._wait(_server(), load, OPTIONS)


def _measured(monkeypatch: pytest.MonkeyPatch, options: redo.Options, lines: list[Any]) -> Any:
    """What _measure makes of a start with this log."""
    run = make_run("stock", 1, 5.0)

    def measure(*arguments: Any, **_: Any) -> None:
        arguments[-1](run, SimpleNamespace(lines=lines), SimpleNamespace(recovered=True))

    monkeypatch.setattr(redo.starts, "measure", measure)
    subject = cast(Any, SimpleNamespace(binary=SimpleNamespace(flavour="mysql")))
    redo._measure(cast(Any, None), cast(Any, None), subject, run, options, redo.Rows())
    return run


def test_a_start_with_less_redo_than_was_wanted_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = log_lines("mysql-redo-start.log")
    assert _measured(monkeypatch, redo.Options(1000, 100, 60, 128, 0, ()), lines).problems == []
    assert "80 MiB were wanted" in _measured(monkeypatch, redo.Options(1000, 100, 80, 128, 0, ()), lines).problems[0]
    assert _measured(monkeypatch, OPTIONS, []).problems == ["no crash recovery"]


def test_the_table_shows_redo(monkeypatch: pytest.MonkeyPatch) -> None:
    run = _measured(monkeypatch, OPTIONS, log_lines("mysql-redo-start.log"))
    run.experiment, run.mode, run.parameters = "redo", "crash", {"seconds": 100}
    grid = report.grids(make_document([run]))[0]
    cells = dict(zip(grid.headings, grid.rows[0], strict=True))
    assert (cells["ready, s"], cells["redo, MiB"], cells["redo, s"]) == ("5.00", "60", "3.47")
    assert (cells["applied, s"], cells["batches"], cells["pages"]) == ("2.00", "2", "4,586")


@pytest.mark.parametrize(("start_pool_mib", "option"), [(None, "128M"), (16, "16M")])
def test_a_start_may_have_another_pool(
    monkeypatch: pytest.MonkeyPatch, start_pool_mib: int | None, option: str
) -> None:
    options = []
    monkeypatch.setattr(redo.starts, "measure", lambda *arguments, **_: options.extend(arguments[-2]))
    subject = cast(Any, SimpleNamespace(binary=SimpleNamespace(flavour="mysql")))
    given = redo.Options(1000, 100, None, 128, 0, (), start_pool_mib)
    redo._measure(cast(Any, None), cast(Any, None), subject, make_run("stock", 1, 5.0), given, redo.Rows())
    assert options[-1] == f"--innodb-buffer-pool-size={option}"
    assert given.state == OPTIONS.state


def test_all_starts_must_have_the_same_rows() -> None:
    rows = redo.Rows()
    sums = [(f"sbtest.sbtest{number}", number) for number in range(1, redo.TABLES + 1)]

    def check(sums: list[Any], flavour: str = "mysql") -> Any:
        run = make_run("stock", 1, 5.0)
        rows.check(run, cast(Any, SimpleNamespace(query=lambda sql: sums)), flavour)
        return run

    first = check(sums)
    assert first.problems == [] and "tables_equal" not in first.metrics
    assert check(sums).problems == []
    assert check(sums).metrics["tables_equal"] == redo.TABLES
    other = [*sums[:-1], (sums[-1][0], 0)]
    assert check(other).problems == ["other rows than after the first start"]
    assert check(other, "mariadb").problems == []
    assert "no checksums" in check(sums[1:]).problems[0]
    assert "no checksums" in check([*sums[:-1], (sums[-1][0], None)]).problems[0]


@pytest.mark.parametrize("check_rows", [False, True])
def test_rows_are_checked_when_asked_for(monkeypatch: pytest.MonkeyPatch, check_rows: bool) -> None:
    checked = []
    monkeypatch.setattr(redo.Rows, "check", lambda self, run, server, flavour: checked.append(flavour))
    _measured(monkeypatch, redo.Options(1000, 100, 60, 128, 0, (), None, check_rows), log_lines("mysql-redo-start.log"))
    assert checked == ["mysql"] * check_rows
