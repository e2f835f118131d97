# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The shutdown experiment: what the service manager hears, phases, and what makes a run wrong."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import click
import pytest
from click.testing import CliRunner

from bench import cli, load, notify
from bench.context import Context
from bench.experiments import shutdown
from bench.notify import Listener, Message
from bench.results import Run
from bench.server import Server
from bench.starts import new_run
from bench.tables import Tables
from redstart_cli import tools
from redstart_cli.tools import ToolError

MYSQL = [
    Message(99.0, "STATUS=Server is operational\n"),
    Message(100.0, "STOPPING=1\nSTATUS=Server shutdown in progress\n"),
    Message(100.5, "STATUS=Connection shutdown complete\n"),
    Message(101.0, "STATUS=Shutdown of plugins in progress\n"),
    Message(103.0, "STATUS=x\nEXTEND_TIMEOUT_USEC=310000000\n"),
    Message(104.0, "STATUS=Shutdown of plugins complete\n"),
    Message(104.5, "STATUS=Server shutdown complete (with return value = 0)\n"),
]


def _run(subject: str = "stock") -> Run:
    return new_run("shutdown", subject, shutdown.MODE, 1, {})


def test_phases_are_what_mysql_tells() -> None:
    run = _run()
    shutdown.add_messages(run, MYSQL, 100.0, 106.0)
    assert run.phases_s == {"connections": 0.5, "before the plugins": 0.5, "plugins": 3.0, "table cache": 0.5, "exit": 1.5}
    assert run.metrics == {"shutdown_s": 6.0, "longest_silence_s": 2.0, "messages": 6, "extensions": 1}
    assert run.ok


def test_mysql_that_tells_nothing_makes_a_run_wrong() -> None:
    run = _run()
    shutdown.add_messages(run, MYSQL[:1], 100.0, 106.0)
    assert run.metrics["longest_silence_s"] == 6.0
    assert run.problems
    other = _run("mariadb")
    shutdown.add_messages(other, [], 100.0, 106.0)
    assert other.ok
    assert other.phases_s == {}


def test_the_longest_silence_may_be_at_either_end() -> None:
    told = [Message(2.0, ""), Message(3.0, "")]
    assert notify.longest_silence(told, 0.0, 4.0) == 2.0
    assert notify.longest_silence(told, 1.5, 9.0) == 6.0
    assert notify.longest_silence([], 1.0, 4.0) == 3.0


def test_listener(tmp_path: Path) -> None:
    with Listener(tmp_path / "s") as listener:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as client:
            client.connect(str(listener.path))
            client.send(b"STATUS=one\n")
            client.send(b"EXTEND_TIMEOUT_USEC=1\n")
        tools.wait_until(lambda: len(listener.messages) == 2, 10, "not heard")
    assert not (tmp_path / "s").exists()
    assert notify.first(listener.messages, notify.ASKS) == listener.messages[1].time
    assert notify.first(listener.messages, "three") is None


def test_processor_time_of_a_child_that_has_ended() -> None:
    burn = "import time\nwhile time.process_time() < 0.3: pass"
    process = subprocess.Popen([sys.executable, "-c", burn])
    assert shutdown.await_end(process.pid, 60) >= 0.25
    # It can still be asked for its status.
    assert process.wait() == 0
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    with pytest.raises(ToolError, match="did not stop"):
        shutdown.await_end(process.pid, 0.1)
    process.kill()
    process.wait()


@pytest.mark.parametrize(("found", "is_ok"), [(999, False), (1000, True), (1019, True)])
def test_tables_that_are_not_open_make_a_run_wrong(found: int, is_ok: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def ask(server: Server, statements: Any, timeout_sec: float) -> None:
        asked.extend(statements)

    monkeypatch.setattr(load, "ask", ask)
    said: list[str] = []

    def query(*statements: str) -> list[tuple[str, str]]:
        said.extend(statements)
        return [("Open_tables", str(found))]

    server = cast(Server, SimpleNamespace(query=query, pid=os.getpid()))
    run, options = _run(), shutdown.Options(Tables(1000, 3), ())
    shutdown._open(cast(Context, SimpleNamespace(timeout_sec=1.0)), options, run, server)
    assert len(set(asked)) == 1000
    assert run.ok == is_ok
    assert run.metrics["open_files"] > 0
    assert f"SET GLOBAL table_open_cache = {shutdown.cache_size(1000)}" in said


def test_a_server_has_room_for_all_tables() -> None:
    """And the most that the command takes are no more than the variable does."""
    assert shutdown.cache_size(100_000) > 100_000
    assert shutdown.cache_size(_most_tables()) <= 524_288


def _most_tables() -> int:
    """Most tables that the command takes."""
    option = next(option for option in cli.shutdown_command.params if option.name == "tables")
    return cast(click.IntRange, option.type).max or 0


def test_subjects_are_checked() -> None:
    done = CliRunner().invoke(cli.main, ["shutdown", "--subjects", "light"])
    assert done.exit_code == 1
    assert "unknown subject 'light'" in done.output


def test_a_server_gets_its_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What `startup` launches, it launches with them."""
    given: list[object] = []

    def launch(server: Server, *options: str, environment: object = None) -> None:
        given.append(environment)
        raise ToolError("enough")

    monkeypatch.setattr(Server, "launch", launch)
    server = Server.__new__(Server)
    server.log, server.tmpdir, server.environment = tmp_path / "log", tmp_path / "tmp", {"NOTIFY_SOCKET": "x"}
    with pytest.raises(ToolError, match="enough"):
        server.startup(1)
    assert given == [{"NOTIFY_SOCKET": "x"}]
    assert os.path.isdir(tmp_path / "tmp")
