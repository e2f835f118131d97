# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Many connections that query at once, each sending its next statement when the last is answered."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass

import pymysql

from bench.server import Server
from redstart_cli.tools import ToolError

CONNECTIONS = 64


@dataclass(frozen=True)
class Answers:
    """What asking took. `end` is seconds since the epoch, at the last answer.

    `seconds` are from before the first connection is opened until then, `latencies_sec` one for
    each statement, connecting left out, `ends` when each was answered, seconds since the epoch.
    `bench_cpu_sec` is processor time of this process.
    """

    end: float
    seconds: float
    latencies_sec: list[float]
    ends: list[float]
    bench_cpu_sec: float


def ask(
    server: Server, statements: Iterable[str], timeout_sec: float, connections: int = CONNECTIONS
) -> Answers:
    """Sends each statement once, in order, by whichever connection is free.

    ToolError if one fails or is not answered in time; the server is killed then, so that no
    other connection waits for it.
    """
    pending: queue.SimpleQueue[str] = queue.SimpleQueue()
    for statement in statements:
        pending.put(statement)
    stop = threading.Event()
    begin, cpu = time.monotonic(), time.process_time()
    answers: list[tuple[float, float]] = []
    with ThreadPoolExecutor(connections) as pool:
        futures = [pool.submit(_work, server, pending, timeout_sec, stop) for _ in range(connections)]
        try:
            for future in as_completed(futures):
                answers += future.result()
        except BaseException:
            stop.set()
            server.kill()
            raise
    seconds = time.monotonic() - begin
    latencies, ends = ([answer[part] for answer in answers] for part in (0, 1))
    return Answers(time.time(), seconds, latencies, ends, time.process_time() - cpu)


def _work(
    server: Server, pending: queue.SimpleQueue[str], timeout_sec: float, stop: threading.Event
) -> list[tuple[float, float]]:
    """One connection: the latency of what it asked, and when it was answered."""
    answers = []
    statement = "connecting"
    try:
        with server.connect(timeout_sec=timeout_sec) as connection:
            while not stop.is_set():
                statement = pending.get_nowait()
                begin = time.perf_counter()
                connection.query(statement)
                answers.append((time.perf_counter() - begin, time.time()))
    except queue.Empty:
        pass
    except pymysql.Error as error:
        raise ToolError(f"{statement}: {error}; see {server.log}") from error
    return answers
