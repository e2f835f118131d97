# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Counting: reports, exit codes, lists of tests and of skips, the closing line."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from overlay.model import load
from redstart_cli import mtr, sanitizers, skips, testing
from redstart_cli.console import RedstartError
from redstart_cli.layout import Layout
from redstart_cli.result import Level, Skip
from redstart_cli.tests.conftest import write_program
from redstart_cli.tools import Unavailable
from redstart_cli.upstream import NoOriginError, Upstream
from torture import stack

REPO = Path(__file__).resolve().parents[3]

LIST = """\
# Upstream tests.
options: --innodb-all=1
[on]
options: --innodb-a=ON   # more
innodb.alpha
sys_vars.beta_basic
skip: innodb.gamma needs two pages [tablespace-check]
[off]
innodb.alpha
"""


def test_regression_list() -> None:
    on, off = mtr.parse_regression_list(LIST)
    assert (on.name, on.options) == ("on", ["--innodb-all=1", "--innodb-a=ON"])
    assert on.tests == ["innodb.alpha", "sys_vars.beta_basic"]
    assert on.skips == {"innodb.gamma": "needs two pages [tablespace-check]"}
    assert (off.options, off.tests) == (["--innodb-all=1"], ["innodb.alpha"])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("innodb.a\n", "line 1: 'innodb.a' stands before any"),
        ("[on]\nskip: innodb.a [feature]\n", "line 2: a skip needs a reason and a feature"),
        ("[on]\nskip: innodb.a why not\n", "line 2: a skip needs a reason and a feature"),
        ("[on]\ninnodb.a\ninnodb.a\n", "line 3: innodb.a appears twice"),
        ("[on]\n[on]\n", "section .on. appears twice"),
        ("[on]\ninnodb\n", "is neither suite.test nor"),
    ],
)
def test_bad_regression_lists(text: str, words: str) -> None:
    with pytest.raises(RedstartError, match=words):
        mtr.parse_regression_list(text)


def test_own_tests(tmp_path: Path) -> None:
    for name in ("suite/innodb/t/b.test", "suite/sys_vars/t/a_basic.test", "t/c.test", "suite/innodb/r/b.result"):
        (tmp_path / "mysql-test" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "mysql-test" / name).touch()
    assert mtr.own_tests(tmp_path) == ["innodb.b", "main.c", "sys_vars.a_basic"]


REPORT = """\
<testsuites tests="6" failures="1" disabled="1" skipped="1" errors="0" time="9" name="AllTests">
  <testsuite name="innodb" tests="5" failures="1" disabled="1" skipped="1" errors="0" time="9">
    <testcase name="a" status="pass" time="2.1" suitename="innodb" />
    <testcase name="b" combination="crc" status="fail" time="1" suitename="innodb" >
       <failure message="Test failed: a < b & c">
          <![CDATA[
          CURRENT_TEST: innodb.b
          No pages were left at x line 3.
          mysqltest: log with ]]> inside

          The result from queries just before the failure was:
          ]]>
       </failure>
    </testcase>
    <testcase name="c" status="skipped" time="0" suitename="innodb">
       <skipped message="Test needs &quot;debug&quot;" />
    </testcase>
    <testcase name="d" status="disabled" time="0" suitename="innodb">
       <disabled message="BUG#1 sometimes" />
    </testcase>
    <testcase name="e" status="pass" time="3" suitename="innodb" />
  </testsuite>
  <testsuite name="shutdown_report" tests="1" failures="0" disabled="0" skipped="0" errors="0" time="0">
    <testcase name="" status="pass" time="0" suitename="shutdown_report" />
  </testsuite>
</testsuites>
"""
GOOD = REPORT.replace('status="fail"', 'status="pass"')
# Stands in for mysql-test-run.pl (which perl runs): prints like it and copies the report.
RUNNER = r"""
my ($report) = map { /--xml-report=(.*)/ ? $1 : () } @ARGV;
open(my $seen, '>', "$ENV{SEEN}"); print $seen join("\n", $>, @ARGV);
my ($vardir) = map { /--vardir=(.*)/ ? $1 : () } @ARGV;
-d $vardir or mkdir($vardir) or die;
print "[ 50%] innodb.a   w1  [ pass ]   2100\n";
print "[ 75%] innodb.b   w2  [ fail ]\n  mysqltest: At line 3: wrong\n";
print "[100%] innodb.e   w1  [ pass ]   3000\n";
system("cp", $ENV{REPORT}, $report) if -f $ENV{REPORT};
exit($ENV{CODE} // 1);
"""


@pytest.fixture
def runner(layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_program(layout.preset("release") / "mysql-test/mysql-test-run.pl", RUNNER)
    (tmp_path / "report").write_text(REPORT)
    monkeypatch.setenv("REPORT", str(tmp_path / "report"))
    monkeypatch.setenv("SEEN", str(tmp_path / "seen"))
    monkeypatch.setenv("CODE", "1")
    return tmp_path / "seen"


def test_mtr_run(layout: Layout, runner: Path, capsys: pytest.CaptureFixture[str]) -> None:
    level = mtr.run(layout, "release", "mtr", ["innodb.a"], ["--mysqld=--innodb-a=ON"])
    assert (level.passed, level.failed, level.problem) == (2, 1, "")
    assert level.failures == ["innodb.b: No pages were left at x line 3. | mysqltest: log with ]]> inside"]
    assert level.skips == [Skip("innodb.c", 'Test needs "debug"'), Skip("innodb.d", "BUG#1 sometimes")]
    out = capsys.readouterr().out
    assert "mysqltest: At line 3: wrong" in out and "innodb.a " not in out
    uid, *arguments = runner.read_text().splitlines()
    assert uid == str(os.geteuid() or 1000)
    assert arguments[-2:] == ["--mysqld=--innodb-a=ON", "innodb.a"] and "--force" in arguments
    assert [argument for argument in arguments if "retry" in argument or "unstable" in argument] == ["--retry=1"]
    assert (layout.build / "test/mtr.log").read_text().count("\n") == 4
    assert (layout.build / "mtr/mtr").is_dir()


def outcome(
    layout: Layout, runner: Path, report: str | None, code: int, tests: list[str], options: list[str] | None = None
) -> Level:
    """What a run comes to for which MTR leaves this report and ends with this code."""
    path = runner.parent / "report"
    path.unlink(missing_ok=True)
    if report is not None:
        path.write_text(report)
    os.environ["CODE"] = str(code)
    return mtr.run(layout, "release", "mtr", tests, options or [])


def test_mtr_gives_the_data_of_a_good_run_back(layout: Layout, runner: Path) -> None:
    level = outcome(layout, runner, GOOD, 0, ["innodb.a", "innodb.e"], ["--suite=innodb"])
    assert (level.passed, level.failed, level.problem) == (3, 0, "")
    assert (layout.build / "mtr").is_dir() and not (layout.build / "mtr/mtr").exists()


def test_what_follows_a_failed_test_is_counted(layout: Layout, runner: Path) -> None:
    # MTR indents empty lines of a log, too.
    for log in (REPORT, REPORT.replace("\n\n", "\n          \n"), REPORT.replace("\n\n", "\n")):
        level = outcome(layout, runner, log, 1, [], ["--suite=innodb"])
        assert (level.passed, level.failed, len(level.skips), level.problem) == (2, 1, 2, "")
        assert level.failures == ["innodb.b: No pages were left at x line 3. | mysqltest: log with ]]> inside"]


def test_a_retried_test_has_failed(layout: Layout, runner: Path) -> None:
    retried = GOOD.replace('name="e" status="pass" time="3" suitename="innodb" />',
                           'name="e" status="unstable" time="3" suitename="innodb" >\n</testcase>')  # fmt: skip
    level = outcome(layout, runner, retried, 0, ["innodb.e"])
    assert (level.passed, level.failures) == (2, ["innodb.e (it failed and then passed)"])
    assert (layout.build / "mtr/mtr").is_dir()


def test_the_exit_code_of_mtr_counts(layout: Layout, runner: Path) -> None:
    level = outcome(layout, runner, GOOD, 1, ["innodb.a"])
    assert level.failed == 0 and "ended with 1, although no test failed" in level.problem
    assert level.counts() == "3 passed, 1 failed, 2 skipped"
    assert (layout.build / "mtr/mtr").is_dir()


def test_mtr_without_a_report_is_a_problem(layout: Layout, runner: Path) -> None:
    """MTR ends with 0 if it found nothing to run."""
    level = outcome(layout, runner, None, 0, ["innodb.a"])
    assert "ended with 0 and made no report" in level.problem and level.passed == 0


@pytest.mark.parametrize("name", ["innodb.zeta", "innodb.a_"])
def test_a_test_without_an_outcome_has_failed(layout: Layout, runner: Path, name: str) -> None:
    missing = [f"{name} (asked for, but not run)"]
    assert outcome(layout, runner, GOOD, 0, ["innodb.a", name]).failures == missing
    assert outcome(layout, runner, GOOD, 0, [], [name, "--mysqld=--innodb-a=ON"]).failures == missing


@pytest.mark.parametrize(
    "report",
    [
        GOOD + GOOD,
        GOOD.replace('tests="6"', 'tests="7"'),
        GOOD.replace('name="e" status="pass"', 'name="e" result="pass"'),
        "",
    ],
    ids=["written twice", "one more in the header", "one that is not understood", "empty"],
)
def test_a_report_that_is_not_whole_is_a_problem(layout: Layout, runner: Path, report: str) -> None:
    assert "is not whole" in outcome(layout, runner, report, 0, []).problem


def test_a_failure_at_shutdown_counts(layout: Layout, runner: Path) -> None:
    report = GOOD.replace('name="" status="pass"', 'name="" status="fail"')
    assert outcome(layout, runner, report, 1, ["innodb.a"]).failures == ["shutdown_report"]


def test_leaks_are_not_looked_for_unless_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ASAN_OPTIONS", raising=False)
    assert "detect_leaks=0" in mtr.environment("asan")["ASAN_OPTIONS"]
    assert "ASAN_OPTIONS" not in mtr.environment("release")
    # `python3` of a test has what we require.
    assert mtr.environment("release")["PATH"].startswith(f"{Path(sys.executable).parent}:")
    monkeypatch.setenv("ASAN_OPTIONS", "detect_leaks=1")
    assert mtr.environment("asan")["ASAN_OPTIONS"] == "detect_leaks=1"


def test_mtr_runs_unprivileged(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("x")
    secret.chmod(0)
    assert subprocess.run([*mtr.unprivileged(), "cat", str(secret)], capture_output=True).returncode != 0
    subprocess.run([*mtr.unprivileged(), "touch", str(tmp_path / "new")], check=True)
    assert (tmp_path / "new").stat().st_uid == os.geteuid()


def gtest_case(name: str, result: str = "completed", inside: str = "") -> str:
    status = "notrun" if result == "suppressed" else "run"
    return f"<testcase name='{name}' status='{status}' result='{result}' classname='fil0check'>{inside}</testcase>"


def gtest_report(*cases: str) -> str:
    return f"<testsuites name='AllTests'><testsuite name='fil0check'>{''.join(cases)}</testsuite></testsuites>"


def test_gtest_report(tmp_path: Path) -> None:
    cases = [
        gtest_case("good"),
        gtest_case("bad", inside="<failure message='x' type=''><![CDATA[x]]></failure>"),
        gtest_case("not_here", "skipped", "<skipped message='f.cc:1&#x0A;no ring'><![CDATA[no]]></skipped>"),
        gtest_case("disabled", "suppressed"),
    ]
    report = tmp_path / "r.xml"
    report.write_text(gtest_report(*cases))
    level = Level("fil0check-t")
    testing.count_junit(report, level, "fil0check-t ")
    assert level.counts() == "1 passed, 1 failed, 2 skipped"
    assert level.failures == ["fil0check-t fil0check.bad"]
    assert level.skips == [
        Skip("fil0check-t fil0check.not_here", "f.cc:1\nno ring"),
        Skip("fil0check-t fil0check.disabled", "disabled"),
    ]


def test_pytest_report(tmp_path: Path) -> None:
    report = tmp_path / "r.xml"
    report.write_text(
        "<testsuites><testsuite><testcase classname='a' name='good'/><testcase classname='a' name='bad'><failure/>"
        "</testcase><testcase classname='a' name='broken'><error/></testcase><testcase classname='a' name='s'>"
        "<skipped message='no disk'/></testcase></testsuite></testsuites>"
    )
    level = Level("x")
    assert testing.count_junit(report, level) == ["a.good", "a.bad", "a.broken", "a.s"]
    assert level.counts() == "1 passed, 2 failed, 1 skipped" and level.failures == ["a.bad", "a.broken"]
    assert level.skips == [Skip("a.s", "no disk")]


@pytest.fixture
def skips_list(layout: Layout) -> Path:
    """The list of a clone, which allows overlay.slow to be skipped."""
    path = layout.repo / skips.LIST
    path.parent.mkdir(parents=True)
    path.write_text("- {level: overlay, test: overlay.slow, says: no time, why: takes a day, feature: tools}\n")
    return path


SLOW = Skip("overlay.slow", "there is no time today")


def run_level(
    layout: Layout, monkeypatch: pytest.MonkeyPatch, level: Level | Exception, *arguments: str, preset: str = "release"
) -> bool:
    def give(tester: testing.Tester) -> Level:
        if isinstance(level, Exception):
            raise level
        return level

    monkeypatch.setattr(testing, "LEVELS", {"overlay": give})
    return testing.run_levels(layout, ["overlay"], None, None, arguments, preset)


def test_the_source_is_made_before_a_sanitizer_reads_from_it(
    layout: Layout, skips_list: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []

    @contextmanager
    def made(*_: object) -> Iterator[None]:
        done.append("made")
        yield

    @contextmanager
    def watched(*_: object) -> Iterator[Level]:
        done.append("watched")
        yield Level("reports")

    monkeypatch.setattr(testing, "reading_source", made)
    monkeypatch.setattr(sanitizers, "watching", watched)
    monkeypatch.setattr(testing, "LEVELS", {"mtr": lambda _: Level("mtr", 1)})
    assert testing.run_levels(layout, ["mtr"], None, None, ["innodb.a"], "tsan")
    assert testing.run_levels(layout, ["mtr"], None, None, ["innodb.a"])
    assert done == ["made", "watched", "watched"]


def test_closing_line_sums_all_levels(
    layout: Layout, skips_list: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(tester: testing.Tester) -> Level:
        raise RedstartError("no compiler\nsee above")

    def unavailable(tester: testing.Tester) -> Level:
        raise Unavailable("no stock server")

    monkeypatch.setattr(
        testing,
        "LEVELS",
        {
            "overlay": lambda _: Level("overlay", 3, skips=[SLOW]),
            "unit": broken,
            "swap": unavailable,
            "mtr": lambda _: Level("mtr", 2),
        },
    )
    assert not testing.run_levels(layout, ["overlay", "unit", "swap", "mtr"], None, None, [])
    captured = capsys.readouterr()
    assert captured.out.splitlines()[-3:] == [
        "failed: unit could not run: no compiler",
        "failed: swap could not run: no stock server",
        "5 passed, 2 failed, 1 skipped",
    ]
    assert "  skipped, 1: overlay.slow: there is no time today" in captured.out
    assert "== unit: 0 passed, 1 failed, 0 skipped" in captured.out
    assert "unit: no compiler" in captured.err
    assert testing.run_levels(layout, ["overlay", "mtr"], None, None, [])


@pytest.mark.parametrize(
    ("skipped", "failure"),
    [
        ([SLOW], ""),
        ([SLOW, Skip("main.x", "listed elsewhere", is_listed=True)], ""),
        ([], "overlay.slow stands in extra/redstart_cli/skips.yaml and was not skipped with 'no time'"),
        ([SLOW, Skip("overlay.other", "no time")], "overlay.other was skipped and extra/redstart_cli/skips.yaml does"),
        ([SLOW, SLOW], "overlay.slow was skipped and extra/redstart_cli/skips.yaml does not allow it: there is"),
        ([Skip("overlay.slow", "no clock")], "overlay.slow was skipped and extra/redstart_cli/skips.yaml does not"),
    ],
    ids=["as listed", "in another list", "no longer skipped", "not listed", "twice", "for another reason"],
)
def test_skips_are_those_of_the_list(
    layout: Layout, skips_list: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    skipped: list[Skip], failure: str,
) -> None:  # fmt: skip
    level = Level("overlay", 1, skips=skipped)
    assert run_level(layout, monkeypatch, level) == (failure == "")
    assert failure in "\n".join(level.failures)
    assert f"failed: {failure}" in capsys.readouterr().out or not failure
    # What is skipped in a part of the level says nothing about the list.
    assert run_level(layout, monkeypatch, Level("overlay", 1, skips=skipped), "-k", "one")


def test_a_skip_may_be_of_a_preset_or_a_user(layout: Layout, skips_list: Path) -> None:
    entry = "{level: overlay, test: overlay.slow, says: no time, why: w, feature: tools"
    skips_list.write_text(f"- {entry}, presets: [debug], user: root}}\n- {entry}, presets: [asan]}}\n")
    expected = skips.read(skips_list)
    for preset, is_root, failed in [
        ("debug", True, 0), ("debug", False, 1), ("release", True, 1), ("asan", True, 0), ("asan", False, 0),
    ]:  # fmt: skip
        level = Level("overlay", 1, skips=[SLOW])
        skips.check(expected, level, "overlay", preset, is_root)
        assert level.failed == failed, (preset, is_root)
        unskipped = Level("overlay", 1)
        skips.check(expected, unskipped, "overlay", preset, is_root)
        assert unskipped.failed == 1 - failed, (preset, is_root)


def test_what_the_machine_decides_may_run(skips_list: Path) -> None:
    skips_list.write_text("- {level: overlay, test: overlay.slow, says: no time, why: w, feature: tools, machine: true}\n")
    expected = skips.read(skips_list)
    for skipped, failed in [([SLOW], 0), ([], 0), ([SLOW, SLOW], 1), ([Skip("overlay.slow", "no clock")], 1)]:
        level = Level("overlay", 1, skips=skipped)
        skips.check(expected, level, "overlay", "release", True)
        assert level.failed == failed, skipped


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("- {level: a, test: b, says: c, why: d}", "'feature' is a required property"),
        ("- {level: a, test: b, says: '', why: d, feature: e}", "says"),
        ("- {level: a, test: b, says: c, why: d, feature: e, reason: f}", "unknown key|unexpected"),
        ("- &a {level: a, test: b, says: c, why: d, feature: e}\n- *a", "b of a is listed twice"),
        ("- {level: a, test: b, says: c, why: d, feature: e, presets: [relase]}", "relase"),
        ("{}", "is not of type 'array'"),
    ],
)
def test_bad_lists_of_skips(skips_list: Path, text: str, words: str) -> None:
    skips_list.write_text(text)
    with pytest.raises(RedstartError, match=words):
        skips.read(skips_list)


def test_no_list_of_skips_is_an_error(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RedstartError, match="skips.yaml: cannot be read"):
        run_level(layout, monkeypatch, Level("overlay", 1))


def test_the_list_of_skips_of_this_repository() -> None:
    features = {feature.name for feature in load(REPO).features}
    tests = mtr.own_tests(REPO)
    expected = skips.read(REPO / skips.LIST)
    assert expected
    for entry in expected:
        assert entry.level in testing.LEVELS, entry
        assert entry.feature in features | {"tools"}, entry
        assert entry.level != "mtr" or entry.test in tests, entry


def test_each_test_of_debug_servers_is_in_the_list_of_skips() -> None:
    listed = {entry.test for entry in skips.read(REPO / skips.LIST) if entry.level == "mtr" and "release" in entry.presets}
    found = set()
    for path in (REPO / "mysql-test").rglob("*.test"):
        if "include/have_debug" in path.read_text(encoding="utf-8"):
            found.add(f"{path.parents[1].name}.{path.stem}")
    assert found and found == listed


@pytest.mark.parametrize("level", [Level("overlay"), Level("overlay", skips=[SLOW])], ids=["nothing", "a skip"])
def test_a_level_in_which_nothing_ran_has_failed(
    layout: Layout, skips_list: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], level: Level
) -> None:
    assert not run_level(layout, monkeypatch, level, "-k", "none")
    assert capsys.readouterr().out.splitlines()[-2] == "failed: overlay could not run: no test was run"


def test_a_missing_regression_list_is_a_failure(layout: Layout) -> None:
    assert "is missing" in testing.Tester(layout, None, None, []).regression().problem


def test_regression_level(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    """Skips carry their section; a section with nothing to run and a skip of no test are failures."""
    path = layout.repo / "mysql-test/regression.list"
    path.parent.mkdir()
    path.write_text(LIST + "[none]\nskip: innodb.delta is slow [ddl-merge]\n")
    run: list[tuple[str, list[str]]] = []

    def fake(self: testing.Tester, name: str, tests: list[str], options: list[str]) -> Level:
        run.append((name, tests))
        return Level(name, 1, skips=[Skip("innodb.alpha", "no debug")])

    monkeypatch.setattr(testing.Tester, "_run_mtr", fake)
    (layout.source / "mysql-test/suite/innodb/t").mkdir(parents=True)
    (layout.source / "mysql-test/suite/innodb/t/gamma.test").touch()
    level = testing.Tester(layout, None, None, []).regression()
    assert run == [("regression-on", ["innodb.alpha", "sys_vars.beta_basic"]), ("regression-off", ["innodb.alpha"])]
    assert level.passed == 2 and level.failures == ["section [none] of regression.list has no test to run"]
    assert [skip.test for skip in level.skips if not skip.is_listed] == ["on/innodb.alpha", "off/innodb.alpha"]
    assert [skip.test for skip in level.skips if skip.is_listed] == ["on/innodb.gamma", "none/innodb.delta"]
    (layout.source / "mysql-test/suite/innodb/t/gamma.test").unlink()
    (failure, _) = testing.Tester(layout, None, None, []).regression().failures
    assert failure == "innodb.gamma (skipped in regression.list, but there is no such test)"


def test_no_test_of_this_repository_is_a_failure(layout: Layout) -> None:
    assert testing.Tester(layout, None, None, []).mtr().problem


def test_a_missing_folder_of_tests_is_a_failure(layout: Layout) -> None:
    level = testing.Tester(layout, None, None, [])._pytest({}, "extra/none/tests")
    assert "pytest ended with 4" in level.problem and level.counts() == "0 passed, 1 failed, 0 skipped"


def test_a_folder_without_tests_is_a_failure(layout: Layout) -> None:
    (layout.repo / "extra/none/tests").mkdir(parents=True)
    assert testing.Tester(layout, None, None, [])._pytest({}, "extra/none/tests").problem
    # Another folder may have what the arguments select.
    assert not testing.Tester(layout, None, None, ["-k", "x"])._pytest({}, "extra/none/tests").problem
    (layout.repo / "extra/some").mkdir()
    (layout.repo / "extra/some/test_one.py").write_text("def test_it() -> None:\n    pass\n")
    (layout.repo / "extra/some/test_broken.py").write_text("import nothing_of_this_name\n")
    level = testing.Tester(layout, None, None, [])._pytest({}, "extra/some/test_one.py", "extra/none/tests")
    assert (level.passed, level.failures) == (1, ["pytest found no test in extra/none/tests"])
    level = testing.Tester(layout, None, None, ["-k", "it"])._pytest({}, "extra/some/test_one.py", "extra/none/tests")
    assert level.counts() == "1 passed, 0 failed, 0 skipped"
    # Of a level whose arguments are not pytest's.
    level = testing.Tester(layout, None, None, ["no-such-folder"])._pytest({}, "extra/some", arguments=())
    assert level.passed == 1 and "test_broken" in " ".join(level.failures)


def test_no_folder_of_tests_is_forgotten(layout: Layout) -> None:
    (layout.repo / "extra/new/tests").mkdir(parents=True)
    folders = testing.pytest_folders(layout.repo)
    assert {"extra/new/tests", "cmake/overlay/tests"} < set(folders) and len(folders) == len(set(folders))
    assert all((REPO / folder).is_dir() for folder in testing.pytest_folders(REPO))


def test_a_release_that_is_gone_is_no_listed_skip(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    """The golden records of a pinned release cannot be left out unnoticed."""

    @contextmanager
    def fake(layout: Layout, version: str | None = None, checkout: Path | None = None) -> Iterator[Upstream]:
        if version is not None:
            raise NoOriginError("no origin has it")
        yield Upstream("9.7.4", layout.upstream / "9.7.4")

    monkeypatch.setattr(testing, "reading", fake)
    monkeypatch.setattr(testing, "read_pins", lambda repo: ("9.7.4", {"9.7.4": None, "9.7.2": None}))
    level = Level("overlay", 1)
    testing.Tester(layout, None, None, [])._upstreams(level)
    assert level.skips == [Skip("overlay golden 9.7.2", "no origin has it")]
    skips.check(skips.read(REPO / skips.LIST), level, "overlay", "release", True)
    assert "overlay golden 9.7.2 was skipped" in level.failures[0]


@pytest.mark.parametrize(
    ("script", "words"),
    [("exit 0", "reported no test"), ("exit 3", "ended with 3"), ("kill -SEGV $$", "ended with")],
)
def test_a_unit_program_that_reports_nothing_is_a_problem(layout: Layout, script: str, words: str) -> None:
    program = write_program(layout.build / "x-t", f"#!/bin/bash\n{script}\n")
    assert words in testing.Tester(layout, None, None, [])._run_unit("x-t", program).problem


def test_unit_programs_run_unprivileged(layout: Layout) -> None:
    report = gtest_report(gtest_case("$(id --user)"))
    script = f'#!/bin/bash\nfor word; do case $word in *xml:*) echo "{report}" >"${{word#*xml:}}" ;; esac; done\n'
    script += '[ "$(id --user)" != 0 ]\n'
    level = testing.Tester(layout, None, None, [])._run_unit("x-t", write_program(layout.build / "x-t", script))
    assert (level.passed, level.problem) == (1, "")


TORTURE = """
import sys, json
if {cycles} is not None:
    open(sys.argv[sys.argv.index("--json") + 1], "w").write(json.dumps({{"cycles": {cycles}}}))
sys.exit({code})
"""


@pytest.mark.parametrize(
    ("cycles", "code", "counts"),
    [(7, 0, "7 passed, 0 failed"), (7, 1, "0 passed, 1 failed"), (0, 0, "0 passed, 1 failed"),
     (None, 0, "0 passed, 1 failed")],
)  # fmt: skip
def test_torture(
    layout: Layout, monkeypatch: pytest.MonkeyPatch, cycles: int | None, code: int, counts: str
) -> None:
    monkeypatch.setattr(testing.Tester, "_build", lambda self, targets: None)
    (layout.repo / "extra/redstart_cli").mkdir(parents=True)
    (layout.repo / "extra/redstart_cli/__main__.py").write_text(TORTURE.format(cycles=cycles, code=code))
    monkeypatch.setattr(stack, "missing_programs", list)
    monkeypatch.setattr(stack, "missing_devices", list)
    level = testing.Tester(layout, None, None, []).torture()
    assert level.counts() == f"{counts}, 0 skipped"


@pytest.mark.parametrize(("uid", "counts"), [(0, "3 passed, 0 failed, 0 skipped"), (1000, "1 passed, 0 failed, 1 skipped")])
def test_image_as_root_and_as_another_user(
    layout: Layout, monkeypatch: pytest.MonkeyPatch, uid: int, counts: str
) -> None:
    monkeypatch.setattr(testing.Tester, "_build", lambda self, targets: None)
    monkeypatch.setattr(testing.os, "geteuid", lambda: uid)
    folder = layout.repo / "extra/dropin"
    folder.mkdir(parents=True)
    for name in ("test_entrypoint.py", "test_entrypoint_root.py", "test_pod.py"):
        (folder / name).write_text("import os\ndef test_it(): assert os.environ['REDSTART_CLIENTS']\n")
    level = testing.Tester(layout, None, None, []).image()
    assert level.counts() == counts


@pytest.mark.parametrize(("uid", "counts"), [(0, "3 passed, 0 failed, 0 skipped"), (1000, "1 passed, 0 failed, 1 skipped")])
def test_installation_as_root_and_as_another_user(
    layout: Layout, monkeypatch: pytest.MonkeyPatch, uid: int, counts: str
) -> None:
    made = layout.build / "packaging/lean/made"
    monkeypatch.setattr(testing, "lean_packages", lambda _, folder, *__: folder.mkdir(parents=True))
    monkeypatch.setattr(testing, "machine_mirror", lambda: "http://mirror")
    monkeypatch.setattr(testing.os, "geteuid", lambda: uid)
    work = layout.build / "packaging/roots"
    left = work / "bookworm/left"
    left.mkdir(parents=True)
    values = {"REDSTART_PACKAGES": str(made), "REDSTART_MIRROR": "http://mirror", "REDSTART_WORK": str(work)}
    folder = layout.repo / "extra/dropin"
    folder.mkdir(parents=True)
    (folder / "test_installation.py").write_text(
        f"import os\n"
        f"def test_it(): assert os.environ.items() >= {values}.items() and not os.path.exists({str(work)!r})\n"
        f"def test_the_x_protocol_is_served(): assert False\n"
        f"def test_the_last(): os.mkdir({str(work)!r})\n"
    )
    level = testing.Tester(layout, None, None, []).installation()
    assert level.counts() == counts
    # Nothing of a root stays.
    assert work.exists() == left.exists() == (uid != 0)


def test_the_first_failure_in_a_root_is_the_last_there(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(testing, "machine_mirror", lambda: "http://mirror")
    folder = layout.repo / "extra/dropin"
    folder.mkdir(parents=True)
    (folder / "test_one.py").write_text("def test_a(): assert False\ndef test_b(): pass\n")
    (folder / "test_two.py").write_text("def test_a(): pass\ndef test_b(): pass\n")
    level = testing.Tester(layout, None, None, ["a folder"])._in_roots(layout.build, "test_one.py", "test_two.py")
    assert level.counts() == "2 passed, 1 failed, 0 skipped"


def test_swap_keeps_its_folder_for_a_failure(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(testing, "need_root", lambda _: None)
    monkeypatch.setattr(testing.Tester, "_build", lambda self, targets: None)
    monkeypatch.setattr(testing.Tester, "_stock_root", lambda _: layout.build / "stock")
    work, folder = layout.build / "test/swap", layout.repo / "extra/dropin"
    folder.mkdir(parents=True)
    (work / "left").mkdir(parents=True)
    values = {"REDSTART_STOCK": str(layout.build / "stock"), "REDSTART_WORK": str(work)}
    (folder / "test_swap.py").write_text(
        f"import os\n"
        f"def test_it(): assert os.environ.items() >= {values}.items() and not os.mkdir({str(work)!r})\n"
        f"def test_turns(): assert os.environ['REDSTART_TURNS'] == '{testing.SWAP_TURNS}'\n"
    )
    assert testing.Tester(layout, None, None, []).swap().counts() == "2 passed, 0 failed, 0 skipped"
    assert not work.exists()
    assert testing.Tester(layout, None, None, ["7"]).swap().counts() == "1 passed, 1 failed, 0 skipped"
    assert work.exists()
    for turns in ("1", "x", "1001"):
        with pytest.raises(RedstartError, match="2 to 1000"):
            testing.Tester(layout, None, None, [turns]).swap()


def test_packages_that_are_given_are_tested(layout: Layout, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(testing, "package", lambda *_: [Path("new")])
    folder = tmp_path / "given"
    folder.mkdir()
    with pytest.raises(RedstartError, match="one folder with packages, or nothing"):
        testing.Tester(layout, None, None, [str(folder)])._packages()
    (folder / "redstart-server_1_all.deb").touch()
    (folder / "other_1_all.deb").touch()
    assert testing.Tester(layout, None, None, [str(folder)])._packages() == [folder / "redstart-server_1_all.deb"]
    assert testing.Tester(layout, None, None, [])._packages() == [Path("new")]


def test_dockerfile_by_its_steps_and_by_buildah(layout: Layout, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    packages = tmp_path / "given"
    packages.mkdir()
    (packages / "redstart-server_1_all.deb").touch()
    monkeypatch.setattr(testing, "need_root", lambda _: None)
    monkeypatch.setattr(testing, "machine_mirror", lambda: "http://mirror")
    folder, work = layout.repo / "extra/dropin", layout.build / "packaging/image"
    folder.mkdir(parents=True)
    (folder / "dockerfile.py").write_text("import pathlib, sys\npathlib.Path(sys.argv[3], 'left').mkdir(parents=True)\n")
    values = {"REDSTART_PACKAGES": str(packages), "REDSTART_MIRROR": "http://mirror", "REDSTART_WORK": str(work)}
    new = f"os.environ.items() >= {values}.items() and not os.path.exists({str(work)!r})"
    (folder / "test_buildah.py").write_text(f"import os\ndef test_it(): assert {new}\n")
    assert testing.Tester(layout, None, None, [str(packages)]).dockerfile().counts() == "2 passed, 0 failed, 0 skipped"
    assert testing.Tester(layout, None, None, ["all"]).dockerfile().counts() == "1 passed, 0 failed, 0 skipped"
    assert not work.exists()


def test_torture_without_devices(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(testing.Tester, "_build", lambda self, targets: None)
    monkeypatch.setattr(stack, "missing_programs", list)
    monkeypatch.setattr(stack, "missing_devices", lambda: ["/dev/fuse"])
    seen: list[str] = []

    def fail(_: Path, *words: object) -> int:
        seen.extend(map(str, words))
        return 1

    monkeypatch.setattr(testing, "run_module", fail)
    level = testing.Tester(layout, None, None, []).torture()
    assert seen[seen.index("--kinds") + 1] == "kill,redo"
    assert level.counts() == "0 passed, 1 failed, 1 skipped"
    assert "/dev/fuse" in level.skips[0].reason

    # What could be installed is asked for, and fails the run.
    monkeypatch.setattr(stack, "missing_programs", lambda: ["qemu-nbd"])
    seen.clear()
    assert testing.Tester(layout, None, None, []).torture().skips == []
    assert "--kinds" not in seen


def test_unit_programs(tmp_path: Path) -> None:
    folder = tmp_path / "unittest/gunit/innodb"
    folder.mkdir(parents=True)
    for name in ("fil0check-t.cc", "helper.cc", "CMakeLists.txt.edit.yaml"):
        (folder / name).touch()
    assert testing.unit_programs(tmp_path) == ["fil0check-t"]
