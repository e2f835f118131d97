# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Data directories with a binary log, of all kinds of transactions, closed or left by a kill; from a seed."""

from __future__ import annotations

import random
import shutil
from dataclasses import dataclass, field
from pathlib import Path

from differential.server import Binary, Server, configure_keyring, copy

_UUID = "4b7a1c52-9d3e-11f0-8e6b-0242ac120002"
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
    # A literal, so that it is as long in a statement that is logged as such; and not to be compressed away.
    blob = "'" + "".join(f"{r.getrandbits(64):016x}" for _ in range(r.choice([5_000, 10_000, 20_000]))) + "'"
    value = f"CAST('{number}' AS BINARY)"
    kinds = ["small", "small", "large", "large", "large", "two", "ddl", "myisam", "xa", "xa-prepared", "savepoint",
             "ctas", "one-phase", "rollback", "temporary"]  # fmt: skip
    if mode != "ON":
        kinds += ["mixed"]
    else:
        kinds += ["tagged", "empty-gtid"]
    kind = r.choice(kinds)
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
        "empty-gtid": f"SET gtid_next = '{_UUID}:{1000 + number}'; COMMIT; SET gtid_next = 'AUTOMATIC';",
    }[kind]


# Settings with which each transaction can be moved over, and what is found can be seen.
_PLAIN = {
    "gtid-mode": "ON", "enforce-gtid-consistency": "ON", "binlog-format": "ROW", "binlog-transaction-compression": "OFF",
}  # fmt: skip


def make(
    seed: int, base: Path, home: Path, binary: Binary, client: Path, is_encrypted: bool = False, is_plain: bool = False
) -> Image:
    """Let a server write a binary log, and end or kill it; an encrypted one needs a server with a keyring.

    With `is_plain`, for a canary, nothing but the transactions and the end differs from seed to seed.
    """
    r = random.Random(seed)
    settings = _settings(r)
    if is_plain:
        settings |= _PLAIN
    options = [f"--{name}={value}" for name, value in settings.items()]
    options += ["--log-bin=binlog", "--server-id=1", f"--sync-binlog={r.choice([1, 1, 0, 3])}"]
    options += [f"--innodb-flush-log-at-trx-commit={r.choice([1, 1, 2])}"]
    options += [f"--binlog-encryption={'ON' if is_encrypted else 'OFF'}"]
    copy(base, home)
    if is_encrypted:
        configure_keyring(home)
    server = Server(binary, home, client, options)
    try:
        if not server.wait_ready():
            raise RuntimeError(f"seed {seed}: the server does not start: {server.log}")
        server.sql(_SCHEMA)
        count = r.randint(4, 14)
        rotation = r.choice([None, r.randrange(count)])
        for number in range(count):
            if number == rotation:
                server.sql("FLUSH BINARY LOGS;")
            # A client of its own: it leaves what it has prepared.
            server.sql(_statements(r, number, settings["gtid-mode"]))
        is_killed = r.random() < 0.7
        if is_killed:
            server.kill()
        else:
            server.stop()
    finally:
        server.kill()
    for name in ("s", "s.lock", "pid"):
        (home / name).unlink(missing_ok=True)
    shutil.rmtree(home / "data/#innodb_temp", ignore_errors=True)
    return Image(home, options, is_killed, settings["binlog-checksum"] == "CRC32", is_encrypted, settings)
