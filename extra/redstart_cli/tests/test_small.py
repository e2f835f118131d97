# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Locks, disk space, ninja's output, durations."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import namedtuple
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from redstart_cli import disk, ninja
from redstart_cli.console import Meter, RedstartError, duration, size
from redstart_cli.locks import exclusive, shared
from redstart_cli.process import module_environment

HOLD = """
import pathlib, sys, time
from redstart_cli.locks import exclusive
sys.argv = ["redstart", "build"]
with exclusive(pathlib.Path("{path}"), "x"):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    repo = Path(__file__).resolve().parents[3]
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD.format(path=tmp_path / "lock")],
        env=module_environment(repo),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()


def test_lock_names_its_holder(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    words = f"the tree is in use by process {holder.pid}: redstart build"
    with pytest.raises(RedstartError, match=words), exclusive(tmp_path / "lock", "the tree"):
        pass


def test_lock_of_a_killed_holder_is_free(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    holder.kill()
    holder.wait()
    with exclusive(tmp_path / "lock", "the tree"):
        pass


def test_readers_share_a_lock(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with shared(lock, "the tree"), shared(lock, "the tree"):
        words = f"the tree is in use by process {os.getpid()}: "
        with pytest.raises(RedstartError, match=words), exclusive(lock, "the tree"):
            pass
    with exclusive(lock, "the tree") as let_readers_in:
        with pytest.raises(RedstartError, match=words), shared(lock, "the tree"):
            pass
        let_readers_in()
        with shared(lock, "the tree"):
            pass
        # Still one at a time, who is named after readers have come and gone.
        with pytest.raises(RedstartError, match=words), exclusive(lock, "the tree"):
            pass
    assert lock.read_text() == ""


Usage = namedtuple("Usage", "total used free")


def test_disk_space_names_needed_and_available(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "disk_usage", lambda path: Usage(10**10, 9 * 10**9, 10**9))
    path = tmp_path / "not/there/yet"
    disk.check_space([disk.Need(path, 9 * 10**8, "trees")])
    needs = [disk.Need(path, 9 * 10**8, "trees"), disk.Need(tmp_path, 3 * 10**9, "build")]
    expected = r"3.9 GB needed \(trees 900 MB, build 3.0 GB\), 1.0 GB available .*Nothing was started"
    with pytest.raises(RedstartError, match=expected):
        disk.check_space(needs)


def test_ninja_steps() -> None:
    step = ninja.parse_step("[12/1444] Building CXX object sql/CMakeFiles/sql_main.dir/sql_select.cc.o")
    assert step is not None and (step.number, step.count) == (12, 1444)
    assert ninja.cost(step.description) > ninja.cost("Building C object extra/zlib/CMakeFiles/z.dir/crc.c.o")
    assert ninja.parse_step("ninja: no work to do.") is None
    assert ninja.planned_cost("ninja: Entering directory `x'\nninja: no work to do.\n") == 0
    two = "[1/2] Building CXX object a/x.cc.o\n[2/2] Linking CXX executable x\n"
    assert ninja.planned_cost(two) == pytest.approx(1.3)


def test_texts() -> None:
    assert [duration(sec) for sec in (4.6, 65, 3725)] == ["5 s", "1 min 05 s", "1 h 02 min"]
    assert [size(count) for count in (430_000_000, 1_300_000_000)] == ["430 MB", "1.3 GB"]


def test_meter_writes_lines_with_an_estimate(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    with Meter("building", 200) as meter:
        now += 31
        meter.update(50, "step 3 of 9")
        now += 1
        meter.update(60)
    assert capsys.readouterr().out == "  building: 25 %, 31 s gone, about 1 min 33 s left, step 3 of 9\n"


def test_children_end_with_this_process(tmp_path: Path) -> None:
    repo = Path(__file__).resolve().parents[3]
    script = (
        "import pathlib, sys; from redstart_cli.process import run_logged\n"
        "show = lambda line: print(line, flush=True)\n"
        "run_logged(['sh', '-c', 'echo $$; exec sleep 60'], pathlib.Path(sys.argv[1]), show)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path / "log")],
        env=module_environment(repo),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    child = Path("/proc") / process.stdout.readline().strip()
    assert child.exists()
    process.kill()
    process.wait()
    deadline = time.monotonic() + 10
    with suppress(FileNotFoundError):
        while "State:\tZ" not in (child / "status").read_text():
            assert time.monotonic() < deadline
            time.sleep(0.02)
