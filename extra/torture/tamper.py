# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Canaries for the oracle: something is put wrong by hand in what an honest server holds, and it must say what.

Servers that lose commits show that `lost` is noticed. These show that each of the checks behind `wrong` is made: one
that finds nothing any more fails the run.
"""

from __future__ import annotations

import contextlib
import dataclasses
import random
import re
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from redstart_cli.console import say
from redstart_cli.tools import ToolError
from torture import load, pages
from torture.life import Clients, Counts, Rig, ask, case_of, check_pages, opening
from torture.oracle import NEVER, History, Verdict
from torture.server import Place, Server, random_options

LOAD_SEC = 1.0
# Commits of the load; the tables must have rows.
ENOUGH = 60
HONEST = "oracle: nothing is wrong"
# A GTID that no server has given.
OTHER_GTID = "11111111-2222-3333-4444-555555555555:1"
# A page of a table's file that is in use: the root of its clustered index.
ROOT_PAGE = 4
ON_PAGE = 120
_INDEX_LEVEL_AT = 64

Context = contextlib.AbstractContextManager[None]


@dataclass(frozen=True)
class Tampering:
    """What is put wrong while a server runs, and then put right again; and what must be said of it."""

    name: str
    says: str
    make: Callable[[Any, Path], Context]


@contextlib.contextmanager
def _balance(cursor: Any, _: Path) -> Iterator[None]:
    cursor.execute("UPDATE bank.accounts SET balance = balance + 1 WHERE id = 7")
    yield
    cursor.execute("UPDATE bank.accounts SET balance = balance - 1 WHERE id = 7")


def _row(cursor: Any) -> tuple[int, int, int, int]:
    """A row of a step, if possible one that wrote several: client, row, step, length."""
    rows = []
    for client in range(load.CLIENTS):
        cursor.execute(f"SELECT COUNT(*), {client}, MIN(id), seq, n FROM c{client}.w GROUP BY seq, n")
        rows += cursor.fetchall()
    if not rows:
        raise ToolError("the load has left no rows to tamper with")
    _, client, row, number, length = max(rows)
    return client, row, number, length


@contextlib.contextmanager
def _half_a_step(cursor: Any, _: Path) -> Iterator[None]:
    client, row, number, length = _row(cursor)
    cursor.execute(f"DELETE FROM c{client}.w WHERE id = {row}")
    yield
    for text in load.statements(client, number, ["insert", "w", row, row + 1, length]):
        cursor.execute(text)


@contextlib.contextmanager
def _content(cursor: Any, _: Path) -> Iterator[None]:
    client, row = _row(cursor)[:2]
    cursor.execute(f"UPDATE c{client}.w SET k = k + 1 WHERE id = {row}")
    yield
    cursor.execute(f"UPDATE c{client}.w SET k = k - 1 WHERE id = {row}")


@contextlib.contextmanager
def _no_progress(cursor: Any, _: Path) -> Iterator[None]:
    cursor.execute("SELECT number FROM c0.progress")
    (number,) = cursor.fetchone()
    cursor.execute("DELETE FROM c0.progress")
    yield
    cursor.execute(f"INSERT INTO c0.progress VALUES (0, {number})")


@contextlib.contextmanager
def _older_progress(cursor: Any, _: Path) -> Iterator[None]:
    cursor.execute("UPDATE c0.progress SET number = number - 1")
    yield
    cursor.execute("UPDATE c0.progress SET number = number + 1")


@contextlib.contextmanager
def _more_files(_: Any, data: Path) -> Iterator[None]:
    shutil.copyfile(data / "c0/w.ibd", data / "c0/x.ibd")
    yield
    (data / "c0/x.ibd").unlink()


@contextlib.contextmanager
def _fewer_files(_: Any, data: Path) -> Iterator[None]:
    (data / "c0/w.ibd").rename(data / "c0/w.hidden")
    yield
    (data / "c0/w.hidden").rename(data / "c0/w.ibd")


@contextlib.contextmanager
def _left_over(cursor: Any, _: Path) -> Iterator[None]:
    cursor.execute("CREATE DATABASE other")
    cursor.execute("CREATE TABLE other.`#sql-1` (id INT PRIMARY KEY)")
    yield
    cursor.execute("DROP DATABASE other")


@contextlib.contextmanager
def _prepared(cursor: Any, _: Path) -> Iterator[None]:
    for text in ("XA START 'stray'", "INSERT INTO bank.moves VALUES (9, 1, 0, 1, 1)", "XA END 'stray'",
                 "XA PREPARE 'stray'"):  # fmt: skip
        cursor.execute(text)
    yield  # the oracle rolls it back


@contextlib.contextmanager
def _other_gtid(cursor: Any, _: Path) -> Iterator[None]:
    cursor.execute(f"SET GLOBAL gtid_purged = '+{OTHER_GTID}'")
    yield


@contextlib.contextmanager
def _rebuilt_row(cursor: Any, _: Path) -> Iterator[None]:
    cursor.execute("SELECT a, b FROM rebuilt.t WHERE id = 7")
    a, b = cursor.fetchone()
    cursor.execute("DELETE FROM rebuilt.t WHERE id = 7")
    yield
    cursor.execute(f"INSERT INTO rebuilt.t VALUES (7, '{a}', {b})")


@contextlib.contextmanager
def _rebuilt_content(cursor: Any, _: Path) -> Iterator[None]:
    cursor.execute("UPDATE rebuilt.t SET b = b - 1 WHERE id = 7")
    yield
    cursor.execute("UPDATE rebuilt.t SET b = b + 1 WHERE id = 7")


TAMPERINGS = (
    Tampering("oracle: a balance is changed", "accounts do not hold what the transfers make of them", _balance),
    Tampering("oracle: a step is half undone", r"w: \d+ rows differ", _half_a_step),
    Tampering("oracle: a row has other content", "the content of row", _content),
    Tampering("oracle: progress has no row", "progress has 0 rows", _no_progress),
    Tampering("oracle: the binary log is ahead of the table", r"is -?\d+ in the table and -?\d+ in the binary log",
              _older_progress),
    Tampering("oracle: a file too many", r"x\.ibd belongs to no tablespace", _more_files),
    Tampering("oracle: a file is missing", r"no file .*/c0/w\.ibd", _fewer_files),
    Tampering("oracle: a table is left of a statement", "is left of a statement", _left_over),
    Tampering("oracle: the rebuilt table lacks a row", r"rebuilt\.t: index PRIMARY holds \d+ rows of \d+", _rebuilt_row),
    Tampering("oracle: a row of the rebuilt table is wrong", r"rebuilt\.t: index b holds (\d+) rows of \1", _rebuilt_content),
    Tampering("oracle: a stray XA PREPARE", "stray is prepared, and nobody has prepared it", _prepared),
    Tampering("oracle: XA PREPARE is not in the binary log", "stray is prepared and the binary log does not say so",
              _prepared),
    # This cannot be put right.
    Tampering("oracle: a GTID is in no binary log", "in gtid_executed and in no binary log", _other_gtid),
)  # fmt: skip
PAGE = "oracle: a byte of a page is flipped"
INDEX = "oracle: an index holds another value"
ENTRIES = "oracle: an index lacks an entry"
TEXT = "oracle: a full-text index lacks an entry"
# What it is in. With the collation that MySQL has by default all words are in the first of its files, here in one page.
_TEXT_TABLE = (
    "CREATE TABLE bank.texts (id INT PRIMARY KEY, s VARCHAR(64), FULLTEXT INDEX f1 (s))",
    "INSERT INTO bank.texts VALUES (1, 'some words'), (2, 'other words'), (3, 'words')",
)
_TEXT_FILE = "_index_1"


def names(has_innochecksum: bool) -> list[str]:
    """The canaries of the oracle."""
    page = [PAGE] if has_innochecksum else []
    return [HONEST, *(tampering.name for tampering in TAMPERINGS), *page, INDEX, ENTRIES, TEXT]


class OracleLife:
    """A data directory, a load, and what is put wrong in it."""

    def __init__(self, rig: Rig, seed: int) -> None:
        self._real = rig
        self._rig = dataclasses.replace(rig, counts=Counts())
        self._seed = seed
        self._r = random.Random(seed)
        self._home = rig.work / "oracle"
        self._histories: list[History] = []
        self._found = dict.fromkeys(names(bool(rig.innochecksum)), False)
        # Nothing is left to purge after a stop.
        options = [*random_options(self._r, rig.has_keyring), "--innodb-fast-shutdown=0"]
        self._place = Place(self._home / "data", self._home / "error.log", options)

    def run(self) -> dict[str, bool]:
        """Which of the canaries were found, by name. The first is that nothing is found where nothing is wrong."""
        begin = time.monotonic()
        shutil.rmtree(self._home, ignore_errors=True)
        self._home.mkdir(parents=True)
        shutil.copytree(self._rig.base(), self._place.data)
        verdict = self._load()
        if verdict.is_clean:
            with self._server() as running:
                verdict, _ = ask(self._rig, running, self._histories, NEVER)
                if verdict.is_clean:
                    self._tamper(running)
                    self._make_texts(running)
                    roots = self._roots(running)
                    verdict = self._stop(running)
        if verdict.is_clean:
            self._found[HONEST] = True
            self._damage(roots)
        else:
            self._real.counts.take("kill", verdict)
            case = case_of(self._place, self._rig.binaries[self._rig.subject], NEVER, kind="kill", seed=self._seed)
            files = {"crashed": self._place.data, "error.log": self._place.log}
            self._real.keep(f"oracle-{self._seed}", verdict, self._histories, case, files)
        missed = [name for name, is_found in self._found.items() if not is_found]
        for name in missed:
            say(f"  canary {name}: NOT FOUND")
        found = len(self._found) - len(missed)
        say(f"  {found} of {len(self._found)} canaries of the oracle found in {time.monotonic() - begin:.0f} s")
        return self._found

    @contextlib.contextmanager
    def _server(self) -> Iterator[Server]:
        with Server(self._rig.binaries[self._rig.subject], self._place) as running:
            problem = running.wait_ready()
            if problem:
                raise ToolError(f"the canaries of the oracle have no server: {problem}")
            yield running

    def _load(self) -> Verdict:
        """Some work for all clients; then the server is killed, with nothing under way."""
        self._histories, numbers = opening()
        with self._server() as running:
            clients = Clients(self._rig, running, self._histories, numbers, self._home / "journal", self._r)
            clients.work(LOAD_SEC, ENOUGH)
            return Verdict(wrong=clients.stop(lives=True))

    def _tamper(self, running: Server) -> None:
        connection = load.connect(running.socket)
        with connection, connection.cursor() as cursor:
            cursor.execute("SET sql_log_bin = 0")
            for tampering in TAMPERINGS:
                with tampering.make(cursor, self._place.data):
                    verdict, _ = ask(self._rig, running, self._histories, NEVER)
                self._note(tampering.name, tampering.says, verdict.wrong)

    def _note(self, name: str, says: str, texts: list[str]) -> None:
        self._found[name] = any(re.search(says, text) for text in texts)
        if not self._found[name]:
            say(f"  {name}: {texts or 'nothing'} was said, not {says!r}")

    def _make_texts(self, running: Server) -> None:
        """A table whose full-text index is written to its files when the server stops."""
        running.query("SET sql_log_bin = 0", *_TEXT_TABLE)

    def _roots(self, running: Server) -> dict[str, int]:
        """The root pages of the indexes that are damaged, by the tablespace."""
        connection = load.connect(running.socket)
        with connection, connection.cursor() as cursor:
            cursor.execute(
                "SELECT t.name, i.page_no FROM information_schema.innodb_tables t"
                " JOIN information_schema.innodb_indexes i USING (table_id)"
                " WHERE (t.name, i.name) IN (('bank/accounts', 'balance'), ('bank/moves', 'source'))"
                f" OR t.name LIKE 'bank/fts\\_%\\{_TEXT_FILE}'"
            )
            return dict(cursor.fetchall())

    def _stop(self, running: Server) -> Verdict:
        problem = running.stop()
        return Verdict(wrong=[problem] if problem else check_pages(self._rig, self._place.data))

    def _damage(self, roots: dict[str, int]) -> None:
        """Put pages wrong, with a wrong checksum and with a right one."""
        path = self._place.data / "c0/w.ibd"
        if PAGE in self._found:
            _flip(path)
            self._note(PAGE, r"innochecksum c0/w\.ibd", check_pages(self._rig, self._place.data))
            _flip(path)
        pages.edit(self._place.data / "bank/accounts.ibd", roots["bank/accounts"], _lessen)
        pages.edit(self._place.data / "bank/moves.ibd", roots["bank/moves"], _delete)
        for name, root in roots.items():
            if name.endswith(_TEXT_FILE):
                pages.edit(self._place.data / f"{name}.ibd", root, _delete)
        with self._server() as running:
            verdict, _ = ask(self._rig, running, self._histories, NEVER)
        self._note(INDEX, r"bank\.accounts: index balance holds", verdict.wrong)
        self._note(ENTRIES, r"CHECK TABLE bank\.moves", verdict.wrong)
        self._note(TEXT, r"bank\.texts: full-text index f1 finds 0 rows with other, 1 have it", verdict.wrong)


def _flip(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(ROOT_PAGE * pages.PAGE_BYTES + ON_PAGE)
        (byte,) = file.read(1)
        file.seek(-1, 1)
        file.write(bytes([byte ^ 1]))


def _first(page: bytearray) -> int:
    """The first record of an index that is a single page."""
    if page[_INDEX_LEVEL_AT : _INDEX_LEVEL_AT + 2] != b"\0\0":
        raise ToolError("the index to be damaged has more than one page")
    return next(record for record in pages.records(page) if not pages.is_deleted(page, record))


def _lessen(page: bytearray) -> None:
    """Make the first key, an INT, less by one: the order stays as it is."""
    at = _first(page)
    page[at : at + 4] = (int.from_bytes(page[at : at + 4]) - 1).to_bytes(4)


def _delete(page: bytearray) -> None:
    pages.mark_deleted(page, _first(page))
