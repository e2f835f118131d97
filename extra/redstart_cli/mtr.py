# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""MySQL's test runner (mysql-test-run.pl): what to run, as whom, and what came out."""

from __future__ import annotations

import html
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from shutil import rmtree

from redstart_cli.console import Meter, RedstartError, say
from redstart_cli.layout import Layout
from redstart_cli.process import Tail, run_logged
from redstart_cli.result import Level, Skip

# Programs, components and plugins that the tests use, beside the server itself.
TARGETS = (
    "mysqld",
    "mysql",
    "mysqltest",
    "mysqltest_safe_process",
    "mysqladmin",
    "mysqlcheck",
    "mysqldump",
    "mysqlimport",
    "mysqlshow",
    "mysqlslap",
    "mysqlbinlog",
    "mysql_secure_installation",
    "mysql_config_editor",
    "mysql_migrate_keyring",
    "mysql_keyring_encryption_test",
    "mysql_tzinfo_to_sql",
    "mysql_client_test",
    "my_print_defaults",
    "myisamchk",
    "myisampack",
    "perror",
    "innochecksum",
    "ibd2sdi",
    "component_keyring_file",
    "component_reference_cache",
    "component_classic_hashing",
    "clone",
)

# MTR runs a failed test up to three times if it is not told otherwise, and calls it unstable.
_NO_RETRY = "--retry=1"
# Minutes; both only end what hangs. Some tests start 50 servers, and machines may be slow and busy.
_TIMEOUTS = ("--testcase-timeout=60", "--suite-timeout=720")
_RESULT = re.compile(
    r"^\[\s*(?P<percent>\d+)%\]\s+(?P<test>\S+)(?:\s+'[^']*')?\s+(?:w\d+\s+)?\[ (?P<result>[a-z-]+) \]"
)
_CASE = re.compile(
    r"<testcase name=\"(?P<name>[^\"]*)\"(?: combination=\"(?P<combination>[^\"]*)\")?"
    r".*?status=\"(?P<status>\w+)\".*?suitename=\"(?P<suite>[^\"]*)\""
    r"(?:[^>]*>\s*<(?:skipped|disabled|failure) message=\"(?P<reason>[^\"]*)\"(?P<log>>\s*<!\[CDATA\[\n)?)?"
)
_HEADER = re.compile(r"<testsuites tests=\"(\d+)\"")
_TEST_NAME = re.compile(r"\w+\.\w[\w-]*")
FAILURE_LINES = 40
# Of the line that says why a test failed, and how far it is looked for.
REASON_CHARACTERS, LOG_CHARACTERS = 400, 4000


# What to run


@dataclass
class Section:
    """One section of mysql-test/regression.list."""

    name: str
    options: list[str] = field(default_factory=list)
    tests: list[str] = field(default_factory=list)
    # test -> reason and feature
    skips: dict[str, str] = field(default_factory=dict)


def parse_regression_list(text: str) -> list[Section]:
    """Sections of the list of upstream tests:

        options: --innodb-a --innodb-b    before any section: for all; in a section: for it only
        [on]
        suite.test
        skip: suite.test why it cannot pass [feature-id]

    `#` starts a comment. A skip needs a reason and the feature it belongs to.
    """
    sections: list[Section] = []
    common: list[str] = []
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.partition("#")[0].strip()
        if not line:
            continue
        where = f"regression.list, line {number}"
        if header := re.fullmatch(r"\[([a-z0-9_-]+)\]", line):
            if any(section.name == header[1] for section in sections):
                raise RedstartError(f"{where}: section [{header[1]}] appears twice")
            sections.append(Section(header[1], options=list(common)))
        elif line.startswith("options:"):
            (sections[-1].options if sections else common).extend(line.removeprefix("options:").split())
        elif not sections:
            raise RedstartError(f"{where}: {line!r} stands before any [section]")
        elif line.startswith("skip:"):
            skip = re.fullmatch(r"skip:\s*(\w+\.\w[\w-]*)\s+(\S.*?)\s+\[([a-z0-9-]+)\]", line)
            if skip is None:
                raise RedstartError(f"{where}: a skip needs a reason and a feature: skip: suite.test reason [feature]")
            sections[-1].skips[skip[1]] = f"{skip[2]} [{skip[3]}]"
        elif _TEST_NAME.fullmatch(line):
            if line in sections[-1].tests:
                raise RedstartError(f"{where}: {line} appears twice in [{sections[-1].name}]")
            sections[-1].tests.append(line)
        else:
            raise RedstartError(f"{where}: {line!r} is neither suite.test nor options: nor skip:")
    return sections


def own_tests(repo: Path) -> list[str]:
    """Names of the MTR tests of this repository."""
    root = repo / "mysql-test"
    tests = [f"{path.parents[1].name}.{path.stem}" for path in root.glob("suite/*/t/*.test")]
    tests += [f"main.{path.stem}" for path in root.glob("t/*.test")]
    return sorted(tests)


# As whom


def unprivileged() -> list[str]:
    """Prefix under which the tests run as an ordinary user.

    Some tests need files that the server cannot read or write, which root always can. In a user
    namespace root's files belong to uid 1000 and no privilege is left, whatever the clone's path.
    """
    if os.geteuid() != 0:
        return []
    prefix = ["unshare", "--user", "--map-user=1000", "--map-group=1000", "--"]
    probe = subprocess.run([*prefix, "true"], capture_output=True, text=True)
    if probe.returncode != 0:
        raise RedstartError(
            "MySQL's tests must not run as root, and this system does not allow user namespaces "
            f"({probe.stderr.strip()}). Run this command as an ordinary user."
        )
    return prefix


# Running


@dataclass(frozen=True)
class Case:
    """One test of a report; the check of the servers' shutdown has no name."""

    suite: str
    name: str
    # pass, fail, unstable, skipped or disabled
    status: str
    # Why it was not run, or why it failed.
    reason: str = ""
    # Of options that it was run with: a format of the binary log, say.
    combination: str = ""

    @property
    def test(self) -> str:
        return f"{self.suite}.{self.name}" if self.name else self.suite

    @property
    def variant(self) -> str:
        """The test and its combination, as MTR shows them."""
        return f"{self.test} '{self.combination}'" if self.combination else self.test


def parse_report(text: str) -> list[Case]:
    """The tests of an --xml-report file.

    Read by a pattern: the failure logs inside make many of these files invalid XML.
    """
    cases = []
    for match in _CASE.finditer(text):
        why = _why(text, match.end()) if match["log"] else ""
        reason = why or html.unescape(match["reason"] or "")
        cases.append(Case(match["suite"], match["name"], match["status"], reason, match["combination"] or ""))
    return cases


def _why(text: str, begin: int) -> str:
    """What a failed test said up to the word of mysqltest, as one line: what its script died of, or how its result differs."""
    lines: list[str] = []
    for line in text[begin : begin + LOG_CHARACTERS].splitlines():
        if line.strip() == "]]>":
            break
        if line.strip() and "CURRENT_TEST:" not in line:
            lines.append(line.strip())
        if "mysqltest: " in line:
            break
    return " | ".join(lines)[:REASON_CHARACTERS]


def count_report(text: str, code: int, tests: Sequence[str], options: Sequence[str], level: Level) -> None:
    """Add what a report and MTR's exit code say of `tests` and of those that the options name.

    A test that passed on a later try has failed. So has one that was asked for and has no outcome: MTR
    ends with 0 as well when it gives up after some of its tests, if these passed.
    """
    cases = parse_report(text)
    for case in cases:
        if case.status == "pass":
            level.passed += bool(case.name)
        elif case.status in ("skipped", "disabled"):
            level.skips.append(Skip(case.test, case.reason or f"{case.status} without a reason"))
        elif case.status == "unstable":
            level.fail(f"{case.test} (it failed and then passed)")
        else:
            level.fail(f"{case.test}: {case.reason}" if case.reason else case.test)
    found = {case.test for case in cases}
    for test in dict.fromkeys([*tests, *(option for option in options if _TEST_NAME.fullmatch(option))]):
        if test not in found:
            level.fail(f"{test} (asked for, but not run)")
    headers = _HEADER.findall(text)
    if headers != [str(len(cases))]:
        # A second header: MTR writes its report twice when tests are left over.
        level.problem = f"the report of mysql-test-run.pl is not whole: {len(cases)} tests, headers {headers}"
    elif code != 0 and level.failed == 0:
        level.problem = f"mysql-test-run.pl ended with {code}, although no test failed"


def exists(layout: Layout, test: str) -> bool:
    """Whether the tree that is tested has suite.test."""
    suite, name = test.split(".", 1)
    return (suite_folder(layout, suite) / f"{name}.test").is_file()


def suite_folder(layout: Layout, suite: str) -> Path:
    """Where the tests of a suite are in the tree that is tested."""
    root = layout.source / "mysql-test"
    return (root if suite == "main" else root / "suite" / suite) / "t"


def environment(preset: str) -> dict[str, str]:
    """The environment of MTR. Leaks are not looked for: perl has them, and a server that refuses to start.

    `python3` is ours, which has what tests of innodb_stress import.
    """
    own = {"ASAN_OPTIONS": "detect_leaks=0:detect_stack_use_after_return=0"} if preset == "asan" else {}
    return {**own, **os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


def run(layout: Layout, preset: str, name: str, tests: Sequence[str], options: Sequence[str] = ()) -> Level:
    """Run tests; MTR's output is in build/test/<name>.log, its data in build/mtr/<name>.

    The data, a gigabyte or more, is kept only if something failed.
    """
    level = Level(name)
    vardir = layout.build / "mtr" / name
    report = layout.build / "test" / f"{name}.xml"
    log = layout.build / "test" / f"{name}.log"
    for path in (report, log):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
    vardir.parent.mkdir(exist_ok=True)
    command = [
        *unprivileged(),
        "perl",
        "mysql-test-run.pl",
        f"--parallel={len(os.sched_getaffinity(0))}",
        "--force",
        _NO_RETRY,
        *_TIMEOUTS,
        "--max-test-fail=0",
        "--nounit-tests",
        f"--vardir={vardir}",
        f"--xml-report={report}",
        *options,
        *tests,
    ]
    tail = Tail(FAILURE_LINES)
    failure: Tail | None = None

    with Meter(f"{name} tests", 100) as meter:

        def on_line(line: str) -> None:
            nonlocal failure
            tail.add(line)
            match = _RESULT.match(line)
            if match:
                if failure is not None:
                    say(failure.text())
                failure = None
                meter.update(float(match["percent"]), match["test"])
                if match["result"] in ("fail", "retry-fail"):
                    failure = Tail(FAILURE_LINES)
            if failure is not None:
                failure.add(line)

        code = run_logged(
            command, log, on_line, cwd=layout.preset(preset) / "mysql-test", environment=environment(preset)
        )
    if failure is not None:
        say(failure.text())
    if not report.is_file():
        level.problem = f"mysql-test-run.pl ended with {code} and made no report; the end of {log}:\n{tail.text()}"
        return level
    count_report(report.read_text(encoding="utf-8", errors="replace"), code, tests, options, level)
    if not level.failed and not level.problem:
        rmtree(vardir, ignore_errors=True)
    return level
