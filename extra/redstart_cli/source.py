# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The patched tree build/source: pristine upstream plus what this repository holds."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from overlay.tree import manifest_path
from redstart_cli.console import RedstartError, say
from redstart_cli.disk import TREE_BYTES, Need, check_space
from redstart_cli.layout import Layout
from redstart_cli.locks import exclusive
from redstart_cli.process import run_module
from redstart_cli.upstream import Upstream, pristine, read_pins, reading

# Folders of the repository that hold no input of the patched tree.
_NO_INPUT = frozenset({".git", ".github", ".ci", "build", "docs", "Docker", "__pycache__", ".pytest_cache"})


def fingerprint(root: Path, excluded: frozenset[str]) -> str:
    """Changes when a file below `root` does (by name, size and time of change)."""
    total = hashlib.sha256()
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in excluded)
        for name in sorted(names):
            path = os.path.join(folder, name)
            try:
                status = os.lstat(path)
            except FileNotFoundError:
                continue  # an editor's temporary file
            total.update(f"{path} {status.st_size} {status.st_mtime_ns}\n".encode("utf-8", "surrogateescape"))
    return total.hexdigest()


def _read_stamp(layout: Layout) -> dict[str, str]:
    try:
        stamp = json.loads(layout.source_stamp.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return stamp if isinstance(stamp, dict) else {}


def _wanted_stamp(layout: Layout, upstream: Upstream) -> dict[str, str]:
    return {
        "version": upstream.version,
        "upstream": str(upstream.tree),
        "repository": fingerprint(layout.repo, _NO_INPUT),
        "checkout": fingerprint(upstream.tree, frozenset({".git"})) if upstream.is_checkout else "",
    }


def made_of(layout: Layout) -> str:
    """The version that build/source was made from; empty if there is none."""
    return str(_read_stamp(layout).get("version", ""))


def is_current(layout: Layout) -> bool:
    """Whether no file of the clone has changed since build/source was made."""
    return _read_stamp(layout).get("repository") == fingerprint(layout.repo, _NO_INPUT)


def manifest_files(layout: Layout) -> list[str]:
    """Paths in build/source of all files that Redstart has added or edited."""
    return sorted(json.loads(manifest_path(layout.source).read_text(encoding="utf-8"))["files"])


@contextmanager
def reading_source(layout: Layout, version: str | None = None, checkout: Path | None = None) -> Iterator[Upstream]:
    """As ensure_source(), for a caller who only reads and holds no lock."""
    with reading(layout, version, checkout) as upstream:
        if _read_stamp(layout) == _wanted_stamp(layout, upstream) and layout.source.is_dir():
            yield upstream
            return
    with exclusive(layout.lock, str(layout.build)):
        yield ensure_source(layout, version, checkout)


def ensure_source(layout: Layout, version: str | None = None, checkout: Path | None = None) -> Upstream:
    """Bring build/source up to date; does nothing but a quick check when nothing changed.

    The caller holds the lock of build/. A killed call leaves no stamp, and the overlay engine makes
    good whatever state it left the tree in.
    """
    check_space(space_needed(layout, version, checkout))
    upstream = pristine(layout, version, checkout)
    wanted, stamp = _wanted_stamp(layout, upstream), _read_stamp(layout)
    if stamp == wanted and layout.source.is_dir():
        return upstream

    layout.source_stamp.unlink(missing_ok=True)
    if stamp.get("checkout") != wanted["checkout"]:
        # The engine takes a pristine tree for immutable; a checkout may have changed anywhere.
        manifest_path(layout.source).unlink(missing_ok=True)
    say(f"applying Redstart's files and edits to MySQL {upstream.version}")
    if _overlay(layout, "apply", upstream, "--dest", layout.source) != 0:
        raise RedstartError("the edits could not be applied (see above)")
    layout.source_stamp.write_text(json.dumps(wanted, indent=1) + "\n", encoding="utf-8")
    return upstream


def space_needed(
    layout: Layout, version: str | None, checkout: Path | None, is_pristine: bool = False
) -> list[Need]:
    """Space for the source trees that are still to be made; with `is_pristine` without the patched one."""
    default, _ = read_pins(layout.repo)
    needs = []
    if checkout is None and not (layout.upstream / (version or default)).is_dir():
        needs.append(Need(layout.build, TREE_BYTES, "upstream source"))
    if not layout.source.is_dir() and not is_pristine:
        needs.append(Need(layout.build, TREE_BYTES, "patched source"))
    return needs


def _overlay(layout: Layout, command: str, upstream: Upstream, *arguments: str | Path) -> int:
    common: list[str | Path] = ["--repo", layout.repo, "--upstream", upstream.tree, "--version", upstream.version]
    return run_module(layout.repo, "overlay", command, *common, *arguments)


def check_edits(layout: Layout, version_or_folder: str) -> bool:
    """Show, per edit, where it lands in a version or checkout, or why not; True if all land."""
    _, releases = read_pins(layout.repo)
    folder = Path(version_or_folder)
    is_folder = version_or_folder not in releases and folder.is_dir()
    with reading(layout, checkout=folder) if is_folder else reading(layout, version_or_folder) as upstream:
        return _overlay(layout, "check", upstream) == 0
