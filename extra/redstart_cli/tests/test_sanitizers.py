# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Whose reports of the sanitizers are, and that planted faults are found."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from redstart_cli import sanitizers
from redstart_cli.console import RedstartError
from redstart_cli.layout import Layout
from redstart_cli.sanitizers import Frame, is_own, judge, parse

OWN = frozenset({"storage/innobase/fil/fil0map.cc", "storage/innobase/include/fil0map.h"})


def race(first: str, second: str, made: str = "main /s/sql/main.cc:3") -> str:
    """A report in the manner of ThreadSanitizer, of two accesses and a thread."""
    return f"""==================
WARNING: ThreadSanitizer: data race (pid=17)
  Write of size 8 at 0x7b0c00000010 by thread T2 (mutexes: write M1):
    #0 std::vector<int>::push_back(int const&) /usr/include/c++/12/bits/stl_vector.h:1278 (mysqld+0x1)
    #1 {first} (mysqld+0x12)

  Previous read of size 8 at 0x7b0c00000010 by main thread:
    #0 memcpy ../../../../src/libsanitizer/sanitizer_common/interceptors.inc:827 (libtsan.so.2+0x6)
    #1 {second} (mysqld+0x13)

  Thread T2 (tid=18, running) created by main thread at:
    #0 pthread_create <null> (libtsan.so.2+0x1)
    #1 {made} (mysqld+0x14)

SUMMARY: ThreadSanitizer: data race
==================
"""


OURS = "fil_map::add(int) /b/source/storage/innobase/fil/fil0map.cc:42"
THEIRS = "buf_page_get(page_id_t const&) /b/source/storage/innobase/buf/buf0buf.cc:7"
UNDEFINED = """/b/source/storage/innobase/buf/buf0buf.cc:9:14: runtime error: shift exponent 33 is too large for 32-bit type 'int'
    #0 0x55d0 in buf_page_get(page_id_t const&) /b/source/storage/innobase/buf/buf0buf.cc:9
    #1 0x55d1 in {caller}

"""


@pytest.mark.parametrize(
    ("text", "is_ours"),
    [
        (race(OURS, THEIRS), True),
        (race(THEIRS, OURS), True),
        (race(THEIRS, THEIRS), False),
        # Who made the thread is not who races.
        (race(THEIRS, THEIRS, OURS), False),
        # Nor does the same name elsewhere count.
        (race(THEIRS, "f() /usr/src/other/fil0map.cc:2"), False),
        (UNDEFINED.format(caller="fil_map::f() /b/source/storage/innobase/fil/fil0map.cc:42"), True),
        (UNDEFINED.format(caller="mtr_t::f() /b/source/storage/innobase/mtr/mtr0mtr.cc:42"), False),
    ],
)
def test_whose_a_report_is(text: str, is_ours: bool) -> None:
    (report,) = parse(text)
    assert (report.own(OWN) is not None) == is_ours
    level = judge([report, report], OWN, "tsan mtr")
    assert level.failed == is_ours
    assert not is_ours or "2 times" in level.failures[0]


def test_what_is_read() -> None:
    reports = parse("noise\n" + race(OURS, THEIRS) + race(THEIRS, THEIRS) + UNDEFINED.format(caller="x() /b/a.cc:1"))
    assert [report.what for report in reports] == ["data race"] * 2 + ["shift exponent N is too large for N-bit type 'int'"]
    assert reports[0].own(OWN) == Frame("fil_map::add(int)", "/b/source/storage/innobase/fil/fil0map.cc", 42)
    assert reports[1].place == "buf_page_get (innobase/buf/buf0buf.cc:7)"
    assert parse("") == []
    # A frame without a source, as of a library, and a report that a kill has cut off.
    (cut,) = parse("WARNING: ThreadSanitizer: data race (pid=1)\n  Write of size 8 by main thread:\n    #0 memcpy <null> (lib")
    assert cut.own(OWN) is None and "memcpy" in cut.place


INVERSION = f"""==================
WARNING: ThreadSanitizer: lock-order-inversion (potential deadlock) (pid=17)
  Cycle in lock order graph: M0 (0x1) => M1 (0x2) => M0

  Mutex M1 acquired here while holding mutex M0 in main thread:
    #0 pthread_mutex_lock ../../../../src/libsanitizer/sanitizer_common/interceptors.inc:4324 (libtsan.so.2+0x5)
    #1 {{first}} (mysqld+0x1)

  Mutex M0 acquired here while holding mutex M1 in main thread:
    #0 pthread_mutex_lock ../../../../src/libsanitizer/sanitizer_common/interceptors.inc:4324 (libtsan.so.2+0x5)
    #1 {THEIRS} (mysqld+0x2)

SUMMARY: ThreadSanitizer: lock-order-inversion (potential deadlock)
==================
"""


def test_kinds_with_brackets_in_their_names() -> None:
    (ours,), (theirs,) = parse(INVERSION.format(first=OURS)), parse(INVERSION.format(first=THEIRS))
    assert ours.what == "lock-order-inversion (potential deadlock)" and ours.own(OWN)
    assert not theirs.own(OWN) and theirs.place.startswith("buf_page_get")
    for what in (
        "data race on vptr (ctor/dtor vs virtual call)",
        "unlock of an unlocked mutex (or by a wrong thread)",
        "use of an invalid mutex (e.g. uninitialized or destroyed)",
    ):
        (report,) = parse(race(OURS, THEIRS).replace("data race (pid", f"{what} (pid"))
        assert report.what == what and report.own(OWN)


def test_where_a_mutex_was_made_says_nothing_of_who_misuses_it() -> None:
    made = f"  Mutex M1 (0x1) created at:\n    #0 {OURS} (mysqld+0x15)\n\nSUMMARY"
    (report,) = parse(race(THEIRS, THEIRS).replace("SUMMARY", made))
    assert not report.own(OWN)


def test_is_own() -> None:
    assert is_own("./storage/innobase/include/fil0map.h", OWN) and is_own("/b/storage/innobase/fil/fil0map.cc", OWN)
    assert not is_own("fil0map.cc", OWN) and not is_own("/b/storage/innobase/fil/fil0map.cc2", OWN) and not is_own("", OWN)


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    repo = tmp_path / "clone"
    own = repo / "storage/innobase/fil/fil0map.cc"
    own.parent.mkdir(parents=True)
    own.write_text("")
    suppressions = repo / "build/source/mysql-test/tsan.supp"
    suppressions.parent.mkdir(parents=True)
    suppressions.write_text("# made up\nrace:innobase\nrace:client/dump/\n")
    return Layout(repo)


@pytest.mark.parametrize("preset", sorted(sanitizers.OPTIONS))
def test_a_planted_fault_is_found(layout: Layout, preset: str, monkeypatch: pytest.MonkeyPatch) -> None:
    variable = sanitizers.OPTIONS[preset][0]
    monkeypatch.setenv(variable, "verbosity=0")
    program = layout.build / "test" / f"unit-{preset}" / "canary"
    with sanitizers.watching(layout, preset, "unit") as level:
        assert os.environ[variable].endswith(":verbosity=0")
        subprocess.run([program], capture_output=True)
    assert os.environ[variable] == "verbosity=0"
    assert level.failed == 1 and "(innobase/fil/fil0map.cc:" in level.failures[0]
    with sanitizers.watching(layout, preset, "unit") as level:
        pass
    assert level.failed == 0


@pytest.mark.parametrize(
    ("preset", "level", "arguments", "is_refused"),
    [
        ("tsan", "mtr", ["innodb.a", "--sanitize"], True),
        ("ubsan", "regression", ["-Sanitize"], True),
        ("asan", "mtr", ["--sanitize"], False),
        ("release", "mtr", ["--sanitize"], False),
        ("tsan", "unit", ["--sanitize"], False),
        ("tsan", "mtr", ["sanitize", "--nosanitize", "--mysqld=--sanitize"], False),
        ("tsan", "mtr", [], False),
    ],
)
def test_mtr_may_not_bring_options_of_its_own(preset: str, level: str, arguments: list[str], is_refused: bool) -> None:
    assert sanitizers.hides_reports(preset, level, arguments) == is_refused


def test_innodb_is_not_suppressed(layout: Layout) -> None:
    with sanitizers.watching(layout, "tsan", "unit"):
        text = (layout.build / "test/unit-tsan/suppressions").read_text()
    lines = text.splitlines()
    assert lines[:2] == ["# made up", "race:client/dump/"] and all(line.startswith("race_top:") for line in lines[2:])


def test_a_fault_that_is_not_found_is_an_error(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sanitizers._CANARIES, "ubsan", (*sanitizers._CANARIES["ubsan"], "int main() { return 0; }\n"))
    with pytest.raises(RedstartError, match="did not report"), sanitizers.watching(layout, "ubsan", "unit"):
        raise AssertionError("nothing may run")
    with sanitizers.watching(layout, "release", "unit") as level:
        assert level.failed == 0
