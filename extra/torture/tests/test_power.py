# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""A power cut counts when a server has been asked about it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from redstart_cli.mysqld import Binary
from redstart_cli.tools import ToolError
from torture import power
from torture.life import Crash, Rig
from torture.oracle import NEVER, Verdict
from torture.power import PowerLife, Recording, Source
from torture.release import Releases
from torture.server import Server
from torture.writelog import Cut

SETTLED = Releases.settled(0)


@pytest.mark.parametrize("can_mount", [True, False])
def test_a_disk_that_no_server_has_seen_is_no_power_cut(
    can_mount: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    @contextlib.contextmanager
    def mounted(*_: object) -> Iterator[None]:
        if not can_mount:
            raise ToolError("bad superblock")
        yield

    monkeypatch.setattr(power.stack, "mounted", mounted)
    monkeypatch.setattr(power.stack, "copy_image", lambda *_: None)
    monkeypatch.setattr(power.writelog, "build_disk", lambda *_: None)
    monkeypatch.setattr(power, "check_place", lambda *_, **__: Verdict(checked=5))
    rig = Rig({"ours": Binary("ours", [])}, "ours", tmp_path, [])
    life = PowerLife(rig, 1, "ext4")
    source = Source(tmp_path / "image", [], NEVER, SETTLED)
    assert life._is_right(Recording(tmp_path / "log", [], source, [], 0, 0, 0, "ours"), Cut(0, 0), source)
    counts = rig.counts
    seen = counts.power_cuts, counts.unmountable, counts.checked_in["power"]
    assert seen == ((1, 0, 5) if can_mount else (0, 1, 0))


HEADER = "off ended with 2 at its start: T 1 [ERROR] [MY-015090] [InnoDB] [FATAL] Tablespace '35' mentioned in the redo log"
SYSTEM = (
    "ours ended with 2 at its start: T 1 [ERROR] [MY-011906] [InnoDB] "
    "Database page corruption of page [page id: space=0, page number=5]."
)


REDO = (
    "ours ended with 1 at its start: T 1 [ERROR] [MY-013893] [InnoDB] Found existing redo log files, but at least one is missing."
    " It is unknown | T 1 [ERROR] [MY-012930] [InnoDB] Plugin initialization aborted"
)
TWO_LINES = "ours ended with 2 at its start: [MY-011906] of a page | [MY-011971] [page id: space=0, page number=5] is in the future"


@pytest.mark.parametrize(
    ("verdict", "stock_says", "has_stock", "is_excused"),
    [
        (Verdict(wrong=[HEADER]), HEADER.replace("off", "stock"), True, True),
        (Verdict(wrong=[SYSTEM]), SYSTEM, True, True),
        (Verdict(wrong=[REDO]), REDO.replace("ours", "stock"), True, True),
        (Verdict(wrong=[REDO]), "", True, False),
        (Verdict(wrong=[HEADER]), "", True, False),
        (Verdict(wrong=[HEADER]), SYSTEM, True, False),
        (Verdict(wrong=[SYSTEM.replace("MY-011906", "MY-011971")]), SYSTEM.replace("MY-011906", "MY-011971"), True, False),
        (Verdict(wrong=[TWO_LINES]), TWO_LINES, True, False),
        (Verdict(wrong=[HEADER]), HEADER, False, False),
        (Verdict(wrong=[HEADER, "more"]), HEADER, True, False),
        (Verdict(wrong=[HEADER], lost=["a step"]), HEADER, True, False),
        (Verdict(wrong=["CHECK TABLE: [MY-015090]"]), HEADER, True, False),
        (Verdict(wrong=[SYSTEM.replace("number=5", "number=6")]), SYSTEM, True, False),
        (Verdict(lost=["a step"]), HEADER, True, False),
        (Verdict(checked=3), HEADER, True, False),
    ],
)
def test_a_torn_page_is_excused_only_if_stock_does_not_repair_it_either(
    verdict: Verdict, stock_says: str, has_stock: bool, is_excused: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Stock(Server):
        def __init__(self, binary: Binary, _: object) -> None:
            assert binary.name == "stock"

        def wait_ready(self, timeout_sec: float = 0) -> str:
            return stock_says

        def kill(self) -> None:
            made.append("killed")

    made: list[str] = []
    monkeypatch.setattr(power.stack, "mounted", lambda *_: contextlib.nullcontext())
    monkeypatch.setattr(power, "Server", Stock)
    names = ("ours", "stock") if has_stock else ("ours",)
    rig = Rig({name: Binary(name, []) for name in names}, "ours", tmp_path, [])
    life = PowerLife(rig, 1, "ext4")

    def make(image: Path) -> None:
        made.append("disk")
        image.touch()

    assert life._is_unrepaired(verdict, make, is_torn=True) == is_excused
    assert rig.counts.unrepaired == is_excused
    assert made in ([], ["disk", "killed"]) and (made or not is_excused)
    rig.is_canary = True
    assert not life._is_unrepaired(verdict, make, is_torn=True)


def test_a_disk_that_stock_cannot_mount_excuses_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(*_: object) -> Iterator[None]:
        raise ToolError("bad superblock")

    monkeypatch.setattr(power.stack, "mounted", refuse)
    rig = Rig({name: Binary(name, []) for name in ("ours", "stock")}, "ours", tmp_path, [])
    assert not PowerLife(rig, 1, "ext4")._is_unrepaired(
        Verdict(wrong=[HEADER]), lambda image: image.touch(), is_torn=True
    )
    assert not list(tmp_path.rglob("stock.img"))


@pytest.mark.parametrize(
    ("said", "is_torn", "is_excused"), [(HEADER, True, True), (HEADER, False, False), (REDO, True, True), (REDO, False, True)]
)
def test_a_torn_page_needs_a_torn_write(
    said: str, is_torn: bool, is_excused: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Stock(Server):
        def __init__(self, *_: object) -> None: ...

        def wait_ready(self, timeout_sec: float = 0) -> str:
            return said

        def kill(self) -> None: ...

    monkeypatch.setattr(power, "Server", Stock)
    monkeypatch.setattr(power.stack, "mounted", lambda *_: contextlib.nullcontext())
    monkeypatch.setattr(power.stack, "copy_image", lambda *_: None)
    monkeypatch.setattr(power.writelog, "build_disk", lambda *_: None)
    monkeypatch.setattr(power, "check_place", lambda *_, **__: Verdict(wrong=[said]))
    monkeypatch.setattr(PowerLife, "_keep", lambda *_, **__: None)
    rig = Rig({name: Binary(name, []) for name in ("ours", "stock")}, "ours", tmp_path, [])
    source = Source(tmp_path / "image", [], NEVER, SETTLED, is_torn)
    recording = Recording(tmp_path / "log", [], source, [], 0, 0, 0, "older")
    assert PowerLife(rig, 1, "ext4")._is_right(recording, Cut(0, 0), source) == is_excused
    assert (rig.counts.wrong, rig.counts.unrepaired) == (not is_excused, is_excused)


@pytest.mark.parametrize(("in_recovery", "limit"), [(True, 7), (False, 5)])
def test_a_cut_is_one_of_the_server_whose_writes_it_cuts(
    in_recovery: bool, limit: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    flushes = [1] if in_recovery else []
    monkeypatch.setattr(power.writelog, "flushes_within", lambda *_: flushes)
    monkeypatch.setattr(power.writelog, "flushes", lambda *_: [2])
    monkeypatch.setattr(power.writelog, "choose_cut", lambda *_: Cut(0, 5))
    monkeypatch.setattr(power, "CLEAN_START_SHARE", 1)
    life = PowerLife(Rig({}, "ours", tmp_path, []), 1, "ext4")
    life._is_direct = False
    before = Source(tmp_path / "image", [], 7, Releases.settled(4), crash=Crash("power", "ours"))
    _, owed = life._choose(Recording(tmp_path / "log", [], before, [], 0, 0, 0, "older", 2))
    assert (owed.limit, owed.crash, owed.image) == (limit, Crash("power", "older"), before.image)
    # A cut of its start may have left the release of before, the change of it, or the new one.
    assert owed.releases.possible == ({(4, 4), (2, 4), (2, 2)} if in_recovery else {(2, 2)})


def test_the_map_is_not_flushed_in_some_lives(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(power.preload, "dropping", lambda _, kinds: {"TORTURE_DROP": kinds})
    rig = Rig({}, "ours", tmp_path, [])
    lives = [PowerLife(rig, seed)._place("log").environment for seed in range(60)]
    dropped = [environment for environment in lives if environment]
    assert dropped and all(environment == {"TORTURE_DROP": "map"} for environment in dropped)
    assert len(dropped) < 30
    rig.is_canary = True
    assert not any(PowerLife(rig, seed)._place("log").environment for seed in range(20))
