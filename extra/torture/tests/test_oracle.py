# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The oracle finds what is lost, what is half there and what nobody wrote, and nothing else."""

import dataclasses
import random
from pathlib import Path
from typing import Any

import pytest

from torture.load import (
    BUILDER,
    IMPORTED_VARIANTS,
    INDEXES,
    TEXT_INDEX,
    TEXTS,
    UNSAFE_INDEXES,
    VARIANTS,
    Planner,
    create_table,
    is_partitioned,
    opening_states,
    right_content,
    statements,
)
from torture.oracle import (
    NEVER,
    History,
    Journal,
    Observed,
    State,
    Step,
    Table,
    balances,
    describe_difference,
    read_journal,
    write_journal,
)


def history(*steps: Step) -> History:
    made = History(0, State(tables={"w": Table()}))
    made.steps += steps
    return made


def insert(number: int, low: int, at: float | None = 0, **more: float) -> Step:
    return Step(number, "tx", [["insert", "w", low, low + 2, 3]], acknowledged=at, **more)


def after(made: History, count: int) -> Observed:
    state = made.base.copy()
    for step in made.steps[:count]:
        state.apply(step)
    return Observed(state)


def test_all_steps_are_there() -> None:
    made = history(insert(0, 0), insert(1, 10))
    verdict = made.judge(after(made, 2))
    assert (verdict.checked, verdict.lost, verdict.wrong) == (2, [], [])


def test_an_acknowledged_step_that_is_gone_is_lost() -> None:
    made = history(insert(0, 0), insert(1, 10), insert(2, 20))
    verdict = made.judge(after(made, 1))
    assert verdict.checked == 1
    assert [text.split(": ")[1] for text in verdict.lost] == ["step 1 (tx) is gone", "step 2 (tx) is gone"]
    assert not verdict.wrong


@pytest.mark.parametrize("count", [1, 2])
def test_a_step_without_an_answer_may_be_there_or_not(count: int) -> None:
    made = history(insert(0, 0), insert(1, 10, at=None))
    assert made.judge(after(made, count)).is_clean


def test_half_a_step_is_wrong() -> None:
    made = history(insert(0, 0), insert(1, 10, at=None))
    seen = after(made, 2)
    del seen.state.tables["w"].rows[11]
    verdict = made.judge(seen)
    assert "11: None instead of (1, 3)" in verdict.wrong[0]
    seen = after(made, 1)
    seen.state.tables["w"].rows[10] = (1, 3)
    assert made.judge(seen).wrong


def test_content_that_no_step_wrote_is_wrong() -> None:
    made = history(insert(0, 0))
    seen = after(made, 1)
    seen.broken.append("w: the content of row 1")
    assert made.judge(seen).wrong == ["client 0: w: the content of row 1"]
    seen = after(made, 1)
    seen.state.progress = 7
    assert "never did" in made.judge(seen).wrong[0]


def test_only_what_was_acknowledged_before_the_cut_is_owed() -> None:
    made = history(insert(0, 0, at=100), insert(1, 10, at=200))
    assert made.judge(after(made, 1), limit=200).is_clean
    assert made.judge(after(made, 2), limit=200).is_clean
    assert made.judge(after(made, 1), limit=201).lost
    assert made.judge(after(made, 0), limit=200).lost


def test_a_step_is_under_way_from_its_beginning_to_its_acknowledgement() -> None:
    step = Step(1, "ddl", [["index", "t0", "k1"]], acknowledged=200, begun=100)
    assert [step.was_under_way(at, at) for at in (100, 101, 200, 201)] == [False, True, True, False]
    # What a power cut takes, from its flush to the next one: a step must have begun before the first.
    assert not step.was_under_way(100, 150)
    step.acknowledged = None
    assert step.was_under_way(NEVER, NEVER)
    assert not Step(2, "ddl", [["index", "t0", "k1"]]).was_under_way(NEVER, NEVER)


def test_definitions_have_no_number_in_the_server() -> None:
    create = Step(1, "ddl", [["create", "t0", "plain"]], acknowledged=0)
    index = Step(2, "ddl", [["index", "t0", "k1"]], acknowledged=0)
    made = history(insert(0, 0), create, index)
    assert made.judge(after(made, 3)).is_clean
    assert len(made.judge(after(made, 2)).lost) == 1
    assert len(made.judge(after(made, 1)).lost) == 2
    made.steps[2].acknowledged = None
    assert made.judge(after(made, 2)).is_clean
    seen = after(made, 2)
    seen.state.tables["t0"].variant = "compressed"
    assert made.judge(seen).wrong


def test_a_definition_that_changes_nothing_visible_is_not_lost() -> None:
    rebuild = Step(1, "ddl", [["rebuild", "w", "COPY"]], acknowledged=0)
    made = history(insert(0, 0), rebuild)
    assert made.judge(after(made, 1)).is_clean


def imported() -> History:
    made = history(insert(0, 0), Step(1, "ddl", [["create", "t0", "plain"]], acknowledged=0))
    made.steps.append(Step(2, "tx", [["insert", "t0", 5, 6, 1]], acknowledged=0))
    made.steps += [Step(number, "ddl", [[kind, "t0"]], acknowledged=0)
                   for number, kind in enumerate(["export", "discard", "import"], 3)]  # fmt: skip
    return made


def test_an_import_brings_back_what_was_exported() -> None:
    made = imported()
    assert after(made, 5).state.discarded == {"t0"}
    assert after(made, 6).state.tables["t0"].rows == {5: (2, 1)}
    assert made.judge(after(made, 6)).is_clean
    assert len(made.judge(after(made, 5)).lost) == 1  # the table is discarded still
    made.steps[5].acknowledged = None
    assert made.judge(after(made, 5)).is_clean
    seen = after(made, 6)
    seen.state.tables["t0"].rows.clear()
    assert made.judge(seen).wrong  # imported, and empty


def test_only_a_discard_under_way_excuses_a_missing_file() -> None:
    made = imported()
    seen = after(made, 5)
    seen.state.tables["t0"].lacks_file = True
    made.steps[5].acknowledged = None
    assert "lost its file" in made.judge(seen).wrong[0]
    made.steps[4].acknowledged = None
    assert made.judge(seen).is_clean
    later = History(0, seen.state.copy())
    assert later.judge(seen).is_clean  # it was so before
    seen.state.tables["t0"].lacks_file, found = False, after(later, 0)
    assert found.state.tables["t0"].lacks_file
    assert History(0, seen.state).judge(found).wrong


def test_a_journal_knows_what_is_discarded(tmp_path: Path) -> None:
    base = after(imported(), 5).state
    write_journal(tmp_path / "one", [History(0, base)])
    (again,) = read_journal(tmp_path / "one")
    assert again.base == base and again.base.discarded == {"t0"}
    assert not again.base.tables["t0"].lacks_file
    base.tables["t0"].lacks_file = True
    write_journal(tmp_path / "two", [History(0, base)])
    assert read_journal(tmp_path / "two")[0].base.tables["t0"].lacks_file


def test_the_steps_of_an_import_follow_each_other() -> None:
    planner, state = Planner(0, random.Random(1), ["plain", "redundant", "general", "hash"]), opening_states()[0]
    kinds, variants = [], set()
    for number in range(4000):
        step = planner.next(state, number)
        kinds.append(step.ops[0][0])
        if step.ops[0][0] == "export":
            variants.add(state.tables[step.ops[0][1]].variant)
        state.apply(step)
    first = kinds.index("export")
    assert kinds[first : first + 3] == ["export", "discard", "import"]
    assert kinds.count("export") == kinds.count("discard") == kinds.count("import") > 10
    assert variants == {"plain", "redundant"} < IMPORTED_VARIANTS
    # What a crash has left without its file is dropped.
    state.tables["t9"] = Table(is_discarded=True)
    assert planner.next(state, 4000).ops == [["abandon", "t9"]]


def test_prepared_transactions() -> None:
    one = Step(0, "xa", [], prepared=0)
    made = history(one)
    assert made.prepared({"c0-0"}, NEVER)[0] == {"c0-0": "COMMIT"}
    assert made.prepared(set(), NEVER)[1].lost
    one.decided = 0
    assert made.prepared(set(), NEVER)[1].is_clean
    assert made.judge(after(made, 0)).lost  # wherever it is, it must not be nowhere
    one.acknowledged = 0
    assert made.prepared({"c0-0"}, NEVER)[1].lost
    back = history(Step(0, "xa-back", [["insert", "w", 0, 1, 1]], prepared=10))
    assert back.prepared({"c0-0"}, NEVER)[0] == {"c0-0": "ROLLBACK"}
    assert back.prepared(set(), 11)[1].lost
    assert back.prepared(set(), 10)[1].is_clean
    assert back.judge(after(back, 0)).is_clean


def test_a_prepared_transaction_that_has_changed_nothing_need_not_be_there() -> None:
    undone: list[Any] = ["undone", [["insert", "w", 0, 1, 1]]]
    for ops, is_lost in (([undone], False), ([undone, ["insert", "w", 1, 2, 1]], True)):
        assert bool(history(Step(0, "xa-back", ops, prepared=1)).prepared(set(), NEVER)[1].lost) == is_lost
    # Its number is in a table.
    assert history(Step(0, "xa", [undone], prepared=1)).prepared(set(), NEVER)[1].lost


def test_balances() -> None:
    assert balances(3, 10, [(0, 1, 4), (1, 2, 1)]) == [6, 13, 11]


def test_a_journal_gives_the_histories_again(tmp_path: Path) -> None:
    made = history()
    made.base.tables["w"].rows[4] = (1, 2)
    made.base.moves[3] = (1, 2, 3)
    journal = Journal(tmp_path / "one", [made])
    for step in (insert(5, 0, at=None), insert(6, 9, at=None)):
        made.steps.append(step)
        journal.begin(0, step)
    journal.mark(0, made.steps[0], "acknowledged", 77)
    journal.failed(0, made.steps[1], "deadlock")
    del made.steps[1]
    journal.close()
    (again,) = read_journal(tmp_path / "one")
    assert (again.base, again.steps) == (made.base, made.steps)
    write_journal(tmp_path / "two", [again])
    assert read_journal(tmp_path / "two")[0].steps == made.steps


def test_partitioned_tables_have_no_point() -> None:
    for variant in VARIANTS:
        has_point = "POINT" in create_table(0, "t", variant)
        assert has_point is not is_partitioned(variant)
        assert has_point is ("ST_X" in right_content(0, 1, variant))


@pytest.mark.parametrize("client", [0, BUILDER])
def test_a_seed_gives_the_same_plan_and_all_kinds_occur(client: int) -> None:
    def plan() -> list[Step]:
        planner = Planner(client, random.Random(3), list(VARIANTS), all_indexes=True)
        state = opening_states()[client]
        steps = []
        for number in range(3000):
            step = planner.next(state, number)
            state.apply(step)
            steps.append(step)
        return steps

    steps = plan()
    assert steps == plan()
    text = "\n".join(line for step in steps for op in step.ops for line in statements(client, step.number, op))
    words = ["CREATE UNDO", "SET INACTIVE", "SET ACTIVE", "DROP UNDO"] if client == BUILDER else []
    words += ["ADD INDEX", "ADD UNIQUE INDEX", "DROP INDEX"]
    if client != BUILDER:
        words += ["INSERT", "UPDATE", "DELETE", "bank.moves", "SAVEPOINT", "ADD COLUMN", "=INPLACE", "=COPY", "=DEFAULT"]
        words += ["CREATE TABLE", "DROP TABLE", "TRUNCATE", "RENAME", "FOR EXPORT", "DISCARD", "IMPORT"]
        words += ["OPTIMIZE TABLE c0.d", "FTS_DOC_ID"]
        words += ["SPATIAL", "FULLTEXT", "PARTITION BY", "TABLESPACE g0", "COMPRESSED", "ENCRYPTION"]
        assert {step.kind for step in steps} == {"tx", "xa", "xa-back", "ddl"}
    for word in words:
        assert word in text


@pytest.mark.parametrize("client", [0, BUILDER])
def test_indexes_that_mysql_gets_wrong_are_built_only_on_request(client: int) -> None:
    planner, state = Planner(client, random.Random(3), list(VARIANTS)), opening_states()[client]
    built = set()
    for number in range(3000):
        step = planner.next(state, number)
        state.apply(step)
        built |= {op[2] for op in step.ops if op[0] == "index"}
        assert not any(op[2] == TEXT_INDEX for op in step.ops if op[0] == "index" and op[1] != TEXTS.get(client, [""])[0])
    assert built - {TEXT_INDEX} == INDEXES.keys() - UNSAFE_INDEXES
    assert (TEXT_INDEX in built) == (client in TEXTS)


def test_what_mysql_may_refuse_to_rebuild_in_place_is_not_forced() -> None:
    asked = set()
    for seed in range(12):
        planner = Planner(0, random.Random(seed), list(VARIANTS), all_indexes=True)
        state = opening_states()[0]
        for number in range(1000):
            step = planner.next(state, number)
            for op in step.ops:
                if op[0] == "rebuild":
                    asked.add((op[2], bool(state.tables[op[1]].indexes & {"f1", "g1"})))
            state.apply(step)
    assert asked == {("INPLACE", False), ("COPY", False), ("DEFAULT", True), ("COPY", True)}


def test_each_part_of_a_state_makes_a_difference() -> None:
    state = State(3, {"t0": Table("plain", 1, {"k1"}, {1: (2, 3)})}, {2: (1, 2, 3)}, {"u1"})
    assert describe_difference(state, state.copy()) == ""
    changes: list[dict[str, Any]] = [
        {"progress": 4}, {"tables": {}}, {"tables": {"t0": Table("hash", 1, {"k1"}, {1: (2, 3)})}},
        {"tables": {"t0": Table("plain", 2, {"k1"}, {1: (2, 3)})}}, {"tables": {"t0": Table("plain", 1, set(), {1: (2, 3)})}},
        {"tables": {"t0": Table("plain", 1, {"k1"}, {1: (2, 4)})}}, {"moves": {}}, {"undo": set()},
    ]  # fmt: skip
    for change in changes:
        assert describe_difference(state, dataclasses.replace(state.copy(), **change)) != "", change
