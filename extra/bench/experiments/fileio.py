# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Random reads of a volume at several sizes and depths, by fio."""

from __future__ import annotations

from bench import fio
from bench.context import Context
from bench.profiles import FIO_FILE
from bench.rounds import Case, rounds
from redstart_cli.tools import ToolError

SIZES = (4096, 16384, 32768)
DEPTHS = (1, 32)
SECONDS = 5.0


def run(context: Context, seconds: float = SECONDS) -> None:
    """Runs the experiment and adds its runs to the document."""
    file = context.volume.directory / FIO_FILE
    fio.make_file(file)
    cases = [Case((size, depth), f"{size // 1024} KiB", f"depth {depth}", {}) for depth in DEPTHS for size in SIZES]
    for (size, depth), result in rounds(context, "fileio", cases, lambda run: f"{run.metrics['iops']:,.0f} reads/s"):
        result.command = ["fio", "--rw=randread", f"--bs={size}", f"--iodepth={depth}"]
        # No server has a part in it, nor a binary log.
        result.parameters = {"block_bytes": size, "depth": depth, "seconds": seconds}
        try:
            found = fio.random_read(file, size, depth, seconds, context.volume.procs)
            result.metrics = {
                "iops": found.iops,
                "mib_per_sec": found.bytes_per_sec / 2**20,
                "latency_mean_usec": found.latency_mean_usec,
                "latency_p99_usec": found.latency_p99_usec,
            }
        except ToolError as error:
            result.problems.append(str(error))
