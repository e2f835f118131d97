# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""A data directory with many empty tables."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass

import pymysql

from bench.server import Server
from redstart_cli.tools import ToolError

CLIENTS = 8
CRASH_TABLES = 100
TABLE_PAGES = 7
USED_PAGES = 5
DICTIONARY_BYTES = 16 * 1024
"""What the dictionary needs for a table, in the data directory and in one state."""

PAGES_KIB = (4, 8, 16)
BASE_BYTES = 1 << 30
SCHEMA_PREFIX = "bench"
NEW_TABLE = "made_last"
"""A table that is made right before the server is killed."""


@dataclass(frozen=True)
class Tables:
    """Recipe for empty tables, spread evenly over schemas."""

    tables: int
    schemas: int
    is_encrypted: bool = False
    page_kib: int = 16
    """Size of pages: a million tables with pages of 16 KiB are 80 GiB and more."""

    @property
    def key(self) -> str:
        """Name of the folder."""
        page = f"-{self.page_kib}k" * (self.page_kib != 16)
        return f"{self.tables}t-{self.schemas}s" + page + "-encrypted" * self.is_encrypted

    @property
    def what(self) -> str:
        """Size in words."""
        page = f", pages of {self.page_kib} KiB" * (self.page_kib != 16)
        return f"{self.tables:,} {'encrypted ' * self.is_encrypted}tables in {self.schemas:,} schema(s)" + page

    @property
    def server_options(self) -> tuple[str, ...]:
        """What each server needs that is started on it, or makes it."""
        return (f"--innodb-page-size={self.page_kib}k",) if self.page_kib != 16 else ()

    @property
    def page_bytes(self) -> int:
        """The unit in which empty space is given back."""
        return self.page_kib * 1024

    @property
    def _options(self) -> str:
        return "ENGINE=InnoDB" + " ENCRYPTION='Y'" * self.is_encrypted

    @property
    def steps(self) -> int:
        """One for each table."""
        return self.tables

    @property
    def peak_bytes(self) -> int:
        """Seven pages a table and its share of the dictionary."""
        return BASE_BYTES + self.tables * (TABLE_PAGES * self.page_bytes + DICTIONARY_BYTES)

    @property
    def final_bytes(self) -> int:
        """Two pages of each table are punched out."""
        return BASE_BYTES // 2 + self.tables * (USED_PAGES * self.page_bytes + DICTIONARY_BYTES)

    @property
    def has_empty_pages(self) -> bool:
        """Two of the seven pages of an empty table have never been used."""
        return True

    def keeps_copy(self, name: str) -> bool:
        """All system files, and the tables that a crash state inserts into or makes."""
        if not name.startswith(SCHEMA_PREFIX):
            return True
        schema, _, file = name.partition("/")
        table = file.removesuffix(".ibd")
        return table == NEW_TABLE or (table != file and (schema, table) in self.crash_tables)

    def table(self, index: int) -> tuple[str, str]:
        """(schema, table) of the table with an index from 0."""
        return f"{SCHEMA_PREFIX}{index % self.schemas:04d}", f"t{index:07d}"

    @property
    def crash_tables(self) -> frozenset[tuple[str, str]]:
        """The 100 tables that the crash state inserts into, evenly spaced."""
        return _crash_tables(self)

    def fill(self, server: Server, progress: Callable[[int], None]) -> None:
        """Makes the tables with 8 clients."""
        for index in range(self.schemas):
            server.query(f"CREATE DATABASE {SCHEMA_PREFIX}{index:04d}")
        stop = threading.Event()

        def work(first: int) -> None:
            connection = server.connect()
            with connection, connection.cursor() as cursor:
                for index in range(first, self.tables, CLIENTS):
                    if stop.is_set():
                        return
                    schema, table = self.table(index)
                    cursor.execute(
                        f"CREATE TABLE {schema}.{table} (id INT PRIMARY KEY, v INT) {self._options}"
                    )
                    progress(1)

        with ThreadPoolExecutor(CLIENTS) as pool:
            futures = [pool.submit(work, first) for first in range(CLIENTS)]
            try:
                for future in as_completed(futures):
                    future.result()
            except pymysql.Error as error:
                stop.set()
                raise ToolError(f"making tables failed: {error}; see {server.log}") from error
            except BaseException:
                stop.set()
                raise

    def crash(self, server: Server, ddl: bool = False) -> None:
        """Inserts one row into each of the crash tables, may make a table, and kills the server."""
        connection = server.connect()
        with connection.cursor() as cursor:
            for schema, table in sorted(self.crash_tables):
                cursor.execute(f"INSERT INTO {schema}.{table} VALUES (1, 1)")
            if ddl:
                schema, _ = self.table(0)
                cursor.execute(f"CREATE TABLE {schema}.{NEW_TABLE} (id INT PRIMARY KEY) {self._options}")
        server.kill()

    def rows_recovered(self, server: Server) -> int:
        """How many of the rows of `crash` are there."""
        parts = [f"SELECT COUNT(*) AS n FROM {s}.{t}" for s, t in sorted(self.crash_tables)]
        return int(server.query(f"SELECT SUM(n) FROM ({' UNION ALL '.join(parts)}) AS counts")[0][0])


@functools.cache
def _crash_tables(tables: Tables) -> frozenset[tuple[str, str]]:
    count = min(CRASH_TABLES, tables.tables)
    return frozenset(tables.table(index * tables.tables // count) for index in range(count))
