# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Servers that lose what they have acknowledged. A rig that does not notice shows nothing."""

from __future__ import annotations

import dataclasses
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from redstart_cli.console import say
from torture import preload, tamper
from torture.kill import KillLife
from torture.life import Counts, Rig
from torture.power import PowerLife
from torture.server import SCAN_OFF

# A canary must be found within this time; on a slow machine within so many lives.
LIMIT_SEC = 120.0
LIVES = 3
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
    Canary(
        "power, data files not flushed", "power", drop="data", must_lose=False, needs_checkpoint=True,
        options=("--innodb-flush-method=fsync", "--innodb-redo-log-capacity=8M", "--innodb-max-dirty-pages-pct=1"),
    ),
)  # fmt: skip


def names(rig: Rig, kinds: Sequence[str]) -> list[str]:
    """The canaries of a run with these kinds of crash."""
    return [*tamper.names(bool(rig.innochecksum)), *(canary.name for canary in CANARIES if canary.kind in kinds)]


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
            environment=preload.dropping(rig.work, canary.drop),
            is_canary=True,
            all_cuts=False,
        )
        number = seeds.randrange(1 << 32)
        if canary.kind == "kill":
            is_clean = KillLife(tried, number).run(end, cycles=3)
        else:
            life = PowerLife(tried, number, canary.file_systems[0], canary.needs_checkpoint)
            is_clean = life.run(end, depth=1)
        has_shown = tried.counts.lost > 0 or (tried.counts.wrong > 0 and not canary.must_lose)
        found = not is_clean and tried.counts.acknowledged > 0 and has_shown
    say(f"  canary {canary.name}: {'found' if found else 'NOT FOUND'} after {time.monotonic() - begin:.0f} s")
    return found
