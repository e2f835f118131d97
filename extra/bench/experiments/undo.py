# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""How long a start takes to find the locks of one big unfinished transaction.

The crash state: one transaction has updated every row of a table, all dirty pages are written
out, the server is killed. A start then reads all undo records of the transaction, to know which
tables to lock, before it accepts connections; redo has next to nothing to do.

Cached: the same state in the kernel's page cache, read without O_DIRECT, so that the search reads
nothing from the device; its time is that of the processor. Recovery empties the buffer pool when it
has applied the redo log, so undo is never cached there.

Prepared: the transaction was to be committed, is prepared in InnoDB, and was cut off the binary log. A start rolls it back
before it accepts connections, or leaves it to the thread that rolls back in the background.

Committed: the same with the transaction committed just before the kill, for comparison: nothing is to be undone.

Scattered: the rows were updated in an order that has nothing to do with their keys, so that neighbours in the undo log are on
different pages of the table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pymysql

from bench import logs, starts, unlogged
from bench.context import Context
from bench.datadir import DataDir, FullTables
from bench.diskstats import SECTOR_BYTES
from bench.results import Run
from bench.rounds import Case, rounds
from bench.server import Server
from bench.subjects import PREPARED_SUBJECTS, ROLLBACK, UNDO_SCAN, UNDO_SUBJECTS, Subject
from redstart_cli import tools
from redstart_cli.tools import ToolError

SEED_ROWS = 1000
FLUSH_TIMEOUT_SEC = 900.0
WRITE_OUT_OPTIONS = (
    "--innodb-max-dirty-pages-pct=0",
    "--innodb-max-dirty-pages-pct-lwm=0",
    "--innodb-io-capacity-max=20000",
    "--innodb-io-capacity=20000",
)
"""With these a server writes out all of its pages, see `wait_written_out`."""
MAKER_OPTIONS = (
    "--innodb-buffer-pool-size=1G",
    "--innodb-redo-log-capacity=2G",
    "--innodb-flush-log-at-trx-commit=0",
    *WRITE_OUT_OPTIONS,
)

LITTLE_REDO_BYTES = 1 << 20
"""As much may be behind the last checkpoint of a server that has written all pages."""

CACHED_OPTIONS = ("--innodb-flush-method=fsync",)
CACHED_BYTES_PER_PAGE = 500
# The same each time, and unlike that of the keys.
SCATTERED = " ORDER BY CRC32(id)"


@dataclass(frozen=True)
class Options:
    """What to measure."""

    rows: int = 4_000_000
    cached: bool = False
    rollback: bool = False
    prepared: bool = False
    committed: bool = False
    scattered: bool = False
    subjects: tuple[str, ...] = ()


@dataclass(frozen=True)
class Undo(FullTables):
    """Recipe for one table with a number of rows of about 130 bytes."""

    rows: int
    # Of the update.
    order: str = ""

    @property
    def key(self) -> str:
        """Name of the folder."""
        return f"undo-{self.rows}r"

    @property
    def what(self) -> str:
        """Size in words."""
        return f"one table of {self.rows:,} rows"

    @property
    def steps(self) -> int:
        """One for each row."""
        return self.rows

    @property
    def peak_bytes(self) -> int:
        """Table, redo, and undo of the transaction; twice, for the copies; and what waits for the binary log."""
        return (3 << 30) + self.rows * 1100

    def fill(self, server: Server, progress: Callable[[int], None]) -> None:
        """Makes the table by doubling it."""
        server.query("CREATE DATABASE IF NOT EXISTS bench")
        server.query(
            "CREATE TABLE bench.t (id INT PRIMARY KEY, v INT NOT NULL, pad CHAR(100) NOT NULL) "
            "ENGINE=InnoDB CHARACTER SET latin1"
        )
        values = ",".join(f"({number}, 0, REPEAT('a', 100))" for number in range(1, SEED_ROWS + 1))
        server.query(f"INSERT INTO bench.t VALUES {values}")
        rows = SEED_ROWS
        progress(rows)
        while rows < self.rows:
            more = min(rows, self.rows - rows)
            server.query(
                f"INSERT INTO bench.t SELECT id + {rows}, 0, pad FROM bench.t WHERE id <= {more}"
            )
            rows += more
            progress(more)

    def crash(self, server: Server) -> None:
        """Updates all rows in one transaction, waits until no page is dirty, kills the server."""
        self._update(server)
        server.kill()

    def crash_committed(self, server: Server) -> None:
        """The same, killed when the transaction has been committed, without the binary log: the other has nothing there, either."""
        connection = self._update(server, "SET SESSION sql_log_bin = OFF")
        server.query("SET GLOBAL innodb_flush_log_at_trx_commit = 1")
        with connection.cursor() as cursor:
            cursor.execute("COMMIT")
        server.kill()

    def crash_prepared(self, server: Server) -> None:
        """The same, killed in the commit, and what was written of it to the binary log is cut off."""
        connection = self._update(server)
        for setting in ("innodb_flush_log_at_trx_commit = 1", "sync_binlog = 1", unlogged.DELAY):
            server.query(f"SET GLOBAL {setting}")
        name, position = server.query("SHOW BINARY LOG STATUS")[0][:2]

        def commit() -> None:
            with connection.cursor() as cursor:
                cursor.execute("COMMIT")

        unlogged.cut_off(server.datadir / str(name), int(position), commit, server.kill, FLUSH_TIMEOUT_SEC)

    def _update(self, server: Server, *before: str) -> pymysql.connections.Connection[Any]:
        connection = server.connect()
        with connection.cursor() as cursor:
            for statement in (*before, "BEGIN"):
                cursor.execute(statement)
            changed = cursor.execute(f"UPDATE bench.t SET v = 1, pad = REPEAT('b', 100){self.order}")
            if changed != self.rows:
                raise ToolError(f"{changed} of {self.rows} rows were updated; see {server.log}")
        wait_written_out(server)
        return connection


def wait_written_out(server: Server) -> None:
    """Wait until no page is dirty and, in MySQL, a checkpoint has followed; ToolError if it takes too long."""

    def value(name: str, default: int | None = None) -> int:
        rows = server.query(f"SHOW GLOBAL STATUS LIKE '{name}'")
        return default if default is not None and not rows else int(rows[0][1])

    def is_clean() -> bool:
        lsn, checkpoint = (value(f"Innodb_redo_log_{which}_lsn", 0) for which in ("current", "checkpoint"))
        return lsn - checkpoint < LITTLE_REDO_BYTES and value("Innodb_buffer_pool_pages_dirty") == 0

    tools.wait_until(is_clean, FLUSH_TIMEOUT_SEC, "the dirty pages were not written out")


def run(context: Context, options: Options) -> None:
    """Runs the experiment and adds its runs to the document."""
    tools.need_root("a cold start (dropping the kernel's caches)")
    recipe = Undo(options.rows, SCATTERED if options.scattered else "")
    subjects = context.find_subjects(options.subjects or (PREPARED_SUBJECTS if options.prepared else UNDO_SUBJECTS))
    maker = subjects[0]
    datadir = context.make_datadir(recipe, maker.binary)
    state = _state(options)
    acts = {"crash": recipe.crash, "committed": recipe.crash_committed, "prepared": recipe.crash_prepared}
    act = acts[_end(options)]
    context.make_state(datadir, state, maker, act, "one big update, kill -9", MAKER_OPTIONS)
    parameters = {"rows": options.rows, "scattered": options.scattered}
    cases = [Case(subject, subject.name, "cached" if options.cached else state, parameters) for subject in subjects]
    for subject, result in rounds(context, "undo", cases, _in_words):
        _measure(context, datadir, subject, result, options)


def _end(options: Options) -> str:
    """How far the transaction was when the server was killed."""
    return "prepared" if options.prepared else "committed" if options.committed else "crash"


def _state(options: Options) -> str:
    return _end(options) + ("-scattered" if options.scattered else "")


def _measure(
    context: Context, datadir: DataDir, subject: Subject, result: Run, options: Options
) -> None:
    def extra(run: Run, server: Server, start: logs.Start) -> None:
        if not start.recovered:
            run.problems.append("no crash recovery")
        if options.committed:
            _check_committed(run, server)
            return
        # Those of prepared transactions are read before the server opens.
        is_late = not options.prepared and subject.value_of(UNDO_SCAN) == "BACKGROUND"
        if is_late:
            starts.add_background(context, run, server, "resurrect", logs.parse_undo_scan)
        found = logs.parse_resurrection(server.read_log())
        if found is None:
            run.problems.append("the log says nothing of a resurrected transaction")
            return
        if found.records < run.parameters["rows"]:
            run.problems.append(f"{found.records:,} undo records were found")
        run.metrics["undo_pages"] = found.pages
        run.metrics["undo_records"] = found.records
        if not is_late:
            run.metrics["resurrect_s"] = found.end - found.begin
            starts.add_io(run.metrics, "resurrect_", server.io_between(found.begin, found.end))
        if (seconds := run.metrics.get("resurrect_s", 0)) > 0:
            run.metrics["resurrect_reads_per_sec"] = run.metrics["resurrect_reads"] / seconds
            rate = run.metrics["resurrect_sectors_read"] * SECTOR_BYTES / seconds
            run.metrics["resurrect_mib_per_sec"] = rate / 2**20
        read_bytes = run.metrics.get("resurrect_process_read_bytes", 0)
        if options.cached and read_bytes > found.pages * CACHED_BYTES_PER_PAGE:
            run.problems.append(f"{read_bytes:,} bytes read, all undo should be cached")
        if options.prepared:
            _check_handed_over(run, server, subject)
        # What was prepared is rolled back before the server is ready, but for one subject.
        if options.rollback and (not options.prepared or _is_async(subject)):
            starts.add_background(context, run, server, "rollback", logs.parse_rollback)
        # Last, since it reads the table beside the rollback.
        if options.prepared:
            _check_rows(run, server)

    more = CACHED_OPTIONS if options.cached else ()
    drop_caches = not options.cached
    starts.measure(context, datadir, _state(options), subject, result, drop_caches, more, extra)


def _is_async(subject: Subject) -> bool:
    """Whether it leaves prepared transactions to the thread that rolls back in the background."""
    return subject.is_on(ROLLBACK)


def _check_rows(run: Run, server: Server) -> None:
    """Whether nothing of the transaction is seen."""
    ((count,),) = server.query("SELECT COUNT(*) FROM bench.t WHERE v <> 0")
    if count:
        run.problems.append(f"{count:,} rows are as the transaction left them")


def _check_committed(run: Run, server: Server) -> None:
    """Whether there was nothing to undo, and all rows are as the transaction left them."""
    if logs.parse_resurrection(server.read_log()) is not None:
        run.problems.append("the log says that a transaction was resurrected")
    ((count,),) = server.query("SELECT COUNT(*) FROM bench.t WHERE v = 1")
    if count != run.parameters["rows"]:
        run.problems.append(f"{count:,} rows are as the transaction left them")


def _check_handed_over(run: Run, server: Server, subject: Subject) -> None:
    """Whether the transaction was handed over if it should be."""
    rows = server.query("SHOW GLOBAL STATUS LIKE 'Innodb_recovery_rollback_async_transactions'")
    handed_over = int(rows[0][1]) if rows else 0
    run.metrics["handed_over"] = handed_over
    if handed_over != _is_async(subject):
        run.problems.append(f"{handed_over} transactions were handed over")


def _in_words(run: Run) -> str:
    metrics = run.metrics
    if "undo_pages" not in metrics:
        return f"ready in {metrics['ready_s']:.2f} s"
    return (
        f"locks found in {metrics['resurrect_s']:.2f} s, "
        f"{metrics['undo_pages']:,.0f} pages in {metrics['resurrect_reads']:,.0f} reads, "
        f"ready in {metrics['ready_s']:.2f} s"
        + (f", rolled back in {metrics['rollback_s']:.2f} s" if "rollback_s" in metrics else "")
    )
