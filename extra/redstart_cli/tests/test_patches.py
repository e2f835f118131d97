# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""What ./redstart patches refuses before it makes anything."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from redstart_cli.console import RedstartError
from redstart_cli.layout import Layout
from redstart_cli.patches import patches, uncommitted


def git(folder: Path, *arguments: str) -> None:
    who = ["-c", "user.name=n", "-c", "user.email=e@example.invalid"]
    subprocess.run(["git", "-C", str(folder), *who, *arguments], check=True, capture_output=True)


@pytest.fixture
def clone(layout: Layout) -> Layout:
    """A clone with one commit."""
    (layout.repo / "cmake/x").write_text("x\n")
    git(layout.repo, "init", "--quiet")
    git(layout.repo, "add", "cmake")
    git(layout.repo, "commit", "--quiet", "-m", "m")
    return layout


def test_uncommitted(clone: Layout, tmp_path: Path) -> None:
    assert uncommitted(clone.repo, ["cmake", "sql"]) == []
    (clone.repo / "cmake/x").write_text("y\n")
    (clone.repo / "cmake/new").write_text("y\n")
    assert uncommitted(clone.repo, ["cmake", "sql"]) == ["cmake/x", "cmake/new"]
    assert uncommitted(tmp_path, ["cmake"]) is None


def test_a_dirty_clone_is_refused(clone: Layout, tmp_path: Path) -> None:
    (clone.repo / "cmake/x").write_text("y\n")
    with pytest.raises(RedstartError, match=r"not committed: cmake/x\. .*--allow-dirty"):
        patches(clone, tmp_path / "out", None, None, [], False)
    assert not (tmp_path / "out").exists()


def test_a_folder_with_files_is_refused_first(clone: Layout) -> None:
    with pytest.raises(RedstartError, match="holds files; name a new or an empty directory"):
        patches(clone, clone.repo / "cmake", None, None, [], False)
    assert sorted(path.name for path in (clone.repo / "cmake").iterdir()) == ["x"]
