# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Pages of tablespace files, as far as the rig has to know them."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from pathlib import Path

# Of innodb_page_size, unless a life has another.
PAGE_KIB = 16
PAGE_BYTES = PAGE_KIB * 1024
_LSN_AT, _TYPE_AT, _DATA_AT = 16, 24, 38
# Where page 0 of ibdata1 has what a shutdown has flushed; no checksum includes it.
FLUSH_LSN = slice(26, 34)
_SPACE_ID_AT, _SPACE_FLAGS_AT = 34, 54
_ENCRYPTION = 1 << 13
# Of a page of a spatial index, which has a number of its own where others have nothing.
_RTREE = 17854
# The last eight bytes are the checksum again and half of the LSN.
_END_BYTES = 8
_CRC32C = 0x82F63B78


def times(page_kib: int) -> int:
    """How much larger pages are than those of most data directories; what counts pages or extents grows so many times."""
    return max(1, page_kib // PAGE_KIB)


def files(data: Path) -> list[Path]:
    """The files of the tablespaces of a data directory; that of the system tablespace is ibdata1."""
    return [*sorted(data.rglob("*.ibd")), data / "ibdata1", *sorted(data.glob("undo_00?")), *sorted(data.glob("*.ibu"))]


def lsn(page: bytes | bytearray) -> int:
    """The LSN of the last change of a page."""
    return int.from_bytes(page[_LSN_AT : _LSN_AT + 8], "big")


def without_lsn(page: bytes) -> bytes:
    """What does not depend on when a page was changed: all but its checksum and its LSN, both twice."""
    return page[4:_LSN_AT] + page[_LSN_AT + 8 : -_END_BYTES]


def without_compression(page: bytes) -> bytes:
    """Without what page compression leaves in a page that has been read again: how large it was on the disk, and of what type.

    It says how far the page was changed when it was written, not what is in it; no checksum includes it. In a page that is
    compressed the type is that of compressed pages, and stays.
    """
    if len(page) < FLUSH_LSN.stop:
        return page
    version, algorithm, type_before, size_before, _ = struct.unpack_from(">BBHHH", page, FLUSH_LSN.start)
    (page_type,) = struct.unpack_from(">H", page, _TYPE_AT)
    is_left = version in (1, 2) and algorithm in (1, 2) and type_before == page_type and size_before == len(page) - _DATA_AT
    if is_left and page_type != _RTREE:
        return page[: FLUSH_LSN.start] + bytes(FLUSH_LSN.stop - FLUSH_LSN.start) + page[FLUSH_LSN.stop :]
    return page


def _head(path: Path, at: int) -> int:
    """A number of four bytes in the first page; 0 if the file is empty."""
    with path.open("rb") as file:
        file.seek(at)
        return int.from_bytes(file.read(4), "big")


def _flags(path: Path) -> int:
    """The flags of a tablespace; 0 if its file is empty."""
    return _head(path, _SPACE_FLAGS_AT)


def space_of(path: Path) -> int:
    """The ID of a tablespace; 0, which is that of the system tablespace, if its file is empty."""
    return _head(path, _SPACE_ID_AT)


def bytes_of(path: Path) -> int:
    """The size of the pages in a file: smaller than innodb_page_size in tables with ROW_FORMAT=COMPRESSED."""
    flags = _flags(path)
    # 0 stands for a page that is not compressed, and for PAGE_BYTES.
    size = flags >> 1 & 15 or flags >> 6 & 15
    return 512 << size if size else PAGE_BYTES


def is_encrypted(path: Path) -> bool:
    """Whether the pages are encrypted: their checksums are those of what the server has encrypted."""
    return bool(_flags(path) & _ENCRYPTION)


def _make_table() -> list[int]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (_CRC32C if value & 1 else 0)
        table.append(value)
    return table


_TABLE = _make_table()


def crc32c(data: bytes | bytearray) -> int:
    """CRC-32C, of Castagnoli's polynomial."""
    value = 0xFFFFFFFF
    for byte in data:
        value = value >> 8 ^ _TABLE[(value ^ byte) & 255]
    return value ^ 0xFFFFFFFF


def checksum(page: bytes | bytearray) -> int:
    """What innodb_checksum_algorithm=crc32 writes to the beginning and the end of a page."""
    return crc32c(page[4 : FLUSH_LSN.start]) ^ crc32c(page[_DATA_AT:-_END_BYTES])


def edit(path: Path, number: int, change: Callable[[bytearray], None]) -> None:
    """Change a page of a file that no server uses, and put its checksum right; it must have been right before."""
    with path.open("r+b") as file:
        file.seek(number * PAGE_BYTES)
        page = bytearray(file.read(PAGE_BYTES))
        stored = struct.unpack_from(">I", page)[0]
        if stored != checksum(page):
            raise ValueError(f"page {number} of {path}: its checksum is {stored:#x}, not {checksum(page):#x}")
        change(page)
        right = struct.pack(">I", checksum(page))
        page[:4] = page[-_END_BYTES : -_END_BYTES + 4] = right
        file.seek(number * PAGE_BYTES)
        file.write(page)


def records(page: bytes | bytearray) -> Iterator[int]:
    """Where the records of an index page begin, in their order, in a row format other than REDUNDANT."""
    infimum, supremum = 99, 112
    at = infimum
    for _ in range(len(page)):
        (step,) = struct.unpack_from(">h", page, at - 2)
        at = at + step & 0xFFFF
        if at == supremum:
            return
        yield at
    raise ValueError("the records of the page are a circle")


def is_deleted(page: bytes | bytearray, record: int) -> bool:
    """Whether a record is marked as deleted."""
    return bool(page[record - 5] & 0x20)


def mark_deleted(page: bytearray, record: int) -> None:
    page[record - 5] |= 0x20
