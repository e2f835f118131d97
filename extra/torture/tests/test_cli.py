# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""A run that shows nothing is a failure, and so is one that cannot do what it was asked for."""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from click.testing import CliRunner

from redstart_cli import build as builds
from redstart_cli.console import RedstartError
from redstart_cli.mysqld import Binary
from redstart_cli.tools import ToolError
from torture import canaries, cli, stack, subjects
from torture.life import Counts, Crash, Rig
from torture.oracle import NEVER, History, State, Step
from torture.tests.helpers import counts_of

KINDS = ["kill", "power", "fault"]
GOOD = partial(
    counts_of,
    cycles=3, kills=2, replicas=1, power_cuts=2, faults=1, acknowledged=9, checked=9, files_checked=2, pages_checked=9,
    map_starts={"": 20}, map_used={"": 1}, scan_starts=Counter(kill=9, power=70),
    scan_used=Counter(power=2), scan_checkpoints=Counter(kill=1), turns=Counter(ours=70, off=9, stock=5),
    checked_in=Counter(kill=3, power=3, fault=3), recoveries=Counter(ours=3),
    pages_recovered=99, pages_compared=999, recovered=Counter({(Crash("kill", "stock"), "ours"): 9}),
    text=Counter(indexes=4, words=40, stored=9, cached=9), text_steps=Counter(optimize=2),
    built=9, preallocated=4, grown=64, rebuilt_once=3, written_once=70,
)  # fmt: skip
MADE = Counter({"undo-create": 1})
BINARIES = {name: Binary(name, []) for name in ("ours", "off", "stock")}
FOUND = dict.fromkeys(canaries.names(Rig({}, "ours", Path(), ["innochecksum"]), [*KINDS, "redo"]), True)


def rig_of(counts: Counts, innochecksum: tuple[str, ...] = ("innochecksum",)) -> Rig:
    return Rig(BINARIES, "ours", Path(), list(innochecksum), counts=counts)


def problems(**changes: Any) -> list[str]:
    return cli.judge(rig_of(GOOD(**changes)), KINDS, FOUND, True)


def test_a_run_that_finds_nothing_wrong_is_good() -> None:
    assert problems() == []
    assert problems(rollback_starts=Counter(kill=9, rollback=1), rollback_used=Counter(rollback=1)) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"lost": 1}, "1 lost"),
        ({"wrong": 1}, "1 wrong"),
        ({"kills": 0}, "nothing was killed"),
        ({"kill_lives": 3, "replicas": 0}, "no replica was compared in 3 lives"),
        ({"kill_lives": 12, "replicas": 0, "uncompared": 4}, "no replica was compared in 12 lives of kills; 4 could not be"),
        ({"power_cuts": 0}, "no power cut"),
        ({"faults": 0}, "no fault"),
        ({"acknowledged": 0}, "no commit was acknowledged"),
        ({"checked_in": Counter(kill=3, fault=3)}, "power: no commit was checked"),
        ({"power_cuts": 17, "unmountable": 3}, "3 of 20 disks"),
        ({"power_cuts": 0, "unmountable": 5}, "there was no power cut"),
        ({"power_cuts": 20, "unrepaired": 3}, "on 3 of 20 disks stock"),
        ({"kills": 99, "without_key": 2}, "after 2 of 99 kills a server lacked the key"),
        ({"kills": 60, "power_cuts": 39, "blocked": Counter({Crash("kill", "ours"): 2, Crash("power", "older"): 1})},
         "after 99 kills and cuts 3 servers were blocked"),
        ({"pages_checked": 0}, "no page"),
        ({"map_used": {}}, "none of 20 starts"),
        ({"scan_starts": Counter(kill=9), "scan_used": Counter()}, "none of 9 starts with binlog_startup_scan"),
        # What was arranged, or followed a stop, is no crash.
        ({"scan_starts": Counter({"kill": 9, "": 5}), "scan_used": Counter({"": 5})}, "none of 9 starts with binlog_startup_scan"),
        (
            {"undo_scan_starts": Counter(kill=30, power=10), "kills_in_undo_scan": Counter(kill=1)},
            "none of 40 starts with innodb_recovery_undo_scan=BACKGROUND",
        ),
        ({"undo_scan_starts": Counter(kill=9), "undo_scan_used": Counter(kill=3)}, "no kill has met a server that reads undo"),
        ({"threads_starts": Counter(kill=40)}, "none of 40 starts with innodb_recovery_rollback_threads=4"),
        ({"rollback_starts": Counter(kill=9)}, "none of 9 starts with innodb_recovery_rollback_async"),
        ({"rollback_starts": Counter({"kill": 9, "": 5}), "rollback_used": Counter({"": 5})}, "none of 9 starts with innodb_"),
        ({"scan_starts": Counter(kill=80), "scan_used": Counter(kill=9), "scan_checkpoints": Counter()},
         "none of 80 starts with binlog_startup_scan=TRANSACTIONS after a kill crash has begun both passes at a checkpoint"),
        ({"took_for_older": 2}, "2 starts took InnoDB's files for older"),
        ({"scan_used": Counter(kill=1)}, "0 of 70 starts after a power crash"),
        ({"scan_used": Counter(kill=1, power=1)}, "1 of 70 starts after a power crash"),
        ({"scan_starts": Counter(kill=90)}, "0 of 90 starts after a kill crash"),
        ({"writeback_errors": ["binlog.startup is not written back: no"]}, "binlog.startup is not written back"),
        ({"loads": 30}, "no undo tablespace was made in 30 loads"),
        ({"loads": 5, "text": Counter(indexes=4)}, "no word was looked up in a full-text index in 5 loads"),
        ({"loads": 30, "undo": MADE, "text": Counter(words=9, cached=9)}, "nothing was in their files in 30 loads"),
        ({"loads": 30, "undo": MADE, "text": Counter(words=9, stored=9)}, "nothing was in their cache in 30 loads"),
        ({"loads": 30, "undo": MADE, "text_steps": Counter(index=9)}, "nothing was optimized in 30 loads"),
        ({"loads": 30, "undo_barred": 16, "undo": MADE}, "16 of 30 loads could make no undo"),
        ({"preallocated": 200, "grown": 0}, "no file grew without zeros in 200 builds with innodb_ddl_preallocate"),
        ({"rebuilt_once": 30, "written_once": 0}, "no page was written once in 30 rebuilds with innodb_ddl_doublewrite=OFF"),
        ({"rebuilt_once": 10, "rebuilt_again": 20, "written_once": 0}, "no page was written once in 30 rebuilds with innodb_ddl_"),
        ({"rebuilding": 30, "rebuilt_again": 0}, "one table was to be rebuilt all the time in 30 loads, and never was"),
        ({"under_load_once": Counter(power=30, kill=29), "under_way": Counter({("power", "rebuild"): 2, ("power", "index"): 3})},
         "none of 30 crashes of kind power under load has met a rebuild that writes once"),
        ({"under_load_once": Counter(kill=30), "under_way": Counter({("kill", "rebuild"): 2, ("power", "rebuild once"): 3})},
         "none of 30 crashes of kind kill under load has met a rebuild that writes once"),
        ({"importing": 1500, "imported": 0}, "no tablespace was imported in 1500 commits"),
        ({"under_load": Counter(power=60), "under_way": Counter({("power", "rebuild once"): 1})},
         "none of 60 crashes of kind power under load has met an index build"),
        ({"under_load": Counter(kill=60, power=60),
          "under_way": Counter({("kill", "rebuild"): 2, ("power", "index"): 3, ("power", "rebuild once"): 1})},
         "none of 60 crashes of kind kill under load has met an index build"),
        ({"turns": Counter(ours=70, stock=20)}, "off had none of 90 turns"),
        (
            {"recovered": Counter({(Crash("kill", "ours"), "stock"): 50, (Crash("power", "stock"), "off"): 30})},
            "this build has recovered no crash of stock in 80 recoveries",
        ),
    ],
)
def test_a_run_that_shows_nothing_is_a_failure(changes: dict[str, object], said: str) -> None:
    (problem,) = problems(**changes)
    assert said in problem


def test_an_older_server_that_takes_turns_must_have_crashed() -> None:
    after_stock = Counter({(Crash("kill", "stock"), "ours"): 80})
    rig = rig_of(GOOD(recovered=after_stock, turns=Counter(ours=70, off=9, stock=5, older=5)))
    rig.binaries = BINARIES | {"older": Binary("older", [])}
    assert cli.judge(rig, KINDS, FOUND, True) == ["this build has recovered no crash of older in 80 recoveries"]
    # Crashes that are not of servers in turns say nothing of it.
    rig.counts.recovered = Counter({(Crash("redo", "ours"), "ours"): 80})
    assert cli.judge(rig, KINDS, FOUND, True) == []
    rig.counts.recovered = after_stock + Counter({(Crash("power", "older"), "ours"): 1})
    assert cli.judge(rig, KINDS, FOUND, True) == []


def test_what_a_crash_meets_are_definitions_that_were_sent_and_not_acknowledged() -> None:
    history, counts = History(0, State()), Counts()
    insert, index = [["insert", "w", 0, 9, 1]], [["index", "w", "k1"]]
    history.steps = [Step(1, "ddl", index, begun=10, acknowledged=20), Step(2, "tx", insert, begun=20)]
    counts.take_under_way("power", [history], 20, 15)
    assert counts.under_way == {("power", "index"): 1}
    counts.take_under_way("power", [history], 20, 10)
    counts.take_under_way("power", [history], 25, 20)
    counts.take_under_way("kill", [history], NEVER)
    assert counts.under_way == {("power", "index"): 1}
    assert counts.under_load == {"power": 3, "kill": 1}
    history.steps = [Step(3, "ddl", [["rebuild", "w", how]], begun=10, acknowledged=20) for how in ("INPLACE", "COPY")]
    counts.take_under_way("power", [history], 20, 15, writes_once=True)
    assert counts.under_way == {("power", "index"): 1, ("power", "rebuild once"): 1, ("power", "rebuild"): 1}


def test_what_crashes_have_met_is_said_and_written() -> None:
    counts = GOOD(under_way=Counter({("kill", "index"): 2, ("kill", "drop"): 1, ("power", "index"): 4}))
    counts.under_load.update(kill=5, power=6, redo=1)
    said = "kill, 5 under load: drop 1, index 2; power, 6 under load: index 4; redo, 1 under load: none;"
    assert f"definitions under way at crashes: {said}" in cli._details(counts)
    written = {"kind": "power", "definition": "index", "times": 4}
    assert written in cast(list[Any], cli._report(counts, 7, FOUND)["under_way"])
    assert "definitions under way at crashes: none;" in cli._details(GOOD())


def test_who_recovered_whom_is_said_and_written() -> None:
    counts = GOOD(recovered=Counter({(Crash("power", "older"), "ours"): 2, (Crash("kill", "ours"), "older"): 1}))
    counts.starts_after["map", "older"], counts.used_after["map", "older"] = 2, 1
    counts.pending[Crash("kill", "older")] = 3
    counts.changes_sec = [12.0, 184.26, 9.5]
    said = cli._details(counts)
    assert "crashed > recovered: ours > older 1 (kill), older > ours 2 (power); used after older: map 1 of 2;" in said
    assert "; changes of release: 3, the longest took 3 min 04 s; refused after an interrupted change of release: older 3" in said
    report = cli._report(counts, 7, FOUND)
    assert report["recovered"] == [
        {"kind": "kill", "crashed": "ours", "recovered": "older", "times": 1},
        {"kind": "power", "crashed": "older", "recovered": "ours", "times": 2},
    ]
    assert report["pending"] == [{"kind": "kill", "refused": "older", "times": 3}]
    assert report["changes"] == {"starts": 3, "longest_s": 184.3}
    assert "changes of release" not in cli._details(GOOD())
    assert report["after"] == {"older": {"map": {"starts": 2, "used": 1}}}


def test_a_rule_that_no_run_has_met_is_a_failure() -> None:
    releases = {"ours": 90704, "off": 90704, "stock": 90704, "older": 90702}
    rig = rig_of(GOOD(turns=Counter(ours=7, off=9, stock=5, older=5)))
    rig.binaries, rig.releases = BINARIES | {"older": Binary("older", [])}, releases
    assert cli.judge(rig, KINDS, FOUND, True) == [
        "no server was refused after an interrupted change of release, nor was that arranged"
    ]
    assert cli.judge(rig, ["fault"], FOUND, True) == []
    # Arranged or not.
    rig.counts.pending = Counter({Crash("releases", "older"): 1})
    assert cli.judge(rig, KINDS, FOUND, True) == []
    # Of one release, nobody is refused.
    rig.counts.pending, rig.releases = Counter(), {}
    assert cli.judge(rig, KINDS, FOUND, True) == []


def test_a_refusal_is_arranged_if_none_was_met(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Life:
        def __init__(self, rig: Rig, seed: int) -> None: ...

        def run(self, end: float) -> None: ...

    arranged: list[Rig] = []
    monkeypatch.setattr(cli, "_LIVES", {"kill": Life})
    monkeypatch.setattr(cli, "use_releases", arranged.append)

    def run(met: Counter[Crash], releases: dict[str, int]) -> bool:
        arranged.clear()
        servers = BINARIES | {"older": Binary("older", [])}
        rig = Rig(servers, "ours", tmp_path, [], counts=GOOD(pending=met), releases=releases)
        cli._run(rig, 1, ["kill"], 0.0, False)
        return bool(arranged)

    releases = {"ours": 90704, "older": 90702}
    assert run(Counter(), releases)
    assert not run(Counter({Crash("power", "ours"): 1}), releases)
    assert not run(Counter(), {})


def test_a_canary_that_lives_is_a_failure() -> None:
    name = "oracle: a balance is changed"
    rig = rig_of(GOOD())
    assert cli.judge(rig, ["kill"], FOUND | {name: False}, True) == [f"the canary was not found: {name}"]
    without = {other: True for other in FOUND if other != name}
    assert cli.judge(rig, ["kill"], without, True) == [f"canaries that have not run: {name}"]
    assert cli.judge(rig, ["kill"], {}, False) == []


def test_few_starts_and_turns_show_nothing_about_chance() -> None:
    few = GOOD(map_starts={"": 5}, map_used={}, turns=Counter(ours=20))
    assert cli.judge(rig_of(few), KINDS, FOUND, True) == []


def test_pages_are_asked_for_if_they_can_be_checked() -> None:
    none = GOOD(pages_checked=0)
    assert cli.judge(rig_of(none, innochecksum=()), KINDS, FOUND, True) == []


def test_less_than_was_asked_for_is_a_failure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def no_stock(*_: object) -> None:
        raise ToolError("no debootstrap")

    build = tmp_path / "build"
    (build / "runtime_output_directory").mkdir(parents=True)
    mysqld = build / "runtime_output_directory/mysqld"
    mysqld.touch()
    monkeypatch.setattr(cli, "stock_root", no_stock)
    monkeypatch.setattr(subjects, "own_binaries", lambda path: {"ours": Binary("ours", [str(path)])})
    monkeypatch.setattr(cli, "_able", list)
    monkeypatch.setattr(cli, "exclusive", lambda *_: __import__("contextlib").nullcontext())

    def run(rig: Rig, *_: object) -> dict[str, bool]:
        rig.counts = GOOD()
        return FOUND

    monkeypatch.setattr(cli, "_run", run)
    arguments = ["--mysqld", str(mysqld), "--work", str(tmp_path / "work")]
    done = CliRunner().invoke(cli.main, arguments)
    assert done.exit_code == 1
    assert "the stock server takes no turns" in done.output
    assert "there is no innochecksum" in done.output
    # The older server is asked for only with --older, and its lack is a failure then.
    assert "older" not in done.output
    monkeypatch.setattr(cli, "older_root", no_stock)
    done = CliRunner().invoke(cli.main, [*arguments, "--older"])
    assert done.exit_code == 1
    assert "the older server takes no turns: no debootstrap; --allow-missing runs without" in done.output
    done = CliRunner().invoke(cli.main, ["--subject", "stock", "--older", "--work", str(tmp_path / "work")])
    assert done.exit_code == 1
    assert isinstance(done.exception, RedstartError) and "--older needs --subject ours" in str(done.exception)
    assert CliRunner().invoke(cli.main, [*arguments, "--allow-missing"]).exit_code == 0
    # Debian's server comes without innochecksum.
    monkeypatch.setattr(cli, "stock_root", lambda *_: tmp_path)
    monkeypatch.setattr(subjects, "foreign_binary", lambda name, _: {name: Binary(name, [str(mysqld)])})
    stock = ["--subject", "stock", "--work", str(tmp_path / "work")]
    assert CliRunner().invoke(cli.main, stock).exit_code == 0


def test_the_report_has_the_keys_that_others_read() -> None:
    report = cli._report(GOOD(), 7, FOUND)
    keys = "cycles kills power_cuts faults acknowledged checked lost wrong canaries seed pending".split()
    keys += "known fired sites turns checked_in files_checked pages_checked map_starts map_used".split()
    keys += "rollback_starts rollback_used handed_over scan_starts scan_used scan_checkpoints".split()
    keys += "loads undo undo_barred undo_left text text_steps".split()
    assert set(keys) <= report.keys()
    assert (report["seed"], report["canaries"]) == (7, FOUND)
    said = "full-text indexes: 40 words looked up in 4, 9 rows in their files and 9 in the cache; definitions: optimize 2;"
    assert said in cli._details(GOOD())


def test_what_is_missing_is_said_with_what_is_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(stack, "missing", lambda: ["/dev/fuse", "qemu-nbd (apt-get install qemu-utils)"])
    assert cli._able(("kill", "power")) == ["kill"]
    said = capsys.readouterr().err
    assert "missing: /dev/fuse; qemu-nbd (apt-get install qemu-utils)" in said
    assert "Still possible: kill" in said


def test_an_unknown_kind_is_refused() -> None:
    done = CliRunner().invoke(cli.main, ["--kinds", "kill,thunder"])
    assert done.exit_code == 2
    assert "thunder" in done.output


def test_a_kind_that_cannot_run_is_no_silent_pass(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(stack, "missing", lambda: ["/dev/fuse"])
    monkeypatch.setattr(builds, "build", lambda *_: None)
    monkeypatch.setattr(cli, "_make_rig", lambda *_: (rig_of(GOOD()), []))
    monkeypatch.setattr(cli, "_run", lambda *_: FOUND)
    monkeypatch.setattr(cli, "exclusive", lambda *_: __import__("contextlib").nullcontext())
    arguments = ["--kinds", "kill,power", "--work", str(tmp_path)]
    assert CliRunner().invoke(cli.main, arguments).exit_code == 1
    assert CliRunner().invoke(cli.main, ["--kinds", "power", "--work", str(tmp_path)]).exit_code == 1
    monkeypatch.setattr(stack, "missing", list)
    monkeypatch.setattr(cli, "own_namespace", lambda: None)
    assert CliRunner().invoke(cli.main, arguments).exit_code == 0
