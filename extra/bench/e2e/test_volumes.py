# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""A profile on an image: what is mounted, what its limits count, and that nothing of it is left.

Run by `./redstart test bench`.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bench import fio, image
from bench.diskstats import device_of, mount_of
from bench.layout import REPOSITORY, Layout
from bench.profiles import MERGED_LEAST, PROFILES, TOLERANCE, Profile, Volume, open_volume, volume_facts
from redstart_cli.tools import Unavailable

FIO_BYTES = 128 << 20
# More than fio's file and the file system take.
IMAGE_BYTES = 512 << 20

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="loop devices and mounts need root")


@pytest.fixture
def layout() -> Iterator[Layout]:
    """A bench directory on the disk of build/, removed afterwards."""
    base = REPOSITORY / "build" / "test" / "bench-volumes"
    shutil.rmtree(base, ignore_errors=True)
    made = Layout(base)
    made.make()
    yield made
    shutil.rmtree(base)


def loops(image: Path) -> list[tuple[str, bool]]:
    """The loop devices of an image, and whether they bypass the page cache."""
    words = ["losetup", "--json", "--list", "--output", "NAME,DIO,BACK-FILE", "--associated", str(image)]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    return [(found["name"], found["dio"]) for found in json.loads(said)["loopdevices"]] if said.strip() else []


@contextlib.contextmanager
def opened(layout: Layout, profile: Profile) -> Iterator[Volume]:
    """The volume; the test is skipped where a machine can have none."""
    with contextlib.ExitStack() as stack:
        try:
            volume = stack.enter_context(open_volume(layout, profile))
        except Unavailable as error:
            pytest.skip(f"this machine cannot limit an image: {error}")
        yield volume


@needs_root
def test_requests_count_as_the_kernel_has_merged_them(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fio, "FILE_BYTES", FIO_BYTES)
    monkeypatch.setattr(image, "IMAGE_LEAST_BYTES", IMAGE_BYTES)
    monkeypatch.setattr(image, "SPARE_BYTES", IMAGE_BYTES)
    # A busy disk can give these, too.
    limits = PROFILES["slow"].limits
    assert limits is not None
    profile = replace(PROFILES["gp3-merged"], limits=limits)
    path = layout.volumes / "volume.img"
    for content in ("", "kept"):
        with opened(layout, profile) as volume:
            point, fs_type, source = mount_of(volume.directory)
            assert Path(point) == volume.directory == layout.volumes / "fs"
            assert fs_type == volume_facts(volume)["file_system"] == "ext4"
            assert loops(path) == [(source, True)]
            # The disk below the image is limited, and I/O is counted there.
            assert volume.device == device_of(layout.base) != device_of(volume.directory)
            small, _, batches = volume.verified["fio"]
            assert small["iops"] <= limits.read_iops * (1 + TOLERANCE)
            assert batches["block_bytes"] == 4096 and batches["iops"] >= MERGED_LEAST * limits.read_iops
            # The next bench finds what this one has made.
            file = volume.directory / "file"
            assert (file.read_text(encoding="ascii") if file.exists() else "") == content
            file.write_text("kept", encoding="ascii")
            groups = [path.parent for path in volume.procs]
            assert groups and all(path.is_dir() for path in groups)
        assert loops(path) == [] and mount_of(layout.volumes / "fs")[0] != str(layout.volumes / "fs")
        assert not any(path.exists() for path in groups)
