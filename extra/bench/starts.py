# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""One measured start of a server; what the experiments on starts have in common."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pymysql

from bench import logs
from bench.context import Context
from bench.datadir import DataDir
from bench.diskstats import SECTOR_BYTES, Counters, read_counters
from bench.results import Run, now_text
from bench.server import Server, StartTimes
from bench.subjects import Subject
from redstart_cli import tools
from redstart_cli.console import RedstartError

DISTURBED_FRACTION = 0.05
DISTURBED_BYTES = 4 << 20
POLL_SEC = 0.05

Extra = Callable[[Run, Server, logs.Start], None]
"""Adds what an experiment wants to know of a running server to its record."""

AtOnce = Callable[[Run, Server, StartTimes], None]
"""Asks a server that has just started, before anything else is asked of it."""


def measure(
    context: Context,
    datadir: DataDir,
    state: str,
    subject: Subject,
    run: Run,
    drop_caches: bool,
    options: Sequence[str] = (),
    extra: Extra | None = None,
    before: Callable[[], None] | None = None,
    at_once: AtOnce | None = None,
) -> None:
    """Restores a state, lets `before` change it, starts a subject on it, fills its record, and kills the server.

    What goes wrong becomes a problem of the record.
    """
    datadir.restore(state)
    if before is not None:
        before()
    if drop_caches:
        tools.drop_caches()
    with serving(context, datadir, subject, run, options) as server:
        times = server.startup(context.timeout_sec, context.volume.device)
        if at_once is not None:
            at_once(run, server, times)
        start = _collect(run, server, times)
        if extra is not None:
            extra(run, server, start)


@contextlib.contextmanager
def serving(context: Context, datadir: DataDir, subject: Subject, run: Run, options: Sequence[str]) -> Iterator[Server]:
    """A server that is to be started for a record, and is killed at the end; what goes wrong becomes a problem of the record."""
    name = f"{run.experiment}-{datadir.folder.name}-{context.volume.profile.name}-{subject.name}-{run.mode}-{run.round}"
    server = Server(
        context.layout, subject.binary, datadir.work, [*subject.options, *options], context.layout.logs / f"{name}.log",
        context.volume.procs,
    )  # fmt: skip
    run.started_at = now_text()
    run.command = server.command
    with server:
        try:
            yield server
        except (RedstartError, pymysql.Error) as error:
            run.problems.append(str(error))


def new_run(experiment: str, subject: str, mode: str, number: int, parameters: dict[str, Any]) -> Run:
    """A record to be filled. That of a server says that the binary log is on, see `check_log_bin`."""
    return Run(experiment, subject, mode, number, parameters | {"log_bin": "on"}, now_text(), [])


def check_log_bin(run: Run, server: Server) -> None:
    """A server without a binary log does less than one with it: a problem of the record."""
    if int(server.query("SELECT @@GLOBAL.log_bin")[0][0]) != 1:
        run.problems.append("the binary log is off")


def _collect(run: Run, server: Server, times: StartTimes) -> logs.Start:
    lines = server.read_log()
    start = logs.parse_start(lines, times.exec_time, times.ready_time)
    run.metrics["ready_s"] = times.ready_time - times.exec_time
    run.metrics["first_query_s"] = times.first_query_time - times.exec_time
    add_io(run.metrics, "", server.io_between(times.exec_time, times.first_query_time))
    if server.binary.flavour == "mysql":
        for name, (begin, end) in start.phases.items():
            counters = server.io_between(begin, end)
            run.phases_s[name] = max(0.0, end - begin)
            run.phase_io[name] = {
                "reads": counters.reads,
                "sectors_read": counters.sectors_read,
                "process_read_bytes": counters.process_read_bytes,
            }
            if server.sampler is not None:
                least, most = server.sampler.least(begin, end), server.sampler.most(begin, end)
                run.phase_io[name] |= {
                    "most_reads": most.reads,
                    "least_process_read_bytes": least.process_read_bytes,
                    "most_process_read_bytes": most.process_read_bytes,
                }
    run.metrics["recovered"] = int(start.recovered)
    add_server(run, server)
    run.problems += [f"the error log says: {text}" for text in logs.errors(lines)]
    note_disturbance(run)
    return start


def add_server(run: Run, server: Server) -> None:
    """Adds what a server says of itself when it has done its work."""
    memory = server.peak_memory_kib()
    if memory is not None:
        run.metrics["peak_memory_kib"] = memory
    check_log_bin(run, server)
    run.status = server.status()


def add_io(metrics: dict[str, float], prefix: str, counters: Counters) -> None:
    """Adds the I/O counters to metrics, with a prefix to their names."""
    metrics[f"{prefix}reads"] = counters.reads
    metrics[f"{prefix}sectors_read"] = counters.sectors_read
    metrics[f"{prefix}writes"] = counters.writes
    metrics[f"{prefix}sectors_written"] = counters.sectors_written
    metrics[f"{prefix}process_read_bytes"] = counters.process_read_bytes


def add_background(
    context: Context,
    run: Run,
    server: Server,
    name: str,
    parse: Callable[[Sequence[logs.LogLine]], tuple[float, float] | None],
) -> None:
    """Waits until something in the background is over, and adds its time and I/O to a record, as `name`_s and so on.

    `parse` finds in the error log when it begins and ends. If it does not end in time, that is a problem of the record.
    """
    deadline = time.monotonic() + context.timeout_sec
    while (found := parse(server.read_log())) is None:
        if time.monotonic() > deadline:
            run.problems.append(f"the {name} was not over in time")
            return
        time.sleep(POLL_SEC)
    end = read_counters(context.volume.device, server.pid)
    begin = server.sampler.at(found[0]) if server.sampler else end
    run.metrics[f"{name}_s"] = found[1] - found[0]
    add_io(run.metrics, f"{name}_", end - begin)


def note_disturbance(run: Run, prefix: str = "", when: str = "") -> None:
    """Notes it if the device read much more than the server did, by the counters of `add_io`."""
    device = run.metrics[f"{prefix}sectors_read"] * SECTOR_BYTES
    own = run.metrics[f"{prefix}process_read_bytes"]
    if device - own > max(DISTURBED_BYTES, own * DISTURBED_FRACTION):
        run.notes.append(
            f"the device read {device / 2**20:.1f} MiB, the server {own / 2**20:.1f} MiB{when}: "
            "another program used the disk"
        )
