# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""States of data directories: byte for byte, and never silently wrong."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from bench import datadir
from bench.datadir import PAGE_BYTES, DataDir, copy_file, punch_empty_pages, walk, zero_runs
from bench.experiments import startup
from bench.subjects import Binary
from bench.tables import Tables
from redstart_cli.tools import ToolError

TABLES = Tables(300, 3)


@pytest.fixture
def directory(tmp_path: Path) -> DataDir:
    """A made-up data directory whose clean state is saved."""
    made = DataDir(tmp_path, TABLES.keeps_copy)
    for index in range(TABLES.tables):
        schema, table = TABLES.table(index)
        (made.work / schema).mkdir(parents=True, exist_ok=True)
        (made.work / schema / f"{table}.ibd").write_bytes(b"%d" % index * 10)
    (made.work / "#innodb_redo").mkdir()
    (made.work / "#innodb_redo" / "#ib_redo1").write_bytes(b"redo")
    (made.work / "ibdata1").write_bytes(b"system")
    made.save_state("clean")
    time.sleep(datadir.CLOCK_TICK_SEC)
    return made


def content(made: DataDir) -> dict[str, bytes]:
    return {name: (made.work / name).read_bytes() for name in walk(made.work)}


def crash(made: DataDir) -> None:
    (made.work / "ibdata1").write_bytes(b"SYSTEM")
    (made.work / "#innodb_redo" / "#ib_redo1").unlink()
    (made.work / "#innodb_redo" / "#ib_redo2").write_bytes(b"more redo")
    for schema, table in TABLES.crash_tables:
        (made.work / schema / f"{table}.ibd").write_bytes(b"inserted")


def test_states_are_restored_byte_for_byte(directory: DataDir) -> None:
    clean = content(directory)
    crash(directory)
    directory.save_state("crash")
    crashed = content(directory)
    assert clean != crashed
    time.sleep(datadir.CLOCK_TICK_SEC)
    (directory.work / "ibdata1").write_bytes(b"SYSTEM and more")
    (directory.work / "ibtmp1").write_bytes(b"temporary")
    directory.restore("crash")
    assert content(directory) == crashed
    directory.restore("clean")
    assert content(directory) == clean
    directory.restore("crash")
    assert content(directory) == crashed


def test_only_changed_files_are_copied(directory: DataDir) -> None:
    assert directory.restore("clean") == 0
    (directory.work / "ibdata1").write_bytes(b"sYstem")
    assert directory.restore("clean") == 1
    assert directory.restore("clean") == 0


def test_a_lost_file_comes_back(directory: DataDir) -> None:
    (directory.work / "ibdata1").unlink()
    directory.restore("clean")
    assert (directory.work / "ibdata1").read_bytes() == b"system"


def test_a_changed_table_without_a_copy_is_refused(directory: DataDir) -> None:
    kept = TABLES.crash_tables
    other = next(TABLES.table(i) for i in range(TABLES.tables) if TABLES.table(i) not in kept)
    path = directory.work / other[0] / f"{other[1]}.ibd"
    size = path.stat().st_size
    path.write_bytes(b"x" * size)
    os.utime(path, ns=(0, 0))
    with pytest.raises(ToolError, match="no copy"):
        directory.restore("clean")
    assert not directory.is_complete
    directory.drop_state("clean")
    directory.drop_state("none")
    assert not directory.has_state("clean")


def test_a_damaged_copy_is_refused(directory: DataDir) -> None:
    (directory.folder / "states" / "clean" / "files" / "ibdata1").write_bytes(b"")
    (directory.work / "ibdata1").write_bytes(b"changed")
    with pytest.raises(ToolError, match="damaged"):
        directory.restore("clean")


def test_an_unfinished_state_does_not_count(directory: DataDir) -> None:
    (directory.folder / "states" / "crash").mkdir()
    assert not directory.has_state("crash")
    assert directory.has_state("clean")


def test_a_state_of_another_maker_does_not_count(directory: DataDir) -> None:
    directory.save_state("crash", "one")
    assert directory.has_state("crash")
    assert directory.has_state("crash", "one")
    assert not directory.has_state("crash", "two")
    # As it was before makers were noted.
    directory.save_state("crash")
    assert directory.has_state("crash")
    assert not directory.has_state("crash", "one")


@pytest.mark.parametrize("text", ["", '{"version": '])
def test_a_manifest_that_was_not_written_to_its_end_is_none(directory: DataDir, text: str) -> None:
    (directory.folder / "states" / "clean" / "manifest.json").write_text(text)
    assert not directory.has_state("clean")


def test_a_state_that_came_to_be_in_another_way_does_not_count(
    directory: DataDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    (directory.folder / "about.json").write_text("{}")
    assert directory.has_state("clean")
    assert directory.is_complete
    monkeypatch.setattr(datadir, "STATES_VERSION", datadir.STATES_VERSION + 1)
    assert not directory.has_state("clean")
    assert not directory.is_complete
    # As it was before there were versions.
    (directory.folder / "states" / "clean" / "manifest.json").write_text('{"ibdata1": 6}')
    assert not directory.has_state("clean")


def test_files_to_check(directory: DataDir) -> None:
    (directory.work / "undo_001").write_bytes(b"")
    (directory.work / "mysql.ibd").write_bytes(b"")
    assert directory.files_to_check() == TABLES.tables + 2


def test_zero_runs() -> None:
    page, empty = b"x" + bytes(PAGE_BYTES - 1), bytes(PAGE_BYTES)
    assert zero_runs(page + empty + empty + page + empty) == [
        (PAGE_BYTES, 2 * PAGE_BYTES),
        (4 * PAGE_BYTES, PAGE_BYTES),
    ]
    assert zero_runs(empty + bytes(100)) == [(0, PAGE_BYTES)]
    assert zero_runs(b"") == []


def test_pages_of_another_size_have_a_directory_of_their_own_and_are_punched_as_such(tmp_path: Path) -> None:
    plain, small = Tables(1_000_000, 100), Tables(1_000_000, 100, page_kib=4)
    assert plain.server_options == () and small.server_options == ("--innodb-page-size=4k",)
    assert small.key == "1000000t-100s-4k" and "pages of 4 KiB" in small.what
    assert "pages" not in plain.what
    assert small.peak_bytes < 48 << 30 < 100 << 30 < plain.peak_bytes
    path = tmp_path / "t.ibd"
    path.write_bytes(b"x" * 5 * small.page_bytes + bytes(2 * small.page_bytes))
    assert punch_empty_pages(path, plain.page_bytes) == 0
    assert punch_empty_pages(path, small.page_bytes) in (0, 2 * small.page_bytes)


def test_punching_and_copying_keep_the_bytes(tmp_path: Path) -> None:
    source, target = tmp_path / "a.ibd", tmp_path / "b.ibd"
    data = b"x" * PAGE_BYTES + bytes(8 * PAGE_BYTES) + b"y" * PAGE_BYTES
    source.write_bytes(data)
    source.chmod(0o640)
    punched = punch_empty_pages(source)
    assert punched in (0, 8 * PAGE_BYTES)
    copy_file(source, target)
    assert source.read_bytes() == target.read_bytes() == data
    assert target.stat().st_mode & 0o777 == 0o640
    if punched:
        assert target.stat().st_blocks * 512 < len(data)


def test_tables_are_spread_and_crash_tables_are_distinct() -> None:
    assert TABLES.table(4) == ("bench0001", "t0000004")
    assert len(TABLES.crash_tables) == 100
    assert len(Tables(7, 1).crash_tables) == 7
    assert Tables(100_000, 1).peak_bytes < 14 << 30
    schema, table = min(TABLES.crash_tables)
    assert TABLES.keeps_copy(f"{schema}/{table}.ibd")
    assert TABLES.keeps_copy("mysql.ibd")
    assert TABLES.keeps_copy("#innodb_redo/#ib_redo6")
    assert not TABLES.keeps_copy("bench0001/t0000001.ibd")


def test_a_map_that_another_build_made_is_not_started_from(directory: DataDir) -> None:
    """A format that the build does not read would be measured as if there were no map."""
    program = directory.folder / "usr" / "mysqld"
    program.parent.mkdir()
    binary = Binary(Path("/usr/mysqld"), directory.folder, "mysql", "9.7.4")
    names = []
    for text in (b"one", b"two"):
        program.write_bytes(text)
        name = startup.map_state(binary)
        assert name == startup.map_state(Binary(program, None, "mysql", "9.7.4"))
        directory.drop_other_states(startup.MAP_STATE, name)
        assert not directory.has_state(name)
        directory.save_state(name)
        names.append(name)
    assert [directory.has_state(name) for name in ("clean", *names)] == [True, False, True]
    directory.drop_other_states(startup.MAP_STATE, names[1])
    assert directory.has_state(names[1])
