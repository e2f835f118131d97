# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""A replica that follows a server through its crashes and must hold the same in the end."""

from __future__ import annotations

import random
import re
import shutil
import time
import traceback
from collections import Counter
from typing import Any

import pymysql
import pymysql.cursors

from redstart_cli.server import port_is_free
from redstart_cli.tools import ToolError
from torture import binlog, load
from torture.life import Rig, wait_ready
from torture.oracle import State, Verdict, describe_difference
from torture.server import CHECK_TIMEOUT_SEC, Place, Server, check_bank, check_tables, observe, random_options

# What is wrong with one begins so.
REPLICA = "replica"
# How long it may execute nothing while it lacks something.
STANDSTILL_SEC = 60
STEP_SEC = 2
# Below the ports that a system gives to whoever asks for any.
PORTS = range(21000, 31000)
# MySQL's bugs 87385 and 94803: the source ends while it sends an XA transaction, and the replica rolls back what is in
# another state (error 1399). It goes on when it has been told to fetch the transaction again.
XA_BROKEN, XA_STATEMENT = 1399, "Query: 'ROLLBACK'"
_WORKER = re.compile(r"Worker (\d+) failed")


def free_port(r: random.Random) -> int:
    """A TCP port of this machine that nobody listens on; ToolError if none is found."""
    for port in r.sample(PORTS, 100):
        if port_is_free(port):
            return port
    raise ToolError(f"no free TCP port between {PORTS.start} and {PORTS.stop}")


def source_options(port: int) -> list[str]:
    """Options of a server that a replica follows."""
    return [
        "--skip-networking=OFF", "--bind-address=127.0.0.1", f"--port={port}", "--port-open-timeout=30",
        "--loose-mysqlx=OFF",
    ]  # fmt: skip


def describe_error(status: dict[str, Any], workers: list[dict[str, Any]]) -> tuple[int, str]:
    """Number and text of an answer of SHOW REPLICA STATUS; where that has only what the coordinator says, the worker's.

    The coordinator names the worker that has failed last. If it names none, it is the first of `workers` with that number.
    """
    number, said = int(status.get("Last_SQL_Errno") or 0), status.get("Last_SQL_Error") or ""
    named = _WORKER.search(said)
    for worker in workers:
        is_named = not named or worker["WORKER_ID"] == int(named[1])
        if number and is_named and worker["LAST_ERROR_NUMBER"] == number:
            return number, worker["LAST_ERROR_MESSAGE"]
    return number, said or status.get("Last_IO_Error") or ""


class Replica:
    """A server on a data directory of its own, which begins with the same content."""

    def __init__(self, rig: Rig, r: random.Random, port: int, page_kib: int) -> None:
        """`port` is that of the server that it follows, which need not run yet and has the same size of pages."""
        self._rig = rig
        self._begin = 0
        home = rig.work / "replica"
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        shutil.copytree(rig.base(page_kib), home / "data")
        (home / "data/auto.cnf").unlink()  # it has a UUID of its own
        options = random_options(r, rig.has_keyring, page_kib)
        options += ["--server-id=2", "--relay-log=relay", "--relay-log-recovery=ON"]
        self._server = Server(rig.binary(r), Place(home / "data", home / "error.log", options))
        # Why it does not follow; empty if it does.
        self.problem = wait_ready(rig, self._server)
        if not self.problem:
            try:
                self._follow(port)
            except Exception:  # noqa: BLE001 - it is evidence, and the server has to be ended
                self.problem = traceback.format_exc()

    def _ask(self, *texts: str) -> Any:
        """The first row of the last answer."""
        with load.connect(self._server.socket, CHECK_TIMEOUT_SEC) as connection, connection.cursor() as cursor:
            for text in texts:
                cursor.execute(text)
            return cursor.fetchone()

    def _follow(self, port: int) -> None:
        self._begin = self._executed()
        self._ask(
            f"CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = {port}, SOURCE_USER = 'root',"
            " SOURCE_AUTO_POSITION = 1, SOURCE_CONNECT_RETRY = 1, SOURCE_RETRY_COUNT = 1000000,"
            " GET_SOURCE_PUBLIC_KEY = 1",
            "START REPLICA",
        )

    def _executed(self) -> int:
        """How many transactions it has executed."""
        return sum(map(len, binlog.parse_gtids(self._ask("SELECT @@gtid_executed")[0]).values()))

    def compare(self, source: Server, states: list[State]) -> Verdict:
        """Wait until it has all that the source has, and say what differs from what each client has there.

        Then it is changed, and to overlook that is wrong, too.
        """
        verdict = Verdict()
        if self.problem:
            wrong = [self.problem]
        else:
            try:
                wrong = self._compare(source, states, verdict)
            except (pymysql.err.MySQLError, OSError) as problem:
                wrong = [f"{problem}: {self._server.errors()}"]
            except Exception:  # noqa: BLE001 - the answer is evidence, and the run goes on to keep it
                wrong = [traceback.format_exc()]
        verdict.wrong = [f"{REPLICA} ({self._server.binary.name}): {text}" for text in wrong]
        return verdict

    def _compare(self, source: Server, states: list[State], verdict: Verdict) -> list[str]:
        with load.connect(source.socket) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT @@gtid_executed")
            wanted = cursor.fetchone()[0].replace("\n", "")
        if problem := self._catch_up(wanted, verdict):
            return [problem]
        wrong = self._differences(states)
        replicated = self._executed() - self._begin
        if not wrong and not replicated:
            wrong = ["it has executed nothing"]
        if wrong:
            return wrong
        self._ask("UPDATE c0.progress SET number = number + 1")
        if not self._differences(states):
            return ["it was changed, and nothing differs"]
        self._rig.counts.replicas += 1
        self._rig.counts.replicated += replicated
        return []

    def _catch_up(self, wanted: str, verdict: Verdict) -> str:
        """Empty when it has executed all, or why it does not."""
        executed, since = -1, time.monotonic()
        while self._ask(f"SELECT WAIT_FOR_EXECUTED_GTID_SET('{wanted}', {STEP_SEC})")[0] != 0:
            number, text = self._error()
            if number == XA_BROKEN and XA_STATEMENT in text:
                verdict.known = [f"{REPLICA}: {text}"]
                self._ask("STOP REPLICA", "RESET REPLICA", "START REPLICA")
            elif number:
                return f"it has stopped with error {number}: {text}"
            now = self._executed()
            if now != executed:
                executed, since = now, time.monotonic()
            elif time.monotonic() > since + STANDSTILL_SEC:
                return f"it executes nothing of what it lacks of {wanted}: {text or 'no error'}"
        return ""

    def _error(self) -> tuple[int, str]:
        """What has stopped the execution of transactions, or what it says of the connection."""
        with load.connect(self._server.socket) as connection, connection.cursor(pymysql.cursors.DictCursor) as cursor:
            cursor.execute("SHOW REPLICA STATUS")
            status = cursor.fetchone() or {}
            cursor.execute(
                "SELECT WORKER_ID, LAST_ERROR_NUMBER, LAST_ERROR_MESSAGE"
                " FROM performance_schema.replication_applier_status_by_worker"
                " WHERE LAST_ERROR_NUMBER != 0 ORDER BY LAST_ERROR_TIMESTAMP DESC"
            )
            return describe_error(status, list(cursor.fetchall()))

    def _differences(self, states: list[State]) -> list[str]:
        wrong = []
        with load.connect(self._server.socket, CHECK_TIMEOUT_SEC) as connection, connection.cursor() as cursor:
            cursor.execute("SET group_concat_max_len = 10000")
            for client, state in enumerate(states):
                observed = observe(cursor, client)
                # Undo tablespaces are each server's own.
                observed.state.undo = state.undo
                wrong += observed.broken
                if found := describe_difference(state, observed.state):
                    wrong.append(f"client {client}: {found}")
            wrong += check_bank(cursor)
            wrong += check_tables(cursor, states, Counter())
        return wrong

    def stop(self) -> list[str]:
        """A clean shutdown; what was wrong with it, or that it had died."""
        problem = self._server.stop()
        return [f"{REPLICA}: {problem}"] if problem else []

    def kill(self) -> None:
        """End it, if it has not ended."""
        self._server.kill()
