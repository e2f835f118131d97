# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The differential test itself: it is reproducible, and it notices differences."""

import subprocess
from pathlib import Path

import pytest

from differential.server import NO_ANSWER, Binary, Server, can_mount, with_mounts
from differential.states import Outcome, State


def make(seed: int, home: Path = Path("/nowhere")) -> State:
    """A state that starts nothing."""
    return State(seed, home, home, home, {"on": Binary("on", []), "off": Binary("off", [])})


def test_a_seed_gives_the_same_statements() -> None:
    assert make(7).statements(50) == make(7).statements(50)
    assert make(7).statements(50) != make(8).statements(50)


def test_all_kinds_of_statements_occur() -> None:
    text = make(1).statements(2000)
    for word in ("CREATE TABLE", "TRUNCATE", "DROP TABLE", "RENAME", "DISCARD", "IMPORT", "PARTITION", "FULLTEXT",
                 "DATA DIRECTORY", "CREATE TABLESPACE", "ALTER TABLESPACE", "UNDO", "COMPRESSED"):
        assert word in text


def difference(state: State, one: dict[str, object], *others: dict[str, object]) -> str | None:
    return state.difference("on", Outcome(one), "off", [Outcome(other) for other in others])


@pytest.mark.parametrize("key", ["1 starts", "1 messages", "2 spaces", "1 rows of a.t1", "2 files"])
def test_any_fact_that_differs_is_a_difference(key: str) -> None:
    state = make(1)
    one, two = {key: ["x"], "1 tables": []}, {key: ["y"], "1 tables": []}
    assert difference(state, one, one) is None
    assert "on" in difference(state, one, two)
    assert difference(state, one, {"1 tables": []})
    assert difference(state, {"1 tables": []}, one)


def test_a_fact_that_varies_without_the_map_may_vary_with_it() -> None:
    state = make(1)
    assert difference(state, {"2 spaces": 1}, {"2 spaces": 2}, {"2 spaces": 1}) is None
    assert difference(state, {"2 spaces": 1}, {"2 spaces": 2}, {"2 spaces": 3})


def test_after_a_change_in_place_other_tables_still_count() -> None:
    state = make(1)
    state.in_place = {"t1#p#p0"}
    assert difference(state, {"1 rows of a.t1": 1, "1 messages": 1}, {"1 rows of a.t1": 2}) is None
    assert difference(state, {"1 rows of a.t2": 1}, {}) is None
    assert difference(state, {"1 rows of a.t2": NO_ANSWER}, {"1 rows of a.t2": 2}) is None
    assert difference(state, {"1 rows of a.t2": 1}, {"1 rows of a.t2": 2})
    for crash in ({"1 exit code": -6}, {"2 stops": False}):
        assert difference(state, {}, crash) is None
        assert difference(state, crash, crash) is None
        assert difference(state, crash, {})


def test_what_follows_a_short_read_is_left_to_chance() -> None:
    state = make(1)
    on = Outcome({"1 starts": True, "2 starts": True}, short_read_in=2)
    assert state.difference("on", on, "off", [Outcome({"1 starts": True}, short_read_in=2)]) is None
    assert state.difference("on", on, "off", [Outcome({"1 starts": False}, short_read_in=2)])
    assert "too short" in state.difference("on", on, "off", [Outcome(on.facts)])


def test_messages_leave_out_times_and_threads(tmp_path: Path) -> None:
    server = Server.__new__(Server)
    server.log = tmp_path / "log"
    server.log.write_text(
        "2026-01-01T00:00:00.1Z 3 [Warning] [MY-1] [InnoDB] Thread# 2 - Tablespace 5 is missing!\n"
        "2026-01-01T00:00:00.2Z 1 [Note] [MY-2] [InnoDB] nothing\n"
        "2026-01-01T00:00:00.3Z 0 [ERROR] [MY-3] [InnoDB] bad\n"
        "2026-01-01T00:00:00.4Z 0 [ERROR] [MY-4] [InnoDB] Assertion failure: fil0fil.cc:99:a <= b thread 140\n"
    )
    assert server.messages() == [
        "[ERROR] [MY-3] [InnoDB] bad",
        "[ERROR] [MY-4] [InnoDB] Assertion failure: fil0fil.cc:a <= b thread",
        "[Warning] [MY-1] [InnoDB] Tablespace 5 is missing!",
    ]


def test_mounts_are_seen_by_the_command_only(tmp_path: Path) -> None:
    assert with_mounts(["true"], []) == ["true"]
    if not can_mount():
        pytest.skip("needs root and mount namespaces")
    one, two = tmp_path / "one with a space", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    (one / "file").write_text("x")
    command = with_mounts(["cat", f"{two}/file"], [(one, two)])
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "x"
    assert not (two / "file").exists()
    failing = with_mounts(["true"], [(tmp_path / "none", two)])
    assert subprocess.run(failing, capture_output=True).returncode != 0
