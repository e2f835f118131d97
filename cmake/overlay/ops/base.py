# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""What all operations share: their register, spots, and text laid out for a spot."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from ..errors import LandingError
from ..mask import is_balanced, view
from ..source import CppSource, Source

Inputs = dict[str, Any]


class Side(IntEnum):
    """How text at an offset relates to its anchor; also the order at one offset."""

    AFTER = 0  # the anchor ends here
    BEFORE = 1  # the anchor begins here


@dataclass(frozen=True)
class Spot:
    """Where an edit puts its text.

    offset: in bytes; always the start of a line.
    text: whole lines, indented and with the line ends of the spot.
    anchor: name of what the edit hangs on: a function, an array; '' for plain lines.
    scope: byte offsets of the text that must not hold the edit already.
    comma_at: offset where a list needs a comma before `text`, if any.
    """

    offset: int
    text: bytes
    side: Side
    anchor: str
    scope: tuple[int, int]
    comma_at: int | None = None


Find = Callable[[Any, Inputs], list[Spot]]


@dataclass(frozen=True)
class Operation:
    """A named operation: its function and the JSON schema of its inputs."""

    name: str
    find: Find
    properties: dict[str, Any]
    required: tuple[str, ...]
    cpp: bool


OPERATIONS: dict[str, Operation] = {}

END = r"$(?!\n)"  # the end of a pattern, in Python as in JavaScript
LINE = {"type": "string", "minLength": 1, "pattern": rf"^[^\r\n]+{END}"}
FLAG = {"type": "boolean"}
TEXT = {"type": "string", "pattern": r"\S"}
FUNCTION = {
    "function": LINE,
    "signature": {"type": "array", "items": LINE, "minItems": 1},
}


def operation(
    properties: dict[str, Any], *required: str, cpp: bool = True
) -> Callable[[Find], Find]:
    """Register a function as the operation of its name.

    properties: JSON schema of each input, `text` aside, which all have.
    required: inputs that must be given, besides `text`.
    cpp: whether it works on parsed C++ (CppSource) or on any text (Source).
    """

    def register(find: Find) -> Find:
        OPERATIONS[find.__name__] = Operation(
            find.__name__, find, {"text": TEXT, **properties}, ("text", *required), cpp
        )
        return find

    return register


def lay_out(source: Source, offset: int, text: str, indent: bytes) -> bytes:
    """Text as whole lines with the indent and line end in use at an offset.

    Preprocessor lines of C++ stay at the left margin, blank lines empty.
    """
    eol = source.eol(offset)
    lines = textwrap.dedent(text).removesuffix("\n").split("\n")
    margin = isinstance(source, CppSource)
    return b"".join(
        (b"" if not line or (margin and line.startswith("#")) else indent)
        + line.encode("utf-8")
        + eol
        for line in (line.rstrip() for line in lines)
    )


def require_whole(text: str) -> None:
    """Raise LandingError unless text is whole statements."""
    code = view(text.encode("utf-8")).code
    if not is_balanced(code):
        raise LandingError("brackets in `text` do not pair up")
    if code.strip() and not code.rstrip().endswith((";", "}")):
        raise LandingError("`text` ends in the middle of a statement")
