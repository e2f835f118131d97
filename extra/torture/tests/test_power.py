# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""A power cut counts when a server has been asked about it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.errors import BenchError
from differential.server import Binary
from torture import power
from torture.life import Rig
from torture.oracle import NEVER, Verdict
from torture.power import PowerLife, Recording, Source
from torture.writelog import Cut


@pytest.mark.parametrize("can_mount", [True, False])
def test_a_disk_that_no_server_has_seen_is_no_power_cut(
    can_mount: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    @contextlib.contextmanager
    def mounted(*_: object) -> Iterator[None]:
        if not can_mount:
            raise BenchError("bad superblock")
        yield

    monkeypatch.setattr(power.stack, "mounted", mounted)
    monkeypatch.setattr(power.stack, "copy_image", lambda *_: None)
    monkeypatch.setattr(power.writelog, "build_disk", lambda *_: None)
    monkeypatch.setattr(power, "check_place", lambda *_, **__: Verdict(checked=5))
    rig = Rig({"ours": Binary("ours", [])}, "ours", tmp_path, [])
    life = PowerLife(rig, 1, "ext4")
    source = Source(tmp_path / "image", [], NEVER)
    assert life._is_right(Recording(tmp_path / "log", [], source, [], 0, 0, 0), Cut(0, 0), source)
    counts = rig.counts
    seen = counts.power_cuts, counts.unmountable, counts.checked_in["power"]
    assert seen == ((1, 0, 5) if can_mount else (0, 1, 0))


def test_the_map_is_not_flushed_in_some_lives(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(power.preload, "dropping", lambda _, kinds: {"TORTURE_DROP": kinds})
    rig = Rig({}, "ours", tmp_path, [])
    lives = [PowerLife(rig, seed)._place("log").environment for seed in range(60)]
    dropped = [environment for environment in lives if environment]
    assert dropped and all(environment == {"TORTURE_DROP": "map"} for environment in dropped)
    assert len(dropped) < 30
    rig.is_canary = True
    assert not any(PowerLife(rig, seed)._place("log").environment for seed in range(20))
