# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The load: what each client does, as data, as SQL and over a connection."""

from __future__ import annotations

import os
import random
import re
import shutil
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pymysql
from pymysql.constants import CLIENT

from redstart_cli import mysqld
from torture.oracle import History, Journal, Op, State, Step, Table, xid

CLIENTS = 4
# A client of its own builds and drops indexes of the clients' tables `w` while these change them, and undo tablespaces.
BUILDER = CLIENTS
MAX_UNDO = 2
UNDO_SHARE = 0.4
ACCOUNTS = 100
OPENING = 1000
# Rows and bytes of content that a client holds at most.
MAX_ROWS = 4000
MAX_BYTES = 6 << 20
MAX_TABLES = 4
MAX_COLUMNS = 3
PART_BYTES = 64
# Definitions of a client's tables that begin an import, where one can be imported.
IMPORT_SHARE = 0.5
# Prepared transactions, one in so many, wait for their second phase, so that a crash finds some.
XA_PAUSE_EACH = 4
XA_PAUSE_SEC = 0.05

VARIANTS = {
    "plain": "",
    "compact": "ROW_FORMAT=COMPACT",
    "redundant": "ROW_FORMAT=REDUNDANT",
    "compressed": "ROW_FORMAT=COMPRESSED",
    "hash": "PARTITION BY HASH (id) PARTITIONS 3",
    "range": "PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (300), PARTITION p1 VALUES LESS THAN (900),"
    " PARTITION p2 VALUES LESS THAN MAXVALUE)",
    "general": "TABLESPACE g{client}",
    "punched": "COMPRESSION='zlib'",
    "encrypted": "ENCRYPTION='Y'",
}
INDEXES = {
    "k1": "INDEX k1 (k)",
    "s1": "INDEX s1 (s)",
    "sk": "INDEX sk (s, k)",
    "kd": "INDEX kd (k DESC, s)",
    "ku": "UNIQUE INDEX ku (k, id)",
    "b1": "INDEX b1 (b(40))",
    "g1": "SPATIAL INDEX g1 (g)",
    "f1": "FULLTEXT INDEX f1 (s)",
}
# MySQL itself, after a kill, finds other rows by a spatial index than by the table, and misses files of a full-text
# index that was being dropped (docs/reliability.md). They are built only if that is asked for.
UNSAFE_INDEXES = frozenset({"g1", "f1"})
# Tables whose text is looked up in a full-text index: the client that has one, its name and its variant. They are never
# dropped, have no other writers, and their indexes are built and dropped by their clients.
TEXTS = {0: ("d", "docs"), 1: ("f", "words")}
TEXT_INDEX = "f1"
DOCS = "docs"
# A table with a FTS_DOC_ID of its own: InnoDB wants each to be higher than all before, by less than 65,535. Steps have so many
# of them, of which they use some, as InnoDB itself takes one when it writes its cache to the files.
DOC_IDS, DOC_ROWS = 20, 16
MAX_DOC_STEP = 65535 // DOC_IDS
# What, of a step of definitions, is about such a table.
TEXT_SHARE = 0.4
# What MySQL, or a file system with blocks of 4 KiB, can compress.
COMPRESSED_PAGES_KIB = {"compressed": (4, 8, 16), "punched": (8, 16, 32, 64)}
# Partitioned tables have neither, and no such column. With one of them MySQL may refuse to rebuild a table in place:
# after a full-text index, even one that was dropped, it makes a copy unless the statement forbids it (error 1846).
_NOT_PARTITIONED = _NOT_IN_PLACE = frozenset({"g1", "f1"})
# What is exported and imported: a file for a table, without keys of its own.
IMPORTED_VARIANTS = frozenset({"plain", "compact", "redundant", "compressed"})
# Errors of a table whose tablespace was discarded: it is; or the file is gone, and a crash came before the dictionary
# said so, for DISCARD TABLESPACE is not atomic in MySQL.
DISCARDED, LACKS_FILE = 1814, 1812
_POINT = "g POINT AS (POINT(k, id)) STORED NOT NULL SRID 0"
_COLUMNS = (
    "id INT PRIMARY KEY, seq INT NOT NULL, n INT NOT NULL, k INT NOT NULL, s VARCHAR(64) NOT NULL, b LONGBLOB NOT NULL"
)
_DOC_ID = "FTS_DOC_ID BIGINT UNSIGNED NOT NULL, UNIQUE INDEX FTS_DOC_ID_INDEX (FTS_DOC_ID)"
# Without the point, the number of a document, and those that the load adds.
COLUMNS = 6
_K = "(id * 31 + seq) % 997"
# Three words: one of few rows, one of a step, one of all rows.
_S = "CONCAT('s', LPAD((id * 17 + seq) % 9973, 6, '0'), ' n', LPAD(seq, 6, '0'), ' ', REPEAT('x', 11))"

# Errors of a connection whose server is gone: whether the statement was done is open.
GONE = frozenset({0, 1152, 1158, 1159, 1160, 1161, 2002, 2003, 2006, 2013, 2055})
# Errors that only a server gives that shuts down: it says so, or has ended the statement or the session; and of XA PREPARE,
# COMMIT, and undo tablespaces.
ENDING = frozenset({1053, 1077, 1079, 1317, 1927, 3169, 4031, 1402, 1180, 1528, 1533})
# And of an import, which has a number for all kinds of errors.
IMPORT_ERROR, IMPORT_ENDING = 1815, "Operation interrupted"
# Errors of XA END after one in the transaction: it is in another state, unknown, timed out, or a victim.
XA_ENDED = frozenset({1399, 1402, 1613, 1614})
# Errors that a transaction among others must expect: nothing was done.
REFUSED = frozenset({1205, 1213, 1614})
# The same for definitions: also too small a log of the changes during an index build, and an undo tablespace in use.
# An online build can also find a duplicate that is none, in the log of the changes meanwhile (1859).
REFUSED_DDL = REFUSED | {1529, 1799, 1859}


def _b(client: int) -> str:
    return f"REPEAT(SHA2(CONCAT('{client}-', seq, '-', id), 256), n)"


def is_partitioned(variant: str) -> bool:
    """Whether tables of a variant consist of partitions."""
    return "PARTITION" in VARIANTS.get(variant, "")


def right_content(client: int, columns: int, variant: str) -> str:
    """SQL that is true for a row whose content follows from its step and length."""
    extra = "" if is_partitioned(variant) else " AND ST_X(g) = k AND ST_Y(g) = id"
    extra += "".join(f" AND x{number} = {number}" for number in range(columns))
    return f"k = {_K} AND s = {_S} AND b = {_b(client)}{extra}"


def create_table(client: int, name: str, variant: str) -> str:
    """The statement that makes a table of a client; its comment names the variant."""
    first, _, partitions = VARIANTS.get(variant, "").format(client=client).partition("PARTITION BY ")
    tail = f" PARTITION BY {partitions}" if partitions else ""
    columns = _COLUMNS if partitions else f"{_COLUMNS}, {_POINT}"
    if variant == DOCS:
        columns += f", {_DOC_ID}"
    if variant not in VARIANTS:
        columns += f", {INDEXES[TEXT_INDEX]}"
    return f"CREATE TABLE c{client}.{name} ({columns}) COMMENT='{variant}' {first}{tail}"


# How long a client waits for others.
LOCK_WAITS = "SET innodb_lock_wait_timeout = 2, lock_wait_timeout = 10"
# How long purge may take to see an import, and how often it is asked.
PURGE_WAIT_SEC, PURGE_POLL_SEC = 60, 0.05
# Among statements: take a copy of the files of the table, give them back, remove what a crash has left of that.
TAKE, GIVE, REMOVE = "-- take", "-- give", "-- remove"
# What FLUSH TABLES FOR EXPORT leaves of a table.
EXPORTED = (".ibd", ".cfg")


class Copies:
    """Files of exported tables, kept where they do not crash, one table for each client."""

    def __init__(self, data: Path, place: Path) -> None:
        self._data = data
        self._place = place
        place.mkdir(parents=True, exist_ok=True)

    def take(self, client: int, table: str) -> None:
        for suffix in EXPORTED:
            shutil.copyfile(self._data / f"c{client}/{table}{suffix}", self._place / f"c{client}{suffix}")

    def give(self, client: int, table: str) -> None:
        """Put them where the table has its own, each as a whole, and on the disk."""
        folder = self._data / f"c{client}"
        for suffix in EXPORTED:
            copy = folder / f"{table}.copy"
            shutil.copyfile(self._place / f"c{client}{suffix}", copy)
            _sync(copy)
            copy.rename(folder / f"{table}{suffix}")
        _sync(folder)

    def remove(self, client: int, table: str) -> None:
        """Remove what was given: DROP TABLE leaves the file of a discarded tablespace."""
        for suffix in (*EXPORTED, ".copy"):
            (self._data / f"c{client}/{table}{suffix}").unlink(missing_ok=True)


def discarded_tables(states: Sequence[State]) -> set[tuple[str, str]]:
    """Schemas and names of tables whose tablespaces are discarded; `states` are those of the clients, in their order."""
    return {(f"c{client}", name) for client, state in enumerate(states) for name in state.discarded}


def stray_undo(data: Path, known: set[str]) -> set[str]:
    """Undo tablespaces that have a file and are not in the dictionary: a crash has ended their CREATE.

    MySQL gives their number, or their ID, to the next one, and after another crash no server starts.
    """
    return {path.stem for path in data.glob("*.ibu")} - known


def undo_made(history: History) -> set[str]:
    """Undo tablespaces of a history that have been there for certain; no name is used twice."""
    steps = [step for step in history.steps if step.acknowledged is not None and step.ops]
    return set(history.base.undo) | {step.ops[0][1] for step in steps if step.ops[0][0] == "undo-create"}


def discarded_files(data: Path, states: Sequence[State]) -> set[Path]:
    """Where the files of these tablespaces would be."""
    return {data / schema / f"{name}.ibd" for schema, name in discarded_tables(states)}


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def statements(client: int, number: int, op: Op) -> list[str]:
    """SQL of one operation of a step."""
    kind, *rest = op
    match kind:
        case "insert":
            table, low, high, length = rest
            column, value = (", FTS_DOC_ID", f", {_doc_id(number, low)}") if _is_docs(client, table) else ("", "")
            return [
                (
                    f"INSERT INTO c{client}.{table} (id, seq, n, k, s, b{column}) WITH RECURSIVE q (id, seq, n) AS"
                    f" (SELECT {low}, {number}, {length} UNION ALL SELECT id + 1, seq, n FROM q WHERE id + 1 < {high})"
                    f" SELECT id, seq, n, {_K}, {_S}, {_b(client)}{value} FROM q"
                )
            ]
        case "update":
            table, low, high, length = rest
            more = f", FTS_DOC_ID = {_doc_id(number, low)}" if _is_docs(client, table) else ""
            # Assignments are done from left to right.
            return [
                (
                    f"UPDATE c{client}.{table} SET seq = {number}, n = {length}, k = {_K}, s = {_S}, b = {_b(client)}{more}"
                    f" WHERE id >= {low} AND id < {high}"
                )
            ]
        case "delete":
            table, low, high = rest
            return [f"DELETE FROM c{client}.{table} WHERE id >= {low} AND id < {high}"]
        case "move":
            source, target, amount = rest
            return [
                f"UPDATE bank.accounts SET balance = balance - {amount} WHERE id = {source}",
                f"UPDATE bank.accounts SET balance = balance + {amount} WHERE id = {target}",
                f"INSERT INTO bank.moves VALUES ({client}, {number}, {source}, {target}, {amount})",
            ]
        case "undone":
            inner = [text for one in rest[0] for text in statements(client, number, one)]
            return ["SAVEPOINT a", *inner, "ROLLBACK TO SAVEPOINT a"]
        case "create":
            return [create_table(client, *rest)]
        case "drop":
            return [f"DROP TABLE c{client}.{rest[0]}"]
        case "truncate":
            return [f"TRUNCATE TABLE c{client}.{rest[0]}"]
        case "rename":
            return [f"RENAME TABLE c{client}.{rest[0]} TO c{client}.{rest[1]}"]
        case "index":
            return [f"ALTER TABLE {_of(client, rest[0])} ADD {INDEXES[rest[1]]}"]
        case "unindex":
            return [f"ALTER TABLE {_of(client, rest[0])} DROP INDEX {rest[1]}"]
        case "column":
            return [f"ALTER TABLE c{client}.{rest[0]} ADD COLUMN x{rest[1]} INT NOT NULL DEFAULT {rest[1]}"]
        case "rebuild":
            return [f"ALTER TABLE c{client}.{rest[0]} ENGINE=InnoDB, ALGORITHM={rest[1]}"]
        case "optimize":
            return [f"OPTIMIZE TABLE c{client}.{rest[0]}"]
        case "export":
            return [f"FLUSH TABLES c{client}.{rest[0]} FOR EXPORT", TAKE, "UNLOCK TABLES"]
        case "discard" | "import":
            files = [GIVE] if kind == "import" else []
            return [*files, f"ALTER TABLE c{client}.{rest[0]} {kind.upper()} TABLESPACE"]
        case "abandon":
            return [REMOVE, f"DROP TABLE c{client}.{rest[0]}"]
        case "undo-create":
            return [f"CREATE UNDO TABLESPACE {rest[0]} ADD DATAFILE '{rest[0]}.ibu'"]
        case "undo-inactive" | "undo-active":
            return [f"ALTER UNDO TABLESPACE {rest[0]} SET {kind.removeprefix('undo-').upper()}"]
        case "undo-drop":
            return [f"DROP UNDO TABLESPACE {rest[0]}"]
    raise ValueError(f"unknown operation {op}")


def _doc_id(number: int, low: int) -> str:
    """SQL of the FTS_DOC_ID of a row that a step writes, of those from `low` on."""
    return f"{number * DOC_IDS + 1} + id - {low}"


def _is_build(op: Op) -> bool:
    """Whether an index is built in the file of a table, or the table is rebuilt and says that it is in place."""
    return (op[0] == "index" and op[2] != TEXT_INDEX) or op[2:] == ["INPLACE"]


def _is_docs(client: int, table: str) -> bool:
    return TEXTS.get(client) == (table, DOCS)


def _of(client: int, table: str) -> str:
    """Tables of the builder have the schema in their name."""
    return table if "." in table else f"c{client}.{table}"


# What is there at the beginning


def schema(has_keyring: bool = False) -> list[str]:
    """Statements that make what the load expects in a new server."""
    made = [
        "CREATE DATABASE bank",
        "CREATE TABLE bank.accounts (id INT PRIMARY KEY, balance INT NOT NULL, INDEX (balance))",
        (
            "CREATE TABLE bank.moves (client INT, number INT, source INT, target INT, amount INT,"
            " PRIMARY KEY (client, number), INDEX (source), INDEX (target))"
        ),
        "INSERT INTO bank.accounts VALUES " + ", ".join(f"({number}, {OPENING})" for number in range(ACCOUNTS)),
    ]
    for client in range(CLIENTS):
        made += [
            f"CREATE DATABASE c{client}",
            f"CREATE TABLE c{client}.progress (id INT PRIMARY KEY, number INT NOT NULL)",
            f"INSERT INTO c{client}.progress VALUES (0, -1)",
            f"CREATE TABLESPACE g{client} ADD DATAFILE 'g{client}.ibd'",
            create_table(client, "w", "plain"),
        ]
    made += [create_table(client, name, variant) for client, (name, variant) in TEXTS.items()]
    if has_keyring:
        # The first encrypted table makes the master key.
        made.append("CREATE TABLE bank.vault (id INT PRIMARY KEY) ENCRYPTION='Y'")
    return made


def opening_states() -> list[State]:
    """What each client has then, the builder last."""
    clients = [State(tables={"w": Table()}) for _ in range(CLIENTS)]
    for client, (name, variant) in TEXTS.items():
        clients[client].tables[name] = Table(variant, indexes={TEXT_INDEX})
    return [*clients, State(tables={f"c{client}.w": Table() for client in range(CLIENTS)})]


# What a client decides to do


class Planner:
    """Chooses the next step of a client; everything follows from the random generator and the state.

    Without definitions there are only plain transactions, which write no more redo at once than they must.
    """

    def __init__(
        self,
        client: int,
        r: random.Random,
        variants: list[str],
        has_definitions: bool = True,
        all_indexes: bool = False,
        may_import: bool = True,
        may_create_undo: bool = True,
    ) -> None:
        self._client = client
        self._may_import = may_import
        self._may_create_undo = may_create_undo
        self._r = r
        self._variants = variants
        self._has_definitions = has_definitions
        self._indexes = INDEXES.keys() if all_indexes else INDEXES.keys() - UNSAFE_INDEXES

    def first(self) -> list[Op]:
        """What comes before all else in a load.

        After a crash InnoDB gives the numbers of rows that were deleted to new ones, which it does not find then: where the
        numbers are its own, the table is made anew. See docs/reliability.md.
        """
        name, variant = TEXTS.get(self._client, ("", ""))
        return [["rebuild", name, "COPY"]] if name and variant != DOCS and self._has_definitions else []

    def next(self, state: State, number: int) -> Step:
        r = self._r
        if self._client == BUILDER:
            is_undo = r.random() < UNDO_SHARE and (self._may_create_undo or bool(state.undo))
            op = self._undo(state, number) if is_undo else self._index(state, r.choice(sorted(state.tables)))
            return Step(number, "ddl", [op])
        if half_done := _go_on_importing(state):
            return Step(number, "ddl", [half_done])
        if self._has_definitions and r.random() < 0.12:
            return Step(number, "ddl", [self._definition(state)])
        kind = r.choices(["tx", "xa", "xa-back"], [80, 14, 6])[0] if self._has_definitions else "tx"
        ops: list[Op] = []
        ahead = state.copy() if r.random() < 0.5 else None
        for _ in range(r.choice([1, 1, 1, 2, 3, 6]) if ahead is not None else 1):
            op = self._change(ahead or state, number < MAX_DOC_STEP and not self._has_docs(ops))
            ops.append(op)
            if ahead is not None:
                ahead.apply(Step(number, "tx", [op]))
        if r.random() < 0.4:
            ops.insert(r.randrange(len(ops) + 1), self._move())
        return Step(number, kind, ops)

    def _move(self) -> Op:
        source, target = self._r.sample(range(ACCOUNTS), 2)
        return ["move", source, target, self._r.randrange(1, 50)]

    def _has_docs(self, ops: list[Op]) -> bool:
        """Whether a step has taken numbers of documents already."""
        return any(self._has_docs(op[1]) if op[0] == "undone" else _is_docs(self._client, op[1]) for op in ops)

    def _change(self, state: State, may_write_docs: bool) -> Op:
        r = self._r
        text, variant = TEXTS.get(self._client, ("", ""))
        may_write_text = self._has_definitions and (may_write_docs or variant != DOCS)
        name = r.choice(sorted(name for name in state.tables if may_write_text or name != text))
        most = DOC_ROWS if _is_docs(self._client, name) else MAX_ROWS
        rows = state.tables[name].rows
        held = sum(len(table.rows) for table in state.tables.values())
        held_bytes = PART_BYTES * sum(length for table in state.tables.values() for _, length in table.rows.values())
        if rows and (held > MAX_ROWS or held_bytes > MAX_BYTES):
            return ["delete", name, *self._range(rows, len(rows) // 2 + 1)]
        kind = r.choices(["insert", "large", "update", "delete", "undone"], [40, 3, 30, 15, 12])[0]
        if kind in ("update", "delete") and rows:
            low, high = self._range(rows, min(most, r.choice([1, 1, 3, 20, 200])))
            if kind == "delete":
                return ["delete", name, low, high]
            # The disk has to hold what all rows of the update grow to.
            room = max(0, MAX_BYTES - held_bytes) // PART_BYTES
            count = sum(low <= row < high for row in rows)
            return ["update", name, low, high, min(self._length(), room // max(1, count))]
        if kind == "undone":
            return ["undone", [self._change(state, may_write_docs)]]
        # New rows lie behind the last one, or in a gap.
        low = max(rows, default=-1) + 1
        count = r.randrange(300, 1500) if kind == "large" else r.choice([1, 1, 2, 10, 40])
        length = r.randrange(3) if count > 40 else self._length()
        if length > 40:
            count = 1
        return ["insert", name, low, low + min(count, most), length]

    def _range(self, rows: dict[int, Any], count: int) -> tuple[int, int]:
        low = self._r.choice(list(rows))
        return low, low + count

    def _length(self) -> int:
        """Parts of content: mostly within a page, at times a blob of up to 256 KiB."""
        r = self._r
        return r.choices([r.randrange(8), r.randrange(8, 40), r.randrange(100, 500), r.randrange(1000, 4000)],
                         [75, 15, 8, 2])[0]

    def _index(self, state: State, table: str) -> Op:
        present = state.tables[table].indexes
        possible = self._indexes
        if is_partitioned(state.tables[table].variant):
            possible = possible - _NOT_PARTITIONED
        index = self._r.choice(sorted(possible))
        return ["unindex" if index in present else "index", table, index]

    def _undo(self, state: State, number: int) -> Op:
        """Purge empties an inactive undo tablespace and truncates it; one that is not empty cannot be dropped.

        Each has a name of its own: MySQL leaves the file of one whose CREATE a power cut has ended.
        """
        r = self._r
        if not state.undo or (self._may_create_undo and len(state.undo) < MAX_UNDO and r.random() < 0.3):
            return ["undo-create", f"u{number}"]
        kind = r.choice(["undo-inactive", "undo-inactive", "undo-active", "undo-drop", "undo-drop"])
        return [kind, r.choice(sorted(state.undo))]

    def _definition(self, state: State) -> Op:
        r = self._r
        names = [f"t{number}" for number in range(MAX_TABLES)]
        text, _ = TEXTS.get(self._client, ("", ""))
        if text and r.random() < TEXT_SHARE:
            return self._text(state.tables[text], text)
        mine = sorted(name for name in state.tables if name not in ("w", text))
        free = [name for name in names if name not in state.tables]
        if free and (not mine or r.random() < 0.35):
            return ["create", r.choice(free), r.choice(self._variants)]
        able = [name for name in mine if _can_be_imported(state.tables[name])]
        if able and self._may_import and r.random() < IMPORT_SHARE:
            return ["export", r.choice(able)]
        name = r.choice(mine)
        kind = r.choices(["index", "drop", "truncate", "rename", "column", "rebuild"], [35, 14, 14, 10, 12, 15])[0]
        if kind == "rename" and free:
            return ["rename", name, r.choice(free)]
        if kind == "column" and state.tables[name].columns < MAX_COLUMNS:
            return ["column", name, state.tables[name].columns]
        if kind == "rebuild":
            in_place = "DEFAULT" if state.tables[name].indexes & _NOT_IN_PLACE else "INPLACE"
            return ["rebuild", name, r.choice([in_place, "COPY"])]
        if kind in ("drop", "truncate"):
            return [kind, name]
        return self._index(state, name)


    def _text(self, table: Table, name: str) -> Op:
        """A definition of a table with a full-text index, or one that writes that anew."""
        if TEXT_INDEX not in table.indexes:
            return ["index", name, TEXT_INDEX]
        # Without numbers of its own it may get those of rows again that were deleted while it had no index.
        unindex = 20 if table.variant == DOCS else 0
        kind = self._r.choices(["optimize", "unindex", "rebuild", "truncate"], [60, unindex, 12, 8])[0]
        more = {"unindex": [TEXT_INDEX], "rebuild": [self._r.choice(["DEFAULT", "COPY"])]}
        return [kind, name, *more.get(kind, [])]


def _can_be_imported(table: Table) -> bool:
    return table.variant in IMPORTED_VARIANTS and not table.indexes & UNSAFE_INDEXES


def _go_on_importing(state: State) -> Op | None:
    """What follows an export: the three steps of an import are done without others between them.

    A table that a crash has left without its file is dropped.
    """
    for name, table in sorted(state.tables.items()):
        if table.is_discarded:
            return ["abandon" if table.exported is None else "import", name]
        if table.exported is not None:
            return ["discard", name]
    return None


# Doing it


class Defect(Exception):
    """The server answered what it must not answer."""


def connect(socket: Path, timeout_sec: float = 60) -> Any:
    """A connection of the rig or of a client."""
    return mysqld.connect(socket, CLIENT.FOUND_ROWS, timeout_sec=timeout_sec)


@dataclass
class Book:
    """What all clients write down, and how."""

    journal: Journal
    position: Callable[[], float]
    stop: threading.Event
    copies: Copies
    errors_are_expected: bool = False
    has_died: Callable[[], bool] = lambda: False
    # The server was told to shut down.
    is_ending: bool = False

    def excuses(self, problem: BaseException) -> bool:
        """Whether an error ends a client and is no defect; what it was doing may or may not have been done."""
        code = code_of(problem)
        if self.errors_are_expected:
            return True
        if isinstance(problem.__context__, TimeoutError):
            return self.has_died()  # killed, a server would have closed the connection
        if not isinstance(problem, pymysql.err.MySQLError):
            return self.is_ending or self.has_died()  # of files
        is_cut_off = code in ENDING or (code == IMPORT_ERROR and IMPORT_ENDING in str(problem))
        return code in GONE or (self.is_ending and is_cut_off)


def status(cursor: Any, name: str) -> int:
    """Of a server; 0 if it does not know it."""
    cursor.execute(f"SHOW GLOBAL STATUS LIKE '{name}'")
    row = cursor.fetchone()
    return int(row[1]) if row else 0


class Worker(threading.Thread):
    """A connection that works until it is told to stop or the server is gone."""

    def __init__(self, title: str, socket: Path, book: Book) -> None:
        super().__init__(daemon=True)
        self.title = title
        self._socket = socket
        self._book = book
        # The error that has ended it, and what it is if that is a defect.
        self.ended_by: Exception | None = None
        self.defect = ""

    def run(self) -> None:
        try:
            connection = connect(self._socket)
            try:
                self._work(connection.cursor())
            finally:
                try:
                    connection.close()
                except (pymysql.err.MySQLError, OSError):
                    pass
        except (pymysql.err.MySQLError, OSError) as problem:
            if not self._book.excuses(problem):
                self.defect = f"{self.title}: {problem}"
            # Last: who sees this asks whether it is a defect.
            self.ended_by = problem
        except Exception:  # noqa: BLE001 - a defect of the rig must not look like a quiet thread
            self.defect = f"{self.title}: {traceback.format_exc()}"

    def _work(self, cursor: Any) -> None:
        raise NotImplementedError


class Client(Worker):
    """Does one step after the other."""

    def __init__(self, socket: Path, history: History, first: int, planner: Planner, book: Book) -> None:
        super().__init__(f"client {history.client}", socket, book)
        self._history = history
        self._planner = planner
        self._number = first
        self._cursor: Any = None
        self.acknowledged = 0
        self.imported = 0
        # Index builds, and rebuilds that say that they are in place; those of full-text indexes write elsewhere.
        self.built = 0
        # Pages by which files of this server grew without zeros, as it said last.
        self.grown = 0
        self.written_once = 0
        self.rebuilt = 0
        self.undo: Counter[str] = Counter()
        self.text: Counter[str] = Counter()
        self.refused = 0

    @property
    def next_number(self) -> int:
        """The number of the step that comes next."""
        return self._number

    def _work(self, cursor: Any) -> None:
        self._cursor = cursor
        cursor.execute(f"{LOCK_WAITS}, cte_max_recursion_depth = 100000")
        state = self._history.base.copy()
        first = self._planner.first()
        while not self._book.stop.is_set():
            step = Step(self._number, "ddl", [first[0]]) if first else self._planner.next(state, self._number)
            self._number += 1
            if self._do(step):
                first = first[1:]
                state.apply(step)
                self._count(step)
            else:
                self.refused += 1

    def _count(self, step: Step) -> None:
        """A step was acknowledged."""
        self.acknowledged += not step.is_undone
        if step.ops and step.ops[0][0].startswith("undo-"):
            self.undo[step.ops[0][0]] += 1
        if step.kind == "ddl" and step.ops[0][1] == TEXTS.get(self._history.client, ("", ""))[0]:
            self.text[step.ops[0][0]] += 1
        if step.ops and _is_build(step.ops[0]):
            self.built += 1
            self.rebuilt += step.ops[0][0] == "rebuild"
            self.grown = status(self._cursor, "Innodb_ddl_merge_preallocated_pages")
            self.written_once = status(self._cursor, "Innodb_ddl_merge_extent_pages")
        if step.ops and step.ops[0][0] == "import":
            self.imported += 1
            self._wait_for_purge()

    def _wait_for_purge(self) -> None:
        """Wait until purge has seen all that is committed.

        Rows of an imported table say that their undo is at address 0. MySQL reads it, and dies, if a change of such a row
        is rolled back before that.
        """
        end = time.monotonic() + PURGE_WAIT_SEC
        wanted = None
        while not self._book.stop.wait(PURGE_POLL_SEC):
            self._cursor.execute("SHOW ENGINE INNODB STATUS")
            counter, purged = purge_position(self._cursor.fetchone()[2])
            wanted = wanted or counter
            if purged >= wanted:
                return
            if time.monotonic() > end:
                raise Defect(f"purge has not reached transaction {wanted} in {PURGE_WAIT_SEC} s; it is at {purged}")

    def _do(self, step: Step) -> bool:
        """True if the server has acknowledged the step, False if it has refused it."""
        book, client = self._book, self._history.client
        step.begun = book.position()
        self._history.steps.append(step)
        book.journal.begin(client, step)
        try:
            if step.kind == "ddl":
                self._run(step)
            elif step.kind == "tx":
                self._cursor.execute("BEGIN")
                self._run(step)
                self._cursor.execute("COMMIT")
            else:
                self._run_xa(step)
        except pymysql.err.MySQLError as problem:
            expected = REFUSED_DDL if step.kind == "ddl" else REFUSED
            if code_of(problem) not in expected or step.prepared is not None or book.errors_are_expected:
                raise
            self._roll_back(step)
            self._history.steps.remove(step)
            book.journal.failed(client, step, str(problem))
            return False
        book.journal.mark(client, step, "acknowledged", book.position())
        return True

    def _run(self, step: Step) -> None:
        client, copies = self._history.client, self._book.copies
        by_hand = {TAKE: copies.take, GIVE: copies.give, REMOVE: copies.remove}
        for op in step.ops:
            for text in statements(client, step.number, op):
                if text in by_hand:
                    self._by_hand(by_hand[text], op[1])
                else:
                    self._cursor.execute(text)
                if op[0] == "optimize":
                    self._check_optimize()
        if step.is_transaction:
            done = self._cursor.execute(f"UPDATE c{client}.progress SET number = {step.number}")
            if done != 1:
                raise Defect(f"the row of c{client}.progress is not there")

    def _check_optimize(self) -> None:
        """Its errors are in its result; only the end of a server excuses one."""
        said = [text for _, _, kind, text in self._cursor.fetchall() if kind.lower() == "error"]
        if said and not (self._book.is_ending or self._book.errors_are_expected or self._book.has_died()):
            raise Defect(f"OPTIMIZE TABLE: {'; '.join(said)}")

    def _by_hand(self, what: Callable[[int, str], None], table: str) -> None:
        """Do something with files; only the end of a server excuses a failure."""
        book, client = self._book, self._history.client
        try:
            what(client, table)
        except OSError as problem:
            if book.is_ending or book.errors_are_expected or book.has_died():
                raise
            raise Defect(f"cannot {what.__name__} the files of c{client}.{table}: {problem}") from problem

    def _run_xa(self, step: Step) -> None:
        book, client = self._book, self._history.client
        name = xid(client, step.number)
        self._cursor.execute(f"XA START '{name}'")
        self._run(step)
        self._cursor.execute(f"XA END '{name}'")
        self._cursor.execute(f"XA PREPARE '{name}'")
        book.journal.mark(client, step, "prepared", book.position())
        if step.number % XA_PAUSE_EACH == 0:
            book.stop.wait(XA_PAUSE_SEC)
        book.journal.mark(client, step, "decided", book.position())
        self._cursor.execute(f"XA {'ROLLBACK' if step.is_undone else 'COMMIT'} '{name}'")

    def _roll_back(self, step: Step) -> None:
        if step.kind in ("tx", "ddl"):
            self._cursor.execute("ROLLBACK")
            return
        name = xid(self._history.client, step.number)
        try:
            self._cursor.execute(f"XA END '{name}'")
        except pymysql.err.MySQLError as problem:
            if code_of(problem) not in XA_ENDED:
                raise
        self._cursor.execute(f"XA ROLLBACK '{name}'")


def purge_position(status: str) -> tuple[int, int]:
    """From SHOW ENGINE INNODB STATUS: the next transaction, and the first that purge has not seen."""
    numbers = [re.search(words + r" (\d+)", status) for words in ("Trx id counter", "Purge done for trx's n:o <")]
    if None in numbers:
        raise Defect("SHOW ENGINE INNODB STATUS does not say how far purge is")
    counter, purged = (int(found[1]) for found in numbers if found)
    return counter, purged


def code_of(problem: BaseException) -> int:
    """The number of an error; 0 if the connection is closed, or it is no error of MySQL."""
    if isinstance(problem, pymysql.err.InterfaceError):
        return 0  # the connection is closed
    code = problem.args[0] if problem.args else 0
    return code if isinstance(code, int) and isinstance(problem, pymysql.err.MySQLError) else 0
