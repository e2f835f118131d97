# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The entry point and the health check of the image without a container, with the built programs (REDSTART_CLIENTS)."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

import pytest

from dropin.server import given
from redstart_cli.mysqld import Mysqld, ServerError
from redstart_cli.process import tied

DOCKER = Path(__file__).resolve().parents[2] / "Docker"
PROGRAMS = Path(given("REDSTART_CLIENTS"))
NO_ZONES = {"MYSQL_INITDB_SKIP_TZINFO": "1"}
# It ends a hang.
LIMIT_SEC = 600


class EntryPoint(Mysqld):
    """The entry point, which becomes a server; by default not running. Its folder goes with the block that uses it."""

    poll_sec = 0.1

    def __init__(self) -> None:
        # A short path, for sockets.
        self._folder = tempfile.TemporaryDirectory(prefix="redstart-image.")
        self.work = Path(self._folder.name)
        super().__init__("the entry point", [], self.work / "none", self.work / "none", (), self.work)
        self.data, self.init, self.start_scripts, self.run = (self.work / name for name in ("data", "init", "start", "run"))
        for folder in (self.data, self.init, self.start_scripts, self.run):
            folder.mkdir(mode=0o700)
        self.socket = self.run / "mysqld.sock"
        # In front of each command: who runs it, and what that user sees.
        self.prefix: list[str] = []
        self.docker = DOCKER
        self.environment = {
            "PATH": f"{DOCKER}:{PROGRAMS}:{os.environ['PATH']}",
            "REDSTART_DATADIR": str(self.data),
            "REDSTART_INITDB": str(self.init),
            "REDSTART_STARTDB": str(self.start_scripts),
            "REDSTART_RUN": str(self.run),
            "WORK": str(self.work),
        }
        # The last two make new databases faster.
        self.options = ["--no-defaults", f"--socket={self.socket}", "--skip-networking", "--innodb-flush-method=nosync",
                        "--innodb-redo-log-capacity=8M"]  # fmt: skip

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        super().__exit__(kind, error, trace)
        self._folder.cleanup()

    # Running

    def _command(self, program: str, *arguments: str, under: Sequence[str] = (), **variables: str) -> list[str]:
        pairs = [f"{name}={value}" for name, value in {**self.environment, **variables}.items()]
        command: list[str | Path] = [*under, "env", "-i", *pairs, self.docker / program, *arguments]
        # A new namespace unties a process.
        return [*self.prefix, *tied(command, "KILL")]

    def _begin(self, *options: str, under: Sequence[str] = (), **variables: str) -> None:
        self.words = self._command("entrypoint.sh", "mysqld", *self.options, *options, under=under, **variables)
        self.launch()

    def start(self, *options: str, under: Sequence[str] = (), **variables: str) -> None:
        """Start it with more options and variables, below other programs, and wait until it is healthy."""
        self._begin(*options, under=under, **variables)
        self.await_ready(LIMIT_SEC)

    def refusal(self, *options: str, under: Sequence[str] = (), **variables: str) -> str:
        """What it says; it has to end with an error."""
        self._begin(*options, under=under, **NO_ZONES, **variables)
        with pytest.raises(ServerError, match="ended with (?!0 )"):
            self.await_ready(LIMIT_SEC)
        return self.output()

    def ask(self, *arguments: str) -> str:
        """Standard output of the entry point with these arguments only, with which it has to end without an error."""
        done = subprocess.run(self._command("entrypoint.sh", *arguments), capture_output=True, text=True, timeout=LIMIT_SEC)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def stop(self) -> None:
        """Shut down; it has to run, and to end without an error."""
        assert self.is_running, self.errors()
        code = self.end(LIMIT_SEC)
        assert code == 0, f"it ended with {code}: {self.errors()}"

    def kill(self) -> None:
        """Kill it, if it runs, and what it has started."""
        if self.is_running:
            os.killpg(self.process.pid, signal.SIGKILL)
        super().kill()

    # Asking

    def health(self) -> tuple[int, str]:
        """Status and words of the health check."""
        done = subprocess.run(self._command("healthcheck.sh"), stdout=subprocess.PIPE, text=True, timeout=LIMIT_SEC)
        return done.returncode, done.stdout.strip()

    def is_ready(self) -> bool:
        """Whether it is healthy."""
        return self.health()[0] == 0

    def client(self, user: str, password: str, statements: str, *options: str) -> subprocess.CompletedProcess[str]:
        """The client, with more options."""
        words = ["--no-defaults", f"--socket={self.socket}", f"--user={user}", *options, "--batch", "--skip-column-names"]
        command = [str(PROGRAMS / "mysql"), *words, "--execute", statements]
        return subprocess.run(command, env=os.environ | {"MYSQL_PWD": password}, capture_output=True, text=True, timeout=LIMIT_SEC)

    def sql(self, user: str, password: str, statements: str, *options: str) -> str:
        """What statements give, which must succeed."""
        done = self.client(user, password, statements, *options)
        assert done.returncode == 0, f"{statements}: {done.stderr}{self.errors()}"
        return done.stdout.rstrip("\n")

    def denial(self, user: str, password: str, statements: str, *options: str) -> str:
        """What the client says of statements that must fail."""
        done = self.client(user, password, statements, *options)
        assert done.returncode != 0, f"{statements}: {done.stdout}"
        # That a password has expired is said on standard output.
        return done.stdout + done.stderr
