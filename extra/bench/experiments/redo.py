# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""How long a start takes that has redo to apply.

The crash state: sysbench writes to a server that puts off its checkpoints, until it is killed. MySQL's servers all start on
the state that stock has made, if it is there, or this build as it comes; MariaDB on its own, by the same load. A start is killed
when it has been measured, or after some time of the same load, which shows how cold it is.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from bench import logs, starts, sysbench
from bench.context import Context
from bench.datadir import DataDir
from bench.experiments.binlog import let_note_count
from bench.results import Run
from bench.rounds import Case, rounds
from bench.server import Server
from bench.subjects import FOREIGN_SUBJECTS, REDO_SUBJECTS, Subject, by_flavour, own_subject
from redstart_cli import tools
from redstart_cli.tools import ToolError, Unavailable

TABLES = 8
THREADS = 8
SCRIPT = "oltp_write_only"
MIB = 1 << 20
CAPACITY_MIB = 4096
MOST_MIB = 3000
"""Redo after which a log of that capacity is not full."""
LOAD_TIMEOUT_SEC = 3600.0
POLL_SEC = 0.05
FIRST_SEC = 10
"""What counts as the begin of the load after the start."""
LEAST_SHARE = 0.8
"""Of the redo that was asked for must be there: a checkpoint may move before the kill."""
OPTIONS = {
    "mysql": (f"--innodb-redo-log-capacity={CAPACITY_MIB}M",),
    "mariadb": (f"--innodb-log-file-size={CAPACITY_MIB}M",),
}
CRASH_BY = ("stock", "defaults")
"""Which of MySQL's servers may be the one that is killed under load. This build notes how much of the binary log is synced."""
MAKER_OPTIONS = (
    # Now and then, or this build has no note of what is synced of the binary log.
    "--sync-binlog=100",
    # What was committed is in the kernel when the server is killed.
    "--innodb-flush-log-at-trx-commit=2",
    "--innodb-max-dirty-pages-pct=99",
    "--innodb-max-dirty-pages-pct-lwm=0",
    "--innodb-adaptive-flushing=OFF",
    "--loose-innodb-idle-flush-pct=0",
    "--innodb-io-capacity=100",
    "--innodb-io-capacity-max=200",
)


@dataclass(frozen=True)
class Options:
    """What to measure: after a load of so many seconds, or after so many MiB of redo."""

    rows: int
    seconds: int
    redo_mib: int | None
    pool_mib: int
    after_sec: int
    subjects: tuple[str, ...]
    # In the start, if it is not the same as under load.
    start_pool_mib: int | None = None
    # Whether all starts must have the same rows.
    check_rows: bool = False
    # One of CRASH_BY.
    crash_by: str = "stock"

    @property
    def state(self) -> str:
        """Name of the crash state."""
        size = f"{self.redo_mib}m" if self.redo_mib is not None else f"{self.seconds}s"
        return f"crash-{size}-pool-{self.pool_mib}m"


@dataclass(frozen=True)
class Redo(sysbench.SysbenchTables):
    """Recipe for the tables; `redo_mib` is the most that a crash will leave."""

    redo_mib: int

    prefix = "redo"
    tables = TABLES

    @property
    def peak_bytes(self) -> int:
        """About 250 bytes a row, in work and two states; redo, a binary log and undo in work and one state; the rest."""
        return (2 * 2 * self.redo_mib + 1024) * MIB + TABLES * self.rows * 750

    def crash(self, options: Options) -> Callable[[Server], None]:
        """What a server does before it ends: it is killed under load."""

        def act(server: Server) -> None:
            words = sysbench.command(server, SCRIPT, TABLES, self.rows, THREADS, "--time=0", "--events=0")
            with ThreadPoolExecutor(1) as pool:
                load = pool.submit(tools.run, [*words, "run"])
                try:
                    _wait(server, load, options)
                finally:
                    server.kill()

        return act


def _wait(server: Server, load: Future[str], options: Options) -> None:
    """Until enough is written."""

    def is_enough(elapsed: float) -> bool:
        if options.redo_mib is None:
            return elapsed >= options.seconds
        return redo_bytes(server) >= options.redo_mib * MIB

    wait_for(load, is_enough, f"{options.redo_mib} MiB of redo")


def wait_for(load: Future[str], is_enough: Callable[[float], bool], what: str) -> None:
    """Until it is enough, after so many seconds; ToolError if the load ends by itself, or takes too long."""
    begin = time.monotonic()
    while True:
        if load.done():
            load.result()
            raise ToolError("sysbench ended before the server was killed")
        elapsed = time.monotonic() - begin
        if is_enough(elapsed):
            return
        if elapsed > LOAD_TIMEOUT_SEC:
            raise ToolError(f"{what} did not come together in {LOAD_TIMEOUT_SEC:,.0f} s")
        time.sleep(POLL_SEC)


def redo_bytes(server: Server) -> int:
    """Redo behind the checkpoint of a running server."""
    status = {name.lower(): value for name, value in server.query("SHOW GLOBAL STATUS LIKE 'Innodb%'")}
    if server.binary.flavour == "mariadb":
        return int(status["innodb_checkpoint_age"])
    return int(status["innodb_redo_log_current_lsn"]) - int(status["innodb_redo_log_checkpoint_lsn"])


def run(context: Context, options: Options) -> None:
    """Runs the experiment and adds its runs to the document."""
    tools.need("sysbench")
    tools.need_root("a cold start (dropping the kernel's caches)")
    recipe = Redo(options.rows, options.redo_mib or CAPACITY_MIB)
    subjects = context.find_subjects(options.subjects or REDO_SUBJECTS)
    makers = by_flavour(subjects, lambda subject: _maker(context, subject, options))
    datadirs = {flavour: _prepare(context, recipe, maker, options) for flavour, maker in makers.items()}
    parameters: dict[str, Any] = {"rows": options.rows, "pool_mib": options.pool_mib}
    if options.redo_mib is None:
        parameters["seconds"] = options.seconds
    else:
        parameters["redo_mib"] = options.redo_mib
    if options.start_pool_mib is not None:
        parameters["start_pool_mib"] = options.start_pool_mib
    if options.check_rows:
        parameters["check_rows"] = True
    of_mysql = {"crash_by": options.crash_by} if options.crash_by != "stock" else {}
    notes = {flavour: [f"after a crash of {maker.identity}"] for flavour, maker in makers.items()
             if maker.name not in FOREIGN_SUBJECTS}  # fmt: skip
    rows = Rows()
    cases = [
        Case(subject, subject.name, "crash", parameters | (of_mysql if subject.binary.flavour == "mysql" else {}))
        for subject in subjects
    ]
    for subject, result in rounds(context, "redo", cases, _in_words):
        flavour = subject.binary.flavour
        result.notes += notes.get(flavour, [])
        _measure(context, datadirs[flavour], subject, result, options, rows)


def _maker(context: Context, subject: Subject, options: Options) -> Subject:
    """Whose crash a subject that speaks the same format starts after: stock's, if it is there, or that of another."""
    if subject.binary.flavour == "mysql":
        if options.crash_by != "stock":
            try:
                return own_subject(options.crash_by, context.own_binary())
            except Unavailable as error:
                raise ToolError(f"there is no crash by {options.crash_by}: {error}") from error
        try:
            return context.stock_subject()
        except Unavailable as error:
            context.skip("the crash of a stock server", error)
    return subject


def _prepare(context: Context, recipe: Redo, maker: Subject, options: Options) -> DataDir:
    datadir = context.make_datadir(recipe, maker.binary)
    if not datadir.has_state(options.state, maker.identity):
        datadir.drop_other_states("crash-", "")
    more = (*OPTIONS[maker.binary.flavour], *MAKER_OPTIONS, _pool(options.pool_mib))
    what = f"sysbench on {maker.name}, kill -9"
    context.make_state(datadir, options.state, maker, recipe.crash(options), what, more)
    return datadir


def _pool(mib: int) -> str:
    return f"--innodb-buffer-pool-size={mib}M"


class Rows:
    """The rows of the tables after the first start of each kind of server, which later ones must have, too."""

    def __init__(self) -> None:
        self._sums: dict[str, list[tuple[Any, ...]]] = {}

    def check(self, run: Run, server: Server, flavour: str) -> None:
        tables = ", ".join(f"sbtest.sbtest{number}" for number in range(1, TABLES + 1))
        sums = server.query(f"CHECKSUM TABLE {tables}")
        if len(sums) != TABLES or any(value is None for _, value in sums):
            run.problems.append(f"no checksums: {sums}")
        elif flavour not in self._sums:
            self._sums[flavour] = sums
        elif sums != self._sums[flavour]:
            run.problems.append("other rows than after the first start")
        else:
            run.metrics["tables_equal"] = len(sums)


def _measure(
    context: Context, datadir: DataDir, subject: Subject, result: Run, options: Options, rows: Rows
) -> None:
    def extra(run: Run, server: Server, start: logs.Start) -> None:
        found = logs.parse_redo(server.lines)
        if not start.recovered or found is None:
            run.problems.append("no crash recovery")
            return
        run.metrics["redo_bytes"] = found.bytes
        run.metrics["redo_pages"] = found.pages
        if found.batches is not None and found.apply_s is not None:
            run.metrics["redo_s"] = found.end - found.begin
            run.metrics["batches"] = found.batches
            run.metrics["apply_s"] = found.apply_s
            run.metrics["scan_s"] = found.end - found.begin - found.apply_s
        wanted = options.redo_mib or 0
        if found.bytes < wanted * MIB * LEAST_SHARE:
            run.problems.append(f"{found.bytes:,} bytes of redo were found, {wanted} MiB were wanted")
        if options.check_rows:
            rows.check(run, server, subject.binary.flavour)
        if options.after_sec:
            _add_load(run, server, options)

    more = [*OPTIONS[subject.binary.flavour], _pool(options.start_pool_mib or options.pool_mib)]

    def before() -> None:
        if subject.binary.flavour == "mysql":
            let_note_count(datadir.work)

    starts.measure(context, datadir, options.state, subject, result, True, more, extra, before=before)


def _add_load(run: Run, server: Server, options: Options) -> None:
    """Goes on with the load, and adds its transactions a second: all of them, and those of the first seconds."""
    words = sysbench.command(
        server, SCRIPT, TABLES, options.rows, THREADS, f"--time={options.after_sec}", "--report-interval=1"
    )
    text = tools.run([*words, "run"])
    rates = sysbench.parse_seconds(text)
    run.metrics["after_tps"] = sysbench.parse_report(text)["transactions_per_sec"]
    first = [rate for second, rate in rates.items() if second <= FIRST_SEC]
    if not first:
        raise ToolError(f"sysbench reported no second: {text.strip()[-300:]}")
    run.metrics["after_first_tps"] = sum(first) / len(first)
    for second, rate in rates.items():
        run.metrics[f"after_tps_{second:03}"] = rate


def _in_words(run: Run) -> str:
    metrics = run.metrics
    redo = f" in {metrics['redo_s']:.2f} s" if "redo_s" in metrics else ""
    after = f", then {metrics['after_tps']:,.0f} transactions/s" if "after_tps" in metrics else ""
    checked = f", {metrics['tables_equal']:.0f} tables as after the first start" if "tables_equal" in metrics else ""
    return (
        f"ready in {metrics['ready_s']:.2f} s, {metrics['redo_bytes'] / MIB:,.0f} MiB of redo{redo}, "
        f"{metrics['reads']:,.0f} reads{checked}{after}"
    )
