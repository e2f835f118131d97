# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The experiment on the last binary log."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

from bench import report
from bench.experiments import binlog
from bench.tests.helpers import make_document, make_run
from binlog_check import logfile


def test_the_note_names_the_copy(tmp_path: Path) -> None:
    (tmp_path / "binlog.index").write_text("./binlog.000001\n./binlog.000002\n")
    (tmp_path / "binlog.000002").write_bytes(b"\xfebin")
    binlog.name_the_copy(tmp_path)
    assert not (tmp_path / "binlog.startup").exists()
    body = b"MYBLSYN1" + struct.pack("<QQIII", 1, 1 << 24, 7, 8, 0)
    (tmp_path / "binlog.startup").write_bytes(body + struct.pack("<I", zlib.crc32(body)))
    binlog.name_the_copy(tmp_path)
    note = (tmp_path / "binlog.startup").read_bytes()
    assert struct.unpack("<Q", note[8:16])[0] == (tmp_path / "binlog.000002").stat().st_ino
    assert note[:8] + note[16:36] == body[:8] + body[16:]
    assert struct.unpack("<I", note[36:])[0] == zlib.crc32(note[:36])
    closed = note + b"MYBLGTI1" + struct.pack("<QII", 1, 2, 3) + b"set"
    (tmp_path / "binlog.startup").write_bytes(closed + struct.pack("<I", zlib.crc32(closed)))
    binlog.name_the_copy(tmp_path)
    named = (tmp_path / "binlog.startup").read_bytes()
    assert struct.unpack("<Q", named[48:56])[0] == (tmp_path / "binlog.000002").stat().st_mtime_ns
    assert named[:48] + named[56:-4] == closed[:48] + closed[56:]
    assert struct.unpack("<I", named[-4:])[0] == zlib.crc32(named[:-4])


def test_a_checkpoint_is_that_of_the_copy(tmp_path: Path) -> None:
    log = tmp_path / "binlog.000002"
    (tmp_path / "binlog.index").write_text(f"./{log.name}\n")
    log.write_bytes(logfile.MAGIC + struct.pack("<IBIIIH", 1, logfile.FORMAT, 1, 40, 44, 0) + bytes(200_000))
    checkpoint = logfile.Checkpoint(100_000, 100_500, b"the set", 4711)
    logfile.write_note(log, 200_000)
    logfile.write_checkpoint(log, checkpoint)
    assert logfile.read_checkpoint(log) == checkpoint
    log.rename(tmp_path / "original")
    log.write_bytes((tmp_path / "original").read_bytes())
    assert logfile.read_checkpoint(log) is None
    binlog.name_the_copy(tmp_path)
    assert logfile.read_checkpoint(log) == checkpoint


def test_the_table_shows_the_start() -> None:
    runs = [make_run("stock", 1, 9.5), make_run("binlog-scan", 1, 1.7)]
    for run in runs:
        run.experiment, run.mode, run.parameters = "binlog", "large-clean", {"mib": 1000}
        run.metrics |= {"binlog_bytes": 1000 << 20, "reads": 10, "sectors_read": 2048}
    grid = report.grids(make_document(runs))[0]
    assert "ready, s" in grid.headings and "last binary log, MiB" in grid.headings
    assert grid.rows[1][1] == "1.70"
