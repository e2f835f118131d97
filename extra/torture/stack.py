# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""A file system on a disk whose writes and flushes are recorded.

An image is served by qemu-nbd with its blklogwrites driver, made a file again by nbdfuse, put under a loop device and
mounted. The image and the log are not written out: the machine that runs the test does not lose its power.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench import nbd
from redstart_cli import tools
from redstart_cli.tools import ToolError

IMAGE_BYTES = 512 << 20
FILE_SYSTEMS = ("ext4", "xfs")
_MAKE = {"ext4": ["mkfs.ext4", "-q", "-F", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"],
         "xfs": ["mkfs.xfs", "-q", "-f", "-K"]}  # fmt: skip
PROGRAMS = ("qemu-nbd", "nbdfuse", "mkfs.ext4", "mkfs.xfs", "fusermount3", "losetup")
ROOT = "root (mounts and loop devices)"
DEVICES = ("/dev/fuse", "/dev/loop-control")


def missing() -> list[str]:
    """What power cuts would need and this machine does not have."""
    root = [] if os.geteuid() == 0 else [ROOT]
    return root + missing_programs() or missing_devices()


def missing_programs() -> list[str]:
    """The part of it that can be installed."""
    return [f"{name} (apt-get install {tools.PACKAGES[name]})" for name in PROGRAMS if shutil.which(name) is None]


def missing_devices() -> list[str]:
    """The part of it that the machine has or has not. It is tried with the programs, which have to be there."""
    if os.geteuid() != 0:
        return [ROOT]
    lacks = [path for path in DEVICES if not Path(path).exists()]
    if not lacks:
        with tempfile.TemporaryDirectory() as folder:
            image, point = Path(folder) / "image", Path(folder) / "fs"
            point.mkdir()
            make_file_system(image, "ext4", 16 << 20)
            try:
                with mounted(image, point):
                    pass
            except ToolError as problem:
                lacks.append(f"a loop device that can be mounted: {problem}")
    return lacks


def make_file_system(image: Path, kind: str, size_bytes: int = IMAGE_BYTES) -> None:
    """A sparse image with an empty file system."""
    image.unlink(missing_ok=True)
    with image.open("wb") as file:
        file.truncate(size_bytes)
    tools.run([*_MAKE[kind], image])


def copy_image(source: Path, target: Path) -> None:
    tools.run(["cp", "--sparse=always", source, target])


@contextlib.contextmanager
def _on_loop(file: Path, point: Path, kind: str, options: str, *how: str) -> Iterator[None]:
    """A loop device on a file, mounted. The kernel frees it when it is unmounted."""
    loop = tools.run(["losetup", "--find", "--show", *how, file]).strip()
    try:
        tools.run(["mount", "-t", kind, "-o", options, loop, point])
    finally:
        tools.run(["losetup", "--detach", loop])
    try:
        yield
    finally:
        nbd.detach("umount", point)


def options_of(kind: str) -> str:
    """Mount options: two XFS images may be copies of each other."""
    return "nouuid" if kind == "xfs" else "noatime"


@contextlib.contextmanager
def mounted(image: Path, point: Path, kind: str = "ext4") -> Iterator[None]:
    """The file system of an image; its flushes end in the page cache of the machine if that is possible."""
    with _on_loop(image, point, kind, options_of(kind) + (",nobarrier" if kind == "ext4" else "")):
        yield


@contextlib.contextmanager
def recorded(home: Path, image: Path, log: Path, kind: str) -> Iterator[Path]:
    """The file system of an image, which writes and flushes to the log; yields the mount point."""
    fuse, point = home / "fuse", home / "fs"
    for folder in (fuse, point):
        folder.mkdir(parents=True, exist_ok=True)
    log.unlink(missing_ok=True)
    log.touch()
    with contextlib.ExitStack() as stack:
        socket = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="torture-"))) / "nbd"
        options = (
            f"driver=blklogwrites,file.driver=file,file.filename={image},file.cache.no-flush=on,"
            f"log.driver=file,log.filename={log},log.cache.no-flush=on"
        )
        words: list[str | Path] = ["qemu-nbd", "--persistent", "--shared=4", f"--socket={socket}"]
        server = nbd.start([*words, "--image-opts", options], home / "qemu-nbd.log")
        stack.callback(nbd.end, server)
        nbd.wait_for(socket, server, "qemu-nbd", home / "qemu-nbd.log")
        disk = fuse / "disk"
        client = nbd.start(["nbdfuse", disk, "--unix", socket], home / "nbdfuse.log")
        stack.callback(nbd.end, client)
        # The loop device may hold its file a moment longer.
        stack.callback(tools.run, ["umount", "--lazy", fuse])
        nbd.wait_for(disk, client, "nbdfuse", home / "nbdfuse.log")
        stack.enter_context(_on_loop(disk, point, kind, options_of(kind), "--direct-io=on"))
        yield point
