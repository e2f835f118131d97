# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Pages of two recoveries, redo logs that are damaged, and what a run without recoveries is worth."""

from __future__ import annotations

import random
import struct
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from differential.server import Binary
from torture import cli, redo
from torture.life import Counts, Rig
from torture.pages import PAGE_BYTES, crc32c
from torture.redolog import BLOCK_BYTES, HEADER_BYTES, RedoLog

ENDS = redo.Ends(1000, 3000)
SAME = (500, b"x")


@pytest.mark.parametrize(
    ("name", "one", "other", "differs", "left_out"),
    [
        ("c0/w.ibd", SAME, SAME, False, 0),
        ("c0/w.ibd", SAME, (500, b"y"), True, 0),
        ("c0/w.ibd", SAME, (400, b"x"), True, 0),
        ("c0/w.ibd", SAME, None, True, 0),
        ("c0/w.ibd", None, SAME, True, 0),
        # Nobody but redo writes there.
        ("c0/w.ibd", SAME, (1001, b"x"), True, 0),
        ("mysql.ibd", SAME, (500, b"y"), True, 0),
        ("mysql.ibd", (1001, b"x"), (1002, b"y"), False, 1),
        ("undo_001", SAME, (1001, b"y"), False, 1),
        ("undo_001", SAME, None, True, 0),
        ("u.ibu", None, (1001, b"y"), False, 1),
        # A DDL statement that goes on after the start.
        ("c0/w.ibd", (3001, b"x", b"c"), (1001, b"y", b"c"), False, 0),
        ("c0/w.ibd", (3001, b"x", b"c"), (1001, b"y", b"d"), True, 0),
        ("c0/w.ibd", (3001, b"x", b"c"), (1000, b"y", b"c"), True, 0),
        ("c0/w.ibd", (3000, b"x", b"c"), (3001, b"y", b"c"), True, 0),
        ("c0/w.ibd", (3001, b"x", b"c"), None, True, 0),
        ("c0/w.ibd", (3001, b"x", None), (3001, b"y", None), False, 1),
        ("c0/w.ibd", (500, b"x", None), (3001, b"y", None), True, 0),
    ],
)
def test_pages_are_compared(name: str, one: Any, other: Any, differs: bool, left_out: int) -> None:
    first, second = ({(name, 3): redo.Page(*(*page, b"")[:3])} if page else {} for page in (one, other))
    found = redo.compare(first, second, ENDS)
    assert (bool(found.different), found.left_out, found.compared) == (differs, left_out, 1 - left_out)


@pytest.mark.parametrize(("unlogged", "differs"), [([("c0/w.ibd", 3)], False), ([("c0/w.ibd", 4)], True), ([], True)])
def test_what_was_in_the_doublewrite_buffer_alone_is_left_out(unlogged: Any, differs: bool) -> None:
    one, other = ({("c0/w.ibd", 3): redo.Page(lsn, b"", b"")} for lsn in (400, 500))
    found = redo.compare(one, other, ENDS, unlogged)
    assert (bool(found.different), found.left_out) == (differs, not differs)
    # One that is not there is no such page.
    assert redo.compare(one, {}, ENDS, unlogged).different


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
    before = {("c0/w.ibd", number): redo.Page(lsn, b"", b"") for number, lsn in [(3, 0), (4, 5), (5, 0)]}
    assert redo.restored(said, tmp_path, before) == {("c0/w.ibd", 3)}


STARTED = "InnoDB 9.7.4 started; log sequence number 90000"


@pytest.mark.parametrize(
    ("lines", "ends"),
    [
        (["scanned 50000", "scanned 80000", STARTED], (90000 - redo.OF_START_BYTES, 90000)),
        (["scanned 50000", "scanned 70000", STARTED], (70000, 90000)),
        # That of the second start is not of the crash.
        (["scanned 70000", STARTED, "scanned 95000", STARTED.replace("90000", "99000")], (70000, 90000)),
        ([STARTED, "scanned 95000"], None),
        (["scanned 70000"], None),
    ],
)
def test_where_redo_has_ended(lines: list[str], ends: Any) -> None:
    log = "\n".join(lines).replace("scanned", "[Note] Doing recovery: scanned up to log sequence number")
    assert redo.ends_of(log) == ends


def test_pages_are_read(tmp_path: Path) -> None:
    (tmp_path / "c0").mkdir()
    (tmp_path / "#innodb_temp").mkdir()
    page = bytearray(PAGE_BYTES)
    page[16:24] = struct.pack(">Q", 77)
    for name in ("ibdata1", "c0/w.ibd", "undo_001", "#innodb_temp/t.ibd"):
        (tmp_path / name).write_bytes(bytes(PAGE_BYTES) + page)
    before = redo.read_pages(tmp_path)
    assert {name for name, _ in before} == {"ibdata1", "c0/w.ibd", "undo_001"}
    assert before["c0/w.ibd", 1].lsn == 77
    for name in ("ibdata1", "c0/w.ibd"):
        content = bytearray((tmp_path / name).read_bytes())
        content[30] = 1
        (tmp_path / name).write_bytes(content)
    after = redo.read_pages(tmp_path)
    assert {key for key in before if before[key] != after[key]} == {("c0/w.ibd", 0)}
    # Another LSN and checksum, and the flags of an encrypted tablespace.
    content = bytearray((tmp_path / "c0/w.ibd").read_bytes())
    for at in (0, 19, PAGE_BYTES - 1):
        content[PAGE_BYTES + at] += 1
    (tmp_path / "c0/w.ibd").write_bytes(content)
    later = redo.read_pages(tmp_path)["c0/w.ibd", 1]
    assert later.digest != before["c0/w.ibd", 1].digest and later.content == before["c0/w.ibd", 1].content
    content[54:58] = struct.pack(">I", 1 << 13)
    (tmp_path / "c0/w.ibd").write_bytes(content)
    assert redo.read_pages(tmp_path)["c0/w.ibd", 1].content is None


def _log(data: Path, groups: bool = True, encrypted: bool = False) -> None:
    """Two files of four blocks; the checkpoint is in the first block, and six have been written."""
    (data / "#innodb_redo").mkdir(parents=True)
    for file in range(2):
        first_lsn = 8192 + 4 * BLOCK_BYTES * file
        content = bytearray(HEADER_BYTES + 4 * BLOCK_BYTES)
        struct.pack_into(">Q", content, 8, first_lsn)
        if file == 0:
            struct.pack_into(">Q", content, BLOCK_BYTES + 8, 8192 + 20)
        for block in range(4):
            number = 4 * file + block
            if number < 6:
                at = HEADER_BYTES + BLOCK_BYTES * block
                length = BLOCK_BYTES if number < 5 else 100
                struct.pack_into(">IHH", content, at, 16 + number, length | 0x8000 * encrypted, 12 * groups)
                content[at + 50 : at + 114] = b"0123456789abcdef" * 4
        (data / f"#innodb_redo/#ib_redo{file}").write_bytes(content)
    (data / "#innodb_redo/#ib_redo2_tmp").write_bytes(b"")


def test_rows_are_changed_in_the_redo(tmp_path: Path) -> None:
    _log(tmp_path)
    log = RedoLog(tmp_path)
    assert (log.checkpoint, log.bytes()) == (8212, 5 * BLOCK_BYTES)
    before = [(tmp_path / f"#innodb_redo/#ib_redo{file}").read_bytes() for file in range(2)]
    assert log.change_content(random.Random(1), 2) == 2
    assert log.change_content(random.Random(1), 99) == 5
    after = [(tmp_path / f"#innodb_redo/#ib_redo{file}").read_bytes() for file in range(2)]
    changed = [at for file in range(2) for at in range(len(before[file])) if before[file][at] != after[file][at]]
    assert changed
    for content in after:
        for at in range(HEADER_BYTES, len(content), BLOCK_BYTES):
            block = content[at : at + BLOCK_BYTES]
            # That of the checkpoint, and what was not written, are as they were: without a checksum here.
            assert block[-4:] in (struct.pack(">I", crc32c(block[:-4])), bytes(4))


def test_the_checkpoint_is_moved(tmp_path: Path) -> None:
    _log(tmp_path)
    assert RedoLog(tmp_path).move_checkpoint(0) == 8192 + 2 * BLOCK_BYTES + 12 - 8212
    assert RedoLog(tmp_path).checkpoint == 8192 + 2 * BLOCK_BYTES + 12
    # Into the other file, which has had none.
    assert RedoLog(tmp_path).move_checkpoint(0.9) > 0
    assert RedoLog(tmp_path).checkpoint == 8192 + 5 * BLOCK_BYTES + 12


def test_a_checkpoint_has_to_have_a_place(tmp_path: Path) -> None:
    _log(tmp_path, groups=False)
    assert RedoLog(tmp_path).move_checkpoint(0) == 0
    _log(tmp_path / "other", encrypted=True)
    with pytest.raises(ValueError, match="encrypted"):
        RedoLog(tmp_path / "other").bytes()


GOOD = Counts(acknowledged=9, images=30, recoveries=Counter(ours=40, off=9), recoveries_parallel=40, recoveries_left=5, batches=99,
              kills_in_recovery=30, kills_after_opening=1, pages_recovered=99, pages_compared=999)  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, ""),
        ({"recoveries_left": 4}, "4 of 40 recoveries have left pages"),
        ({"kills_after_opening": 0}, "no kill after opening"),
        ({"flush_starts": Counter(kill=60)}, "none of 60 starts with innodb_recovery_flush=BACKGROUND"),
        ({"recoveries": Counter(off=99)}, "no recovery was compared after 30 crashes"),
        ({"pages_compared": 0}, "no recovery was compared"),
        ({"pages_recovered": 0}, "no recovery was compared"),
        ({"recoveries_parallel": 19}, "19 of 40 recoveries have kept"),
        ({"without_redo": 10, "refusals": ["no"] * 6}, "16 of 30 crashes had nothing to recover"),
        ({"kills_in_recovery": 9}, "9 kills while redo was applied"),
        ({"redo_starts": Counter(kill=10)}, "none of 10 starts with innodb_redo_recovery=PARALLEL"),
    ],
)
def test_a_run_without_recoveries_is_a_failure(changes: dict[str, Any], said: str) -> None:
    binaries = {name: Binary(name, []) for name in ("ours", "off", "stock")}
    counts = Counts(**{**vars(GOOD), **changes})
    found = dict.fromkeys(redo.CANARIES, True)
    problems = cli.judge(Rig(binaries, "ours", Path(), ["innochecksum"], counts=counts), ["redo"], found, False)
    assert len(problems) == bool(said)
    assert all(said in problem for problem in problems)
