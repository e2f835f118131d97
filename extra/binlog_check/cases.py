# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""What is done to the last binary log of an image before servers start on it."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass

from binlog_check.logfile import Transaction, lengthened, transactions

KINDS = ("whole", "torn", "damaged", "hole")
# Bytes that a power cut may leave unwritten.
_HOLE_BYTES = (512, 4096, 65536)


@dataclass(frozen=True)
class Case:
    """A content of the last binary log, and how much of it is said to be synced."""

    kind: str
    text: str
    content: bytes
    synced_bytes: int
    # Of the bytes changed, all are in the middle of transactions that a start may move over.
    is_hidden: bool = False


def skippable(content: bytes, synced_bytes: int) -> list[Transaction]:
    """The transactions that a start may move over."""
    return [found for found in transactions(content) if len(found.middle) > 0 and found.end <= synced_bytes]


def whole(content: bytes, synced: int) -> Case:
    """The file as it is."""
    return Case("whole", f"as it is, {synced} bytes synced", content, synced)


def torn(r: random.Random, content: bytes, length: int) -> Case:
    """Only so many bytes are there; what is synced cannot be lost."""
    synced = r.choice([0, length // 2, length])
    return Case("torn", f"torn at {length} of {len(content)} bytes, {synced} synced", content[:length], synced)


def damaged(r: random.Random, content: bytes, at: int) -> Case:
    """A byte is changed, anywhere."""
    synced = r.choice([0, len(content)])
    changed = bytearray(content)
    changed[at] ^= 1 << r.randrange(8)
    hidden = any(at in found.middle for found in skippable(content, synced))
    where = " in the middle of a transaction" if hidden else ""
    return Case("damaged", f"byte {at} of {len(content)} changed{where}, {synced} synced", bytes(changed), synced, hidden)


def hole(r: random.Random, content: bytes) -> Case:
    """Something that was not synced has not been written, though what follows has."""
    size = r.choice(_HOLE_BYTES)
    at = r.randrange(len(content) // 2, max(len(content) // 2 + 1, len(content) - size)) // 512 * 512
    changed = content[:at] + bytes(min(size, len(content) - at)) + content[at + size :]
    return Case("hole", f"{size} bytes at {at} of {len(content)} not written, {at} synced", changed, at)


def cut_points(content: bytes, n_transactions: int) -> range:
    """Every length that tears one of the last transactions."""
    found = transactions(content)[-n_transactions:]
    return range(found[0].begin, len(content)) if found else range(0)


def random_case(r: random.Random, content: bytes) -> Case:
    """One of a kind that can befall a file; a closed one too, for the mark that it is closed is synced with the rest."""
    kind = r.choice(KINDS)
    if kind == "whole":
        return whole(content, r.choice([0, len(content) // 2, len(content)]))
    if kind == "hole":
        return hole(r, content)
    # Most bytes are in the middle of rows; what decides is around the borders of events.
    borders = [border for found in transactions(content) for event in found.events for border in (event.begin, event.end)]
    at = r.randrange(4, len(content))
    if borders and r.random() < 0.8:
        at = min(max(4, r.choice(borders) + r.randint(-40, 60)), len(content) - 1)
    return torn(r, content, at) if kind == "torn" else damaged(r, content, at)


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
