# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Disk space: what a command will need, said before it starts."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from shutil import disk_usage

from redstart_cli.console import RedstartError, size

# Measured with 9.7.4 on ext4, rounded up; those with debugging information are estimates.
TREE_BYTES = 1_400_000_000
PRESET_BYTES = {
    "release": 2_500_000_000,
    "debug": 12_000_000_000,
    "asan": 12_000_000_000,
    "ubsan": 8_000_000_000,
    "tsan": 8_000_000_000,
    "lto": 4_000_000_000,
    "package": 11_000_000_000,
}
TEST_BYTES = 2_000_000_000
DATADIR_BYTES = 300_000_000


class SpaceError(RedstartError):
    """Too little disk space, wherever a file comes from."""


@dataclass(frozen=True)
class Need:
    """Space that one step takes below `path`, which need not exist yet."""

    path: Path
    count_bytes: int
    what: str


def _existing(path: Path) -> Path:
    while not path.exists():
        path = path.parent
    return path


def free_bytes(path: Path) -> int:
    """What an ordinary process can still write to the file system of a path, which need not exist yet."""
    return disk_usage(_existing(path)).free


def check_space(needs: list[Need]) -> None:
    """Raise SpaceError, naming needed and available space, if a file system is too small."""
    by_device: dict[int, list[Need]] = defaultdict(list)
    for need in needs:
        if need.count_bytes > 0:
            by_device[_existing(need.path).stat().st_dev].append(need)
    problems = []
    for group in by_device.values():
        needed = sum(need.count_bytes for need in group)
        available = free_bytes(group[0].path)
        if available < needed:
            parts = ", ".join(f"{need.what} {size(need.count_bytes)}" for need in group)
            problems.append(
                f"{size(needed)} needed ({parts}), {size(available)} available on the file system of {group[0].path}"
            )
    if problems:
        raise SpaceError("too little disk space: " + "; ".join(problems) + ". Nothing was started.")
