# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Edits applied to the bytes of one file: pure functions, no trees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from .errors import LandingError
from .mask import is_balanced
from .model import Edit
from .ops import OPERATIONS, Side, Spot
from .source import CppSource, Source, open_source


@dataclass(frozen=True)
class Landing:
    """Where one edit lands in one version of upstream, or why it does not.

    lines: 1-based upstream lines before which the text goes, one for each match.
    anchor: the function or container it hangs on, '' for plain lines.
    reason: '' if it lands.
    """

    id: str
    feature: str
    path: str
    op: str
    place: str
    anchor: str = ""
    lines: tuple[int, ...] = ()
    reason: str = ""

    @property
    def ok(self) -> bool:
        return not self.reason

    def __str__(self) -> str:
        if self.reason:
            return f"{self.id}: {self.path}: {self.reason} ({self.op} at {self.place})"
        where = ",".join(map(str, self.lines))
        inside = f" in {self.anchor}" if self.anchor else ""
        return f"{self.id}: lands at {self.path}:{where}{inside}"


def find_spots(source: Source, edit: Edit) -> list[Spot]:
    """Where an edit's text goes; raises LandingError saying why it does not."""
    operation = OPERATIONS[edit.op]
    if operation.cpp and not isinstance(source, CppSource):
        raise LandingError(f"`{edit.op}` works on C++ files only")
    spots = operation.find(source, edit.inputs)
    if len(spots) != edit.count:
        lines = ", ".join(str(source.line_number(spot.offset)) for spot in spots)
        raise LandingError(f"{len(spots)} matches (lines {lines}), count says {edit.count}")
    for spot in spots:
        if _stands_in(source.data[slice(*spot.scope)], spot.text):
            raise LandingError("already applied: the text stands there")
    return spots


def landing(source: Source, edit: Edit) -> tuple[Landing, list[Spot]]:
    """An edit's landing and, if it is one, its spots."""
    base = Landing(edit.id, edit.feature, edit.path, edit.op, edit.place)
    try:
        spots = find_spots(source, edit)
    except LandingError as error:
        return replace(base, reason=str(error)), []
    lines = tuple(source.line_number(spot.offset) for spot in spots)
    return replace(base, anchor=spots[0].anchor, lines=lines), spots


def apply_text(path: str, data: bytes, edits: Sequence[Edit]) -> tuple[bytes, list[Landing]]:
    """Apply edits to the bytes of the file at `path`.

    All anchors are looked up in `data`. If any edit does not land, or the
    result no longer parses, the bytes come back as they were and the landings
    say why. Applying the edits feature by feature, in series order, gives the
    same bytes.
    """
    source = open_source(path, data)
    landings: list[Landing] = []
    placed: list[tuple[Edit, Spot]] = []
    for edit in edits:
        found, spots = landing(source, edit)
        landings.append(found)
        placed += [(edit, spot) for spot in spots]
    if not all(found.ok for found in landings):
        return data, landings
    result = _splice(data, placed)
    reason = _no_longer_parses(source, result)
    if reason:
        return data, [replace(found, reason=reason) for found in landings]
    return result, landings


def _rank(item: tuple[Edit, Spot]) -> tuple[int, int, int, int]:
    """Order of insertions: as if applied one after another in series order.

    A later feature stands nearer to its anchor.
    """
    edit, spot = item
    series, index = edit.order
    return (spot.offset, spot.side, series if spot.side == Side.BEFORE else -series, index)


def _splice(data: bytes, placed: list[tuple[Edit, Spot]]) -> bytes:
    """Insert all texts, and a comma wherever one or more of them need it."""
    inserts = [(spot.offset, spot.text) for _, spot in sorted(placed, key=_rank)]
    inserts += [(at, b",") for at in {spot.comma_at for _, spot in placed} if at is not None]
    inserts.sort(key=lambda insert: insert[0])  # stable: keeps the rank at one offset
    parts, done = [], 0
    for offset, text in inserts:
        parts += [data[done:offset], text]
        done = offset
    return b"".join([*parts, data[done:]])


def _stands_in(scope: bytes, text: bytes) -> bool:
    """Whether the lines of a text stand in a row in a scope, spacing aside."""
    wanted = [b"".join(line.split()) for line in text.splitlines() if line.strip()]
    held = [b"".join(line.split()) for line in scope.splitlines() if line.strip()]
    first, count = wanted[0], len(wanted)
    return any(
        held[i] == first and held[i : i + count] == wanted for i in range(len(held) - count + 1)
    )


def _no_longer_parses(source: Source, result: bytes) -> str:
    """Why the result is worse C++ than the source was, or ''."""
    if not isinstance(source, CppSource):
        return ""
    changed = open_source(source.path, result)
    assert isinstance(changed, CppSource)
    if is_balanced(source.view.code) and not is_balanced(changed.view.code):
        return "brackets of the result do not pair up"
    before, after = source.error_counts, changed.error_counts
    for name in sorted(before | after):
        if name.endswith("/") and after[name] < before[name]:
            return f"the result hides function `{name[:-1]}` from the parser"
        if not name.endswith("/") and after[name] > before[name]:
            return f"the result does not parse in function `{name}`"
    return ""
