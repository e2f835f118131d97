# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""A transaction that is prepared in InnoDB, and that the binary log does not know."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pymysql

from bench.errors import BenchError

DELAY = "binlog_group_commit_sync_delay = 1000000"
"""Setting of a server, in microseconds: a transaction is committed in InnoDB when it is over, and is in the binary log before."""


def cut_off(log: Path, position: int, commit: Callable[[], None], kill: Callable[[], None], timeout_sec: float) -> None:
    """Kill a server with DELAY in the commit of a transaction, and cut its binary log off where it ended before.

    The client that commits may lose its connection. BenchError if the log does not grow in time; the server is killed then, too.
    """

    def end_transaction() -> None:
        with contextlib.suppress(pymysql.err.MySQLError, OSError):
            commit()

    client = threading.Thread(target=end_transaction)
    client.start()
    deadline = time.monotonic() + timeout_sec
    while log.stat().st_size <= position and time.monotonic() < deadline:
        time.sleep(0.001)
    kill()
    client.join()
    if log.stat().st_size <= position:
        raise BenchError(f"nothing was written to {log.name} in {timeout_sec:g} s")
    os.truncate(log, position)
