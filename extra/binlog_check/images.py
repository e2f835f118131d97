# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Data directories with a binary log, of all kinds of transactions, closed or left by a kill; from a seed."""

from __future__ import annotations

import random
import shutil
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from binlog_check.logfile import MIN_SKIP_BYTES, XID, Checkpoint, read_checkpoint, transactions
from differential.server import Server, configure_keyring, copy
from redstart_cli.mysqld import Binary

_UUID = "4b7a1c52-9d3e-11f0-8e6b-0242ac120002"
_MODES = ["OFF", "OFF_PERMISSIVE", "ON_PERMISSIVE", "ON"]
SMALL = 100
# How long it may take until two small transactions are in the binary log.
_WRITTEN_SECONDS = 30
_SMALL = "INSERT INTO d.t (b) VALUES ('small');"
# A transaction of many large rows.
LARGE_ROWS = 40
_LARGE = "BEGIN;" + "INSERT INTO d.t (b) VALUES (REPEAT('p', 200000));" * LARGE_ROWS + "COMMIT;"
# How long it may take until a server that has just started writes no redo.
_QUIET_SECONDS = 30
_LSN = "SELECT variable_value FROM performance_schema.global_status WHERE variable_name = 'Innodb_redo_log_current_lsn'"
_SCHEMA = """
CREATE DATABASE d; USE d;
CREATE TABLE t (a INT AUTO_INCREMENT PRIMARY KEY, b LONGBLOB);
CREATE TABLE m (a INT AUTO_INCREMENT PRIMARY KEY, b LONGBLOB) ENGINE=MyISAM;
"""


@dataclass
class Image:
    """A data directory that is copied for each start."""

    home: Path
    # Options of the server, the same for each start.
    options: list[str]
    is_killed: bool
    has_checksums: bool
    is_encrypted: bool = False
    settings: dict[str, str] = field(default_factory=dict)
    # Transactions of another server were applied by a replica's threads.
    is_replica: bool = False
    # With settings that let a start move over transactions, and such a one at the end.
    is_plain: bool = False

    @property
    def log(self) -> Path:
        """The last binary log."""
        return last_log(self.home)


def last_log(home: Path) -> Path:
    """The last file that the index names."""
    return home / "data" / (home / "data/binlog.index").read_text(encoding="utf-8").split()[-1]


def _settings(r: random.Random) -> dict[str, str]:
    gtid = r.choice(["ON", "ON", "OFF", "OFF_PERMISSIVE", "ON_PERMISSIVE"])
    return {
        "gtid-mode": gtid,
        "enforce-gtid-consistency": "ON" if gtid == "ON" else r.choice(["OFF", "WARN"]) if gtid == "OFF" else "WARN",
        "binlog-checksum": r.choice(["CRC32", "CRC32", "NONE"]),
        "binlog-format": r.choice(["ROW", "ROW", "MIXED", "STATEMENT"]),
        "binlog-transaction-compression": r.choice(["OFF", "OFF", "ON"]),
        "binlog-row-image": r.choice(["FULL", "MINIMAL", "NOBLOB"]),
        "binlog-rows-query-log-events": r.choice(["OFF", "ON"]),
        "binlog-order-commits": r.choice(["ON", "ON", "OFF"]),
        "binlog-row-event-max-size": r.choice(["256", "8192", "1048576"]),
    }


def _statements(r: random.Random, number: int, mode: str) -> str:
    """One transaction, or a few."""
    kinds = ["small", "small", "large", "large", "large", "two", "ddl", "myisam", "xa", "xa-prepared", "savepoint",
             "ctas", "one-phase", "rollback", "temporary", "many", "mode", "purge"]  # fmt: skip
    if r.random() < 0.05:
        kinds = ["reset"]
    if mode != "ON":
        kinds += ["mixed"]
    else:
        kinds += ["tagged", "empty-gtid", "sources", "unlogged", "owned", "purged"]
    return _all_statements(r, number, mode)[r.choice(kinds)]


def _all_statements(r: random.Random, number: int, mode: str) -> dict[str, str]:
    # A literal, so that it is as long in a statement that is logged as such; and not to be compressed away.
    blob = "'" + "".join(f"{r.getrandbits(64):016x}" for _ in range(r.choice([5_000, 10_000, 20_000]))) + "'"
    value = f"CAST('{number}' AS BINARY)"
    xid = f"'x{number}'"
    return {
        "small": f"INSERT INTO d.t (b) VALUES ({value});",
        "large": f"INSERT INTO d.t (b) VALUES ({blob});",
        "two": f"BEGIN; INSERT INTO d.t (b) VALUES ({blob}); UPDATE d.t SET b = {value} ORDER BY a LIMIT 3; COMMIT;",
        "ddl": f"CREATE TABLE d.n{number} (a INT PRIMARY KEY);",
        "myisam": f"INSERT INTO d.m (b) VALUES ({blob});",
        "xa": f"XA START {xid}; INSERT INTO d.t (b) VALUES ({blob}); XA END {xid}; XA PREPARE {xid};"
        + r.choice([f"XA COMMIT {xid};", f"XA ROLLBACK {xid};"]),
        "xa-prepared": f"XA START {xid}; INSERT INTO d.t (b) VALUES ({blob}); XA END {xid}; XA PREPARE {xid};",
        "one-phase": f"XA START {xid}; INSERT INTO d.t (b) VALUES ({blob}); XA END {xid}; XA COMMIT {xid} ONE PHASE;",
        "savepoint": f"BEGIN; INSERT INTO d.t (b) VALUES ({blob}); SAVEPOINT s; DELETE FROM d.t ORDER BY a DESC LIMIT 1;"
        f"ROLLBACK TO s; INSERT INTO d.t (b) VALUES ({value}); COMMIT;",
        "ctas": f"CREATE TABLE d.c{number} AS SELECT {number} AS a, {blob} AS b;",
        "rollback": f"BEGIN; INSERT INTO d.t (b) VALUES ({blob}); ROLLBACK;",
        "temporary": f"CREATE TEMPORARY TABLE d.p{number} (a INT); DROP TEMPORARY TABLE d.p{number};",
        "mixed": f"BEGIN; INSERT INTO d.t (b) VALUES ({blob}); INSERT INTO d.m (b) VALUES ({value}); COMMIT;",
        "tagged": f"SET gtid_next = '{_UUID}:tag{number % 3}:{number + 1}';"
        f"INSERT INTO d.t (b) VALUES ({blob}); SET gtid_next = 'AUTOMATIC';",
        "many": f"INSERT INTO d.t (b) VALUES ({value});" * SMALL,
        # To the next mode and mostly back again; what is logged meanwhile has GTIDs or none.
        "mode": "".join(
            f"SET GLOBAL gtid_mode = {_MODES[min(max(_MODES.index(mode) + step, 0), 3)]}; INSERT INTO d.t (b) VALUES ({value});"
            for step in r.choice([(1, 0), (-1, 0), (-1, -2, -1, 0), (1, 2), (-1, -2, -3)])
        ),
        "purge": "FLUSH BINARY LOGS; PURGE BINARY LOGS BEFORE NOW();",
        "reset": "RESET BINARY LOGS AND GTIDS;",
        # Several sources, with gaps and out of order.
        "sources": "".join(
            f"SET gtid_next = '{_UUID[:-1]}{source}:{gno}'; INSERT INTO d.t (b) VALUES ({value});"
            for source, gno in r.sample([(source, 10_000 + number * 50 + gno) for source in "3456" for gno in range(15)], 20)
        )
        + "SET gtid_next = 'AUTOMATIC';",
        # In the binary log as an empty transaction.
        "unlogged": f"SET sql_log_bin = OFF, gtid_next = '{_UUID[:-1]}7:{number + 1}';"
        f"INSERT INTO d.t (b) VALUES ({value}); COMMIT; SET sql_log_bin = ON, gtid_next = 'AUTOMATIC';",
        # Without COMMIT MySQL has the GTID in no binary log, and in gtid_executed from the next start on.
        "owned": f"SET sql_log_bin = OFF, gtid_next = '{_UUID[:-1]}9:{number + 1}'; INSERT INTO d.t (b) VALUES ({value});",
        # In gtid_executed, but in no binary log.
        "purged": f"SET GLOBAL gtid_purged = '+{_UUID[:-1]}8:{number * 10 + 1}-{number * 10 + 5}';",
        "empty-gtid": f"SET gtid_next = '{_UUID}:{1000 + number}'; COMMIT; SET gtid_next = 'AUTOMATIC';",
    }


def make_writes(r: random.Random, number: int) -> str:
    """A few small transactions with GTIDs, of the first kinds only."""
    text = "CREATE DATABASE IF NOT EXISTS d; CREATE TABLE IF NOT EXISTS d.t (a INT AUTO_INCREMENT PRIMARY KEY, b LONGBLOB);"
    for kind in r.sample(["many", "tagged", "sources", "unlogged", "purged", "purge", "reset", "nothing"], 3):
        # Rarely: it leaves little to be found.
        if kind != "nothing" and (kind != "reset" or r.random() < 0.2):
            text += _all_statements(r, number, "ON")[kind]
    return text


# Settings with which each transaction can be moved over, and what is found can be seen.
_PLAIN = {
    "gtid-mode": "ON", "enforce-gtid-consistency": "ON", "binlog-format": "ROW", "binlog-transaction-compression": "OFF",
}  # fmt: skip
_PLAIN_OPTIONS = [*(f"--{name}={value}" for name, value in _PLAIN.items()), "--binlog-checksum=CRC32", "--log-bin=binlog",
                  "--server-id=1"]  # fmt: skip


@dataclass(frozen=True)
class Source:
    """What another server has written, for a replica's applier to read as its relay log."""

    content: bytes
    gtids: str


def _start_plain(base: Path, home: Path, binary: Binary, client: Path) -> Server:
    """A server whose binary log has all that a checkpoint stands behind, and a small transaction."""
    copy(base, home)
    server = Server(binary, home, client, _PLAIN_OPTIONS)
    if not server.wait_ready():
        raise RuntimeError(f"the server does not start: {server.errors()}")
    server.sql(_SCHEMA + f"INSERT INTO d.t (b) VALUES (REPEAT('u', {2 * MIN_SKIP_BYTES})); INSERT INTO d.t (b) VALUES ('');")
    return server


def _wait_for_no_redo(server: Server) -> bool:
    """What a server does in the background after a start has been done; false if that takes too long."""
    end, seen = time.monotonic() + _QUIET_SECONDS, [""]
    while time.monotonic() < end and (len(seen) < 4 or len(set(seen[-4:])) > 1):
        time.sleep(0.3)
        seen += server.ask([_LSN])
    return len(set(seen[-4:])) == 1


def _write_two(server: Server, first: str = _SMALL) -> list[subprocess.Popen[str]]:
    """Two transactions that are in the binary log, prepared in InnoDB, and wait for the sync; their clients."""
    log = last_log(server.home)
    n_before = len(transactions(log.read_bytes()))
    server.sql("SET GLOBAL binlog_group_commit_sync_delay = 1000000;")
    clients = []
    end = time.monotonic() + _WRITTEN_SECONDS
    for number, text in enumerate((first, _SMALL), 1):
        clients.append(server.start_sql(text))
        while not _is_written(log, n_before + number) and time.monotonic() < end:
            time.sleep(0.01)
    return clients


def _is_written(log: Path, n_transactions: int) -> bool:
    """True if so many transactions are in a binary log, the last one whole."""
    found = transactions(log.read_bytes())
    return len(found) >= n_transactions and found[-1].events[-1].kind == XID


def _tidy(home: Path) -> None:
    """Remove what only a running server has a use for."""
    for name in ("s", "s.lock", "pid", "output"):
        (home / name).unlink(missing_ok=True)
    shutil.rmtree(home / "data/#innodb_temp", ignore_errors=True)


def _killed_image(home: Path) -> Image:
    _tidy(home)
    return Image(home, _PLAIN_OPTIONS, True, True, settings=dict(_PLAIN), is_plain=True)


def make_uncommitted(
    base: Path, home: Path, binary: Binary, client: Path, is_large: bool = False
) -> tuple[Image, str, int] | None:
    """A server that was killed when two transactions were in the binary log, and prepared in InnoDB, but not committed.

    The first has LARGE_ROWS if `is_large`. Also its UUID, and how many transactions it had committed before; None if it was
    killed too early or too late.
    """
    with _start_plain(base, home, binary, client) as server:
        uuid, executed = (text.strip() for text in server.ask(["SELECT @@server_uuid", "SELECT @@GLOBAL.gtid_executed"]))
        clients = _write_two(server, _LARGE if is_large else _SMALL)
        server.kill()
        for one in clients:
            one.wait()
    image = _killed_image(home)
    before = int(executed.removeprefix(f"{uuid}:1-"))
    return (image, uuid, before) if _is_written(image.log, before + 2) else None


def make_older(base: Path, home: Path, binary: Binary, client: Path) -> tuple[Image, Checkpoint] | None:
    """A killed server's binary log, with a checkpoint behind two transactions, and InnoDB's files from before their commit.

    As if snapshots of two volumes had not been taken at the same moment. None if there is no such checkpoint.
    """
    later = home.with_name(f"{home.name}l")
    server = _start_plain(base, later, binary, client)
    try:
        if not _wait_for_no_redo(server):
            return None
        clients = _write_two(server)
        with server.frozen():
            copy(later, home)
            end = last_log(home).stat().st_size
        for one in clients:
            one.wait()
        # Little redo, and enough in the binary log: a start writes more redo before it opens the binary log.
        server.sql(f"SET GLOBAL binlog_group_commit_sync_delay = 0; INSERT INTO d.m (b) VALUES (REPEAT('l', {2 * MIN_SKIP_BYTES}));"
                   + "INSERT INTO d.t (b) VALUES ('later');" * 2)  # fmt: skip
        server.kill()
        log = last_log(later)
        checkpoint = read_checkpoint(log)
        shutil.copy2(log, home / "data")
    finally:
        server.kill()
        shutil.rmtree(later, ignore_errors=True)
    if checkpoint is None or checkpoint.begin < end:
        return None
    return _killed_image(home), checkpoint


def make_source(base: Path, home: Path, binary: Binary, client: Path) -> Source:
    """Let a server with another UUID write small transactions, with tags and gaps."""
    copy(base, home)
    (home / "data/auto.cnf").unlink(missing_ok=True)
    server = Server(binary, home, client, [*(f"--{name}={value}" for name, value in _PLAIN.items()), "--log-bin=binlog",
                                           "--server-id=2"])  # fmt: skip
    try:
        if not server.wait_ready():
            raise RuntimeError(f"the source does not start: {server.errors()}")
        server.sql("CREATE DATABASE s; CREATE TABLE s.t (a INT AUTO_INCREMENT PRIMARY KEY);" + "INSERT INTO s.t VALUES ();" * 30)
        server.sql(f"SET gtid_next = '{_UUID}:sent:5'; INSERT INTO s.t VALUES (); SET gtid_next = '{_UUID}:sent:7';"
                   "INSERT INTO s.t VALUES (); SET gtid_next = 'AUTOMATIC';")  # fmt: skip
        gtids = server.sql("SELECT REPLACE(@@GLOBAL.gtid_executed, '\\n', '')").replace("\\n", "").strip()
        server.stop()
        return Source(last_log(home).read_bytes(), gtids)
    finally:
        server.kill()
        shutil.rmtree(home, ignore_errors=True)


def _replicate(server: Server, source: Source) -> bool:
    """Apply what the source has written; true if all of it has been."""
    server.sql("CHANGE REPLICATION SOURCE TO SOURCE_HOST = 'none', RELAY_LOG_FILE = 'relay.000001', RELAY_LOG_POS = 4;"
               "START REPLICA SQL_THREAD;")  # fmt: skip
    answer = server.sql(f"SELECT WAIT_FOR_EXECUTED_GTID_SET('{source.gtids}', 60); STOP REPLICA;")
    return answer.split()[:1] == ["0"]


def make(
    seed: int, base: Path, home: Path, binary: Binary, client: Path, is_encrypted: bool = False, is_plain: bool = False,
    source: Source | None = None, is_killed: bool | None = None,
) -> Image:  # fmt: skip
    """Let a server write a binary log, and end or kill it; an encrypted one needs a server with a keyring.

    With `is_plain` nothing but the transactions and the end differs from seed to seed, and the last transaction is a large
    one; if the server is to be killed, the last file has a large one, many small ones, and that. With a source it is a
    replica that has applied what the source has written, and may have logged it; if `is_killed` says how it ends, it has, and
    all events have checksums.
    """
    r = random.Random(seed)
    settings = _settings(r)
    if is_plain:
        settings |= _PLAIN
    if is_killed is not None:
        settings["binlog-checksum"] = "CRC32"
    options = [f"--{name}={value}" for name, value in settings.items()]
    # A checkpoint takes 1 and 1.
    options += ["--log-bin=binlog", "--server-id=1", f"--sync-binlog={1 if is_plain else r.choice([1, 1, 0, 3])}"]
    options += [f"--innodb-flush-log-at-trx-commit={1 if is_plain else r.choice([1, 1, 2])}"]
    options += [f"--binlog-encryption={'ON' if is_encrypted else 'OFF'}"]
    is_replica = source is not None and settings["gtid-mode"] != "OFF"
    if is_replica:
        settings["log-replica-updates"] = "ON" if is_killed is not None else r.choice(["ON", "OFF"])
        # The source has logged rows, which a server with STATEMENT cannot log. The last of an option counts.
        if settings["binlog-format"] == "STATEMENT":
            settings["binlog-format"] = "MIXED"
            options += ["--binlog-format=MIXED"]
        options += ["--relay-log=relay", "--skip-replica-start", f"--log-replica-updates={settings['log-replica-updates']}"]
    copy(base, home)
    if source is not None and is_replica:
        (home / "data/relay.000001").write_bytes(source.content)
        (home / "data/relay.index").write_text("./relay.000001\n", encoding="utf-8")
    if is_encrypted:
        configure_keyring(home)
    with Server(binary, home, client, options) as server:
        if not server.wait_ready():
            raise RuntimeError(f"seed {seed}: the server does not start: {server.errors()}")
        server.sql(_SCHEMA)
        if source is not None and is_replica and not _replicate(server, source):
            raise RuntimeError(f"seed {seed}: the replica has not applied all: {server.messages()}")
        count = r.randint(4, 14)
        rotation = r.choice([None, r.randrange(count)])
        for number in range(count):
            if number == rotation:
                server.sql("FLUSH BINARY LOGS;")
            if is_plain and is_killed and number == count - 1:
                # A checkpoint among small transactions; XA rules it out in the rest of a file.
                rows = _all_statements(r, number, "ON")
                server.sql("FLUSH BINARY LOGS;" + rows["large"] + rows["many"])
            # A client of its own: it leaves what it has prepared.
            is_large = is_plain and number == count - 1
            server.sql(_all_statements(r, number, "ON")["large"] if is_large else _statements(r, number, settings["gtid-mode"]))
        is_killed = r.random() < 0.5 if is_killed is None else is_killed
        if is_killed:
            server.kill()
        else:
            server.stop()
    _tidy(home)
    return Image(home, options, is_killed, settings["binlog-checksum"] == "CRC32", is_encrypted, settings, is_replica, is_plain)
