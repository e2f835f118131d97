# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Servers that the differential test starts, kills and asks."""

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

import click

from redstart_cli import keyring, mysqld
from redstart_cli.mounts import Mounts, with_mounts
from redstart_cli.mysqld import MAX_LOG_BYTES, Binary, Mysqld, NotReadyError, ServerError
from redstart_cli.process import tied

START_TIMEOUT_SEC = 180
STOP_TIMEOUT_SEC = 180
INITIALISE_TIMEOUT_SEC = 300
POOL_TIMEOUT_SEC = 20
# A server that has not answered a question is hardly going to stop.
STUCK_STOP_TIMEOUT_SEC = 15
# For all questions, or all statements, at a time: several servers run at once, and the machine may be slow.
QUERY_TIMEOUT_SEC = 300
NO_ANSWER = "no answer"

# Pages are not flushed by the clock, so that what a kill leaves follows from the statements.
COMMON = [
    "--no-defaults", "--skip-networking", "--secure-file-priv=", "--innodb-buffer-pool-size=32M",
    "--innodb-redo-log-capacity=16M", "--innodb-stats-auto-recalc=OFF", "--innodb-doublewrite-pages=8",
    "--innodb-max-dirty-pages-pct=99", "--innodb-max-dirty-pages-pct-lwm=0", "--innodb-adaptive-flushing=OFF",
    "--innodb-idle-flush-pct=0", "--performance-schema=OFF", "--log-error-verbosity=3", "--general-log=OFF",
    "--event-scheduler=OFF", "--lock-wait-timeout=1", "--innodb-lock-wait-timeout=1",
]
# What of the log depends on time, process, the order of threads, or where edits move a line of the source.
NOISE = re.compile(r"^\S+ \d+ ")
THREAD = re.compile(r"Thread# \d+ - |(?<=Assertion failure: )\S+:\d+ thread \d+|(?<=\.cc):\d+(?=:)|(?<= thread )\d+$"
                    r"|(?<=OS thread handle )\d+|(?<=query id )\d+"
                    # MySQL says so at most once in ten seconds: of which tablespace is up to the order of its threads.
                    r"|(?<=\[MY-012111\] \[InnoDB\] Trying to access missing tablespace )\d+")
# After this MySQL reports an error number, which is what some call before has left: the page was read without error.
ZERO_PAGE = "[MY-012224] [InnoDB] Header page consists of zero bytes"
ERROR_NUMBER = tuple(f"[MY-{number:06}]" for number in range(12592, 12598))
# Which pages of a missing file the doublewrite files hold depends on the order in which pages were flushed.
BY_CHANCE = "[MY-013541]"
# The client says where in its input an error was.
AT_LINE = re.compile(r" at line \d+(?=: )")


def stock_below(context: click.Context, parameter: click.Parameter, root: Path) -> Binary:
    """The stock server below the root directory that an option names."""
    found = mysqld.find_stock(root.resolve())
    if found is None:
        raise click.BadParameter(f"there is no stock server below {root}")
    return found


def without_old_errors(lines: list[str]) -> list[str]:
    """The lines of a log without the error numbers that MySQL reports of a page of zeros."""
    kept: list[str] = []
    # Threads that have said so last; a line begins with the time and the number of the thread.
    after: set[str] = set()
    for line in lines:
        thread = line.partition(" ")[2].partition(" ")[0]
        if thread in after and any(code in line for code in ERROR_NUMBER):
            continue
        after.discard(thread)
        if ZERO_PAGE in line:
            after.add(thread)
        kept.append(line)
    return kept


def with_keys(binary: Binary, folder: Path) -> Binary:
    """The same server with a keyring, which is configured in each data directory; ServerError without the component."""
    keyed = keyring.with_keyring(binary, folder)
    if keyed is None:
        raise ServerError(f"{keyring.COMPONENT} is not built: ./redstart test binlog builds it")
    return keyed


def configure_keyring(home: Path) -> None:
    """Say where the keys of a data directory are: beside it, where they change no directory that a map knows."""
    keyring.write_keyring(home / "data", home / "keyring")


def check_client(client: subprocess.Popen[str], said: str = "") -> None:
    """ServerError if the client that has ended could not be run: no answers would be the same for all servers."""
    if client.returncode in (126, 127):
        raise ServerError(f"the client cannot be run: {said}")


class Server(Mysqld):
    """One run of a server on a data directory."""

    def __init__(self, binary: Binary, home: Path, client: Path, options: list[str], mounts: Mounts = ()):
        self.binary, self.home = binary, home
        self.is_stuck = False
        self._is_flooded = False
        words = with_mounts([*binary.words, *COMMON, *binary.options], mounts)
        super().__init__(binary.name, words, home / "data", home / "error.log", [f"--tmpdir={home}/tmp", *options], home)
        # Without --commands it takes \! for an error, and what follows is run under the locks of FLUSH TABLES.
        self._client = self.client_words(client, "-N", "-B", "-f", "--default-character-set=utf8mb4", "--commands",
                                         "--system-command")
        self.log.unlink(missing_ok=True)
        self.launch()

    def is_ready(self) -> bool:
        """Whether it answers, or has until it died; or whether it fills its log without end."""
        return "ready for connections" in self.said() or (self.is_running and self._stop_flood())

    def wait_ready(self) -> bool:
        """True if it answers, or has until it died; False if it has refused to start."""
        try:
            self.await_ready(START_TIMEOUT_SEC)
        except NotReadyError:
            raise
        except ServerError:
            return False
        return not self._is_flooded

    def wait_for_pool(self) -> None:
        """Wait until the buffer pool is loaded: a view shows more of a file that has been opened.

        A server that cannot load it, or does not answer, is not waited for.
        """
        end = time.monotonic() + POOL_TIMEOUT_SEC
        while time.monotonic() < end and self.is_running:
            answer = self.sql("SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_load_status'")
            if "completed" in answer or "Cannot" in answer or "ERROR" in answer or answer == NO_ANSWER:
                return
            time.sleep(0.05)

    def _stop_flood(self) -> bool:
        """Kill it if it fills its log without end; true if it does."""
        if not self._is_flooded and self.log.exists() and self.log.stat().st_size > MAX_LOG_BYTES:
            self._is_flooded = True
            self.kill()
        return self._is_flooded

    def has_read_too_little(self) -> bool:
        """True if a read ended before its last byte."""
        return self._is_flooded or "bytes should have been read. Only" in self.said()

    def check_end(self) -> None:
        """RuntimeError if somebody else has killed it, as the kernel does when there is no memory."""
        if self.process.returncode == -signal.SIGKILL and not self.is_killed:
            raise RuntimeError(f"{self.binary.name} was killed, but not by this test")

    def messages(self) -> list[str]:
        """Warnings and errors, without what differs from run to run."""
        found = set()
        for line in without_old_errors(self.said().splitlines()):
            if ("[Warning]" in line or "[ERROR]" in line) and BY_CHANCE not in line:
                found.add(THREAD.sub("", NOISE.sub("", line)).strip())
        return sorted(found)

    def sql(self, text: str) -> str:
        """Run statements; an error becomes a line of the answer, and so does waiting in vain."""
        try:
            return self._sql(text)
        except subprocess.TimeoutExpired:
            self.is_stuck = True
            return NO_ANSWER

    def _sql(self, text: str) -> str:
        stdout, stderr = self._talk(self._client, text, subprocess.PIPE)
        errors = [line for line in stderr.splitlines() if line.startswith("ERROR")]
        if bad := [line for line in errors if "Unknown command" in line or line.startswith("ERROR 1064")]:
            raise RuntimeError(f"the test itself is wrong: {bad[0]}")
        return stdout + "".join(line + "\n" for line in errors)

    def _talk(self, command: list[str], text: str, stderr: int) -> tuple[str, str]:
        """What a client prints; subprocess.TimeoutExpired if it does not end in time."""
        end = time.monotonic() + QUERY_TIMEOUT_SEC
        # Not by a pipe: communicate() sends no more after a timeout.
        with tempfile.TemporaryFile("w+", encoding="utf-8") as file:
            file.write(text)
            file.seek(0)
            client = subprocess.Popen(tied(command, "KILL"), text=True, stdin=file, stdout=subprocess.PIPE, stderr=stderr,
                                      errors="replace")
        with client:
            while True:
                try:
                    out, err = client.communicate(timeout=1)
                    break
                except subprocess.TimeoutExpired:
                    if self._stop_flood() or time.monotonic() < end:
                        continue
                    client.kill()
                    raise
        check_client(client, err or out)
        return out, err or ""

    def ask(self, queries: list[str]) -> list[str]:
        """The answers to several queries, errors among them."""
        text = "".join(f"SELECT '@@@{number}';\n{query};\n" for number, query in enumerate(queries))
        try:
            stdout, _ = self._talk([*self._client, "-n"], text, subprocess.STDOUT)
        except subprocess.TimeoutExpired:
            self.is_stuck = True
            return [NO_ANSWER] * len(queries)
        answers = [""] * len(queries)
        number = -1
        for line in stdout.splitlines():
            if line.startswith("@@@"):
                number = int(line[3:])
            elif number >= 0:
                answers[number] += AT_LINE.sub("", line) + "\n"
        return answers

    def start_sql(self, text: str) -> subprocess.Popen[str]:
        """Run statements in the background."""
        process = subprocess.Popen(tied(self._client, "KILL"), text=True, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        assert process.stdin is not None
        try:
            process.stdin.write(text)
            process.stdin.close()
        except BrokenPipeError:
            pass
        return process

    def sql_at_once(self, texts: list[str]) -> None:
        """Run statements by several clients at a time."""
        clients = [self.start_sql(text) for text in texts]
        for client in clients:
            try:
                client.wait(QUERY_TIMEOUT_SEC)
                check_client(client)
            except subprocess.TimeoutExpired:
                self.is_stuck = True
                client.kill()
                client.wait()

    def stop(self) -> None:
        """Shut down, if it runs."""
        self.end(STUCK_STOP_TIMEOUT_SEC if self.is_stuck else STOP_TIMEOUT_SEC)


def initialise(binary: Binary, home: Path, options: Iterable[str] = ()) -> None:
    """Make an empty data directory."""
    shutil.rmtree(home, ignore_errors=True)
    (home / "tmp").mkdir(parents=True)
    words = [*binary.command, *COMMON, *binary.options, *options, "--skip-log-bin", f"--tmpdir={home}/tmp"]
    mysqld.initialise(binary.name, words, home / "data", home / "init.log", INITIALISE_TIMEOUT_SEC)


def copy(source: Path, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    subprocess.run(["cp", "-a", "--sparse=always", "--reflink=auto", str(source), str(target)], check=True)


def has_strace() -> bool:
    return shutil.which("strace") is not None and os.geteuid() == 0
