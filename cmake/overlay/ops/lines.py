# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Operations on plain lines: test results, lists, configuration."""

from __future__ import annotations

import re

from ..errors import LandingError
from ..source import Source
from .base import LINE, Inputs, Side, Spot, operation

_LINE = re.compile(rb"([^\n]*?)\r?(?:\n|\Z)")


@operation({"line": LINE}, "line", cpp=False)
def insert_line_after(source: Source, inputs: Inputs) -> list[Spot]:
    """Insert lines, as they are, after a line equal to `line`."""
    line = inputs["line"].encode("utf-8")
    spots = []
    for start, end in (match.span() for match in _LINE.finditer(source.data) if match[1] == line):
        eol = source.eol(start)
        lines = inputs["text"].removesuffix("\n").split("\n")
        text = b"".join(new.encode("utf-8") + eol for new in lines)
        if not source.data[start:end].endswith(b"\n"):
            raise LandingError(f"line `{inputs['line']}` has no line end")
        spots.append(Spot(end, text, Side.AFTER, "", (end, end + len(text))))
    if not spots:
        raise LandingError(f"no line `{inputs['line']}`")
    return spots
