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

from redstart_cli.tools import ToolError

DELAY_SEC = 1.0
DELAY = f"binlog_group_commit_sync_delay = {DELAY_SEC * 1e6:.0f}"
"""Setting of a server, in microseconds: a transaction is committed in InnoDB when it is over, and is in the binary log before."""


def cut_off(log: Path, position: int, commit: Callable[[], None], kill: Callable[[], None], timeout_sec: float) -> None:
    """Kill a server with DELAY in the commit of a transaction, and cut its binary log off where it ended before.

    The client that commits may lose its connection. ToolError if the log does not grow in time, or if the server was killed so
    late that the transaction may have been committed; the server is killed then, too.
    """

    def end_transaction() -> None:
        with contextlib.suppress(pymysql.err.MySQLError, OSError):
            commit()

    client = threading.Thread(target=end_transaction)
    client.start()
    deadline = time.monotonic() + timeout_sec
    before = asked = time.monotonic()
    while log.stat().st_size <= position and asked < deadline:
        time.sleep(0.001)
        before, asked = asked, time.monotonic()
    late = time.monotonic() - before
    kill()
    client.join()
    if log.stat().st_size <= position:
        raise ToolError(f"nothing was written to {log.name} in {timeout_sec:g} s")
    if late > DELAY_SEC / 2:
        raise ToolError(f"the server was killed {late:.1f} s after its binary log had grown; the transaction may be committed")
    os.truncate(log, position)
