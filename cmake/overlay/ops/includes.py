# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Operations on include directives."""

from __future__ import annotations

import re

from ..errors import LandingError
from ..source import CppSource
from .base import LINE, Inputs, Side, Spot, lay_out, operation


@operation({"header": LINE}, "header")
def after_include(source: CppSource, inputs: Inputs) -> list[Spot]:
    """Insert lines after the line that includes `header`, named without quotes."""
    header = re.escape(inputs["header"])
    wanted = re.compile(rf'\s*#\s*include\s*["<]{header}[">]'.encode())
    spots = []
    for start, end in source.view.directives:
        if wanted.match(source.data, start, end) and not source.view.is_dead(start):
            text = lay_out(source, start, inputs["text"], b"")
            anchor = f"#include {inputs['header']}"
            spots.append(
                Spot(source.line_end(end), text, Side.AFTER, anchor, (0, len(source.data)))
            )
    if not spots:
        raise LandingError(f"`{inputs['header']}` is not included")
    return spots
