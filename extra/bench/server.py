# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Starts, watches, asks and ends one server.

A server dies with the bench, and the mounts that a chroot needs live in a mount namespace of the
server's own, so that neither can be left behind.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pymysql
from pymysql.connections import Connection
from pymysql.constants import CLIENT

from bench import logs
from bench.diskstats import Counters, Device, Sampler
from bench.layout import Layout
from bench.subjects import Binary
from redstart_cli import mysqld, tools
from redstart_cli.mysqld import Mysqld
from redstart_cli.tools import ToolError, Unavailable

MARIADB_SHARE = Path("/usr/share/mysql")
STOP_TIMEOUT_SEC = 600.0
STATUS_PREFIXES = (
    "Innodb_tablespace_",
    "Innodb_startup_",
    "Innodb_resurrect_",
    "Innodb_ddl_merge_",
    "Innodb_data_read",
    "Innodb_data_writ",
    "Innodb_pages_read",
)

_PLAIN = tools.JOIN + 'exec "$@"'
_CHROOT = (
    tools.JOIN
    + 'root=$1; shift; while [ "$1" != -- ]; do '
    + 'mkdir -p "$root$1" && mount --rbind "$1" "$root$1" || exit 71; shift; done; '
    + 'shift; exec chroot "$root" "$@"'
)


def launch_command(
    binary: Binary, options: Sequence[str], binds: Sequence[Path], procs: Sequence[Path]
) -> list[str]:
    """The words that start a server in its cgroups and root; its process id is that of the words.

    `binds` are directories that a server in a root sees at the same path as everybody else.
    """
    groups = [*map(str, procs), "--"]
    server = [str(binary.path), *options]
    if binary.root is None:
        return ["sh", "-c", _PLAIN, "sh", *groups, *server]
    unshare = ["unshare", "--mount", "--propagation", "private"]
    points = [str(path) for path in binds]
    root = str(binary.root)
    return [*unshare, "sh", "-c", _CHROOT, "sh", *groups, root, *points, "--", *server]


@dataclass
class StartTimes:
    """When what happened, in seconds since the epoch."""

    exec_time: float
    ready_time: float
    first_query_time: float


class Server(Mysqld):
    """One start of a server on a data directory, as a context manager.

    Temporary files go to `tmp` beside the data directory, so to the same volume. The binary log is on, as it is by default.
    Leaving the context kills the server if it still runs. `startup` starts it and waits until
    it answers. Errors (a server that dies, a time-out) quote the log.
    """

    poll_sec = 0.005

    def __init__(
        self,
        layout: Layout,
        binary: Binary,
        datadir: Path,
        options: Sequence[str],
        log: Path,
        procs: Sequence[Path] = (),
    ) -> None:
        self.binary = binary
        self.datadir = datadir
        self.tmpdir = datadir.parent / "tmp"
        own = [f"--tmpdir={self.tmpdir}", "--skip-networking", "--log-bin=binlog", "--server-id=1"]
        if binary.flavour == "mysql":
            own += ["--log-timestamps=UTC", "--log-error-verbosity=3", "--secure-file-priv=NULL", "--loose-mysqlx=OFF"]
        else:
            # What MySQL has by default.
            own += ["--binlog-format=ROW", "--sync-binlog=1"]
        super().__init__("the server", [str(binary.path), "--no-defaults"], datadir, log, [*own, *binary.options, *options])
        self.command = self.words
        """The command line, as the JSON shows it."""
        self.words = launch_command(binary, self.command[1:], [layout.base, self.run], procs)
        self.lines: list[logs.LogLine] = []
        self._log_offset = 0
        self._log_rest = b""
        self._ready: logs.LogLine | None = None
        self._first_answer = 0.0
        self.sampler: Sampler | None = None
        self.environment: dict[str, str] = {}
        """Variables that it is started with beside those of the bench."""

    @property
    def pid(self) -> int:
        """Process id of the running server; ToolError if it has ended."""
        if self.process.returncode is not None:
            raise ToolError("the server is not running")
        return self.process.pid

    def startup(self, timeout_sec: float, device: Device | None = None) -> StartTimes:
        """Starts the server and waits for its first answer.

        Samples the I/O of `device` and of the server from exec to that answer.
        """
        tools.need("setpriv", "unshare")
        self.log.unlink(missing_ok=True)
        self.tmpdir.mkdir(exist_ok=True)
        exec_time = time.time()
        self.launch(environment=self.environment)
        self.sampler = Sampler(device, self.pid)
        self.sampler.start()
        try:
            self.await_ready(timeout_sec)
        finally:
            self.sampler.stop()
        assert self._ready
        return StartTimes(exec_time, self._ready.time, self._first_answer)

    def is_ready(self) -> bool:
        """Whether it has said so, and answers; notes when."""
        self._ready = self._ready or next(filter(logs.is_ready, self._read_log()), None)
        if self._ready is None:
            return False
        try:
            with self.connect(timeout_sec=mysqld.READY_TIMEOUT_SEC) as connection, connection.cursor() as cursor:
                cursor.execute("SELECT 1")
        except pymysql.Error:
            return False
        self._first_answer = time.time()
        return True

    def _read_log(self) -> list[logs.LogLine]:
        try:
            with open(self.log, "rb") as file:
                file.seek(self._log_offset)
                data = file.read()
        except FileNotFoundError:
            return []
        self._log_offset += len(data)
        now = time.time()
        *complete, self._log_rest = (self._log_rest + data).split(b"\n")
        parsed = [logs.parse_line(raw.decode("utf-8", "replace"), now) for raw in complete]
        new = [line for line in parsed if line is not None]
        self.lines += new
        return new

    def errors(self) -> str:
        """What it has said of errors, or its last lines; and what it has said besides."""
        self._read_log()
        said = logs.last(logs.errors(self.lines)) or logs.last([line.text for line in self.lines])
        return " | ".join(said + logs.last(self.output().strip().splitlines())) or f"it said nothing (log {self.log})"

    def read_log(self) -> list[logs.LogLine]:
        """All lines of the error log so far."""
        self._read_log()
        return self.lines

    def io_between(self, begin: float, end: float) -> Counters:
        """I/O of the start between two times."""
        if self.sampler is None:
            return Counters()
        return self.sampler.between(begin, end)

    def connect(self, database: str | None = None, timeout_sec: float | None = None) -> Connection[Any]:
        """A connection as root, autocommit on; an answer that takes longer than a time-out is an error."""
        return mysqld.connect(self.socket, CLIENT.MULTI_STATEMENTS, database, timeout_sec)

    def status(self) -> dict[str, str]:
        """The status variables that the bench keeps."""
        rows = self.query("SHOW GLOBAL STATUS LIKE 'Innodb%'")
        return {name: str(value) for name, value in rows if name.startswith(STATUS_PREFIXES)}

    def peak_memory_kib(self) -> int | None:
        """Peak resident memory so far (VmHWM), in KiB."""
        try:
            text = Path(f"/proc/{self.pid}/status").read_text(encoding="ascii")
        except OSError:
            return None
        for line in text.splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1])
        return None

    def cpu_sec(self) -> float:
        """Processor time that the server has used so far, in all its threads."""
        return process_cpu_sec(self.pid)

    def shutdown(self) -> None:
        """Stops the server cleanly, unless it was killed; an error if that takes over 10 minutes or fails."""
        if not self.is_killed and (code := self.end(STOP_TIMEOUT_SEC)):
            raise ToolError(f"the server ended with {code}: {self.errors()}")


def process_cpu_sec(pid: int) -> float:
    """Processor time of a process, to the kernel's tick."""
    text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    user, system = text.rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def initialize(layout: Layout, binary: Binary, datadir: Path, log: Path) -> None:
    """Makes an empty data directory whose root user has no password."""
    log.unlink(missing_ok=True)
    words = launch_command(binary, ["--no-defaults", *binary.options], [layout.base], ())
    if binary.flavour == "mariadb":
        (datadir / "mysql").mkdir(parents=True)
        mysqld.initialise(str(binary.path), words, datadir, log, how="--bootstrap", script=_mariadb_script())
    else:
        mysqld.initialise(str(binary.path), words, datadir, log)


def _mariadb_script() -> str:
    """The statements that make MariaDB's system tables, as mariadb-install-db sends them."""
    names = ("mysql_system_tables.sql", "mysql_performance_tables.sql", "mysql_system_tables_data.sql")
    texts = [
        "CREATE DATABASE IF NOT EXISTS mysql;\nUSE mysql;\n",
        "SET @skip_auth_anonymous=1;\nSET @auth_root_socket=NULL;\n",
    ]
    for name in names:
        path = MARIADB_SHARE / name
        if not path.exists():
            raise Unavailable(f"{path} is missing; apt-get install mariadb-server-core")
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        texts.append("".join(line for line in lines if "@current_hostname" not in line))
    return "".join(texts)
