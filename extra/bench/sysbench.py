# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""sysbench: its tables, its command line, and what it reports."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from bench import tools
from bench.datadir import FullTables
from bench.errors import BenchError
from bench.server import Server

_INTERVAL = re.compile(r"^\[ (\d+)s \] .*?tps: ([\d.]+)", re.MULTILINE)


@dataclass(frozen=True)
class SysbenchTables(FullTables):
    """Recipe for sysbench's own tables of so many rows each; whoever derives from it says how much space they take."""

    rows: int

    prefix: ClassVar[str]
    tables: ClassVar[int]

    @property
    def key(self) -> str:
        """Name of the folder."""
        return f"{self.prefix}-{self.tables}x{self.rows}r"

    @property
    def what(self) -> str:
        """Size in words."""
        return f"{self.tables} sysbench tables of {self.rows:,} rows"

    @property
    def steps(self) -> int:
        """One for all."""
        return 1

    def fill(self, server: Server, progress: Callable[[int], None]) -> None:
        """Lets sysbench make its tables."""
        server.query("CREATE DATABASE sbtest")
        tools.run([*command(server, "oltp_read_only", self.tables, self.rows, self.tables), "prepare"])
        progress(1)


def command(server: Server, script: str, tables: int, rows: int, threads: int, *more: str) -> list[str]:
    """The words that run a script on a server with so many tables of so many rows each."""
    return [
        "sysbench",
        script,
        "--db-driver=mysql",
        f"--mysql-socket={server.socket}",
        "--mysql-user=root",
        "--mysql-db=sbtest",
        f"--tables={tables}",
        f"--table-size={rows}",
        f"--threads={threads}",
        *more,
    ]


def parse_report(text: str) -> dict[str, float]:
    """Transactions and queries a second and latencies (ms) from the report at the end.

    Raises BenchError if the report is not complete.
    """
    patterns = {
        "transactions_per_sec": r"transactions:\s+\d+\s+\(([\d.]+) per sec",
        "queries_per_sec": r"queries:\s+\d+\s+\(([\d.]+) per sec",
        "latency_mean_ms": r"avg:\s+([\d.]+)",
        "latency_p95_ms": r"95th percentile:\s+([\d.]+)",
        "errors": r"ignored errors:\s+(\d+)",
    }
    found = {}
    for name, pattern in patterns.items():
        match = re.search(pattern, text)
        if match is None:
            raise BenchError(f"sysbench's report lacks {name}: {text.strip()[-300:]}")
        found[name] = float(match[1])
    return found


def parse_seconds(text: str) -> dict[int, float]:
    """Transactions a second in each second since the begin, with --report-interval=1."""
    return {int(second): float(rate) for second, rate in _INTERVAL.findall(text)}
