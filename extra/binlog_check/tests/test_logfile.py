# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The events of a binary log, and ways to damage it."""

from __future__ import annotations

import random
import struct
import zlib
from pathlib import Path

from binlog_check import cases
from binlog_check.logfile import (
    FORMAT,
    GTID,
    MAGIC,
    MIN_SKIP_BYTES,
    QUERY,
    STOP,
    XID,
    Checkpoint,
    events,
    is_in_use,
    lengthened,
    name_the_copy,
    note_path,
    read_checkpoint,
    read_gtids,
    read_note,
    transactions,
    without_one,
    write_checkpoint,
    write_gtids,
    write_note,
)  # fmt: skip

_ROWS = 30


def event(kind: int, at: int, body: bytes, flags: int = 0) -> bytes:
    size = 19 + len(body) + 4
    head = struct.pack("<IBIIIH", 1, kind, 1, size, at + size, flags)
    return head + body + struct.pack("<I", zlib.crc32(head + body))


def log(*sizes: int, is_closed: bool = False) -> bytes:
    """A file with transactions of one row event each."""
    content = MAGIC + event(FORMAT, 4, b"f" * 80, 0 if is_closed else 1)
    for size in sizes:
        body = b"\0" * 42
        # GTID, BEGIN, rows, XID.
        length = (23 + 42 + 7 + 4) + 23 + 5 + (23 + size) + 31
        packed = b"\xfd" + struct.pack("<I", length)[:3]
        content += event(GTID, len(content), body + b"\1" * 7 + packed)
        content += event(QUERY, len(content), b"BEGIN")
        content += event(_ROWS, len(content), b"r" * size)
        content += event(XID, len(content), b"x" * 8)
    return content + event(STOP, len(content), b"")


def test_transactions_are_found() -> None:
    content = log(100, 2 * MIN_SKIP_BYTES)
    assert [e.kind for e in events(content)] == [FORMAT, GTID, QUERY, _ROWS, XID, GTID, QUERY, _ROWS, XID, STOP]
    small, large = transactions(content)
    assert len(small.middle) == 0
    assert content[large.middle.start : large.middle.stop].endswith(b"r" + content[large.middle.stop - 4 : large.middle.stop])
    assert len(large.middle) == 2 * MIN_SKIP_BYTES + 23
    assert is_in_use(content) and not is_in_use(log(is_closed=True))
    assert events(b"\xfdbin" + content[4:]) == []
    assert len(events(content[:-1])) == 9


def test_a_torn_event_ends_the_list() -> None:
    content = log(100)
    assert [e.kind for e in events(content[: len(content) - 30])] == [FORMAT, GTID, QUERY, _ROWS]


def test_the_note_is_that_of_the_server(tmp_path: Path) -> None:
    path = tmp_path / "binlog.000003"
    path.write_bytes(log(100))
    write_note(path, 4711)
    note = (tmp_path / "binlog.startup").read_bytes()
    assert len(note) == 40 and note[:8] == b"MYBLSYN1"
    inode, synced, name, first, zero, crc = struct.unpack("<QQIIII", note[8:])
    closed = log(100, is_closed=True)
    assert (inode, synced, zero) == (path.stat().st_ino, 4711, 0)
    assert name == zlib.crc32(b"binlog.000003") and crc == zlib.crc32(note[:36])
    # The event has a checksum of its own, which the flag is not part of in a real file.
    body = bytearray(path.read_bytes()[4 : 4 + 103])
    body[17] = 0
    assert first == zlib.crc32(bytes(body)) and closed[4 + 17] == 0
    path.write_bytes(b"\xfdbin")
    (tmp_path / "binlog.startup").unlink()
    write_note(path, 1)
    assert not (tmp_path / "binlog.startup").exists()


def test_the_set_in_the_note_is_that_of_the_server(tmp_path: Path) -> None:
    path = tmp_path / "binlog.000003"
    path.write_bytes(log(100, is_closed=True))
    write_note(path, 4711)
    assert read_gtids(path) is None
    write_gtids(path, b"a set")
    note = (tmp_path / "binlog.startup").read_bytes()
    magic, mtime, tail, length = struct.unpack("<8sQII", note[40:64])
    assert (magic, mtime, length) == (b"MYBLGTI1", path.stat().st_mtime_ns, 5)
    assert tail == zlib.crc32(path.read_bytes()[-23:])
    assert note[64:] == b"a set" + struct.pack("<I", zlib.crc32(note[:-4]))
    assert read_note(path) == path.stat().st_size and read_gtids(path) == b"a set"
    (tmp_path / "binlog.startup").write_bytes(note[:-1])
    assert read_gtids(path) is None and read_note(path) == path.stat().st_size


def test_a_set_loses_one() -> None:
    head = struct.pack("<Q", 2)
    one = b"u" * 16 + struct.pack("<QQQ", 1, 7, 8)
    several = b"v" * 16 + struct.pack("<QQQQQ", 2, 1, 2, 5, 9)
    assert without_one(head + one + one) is None
    assert without_one(head + one + several) == head + one + several[:-8] + struct.pack("<Q", 8)
    tagged = struct.pack("<Q", 1 << 56 | 2 << 8 | 1) + b"u" * 16 + b"\0" + one[16:] + b"v" * 16 + b"\x06tag" + several[16:]
    assert without_one(tagged) == tagged[:-8] + struct.pack("<Q", 8)


def test_stale_notes(tmp_path: Path) -> None:
    content = log(100, 200, is_closed=True)
    r = random.Random(3)
    texts = set()
    for number in range(200):
        folder = tmp_path / str(number)
        folder.mkdir()
        path = folder / "binlog.000003"
        path.write_bytes(content)
        write_gtids(path, b"a set")
        whole, note, time = path.stat(), path.with_suffix(".startup").read_bytes(), path.stat().st_mtime_ns
        case = cases.stale(r, content, b"a set", number)
        assert case.spoil is not None and case.kind == cases.STALE
        case.spoil(path)
        texts.add(case.text)
        assert path.name == "binlog.000003"
        is_new_note = path.with_suffix(".startup").read_bytes() != note
        is_new_file = path.read_bytes() != content or path.stat().st_ino != whole.st_ino or path.stat().st_mtime_ns != time
        assert is_new_note or is_new_file
        # A change of the file is one that its time does not show.
        assert path.stat().st_mtime_ns == time or "time" in case.text
    assert len(texts) == 9


def test_what_may_be_moved_over_depends_on_the_note() -> None:
    content = log(2 * MIN_SKIP_BYTES, 2 * MIN_SKIP_BYTES)
    first, second = transactions(content)
    assert cases.skippable(content, 0) == []
    assert cases.skippable(content, first.end) == [first]
    assert cases.skippable(content, second.end) == [first, second]
    assert cases.skippable(log(2 * MIN_SKIP_BYTES, is_closed=True), 0) == []


def test_cases_change_what_they_say() -> None:
    content = log(100, 2 * MIN_SKIP_BYTES, 100)
    r = random.Random(1)
    kinds = set()
    for _ in range(200):
        case = cases.random_case(r, content)
        kinds.add(case.kind)
        if case.kind == "whole":
            assert case.content == content
        elif case.kind == "torn":
            assert content.startswith(case.content) and case.synced_bytes <= len(case.content) < len(content)
        else:
            assert len(case.content) == len(content)
            changed = [at for at, (a, b) in enumerate(zip(content, case.content, strict=True)) if a != b]
            if case.kind == "damaged":
                assert len(changed) == 1
                assert case.is_hidden == (case.synced_bytes > 0 and changed[0] in transactions(content)[1].middle)
            else:
                assert not changed or changed[0] >= case.synced_bytes
    assert kinds == set(cases.KINDS)


def test_last_transactions_are_torn_where_it_may_matter() -> None:
    content = log(2 * MIN_SKIP_BYTES, 100, 2 * MIN_SKIP_BYTES, 100)
    *_, small, large, last = transactions(content)
    assert cases.cut_points(content, 1) == list(range(last.begin, len(content)))
    assert cases.cut_points(content, 2) == [at for at in cases.cut_points(content, 3) if at >= large.begin]
    found = set(cases.cut_points(content, 3))
    assert min(found) == small.begin and max(found) == len(content) - 1
    rows = large.events[2]
    assert found.issuperset(at for at in range(small.begin, len(content)) if not rows.begin + 64 <= at < rows.end - 64)
    inner = sorted(at for at in found if rows.begin + 64 <= at < rows.end - 64)
    assert inner == sorted(at + by for at in range(4096, len(content), 4096) for by in (-1, 0, 1)
                           if rows.begin + 64 <= at + by < rows.end - 64)  # fmt: skip
    assert {at for at in inner if at % 8192 == 0} == {at for at in range(rows.begin + 64, rows.end - 64) if at % 8192 == 0}
    # A file of any size is gone through in a time that can be waited for.
    assert len(cases.cut_points(log(100, 1 << 22), 1)) < 300 + 3 * (1 << 22) / 4096
    assert cases.cut_points(log(), 1) == [] and cases.cut_points(b"encrypted", 1) == []
    # A row event that is short is torn at each byte.
    longest = log(256 - 23)
    assert cases.cut_points(longest, 1) == list(range(transactions(longest)[0].begin, len(longest)))
    longer = log(256 - 22)
    assert len(cases.cut_points(longer, 1)) == len(longer) - transactions(longer)[0].begin - (257 - 128)


def test_canaries_have_cases() -> None:
    content = log(2 * MIN_SKIP_BYTES, 100, 2 * MIN_SKIP_BYTES)
    case = next(cases.lying_note(random.Random(2), content))
    third = transactions(content)[2]
    assert case.content[: third.middle.start] == content[: third.middle.start] and case.content != content
    assert case.content[third.middle.stop :] == content[third.middle.stop :]
    case = next(cases.wrong_length(content, True))
    assert len(case.content) == len(content)
    changed = events(case.content)
    assert changed == events(content)
    gtid = transactions(content)[0].events[0]
    assert zlib.crc32(case.content[gtid.begin : gtid.end - 4]) == struct.unpack("<I", case.content[gtid.end - 4 : gtid.end])[0]


def test_a_length_that_does_not_fit_is_refused() -> None:
    content = log(2 * MIN_SKIP_BYTES, 100)
    first, second = transactions(content)
    assert lengthened(content, first, second, True) is not None
    assert lengthened(content, transactions(log(100))[0], second, True) is None


def test_a_note_is_made_to_name_a_copy(tmp_path: Path) -> None:
    path = tmp_path / "binlog.000002"
    path.write_bytes(log(_ROWS))
    name_the_copy(path)
    assert not note_path(path).exists()

    def copy() -> None:
        path.rename(tmp_path / "original")
        path.write_bytes((tmp_path / "original").read_bytes())

    write_note(path, 100)
    copy()
    assert read_note(path) == 0
    name_the_copy(path)
    assert read_note(path) == 100

    checkpoint = Checkpoint(20, 80, b"the set", 4711)
    write_checkpoint(path, checkpoint)
    copy()
    assert read_checkpoint(path) is None
    name_the_copy(path)
    assert read_checkpoint(path) == checkpoint

    write_gtids(path, b"the set")
    noted = note_path(path).read_bytes()
    copy()
    name_the_copy(path)
    assert note_path(path).read_bytes() != noted
    write_gtids(path, b"the set")
    copied = note_path(path).read_bytes()
    name_the_copy(path)
    assert (note_path(path).read_bytes(), read_gtids(path)) == (copied, b"the set")

    note_path(path).write_bytes(b"no note")
    name_the_copy(path)
    assert note_path(path).read_bytes() == b"no note"
