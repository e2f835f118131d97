# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Starts after a server of an older patch release: where they start from, and which of them is an upgrade."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bench.experiments import startup
from bench.logs import Start
from bench.subjects import MAP, Binary, Subject
from bench.tables import Tables
from bench.tests.helpers import make_run

TABLES = Tables(9, 1)


def subject_of(name: str, tmp_path: Path, settings: dict[str, str] | None = None) -> Subject:
    path = tmp_path / name
    path.write_text(name)
    return Subject(name, Binary(path, None, "mysql", "9.7.2" if name == "older" else "9.7.4", {MAP: "OFF"}), settings or {}, "")


@pytest.mark.parametrize(
    ("name", "mode", "has_upgrade", "problems"),
    [
        ("stock", "upgrade", True, []),
        ("stock", "upgrade", False, ["there was no upgrade"]),
        ("stock", "upgraded", False, []),
        ("stock", "upgraded", True, ["there was an upgrade"]),
        ("older", "upgrade", False, []),
        ("older", "upgrade", True, ["there was an upgrade"]),
        ("stock", "cold", True, ["there was an upgrade"]),
    ],
)
def test_the_first_start_of_another_server_is_an_upgrade(
    name: str, mode: str, has_upgrade: bool, problems: list[str], tmp_path: Path
) -> None:
    run = make_run(name, 1, 2.0)
    run.mode, run.metrics["recovered"] = mode, 0
    if has_upgrade:
        run.phases_s["upgrade"] = 1.0
    item = startup.Prepared(subject_of(name, tmp_path), cast(Any, None), "clean-older", 13)
    startup.judge(run, Start({}, 13, 1, None, None, False), item, 13)
    assert run.problems == problems


def test_each_subject_has_its_own_state_after_the_older_server(tmp_path: Path) -> None:
    made: list[tuple[str, str, str]] = []
    older = subject_of("older", tmp_path)

    def make_state(_: Any, name: str, maker: Subject, act: Any, what: str, *, origin: str = "clean") -> None:
        made.append((name, maker.name, origin))
        act(None)

    waited = tmp_path / startup.MAP_FILE
    waited.touch()
    context = SimpleNamespace(older_subject=lambda: older, make_state=make_state, timeout_sec=0.3)
    datadir = SimpleNamespace(work=tmp_path)
    stock = subject_of("stock", tmp_path)
    states = startup._states_after_older(cast(Any, context), cast(Any, datadir), stock)
    assert states == ("clean-older", "clean-upgraded-stock")
    assert made == [
        ("clean-older", "older", "clean"),
        ("clean-upgraded-stock", "stock", "clean-older"),
    ]
    # A server with a map is given the time to write it: this one is too young.
    with pytest.raises(Exception, match="no tablespace map"):
        startup._states_after_older(cast(Any, context), cast(Any, datadir), subject_of("map", tmp_path, {MAP: "ON"}))


def test_modes() -> None:
    assert startup.Options(TABLES, False, False, True, (), after_older=True).modes == ("upgrade", "upgraded")
    assert startup.Options(TABLES, False, False, True, ()).modes == ("cold", "warm")


def test_the_second_start_begins_where_the_subject_has_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[tuple[str, bool]] = []
    monkeypatch.setattr(startup.starts, "measure", lambda *given, **_: used.append((given[2], given[5])))
    item = startup.Prepared(subject_of("stock", tmp_path), cast(Any, None), "clean-older", 13, "clean-upgraded-stock")
    options = startup.Options(TABLES, False, False, True, (), after_older=True)
    for mode in options.modes:
        run = make_run("stock", 1, 2.0)
        run.mode = mode
        startup._measure(cast(Any, None), options, item, run)
    assert used == [("clean-older", True), ("clean-upgraded-stock", True)]
