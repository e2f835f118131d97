# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The skips that are expected, extra/redstart_cli/skips.yaml, against those that happened."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from overlay import yamlfile
from overlay.errors import OverlayError
from redstart_cli.console import RedstartError, say
from redstart_cli.layout import PRESETS
from redstart_cli.result import Level, Skip

LIST = "extra/redstart_cli/skips.yaml"
_USERS = ("root", "user")
_TEXT = {"type": "string", "minLength": 1}
_SCHEMA: dict[str, Any] = {
    "type": "array",
    "items": {
        "type": "object",
        "additionalProperties": False,
        "required": ["level", "test", "says", "why", "feature"],
        "properties": {
            **dict.fromkeys(("level", "test", "says", "why", "feature"), _TEXT),
            "presets": {"type": "array", "minItems": 1, "uniqueItems": True, "items": {"enum": list(PRESETS)}},
            "user": {"enum": list(_USERS)},
            "machine": {"const": True},
        },
    },
}


@dataclass(frozen=True)
class Expected:
    """One skip of one test that is no failure."""

    level: str
    test: str
    # Part of the reason that the test's runner gives.
    says: str
    why: str
    # A feature of cmake/series.yaml, or "tools".
    feature: str
    presets: tuple[str, ...]
    users: tuple[str, ...]
    # The machine decides; otherwise the test has to be skipped.
    machine: bool = False

    def allows(self, skip: Skip) -> bool:
        return self.test == skip.test and self.says in skip.reason


def read(path: Path) -> list[Expected]:
    """The entries of the list; RedstartError if it cannot be read or says something twice."""
    try:
        document = yamlfile.load(path, LIST)
        document.validate(_SCHEMA)
        found: list[Expected] = []
        for number, item in enumerate(document.value):
            presets, users = tuple(item.pop("presets", PRESETS)), item.pop("user", None)
            entry = Expected(**item, presets=presets, users=(users,) if users else _USERS)
            for other in found:
                if (
                    (other.level, other.test) == (entry.level, entry.test)
                    and set(other.presets) & set(entry.presets)
                    and set(other.users) & set(entry.users)
                ):
                    raise document.error((number,), f"{entry.test} of {entry.level} is listed twice")
            found.append(entry)
        return found
    except OverlayError as problem:
        raise RedstartError(str(problem)) from problem


def check(expected: list[Expected], level: Level, name: str, preset: str, is_root: bool) -> None:
    """Turn each skip of the whole level `name` that is not listed, and each listed one that is missing, into a failure.

    An entry for some machines only may be missing.
    """
    user = "root" if is_root else "user"
    due = [entry for entry in expected if entry.level == name and preset in entry.presets and user in entry.users]
    for skip in level.skips:
        if skip.is_listed:
            continue
        entry = next((entry for entry in due if entry.allows(skip)), None)
        if entry is None:
            level.fail(f"{skip.test} was skipped and {LIST} does not allow it: {skip.reason}")
        else:
            # An entry is for one skip.
            due.remove(entry)
    for entry in due:
        if not entry.machine:
            level.fail(f"{entry.test} stands in {LIST} and was not skipped with {entry.says!r}")


def describe(level: Level) -> None:
    """Say what was skipped, by reason."""
    tests: dict[str, list[str]] = defaultdict(list)
    for skip in level.skips:
        tests[skip.reason].append(skip.test)
    for reason, names in tests.items():
        say(f"  skipped, {len(names)}: {', '.join(names)}: {reason}")
