# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Servers that the rig starts and ends, and what it asks them."""

from __future__ import annotations

import random
import re
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pymysql

from redstart_cli import keyring, mysqld
from redstart_cli.console import warn
from redstart_cli.mysqld import Binary, Mysqld, NotStoppedError, ServerError
from torture import binlog, fulltext, load, pages, rebuild
from torture.oracle import History, Observed, State, Table, Verdict, balances
from torture.settings import (
    BATCH_OFF,
    HANDED_OVER,
    ONCE_OFF,
    ONCE_ON,
    PREALLOCATE_OFF,
    PREALLOCATE_ON,
    SCAN_ON,
    SETTINGS,
    SKIPPED,
    UNDO_LEFT,
    Setting,
)

START_TIMEOUT_SEC = 180
STOP_TIMEOUT_SEC = 180
# One that changes the release of the data directory has some seconds of work more: minutes, where many want the processors. It
# may take longer as long as it writes, and so long altogether.
CHANGE_TIMEOUT_SEC, STANDSTILL_SEC = 900, 60
INITIALISE_TIMEOUT_SEC = 600
CHECK_TIMEOUT_SEC = 120
# Undo is read page by page, by a thread that has a name: threads have none without the performance schema.
UNDO_BY_PAGE = ("--loose-innodb-undo-read-ahead-pages=0", "--performance-schema=ON")
# What binlog_startup_scan leaves out is in a large file, so there is one more often than not.
LARGE_LOG_SHARE = 2 / 3
# Index builds write their pages one at a time, as MySQL does.
SINGLE_FLUSH_SHARE = 1 / 4
_OLDER = "when the last binary log was written: it seems that its files were put back"
_READY = re.compile("ready for connections")
INNODB_OPEN = re.compile("InnoDB initialization has ended")
_CHANGE = re.compile(r"Server (?:up|down)grade from '\d+' to '\d+' (started|completed)")
_WRITTEN = re.compile(r"^wchar: (\d+)$", re.MULTILINE)
_UNDO_READ = re.compile(r"The undo logs of recovered transactions were read")
TRUNCATE_SEC = 5.0
ENCRYPT = ("OFF", "OFF", "ON")

COMMON = (
    "--no-defaults", "--skip-networking", "--secure-file-priv=", "--performance-schema=OFF", "--event-scheduler=OFF",
    "--lower-case-table-names=0", "--log-error-verbosity=3", "--innodb-buffer-pool-load-at-startup=OFF",
    "--innodb-data-file-path=ibdata1:12M:autoextend", "--innodb-temp-data-file-path=ibtmp1:12M:autoextend",
    "--log-bin=binlog", "--server-id=1", "--gtid-mode=ON", "--enforce-gtid-consistency=ON",
    "--sync-binlog=1", "--innodb-flush-log-at-trx-commit=1",
    # So that words are written to the files of an index now and then; for OPTIMIZE TABLE, which nobody else does.
    "--innodb-ft-cache-size=1600000", "--innodb-optimize-fulltext-only=ON",
)  # fmt: skip


def page_option(page_kib: int) -> str:
    """The option that a data directory must be used with."""
    return f"--innodb-page-size={page_kib}k"


def _own_options(r: random.Random) -> list[str]:
    """What of this build is on and off."""
    options: list[str] = []
    for setting in SETTINGS:
        options += setting.on if r.random() < setting.share else setting.off
        if options[-1] == SCAN_ON and r.random() < LARGE_LOG_SHARE:
            options.append("--max-binlog-size=64M")
    options += [r.choice([PREALLOCATE_ON, PREALLOCATE_OFF]), r.choice([ONCE_ON, ONCE_OFF])]
    return [*options, *([BATCH_OFF] if r.random() < SINGLE_FLUSH_SHARE else [])]


def random_options(r: random.Random, has_keyring: bool = False, page_kib: int = pages.PAGE_KIB) -> list[str]:
    """Options of a life: small pools and logs, so that pages are flushed and checkpoints move while clients write."""
    return [
        page_option(page_kib),
        # Large pages need a larger pool for as many of them.
        f"--innodb-buffer-pool-size={r.choice([8, 16, 32]) * pages.times(page_kib)}M",
        f"--innodb-redo-log-capacity={r.choice([8, 8, 16, 32])}M",
        f"--innodb-flush-method={r.choice(['O_DIRECT', 'fsync'])}",
        f"--innodb-doublewrite-pages={r.choice([4, 16])}",
        f"--max-binlog-size={r.choice([64, 1024, 65536])}K",
        f"--innodb-change-buffering={r.choice(['all', 'none'])}",
        f"--innodb-use-fdatasync={r.choice(['ON', 'OFF'])}",
        f"--innodb-fast-shutdown={r.choice([0, 1, 1, 2])}",
        f"--innodb-log-writer-threads={r.choice(['ON', 'OFF'])}",
        f"--innodb-ddl-threads={r.choice([1, 4])}",
        f"--innodb-ddl-buffer-size={r.choice([65536, 1048576])}",
        f"--innodb-max-undo-log-size={r.choice([10, 1024])}M",
        f"--innodb-max-dirty-pages-pct={r.choice([1, 90])}",
        f"--innodb-purge-rseg-truncate-frequency={r.choice([1, 16, 128])}",
        f"--binlog-order-commits={r.choice(['ON', 'ON', 'OFF'])}",
        f"--innodb-redo-log-encrypt={r.choice(ENCRYPT) if has_keyring else 'OFF'}",
        f"--innodb-undo-log-encrypt={r.choice(ENCRYPT) if has_keyring else 'OFF'}",
        *_own_options(r),
    ]


@dataclass
class Place:
    """A data directory and how servers are run on it."""

    data: Path
    log: Path
    options: list[str]
    environment: dict[str, str] = field(default_factory=dict)
    # What the start follows, for the counts.
    crash: str = ""


class Server(Mysqld):
    """One run of a server."""

    poll_sec = 0.02
    # How much it had written when that was looked at, and since when it is so much.
    _written, _since = -1, 0.0

    def __init__(self, binary: Binary, place: Place, extra: Sequence[str] = ()) -> None:
        self.binary = binary
        self.place = place
        # MySQL does not start with what a crash has left of the log in which it notes that it empties an undo tablespace.
        for path in [path for path in place.data.glob("undo_*_trunc.log") if not path.stat().st_size]:
            warn(f"removed {path.name}, which has no bytes: MySQL would not start")
            path.unlink()
        if keyring.has_keyring(place.data):
            _write_keyring(place.data)
        words = [*binary.words, *COMMON, *place.options, *binary.options, *extra]
        super().__init__(binary.name, words, place.data, place.log, [])
        self.words.append(f"--tmpdir={self.run}")
        self.launch(environment=place.environment)

    def connect(self) -> Any:
        """A connection of the rig."""
        return load.connect(self.socket)

    def wait_ready(self, timeout_sec: float = START_TIMEOUT_SEC) -> str:
        """Empty if the server answers, else why it does not."""
        try:
            self.await_ready(timeout_sec)
        except ServerError as problem:
            return str(problem)
        return ""

    def changes_release(self) -> bool:
        """Whether it makes the tables of the schemas `mysql` and `sys` for another release."""
        return _CHANGE.findall(self.said())[-1:] == ["started"]

    def has_changed_release(self) -> bool:
        """Whether it has made them."""
        return _CHANGE.findall(self.said())[-1:] == ["completed"]

    def has_opened_innodb(self) -> bool:
        """Whether it came so far that it may have changed the dictionary."""
        return bool(INNODB_OPEN.search(self.said()))

    def is_open(self) -> bool:
        """Whether it says that it has come to the end of its start."""
        return bool(_READY.search(self.said()))

    def may_take_longer(self) -> bool:
        now = time.monotonic()
        if not self.changes_release() or now > self.begin + CHANGE_TIMEOUT_SEC:
            return False
        if (written := self._bytes_written()) != self._written:
            self._written, self._since = written, now
        return now < self._since + STANDSTILL_SEC

    def _bytes_written(self) -> int:
        """By all its calls, until it ends."""
        try:
            found = _WRITTEN.search(Path(f"/proc/{self.process.pid}/io").read_text(encoding="ascii"))
        except OSError:
            return self._written
        return int(found[1]) if found else self._written

    @property
    def has_died(self) -> bool:
        """Whether it has ended although nobody has ended it."""
        return not self.is_running

    def has(self, option: str) -> bool:
        """Whether it is a server of this build with a variable ON; others do not know it."""
        return self.binary.name == "ours" and option in self.place.options

    def has_used(self, setting: Setting) -> bool:
        """Whether it says so."""
        return len(setting.says.findall(self.said())) >= setting.times

    def scans_from_checkpoint(self) -> bool:
        """Whether both passes over the last binary log have left out all before a checkpoint."""
        return sum(bool(found[1]) for found in SKIPPED.finditer(self.said())) > 1

    def takes_files_for_older(self) -> bool:
        """Whether it says that InnoDB has less than when the binary log was written."""
        return _OLDER in self.said()

    def handed_over(self) -> int:
        """How many prepared transactions that the binary log does not know it has left to its thread."""
        found = HANDED_OVER.search(self.said())
        return int(found[1]) if found else 0

    def reads_undo(self) -> bool:
        """Whether it has left undo logs of open transactions for when it is open, and has not read them yet."""
        said = self.said()
        return bool(UNDO_LEFT.search(said)) and not _UNDO_READ.search(said)

    def reads_undo_open(self) -> bool:
        """The same, when clients can connect."""
        return self.reads_undo() and self.is_open()

    def stop(self, timeout_sec: float = STOP_TIMEOUT_SEC) -> str:
        """A clean shutdown; empty, or what was wrong with it."""
        try:
            code = self.end(timeout_sec)
        except NotStoppedError as problem:
            return str(problem)
        return f"{self.name} ended with {code} at its stop: {self.errors()}" if code else ""

    def stop_flushed(self) -> str:
        """A clean shutdown that leaves no redo to be applied, whatever innodb_fast_shutdown is; empty, or what was wrong."""
        try:
            self.query("SET GLOBAL innodb_fast_shutdown = 1")
        except (pymysql.err.MySQLError, OSError) as problem:
            return f"{self.name} was not ready to be stopped: {problem}: {self.errors()}"
        return self.stop()


def _write_keyring(data: Path) -> None:
    """The keys are in the data directory, so that they are copied and crash with it."""
    keyring.write_keyring(data, data / "keyring")


def initialise(binary: Binary, place: Place, is_encrypted: bool = False) -> None:
    """Make a data directory with what the load expects, and stop cleanly; ServerError if that fails."""
    words = [*binary.command, *COMMON, *place.options, *binary.options]
    mysqld.initialise(binary.name, words, place.data, place.log, INITIALISE_TIMEOUT_SEC)
    if is_encrypted:
        _write_keyring(place.data)
    with Server(binary, place) as server:
        server.await_ready(START_TIMEOUT_SEC)
        (page_bytes,) = server.query("SELECT @@innodb_page_size")[0]
        server.query(*load.schema(is_encrypted), *rebuild.schema(int(page_bytes)))
        if problem := server.stop():
            raise ServerError(problem)


# The oracle's questions


def observe(cursor: Any, client: int) -> Observed:
    """What the server holds of one client."""
    if client == load.BUILDER:
        tables = {f"c{other}.w": Table(indexes=_indexes(cursor, f"c{other}", "w")) for other in range(load.CLIENTS)}
        cursor.execute("SELECT name FROM information_schema.innodb_tablespaces WHERE space_type = 'Undo'")
        undo = {name for (name,) in cursor.fetchall()} - {"innodb_undo_001", "innodb_undo_002"}
        return Observed(State(tables=tables, undo=undo))
    schema = f"c{client}"
    cursor.execute(f"SELECT number FROM {schema}.progress")
    numbers = [number for (number,) in cursor.fetchall()]
    state = State(progress=numbers[0] if numbers else -1)
    observed = Observed(state)
    if len(numbers) != 1:
        observed.broken.append(f"progress has {len(numbers)} rows")
    cursor.execute(
        "SELECT t.table_name, t.table_comment, COUNT(*) FROM information_schema.tables t"
        f" JOIN information_schema.columns c USING (table_schema, table_name) WHERE t.table_schema = '{schema}'"
        " AND t.table_name <> 'progress' AND c.column_name NOT IN ('g', 'FTS_DOC_ID') GROUP BY 1, 2"
    )
    for name, variant, columns in cursor.fetchall():
        table = state.tables[name] = Table(variant, columns - load.COLUMNS)
        if name != "w":
            table.indexes = _indexes(cursor, schema, name)
        try:
            right = load.right_content(client, table.columns, variant)
            cursor.execute(f"SELECT id, seq, n, {right} FROM {schema}.{name}")
        except pymysql.err.MySQLError as problem:
            if load.code_of(problem) not in (load.DISCARDED, load.LACKS_FILE):
                raise
            table.is_discarded = True
            table.lacks_file = load.code_of(problem) == load.LACKS_FILE
            continue
        for row, number, length, is_right in cursor.fetchall():
            table.rows[row] = (number, length)
            if not is_right:
                observed.broken.append(f"{name}: the content of row {row} is not what step {number} wrote")
    cursor.execute(f"SELECT number, source, target, amount FROM bank.moves WHERE client = {client}")
    state.moves = {number: (source, target, amount) for number, source, target, amount in cursor.fetchall()}
    return observed


def _indexes(cursor: Any, schema: str, table: str) -> set[str]:
    cursor.execute(
        "SELECT DISTINCT index_name FROM information_schema.statistics WHERE index_name NOT IN ('PRIMARY', 'FTS_DOC_ID_INDEX')"
        f" AND table_schema = '{schema}' AND table_name = '{table}'"
    )
    return {name for (name,) in cursor.fetchall()}


def prepared(cursor: Any) -> set[str]:
    """The names of the prepared transactions."""
    cursor.execute("XA RECOVER")
    return {data if isinstance(data, str) else data.decode() for _, _, _, data in cursor.fetchall()}


def check_binlog(cursor: Any, data: Path) -> Verdict:
    """Whether binary logs and tables hold the same transactions, before anything is written."""
    progress: dict[int, int] = {}
    for client in range(load.CLIENTS):
        cursor.execute(f"SELECT number FROM c{client}.progress")
        for (number,) in cursor.fetchall():
            progress[client] = number
    cursor.execute("SELECT @@gtid_executed")
    executed = binlog.parse_gtids(cursor.fetchone()[0])
    try:
        held = binlog.read(data)
    except (binlog.BadBinlog, OSError) as problem:
        return Verdict(wrong=[f"binary log: {problem}"])
    wrong, known = binlog.compare(held, executed, progress, prepared(cursor))
    return Verdict(wrong=[f"binary log: {text}" for text in wrong], known=known)


def resolve_prepared(cursor: Any, histories: list[History], limit: float) -> Verdict:
    """End the prepared transactions as their clients would have."""
    found = prepared(cursor)
    total = Verdict()
    for history in histories:
        todo, verdict = history.prepared(found, limit)
        total.add(verdict)
        for name, word in sorted(todo.items()):
            cursor.execute(f"XA {word} '{name}'")
            found.discard(name)
    total.wrong += [f"{name} is prepared, and nobody has prepared it" for name in sorted(found)]
    for name in found:
        cursor.execute(f"XA ROLLBACK '{name}'")
    return total


def check_tables(cursor: Any, states: list[State], text_asked: Counter[str]) -> list[str]:
    """What is wrong with tables and indexes by themselves; `text_asked` counts."""
    wrong = []
    discarded = load.discarded_tables(states)
    cursor.execute(
        "SELECT table_schema, table_name FROM information_schema.tables"
        " WHERE table_schema = 'bank' OR table_schema LIKE 'c_' ORDER BY 1, 2"
    )
    for schema, table in cursor.fetchall():
        if (schema, table) in discarded:
            continue
        cursor.execute(f"CHECK TABLE {schema}.{table}")
        said = [row[3] for row in cursor.fetchall() if row[2] != "status" or row[3] != "OK"]
        if said:
            wrong.append(f"CHECK TABLE {schema}.{table}: {'; '.join(said)}")
        else:
            wrong += check_indexes(cursor, schema, table, text_asked)
    wrong += rebuild.check(cursor)
    # The second form is that of a table that a user has given such a name.
    cursor.execute(
        "SELECT name FROM information_schema.innodb_tables WHERE name LIKE '%#sql%' OR name LIKE '%@0023sql%'"
    )
    wrong += [f"{name} is left of a statement" for (name,) in cursor.fetchall()]
    return wrong


def check_indexes(cursor: Any, schema: str, table: str, text_asked: Counter[str]) -> list[str]:
    """Whether each secondary index holds the same rows as the clustered one, and full-text indexes their words."""
    cursor.execute(
        "SELECT index_name, GROUP_CONCAT(column_name ORDER BY seq_in_index), MAX(sub_part IS NOT NULL), MAX(index_type)"
        " FROM information_schema.statistics WHERE index_name <> 'PRIMARY'"
        f" AND table_schema = '{schema}' AND table_name = '{table}' GROUP BY 1"
    )
    key = {"moves": "client, number"}.get(table, "id")
    wrong = []
    for index, columns, is_prefix, kind in cursor.fetchall():
        if kind == "SPATIAL":
            wrong += _check_spatial(cursor, f"{schema}.{table}", index)
            continue
        if kind == "FULLTEXT":
            wrong += fulltext.check(cursor, schema, table, index, columns, text_asked)
            continue
        if is_prefix:
            continue  # it cannot be read without the rows; CHECK TABLE has counted its entries
        sums = []
        for forced in ("PRIMARY", index):
            cursor.execute(
                f"SELECT COUNT(*), SUM(CRC32(CONCAT_WS(',', {key}, {columns}))) FROM {schema}.{table}"
                f" FORCE INDEX ({forced})"
            )
            sums.append(cursor.fetchone())
        if sums[0] != sums[1]:
            wrong.append(f"{schema}.{table}: index {index} holds {sums[1]}, the rows are {sums[0]}")
    return wrong


def _check_spatial(cursor: Any, table: str, index: str) -> list[str]:
    """Whether a spatial index finds every row."""
    everywhere = "ST_GeomFromText('POLYGON((-1 -1, 1e9 -1, 1e9 1e9, -1 1e9, -1 -1))')"
    cursor.execute(f"SELECT COUNT(*) FROM {table} FORCE INDEX (PRIMARY)")
    (rows,) = cursor.fetchone()
    cursor.execute(f"SELECT COUNT(*) FROM {table} FORCE INDEX ({index}) WHERE MBRContains({everywhere}, g)")
    (found,) = cursor.fetchone()
    return [] if found == rows else [f"{table}: index {index} finds {found} of {rows} rows"]


def check_bank(cursor: Any) -> list[str]:
    """Whether the accounts hold what the transfers make of them."""
    cursor.execute("SELECT source, target, amount FROM bank.moves")
    expected = balances(load.ACCOUNTS, load.OPENING, list(cursor.fetchall()))
    cursor.execute("SELECT id, balance FROM bank.accounts ORDER BY id")
    seen = [balance for _, balance in cursor.fetchall()]
    if seen == expected:
        return []
    different = [number for number, pair in enumerate(zip(seen, expected, strict=False)) if pair[0] != pair[1]]
    return [f"{len(different)} accounts do not hold what the transfers make of them: {different[:5]}; sum {sum(seen)}"]


def check_files(cursor: Any, data: Path, states: list[State]) -> list[str]:
    """Whether the files of tablespaces are those that the dictionary names.

    Where a tablespace was discarded there may be a file: that of an import that a crash has ended.
    """
    end = time.monotonic() + TRUNCATE_SEC
    # Purge makes the file of an undo tablespace anew.
    while (wrong := _missing_undo_files(cursor, data)) and time.monotonic() < end:
        time.sleep(0.1)
    cursor.execute("SELECT path FROM information_schema.innodb_tablespaces_brief WHERE path LIKE '%.ibd'")
    named = {str((data / path).resolve()) for (path,) in cursor.fetchall()} - {str((data / "mysql.ibd").resolve())}
    there = {str(path.resolve()) for path in data.rglob("*.ibd") if path != data / "mysql.ibd"}
    there = {path for path in there if "/#innodb_temp/" not in path and "/sys/" not in path}
    named = {path for path in named if "/sys/" not in path}
    open_to_doubt = {str(path.resolve()) for path in load.discarded_files(data, states)}
    wrong += [f"no file {path}" for path in sorted(named - there - open_to_doubt)]
    return wrong + [f"{path} belongs to no tablespace" for path in sorted(there - named - open_to_doubt)]


def _missing_undo_files(cursor: Any, data: Path) -> list[str]:
    """There may be more: MySQL, too, leaves the file of an undo tablespace whose CREATE a power cut has ended."""
    cursor.execute("SELECT file_name FROM information_schema.files WHERE file_name LIKE '%.ibu'")
    return [f"no file {path}" for (path,) in cursor.fetchall() if not (data / path).exists()]


def ask_oracle(server: Server, histories: list[History], limit: float) -> tuple[Verdict, list[State]]:
    """The whole check of a started server; also what it holds, for the histories that follow."""
    verdict = Verdict()
    states: list[State] = []
    connection = load.connect(server.socket, CHECK_TIMEOUT_SEC)
    with connection, connection.cursor() as cursor:
        cursor.execute("SET group_concat_max_len = 10000")
        verdict.add(check_binlog(cursor, server.place.data))
        verdict.add(resolve_prepared(cursor, histories, limit))
        for history in histories:
            observed = observe(cursor, history.client)
            verdict.add(history.judge(observed, limit))
            states.append(observed.state)
        verdict.wrong += check_bank(cursor)
        verdict.wrong += check_tables(cursor, states, verdict.text)
        verdict.wrong += check_files(cursor, server.place.data, states)
    return verdict, states
