# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The rounds of an experiment."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from bench.context import Context
from bench.rounds import Case, rounds


def test_each_case_is_measured_once_a_round() -> None:
    said: list[Any] = []
    ui = SimpleNamespace(
        begin=lambda title, total: said.append((title, total)),
        update=lambda task, text="", advance=0: said.append(text or advance),
        end=lambda task: said.append("end"),
    )
    context = SimpleNamespace(ui=ui, rounds=2, finish=lambda run, text: said.append((run.subject, run.round, text)))
    cases = [Case(number, f"s{number}", "cold", {"rows": 7}, "16 MiB") for number in (1, 2)]
    for item, run in rounds(cast(Context, context), "pool", cases, lambda run: f"{run.metrics['x']} done"):
        assert (run.experiment, run.mode, run.parameters) == ("pool", "cold", {"rows": 7, "log_bin": "on"})
        if (item, run.round) == (2, 1):
            # Without metrics; there is nothing to be said of it.
            run.problems.append("died")
        else:
            run.metrics["x"] = item
    assert said == [
        ("pool", 4),
        "round 1/2: s1, cold, 16 MiB", ("s1", 1, "1 done"), 1,
        "round 1/2: s2, cold, 16 MiB", ("s2", 1, ""), 1,
        "round 2/2: s1, cold, 16 MiB", ("s1", 2, "1 done"), 1,
        "round 2/2: s2, cold, 16 MiB", ("s2", 2, "2 done"), 1,
        "end",
    ]  # fmt: skip
