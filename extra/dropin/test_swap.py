# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Stock MySQL and this build take turns on one data directory, after clean and killed shutdowns.

REDSTART_MYSQLD names this build's server, REDSTART_STOCK a root directory with a stock one, which may be of an earlier
release of the same LTS series; REDSTART_WORK a new folder, REDSTART_TURNS the number of turns. All of them are needed.

In each turn the tables must have the checksums they had, then the server changes rows and tables of its own, under load, and
is shut down or killed. Before that the checksums are taken after the load has ended and everything was committed. An error
log line that is a warning or an error must match EXPLAINED.
"""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pymysql
import pytest

from dropin.server import START_LIMIT_SEC, given
from redstart_cli.mounts import with_mounts
from redstart_cli.mysqld import Binary, Mysqld, find_stock, initialise
from redstart_cli.process import tied

MYSQLD, STOCK = Path(given("REDSTART_MYSQLD")), Path(given("REDSTART_STOCK"))
WORK, TURNS = Path(given("REDSTART_WORK")), int(given("REDSTART_TURNS"))
# Rows of the table that every turn changes.
ROWS = 5000
# The X plugin, which stock and the packages have, wants a socket outside of the data directory: it is off.
OPTIONS = ["--skip-networking", "--loose-mysqlx=OFF", "--secure-file-priv=NULL"]
CLIENTS = 3
WAIT_SEC = 30.0

# What both servers say in any start, with the reason.
EXPLAINED = re.compile(
    "MY-010068"  # the CA certificate that the server made for itself is self-signed
    "|unknown variable 'loose-mysqlx=OFF'"  # a build without the X plugin
    "|MY-011810"  # the pid file lies below a folder that everybody may write (a clone in /tmp)
)


class Side(Mysqld):
    """One of the two servers, which sees the data directory at a place of its own."""

    def __init__(self, binary: Binary, data: Path) -> None:
        first = [*binary.command, "--no-defaults"]
        version = subprocess.run([*first, "--version"], capture_output=True, text=True, check=True).stdout
        self.version = version.partition(" Ver ")[2].split()[0]
        seen, run = WORK / f"{binary.name}.data", WORK / binary.name
        seen.mkdir()
        run.mkdir()
        # A new namespace unties a process.
        self.first = with_mounts(tied([*first, *binary.options, *OPTIONS], "KILL"), [(data, seen)])
        super().__init__(binary.name, self.first, seen, WORK / f"{binary.name}.err", [], run)

    def start(self) -> None:
        self.launch()
        self.await_ready(START_LIMIT_SEC)

    def stop(self) -> None:
        assert self.end(START_LIMIT_SEC) == 0, f"{self.name} did not end cleanly: {self.errors()}"

    def tables(self) -> list[str]:
        rows = self.query("SELECT table_name FROM information_schema.tables WHERE table_schema = 't' ORDER BY table_name")
        return [f"t.{name}" for (name,) in rows]

    def sums(self) -> list[tuple[Any, ...]]:
        return self.query(f"CHECKSUM TABLE {', '.join(self.tables())}")

    def check_log(self) -> None:
        """It tells of the start, and of nothing that is not explained."""
        said = self.said()
        assert "ready for connections" in said
        assert not [line for line in said.splitlines() if re.search(r"\[(Warning|ERROR)\]", line) and not EXPLAINED.search(line)]

    def load(self, client: int) -> None:
        """What one client does: with READ COMMITTED none has to wait for another, so that every error is one."""
        statements = ["SET SESSION transaction_isolation = 'READ-COMMITTED'"]
        for number in range(1, 26):
            statements += [
                f"UPDATE t.base SET n = n + 1, s = RANDOM_BYTES(60) WHERE id % 97 = {client * 25 + number}",
                f"INSERT INTO t.base (s, n) SELECT s, n FROM t.base WHERE id % 101 = {number} AND id % 3 = {client - 1}",
            ]
        self.query(*statements)

    def leave_open(self) -> None:
        """A transaction that is never committed; the server ends under it."""
        with suppress(pymysql.err.MySQLError):
            self.query("BEGIN", "UPDATE t.base SET n = -1", "SELECT SLEEP(60)")

    def await_open(self) -> None:
        end = time.monotonic() + WAIT_SEC
        while not self.query("SELECT 1 FROM information_schema.innodb_trx WHERE trx_rows_modified > 1000"):
            assert time.monotonic() < end, f"there is no open transaction on {self.name}"
            time.sleep(0.1)


class Swap:
    """The servers, and what the tables have to be."""

    def __init__(self, stock: Side, ours: Side) -> None:
        self.stock, self.ours = stock, ours
        self.wanted: list[tuple[Any, ...]] = []


@pytest.fixture(scope="module")
def swap() -> Iterator[Swap]:
    """Both servers, ended, and a database that stock has made."""
    data = WORK / "data"
    data.mkdir(parents=True)
    found = find_stock(STOCK)
    assert found, f"there is no stock server below {STOCK}"
    share = MYSQLD.parents[1] / "share"
    with ExitStack() as stack:
        stock, ours = (stack.enter_context(Side(binary, data)) for binary in (
            found, Binary("ours", [str(MYSQLD)], [f"--lc-messages-dir={share}"])))  # fmt: skip
        assert stock.version != ours.version
        initialise("stock", stock.first, WORK / "stock.data", stock.log)
        stock.start()
        stock.query(
            "CREATE DATABASE t",
            "CREATE TABLE t.base (id BIGINT AUTO_INCREMENT PRIMARY KEY, s VARBINARY(120), n INT, KEY (n), KEY (s)) "
            "SELECT NULL AS id, RANDOM_BYTES(60) AS s, FLOOR(RAND() * 1000) AS n FROM information_schema.columns",
        )
        assert stock.query("SELECT COUNT(*) > 1000 FROM t.base") == [(1,)]
        made = Swap(stock, ours)
        made.wanted = stock.sums()
        stock.stop()
        yield made


def changes(turn: int) -> list[str]:
    """Tables and indexes of this turn; those of older turns are changed, renamed, truncated and dropped."""
    row_format = "DYNAMIC" if turn % 3 else "COMPRESSED"
    columns = "id INT AUTO_INCREMENT PRIMARY KEY, s VARBINARY(120), b LONGBLOB, KEY (s)"
    statements = [
        f"CREATE TABLE t.r{turn} ({columns}) ROW_FORMAT={row_format}",
        f"INSERT INTO t.r{turn} (s, b) SELECT s, REPEAT(s, 100) FROM t.base LIMIT 300",
        f"ALTER TABLE t.r{turn} ADD COLUMN c INT DEFAULT {turn}",
        "ALTER TABLE t.base DROP KEY s, ADD KEY s (s), ALGORITHM=INPLACE",
        f"CREATE TABLE t.p{turn} (id INT PRIMARY KEY, v INT) PARTITION BY HASH (id) PARTITIONS 3",
        f"INSERT INTO t.p{turn} SELECT id, n FROM t.base LIMIT 200",
    ]
    if turn > 3:
        statements += [
            f"RENAME TABLE t.r{turn - 1} TO t.x{turn - 1}",
            f"ALTER TABLE t.x{turn - 1} ENGINE=InnoDB",
            f"TRUNCATE TABLE t.p{turn - 1}",
            f"DROP TABLE t.p{turn - 3}",
        ]
    if turn > 6:
        statements.append(f"DROP TABLE t.x{turn - 3}")
    return statements


# Each server ends as many turns by a kill.
CASES = [
    pytest.param(turn, "ours" if turn % 2 else "stock", turn // 2 % 2 == 0, id=f"{turn}-{'ours' if turn % 2 else 'stock'}")
    for turn in range(1, TURNS + 1)
]


@pytest.mark.parametrize(("turn", "who", "is_killed"), CASES)
def test_a_turn(swap: Swap, turn: int, who: str, is_killed: bool) -> None:
    server = swap.ours if who == "ours" else swap.stock
    server.start()
    assert server.query("SELECT VERSION()") == [(server.version,)]
    assert server.sums() == swap.wanted
    server.query(*changes(turn))
    # The table does not grow from turn to turn.
    ((rows,),) = server.query("SELECT COUNT(*) FROM t.base")
    server.query(f"DELETE FROM t.base ORDER BY id DESC LIMIT {max(0, rows - ROWS)}")
    before = server.query("SELECT COUNT(*), SUM(n) FROM t.base")
    with ThreadPoolExecutor() as clients:
        list(clients.map(server.load, range(1, CLIENTS + 1)))
        assert server.query("SELECT COUNT(*), SUM(n) FROM t.base") != before
        swap.wanted = server.sums()
        # It must be gone afterwards, whoever rolls it back.
        left = clients.submit(server.leave_open)
        server.await_open()
        if is_killed:
            server.kill()
        else:
            server.stop()
        left.result()
    server.check_log()


@pytest.mark.parametrize("who", ["stock", "ours"])
def test_at_the_end_every_table_is_right(swap: Swap, who: str) -> None:
    server = swap.ours if who == "ours" else swap.stock
    server.start()
    assert server.sums() == swap.wanted
    for table in server.tables():
        assert server.query(f"CHECK TABLE {table} EXTENDED")[-1][2:] == ("status", "OK")
    server.stop()
    server.check_log()
