# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""sysbench: its tables, its command line, and what it reports."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import ClassVar, Self

from bench.datadir import FullTables
from bench.server import Server
from redstart_cli import tools
from redstart_cli.process import tied
from redstart_cli.tools import ToolError

_INTERVAL = re.compile(r"^\[ (\d+)s \] .*?tps: ([\d.]+)", re.MULTILINE)
_COMMITTED = re.compile(r"^committed: (.*)$", re.MULTILINE)
_OF_KIND = re.compile(r"(\d+) (\w+)")


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


class Running:
    """A script that runs until the context is left.

    `rates` are the ends of its seconds, since the epoch, with the transactions in each.
    """

    def __init__(self, words: Sequence[str]) -> None:
        tools.need("sysbench", "setpriv")
        self.rates: list[tuple[float, float]] = []
        self._said: list[str] = []
        self._process = subprocess.Popen(
            tied([*words, "--report-interval=1", "run"], "KILL"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self._process.stdout or ():
            match = _INTERVAL.match(line)
            if match is not None:
                self.rates.append((time.time(), float(match[2])))
            elif line.strip():
                self._said.append(line.strip())

    def check(self) -> None:
        """ToolError if it has ended by itself."""
        if self._process.poll() is not None:
            self._reader.join()
            raise ToolError(f"sysbench ended with {self._process.returncode}: {' | '.join(self._said[-5:])}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._reader.join()


def parse_report(text: str) -> dict[str, float]:
    """Transactions and queries a second and latencies (ms) from the report at the end.

    Raises ToolError if the report is not complete.
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
            raise ToolError(f"sysbench's report lacks {name}: {text.strip()[-300:]}")
        found[name] = float(match[1])
    return found


def parse_transactions(text: str) -> int:
    """How many transactions the report at the end has; ToolError if none."""
    match = re.search(r"transactions:\s+(\d+)", text)
    if match is None or match[1] == "0":
        raise ToolError(f"sysbench's report has no transactions: {text.strip()[-300:]}")
    return int(match[1])


def parse_committed(text: str) -> dict[str, int]:
    """How often each kind of transaction was committed, from the lines of all threads; empty if the script says nothing of it."""
    committed: Counter[str] = Counter()
    for line in _COMMITTED.findall(text):
        committed.update({name: int(number) for number, name in _OF_KIND.findall(line)})
    return dict(committed)


def parse_seconds(text: str) -> dict[int, float]:
    """Transactions a second in each second since the begin, with --report-interval=1."""
    return {int(second): float(rate) for second, rate in _INTERVAL.findall(text)}
