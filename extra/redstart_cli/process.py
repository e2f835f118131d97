# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Child processes that do the long jobs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path


def tied(command: Sequence[str | Path], signal: str = "TERM") -> list[str]:
    """`command` as a child that does not outlive the thread that starts it, nor this process.

    The kernel sends it the signal when that thread ends, even by SIGKILL, so that no forgotten job keeps writing into a tree
    that the next call works on.
    """
    return ["setpriv", "--pdeathsig", signal, "--", *map(str, command)]


def run_logged(
    command: Sequence[str | Path],
    log: Path,
    on_line: Callable[[str], None],
    cwd: Path | None = None,
    environment: dict[str, str] | None = None,
) -> int:
    """Run a command, append its output to `log`, call `on_line` for each line; returns the exit code."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a", encoding="utf-8") as file:
        process = subprocess.Popen(
            tied(command),
            cwd=cwd,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        try:
            assert process.stdout is not None
            for line in process.stdout:
                file.write(line)
                on_line(line.rstrip("\n"))
            return process.wait()
        except BaseException:
            process.terminate()
            process.wait()
            raise


def run_captured(command: Sequence[str | Path], cwd: Path, timeout_sec: int) -> tuple[int, str] | None:
    """Run a command; returns exit code and output (both streams), or None if it did not end in time."""
    try:
        done = subprocess.run(
            tied(command),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=timeout_sec,
        )
    except subprocess.TimeoutExpired:
        return None
    return done.returncode, done.stdout


def module_environment(repo: Path) -> dict[str, str]:
    """Environment in which `python -m` finds the repository's packages."""
    return {**os.environ, "PYTHONPATH": f"{repo / 'cmake'}:{repo / 'extra'}"}


def run_module(repo: Path, *arguments: str | Path) -> int:
    """Run `python -m ...` with its output shown; returns the exit code."""
    command = [sys.executable, "-m", *map(str, arguments)]
    return subprocess.run(tied(command), env=module_environment(repo), stdin=subprocess.DEVNULL).returncode


class Tail:
    """The last lines of an output, for the error message."""

    def __init__(self, count: int) -> None:
        self._lines: deque[str] = deque(maxlen=count)

    def add(self, line: str) -> None:
        self._lines.append(line)

    def text(self) -> str:
        return "\n".join(f"  | {line}" for line in self._lines)
