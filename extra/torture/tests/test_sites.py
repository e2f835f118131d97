# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The sites can be told apart by the preloaded library, and each is gone through."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from torture import preload
from torture.fault import SHORT, Fault
from torture.life import Rig
from torture.oracle import Verdict
from torture.sites import BOUND, OTHER_BOUND, SITES, Site, SitesLife

# Python itself has no use for preadv64().
READS = """
import ctypes, os, sys
class Vector(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("bytes", ctypes.c_size_t)]
c = ctypes.CDLL(None, use_errno=True)
to = ctypes.create_string_buffer(10)
vectors = (Vector * 2)((ctypes.addressof(to), 5), (ctypes.addressof(to) + 5, 5))
fd = os.open(sys.argv[1], os.O_CREAT | os.O_RDWR)
os.pwrite(fd, b"x" * 100, 0)
for read in (lambda: c.pread64(fd, to, 10, 0), lambda: c.preadv64(fd, vectors, 2, 0)) * 2:
    got = read()
    print(got if got >= 0 else -ctypes.get_errno())
"""


@pytest.fixture
def library(tmp_path: Path) -> Path:
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler")
    return preload.library(tmp_path)


def reads(library: Path, path: Path, fault: Fault) -> list[int]:
    path.parent.mkdir(exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-c", READS, str(path)], env={**os.environ, "LD_PRELOAD": str(library),
        "TORTURE_FAULT": str(fault)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return [int(word) for word in done.stdout.split()]


@pytest.mark.parametrize(
    ("name", "call", "kind", "expected"),
    [
        ("undo_001", "readv", "undo", [10, -5, 10, 10]),
        ("undo_001", "read", "undo", [-5, 10, 10, 10]),
        ("u7.ibu", "read", "data", [-5, 10, 10, 10]),
        ("t.ibd", "readv", "undo", [10, 10, 10, 10]),
        ("redstart-mysqld-x/ib1", "read", "temp", [-5, 10, 10, 10]),
        ("redstart-mysqld-x/pid", "read", "temp", [10, 10, 10, 10]),
    ],
)
def test_files_and_reads_are_told_apart(
    library: Path, tmp_path: Path, name: str, call: str, kind: str, expected: list[int]
) -> None:
    assert reads(library, tmp_path / name, Fault(call, kind, 1, 1, errno.EIO)) == expected


def test_a_vector_may_be_read_in_part(library: Path, tmp_path: Path) -> None:
    assert reads(library, tmp_path / "undo_001", Fault("readv", "undo", 2, 1, SHORT)) == [10, 10, 10, 5]


def test_a_ring_fails(library: Path) -> None:
    program = "import ctypes, sys; print(ctypes.CDLL(sys.argv[1]).io_uring_queue_init(1, None, 0))"
    done = subprocess.run(
        [sys.executable, "-c", program, str(library)], capture_output=True, text=True, check=True,
        env={**os.environ, "TORTURE_FAULT": str(Fault("ring-setup", "any", 1, 1, errno.ENOSYS))},
    )  # fmt: skip
    assert int(done.stdout) == -errno.ENOSYS == ctypes.c_int(-errno.ENOSYS).value


def test_calls_are_gone_through_until_one_is_not_made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "base-16/data").mkdir(parents=True)
    rig = Rig({}, "ours", tmp_path, [])
    tried: list[tuple[str, int, int]] = []

    def fault(_: SitesLife, site: Site, fault: Fault) -> bool:
        tried.append((site.name, fault.error, fault.nth))
        has_fired = site.name != "map, write" or fault.nth < 3
        rig.counts.faults += has_fired
        return has_fired

    monkeypatch.setattr(SitesLife, "_prepare", lambda _: None)
    monkeypatch.setattr(SitesLife, "_fault", fault)
    assert SitesLife(rig, 1).run(0)
    assert [nth for name, error, nth in tried if (name, error) == ("map, write", errno.EIO)] == [1, 2, 3]
    for site in SITES:
        if site.name != "map, write":
            assert rig.counts.sites[site.name] == BOUND + OTHER_BOUND * (len(site.errors) - 1)


def test_a_map_is_made_anew_each_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A journal covers DDL in a directory that nobody else has changed, so that no map would be renamed."""
    (tmp_path / "base-16/data").mkdir(parents=True)
    life = SitesLife(Rig({}, "ours", tmp_path, []), 1)
    schema = tmp_path / "sites/data/other"
    schema.mkdir()
    monkeypatch.setattr("torture.sites.MAP_SEC", 0.0)
    changed: list[bool] = []

    class Cursor:
        def execute(self, text: str) -> None:
            changed.append(schema.stat().st_mtime > 1)
            assert not list(schema.iterdir())

    for _ in range(2):
        os.utime(schema, (1, 1))
        life._write_map(Cursor())
    assert changed == [True] * 4


def test_a_failure_ends_it_and_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "base-16/data").mkdir(parents=True)
    rig = Rig({}, "ours", tmp_path, [])
    kept: list[Verdict] = []

    def fault(life: SitesLife, *_: object) -> bool:
        life._verdict.wrong.append("it is wrong")
        return True

    monkeypatch.setattr(SitesLife, "_prepare", lambda _: None)
    monkeypatch.setattr(SitesLife, "_fault", fault)
    monkeypatch.setattr("torture.sites.case_of", lambda *_, **__: {})
    monkeypatch.setattr(Rig, "keep", lambda _, name, verdict, *__: kept.append(verdict))
    rig.binaries["ours"] = None  # type: ignore[assignment]
    assert not SitesLife(rig, 1).run(0)
    assert (rig.counts.wrong, kept[0].wrong) == (1, ["it is wrong"])
