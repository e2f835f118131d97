# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""A server on a data directory of its own, for tests."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from redstart_cli.mysqld import Mysqld, initialise

START_LIMIT_SEC = 120


def given(name: str) -> str:
    """What an environment variable names; without it there is nothing to test, which is an error."""
    value = os.environ.get(name, "")
    if not value:
        raise RuntimeError(f"{name} is not set; ./redstart test sets what these tests need")
    return value


class Server(Mysqld):
    """One server, by default not running."""

    poll_sec = 0.1
    # Whether it was started, and neither stopped nor killed since; it may have ended by itself.
    _is_up = False

    def __init__(self, folder: Path, command: Sequence[str], client: str, *options: str) -> None:
        """`command` begins the command line of mysqld, `options` are for each start."""
        self.folder = folder
        # Of TCP, if it listens there.
        self.port = 0
        folder.mkdir(exist_ok=True)
        # With --no-defaults what was persisted is not read.
        (folder / "my.cnf").touch()
        self._first = [*command, f"--defaults-file={folder}/my.cnf", "--secure-file-priv=NULL"]
        super().__init__("mysqld", self._first, folder / "data", folder / "error.log", options, folder)
        self._client = self.client_words(client, "--batch", "--skip-column-names", "--execute")

    def add_options(self, *options: str) -> None:
        """Options for each start from now on."""
        self.words += options

    def initialize(self) -> None:
        """Make the data directory; root has no password."""
        initialise(self.name, self._first, self.folder / "data", self.log)

    def start(self, *options: str) -> None:
        """Start, and wait until it answers; the server before has to have been stopped, killed or waited for."""
        assert not self._is_up, f"it runs, or has ended by itself: {self.tail()}"
        self.launch(*options)
        self._is_up = True
        self.await_ready(START_LIMIT_SEC)

    def stop(self) -> None:
        """Shut down, if it was started and not killed; one that has ended by itself has to have done so without an error."""
        if self._is_up:
            code = self.end(START_LIMIT_SEC)
            assert code == 0, f"it ended with {code}: {self.tail()}"

    def wait_for_end(self) -> None:
        """It is about to end without an error."""
        assert self.process.wait(START_LIMIT_SEC) == 0, self.tail()
        self._is_up = False

    def kill(self) -> None:
        """Kill it, if it runs."""
        super().kill()
        self._is_up = False

    def tail(self) -> str:
        """The end of its error log, and of what it has said besides."""
        log = self.log.read_text(errors="replace") if self.log.exists() else ""
        return log[-3000:] + self.output()[-3000:]

    def client(self, sql: str) -> subprocess.CompletedProcess[str]:
        """Run statements; what came out is without column names."""
        return subprocess.run([*self._client, sql], capture_output=True, text=True)

    def ask(self, sql: str) -> list[list[str]]:
        """The rows that statements give, which must succeed."""
        result = self.client(sql)
        assert result.returncode == 0, f"{sql}: {result.stderr}{self.tail()}"
        return [line.split("\t") for line in result.stdout.splitlines()]
