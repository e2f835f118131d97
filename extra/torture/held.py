# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""All that a server holds, so that what it finds after two recoveries of one crash can be compared."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pymysql

from torture import load
from torture.server import CHECK_TIMEOUT_SEC, Server, check_indexes, prepared

_TABLES = (
    "SELECT table_schema, table_name FROM information_schema.tables"
    " WHERE table_type = 'BASE TABLE' AND (table_schema IN ('bank', 'scan', 'rebuilt') OR table_schema LIKE 'c_') ORDER BY 1, 2"
)
_UNDO = "SELECT name FROM information_schema.innodb_tablespaces WHERE space_type = 'Undo'"


@dataclass
class Held:
    """What was found, by name, in the words of the server."""

    # Definition, checksum of all rows, what CHECK TABLE says, and whether indexes hold the same rows.
    tables: dict[str, str] = field(default_factory=dict)
    # Prepared transactions, undo tablespaces, files.
    others: dict[str, str] = field(default_factory=dict)
    # Schemas and names of tables without a tablespace.
    discarded: set[tuple[str, str]] = field(default_factory=set)

    def differences(self, other: Held) -> list[str]:
        """What the other one has not, has too much, or has otherwise."""
        mine, theirs = self.tables | self.others, other.tables | other.others
        return [
            f"{name}: {theirs.get(name, 'is not there')}, and not {mine.get(name, 'nothing')}"
            for name in sorted(mine.keys() | theirs.keys())
            if mine.get(name) != theirs.get(name)
        ]


def held(server: Server) -> Held:
    """Ask a server; prepared transactions are rolled back."""
    found = Held()
    with load.connect(server.socket, CHECK_TIMEOUT_SEC) as connection, connection.cursor() as cursor:
        cursor.execute("SET group_concat_max_len = 10000")
        names = prepared(cursor)
        found.others["prepared transactions"] = ", ".join(sorted(names))
        for name in names:
            cursor.execute(f"XA ROLLBACK '{name}'")
        cursor.execute(_UNDO)
        found.others["undo tablespaces"] = ", ".join(sorted(name for (name,) in cursor.fetchall()))
        cursor.execute(_TABLES)
        for schema, table in cursor.fetchall():
            _ask_table(cursor, schema, table, found)
    data = server.place.data
    files = [str(path.relative_to(data)) for path in data.rglob("*.ibd")]
    found.others["files"] = ", ".join(sorted(name for name in files if not name.startswith(("#innodb_temp", "sys"))))
    return found


def _ask_table(cursor: Any, schema: str, table: str, found: Held) -> None:
    name = f"{schema}.{table}"
    try:
        said = []
        for text in (f"SHOW CREATE TABLE {name}", f"CHECKSUM TABLE {name}", f"CHECK TABLE {name}"):
            cursor.execute(text)
            said += [str(value) for row in cursor.fetchall() for value in row[1:]]
        said += check_indexes(cursor, schema, table, Counter())
    except pymysql.err.MySQLError as problem:
        if load.code_of(problem) not in (load.DISCARDED, load.LACKS_FILE):
            raise
        said = [f"error {load.code_of(problem)}"]
        found.discarded.add((schema, table))
    found.tables[name] = " | ".join(said)
