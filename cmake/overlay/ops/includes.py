# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Operations on include directives."""

from __future__ import annotations

import re

from ..errors import LandingError
from ..source import CppSource
from .base import LINE, Inputs, Side, Spot, lay_out, operation


def _beside_include(source: CppSource, inputs: Inputs, side: Side) -> list[Spot]:
    header = re.escape(inputs["header"])
    wanted = re.compile(rf'\s*#\s*include\s*["<]{header}[">]'.encode())
    spots = []
    for start, end in source.view.directives:
        if wanted.match(source.data, start, end) and not source.view.is_dead(start):
            text = lay_out(source, start, inputs["text"], b"")
            anchor = f"#include {inputs['header']}"
            offset = source.line_end(end) if side == Side.AFTER else source.line_start(start)
            spots.append(Spot(offset, text, side, anchor, (0, len(source.data))))
    if not spots:
        raise LandingError(f"`{inputs['header']}` is not included")
    return spots


@operation({"header": LINE}, "header")
def after_include(source: CppSource, inputs: Inputs) -> list[Spot]:
    """Insert lines after the line that includes `header`, named without quotes."""
    return _beside_include(source, inputs, Side.AFTER)


@operation({"header": LINE}, "header")
def before_include(source: CppSource, inputs: Inputs) -> list[Spot]:
    """Insert lines before the line that includes `header`, named without quotes.

    For a header that sorts before all others of its block, or after the one that an earlier
    feature has put there.
    """
    return _beside_include(source, inputs, Side.BEFORE)
