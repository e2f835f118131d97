# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Servers that lose what they have acknowledged. A rig that does not notice shows nothing."""

from __future__ import annotations

import dataclasses
import random
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from redstart_cli.console import say
from torture import preload, redo, tamper
from torture.kill import KillLife
from torture.life import Counts, Rig
from torture.power import PowerLife
from torture.settings import BATCH_ON, LAZY, ONCE_ON, SCAN_OFF, SCAN_ON

# A canary must be found within this time; on a slow machine within so many lives.
LIMIT_SEC = 120.0
LIVES = 3
# What the rig finds in a binary log that a start has left as it was.
_HOLE = re.compile(r"^binary log: binlog\.\d+ ends within")
# A table without its pages is found by the oracle's questions, or ends a server that reads it.
_REBUILT = re.compile(r"^CHECK TABLE rebuilt\.t:|^rebuilt\.t: index"
                      r"|^(the oracle was not answered|ours ended with -?\d+ at its start: ).*\brebuilt\W{1,3}t\b")  # fmt: skip
# A new binary log would have the redo flushed.
# A note that claims too much may be all that is left of a binary log that was not flushed, and that is no loss.
_COMMON = ("--max-binlog-size=1G", SCAN_OFF)


@dataclass(frozen=True)
class Canary:
    """A defect and the kind of crash that shows it.

    One that must lose has to show missing transactions; another may as well leave what no server starts on.
    """

    name: str
    kind: str
    options: tuple[str, ...] = ()
    drop: str = ""
    must_lose: bool = True
    # Flushes of binary logs leave holes, and the note says that all is there. Only a start that believes it leaves the
    # file as it is, and that must be said; one that reads all cuts it off.
    lies: bool = False
    # A table is rebuilt all the time, and must have written pages once.
    rebuilds: bool = False
    # What must be said to be wrong; it may be anything if this is None.
    said: re.Pattern[str] | None = None
    # It loses only what a checkpoint has passed.
    needs_checkpoint: bool = False
    file_systems: tuple[str, ...] = field(default=("ext4",))


CANARIES = (
    Canary(
        "kill, redo kept in memory", "kill",
        ("--innodb-flush-log-at-trx-commit=0", "--innodb-log-writer-threads=OFF"),
    ),
    Canary("power, innodb_flush_log_at_trx_commit=0", "power", ("--innodb-flush-log-at-trx-commit=0",)),
    Canary("power, innodb_flush_log_at_trx_commit=2", "power", ("--innodb-flush-log-at-trx-commit=2",)),
    Canary("power, redo not flushed", "power", drop="redo", must_lose=False),
    Canary("power, binary log not flushed", "power", drop="binlog"),
    Canary("power, a note that claims too much", "power", (SCAN_ON,), must_lose=False, lies=True, said=_HOLE),
    Canary(
        "power, data files not flushed", "power", drop="data", must_lose=False, needs_checkpoint=True,
        options=("--innodb-flush-method=fsync", "--innodb-redo-log-capacity=8M", "--innodb-max-dirty-pages-pct=1"),
    ),
    # Until the rebuild is committed, that is; later flushes, which others make, are not dropped, and come late. With O_DIRECT
    # any flush of the disk makes the pages last.
    Canary(
        "power, a rebuilt table not flushed", "power", drop="rebuilt", must_lose=False, rebuilds=True, said=_REBUILT,
        options=("--innodb-flush-method=fsync", ONCE_ON, BATCH_ON, *LAZY),
    ),
)  # fmt: skip


def names(rig: Rig, kinds: Sequence[str]) -> list[str]:
    """The canaries of a run with these kinds of crash."""
    of_redo = redo.CANARIES if "redo" in kinds else ()
    return [*tamper.names(bool(rig.innochecksum)), *(canary.name for canary in of_run(rig, kinds)), *of_redo]


def of_run(rig: Rig, kinds: Sequence[str]) -> list[Canary]:
    """Those that lose; only this build keeps a note, and writes the pages of a rebuild once."""
    own = [canary for canary in CANARIES if canary.lies or canary.rebuilds]
    return [canary for canary in CANARIES if canary.kind in kinds and (rig.subject == "ours" or canary not in own)]


def is_found(canary: Canary, rig: Rig, seed: int) -> bool:
    """Whether the rig notices the canary in time."""
    begin = time.monotonic()
    end = begin + LIMIT_SEC
    seeds = random.Random(seed)
    found = False
    lives = 0
    while not found and (lives < LIVES or time.monotonic() < end):
        lives += 1
        tried = dataclasses.replace(
            rig,
            counts=Counts(),
            extra=[*_COMMON, *canary.options],
            environment=preload.lying(rig.work) if canary.lies else preload.dropping(rig.work, canary.drop),
            # The others would not believe the note, and lose what is behind a hole.
            # They write no pages once either.
            binaries={"ours": rig.binaries["ours"]} if canary.lies or canary.rebuilds else rig.binaries,
            is_canary=True,
            rebuilds=canary.rebuilds,
            all_cuts=False,
        )
        number = seeds.randrange(1 << 32)
        if canary.kind == "kill":
            is_clean = KillLife(tried, number).run(end, cycles=3)
        else:
            life = PowerLife(tried, number, canary.file_systems[0], canary.needs_checkpoint, canary.lies)
            is_clean = life.run(end, depth=1)
        has_shown = tried.counts.lost > 0 or (tried.counts.wrong > 0 and not canary.must_lose)
        if canary.said:
            has_shown = any(canary.said.search(text) for text in tried.counts.said)
        if canary.rebuilds:
            has_shown = has_shown and tried.counts.written_once > 0
        found = not is_clean and tried.counts.acknowledged > 0 and has_shown
    say(f"  canary {canary.name}: {'found' if found else 'NOT FOUND'} after {time.monotonic() - begin:.0f} s")
    return found
