# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The differential test itself: it is reproducible, and it notices differences."""

import os
import random
import subprocess
from collections.abc import Set
from pathlib import Path
from typing import Any

import pytest

from differential.mutations import MUTATIONS, WEIGHTS
from differential.outcome import OWN_DEATHS, WRONG_FILE, Outcome, Start, difference, read_start
from differential.report import Report
from differential.server import NO_ANSWER, Server, without_old_errors
from differential.statements import Statements, is_table
from differential.states import ServerFault, Setting, State, end_of
from redstart_cli import sanitizers
from redstart_cli.mounts import can_mount, with_mounts
from redstart_cli.mysqld import Binary


def make(seed: int, home: Path = Path("/nowhere")) -> State:
    """A state that starts nothing."""
    return State(seed, Setting(home, home, home, {"on": Binary("on", []), "off": Binary("off", [])}))


def statements(seed: int, n: int) -> str:
    return Statements(random.Random(seed), Path("/nowhere")).several(n)


def test_a_seed_gives_the_same_statements() -> None:
    assert statements(7, 50) == statements(7, 50)
    assert statements(7, 50) != statements(8, 50)


def test_all_kinds_of_statements_occur() -> None:
    text = statements(1, 3000)
    for word in ("CREATE TABLE", "TRUNCATE", "DROP TABLE", "RENAME", "DISCARD", "IMPORT", "PARTITION", "FULLTEXT",
                 "DATA DIRECTORY", "CREATE TABLESPACE", "ALTER TABLESPACE", "UNDO", "COMPRESSED", "AUTOEXTEND_SIZE",
                 "MyISAM", "CSV", "XA PREPARE", "\\! ln", "/", "ß", "表", "0" * 50):
        assert word in text


def test_files_of_indexes_are_no_tables() -> None:
    assert is_table("t1") and is_table("T5")
    assert not is_table("fts_0000000000000432_config") and not is_table("t1#p#p0") and not is_table("x@0040")


def test_a_sanitizer_leaves_signals_to_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable, _ in sanitizers.OPTIONS.values():
        monkeypatch.delenv(variable, raising=False)
    assert [end_of(code) for code in (0, 1, 2, -6, -9, -11)] == [0, 1, 2, -6, -9, -11]
    for variable, _ in sanitizers.OPTIONS.values():
        with monkeypatch.context() as patch:
            patch.setenv(variable, "halt_on_error=0")
            assert [end_of(code) for code in (0, 1, 2, -6, -9, -11)] == [0, 1, 2, -6, -9, 2]


def test_weights_are_of_mutations() -> None:
    assert set(WEIGHTS) <= set(MUTATIONS)


def compare(one: dict[str, Any], *others: dict[str, Any], in_place: Set[str] = frozenset()) -> str | None:
    return difference("on", Outcome(one), "off", [Outcome(other) for other in others], set(in_place))


@pytest.mark.parametrize("key", ["1 starts", "1 messages", "2 spaces", "1 rows of `a`.`t1`", "2 files"])
def test_any_fact_that_differs_is_a_difference(key: str) -> None:
    one, two = {key: ["x"], "1 tables": []}, {key: ["y"], "1 tables": []}
    assert compare(one, one) is None
    assert "on" in (compare(one, two) or "")
    assert compare(one, {"1 tables": []})
    assert compare({"1 tables": []}, one)


def test_a_run_has_to_be_matched_as_a_whole() -> None:
    one = {"1 messages": "a", "2 spaces": "b"}
    assert compare(one, {"1 messages": "x", "2 spaces": "y"}, one) is None
    # Each fact occurs without the map, but never both in one run.
    assert compare(one, {"1 messages": "a", "2 spaces": "y"}, {"1 messages": "x", "2 spaces": "b"})


def test_after_a_change_in_place_other_tables_still_count() -> None:
    def changed(one: dict[str, Any], two: dict[str, Any]) -> str | None:
        return compare(one, two, in_place={"t1#p#p0"})

    assert changed({"1 rows of `a`.`t1`": 1, "1 messages": 1}, {"1 rows of `a`.`t1`": 2}) is None
    assert changed({"1 rows of `a`.`t2`": 1}, {}) is None
    assert changed({"1 rows of `a`.`t2`": NO_ANSWER}, {"1 rows of `a`.`t2`": 2}) is None
    assert changed({"1 rows of `a`.`t2`": 1}, {"1 rows of `a`.`t2`": 2})
    for crash in ({"1 exit code": -6}, {"2 stops": False}):
        assert changed({}, crash) is None
        assert changed(crash, crash) is None
        assert changed(crash, {})
    # The other dies of it, too, in another turn.
    assert changed({"2 exit code": 2}, {"1 exit code": 2}) is None
    # The names of their files are not looked at closely.
    odd = {"1 rows of `a`.`ä1`": 1}, {"1 rows of `a`.`ä1`": 2}
    assert compare(*odd, in_place={"t1"})
    assert compare(*odd, in_place={"@0e41"}) is None


def test_a_server_that_died_of_a_change_in_place_tells_nothing() -> None:
    on = {"1 rows of `a`.`t2`": "1"}
    died = {"1 rows of `a`.`t2`": "", "1 exit code": -6}
    assert compare(on, died, in_place={"t1"}) is None
    assert compare(on, died)
    # Both die, the one with the map at a later question, or at an earlier one.
    assert compare(on | {"1 exit code": -6}, died, in_place={"t1"}) is None
    assert compare(died, on | {"1 exit code": -6}, in_place={"t1"}) is None
    assert compare(on, {"1 rows of `a`.`t2`": ""}, in_place={"t1"})
    assert compare(died, on, in_place={"t1"})


def test_a_death_of_mysql_itself_counts_only_where_files_are_right() -> None:
    death = "[ERROR] [MY-013183] [InnoDB] Assertion failure: pars0pars.cc:sym_node->table != nullptr thread"
    died = {"1 exit code": 2, "1 messages": [death]}
    refused = {"1 starts": False, "1 messages": [death]}
    assert compare(died | {"1 starts": False}, refused, in_place={"t6"}) is None
    assert compare(died | {"1 starts": False}, refused)
    assert compare(died, {"1 messages": [death]}, in_place={"t6"})
    another = {"1 starts": False, "1 messages": ["another"]}
    assert compare(another | {"1 exit code": 2}, another, in_place={"t6"})


def test_a_wrong_file_is_excused_only_by_what_was_done_to_the_files() -> None:
    state = State.__new__(State)
    state.is_sound = True
    with pytest.raises(ServerFault):
        state.require(False, f"on died: {WRONG_FILE} 4 in the data dictionary but in file ./a/t6.ibd it is 10!")
    state.require(False, OWN_DEATHS[0])
    assert not state.is_sound
    died = {"1 starts": False, "1 exit code": 2, "1 messages": [f"[ERROR] [MY-012095] [InnoDB] {WRONG_FILE} 4"]}
    refused = {"1 starts": False, "1 messages": died["1 messages"]}
    assert compare(died, refused, in_place={"t6"}) is None
    assert compare(died, refused)


def test_a_page_beyond_the_end_of_its_file_is_a_race() -> None:
    """MySQL does not get through the first start. Which server does later is luck, and not compared."""
    outside = {"1 starts": False, "1 exit code": 2, "1 messages": ["[ERROR] [MY-012153] [InnoDB] Trying to access page 4"]}
    stays = outside | {"2 starts": False, "2 exit code": 2, "2 messages": outside["1 messages"]}
    gets_through = outside | {"2 starts": True}
    for in_place in (frozenset[str](), frozenset({"t1"})):
        assert compare(stays, gets_through, in_place=in_place) is None
        assert compare(gets_through, stays, in_place=in_place) is None
        # Only if both have died of it.
        assert compare(outside, {"1 starts": True}, in_place=in_place)
        assert compare(stays, {"1 starts": True, "2 starts": True}, in_place=in_place)
    # Nor is what only one of them died of excused.
    assert compare({"1 starts": True}, outside)
    another = outside | {"1 messages": ["[ERROR] [MY-012154] [InnoDB] of something else"]}
    for left, right in ((another, another), (another, outside), (outside, another)):
        assert compare(left | {"2 starts": False}, right | {"2 starts": True})
    # After a start it is no race.
    used = outside | {"1 starts": True}
    assert compare(used | {"2 starts": False}, used | {"2 starts": True})
    assert Outcome(used, [Start()]).cut_in is None
    assert Outcome(outside, [Start()]).cut_in == 1
    assert Outcome(another, [Start()]).cut_in is None


def test_a_server_that_dies_of_a_cut_file_is_compared_until_then() -> None:
    on = {"1 starts": True, "2 starts": True, "1 rows of `a`.`t1`": "1", "2 rows of `a`.`t1`": "1"}
    died = {"1 starts": True, "2 starts": True, "1 rows of `a`.`t1`": "1", "2 rows of `a`.`t1`": "", "2 exit code": 2}
    size = {"2 messages": ["[ERROR] [MY-012094] [InnoDB] The size of tablespace file ./a/t2.ibd is only 16384"]}
    assert compare(on, died | size) is None
    assert compare(on, died)
    assert compare(on | {"1 rows of `a`.`t1`": "2"}, died | size)
    assert compare(died | size, on)
    # Such a state counts as one that was compared in part.
    assert Outcome(died | size, [Start(), Start()]).cut_in == 2
    assert Outcome(died | size, [Start(), Start()], short_read_in=1).cut_in == 1
    assert Outcome(died, [Start(), Start()]).cut_in is None
    # What both have said before the one died is compared.
    both = {"1 starts": True, "1 rows of `a`.`t1`": "1\t2\n", "1 rows of `a`.`t2`": ""}
    died = both | {"1 exit code": 2, "1 messages": size["2 messages"]}
    assert compare(both, died) is None
    assert compare(both | {"1 rows of `a`.`t1`": "1\t3\n"}, died)
    assert compare({"1 starts": False}, died)


def test_a_start_is_not_refused_where_another_reads_a_short_file() -> None:
    off = Outcome({"1 starts": True}, [Start()], short_read_in=1)
    assert difference("on", Outcome({"1 starts": True}, [Start()]), "off", [off], set()) is None
    assert difference("on", Outcome({"1 starts": False}, [Start()]), "off", [off], set())
    # It may be this file that ends the one with the map as well.
    assert difference("on", Outcome({"1 starts": False}, [Start()], short_read_in=1), "off", [off], set()) is None


def test_a_change_in_place_is_believed_once() -> None:
    refused = Outcome({"1 starts": False, "2 starts": False})

    def compared(is_verified: bool, second: bool) -> str | None:
        on = Outcome({"1 starts": True, "2 starts": second}, [Start(3, is_verified=is_verified), Start(3)])
        return difference("on", on, "off", [refused], {"t1"})

    assert compared(True, False) is None
    assert compared(False, True) is None
    assert compared(True, True)


def test_after_a_change_in_place_a_start_may_be_refused_once() -> None:
    def compared(turn: int, message: str) -> str | None:
        on = Outcome({f"{turn} starts": False, f"{turn} messages": [message]})
        return difference("on", on, "off", [Outcome({f"{turn} starts": True, f"{turn} messages": []})], {"t1"})

    assert compared(1, "Tablespace map was wrong; start the server again") is None
    assert compared(1, "Aborting")
    assert compared(2, "Tablespace map was wrong; start the server again")


def test_what_follows_a_short_read_is_left_to_chance() -> None:
    on = Outcome({"1 starts": True, "2 starts": True}, short_read_in=2)

    def compared(facts: dict[str, Any], short_read_in: int | None) -> str | None:
        return difference("on", on, "off", [Outcome(facts, short_read_in=short_read_in)], set())

    assert compared({"1 starts": True}, 2) is None
    assert compared({"1 starts": False}, 2)
    assert "too short" in (compared(on.facts, None) or "")


def test_rows_that_both_read_count_after_a_short_read() -> None:
    def compared(one: str, two: str) -> str | None:
        on, off = (Outcome({"1 rows of `a`.`t1`": rows, "1 messages": rows}, short_read_in=1) for rows in (one, two))
        return difference("on", on, "off", [off], set())

    assert compared("3\t17\n", "3\t17\n") is None
    assert compared("3\t17\n", "3\t18\n")
    assert compared("3\t17\n", NO_ANSWER) is None
    assert compared("3\t17\n", "") is None
    assert compared("3\t17\n", "ERROR 2013\n") is None


TRUSTING = "[Note] Tablespace map: 3 of 4 files are as they were; 2 directories were listed and 1 headers read\n"


def test_a_start_tells_whether_the_map_was_trusted() -> None:
    start = read_start(TRUSTING)
    assert start.is_used and start.n_trusted(1) == 2 and start.trusted == 3 and not start.is_lazy
    # Files that each data directory has say nothing.
    assert start.n_trusted(3) == 0 and read_start(TRUSTING.replace("3 of", "0 of")).n_trusted(1) == 0
    assert not read_start("[Note] Tablespace map not used: there is none\n").is_used
    rejected = read_start(TRUSTING + "Tablespace map not used: a file has the ID of a file that was not read\n")
    assert rejected.n_trusted(1) == 2 and not rejected.is_used
    foreign = read_start(TRUSTING + "Tablespace map not used: another server may have run since it was written\n")
    assert foreign.n_trusted(1) == 0 and not foreign.is_used
    assert read_start("4 tablespaces are read from the dictionary, the others when they are used\n").is_lazy
    assert not read_start("Tablespace map: 4 tablespaces are opened when they are used\n").is_lazy
    assert not read_start("").is_used


def state(**values: object) -> dict[str, Any]:
    """The report of a good state."""
    return {"difference": None, "usable": True, "used": True, "met": True, "trusted": 3, "mutations": ["move"],
            "starts": True, "stock": True, "journal": True} | values


def sum_up(states: list[dict[str, Any]], canaries: dict[str, int | None] | None = None) -> Report:
    report = Report()
    for one in states:
        report.add(one)
    report.canaries = canaries or {}
    return report


def test_the_report_has_the_keys_that_others_read() -> None:
    report = sum_up([state(), state(mutations=["move", "swap", "move"], met=False)], {"x": 2, "y": None}).as_json()
    assert report["states"] == 2
    assert report["states_map_used"] == 2
    assert report["files_trusted"] == 6
    assert report["mutations"] == {"move": {"states": 2, "met_trusting_map": 1},
                                   "swap": {"states": 1, "met_trusting_map": 0}}
    assert report["differences"] == 0
    assert report["canaries"] == {"x": 2, "y": None}


def test_stock_is_needed_unless_all_are_encrypted() -> None:
    for needs_stock, said in ((True, ["no state was shown to stock"]), (False, [])):
        report = Report(needs_stock)
        report.add(state(stock=False))
        assert report.problems() == said


def test_states_in_which_the_map_trusts_nothing_fail() -> None:
    blind = state(met=False, used=False, trusted=0)
    assert sum_up([state(), state()]).problems() == []
    assert sum_up([state(), blind]).problems() == []
    assert sum_up([state(), blind, blind]).problems()
    assert sum_up([blind]).problems()
    assert sum_up([]).problems()


def test_maps_that_were_given_up_are_counted_apart() -> None:
    report = sum_up([state(), state(used=False, rejected=True)])
    assert report.as_json()["states_met_giving_up_map"] == 1
    assert "met, then given up at that start: 1" in report.lines()[-1]


def test_states_without_a_change_prove_nothing() -> None:
    assert sum_up([state(), state(mutations=[]), state(mutations=[])]).problems()


def test_states_that_cannot_have_a_map_are_few() -> None:
    without = state(usable=False, met=False, used=False, trusted=0)
    assert sum_up([state(), without]).problems() == []
    assert sum_up([state(), without, without]).problems()


def test_states_compared_in_part_are_few() -> None:
    cut = state(cut=True)
    assert sum_up([state()] * 6 + [cut] * 2).problems() == []
    assert sum_up([state()] * 6 + [cut] * 3).problems()


def test_the_journal_has_to_be_used() -> None:
    unused = state(journal=False)
    assert sum_up([unused] * 59).problems() == []
    assert sum_up([unused] * 60).problems() == ["no first start used the journal of the map"]
    report = sum_up([unused] * 60 + [state()])
    assert report.problems() == []
    assert report.as_json()["states_journal_used"] == 1


def test_kills_at_system_calls_have_to_happen() -> None:
    missed, met = state(kills_at={"rename": [1, 0]}), state(kills_at={"fsync": [1, 1]})
    assert sum_up([missed] * 9).problems() == []
    assert sum_up([missed] * 10 + [met] * 10).problems() == ["none of 10 kills at rename happened"]
    report = sum_up([missed] * 10 + [state(kills_at={"rename": [2, 1]})])
    assert report.problems() == []
    assert report.as_json()["kills_at_system_calls"] == {"rename": {"tried": 12, "happened": 1}}


def test_a_server_has_to_be_in_order_until_files_are_touched() -> None:
    made = make(1)
    with pytest.raises(ServerFault, match="on died"):
        made.require(False, "on died")
    made.is_sound = False
    made.require(False, "on died")


def test_a_step_is_the_same_whatever_was_drawn_before() -> None:
    drawn = []
    for n in (1, 5):
        made = make(7)
        for _ in range(n):
            made.random.random()
        made.begin("third run")
        drawn.append(made.random.random())
    made.begin("fourth run")
    assert drawn[0] == drawn[1] != made.random.random()


def test_differences_and_lost_canaries_fail() -> None:
    assert sum_up([state(), state(difference="x")]).problems() == ["1 states with a difference"]
    assert sum_up([state(stock=False)]).problems() == ["no state was shown to stock"]
    assert sum_up([state()], {"a": 3}).problems() == []
    assert sum_up([state()], {"a": 3, "b": None}).problems() == ["the canary b was not found"]


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


def test_mutations_say_what_they_touched(tmp_path: Path) -> None:
    made = make(3, tmp_path)
    data = made.home / "data"
    for name in ("a", "b"):
        (data / name).mkdir(parents=True)
        (data / name / f"t{name}.ibd").write_text(name)
    (made.home / "tmp").mkdir()
    path, other = data / "a/ta.ibd", data / "b/tb.ibd"
    inode = path.stat().st_ino
    assert MUTATIONS["swap"](made, path, path) == []
    assert MUTATIONS["swap"](made, path, other) == [path, other]
    assert path.read_text() == "b" and other.stat().st_ino == inode
    assert MUTATIONS["old"](made, path, other) == []
    assert MUTATIONS["used_inode"](made, path, other) == [path]
    assert path.read_text() == "a" and sorted(os.listdir(data / "a")) == ["ta.ibd"]
    assert made.is_in_reach(path) and not made.is_in_reach(made.home / "tmp/ta.ibd")


def test_error_numbers_of_a_page_of_zeros_are_no_difference() -> None:
    zeros = "T 8 [ERROR] [MY-012224] [InnoDB] Header page consists of zero bytes in datafile: ./b/t0.ibd"
    number = "T 8 [ERROR] [MY-012592] [InnoDB] Operating system error number 11 in a file operation."
    means = "T 8 [ERROR] [MY-012596] [InnoDB] Error number 11 means 'Resource temporarily unavailable'"
    other = "T 8 [ERROR] [MY-012131] [InnoDB] Could not find a valid tablespace file"
    assert without_old_errors([zeros, number, means, other]) == [zeros, other]
    assert without_old_errors([zeros, other.replace("T 8", "T 9"), number]) == [zeros, other.replace("T 8", "T 9")]


def test_other_error_numbers_are_compared() -> None:
    zeros = "T 8 [ERROR] [MY-012224] [InnoDB] Header page consists of zero bytes in datafile: ./b/t0.ibd"
    number = "T 8 [ERROR] [MY-012592] [InnoDB] Operating system error number 5 in a file operation."
    other = "T 8 [ERROR] [MY-012131] [InnoDB] Could not find a valid tablespace file"
    unread = "T 8 [ERROR] [MY-012224] [InnoDB] Cannot read first page in datafile: ./b/t0.ibd"
    elsewhere = number.replace("T 8", "T 9")
    for lines in ([number], [zeros, other, number], [unread, number], [zeros, elsewhere]):
        assert without_old_errors(lines) == lines


def test_threads_and_queries_have_other_numbers_in_each_run(tmp_path: Path) -> None:
    server = Server.__new__(Server)
    server.log = tmp_path / "log"
    text = "T 0 [ERROR] [MY-011063] [Server] MySQL thread id 8, OS thread handle {}, query id {} localhost root"
    found = []
    for numbers in ((140672393983680, 43), (140061936961216, 44)):
        server.log.write_text(text.format(*numbers), encoding="utf-8")
        found.append(server.messages())
    assert found[0] == found[1] != []


def test_of_missing_tablespaces_mysql_names_the_first_that_it_met(tmp_path: Path) -> None:
    server = Server.__new__(Server)
    server.log = tmp_path / "log"
    found = []
    for text in ("Trying to access missing tablespace 2", "Trying to access missing tablespace 7", "Another tablespace 7"):
        server.log.write_text(f"T 0 [Warning] [MY-012111] [InnoDB] {text}", encoding="utf-8")
        found.append(server.messages())
    assert found[0] == found[1] != found[2] and len(found[0]) == 1
