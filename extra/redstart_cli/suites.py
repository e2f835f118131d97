# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""./redstart test suites: whole suites of MySQL's tests, and whose their failures are.

A test that failed is run again, alone and several times, with this build and with MySQL as released, built with the same
options. What fails less often there is this build's. So is a test that is skipped and runs there. A few of these are meant, with
a feature and a reason; one that passes all the same is a failure. What a suite came to is kept as
JSON, of which a table is made. A test that is run with several combinations of options counts once for each.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from redstart_cli import mtr
from redstart_cli.build import tree_name
from redstart_cli.console import RedstartError, say
from redstart_cli.layout import Layout
from redstart_cli.result import Level, Skip
from redstart_cli.revision import commit

SUITES = (
    "innodb", "innodb_undo", "innodb_zip", "innodb_fts", "innodb_gis", "innodb_stress", "clone", "encryption",
    "component_keyring_file", "parts", "gcol", "sys_vars", "rpl_gtid", "binlog", "binlog_gtid", "binlog_nogtid", "main",
)  # fmt: skip
"""What is run if no suite is named."""

# How often a test that failed is run again, here and there.
REPEATS = 3
_NOT_RUN = ("skipped", "disabled")
# Reasons for which tests are skipped, in the table.
_REASONS_SHOWN = 3

OURS = "this build's"
MEANT = "this build's, and meant"
ONCE = "failed once, then passed"
THERE_TOO = "fails with MySQL as released, too"
NOT_COMPARED = "not compared with MySQL"
RUNS_THERE = "runs with MySQL as released"


@dataclass(frozen=True)
class Meant:
    """Why a test of MySQL has to fail here."""

    feature: str
    why: str
    # What it says then; another failure is one.
    says: str


_COUNTS_VARIABLES = Meant(
    "binlog-startup-scan",
    "it counts the variables with binlog in their names, and there is one more",
    "Test assertion failed in assert.inc",
)
MEANT_TO_FAIL = {
    # Not run by the regression level either.
    "innodb.alter_table_stage_progress": Meant(
        "ddl-merge", "it expects stages again for each index, which is bug 117176", "work_completed"
    ),
    "binlog_nogtid.binlog_persist_variables": _COUNTS_VARIABLES,
    "binlog_nogtid.binlog_persist_only_variables": _COUNTS_VARIABLES,
}
"""Tests of MySQL that fail because of what a feature is for."""


@dataclass
class Outcome:
    """What a suite came to."""

    suite: str
    preset: str
    # Of the repository.
    commit: str
    # Of MTR: with any the suite may not be whole.
    options: list[str] = field(default_factory=list)
    seconds: int = 0
    passed: int = 0
    # Reason -> tests.
    skipped: dict[str, int] = field(default_factory=dict)
    # Those that are skipped here alone, or may be -> a word of this module; why they are skipped.
    skipped_here: dict[str, tuple[str, str]] = field(default_factory=dict)
    # Test -> whose failure it is: a word of this module; what the test said; how often it failed again, here and there.
    failed: dict[str, tuple[str, str, str]] = field(default_factory=dict)
    # Why the numbers are not whole, if they are not.
    problem: str = ""


@dataclass(frozen=True)
class Again:
    """How often a test failed when it was run again, of how many times."""

    failed: int = 0
    ran: int = 0

    def __str__(self) -> str:
        return f"{self.failed} of {self.ran}"


def judge(here: Again, there: Again) -> str:
    """Whose a failure is, by how often it came again: what MySQL fails now and then explains no test that always fails."""
    if here.ran and not here.failed:
        return ONCE
    if not here.ran or not there.ran:
        return NOT_COMPARED
    return THERE_TOO if there.failed * here.ran >= here.failed * there.ran else OURS


def is_meant(test: str, text: str) -> bool:
    """Whether a failure of a test, which is this build's, is meant."""
    meant = MEANT_TO_FAIL.get(test_of(test))
    return meant is not None and meant.says in text


def failures(cases: Iterable[mtr.Case]) -> dict[str, str]:
    """Tests that failed, also if they then passed, and why; so does the check of the servers when they end."""
    return {case.variant: case.reason for case in cases if case.status not in ("pass", *_NOT_RUN)}


def ran(cases: Iterable[mtr.Case]) -> set[str]:
    return {case.variant for case in cases if case.name and case.status not in _NOT_RUN}


def test_of(variant: str) -> str:
    """What MTR is told to run: a test with all of its combinations."""
    return variant.partition(" ")[0]


def skipped_here(skipped: Iterable[mtr.Case], there: Sequence[mtr.Case]) -> dict[str, tuple[str, str]]:
    """Those of the tests that are skipped here which run elsewhere, or are not known to be skipped there as well.

    A test may be skipped as a whole here, and be run with its combinations there.
    """
    found = {}
    runs, known = ran(there), {case.variant for case in there}
    tests_run, tests_known = set(map(test_of, runs)), set(map(test_of, known))
    for case in skipped:
        if case.variant in runs or (case.variant not in known and case.test in tests_run):
            found[case.variant] = (RUNS_THERE, case.reason)
        elif case.test not in tests_known:
            found[case.variant] = (NOT_COMPARED, case.reason)
    return found


def reason(text: str) -> str:
    """A reason for skips without what differs from test to test."""
    text = re.sub(r"\s+", " ", text).strip(" .")
    return re.sub(r"'[^']*'|/?\b[\w./-]*/[\w./-]+", "...", text) or "no reason given"


class Runner:
    """Runs suites with one preset."""

    def __init__(self, layout: Layout, preset: str, options: Sequence[str], build_pristine: Callable[[], object]) -> None:
        """`options` are MTR's; `build_pristine` makes MySQL as released, and is called when a test has failed or was skipped."""
        self._layout = layout
        self._preset = preset
        self._options = list(options)
        self._build_pristine = build_pristine
        self._folder = layout.build / "test" / "suites"

    def run(self, suite: str) -> Level:
        """One suite; its failures that are not MySQL's fail the level."""
        outcome = Outcome(suite, self._preset, commit(self._layout.repo), self._options)
        level = Level(suite)
        begin = time.monotonic()
        cases, outcome.problem = self._mtr(self._preset, suite, [f"--suite={suite}"])
        failed = failures(cases)
        if not ran(cases) and not outcome.problem:
            outcome.problem = f"no test of {suite} was run"
        outcome.passed = level.passed = len(ran(cases) - set(failed))
        outcome.failed = {test: (NOT_COMPARED, text, "") for test, text in failed.items()}
        skipped = [case for case in cases if case.status in _NOT_RUN]
        outcome.skipped = dict(Counter(reason(case.reason) for case in skipped).most_common())
        # MySQL as released has none of our tests.
        own = set(mtr.own_tests(self._layout.repo))
        theirs = [case for case in skipped if case.test not in own]
        outcome.skipped_here = {case.variant: (NOT_COMPARED, case.reason) for case in theirs}
        level.problem = outcome.problem
        try:
            if failed:
                self._compare(suite, outcome, own)
            if theirs:
                outcome.skipped_here = self._compare_skips(suite, theirs)
        finally:
            outcome.seconds = round(time.monotonic() - begin)
            self._keep(outcome)
        level.skips += [Skip(case.variant, case.reason) for case in skipped if case.variant not in outcome.skipped_here]
        for test, (what, why) in outcome.skipped_here.items():
            level.fail(f"{test}, skipped here, {what}: {why or 'no reason given'}")
        for test in sorted(set(map(test_of, ran(cases))) & MEANT_TO_FAIL.keys() - set(map(test_of, failed))):
            level.fail(f"{test} passed, and is meant to fail: {MEANT_TO_FAIL[test].why}")
        for test, (whose, text, numbers) in outcome.failed.items():
            if whose == THERE_TOO:
                level.skips.append(Skip(test, whose))
            elif whose == MEANT:
                meant = MEANT_TO_FAIL[test_of(test)]
                level.skips.append(Skip(test, f"{meant.feature}: {meant.why}"))
            else:
                level.fail(f"{test}, {whose} ({numbers}): {text}")
        return level

    def _compare_skips(self, suite: str, skipped: Sequence[mtr.Case]) -> dict[str, tuple[str, str]]:
        """Which tests that are skipped here MySQL as released does not skip."""
        self._build_pristine()
        say(f"  {len(skipped)} skipped; are they with MySQL as released?")
        names = "|".join(sorted({re.escape(case.name) for case in skipped}))
        # A test that is named itself would be run although it is disabled.
        there, _ = self._mtr(tree_name(self._preset, True), f"{suite}-skipped", [f"--suite={suite}", f"--do-test=^(?:{names})$"])
        return skipped_here(skipped, there)

    def _compare(self, suite: str, outcome: Outcome, own: set[str]) -> None:
        """Run what failed again, here and there."""
        tests = list(outcome.failed)
        say(f"  {len(tests)} failed; each again, {REPEATS} times")
        again = self._again(self._preset, suite, tests)
        self._build_pristine()
        elsewhere = self._again(tree_name(self._preset, True), suite, [test for test in tests if test_of(test) not in own])
        for test, (_, text, _) in outcome.failed.items():
            here, there = again.get(test, Again()), elsewhere.get(test, Again())
            whose = judge(here, there)
            if whose == OURS and here.failed == here.ran and is_meant(test, text):
                whose = MEANT
            outcome.failed[test] = (whose, text, f"again: {here} here, {there} there")

    def _again(self, tree: str, suite: str, tests: Sequence[str]) -> dict[str, Again]:
        """How often tests of a suite, one at a time and several times each, failed with a build; those that were run."""
        # The check of the servers when they end has no name of a test.
        names = list(dict.fromkeys(test_of(test) for test in tests if "." in test))
        if not names:
            return {}
        # MTR takes the last --parallel; with more it would run the repetitions side by side.
        cases, _ = self._mtr(tree, f"{suite}-again", ["--parallel=1", f"--repeat={REPEATS}", *names])
        done = Counter(case.variant for case in cases if case.name and case.status not in _NOT_RUN)
        bad = Counter(case.variant for case in cases if case.status not in ("pass", *_NOT_RUN))
        return {test: Again(bad[test], done[test]) for test in tests if done[test]}

    def _mtr(self, tree: str, name: str, arguments: Sequence[str]) -> tuple[list[mtr.Case], str]:
        """The cases of a run of MTR, and why they are not all, if so."""
        full = f"suite-{tree}-{name}"
        level = mtr.run(self._layout, tree, full, [], [*self._options, *arguments])
        report = self._layout.build / "test" / f"{full}.xml"
        cases = mtr.parse_report(report.read_text(encoding="utf-8", errors="replace")) if report.is_file() else []
        return cases, level.problem

    def _keep(self, outcome: Outcome) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / f"{outcome.preset}-{outcome.suite}.json"
        path.write_text(json.dumps(asdict(outcome), indent=2) + "\n", encoding="utf-8")


def kept(folder: Path) -> list[Outcome]:
    """What is kept of suites, in the order of `SUITES`."""
    found = [Outcome(**json.loads(path.read_text(encoding="utf-8"))) for path in sorted(folder.glob("*.json"))]
    rank = {suite: number for number, suite in enumerate(SUITES)}
    return sorted(found, key=lambda one: (one.preset, rank.get(one.suite, len(rank)), one.suite))


def table(outcomes: Iterable[Outcome]) -> str:
    """A Markdown table: suite, commit, passed, failed by whose, skipped and why, and how many of these here alone."""
    lines = [
        "| suite | build | commit | passed | failed here | of these also in MySQL | skipped, and why | here alone | time |",
        "|---|---|---|---:|---:|---:|---|---:|---:|",
    ]
    for one in outcomes:
        there = sum(whose == THERE_TOO for whose, _, _ in one.failed.values())
        reasons = sorted(one.skipped.items(), key=lambda pair: (-pair[1], pair[0]))
        shown = [f"{count}: {text.replace('|', '/')}" for text, count in reasons[:_REASONS_SHOWN]]
        if len(reasons) > _REASONS_SHOWN:
            shown.append(f"{sum(count for _, count in reasons[_REASONS_SHOWN:])}: {len(reasons) - _REASONS_SHOWN} other reasons")
        minutes = f"{one.seconds // 60} min {one.seconds % 60:02} s"
        why = f"{sum(one.skipped.values())} ({'; '.join(shown)})" if shown else "0"
        name = ", ".join([one.suite, *one.options, *(["not whole"] if one.problem else [])])
        cells = (name, one.preset, one.commit[:7], f"{one.passed:,}", str(len(one.failed)), str(there), why,
                 str(len(one.skipped_here)), minutes)  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def chosen(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Suites and options of MTR in the arguments; RedstartError for one that names a test."""
    names = [word for word in arguments if not word.startswith("-")]
    if wrong := [name for name in names if not re.fullmatch(r"\w+", name)]:
        raise RedstartError(f"{wrong[0]!r} is no suite; a test alone: ./redstart test mtr -- {wrong[0]}")
    return names or list(SUITES), [word for word in arguments if word.startswith("-")]


def run(layout: Layout, preset: str, arguments: Sequence[str], build_pristine: Callable[[], object]) -> Level:
    """Suites, one after the other, and the table of all that are kept."""
    names, options = chosen(arguments)
    level = Level("suites")
    for name in names:
        if not mtr.suite_folder(layout, name).is_dir():
            raise RedstartError(f"MySQL has no suite {name}")
    runner = Runner(layout, preset, options, build_pristine)
    for name in names:
        found = runner.run(name)
        say(f"  {name}: {found.counts()}")
        level.add(found)
    say(table(kept(layout.build / "test" / "suites")))
    return level
