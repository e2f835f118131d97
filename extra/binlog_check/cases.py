# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""What is done to the last binary log of an image before servers start on it."""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from binlog_check.logfile import (
    GTIDS,
    IN_USE,
    MIN_SKIP_BYTES,
    NOTE_BYTES,
    Checkpoint,
    Event,
    Transaction,
    events,
    lengthened,
    note_path,
    transactions,
    without_one,
    write_gtids,
)

TORN, DAMAGED = "torn", "damaged"
KINDS = ("whole", TORN, DAMAGED, "hole")
# Torn at one of the cut_points().
CUT = "cut"
# After a shutdown that has noted the GTIDs: the note fits, or is about something else.
NOTED, STALE = "noted", "stale"
# Bytes that a power cut may leave unwritten.
_HOLE_BYTES = (512, 4096, 65536)
# An event of so many bytes is torn at each, a longer one at so many at its beginning and its end, and where a read may end:
# the reader fills its buffer of twice that up to such a place, wherever it has begun.
_SHORT_BYTES, _EDGE_BYTES, _READ_BYTES = 256, 64, 4096


@dataclass(frozen=True)
class Case:
    """A content of the last binary log, and how much of it is said to be synced."""

    kind: str
    text: str
    content: bytes
    synced_bytes: int
    # Of the bytes changed, all are in what a start may move over.
    is_hidden: bool = False
    # What the server is said to have noted when it closed the file.
    gtids: bytes | None = None
    # What is done to the file or the note afterwards.
    spoil: Callable[[Path], None] | None = None
    # What the server is said to have noted while it wrote to the file.
    checkpoint: Checkpoint | None = None


def with_checkpoint(case: Case, original: bytes, checkpoint: Checkpoint, has_checksums: bool) -> Case:
    """The same after a server has noted this checkpoint in the file as it was; not if it was not synced so far.

    A start must not rely on it in a file without checksums, so damage before it is seen there.
    """
    if case.synced_bytes < checkpoint.end:
        return case
    changed = [at for at in range(min(len(original), len(case.content))) if original[at] != case.content[at]]
    passed = moved_over(original, checkpoint)
    hidden = case.is_hidden or (has_checksums and case.kind == DAMAGED and all(at in passed for at in changed))
    return replace(case, text=f"{case.text}, checkpoint at {checkpoint.end}", checkpoint=checkpoint, is_hidden=hidden)


def moved_over(content: bytes, checkpoint: Checkpoint) -> range:
    """What a start does not read that relies on this checkpoint; empty if it must not rely on it."""
    begin = next((found.begin for found in events(content) if found.kind in GTIDS), len(content))
    passed = range(begin, checkpoint.begin)
    return passed if len(passed) >= MIN_SKIP_BYTES and checkpoint.end <= len(content) else range(0)


def is_checkpoint_whole(case: Case, original: bytes) -> bool:
    """Whether a start has to rely on the checkpoint: all that it looks at is there as it was."""
    found = case.checkpoint
    if found is None or not moved_over(original, found):
        return False
    head = moved_over(original, found).start
    return case.content[:head] == original[:head] and case.content[found.begin : found.end] == original[found.begin : found.end]


def skippable(content: bytes, synced_bytes: int) -> list[Transaction]:
    """The transactions that a start may move over."""
    return [found for found in transactions(content) if len(found.middle) > 0 and found.end <= synced_bytes]


def whole(content: bytes, synced: int) -> Case:
    """The file as it is."""
    return Case("whole", f"as it is, {synced} bytes synced", content, synced)


def torn(r: random.Random, content: bytes, length: int) -> Case:
    """Only so many bytes are there; what is synced cannot be lost."""
    synced = r.choice([0, length // 2, length])
    return Case(TORN, f"torn at {length} of {len(content)} bytes, {synced} synced", content[:length], synced)


def damaged(r: random.Random, content: bytes, at: int) -> Case:
    """A byte is changed, anywhere."""
    synced = r.choice([0, len(content)])
    changed = bytearray(content)
    changed[at] ^= 1 << r.randrange(8)
    hidden = any(at in found.middle for found in skippable(content, synced))
    where = " in the middle of a transaction" if hidden else ""
    return Case(DAMAGED, f"byte {at} of {len(content)} changed{where}, {synced} synced", bytes(changed), synced, hidden)


def hole(r: random.Random, content: bytes) -> Case:
    """Something that was not synced has not been written, though what follows has."""
    size = r.choice(_HOLE_BYTES)
    at = r.randrange(len(content) // 2, max(len(content) // 2 + 1, len(content) - size)) // 512 * 512
    changed = content[:at] + bytes(min(size, len(content) - at)) + content[at + size :]
    return Case("hole", f"{size} bytes at {at} of {len(content)} not written, {at} synced", changed, at)


def cut_points(content: bytes, n_transactions: int) -> list[int]:
    """The lengths at which the last transactions, and what follows them, are torn: each that may make a difference."""
    found = transactions(content)[-n_transactions:]
    if not found:
        return []
    last = [event for event in events(content) if event.begin >= found[0].begin]
    return sorted({at for event in last for at in _cut_points(event) if at < len(content)})


def _cut_points(event: Event) -> Iterator[int]:
    if event.end - event.begin <= _SHORT_BYTES:
        yield from range(event.begin, event.end)
        return
    yield from range(event.begin, event.begin + _EDGE_BYTES)
    for border in range(event.begin // _READ_BYTES * _READ_BYTES, event.end + 1, _READ_BYTES):
        yield from (at for at in (border - 1, border, border + 1) if event.begin <= at < event.end)
    yield from range(event.end - _EDGE_BYTES, event.end)


def random_case(r: random.Random, content: bytes, kind: str | None = None) -> Case:
    """One of this or any kind that can befall a file; a closed one too, for the mark that it is closed is synced with the rest."""
    kind = kind or r.choice(KINDS)
    if kind == "whole":
        return whole(content, r.choice([0, len(content) // 2, len(content)]))
    if kind == "hole":
        return hole(r, content)
    # Most bytes are in the middle of rows; what decides is around the borders of events.
    borders = [border for found in transactions(content) for event in found.events for border in (event.begin, event.end)]
    at = r.randrange(4, len(content))
    if borders and r.random() < 0.8:
        at = min(max(4, r.choice(borders) + r.randint(-40, 60)), len(content) - 1)
    return torn(r, content, at) if kind == TORN else damaged(r, content, at)


def noted(content: bytes, gtids: bytes) -> Case:
    """The file as it was closed, and what the server has noted."""
    return Case(NOTED, "closed, with the GTIDs noted", content, len(content), gtids=gtids)


def _change(at: int, bit: int, log: Path) -> None:
    """Change a bit of a file, and leave its time."""
    times = log.stat()
    content = bytearray(log.read_bytes())
    content[at] ^= bit
    log.write_bytes(content)
    os.utime(log, ns=(times.st_atime_ns, times.st_mtime_ns))


def _grow(log: Path) -> None:
    times = log.stat()
    log.write_bytes(log.read_bytes() + bytes(19))
    os.utime(log, ns=(times.st_atime_ns, times.st_mtime_ns))


def _touch(log: Path) -> None:
    os.utime(log, ns=(log.stat().st_atime_ns, log.stat().st_mtime_ns + 1_000_000_000))


def _replace(log: Path) -> None:
    """A copy in the place of the file, with the same time."""
    copy = log.with_suffix(".copy")
    copy.write_bytes(log.read_bytes())
    os.utime(copy, ns=(log.stat().st_atime_ns, log.stat().st_mtime_ns))
    copy.rename(log)


def _of_another_file(gtids: bytes, log: Path) -> None:
    """The note of a file of another name, with the same content."""
    other = log.with_suffix(".999999")
    log.rename(other)
    write_gtids(other, gtids)
    other.rename(log)


def _damage_note(r: random.Random, log: Path) -> None:
    note = note_path(log)
    _change(r.randrange(note.stat().st_size), 1 << r.randrange(8), note)


def _tear_note(r: random.Random, log: Path) -> None:
    note = note_path(log)
    os.truncate(note, r.choice([0, NOTE_BYTES - 1, NOTE_BYTES, r.randrange(note.stat().st_size)]))


def stale(r: random.Random, content: bytes, gtids: bytes, turn: int) -> Case:
    """A note that must not be believed, for one reason after the other."""
    spoils: dict[str, Callable[[Path], None]] = {
        "the file says that it is in use": partial(_change, 4 + 17, IN_USE),
        "the last event is damaged": partial(_change, len(content) - 1 - r.randrange(19), 1),
        "the Previous_gtids event is damaged": partial(_change, _previous_gtids(content), 1),
        "the file is longer": _grow,
        "the file has another time": _touch,
        "the file is a copy": _replace,
        "the note is about another file": partial(_of_another_file, gtids),
        "the note is damaged": partial(_damage_note, r),
        "the note is torn": partial(_tear_note, r),
    }
    text = sorted(spoils)[turn % len(spoils)]
    return Case(STALE, text, content, len(content), gtids=gtids, spoil=spoils[text])


def _previous_gtids(content: bytes) -> int:
    """Where a byte is of what the event says, if it says something; otherwise of its checksum or number of sources."""
    event = events(content)[1]
    return event.begin + 19 + (8 + 16 + 8 if event.end - event.begin > 19 + 8 + 4 else 0)


def short_set(content: bytes, gtids: bytes) -> Iterator[Case]:
    """Canary: a note whose set lacks a GTID."""
    short = without_one(gtids)
    if short is not None:
        yield Case(NOTED, "a note that lacks a GTID", content, len(content), gtids=short)


def lying_note(r: random.Random, content: bytes) -> Iterator[Case]:
    """Canary: a hole in the middle of a transaction, and a note that says that all was synced."""
    for found in reversed(skippable(content, len(content))):
        # In the middle of an event even a start that reads it sees nothing.
        at = r.choice(found.events[2:-1]).begin
        end = min(at + 8192, found.middle.stop)
        changed = content[:at] + bytes(end - at) + content[end:]
        yield Case("hole", f"a hole at {at}, and a note that says otherwise", changed, len(content))


def wrong_length(content: bytes, has_checksums: bool) -> Iterator[Case]:
    """Canary: a GTID event that has the length of two transactions."""
    every = transactions(content)
    for first, second in itertools.pairwise(every):
        if len(first.middle) > 0 and second.events[-1].kind == first.events[-1].kind:
            changed = lengthened(content, first, second, has_checksums)
            if changed is not None:
                yield Case("damaged", f"the length of two in the GTID event at {first.begin}", changed, len(content))
