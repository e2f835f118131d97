# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The rounds of an experiment: each case is measured once in each, so that what changes with time falls on all alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from bench.context import Context
from bench.results import Run
from bench.starts import new_run

Item = TypeVar("Item")


@dataclass(frozen=True)
class Case(Generic[Item]):
    """What is measured once in a round, and what its record says of it; `detail` is for the display alone."""

    item: Item
    subject: str
    mode: str
    parameters: dict[str, Any]
    detail: str = ""


def rounds(
    context: Context, experiment: str, cases: Sequence[Case[Item]], in_words: Callable[[Run], str]
) -> Iterator[tuple[Item, Run]]:
    """Each item with a record to be filled, round after round.

    When the next is asked for, the record is added to the document, and `in_words` says how it went, unless it went wrong.
    """
    task = context.ui.begin(experiment, context.rounds * len(cases))
    for number in range(1, context.rounds + 1):
        for case in cases:
            words = ", ".join(filter(None, (case.subject, case.mode, case.detail)))
            context.ui.update(task, f"round {number}/{context.rounds}: {words}")
            run = new_run(experiment, case.subject, case.mode, number, case.parameters)
            yield case.item, run
            context.finish(run, in_words(run) if run.ok else "")
            context.ui.update(task, advance=1)
    context.ui.end(task)
