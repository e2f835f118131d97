# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""./redstart test nightly: what CI has no time for, each part by a command of its own."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from redstart_cli.console import RedstartError, duration, say
from redstart_cli.layout import Layout
from redstart_cli.locks import exclusive
from redstart_cli.process import run_logged
from redstart_cli.result import Level, Skip
from redstart_cli.suites import SUITES

DIFFERENTIAL_STATES = 500
DIFFERENTIAL_SEC = 3600
TORTURE_MINUTES = 30
# With the server of an older patch release; the canaries are those of the run before.
OLDER_MINUTES = 20
# Of a differential and of a torture run with a sanitizer.
SANITIZED_SEC = 600
BINLOG_IMAGES = 60
BINLOG_SEC = 900
# One of each kind. Their last transactions are torn at some 500 places each; two busy cores do 1,100 in an hour.
TORN_IMAGES = 3
TORN_SEC = 3600
FUZZ_RUNS = 5_000_000
_INNODB_SUITES = tuple(suite for suite in SUITES if suite.startswith("innodb"))
# The last line of `./redstart test`.
_CLOSING = re.compile(r"^(\d+) passed, (\d+) failed, (\d+) skipped$")
_FAILURE = "failed: "


@dataclass(frozen=True)
class Part:
    """One call of `./redstart test`."""

    name: str
    # What follows `./redstart test`.
    arguments: tuple[str, ...]

    @property
    def command(self) -> str:
        return " ".join(("./redstart test", *self.arguments))


def parts(seed: int) -> list[Part]:
    """In the order of their runs, the short ones first; `seed` is another each day."""
    kinds = "kill,power,fault,sites,redo"
    older = ("--older", "--minutes", str(OLDER_MINUTES), "--seed", str(seed), "--kinds", "kill,power,redo", "--no-canaries")
    long = ("--states", str(DIFFERENTIAL_STATES), "--seconds", str(DIFFERENTIAL_SEC))
    binlog = ("binlog", "--", "--seed", f"{seed}000")
    torn = ("--images", str(TORN_IMAGES), "--every-byte", "1", "--seconds", str(TORN_SEC))
    # Each in a file of its own, whose device changes in some states.
    file_system = ("ext4", "xfs", "btrfs", "overlay")[seed % 4]
    # What the first part makes.
    made = ("--", "build/packaging/tested")
    return [
        Part("packages", ("packages", "image")),
        Part("stock", ("stock", *made)),
        Part("dockerfile", ("dockerfile", *made)),
        Part("swap", ("swap",)),
        Part("replication", ("replication",)),
        Part("drivers", ("drivers",)),
        Part("fuzz", ("fuzz", "--", "--runs", str(FUZZ_RUNS), "--seed", str(seed))),
        Part("reproducible", ("reproducible",)),
        Part("tidy", ("tidy",)),
        Part("arm64", ("arm64",)),
        Part("upgrade", ("upgrade",)),
        Part("unit-debug", ("unit", "--preset", "debug")),
        Part("mtr-debug", ("mtr", "--preset", "debug")),
        Part("unit-asan", ("unit", "--preset", "asan")),
        Part("mtr-asan", ("mtr", "--preset", "asan")),
        *_sanitized("ubsan", seed),
        *_sanitized("tsan", seed),
        Part("suites", ("suites",)),
        Part("suites-debug", ("suites", "--preset", "debug", "--", *_INNODB_SUITES)),
        Part("differential", ("differential", "--", "--seed", f"{seed}000", *long, "--filesystem", file_system)),
        Part("binlog", (*binlog, "--images", str(BINLOG_IMAGES), "--seconds", str(BINLOG_SEC))),
        Part("binlog-torn", (*binlog, *torn)),
        Part("torture", ("torture", "--", "--minutes", str(TORTURE_MINUTES), "--seed", str(seed), "--kinds", kinds)),
        Part("torture-older", ("torture", "--", *older)),
    ]


def _sanitized(preset: str, seed: int) -> list[Part]:
    """Our tests, a differential and a torture run, with programs that go on after a report."""
    short = ("--seed", f"{seed}000", "--seconds", str(SANITIZED_SEC))
    crashes = ("--minutes", str(SANITIZED_SEC // 60), "--kinds", "kill,redo", "--seed", str(seed), "--no-canaries")
    return [
        Part(f"unit-{preset}", ("unit", "--preset", preset)),
        Part(f"mtr-{preset}", ("mtr", "--preset", preset)),
        Part(f"states-{preset}", ("differential", "--preset", preset, "--", "--states", str(DIFFERENTIAL_STATES), *short)),
        Part(f"torture-{preset}", ("torture", "--preset", preset, "--", *crashes)),
    ]


def today() -> int:
    """A seed for a day."""
    return int(time.strftime("%Y%m%d", time.gmtime()))


def chosen(every: Sequence[Part], names: Sequence[str]) -> list[Part]:
    """The parts of these names, all without any; RedstartError for a name that is none."""
    unknown = set(names) - {part.name for part in every}
    if unknown:
        known = ", ".join(part.name for part in every)
        raise RedstartError(f"nightly has no part {', '.join(sorted(unknown))}; it has {known}")
    return [part for part in every if not names or part.name in names]


def describe(wanted: Sequence[Part]) -> None:
    """The parts and their commands."""
    for part in wanted:
        say(f"{part.name:12}  {part.command}")


def run(layout: Layout, wanted: Sequence[Part]) -> bool:
    """Run parts, the rest also after a failure: a line for each, then the sum; True if nothing failed."""
    logs = layout.build / "test/nightly"
    total = Level("nightly")
    with exclusive(layout.build / "nightly.lock", f"the nightly test of {layout.build}"):
        say(f"{len(wanted)} parts; their output is in {logs}")
        for part in wanted:
            begin = time.monotonic()
            level = _run_part(layout, part, logs / f"{part.name}.log")
            word = "failed" if level.failed or level.problem else "passed"
            say(f"{word}  {part.name:12}  {duration(time.monotonic() - begin):>12}  {level.counts()}")
            for failure in [*level.failures, *level.problem.splitlines()]:
                say(f"  {failure}")
            total.add(level)
    say(total.counts())
    return total.failed == 0


def _run_part(layout: Layout, part: Part, log: Path) -> Level:
    """One part; it passes only with an exit code of 0 and a closing line that says so."""
    level = Level(part.name)
    log.unlink(missing_ok=True)
    lines: list[str] = []
    command: list[str | Path] = [layout.repo / "redstart", "test", *part.arguments]
    code = run_logged(command, log, lines.append, cwd=layout.repo)
    closing = next(filter(None, map(_CLOSING.match, reversed(lines[-3:]))), None)
    if closing is None:
        level.problem = f"{part.command} ended with {code} and no sum; see {log}"
        return level
    level.passed, level.failed, skipped = (int(number) for number in closing.groups())
    level.skips = [Skip(part.name, f"see {log}")] * skipped
    level.failures = [line.removeprefix(_FAILURE) for line in lines if line.startswith(_FAILURE)]
    if level.failed == 0 and (code != 0 or level.passed == 0):
        level.problem = f"{part.command} ended with {code} and {level.passed} passed; see {log}"
    return level
