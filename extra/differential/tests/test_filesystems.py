# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""File systems to make states on."""

import os
from pathlib import Path

import pytest

from differential.filesystems import KINDS, FileSystem, check
from redstart_cli import tools
from redstart_cli.mounts import own_namespace
from redstart_cli.tools import ToolError


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(tools.shutil, "which", lambda name: None if name == "mkfs.xfs" else name)
    with pytest.raises(ToolError, match="mkfs.xfs.*xfsprogs"):
        check("xfs")
    check("ext4")
    monkeypatch.setattr(os, "geteuid", lambda: 1)
    with pytest.raises(ToolError, match="root"):
        FileSystem("tmpfs", tmp_path / "f")


@pytest.mark.parametrize("kind", KINDS)
def test_files_stay_when_the_device_changes(kind: str, tmp_path: Path) -> None:
    place = tmp_path / "f"
    try:
        check(kind)
        own_namespace(is_shared=True)
        made = FileSystem(kind, place)
    except ToolError as error:
        pytest.skip(str(error))
    try:
        file = place / "file"
        file.write_text("x")
        before = os.stat(file)
        (place / "folder").mkdir()
        if made.can_change_device:
            made.change_device()
            after = os.stat(file)
            assert after.st_ino == before.st_ino
            assert after.st_dev != before.st_dev
        assert file.read_text() == "x"
        (place / "folder").rename(place / "renamed")
    finally:
        made.close()
    assert not list(tmp_path.iterdir())
