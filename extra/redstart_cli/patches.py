# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""./redstart patches: the features as patch series for upstream."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from overlay import golden
from overlay.errors import OverlayError
from overlay.patches import make_patches, require_empty, write_patches
from redstart_cli.console import RedstartError, say, warn
from redstart_cli.layout import Layout
from redstart_cli.upstream import Upstream, reading

# What the series is made from.
_INPUTS = ("cmake", "docs/changes.md", "client", "components", "include", "mysql-test", "mysys", "plugin", "sql",
           "storage", "unittest")  # fmt: skip
_SHOWN = 10


def uncommitted(folder: Path, paths: Sequence[str]) -> list[str] | None:
    """Paths below `paths` that differ from the last commit; None if the folder is no git work tree."""
    there = [path for path in paths if (folder / path).exists()]
    command = ["git", "-C", str(folder), "status", "--porcelain", "--untracked-files=all", "--", *there]
    if not (folder / ".git").exists():
        return None
    result = subprocess.run(command, capture_output=True, text=True, errors="replace")
    if result.returncode != 0:
        raise RedstartError(f"git status of {folder} failed: {result.stderr.strip()}")
    return [line[3:] for line in result.stdout.splitlines()]


def _require_committed(folder: Path, paths: Sequence[str], advice: str) -> None:
    changed = uncommitted(folder, paths)
    if changed:
        more = f" and {len(changed) - _SHOWN} more" if len(changed) > _SHOWN else ""
        raise RedstartError(
            f"{folder} has changes that are not committed: {', '.join(changed[:_SHOWN])}{more}. {advice}"
        )


def _require_base(layout: Layout, upstream: Upstream, edited: Sequence[str]) -> None:
    """Raise RedstartError unless the upstream files are those of a release or of a commit."""
    if upstream.is_checkout:
        _require_committed(upstream.tree, edited, "A series is made for a known base; commit or remove them.")
    else:
        golden.require_pristine(layout.repo, upstream.tree, upstream.version)


def patches(
    layout: Layout,
    folder: Path,
    version: str | None,
    checkout: Path | None,
    features: Sequence[str],
    allow_dirty: bool,
) -> None:
    """Write the series; raises RedstartError and writes nothing if anything is not as it must be."""
    try:
        require_empty(folder)
        if not allow_dirty:
            _require_committed(
                layout.repo, _INPUTS, "A series is made from a commit; commit or remove them, or give --allow-dirty."
            )
        with reading(layout, version, checkout) as upstream:
            made = make_patches(layout.repo, upstream.tree, upstream.version, list(features) or None)
            _require_base(layout, upstream, list(made.series.base))
        write_patches(made, folder)
    except OverlayError as problem:
        raise RedstartError(str(problem)) from problem
    for note in made.notes:
        warn(note)
    count = sum(path.endswith(".patch") and "/0000-" not in path for path in made.files)
    formatted = f"; {made.formatting}" if made.formatting else ""
    say(f"{folder}: {count} patches for MySQL {upstream.version}{formatted}")
