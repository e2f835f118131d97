# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""A run that shows nothing has failed."""

from __future__ import annotations

from collections import Counter

import pytest

from binlog_check.__main__ import _N_ROWS, _PREPARED, CANARIES, Check, Found, Report, _is_large_lost
from binlog_check.images import LARGE_ROWS

_FOUND: dict[str, int | None] = dict.fromkeys(CANARIES, 1)


def report(**changes: object) -> Report:
    values: dict[str, object] = {
        "cases": Counter(whole=12, torn=2, damaged=2, noted=2, stale=2), "with_stock": 7, "skipping": 5, "could_skip": 6,
        "canaries": _FOUND, "checkpoints": 3, "could_checkpoint": 3, "noted": 2, "could_note": 2, "replicas": 1,
    }  # fmt: skip
    made = Report(1)
    for name, value in (values | changes).items():
        setattr(made, name, value)
    return made


def test_a_good_run() -> None:
    assert report().problems() == []
    assert report(skipping=1, could_skip=2).problems() == []
    # The last transaction of a file may be the only one that could be moved over.
    assert report(cases=report().cases | Counter(cut=200), every_byte=1, cuts=200, could_cut=300, cuts_jumping=9).problems() == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"differences": 1}, "1 cases differ"),
        ({"with_stock": 0}, "no case was shown to stock"),
        ({"skipping": 0, "could_skip": 0}, "moved over in 0 of 16 cases only"),
        ({"skipping": 2}, "moved over in 2 of 16 cases only"),
        (
            {"cases": Counter(whole=78, torn=1, damaged=1, stale=1), "skipping": 13, "could_skip": 20},
            "moved over in 13 of 80 cases only",
        ),
        ({"cases": Counter(whole=12, torn=2, damaged=2, noted=2, stale=2, cut=99), "skipping": 12, "could_skip": 20,
          "cuts_skipping": 12, "cuts": 99, "could_cut": 99}, "moved over in 0 of 16 cases only"),
        ({"every_byte": 1, "could_cut": 9}, "torn at 0 of 9 places, and nothing"),
        ({"every_byte": 1, "cuts": 7, "could_cut": 9}, "torn at 7 of 9 places, and nothing"),
        ({"errors": 1}, "1 binary logs could not be made"),
        ({"refused": 6}, "in 6 of 20 cases the server did not start"),
        ({"noted": 1}, "taken from the note in 1 of 2 cases only"),
        ({"noted": 0, "could_note": 0}, "taken from the note in 0 of 0 cases only"),
        ({"checkpoints": 2}, "2 of 3 starts only have relied on a checkpoint"),
        ({"checkpoints": 0, "could_checkpoint": 0}, "0 of 0 starts only have relied on a checkpoint"),
        ({"wrongly_noted": 1}, "in 1 cases they were, though"),
        ({"cases": Counter(whole=15, damaged=1, noted=2, stale=2)}, "no case was torn"),
        ({"cases": Counter(whole=15, torn=1, noted=2, stale=2)}, "no case was damaged"),
        ({"cases": Counter(whole=18, torn=1, damaged=1)}, "0 stale notes and 1 replicas are too few"),
        ({"replicas": 0}, "2 stale notes and 0 replicas are too few"),
        ({"restart_problems": ["restart 3: lost"]}, "restart 3: lost"),
        ({"failing": ["sync that fails (close): all is noted"]}, "sync that fails (close)"),
        ({"canaries": _FOUND | {"lying_note": None}}, "the canary lying_note was not found"),
    ],
)
def test_a_run_that_shows_nothing(changes: dict[str, object], said: str) -> None:
    (problem,) = report(**changes).problems()
    assert said in problem


def found(n_rows: int, n_skipped: int, is_prepared: bool = True) -> Found:
    return Found(["0"] * _N_ROWS + [f"{n_rows}\n", f"[Note] {_PREPARED}" if is_prepared else ""], n_skipped)


def test_a_large_transaction_is_lost_only_if_it_is_committed_otherwise() -> None:
    lost, jumps, events = found(3, 4), found(LARGE_ROWS + 3, 4), found(LARGE_ROWS + 3, 0)
    assert _is_large_lost(lost, [jumps, events], 4)
    assert not _is_large_lost(jumps, [jumps, events], 4)
    # Nothing was moved over in one of the passes, or it was committed before the server was killed.
    assert not _is_large_lost(lost, [found(LARGE_ROWS + 3, 2), events], 4)
    assert not _is_large_lost(lost, [jumps, found(LARGE_ROWS + 3, 0, is_prepared=False)], 4)
    # A start without the planted fault rolls it back, too.
    assert not _is_large_lost(lost, [lost, lost], 4)
    assert not _is_large_lost(lost, [jumps, Found(["refused"])], 4)


def test_an_error_in_one_image_is_a_failure_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Check, seed: int, name: str) -> None:
        raise RuntimeError(f"{name}: no server")

    monkeypatch.setattr(Check, "image", fail)
    check = Check(None, seed=1, seconds=0, every_byte=0)  # type: ignore[arg-type]
    check.one_image(1)
    check.one_image(2)
    assert check.report.errors == 2
