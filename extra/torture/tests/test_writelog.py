# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""What a power cut may leave of a disk, and what not."""

import random
import struct
from pathlib import Path

import pytest

from torture.writelog import (
    DISCARD, FLUSH, FUA, MAGIC, SECTOR_BYTES, BadLog, Cut, Entry, build_disk, choose_cut, flushes,
    flushes_within, read_entries, torn,
)  # fmt: skip


def sector(number: int) -> bytes:
    return bytes([number]) * SECTOR_BYTES


def write_log(path: Path, requests: list[tuple[int, bytes, int]]) -> int:
    """A log of (sector, data, flags); returns its length."""
    text = struct.pack("<QQQI", MAGIC, 1, len(requests), SECTOR_BYTES).ljust(SECTOR_BYTES, b"\0")
    for at, data, flags in requests:
        text += struct.pack("<QQQQ", at, len(data) // SECTOR_BYTES, flags, 0).ljust(SECTOR_BYTES, b"\0") + data
    path.write_bytes(text)
    return len(text)


REQUESTS = [
    (0, sector(1) + sector(2), 0),
    (0, b"", FLUSH),
    (1, sector(3), 0),
    (4, sector(4), 0),
    (0, b"", FLUSH),
    (5, sector(5), 0),
]


def test_entries_are_read_up_to_a_position(tmp_path: Path) -> None:
    end = write_log(tmp_path / "log", REQUESTS)
    entries = read_entries(tmp_path / "log", end)
    assert [(entry.sector, entry.sectors, entry.is_flush, entry.is_write) for entry in entries] == [
        (0, 2, False, True), (0, 0, True, False), (1, 1, False, True), (4, 1, False, True), (0, 0, True, False),
        (5, 1, False, True),
    ]  # fmt: skip
    assert entries[-1].end == end
    assert len(read_entries(tmp_path / "log", end - 1)) == 5
    assert flushes(entries, 0, end) == [1, 4]
    assert flushes(entries, entries[1].end + 1, end) == [4]


def test_a_cut_before_a_position_leaves_nothing_of_what_follows_it(tmp_path: Path) -> None:
    end = write_log(tmp_path / "log", [*REQUESTS, (0, b"", FLUSH)])
    entries = read_entries(tmp_path / "log", end)
    assert flushes_within(entries, end) == [1, 4]
    assert flushes_within(entries, end - 1) == [1]
    assert flushes_within(entries, entries[4].end) == [1]
    assert flushes_within(entries, entries[4].end - 1) == []
    for number in range(50):
        (flush,) = flushes_within(entries, entries[4].end)
        cut = choose_cut(entries, flush, end, random.Random(number))
        assert all(entries[later].end <= entries[4].end for later in cut.later)


def test_a_discard_has_no_data(tmp_path: Path) -> None:
    end = write_log(tmp_path / "log", [(0, b"", FLUSH)])
    entry = struct.pack("<QQQQ", 8, 100, DISCARD, 0).ljust(SECTOR_BYTES, b"\0")
    (tmp_path / "log").write_bytes((tmp_path / "log").read_bytes() + entry)
    entries = read_entries(tmp_path / "log", end + SECTOR_BYTES)
    assert len(entries) == 2 and not entries[1].is_write


@pytest.mark.parametrize("text", [b"", b"x" * 4096])
def test_another_file_is_refused(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "log").write_bytes(text)
    with pytest.raises(BadLog):
        read_entries(tmp_path / "log", 4096)


def test_a_write_that_confirms_itself_is_refused(tmp_path: Path) -> None:
    end = write_log(tmp_path / "log", [(0, sector(1), FUA)])
    with pytest.raises(BadLog):
        read_entries(tmp_path / "log", end)


def disk(tmp_path: Path, cut: Cut) -> list[int]:
    """The first byte of each sector of the disk that a cut leaves."""
    entries = read_entries(tmp_path / "log", write_log(tmp_path / "log", REQUESTS))
    image = tmp_path / "image"
    image.write_bytes(bytes(8 * SECTOR_BYTES))
    build_disk(image, tmp_path / "log", entries, cut)
    return list(image.read_bytes()[::SECTOR_BYTES])


def test_what_was_flushed_stays_and_what_follows_may_be_there(tmp_path: Path) -> None:
    assert disk(tmp_path, Cut(1, 0)) == [1, 2, 0, 0, 0, 0, 0, 0]
    assert disk(tmp_path, Cut(1, 0, {3: [0]})) == [1, 2, 0, 0, 4, 0, 0, 0]
    assert disk(tmp_path, Cut(1, 0, {2: [0], 3: [0]})) == [1, 3, 0, 0, 4, 0, 0, 0]
    assert disk(tmp_path, Cut(4, 0)) == [1, 3, 0, 0, 4, 0, 0, 0]
    assert disk(tmp_path, Cut(4, 0, {5: [0]})) == [1, 3, 0, 0, 4, 5, 0, 0]


def test_a_cut_keeps_to_what_lies_between_two_flushes(tmp_path: Path) -> None:
    end = write_log(tmp_path / "log", REQUESTS)
    entries = read_entries(tmp_path / "log", end)
    seen: set[tuple[int, ...]] = set()
    for seed in range(200):
        cut = choose_cut(entries, 1, end, random.Random(seed))
        assert cut == choose_cut(entries, 1, end, random.Random(seed))
        assert cut.limit == entries[4].end
        seen.add(tuple(number for number, sectors in cut.later.items() if sectors))
    assert seen == {(), (2,), (3,), (2, 3)}
    assert choose_cut(entries, 4, end, random.Random(1)).limit == end + 1


@pytest.mark.parametrize("unit", [1, 8])
def test_a_torn_write_is_torn_where_the_disk_has_its_units(unit: int) -> None:
    entry = Entry(0, 0, 5, 32, 0)
    seen = set()
    for seed in range(100):
        kept = torn(entry, unit, random.Random(seed))
        seen.add(len(kept))
        for number in range(entry.sectors):
            same = [n for n in range(entry.sectors) if (n + 5) // unit == (number + 5) // unit]
            assert {n in kept for n in same} in ({True}, {False})
    assert len(seen) > 3
