# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""How long a shutdown takes with many open tables, and what the service manager hears meanwhile.

A server starts on the clean state, all of its tables are opened by queries, and it is told to stop (SIGTERM). The phases are
those that MySQL tells systemd, for which the bench listens. MariaDB tells others: it has the total only.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from bench import load, notify, starts
from bench.context import Context
from bench.diskstats import read_counters
from bench.experiments import startup
from bench.experiments.startup import Prepared
from bench.results import Run
from bench.rounds import Case, rounds
from bench.server import STOP_TIMEOUT_SEC, Server, process_cpu_sec
from bench.subjects import SHUTDOWN_SUBJECTS
from bench.tables import Tables
from redstart_cli import tools
from redstart_cli.tools import ToolError

MODE = "open tables"
OTHER_TABLES = 2000
"""Room beside the tables of the bench in the caches, which are split into instances that fill unevenly."""

FILES_LIMIT = "--open-files-limit=500000"
"""As many as the system allows. InnoDB closes files of open tables when it has no more."""

MARKS = (
    ("before the plugins", "STATUS=Connection shutdown complete"),
    ("plugins", "STATUS=Shutdown of plugins in progress"),
    ("table cache", "STATUS=Shutdown of plugins complete"),
    ("exit", "STATUS=Server shutdown complete"),
)
"""Phases, and what is said when they begin. InnoDB is one of the plugins. The first phase, connections, begins with the signal."""


@dataclass(frozen=True)
class Options:
    """What the user asked for."""

    tables: Tables
    subjects: tuple[str, ...]


def cache_size(tables: int) -> int:
    """How many tables the caches have to take."""
    return tables + tables // 4 + OTHER_TABLES


def run(context: Context, options: Options) -> None:
    """Runs the experiment and adds its runs to the document."""
    tools.need_root("the data directories of the bench (dropping the kernel's caches)")
    names = options.subjects or SHUTDOWN_SUBJECTS
    prepared = startup.prepare(context, startup.Options(options.tables, crash=False, ddl=False, warm=False, subjects=names))
    parameters = {"tables": options.tables.tables, "schemas": options.tables.schemas}
    cases = [Case(item, item.subject.name, MODE, parameters) for item in prepared]
    for item, result in rounds(context, "shutdown", cases, _in_words):
        _measure(context, options, item, result)


def _measure(context: Context, options: Options, item: Prepared, result: Run) -> None:
    item.datadir.restore(item.state)
    with starts.serving(context, item.datadir, item.subject, result, [FILES_LIMIT]) as server:
        with notify.Listener(server.run / "notify") as listener:
            server.environment = {"NOTIFY_SOCKET": str(listener.path)}
            server.startup(context.timeout_sec, context.volume.device)
            _open(context, options, result, server)
            starts.add_server(result, server)
            # Those of the process go with it.
            before = read_counters(context.volume.device, None)
            cpu_sec = server.cpu_sec()
            begin = time.time()
            server.process.terminate()
            cpu_sec = await_end(server.pid, STOP_TIMEOUT_SEC) - cpu_sec
            end = time.time()
            server.shutdown()
            starts.add_io(result.metrics, "", read_counters(context.volume.device, None) - before)
        add_messages(result, listener.messages, begin, end)
        result.metrics["cpu_s"] = cpu_sec


def _open(context: Context, options: Options, result: Run, server: Server) -> None:
    """Queries each table once; one that is not open afterwards makes the run wrong."""
    tables = options.tables
    cache = cache_size(tables.tables)
    # At its start a server would make them smaller where it may not open as many files.
    server.query(f"SET GLOBAL table_open_cache = {cache}", f"SET GLOBAL table_definition_cache = {cache}")
    statements = ("SELECT 1 FROM {}.{} LIMIT 1".format(*tables.table(index)) for index in range(tables.tables))
    load.ask(server, statements, context.timeout_sec)
    found = int(server.query("SHOW GLOBAL STATUS LIKE 'Open_tables'")[0][1])
    result.metrics |= {"open_tables": found, "open_files": sum(1 for _ in Path(f"/proc/{server.pid}/fd").iterdir())}
    if found < tables.tables:
        result.problems.append(f"{found:,} of {tables.tables:,} tables are open")


def await_end(pid: int, timeout_sec: float) -> float:
    """Waits until a child has ended and is still to be asked for its status; the processor time it has used."""
    deadline = time.monotonic() + timeout_sec
    while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
        if time.monotonic() > deadline:
            raise ToolError(f"the server did not stop within {timeout_sec:g} s")
        time.sleep(Server.poll_sec)
    return process_cpu_sec(pid)


def add_messages(run: Run, messages: list[notify.Message], begin: float, end: float) -> None:
    """Adds phases and silence of a shutdown between two times; MySQL that does not tell of it makes the run wrong."""
    told = [message for message in messages if begin <= message.time <= end]
    run.metrics |= {
        "shutdown_s": end - begin,
        "longest_silence_s": notify.longest_silence(told, begin, end),
        "messages": len(told),
        "extensions": sum(notify.ASKS in message.text for message in told),
    }
    marks = [("connections", begin), *((name, when) for name, text in MARKS if (when := notify.first(told, text)) is not None)]
    if len(marks) > 1:
        for (name, since), until in zip(marks, [*(when for _, when in marks[1:]), end], strict=True):
            run.phases_s[name] = until - since
    elif run.subject != "mariadb":
        run.problems.append("the server has told the service manager nothing of its shutdown")


def _in_words(run: Run) -> str:
    metrics = run.metrics
    return f"{metrics['open_tables']:,.0f} open tables, stopped in {metrics['shutdown_s']:.2f} s"
