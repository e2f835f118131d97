# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""A canary counts as found if what it loses was noticed, not if anything else went wrong."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from torture import canaries
from torture.life import Rig

LOSES = canaries.Canary("loses", "kill")
DAMAGES = canaries.Canary("damages", "kill", must_lose=False)
# What is said in these tests is "it is wrong".
SAYS = canaries.Canary("says", "kill", must_lose=False, said=re.compile("is wrong"))
SAYS_ELSE = canaries.Canary("says something else", "kill", must_lose=False, said=re.compile("is lost"))


@pytest.mark.parametrize(
    ("canary", "acknowledged", "lost", "wrong", "expected"),
    [
        (LOSES, 5, 1, 0, True),
        (LOSES, 5, 0, 0, False),
        (LOSES, 5, 0, 1, False),
        (LOSES, 0, 1, 0, False),
        (DAMAGES, 5, 0, 1, True),
        (DAMAGES, 5, 0, 0, False),
        (DAMAGES, 0, 0, 1, False),
        (SAYS, 5, 0, 1, True),
        (SAYS, 5, 1, 0, False),
        (SAYS_ELSE, 5, 1, 1, False),
    ],
)
def test_what_counts_as_found(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    canary: canaries.Canary,
    acknowledged: int,
    lost: int,
    wrong: int,
    expected: bool,
) -> None:
    class Life:
        def __init__(self, rig: Rig, seed: int) -> None:
            assert rig.is_canary
            self.counts = rig.counts

        def run(self, end: float, cycles: int) -> bool:
            self.counts.acknowledged, self.counts.lost, self.counts.wrong = acknowledged, lost, wrong
            self.counts.said = ["it is wrong"] * wrong
            return not lost and not wrong

    monkeypatch.setattr(canaries, "KillLife", Life)
    monkeypatch.setattr(canaries, "LIMIT_SEC", 0.0)
    rig = Rig({}, "ours", tmp_path, [])
    assert canaries.is_found(canary, rig, 1) is expected
    # What a canary loses is not counted as lost.
    assert rig.counts.lost == rig.counts.wrong == rig.counts.acknowledged == 0


@pytest.mark.parametrize(
    ("said", "is_found"),
    [
        ("rebuilt.t: index PRIMARY holds 0 rows of 8000, 0 of them right", True),
        ("CHECK TABLE rebuilt.t: Corrupt", True),
        ("the oracle was not answered: (2013, 'Lost'): [ERROR] In pages 1 and 2 of index `a` of table `rebuilt`.`t` |", True),
        ("ours ended with 2 at its start: [ERROR] Page of ./rebuilt/t.ibd is corrupt", True),
        # Of a server that was not cut, or for another reason.
        ("rebuild: (1114, \"The table 'rebuilt/t' is full\")", False),
        ("ours ended with 1 at its start: [ERROR] Could not find any file associated with the tablespace ID: 43", False),
        ("the oracle was not answered: (2013, 'Lost'): [ERROR] of table `c1`.`t`", False),
    ],
)
def test_a_rebuilt_table_is_found_by_what_is_said_of_it(said: str, is_found: bool) -> None:
    (canary,) = [canary for canary in canaries.CANARIES if canary.rebuilds]
    assert canary.said is not None
    assert bool(canary.said.search(said)) == is_found
