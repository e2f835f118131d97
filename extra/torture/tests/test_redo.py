# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Redo logs that are damaged, and what a run without recoveries is worth."""

from __future__ import annotations

import random
import struct
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from redstart_cli.console import RedstartError
from redstart_cli.mysqld import Binary
from torture import cli, recovered, redo, redolog
from torture.held import Held
from torture.life import Counts, Rig
from torture.pages import PAGE_BYTES, crc32c
from torture.redolog import BLOCK_BYTES, HEADER_BYTES, RedoLog
from torture.server import Place
from torture.tests.helpers import counts_of


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
                struct.pack_into(">IHH", content, at, 17 + number, length | 0x8000 * encrypted, 12 * groups)
                content[at + 50 : at + 114] = b"0123456789abcdef" * 4
        (data / f"#innodb_redo/#ib_redo{file}").write_bytes(content)
    (data / "#innodb_redo/#ib_redo2_tmp").write_bytes(b"")


def test_rows_are_changed_in_the_redo(tmp_path: Path) -> None:
    _log(tmp_path)
    log = RedoLog(tmp_path)
    assert (log.checkpoint, log.bytes()) == (8212, 5 * BLOCK_BYTES)
    assert redolog.checkpoint(tmp_path) == 8212
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


def _removal(space: bytes, name: bytes, kind: int = 0xA3, n_bytes: int | None = None) -> bytes:
    path = b"./" + name + b"\0"
    return bytes([kind]) + space + b"\0" + struct.pack(">H", len(path) if n_bytes is None else n_bytes) + path


def test_files_that_redo_removes(tmp_path: Path) -> None:
    _log(tmp_path)
    records = [
        _removal(b"\x07", b"c0/one.ibd"),
        _removal(b"\x81\x23", b"c0/two.ibd", 0x23),
        _removal(b"\xf0\x12\x34\x56\x78", b"c0/three.ibd"),
        # One that is made, one of another length, and one whose number is none.
        _removal(b"\x08", b"c0/made.ibd", 33),
        _removal(b"\x09", b"c0/other.ibd", 35, 5),
        _removal(b"\x81\x82\x83", b"c0/none.ibd"),
    ]
    content = b"".join(records)
    # From the end of one block into the next.
    at = 2 * BLOCK_BYTES - 4 - 20
    path = tmp_path / "#innodb_redo/#ib_redo0"
    log = bytearray(path.read_bytes())
    log[HEADER_BYTES + at : HEADER_BYTES + at + 20] = content[:20]
    begin = HEADER_BYTES + 2 * BLOCK_BYTES + 12
    log[begin : begin + len(content) - 20] = content[20:]
    path.write_bytes(log)
    assert RedoLog(tmp_path).removed() == {7, 0x123, 0x12345678}


def _change(data: Path, at: int, content: bytes, file: int = 0) -> None:
    """Change what is so far behind the header of a file."""
    path = data / f"#innodb_redo/#ib_redo{file}"
    log = bytearray(path.read_bytes())
    log[HEADER_BYTES + at : HEADER_BYTES + at + len(content)] = content
    path.write_bytes(log)


def test_the_block_of_the_checkpoint_removes_files_behind_it(tmp_path: Path) -> None:
    _log(tmp_path)
    # The first record begins before the checkpoint, which is at 20.
    records = _removal(b"\x07", b"c0/one.ibd"), _removal(b"\x08", b"c0/two.ibd")
    _change(tmp_path, 19, b"".join(records))
    assert RedoLog(tmp_path).removed() == {8}
    assert RedoLog(tmp_path).bytes() == 5 * BLOCK_BYTES


def test_blocks_of_an_older_use_of_a_file_are_not_read(tmp_path: Path) -> None:
    _log(tmp_path)
    removal = _removal(b"\x07", b"c0/one.ibd")
    _change(tmp_path, BLOCK_BYTES + 12, removal)
    assert RedoLog(tmp_path).removed() == {7}
    # As old versions have marked blocks.
    for block in range(4):
        _change(tmp_path, block * BLOCK_BYTES, struct.pack(">I", 1 << 31 | 17 + block))
    assert (RedoLog(tmp_path).removed(), RedoLog(tmp_path).bytes()) == ({7}, 5 * BLOCK_BYTES)
    # Redo ends in the block of the checkpoint, and the ones behind it are older, but follow each other.
    for block in range(1, 4):
        _change(tmp_path, block * BLOCK_BYTES, struct.pack(">I", 1 + block))
    assert (RedoLog(tmp_path).removed(), RedoLog(tmp_path).bytes()) == (set(), 0)


def test_the_files_of_tables_that_redo_removes(tmp_path: Path) -> None:
    _log(tmp_path)
    for name, space in (("one", 7), ("two", 8)):
        head = bytearray(PAGE_BYTES)
        struct.pack_into(">I", head, 34, space)
        (tmp_path / "c0").mkdir(exist_ok=True)
        (tmp_path / f"c0/{name}.ibd").write_bytes(head)
    (tmp_path / "ibdata1").write_bytes(bytes(PAGE_BYTES))
    assert redo._removed(tmp_path) == set()
    _change(tmp_path, BLOCK_BYTES + 12, _removal(b"\x08", b"c0/two.ibd"))
    assert redo._removed(tmp_path) == {"c0/two.ibd"}
    _log(tmp_path / "other", encrypted=True)
    assert redo._removed(tmp_path / "other") is None


@pytest.mark.parametrize(("removed", "said"), [(set(), ""), ({"c0/u.ibd"}, ""), (None, "redo is encrypted")])
def test_differences_are_not_excused_if_removals_are_not_known(
    removed: set[str] | None, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig({}, "ours", tmp_path, [])
    trial = redo.Trial(rig, tmp_path, "1", redo.Image(tmp_path, [], 100), 1, None)
    expected = redo.Expected(tmp_path, {}, recovered.Ends(200, 300), removed, set(), {})
    given: list[Any] = []

    def passed(*arguments: Any) -> recovered.Passed:
        given.append(arguments[4])
        return recovered.Passed(9, 3, ["c0/t.ibd:1"])

    monkeypatch.setattr(redo, "passed", passed)
    trial._check_passed(tmp_path, expected, 150)
    assert (given, rig.counts.passed_left_out) == ([removed or ()], 3)
    assert (trial.verdict.is_clean, trial.has_differed) == (False, True)
    assert said in trial.verdict.wrong[0]


class FakeServer:
    """One that starts, recovers and stops; stock may say why it does not."""

    refusal = ""

    def __init__(self, binary: Binary, place: Place, extra: object = ()) -> None:
        self._problem = self.refusal if binary.name == "stock" else ""
        place.log.write_text("Applying a batch of 9 redo" if place.log.stem == "found" else "")

    def __enter__(self) -> FakeServer:
        return self

    def __exit__(self, *_: object) -> None: ...

    def wait_ready(self) -> str:
        return self._problem

    def has_changed_release(self) -> bool:
        return False

    def stop(self) -> str:
        return ""


def recovered_trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: str, refusal: str = "") -> redo.Trial:
    """Of a crash of this server, of which pages are not compared, and rows always are."""
    binaries = {name: Binary(name, []) for name in ("ours", "off", "stock", "older")}
    rig = Rig(binaries, "ours", tmp_path, [], releases={"ours": 90704, "off": 90704, "stock": 90704, "older": 90702})
    (tmp_path / "crashed").mkdir()
    image = redo.Image(tmp_path / "crashed", ["--innodb-page-size=16k"], 100, server)
    trial = redo.Trial(rig, tmp_path / "image", "1", image, 1, None)
    kills: list[int] = []
    for name, value in {
        "_draw_kills": lambda: 3, "_kill_some": lambda *words: kills.append(words[3]), "_expect": lambda: None, "kills": kills,
    }.items():  # fmt: skip
        monkeypatch.setattr(trial, name, value, raising=False)
    monkeypatch.setattr(redo, "Server", type("Fake", (FakeServer,), {"refusal": refusal}))
    monkeypatch.setattr(redo, "ROWS_SHARE", 1.0)
    monkeypatch.setattr(redo, "held", lambda server: Held({"c0.t": "1 row", "c1.t": "no row"}))
    trial.run(float("inf"))
    assert trial.verdict.is_clean
    return trial


def of_the_others(counts: Counts) -> tuple[int, ...]:
    return counts.images, counts.recoveries.total(), counts.rows_compared, counts.tables_compared, counts.batches


def test_crashes_of_another_release_are_counted_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trial = recovered_trial(tmp_path, monkeypatch, "older")
    counts = trial.rig.counts
    assert counts.rows_only == {"crashes": 1, "compared": 1, "tables": 2} and vars(trial)["kills"] == [0]
    assert of_the_others(counts) == (0, 0, 0, 0, 0)
    assert counts.exercised.recoveries.total() == 0 and sum(counts.recovered.values()) == 1
    assert "; of another release: 1 crashes (0 that stock does not recover), rows of 2 tables compared" in cli._redo(counts)
    report = cli._report(counts, 1, {})
    assert report["rows_only"] == {"crashes": 1, "refused": 0, "compared": 1, "tables": 2} and report["images"] == 0


def test_one_that_stock_does_not_recover_is_no_refusal_of_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = recovered_trial(tmp_path, monkeypatch, "older", "no").rig.counts
    assert counts.rows_only == {"crashes": 1, "refused": 1} and counts.refusals == [] and not counts.recovered


@pytest.mark.parametrize("server", ["stock", "ours", ""])
def test_crashes_of_the_same_release_are_counted_as_before(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trial = recovered_trial(tmp_path, monkeypatch, server)
    counts = trial.rig.counts
    assert not counts.rows_only and vars(trial)["kills"] == [3]
    assert of_the_others(counts) == (1, 1, 1, 2, 1)
    assert "another release" not in cli._redo(counts)


def test_the_summary_says_what_was_not_checked() -> None:
    said = cli._redo(counts_of(passed_left_out=7, removals_unknown=3))
    assert "7 of tables that redo removes" in said
    assert "3 crashes whose removals are not known" in said


GOOD = partial(
    counts_of,
    acknowledged=9, images=30, recoveries=Counter(ours=40, off=9), batches=99, rows_compared=9, tables_compared=99,
    kills_in_recovery=30, kills_after_opening=1, pages_passed=9, pages_recovered=99, pages_compared=999,
)  # fmt: skip


ROWS_ONLY = Counter(crashes=200, refused=5, compared=195, tables=999)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, ""),
        ({"kills_after_opening": 0}, "no kill of an open server"),
        ({"pages_passed": 0}, "no kill behind a checkpoint"),
        ({"rows_compared": 0}, "no rows were compared"),
        ({"tables_compared": 0}, "no rows were compared"),
        ({"pages_left_out": Counter({recovered.OWN: 300})}, "300 pages were not compared (written by servers), and 999 were"),
        ({"pages_left_out": Counter({recovered.OWN: 200})}, ""),
        ({"pages_left_out": Counter({recovered.LSN_ALONE: 6})}, "6 pages were not compared (at an LSN that is not logged)"),
        ({"pages_left_out": Counter({recovered.LSN_ALONE: 5})}, ""),
        ({"pages_left_out": Counter({recovered.REMOVED: 9000})}, "9000 pages were not compared (of tables that redo removes)"),
        ({"pages_left_out": Counter({recovered.REMOVED_FILE: 9000})}, "whose files one recovery alone has"),
        ({"flush_starts": Counter(kill=60)}, "none of 60 starts with innodb_recovery_flush=BACKGROUND"),
        ({"recoveries": Counter(off=99)}, "no recovery was compared after 30 crashes"),
        ({"pages_compared": 0}, "no recovery was compared"),
        ({"pages_recovered": 0}, "no recovery was compared"),
        ({"without_redo": 10, "refusals": ["no"] * 6}, "16 of 30 crashes had nothing to recover"),
        ({"kills_in_recovery": 9}, "9 kills while redo was applied"),
        ({"redo_starts": Counter(kill=10)}, "none of 10 starts with innodb_redo_recovery=PARALLEL"),
        # Crashes of another release neither help nor harm the rules on pages, kills and rows of the others.
        ({"rows_only": ROWS_ONLY}, ""),
        ({"rows_only": ROWS_ONLY, "without_redo": 16}, "16 of 30 crashes had nothing to recover"),
        ({"rows_only": ROWS_ONLY, "rows_compared": 0}, "no rows were compared"),
        ({"rows_only": ROWS_ONLY, "kills_in_recovery": 12}, "12 kills while redo was applied, in 49 recoveries"),
        ({"rows_only": ROWS_ONLY, "images": 9, "kills_after_opening": 0, "pages_passed": 0}, ""),
        ({"rows_only": ROWS_ONLY, "images": 0, "recoveries": Counter()}, "no recovery was compared after 0 crashes"),
        ({"rows_only": Counter(crashes=20, refused=11, compared=9, tables=99)},
         "after 20 crashes of another release 9 recoveries were compared, and 99 tables"),
        ({"rows_only": Counter(crashes=20, compared=20)}, "20 recoveries were compared, and 0 tables"),
        ({"rows_only": Counter(crashes=19, refused=11, compared=8, tables=99)}, ""),
    ],
)
def test_a_run_without_recoveries_is_a_failure(changes: dict[str, Any], said: str) -> None:
    binaries = {name: Binary(name, []) for name in ("ours", "off", "stock")}
    counts = GOOD(**changes)
    found = dict.fromkeys(redo.CANARIES, True)
    problems = cli.judge(Rig(binaries, "ours", Path(), ["innochecksum"], counts=counts), ["redo"], found, False)
    assert len(problems) == bool(said)
    assert all(said in problem for problem in problems)


def test_what_another_version_has_kept_is_refused(tmp_path: Path) -> None:
    rig = Rig({}, "ours", tmp_path, [])
    with pytest.raises(RedstartError, match="does not say kills, pages"):
        redo.again(rig, tmp_path, {"kind": "redo", "extra": [], "ends": [1, 2]})
