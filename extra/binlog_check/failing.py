# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""A sync of the binary log fails, in a commit or when the file is closed: the note must not say that it was synced."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

from binlog_check.images import last_log
from binlog_check.logfile import read_note
from differential.server import Server, copy
from redstart_cli.mysqld import Binary
from torture import preload
from torture.fault import Fault

KINDS = ("none", "commit", "close")
_OPTIONS = ["--log-bin=binlog", "--server-id=1", "--sync-binlog=1", "--binlog-error-action=IGNORE_ERROR"]
_LARGE = "INSERT INTO f.t VALUES (REPEAT('f', 200000));"


def problems(binary: Binary, base: Path, client: Path, work: Path) -> list[str]:
    """What is wrong with the notes of a server whose sync fails, and of one with none that fails."""
    return [f"sync that fails ({kind}): {text}" for kind in KINDS for text in _one(kind, binary, base, client, work)]


def _one(kind: str, binary: Binary, base: Path, client: Path, work: Path) -> list[str]:
    home = work / "failing"
    copy(base, home)
    arm, fired = home / "arm", home / "fired"
    environment = preload.failing(work, Fault("sync", "binlog", 1, 1, errno.EIO), fired, arm)
    prefix = ["env", *(f"{name}={value}" for name, value in environment.items())]
    server = Server(Binary(binary.name, binary.command, binary.options, prefix), home, client, _OPTIONS)
    try:
        if not server.wait_ready():
            return [f"the server does not start: {server.errors()}"]
        server.sql(f"CREATE DATABASE f; CREATE TABLE f.t (b LONGBLOB); {_LARGE}")
        log = last_log(home)
        before = read_note(log)
        if kind == "commit":
            arm.touch()
        server.sql(_LARGE)
        if kind == "close":
            before = read_note(log)
            arm.touch()
        server.stop()
        size, after = log.stat().st_size, read_note(log)
        found = []
        if before <= 200_000:
            found.append(f"{before} bytes are noted after a large transaction")
        if fired.exists() == (kind == "none"):
            found.append("the fault has not happened" if kind != "none" else "a fault has happened")
        if after != (size if kind == "none" else before):
            found.append(f"{after} bytes are noted, {before} before, of {size}")
        return found
    finally:
        server.kill()
        shutil.rmtree(home, ignore_errors=True)
