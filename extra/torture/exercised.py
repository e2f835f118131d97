# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""What recoveries of this build have gone through, as their error logs say it.

A run prints how often each was met, and fails if that is too seldom. To add one is to add a line to EXERCISES.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

_START = "starting as process"


@dataclass(frozen=True)
class Exercise:
    """Something that a recovery may meet."""

    name: str
    # Found in the error log of a recovery that has met it; a first group is a number that is not 0, and summed up.
    pattern: str
    # It must be found so many times in one start.
    times: int = 1
    # Of so many recoveries of this build, this share must have met it.
    many: int = 0
    share: float = 0.0
    # Whether it takes innodb_force_recovery=0.
    is_open: bool = False


EXERCISES = (
    Exercise("several batches", r"Applying a batch of ([1-9]\d*) redo", 2, 20, 0.1),
    Exercise("objects of indexes used again", r"built \d+ objects of indexes, used them again ([1-9]\d*)", 1, 4, 0.5),
    Exercise("pages read by runs", r"Redo recovery: read ([1-9]\d*) pages with", 1, 4, 0.5),
    Exercise("pages kept between batches", r"Redo recovery: read .*; ([1-9]\d*) were in the buffer pool"),
    Exercise("pages left", r"Redo recovery: ([1-9]\d*) changed pages are left to the page cleaners", 1, 20, 0.125),
    Exercise("pages needed in files", r"after ([1-9]\d*) that the start needs in their files were written", 1, 20, 0.1),
    Exercise("all pages written, for a reason", r"Redo recovery: all pages are written before the server opens, because"),
    Exercise("room made in the redo log", r"Redo recovery: wrote ([1-9]\d*) pages with the oldest changes", 1, 20, 0.02, True),
    Exercise("transactions rolled back", r"Rolling back trx with id", 1, 20, 0.1, True),
    Exercise("pages read ahead of the rollback", r"Rollback of trx with id \d+: read ([1-9]\d*) pages ahead", is_open=True),
    Exercise("pages from the doublewrite buffer", r"Recovered page \[page id: .*\] from the doublewrite buffer"),
)  # fmt: skip


class Met(NamedTuple):
    """How many recoveries have met something, and how much of it."""

    recoveries: int
    sum: int


class Exercised:
    """What the recoveries of a run have met."""

    def __init__(self) -> None:
        # Recoveries of this build with all of its ways on, by whether they ended with rollback and purge.
        self.recoveries: Counter[bool] = Counter()
        self._met: Counter[str] = Counter()
        self._sums: Counter[str] = Counter()

    def take(self, log: str, is_open: bool) -> None:
        """Count what one recovery has met in one of its starts, of which `log` has all."""
        self.recoveries[is_open] += 1
        for exercise in EXERCISES:
            starts = [
                [int(match[1]) if match.re.groups else 1 for match in re.finditer(exercise.pattern, said)]
                for said in log.split(_START)
            ]
            numbers = [number for found in starts if len(found) >= exercise.times for number in found]
            self._met[exercise.name] += bool(numbers)
            self._sums[exercise.name] += sum(numbers)

    def add(self, other: Exercised) -> None:
        """Count what others have counted, too."""
        self.recoveries += other.recoveries
        self._met += other._met
        self._sums += other._sums

    def of(self, name: str) -> Met:
        """How often that was met."""
        return Met(self._met[name], self._sums[name])

    def problems(self) -> list[str]:
        """What was met too seldom."""
        found = []
        for exercise in EXERCISES:
            recoveries = self.recoveries[True] if exercise.is_open else self.recoveries.total()
            met = self._met[exercise.name]
            if exercise.many and recoveries >= exercise.many and met < exercise.share * recoveries:
                found.append(f"{exercise.name}: in {met} of {recoveries} recoveries")
        return found

    def __str__(self) -> str:
        texts = [f"{exercise.name} in {self._met[exercise.name]} ({self._sums[exercise.name]})" for exercise in EXERCISES]
        return f"of {self.recoveries.total()} recoveries, {self.recoveries[True]} of them with rollback: {', '.join(texts)}"

    def report(self) -> dict[str, dict[str, int]]:
        """The same for --json."""
        return {exercise.name: self.of(exercise.name)._asdict() for exercise in EXERCISES}
