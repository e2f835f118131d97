# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""What a recovery has left in the files, compared with what another one left of the same crash."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Container
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from torture import pages

# Servers write into these at each start.
_OF_SERVERS = re.compile(r"(mysql\.ibd|ibdata1|undo_\d+|.*\.ibu|sys/.*)")
_SCANNED = re.compile(r"Doing recovery: scanned up to log sequence number (\d+)")
_STARTED = re.compile(r"started; log sequence number (\d+)")
# Redo of a start itself; 8,466 bytes were the most that was seen. It is not known where that begins: what was scanned
# may end with a part of a mini-transaction.
OF_START_BYTES = 16384
_RESTORED = re.compile(r"Recovered page \[page id: space=(\d+), page number=(\d+)\] from the doublewrite buffer")
# Why a page is not compared.
OWN, UNLOGGED, ENCRYPTED = "written by servers", "unlogged", "encrypted and changed later"
LSN_ALONE = "at an LSN that is not logged"
REMOVED = "of tables that redo removes"
REMOVED_FILE = "of tables that redo removes, and whose files one recovery alone has"
# In one comparison: a rollback holds a page or two at a time.
MOST_LSN_ALONE = 5
SHOWN = 8


class Page(NamedTuple):
    """What is compared of a page."""

    lsn: int
    # Of all that it holds.
    digest: bytes
    # Of what it holds besides its LSN and its checksum; None if it may be encrypted.
    content: bytes | None


Key = tuple[str, int]
Pages = dict[Key, Page]


def _digest(page: bytes) -> bytes:
    return hashlib.blake2b(page, digest_size=16).digest()


def read_pages(data: Path) -> Pages:
    """Each page of the tablespaces of a data directory that no server uses.

    The place in ibdata1 where a shutdown says how far it came is left out; its page's checksum does so, too.
    """
    found: Pages = {}
    for path in pages.files(data):
        name = str(path.relative_to(data))
        if name.startswith("#innodb_temp"):
            continue
        n_bytes, is_encrypted = pages.bytes_of(path), pages.is_encrypted(path)
        nothing = bytes(n_bytes)
        of_nothing = Page(0, _digest(nothing), None if is_encrypted else _digest(pages.without_lsn(nothing)))
        with path.open("rb") as file:
            number = 0
            while page := file.read(n_bytes):
                if page == nothing:
                    found[name, number] = of_nothing
                    number += 1
                    continue
                if name == "ibdata1" and number == 0:
                    page = page[: pages.FLUSH_LSN.start] + bytes(8) + page[pages.FLUSH_LSN.stop :]
                page = pages.without_compression(page)
                content = None if is_encrypted else _digest(pages.without_lsn(page))
                found[name, number] = Page(pages.lsn(page), _digest(page), content)
                number += 1
    return found


@dataclass
class Comparison:
    """Pages of two recoveries of one crash."""

    compared: int
    different: list[str]
    # By the reason.
    left_out: Counter[str] = field(default_factory=Counter)


class Ends(NamedTuple):
    """LSNs of the stock server's recovery."""

    # Where redo of the crash may have ended: what a start has changed itself is behind it.
    redo: int
    # What that server has changed later is behind it.
    start: int


def ends_of(log: str) -> Ends | None:
    """Those of the first start of an error log; None if it had no redo to apply, or did not come so far."""
    started = _STARTED.search(log)
    scanned = _SCANNED.findall(log, 0, started.start()) if started else []
    if not started or not scanned:
        return None
    return Ends(min(int(scanned[-1]), int(started[1]) - OF_START_BYTES), int(started[1]))


def restored(log: str, data: Path, before: Pages) -> set[Key]:
    """Pages that had never been written to their files, and which a recovery has taken from the doublewrite buffer."""
    names = {pages.space_of(path): str(path.relative_to(data)) for path in pages.files(data)}
    found = {(names.get(int(space), ""), int(number)) for space, number in _RESTORED.findall(log)}
    return {key for key in found if key in before and not before[key].lsn}


def _has_lsn_alone(left: Page, right: Page, before: Page | None, ends: Ends) -> bool:
    """Whether the stock server has changed nothing but the LSN of a page after its recovery."""
    is_held = left.lsn > ends.start and left.content is not None and left.content == right.content
    return is_held and (right == before or (before.lsn if before else 0) < right.lsn <= ends.redo)


def compare(
    one: Pages,
    other: Pages,
    ends: Ends,
    removed: Container[str],
    unlogged: Container[Key] = (),
    before: Pages | None = None,
) -> Comparison:
    """Which pages of the stock server's recovery, and of another, differ.

    Those of files in `removed` may, which redo removes later: what is applied to them before that depends on where a
    batch ends. The whole file may be missing, but not a part of it. Those in `unlogged` may: an index build logs no rows,
    and if pages of one that has not ended are in the doublewrite buffer alone, the first of several starts may overwrite
    them there.
    What servers change themselves they change in their own tablespaces, where what is behind the end of the redo is left
    out. In others each page is compared; where a server goes on with a DDL statement after the recovery it makes the
    same content, but not at the same LSN. One that a rollback has held as if to change it gets an LSN of that time, which
    is not logged: a server that was killed then, and another that goes on, may leave it as it was. Such a page has the
    same content, and the LSN that it had in `before`, the crash, or a later one within the redo; MOST_LSN_ALONE may be
    so.
    """
    different: list[str] = []
    left_out: Counter[str] = Counter()
    both = one.keys() | other.keys()
    files = [{name for name, _ in found} for found in (one, other)]
    for key in sorted(both):
        left, right = one.get(key), other.get(key)
        if _OF_SERVERS.fullmatch(key[0]) and any(page and page.lsn > ends.redo for page in (left, right)):
            left_out[OWN] += 1
        elif key[0] in removed and not all(key[0] in names for names in files):
            left_out[REMOVED_FILE] += 1
        elif left and right and left != right and key[0] in removed:
            left_out[REMOVED] += 1
        elif left is None or right is None:
            different.append(f"{key[0]}:{key[1]} is {'missing' if right is None else 'too many'}")
        elif left != right and key in unlogged:
            left_out[UNLOGGED] += 1
        elif (
            left != right
            and before is not None
            and left_out[LSN_ALONE] < MOST_LSN_ALONE
            and _has_lsn_alone(left, right, before.get(key), ends)
        ):
            left_out[LSN_ALONE] += 1
        elif left != right:
            is_later = left.lsn > ends.start and right.lsn > ends.redo
            if is_later and None in (left.content, right.content):
                left_out[ENCRYPTED] += 1
            elif not is_later or left.content != right.content:
                different.append(f"{key[0]}:{key[1]} differs, LSN {left.lsn} and {right.lsn}")
    return Comparison(len(both) - left_out.total(), different, left_out)


@dataclass
class Passed:
    """Pages with redo that a checkpoint has passed, and those of them whose files lack it."""

    checked: int = 0
    # Those of files that redo removes, which are not checked.
    left_out: int = 0
    lacking: list[str] = field(default_factory=list)


def passed(
    data: Path, expected: Path, begin: int, checkpoint: int, removed: Container[str], unlogged: Container[Key] = ()
) -> Passed:
    """Whether a checkpoint of a server that was killed is true: what lies before it has to be in the files.

    `expected` is a recovery of the same crash. A page whose last change is older than the checkpoint must be as new in
    `data`. It is enough to look at LSNs, which are not encrypted. Tablespaces go by their IDs: a file may have got another
    name. Pages whose last change is older than `begin`, where recovery began, say nothing, nor do those of files in
    `removed`: see compare().
    """
    there = {pages.space_of(path): path for path in pages.files(data) if path.stat().st_size}
    result = Passed()
    for path in pages.files(expected):
        name = str(path.relative_to(expected))
        mine = there.get(pages.space_of(path)) if path.stat().st_size and not name.startswith("#innodb_temp") else None
        if mine is None or pages.bytes_of(path) != pages.bytes_of(mine):
            continue
        n_bytes = pages.bytes_of(path)
        with path.open("rb") as file, mine.open("rb") as other:
            number = 0
            while page := file.read(n_bytes):
                found = other.read(n_bytes)
                lsn = pages.lsn(page)
                is_passed = begin < lsn <= checkpoint and (name, number) not in unlogged
                result.left_out += is_passed and name in removed
                if is_passed and name not in removed:
                    result.checked += 1
                    seen = pages.lsn(found) if found else 0
                    if seen < lsn:
                        result.lacking.append(f"{name}:{number} has LSN {seen}, not {lsn}; the checkpoint is {checkpoint}")
                number += 1
    return result


def shown(texts: list[str]) -> str:
    """The first of many."""
    return ", ".join(texts[:SHOWN])
