# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Reading ninja's output: which step it is at, and what a step costs."""

from __future__ import annotations

import re
from dataclasses import dataclass

_STEP = re.compile(r"^\[(\d+)/(\d+)\] (.*)$")

# Relative cost of a step, by its description; the first match counts. Measured on a cold build with
# precompiled headers, one unit = a small C++ file; only the estimate depends on it.
_COSTS = [
    (re.compile(r"cmake_pch\.hxx"), 20.0),
    (re.compile(r"/unity_\d+\."), 5.0),
    (re.compile(r"Building CXX object (sql|plugin|unittest|storage/(innobase|perfschema|temptable))/"), 2.5),
    (re.compile(r"Building CXX object "), 1.0),
    (re.compile(r"Building C object |Linking "), 0.3),
]
_OTHER_COST = 0.1


@dataclass(frozen=True)
class Step:
    """One finished step: its number, how many there are, what it did."""

    number: int
    count: int
    description: str


def parse_step(line: str) -> Step | None:
    """The step of a line of ninja's output; None for any other line."""
    match = _STEP.match(line)
    return Step(int(match[1]), int(match[2]), match[3]) if match else None


def cost(description: str) -> float:
    """Relative cost of a step."""
    return next((seconds for pattern, seconds in _COSTS if pattern.search(description)), _OTHER_COST)


def programs(targets: str) -> list[str]:
    """Programs and plugins among what `ninja -t targets all` lists; unit tests left out, some of which do not link beside unity
    sources."""
    found = re.findall(r"^((?:plugin|runtime)_output_directory/[^/:\n]+):", targets, re.MULTILINE)
    return sorted({path for path in found if not path.endswith("-t")})


def planned_cost(dry_run_output: str) -> float:
    """Cost of all steps that `ninja -n` lists; 0 when there is nothing to do."""
    steps = (parse_step(line) for line in dry_run_output.splitlines())
    return sum(cost(step.description) for step in steps if step is not None)
