# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""A table that is rebuilt in place again and again, so that crashes meet it; its rows never change.

Tables of the other clients are small, and rebuilt now and then: hardly a crash met a page of a rebuild on its way to the
disk. What is written here is synced before a rebuild is committed, and nothing else makes it anew.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pymysql

from torture import load, pages
from torture.oracle import History, State, Step

# Some 40 pages of 16 KiB in each index: an index is given half an extent, 32 of them, one by one, and more of smaller ones.
ROWS = 10_000
_REBUILD = "ALTER TABLE rebuilt.t ENGINE=InnoDB, ALGORITHM=INPLACE"
# Between two rebuilds.
MAX_PAUSE_SEC = 0.2


def rows_of(page_bytes: int) -> int:
    """How many rows the table has, with pages of a size."""
    return ROWS * pages.times(page_bytes // 1024)


def schema(page_bytes: int) -> list[str]:
    """Statements that make the table in a new server."""
    return [
        "CREATE DATABASE rebuilt",
        (
            "CREATE TABLE rebuilt.t (id INT PRIMARY KEY, a CHAR(50) NOT NULL, b INT UNSIGNED NOT NULL, KEY a (a), KEY b (b, a))"
            " DEFAULT CHARSET=latin1"
        ),
        "SET cte_max_recursion_depth = 100000",
        (
            "INSERT INTO rebuilt.t WITH RECURSIVE q (n) AS"
            f" (SELECT 1 UNION ALL SELECT n + 1 FROM q WHERE n < {rows_of(page_bytes)})"
            " SELECT n, LEFT(SHA2(n, 256), 50), CRC32(n) FROM q"
        ),
    ]


class Rebuilder(load.Worker):
    """Rebuilds the table."""

    def __init__(self, socket: Path, book: load.Book, seed: int) -> None:
        super().__init__("rebuild", socket, book)
        self._r = random.Random(seed)
        # Its steps; they are in no journal.
        self.history = History(load.BUILDER + 1, State())
        self.rebuilt = 0
        self.refused = 0
        # Pages that this server has written once so far.
        self.written_once = 0

    def _work(self, cursor: Any) -> None:
        cursor.execute(load.LOCK_WAITS)
        number = 0
        while not self._book.stop.wait(self._r.uniform(0, MAX_PAUSE_SEC)):
            step = Step(number, "ddl", [["rebuild", "rebuilt.t", "INPLACE"]], begun=self._book.position())
            number += 1
            self.history.steps.append(step)
            try:
                cursor.execute(_REBUILD)
            except pymysql.err.MySQLError as problem:
                if load.code_of(problem) not in load.REFUSED_DDL or self._book.errors_are_expected:
                    raise
                self.history.steps.remove(step)
                self.refused += 1
                continue
            step.acknowledged = self._book.position()
            self.rebuilt += 1
            self.written_once = load.status(cursor, "Innodb_ddl_merge_extent_pages")


def check(cursor: Any) -> list[str]:
    """What is wrong with the table: each of its indexes has all of its rows."""
    cursor.execute("CHECK TABLE rebuilt.t")
    wrong = [f"CHECK TABLE rebuilt.t: {row[3]}" for row in cursor.fetchall() if row[2] != "status" or row[3] != "OK"]
    if wrong:
        return wrong
    cursor.execute("SELECT @@innodb_page_size")
    wanted = rows_of(int(cursor.fetchone()[0]))
    both = "a = LEFT(SHA2(id, 256), 50) AND b = CRC32(id)"
    # Only what the index holds, without which MySQL would read the rows.
    for index, right in (("PRIMARY", both), ("a", "a = LEFT(SHA2(id, 256), 50)"), ("b", both)):
        cursor.execute(f"SELECT COUNT(*), SUM({right}) FROM rebuilt.t FORCE INDEX ({index})")
        rows, n_right = cursor.fetchone()
        if rows != wanted or rows != int(n_right or 0):
            wrong.append(f"rebuilt.t: index {index} holds {rows} rows of {wanted}, {int(n_right or 0)} of them right")
    return wrong
