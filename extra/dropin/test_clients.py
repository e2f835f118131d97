# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Drivers of other languages, from their registries, against this build's server.

Each connects over TCP with the default authentication, inserts by a prepared statement in a
transaction, rolls another back, and reads a big result. Needs python3, npm and go, and their registries, and
fails without.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dropin.server import Server, given
from redstart_cli.server import free_port

MYSQLD, MYSQL = given("REDSTART_MYSQLD"), given("REDSTART_MYSQL")
PROGRAMS = Path(__file__).parent / "clients"
ROWS = 200_000
LENGTH = 100
INSTALL_SEC = 300


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    # The path of a socket must be short.
    port = free_port()
    with (
        tempfile.TemporaryDirectory(prefix="redstart-drivers.") as folder,
        Server(Path(folder), [MYSQLD], MYSQL, f"--port={port}", "--bind-address=127.0.0.1", "--disable-log-bin") as found,
    ):
        found.port = port
        found.initialize()
        found.start()
        found.ask(
            "CREATE DATABASE t; CREATE USER app@'%' IDENTIFIED BY 'p'; GRANT ALL ON t.* TO app@'%';"
            f" SET cte_max_recursion_depth = {ROWS}; CREATE TABLE t.big (id INT PRIMARY KEY, s VARCHAR(200));"
            f" INSERT INTO t.big WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS})"
            f" SELECT i, REPEAT('ü', {LENGTH}) FROM n"
        )
        # Over TLS caching_sha2_password sends the password; once it is cached a plain connection works too.
        login = [MYSQL, "--no-defaults", "--host=127.0.0.1", f"--port={port}", "--user=app", "--password=p", "--execute=SELECT 1"]
        subprocess.run(login, check=True, capture_output=True)
        yield found
        found.stop()


def _expect(server: Server, table: str, command: list[str], folder: Path) -> None:
    server.ask(f"CREATE TABLE t.{table} (id INT PRIMARY KEY, s VARCHAR(20))")
    result = subprocess.run([*command, str(server.port)], cwd=folder, capture_output=True, text=True, timeout=INSTALL_SEC)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == ["10 ü9", f"{ROWS * (ROWS + 1) // 2} {ROWS * LENGTH}", "100"]


def _install(folder: Path, *commands: list[str]) -> None:
    for command in commands:
        assert shutil.which(command[0]), f"{command[0]} is not installed"
        result = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=INSTALL_SEC)
        assert result.returncode == 0, f"{' '.join(command)}: {result.stderr[-500:]}"


def test_python(server: Server, tmp_path: Path) -> None:
    python = str(tmp_path / "venv/bin/python")
    _install(tmp_path, [sys.executable, "-m", "venv", "venv"],
             [python, "-m", "pip", "install", "--quiet", "mysql-connector-python"])  # fmt: skip
    _expect(server, "py", [python, str(PROGRAMS / "client.py")], tmp_path)


def test_node(server: Server, tmp_path: Path) -> None:
    shutil.copy(PROGRAMS / "client.js", tmp_path)
    _install(tmp_path, ["npm", "install", "--silent", "--no-audit", "--no-fund", "mysql2"])
    _expect(server, "js", ["node", "client.js"], tmp_path)


def test_go(server: Server, tmp_path: Path) -> None:
    shutil.copy(PROGRAMS / "client.go", tmp_path)
    _install(tmp_path, ["go", "mod", "init", "client"], ["go", "get", "github.com/go-sql-driver/mysql"],
             ["go", "build", "-o", "client"])  # fmt: skip
    _expect(server, "go", ["./client"], tmp_path)
