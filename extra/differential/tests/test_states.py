# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The differential test itself: it is reproducible, and it notices differences."""

from pathlib import Path

import pytest

from differential.server import NO_ANSWER, Binary, Server
from differential.states import Difference, Outcome, State


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


@pytest.mark.parametrize("key", ["1 starts", "1 messages", "2 spaces", "1 rows of a.t1", "2 files"])
def test_any_fact_that_differs_is_a_difference(key: str) -> None:
    state = make(1)
    one, two = Outcome({key: ["x"], "1 tables": []}), Outcome({key: ["y"], "1 tables": []})
    state.compare("on", one, "off", one)
    with pytest.raises(Difference, match="on"):
        state.compare("on", one, "off", two)
    with pytest.raises(Difference):
        state.compare("on", one, "off", Outcome({"1 tables": []}))


def test_after_a_change_in_place_other_tables_still_count() -> None:
    state = make(1)
    state.in_place = {"t1#p#p0"}
    state.compare("on", Outcome({"1 rows of a.t1": 1, "1 messages": 1}), "off", Outcome({"1 rows of a.t1": 2}))
    state.compare("on", Outcome({"1 rows of a.t2": 1}), "off", Outcome({}))
    state.compare("on", Outcome({"1 rows of a.t2": NO_ANSWER}), "off", Outcome({"1 rows of a.t2": 2}))
    with pytest.raises(Difference):
        state.compare("on", Outcome({"1 rows of a.t2": 1}), "off", Outcome({"1 rows of a.t2": 2}))
    for crash in ({"1 exit code": -6}, {"2 stops": False}):
        state.compare("on", Outcome({}), "off", Outcome(crash))
        state.compare("on", Outcome(crash), "off", Outcome(crash))
        with pytest.raises(Difference):
            state.compare("on", Outcome(crash), "off", Outcome({}))


def test_what_mysql_leaves_to_chance_is_not_compared_and_counted() -> None:
    state = make(1)
    state.is_undefined = True
    state.compare("on", Outcome({"1 starts": True}), "off", Outcome({"1 starts": False}))


def test_messages_leave_out_times_and_threads(tmp_path: Path) -> None:
    server = Server.__new__(Server)
    server.log = tmp_path / "log"
    server.log.write_text(
        "2026-01-01T00:00:00.1Z 3 [Warning] [MY-1] [InnoDB] Thread# 2 - Tablespace 5 is missing!\n"
        "2026-01-01T00:00:00.2Z 1 [Note] [MY-2] [InnoDB] nothing\n"
        "2026-01-01T00:00:00.3Z 0 [ERROR] [MY-3] [InnoDB] bad\n"
    )
    assert server.messages() == ["[ERROR] [MY-3] [InnoDB] bad", "[Warning] [MY-1] [InnoDB] Tablespace 5 is missing!"]
