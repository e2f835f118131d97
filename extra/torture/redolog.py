# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Redo log files, as far as the rig has to know them: where redo begins and ends, and how to damage it."""

from __future__ import annotations

import random
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from torture.pages import crc32c

BLOCK_BYTES = 512
# A file begins with four blocks; the second and the last of them name a checkpoint.
HEADER_BYTES = 4 * BLOCK_BYTES
_CHECKPOINTS_AT = (BLOCK_BYTES, 3 * BLOCK_BYTES)
# In the first block and in those of checkpoints.
_LSN_AT = 8
# In other blocks: a number, which follows from the LSN, with a bit that old versions set; used bytes, with a bit for an
# encrypted block, and where the first group of records begins.
_LENGTH_AT, _FIRST_GROUP_AT = 4, 6
_NUMBERS, _FLUSH_BIT = 1 << 30, 1 << 31
_ENCRYPTED = 0x8000
_BLOCK_HEADER_BYTES, _CHECKSUM_BYTES = 12, 4
# What the load writes into rows: SHA-2 as text.
_CONTENT = re.compile(rb"[0-9a-f]{64}")
_NAME = re.compile(r"#ib_redo\d+")
# A record that says that the file of a tablespace is removed (MLOG_FILE_DELETE, 35; with the highest bit set if it is the
# only one of its mini-transaction): the tablespace, page 0, the length of the name with its end, and the name.
_REMOVAL = re.compile(rb"(?=[\x23\xa3](.{1,5}?)\x00(..)(\./[^\x00]+\.ibd\x00))", re.DOTALL)


def _uncompressed(content: bytes) -> int | None:
    """A number as records have it: the first of its bytes says, by its highest bits, how many there are; None if it is none."""
    first, n_bytes = content[0], len(content)
    head = {1: 0, 2: 0x80, 3: 0xC0, 4: 0xE0, 5: 0xF0}[n_bytes]
    bits = 7 * n_bytes if n_bytes < 5 else 32
    number = int.from_bytes(content, "big") & (1 << bits) - 1
    return number if first & ~((1 << max(8 - n_bytes, 0)) - 1) & 0xFF == head else None


@dataclass
class _File:
    path: Path
    first_lsn: int
    content: bytearray

    def right(self, at: int) -> None:
        """Put the checksum of a block right."""
        end = at + BLOCK_BYTES - _CHECKSUM_BYTES
        struct.pack_into(">I", self.content, end, crc32c(self.content[at:end]))


def _files(data: Path) -> list[Path]:
    return [path for path in (data / "#innodb_redo").iterdir() if _NAME.fullmatch(path.name)]


def _checkpoints(header: bytes, n_bytes: int) -> Iterator[int]:
    """Those that lie in the file itself, which has so many bytes."""
    (first_lsn,) = struct.unpack_from(">Q", header, _LSN_AT)
    for at in _CHECKPOINTS_AT:
        (lsn,) = struct.unpack_from(">Q", header, at + _LSN_AT)
        if first_lsn <= lsn < first_lsn + n_bytes - HEADER_BYTES:
            yield lsn


def checkpoint(data: Path) -> int:
    """The checkpoint of a data directory that no server uses; ValueError if there is none."""
    found: list[int] = []
    for path in _files(data):
        with path.open("rb") as file:
            header = file.read(HEADER_BYTES)
        if len(header) == HEADER_BYTES:
            found += _checkpoints(header, path.stat().st_size)
    if not found:
        raise ValueError(f"no checkpoint in the redo log of {data}")
    return max(found)


class RedoLog:
    """The redo log of a data directory that no server uses."""

    def __init__(self, data: Path) -> None:
        """ValueError if there is no checkpoint, or redo is encrypted."""
        self.checkpoint = checkpoint(data)
        self._files = []
        for path in _files(data):
            content = bytearray(path.read_bytes())
            self._files.append(_File(path, struct.unpack_from(">Q", content, _LSN_AT)[0], content))
        self._files.sort(key=lambda file: file.first_lsn)

    def _blocks(self, has_first: bool = False) -> Iterator[tuple[_File, int, int]]:
        """File, place and LSN of the blocks behind the checkpoint that were written; with `has_first` that of it, too."""
        number = self.checkpoint // BLOCK_BYTES
        for file in self._files:
            for at in range(HEADER_BYTES, len(file.content), BLOCK_BYTES):
                lsn = file.first_lsn + at - HEADER_BYTES
                if lsn + BLOCK_BYTES <= self.checkpoint:
                    continue
                own, length = struct.unpack_from(">IH", file.content, at)
                # What follows the end of the redo may be of an older use of the file.
                if length == 0 or own & ~_FLUSH_BIT != 1 + number % _NUMBERS:
                    return
                if length & _ENCRYPTED:
                    raise ValueError("the redo is encrypted")
                number += 1
                if has_first or lsn > self.checkpoint:
                    yield file, at, lsn
                if length < BLOCK_BYTES:
                    return

    def bytes(self) -> int:
        """Redo behind the checkpoint, in whole blocks."""
        return BLOCK_BYTES * sum(1 for _ in self._blocks())

    def removed(self) -> set[int]:
        """Tablespaces whose files redo removes."""
        content = bytearray()
        for file, at, lsn in self._blocks(has_first=True):
            begin = max(_BLOCK_HEADER_BYTES, self.checkpoint - lsn)
            (length,) = struct.unpack_from(">H", file.content, at + _LENGTH_AT)
            content += file.content[at + begin : at + min(length, BLOCK_BYTES - _CHECKSUM_BYTES)]
        found = [record for record in _REMOVAL.finditer(content) if int.from_bytes(record[2], "big") == len(record[3])]
        return {number for record in found if (number := _uncompressed(record[1])) is not None}

    def change_content(self, r: random.Random, many: int) -> int:
        """Flip a byte in so many rows that were written; returns in how many."""
        places = []
        for file, at, _ in self._blocks():
            data = file.content[at + _BLOCK_HEADER_BYTES : at + BLOCK_BYTES - _CHECKSUM_BYTES]
            places += [(file, at + _BLOCK_HEADER_BYTES + found.start() + 32) for found in _CONTENT.finditer(data)]
        chosen = r.sample(places, min(many, len(places)))
        for file, at in chosen:
            file.content[at] ^= 1
            file.right(at // BLOCK_BYTES * BLOCK_BYTES)
        self._write()
        return len(chosen)

    def move_checkpoint(self, share: float) -> int:
        """Leave this share of the redo, at least one block of it, to a checkpoint that is not true.

        Returns how many bytes recovery does not see then, 0 if there is no other place to begin.
        """
        blocks = list(self._blocks())
        for file, at, lsn in blocks[max(1, int(share * len(blocks))) :]:
            first = int.from_bytes(file.content[at + _FIRST_GROUP_AT : at + _FIRST_GROUP_AT + 2], "big")
            if first:
                header = _CHECKPOINTS_AT[0]
                struct.pack_into(">Q", file.content, header + _LSN_AT, lsn + first)
                file.right(header)
                self._write()
                return lsn + first - self.checkpoint
        return 0

    def _write(self) -> None:
        for file in self._files:
            file.path.write_bytes(file.content)
