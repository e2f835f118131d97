# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""A server of these tests, played by a script, that is not stopped, or says something besides its log."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dropin.server import Server
from redstart_cli.mysqld import ServerError

SERVER = """
import signal, sys, time
given = dict(word.lstrip("-").partition("=")[::2] for word in sys.argv[1:])
print("besides the log", file=sys.stderr, flush=True)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(int(given.get("status", 0))))
with open(given["log-error"], "a") as log:
    log.write("T 0 [Note] in the log\\nready\\n")
if "refuse" in given:
    sys.exit(1)
while "end" not in given:
    time.sleep(0.01)
"""


class Played(Server):
    """A script in the place of mysqld."""

    def is_ready(self) -> bool:
        return "refuse" not in " ".join(self.words) and "ready\n" in self.said()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Played]:
    script = tmp_path / "server.py"
    script.write_text(SERVER)
    with Played(tmp_path / "f", [sys.executable, str(script)], "none") as made:
        yield made


def test_a_start_after_each_end(server: Played) -> None:
    server.stop()
    server.start()
    server.stop()
    server.start()
    server.kill()
    server.stop()
    server.start("--end")
    server.wait_for_end()
    server.stop()
    server.start()
    with pytest.raises(AssertionError, match="it runs, or has ended by itself"):
        server.start()


def test_a_server_that_has_ended_by_itself_is_noticed(server: Played) -> None:
    server.start("--end")
    server.process.wait()
    with pytest.raises(AssertionError, match="has ended by itself: T 0"):
        server.start()


def test_what_it_has_said_is_shown(server: Played) -> None:
    server.start("--status=3")
    with pytest.raises(AssertionError, match=r"it ended with 3: T 0 \[Note\] in the log\nready\nbesides the log"):
        server.stop()
    server.add_options("--refuse")
    with pytest.raises(ServerError, match="ended with 1 at its start: .* in the log .*besides the log"):
        server.start()
