# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""./redstart format: our C++ as upstream's .clang-format wants it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from overlay.errors import OverlayError
from overlay.formatting import find_tool, formatted, is_formatted
from redstart_cli.clone import own_files
from redstart_cli.console import RedstartError

# What goes into MySQL's tree. Formatted are files of ours only: an edit is formatted where it lands (overlay.patches).
FOLDERS = ("include", "sql", "storage", "unittest")


def sources(repo: Path) -> list[str]:
    """Our C++ files of the server."""
    return [name for name in own_files(repo, *FOLDERS) if is_formatted(name)]


def chosen(repo: Path, paths: Sequence[Path]) -> list[str]:
    """The sources that are named, or lie below a folder that is; all without a name. RedstartError for others."""
    every = sources(repo)
    names: set[str] = set()
    for path in paths:
        full = path.resolve()
        found = [name for name in every if (repo / name).is_relative_to(full)]
        if not found:
            raise RedstartError(f"{path} is no C++ file of this clone in {', '.join(FOLDERS)}, and no folder of one")
        names.update(found)
    return sorted(names) if paths else every


def run(repo: Path, upstream: Path, names: Sequence[str], only_check: bool) -> list[str]:
    """Format files and return those that were changed, or with `only_check` would be; others are not written."""
    tool, style = find_tool(), upstream / ".clang-format"
    if tool is None:
        raise RedstartError("clang-format was not found; it is in Debian's package clang-format-15")
    if not style.is_file():
        raise RedstartError(f"{style} is missing: this tree of MySQL does not say how it is formatted")
    changed = []
    for name in names:
        path = repo / name
        data = path.read_bytes()
        try:
            wanted = formatted(tool, style, name, data)
        except OverlayError as problem:
            raise RedstartError(f"{name}: {problem}") from problem
        if wanted != data:
            changed.append(name)
            if not only_check:
                path.write_bytes(wanted)
    return changed
