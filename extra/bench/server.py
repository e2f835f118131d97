# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Starts, watches, asks and ends one server.

A server dies with the bench (PR_SET_PDEATHSIG), and the mounts that a chroot needs live in a
mount namespace of the server's own, so that neither can be left behind.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pymysql
from pymysql.constants import CLIENT

from bench import logs, tools
from bench.diskstats import Counters, Device, Sampler
from bench.errors import BenchError, Unavailable
from bench.layout import Layout
from bench.subjects import Binary

POLL_SEC = 0.005
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
    head = ["setpriv", "--pdeathsig", "KILL"]
    groups = [*map(str, procs), "--"]
    server = [str(binary.path), *options]
    if binary.root is None:
        return [*head, "sh", "-c", _PLAIN, "sh", *groups, *server]
    unshare = ["unshare", "--mount", "--propagation", "private"]
    points = [str(path) for path in binds]
    root = str(binary.root)
    return [*head, *unshare, "sh", "-c", _CHROOT, "sh", *groups, root, *points, "--", *server]


@dataclass
class StartTimes:
    """When what happened, in seconds since the epoch."""

    exec_time: float
    ready_time: float
    first_query_time: float


class Server:
    """One start of a server on a data directory, as a context manager.

    Temporary files go to `tmp` beside the data directory, so to the same volume. The binary log is on, as it is by default.
    Leaving the context kills the server if it still runs. `startup` starts it and waits until
    it answers. Errors (a server that dies, a time-out) are BenchErrors that quote the log.
    """

    def __init__(
        self,
        layout: Layout,
        binary: Binary,
        datadir: Path,
        options: Sequence[str],
        log: Path,
        procs: Sequence[Path] = (),
    ) -> None:
        self._layout = layout
        self.binary = binary
        self.datadir = datadir
        self.tmpdir = datadir.parent / "tmp"
        self.log = log
        self._procs = procs
        self._run_dir = Path(tempfile.mkdtemp(prefix="redstart-bench-"))
        self.socket = self._run_dir / "s"
        self.options = self._common_options() + list(options)
        self._process: subprocess.Popen[bytes] | None = None
        self.lines: list[logs.LogLine] = []
        self._log_offset = 0
        self._log_rest = b""
        self.sampler: Sampler | None = None

    def _common_options(self) -> list[str]:
        options = [
            "--no-defaults",
            f"--datadir={self.datadir}",
            f"--socket={self.socket}",
            f"--pid-file={self._run_dir / 'pid'}",
            f"--log-error={self.log}",
            f"--tmpdir={self.tmpdir}",
            "--skip-networking",
            "--log-bin=binlog",
            "--server-id=1",
        ]
        if os.geteuid() == 0:
            options.insert(1, "--user=root")
        if self.binary.flavour == "mysql":
            options += [
                "--log-timestamps=UTC",
                "--log-error-verbosity=3",
                "--secure-file-priv=NULL",
                "--loose-mysqlx=OFF",
            ]
        else:
            # What MySQL has by default.
            options += ["--binlog-format=ROW", "--sync-binlog=1"]
        return options

    @property
    def command(self) -> list[str]:
        """The command line, as the JSON shows it."""
        return [str(self.binary.path), *self.options]

    @property
    def pid(self) -> int:
        """Process id of the running server."""
        if self._process is None:
            raise BenchError("the server is not running")
        return self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
        shutil.rmtree(self._run_dir, ignore_errors=True)

    def startup(self, timeout_sec: float, device: Device | None = None) -> StartTimes:
        """Starts the server and waits for its first answer.

        Samples the I/O of `device` and of the server from exec to that answer.
        """
        tools.need("setpriv", "unshare")
        self.log.unlink(missing_ok=True)
        self.tmpdir.mkdir(exist_ok=True)
        binds = [self._layout.base, self._run_dir]
        command = launch_command(self.binary, self.options, binds, self._procs)
        output = open(self._run_dir / "output", "wb")
        exec_time = time.time()
        with output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self.sampler = Sampler(device, self._process.pid)
        self.sampler.start()
        try:
            deadline = time.monotonic() + timeout_sec
            ready = self._wait_ready(deadline)
            first = self._wait_answer(deadline)
        finally:
            self.sampler.stop()
        return StartTimes(exec_time, ready.time, first)

    def _wait_ready(self, deadline: float) -> logs.LogLine:
        while True:
            dead = self._process is None or self._process.poll() is not None
            for line in self._read_log():
                if logs.is_ready(line):
                    return line
            if dead:
                raise BenchError(f"the server died while starting: {self._last_words()}")
            if time.monotonic() > deadline:
                raise BenchError(f"the server was not ready in time: {self._last_words()}")
            time.sleep(POLL_SEC)

    def _wait_answer(self, deadline: float) -> float:
        while True:
            try:
                self.query("SELECT 1")
                return time.time()
            except pymysql.Error as error:
                if self._process is None or self._process.poll() is not None:
                    raise BenchError(f"the server died: {self._last_words()}") from error
                if time.monotonic() > deadline:
                    raise BenchError(f"the server does not answer: {error}") from error
                time.sleep(POLL_SEC)

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

    def _last_words(self) -> str:
        self._read_log()
        said = logs.last(logs.errors(self.lines)) or logs.last([line.text for line in self.lines])
        output = logs.last((self._run_dir / "output").read_text(errors="replace").strip().splitlines())
        return " | ".join(said + output) or f"it said nothing (log {self.log})"

    def read_log(self) -> list[logs.LogLine]:
        """All lines of the error log so far."""
        self._read_log()
        return self.lines

    def io_between(self, begin: float, end: float) -> Counters:
        """I/O of the start between two times."""
        if self.sampler is None:
            return Counters()
        return self.sampler.between(begin, end)

    def connect(
        self, database: str | None = None, timeout_sec: float | None = None
    ) -> pymysql.connections.Connection[Any]:
        """A connection as root, autocommit on; an answer that takes longer than a time-out is an error."""
        return pymysql.connect(
            unix_socket=str(self.socket),
            user="root",
            database=database,
            autocommit=True,
            client_flag=CLIENT.MULTI_STATEMENTS,
            ssl_disabled=True,
            read_timeout=timeout_sec,
        )

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Runs one statement in a connection of its own."""
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())

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
        """Stops the server cleanly; BenchError if that takes over 10 minutes or fails."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            code = self._process.wait(STOP_TIMEOUT_SEC)
        except subprocess.TimeoutExpired as error:
            raise BenchError(f"the server did not stop: {self._last_words()}") from error
        self._process = None
        if code != 0:
            raise BenchError(f"the server ended with {code}: {self._last_words()}")

    def kill(self) -> None:
        """Kills the server (SIGKILL) and waits until it is gone."""
        if self._process is None:
            return
        self._process.kill()
        self._process.wait()
        self._process = None


def process_cpu_sec(pid: int) -> float:
    """Processor time of a process, to the kernel's tick."""
    text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    user, system = text.rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def initialize(layout: Layout, binary: Binary, datadir: Path, log: Path) -> None:
    """Makes an empty data directory whose root user has no password."""
    log.unlink(missing_ok=True)
    as_root = ["--user=root"] if os.geteuid() == 0 else []
    options = ["--no-defaults", *as_root, f"--datadir={datadir}", f"--log-error={log}"]
    script = ""
    if binary.flavour == "mariadb":
        (datadir / "mysql").mkdir(parents=True)
        options.append("--bootstrap")
        script = _mariadb_script()
    else:
        options.append("--initialize-insecure")
    command = launch_command(binary, options, [layout.base], ())
    done = subprocess.run(
        command, input=script, capture_output=True, text=True, errors="replace", check=False
    )
    if done.returncode != 0:
        said = log.read_text(errors="replace") if log.exists() else done.stderr
        tail = " | ".join(said.strip().splitlines()[-5:])
        raise BenchError(f"{binary.path} could not make a data directory: {tail}")


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
