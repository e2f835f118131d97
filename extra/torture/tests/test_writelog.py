# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""What a power cut may leave of a disk, and what not."""

import random
import struct
from pathlib import Path

import pytest

from torture.writelog import (
    DISCARD,
    FLUSH,
    FUA,
    MAGIC,
    SECTOR_BYTES,
    BadLog,
    Cut,
    Entry,
    build_disk,
    choose_cut,
    choose_half,
    find_atoms,
    find_copies,
    flushes,
    flushes_within,
    read_entries,
    torn,
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
        cut = choose_cut(entries, flush, end, random.Random(number), [])
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
        cut = choose_cut(entries, 1, end, random.Random(seed), [])
        assert cut == choose_cut(entries, 1, end, random.Random(seed), [])
        assert cut.limit == entries[4].end
        seen.add(tuple(number for number, sectors in cut.later.items() if sectors))
    assert seen == {(), (2,), (3,), (2, 3)}
    assert choose_cut(entries, 4, end, random.Random(1), []).limit == end + 1


def page(number: int) -> bytes:
    content = bytes(range(number, number + 128))
    return content * 4 + content[::-1] * 4


def copied(tmp_path: Path) -> list[Entry]:
    """A page that is flushed; then copies of two others, and the two themselves, and what is no copy."""
    requests = [
        (0, page(9), 0),
        (0, b"", FLUSH),
        (100, page(1) + page(2), 0),
        (10, page(1), 0),
        (20, page(2) + page(3), 0),
        (30, bytes(1024), 0),
        (40, bytes(1024), 0),
        (50, page(9), 0),
        (20, page(2) + page(3), 0),
        (0, b"", FLUSH),
        (60, page(1), 0),
    ]
    return read_entries(tmp_path / "log", write_log(tmp_path / "log", requests))


def test_copies_are_found_between_two_flushes(tmp_path: Path) -> None:
    entries = copied(tmp_path)
    assert find_copies(tmp_path / "log", entries, 1) == {3: {2}, 4: {2}, 8: {2}}
    assert find_copies(tmp_path / "log", entries, 9) == {}


def test_a_cut_leaves_a_page_whose_copy_is_not_flushed_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    entries = copied(tmp_path)
    atoms = find_atoms(tmp_path / "log", entries, 1, page_bytes=1024)
    assert atoms == [[3], [4], [8]]
    seen, torn_others, kept = set(), 0, 0
    for seed in range(300):
        cut = choose_cut(entries, 1, 0, random.Random(seed), atoms)
        free = choose_cut(entries, 1, 0, random.Random(seed), []).later
        there = {number: len(cut.later.get(number, ())) for number in (2, 3, 4, 5, 6, 7, 8)}
        for number in (3, 4, 8):
            assert there[number] in (0, entries[number].sectors)
            assert bool(there[number]) == bool(free.get(number))
        for number in (2, 5, 6, 7):
            assert cut.later.get(number) == free.get(number)
            torn_others += 0 < there[number] < entries[number].sectors
        assert cut.kept_whole == any(cut.later.get(number) != free.get(number) for number in (3, 4, 8))
        kept += cut.kept_whole
        seen.add((there[3] > 0, there[4] > 0))
    assert len(seen) == 4 and torn_others and kept


def test_a_cut_is_torn_by_a_part_of_a_write(tmp_path: Path) -> None:
    entries = copied(tmp_path)
    cases: list[tuple[dict[int, list[int]], bool]]
    cases = [({}, False), ({2: [0, 1, 2, 3]}, False), ({2: []}, False), ({2: [0, 1]}, True)]
    for later, is_torn in cases:
        assert Cut(1, 0, later).is_torn(entries) == is_torn


def test_a_page_of_several_writes_is_there_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    copy = page(1) + page(2) + page(3) + page(4)
    requests = [(0, b"", FLUSH), (100, copy, 0), (200, copy[:512], 0), (300, copy[512:], 0), (500, page(5), 0),
                (0, b"", FLUSH)]  # fmt: skip
    entries = read_entries(tmp_path / "log", write_log(tmp_path / "log", requests))
    atoms = find_atoms(tmp_path / "log", entries, 0)
    assert atoms == [[2, 3]]
    seen = set()
    for seed in range(300):
        later = choose_cut(entries, 0, 0, random.Random(seed), atoms).later
        sizes = tuple(len(later.get(number, ())) for number in (2, 3))
        assert sizes in ((0, 0), (entries[2].sectors, entries[3].sectors))
        seen.add((sizes[0] > 0, len(later.get(1, ())) == entries[1].sectors))
    assert len(seen) == 4


def test_the_copy_of_a_compressed_page_is_known_by_its_header(tmp_path: Path) -> None:
    def header(text: bytes, lsn: int) -> bytes:
        return (b"sums" + b"page" + bytes(8) + struct.pack(">Q", lsn) + text * 10 + b"spid").ljust(SECTOR_BYTES, text)

    requests = [(0, header(b"a", 5), 0), (9, header(b"b", 5), 0), (20, header(b"c", 6), 0), (30, header(b"d", 0), 0),
                (40, header(b"e", 0), 0)]  # fmt: skip
    entries = read_entries(tmp_path / "log", write_log(tmp_path / "log", requests))
    assert find_copies(tmp_path / "log", entries, -1) == {1: {0}}


def test_all_cuts_leave_half_of_one_page(tmp_path: Path) -> None:
    entries = copied(tmp_path)
    atoms = find_atoms(tmp_path / "log", entries, 1)
    for seed in range(50):
        cut = choose_half(entries, 1, 0, random.Random(seed), atoms)
        ((number, sectors),) = cut.later.items()
        assert number in (3, 4, 8)  # not the copy
        assert cut.limit == entries[9].end
        assert 2 * len(sectors) == entries[number].sectors


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
