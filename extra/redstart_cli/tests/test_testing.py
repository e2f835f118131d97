# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Counting: MTR's and GoogleTest's reports, the regression list, the closing line."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from redstart_cli import mtr, testing
from redstart_cli.console import RedstartError
from redstart_cli.layout import Layout
from redstart_cli.result import Level
from redstart_cli.tests.conftest import write_program

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
<testsuites tests="5" failures="1" unstable-tests="1" disabled="1" skipped="1" errors="0" time="9" name="AllTests">
  <testsuite name="innodb" tests="5" failures="1" disabled="1" skipped="1" errors="0" time="9">
    <testcase name="a" status="pass" time="2.1" suitename="innodb" />
    <testcase name="b" combination="crc" status="fail" time="1" suitename="innodb" >
       <failure message="Test failed: a < b & c">
          <![CDATA[
          log with ]]> inside
          ]]>
       </failure>
    </testcase>
    <testcase name="c" status="skipped" time="0" suitename="innodb">
       <skipped message="Test needs debug" />
    </testcase>
    <testcase name="d" status="disabled" time="0" suitename="innodb">
    </testcase>
    <testcase name="e" status="unstable" time="3" suitename="innodb" >
    </testcase>
  </testsuite>
  <testsuite name="shutdown_report" tests="1" failures="0" disabled="0" skipped="0" errors="0" time="0">
    <testcase name="" status="pass" time="0" suitename="shutdown_report" />
  </testsuite>
</testsuites>
"""
# Stands in for mysql-test-run.pl (which perl runs): prints like it and copies the report.
RUNNER = r"""
my ($report) = map { /--xml-report=(.*)/ ? $1 : () } @ARGV;
open(my $seen, '>', "$ENV{SEEN}"); print $seen join("\n", $>, @ARGV);
my ($vardir) = map { /--vardir=(.*)/ ? $1 : () } @ARGV;
mkdir($vardir) or die;
print "[ 50%] innodb.a   w1  [ pass ]   2100\n";
print "[ 75%] innodb.b   w2  [ fail ]\n  mysqltest: At line 3: wrong\n";
print "[100%] innodb.e   w1  [ pass ]   3000\n";
exit 3 if $ENV{NO_REPORT};
system("cp", $ENV{REPORT}, $report);
exit 1;
"""


@pytest.fixture
def runner(layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_program(layout.preset("release") / "mysql-test/mysql-test-run.pl", RUNNER)
    (tmp_path / "report").write_text(REPORT)
    monkeypatch.setenv("REPORT", str(tmp_path / "report"))
    monkeypatch.setenv("SEEN", str(tmp_path / "seen"))
    return tmp_path / "seen"


def test_mtr_run(layout: Layout, runner: Path, capsys: pytest.CaptureFixture[str]) -> None:
    level = mtr.run(layout, "release", "mtr", ["innodb.a"], ["--mysqld=--innodb-a=ON"])
    assert (level.passed, level.failed, level.skipped) == (2, 1, 2)
    assert level.failures == ["innodb.b"]
    out = capsys.readouterr().out
    assert "mysqltest: At line 3: wrong" in out and "unstable: innodb.e" in out and "innodb.a " not in out
    uid, *arguments = runner.read_text().splitlines()
    assert uid == str(os.geteuid() or 1000)
    assert arguments[-2:] == ["--mysqld=--innodb-a=ON", "innodb.a"] and "--force" in arguments
    assert (layout.build / "test/mtr.log").read_text().count("\n") == 4
    assert (layout.build / "mtr/mtr").is_dir()


def test_mtr_gives_the_data_of_a_good_run_back(layout: Layout, runner: Path) -> None:
    (runner.parent / "report").write_text(REPORT.replace('status="fail"', 'status="pass"'))
    assert mtr.run(layout, "release", "mtr", ["innodb.a"]).failed == 0
    assert (layout.build / "mtr").is_dir() and not (layout.build / "mtr/mtr").exists()


def test_mtr_without_a_report_is_a_problem(layout: Layout, runner: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_REPORT", "1")
    level = mtr.run(layout, "release", "mtr", ["innodb.a"])
    assert "made no report" in level.problem and level.passed == 0


def test_leaks_are_not_looked_for_unless_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ASAN_OPTIONS", raising=False)
    assert "detect_leaks=0" in mtr.environment("asan")["ASAN_OPTIONS"]
    assert "ASAN_OPTIONS" not in mtr.environment("release")
    monkeypatch.setenv("ASAN_OPTIONS", "detect_leaks=1")
    assert mtr.environment("asan")["ASAN_OPTIONS"] == "detect_leaks=1"


def test_mtr_runs_unprivileged(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("x")
    secret.chmod(0)
    assert subprocess.run([*mtr.unprivileged(), "cat", str(secret)], capture_output=True).returncode != 0
    subprocess.run([*mtr.unprivileged(), "touch", str(tmp_path / "new")], check=True)
    assert (tmp_path / "new").stat().st_uid == os.geteuid()


def gtest_case(name: str, result: str = "COMPLETED", **more: object) -> dict[str, object]:
    return {"name": name, "result": result, **more}


def test_gtest_report(tmp_path: Path) -> None:
    cases = [
        gtest_case("good"),
        gtest_case("bad", failures=[{"failure": "x"}]),
        gtest_case("not_here", "SKIPPED"),
        gtest_case("disabled", "SUPPRESSED"),
    ]
    report = tmp_path / "r.json"
    report.write_text(json.dumps({"testsuites": [{"name": "fil0check", "testsuite": cases}]}))
    level = Level("fil0check-t")
    testing.count_gtest(report, level)
    assert level.counts() == "1 passed, 1 failed, 2 skipped"
    assert level.failures == ["fil0check-t fil0check.bad"]


def test_pytest_report(tmp_path: Path) -> None:
    report = tmp_path / "r.xml"
    report.write_text(
        "<testsuites><testsuite><testcase classname='a' name='good'/><testcase classname='a' name='bad'><failure/>"
        "</testcase><testcase classname='a' name='broken'><error/></testcase><testcase classname='a' name='s'>"
        "<skipped/></testcase></testsuite></testsuites>"
    )
    level = Level("x")
    testing.count_pytest(report, level)
    assert level.counts() == "1 passed, 2 failed, 1 skipped" and level.failures == ["a.bad", "a.broken"]


def test_closing_line_sums_all_levels(
    layout: Layout, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(tester: testing.Tester) -> Level:
        raise RedstartError("no compiler")

    monkeypatch.setattr(
        testing,
        "LEVELS",
        {"overlay": lambda _: Level("overlay", 3, 0, 1), "unit": broken, "mtr": lambda _: Level("mtr", 2)},
    )
    assert not testing.run_levels(layout, ["overlay", "unit", "mtr"], None, None, [])
    captured = capsys.readouterr()
    assert captured.out.splitlines()[-2:] == ["failed: unit could not run", "5 passed, 1 failed, 1 skipped"]
    assert "unit: no compiler" in captured.err
    assert testing.run_levels(layout, ["overlay", "mtr"], None, None, [])


def test_a_missing_regression_list_is_a_failure(layout: Layout) -> None:
    assert "is missing" in testing.Tester(layout, None, None, []).regression().problem


def test_unit_programs(tmp_path: Path) -> None:
    folder = tmp_path / "unittest/gunit/innodb"
    folder.mkdir(parents=True)
    for name in ("fil0check-t.cc", "helper.cc", "CMakeLists.txt.edit.yaml"):
        (folder / name).touch()
    assert testing.unit_programs(tmp_path) == ["fil0check-t"]
