# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""What the user sees: lines, warnings, errors and progress, on a terminal or in a log."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

# Seconds between two progress lines when stdout is no terminal.
PLAIN_PROGRESS_SEC = 30.0
# Settings of each program's click command. A command keeps the option that its first call has made, so all calls must say the same.
HELP: dict[str, Any] = {"help_option_names": ["-h", "--help"]}

_out = Console(highlight=False, soft_wrap=True)
_err = Console(highlight=False, soft_wrap=True, stderr=True)


class RedstartError(Exception):
    """A condition the user can understand and act upon; the message says what to do."""


def say(text: str) -> None:
    """One line of normal output."""
    _out.print(text, markup=False)
    sys.stdout.flush()


def warn(text: str) -> None:
    """Something the user must see although the command goes on."""
    _err.print(f"redstart: warning: {text}", style="yellow", markup=False)


def error(text: str) -> None:
    """Why the command stops."""
    _err.print(f"redstart: error: {text}", style="bold red", markup=False)


def duration(seconds: float) -> str:
    """12 s, 3 min 05 s, 1 h 02 min."""
    whole = int(seconds + 0.5)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def size(count_bytes: int) -> str:
    """Decimal megabytes or gigabytes."""
    if count_bytes < 10**9:
        return f"{count_bytes / 10**6:.0f} MB"
    return f"{count_bytes / 10**9:.1f} GB"


class Meter:
    """Progress of one job: a bar on a terminal, else a line every PLAIN_PROGRESS_SEC.

    The estimate is elapsed time times work left over work done, so `total` should be in units that
    cost about the same time each.
    """

    def __init__(self, title: str, total: float) -> None:
        self._title = title
        self._total = max(total, 1e-9)
        self._begin = self._last_line = time.monotonic()
        self._bar: Progress | None = None

    def __enter__(self) -> Meter:
        if _out.is_terminal:
            self._bar = Progress(
                SpinnerColumn(),
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.percentage:>3.0f} %  {task.fields[detail]}"),
                console=_out,
                transient=True,
            )
            self._task = self._bar.add_task(self._title, total=self._total, detail="")
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    @property
    def elapsed_sec(self) -> float:
        return time.monotonic() - self._begin

    def update(self, done: float, detail: str = "") -> None:
        """Tell how much is done; `detail` is a short text such as the step's name."""
        done = min(done, self._total)
        now = time.monotonic()
        left = self.elapsed_sec * (self._total - done) / done if done > 0 else None
        estimate = f"about {duration(left)} left" if left is not None and self.elapsed_sec > 2 else ""
        if self._bar is not None:
            text = ", ".join(part for part in (estimate, detail) if part)
            self._bar.update(self._task, completed=done, detail=text[:80])
        elif now - self._last_line >= PLAIN_PROGRESS_SEC:
            self._last_line = now
            parts = [f"{100 * done / self._total:.0f} %", f"{duration(self.elapsed_sec)} gone", estimate, detail]
            say(f"  {self._title}: " + ", ".join(part for part in parts if part))
