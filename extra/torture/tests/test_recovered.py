# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Pages of two recoveries, and what a checkpoint has passed."""

from __future__ import annotations

import struct
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from torture import recovered
from torture.pages import PAGE_BYTES

ENDS = recovered.Ends(1000, 3000)
SAME = (500, b"x")


@pytest.mark.parametrize(
    ("name", "one", "other", "differs", "left_out"),
    [
        ("c0/w.ibd", SAME, SAME, False, ""),
        ("c0/w.ibd", SAME, (500, b"y"), True, ""),
        ("c0/w.ibd", SAME, (400, b"x"), True, ""),
        ("c0/w.ibd", SAME, None, True, ""),
        ("c0/w.ibd", None, SAME, True, ""),
        # Nobody but redo writes there.
        ("c0/w.ibd", SAME, (1001, b"x"), True, ""),
        ("mysql.ibd", SAME, (500, b"y"), True, ""),
        ("mysql.ibd", (1001, b"x"), (1002, b"y"), False, recovered.OWN),
        ("undo_001", SAME, (1001, b"y"), False, recovered.OWN),
        ("undo_001", SAME, None, True, ""),
        ("u.ibu", None, (1001, b"y"), False, recovered.OWN),
        # A DDL statement that goes on after the start.
        ("c0/w.ibd", (3001, b"x", b"c"), (1001, b"y", b"c"), False, ""),
        ("c0/w.ibd", (3001, b"x", b"c"), (1001, b"y", b"d"), True, ""),
        ("c0/w.ibd", (3001, b"x", b"c"), (1000, b"y", b"c"), True, ""),
        ("c0/w.ibd", (3000, b"x", b"c"), (3001, b"y", b"c"), True, ""),
        ("c0/w.ibd", (3001, b"x", b"c"), None, True, ""),
        ("c0/w.ibd", (3001, b"x", None), (3001, b"y", None), False, recovered.ENCRYPTED),
        ("c0/w.ibd", (500, b"x", None), (3001, b"y", None), True, ""),
    ],
)
def test_pages_are_compared(name: str, one: Any, other: Any, differs: bool, left_out: str) -> None:
    first, second = ({(name, 3): recovered.Page(*(*page, b"")[:3])} if page else {} for page in (one, other))
    found = recovered.compare(first, second, ENDS, ())
    assert (bool(found.different), found.compared) == (differs, int(not left_out))
    assert found.left_out == Counter([left_out] if left_out else [])


@pytest.mark.parametrize(("unlogged", "differs"), [([("c0/w.ibd", 3)], False), ([("c0/w.ibd", 4)], True), ([], True)])
def test_what_was_in_the_doublewrite_buffer_alone_is_left_out(unlogged: Any, differs: bool) -> None:
    one, other = ({("c0/w.ibd", 3): recovered.Page(lsn, b"", b"")} for lsn in (400, 500))
    found = recovered.compare(one, other, ENDS, (), unlogged)
    assert (bool(found.different), found.left_out[recovered.UNLOGGED]) == (differs, int(not differs))
    # One that is not there is no such page.
    assert recovered.compare(one, {}, ENDS, (), unlogged).different


@pytest.mark.parametrize(
    ("one", "other", "differs"),
    [
        ((3001, b"y", b"c"), (500, b"x", b"c"), False),
        # With redo, the last of which is not after the end of all.
        ((3001, b"y", b"c"), (501, b"z", b"c"), False),
        ((3001, b"y", b"c"), (ENDS.redo, b"z", b"c"), False),
        ((3001, b"y", b"c"), (ENDS.redo + 1, b"z", b"d"), True),
        # It was older before.
        ((3001, b"y", b"c"), (499, b"z", b"c"), True),
        ((3001, b"y", b"c"), (500, b"z", b"d"), True),
        ((3001, b"y", b"c"), (501, b"z", b"d"), True),
        # Redo has changed it, or may have.
        ((3000, b"y", b"c"), (500, b"x", b"c"), True),
        ((3000, b"y", b"c"), (501, b"z", b"c"), True),
        ((3001, b"y", b"d"), (500, b"x", b"c"), True),
        ((3001, b"y", None), (500, b"x", b"c"), True),
        ((3001, b"y", None), (501, b"z", None), True),
        ((3001, b"y", b"c"), None, True),
    ],
)
def test_a_page_whose_lsn_alone_was_changed_may_be_as_it_was(one: Any, other: Any, differs: bool) -> None:
    key = ("c0/w.ibd", 3)
    before = {key: recovered.Page(500, b"x", b"c")}
    first, second = ({key: recovered.Page(*page)} if page else {} for page in (one, other))
    found = recovered.compare(first, second, ENDS, (), (), before)
    assert bool(found.different) == differs
    assert found.left_out == Counter([] if differs else [recovered.LSN_ALONE])
    # Nothing was killed.
    assert recovered.compare(first, second, ENDS, ()).different


def test_pages_of_a_table_that_redo_removes_may_differ() -> None:
    first = {(name, 3): recovered.Page(2000, b"y", b"c") for name in ("c0/gone.ibd", "c0/w.ibd")}
    others = {key: recovered.Page(500, b"x", b"d") for key in first}
    for one, other, reason in (
        (first, others, recovered.REMOVED),
        (first, {}, recovered.REMOVED_FILE),
        ({}, first, recovered.REMOVED_FILE),
    ):
        found = recovered.compare(one, other, ENDS, {"c0/gone.ibd"})
        assert found.left_out == Counter({reason: 1})
        assert len(found.different) == 1
        assert found.different[0].startswith("c0/w.ibd:3 ")


def test_a_part_of_a_file_that_redo_removes_may_not_be_missing() -> None:
    first = {("c0/gone.ibd", number): recovered.Page(500, b"x", b"c") for number in (3, 4)}
    second = {key: page for key, page in first.items() if key[1] == 3}
    for one, other, word in ((first, second, "missing"), (second, first, "too many")):
        found = recovered.compare(one, other, ENDS, {"c0/gone.ibd"})
        assert (found.different, found.left_out) == ([f"c0/gone.ibd:4 is {word}"], Counter())


def test_few_pages_may_have_another_lsn_alone() -> None:
    # They were not there before: redo has made them.
    first = {("c0/w.ibd", number): recovered.Page(3001, b"y", b"c") for number in range(recovered.MOST_LSN_ALONE + 1)}
    second = {key: recovered.Page(501, b"z", b"c") for key in first}
    found = recovered.compare(first, second, ENDS, (), (), {})
    assert found.left_out == Counter({recovered.LSN_ALONE: recovered.MOST_LSN_ALONE})
    assert len(found.different) == 1


def test_pages_of_the_doublewrite_buffer(tmp_path: Path) -> None:
    (tmp_path / "c0").mkdir()
    for name, space in (("ibdata1", 0), ("c0/w.ibd", 28)):
        head = bytearray(PAGE_BYTES)
        head[34:38] = struct.pack(">I", space)
        (tmp_path / name).write_bytes(head)
    said = "".join(
        f"Recovered page [page id: space={space}, page number={number}] from the doublewrite buffer.\n"
        for space, number in [(28, 3), (28, 4), (28, 9), (77, 3)]
    )
    before = {("c0/w.ibd", number): recovered.Page(lsn, b"", b"") for number, lsn in [(3, 0), (4, 5), (5, 0)]}
    assert recovered.restored(said, tmp_path, before) == {("c0/w.ibd", 3)}


STARTED = "InnoDB 9.7.4 started; log sequence number 90000"


@pytest.mark.parametrize(
    ("lines", "ends"),
    [
        (["scanned 50000", "scanned 80000", STARTED], (90000 - recovered.OF_START_BYTES, 90000)),
        (["scanned 50000", "scanned 70000", STARTED], (70000, 90000)),
        # That of the second start is not of the crash.
        (["scanned 70000", STARTED, "scanned 95000", STARTED.replace("90000", "99000")], (70000, 90000)),
        ([STARTED, "scanned 95000"], None),
        (["scanned 70000"], None),
    ],
)
def test_where_redo_has_ended(lines: list[str], ends: Any) -> None:
    log = "\n".join(lines).replace("scanned", "[Note] Doing recovery: scanned up to log sequence number")
    assert recovered.ends_of(log) == ends


def test_pages_are_read(tmp_path: Path) -> None:
    (tmp_path / "c0").mkdir()
    (tmp_path / "#innodb_temp").mkdir()
    page = bytearray(PAGE_BYTES)
    page[16:24] = struct.pack(">Q", 77)
    for name in ("ibdata1", "c0/w.ibd", "undo_001", "#innodb_temp/t.ibd"):
        (tmp_path / name).write_bytes(bytes(PAGE_BYTES) + page)
    before = recovered.read_pages(tmp_path)
    assert {name for name, _ in before} == {"ibdata1", "c0/w.ibd", "undo_001"}
    assert before["c0/w.ibd", 1].lsn == 77
    for name in ("ibdata1", "c0/w.ibd"):
        content = bytearray((tmp_path / name).read_bytes())
        content[30] = 1
        (tmp_path / name).write_bytes(content)
    after = recovered.read_pages(tmp_path)
    assert {key for key in before if before[key] != after[key]} == {("c0/w.ibd", 0)}
    # Another LSN and checksum, and the flags of an encrypted tablespace.
    content = bytearray((tmp_path / "c0/w.ibd").read_bytes())
    for at in (0, 19, PAGE_BYTES - 1):
        content[PAGE_BYTES + at] += 1
    (tmp_path / "c0/w.ibd").write_bytes(content)
    later = recovered.read_pages(tmp_path)["c0/w.ibd", 1]
    assert later.digest != before["c0/w.ibd", 1].digest and later.content == before["c0/w.ibd", 1].content
    content[54:58] = struct.pack(">I", 1 << 13)
    (tmp_path / "c0/w.ibd").write_bytes(content)
    assert recovered.read_pages(tmp_path)["c0/w.ibd", 1].content is None


def _file(path: Path, space: int, lsns: list[int]) -> None:
    """A tablespace whose pages have these LSNs, and names in its pages."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = bytearray(PAGE_BYTES * len(lsns))
    for number, lsn in enumerate(lsns):
        struct.pack_into(">Q", content, PAGE_BYTES * number + 16, lsn)
        struct.pack_into(">I", content, PAGE_BYTES * number + 34, space)
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("mine", "checked", "lacking"),
    [
        ([10, 150, 200, 300], 2, []),
        # A later change is in the file already.
        ([10, 150, 290, 310], 2, []),
        ([10, 149, 200, 300], 2, ["c0/t.ibd:1 has LSN 149, not 150; the checkpoint is 250"]),
        # What is behind the checkpoint may be missing, and so may what was there before the crash.
        ([0, 150, 200, 0], 2, []),
        # The file was not made longer.
        ([10, 150], 2, ["c0/t.ibd:2 has LSN 0, not 200; the checkpoint is 250"]),
    ],
)
def test_what_a_checkpoint_has_passed_is_in_the_files(mine: list[int], checked: int, lacking: list[str], tmp_path: Path) -> None:
    expected, data = tmp_path / "expected", tmp_path / "data"
    for home in (expected, data):
        _file(home / "ibdata1", 0, [150])
    _file(expected / "c0/t.ibd", 7, [10, 150, 200, 300])
    # It has another name, and another table has got its own.
    _file(data / "c0/#sql-1.ibd", 7, mine)
    _file(data / "c0/t.ibd", 8, [1, 1, 1, 1])
    # Neither of two things has been made, or both: nothing says which.
    _file(expected / "c0/u.ibd", 9, [150])
    found = recovered.passed(data, expected, 100, 250, ())
    assert (found.checked, found.lacking) == (checked + 1, lacking)
    left_out = recovered.passed(data, expected, 100, 250, (), {("c0/t.ibd", 1), ("c0/t.ibd", 2)})
    assert (left_out.checked, left_out.lacking) == (1, [])
    removed = recovered.passed(data, expected, 100, 250, {"c0/t.ibd"})
    assert (removed.checked, removed.left_out, removed.lacking) == (1, checked, [])
    assert found.left_out == 0


def test_a_page_that_was_compressed_in_between_is_the_same(tmp_path: Path) -> None:
    """One recovery had to write it, with page compression, and to read it again; the other had not."""
    found = []
    for left in (bytes(8), struct.pack(">BBHHH", 2, 1, 17855, PAGE_BYTES - 38, 3292)):
        page = bytes(24) + struct.pack(">H", 17855) + left + b"b" * (PAGE_BYTES - 34)
        data = tmp_path / left.hex()
        data.mkdir()
        (data / "ibdata1").write_bytes(bytes(PAGE_BYTES))
        # The first page has the flags.
        (data / "t.ibd").write_bytes(bytes(PAGE_BYTES) + page)
        found.append(recovered.read_pages(data))
    assert found[0] == found[1] and len(found[0]) == 3
