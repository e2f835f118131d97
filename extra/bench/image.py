# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Volumes in an image file, under a loop device with direct I/O: the image gets what the kernel has made of the requests.

A throttle of the disk counts each block of a request before the kernel merges them; below a loop device it counts what comes
out of the merge, as a cloud's volume does. With a delay the image is served by nbdkit with its delay filter and made a file
again by nbdfuse over several connections, so that each read takes a given time and many reads can be under way at once: one
read at a time is slow, thirty-two at a time are not. Writes are not delayed.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil

from bench import nbd
from redstart_cli import tools
from redstart_cli.disk import free_bytes
from redstart_cli.tools import ToolError, Unavailable

IMAGE_MOST_BYTES = 64 << 30
IMAGE_LEAST_BYTES = 4 << 30
SPARE_BYTES = 4 << 30
CONNECTIONS = 8
THREADS = 64


def delay_text(delay_usec: int) -> str:
    """A delay as nbdkit's filter takes it: whole milliseconds, else microseconds.

    Microseconds are known from nbdkit 1.38 on; older ones refuse to start with them. (They take
    "0.5ms", and read it as 0.)
    """
    return f"{delay_usec // 1000}ms" if delay_usec % 1000 == 0 else f"{delay_usec}us"


def make_image(path: Path) -> None:
    """Makes a sparse image with an empty ext4 file system, unless it is there.

    Its size is that of the free space less a reserve, between 4 and 64 GiB; ToolError if there
    is not even that.
    """
    if path.exists():
        return
    tools.need_space(path.parent, IMAGE_LEAST_BYTES + SPARE_BYTES, "the image of the profile")
    size = min(IMAGE_MOST_BYTES, free_bytes(path.parent) - SPARE_BYTES)
    making = path.with_suffix(".making")
    with open(making, "wb") as file:
        file.truncate(size // 4096 * 4096)
    tools.run(["mkfs.ext4", "-q", "-F", making])
    making.rename(path)


def need_delay(delay_usec: int) -> None:
    """Raises Unavailable if this machine's nbdkit cannot delay by so much."""
    delay = delay_text(delay_usec)
    try:
        tools.run(["nbdkit", "-U", "-", "--filter=delay", "null", f"rdelay={delay}", "--run", "true"])
    except ToolError as error:
        raise Unavailable(
            f"this nbdkit cannot delay by {delay} (microseconds need 1.38 or newer): {error}"
        ) from error


def sweep(directory: Path) -> None:
    """Takes down what a killed bench left mounted below a directory.

    File systems first, then their loop devices, then the FUSE file systems below them.
    """
    ours = [mount.mountpoint for mount in psutil.disk_partitions(all=True) if mount.mountpoint.startswith(f"{directory}/")]
    for point in sorted(ours, reverse=True):
        if point.endswith("/fs"):
            tools.run(["umount", point])
    for line in tools.run(["losetup", "--list", "--noheadings", "--output", "NAME,BACK-FILE"]).splitlines():
        name, _, file = line.partition(" ")
        if file.strip().startswith(f"{directory}/"):
            tools.run(["losetup", "--detach", name])
    for point in sorted(ours, reverse=True):
        if not point.endswith("/fs"):
            tools.run(["umount", "--lazy", point])


def _need_loop_devices() -> None:
    tools.need_root("a profile on an image (loop devices and mounts)")
    tools.need("losetup", "mkfs.ext4", "setpriv")
    _need_path("/dev/loop-control")


def _need_path(path: str) -> None:
    if not Path(path).exists():
        raise Unavailable(f"a profile on an image needs {path}")


@contextlib.contextmanager
def mounted(directory: Path, delay_usec: int = 0) -> Iterator[Path]:
    """Mounts the image of a directory, with a delay on reads if that is not 0; yields the mount point.

    Everything is taken down at the end, in the opposite order. Raises Unavailable where a tool, root, FUSE (for a delay) or
    loop devices are missing.
    """
    _need_loop_devices()
    if delay_usec:
        tools.need("nbdkit", "nbdfuse")
        _need_path("/dev/fuse")
        need_delay(delay_usec)
    sweep(directory)
    image = directory / "volume.img"
    make_image(image)
    point = directory / "fs"
    point.mkdir(exist_ok=True)
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(_delayed(image, directory / "fuse", delay_usec)) if delay_usec else image
        loop = tools.run(["losetup", "--find", "--show", "--direct-io=on", file]).strip()
        stack.callback(nbd.detach, "losetup", "--detach", loop)
        tools.run(["mount", "-o", "noinit_itable", loop, point])
        stack.callback(nbd.detach, "umount", point)
        yield point
        os.sync()


@contextlib.contextmanager
def _delayed(image: Path, fuse: Path, delay_usec: int) -> Iterator[Path]:
    """The image as a file below `fuse` whose reads are delayed."""
    fuse.mkdir(exist_ok=True)
    with contextlib.ExitStack() as stack:
        sockets = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="redstart-nbd-")))
        socket = sockets / "s"
        words = ["nbdkit", "--foreground", "--exit-with-parent", "--unix", str(socket)]
        words += ["--threads", str(THREADS), "--filter=delay", "file", str(image)]
        words.append(f"rdelay={delay_text(delay_usec)}")
        server = nbd.start(words)
        stack.callback(nbd.end, server)
        nbd.wait_for(socket, server, "nbdkit")
        file = fuse / "disk"
        words = ["nbdfuse", "-C", str(CONNECTIONS), str(file), "--unix", str(socket)]
        client = nbd.start(words)
        stack.callback(client.wait)
        stack.callback(nbd.detach, "umount", fuse)
        nbd.wait_for(file, client, "nbdfuse")
        yield file
