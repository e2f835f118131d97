# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Which file a sector of a disk belongs to, as the file system says (FIEMAP)."""

from __future__ import annotations

import bisect
import errno
import fcntl
import os
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.diskstats import SECTOR_BYTES, Device

FILE_SYSTEMS = ("ext2", "ext3", "ext4", "xfs")
"""Those whose answer is a place on the disk. That of btrfs is an address of its own."""

_FS_IOC_FIEMAP = 0xC020660B
_HEAD = struct.Struct("=QQIIII")
_EXTENT = struct.Struct("=QQQQQIIII")
_EXTENTS_AT_ONCE = 256
_LAST = 0x001
# Not on the disk yet, not known, encoded, or in the inode: no place of its own.
_NO_PLACE = 0x002 | 0x004 | 0x008 | 0x200
_UNSUPPORTED = (errno.EOPNOTSUPP, errno.ENOTTY, errno.EINVAL)


@dataclass(frozen=True)
class Extent:
    """Sectors `begin` to before `end` of the whole disk hold a part of a file."""

    begin: int
    end: int
    name: str


def parse_fiemap(answer: bytes) -> tuple[list[tuple[int, int]], int | None]:
    """(pairs of place and length in bytes, where in the file to go on); None instead of the latter at the end."""
    count = _HEAD.unpack_from(answer)[3]
    places, next_byte, is_last = [], 0, count == 0
    for index in range(count):
        logical, physical, length, _, _, flags, *_ = _EXTENT.unpack_from(answer, _HEAD.size + index * _EXTENT.size)
        next_byte, is_last = logical + length, bool(flags & _LAST)
        if not flags & _NO_PLACE:
            places.append((physical, length))
    return places, None if is_last else next_byte


def places_of(descriptor: int) -> Iterator[tuple[int, int]]:
    """(place, length), in bytes, of each extent of an open file or directory; none where the file system has no answer."""
    begin: int | None = 0
    while begin is not None:
        question = _HEAD.pack(begin, (1 << 64) - 1 - begin, 0, 0, _EXTENTS_AT_ONCE, 0)
        buffer = bytearray(question + bytes(_EXTENTS_AT_ONCE * _EXTENT.size))
        try:
            fcntl.ioctl(descriptor, _FS_IOC_FIEMAP, buffer)
        except OSError as error:
            if error.errno in _UNSUPPORTED:
                return
            raise
        places, begin = parse_fiemap(bytes(buffer))
        yield from places


def first_sector(device: Device) -> int:
    """Where a partition begins on its disk."""
    start = Path(f"/sys/dev/block/{device.major}:{device.minor}/start")
    return int(start.read_text(encoding="ascii")) if start.exists() else 0


class ExtentMap:
    """The files of one file system by sector."""

    def __init__(self, extents: Iterable[Extent]) -> None:
        self._extents = sorted(extents, key=lambda extent: extent.begin)
        self._begins = [extent.begin for extent in self._extents]

    def split(self, begin: int, end: int) -> Iterator[tuple[str | None, int]]:
        """(file, sectors) of each part of a range of sectors, in order; None is what no file is known for."""
        while begin < end:
            index = bisect.bisect_right(self._begins, begin) - 1
            if index >= 0 and self._extents[index].end > begin:
                name, until = self._extents[index].name, self._extents[index].end
            else:
                name, until = None, self._begins[index + 1] if index + 1 < len(self._begins) else end
            until = min(until, end)
            yield name, until - begin
            begin = until


class Files:
    """Collects files of one file system, each once, whatever its names."""

    def __init__(self, device: Device) -> None:
        self._device_id = os.makedev(device.major, device.minor)
        self._offset = first_sector(device)
        self._extents: dict[int, list[Extent]] = {}
        self.elsewhere: list[str] = []
        """Names of those that lie on other devices."""

    def add(self, path: Path, name: str) -> None:
        """Adds a file or directory under a name; one that is gone is left out, as are those that are neither.

        What was added before under the same inode is replaced.
        """
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        except OSError:
            return
        try:
            status = os.fstat(descriptor)
            if status.st_dev != self._device_id:
                self.elsewhere.append(name)
                return
            extents = [
                Extent(self._offset + place // SECTOR_BYTES, self._offset + -(-(place + length) // SECTOR_BYTES), name)
                for place, length in places_of(descriptor)
            ]
        finally:
            os.close(descriptor)
        self._extents[status.st_ino] = extents

    def map(self) -> ExtentMap:
        """What was collected."""
        return ExtentMap(extent for extents in self._extents.values() for extent in extents)
