# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""What the source tree is to hold: computed in memory, nothing is written."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from pathlib import Path

from .errors import OverlayError, OverlayErrors
from .model import Edit, Overlay
from .splice import Landing, apply_text

_VERSION = re.compile(r"^MYSQL_VERSION_(MAJOR|MINOR|PATCH)=(\d+)", re.MULTILINE)


@dataclass(frozen=True)
class Plan:
    """The files in which the source tree differs from the pristine one.

    edited: upstream path to its new bytes. own: path to the file in the repository.
    conflicts: paths of own files that upstream has too.
    """

    edited: dict[str, bytes] = field(default_factory=dict)
    own: dict[str, Path] = field(default_factory=dict)
    landings: list[Landing] = field(default_factory=list)
    conflicts: list[str] = field(default_factory=list)

    @property
    def problems(self) -> list[str]:
        """Why the plan cannot be carried out, one line each; [] if it can."""
        taken = [f"{path}: upstream has a file of this path" for path in self.conflicts]
        return [str(found) for found in self.landings if not found.ok] + taken

    @cached_property
    def contents(self) -> dict[str, bytes]:
        """Bytes of all these files by path."""
        return self.edited | {path: file.read_bytes() for path, file in self.own.items()}


def upstream_version(upstream: Path) -> str:
    """Version that an upstream tree says it is, `9.7.4`; raises OverlayError."""
    try:
        text = (upstream / "MYSQL_VERSION").read_text(encoding="utf-8")
    except OSError as error:
        raise OverlayError(f"{upstream} is not a MySQL source tree: {error}") from error
    numbers = dict(_VERSION.findall(text))
    if len(numbers) != 3:
        raise OverlayError(f"{upstream}/MYSQL_VERSION does not name a version")
    return f"{numbers['MAJOR']}.{numbers['MINOR']}.{numbers['PATCH']}"


def require_version(upstream: Path, version: str) -> None:
    """Raise OverlayError unless an upstream tree is of a version."""
    found = upstream_version(upstream)
    if found != version:
        raise OverlayError(f"{upstream} is MySQL {found}, not {version}")


def survey(
    overlay: Overlay, upstream: Path, version: str, features: list[str] | None = None
) -> Plan:
    """Look up every edit for the version; what does not fit is in the plan."""
    chosen = overlay.chosen(features)
    edits = [e.at(version) for e in overlay.edits if e.feature in chosen]
    plan = Plan()
    by_path = sorted(edits, key=lambda edit: edit.path)
    for path, group in groupby(by_path, key=lambda edit: edit.path):
        result, landings = _edit_file(path, upstream, list(group))
        plan.landings.extend(landings)
        if result is not None:
            plan.edited[path] = result
    for path, feature in overlay.own_files.items():
        if feature in chosen:
            plan.own[path] = overlay.repo / path
            if (upstream / path).exists():
                plan.conflicts.append(path)
    return plan


def make_plan(
    overlay: Overlay, upstream: Path, version: str, features: list[str] | None = None
) -> Plan:
    """As survey; raises OverlayErrors when an edit does not land, or an own
    file has the path of an upstream file."""
    plan = survey(overlay, upstream, version, features)
    if plan.problems:
        raise OverlayErrors([OverlayError(problem) for problem in plan.problems])
    return plan


def _edit_file(path: str, upstream: Path, edits: list[Edit]) -> tuple[bytes | None, list[Landing]]:
    """The edited bytes of a file, or None, and the landing of each edit."""
    try:
        data = (upstream / path).read_bytes()
    except OSError as error:
        reason = f"no such upstream file ({error.strerror})"
        return None, [
            Landing(edit.id, edit.feature, path, edit.op, edit.place, reason=reason)
            for edit in edits
        ]
    result, landings = apply_text(path, data, edits)
    return (result if all(found.ok for found in landings) else None), landings
