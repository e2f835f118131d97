# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""How long it takes until the buffer pool is as it was before a shutdown.

A server has read a table into its buffer pool and notes all of its pages when it stops (`innodb_buffer_pool_dump_pct=100`). The
next one loads them at its start, in the background, while nothing else is asked of it.
"""

from __future__ import annotations

from dataclasses import dataclass

from bench import logs, starts
from bench.context import Context
from bench.datadir import DataDir
from bench.diskstats import SECTOR_BYTES
from bench.experiments.undo import Undo
from bench.results import Run
from bench.rounds import Case, rounds
from bench.server import Server
from bench.subjects import POOL_SUBJECTS, Subject
from redstart_cli import tools

STATE = "warm"
LEAST_LOADED = 0.9
"""Of the pages that were noted. Some are read by the start itself."""


@dataclass(frozen=True)
class Options:
    """What to measure."""

    rows: int
    pool_mib: int
    subjects: tuple[str, ...]


def _warm(server: Server) -> None:
    """Reads the whole table."""
    server.query("SELECT SUM(LENGTH(pad)) FROM bench.t")


def run(context: Context, options: Options) -> None:
    """Runs the experiment and adds its runs to the document."""
    tools.need_root("a cold start (dropping the kernel's caches)")
    recipe = Undo(options.rows)
    subjects = context.find_subjects(options.subjects or POOL_SUBJECTS)
    pool = f"--innodb-buffer-pool-size={options.pool_mib}M"
    maker = subjects[0]
    datadir = context.make_datadir(recipe, maker.binary)
    state = f"{STATE}-{options.pool_mib}"
    making = (pool, "--innodb-buffer-pool-dump-pct=100")
    context.make_state(datadir, state, maker, _warm, "the table is in the buffer pool at a shutdown", making)
    parameters = {"rows": options.rows, "pool_mib": options.pool_mib}
    cases = [Case(subject, subject.name, STATE, parameters) for subject in subjects]
    for subject, result in rounds(context, "pool", cases, _in_words):
        _measure(context, datadir, subject, state, result, pool)


def _measure(context: Context, datadir: DataDir, subject: Subject, state: str, result: Run, pool: str) -> None:
    noted = 0

    def count() -> None:
        nonlocal noted
        with (datadir.work / "ib_buffer_pool").open(encoding="ascii") as dump:
            noted = sum(1 for _ in dump)

    def extra(run: Run, server: Server, _: logs.Start) -> None:
        starts.add_background(context, run, server, "load", logs.parse_pool_load)
        if run.problems:
            return
        run.metrics["pages_noted"] = noted
        run.metrics["pages_loaded"] = int(server.query("SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_pages_data'")[0][1])
        if seconds := run.metrics["load_s"]:
            run.metrics["load_mib_per_sec"] = run.metrics["load_sectors_read"] * SECTOR_BYTES / seconds / 2**20
        if run.metrics["pages_loaded"] < LEAST_LOADED * noted or not noted:
            run.problems.append(f"{run.metrics['pages_loaded']:,} of {noted:,} pages are in the buffer pool")

    options = ("--innodb-buffer-pool-load-at-startup=ON", pool)
    starts.measure(context, datadir, state, subject, result, True, options, extra, before=count)


def _in_words(run: Run) -> str:
    metrics = run.metrics
    return f"{metrics['pages_loaded']:,.0f} pages in {metrics['load_s']:.2f} s, {metrics['load_reads']:,.0f} reads"
