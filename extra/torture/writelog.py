# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The log of writes to a disk, and the disks that a power cut may leave.

The log is that of the kernel's dm-log-writes, as QEMU's driver blklogwrites writes it: a sector with the magic number,
then for each request a sector with its place, length and flags, followed by the data.

What a disk has confirmed with a flush stays. Of what was written after the last confirmed flush, anything may be there:
all, none, any writes without those before them, and of each write any of its units, for a disk promises no more than
that a unit of 512 bytes (some: 4 KiB) is written as a whole. Writes after the next flush are not there: whoever sent
them may have waited for it.
"""

from __future__ import annotations

import os
import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from torture.pages import PAGE_BYTES

MAGIC = 0x6A736677736872
VERSION = 1
SECTOR_BYTES = 512
FLUSH = 1
FUA = 2
DISCARD = 4
_SUPER = struct.Struct("<QQQI")
_ENTRY = struct.Struct("<QQQQ")
# Writes in this proportion are torn if a cut tears at all.
TORN_SHARE = 0.3


class BadLog(Exception):
    """The file is not a log of writes."""


@dataclass(frozen=True)
class Entry:
    """A request: where its entry begins and ends in the log, and what it does to the disk."""

    begin: int
    end: int
    sector: int
    sectors: int
    flags: int

    @property
    def is_flush(self) -> bool:
        return bool(self.flags & FLUSH)

    @property
    def is_write(self) -> bool:
        return self.sectors > 0 and not self.flags & DISCARD


def read_entries(log: Path, end: int) -> list[Entry]:
    """The requests whose entries end at or before the position `end`."""
    entries = []
    with log.open("rb") as file:
        head = file.read(_SUPER.size)
        if len(head) < _SUPER.size:
            raise BadLog(f"{log} has no header")
        magic, version, _, sector_bytes = _SUPER.unpack(head)
        if (magic, version, sector_bytes) != (MAGIC, VERSION, SECTOR_BYTES):
            raise BadLog(f"{log}: magic {magic:#x}, version {version}, sectors of {sector_bytes} bytes")
        at = SECTOR_BYTES
        while at + SECTOR_BYTES <= end:
            file.seek(at)
            sector, sectors, flags, _ = _ENTRY.unpack(file.read(_ENTRY.size))
            if not sectors and not flags:
                break  # never written
            if flags & FUA:
                raise BadLog(f"{log}: a write at {at} that is confirmed by itself; the loop device has none")
            after = at + SECTOR_BYTES + (0 if flags & DISCARD else sectors * SECTOR_BYTES)
            if after > end:
                break
            entries.append(Entry(at, after, sector, sectors, flags))
            at = after
    return entries


@dataclass
class Cut:
    """A power cut: everything up to the request `flush` is on the disk, and of later ones the sectors in `later`.

    What was acknowledged at a position of the log below `limit` must have been confirmed by that flush: the next one
    ends there.
    """

    flush: int
    limit: int
    later: dict[int, list[int]] = field(default_factory=dict)
    manner: str = ""
    # Whether a page would have been there in part whose copy is not flushed.
    kept_whole: bool = False

    def is_torn(self, entries: list[Entry]) -> bool:
        """Whether a part of a write is there."""
        return any(0 < len(sectors) < entries[number].sectors for number, sectors in self.later.items())


def flushes(entries: list[Entry], low: float, high: float) -> list[int]:
    """Numbers of the flushes that end in [low, high]."""
    return [number for number, entry in enumerate(entries) if entry.is_flush and low <= entry.end <= high]


def flushes_within(entries: list[Entry], high: float) -> list[int]:
    """Numbers of the flushes that are followed by another one that ends at or before `high`.

    A power cut after one of them leaves nothing of what was written after `high`.
    """
    return flushes(entries, 0, high)[:-1]


# By write, the earlier ones between the same flushes that hold a copy of a part of it.
Copies = dict[int, set[int]]
# Writes, by their numbers, that are there together or not at all.
Atoms = list[list[int]]


def writes_after(entries: list[Entry], flush: int) -> list[int]:
    """Numbers of the writes between a flush and the next, or the end."""
    after = _next_flush(entries, flush)
    return [number for number in range(flush + 1, after) if entries[number].is_write]


def _next_flush(entries: list[Entry], flush: int) -> int:
    return next((number for number in range(flush + 1, len(entries)) if entries[number].is_flush), len(entries))


def _limit(entries: list[Entry], flush: int, end: int) -> int:
    """Cut.limit of a cut after a flush, in a log that ends at `end`."""
    after = _next_flush(entries, flush)
    return entries[after].end if after < len(entries) else end + 1


def find_copies(log: Path, entries: list[Entry], flush: int) -> Copies:
    """Which writes after a flush have the content of others before them, at another place; zeros are no content.

    A page that MySQL compresses on its way to the file is recognised by what its header says: number, LSN and ID.
    """
    seen: dict[bytes | tuple[bytes, ...], list[tuple[int, int]]] = {}
    copies: Copies = {}
    with log.open("rb") as source:
        for number in writes_after(entries, flush):
            entry = entries[number]
            data = os.pread(source.fileno(), entry.sectors * SECTOR_BYTES, entry.begin + SECTOR_BYTES)
            for at in range(entry.sectors):
                content = data[at * SECTOR_BYTES : (at + 1) * SECTOR_BYTES]
                if len(set(content)) == 1:
                    continue
                header = (content[4:8], content[16:24], content[34:38])
                for key in (content, header) if any(header[1]) else (content,):
                    place = seen.setdefault(key, [])
                    others = {other for other, sector in place if other != number and sector != entry.sector + at}
                    if others:
                        copies.setdefault(number, set()).update(others)
                    place.append((number, entry.sector + at))
    return copies


def find_atoms(log: Path, entries: list[Entry], flush: int, page_bytes: int = PAGE_BYTES) -> Atoms:
    """Writes after a flush that hold pages whose copies are not flushed yet."""
    pages = sorted(find_copies(log, entries, flush))
    # If one of them is no whole pages, a page may be several writes.
    if any(entries[number].sectors * SECTOR_BYTES % page_bytes for number in pages):
        return [pages]
    return [[number] for number in pages]


def choose_cut(entries: list[Entry], flush: int, end: int, r: random.Random, atoms: Atoms) -> Cut:
    """A power cut between a flush and the next, or `end`. Each of `atoms` is there as a whole or not at all."""
    writes = writes_after(entries, flush)
    manner = r.choice(["none", "all", "some", "some", "some", "first", "last"])
    if manner == "none":
        chosen = []
    elif manner == "some":
        chosen = [number for number in writes if r.random() < 0.5]
    elif manner == "first":
        chosen = writes[: r.randrange(len(writes) + 1)]
    elif manner == "last":
        chosen = writes[r.randrange(len(writes) + 1) :]
    else:
        chosen = writes
    unit = r.choice([0, 1, 8])  # sectors that are written as a whole; 0: the whole write
    cut = Cut(flush, _limit(entries, flush, end), manner=f"{manner}, {'whole' if not unit else f'torn at {unit * SECTOR_BYTES}'}")
    for number in chosen:
        is_torn = unit and r.random() < TORN_SHARE
        cut.later[number] = torn(entries[number], unit, r) if is_torn else list(range(entries[number].sectors))
    for atom in atoms:
        there = any(cut.later.get(number) for number in atom)
        if there and any(len(cut.later.get(number, ())) < entries[number].sectors for number in atom):
            cut.kept_whole = True
            cut.later.update((number, list(range(entries[number].sectors))) for number in atom)
    return cut


def choose_half(entries: list[Entry], flush: int, end: int, r: random.Random, atoms: Atoms) -> Cut:
    """A power cut that choose_cut() leaves out: half of one write of `atoms` is there, and nothing else."""
    number = r.choice(sorted({number for atom in atoms for number in atom}))
    sectors = list(range(r.randrange(2), entries[number].sectors, 2))
    return Cut(flush, _limit(entries, flush, end), {number: sectors}, "half of one, torn at 512")


def torn(entry: Entry, unit: int, r: random.Random) -> list[int]:
    """Some sectors of a write, by units that lie where the disk has them."""
    units = sorted({(entry.sector + number) // unit for number in range(entry.sectors)})
    kept = {number for number in units if r.random() < 0.5}
    return [number for number in range(entry.sectors) if (entry.sector + number) // unit in kept]


def build_disk(image: Path, log: Path, entries: list[Entry], cut: Cut) -> None:
    """Turn the image from before the log into the one that the cut leaves."""
    with log.open("rb") as source, image.open("r+b") as target:
        for number, sectors in _kept(entries, cut):
            entry = entries[number]
            data = os.pread(source.fileno(), entry.sectors * SECTOR_BYTES, entry.begin + SECTOR_BYTES)
            for first, count in _runs(sectors):
                piece = data[first * SECTOR_BYTES : (first + count) * SECTOR_BYTES]
                os.pwrite(target.fileno(), piece, (entry.sector + first) * SECTOR_BYTES)


def _kept(entries: list[Entry], cut: Cut) -> Iterator[tuple[int, list[int]]]:
    for number in range(cut.flush + 1):
        if entries[number].is_write:
            yield number, list(range(entries[number].sectors))
    yield from sorted(cut.later.items())


def _runs(sectors: list[int]) -> Iterator[tuple[int, int]]:
    """Sorted numbers as runs: (first, count)."""
    first = count = 0
    for sector in sectors:
        if count and sector == first + count:
            count += 1
            continue
        if count:
            yield first, count
        first, count = sector, 1
    if count:
        yield first, count
