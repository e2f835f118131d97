# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Whole suites: whose a failure is, what is kept of it, and the table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from redstart_cli import mtr, suites
from redstart_cli.console import RedstartError
from redstart_cli.layout import Layout
from redstart_cli.result import Level

_STATUS = {
    "pass": '<testcase name="{name}"{with_} status="pass" time="1" suitename="parts" comment="" />',
    "skipped": '<testcase name="{name}"{with_} status="skipped" time="0" suitename="parts" comment="">\n'
    '<skipped message="Test requires \'x\'" type="mtr_skip" />\n</testcase>',
    "disabled": '<testcase name="{name}"{with_} status="disabled" time="0" suitename="parts" comment="">\n'
    '<disabled message="Bug#1" type="mtr_skip" />\n</testcase>',
    "fail": '<testcase name="{name}"{with_} status="fail" time="1" suitename="parts" comment="">\n'
    '<failure message="">\n<![CDATA[\nmysqltest: At line 7: {name} broke\n]]>\n</failure>\n</testcase>',
}  # fmt: skip


class Mtr:
    """Instead of MySQL's runner: each run takes the outcomes of the next call that is prepared for its build.

    A test's name may be followed by a combination.
    """

    def __init__(self) -> None:
        self.outcomes: dict[str, list[dict[str, str]]] = {}
        self.calls: list[tuple[str, tuple[str, ...]]] = []
        self.problem = ""

    def run(self, layout: Layout, tree: str, name: str, tests: Sequence[str], options: Sequence[str] = ()) -> Level:
        assert not tests
        self.calls.append((tree, tuple(options)))
        cases = self.outcomes[tree].pop(0)
        report = layout.build / "test" / f"{name}.xml"
        report.parent.mkdir(parents=True, exist_ok=True)
        text = "\n".join(_case(*test.partition(" ")[::2], status) for test, status in cases.items())
        report.write_text(f'<testsuites tests="{len(cases)}">\n{text}\n</testsuites>\n', encoding="utf-8")
        return Level(name, problem=self.problem)


def _case(name: str, combination: str, status: str) -> str:
    return _STATUS[status].format(name=name, with_=f' combination="{combination}"' if combination else "")


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Mtr:
    fake = Mtr()
    monkeypatch.setattr(mtr, "run", fake.run)
    monkeypatch.setattr(suites, "commit", lambda repo: "0123456789ab")
    return fake


@pytest.mark.parametrize(
    ("here", "there", "whose"),
    [
        ((3, 3), (3, 3), suites.THERE_TOO),
        ((1, 3), (2, 3), suites.THERE_TOO),
        # MySQL fails it now and then, this build always.
        ((3, 3), (1, 3), suites.OURS),
        ((3, 3), (0, 3), suites.OURS),
        ((1, 3), (0, 3), suites.OURS),
        ((0, 3), (0, 3), suites.ONCE),
        ((0, 3), (3, 3), suites.ONCE),
        ((3, 3), (0, 0), suites.NOT_COMPARED),
        ((0, 0), (3, 3), suites.NOT_COMPARED),
    ],
)
def test_whose_a_failure_is(here: tuple[int, int], there: tuple[int, int], whose: str) -> None:
    assert suites.judge(suites.Again(*here), suites.Again(*there)) == whose


def test_failures_are_run_again_here_and_there(layout: Layout, fake: Mtr) -> None:
    suite = {"fine": "pass", "ours": "fail", "theirs": "fail", "flaky": "fail", "left": "skipped"}
    fake.outcomes = {
        "release": [suite, {"ours": "fail", "theirs": "fail", "flaky": "pass"}],
        "pristine": [{"ours": "pass", "theirs": "fail", "flaky": "pass"}, {"left": "skipped"}],
    }
    built: list[str] = []
    level = suites.Runner(layout, "release", ["--big-test"], lambda: built.append("pristine")).run("parts")
    assert set(built) == {"pristine"}
    assert [tree for tree, _ in fake.calls] == ["release", "release", "pristine", "pristine"]
    assert fake.calls[0][1] == ("--big-test", "--suite=parts")
    for _, options in fake.calls[1:3]:
        assert options == ("--big-test", "--parallel=1", "--repeat=3", "parts.ours", "parts.theirs", "parts.flaky")
    assert level.counts() == "1 passed, 2 failed, 2 skipped"
    wrong = "parts.ours, this build's (again: 1 of 1 here, 0 of 1 there): mysqltest: At line 7: ours broke"
    assert wrong in level.failures
    assert any(failure.startswith("parts.flaky, failed once") for failure in level.failures)
    assert any(skip.test == "parts.theirs" and skip.reason == suites.THERE_TOO for skip in level.skips)

    kept = json.loads((layout.build / "test/suites/release-parts.json").read_text(encoding="utf-8"))
    assert kept["passed"] == 1 and kept["commit"] == "0123456789ab" and kept["problem"] == ""
    assert kept["skipped"] == {"Test requires ...": 1}
    assert {test: whose for test, (whose, _, _) in kept["failed"].items()} == {
        "parts.ours": suites.OURS, "parts.theirs": suites.THERE_TOO, "parts.flaky": suites.ONCE,
    }  # fmt: skip
    found = suites.table(suites.kept(layout.build / "test/suites")).splitlines()
    assert found[2].startswith("| parts, --big-test | release | 0123456 | 1 | 3 | 1 | 1 (1: Test requires ...) | 0 | 0 min ")


def test_a_failure_that_is_meant(layout: Layout, fake: Mtr, monkeypatch: pytest.MonkeyPatch) -> None:
    says = {"parts.ours": "ours broke", "parts.other": "count"}
    meant = {name: suites.Meant("map", "it counts", text) for name, text in says.items()}
    monkeypatch.setattr(suites, "MEANT_TO_FAIL", {**meant, "parts.fine": suites.Meant("map", "it counts", "")})
    failing = {"ours": "fail", "other": "fail"}
    fake.outcomes = {
        "release": [{"fine": "pass", **failing}, failing],
        "pristine": [{"ours": "pass", "other": "pass"}],
    }
    level = suites.Runner(layout, "release", [], lambda: None).run("parts")
    assert [(skip.test, skip.reason) for skip in level.skips] == [("parts.ours", "map: it counts")]
    # Another failure of such a test, and one that passes, are failures.
    said = sorted(level.failures)
    assert said[0] == "parts.fine passed, and is meant to fail: it counts"
    assert said[1].startswith("parts.other, this build's (again: 1 of 1 here, 0 of 1 there)") and len(said) == 2


def test_nothing_is_built_for_a_suite_that_passes(layout: Layout, fake: Mtr) -> None:
    fake.outcomes = {"debug": [{"fine": "pass"}]}
    level = suites.Runner(layout, "debug", [], lambda: pytest.fail("built")).run("parts")
    assert level.counts() == "1 passed, 0 failed, 0 skipped"


def test_a_run_that_is_not_whole_is_a_failure(layout: Layout, fake: Mtr) -> None:
    fake.outcomes, fake.problem = {"release": [{"fine": "pass"}]}, "it gave up"
    level = suites.Runner(layout, "release", [], lambda: None).run("parts")
    assert level.problem == "it gave up"
    assert "parts, not whole" in suites.table(suites.kept(layout.build / "test/suites"))


def test_a_suite_of_which_nothing_runs_is_a_failure(layout: Layout, fake: Mtr) -> None:
    fake.outcomes = {"release": [{"left": "skipped"}], "pristine": [{"left": "skipped"}]}
    assert suites.Runner(layout, "release", [], lambda: None).run("parts").problem == "no test of parts was run"


def test_what_is_known_is_kept_if_there_is_nothing_to_compare_with(layout: Layout, fake: Mtr) -> None:
    def build() -> None:
        raise RedstartError("no space")

    fake.outcomes = {"release": [{"bad": "fail", "fine": "pass"}, {"bad": "fail"}]}
    with pytest.raises(RedstartError):
        suites.Runner(layout, "release", ["--do-test=x"], build).run("parts")
    (kept,) = suites.kept(layout.build / "test/suites")
    assert kept.passed == 1 and kept.failed["parts.bad"][0] == suites.NOT_COMPARED
    assert "| parts, --do-test=x | release |" in suites.table([kept])


def test_our_own_tests_and_the_end_of_servers_are_not_run_there(layout: Layout, fake: Mtr, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mtr, "own_tests", lambda repo: ["parts.own"])
    fake.outcomes = {"release": [{"own": "fail", "": "fail"}, {"own": "fail"}]}
    level = suites.Runner(layout, "release", [], lambda: None).run("parts")
    assert [tree for tree, _ in fake.calls] == ["release", "release"]
    assert level.failed == 2 and all(suites.NOT_COMPARED in failure for failure in level.failures)


def test_combinations_of_a_test_are_told_apart(layout: Layout, fake: Mtr) -> None:
    fake.outcomes = {
        "release": [{"one row": "pass", "one mix": "fail"}, {"one row": "pass", "one mix": "fail"}],
        # What one combination fails there explains nothing in another.
        "pristine": [{"one row": "fail", "one mix": "pass"}],
    }
    level = suites.Runner(layout, "release", [], lambda: None).run("parts")
    assert [options[-1] for _, options in fake.calls] == ["--suite=parts", "parts.one", "parts.one"]
    assert level.counts() == "1 passed, 1 failed, 0 skipped"
    assert level.failures[0].startswith("parts.one 'mix', this build's (again: 1 of 1 here, 0 of 1 there)")


def test_a_test_that_is_skipped_here_alone_is_a_failure(layout: Layout, fake: Mtr, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mtr, "own_tests", lambda repo: ["parts.own"])
    names = ("both", "ours", "bad", "two row", "two mix", "all", "lost", "own")
    fake.outcomes = {
        "release": [{"fine": "pass", "off": "disabled", **dict.fromkeys(names, "skipped")}],
        "pristine": [{"both": "skipped", "ours": "pass", "bad": "fail", "two row": "pass", "two mix": "skipped", "all row": "pass",
                      "off": "disabled"}],
    }  # fmt: skip
    built: list[str] = []
    level = suites.Runner(layout, "release", ["--do-test=x"], lambda: built.append("pristine")).run("parts")
    assert built == ["pristine"]
    # By its name MTR would run one that is disabled.
    assert fake.calls[1] == ("pristine", ("--do-test=x", "--suite=parts", "--do-test=^(?:all|bad|both|lost|off|ours|two)$"))
    there = "skipped here, runs with MySQL as released: Test requires 'x'"
    assert level.failures == [
        *(f"parts.{name}, {there}" for name in ("ours", "bad", "two 'row'", "all")),
        "parts.lost, skipped here, not compared with MySQL: Test requires 'x'",
    ]
    assert [skip.test for skip in level.skips] == ["parts.off", "parts.both", "parts.two 'mix'", "parts.own"]
    (kept,) = suites.kept(layout.build / "test/suites")
    assert tuple(kept.skipped_here["parts.two 'row'"]) == (suites.RUNS_THERE, "Test requires 'x'")
    assert "| 9 (8: Test requires ...; 1: Bug#1) | 5 | " in suites.table([kept])


def test_skips_that_cannot_be_compared_are_kept_as_such(layout: Layout, fake: Mtr) -> None:
    def build() -> None:
        raise RedstartError("no space")

    fake.outcomes = {"release": [{"left": "skipped", "fine": "pass"}]}
    with pytest.raises(RedstartError):
        suites.Runner(layout, "release", [], build).run("parts")
    (kept,) = suites.kept(layout.build / "test/suites")
    assert kept.skipped_here["parts.left"][0] == suites.NOT_COMPARED


def test_what_may_be_named(layout: Layout) -> None:
    assert suites.chosen([]) == (list(suites.SUITES), [])
    assert suites.chosen(["innodb", "--big-test"]) == (["innodb"], ["--big-test"])
    with pytest.raises(RedstartError, match="is no suite"):
        suites.chosen(["innodb.create_tablespace"])
    (layout.source / "mysql-test").mkdir(parents=True)
    with pytest.raises(RedstartError, match="no suite inodb"):
        suites.run(layout, "release", ["inodb"], lambda: None)


def test_reasons_without_what_differs_are_one() -> None:
    assert suites.reason("Need '/a/b/c.so' to be built.") == suites.reason("Need  'd.so' to be built") == "Need ... to be built"
    assert suites.reason("") == "no reason given"


def test_the_longest_reasons_are_shown() -> None:
    one = suites.Outcome("main", "release", "0123456789ab", [], 61, 1234, {"a": 1, "b": 9, "c | d": 3, "e": 1})
    assert "| 1,234 | 0 | 0 | 14 (9: b; 3: c / d; 1: a; 1: 1 other reasons) | 0 | 1 min 01 s |" in suites.table([one])


def test_kept_outcomes_stand_in_the_order_of_suites(tmp_path: Path) -> None:
    for suite in ("zz", "main", "innodb"):
        outcome = json.dumps({"suite": suite, "preset": "release", "commit": "0"})
        (tmp_path / f"release-{suite}.json").write_text(outcome, encoding="utf-8")
    assert [one.suite for one in suites.kept(tmp_path)] == ["innodb", "main", "zz"]
