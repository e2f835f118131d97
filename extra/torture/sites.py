# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Faults at each place where this build does I/O of its own: the first call fails, then the second, and so on.

Other faults are drawn (fault.py). These are gone through one by one, so that it is known that each was tried.
"""

from __future__ import annotations

import errno
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pymysql

from redstart_cli.console import say
from redstart_cli.tools import ToolError
from torture import load, preload
from torture.fault import SHORT, Fault
from torture.life import Rig, ask, case_of, check_pages, opening
from torture.oracle import NEVER, Verdict
from torture.server import Place, Server
from torture.settings import MAP_OFF, MAP_ON, SCAN_ON

# Calls of a site that fail with the first of its errors, one in each start; a site with fewer calls ends earlier.
BOUND = 8
# The same for its other errors.
OTHER_BOUND = 3
# The map is written a second after the last DDL.
MAP_SEC = 2.5
START_SEC = 60.0
ROWS = 20_000
# A transaction under way leaves that many rows changed, and so some dozens of undo pages.
CHANGED_ROWS = 15_000
_OPTIONS = (
    "--innodb-buffer-pool-size=16M", "--innodb-redo-log-capacity=16M", "--innodb-use-native-aio=OFF",
    "--innodb-ddl-buffer-size=65536", "--innodb-ddl-threads=1", "--innodb-fast-shutdown=1",
)  # fmt: skip
_BIG_SUM = "SELECT COUNT(*), SUM(CRC32(CONCAT(id, s))) FROM other.big"


@dataclass(frozen=True)
class Site:
    """A place of I/O: calls that fail, and when they are made.

    With `must_work` the server has to start and to answer, and an index build may only fail by itself. Otherwise it may
    refuse, with an error in the log.
    """

    name: str
    call: str
    kind: str
    errors: tuple[int, ...]
    # Or "map", while a map is written; "note", while one on the binary log is; "build", in an index build; "undo", in a
    # recovery.
    when: str = "start"
    options: tuple[str, ...] = (MAP_ON,)
    must_work: bool = True


_NOTE = (MAP_OFF, SCAN_ON, "--max-binlog-size=64M")
_RING = (MAP_OFF, "--innodb-tablespace-check-io=IO_URING")
_THREADS = (MAP_OFF, "--innodb-tablespace-check-io=THREADS")
SITES = (
    Site("map, open", "open", "map", (errno.EMFILE, errno.EACCES), "map"),
    Site("map, read", "read", "map", (errno.EIO, SHORT), "map"),
    Site("map, write", "write", "map", (errno.EIO, errno.ENOSPC, SHORT), "map"),
    Site("map, fsync", "sync", "map", (errno.EIO,), "map"),
    Site("map, rename", "rename", "map", (errno.EIO, errno.ENOSPC), "map"),
    Site("map, unlink", "unlink", "map", (errno.EIO,), "map"),
    Site("note, open", "open", "note", (errno.EMFILE, errno.EACCES), "note", _NOTE),
    Site("note, read", "read", "note", (errno.EIO, SHORT), "note", _NOTE),
    Site("note, truncate", "truncate", "note", (errno.EIO,), "note", _NOTE),
    Site("note, write", "write", "note", (errno.EIO, errno.ENOSPC, SHORT), "note", _NOTE),
    Site("note, fsync", "sync", "note", (errno.EIO,), "note", _NOTE),
    Site("headers, open", "open", "data", (errno.EMFILE, errno.EIO), options=_THREADS, must_work=False),
    Site("headers, read", "read", "data", (errno.EIO, SHORT), options=_THREADS, must_work=False),
    Site("io_uring, setup", "ring-setup", "any", (errno.ENOSYS, errno.EPERM, errno.ENOMEM), options=_RING),
    Site("io_uring, wait", "ring-wait", "any", (errno.EINTR, errno.EAGAIN, errno.EBADF), options=_RING),
    Site("undo read-ahead", "readv", "undo", (errno.EIO, SHORT), "undo"),
    Site("index build, open", "open", "temp", (errno.EMFILE, errno.ENOSPC), "build"),
    Site("index build, write", "write", "temp", (errno.EIO, errno.ENOSPC, SHORT), "build"),
    Site("index build, read", "read", "temp", (errno.EIO, SHORT), "build"),
)


class SitesLife:
    """A data directory that goes through all of them."""

    def __init__(self, rig: Rig, seed: int) -> None:
        self._rig = rig
        self._seed = seed
        self._home = rig.work / "sites"
        self._fired = self._home / "fired"
        self._verdict = Verdict()
        self._trace: list[str] = []
        self._histories, _ = opening()
        self._noted: set[int] = set()
        self._number = 0
        self._sum: Any = None
        self._failed = "data"
        shutil.rmtree(self._home, ignore_errors=True)
        self._home.mkdir(parents=True)
        shutil.copytree(rig.base(), self._home / "data")

    def run(self, _: float) -> bool:
        """All faults of all sites, or those up to a failure; True if nothing was found. It does not end early."""
        self._prepare()
        for site in SITES:
            begin, faults, refused = time.monotonic(), self._rig.counts.faults, self._rig.counts.refused
            for error in site.errors:
                for nth in range(1, (BOUND if error == site.errors[0] else OTHER_BOUND) + 1):
                    if self._verdict.is_clean and not self._fault(site, Fault(site.call, site.kind, nth, 1, error)):
                        break
            fired = self._rig.counts.faults - faults
            self._rig.counts.sites[site.name] += fired
            answers = self._rig.counts.refused - refused
            say(f"  {site.name}: {fired} faults, {answers} errors, {time.monotonic() - begin:.0f} s")
        self._rig.counts.take("sites", self._verdict)
        if not self._verdict.is_clean:
            case = case_of(
                self._place("data", MAP_ON), self._rig.binaries["ours"], NEVER, kind="sites", seed=self._seed,
                trace=self._trace,
            )  # fmt: skip
            files = {"crashed": self._home / self._failed, "error.log": self._home / "error.log"}
            self._rig.keep(f"sites-{self._seed}", self._verdict, self._histories, case, files)
        return self._verdict.is_clean

    def _place(self, data: str, *options: str, **environment: str) -> Place:
        return Place(self._home / data, self._home / "error.log", [*_OPTIONS, *options], environment)

    def _prepare(self) -> None:
        """A table to build indexes of, and a second data directory with a transaction under way."""
        with Server(self._rig.binaries["ours"], self._place("data", MAP_ON)) as server:
            if problem := server.wait_ready(START_SEC):
                raise ToolError(problem)
            with load.connect(server.socket) as connection:
                cursor = connection.cursor()
                for text in (
                    "CREATE DATABASE other",
                    "CREATE TABLE other.log (id INT PRIMARY KEY)",
                    "CREATE TABLE other.big (id INT PRIMARY KEY, s VARCHAR(100) NOT NULL)",
                    f"SET cte_max_recursion_depth = {ROWS + 1}",
                    (
                        "INSERT INTO other.big WITH RECURSIVE q (id) AS"
                        f" (SELECT 1 UNION ALL SELECT id + 1 FROM q WHERE id < {ROWS})"
                        " SELECT id, CONCAT(SHA2(id, 256), id) FROM q"
                    ),
                ):
                    cursor.execute(text)
                cursor.execute(_BIG_SUM)
                self._sum = cursor.fetchone()
                cursor.execute("BEGIN")
                cursor.execute(f"UPDATE other.big SET s = REPEAT('x', 100) WHERE id <= {CHANGED_ROWS}")
                with load.connect(server.socket) as other:
                    # A commit has the redo of both flushed, and the pages are flushed before the crash.
                    self._note(other.cursor())
                    other.cursor().execute("SET GLOBAL innodb_max_dirty_pages_pct = 0")
                    time.sleep(MAP_SEC)
                server.kill()
        shutil.copytree(self._home / "data", self._home / "undo-source")

    def _note(self, cursor: Any) -> None:
        """A commit that must not be lost."""
        self._number += 1
        cursor.execute(f"INSERT INTO other.log VALUES ({self._number})")
        self._noted.add(self._number)
        self._rig.counts.acknowledged += 1

    def _fault(self, site: Site, fault: Fault) -> bool:
        """A start with a fault, and one without it; True if the fault has happened."""
        data, noted = "data", set(self._noted)
        if site.when == "undo":
            # The transaction is rolled back by each start.
            data = "undo"
            shutil.rmtree(self._home / data, ignore_errors=True)
            shutil.copytree(self._home / "undo-source", self._home / data)
            self._noted = {1}
        self._fired.unlink(missing_ok=True)
        environment = preload.failing(self._rig.work, fault, self._fired)
        wrong: list[str] = []
        with Server(self._rig.binaries["ours"], self._place(data, *site.options, **environment)) as server:
            problem = server.wait_ready(START_SEC)
            if problem and (site.must_work or "[ERROR]" not in problem):
                wrong.append(problem)
            elif problem:
                self._rig.counts.refused += 1
            else:
                wrong += self._work(site, server)
        has_fired = self._fired.exists()
        self._rig.counts.faults += has_fired
        self._rig.counts.cycles += 1
        self._trace.append(f"{site.name}: {fault}: {'fired' if has_fired else 'did not fire'}: {problem or 'started'}")
        wrong += self._after(site, data)
        self._failed = data
        self._verdict.wrong += [f"{site.name}, {fault}: {text}" for text in wrong]
        if site.when == "undo":
            self._noted = noted
        return has_fired

    def _work(self, site: Site, server: Server) -> list[str]:
        """What is done with a server that has started."""
        try:
            with load.connect(server.socket) as connection:
                cursor = connection.cursor()
                self._note(cursor)
                _WORK.get(site.when, _nothing)(self, cursor)
                self._note(cursor)
        except (pymysql.err.MySQLError, OSError) as problem:
            if site.must_work or not server.has_died or "[ERROR]" not in server.errors():
                return [f"{problem}: {server.errors()}"]
            self._rig.counts.refused += 1
            return []
        if site.when in ("map", "note"):
            # They are written at a stop, too.
            failure = server.stop()
            return [failure] if failure else []
        return []

    def _write_map(self, cursor: Any) -> None:
        """DDL where somebody else has changed a directory: a journal does not cover that, so that the map is made anew."""
        scratch = self._home / "data/other/scratch"
        scratch.touch()
        scratch.unlink()
        cursor.execute("CREATE TABLE other.t (id INT PRIMARY KEY)")
        time.sleep(MAP_SEC)
        cursor.execute("DROP TABLE other.t")

    def _write_note(self, cursor: Any) -> None:
        """Large transactions, each of which is noted, and another file."""
        cursor.execute("CREATE TABLE other.large (b LONGBLOB)")
        for _ in range(2):
            for _ in range(2):
                cursor.execute("INSERT INTO other.large VALUES (REPEAT('n', 300000))")
                cursor.execute("COMMIT")
            cursor.execute("FLUSH BINARY LOGS")
        cursor.execute("DROP TABLE other.large")

    def _build(self, cursor: Any) -> None:
        try:
            cursor.execute("ALTER TABLE other.big ADD INDEX i (s), ALGORITHM=INPLACE")
        except pymysql.err.MySQLError as problem:
            if problem.args[0] in load.GONE:
                raise
            self._rig.counts.refused += 1
            self._trace.append(f"ALTER TABLE: {problem}")
            return
        cursor.execute("SELECT COUNT(*), SUM(CRC32(CONCAT(id, s))) FROM other.big FORCE INDEX (i)")
        if cursor.fetchone() != self._sum:
            self._verdict.wrong.append("the index that was built does not hold what the table holds")
        cursor.execute("ALTER TABLE other.big DROP INDEX i")

    def _after(self, site: Site, data: str) -> list[str]:
        """What a server says that has no fault."""
        with Server(self._rig.binaries["ours"], self._place(data, *site.options)) as server:
            problem = server.wait_ready(START_SEC)
            if problem:
                return [problem]
            verdict, _ = ask(self._rig, server, self._histories, NEVER, is_turn=False)
            wrong = verdict.wrong
            with load.connect(server.socket) as connection:
                cursor = connection.cursor()
                cursor.execute("CHECK TABLE other.big")
                wrong += [f"CHECK TABLE other.big: {row[3]}" for row in cursor.fetchall() if row[3] != "OK"]
                cursor.execute(_BIG_SUM)
                if (held := cursor.fetchone()) != self._sum:
                    wrong.append(f"other.big holds {held}, not {self._sum}")
                cursor.execute("SELECT id FROM other.log")
                held = {number for (number,) in cursor.fetchall()}
            lost = sorted(self._noted - held)
            self._verdict.lost += [f"{site.name}: commit {number} is gone" for number in lost]
            self._verdict.checked += len(self._noted & held)
            if site.when == "build":
                problem = server.stop()
                wrong += [problem] if problem else check_pages(self._rig, self._home / data)
            return wrong


def _nothing(_: SitesLife, __: Any) -> None:
    """The start was all."""


_WORK: dict[str, Callable[[SitesLife, Any], None]] = {
    "map": SitesLife._write_map, "note": SitesLife._write_note, "build": SitesLife._build,
}  # fmt: skip
