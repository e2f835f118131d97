# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""An answer that nobody expects is evidence, and it is known what was asked of whom."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from redstart_cli.mysqld import Binary
from redstart_cli.tools import ToolError
from torture import life, load, tamper
from torture.life import Counts, Crash, Rig, ask, check_pages
from torture.oracle import NEVER, History, State, Step, Table, Verdict
from torture.server import Place, Server, observe
from torture.settings import MAP_OFF, MAP_ON, ROLLBACK_OFF, ROLLBACK_ON, SCAN_OFF, SCAN_ON, SKIPPED, THREADS_ON, UNDO_SCAN_ON


class Cursor:
    """Answers by a word of the query; nothing to any other."""

    def __init__(self, answers: dict[str, list[tuple[Any, ...]]]) -> None:
        self._answers = answers
        self._rows: list[tuple[Any, ...]] = []

    def execute(self, query: str) -> None:
        self._rows = next((rows for word, rows in self._answers.items() if word in query), [])

    def fetchall(self) -> list[tuple[Any, ...]]:
        return self._rows


def test_a_client_without_its_row() -> None:
    assert observe(Cursor({"c0.progress": [(5,)]}), 0).broken == []
    seen = observe(Cursor({}), 0)
    assert (seen.broken, seen.state) == (["progress has 0 rows"], State())
    assert observe(Cursor({"c0.progress": [(5,), (6,)]}), 0).broken == ["progress has 2 rows"]


def fake_server(log: Path, name: str = "ours", option: str = MAP_ON) -> Server:
    server = Server.__new__(Server)
    server.binary = Binary(name, [])
    server.place, server.log = Place(log.parent, log, [option]), log
    return server


def test_an_answer_that_breaks_the_oracle_is_wrong(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def surprise(*_: object) -> None:
        raise TypeError("'NoneType' object is not subscriptable")

    monkeypatch.setattr(life, "ask_oracle", surprise)
    rig = Rig({}, "ours", tmp_path, [])
    verdict, states = ask(rig, fake_server(tmp_path / "log"), [], NEVER)
    assert states == []
    (said,) = verdict.wrong
    assert "NoneType" in said and "surprise" in said


def test_a_data_directory_that_cannot_be_made(tmp_path: Path) -> None:
    bad = Binary("ours", ["sh", "-c", "echo 'T 0 [ERROR] no' >&2; exit 1"])
    with pytest.raises(ToolError, match="^no data directory with pages of 16 KiB: ours could not make a data directory: it"):
        Rig({"ours": bad}, "ours", tmp_path, []).base()


def test_starts_with_the_map_are_counted(tmp_path: Path) -> None:
    counts, log = Counts(), tmp_path / "log"
    counts.ask(fake_server(log))
    log.write_text("[Note] Tablespace map: 0 of 9 files are as they were; 3 directories were listed\n")
    counts.ask(fake_server(log))
    assert (counts.starts["map", ""], counts.used["map", ""]) == (2, 0)
    log.write_text("[Note] Tablespace map: 7 of 9 files are as they were; 3 directories were listed\n")
    counts.ask(fake_server(log))
    assert (counts.starts["map", ""], counts.used["map", ""]) == (3, 1)
    counts.ask(fake_server(log, option=MAP_OFF))
    counts.ask(fake_server(log, name="stock"))
    assert (counts.starts["map", ""], counts.used["map", ""]) == (3, 1)
    counts.ask(fake_server(log), is_turn=False)
    assert counts.turns == {"ours": 4, "stock": 1}


def test_it_is_counted_whose_crash_who_has_recovered(tmp_path: Path) -> None:
    counts, log = Counts(), tmp_path / "log"
    log.write_text("[Note] Tablespace map: 7 of 9 files are as they were; 3 directories were listed\n")
    counts.ask(fake_server(log))
    assert not counts.recovered and not counts.starts_after
    counts.ask(fake_server(log), crash=Crash("kill", "older"))
    counts.ask(fake_server(log, option=MAP_OFF), crash=Crash("kill", "older"))
    counts.ask(fake_server(log, name="older"), crash=Crash("power", "ours"))
    log.write_text("")
    counts.ask(fake_server(log), crash=Crash("kill", "older"))
    assert counts.recovered == {(Crash("kill", "older"), "ours"): 3, (Crash("power", "ours"), "older"): 1}
    assert (counts.starts_after["map", "older"], counts.used_after["map", "older"]) == (2, 1)


def test_what_is_checked_is_counted_by_kind() -> None:
    counts = Counts()
    counts.take("kill", Verdict(checked=3))
    counts.take("power", Verdict(checked=4, wrong=["w"]))
    assert (counts.checked, counts.wrong, counts.checked_in) == (7, 1, {"kill": 3, "power": 4})


def test_pages_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ibdata1").write_bytes(bytes(16384 * 3))
    (tmp_path / "t.ibd").write_bytes(bytes(16384))
    rig = Rig({}, "ours", tmp_path, ["innochecksum"])
    monkeypatch.setattr(
        life.subprocess, "run", lambda command, **_: SimpleNamespace(returncode=command[-1].suffix == ".ibd",
                                                                     stderr="Fail: page 0", stdout="")
    )  # fmt: skip
    assert check_pages(rig, tmp_path) == ["innochecksum t.ibd: True: Fail: page 0"]
    assert (rig.counts.files_checked, rig.counts.pages_checked) == (2, 4)


def test_what_has_ended_takes_no_space(tmp_path: Path) -> None:
    for name in ("kill", "undo scan", "found", "servers", "base-16"):
        (tmp_path / name / "data").mkdir(parents=True)
    (tmp_path / "base-16-ext4.img").touch()
    Rig({}, "ours", tmp_path, []).tidy()
    assert {path.name for path in tmp_path.iterdir()} == {"found", "servers", "base-16", "base-16-ext4.img"}


def test_a_canary_of_the_oracle_is_found_by_its_own_message(tmp_path: Path) -> None:
    oracle = tamper.OracleLife(Rig({}, "ours", tmp_path, []), 1)
    balance = tamper.TAMPERINGS[0]
    oracle._note(balance.name, balance.says, ["something else is wrong"])
    assert oracle._found[balance.name] is False
    oracle._note(balance.name, balance.says, ["1 accounts do not hold what the transfers make of them: [7]; sum 1"])
    assert oracle._found[balance.name] is True
    assert tamper.PAGE in tamper.names(True)
    assert tamper.PAGE not in tamper.names(False)


def test_starts_that_leave_out_transactions_are_counted(tmp_path: Path) -> None:
    counts, log = Counts(), tmp_path / "log"
    # As sql/binlog/startup_scan.cc writes it.
    line = "[Note] [MY-000000] [Server] Binary log scan at start-up: 99 bytes in the middle of 2 transactions were not read.\n"
    log.write_text(line)
    counts.ask(fake_server(log, option=SCAN_ON))
    assert (counts.starts["scan", ""], counts.used["scan", ""]) == (1, 0), "the second pass only"
    log.write_text(line + line)
    for name, option in (("ours", SCAN_ON), ("ours", SCAN_OFF), ("off", SCAN_ON), ("stock", SCAN_ON)):
        counts.ask(fake_server(log, name, option))
    assert (counts.starts["scan", ""], counts.used["scan", ""], counts.scan_checkpoints[""]) == (2, 1, 0)
    at_checkpoint = line.replace("in the middle", "before the last checkpoint and in the middle")
    log.write_text(at_checkpoint + line)
    counts.ask(fake_server(log, option=SCAN_ON))
    assert (counts.used["scan", ""], counts.scan_checkpoints[""]) == (2, 0), "one pass only"
    log.write_text(at_checkpoint + at_checkpoint)
    counts.ask(fake_server(log, option=SCAN_ON))
    assert (counts.used["scan", ""], counts.scan_checkpoints[""]) == (3, 1)
    assert counts.took_for_older == 0
    log.write_text("[Warning] [MY-000000] [Server] InnoDB has recovered up to LSN 5, and had LSN 6 when the last binary log was"
                   " written: it seems that its files were put back to an earlier state.\n")  # fmt: skip
    counts.ask(fake_server(log, option=SCAN_OFF))
    assert counts.took_for_older == 1
    log.write_text(line + line)
    server = fake_server(log, option=SCAN_ON)
    server.place.crash = "power"
    server._log_begin = len(line)
    counts.ask(server)
    assert (counts.starts["scan", "power"], counts.used["scan", "power"]) == (1, 0), "what a start before has said"


def test_the_text_is_that_of_the_server() -> None:
    source = (Path(__file__).parents[3] / "sql/binlog/startup_scan.cc").read_text(encoding="utf-8")
    written = ["".join(re.findall(r'"(.*?)"', call)) for call in re.findall(r"snprintf\((.*?)\);", source, re.DOTALL)]
    found = [match for text in written if (match := SKIPPED.search(text.replace("%llu", "7")))]
    assert sorted(bool(match[1]) for match in found) == [False, True]


def test_undo_tablespaces_that_were_there() -> None:
    history = History(load.BUILDER, State(undo={"u1"}))
    for number, (kind, name, is_acknowledged) in enumerate(
        [("undo-create", "u2", True), ("undo-create", "u3", False), ("undo-drop", "u1", True)]
    ):
        history.steps.append(Step(number, "ddl", [[kind, name]], acknowledged=2.0 if is_acknowledged else None))
    assert load.undo_made(history) == {"u1", "u2"}


@pytest.mark.parametrize(
    ("kind", "acknowledged", "is_needed"),
    [("undo-create", None, True), ("undo-create", 2.0, False), ("undo-create", 9.0, True), ("undo-drop", 2.0, True),
     ("undo-inactive", None, False)],
)  # fmt: skip
def test_redo_of_a_removal_must_be_gone_before_load(kind: str, acknowledged: float | None, is_needed: bool) -> None:
    histories, _ = life.opening()
    states = [history.base for history in histories]
    assert not life.must_start_anew(histories, states, limit=5.0)
    histories[load.BUILDER].steps.append(Step(0, "ddl", [[kind, "u1"]], acknowledged=acknowledged))
    assert life.must_start_anew(histories, states, limit=5.0) == is_needed


def test_a_discarded_table_must_not_be_met_by_load() -> None:
    histories, _ = life.opening()
    states = [history.base.copy() for history in histories]
    states[0].tables["t"] = Table("plain", is_discarded=True)
    assert life.must_start_anew(histories, states, NEVER)


def test_starts_that_hand_transactions_over_are_counted(tmp_path: Path) -> None:
    counts, log = Counts(), tmp_path / "log"
    source = (Path(__file__).parents[3] / "storage/innobase/trx/trx0async.cc").read_text(encoding="utf-8")
    line = "".join(re.findall(r'"(.*?)"', source[source.index("ib::info(") :])[:2])
    log.write_text("")
    counts.ask(fake_server(log, option=ROLLBACK_ON))
    assert (counts.starts["rollback", ""], counts.used["rollback", ""], counts.handed_over) == (1, 0, 0)
    log.write_text(f"[Note] [MY-013779] [InnoDB] {line}12\n")
    for name, option in (("ours", ROLLBACK_ON), ("ours", ROLLBACK_OFF), ("off", ROLLBACK_ON), ("stock", ROLLBACK_ON)):
        counts.ask(fake_server(log, name, option))
    assert (counts.starts["rollback", ""], counts.used["rollback", ""], counts.handed_over) == (2, 1, 12)


def _messages(path: str) -> list[str]:
    """What a source file says in the error log, its numbers as 7."""
    source = (Path(__file__).parents[3] / path).read_text(encoding="utf-8")
    calls = re.findall(r"ib::(?:info|warn)\(\w+\)(.*?);", source, re.DOTALL)
    number = re.compile(r"<< [a-z]\w*[\w.:()]*")
    return ["7".join("".join(re.findall(r'"(.*?)"', part)) for part in number.split(call)) for call in calls]


def test_starts_that_leave_undo_logs_for_later_are_counted(tmp_path: Path) -> None:
    counts, log = Counts(), tmp_path / "log"
    begin, *_, end = (text for text in _messages("storage/innobase/trx/trx0scan.cc") if text.startswith("The undo logs"))
    log.write_text("")
    server = fake_server(log, option=UNDO_SCAN_ON)
    counts.ask(server)
    assert (counts.starts["undo_scan", ""], counts.used["undo_scan", ""], server.reads_undo()) == (1, 0, False)
    log.write_text(f"[Note] [MY-013779] [InnoDB] {begin}\n")
    counts.ask(server)
    assert (counts.starts["undo_scan", ""], counts.used["undo_scan", ""], server.reads_undo()) == (2, 1, True)
    log.write_text(f"[Note] {begin}\n[Note] {end.replace('not read, because the server shuts down.', '')}\n")
    counts.ask(server)
    assert (counts.used["undo_scan", ""], server.reads_undo()) == (2, False)


def test_starts_that_roll_back_with_several_threads_are_counted(tmp_path: Path) -> None:
    counts, log = Counts(), tmp_path / "log"
    (line,) = _messages("storage/innobase/trx/trx0rollers.cc")
    log.write_text("")
    counts.ask(fake_server(log, option=THREADS_ON))
    assert (counts.starts["threads", ""], counts.used["threads", ""]) == (1, 0)
    log.write_text(f"[Note] [MY-013779] [InnoDB] {line}\n")
    counts.ask(fake_server(log, option=THREADS_ON))
    assert (counts.starts["threads", ""], counts.used["threads", ""]) == (2, 1)
