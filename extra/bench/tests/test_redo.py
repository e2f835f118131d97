# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The experiment on redo."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from click.testing import CliRunner

from bench import cli, logs, report, subjects, sysbench
from bench.datadir import DataDir
from bench.experiments import redo
from bench.layout import Layout
from bench.results import Run
from bench.server import Server
from bench.subjects import Binary, Subject
from bench.tests.helpers import log_lines, make_document, make_run
from redstart_cli.tools import ToolError, Unavailable

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


class Bench:
    """A context with servers that are files, a data directory without tables, and a crash that takes no time."""

    def __init__(self, folder: Path, has_stock: bool = True) -> None:
        self.has_stock, self.folder = has_stock, folder
        self.datadirs = {flavour: DataDir(folder / f"data-{flavour}", lambda name: True) for flavour in ("mysql", "mariadb")}
        for datadir in self.datadirs.values():
            datadir.work.mkdir(parents=True)
            datadir.save_state("clean")
        for name in ("stock", "own", "mariadb"):
            (folder / name).write_text(name)
        self.makers: list[str] = []
        self.options: list[str] = []
        self.rounds = 1
        self.ui = SimpleNamespace(begin=lambda *_: 0, update=lambda *_, **__: None, end=lambda _: None)
        self.runs: list[Run] = []
        self.skipped: list[str] = []

    def own_binary(self) -> Binary:
        if not (self.folder / "own").exists():
            raise Unavailable("there is no server")
        return Binary(self.folder / "own", None, "mysql", "9.7.4", {subjects.REDO: "PARALLEL"})

    def stock_subject(self) -> Subject:
        if not self.has_stock:
            raise Unavailable("no stock")
        return Subject("stock", Binary(self.folder / "stock", None, "mysql", "9.7.4"), {}, "")

    def _subject(self, name: str) -> Subject:
        if name == "stock":
            return self.stock_subject()
        if name == "mariadb":
            return Subject(name, Binary(self.folder / name, None, name, "11.8"), {}, "")
        return subjects.own_subject(name, self.own_binary())

    def find_subjects(self, names: Sequence[str]) -> list[Subject]:
        return [self._subject(name) for name in names]

    def make_datadir(self, recipe: Any, binary: Binary) -> DataDir:
        return self.datadirs[binary.flavour]

    def make_state(
        self, datadir: DataDir, name: str, maker: Subject, act: Any, what: str, options: Sequence[str]
    ) -> None:
        if not datadir.has_state(name, maker.identity):
            self.makers.append(maker.name)
            self.options = [*options]
            datadir.save_state(name, maker.identity)

    def skip(self, what: str, error: Unavailable) -> None:
        self.skipped.append(what)

    def finish(self, run: Run, text: str) -> None:
        self.runs.append(run)


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., tuple[list[str], list[Run]]]]:
    """Runs the experiment with a Bench, and gives who was killed, and the runs."""

    def run(bench: Bench, *names: str, crash_by: str = "stock") -> tuple[list[str], list[Run]]:
        bench.makers, bench.runs = [], []
        redo.run(cast(Any, bench), redo.Options(1000, 100, None, 128, 0, names, crash_by=crash_by))
        return bench.makers, bench.runs

    for name in ("need", "need_root"):
        monkeypatch.setattr(redo.tools, name, lambda *_: None)
    monkeypatch.setattr(redo.starts, "measure", lambda *_, before, **__: before())
    monkeypatch.setattr(redo, "let_note_count", lambda data: None)
    monkeypatch.setattr(redo, "_in_words", lambda run: "")
    yield run


def test_the_crash_is_of_the_server_that_is_named(tmp_path: Path, measured: Any) -> None:
    bench = Bench(tmp_path)
    makers, runs = measured(bench, "stock", "off")
    assert makers == ["stock"]
    assert [(run.notes, "crash_by" in run.parameters) for run in runs] == [([], False)] * 2
    makers, runs = measured(bench, "stock", "mariadb", crash_by="defaults")
    assert makers == ["defaults", "mariadb"]
    assert [run.parameters.get("crash_by") for run in runs] == ["defaults", None]
    build = bench.own_binary().build
    assert [run.notes for run in runs] == [[f"after a crash of defaults, 9.7.4, build {build}"], []]
    # MariaDB's is its own.
    assert measured(bench, "mariadb", "stock")[0] == ["stock"]


def test_a_crash_of_another_build_is_not_measured(tmp_path: Path, measured: Any) -> None:
    bench = Bench(tmp_path)
    assert measured(bench, "off", crash_by="defaults")[0] == ["defaults"]
    assert measured(bench, "off", crash_by="defaults")[0] == []
    (tmp_path / "own").write_text("built anew")
    assert measured(bench, "off", crash_by="defaults")[0] == ["defaults"]


def test_a_crash_for_want_of_stock_is_not_taken_for_one_of_stock(tmp_path: Path, measured: Any) -> None:
    bench = Bench(tmp_path, has_stock=False)
    makers, runs = measured(bench, "off")
    assert (makers, bench.skipped) == (["off"], ["the crash of a stock server"])
    assert runs[0].notes[0].startswith("after a crash of off, ")
    bench.has_stock = True
    makers, runs = measured(bench, "off")
    assert (makers, runs[0].notes) == (["stock"], [])


def test_a_crash_that_cannot_be_made_is_an_error_of_its_own(tmp_path: Path, measured: Any) -> None:
    (bench := Bench(tmp_path)).folder.joinpath("own").unlink()
    with pytest.raises(ToolError, match="there is no crash by defaults: there is no server"):
        measured(bench, "stock", crash_by="defaults")


def test_a_crash_leaves_a_note_on_what_is_synced_of_the_binary_log(tmp_path: Path, measured: Any) -> None:
    measured(bench := Bench(tmp_path), "off", crash_by="defaults")
    (value,) = [option.partition("=")[2] for option in bench.options if option.startswith("--sync-binlog=")]
    assert int(value) > 0


def test_the_note_on_the_binary_log_counts_for_the_copy(
    tmp_path: Path, measured: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted: list[Path] = []
    monkeypatch.setattr(redo, "let_note_count", noted.append)
    measured(bench := Bench(tmp_path), "stock", "off", "mariadb")
    assert noted == [bench.datadirs["mysql"].work] * 2


@pytest.mark.parametrize(
    ("words", "builds"),
    [
        (["--subjects", "stock"], []),
        (["--subjects", "stock", "--crash-by", "defaults"], ["release"]),
        (["--subjects", "stock,off"], ["release"]),
    ],
)
def test_a_build_that_makes_the_crash_is_built(
    words: list[str], builds: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[str] = []
    monkeypatch.setattr(cli, "default_layout", lambda: Layout(tmp_path))
    monkeypatch.setattr(cli.builds, "build", lambda clone, preset: built.append(preset))

    def ended(*_: object) -> None:
        raise ToolError("it ends here")

    monkeypatch.setattr(cli, "take_lock", ended)
    done = CliRunner().invoke(cli.main, ["redo", *words])
    assert (built, "it ends here" in done.output) == (builds, True)


def test_mariadb_starts_after_its_own_crash_alone() -> None:
    done = CliRunner().invoke(cli.main, ["redo", "--subjects", "mariadb", "--crash-by", "defaults"])
    assert (done.exit_code, "MariaDB starts after its own crash" in done.output) == (1, True)


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
    with pytest.raises(ToolError, match="before the server was killed"):
        redo._wait(_server(Innodb_checkpoint_age=(5 << 20) - 1), load, options)
    timer.join()


def test_the_load_lasts_as_long_as_it_was_asked_to(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 99.0, 100.0])
    monkeypatch.setattr(redo, "time", SimpleNamespace(monotonic=lambda: next(clock), sleep=lambda seconds: None))
    redo._wait(_server(), Future(), OPTIONS)
    assert next(clock, None) is None


def test_a_load_that_fails_is_no_crash() -> None:
    load: Future[str] = Future()
    load.set_exception(ToolError("FATAL: no table"))
    with pytest.raises(ToolError, match="no table"):
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
