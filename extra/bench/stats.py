# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Median, minimum, maximum, percentiles and ratios of repeated measurements."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Summary:
    """What is said about one figure measured several times."""

    median: float
    minimum: float
    maximum: float
    count: int


def summarize(values: Sequence[float]) -> Summary | None:
    """Summary of the values, or None if there are none."""
    if not values:
        return None
    return Summary(statistics.median(values), min(values), max(values), len(values))


def percentile(values: Sequence[float], percent: float) -> float:
    """The least of the values that so many percent of them do not exceed (nearest rank)."""
    return sorted(values)[max(0, math.ceil(len(values) * percent / 100) - 1)]


def ratio(value: float | None, base: float | None) -> float | None:
    """How many times faster than the base: base / value; None where it has no meaning."""
    if value is None or base is None or value <= 0:
        return None
    return base / value
