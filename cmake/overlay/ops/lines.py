# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Operations on plain lines: test results, lists, configuration."""

from __future__ import annotations

import re

from ..errors import LandingError
from ..source import Source
from .base import LINE, Inputs, Side, Spot, operation

_LINE = re.compile(rb"([^\n]*?)\r?(?:\n|\Z)")


def _lines(source: Source, inputs: Inputs) -> list[tuple[int, int]]:
    """Start and end of each line equal to `line`.

    With `context`, only of the first one below each line equal to that.
    """
    line = inputs["line"].encode("utf-8")
    context = inputs["context"].encode("utf-8") if "context" in inputs else None
    found, armed = [], context is None
    for match in _LINE.finditer(source.data):
        if armed and match[1] == line:
            found.append(match.span())
            armed = context is None
        if context is not None and match[1] == context:
            armed = True
    if not found:
        where = f" below `{inputs['context']}`" if context is not None else ""
        raise LandingError(f"no line `{inputs['line']}`{where}")
    return found


def _text(source: Source, offset: int, inputs: Inputs) -> bytes:
    """The text as it is given, with the line ends of the spot."""
    eol = source.eol(offset)
    lines = inputs["text"].removesuffix("\n").split("\n")
    return b"".join(line.encode("utf-8") + eol for line in lines)


@operation({"line": LINE, "context": LINE}, "line", cpp=False)
def insert_line_after(source: Source, inputs: Inputs) -> list[Spot]:
    """Insert lines, as they are, after a line equal to `line`."""
    spots = []
    for start, end in _lines(source, inputs):
        text = _text(source, start, inputs)
        scope = (end, end + len(text))
        if not source.data[start:end].endswith(b"\n"):
            raise LandingError(f"line `{inputs['line']}` has no line end")
        spots.append(Spot(end, text, Side.AFTER, "", scope))
    return spots


@operation({"line": LINE, "context": LINE}, "line", cpp=False)
def insert_line_before(source: Source, inputs: Inputs) -> list[Spot]:
    """Insert lines, as they are, before a line equal to `line`."""
    spots = []
    for start, _ in _lines(source, inputs):
        text = _text(source, start, inputs)
        scope = (max(start - len(text), 0), start)
        spots.append(Spot(start, text, Side.BEFORE, "", scope))
    return spots
