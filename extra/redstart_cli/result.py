# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""What a level of tests came to."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Skip:
    """A test that did not run, and why, in the words of its runner."""

    test: str
    reason: str
    # It was left out on purpose by a committed list that states the reason itself.
    is_listed: bool = False


@dataclass
class Level:
    """Counts of one level. A level that could not run, or not to its end, has a `problem`: one more failure."""

    name: str
    passed: int = 0
    failed: int = 0
    failures: list[str] = field(default_factory=list)
    skips: list[Skip] = field(default_factory=list)
    problem: str = ""

    @property
    def skipped(self) -> int:
        return len(self.skips)

    def fail(self, failure: str) -> None:
        """One more failure."""
        self.failed += 1
        self.failures.append(failure)

    def add(self, other: Level) -> None:
        self.passed += other.passed
        self.failed += other.failed
        self.failures += other.failures
        self.skips += other.skips
        if other.problem:
            self.fail(f"{other.name} could not run: {other.problem.splitlines()[0]}")

    def counts(self) -> str:
        return f"{self.passed} passed, {self.failed + bool(self.problem)} failed, {self.skipped} skipped"
