# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""What a life of kills makes of a server that does not start."""

from __future__ import annotations

import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from redstart_cli.mysqld import Binary
from torture import kill
from torture.kill import KillLife
from torture.life import Block, Crash, Rig
from torture.oracle import Verdict
from torture.release import Releases
from torture.server import Place, Server
from torture.settings import REDO_OFF

FATAL = "stock ended with 2: [ERROR] [FATAL] | [ERROR] Assertion failure: buf0dblwr.cc:3096:ib::fatal triggered thread 1"
KEY = "[Warning] [InnoDB] Encryption key missing: space_id=4294967149, space_name=innodb_undo_004."
PAGE = "[ERROR] [InnoDB] Dumping the data file page (page_id=[page id: space=4294967149, page number=0]):"
LOG = f"{KEY}\n{PAGE}\n"
OF_TABLE = PAGE.replace("4294967149", "27")


class FakeServer(Server):
    """One of stock's that says what the test wants."""

    problem = FATAL
    text = LOG

    def __init__(self, binary: Binary, place: Place, content: str = "") -> None:
        assert binary.name == "stock"
        self.binary = binary
        assert (content or (place.data / "ibdata1").read_text()) == "crashed"

    def wait_ready(self, timeout_sec: float = 0) -> str:
        return self.problem

    def said(self) -> str:
        return self.text

    def kill(self) -> None:
        pass


def life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **changes: Any) -> KillLife:
    rig = Rig({"stock": Binary("stock", [])}, "ours", tmp_path, [])
    made = KillLife.__new__(KillLife)
    made._rig, made._seed, made._home, made._verdict = rig, 1, tmp_path / "kill", Verdict(wrong=[FATAL, FATAL])
    made._trace, made._releases = ["start stock", "kill in load"], rig.made()
    made.place = Place(tmp_path / "kill/data", tmp_path / "kill/error.log", [])
    (made._home / "crashed").mkdir(parents=True)
    (made._home / "crashed/ibdata1").write_text("crashed")
    made.place.data.mkdir()
    made.place.log.write_text(LOG)
    made._server = cast(Any, FakeServer(Binary("stock", []), made.place, "crashed"))
    monkeypatch.setattr(kill, "Server", type("Fake", (FakeServer,), changes))
    return made


def test_an_undo_tablespace_without_its_key_is_not_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = life(tmp_path, monkeypatch)
    assert made._is_without_key()
    assert made._rig.counts.without_key == 1
    made._rig.tidy()
    assert (tmp_path / "found/without-key-1/crashed/ibdata1").exists()
    assert (tmp_path / "found/without-key-1/error.log").read_text() == LOG


def test_stock_is_asked_what_the_last_killed_recovery_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = life(tmp_path, monkeypatch)
    (made._home / "crashed").rename(made._home / "killed")
    (made._home / "crashed").mkdir()
    (made._home / "crashed/ibdata1").write_text("from before the killed recoveries")
    assert made._is_without_key()
    assert (tmp_path / "found/without-key-1/crashed/ibdata1").read_text() == "crashed"


@pytest.mark.parametrize(
    "changes",
    [{"problem": ""}, {"problem": "ended with 1"}, *({"text": text} for text in ("none", KEY, KEY + OF_TABLE, LOG + OF_TABLE))],
)
def test_what_stock_starts_or_fails_for_otherwise_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, str]
) -> None:
    made = life(tmp_path, monkeypatch, **changes)
    assert not made._is_without_key()
    said = changes.get("problem", FATAL) or "it starts"
    assert made._verdict.wrong == [FATAL, FATAL, f"stock on what the last kill left: {said}"]


@pytest.mark.parametrize(
    "verdict", [Verdict(), Verdict(wrong=[FATAL, "a row"]), Verdict(wrong=[FATAL], lost=["a commit"])]
)
def test_something_else_that_is_wrong_is_not_excused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verdict: Verdict
) -> None:
    made = life(tmp_path, monkeypatch)
    made._verdict = verdict
    assert not made._is_without_key()
    assert made._rig.counts.without_key == 0


@pytest.mark.parametrize(("name", "options", "is_excused"), [("ours", [], False), ("ours", [REDO_OFF], True), ("off", [], True)])
def test_where_keys_are_looked_for_nothing_is_excused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, options: list[str], is_excused: bool
) -> None:
    made = life(tmp_path, monkeypatch)
    made.place.options = options
    made._server = cast(Any, SimpleNamespace(said=lambda: LOG, binary=Binary(name, [])))
    assert made._is_without_key() == is_excused


@pytest.mark.parametrize("log", ["", KEY, PAGE, f"{KEY}\n{OF_TABLE}\n", LOG + OF_TABLE])
def test_a_page_whose_key_our_server_had_is_not_excused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: str) -> None:
    made = life(tmp_path, monkeypatch)
    made._server = cast(Any, SimpleNamespace(said=lambda: log, binary=Binary("off", [])))
    assert not made._is_without_key()
    assert made._rig.counts.without_key == 0


def stopped(lives: bool = False) -> list[str]:
    """Clients that have met nothing wrong."""
    return []


@pytest.mark.parametrize("block", [Block(), Block(differs="stock on a copy: it starts")])
def test_a_recovery_that_dies_is_the_last_server(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next one, which looks for keys, would start, and say nothing of them."""
    made = life(tmp_path, monkeypatch)
    monkeypatch.setattr(kill, "after_block", lambda *_: block)
    dead = SimpleNamespace(
        has_died=True, said=lambda: LOG, binary=Binary("off", []), process=SimpleNamespace(returncode=2), errors=lambda: FATAL,
    )
    clients = SimpleNamespace(
        work=lambda seconds: None, stop=stopped, expect_end=lambda: None, note_ended=lambda: True, take_under_way=lambda kind: None
    )
    begun: list[str] = []

    def begin(binary: Binary) -> Any:
        begun.append(binary.name)
        made._server = cast(Any, dead)
        return dead

    for name, value in {
        "_verdict": Verdict(), "_r": random.Random(1), "_replica": None, "_histories": [], "_numbers": [], "_page_kib": 16,
        "_begin": begin, "_keep": lambda name: None, "_kill": lambda server: None, "_wait_in_recovery": lambda server: None,
    }.items():  # fmt: skip
        monkeypatch.setattr(made, name, value, raising=False)
    monkeypatch.setattr(kill, "Clients", lambda *words, **more: clients)
    monkeypatch.setattr(kill, "KILLED_RECOVERIES", (3,))
    monkeypatch.setattr(made._rig, "binary", lambda r: Binary("off", []))
    loaded = SimpleNamespace(has_died=False, binary=Binary("off", []), process=SimpleNamespace(poll=lambda: None, terminate=list))
    monkeypatch.setattr(made, "_start_sec", {False: 0.0, True: 0.0}, raising=False)
    assert made._cycle(cast(Any, loaded)) is cast(Any, dead)
    assert begun[-1:] == ["off"] and len(begun) <= 2
    assert FATAL in made._verdict.wrong[0] and made._verdict.wrong[1:] == ([block.differs] if block.differs else [])
    assert made._is_without_key() == (not block.differs)


OLD, NEW = 90702, 90704


@pytest.mark.parametrize("was_interrupted", [True, False])
def test_a_recovery_may_be_refused_only_after_an_interrupted_change_of_release(
    was_interrupted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then the next one is of the release that was begun, killed or not; the crash is that of the last that was killed."""
    names = ("ours", "older")
    made = life(tmp_path, monkeypatch)
    made._rig.binaries = {name: Binary(name, []) for name in names}
    made._rig.releases = {"ours": NEW, "older": OLD}
    said = (
        f"[ERROR] [MY-013379] [Server] Server upgrade started with version {OLD},"
        f" but server upgrade of version {OLD} is still pending."
    )
    begun: list[str] = []

    def server(name: str, said: str = "", code: int | None = None) -> Any:
        return SimpleNamespace(
            binary=made._rig.binaries[name], has_died=code is not None, process=SimpleNamespace(returncode=code, poll=lambda: None),
            said=lambda: said, errors=lambda: "it said why", is_open=lambda: False, has_opened_innodb=lambda: True,
            changes_release=lambda: False, has_changed_release=lambda: True,
            wait_ready=lambda: "", begin=0.0,
        )  # fmt: skip

    drawn = iter(("ours", "older", "older"))
    fates = iter((("", None), (said, 1), ("", None)))

    def begin(binary: Binary) -> Any:
        begun.append(binary.name)
        made._server = server(binary.name, *next(fates))
        return made._server

    clients = SimpleNamespace(work=lambda seconds: None, stop=stopped, note_ended=lambda: True, take_under_way=lambda kind: None)
    for name, value in {
        "_verdict": Verdict(), "_r": random.Random(1), "_replica": None, "_histories": [], "_numbers": [], "_page_kib": 16,
        "_begin": begin, "_keep": lambda name: None, "_kill": lambda server: None, "_wait_in_recovery": lambda server: None,
        "_releases": Releases.settled(OLD if was_interrupted else NEW), "_start_sec": {False: 0.0, True: 0.0},
    }.items():  # fmt: skip
        monkeypatch.setattr(made, name, value, raising=False)
    monkeypatch.setattr(made._r, "choices", lambda *_: ["load"])
    monkeypatch.setattr(kill, "Clients", lambda *words, **more: clients)
    monkeypatch.setattr(kill, "KILLED_RECOVERIES", (2,))
    monkeypatch.setattr(made._rig, "binary", lambda r: made._rig.binaries[next(drawn)])
    monkeypatch.setattr(kill.load, "undo_made", lambda history: set())
    asked: list[Crash] = []

    def ask(*_: object, crash: Crash) -> tuple[Verdict, list[Any]]:
        asked.append(crash)
        return Verdict(), []

    monkeypatch.setattr(kill, "ask", ask)
    monkeypatch.setattr(made, "_crashed", [None] * 10, raising=False)
    monkeypatch.setattr(made, "_histories", [None] * 10, raising=False)
    monkeypatch.setattr(kill, "must_start_anew", lambda *_: False)
    made._cycle(server("older"))
    if was_interrupted:
        assert begun == ["ours", "older", "ours"] and made._verdict.wrong == []
        assert made._rig.counts.pending == {Crash("kill", "older"): 1}
        assert asked == [Crash("kill", "ours")] and made._releases == Releases.settled(NEW)
        assert len(made._rig.counts.changes_sec) == 1
    else:
        assert begun == ["ours", "older"] and made._verdict.wrong == ["older ended with 1 in recovery: it said why"]
        assert not made._rig.counts.pending and not asked
