# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The preloaded library fails the calls that it is told to, and drops flushes of the files that it is told to."""

from __future__ import annotations

import errno
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from redstart_cli.mysqld import Mysqld
from torture import preload
from torture.fault import CALLS, KINDS, SHORT, Fault, choose

PROGRAM = """
import os, sys
fd = os.open(sys.argv[1], os.O_CREAT | os.O_RDWR)
if os.environ.get("LONGER"):
    os.posix_fallocate(fd, 0, 4096)
for number in range(4):
    try:
        print(os.pwrite(fd, b"x" * 100, 0))
        os.fsync(fd)
    except OSError as problem:
        print(-problem.errno)
"""


@pytest.fixture
def library(tmp_path: Path) -> Path:
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler")
    return preload.library(tmp_path)


def run(library: Path, path: Path, **environment: str) -> list[int]:
    path.parent.mkdir(exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(path)],
        env={**os.environ, "LD_PRELOAD": str(library), **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return [int(word) for word in done.stdout.split()]


def test_the_nth_call_on_a_kind_of_file_fails(library: Path, tmp_path: Path) -> None:
    redo, other = tmp_path / "#innodb_redo/#ib_redo1", tmp_path / "other"
    fired = tmp_path / "fired"
    fault = {"TORTURE_FAULT": str(Fault("write", "redo", 2, 2, errno.ENOSPC)), "TORTURE_FIRED": str(fired)}
    assert run(library, other, **fault) == [100] * 4
    assert not fired.exists()
    assert run(library, redo, **fault) == [100, -errno.ENOSPC, -errno.ENOSPC, 100]
    assert fired.exists()


def test_temporary_files_are_those_of_a_servers_own_folder(library: Path, tmp_path: Path) -> None:
    server = Mysqld("ours", [], tmp_path, tmp_path / "log", [])
    server.kill()
    folder = tmp_path / server.run.name
    fault = {"TORTURE_FAULT": str(Fault("write", "temp", 1, 4, errno.ENOSPC))}
    assert run(library, folder / "ibtemp", **fault) == [-errno.ENOSPC] * 4
    for name in ("output", "pid", "s", "s.lock"):
        assert run(library, folder / name, **fault) == [100] * 4
    assert run(library, tmp_path / "ibtemp", **fault) == [100] * 4


def test_a_write_may_be_short(library: Path, tmp_path: Path) -> None:
    fault = str(Fault("write", "data", 3, 1, SHORT))
    assert run(library, tmp_path / "t.ibd", TORTURE_FAULT=fault) == [100, 100, 50, 100]


def test_a_flush_fails_or_is_dropped(library: Path, tmp_path: Path) -> None:
    path, fault = tmp_path / "binlog.000001", str(Fault("sync", "binlog", 1, 1, errno.EIO))
    assert run(library, path, TORTURE_FAULT=fault) == [100, -errno.EIO, 100, 100, 100]
    # A flush that is dropped cannot fail.
    assert run(library, path, TORTURE_FAULT=fault, TORTURE_DROP="redo,binlog") == [100] * 4
    assert run(library, path, TORTURE_FAULT=fault, TORTURE_DROP="redo,data") == [100, -errno.EIO, 100, 100, 100]


def test_flushes_of_the_rebuilt_table_are_dropped_alone_or_with_data(library: Path, tmp_path: Path) -> None:
    rebuilt, other = tmp_path / "rebuilt/#sql-ib9.ibd", tmp_path / "bank/t.ibd"
    fault = str(Fault("sync", "data", 1, 1, errno.EIO))
    fails = [100, -errno.EIO, 100, 100, 100]
    for path in (rebuilt, other):
        assert run(library, path, TORTURE_FAULT=fault) == fails
        assert run(library, path, TORTURE_FAULT=fault, TORTURE_DROP="data") == [100] * 4
    assert run(library, rebuilt, TORTURE_FAULT=fault, TORTURE_DROP="rebuilt") == [100] * 4
    assert run(library, other, TORTURE_FAULT=fault, TORTURE_DROP="rebuilt") == fails
    # But for the flush of what has become longer.
    assert run(library, rebuilt, TORTURE_FAULT=fault, TORTURE_DROP="rebuilt", LONGER="1") == fails
    assert run(library, rebuilt, TORTURE_FAULT=fault, TORTURE_DROP="data", LONGER="1") == [100] * 4


def test_all_sorts_of_faults_are_chosen() -> None:
    chosen = [choose(random.Random(seed)) for seed in range(2000)]
    assert chosen == [choose(random.Random(seed)) for seed in range(2000)]
    assert {(fault.call, fault.kind) for fault in chosen} == {(call, kind) for call in CALLS for kind in KINDS}
    assert {1, 2, 3} <= {fault.nth for fault in chosen}


def test_a_map_that_is_off_has_no_faults() -> None:
    chosen = [choose(random.Random(seed), has_map=False) for seed in range(500)]
    assert {fault.kind for fault in chosen} == set(KINDS) - {"map"}


def test_calls_count_once_a_file_exists(library: Path, tmp_path: Path) -> None:
    path, arm = tmp_path / "binlog.000001", tmp_path / "arm"
    fault = preload.failing(tmp_path, Fault("sync", "binlog", 1, 1, errno.EIO), tmp_path / "fired", arm)
    assert run(library, path, **fault) == [100] * 4
    arm.touch()
    assert run(library, path, **fault) == [100, -errno.EIO, 100, 100, 100]


def test_the_note_is_a_kind_of_its_own(library: Path, tmp_path: Path) -> None:
    note, fault = tmp_path / "binlog.startup", str(Fault("sync", "note", 1, 1, errno.EIO))
    assert run(library, note, TORTURE_FAULT=fault) == [100, -errno.EIO, 100, 100, 100]
    assert run(library, tmp_path / "binlog.000001", TORTURE_FAULT=fault) == [100] * 4


def test_a_flush_that_lies_leaves_the_file_as_it_is(library: Path, tmp_path: Path) -> None:
    """Its holes are on the disk alone; the power cuts see them."""
    path = tmp_path / "binlog.000001"
    program = PROGRAM.replace('b"x" * 100', 'b"x" * 100000')
    environment = {**os.environ, **preload.lying(tmp_path)}
    command = [sys.executable, "-c", program, str(path)]
    assert subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout == "100000\n" * 4
    assert path.read_bytes() == b"x" * 100000


def test_reads_of_undo_logs_are_slow(library: Path, tmp_path: Path) -> None:
    program = """
import os, sys, time
fd = os.open(sys.argv[1], os.O_CREAT | os.O_RDWR)
open("/proc/self/comm", "w").write(sys.argv[2])
begin = time.monotonic()
os.pread(fd, 4096, 0)
print(int(time.monotonic() - begin >= 0.2))
"""
    environment = {**os.environ, **preload.slow_undo(tmp_path, 200)}
    rolls_back = preload.ROLLBACK_THREAD
    for name, thread, slow in (
        ("undo_001", rolls_back, "1"),
        ("u.ibu", f"{rolls_back}-1", "1"),
        ("t.ibd", rolls_back, "0"),
        ("undo_001", "other", "0"),
    ):
        command = [sys.executable, "-c", program, str(tmp_path / name), thread]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert done.stdout.split() == [slow]
