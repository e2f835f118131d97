# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""What power cuts need is named; what is recorded of a disk is that disk."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest

from torture import stack, writelog


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(shutil, "which", lambda name: None if name in ("qemu-nbd", "mkfs.xfs") else f"/bin/{name}")
    lacks = stack.missing()
    assert lacks[0].startswith("root")
    assert "qemu-nbd (apt-get install qemu-utils)" in lacks
    assert "mkfs.xfs (apt-get install xfsprogs)" in lacks


@pytest.mark.parametrize("kind", stack.FILE_SYSTEMS)
def test_what_was_flushed_is_on_every_disk_that_a_cut_leaves(kind: str, tmp_path: Path) -> None:
    if lacks := stack.missing():
        pytest.skip("; ".join(lacks))
    before, disk, log = tmp_path / "before.img", tmp_path / "disk.img", tmp_path / "log"
    stack.make_file_system(before, kind)
    stack.copy_image(before, disk)
    flushed: dict[str, int] = {}
    with stack.recorded(tmp_path, disk, log, kind) as point:
        for number in range(6):
            with (point / f"file{number}").open("wb") as file:
                file.write(bytes([number]) * 10_000)
                file.flush()
                os.fsync(file.fileno())
            flushed[f"file{number}"] = log.stat().st_size
        end = log.stat().st_size
    entries = writelog.read_entries(log, end)
    flushes = writelog.flushes(entries, 0, end)
    for seed in range(6):
        r = random.Random(seed)
        cut = writelog.choose_cut(entries, r.choice(flushes), end, r, [])
        image = tmp_path / "cut.img"
        stack.copy_image(before, image)
        writelog.build_disk(image, log, entries, cut)
        with stack.mounted(image, tmp_path / "fs", kind):
            for name, position in flushed.items():
                if position < cut.limit:
                    assert (tmp_path / "fs" / name).read_bytes() == bytes([int(name[-1])]) * 10_000
