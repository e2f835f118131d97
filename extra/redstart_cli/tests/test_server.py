# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""up, down and sql with a fake mysqld that makes a data directory, listens and stops on SIGTERM."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from redstart_cli import server
from redstart_cli.console import RedstartError
from redstart_cli.layout import Layout
from redstart_cli.tests.conftest import write_program
from redstart_cli.tests.test_datadir import make_mysql

MYSQLD = f"""#!{sys.executable}
import os, signal, socket, struct, sys, time
options = dict(o[2:].partition("=")[::2] for o in sys.argv[1:])
data = options["datadir"]
log = open(options["log-error"], "a", buffering=1)
if "initialize-insecure" in options:
    open(data + "/half-made", "w")
    if os.environ.get("INIT_FAILS"):
        log.write("[ERROR] out of luck\\n")
        sys.exit(1)
    open(data + "/mysql.ibd", "wb").write(struct.pack(">III", 0, 0, 90704))
    open(data + "/ibdata1", "w")
    sys.exit()
log.write("2026-01-01T00:00:00Z 0 [System] [MY-013576] [InnoDB] InnoDB initialization has started.\\n")
if "unknown" in options:
    log.write("2026-01-01T00:00:00Z 0 [ERROR] [MY-000067] [Server] unknown variable 'unknown'.\\n")
    sys.exit(1)
signal.signal(signal.SIGTERM, lambda *_: sys.exit())
tcp = socket.create_server(("127.0.0.1", int(options["port"])))
local = socket.socket(socket.AF_UNIX)
if os.path.exists(options["socket"]):
    os.unlink(options["socket"])
local.bind(options["socket"])
open(data + "/arguments", "w").write("\\n".join(sys.argv[1:]))
log.write("2026-01-01T00:00:00Z 0 [System] [MY-010931] [Server] ready for connections.\\n")
local.listen()
while True:
    client = local.accept()[0]
    code = struct.pack("<H", int(os.environ.get("REFUSAL", 1045)))
    client.send(b"\\x16\\0\\0\\0\\xff" + code + b"#28000Access denied")
"""


@pytest.fixture
def clone(layout: Layout) -> Iterator[Layout]:
    """A clone with a built (fake) server; stops what a test leaves running."""
    write_program(layout.binary("release", "mysqld"), MYSQLD)
    write_program(layout.binary("release", "mysql"), '#!/bin/sh\necho "client $*"\n')
    yield layout
    server.down(layout)


def up(layout: Layout, datadir: Path | None = None, port: int | None = None, *options: str) -> server.Running:
    server.up(layout, "release", "9.7.4", datadir or layout.run, port, options)
    running = server.read_state(layout)
    assert running is not None
    return running


def test_up_initialises_starts_and_says_how_to_connect(clone: Layout, capsys: pytest.CaptureFixture[str]) -> None:
    running = up(clone)
    out = capsys.readouterr().out
    assert f"initialising {clone.run}" in out and "  ready for connections." in out
    assert f"--socket={running.socket}" in out and "./redstart sql" in out and f"port:      {running.port}" in out
    arguments = (clone.run / "arguments").read_text().splitlines()
    assert "--bind-address=127.0.0.1" in arguments
    assert ("--user=root" in arguments) == (os.geteuid() == 0)
    assert os.getsid(running.pid) == running.pid


@pytest.mark.parametrize("refusal", [1698, 1524, 1862, 3118, 1040])
def test_a_server_that_refuses_root_is_up(clone: Layout, monkeypatch: pytest.MonkeyPatch, refusal: int) -> None:
    monkeypatch.setenv("REFUSAL", str(refusal))
    assert server.is_alive(up(clone))


def test_the_socket_is_beside_the_data_or_has_a_short_path(clone: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/no/such/folder")
    assert server._run_folder(clone.run).parent == Path("/tmp")
    run = Path("/tmp/run")
    assert server._socket_path(Path("/data"), run) == Path("/data.sock")
    assert server._socket_path(Path("/" + "d" * 120), run) == run / "s"


def test_down_stops_and_a_second_up_uses_the_data(clone: Layout, capsys: pytest.CaptureFixture[str]) -> None:
    first = up(clone)
    server.down(clone)
    assert not server.is_alive(first) and server.read_state(clone) is None
    server.down(clone)
    assert "no server of this clone is running" in capsys.readouterr().out
    up(clone)
    assert "initialising" not in capsys.readouterr().out


def test_a_server_killed_from_outside_is_not_running(clone: Layout) -> None:
    running = up(clone)
    os.kill(running.pid, 9)
    os.waitpid(running.pid, 0)
    assert server.read_state(clone) is None
    up(clone)


def test_up_of_another_server_is_refused(clone: Layout, tmp_path: Path) -> None:
    running = up(clone)
    server.check_same(running, None, None, [])
    server.check_same(running, clone.run, running.port, [])
    with pytest.raises(RedstartError, match="already runs with data directory .*redstart down"):
        server.check_same(running, tmp_path, None, [])
    with pytest.raises(RedstartError, match="already runs with port"):
        server.check_same(running, None, 1, [])
    with pytest.raises(RedstartError, match="already runs with options"):
        server.check_same(running, None, None, ["--x"])


def test_failed_initialisation_leaves_nothing(clone: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INIT_FAILS", "1")
    with pytest.raises(RedstartError, match="could not make a data directory: it ended with 1.*out of luck"):
        up(clone)
    assert sorted(path.name for path in clone.build.iterdir()) == ["release", "run.log"]


def test_a_killed_initialisation_is_cleaned_up(clone: Layout) -> None:
    stale = clone.build / ".run.init-999999999"
    stale.mkdir()
    (stale / "ibdata1").touch()
    up(clone)
    assert not stale.exists()


def test_failed_start_shows_the_log_of_this_start_only(clone: Layout) -> None:
    (clone.build / "run.log").write_text("old line\n")
    with pytest.raises(RedstartError, match="^mysqld ended with 1 at its start: ") as caught:
        up(clone, None, None, "--unknown")
    assert "unknown variable" in str(caught.value) and "old line" not in str(caught.value)
    assert server.read_state(clone) is None


def test_busy_port_names_who_has_it(clone: Layout) -> None:
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = busy.getsockname()[1]
        with pytest.raises(RedstartError, match=rf"port {port} is in use by .*\(process {os.getpid()}\)"):
            up(clone, None, port)
    assert not clone.run.exists()


def test_a_free_port_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as busy:
        monkeypatch.setattr(server, "FIRST_PORT", busy.getsockname()[1])
        assert server.choose_port(None) > busy.getsockname()[1]


def test_data_of_another_server_is_not_touched(clone: Layout, tmp_path: Path) -> None:
    folder = make_mysql(tmp_path / "data", 80406)
    before = sorted(path.name for path in folder.iterdir())
    with pytest.raises(RedstartError, match="upgrade it for good"):
        up(clone, folder)
    assert sorted(path.name for path in folder.iterdir()) == before


def test_long_paths_get_a_short_socket(clone: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = tmp_path / "r"
    runtime.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    running = up(clone, tmp_path / ("long" * 30) / "data")
    # sun_path holds 108 bytes with the closing zero.
    assert running.socket.startswith(str(runtime)) and len(running.socket) <= 107


@pytest.mark.parametrize("option", ["--datadir=/x", "--port=1", "--log_error=x", "--initialize-insecure"])
def test_options_that_up_sets_itself(clone: Layout, option: str) -> None:
    with pytest.raises(RedstartError, match="is set by `up` itself"):
        up(clone, None, None, option)


def test_sql_without_a_server(clone: Layout) -> None:
    with pytest.raises(RedstartError, match="no server of this clone is running"):
        server.sql(clone, [])


def test_sql_becomes_the_client(clone: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    running = up(clone)
    seen: list[str] = []
    monkeypatch.setattr(os, "execv", lambda path, arguments: seen.extend(arguments))
    server.sql(clone, ["-e", "select 1"])
    assert seen[1:] == ["--no-defaults", "--user=root", f"--socket={running.socket}", "-e", "select 1"]
