# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""A server on a data directory of its own, for tests."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

START_LIMIT_SEC = 120


def given(name: str) -> str:
    """What an environment variable names; without it there is nothing to test, which is an error."""
    value = os.environ.get(name, "")
    if not value:
        raise RuntimeError(f"{name} is not set; ./redstart test sets what these tests need")
    return value


class Server:
    """One server, by default not running."""

    def __init__(self, folder: Path, command: Sequence[str], client: str, *options: str) -> None:
        """`command` begins the command line of mysqld, `options` are for each start."""
        self.folder = folder
        self.log = folder / "error.log"
        self.process: subprocess.Popen[bytes] | None = None
        # Of TCP, if it listens there.
        self.port = 0
        self._client = [client, "--no-defaults", "--user=root", f"--socket={folder}/s"]
        folder.mkdir(exist_ok=True)
        # With --no-defaults what was persisted is not read.
        (folder / "my.cnf").touch()
        self._command = [*command, f"--defaults-file={folder}/my.cnf", f"--datadir={folder}/data"]
        self._command += [f"--log-error={self.log}", f"--pid-file={folder}/pid", "--secure-file-priv=NULL"]
        if os.geteuid() == 0:
            self._command.append("--user=root")
        self._options = [f"--socket={folder}/s", *options]

    def add_options(self, *options: str) -> None:
        """Options for each start from now on."""
        self._options += options

    def initialize(self) -> None:
        """Make the data directory; root has no password."""
        result = subprocess.run([*self._command, "--initialize-insecure"], capture_output=True, text=True)
        assert result.returncode == 0, result.stderr + self.tail()

    def start(self, *options: str) -> None:
        """Start, and wait until it answers."""
        assert self.process is None
        self.process = subprocess.Popen([*self._command, *self._options, *options])
        self.await_answer()

    def await_answer(self) -> None:
        """Wait until it answers."""
        assert self.process is not None
        end = time.monotonic() + START_LIMIT_SEC
        while self.client("SELECT 1").returncode != 0:
            assert self.process.poll() is None and time.monotonic() < end, self.tail()
            time.sleep(0.1)

    def stop(self) -> None:
        """Shut down, if it runs."""
        if self.process:
            self.process.terminate()
            self.wait_for_end()

    def wait_for_end(self) -> None:
        """It is about to end without an error."""
        assert self.process is not None
        assert self.process.wait(START_LIMIT_SEC) == 0, self.tail()
        self.process = None

    def kill(self) -> None:
        """As if the machine had lost its power, if it runs."""
        if self.process:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
            self.process = None

    def tail(self) -> str:
        """The end of its error log."""
        return self.log.read_text(errors="replace")[-3000:] if self.log.exists() else ""

    def client(self, sql: str) -> subprocess.CompletedProcess[str]:
        """Run statements; what came out is without column names."""
        command = [*self._client, "--batch", "--skip-column-names", "--execute", sql]
        return subprocess.run(command, capture_output=True, text=True)

    def ask(self, sql: str) -> list[list[str]]:
        """The rows that statements give, which must succeed."""
        result = self.client(sql)
        assert result.returncode == 0, f"{sql}: {result.stderr}{self.tail()}"
        return [line.split("\t") for line in result.stdout.splitlines()]
