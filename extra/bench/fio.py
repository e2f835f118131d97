# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Calls fio and reads its answer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from redstart_cli import tools
from redstart_cli.tools import ToolError

FILE_BYTES = 1 << 30


@dataclass(frozen=True)
class FioResult:
    """Random reads of one size at one depth. Latency is fio's completion latency."""

    block_bytes: int
    depth: int
    iops: float
    bytes_per_sec: float
    latency_mean_usec: float
    latency_p99_usec: float

    def as_dict(self) -> dict[str, float]:
        """The fields, rounded, for the JSON."""
        return {name: round(value, 1) for name, value in asdict(self).items()}


def parse(text: str, block_bytes: int, depth: int) -> FioResult:
    """Reads fio's JSON of a job of reads; ToolError if there is none or it failed."""
    start = text.find("{")
    try:
        job = json.loads(text[start:])["jobs"][0]
        read = job["read"]
        if job.get("error"):
            raise ToolError(f"fio ended with error {job['error']}")
        latency = read["clat_ns"]
        return FioResult(
            block_bytes,
            depth,
            float(read["iops"]),
            float(read["bw_bytes"]),
            latency["mean"] / 1000,
            latency.get("percentile", {}).get("99.000000", 0.0) / 1000,
        )
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise ToolError(f"fio's answer cannot be read: {error}") from error


def make_file(path: Path) -> None:
    """Writes the file that is read, 1 GiB, unless it is there already."""
    if path.exists() and path.stat().st_size == FILE_BYTES:
        return
    tools.need("fio")
    tools.need_space(path.parent, 2 * FILE_BYTES, "the file fio reads")
    making = path.with_suffix(".making")
    words = ["fio", "--name=fill", f"--filename={making}", "--rw=write", "--bs=1M"]
    tools.run([*words, f"--size={FILE_BYTES}", "--direct=1", "--end_fsync=1"])
    making.rename(path)


def random_read(
    path: Path, block_bytes: int, depth: int, seconds: float, procs: Sequence[Path] = ()
) -> FioResult:
    """Random O_DIRECT reads of a file for some seconds, in a cgroup if one is given."""
    return _read(path, block_bytes, depth, seconds, procs, ["--rw=randread", "--norandommap", "--randrepeat=0"])


def read_in_batches(path: Path, block_bytes: int, depth: int, seconds: float, procs: Sequence[Path] = ()) -> FioResult:
    """The same of blocks side by side, `depth` of them handed to the kernel in one call."""
    batch = [f"--iodepth_batch_submit={depth}", f"--iodepth_batch_complete_min={depth}", f"--iodepth_batch_complete_max={depth}"]
    return _read(path, block_bytes, depth, seconds, procs, ["--rw=read", *batch])


def _read(path: Path, block_bytes: int, depth: int, seconds: float, procs: Sequence[Path], how: Sequence[str]) -> FioResult:
    tools.need("fio")
    words = [
        "fio",
        "--name=read",
        f"--filename={path}",
        *how,
        "--direct=1",
        "--ioengine=libaio",
        f"--bs={block_bytes}",
        f"--iodepth={depth}",
        f"--runtime={seconds:g}s",
        "--time_based",
        "--output-format=json",
    ]
    return parse(tools.run(words, procs=procs), block_bytes, depth)
