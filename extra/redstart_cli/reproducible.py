# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""./redstart test reproducible: what is shipped, built again in another clone, without a compiler cache, is the same bytes."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from shutil import rmtree

from redstart_cli import revision
from redstart_cli.build import build
from redstart_cli.console import RedstartError, say
from redstart_cli.layout import PACKAGE, Layout
from redstart_cli.package import stage, targets, work_folder
from redstart_cli.process import run_logged, tied
from redstart_cli.result import Level


def digests(root: Path, names: Sequence[str] = ()) -> dict[str, str]:
    """Checksums of the files below `root`, or of those with these names."""
    files = [root / name for name in names] or [path for path in root.rglob("*") if path.is_file()]
    return {str(path.relative_to(root)): sha256(path.read_bytes()).hexdigest() for path in files}


def compare(first: Mapping[str, str], second: Mapping[str, str]) -> Level:
    """Each file is a test."""
    level = Level("reproducible")
    for name in sorted({*first, *second}):
        if first.get(name) == second.get(name):
            level.passed += 1
        else:
            level.fail(f"{name} {'differs' if name in first and name in second else 'is in one build only'}")
    return level


def run(layout: Layout, names: Sequence[str], options: Sequence[str], version: str | None, checkout: Path | None) -> Level:
    """All that is staged for packages, or files of the build tree by name; `options` say the release in words of the
    command line."""
    commit = revision.commit(layout.repo)
    if not commit or commit.endswith("+"):
        raise RedstartError("only a commit can be built again: a clone is made of it, and here files differ from it")
    os.environ["SOURCE_DATE_EPOCH"] = str(int(revision.source_date(layout.repo).timestamp()))
    wanted = list(names) or targets()
    build(layout, PACKAGE, wanted, version, checkout)
    work = work_folder(layout) / "again"
    if work.exists():
        rmtree(work)
    other = Layout(work / "other-clone")
    say(f"a second build, of a clone of {commit}")
    subprocess.run(tied(["git", "clone", "--quiet", layout.repo, other.repo]), check=True)
    words = (word for name in wanted for word in ("--target", name))
    command: list[str | Path] = [other.repo / "redstart", "build", PACKAGE, *options, *words]
    log = work / "build.log"
    if run_logged(command, log, lambda line: None, environment={**os.environ, "CCACHE_DISABLE": "1"}) != 0:
        raise RedstartError(f"the second build failed; see {log}")
    found: list[dict[str, str]] = []
    for one in (layout, other):
        root = one.preset(PACKAGE)
        if not names:
            root = work / f"stage-{len(found)}"
            stage(one, root)
        found.append(digests(root, names))
    level = compare(*found)
    if not level.failed:
        rmtree(work)
    return level
