# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The part of ./redstart test overlay that reads and runs nothing; its settings are in pyproject.toml."""

from __future__ import annotations

import re
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

from redstart_cli import formatting
from redstart_cli.clone import own_files
from redstart_cli.console import RedstartError, duration, say
from redstart_cli.process import run_captured
from redstart_cli.result import Level

_TIMEOUT_SEC = 600
_SHELL = re.compile(rb"#!.*\b(?:ba|da)?sh\b")
_LONGEST_LINE = 256


def shell_scripts(repo: Path) -> list[str]:
    """Our scripts, by their first line or their name."""
    found = []
    for name in own_files(repo):
        with (repo / name).open("rb") as file:
            if _SHELL.match(file.readline(_LONGEST_LINE)) or name.endswith(".sh"):
                found.append(name)
    return found


def _module(repo: Path, *words: str) -> str:
    """What a tool of the Python environment has to say; nothing if it is content."""
    return _said(repo, [sys.executable, "-m", *words])


def _shellcheck(repo: Path) -> str:
    if shutil.which("shellcheck") is None:
        return "shellcheck was not found; it is in Debian's package of that name"
    scripts = shell_scripts(repo)
    return _said(repo, ["shellcheck", "--", *scripts]) if scripts else f"there is no script in {repo}"


def _clang_format(repo: Path, upstream: Path) -> str:
    changed = formatting.run(repo, upstream, formatting.sources(repo), only_check=True)
    return "\n".join([*changed, "./redstart format writes them as they are wanted"] if changed else [])


def _said(repo: Path, command: list[str]) -> str:
    done = run_captured(command, repo, _TIMEOUT_SEC)
    if done is None:
        return f"{' '.join(command[:3])} did not end within {_TIMEOUT_SEC} s"
    code, output = done
    return output.strip() or f"{' '.join(command[:3])} ended with {code}" if code != 0 else ""


def run(repo: Path, upstream: Path) -> Level:
    """All checks; what one finds is shown, and the others are run all the same."""
    checks: dict[str, Callable[[], str]] = {
        "ruff": lambda: _module(repo, "ruff", "check", "--no-fix", "--output-format=concise"),
        "mypy": lambda: _module(repo, "mypy"),
        "codespell": lambda: _module(repo, "codespell_lib"),
        "shellcheck": lambda: _shellcheck(repo),
        "clang-format": lambda: _clang_format(repo, upstream),
    }
    level = Level("lint")
    for name, check in checks.items():
        begin = time.monotonic()
        try:
            problem = check()
        except RedstartError as error:
            problem = str(error)
        if problem:
            level.fail(f"lint {name}")
        else:
            level.passed += 1
        say(f"lint {name}: {'failed' if problem else 'passed'} in {duration(time.monotonic() - begin)}")
        for line in problem.splitlines():
            say(f"  | {line}")
    return level
