# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Subjects and what a binary knows."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from bench import starts, subjects
from bench.datadir import CREATE_OPTIONS
from bench.layout import Layout
from bench.logs import LogLine
from bench.server import Server, launch_command
from bench.subjects import Binary
from bench.tests.helpers import SAMPLES
from redstart_cli import mysqld
from redstart_cli.mysqld import ServerError
from redstart_cli.tests.sockets import accepted_by_nobody
from redstart_cli.tools import ToolError, Unavailable


def patched() -> Binary:
    variables = subjects.parse_help((SAMPLES / "help.txt").read_text())
    return Binary(Path("/opt/mysqld"), None, "mysql", "9.7.4-redstart", variables)


def test_help_table() -> None:
    variables = patched().variables
    assert variables["innodb_buffer_pool_size"] == "134217728"
    assert variables["innodb_tablespace_check_light"] == "TRUE"
    assert variables["admin_address"] == "(No default value)"
    assert variables["init_connect"] == ""
    assert len(variables) == 8


@pytest.mark.parametrize(
    ("files", "cores", "threads"),
    [(0, 2, 1), (7999, 2, 1), (8000, 2, 2), (20004, 2, 3), (100004, 2, 5), (10**6, 32, 17), (40000, 0, 6)],
)
def test_upstream_rule_for_threads(files: int, cores: int, threads: int) -> None:
    assert subjects.upstream_threads(files, cores) == threads


def test_settings_of_subjects() -> None:
    binary = patched()
    off = subjects.own_subject("off", binary)
    assert off.settings == {
        "innodb_tablespace_check_fadvise": "OFF",
        "innodb_tablespace_check_light": "OFF",
        "innodb_tablespace_check_threads": "0",
        "innodb_undo_read_ahead_pages": "0",
    }
    light = subjects.own_subject("light", binary, files=20004, cores=2)
    assert "--innodb-tablespace-check-threads=3" in light.options
    assert "--innodb-tablespace-check-light=ON" in light.options
    free = subjects.own_subject("light+threads", binary, files=20004, cores=2)
    assert free.settings["innodb_tablespace_check_threads"] == "0"
    undo = subjects.own_subject("undo-read-ahead", binary)
    assert undo.settings["innodb_undo_read_ahead_pages"] == "64"
    assert undo.settings["innodb_tablespace_check_light"] == "OFF"
    assert subjects.own_subject("defaults", binary).options == []


def test_a_binary_without_the_change_is_refused() -> None:
    with pytest.raises(Unavailable, match="innodb_tablespace_map"):
        subjects.own_subject("map", patched())
    plain = Binary(Path("/m"), None, "mysql", "9.7.4", {"innodb_buffer_pool_size": "1"})
    assert subjects.own_subject("off", plain).options == []
    for name in ("fadvise", "light", "light+threads", "merge-ways", "defaults"):
        with pytest.raises(Unavailable, match="does not know"):
            subjects.own_subject(name, plain)


def test_all_on_is_the_build_as_it_comes_with_what_is_off_by_default() -> None:
    known = dict.fromkeys(subjects.STOCK_VALUES, "") | {subjects.MAP: "TRUE"}
    found = subjects.own_subject("all-on", Binary(Path("/m"), None, "mysql", "x", known))
    assert found.settings == {
        "innodb_recovery_rollback_threads": "8",
        "innodb_rollback_prefetch": "ON",
        "innodb_buffer_pool_load_by_runs": "ON",
        "innodb_ddl_preallocate": "ON",
        "innodb_ddl_doublewrite": "OFF",
    }
    assert found.uses_map
    missing = (
        "innodb_buffer_pool_load_by_runs, innodb_ddl_doublewrite, innodb_ddl_preallocate, innodb_recovery_rollback_threads,"
        " innodb_rollback_prefetch"
    )
    with pytest.raises(Unavailable, match=missing):
        subjects.own_subject("all-on", patched())


def test_what_a_subject_has_without_setting_it() -> None:
    binary = Binary(Path("/m"), None, "mysql", "x", dict.fromkeys(subjects.STOCK_VALUES, "") | {
        subjects.ROLLBACK: "TRUE", subjects.UNDO_SCAN: "BACKGROUND"})  # fmt: skip
    for name, is_async in (("defaults", True), ("all-on", True), ("off", False), ("rollback-async", True)):
        found = subjects.own_subject(name, binary)
        assert found.is_on(subjects.ROLLBACK) == is_async
        assert (found.value_of(subjects.UNDO_SCAN) == "BACKGROUND") == (name in ("defaults", "all-on"))


def test_each_server_that_is_measured_has_a_binary_log(tmp_path: Path) -> None:
    """One that makes data has none: it is not measured, and would write each table twice."""
    for flavour in ("mysql", "mariadb"):
        binary = Binary(Path("/m"), None, flavour, "x")
        with Server(Layout(tmp_path), binary, tmp_path / "work", ["--x"], tmp_path / "log") as server:
            assert {"--log-bin=binlog", "--server-id=1"} < set(server.command)
            assert ("--sync-binlog=1" in server.command) == (flavour == "mariadb")
        assert "--skip-log-bin" in CREATE_OPTIONS[flavour]


def test_a_server_that_listens_and_accepts_nobody_is_not_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mysqld, "READY_TIMEOUT_SEC", 0.2)
    server = Server(Layout(tmp_path), Binary(Path("/m"), None, "mysql", "x"), tmp_path / "work", [], tmp_path / "log")
    server._ready = LogLine(0.0, "System", "", "ready for connections")
    assert accepted_by_nobody(server) == [False]


@pytest.mark.parametrize(("value", "problems"), [(1, []), (0, ["the binary log is off"])])
def test_a_server_without_a_binary_log_does_not_count(value: int, problems: list[str]) -> None:
    server = SimpleNamespace(query=lambda sql: [(value,)] if sql == "SELECT @@GLOBAL.log_bin" else [])
    run = starts.new_run("startup", "off", "cold", 1, {"tables": 1})
    assert run.parameters == {"tables": 1, "log_bin": "on"}
    starts.check_log_bin(run, cast(Server, server))
    assert run.problems == problems


def test_map_subjects_are_recognised() -> None:
    binary = Binary(Path("/m"), None, "mysql", "x", {subjects.MAP: "TRUE", subjects.FADVISE: "TRUE"})
    assert subjects.own_subject("defaults", binary).uses_map
    assert subjects.own_subject("map", binary).uses_map
    assert not subjects.own_subject("off", binary).uses_map


def test_names() -> None:
    subjects.check_names(("off", "stock"), subjects.STARTUP_SUBJECTS)
    with pytest.raises(ToolError, match="unknown"):
        subjects.check_names(("of",), subjects.STARTUP_SUBJECTS)
    with pytest.raises(ToolError, match="twice"):
        subjects.check_names(("off", "off"), subjects.STARTUP_SUBJECTS)


def _script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_inspecting_binaries(tmp_path: Path) -> None:
    help_file = SAMPLES / "help.txt"
    good = _script(
        tmp_path / "good",
        f'[ "$1" = --version ] && echo "mysqld  Ver 9.7.4-redstart for Linux" || cat {help_file}',
    )
    binary = subjects.inspect_binary(good)
    assert (binary.version, binary.flavour) == ("9.7.4-redstart", "mysql")
    assert binary.knows(subjects.LIGHT)
    with pytest.raises(Unavailable, match="no server"):
        subjects.inspect_binary(tmp_path / "none")
    with pytest.raises(ToolError, match="not an executable"):
        subjects.inspect_binary(tmp_path)
    with pytest.raises(ToolError, match="failed with 3"):
        subjects.inspect_binary(_script(tmp_path / "bad", "echo oh no; exit 3"))
    with pytest.raises(ToolError, match="not a MySQL"):
        subjects.inspect_binary(_script(tmp_path / "other", "echo hello"))


def test_a_launched_program_joins_its_group_and_keeps_its_words(tmp_path: Path) -> None:
    program = _script(tmp_path / "program", 'printf "%s|" "$@"')
    procs = [tmp_path / "cgroup.procs", tmp_path / "other.procs"]
    binary = Binary(program, None, "mysql", "1")
    words = launch_command(binary, ["--a=b c", "--d"], [], procs)
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout == "--a=b c|--d|"
    assert all(file.read_text().strip().isdigit() for file in procs)


def test_a_launch_into_a_root_names_binds_and_program() -> None:
    binary = Binary(Path("/usr/sbin/mysqld"), Path("/roots/stock"), "mysql", "1")
    words = launch_command(binary, ["--x"], [Path("/base"), Path("/run")], [])
    assert words[-6:] == ["/roots/stock", "/base", "/run", "--", "/usr/sbin/mysqld", "--x"]
    assert words[:4] == ["unshare", "--mount", "--propagation", "private"]


@pytest.mark.parametrize("flavour", ["mysql", "mariadb"])
def test_why_a_server_does_not_start(tmp_path: Path, flavour: str) -> None:
    binary = Binary(_script(tmp_path / "bad", "echo oh no; exit 3"), None, flavour, "x")
    with Server(Layout(tmp_path), binary, tmp_path / "work", [], tmp_path / "log") as server:
        with pytest.raises(ServerError, match="^the server ended with 3 at its start: oh no$"):
            server.startup(60)
        with pytest.raises(ToolError, match="^the server ended with 3: oh no$"):
            server.shutdown()
    assert not server.run.exists()


def test_a_server_that_was_killed_is_not_shut_down(tmp_path: Path) -> None:
    binary = Binary(_script(tmp_path / "slow", "sleep 60"), None, "mysql", "x")
    with Server(Layout(tmp_path), binary, tmp_path / "work", [], tmp_path / "log") as server:
        server.launch()
        assert server.pid == server.process.pid
        server.kill()
        server.shutdown()
        assert server.is_killed
        with pytest.raises(ToolError, match="not running"):
            assert server.pid
