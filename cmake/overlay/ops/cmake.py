# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Operations on CMake lists."""

from __future__ import annotations

import re

from ..errors import LandingError
from ..mask import close_of, one_char_per_byte
from ..source import Source
from .base import LINE, Inputs, Side, Spot, lay_out, operation

_TRIVIA = re.compile(r'#\[(?P<eq>=*)\[.*?\](?P=eq)\]|#[^\n]*|"(?:\\.|[^"\\])*"', re.DOTALL)
_NOT_NEWLINE = re.compile(r"[^\r\n]")


@operation({"list": LINE}, "list", cpp=False)
def add_cmake_source(source: Source, inputs: Inputs) -> list[Spot]:
    """Add an entry, on a line of its own, to the end of a CMake list.

    `list` is a variable, `TESTS` for `SET(TESTS ...)`, or how another command
    begins, `ADD_LIBRARY(vio`. When the last entry shares its line with the
    closing parenthesis, the new entry goes on the line before: no byte of
    that line changes.
    """
    code = _TRIVIA.sub(lambda m: _NOT_NEWLINE.sub(" ", m[0]), one_char_per_byte(source.data))
    head = inputs["list"] if "(" in inputs["list"] else f"SET({inputs['list']}"
    words = [re.escape(word) for word in re.findall(r"[\w.-]+|\S", head)]
    begin = re.compile(
        r"^[ \t]*" + r"\s*".join(words) + r"(?![\w.-])", re.MULTILINE | re.IGNORECASE
    )
    spots = []
    for match in begin.finditer(code):
        close = close_of(code, match.start())
        entries = [match.end() + m.start() for m in re.finditer(r"\S+", code[match.end() : close])]
        if not entries or code[close] != ")":
            raise LandingError(f"`{inputs['list']}` has no entries")
        last = entries[-1]
        at = source.line_start(close if source.starts_line(close) else last)
        if at <= match.end() or not source.starts_line(last):
            raise LandingError(f"the last entry of `{inputs['list']}` is not on a line of its own")
        text = lay_out(source, at, inputs["text"], source.indent(last))
        spots.append(Spot(at, text, Side.BEFORE, inputs["list"], (match.start(), close)))
    if not spots:
        raise LandingError(f"no list begins with `{inputs['list']}`")
    return spots
