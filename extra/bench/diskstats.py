# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Block device and process I/O counters, and their attribution to phases of a run.

Two independent counts are taken. The device's (/sys/dev/block/M:m/stat, the line of
/proc/diskstats) holds everything that reached the device, other programs' I/O included. The
process's (/proc/PID/io, read_bytes) holds what the server itself caused. Where they differ much,
somebody else used the disk during the run.
"""

from __future__ import annotations

import bisect
import operator
import os
import threading
import time
from dataclasses import astuple, dataclass, replace
from pathlib import Path

import psutil

from redstart_cli.tools import Unavailable

SECTOR_BYTES = 512
"""Unit of the kernel's sector counts, whatever the device's own block size."""


@dataclass(frozen=True)
class Counters:
    """I/O since some point in time; sectors are 512 bytes."""

    reads: int = 0
    sectors_read: int = 0
    writes: int = 0
    sectors_written: int = 0
    process_read_bytes: int = 0
    process_write_bytes: int = 0

    def __sub__(self, other: Counters) -> Counters:
        return Counters(*map(operator.sub, astuple(self), astuple(other)))


@dataclass(frozen=True)
class Device:
    """A block device by its numbers; `disk` is the whole disk if it is a partition."""

    name: str
    major: int
    minor: int
    disk: str
    disk_major: int
    disk_minor: int

    @property
    def numbers(self) -> str:
        """MAJOR:MINOR of the whole disk, as cgroups want it."""
        return f"{self.disk_major}:{self.disk_minor}"


def parse_stat(text: str) -> Counters:
    """Counters from the text of /sys/dev/block/M:m/stat."""
    fields = [int(word) for word in text.split()]
    if len(fields) < 7:
        raise ValueError(f"not a block device statistics line: {text!r}")
    return Counters(
        reads=fields[0],
        sectors_read=fields[2],
        writes=fields[4],
        sectors_written=fields[6],
    )


def parse_process_io(text: str) -> tuple[int, int]:
    """(read_bytes, write_bytes) from the text of /proc/PID/io."""
    values = dict(line.split(": ") for line in text.splitlines() if ": " in line)
    return int(values["read_bytes"]), int(values["write_bytes"])


def mount_of(path: Path) -> tuple[str, str, str]:
    """(mount point, file system type, source) of the mount that holds a path."""
    mounts = [mount for mount in psutil.disk_partitions(all=True) if path.resolve().is_relative_to(mount.mountpoint)]
    # The last of several on the same point is the visible one.
    mount = max(reversed(mounts), key=lambda mount: len(mount.mountpoint))
    return mount.mountpoint, mount.fstype, mount.device


def device_of(path: Path) -> Device:
    """The block device under the file system that holds a path.

    Raises Unavailable if there is none, as on tmpfs or a network file system.
    """
    _, fs_type, source = mount_of(path)
    status = os.stat(path)
    numbers = (os.major(status.st_dev), os.minor(status.st_dev))
    if not Path(f"/sys/dev/block/{numbers[0]}:{numbers[1]}").exists():
        if not source.startswith("/dev/") or not Path(source).exists():
            raise Unavailable(f"{path} is on {fs_type} ({source}): no block device to count or limit")
        rdev = os.stat(source).st_rdev
        numbers = (os.major(rdev), os.minor(rdev))
    link = Path(f"/sys/dev/block/{numbers[0]}:{numbers[1]}").resolve()
    disk = link.parent if (link / "partition").exists() else link
    disk_major, disk_minor = (int(x) for x in (disk / "dev").read_text().strip().split(":"))
    return Device(link.name, numbers[0], numbers[1], disk.name, disk_major, disk_minor)


def read_counters(device: Device | None, pid: int | None) -> Counters:
    """The counters now; what has no device or no process counts as 0."""
    disk = Counters()
    if device is not None:
        stat = Path(f"/sys/dev/block/{device.major}:{device.minor}/stat")
        disk = parse_stat(stat.read_text(encoding="ascii"))
    read_bytes = write_bytes = 0
    if pid is not None:
        try:
            text = Path(f"/proc/{pid}/io").read_text(encoding="ascii")
            read_bytes, write_bytes = parse_process_io(text)
        except OSError:
            pass
    return replace(disk, process_read_bytes=read_bytes, process_write_bytes=write_bytes)


class Sampler:
    """Reads the counters every few milliseconds, so that I/O can be told apart by phase.

    The times are those of the system clock, as in the server's error log. Attribution is exact
    to one period, if the machine lets the thread run; `least` and `most` hold in any case.
    """

    def __init__(self, device: Device | None, pid: int, period_sec: float = 0.005) -> None:
        self._device = device
        self._pid = pid
        self._period_sec = period_sec
        # When each sample was begun and done.
        self._begins: list[float] = []
        self._times: list[float] = []
        self._counters: list[Counters] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Takes the first sample and goes on in a thread."""
        self._sample()
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread and takes the last sample."""
        self._stop.set()
        self._thread.join()
        self._sample()

    def _sample(self) -> None:
        self._begins.append(time.time())
        counters = read_counters(self._device, self._pid)
        self._times.append(time.time())
        self._counters.append(counters)

    def _run(self) -> None:
        while not self._stop.wait(self._period_sec):
            self._sample()

    def between(self, begin: float, end: float) -> Counters:
        """I/O between two times (seconds since the epoch)."""
        return self.at(end) - self.at(begin)

    def least(self, begin: float, end: float) -> Counters:
        """I/O that was certainly between two times: of the samples within."""
        first, last = bisect.bisect_left(self._begins, begin), bisect.bisect_right(self._times, end) - 1
        return self._counters[last] - self._counters[first] if first < last else Counters()

    def most(self, begin: float, end: float) -> Counters:
        """I/O that may have been between two times: of the samples around."""
        first, last = bisect.bisect_right(self._times, begin) - 1, bisect.bisect_left(self._begins, end)
        return self._counters[min(last, len(self._counters) - 1)] - self._counters[max(first, 0)]

    def at(self, when: float) -> Counters:
        """The first sample at or after a time; the last one if there is none."""
        index = bisect.bisect_left(self._times, when)
        return self._counters[min(index, len(self._counters) - 1)]


def disk_facts(device: Device) -> dict[str, str]:
    """What the JSON says about the disk."""
    facts = {"device": device.name, "disk": device.disk}
    queue = Path(f"/sys/dev/block/{device.numbers}/queue")
    for name in ("scheduler", "rotational", "read_ahead_kb", "logical_block_size"):
        try:
            facts[name] = (queue / name).read_text(encoding="ascii").strip()
        except OSError:
            continue
    return facts
