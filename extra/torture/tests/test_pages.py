# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Pages are changed as a server would have written them."""

from __future__ import annotations

import itertools
import struct
from pathlib import Path

import pytest

from torture import pages


def test_checksum_of_castagnoli() -> None:
    assert pages.crc32c(b"123456789") == 0xE3069283


@pytest.mark.parametrize(("shift", "expected"), [(0, 16384), (4, 8192), (1, 1024)])
def test_size_of_pages(shift: int, expected: int, tmp_path: Path) -> None:
    path = tmp_path / "t.ibd"
    path.write_bytes(bytes(54) + struct.pack(">I", shift << 1 | 0x4000) + bytes(100))
    assert pages.bytes_of(path) == expected
    path.write_bytes(b"")
    assert pages.bytes_of(path) == pages.PAGE_BYTES


@pytest.mark.parametrize(("flags", "expected"), [(0xC0, 4096), (0x140, 16384), (0x1C0, 65536), (0xC4, 2048)])
def test_size_of_pages_that_are_not_of_16_kib(flags: int, expected: int, tmp_path: Path) -> None:
    path = tmp_path / "t.ibd"
    path.write_bytes(bytes(54) + struct.pack(">I", flags | 0x4000) + bytes(100))
    assert pages.bytes_of(path) == expected


def test_encrypted_files_are_known(tmp_path: Path) -> None:
    path = tmp_path / "t.ibd"
    for flags, expected in ((0x4021, False), (0x6021, True)):
        path.write_bytes(bytes(54) + struct.pack(">I", flags) + bytes(100))
        assert pages.is_encrypted(path) is expected


def index_page(*keys: int) -> bytearray:
    """An index page as far as records() looks at it."""
    page = bytearray(pages.PAGE_BYTES)
    places = [99, *(200 + 20 * number for number in range(len(keys))), 112]
    for at, after in itertools.pairwise(places):
        struct.pack_into(">h", page, at - 2, after - at)
    for at, key in zip(places[1:-1], keys, strict=True):
        struct.pack_into(">I", page, at, key)
    return page


def test_records_are_found_in_their_order() -> None:
    page = index_page(5, 6, 7)
    assert [struct.unpack_from(">I", page, at)[0] for at in pages.records(page)] == [5, 6, 7]
    first = next(pages.records(page))
    assert not pages.is_deleted(page, first)
    pages.mark_deleted(page, first)
    assert pages.is_deleted(page, first)
    struct.pack_into(">h", page, first - 2, 0)
    with pytest.raises(ValueError, match="circle"):
        list(pages.records(page))


def test_a_page_is_changed_and_has_a_right_checksum(tmp_path: Path) -> None:
    path = tmp_path / "t.ibd"
    page = index_page(1)
    page[:4] = struct.pack(">I", pages.checksum(page))
    path.write_bytes(bytes(pages.PAGE_BYTES) + page)

    def change(content: bytearray) -> None:
        content[300] = 7

    pages.edit(path, 1, change)
    changed = path.read_bytes()[pages.PAGE_BYTES :]
    assert changed[300] == 7
    assert changed[:4] == changed[-8:-4] == struct.pack(">I", pages.checksum(changed))
    path.write_bytes(bytes(pages.PAGE_BYTES) + page[:400] + b"\1" + page[401:])
    with pytest.raises(ValueError, match="its checksum is"):
        pages.edit(path, 1, change)


_INDEX, _COMPRESSED = 17855, 14


@pytest.mark.parametrize(
    ("page_type", "left", "is_left_out"),
    [
        (_INDEX, (2, 1, _INDEX, 8192 - 38, 3292), True),
        (_INDEX, (1, 2, _INDEX, 8192 - 38, 135), True),
        # A page that is compressed, and numbers that no compression leaves.
        (_COMPRESSED, (2, 1, _INDEX, 8192 - 38, 3292), False),
        (_INDEX, (2, 1, 17854, 8192 - 38, 3292), False),
        (_INDEX, (2, 1, _INDEX, 8192, 3292), False),
        (_INDEX, (0, 1, _INDEX, 8192 - 38, 3292), False),
        (_INDEX, (2, 3, _INDEX, 8192 - 38, 3292), False),
        (_INDEX, (0, 0, 0, 0, 7), False),
        (17854, (2, 1, 17854, 8192 - 38, 3292), False),
    ],
)
def test_what_page_compression_leaves_in_a_page(page_type: int, left: tuple[int, ...], is_left_out: bool) -> None:
    head, content = b"a" * 24 + struct.pack(">H", page_type), b"b" * (8192 - 34)
    found = pages.without_compression(head + struct.pack(">BBHHH", *left) + content)
    assert found == head + (bytes(8) if is_left_out else struct.pack(">BBHHH", *left)) + content
