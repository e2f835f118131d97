# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Throughput under load, by sysbench: shows that the changes cost nothing once started."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench import starts, sysbench
from bench.context import Context
from bench.datadir import DataDir
from bench.results import Run
from bench.rounds import Case, rounds
from bench.server import Server
from bench.subjects import OLTP_SUBJECTS, Subject, by_flavour
from redstart_cli import tools

TABLES = 4
ORDERS = str(Path(__file__).with_name("orders.lua"))
MODES = {
    "read-only": "oltp_read_only",
    "point-select": "oltp_point_select",
    "read-write": "oltp_read_write",
    "write-only": "oltp_write_only",
    "orders": ORDERS,
    "create-drop": str(Path(__file__).with_name("create_drop.lua")),
}
# Of all transactions of `orders`, in hundredths.
SHARES = {"order": 45, "payment": 43, "status": 4, "delivery": 4, "stock": 4}
# A share may differ from that by a tenth of it, and by chance: so many times the square root of what is expected.
FAR, CHANCE = 0.1, 4.0


@dataclass(frozen=True)
class Oltp(sysbench.SysbenchTables):
    """Recipe for the tables."""

    prefix = "oltp-orders"
    tables = TABLES

    def fill(self, server: Server, progress: Callable[[int], None]) -> None:
        """The tables of sysbench, and those of the wholesaler."""
        super().fill(server, progress)
        tools.run([*sysbench.command(server, ORDERS, TABLES, self.rows, 1), "prepare"])

    @property
    def peak_bytes(self) -> int:
        """About 230 bytes a row, as many for the stock of a warehouse, a copy, and the logs."""
        return (2 << 30) + TABLES * self.rows * 1000


@dataclass(frozen=True)
class Options:
    """What the user asked for."""

    rows: int = 100_000
    threads: tuple[int, ...] = (4,)
    seconds: int = 30
    loads: tuple[str, ...] = tuple(MODES)
    subjects: tuple[str, ...] = ()


def run(context: Context, options: Options) -> None:
    """Runs the experiment and adds its runs to the document."""
    tools.need("sysbench")
    recipe = Oltp(options.rows)
    subjects = context.find_subjects(options.subjects or OLTP_SUBJECTS)
    datadirs = by_flavour(subjects, lambda subject: context.make_datadir(recipe, subject.binary))
    cases = [
        Case(subject, subject.name, mode, {"rows": options.rows, "threads": threads, "seconds": options.seconds})
        for mode in options.loads
        for threads in options.threads
        for subject in subjects
    ]
    for subject, result in rounds(context, "oltp", cases, _in_words):
        _measure(context, datadirs[subject.binary.flavour], subject, result)


def _in_words(run: Run) -> str:
    return f"{run.metrics['transactions_per_sec']:,.0f} transactions/s"


def _measure(context: Context, datadir: DataDir, subject: Subject, result: Run) -> None:
    parameters = result.parameters
    datadir.restore("clean")
    with starts.serving(context, datadir, subject, result, ["--innodb-buffer-pool-size=1G"]) as server:
        server.startup(context.timeout_sec)
        words = sysbench.command(
            server, MODES[result.mode], TABLES, parameters["rows"], parameters["threads"], f"--time={parameters['seconds']}"
        )
        before = server.cpu_sec()
        text = tools.run([*words, "run"])
        used = server.cpu_sec() - before
        result.metrics = sysbench.parse_report(text)
        # Other programs on the machine change it less than the throughput.
        result.metrics["cpu_usec_a_transaction"] = used * 1e6 / sysbench.parse_transactions(text)
        if result.mode == "orders":
            _add_committed(result, text)
        starts.add_server(result, server)


def _add_committed(result: Run, text: str) -> None:
    """How often each kind of transaction ran; it is a problem of the record if that is far from what was asked."""
    committed = sysbench.parse_committed(text)
    result.metrics |= {f"{name}_transactions": float(committed.get(name, 0)) for name in SHARES}
    total, said = sum(committed.values()), sysbench.parse_transactions(text)
    # A thread may have been about to count its last one.
    if abs(total - said) > result.parameters["threads"]:
        result.problems.append(f"the kinds of transactions come to {total:,}, sysbench has counted {said:,}")
    for name in sorted(SHARES.keys() | committed.keys()):
        number, share = committed.get(name, 0), SHARES.get(name, 0)
        expected = total * share / 100
        if abs(number - expected) > FAR * expected + CHANCE * math.sqrt(expected):
            result.problems.append(f"{number:,} of {total:,} transactions were of kind {name}, {share} % were asked for")
