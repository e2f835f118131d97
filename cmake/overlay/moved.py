# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Where what an edit hangs on went, in a release in which the edit does not land.

Hints for a person to judge; nothing is applied on the strength of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path, PurePosixPath

from .errors import LandingError
from .model import Edit
from .source import CPP_SUFFIXES, CppSource, squeeze
from .splice import find_spots

_MOST_FILES = 60
_MOST_HINTS = 3


def hints(upstream: Path, edit: Edit) -> list[str]:
    """Places where the edit would land, or where its function or file went; [] if none is found."""
    function = edit.inputs.get("function")
    if function is not None:
        return _functions(upstream, edit, squeeze(function))
    found = [f"a file of this name is {path}" for path in _namesakes(upstream, edit.path)]
    name = edit.inputs.get("name")
    if name is not None:
        found += _definitions(upstream, edit, squeeze(name))
    return found[:_MOST_HINTS]


def _functions(upstream: Path, edit: Edit, function: str) -> list[str]:
    """Functions of the same name, perhaps of another class: first those with the edit's place in them."""
    last = function.rsplit("::", 1)[-1]
    landing, named = [], []
    for source in _sources(upstream, edit, last):
        for found in source.functions:
            name = re.sub(r"<.*>", "", found.name)
            if name.rsplit("::", 1)[-1] != last:
                continue
            where = f"{source.path}:{source.line_number(found.start)}"
            there = replace(edit, path=source.path, inputs=edit.inputs | {"function": found.name})
            try:
                line = source.line_number(find_spots(source, there)[0].offset)
                landing.append(f"would land at {source.path}:{line} in {found.name}")
            except LandingError as reason:
                if name == function or name.endswith("::" + function):
                    named.append(f"the function is at {where} now, but: {reason}")
    return list(dict.fromkeys(landing + named))[:_MOST_HINTS]


def _definitions(upstream: Path, edit: Edit, name: str) -> Iterator[str]:
    for source in _sources(upstream, edit, name):
        if source.path != edit.path:
            try:
                spot = find_spots(source, replace(edit, path=source.path))[0]
                yield f"would land at {source.path}:{source.line_number(spot.offset)}"
            except LandingError:
                continue


def _area(path: str) -> str:
    """The part of the tree in which code moves about: storage/innobase, sql ..."""
    parts = PurePosixPath(path).parts
    return "/".join(parts[:2] if parts[0] in ("storage", "plugin", "unittest") else parts[:1])


def _files(upstream: Path, path: str) -> Iterator[Path]:
    yield from sorted(file for file in (upstream / _area(path)).rglob("*") if file.is_file())


def _namesakes(upstream: Path, path: str) -> list[str]:
    if (upstream / path).exists():
        return []
    name = PurePosixPath(path).name
    if name == "CMakeLists.txt":
        return []
    return [str(f.relative_to(upstream)) for f in _files(upstream, path) if f.name == name]


def _sources(upstream: Path, edit: Edit, name: str) -> Iterator[CppSource]:
    """C++ files in which a line at the left margin may begin a definition of a name."""
    pattern = re.compile(rb"^\w[^;\n]*\b" + re.escape(name.encode("utf-8")) + rb"\b", re.MULTILINE)
    count = 0
    for file in _files(upstream, edit.path):
        if file.suffix in CPP_SUFFIXES and count < _MOST_FILES:
            data = file.read_bytes()
            if pattern.search(data):
                count += 1
                yield CppSource(str(file.relative_to(upstream)), data)
