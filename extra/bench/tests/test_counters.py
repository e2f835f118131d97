# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Disk and process counters, throttle files, fio and sysbench output, statistics."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from bench import fio, image, profiles, sysbench, throttle
from bench.diskstats import (
    Counters,
    Sampler,
    mount_of,
    parse_process_io,
    parse_stat,
)
from bench.experiments import ddl
from bench.stats import Summary, ratio, summarize
from bench.tests.helpers import SAMPLES
from redstart_cli.tools import ToolError, Unavailable

STAT = "  259840    21095 14456898    30571    19351   187455 10258104    32126        0    20700    64045        0        0\n"
MOUNTS = [SimpleNamespace(mountpoint=point, fstype=kind, device=device) for point, kind, device in (
    ("/", "ext4", "/dev/vda"),
    ("/sys/fs/cgroup", "tmpfs", "tmpfs"),
    ("/bench/volumes/fs", "ext4", "/dev/loop0"),
    ("/with space", "btrfs", "/dev/vdb"),
    ("/with space", "xfs", "/dev/vdc"),
)]  # fmt: skip


def test_statistics() -> None:
    assert summarize([3.0, 1.0, 2.0]) == Summary(2.0, 1.0, 3.0, 3)
    assert summarize([4.0, 1.0]) == Summary(2.5, 1.0, 4.0, 2)
    assert summarize([]) is None
    assert ratio(2.0, 8.0) == 4.0
    assert ratio(0.0, 8.0) is None
    assert ratio(None, 8.0) is None
    assert ratio(2.0, None) is None


def test_device_counters() -> None:
    assert parse_stat(STAT) == Counters(259840, 14456898, 19351, 10258104)
    with pytest.raises(ValueError, match="statistics"):
        parse_stat("1 2 3")
    assert Counters(5, 40, 2, 16, 4096, 512) - Counters(1, 8, 1, 8, 0, 512) == Counters(
        4, 32, 1, 8, 4096, 0
    )


def test_process_io() -> None:
    text = "rchar: 10\nwchar: 0\nread_bytes: 4096\nwrite_bytes: 512\ncancelled_write_bytes: 0\n"
    assert parse_process_io(text) == (4096, 512)


def test_the_innermost_mount_holds_a_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "disk_partitions", lambda all: MOUNTS if all else [])
    assert mount_of(Path("/bench/volumes/fs/data")) == ("/bench/volumes/fs", "ext4", "/dev/loop0")
    assert mount_of(Path("/bench/volumes/fsx")) == ("/", "ext4", "/dev/vda")
    # Of two on one point the last.
    assert mount_of(Path("/with space/x")) == ("/with space", "xfs", "/dev/vdc")


def test_samples_are_attributed_by_time() -> None:
    sampler = Sampler(None, os.getpid())
    sampler._times = [10.0, 10.1, 10.2]
    sampler._counters = [Counters(reads=1), Counters(reads=5), Counters(reads=6)]
    assert sampler.between(10.05, 10.15) == Counters(reads=1)
    assert sampler.between(9.0, 11.0) == Counters(reads=5)
    assert sampler.between(10.1, 10.1) == Counters()


def test_bounds_are_those_of_the_samples_around_and_within() -> None:
    sampler = Sampler(None, os.getpid())
    sampler._begins = [10.0, 10.1, 10.2, 10.3]
    sampler._times = [10.05, 10.15, 10.25, 10.35]
    sampler._counters = [Counters(reads=reads) for reads in (1, 5, 6, 9)]
    assert sampler.most(10.15, 10.2) == Counters(reads=1)
    assert sampler.most(10.14, 10.21) == Counters(reads=8)
    assert sampler.most(9.0, 11.0) == Counters(reads=8)
    assert sampler.least(10.0, 10.35) == Counters(reads=8)
    assert sampler.least(10.1, 10.25) == Counters(reads=1)
    assert sampler.least(10.11, 10.3) == Counters()
    assert sampler.least(9.0, 10.0) == sampler.least(11.0, 12.0) == Counters()


def test_sampler_counts_this_process() -> None:
    sampler = Sampler(None, os.getpid(), period_sec=0.001)
    sampler.start()
    sampler.stop()
    assert len(sampler._times) >= 2


def test_throttle_lines() -> None:
    limits = throttle.Limits(3000, 131072000)
    assert throttle.v1_lines("254:0", limits) == {
        "blkio.throttle.read_iops_device": "254:0 3000",
        "blkio.throttle.read_bps_device": "254:0 131072000",
        "blkio.throttle.write_iops_device": "254:0 0",
        "blkio.throttle.write_bps_device": "254:0 0",
    }
    both = throttle.Limits(3000, 131072000, 200, 1000)
    assert throttle.v1_lines("254:0", both)["blkio.throttle.write_iops_device"] == "254:0 200"
    assert throttle.v1_lines("254:0", both)["blkio.throttle.write_bps_device"] == "254:0 1000"
    assert throttle.v2_line("8:0", both) == "8:0 rbps=131072000 riops=3000 wbps=1000 wiops=200"
    assert throttle.v1_lines("254:0", None)["blkio.throttle.read_iops_device"] == "254:0 0"
    assert throttle.v2_line("8:0", limits) == "8:0 rbps=131072000 riops=3000 wbps=max wiops=max"
    assert throttle.v2_line("8:0", None) == "8:0 rbps=max riops=max wbps=max wiops=max"


REAL_RMDIR = os.rmdir


def _forget(path: object) -> None:
    """os.rmdir of a cgroup, whose files vanish with it."""
    folder = Path(str(path))
    for file in folder.iterdir():
        file.unlink()
    REAL_RMDIR(folder)


@pytest.mark.parametrize("version", [1, 2])
def test_groups_are_limited_and_removed(
    version: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cgroup.subtree_control").write_text("cpu\n")
    written: list[str] = []
    real = Path.write_text

    def spy(path: Path, text: str, **more: str) -> int:
        written.append(f"{path.name}={text.strip()}")
        return real(path, text, **more)

    monkeypatch.setattr(Path, "write_text", spy)
    group = throttle.Controller("io", version, tmp_path).make("1-test")
    group.limit("254:0", throttle.Limits(3000, 1000))
    assert group.procs == tmp_path / "redstart-bench-1-test" / "cgroup.procs"
    monkeypatch.setattr(os, "rmdir", _forget)
    group.remove()
    assert not group.path.exists()
    if version == 1:
        assert written[-1] == "blkio.throttle.write_bps_device=254:0 0"
    else:
        assert written[0] == "cgroup.subtree_control=+io"
        assert written[-1] == "io.max=254:0 rbps=max riops=max wbps=max wiops=max"


def test_a_refused_limit_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    group = throttle.Controller("io", 1, tmp_path).make("1-test")

    def refuse(path: Path, text: str, **more: str) -> int:
        raise OSError(errno.ENODEV, "No such device")

    monkeypatch.setattr(Path, "write_text", refuse)
    with pytest.raises(ToolError, match="No such device"):
        group.limit("9:9", throttle.Limits(1, 1))


def test_groups_of_dead_benches_are_swept(tmp_path: Path) -> None:
    dead, living = "redstart-bench-99999999", f"redstart-bench-{os.getpid()}"
    (tmp_path / dead).mkdir()
    (tmp_path / living).mkdir()
    assert throttle.Controller("io", 1, tmp_path).sweep() == [dead]
    assert (tmp_path / living).exists()


def test_finding_the_controller() -> None:
    v1 = "cgroup /sys/fs/cgroup/blkio cgroup rw,relatime,blkio 0 0\n"
    v2 = "cgroup2 /sys/fs/cgroup cgroup2 rw,relatime 0 0\n"
    assert throttle.find_controller("io", v2 + v1, "hugetlb") == throttle.Controller(
        "io", 1, Path("/sys/fs/cgroup/blkio")
    )
    assert throttle.find_controller("io", v2, "cpu io memory").version == 2
    assert throttle.find_controller("memory", v1 + v2, "cpu io memory").version == 2
    with pytest.raises(Unavailable):
        throttle.find_controller("io", v2, "cpu memory")
    with pytest.raises(Unavailable, match="memory"):
        throttle.find_controller("memory", v1, "")


@pytest.mark.parametrize("versions", [(1, 1), (2, 2), (1, 2)])
def test_both_limits_hold_for_the_same_processes(
    versions: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounts = {what: tmp_path / (what if version == 1 else "unified")
              for what, version in zip(("io", "memory"), versions, strict=True)}  # fmt: skip
    for mount in mounts.values():
        mount.mkdir(exist_ok=True)
        (mount / "cgroup.subtree_control").write_text("")
    monkeypatch.setattr(
        throttle, "system_controller",
        lambda what: throttle.Controller(what, versions[what == "memory"], mounts[what]),
    )  # fmt: skip
    monkeypatch.setattr(os, "rmdir", _forget)
    with throttle.limited("254:0", throttle.Limits(3000, 1000), 1 << 20) as held:
        assert len(held.procs) == (1 if versions == (2, 2) else 2)
        assert held.versions == dict(zip(("io", "memory"), versions, strict=True))
        texts = {file.name: file.read_text() for path in held.procs for file in path.parent.iterdir()}
        assert ("memory.max" if versions[1] == 2 else "memory.limit_in_bytes") in texts
        assert ("io.max" if versions[0] == 2 else "blkio.throttle.read_bps_device") in texts
        assert texts.get("memory.max", texts.get("memory.limit_in_bytes")) == f"{1 << 20}\n"
        if versions[1] == 2:
            assert "memory" in (mounts["memory"] / "cgroup.subtree_control").read_text()
    assert not any(path.parent.exists() for path in held.procs)
    with throttle.limited("", None, None) as held:
        assert held.procs == ()


def _fio(size: int, iops: float, latency_usec: float = 100.0) -> fio.FioResult:
    return fio.FioResult(size, 32, iops, iops * size, latency_usec, latency_usec)


def test_fio_output() -> None:
    text = (SAMPLES / "fio.json").read_text()
    found = fio.parse("note: a warning first\n" + text, 16384, 32)
    job = json.loads(text)["jobs"][0]["read"]
    assert found.iops == pytest.approx(job["iops"])
    assert found.latency_mean_usec == pytest.approx(job["clat_ns"]["mean"] / 1000)
    assert found.latency_p99_usec == pytest.approx(583008.256)
    for bad in ("", "{}", '{"jobs": []}', '{"jobs": [{"error": 5, "read": {}}]}'):
        with pytest.raises(ToolError):
            fio.parse(bad, 16384, 32)


def test_whether_limits_hold() -> None:
    limits = throttle.Limits(3000, 125 << 20)
    good = _fio(1 << 20, 125)
    assert profiles.limit_error(limits, _fio(16384, 2996), good) is None
    assert "slower" in (profiles.limit_error(limits, _fio(16384, 700), good) or "")
    assert "not limited" in (profiles.limit_error(limits, _fio(16384, 40000), good) or "")
    assert "1 MiB" in (profiles.limit_error(limits, _fio(16384, 3000), _fio(1 << 20, 900)) or "")
    narrow = throttle.Limits(16000, 100 << 20)
    assert profiles.limit_error(narrow, _fio(16384, 6400), _fio(1 << 20, 100)) is None


def test_whether_merged_requests_are_counted() -> None:
    limits = throttle.Limits(3000, 125 << 20)
    assert profiles.merge_error(limits, _fio(4096, 30000)) is None
    assert "before they are merged" in (profiles.merge_error(limits, _fio(4096, 3000)) or "")
    assert [name for name, profile in profiles.PROFILES.items() if profile.merged] == ["gp3-merged", "gp3-merged-writes"]


def test_whether_a_delay_holds() -> None:
    one, many = _fio(16384, 714, 1383), _fio(16384, 5053)
    assert profiles.delay_error(1000, one, many) is None
    assert profiles.delay_error(1000, _fio(16384, 7589, 93), many) is not None
    assert profiles.delay_error(1000, one, _fio(16384, 800)) is not None
    assert image.delay_text(1000) == "1ms"
    assert image.delay_text(500) == "500us"


def test_sysbench_output() -> None:
    found = sysbench.parse_report((SAMPLES / "sysbench.txt").read_text())
    assert found == {
        "transactions_per_sec": 705.96,
        "queries_per_sec": 11295.35,
        "latency_mean_ms": 5.66,
        "latency_p95_ms": 16.71,
        "errors": 0.0,
    }
    with pytest.raises(ToolError, match="transactions_per_sec"):
        sysbench.parse_report("FATAL: unable to connect")


def test_transactions_of_sysbench() -> None:
    assert sysbench.parse_transactions("    transactions:                        7062   (705.96 per sec.)") == 7062
    for text in ("", "    transactions:                        0      (0.00 per sec.)"):
        with pytest.raises(ToolError, match="no transactions"):
            sysbench.parse_transactions(text)


def test_key_data() -> None:
    assert ddl.key_data_bytes("rebuild", 600_000, 5) == 600_000 * 5 * 68
    assert ddl.key_data_bytes("rebuild", 10, 16) == 10 * 16 * 68
    assert ddl.key_data_bytes("add-index", 10, 5) == 10 * 132
    assert ddl.key_data_bytes("add-integer", 10, 5) == 10 * 8
    assert ddl.key_data_bytes("add-text", 10, 5) == 10 * 68
    assert ddl.key_data_bytes("add-descending", 10, 5) == 10 * 68
    assert ddl.key_data_bytes("add-prefix", 10, 5) == 10 * 8
    assert ddl.key_data_bytes("add-composite", 10, 5) == 10 * 72
    assert ddl.key_data_bytes("add-ordered", 10, 5) == 10 * 8
    assert set(ddl.KEY_BYTES_OF) == set(ddl.OPERATIONS) - {"rebuild"}
