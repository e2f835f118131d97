# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""What building indexes costs in temporary file I/O and time.

`rebuild` is ALTER TABLE ... ENGINE=InnoDB, ALGORITHM=INPLACE of a table with five indexes, or as
many as wanted; `add-index` adds one of two columns, `add-unique` a unique one. `add-integer` and
`add-text` add one of a random integer and of a random string of utf8mb4, in the collation that is
the server's default, to a table of these two columns; `add-descending`, `add-prefix`, `add-composite`
and `add-ordered` one of the string in descending order, of its first four characters, of the integer and
the string, and of the primary key and the integer, which the scan finds in order. `scan` builds none: it reads the rows of the
table with the five indexes, as most builds do first. Temporary file I/O
is what the server's own performance schema counts for InnoDB's temporary files, so it is the same
in stock MySQL and MariaDB, and holds every byte whether it reached the device or stayed in the
page cache.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from bench import starts
from bench.context import Context
from bench.datadir import DataDir, FullTables
from bench.diskstats import read_counters
from bench.results import Run
from bench.rounds import Case, rounds
from bench.server import Server
from bench.subjects import DDL_SUBJECTS, Subject, by_flavour
from redstart_cli import tools

SEED_ROWS = 1000
KEYS = 5
KEY_BYTES = 64
ID_BYTES = 4
PREFIX_BYTES = 4
MIB = 1 << 20
SMALLEST_BUFFER_MIB = 1 / 16
LARGEST_BUFFER_MIB = 4095
"""The least and, in whole MiB, the most that innodb_ddl_buffer_size takes."""
OPERATIONS = {
    "rebuild": "ALTER TABLE bench.t ENGINE=InnoDB, ALGORITHM=INPLACE",
    "add-index": "ALTER TABLE bench.t ADD INDEX k (c1, c2), ALGORITHM=INPLACE",
    "add-unique": "ALTER TABLE bench.t ADD UNIQUE INDEX k (c1, c2), ALGORITHM=INPLACE",
    "add-integer": "ALTER TABLE bench.typed ADD INDEX k (n), ALGORITHM=INPLACE",
    "add-text": "ALTER TABLE bench.typed ADD INDEX k (u), ALGORITHM=INPLACE",
    "add-descending": "ALTER TABLE bench.typed ADD INDEX k (u DESC), ALGORITHM=INPLACE",
    "add-prefix": f"ALTER TABLE bench.typed ADD INDEX k (u({PREFIX_BYTES})), ALGORITHM=INPLACE",
    "add-composite": "ALTER TABLE bench.typed ADD INDEX k (n, u), ALGORITHM=INPLACE",
    "add-ordered": "ALTER TABLE bench.typed ADD INDEX k (id, n), ALGORITHM=INPLACE",
    "scan": "SELECT SUM(LENGTH(c1)) FROM bench.t FORCE INDEX (PRIMARY)",
}
KEY_BYTES_OF = {
    "add-index": 2 * KEY_BYTES + ID_BYTES,
    "add-unique": 2 * KEY_BYTES + ID_BYTES,
    "add-integer": 2 * ID_BYTES,
    "add-text": KEY_BYTES + ID_BYTES,
    "add-descending": KEY_BYTES + ID_BYTES,
    "add-prefix": PREFIX_BYTES + ID_BYTES,
    "add-composite": KEY_BYTES + 2 * ID_BYTES,
    "add-ordered": 2 * ID_BYTES,
    "scan": 0,
}
"""Bytes of the indexed columns and the primary key in a row of the index that is added."""
TEMP_FILES = (
    "SELECT count_read, count_write, sum_number_of_bytes_read, sum_number_of_bytes_write "
    "FROM performance_schema.file_summary_by_event_name "
    "WHERE event_name = 'wait/io/file/innodb/innodb_temp_file'"
)


@dataclass(frozen=True)
class Ddl(FullTables):
    """Recipe for a table of rows with indexed columns of 64 random characters.

    Beside it is one of as many rows with an integer and a string and no index on them.
    """

    rows: int
    indexes: int = KEYS

    @property
    def key(self) -> str:
        """Name of the folder."""
        return f"ddl-typed-{self.rows}r" + (f"-{self.indexes}i" if self.indexes != KEYS else "")

    @property
    def what(self) -> str:
        """Size in words."""
        return f"two tables of {self.rows:,} rows, one with {self.indexes} indexes"

    @property
    def steps(self) -> int:
        """One for each row."""
        return self.rows

    @property
    def peak_bytes(self) -> int:
        """Table, its copy, its rebuilt form and the sort files: measured with 600,000 rows, and 30 % more."""
        return (2 << 30) + self.rows * (460 * self.indexes + 2200)

    @property
    def final_bytes(self) -> int:
        """Table and copy."""
        return (1 << 30) + self.rows * (300 * self.indexes + 700)

    def fill(self, server: Server, progress: Callable[[int], None]) -> None:
        """Makes the table by doubling it, then its indexes."""
        numbered = range(1, max(self.indexes, 2) + 1)
        columns = ", ".join(f"c{key} VARCHAR({KEY_BYTES}) NOT NULL" for key in numbered)
        server.query("CREATE DATABASE bench")
        server.query(
            f"CREATE TABLE bench.t (id INT PRIMARY KEY, {columns}) "
            "ENGINE=InnoDB CHARACTER SET latin1"
        )
        rows = 0
        while rows < self.rows:
            more = min(rows, self.rows - rows) or min(SEED_ROWS, self.rows)
            hashes = ", ".join(f"SHA2(id * 10 + {key}, 256)" for key in numbered)
            if rows == 0:
                numbers = " UNION ALL ".join(f"SELECT {n} AS id" for n in range(1, more + 1))
                source = f"({numbers}) AS seed"
            else:
                source = f"(SELECT id + {rows} AS id FROM bench.t WHERE id <= {more}) AS seed"
            server.query(f"INSERT INTO bench.t SELECT id, {hashes} FROM {source}")
            rows += more
            progress(more)
        indexes = ", ".join(f"ADD INDEX k{key} (c{key})" for key in range(1, self.indexes + 1))
        server.query(f"ALTER TABLE bench.t {indexes}")
        server.query(
            f"CREATE TABLE bench.typed (id INT PRIMARY KEY, n INT NOT NULL, "
            f"u VARCHAR({KEY_BYTES}) NOT NULL) ENGINE=InnoDB CHARACTER SET utf8mb4"
        )
        server.query(
            "INSERT INTO bench.typed "
            "SELECT id, CAST(CRC32(c1) AS SIGNED) - 2147483648, c1 FROM bench.t ORDER BY id"
        )


def key_data_bytes(operation: str, rows: int, indexes: int) -> int:
    """Bytes of all keys that an operation sorts: the indexed columns and the primary key."""
    if operation == "rebuild":
        return rows * indexes * (KEY_BYTES + ID_BYTES)
    return rows * KEY_BYTES_OF[operation]


@dataclass(frozen=True)
class Options:
    """What the user asked for; buffers in MiB."""

    rows: int = 600_000
    indexes: int = KEYS
    buffers: tuple[float, ...] = (1, 16, 64, 256)
    threads: tuple[int, ...] = (1, 4)
    operations: tuple[str, ...] = ("rebuild", "add-index", "add-unique")
    subjects: tuple[str, ...] = ()


def run(context: Context, options: Options) -> None:
    """Runs the experiment and adds its runs to the document."""
    tools.need_root("a cold index build (dropping the kernel's caches)")
    recipe = Ddl(options.rows, options.indexes)
    subjects = context.find_subjects(options.subjects or DDL_SUBJECTS)
    datadirs = by_flavour(subjects, lambda subject: context.make_datadir(recipe, subject.binary))
    cases = [
        Case(
            subject, subject.name, operation, _parameters(options, subject, buffer, threads),
            f"{buffer:g} MiB, {threads} thread(s)",
        )
        for operation in options.operations
        for buffer in options.buffers
        for threads in options.threads
        for subject in subjects
        if subject.binary.flavour == "mysql" or threads == options.threads[0]
    ]  # fmt: skip
    for subject, result in rounds(context, "ddl", cases, _in_words):
        _measure(context, datadirs[subject.binary.flavour], subject, result)


def _parameters(options: Options, subject: Subject, buffer: float, threads: int) -> dict[str, Any]:
    threads = 1 if subject.binary.flavour == "mariadb" else threads
    return {"rows": options.rows, "indexes": options.indexes, "buffer_mib": buffer, "threads": threads}


def _server_options(subject: Subject, parameters: dict[str, Any]) -> list[str]:
    if subject.binary.flavour == "mariadb":
        size = int(min(parameters["buffer_mib"], 64) * MIB)
        return ["--performance-schema=ON", f"--innodb-sort-buffer-size={size}"]
    return [
        f"--innodb-ddl-buffer-size={int(parameters['buffer_mib'] * MIB)}",
        f"--innodb-ddl-threads={parameters['threads']}",
        f"--innodb-parallel-read-threads={parameters['threads']}",
    ]


def _measure(context: Context, datadir: DataDir, subject: Subject, result: Run) -> None:
    datadir.restore("clean")
    with starts.serving(context, datadir, subject, result, _server_options(subject, result.parameters)) as server:
        server.startup(context.timeout_sec)
        tools.drop_caches()
        _alter(context, server, result)


def unnamed_bytes(pid: int) -> int:
    """Bytes on disk of the files that a process has open and that have no name any more."""
    total = 0
    try:
        links = list(Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return 0
    for link in links:
        try:
            if os.readlink(link).endswith(" (deleted)"):
                total += os.stat(link).st_blocks * 512
        except OSError:
            # Closed in the meantime.
            continue
    return total


class TempPeak:
    """Looks every 20 ms at how much the temporary files of a server hold."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._before = unnamed_bytes(pid)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.peak_bytes = 0

    def _run(self) -> None:
        while not self._stop.wait(0.02):
            self.peak_bytes = max(self.peak_bytes, unnamed_bytes(self._pid) - self._before)

    def __enter__(self) -> TempPeak:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()


def _alter(context: Context, server: Server, result: Run) -> None:
    device = context.volume.device
    before_temp = server.query(TEMP_FILES)[0]
    before = read_counters(device, server.pid)
    begin = time.monotonic()
    with TempPeak(server.pid) as peak:
        server.query(OPERATIONS[result.mode])
        seconds = time.monotonic() - begin
    after = read_counters(device, server.pid)
    after_temp = server.query(TEMP_FILES)[0]
    names = ("temp_reads", "temp_writes", "temp_read_bytes", "temp_written_bytes")
    for name, old, new in zip(names, before_temp, after_temp, strict=True):
        result.metrics[name] = float(new - old)
    parameters = result.parameters
    key_bytes = key_data_bytes(result.mode, parameters["rows"], parameters["indexes"])
    result.metrics["alter_s"] = seconds
    result.metrics["key_data_bytes"] = key_bytes
    result.metrics["temp_peak_bytes"] = float(peak.peak_bytes)
    if key_bytes:
        result.metrics["temp_read_multiple"] = result.metrics["temp_read_bytes"] / key_bytes
        result.metrics["temp_written_multiple"] = result.metrics["temp_written_bytes"] / key_bytes
        result.metrics["temp_peak_multiple"] = peak.peak_bytes / key_bytes
    starts.add_io(result.metrics, "", after - before)
    starts.add_server(result, server)
    passes = result.status.get("Innodb_ddl_merge_passes")
    if passes is not None:
        result.metrics["merge_passes"] = float(passes)
    if os.listdir(server.tmpdir):
        result.notes.append(f"temporary files were left in {server.tmpdir}")
    table = next(name for name in ("bench.typed", "bench.t") if f"{name} " in OPERATIONS[result.mode])
    answer = server.query(f"CHECK TABLE {table}")[-1]
    if answer[3] != "OK":
        result.problems.append(f"CHECK TABLE says {answer[3]}")


def _in_words(run: Run) -> str:
    read, written = run.metrics["temp_read_bytes"], run.metrics["temp_written_bytes"]
    return (
        f"{run.parameters['buffer_mib']:g} MiB, {run.parameters['threads']} thread(s): "
        f"{run.metrics['alter_s']:.1f} s, temporary files {read / 1e6:,.0f} MB read, "
        f"{written / 1e6:,.0f} MB written"
    )
