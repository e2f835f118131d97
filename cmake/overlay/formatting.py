# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Whether added C++ is as upstream's clang-format would write it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from .errors import OverlayError

# Upstream's .clang-format names version 15 (its pull requests are checked with 18).
_TOOLS = ("clang-format-15", "clang-format-18", "clang-format")
_SUFFIXES = (".c", ".cc", ".cpp", ".h", ".hpp", ".ic")


def find_tool() -> str | None:
    """Path of the clang-format to use, or None."""
    return next((path for path in map(shutil.which, _TOOLS) if path), None)


def is_formatted(path: str) -> bool:
    """Whether clang-format has a say in a file of this name."""
    return path.endswith(_SUFFIXES)


def formatted(tool: str, style: Path, path: str, data: bytes, lines: list[tuple[int, int]] | None = None) -> bytes:
    """A file, or these runs of its lines, as clang-format writes it."""
    command = [tool, f"--style=file:{style}", f"--assume-filename={path}"]
    command += [f"--lines={first}:{last}" for first, last in lines or []]
    done = subprocess.run(command, input=data, capture_output=True, check=False)
    if done.returncode != 0:
        raise OverlayError(f"{tool}: {done.stderr.decode('utf-8', 'replace').strip()[-500:]}")
    return done.stdout


def first_unformatted(
    tool: str, style: Path, path: str, data: bytes, lines: list[tuple[int, int]]
) -> int | None:
    """The first line, from 1, that clang-format would change in these runs of lines, if any."""
    wanted = formatted(tool, style, path, data, lines)
    if wanted == data:
        return None
    pairs = zip(data.split(b"\n"), wanted.split(b"\n"), strict=False)
    return next((number for number, (ours, theirs) in enumerate(pairs, 1) if ours != theirs), 1)
