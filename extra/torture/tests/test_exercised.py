# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""What recoveries have met, and what is said of it."""

from __future__ import annotations

import pytest

from torture.exercised import EXERCISES, Exercise, Exercised, Met
from torture.life import Counts

START = "mysqld (mysqld 9.7.4) starting as process 7\n"
BATCH = "Applying a batch of 70 redo log records ...\n"
LEFT = "Redo recovery: 9 changed pages are left to the page cleaners, after 3 that the start needs in their files were written.\n"
READ = "Redo recovery: read 90 pages with 30 reads; 0 were in the buffer pool.\n"
USED = "Redo recovery: built 5 objects of indexes, used them again 900 times\n"


def test_logs_are_counted() -> None:
    found = Exercised()
    found.take(BATCH + START + BATCH, False)
    found.take(BATCH + READ + BATCH + READ.replace("; 0", "; 60") + USED, False)
    found.take(LEFT + LEFT.replace("9", "0") + BATCH, True)
    assert found.of("several batches") == Met(1, 140)
    assert found.of("pages left") == Met(1, 9)
    assert found.of("pages needed in files") == Met(1, 6)
    assert found.of("objects of indexes used again") == Met(1, 900)
    assert found.of("pages read by runs") == Met(1, 180)
    assert found.of("pages kept between batches") == Met(1, 60)
    assert str(found).startswith("of 3 recoveries, 1 of them with rollback: several batches in 1 (140), ")
    assert found.report()["pages left"] == {"recoveries": 1, "sum": 9}
    total = Counts()
    for _ in range(2):
        total.add(Counts(images=1, exercised=found, refusals=["no"]))
    assert (total.images, total.refusals, total.exercised.recoveries) == (2, ["no", "no"], {False: 4, True: 2})
    assert total.exercised.of("several batches") == Met(2, 280)


@pytest.mark.parametrize("exercise", [exercise for exercise in EXERCISES if exercise.many], ids=lambda exercise: exercise.name)
def test_what_is_never_met_is_a_problem(exercise: Exercise) -> None:
    found = Exercised()
    for _ in range(exercise.many - 1):
        found.take("", exercise.is_open)
    assert not [text for text in found.problems() if text.startswith(exercise.name)]
    found.take("", exercise.is_open)
    assert f"{exercise.name}: in 0 of {exercise.many} recoveries" in found.problems()
