# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""A volume on which each read takes a given time, and many reads can be under way at once.

This is how network volumes behave, and what a throttle cannot show: one read at a time is slow,
thirty-two at a time are not. An image file is served by nbdkit with its delay filter, made a
file again by nbdfuse over several connections, put under a loop device with direct I/O, and
mounted. Writes are not delayed.
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
    tools.need_space(path.parent, IMAGE_LEAST_BYTES + SPARE_BYTES, "the image of the latency profile")
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


@contextlib.contextmanager
def mounted(directory: Path, delay_usec: int) -> Iterator[Path]:
    """Mounts the image of a directory with a delay on reads; yields the mount point.

    Everything is taken down at the end, in the opposite order. Raises Unavailable where a tool,
    root, FUSE or loop devices are missing.
    """
    tools.need_root("the latency profile (loop devices and mounts)")
    tools.need("nbdkit", "nbdfuse", "losetup", "mkfs.ext4", "setpriv")
    for path in (Path("/dev/fuse"), Path("/dev/loop-control")):
        if not path.exists():
            raise Unavailable(f"the latency profile needs {path}")
    need_delay(delay_usec)
    sweep(directory)
    image = directory / "volume.img"
    make_image(image)
    fuse, point = directory / "fuse", directory / "fs"
    fuse.mkdir(exist_ok=True)
    point.mkdir(exist_ok=True)
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
        loop = tools.run(["losetup", "--find", "--show", "--direct-io=on", file]).strip()
        stack.callback(nbd.detach, "losetup", "--detach", loop)
        tools.run(["mount", "-o", "noinit_itable", loop, point])
        stack.callback(nbd.detach, "umount", point)
        yield point
        os.sync()
