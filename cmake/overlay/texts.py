# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Whether the C++ that edits insert is little, and as the code around it.

Formatters and linters do not see YAML. How clang-format would write the lines is checked with the patches (patches.py);
here is what needs no such tool, and what it does not ask.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path

from . import model, yamlfile
from .errors import OverlayError
from .mask import view
from .model import Edit
from .source import is_cpp, open_source
from .splice import landing

BUDGET = "cmake/budget.yaml"
COLUMNS = 80
SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": ["lines", "long"],
    "properties": {
        "lines": {"type": "integer", "minimum": 1},
        "long": {"type": "object", "additionalProperties": {"type": "string", "minLength": 20}},
    },
}


def faults(repo: Path, upstream: Path, version: str) -> list[str]:
    """What is wrong with the C++ that edits insert, one line each."""
    limits = yamlfile.load(repo / BUDGET, BUDGET).value["edit"]
    edits = [edit.at(version) for edit in model.load(repo).edits]
    edits = [edit for edit in edits if is_cpp(edit.path)]
    found = [f"{edit.place}: {edit.id}: {fault}" for edit in edits for fault in _faults(edit, upstream)]
    lengths = {edit.id: len(_lines(edit)) for edit in edits}
    for edit in edits:
        if lengths[edit.id] > limits["lines"] and edit.id not in limits["long"]:
            found.append(
                f"{edit.place}: {edit.id}: inserts {lengths[edit.id]} lines, {BUDGET} allows {limits['lines']}: "
                "logic belongs into our own files"
            )
    for name in limits["long"]:
        if lengths.get(name, 0) <= limits["lines"]:
            found.append(f"{BUDGET}: no edit `{name}` that is longer than {limits['lines']} lines")
    return found


def _lines(edit: Edit) -> list[str]:
    return textwrap.dedent(str(edit.inputs["text"])).rstrip("\n").split("\n")


def _faults(edit: Edit, upstream: Path) -> Iterator[str]:
    lines = _lines(edit)
    if any(not line.strip() for line in lines):
        yield "inserts a blank line"
    if any(line != line.rstrip() or "\t" in line for line in lines):
        yield "has a tab, or white space at the end of a line"
    if view("\n".join(lines).encode("utf-8")).comments:
        yield "inserts a comment: `why` is the place for it"
    try:
        data = (upstream / edit.path).read_bytes()
    except OSError as error:
        raise OverlayError(f"{edit.place}: no such upstream file ({error.strerror})") from error
    for spot in landing(open_source(edit.path, data), edit)[1]:
        for line in spot.text.decode("utf-8").splitlines():
            if len(line) > COLUMNS:
                yield f"makes a line of {len(line)} columns, {COLUMNS} are the most: {line.strip()}"
