# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""A table that is rebuilt in place again and again, so that crashes meet it; its rows never change.

Tables of the other clients are small, and rebuilt now and then: hardly a crash met a page of a rebuild on its way to the
disk. What is written here is synced before a rebuild is committed, and nothing else makes it anew.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pymysql

from torture import load
from torture.oracle import History, State, Step

# Some 60 pages of 16 KiB in three indexes.
ROWS = 4000
_FILL = (
    "INSERT INTO rebuilt.t WITH RECURSIVE q (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM q WHERE n < {rows})"
    " SELECT n, LEFT(SHA2(n, 256), 50), CRC32(n) FROM q"
)
_MAKE = (
    "CREATE DATABASE IF NOT EXISTS rebuilt",
    (
        "CREATE TABLE IF NOT EXISTS rebuilt.t (id INT PRIMARY KEY, a CHAR(50) NOT NULL, b INT UNSIGNED NOT NULL,"
        " KEY a (a), KEY b (b, a)) DEFAULT CHARSET=latin1"
    ),
)
_REBUILD = "ALTER TABLE rebuilt.t ENGINE=InnoDB, ALGORITHM=INPLACE"
# Between two rebuilds.
MAX_PAUSE_SEC = 0.2


class Rebuilder(threading.Thread):
    """Makes the table, if it is not there, and rebuilds it until it is told to stop or the server is gone."""

    def __init__(self, socket: Path, position: Callable[[], float], stop: threading.Event, seed: int) -> None:
        super().__init__(daemon=True)
        self._socket = socket
        self._position = position
        self._stop_asked = stop
        self._r = random.Random(seed)
        # Its steps; they are in no journal.
        self.history = History(load.BUILDER + 1, State())
        self.rebuilt = 0
        # Pages that this server has written once so far.
        self.written_once = 0

    def run(self) -> None:
        try:
            with load.connect(self._socket) as connection, connection.cursor() as cursor:
                self._rebuild(cursor)
        except (pymysql.err.MySQLError, OSError):
            pass  # the server was killed; whether it may have died is seen by others

    def _rebuild(self, cursor: Any) -> None:
        cursor.execute("SET cte_max_recursion_depth = 100000")
        for statement in _MAKE:
            cursor.execute(statement)
        cursor.execute("SELECT COUNT(*) FROM rebuilt.t")
        if cursor.fetchone()[0] == 0:
            cursor.execute(_FILL.format(rows=ROWS))
            cursor.connection.commit()
        while not self._stop_asked.wait(self._r.uniform(0, MAX_PAUSE_SEC)):
            step = Step(self.rebuilt, "ddl", [["rebuild", "rebuilt.t", "INPLACE"]], begun=self._position())
            self.history.steps.append(step)
            cursor.execute(_REBUILD)
            step.acknowledged = self._position()
            self.rebuilt += 1
            self.written_once = load.status(cursor, "Innodb_ddl_merge_extent_pages")


def check(cursor: Any) -> list[str]:
    """What is wrong with the table, if it is there: its rows are all there or none, in each index."""
    cursor.execute(
        "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 'rebuilt' AND table_name = 't'"
    )
    if cursor.fetchone()[0] == 0:
        return []
    cursor.execute("CHECK TABLE rebuilt.t")
    wrong = [f"CHECK TABLE rebuilt.t: {row[3]}" for row in cursor.fetchall() if row[2] != "status" or row[3] != "OK"]
    if wrong:
        return wrong
    held = set()
    both = "a = LEFT(SHA2(id, 256), 50) AND b = CRC32(id)"
    # Only what the index holds, without which MySQL would read the rows.
    for index, right in (("PRIMARY", both), ("a", "a = LEFT(SHA2(id, 256), 50)"), ("b", both)):
        cursor.execute(f"SELECT COUNT(*), SUM({right}) FROM rebuilt.t FORCE INDEX ({index})")
        rows, n_right = cursor.fetchone()
        held.add(rows)
        if rows not in (0, ROWS) or rows != int(n_right or 0):
            wrong.append(f"rebuilt.t: index {index} holds {rows} rows of {ROWS}, {int(n_right or 0)} of them right")
    if not wrong and len(held) > 1:
        wrong.append(f"rebuilt.t: its indexes hold {', '.join(map(str, sorted(held)))} rows")
    return wrong
