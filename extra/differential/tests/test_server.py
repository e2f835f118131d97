# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Servers of the differential test, played by scripts: what is no answer is an error, and an error ends the run as such."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from differential import __main__ as differential
from differential import server as servers
from differential.canary import CANARIES, CanaryError
from differential.report import Report
from differential.server import Server, with_keys
from differential.states import ServerFault, make_base
from redstart_cli.console import RedstartError
from redstart_cli.mysqld import Binary, ServerError

SERVER = """
import os, sys, time
given = dict(word.lstrip("-").partition("=")[::2] for word in sys.argv[1:])
print("besides the log", file=sys.stderr)
if "initialize-insecure" in given:
    os.mkdir(given["datadir"])
    sys.exit(int("fails" in given))
with open(given["log-error"], "a") as log:
    log.write("T 0 [Note] in the log\\n" + "x" * int(given.get("bytes", 0)))
    log.write("ready for connections" * ("ready" in given))
if "end" in given:
    sys.exit(1)
time.sleep(60)
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "server.py").write_text(SERVER)
    home = tmp_path / "home"
    home.mkdir()
    return home


@pytest.fixture
def binary(home: Path) -> Binary:
    return Binary("ours", [sys.executable, str(home.parent / "server.py")])


def program(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.fixture(params=["none", "no program", "no library"])
def client(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """One that cannot be run."""
    path = tmp_path / "client"
    if request.param == "no program":
        path.write_text("text")
    elif request.param == "no library":
        program(path, "echo cannot open shared object file >&2; exit 127")
    return path


@pytest.fixture
def server(binary: Binary, home: Path, client: Path) -> Iterator[Server]:
    with Server(binary, home, client, ["--ready"]) as made:
        assert made.wait_ready()
        yield made


def test_a_client_that_cannot_be_run_is_no_empty_answer(server: Server) -> None:
    with pytest.raises(ServerError, match="the client cannot be run: .+"):
        server.sql("SELECT 1")
    with pytest.raises(ServerError, match="the client cannot be run: .+"):
        server.ask(["SELECT 1", "SELECT 2"])
    with pytest.raises(ServerError, match="the client cannot be run"):
        server.sql_at_once(["SELECT 1", "SELECT 2"])


def test_a_client_that_meets_an_error_is_an_answer(binary: Binary, home: Path) -> None:
    client = program(home / "client", "echo '@@@0'; echo one; echo 'ERROR 2013 (HY000): Lost connection' >&2; exit 1")
    with Server(binary, home, client, ["--ready"]) as server:
        assert server.sql("SELECT 1") == "@@@0\none\nERROR 2013 (HY000): Lost connection\n"
        assert server.ask(["SELECT 1"])[0].startswith("one\n")
        server.sql_at_once(["SELECT 1"])


def test_only_a_server_that_runs_fills_its_log_without_end(
    binary: Binary, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers, "MAX_LOG_BYTES", 1000)
    with Server(binary, home, home, ["--bytes=2000", "--end"]) as server:
        server.process.wait()
        assert not server.wait_ready()
        assert not server.has_read_too_little()
    with Server(binary, home, home, ["--bytes=2000"]) as server:
        assert not server.wait_ready()
        assert server.has_read_too_little() and server.is_killed


def test_a_start_that_is_refused_says_why(binary: Binary, home: Path) -> None:
    with pytest.raises(ServerFault, match=r"cannot start: T 0 .* in the log \| besides the log"):
        make_base(binary, home, home.parent / "base", ["--end"])


def test_a_data_directory_is_made_without_what_breaks_a_server(binary: Binary, home: Path) -> None:
    binary.prefix = ["false"]
    servers.initialise(binary, home)
    assert (home / "data").is_dir()
    with pytest.raises(ServerError, match="could not make a data directory: it ended with 1: .*besides the log"):
        servers.initialise(binary, home, ["--fails"])


def test_a_keyring_that_is_not_built_is_an_error_of_ours(binary: Binary, home: Path) -> None:
    with pytest.raises(ServerError, match="is not built"):
        with_keys(binary, home / "keyed")


@pytest.mark.parametrize("error", [ServerError("it did not start"), RedstartError("no"), CanaryError("no"), OSError("no")])
def test_an_error_ends_the_run_as_a_failure(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise error

    json_file = tmp_path / "json"
    words = ["--build=/nowhere", "--stock=/nowhere", f"--work={tmp_path}/w", f"--json={json_file}"]
    monkeypatch.setattr(servers.mysqld, "find_stock", lambda _: Binary("stock", []))
    monkeypatch.setattr(differential, "has_strace", lambda: True)
    for name in ("compile_library", "check_functions"):
        monkeypatch.setattr(differential, name, lambda *_: None)
    monkeypatch.setattr(differential, "Settings", fail)
    result = CliRunner().invoke(differential.main, words)
    assert result.exit_code == 1
    assert f"failed: it could not go on: {error}\n" in result.stdout
    assert json.loads(json_file.read_text()) == json.loads(json.dumps(Report().as_json()))


@pytest.mark.parametrize("option, says", [
    ("--canaries=birth-time,no-such", "there is no canary no-such"),
    ("--kinds=move,no-such", "there is no change no-such"),
    ("--stock=/nowhere", "there is no stock server below /nowhere"),
])  # fmt: skip
def test_what_there_is_not_is_refused(option: str, says: str) -> None:
    result = CliRunner().invoke(differential.main, [option])
    assert result.exit_code == 2
    assert says in result.stderr


def test_canaries_are_all_none_or_some() -> None:
    words = ["--build=/nowhere", "--stock=/nowhere", "--work=/nowhere"]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(servers.mysqld, "find_stock", lambda _: Binary("stock", []))
        asked = {text: differential.main.make_context("differential", [*words, f"--canaries={text}"]).params["canaries"]
                 for text in ("all", "none", "birth-time,changed-directory")}  # fmt: skip
        assert differential.main.make_context("differential", words).params["canaries"] == asked["all"]
    assert asked == {"all": tuple(CANARIES), "none": (), "birth-time,changed-directory": ("birth-time", "changed-directory")}
