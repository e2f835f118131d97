# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""./redstart test tidy: which files it takes, and what counts as found."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml

from redstart_cli import tidy
from redstart_cli.console import RedstartError
from redstart_cli.layout import Layout
from redstart_cli.result import Level
from redstart_cli.tests.conftest import Program

REPO = Path(__file__).resolve().parents[3]
# Takes the place of clang-tidy, which counts what it does not show on its standard error.
TOOL = """#!/bin/sh
[ "$1 $2" = "--quiet -p" ] && [ -f "$3/compile_commands.json" ] || exit 9
echo "5 warnings generated." >&2
case $(cat "$4") in
  bad) echo "$4:1:1: error: bad [bugprone-bad,-warnings-as-errors]"; exit 1 ;;
  silent) exit 2 ;;
esac
"""
FILES = {"sql/good.cc": "good", "sql/good.h": "good", "storage/bad.cc": "bad", "storage/a_vars.h": "bad", "storage/a.ic": "bad"}


@pytest.fixture
def clone(layout: Layout, program: Program) -> Layout:
    program(tidy.TOOL, TOOL)
    for name, text in FILES.items():
        (layout.repo / name).parent.mkdir(parents=True, exist_ok=True)
        (layout.repo / name).write_text(text)
    layout.preset("release").mkdir()
    (layout.preset("release") / "compile_commands.json").write_text("[]")
    subprocess.run(["git", "init", "--quiet", layout.repo], check=True)
    return layout


def run(clone: Layout, *names: str) -> Level:
    return tidy.run(clone.repo, clone.preset("release"), [clone.repo / name for name in names])


def test_what_is_found_is_shown_and_has_failed(clone: Layout, capsys: pytest.CaptureFixture[str]) -> None:
    level = run(clone)
    assert (level.passed, level.failures, level.problem) == (2, ["tidy storage/bad.cc"], "")
    assert "  | storage/bad.cc:1:1: error: bad [bugprone-bad" in capsys.readouterr().out


def test_files_and_folders_that_are_named(clone: Layout) -> None:
    assert run(clone, "sql").counts() == "2 passed, 0 failed, 0 skipped"
    assert run(clone, "sql/good.h", "storage").counts() == "1 passed, 1 failed, 0 skipped"
    with pytest.raises(RedstartError, match="is no C\\+\\+ file of this clone"):
        run(clone, "extra")


def test_one_that_says_nothing_or_does_not_end_has_failed(
    clone: Layout, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (clone.repo / "sql/good.h").write_text("silent")
    assert run(clone).failures == ["tidy sql/good.h", "tidy storage/bad.cc"]
    assert "  | 5 warnings generated." in capsys.readouterr().out
    monkeypatch.setattr(tidy, "run_captured", lambda command, *_: None)
    assert run(clone, "sql/good.cc").failures == ["tidy sql/good.cc"]
    assert "did not end within" in capsys.readouterr().out


def test_what_it_needs(clone: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    (clone.preset("release") / "compile_commands.json").unlink()
    with pytest.raises(RedstartError, match="has no compile_commands.json"):
        run(clone)
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(RedstartError, match=f"{tidy.TOOL} was not found"):
        run(clone)


def test_the_tool_is_installed_and_what_it_finds_is_an_error() -> None:
    packages = [line.split()[:2] for line in (REPO / "cmake/packages.txt").read_text().splitlines()]
    assert ["tidy", tidy.TOOL] in packages
    settings = yaml.safe_load((REPO / ".clang-tidy").read_text())
    assert settings["WarningsAsErrors"] == "*" and "misc-include-cleaner" in settings["Checks"]
