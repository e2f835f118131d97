# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""One server that a tool starts, watches, asks and ends.

A tool that needs more derives from Mysqld.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pymysql
from pymysql.connections import Connection
from pymysql.constants import ER

from redstart_cli.console import RedstartError
from redstart_cli.process import tied

# A server that repeats a failing read writes some 50 MB of error log a second.
MAX_LOG_BYTES = 8 << 20
# What a server that is up may say to root: it has a password, is known by its user of the system, by a plugin that is not
# there, has to change its password, is locked; or there are too many clients.
REFUSALS = [(ER.ACCESS_DENIED_ERROR,), (1698,), (1524,), (1862,), (3118,), (ER.CON_COUNT_ERROR,)]
LOG_LINES_SHOWN = 12
# Of the folder of a server that is given none.
RUN_PREFIX = "redstart-mysqld-"
FREEZE_TIMEOUT_SEC, WRITE_SEC = 30.0, 0.05
# For the answer of a server that listens; one that does not answer then is asked again.
READY_TIMEOUT_SEC = 10.0


class ServerError(RedstartError):
    """A server has not done what it has to; the message has the end of what it said."""


class NotReadyError(ServerError):
    """A server has neither started nor ended in time; it was killed."""


class NotStoppedError(ServerError):
    """A server has not ended in time; it was killed."""


@dataclass
class Binary:
    """A mysqld and how it is called."""

    name: str
    command: list[str]
    options: list[str] = field(default_factory=list)
    # What the command is called by, but for making a data directory: env with variables, for one.
    prefix: list[str] = field(default_factory=list)

    @property
    def words(self) -> list[str]:
        """What options follow."""
        return [*self.prefix, *self.command]


def find_stock(root: Path) -> Binary | None:
    """The stock server below a root directory, run by its own loader."""
    mysqld = root / "usr/sbin/mysqld"
    loader = next(root.glob("usr/lib/*-linux-gnu/ld-linux*.so.[12]"), None)
    if not mysqld.exists() or loader is None:
        return None
    library = loader.parent
    paths = [library, root / "lib" / library.name, library / "mysql/private", root / "usr/lib/mysql/private"]
    # This build has no X plugin, stock has, with a port of its own.
    return Binary("stock", [str(loader), "--library-path", ":".join(map(str, paths)), str(mysqld)],
                  ["--mysqlx=OFF", f"--lc-messages-dir={root}/usr/share/mysql", f"--basedir={root}/usr",
                   f"--plugin-dir={root}/usr/lib/mysql/plugin"])  # fmt: skip


def connect(
    socket: Path, client_flag: int = 0, database: str | None = None, timeout_sec: float | None = None
) -> Connection[Any]:
    """A connection as root, autocommit on; a read or write that takes longer than a time-out is an error."""
    return pymysql.connect(
        unix_socket=str(socket), user="root", database=database, autocommit=True, client_flag=client_flag, ssl_disabled=True,
        read_timeout=timeout_sec, write_timeout=timeout_sec,
    )  # fmt: skip


def as_root(words: Sequence[str] = ()) -> list[str]:
    """What mysqld wants to be told before it runs as root, unless `words` say as whom it is to run."""
    return ["--user=root"] if os.geteuid() == 0 and not any(word.startswith("--user") for word in words) else []


def last_errors(text: str) -> str:
    """The errors in a part of an error log, or its last lines."""
    lines = text.splitlines()
    wanted = [line for line in lines if "[ERROR]" in line or "Assertion" in line] or lines
    return " | ".join(wanted[-LOG_LINES_SHOWN:])


def initialise(
    name: str,
    words: Sequence[str],
    data: Path,
    log: Path,
    timeout_sec: float | None = None,
    how: str = "--initialize-insecure",
    script: str = "",
) -> None:
    """Make a data directory whose root user has no password; `words` are the server and its first options.

    The server is told `how`, and given a script. ServerError, with what it said, if that fails.
    """
    begin = log.stat().st_size if log.exists() else 0
    command = tied([*words, *as_root(words), how, f"--datadir={data}", f"--log-error={log}"], "KILL")
    try:
        done = subprocess.run(command, input=script, capture_output=True, text=True, errors="replace", timeout=timeout_sec)
        problem = f"ended with {done.returncode}: {last_errors(_read(log, begin))} {done.stderr.strip()}" if done.returncode else ""
    except subprocess.TimeoutExpired:
        problem = f"did not end within {timeout_sec} s: {last_errors(_read(log, begin))}"
    if problem:
        raise ServerError(f"{name} could not make a data directory: it {problem}")


def _read(log: Path, begin: int) -> str:
    try:
        with log.open(errors="replace") as file:
            file.seek(begin)
            return file.read(MAX_LOG_BYTES)
    except FileNotFoundError:
        return ""


class Mysqld:
    """A server on a data directory, by default not running."""

    # Whether it dies with the thread that has started it.
    is_tied = True

    # How often it is looked at while it starts.
    poll_sec = 0.05
    # Whether the tool has killed it since its last start, or has let it be killed.
    is_killed = False
    _process: subprocess.Popen[bytes] | None = None
    # Of a folder of its own.
    _remove_run: Callable[[], object] | None = None
    _log_begin = 0
    begin = 0.0

    def __init__(
        self, name: str, words: Sequence[str], data: Path, log: Path, options: Sequence[str], run: Path | None = None,
        socket: Path | None = None,
    ) -> None:  # fmt: skip
        """`words` are the server and its first options.

        Its socket is in `run`, unless `socket` says where; without `run` in a folder of its own, with a short path, which goes with
        the block that uses it, or with this object.
        """
        self.name, self.log = name, log
        if run is None:
            run = Path(tempfile.mkdtemp(prefix=RUN_PREFIX))
            self._remove_run = weakref.finalize(self, shutil.rmtree, run, ignore_errors=True)
        self.run, self.socket, self._output = run, socket or run / "s", run / "output"
        files = [f"--datadir={data}", f"--socket={self.socket}", f"--pid-file={run}/pid", f"--log-error={log}"]
        self.words = [*words, *files, *as_root(options), *options]

    # Starting

    def launch(self, *options: str, environment: Mapping[str, str] | None = None) -> None:
        """Start it with these options more, and with these variables in its environment."""
        if self.is_running:
            raise ServerError(f"{self.name} runs already")
        if shutil.which(self.words[0]) is None:
            raise FileNotFoundError(f"there is no program {self.words[0]}")
        if environment and "=" in self.words[0]:
            raise ServerError(f"{self.words[0]} cannot be given variables: env would take it for one")
        self.is_killed = False
        variables = ["env", *(f"{name}={value}" for name, value in environment.items())] if environment else []
        command = [*variables, *self.words, *options]
        self._log_begin = self.log.stat().st_size if self.log.exists() else 0
        with self._output.open("wb") as output:
            self.begin = time.monotonic()
            # In a session of its own: Ctrl-C is for the tool, which ends it.
            self._process = subprocess.Popen(
                tied(command, "KILL") if self.is_tied else command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def is_ready(self) -> bool:
        """Whether it answers."""
        try:
            connect(self.socket, timeout_sec=READY_TIMEOUT_SEC).close()
        except (pymysql.err.MySQLError, OSError) as error:
            return error.args[:1] in REFUSALS
        return True

    def await_ready(self, timeout_sec: float) -> None:
        """Wait until it is ready; ServerError if it ends before, NotReadyError if it has not so long after its start."""
        while True:
            has_ended = not self.is_running
            if self.is_ready():
                return
            if has_ended:
                raise ServerError(f"{self.name} ended with {self.process.returncode} at its start: {self.errors()}")
            if time.monotonic() > self.begin + timeout_sec and not self.may_take_longer():
                problem = f"{self.name} did not start within {timeout_sec} s: {self.errors()}; see {self.log}"
                self.kill()
                raise NotReadyError(problem)
            time.sleep(self.poll_sec)

    def may_take_longer(self) -> bool:
        """Whether a start whose time is up is waited for still."""
        return False

    # Watching

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The process of the last start."""
        if self._process is None:
            raise ServerError(f"{self.name} was not started")
        return self._process

    @property
    def is_running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    def output(self) -> str:
        """What it has said elsewhere than in its error log: before that was open, for one."""
        return _read(self._output, 0)

    def said(self) -> str:
        """What it has written to its error log since its last start, at most MAX_LOG_BYTES."""
        return _read(self.log, self._log_begin)

    def errors(self) -> str:
        """What it has said of errors, or its last lines; and what it has said besides."""
        said = filter(None, map(last_errors, (self.said(), self.output())))
        return " | ".join(said) or f"it said nothing (log {self.log})"

    # Asking

    def connect(self) -> Connection[Any]:
        """A connection as root, autocommit on."""
        return connect(self.socket)

    def query(self, *statements: str) -> list[tuple[Any, ...]]:
        """Run statements in a connection of their own; the rows of the last one."""
        with self.connect() as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            return list(cursor.fetchall())

    def client_words(self, program: str | Path, *options: str) -> list[str]:
        """How the mysql client is called on it."""
        return [str(program), "--no-defaults", "--user=root", f"--socket={self.socket}", *options]

    # Ending

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.kill()
        if self._remove_run:
            self._remove_run()

    def end(self, timeout_sec: float) -> int:
        """A clean shutdown, if it runs; its exit status. NotStoppedError if it takes longer."""
        self.process.terminate()
        try:
            return self.process.wait(timeout_sec)
        except subprocess.TimeoutExpired as error:
            raise NotStoppedError(f"{self.name} did not stop within {timeout_sec} s: {self.errors()}") from error
        finally:
            self.kill()

    def kill(self) -> None:
        """Kill it, if it runs."""
        self.is_killed = self.is_killed or self.is_running
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """Its threads stand still: a copy of its files holds what SIGKILL would leave. ServerError if they do not, or it ends."""
        self.process.send_signal(signal.SIGSTOP)
        try:
            end = time.monotonic() + FREEZE_TIMEOUT_SEC
            while not self._stands_still():
                if time.monotonic() > end:
                    raise ServerError(f"{self.name} did not stand still within {FREEZE_TIMEOUT_SEC} s")
                time.sleep(0.002)
            if not self.is_running:
                raise ServerError(f"{self.name} has ended with {self.process.returncode}: {self.errors()}")
            # For what it has told the kernel to write.
            time.sleep(WRITE_SEC)
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def _stands_still(self) -> bool:
        """Whether each of its threads is stopped, or has ended."""
        for path in Path(f"/proc/{self.process.pid}/task").glob("*/stat"):
            # Without one it has ended meanwhile.
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                if path.read_text(encoding="ascii").rpartition(") ")[2][0] not in "TtZX":
                    return False
        return True
