# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""./redstart test nightly, with a fake ./redstart."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from redstart_cli import nightly, sanitizers, testing
from redstart_cli.console import RedstartError
from redstart_cli.layout import PRESETS, Layout
from redstart_cli.nightly import Part
from redstart_cli.process import module_environment
from redstart_cli.tests.conftest import write_program

REPO = Path(__file__).resolve().parents[3]


@pytest.fixture
def clone(layout: Layout) -> Layout:
    """Its ./redstart test runs the rest of its arguments as a shell command."""
    write_program(layout.repo / "redstart", '#!/bin/bash\nshift\neval "$@"\n')
    return layout


def part(name: str, script: str) -> Part:
    return Part(name, (script,))


def says(passed: int, failed: int, skipped: int = 0) -> str:
    return f"echo {passed} passed, {failed} failed, {skipped} skipped"


def test_it_goes_on_after_a_failure(clone: Layout, capsys: pytest.CaptureFixture[str]) -> None:
    parts = [
        part("one", says(3, 0)),
        part("two", f"echo some line; echo 'failed: innodb.a'; {says(2, 1, 1)}; exit 1"),
        part("three", says(4, 0, 2)),
    ]
    assert not nightly.run(clone, parts)
    out = capsys.readouterr().out.splitlines()[1:]
    assert [line.split("  ")[0] for line in out[:2]] == ["passed", "failed"]
    assert [" ".join(line.split()) for line in out] == [
        "passed one 0 s 3 passed, 0 failed, 0 skipped",
        "failed two 0 s 2 passed, 1 failed, 1 skipped",
        "innodb.a",
        "passed three 0 s 4 passed, 0 failed, 2 skipped",
        "9 passed, 1 failed, 3 skipped",
    ]
    assert "some line" in (clone.build / "test/nightly/two.log").read_text()
    assert nightly.run(clone, [parts[0], parts[2]])


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("true", "ended with 0 and no sum"),
        ("exit 1", "ended with 1 and no sum"),
        (f"{says(3, 0)}; exit 1", "ended with 1 and 3 passed"),
        (says(0, 0, 4), "ended with 0 and 0 passed"),
        (f"{says(3, 0)}; kill -KILL $$", "ended with -9 and 3 passed"),
        (f"{says(3, 0)}; seq 10", "ended with 0 and no sum"),
    ],
    ids=["nothing", "error", "exit code", "nothing passed", "killed", "not the last line"],
)
def test_a_part_passes_only_if_it_says_so(
    clone: Layout, capsys: pytest.CaptureFixture[str], script: str, words: str
) -> None:
    assert not nightly.run(clone, [part("one", script)])
    out = capsys.readouterr().out
    assert words in out and out.splitlines()[-1].split(", ")[1] == "1 failed"


def test_a_failure_that_only_the_sum_tells_counts(clone: Layout) -> None:
    assert not nightly.run(clone, [part("one", says(3, 1))])


def test_a_log_is_of_one_run(clone: Layout) -> None:
    assert nightly.run(clone, [part("one", says(3, 0))])
    assert nightly.run(clone, [part("one", says(4, 0))])
    assert (clone.build / "test/nightly/one.log").read_text() == "4 passed, 0 failed, 0 skipped\n"


def test_parts_are_what_ci_leaves_out() -> None:
    parts = nightly.parts(20261122)
    assert len({part.name for part in parts}) == len(parts)
    levels = {part.arguments[0] for part in parts}
    assert levels == {*testing.NOT_IN_ALL, "unit", "mtr", "differential", "binlog", "torture"}
    for preset in set(PRESETS) - {testing.RELEASE}:
        for level in ("unit", "mtr"):
            assert (level, "--preset", preset) in [part.arguments for part in parts]
    for preset in sanitizers.OPTIONS:
        assert {f"{name}-{preset}" for name in ("unit", "mtr", "states", "torture")} <= {part.name for part in parts}


def test_an_older_release_takes_turns_in_a_run_of_its_own() -> None:
    parts = [part for part in nightly.parts(7) if part.arguments[0] == "torture" and "--preset" not in part.arguments]
    assert [part.name for part in parts if "--older" in part.arguments] == ["torture-older"]
    assert "torture" in [part.name for part in parts]


def test_what_goes_on_as_long_as_there_are_cases_ends() -> None:
    parts = {part.name: part.arguments for part in nightly.parts(1) if part.arguments[0] in ("differential", "binlog")}
    assert set(parts) == {"differential", "states-ubsan", "states-tsan", "binlog", "binlog-torn"}
    assert all(0 < int(arguments[arguments.index("--seconds") + 1]) <= 3600 for arguments in parts.values())
    assert "--every-byte" in parts["binlog-torn"] and "--every-byte" not in parts["binlog"]


def test_chosen_parts() -> None:
    parts = nightly.parts(1)
    assert nightly.chosen(parts, []) == parts
    assert [part.name for part in nightly.chosen(parts, ["swap", "packages"])] == ["packages", "swap"]
    with pytest.raises(RedstartError, match="no part swop; it has packages, "):
        nightly.chosen(parts, ["swop"])


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ("nightly --list", 0, "./redstart test mtr --preset debug"),
        ("nightly --list swap", 0, "./redstart test swap"),
        ("nightly swop", 1, "nightly has no part swop"),
        ("nightly --preset debug", 2, "No such option '--preset'"),
        ("--preset debug nightly", 2, "nightly takes no --preset"),
        ("mtr --list", 2, "No such option '--list'"),
        ("nightly --list -- swap mtr-debug", 0, "./redstart test mtr --preset debug"),
    ],
)
def test_command(arguments: str, code: int, words: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "redstart_cli", "test", *shlex.split(arguments)],
        env=module_environment(REPO), capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == code and words in done.stdout + done.stderr


def test_the_file_system_changes_from_day_to_day() -> None:
    commands = [
        next(part.command for part in nightly.parts(seed) if part.name == "differential") for seed in range(20261123, 20261127)
    ]
    assert {command.split()[-1] for command in commands} == {"ext4", "xfs", "btrfs", "overlay"}
