# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""How long users wait when a busy server is killed: many tables, a large binary log, redo, open transactions, DDL.

Before each run the server that is measured is brought to the same point from the same clean data directory, and killed there
(`Outage.crash`). A saved crash of another server would not do: a tablespace map and a note about the binary log are of use only to
the server that has written them.

Then it is started, cold, and from its first answer on two things are asked of it at once: a query of each of so many different
tables, by many connections, and the load that it had before.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pymysql
from pymysql.connections import Connection

from bench import load, logs, starts, sysbench
from bench.context import Context
from bench.datadir import DataDir, Recipe
from bench.experiments import binlog, first_use, redo, startup
from bench.experiments.redo import MIB, SCRIPT, THREADS, Redo
from bench.experiments.undo import FLUSH_TIMEOUT_SEC, WRITE_OUT_OPTIONS, Undo
from bench.results import Run
from bench.rounds import Case, rounds
from bench.server import Server, StartTimes
from bench.subjects import OUTAGE_SUBJECTS, Subject, by_flavour
from bench.tables import NEW_TABLE, SCHEMA_PREFIX, Tables
from redstart_cli import tools
from redstart_cli.console import RedstartError
from redstart_cli.tools import ToolError, wait_until

COUNTED_SHARE = 3
"""The last third of the load before counts: what came before has warmed the server up."""
SHARE = 0.9
"""Of the throughput before, which is to be reached,"""
STEADY_SEC = 5
"""in the mean of so many seconds."""
POLL_SEC = 0.05
WATCH_SEC = 0.0005
SMALL_CALLS = 5000
LOAD_BINLOG_SHARE = 0.85
"""MiB that the load writes to the binary log for each MiB of redo: 0.82 was seen. With too little room the file would be ended."""
LITTLE_REDO_BYTES = 4 * MIB
BYTES_OF_ROW = 20
"""So many for each row in the binary log, and the transaction is being written; a row has over 200 there."""
COMMIT_TIMEOUT_SEC = 600.0
DDL_SEC = 1.0
TORN_BINLOG = "Error in Log_event::read_log_event(): 'Event truncated'"
"""MariaDB reports the end of the binary log as an error; this is how the server was killed."""
KNOWN_TABLES = (
    f"SELECT COUNT(*), SUM(table_name = '{NEW_TABLE}') FROM information_schema.tables "
    f"WHERE table_schema LIKE '{SCHEMA_PREFIX}____'"
)
MOST_REDO_MIB = 1024
MOST_BINLOG_MIB = 900
"""The load still writes to it when it is as large as wanted; a file is ended when it has 1,024 MiB."""


@dataclass(frozen=True)
class Options:
    """What to measure: `before_sec` is how long the load runs before, `after_sec` how long it may take to come back."""

    tables: Tables
    used: int
    rows: int
    pool_mib: int
    redo_mib: int
    binlog_mib: int
    open_rows: int
    before_sec: int
    after_sec: int
    subjects: tuple[str, ...]


@dataclass(frozen=True)
class Outage(Recipe):
    """Recipe for many empty tables, sysbench's, and one whose rows are changed by the transactions that are left open."""

    tables: Tables
    load: Redo
    rows: Undo
    log: binlog.Binlog

    @property
    def parts(self) -> tuple[Recipe, ...]:
        """What it is made of."""
        return self.tables, self.load, self.rows, self.log

    @property
    def key(self) -> str:
        """Name of the folder; the binary log is written before each run."""
        return "-".join(["outage", *(part.key for part in self.parts[:-1])])

    @property
    def what(self) -> str:
        """Sizes in words."""
        return ", ".join(part.what for part in self.parts[:-1])

    @property
    def steps(self) -> int:
        """Those of its parts."""
        return sum(part.steps for part in self.parts)

    @property
    def peak_bytes(self) -> int:
        """The tables, those that are changed twice for the copies; undo, redo and binary log; what waits for the latter."""
        changed = redo.TABLES * self.load.rows * 500 + self.rows.rows * 1100
        return self.tables.peak_bytes + changed + (redo.CAPACITY_MIB + 2 * self.log.mib + 2048) * MIB

    @property
    def final_bytes(self) -> int:
        """The same, but for the many tables."""
        return self.peak_bytes - self.tables.peak_bytes + self.tables.final_bytes

    @property
    def has_empty_pages(self) -> bool:
        """As the many tables."""
        return self.tables.has_empty_pages

    def keeps_copy(self, name: str) -> bool:
        """Of all but the many tables."""
        schemas = {self.tables.table(index)[0] for index in range(self.tables.schemas)}
        return name.partition("/")[0] not in schemas or self.tables.keeps_copy(name)

    def fill(self, server: Server, progress: Callable[[int], None]) -> None:
        """Makes all tables."""
        for part in self.parts:
            part.fill(server, progress)

    def crash(self, server: Server, options: Options, until_ready: Callable[[], None]) -> float:
        """Brings a server to the point where it is killed, and kills it; the transactions a second that it had before.

        1. The load, with the server's own settings, for its throughput; then `until_ready`.
        2. Two transactions change half of the rows of `bench.t` each, and stay open. Small transactions write to the binary log.
        3. All pages are written out, so that only redo of the load will be behind the checkpoint.
        4. The load again, with checkpoints put off, until there is enough redo, and enough in the binary log.
        5. A table is made. A second later one of the two transactions is committed, and the server killed while that
           is being written to the binary log: it is prepared in InnoDB, and the binary log does not know it.
        """
        name = _binlog(server)[0]
        words = sysbench.command(server, SCRIPT, redo.TABLES, options.rows, THREADS)
        before = throughput(tools.run([*words, f"--time={options.before_sec}", "--report-interval=1", "run"]), options.before_sec)
        until_ready()
        server.query("SET GLOBAL sync_binlog = 100")
        server.query("SET GLOBAL innodb_flush_log_at_trx_commit = 2")
        with ThreadPoolExecutor(2) as pool:
            rows = options.open_rows
            # A row is left between the two, or one might wait for a lock of the other.
            work = [pool.submit(_change_rows, server, rows, first) for first in (1, rows + 2)]
            left_open, prepared = [future.result() for future in work]
        self._fill_binlog(server, options)
        set_options(server, WRITE_OUT_OPTIONS)
        wait_until(
            lambda: redo.redo_bytes(server) <= LITTLE_REDO_BYTES, FLUSH_TIMEOUT_SEC, "the dirty pages were not written out"
        )
        set_options(server, redo.MAKER_OPTIONS)

        def is_enough(elapsed: float) -> bool:
            last, size = _binlog(server)
            if last != name:
                raise ToolError(f"the binary log has become too large: {last} has followed {name}")
            return size >= options.binlog_mib * MIB and redo.redo_bytes(server) >= options.redo_mib * MIB

        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(tools.run, [*words, "--time=0", "--events=0", "run"])
            try:
                redo.wait_for(running, is_enough, f"{options.redo_mib:,} MiB of redo")
                schema, _ = options.tables.table(0)
                server.query(f"CREATE TABLE {schema}.{NEW_TABLE} (id INT PRIMARY KEY) ENGINE=InnoDB")
                time.sleep(DDL_SEC)
                if running.done():
                    raise ToolError("sysbench ended before the server was killed")
                kill_in_commit(server, prepared, server.datadir / name, options.open_rows * BYTES_OF_ROW)
            finally:
                server.kill()
                left_open.close()
        return before

    def _fill_binlog(self, server: Server, options: Options) -> None:
        """Small transactions, until the binary log is as large as the load will leave it room for."""
        wanted = options.binlog_mib * MIB - int(options.redo_mib * MIB * LOAD_BINLOG_SHARE)
        connection = server.connect()
        with connection, connection.cursor() as cursor:
            while _binlog(server)[1] < wanted:
                cursor.execute(f"CALL bench.write_small({SMALL_CALLS})")


def throughput(text: str, seconds: int) -> float:
    """Transactions a second in the last third of a load of so many seconds; ToolError if sysbench tells of less than half."""
    wanted = seconds // COUNTED_SHARE
    counted = [rate for second, rate in sysbench.parse_seconds(text).items() if second > seconds - wanted]
    if len(counted) * 2 < wanted:
        raise ToolError(f"sysbench tells of {len(counted)} of the last seconds only: {text.strip()[-300:]}")
    return sum(counted) / len(counted)


def _change_rows(server: Server, rows: int, first: int) -> Connection[Any]:
    """A connection with a transaction that has changed so many rows."""
    last = first + rows - 1
    connection = server.connect()
    with connection.cursor() as cursor:
        cursor.execute("BEGIN")
        changed = cursor.execute(f"UPDATE bench.t SET v = 1, pad = REPEAT('b', 100) WHERE id BETWEEN {first} AND {last}")
    if changed != rows:
        raise ToolError(f"{changed} of {rows} rows were updated; see {server.log}")
    return connection


def _binlog(server: Server) -> tuple[str, int]:
    """Name and size of the binary log that is being written."""
    name, size, *_ = server.query("SHOW BINARY LOGS")[-1]
    return str(name), int(size)


def set_options(server: Server, options: Sequence[str]) -> None:
    """Gives a running server these command line options, as far as it knows them."""
    for option in options:
        name, _, value = option.removeprefix("--").removeprefix("loose-").replace("-", "_").partition("=")
        if server.binary.knows(name):
            server.query(f"SET GLOBAL {name} = {value}")


def kill_in_commit(server: Server, connection: Connection[Any], log: Path, most_bytes: int) -> None:
    """Commits, and kills the server when so many bytes of that are in the binary log. ToolError if that was too late."""

    def commit() -> bool:
        try:
            connection.query("COMMIT")
            return True
        except pymysql.Error:
            return False

    before = log.stat().st_size
    deadline = time.monotonic() + COMMIT_TIMEOUT_SEC
    with ThreadPoolExecutor(1) as pool:
        future: Future[bool] = pool.submit(commit)
        try:
            while log.stat().st_size - before < most_bytes and not future.done():
                if time.monotonic() > deadline:
                    raise ToolError(f"the transaction was not written to {log.name} in {COMMIT_TIMEOUT_SEC:,.0f} s")
                time.sleep(WATCH_SEC)
            is_over = future.done()
        finally:
            server.kill()
        if is_over or future.result():
            raise ToolError("the transaction had ended before the server was killed; it takes more --open-rows")


def run(context: Context, options: Options) -> None:
    """Runs the experiment and adds its runs to the document."""
    tools.need("sysbench")
    tools.need_root("a cold start (dropping the kernel's caches)")
    recipe = Outage(
        options.tables,
        Redo(options.rows, options.redo_mib),
        Undo(2 * options.open_rows + 1),
        binlog.Binlog(options.binlog_mib),
    )
    subjects = context.find_subjects(options.subjects or OUTAGE_SUBJECTS)
    datadirs = by_flavour(subjects, lambda subject: context.make_datadir(recipe, subject.binary))
    parameters = {
        "tables": options.tables.tables,
        "tables_queried": options.used,
        "rows": options.rows,
        "pool_mib": options.pool_mib,
        "redo_mib": options.redo_mib,
        "binlog_mib": options.binlog_mib,
        "open_rows": options.open_rows,
    }
    cases = [Case(subject, subject.name, "crash", parameters) for subject in subjects]
    for subject, result in rounds(context, "outage", cases, _in_words):
        _measure(context, recipe, datadirs[subject.binary.flavour], subject, result, options)


def _measure(
    context: Context, recipe: Outage, datadir: DataDir, subject: Subject, result: Run, options: Options
) -> None:
    more = [*redo.OPTIONS[subject.binary.flavour], f"--innodb-buffer-pool-size={options.pool_mib}M"]

    def before() -> None:
        log = context.layout.logs / f"crash-{datadir.folder.name}-{subject.name}.log"
        server = Server(
            context.layout, subject.binary, datadir.work, [*subject.options, *more], log, context.volume.procs
        )

        def until_ready() -> None:
            if subject.uses_map:
                startup.wait_for_map(datadir.work / startup.MAP_FILE, context.timeout_sec)

        with server:
            server.startup(context.timeout_sec)
            try:
                result.metrics["before_tps"] = recipe.crash(server, options, until_ready)
            except pymysql.Error as error:
                raise ToolError(f"the server could not be brought to its crash: {error}; see {log}") from error

    def at_once(run: Run, server: Server, times: StartTimes) -> None:
        come_back(run, server, times, options, context.timeout_sec)

    def extra(run: Run, server: Server, start: logs.Start) -> None:
        judge(run, server, start, options)
        state = run.status.get("Innodb_tablespace_map_state")
        if subject.uses_map and state != "USED":
            run.notes.append(f"the tablespace map: {state}")

    try:
        starts.measure(context, datadir, "clean", subject, result, True, more, extra, before, at_once)
    except RedstartError as error:
        result.problems.append(str(error))


def come_back(run: Run, server: Server, times: StartTimes, options: Options, timeout_sec: float) -> None:
    """Asks for the tables and goes on with the load; adds when all tables have answered, and when the load was back."""
    wanted = run.metrics["before_tps"] * SHARE
    words = sysbench.command(server, SCRIPT, redo.TABLES, options.rows, THREADS, "--time=0", "--events=0")
    deadline = times.first_query_time + options.after_sec
    with sysbench.Running(words) as running:
        answers = load.ask(server, first_use.statements(options.tables, options.used), timeout_sec)
        run.metrics["tables_answered_s"] = answers.end - times.exec_time
        while (back := reached(running.rates, wanted)) is None and time.time() < deadline:
            running.check()
            time.sleep(POLL_SEC)
        rates = list(running.rates)
    for end, rate in rates:
        run.metrics[f"after_tps_{round(end - times.first_query_time):03}"] = rate
    if back is not None:
        run.metrics["load_back_s"] = back - times.exec_time
    else:
        best = max((rate for _, rate in rates), default=0.0)
        run.notes.append(
            f"{wanted:,.0f} transactions/s, {SHARE:.0%} of those before, were not reached {options.after_sec} s after the "
            f"first query; the best second had {best:,.0f}"
        )


def reached(rates: Sequence[tuple[float, float]], wanted: float) -> float | None:
    """The begin of the first seconds that together have this mean rate; None if there are none."""
    for first in range(len(rates) - STEADY_SEC + 1):
        chosen = [rate for _, rate in rates[first : first + STEADY_SEC]]
        if sum(chosen) / STEADY_SEC >= wanted:
            return rates[first][0] - 1
    return None


def judge(run: Run, server: Server, start: logs.Start, options: Options) -> None:
    """Adds what the start has found, and a problem for each thing that is not as it was to be."""
    lines = server.read_log()
    run.problems[:] = [text for text in run.problems if TORN_BINLOG not in text]
    found, left = logs.parse_redo(lines), logs.parse_unfinished(lines)
    if not start.recovered or found is None or not found.pages:
        run.problems.append("no redo was applied")
    else:
        run.metrics["redo_bytes"] = found.bytes
        run.metrics["redo_pages"] = found.pages
        if found.bytes < options.redo_mib * MIB * redo.LEAST_SHARE:
            run.problems.append(f"{found.bytes:,} bytes of redo were found, {options.redo_mib:,} MiB were wanted")
    run.metrics["rows_open"], run.metrics["rows_prepared"] = left.rows_open, left.rows_prepared
    for what, rows in (("an open", left.rows_open), ("a prepared", left.rows_prepared)):
        if rows < options.open_rows:
            run.problems.append(f"{what} transaction of {options.open_rows:,} rows was wanted, {rows:,} rows were found")
    files = server.query("SHOW BINARY LOGS")
    size = int(files[-2][1]) if len(files) > 1 else 0
    run.metrics["binlog_bytes"] = size
    if size < options.binlog_mib * MIB:
        run.problems.append(f"the last binary log had {size:,} bytes, {options.binlog_mib:,} MiB were wanted")
    tables, made = (int(value or 0) for value in server.query(KNOWN_TABLES)[0])
    if (tables, made) != (options.tables.tables + 1, 1):
        run.problems.append(f"{tables:,} tables are known, {made} of them made last; there were {options.tables.tables:,} and 1")
    changed = int(server.query("SELECT COUNT(*) FROM bench.t WHERE v <> 0")[0][0])
    if changed:
        run.problems.append(f"{changed:,} rows have what was never committed")


def _in_words(run: Run) -> str:
    metrics = run.metrics
    back = f", load back after {metrics['load_back_s']:.1f} s" if "load_back_s" in metrics else ""
    return (
        f"first query after {metrics['first_query_s']:.2f} s, {run.parameters['tables_queried']:,} tables after "
        f"{metrics['tables_answered_s']:.2f} s{back}"
    )
