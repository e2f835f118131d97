# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The reads that reach a disk, one by one, as the kernel traces them (block_rq_issue).

The trace has a buffer of its own (tracefs, instances/). What it holds is compared with the counters of the disk (/proc/diskstats)
over the same time: a trace that has lost something is not a list of all reads.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from bench.diskstats import Counters, Device, read_counters
from redstart_cli.tools import Unavailable

TRACEFS = Path("/sys/kernel/tracing")
EVENTS = ("block_rq_issue", "block_rq_requeue")
INSTANCE_PREFIX = "redstart-bench-"
BUFFER_KIB = 8192
"""Of each processor. A read takes about 100 bytes."""

TOLERANCE = 0.03
"""By how much of it the trace and the counters may differ: requests that are on their way at either end."""

IDLE_SEC = 1.0
"""So long the begin and the end wait for a moment in which no request is on its way."""

_EVENT = re.compile(
    r"\s(?P<time>\d+\.\d+): (?P<event>block_rq_issue|block_rq_requeue): (?P<device>\d+,\d+) (?P<kind>\w+) (?:\d+ )?"
    r"\(.*?\) (?P<sector>\d+) \+ (?P<sectors>\d+) (?:\w+,\d+,\d+ )?\[(?P<command>.*)\]$"
)
_LOST = re.compile(r"^(?:overrun|commit overrun|dropped events): (\d+)$", re.MULTILINE)


@dataclass(frozen=True)
class Read:
    """A read that was handed to the disk; `time` is seconds since the epoch, `command` the thread that did so."""

    time: float
    sector: int
    sectors: int
    is_metadata: bool
    command: str


@dataclass(frozen=True)
class Trace:
    """All reads of a disk from the begin to the end of a trace, what the disk has counted, and the events that were lost."""

    reads: list[Read]
    counted: Counters
    lost: int

    def problem(self) -> str | None:
        """Why this is not a list of all reads; None if it is."""
        if self.lost:
            return f"the trace has lost {self.lost:,} events"
        traced = sum(read.sectors for read in self.reads)
        for what, found, counted in (
            ("reads", len(self.reads), self.counted.reads), ("sectors", traced, self.counted.sectors_read),
        ):  # fmt: skip
            if abs(found - counted) > TOLERANCE * counted:
                return f"the trace has {found:,} {what}, the disk has counted {counted:,}"
        return None if self.reads else "the trace has no reads"


def parse(lines: Iterable[str], epoch_offset: float) -> list[Read]:
    """The reads in the text of a trace, in order. One that the disk did not take is followed by its next attempt, and left out.

    `epoch_offset` is what is added to the times of the trace.
    """
    reads: list[Read | None] = []
    waiting: dict[int, int] = {}
    for line in lines:
        match = _EVENT.search(line)
        if match is None or not match["kind"].startswith("R"):
            continue
        sector = int(match["sector"])
        if match["event"] == "block_rq_requeue":
            if sector in waiting:
                reads[waiting.pop(sector)] = None
            continue
        waiting[sector] = len(reads)
        when = float(match["time"]) + epoch_offset
        reads.append(Read(when, sector, int(match["sectors"]), "M" in match["kind"], match["command"]))
    return [read for read in reads if read is not None]


class Recorder:
    """A trace of the reads of one disk, in an instance of tracefs."""

    def __init__(self, instance: Path, device: Device) -> None:
        self._instance = instance
        # The events name the disk, and so do the counters have to.
        self._disk = replace(device, name=device.disk, major=device.disk_major, minor=device.disk_minor)
        self._before = Counters()
        for event in EVENTS:
            if not (instance / "events/block" / event).is_dir():
                raise Unavailable(f"this kernel does not trace {event}")
        self._write("tracing_on", "0")
        self._write("trace_clock", "mono")
        self._write("buffer_size_kb", str(BUFFER_KIB))
        for event in EVENTS:
            self._write(f"events/block/{event}/filter", f"dev == {(device.disk_major << 20) | device.disk_minor}")
            self._write(f"events/block/{event}/enable", "1")

    def _write(self, name: str, text: str) -> None:
        try:
            (self._instance / name).write_text(text, encoding="ascii")
        except OSError as error:
            raise Unavailable(f"this kernel does not take {text!r} for {self._instance / name}: {error.strerror}") from error

    def begin(self) -> None:
        """Forgets what was traced, and begins."""
        self._write("trace", "")
        self._await_idle()
        self._before = read_counters(self._disk, None)
        self._write("tracing_on", "1")

    def end(self) -> Trace:
        """Ends the trace, and reads it."""
        self._await_idle()
        self._write("tracing_on", "0")
        counted = read_counters(self._disk, None) - self._before
        offset = time.time() - time.monotonic()
        lost = sum(int(number) for file in self._instance.glob("per_cpu/cpu*/stats") for number in _LOST.findall(file.read_text()))
        with open(self._instance / "trace", encoding="utf-8", errors="replace") as lines:
            return Trace(parse((line.rstrip("\n") for line in lines), offset), counted, lost)

    def _await_idle(self) -> None:
        """A request that is on its way is in one of the two counts only."""
        in_flight = Path(f"/sys/dev/block/{self._disk.numbers}/inflight")
        deadline = time.monotonic() + IDLE_SEC
        while time.monotonic() < deadline and in_flight.read_text(encoding="ascii").split()[0] != "0":
            time.sleep(0.001)


@contextlib.contextmanager
def recording(device: Device) -> Iterator[Recorder]:
    """A trace of the reads of a device's disk, not begun; nothing of it is left at the end.

    Raises Unavailable, naming what is missing, if this machine cannot trace them.
    """
    with _mounted() as instances:
        _sweep(instances)
        instance = instances / f"{INSTANCE_PREFIX}{os.getpid()}"
        try:
            instance.mkdir()
        except OSError as error:
            raise Unavailable(f"no trace can be made in {instances}: {error.strerror}") from error
        try:
            yield Recorder(instance, device)
        finally:
            instance.rmdir()


@contextlib.contextmanager
def _mounted() -> Iterator[Path]:
    """The instances of tracefs, which is mounted as long as they are used unless it is anyway."""
    instances = TRACEFS / "instances"
    if instances.is_dir():
        yield instances
        return
    if not TRACEFS.is_dir():
        raise Unavailable(f"this kernel has no {TRACEFS} (CONFIG_FTRACE)")
    done = subprocess.run(["mount", "-t", "tracefs", "tracefs", TRACEFS], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unavailable(f"tracefs cannot be mounted: {done.stderr.strip()}")
    try:
        yield instances
    finally:
        # Busy if another program has come to use it: then it stays.
        subprocess.run(["umount", TRACEFS], stderr=subprocess.DEVNULL, check=False)


def _sweep(instances: Path) -> None:
    """Removes the traces that a killed bench left behind."""
    for path in instances.glob(INSTANCE_PREFIX + "*"):
        owner = path.name.removeprefix(INSTANCE_PREFIX)
        if owner.isdigit() and not Path("/proc", owner).exists():
            path.rmdir()
