# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Where the bench keeps its files: everything lives under build/bench of the repository."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from redstart_cli.locks import exclusive
from redstart_cli.tools import ToolError

REPOSITORY = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Layout:
    """Paths below one base directory (normally build/bench)."""

    base: Path

    @property
    def roots(self) -> Path:
        """Debian roots of the stock subjects."""
        return self.base / "roots"

    @property
    def data(self) -> Path:
        """Data directories, one folder for each kind and size."""
        return self.base / "data"

    @property
    def logs(self) -> Path:
        """Error logs of the runs, kept until `bench clean`."""
        return self.base / "logs"

    @property
    def volumes(self) -> Path:
        """Images and mount points of the latency profile."""
        return self.base / "volumes"

    @property
    def folders(self) -> tuple[Path, ...]:
        """All folders of the bench."""
        return self.roots, self.data, self.logs, self.volumes, self.base / "tmp"

    def make(self) -> None:
        """Creates the directories."""
        for path in (self.roots, self.data, self.logs, self.volumes):
            path.mkdir(parents=True, exist_ok=True)


def default_layout() -> Layout:
    """The layout below REDSTART_BENCH_DIR if that is set, otherwise below this repository's build/.

    Raises ToolError if the variable names something else than a directory.
    """
    chosen = os.environ.get("REDSTART_BENCH_DIR")
    if not chosen:
        return Layout(REPOSITORY / "build" / "bench")
    if not Path(chosen).is_dir():
        raise ToolError(f"REDSTART_BENCH_DIR: there is no directory {chosen}")
    return Layout(Path(chosen).resolve())


def take_lock(layout: Layout) -> AbstractContextManager[object]:
    """Lets one bench run at a time in this layout; an error if another does."""
    return exclusive(layout.base / "lock", f"the bench in {layout.base}")
