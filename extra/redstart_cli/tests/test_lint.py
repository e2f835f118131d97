# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The lint part of test overlay: each check finds what is planted, and all files are looked at."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from redstart_cli import clone as clone_files
from redstart_cli import formatting, lint, testing
from redstart_cli.layout import Layout
from redstart_cli.result import Level
from redstart_cli.tests.conftest import Program
from redstart_cli.upstream import Upstream

REPO = Path(__file__).resolve().parents[3]
CHECKS = ("ruff", "mypy", "codespell", "shellcheck", "clang-format")
SETTINGS: dict[str, Any] = tomllib.loads((REPO / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
MYPY_FOLDERS: list[str] = SETTINGS["mypy"]["files"]
HEAD = "from __future__ import annotations\n\n"
GOOD = {
    "extra/bench/one.py": HEAD + "\ndef one(text: str) -> int:\n    return len(text)\n",
    "docs/page.md": "It is said.\n",
    "packaging/start": '#!/bin/sh\necho "$1"\n',
    "sql/a.cc": "int a;\n",
}
# Backwards, so that it is not found here.
MISSPELT = "touba"[::-1]
# What is planted for a check, and what it says of it.
PLANTED = {
    "ruff": ("extra/bench/one.py", HEAD + "import os\n", "extra/bench/one.py:3:8: F401"),
    "mypy": ("extra/bench/one.py", HEAD + "\ndef one(text: str) -> int:\n    return text\n", "one.py:5: error: Incompatible"),
    "codespell": (".github/page.md", f"It is {MISSPELT} word.\n", f"page.md:1: {MISSPELT} ==> about"),
    "shellcheck": ("packaging/start", "#!/bin/sh\necho $1\n", "SC2086"),
    "clang-format": ("sql/a.cc", "int   a;\n", "  | sql/a.cc"),
}


@pytest.fixture
def clone(layout: Layout) -> Layout:
    """A small clone with the settings of this one."""
    shutil.copy(REPO / "pyproject.toml", layout.repo)
    for folder in MYPY_FOLDERS:
        (layout.repo / folder).mkdir(parents=True)
        (layout.repo / folder / "__init__.py").touch()
    (layout.repo / ".gitignore").write_text("/build/\n")
    subprocess.run(["git", "init", "--quiet", layout.repo], check=True)
    (layout.upstream / "9.7.4").mkdir(parents=True)
    (layout.upstream / "9.7.4/.clang-format").write_text("BasedOnStyle: Google\n")
    for name, text in GOOD.items():
        write(layout, name, text)
    return layout


def write(clone: Layout, name: str, text: str) -> None:
    (clone.repo / name).parent.mkdir(parents=True, exist_ok=True)
    (clone.repo / name).write_text(text)


def run(clone: Layout) -> Level:
    return lint.run(clone.repo, clone.upstream / "9.7.4")


def test_good_files_pass_and_nothing_is_left_in_the_clone(clone: Layout, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path for path in clone.repo.rglob("*") if not path.is_relative_to(clone.build)}
    level = run(clone)
    assert (level.passed, level.failures, level.problem) == (len(CHECKS), [], ""), capsys.readouterr().out
    assert [line.split(" in ")[0] for line in capsys.readouterr().out.splitlines()] == [f"lint {name}: passed" for name in CHECKS]
    after = {path for path in clone.repo.rglob("*") if not path.is_relative_to(clone.build)}
    assert {path for path in after - before if ".git" not in path.parts} == set()


@pytest.mark.parametrize("check", CHECKS)
def test_each_check_finds_its_defect(check: str, clone: Layout, capsys: pytest.CaptureFixture[str]) -> None:
    name, text, words = PLANTED[check]
    write(clone, name, text)
    level = run(clone)
    assert (level.passed, level.failures) == (len(CHECKS) - 1, [f"lint {check}"])
    out = capsys.readouterr().out
    assert f"lint {check}: failed" in out and words in out
    assert (clone.repo / name).read_text() == text


def test_a_check_that_cannot_run_has_failed(
    clone: Layout, monkeypatch: pytest.MonkeyPatch, program: Program, capsys: pytest.CaptureFixture[str]
) -> None:
    script = '#!/bin/sh\ncase $2 in mypy) echo "No module named mypy"; exit 1 ;; esac\n'
    python = program("python", script + f'exec {sys.executable} "$@"\n')
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.setattr(formatting, "find_tool", lambda: None)
    find = shutil.which
    monkeypatch.setattr(lint.shutil, "which", lambda name: None if name == "shellcheck" else find(name))
    assert run(clone).failures == ["lint mypy", "lint shellcheck", "lint clang-format"]
    out = capsys.readouterr().out
    for words in ("No module named mypy", "shellcheck was not found; it is in Debian's", "package clang-format-15"):
        assert words in out


def test_a_check_that_says_nothing_or_does_not_end_has_failed(
    clone: Layout, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    done: dict[str, tuple[int, str] | None] = {"ruff": (2, "\n"), "mypy": None, "codespell_lib": (0, "noise")}
    monkeypatch.setattr(lint, "run_captured", lambda command, *_: done.get(command[2], (0, "")))
    assert run(clone).failures == ["lint ruff", "lint mypy"]
    out = capsys.readouterr().out
    assert "ruff ended with 2" in out and "mypy did not end within" in out and "noise" not in out


def test_scripts_of_this_clone() -> None:
    found = lint.shell_scripts(REPO)
    for name in (".ci/run", "cmake/ccache-launcher", "Docker/entrypoint.sh", "extra/fake_systemctl.sh", "redstart"):
        assert name in found
    assert {name for name in found if name.startswith("packaging/")} == {
        f"packaging/debian/redstart-server.{name}" for name in ("postinst", "postrm", "prepare", "prerm")
    }
    assert "packaging/debian/rules" not in found and not [name for name in found if name.endswith(".py")]


@pytest.mark.parametrize(
    ("first", "is_script"),
    [("#!/bin/sh", True), ("#! /usr/bin/env bash", True), ("#!/bin/dash -e", True), ("#!/usr/bin/fish", False),
     ("#!/usr/bin/make -f", False), ("# /bin/sh", False), ("\udcff\udcfe", False)],
)  # fmt: skip
def test_a_script_is_known_by_its_first_line(clone: Layout, first: str, is_script: bool) -> None:
    (clone.repo / "extra/tool").write_bytes(first.encode("utf-8", "surrogateescape") + b"\n:\n")
    write(clone, "extra/part.sh", ":\n")
    (clone.repo / "extra/again.sh").symlink_to("part.sh")
    assert lint.shell_scripts(clone.repo) == ["extra/part.sh", *["extra/tool"] * is_script, "packaging/start"]


def test_every_package_is_checked() -> None:
    packages = {str(path.parent.relative_to(REPO)) for path in REPO.glob("extra/*/__init__.py")}
    assert set(MYPY_FOLDERS) == packages | {"cmake/overlay"}
    assert set(SETTINGS["pytest"]["ini_options"]["testpaths"]) == set(testing.pytest_folders(REPO))


def test_pre_commit_has_the_same_checks() -> None:
    (repository,) = yaml.safe_load((REPO / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"]
    assert repository["repo"] == "local"
    assert [hook["id"] for hook in repository["hooks"]] == list(CHECKS)
    assert {hook["language"] for hook in repository["hooks"]} == {"system"}
    pattern = repository["hooks"][CHECKS.index("clang-format")]["files"]
    tracked = clone_files.own_files(REPO)
    assert [name for name in tracked if re.search(pattern, name)] == formatting.sources(REPO)


def test_the_overlay_level_has_it(clone: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Path, Path]] = []

    def checked(repo: Path, upstream: Path) -> Level:
        asked.append((repo, upstream))
        return Level("lint", 4, 1, ["lint mypy"])

    tree = clone.upstream / "9.7.4"
    monkeypatch.setattr(lint, "run", checked)
    monkeypatch.setattr(testing.Tester, "_upstreams", lambda *_: [Upstream("9.7.4", tree)])
    monkeypatch.setattr(testing.Tester, "_pytest", lambda *_, **__: Level("pytest"))
    monkeypatch.setattr(testing, "run_module", lambda *_: 0)
    level = testing.Tester(clone, None, None, []).overlay()
    assert asked == [(clone.repo, tree)] and (level.passed, level.failures) == (4 + 3, ["lint mypy"])
    assert testing.Tester(clone, None, None, ["-k", "one"]).overlay().counts() == "0 passed, 0 failed, 0 skipped"
    assert len(asked) == 1
