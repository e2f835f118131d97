# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""How long a start takes that finds a large binary log.

Each start reads the last binary log for its GTIDs, one after a crash also for the transactions in it. The states differ in
how the server ended (clean, crash) and in the last file: `empty`, `large` transactions of rows, or `small` ones.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench import logs, starts
from bench.context import Context
from bench.datadir import DataDir, FullTables
from bench.experiments.undo import WRITE_OUT_OPTIONS, wait_written_out
from bench.results import Run
from bench.rounds import Case, rounds
from bench.server import Server
from bench.subjects import BINLOG_SCAN, BINLOG_SUBJECTS, Subject
from binlog_check.logfile import name_the_copy
from redstart_cli import tools

LOGS = ("empty", "large", "small")
ENDS = ("clean", "crash")
LARGE_MIB = 50
"""Rows of a large transaction, in MiB; one row has one."""
SMALL_BYTES = 1000
"""Row of a small transaction."""
OPTIONS = ("--max-binlog-size=1G", "--gtid-mode=ON", "--enforce-gtid-consistency=ON")
MAKER_OPTIONS = (
    *OPTIONS,
    "--innodb-buffer-pool-size=1G",
    # A crash has little redo: what is measured is the binary log.
    "--innodb-redo-log-capacity=32M",
    "--innodb-flush-log-at-trx-commit=0",
    *WRITE_OUT_OPTIONS,
    "--binlog-row-image=MINIMAL",
    "--max-allowed-packet=64M",
)
MIB = 1 << 20
MOST_MIB = 1000
"""A file is ended when it has 1 GiB."""


@dataclass(frozen=True)
class Options:
    """What to measure."""

    mib: int
    logs: tuple[str, ...]
    ends: tuple[str, ...]
    subjects: tuple[str, ...]


@dataclass(frozen=True)
class Binlog(FullTables):
    """Recipe for two tables of one row each, which transactions change again and again."""

    mib: int

    @property
    def key(self) -> str:
        """Name of the folder."""
        return f"binlog-{self.mib}m"

    @property
    def what(self) -> str:
        """Size in words."""
        return f"a binary log of {self.mib:,} MiB"

    @property
    def peak_bytes(self) -> int:
        """The log once in the directory and once for each state, redo, undo."""
        return (6 << 30) + self.mib * MIB * 6

    def fill(self, server: Server, progress: Callable[[int], None]) -> None:
        """Makes the tables."""
        server.query("CREATE DATABASE IF NOT EXISTS bench")
        server.query("CREATE TABLE bench.large (id INT PRIMARY KEY, b LONGBLOB) ENGINE=InnoDB")
        server.query("CREATE TABLE bench.small (id INT PRIMARY KEY, b VARBINARY(2000)) ENGINE=InnoDB")
        server.query("INSERT INTO bench.large VALUES (1, ''); ")
        server.query("INSERT INTO bench.small VALUES (1, '')")
        server.query(
            "CREATE PROCEDURE bench.write_small(n INT) BEGIN DECLARE i INT DEFAULT 0; WHILE i < n DO "
            f"UPDATE bench.small SET b = REPEAT(CHAR(97 + i % 26), {SMALL_BYTES} + i % 7); SET i = i + 1; "
            "END WHILE; END"
        )
        progress(1)

    def write(self, kind: str, end: str) -> Callable[[Server], None]:
        """What a server does before it ends: it writes one file of this kind."""

        def act(server: Server) -> None:
            # To sync a million small transactions one by one takes hours.
            server.query(f"SET GLOBAL sync_binlog = {1 if kind == 'large' else 100}")
            server.query("FLUSH BINARY LOGS")
            connection = server.connect()
            with connection.cursor() as cursor:
                if kind == "large":
                    for number in range(max(1, self.mib // LARGE_MIB)):
                        cursor.execute("BEGIN")
                        for row in range(LARGE_MIB):
                            cursor.execute(f"UPDATE bench.large SET b = REPEAT('{chr(97 + (number + row) % 26)}', {MIB})")
                        cursor.execute("COMMIT")
                elif kind == "small":
                    per_row = SMALL_BYTES + 300
                    cursor.execute(f"CALL bench.write_small({self.mib * MIB // per_row})")
            wait_written_out(server)
            if end == "crash":
                # A transaction whose commit the data may not have yet, as a crash under load leaves it.
                server.query("UPDATE bench.small SET b = 'last'")
                server.kill()

        return act


def let_note_count(data: Path) -> None:
    """Let the note on the last binary log count for the copy that has been restored."""
    name_the_copy(data / (data / "binlog.index").read_text(encoding="utf-8").split()[-1])


def run(context: Context, options: Options) -> None:
    """Runs the experiment and adds its runs to the document."""
    tools.need_root("a cold start (dropping the kernel's caches)")
    recipe = Binlog(options.mib)
    subjects = context.find_subjects(options.subjects or BINLOG_SUBJECTS)
    # One that keeps the note about what is synced, if it is there.
    maker = next((subject for subject in subjects if subject.value_of(BINLOG_SCAN) == "TRANSACTIONS"), subjects[0])
    datadir = context.make_datadir(recipe, maker.binary)
    states = [f"{kind}-{end}" for kind in options.logs for end in options.ends]
    for kind, end in itertools.product(options.logs, options.ends):
        context.make_state(datadir, f"{kind}-{end}", maker, recipe.write(kind, end), recipe.what, MAKER_OPTIONS)
    cases = [Case(subject, subject.name, state, {"mib": options.mib}) for state in states for subject in subjects]
    for subject, result in rounds(context, "binlog", cases, _in_words):
        _measure(context, datadir, subject, result.mode, result)


def _measure(context: Context, datadir: DataDir, subject: Subject, state: str, result: Run) -> None:
    def extra(run: Run, server: Server, start: logs.Start) -> None:
        files = server.query("SHOW BINARY LOGS")
        size = int(files[-2][1]) if len(files) > 1 else 0
        run.metrics["binlog_bytes"] = size
        is_empty = state.startswith("empty")
        if (size < run.parameters["mib"] * MIB // 2) != is_empty:
            run.problems.append(f"the last binary log had {size:,} bytes")
        if bool(run.metrics["recovered"]) != state.endswith("crash"):
            run.problems.append("the start was not one of the kind that is measured")

    starts.measure(
        context, datadir, state, subject, result, True, OPTIONS, extra, before=lambda: let_note_count(datadir.work)
    )


def _in_words(run: Run) -> str:
    metrics = run.metrics
    return f"ready in {metrics['ready_s']:.2f} s, {metrics['sectors_read'] / 2048:,.0f} MiB read in {metrics['reads']:,.0f} reads"
