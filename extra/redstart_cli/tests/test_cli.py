# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The command line as the user types it."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from redstart_cli import build as builds
from redstart_cli import cli, server, testing
from redstart_cli.layout import Layout


@pytest.fixture
def seen(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the commands were asked for."""
    found: dict[str, Any] = {}
    monkeypatch.setattr(cli, "this_layout", lambda: layout)
    monkeypatch.setattr(builds, "build", lambda *arguments: found.update(build=arguments[1:]) or "9.7.4")
    monkeypatch.setattr(server, "up", lambda *arguments: found.update(up=arguments[1:]))
    monkeypatch.setattr(server, "sql", lambda layout, arguments: found.update(sql=arguments))
    monkeypatch.setattr(testing, "run_levels", lambda *arguments: found.update(test=arguments[1:]) or True)
    return found


def call(*arguments: str) -> Any:
    return CliRunner().invoke(cli.cli, arguments)


@pytest.mark.parametrize(
    "arguments",
    [[], ["bench"], ["bench", "startup"], ["torture"], ["fuzz"], ["test"], ["test", "all"],
     ["test", "nightly"], *(["test", name] for name in testing.LEVELS)],
)
def test_help_of_all_commands(arguments: list[str]) -> None:
    short, long = call(*arguments, "-h"), call(*arguments, "--help")
    assert (short.exit_code, short.output) == (0, long.output)
    usage = short.output.splitlines()[0]
    assert usage.startswith("Usage: ") and " ".join(arguments) in usage and "-h, --help" in short.output


@pytest.mark.parametrize("name", ["bench", "torture", "fuzz"])
def test_a_program_knows_its_help_however_it_is_called(name: str) -> None:
    program = import_module(f"{name}.cli").main
    context = program.make_context(name, [], resilient_parsing=True)
    assert program.get_help_option_names(context) == ["-h", "--help"]


def test_up(layout: Layout, seen: dict[str, Any]) -> None:
    assert call("up").exit_code == 0
    assert seen["up"] == ("release", "9.7.4", layout.run, None, ())
    call("up", "--datadir", "d", "--port", "3400", "--", "--innodb-x=1", "--user=me")
    assert seen["up"] == ("release", "9.7.4", Path("d"), 3400, ("--innodb-x=1", "--user=me"))


def test_build(seen: dict[str, Any]) -> None:
    assert call("build").exit_code == 0
    assert seen["build"][:2] == ("release", builds.SERVER_TARGETS)
    call("build", "debug", "--target", "mysqld", "--jobs", "3")
    assert seen["build"] == ("debug", ("mysqld",), None, None, 3, False)
    call("build", "--pristine")
    assert seen["build"] == ("release", builds.SERVER_TARGETS, None, None, None, True)
    call("build", "asan", "--configure-only")
    assert seen["build"][:2] == ("asan", ())
    assert call("build", "fast").exit_code == 2


def test_source_from_the_environment(seen: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MYSQL_SOURCE", str(tmp_path))
    call("build")
    assert seen["build"][3] == tmp_path
    monkeypatch.setenv("MYSQL_SOURCE", str(tmp_path / "none"))
    assert call("build").exit_code == 2


def test_sql_passes_everything_on(seen: dict[str, Any]) -> None:
    assert call("sql", "-e", "select 1", "--table", "--help").exit_code == 0
    assert seen["sql"] == ("-e", "select 1", "--table", "--help")


def test_test(seen: dict[str, Any]) -> None:
    call("test")
    assert seen["test"][0] == [name for name in testing.LEVELS if name not in testing.NOT_IN_ALL]
    call("test", "mtr", "--upstream", "9.7.2", "--", "--record", "innodb.a")
    assert seen["test"] == (["mtr"], "9.7.2", None, ("--record", "innodb.a"), "release")
    call("test", "unit", "--preset", "debug")
    assert seen["test"] == (["unit"], None, None, (), "debug")
    assert call("test", "--preset", "debug").exit_code == 2
    assert call("test", "overlay", "--preset", "asan").exit_code == 2
    assert call("test", "--", "innodb.a").exit_code == 2


def test_several_levels(seen: dict[str, Any]) -> None:
    assert call("test", "packages", "image", "packages").exit_code == 0
    assert seen.pop("test") == (["packages", "image"], None, None, (), "release")
    for arguments in ("unit mtr --preset debug", "--preset debug unit mtr", "unit --preset debug mtr --preset debug"):
        assert call("test", *arguments.split()).exit_code == 0
        assert seen.pop("test") == (["unit", "mtr"], None, None, (), "debug")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("mtr innodb.a", "no level innodb.a; there are overlay, "),
        ("mtr image -- innodb.a", "arguments need one level"),
        ("all -- innodb.a", "arguments need one level"),
        ("image -- x", "image takes no arguments"),
        ("--preset debug mtr image", "is for the levels unit, mtr, regression, suites, differential, binlog, torture, not image"),
        ("mtr --preset tsan -- --sanitize", "--sanitize goes without --preset tsan"),
        ("--preset ubsan regression -- --mysqld=--x -sanitize", "--sanitize goes without --preset ubsan"),
        ("suites --preset tsan -- gcol --sanitize", "--sanitize goes without --preset tsan"),
        ("--preset asan mtr --preset debug", "one is given as asan and as debug"),
        ("all mtr", "all goes with no other level"),
        ("mtr nightly", "nightly goes with no other level"),
    ],
)
def test_what_test_refuses(seen: dict[str, Any], arguments: str, words: str) -> None:
    done = call("test", *arguments.split())
    assert done.exit_code == 2 and words in done.stderr and "test" not in seen


def test_levels_have_help_and_are_completed() -> None:
    for name, level in testing.LEVELS.items():
        done = call("test", name, "--help")
        assert done.exit_code == 0 and (level.__doc__ or "").split()[0] in done.stdout
        assert ("ARGUMENT" in done.stdout) == (name not in testing.NO_ARGUMENTS)
        assert ("--preset" in done.stdout) == (name in testing.ANY_PRESET)
        assert name in call("test", "--help").stdout
    complete = ShellComplete(cli.cli, {}, "redstart", "_REDSTART_COMPLETE").get_completions
    assert [found.value for found in complete(["test", "unit"], "re")] == ["regression", "replication", "reproducible"]
    assert [found.value for found in complete(["build"], "d")] == ["debug"]


def test_errors_are_one_message(
    seen: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments, code, words in ((["build", "fast"], 2, "'fast' is not one of"), (["down"], 0, "")):
        monkeypatch.setattr("sys.argv", ["redstart", *arguments])
        try:
            cli.main()
            found = 0
        except SystemExit as ended:
            found = int(ended.code or 0)
        captured = capsys.readouterr()
        assert found == code and words in captured.err and "Traceback" not in captured.err
