# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""What the user sees while the bench runs."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)


class Ui:
    """A progress display: one bar for the whole experiment, one for a long step in it."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=self.console,
            transient=True,
        )

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def say(self, text: str) -> None:
        """Prints a line above the bars."""
        self._progress.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def begin(self, description: str, total: int) -> TaskID:
        """Adds a bar of `total` steps."""
        return self._progress.add_task(description, total=total)

    def update(self, task: TaskID, description: str | None = None, advance: int = 0) -> None:
        """Moves a bar, changes its text, or both."""
        self._progress.update(task, description=description, advance=advance)

    def end(self, task: TaskID) -> None:
        """Removes a bar."""
        self._progress.remove_task(task)
