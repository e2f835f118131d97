# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""What a level of tests came to."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Level:
    """Counts of one level. A level that could not run at all has a `problem` and counts as one failure."""

    name: str
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    failures: list[str] = field(default_factory=list)
    problem: str = ""

    def add(self, other: Level) -> None:
        self.passed += other.passed
        self.failed += other.failed + bool(other.problem)
        self.skipped += other.skipped
        self.failures += other.failures
        if other.problem:
            self.failures.append(f"{other.name} could not run")

    def counts(self) -> str:
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"
