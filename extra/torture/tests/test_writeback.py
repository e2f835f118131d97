# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The kernel is made to write a file back early."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from torture import writeback
from torture.writeback import Writeback


def test_a_file_is_asked_for_until_the_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[str] = []

    def advise(file: int, offset: int, length: int, advice: int) -> None:
        assert (offset, length, advice) == (0, 0, os.POSIX_FADV_DONTNEED)
        asked.append(os.readlink(f"/proc/self/fd/{file}"))

    monkeypatch.setattr(writeback.os, "posix_fadvise", advise)
    path = tmp_path / "binlog.startup"
    errors: list[str] = []
    with Writeback(path, errors):
        time.sleep(3 * writeback.INTERVAL_SEC)
        assert asked == [], "the file is not there yet"
        path.write_bytes(b"note")
        deadline = time.monotonic() + 10
        while len(asked) < 2 and time.monotonic() < deadline:
            time.sleep(writeback.INTERVAL_SEC)
    assert len(asked) >= 2 and set(asked) == {str(path)}
    number = len(asked)
    time.sleep(3 * writeback.INTERVAL_SEC)
    assert len(asked) == number
    assert errors == []


def test_its_end_is_seen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def advise(*_: int) -> None:
        raise OSError("no advice")

    monkeypatch.setattr(writeback.os, "posix_fadvise", advise)
    path = tmp_path / "binlog.startup"
    path.write_bytes(b"note")
    errors: list[str] = []
    with Writeback(path, errors):
        time.sleep(5 * writeback.INTERVAL_SEC)
    assert errors == ["binlog.startup is not written back: no advice"]
