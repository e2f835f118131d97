# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The list of what a start reads: trace, sectors and files, groups, and what makes a run wrong."""

from __future__ import annotations

import os
import struct
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from bench import blocktrace, cli, report, results
from bench.blocktrace import Read, Trace
from bench.diskstats import Counters, Device, device_of
from bench.experiments import reads
from bench.extents import Extent, ExtentMap, Files, first_sector, parse_fiemap
from bench.results import FileReads, Run
from bench.tests.helpers import SAMPLES, make_document, make_run
from redstart_cli.tools import Unavailable

DISK = Device("sda1", 8, 1, "sda", 8, 0)
PLACES = reads.Places(
    "/opt/server/mysqld", "/data/work/", "/data/tmp/", "/opt/server/plugin/", ("/opt/server/share/", "/opt/server/share/charsets/")
)


def traced() -> list[Read]:
    return blocktrace.parse((SAMPLES / "block-trace.txt").read_text().splitlines(), 1000.0)


def test_reads_of_a_trace() -> None:
    """Writes, flushes and discards are none; what the disk did not take is not there twice; names may have brackets."""
    assert traced() == [
        Read(1100.5, 1000, 8, True, "mysqld"),
        Read(1100.501, 2000, 256, False, "mysqld"),
        Read(1100.502004, 2256, 2048, False, "kworker/1:0H"),
        Read(1100.75, 5000, 32, False, "a [b"),
        Read(1101.25, 9000, 8, False, "mysqld"),
        Read(1101.5, 9000, 8, False, "mysqld"),
    ]


@pytest.mark.parametrize(
    ("counted", "lost", "problem"),
    [
        (Counters(reads=6, sectors_read=2360), 0, None),
        (Counters(reads=6, sectors_read=2410), 0, None),
        (Counters(reads=6, sectors_read=2360), 1, "has lost 1 events"),
        (Counters(reads=7, sectors_read=2360), 0, "has 6 reads, the disk has counted 7"),
        (Counters(reads=6, sectors_read=2500), 0, "has 2,360 sectors, the disk has counted 2,500"),
        (Counters(reads=6, sectors_read=2200), 0, "has 2,360 sectors, the disk has counted 2,200"),
        (Counters(), 0, "has 6 reads, the disk has counted 0"),
    ],
)
def test_a_trace_is_compared_with_the_counters(counted: Counters, lost: int, problem: str | None) -> None:
    found = Trace(traced(), counted, lost).problem()
    assert found is None if problem is None else problem in (found or "")


def test_a_trace_of_nothing_is_none() -> None:
    assert Trace([], Counters(), 0).problem() == "the trace has no reads"


def test_recorder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It asks for the events of the disk, not of its partition, and adds up what each processor has lost."""
    for event in blocktrace.EVENTS:
        (tmp_path / "events/block" / event).mkdir(parents=True)
    for number, lost in enumerate((0, 3)):
        (tmp_path / f"per_cpu/cpu{number}").mkdir(parents=True)
        text = f"entries: 5\noverrun: {lost}\ncommit overrun: 0\nbytes: 9\ndropped events: {lost}\nread events: 7\n"
        (tmp_path / f"per_cpu/cpu{number}/stats").write_text(text)
    asked: list[Device | None] = []
    counters = iter([Counters(reads=100, sectors_read=50), Counters(reads=106, sectors_read=2410)])

    def count(device: Device | None, pid: int | None) -> Counters:
        asked.append(device)
        return next(counters)

    monkeypatch.setattr(blocktrace, "read_counters", count)
    monkeypatch.setattr(blocktrace.Recorder, "_await_idle", lambda recorder: None)
    recorder = blocktrace.Recorder(tmp_path, DISK)
    recorder.begin()
    assert (tmp_path / "tracing_on").read_text() == "1"
    assert (tmp_path / "events/block/block_rq_issue/filter").read_text() == f"dev == {8 << 20}"
    (tmp_path / "trace").write_text((SAMPLES / "block-trace.txt").read_text())
    trace = recorder.end()
    assert (tmp_path / "tracing_on").read_text() == "0"
    assert trace.counted == Counters(reads=6, sectors_read=2360)
    assert trace.lost == 6
    assert [(device.major, device.minor) for device in asked if device] == [(8, 0), (8, 0)]


def test_a_kernel_without_the_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Unavailable, match="does not trace block_rq_issue"):
        blocktrace.Recorder(tmp_path, DISK)
    monkeypatch.setattr(blocktrace, "TRACEFS", tmp_path / "tracing")
    with pytest.raises(Unavailable, match="CONFIG_FTRACE"), blocktrace.recording(DISK):
        pass


def test_traces_of_dead_benches_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocktrace, "TRACEFS", tmp_path)
    dead, living = (tmp_path / "instances" / f"redstart-bench-{pid}" for pid in (99999999, os.getppid()))
    dead.mkdir(parents=True)
    living.mkdir()
    with pytest.raises(Unavailable, match="does not trace"), blocktrace.recording(DISK):
        pass
    assert list((tmp_path / "instances").iterdir()) == [living]


def fiemap(*extents: tuple[int, int, int, int]) -> bytes:
    head = struct.pack("=QQIIII", 0, 0, 0, len(extents), 256, 0)
    return head + b"".join(struct.pack("=QQQQQIIII", *extent[:3], 0, 0, extent[3], 0, 0, 0) for extent in extents)


def test_extents_of_a_file() -> None:
    assert parse_fiemap(fiemap()) == ([], None)
    # The second one is not on the disk yet.
    assert parse_fiemap(fiemap((0, 4096, 8192, 0), (8192, 0, 4096, 0x4))) == ([(4096, 8192)], 12288)
    assert parse_fiemap(fiemap((0, 4096, 8192, 0), (65536, 1 << 40, 4096, 0x801))) == ([(4096, 8192), (1 << 40, 4096)], None)
    # Its data are in the inode.
    assert parse_fiemap(fiemap((0, 100, 60, 0x201))) == ([], None)


def test_a_range_is_split_between_files() -> None:
    found = ExtentMap([Extent(100, 200, "b"), Extent(10, 20, "a"), Extent(200, 210, "c")])
    assert list(found.split(10, 20)) == [("a", 10)]
    assert list(found.split(5, 300)) == [(None, 5), ("a", 10), (None, 80), ("b", 100), ("c", 10), (None, 90)]
    assert list(found.split(150, 205)) == [("b", 50), ("c", 5)]
    assert list(ExtentMap([]).split(1, 3)) == [(None, 2)]


def test_files_of_this_machine(tmp_path: Path) -> None:
    """A file of known size is found by sector where the file system says where it is; two names of it are one file."""
    try:
        device = device_of(tmp_path)
    except Unavailable:
        device = DISK
    path = tmp_path / "data"
    path.write_bytes(os.urandom(1 << 20))
    os.sync()
    os.link(path, tmp_path / "other")
    files = Files(device)
    for name in ("data", "other", "gone"):
        files.add(tmp_path / name, name)
    if os.stat(path).st_dev != os.makedev(device.major, device.minor):
        assert files.elsewhere == ["data", "other"]
        return
    extents = files.map()._extents
    if extents:
        assert {extent.name for extent in extents} == {"other"}
        assert sum(extent.end - extent.begin for extent in extents) == (1 << 20) // 512
        assert all(extent.begin >= first_sector(device) for extent in extents)


@pytest.mark.parametrize(
    ("name", "group"),
    [
        ("/opt/server/mysqld", reads.PROGRAM),
        ("outside: /usr/bin/setpriv", reads.LAUNCHER),
        ("/usr/lib/libicudata.so.72.1", reads.ICU),
        ("/opt/server/lib/private/icudt77l/brkitr/char.brk", reads.ICU),
        ("/usr/lib/libc.so.6", reads.LIBRARIES),
        ("/opt/server/plugin/component_x.so", reads.PLUGINS),
        ("/opt/server/share/english/errmsg.sys", reads.MESSAGES),
        ("/opt/server/share/charsets/Index.xml", reads.MESSAGES),
        ("/etc/localtime", reads.CONFIGURATION),
        ("/data/work/auto.cnf", reads.CONFIGURATION),
        ("/data/work/ibdata1", reads.SYSTEM),
        ("/data/work/mysql.ibd", reads.DICTIONARY),
        ("/data/work/undo_001", reads.UNDO),
        ("/data/work/undo001", reads.UNDO),
        ("/data/work/#innodb_redo/#ib_redo9", reads.REDO),
        ("/data/work/ib_logfile0", reads.REDO),
        ("/data/work/#ib_16384_0.dblwr", reads.DOUBLEWRITE),
        ("/data/work/#innodb_temp/temp_1.ibt", reads.TEMPORARY),
        ("/data/tmp/x", reads.TEMPORARY),
        ("/data/tmp/#17 (deleted)", reads.TEMPORARY),
        ("/data/work/binlog.000002", reads.BINLOG),
        ("/data/work/binlog.index", reads.BINLOG),
        ("/data/work/sys/sys_config.ibd", reads.OTHER),
        ("/data/work/mysql/", reads.FILE_SYSTEM),
    ],
)
def test_groups(name: str, group: str) -> None:
    assert PLACES.group_of(name) == group


def test_reads_are_attributed_to_files() -> None:
    now = ExtentMap([Extent(2000, 2100, "/opt/server/mysqld"), Extent(2100, 5000, "/data/work/undo_001")])
    # Before the start another file had a part of it, and one that is gone.
    before = ExtentMap([Extent(2000, 2050, "/data/work/ibtmp1"), Extent(9000, 9008, "/data/work/ibtmp1")])
    found = {file.file: file for file in reads.attribute(traced(), [now, before], PLACES, 1100.0)}
    assert {name: (file.group, file.reads, file.bytes // 512) for name, file in found.items()} == {
        "metadata": (reads.FILE_SYSTEM, 1, 8),
        "/opt/server/mysqld": (reads.PROGRAM, 1, 100),
        "/data/work/undo_001": (reads.UNDO, 1, 156 + 2048),
        "read by a [b": (reads.UNKNOWN, 1, 32),
        "/data/work/ibtmp1": (reads.TEMPORARY, 2, 16),
    }
    undo = found["/data/work/undo_001"]
    assert [undo.first_s, undo.last_s] == pytest.approx([0.501, 0.502004])
    assert (found["/data/work/ibtmp1"].first_s, found["/data/work/ibtmp1"].last_s) == (1.25, 1.5)
    assert sum(file.bytes for file in found.values()) == sum(read.sectors for read in traced()) * 512


def test_what_is_read_with_metadata_is_metadata() -> None:
    block = Read(1.0, 10_000, 8, True, "mysqld")
    around = [replace(block, sector=sector, is_metadata=False) for sector in (9743, 9744, 10_008, 10_256, 10_257)]
    found = {file.file: file.reads for file in reads.attribute([block, *around], [ExtentMap([])], PLACES, 1.0)}
    assert found == {"metadata": 4, "read by mysqld": 2}


def test_files_that_were_not_found_make_a_run_wrong() -> None:
    program = FileReads("/opt/server/mysqld", reads.PROGRAM, 1, 1 << 20, 0.1, 0.2)
    other = FileReads("read by mysqld", reads.UNKNOWN, 9, 9 << 20, 0.1, 0.2)
    assert reads.missing([program, other], 1 << 20) == []
    assert "1.0 MiB are of known files, the server has read 5.0 MiB" in reads.missing([program, other], 5 << 20)[0]
    assert "not cold" in reads.missing([other], 0)[0]


def _run(number: int, factor: int) -> Run:
    run = replace(make_run("stock", number, 1.0), experiment="reads", phases_s={}, phase_io={})
    run.metrics["first_query_s"] = 1.0
    run.files = [
        FileReads("/data/work/undo_001", reads.UNDO, factor, factor << 20, 0.3, 0.4),
        FileReads("/opt/server/mysqld", reads.PROGRAM, 10, 20 << 20, 0.1, 0.2),
        FileReads("/data/work/undo_002", reads.UNDO, factor, factor << 20, 0.2, 0.6),
    ]
    return run


def test_report_of_groups() -> None:
    wrong = _run(4, 100)
    wrong.problems.append("the trace has lost 1 events")
    grid = report.grids(make_document([_run(1, 2), _run(2, 4), _run(3, 6), wrong]))[-1]
    assert grid.headings == ["subject", "files", "reads", "MiB", "first, s", "last, s"]
    assert grid.rows == [
        ["stock", reads.PROGRAM, "10", "20.00", "0.100", "0.200"],
        ["stock", reads.UNDO, "8", "8.00", "0.200", "0.600"],
        ["stock", "all", "18", "28.00", "", ""],
    ]


def test_files_in_the_json(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    results.save(make_document([_run(1, 2), make_run("stock", 2, 1.0)]), path)
    loaded = results.load(path)
    assert loaded.runs[0].files == _run(1, 2).files
    assert loaded.runs[1].files == []
    # Those of before know no files.
    value = make_document([make_run("stock", 1, 1.0)]).as_json()
    del value["runs"][0]["files"]
    assert results.parse(value).runs[0].files == []


def test_subjects_are_checked() -> None:
    done = CliRunner().invoke(cli.main, ["reads", "--subjects", "light"])
    assert done.exit_code == 1
    assert "unknown subject 'light'" in done.output


def test_read_ahead_is_put_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "read_ahead_kb"
    file.write_text("4096\n")
    monkeypatch.setattr(reads, "Path", lambda *_: file)
    with reads._read_ahead(DISK, None) as kib:
        assert kib == 4096
    with pytest.raises(KeyboardInterrupt), reads._read_ahead(DISK, 128) as kib:
        assert (kib, file.read_text()) == (128, "128")
        raise KeyboardInterrupt
    assert file.read_text() == "4096"
