# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""What the first to use a server meets right after a cold start with many tables.

A start that leaves work for later is only as good as what the first queries then take. Modes,
each in a fresh start with caches dropped: `queries` (many connections query different tables, no
table twice) and one for each of the views that monitoring asks, `tables`, `innodb_tablespaces` and
`files`. Times are taken from exec of the server until the last answer.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass

import pymysql

from bench import load, logs, starts
from bench.context import Context
from bench.datadir import PAGE_BYTES
from bench.diskstats import read_counters
from bench.experiments import startup
from bench.experiments.startup import Prepared
from bench.results import Run
from bench.rounds import Case, rounds
from bench.server import Server, StartTimes
from bench.stats import percentile
from bench.subjects import FIRST_USE_SUBJECTS
from bench.tables import SCHEMA_PREFIX, Tables
from redstart_cli import tools
from redstart_cli.tools import ToolError


@dataclass(frozen=True)
class View:
    """A view of INFORMATION_SCHEMA, and what it says of an empty table.

    `name` is the column that begins with the schema's name, `value` what is summed up over the
    tables, `bytes_per_table` what that is for each.
    """

    view: str
    name: str
    value: str
    bytes_per_table: int

    @property
    def statement(self) -> str:
        """Reads the whole view; our tables are counted and summed up."""
        ours = f"{self.name} LIKE '{SCHEMA_PREFIX}%'"
        return f"SELECT SUM({ours}), SUM(IF({ours}, {self.value}, 0)) FROM information_schema.{self.view}"


QUERIES = "queries"
VIEWS = {
    "tables": View("TABLES", "table_schema", "data_length", PAGE_BYTES),
    "innodb_tablespaces": View("INNODB_TABLESPACES", "name", "file_size", 7 * PAGE_BYTES),
    "files": View("FILES", "tablespace_name", "data_free + autoextend_size", 1 << 20),
}
MODES = (QUERIES, *VIEWS)
NO_TABLE = "SELECT 1"

TRUSTED = "Innodb_tablespace_map_files_trusted"


@dataclass(frozen=True)
class Options:
    """What the user asked for: of `tables`, so many are queried."""

    tables: Tables
    used: int
    subjects: tuple[str, ...]


def run(context: Context, options: Options) -> None:
    """Runs the experiment and adds its runs to the document."""
    tools.need_root("a cold start (dropping the kernel's caches)")
    names = options.subjects or FIRST_USE_SUBJECTS
    size = startup.Options(options.tables, crash=False, ddl=False, warm=False, subjects=names)
    prepared = startup.prepare(context, size)
    cases = [Case(item, item.subject.name, mode, _parameters(options, mode)) for mode in MODES for item in prepared]
    for item, result in rounds(context, "first-use", cases, _in_words):
        _measure(context, options, item, result)


def _parameters(options: Options, mode: str) -> dict[str, int]:
    parameters = {"tables": options.tables.tables, "schemas": options.tables.schemas}
    if mode == QUERIES:
        parameters |= {"tables_queried": options.used, "connections": load.CONNECTIONS}
    return parameters


def statements(tables: Tables, used: int) -> list[str]:
    """One query of each of so many different tables, evenly spaced, in an order that repeats itself."""
    chosen = [index * tables.tables // used for index in range(used)]
    random.Random(used).shuffle(chosen)
    return ["SELECT 1 FROM {}.{} LIMIT 1".format(*tables.table(index)) for index in chosen]


def _measure(context: Context, options: Options, item: Prepared, result: Run) -> None:
    def at_once(run: Run, server: Server, times: StartTimes) -> None:
        cpu, before = server.cpu_sec(), read_counters(context.volume.device, server.pid)
        if run.mode == QUERIES:
            end = query(options, run, server, times.exec_time, context.timeout_sec)
        else:
            end = ask_view(options, run, server, context.timeout_sec)
        after = read_counters(context.volume.device, server.pid)
        run.metrics["start_cpu_s"] = cpu
        run.metrics["answers_cpu_s"] = server.cpu_sec() - cpu
        run.metrics["last_answer_s"] = end - times.exec_time
        starts.add_io(run.metrics, "answers_", after - before)
        starts.note_disturbance(run, "answers_", " after the start")
        if run.mode == QUERIES:
            query_no_table(options, run, server, context.timeout_sec)

    def extra(run: Run, server: Server, start: logs.Start) -> None:
        judge(run, start, item, options)

    starts.measure(
        context, item.datadir, item.state, item.subject, result, True, extra=extra, at_once=at_once
    )


def query(options: Options, run: Run, server: Server, exec_time: float, timeout_sec: float) -> float:
    """Queries the tables; the time of the last answer."""
    answers = load.ask(server, statements(options.tables, options.used), timeout_sec)
    run.metrics["answers_s"] = answers.seconds
    run.metrics["bench_cpu_s"] = answers.bench_cpu_sec
    _add_latencies(run, "", answers)
    for percent in (50, 99):
        run.metrics[f"answered_p{percent}_s"] = percentile(answers.ends, percent) - exec_time
    return answers.end


def query_no_table(options: Options, run: Run, server: Server, timeout_sec: float) -> None:
    """Asks as often as `query`, but no table: what is left is the cost of connecting and asking."""
    answers = load.ask(server, [NO_TABLE] * options.used, timeout_sec)
    run.metrics["no_table_s"] = answers.seconds
    _add_latencies(run, "no_table_", answers)


def _add_latencies(run: Run, prefix: str, answers: load.Answers) -> None:
    for name, percent in (("p50", 50), ("p99", 99), ("max", 100)):
        latency = percentile(answers.latencies_sec, percent)
        run.metrics[f"{prefix}latency_{name}_ms"] = latency * 1000


def ask_view(options: Options, run: Run, server: Server, timeout_sec: float) -> float:
    """Asks a view for the number of our tables and for a sum over them; the time of the answer."""
    view, tables = VIEWS[run.mode], options.tables.tables
    begin = time.monotonic()
    try:
        connection = server.connect(timeout_sec=timeout_sec)
        with connection, connection.cursor() as cursor:
            cursor.execute("SET information_schema_stats_expiry = 0")
            cursor.execute(view.statement)
            rows, total = (int(value or 0) for value in cursor.fetchall()[0])
    except pymysql.Error as error:
        raise ToolError(f"{view.statement}: {error}; see {server.log}") from error
    run.metrics |= {"answers_s": time.monotonic() - begin, "view_rows": rows, "view_bytes": total}
    if (rows, total) != (tables, tables * view.bytes_per_table):
        run.problems.append(
            f"{view.view} has {rows:,} tables of {total:,} bytes together, "
            f"there are {tables:,} of {view.bytes_per_table:,} bytes each"
        )
    return time.time()


def judge(run: Run, start: logs.Start, item: Prepared, options: Options) -> None:
    """As every start, and with a tablespace map only if the start did use it."""
    startup.judge(run, start, item, item.files)
    trusted = int(run.status.get(TRUSTED, 0))
    if item.subject.uses_map and trusted < options.tables.tables:
        run.problems.append(f"the tablespace map was trusted for {trusted:,} files only")


def _in_words(run: Run) -> str:
    metrics = run.metrics
    text = f"last answer after {metrics['last_answer_s']:.2f} s, ready after {metrics['ready_s']:.2f} s"
    if "latency_p99_ms" in metrics:
        text += f", 99 % of the queries took at most {metrics['latency_p99_ms']:,.0f} ms"
    return text
