# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Documents, tables, plots and the command line."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from bench import cli, html, report, results
from bench.layout import Layout, take_lock
from bench.results import Document, Run
from bench.tests.helpers import make_document, make_run
from redstart_cli import tools
from redstart_cli.console import RedstartError
from redstart_cli.tools import ToolError, Unavailable


def document() -> Document:
    runs = []
    for number in (1, 2, 3):
        runs += [make_run("stock", number, 10.0 + number), make_run("light", number, 3.0)]
    bad = make_run("light", 4, 1.1)
    bad.problems.append("the server died")
    return make_document([*runs, bad])


def test_runs_that_went_wrong_are_said_and_not_averaged() -> None:
    totals, phases = report.grids(document())
    assert totals.headings[0] == "subject"
    assert totals.headings[-1] == "speed (stock = 1)"
    stock, light = totals.rows
    assert stock[:2] == ["stock", "12.00 (11.00 to 13.00)"]
    assert light[1] == "3.00 (3.00 to 3.00)"
    assert light[-1] == "4.00"
    assert totals.remarks == ["went wrong, not counted: light, round 4: the server died"]
    assert phases.rows[1] == ["light", "0.40", "2.60"]


def test_differing_parameters_become_columns() -> None:
    runs = [make_run("stock", 1, 4.0, tables=1000), make_run("stock", 1, 9.0, tables=9000)]
    totals = report.grids(make_document(runs))[0]
    assert totals.headings[:2] == ["subject", "tables"]
    assert [row[1] for row in totals.rows] == ["1,000", "9,000"]
    assert [row[-1] for row in totals.rows] == ["1.00", "1.00"]


def test_more_transactions_are_better() -> None:
    runs = []
    for subject, rate in (("stock", 700.0), ("defaults", 350.0)):
        run = Run("oltp", subject, "read-only", 1, {"rows": 10}, "2026-11-21T10:00:00", ["mysqld"])
        run.metrics["transactions_per_sec"] = rate
        runs.append(run)
    assert [row[-1] for row in report.grids(make_document(runs))[0].rows] == ["1.00", "0.50"]


def test_a_subject_without_a_good_run_shows_dashes() -> None:
    run = make_run("stock", 1, 1.0)
    run.problems.append("wrong")
    row = report.grids(make_document([run]))[0].rows[0]
    assert set(row[1:]) == {"-"}


def test_json_round_trip_and_schema(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    results.save(document(), path)
    loaded = results.load(path)
    assert loaded == document() or loaded.runs == document().runs
    value = json.loads(path.read_text())
    assert [run["ok"] for run in value["runs"]] == [True] * 6 + [False]
    value["runs"][-1]["ok"] = True
    with pytest.raises(ToolError, match="not a bench document"):
        results.check(value)
    path.write_text("{}")
    with pytest.raises(ToolError, match="not a bench document"):
        results.load(path)
    path.write_text("nonsense")
    with pytest.raises(ToolError, match="cannot read"):
        results.load(path)


def test_markdown_has_the_command_above_the_table() -> None:
    text = report.markdown([document()])
    assert text.index("./redstart bench startup") < text.index("| subject |")
    assert "| stock | 12.00 (11.00 to 13.00) |" in text


def test_html_holds_everything_itself() -> None:
    several = [document(), make_document([make_run("<b>", 1, 2.0, tables=99)])]
    text = html.html(several)
    assert text.count("<svg") >= 2
    assert "&lt;b&gt;" in text
    assert "<b>" not in text.replace("<body>", "")
    assert 'src="' not in text and "<link" not in text


def test_all_runs_what_the_subjects_have_in_each_experiment(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[str]] = []
    monkeypatch.setattr(cli, "_bench", lambda settings, experiments, crash_by: seen.append(list(experiments)))
    for words in ([], ["--subjects", "light"], ["--subjects", "stock,defaults"]):
        assert CliRunner().invoke(cli.main, ["all", *words]).exit_code == 0
    every = ["fileio", "startup", "startup --crash", "undo", "ddl", "oltp"]
    assert seen == [every, every[:3], every]
    assert cli._those_of(("defaults", "stock", "light"), ("stock", "off", "defaults")) == ("stock", "defaults")
    assert cli._those_of((), ("stock", "off")) == ("stock", "off")


def test_each_experiment_takes_what_its_command_has(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    monkeypatch.setattr(cli, "_bench", lambda settings, experiments, crash_by: seen.extend(experiments))
    names = [name for name in cli.main.commands if name not in ("all", "report", "plot", "clean")]
    for name in names:
        assert CliRunner().invoke(cli.main, [name]).exit_code == 0
    assert seen == names


def test_command_line_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "default_layout", lambda: Layout(tmp_path / "bench"))
    runner = CliRunner()
    for words, message in (
        (["startup", "--subjects", "of"], "unknown subject 'of'"),
        (["oltp", "--loads", "read-all"], "unknown load 'read-all'; there are read-only, "),
        (["startup", "--tables", "5", "--schemas", "9"], "9 schemas are more than 5 tables"),
        (["startup", "--json", str(tmp_path / "no" / "x.json")], "there is no directory"),
        (["ddl", "--operations", "drop"], "unknown operation"),
        (["all", "--subjects", "stock,best"], "unknown subject 'best'; there are stock, "),
        (["ddl", "--threads", "1,x"], "not a list of whole numbers"),
        (["ddl", "--buffers", "1,x"], "'x' is not a size such as 64K"),
        (["ddl", "--buffers", "63K"], "63K is not in 64K to 4095M"),
        (["ddl", "--buffers", "4G"], "4G is not in 64K to 4095M"),
        (["ddl", "--memory", "100"], "not in the range x>=256"),
        (["startup", "--profile", "gp4"], "is not one of"),
        (["startup", "--ddl"], "--ddl needs --crash"),
        (["startup", "--first-use", "9", "--tables", "5"], "9 tables to be queried are more than 5 tables"),
        (["startup", "--first-use", "9", "--crash"], "--first-use goes without --crash"),
        (["startup", "--first-use", "9", "--ddl"], "--ddl needs --crash"),
        (["startup", "--after-older", "--crash"], "--after-older goes without --crash"),
        (["startup", "--after-older", "--subjects", "map"], "unknown subject 'map'; there are older, stock, off, defaults"),
        (["startup", "--subjects", "older"], "unknown subject 'older'"),
        (["startup", "--first-use", "9", "--subjects", "off,mariadb"], "does not know MariaDB's views"),
        (["report", __file__, "--html", str(tmp_path / "x")], "cannot read"),
    ):
        outcome = runner.invoke(cli.main, words)
        assert outcome.exit_code != 0
        assert message in outcome.output


def test_clean_removes_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout = Layout(tmp_path / "bench")
    layout.make()
    (layout.data / "x").write_text("x")
    monkeypatch.setattr(cli, "default_layout", lambda: layout)
    assert CliRunner().invoke(cli.main, ["clean"]).exit_code == 0
    assert not layout.base.exists()


@pytest.mark.parametrize(
    ("words", "is_built"),
    [
        (["startup"], True),
        (["startup", "--subjects", "stock,light"], True),
        (["startup", "--subjects", "stock,mariadb"], False),
        (["startup", "--mysqld", "/opt/mysqld"], False),
        (["fileio"], False),
    ],
)
def test_own_server_is_built_if_it_is_wanted(
    words: list[str], is_built: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server older than the clone must not be measured under its name."""
    built: list[str] = []
    monkeypatch.setattr(cli.builds, "build", lambda clone, preset: built.append(preset))
    monkeypatch.setattr(cli, "default_layout", lambda: Layout(tmp_path / "bench"))

    def stop(*_: object) -> None:
        raise ToolError("far enough")

    monkeypatch.setattr(cli, "open_volume", stop)
    outcome = CliRunner().invoke(cli.main, words)
    assert "far enough" in outcome.output
    assert built == (["release"] if is_built else [])


def test_one_bench_at_a_time(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    in_use = f"^the bench in {tmp_path} is in use by process {os.getpid()}"
    with take_lock(layout), pytest.raises(RedstartError, match=in_use), take_lock(layout):
        pass
    with take_lock(layout):
        pass


def test_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tools.need("sh")
    with monkeypatch.context() as patch, pytest.raises(Unavailable, match="apt-get install libnbd-bin"):
        patch.setenv("PATH", str(tmp_path))
        tools.need("nbdfuse")
    with pytest.raises(ToolError, match="GiB are free"):
        tools.need_space(tmp_path / "not" / "there", 1 << 60, "this")
    with pytest.raises(ToolError, match="GiB of memory"):
        tools.need_memory(1 << 60, "this")


def test_running_programs(tmp_path: Path) -> None:
    assert tools.run(["echo", "a b"]) == "a b\n"
    with pytest.raises(ToolError, match="failed with 3:\noh no"):
        tools.run(["sh", "-c", "echo oh no >&2; exit 3"])
    log = tmp_path / "log"
    with pytest.raises(ToolError, match="gone"):
        tools.run(["sh", "-c", "echo gone; exit 1"], log)
    assert log.read_text() == "gone\n"
    procs = tmp_path / "procs"
    assert tools.run(["sh", "-c", "echo $$"], procs=[procs]) == procs.read_text()


def test_a_signal_ends_the_program_that_runs(tmp_path: Path) -> None:
    script = (
        "import sys\nfrom bench import cli\nfrom redstart_cli import tools\n"
        "@cli.main.command('wait')\n"
        "def wait():\n"
        "    with cli._errors():\n"
        "        print('begun', flush=True)\n"
        "        tools.run(['sh', '-c', f'echo $$ > {sys.argv[1]}; sleep 60 & wait'])\n"
        "cli.main(['wait'])\n"
    )
    pid_file = tmp_path / "pid"
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(pid_file)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.readline()
    while not pid_file.exists() or not pid_file.read_text().strip():
        assert process.poll() is None
    process.terminate()
    _, said = process.communicate(timeout=20)
    assert b"interrupted" in said and process.returncode == 130
    status = Path("/proc", pid_file.read_text().strip(), "status")
    # It may stay as a zombie: whoever inherits it decides when to collect it.
    deadline = time.monotonic() + 10
    with contextlib.suppress(OSError):
        while "State:\tZ" not in status.read_text():
            assert time.monotonic() < deadline
            time.sleep(0.02)
