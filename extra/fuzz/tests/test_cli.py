# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The fuzzer's own checks, with programs that behave in each way."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzz.cli import TARGETS, Fuzzer, Planted, Runs, Target, header_flags, plant
from redstart_cli.console import RedstartError
from redstart_cli.layout import this_layout

FAULT = Planted("a fault", "n > 1", "false")


def test_a_fault_is_planted_only_where_it_is_clear() -> None:
    assert plant("if (n > 1) return;", FAULT) == "if (false) return;"
    for source in ("", "n > 1 && n > 1"):
        with pytest.raises(RedstartError, match="cannot be planted"):
            plant(source, FAULT)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_each_fault_has_its_place_in_the_source(target: Target) -> None:
    assert target.main.exists() and target.planted
    source = (this_layout().repo / target.source).read_text(encoding="utf-8")
    for planted in target.planted:
        assert plant(source, planted) != source


def test_only_headers_are_taken_from_a_command_of_gcc() -> None:
    command = ["g++", "-Iinclude", "-isystem", "/x", "-DA=1", "-D", "B", "-Wall", "-fpch-preprocess", "-c", "a.cc"]
    assert header_flags(command) == ["-Iinclude", "-isystem", "/x", "-DA=1", "-D", "B"]


def run(folder: Path, script: str) -> Runs:
    program = folder / "fuzz"
    program.write_text(f"#!/bin/sh\n{script}\n", encoding="ascii")
    program.chmod(0o755)
    return Fuzzer(folder, folder, {}, 1, 2).run(program, 10)


EXECUTED = 'echo "stat::number_of_executed_units: 5" >&2'
STATS = f'{EXECUTED}; echo "stat::right_inputs: 3" >&2'


def test_runs_are_counted_and_findings_are_told(tmp_path: Path) -> None:
    assert run(tmp_path, STATS) == Runs(10, 6, "")
    (tmp_path / "found").mkdir()
    done = run(tmp_path / "found", f"{EXECUTED}; echo heap-overflow >&2; touch found-0-crash found-1-crash; exit 77")
    assert done.made == 10 and "heap-overflow" in done.found


@pytest.mark.parametrize("script", ["exit 0", EXECUTED, f"{STATS}; exit 127", f"{STATS}; touch found-0-x; exit 0"])
def test_a_program_that_does_not_run_has_found_nothing(tmp_path: Path, script: str) -> None:
    with pytest.raises(RedstartError, match="did not run as it should"):
        run(tmp_path, script)
