# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Fakes: a clone in a temporary folder, programs in PATH. Nothing here uses the network or a real build."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from redstart_cli.layout import Layout

Program = Callable[[str, str], Path]


def write_program(path: Path, text: str) -> Path:
    """Make an executable script."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """An empty clone."""
    repo = tmp_path / "clone"
    (repo / "cmake").mkdir(parents=True)
    (repo / "build").mkdir()
    return Layout(repo)


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    """program(name, script) puts a fake program first in PATH."""
    folder = tmp_path / "bin"
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return lambda name, text: write_program(folder / name, text)
