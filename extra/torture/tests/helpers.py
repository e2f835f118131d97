# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Counts of a run that was not made, and a connection to no server."""

from __future__ import annotations

from collections import Counter
from typing import Any, Self

from torture.life import Counts
from torture.settings import SETTINGS


def counts_of(**given: Any) -> Counts:
    """Counts; NAME_starts and NAME_used are those of a setting, by the kind of crash."""
    starts: Counter[tuple[str, str]] = Counter()
    used: Counter[tuple[str, str]] = Counter()
    for setting in SETTINGS:
        for what, numbers in (("starts", starts), ("used", used)):
            for kind, number in given.pop(f"{setting.name}_{what}", {}).items():
                numbers[setting.name, kind] = number
    return Counts(starts=starts, used=used, **given)


class FakeConnection:
    """A connection that is its own cursor."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def cursor(self) -> Self:
        return self

    def close(self) -> None:
        pass
