# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Proof that no file of ours repeats upstream text.

Lines are compared without white space and without comment marks at their
ends. Trivial lines (nothing but punctuation, or a single structural word) are
passed over on both sides. A copy is a run of RUN_LINES other lines that also
stand in a row in some upstream file.

Exceptions are entries of copied_allow.yaml: in files matching `files`, the
`lines` non-trivial lines from one equal to `first` on may be as they are
upstream. An entry that excuses nothing is an error.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from . import model, yamlfile
from .errors import OverlayError

RUN_LINES = 6
_ALLOW = "cmake/overlay/copied_allow.yaml"
_HEAD_BYTES = 8192
_SPACE = b" \t\r\f\v"
_MARKS = b"/*#!<>-"
_WORD = re.compile(rb"[0-9A-Za-z\x80-\xff]")
_STRUCTURAL = frozenset(
    b"else }else }else{ else{ break; continue; return; public: private: protected: default: "
    b"endif endif() else() end done fi then do do{ try try{".split()
)
_ENTRY_SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": ["why", "files", "first", "lines"],
    "properties": {
        "why": {"type": "string", "minLength": 20},
        "files": {"type": "array", "items": {"type": "string"}, "minItems": 1},
        "first": {"type": "string", "minLength": 1},
        "lines": {"type": "integer", "minimum": RUN_LINES, "maximum": 400},
    },
}

Window = tuple[bytes, ...]


@dataclass
class Copy:
    """A run of copied lines: 1-based lines of our file, and an upstream place."""

    path: str
    first_line: int
    last_line: int
    upstream: str

    def __str__(self) -> str:
        return f"{self.path}:{self.first_line}-{self.last_line}: stands in upstream {self.upstream}"


class _Text:
    """A file: 1-based numbers of its non-trivial lines, and what they say."""

    def __init__(self, path: str, lines: list[bytes]) -> None:
        self.path = path
        self.numbers = [
            number
            for number, line in enumerate(lines, start=1)
            if line not in _STRUCTURAL and _WORD.search(line)
        ]
        self.lines = [lines[number - 1] for number in self.numbers]

    def windows(self) -> Iterator[Window]:
        return zip(*(self.lines[at:] for at in range(RUN_LINES)), strict=False)


def find_copies(repo: Path, upstream: Path) -> list[Copy]:
    """Copied runs in the repository that no entry of the allow list excuses.

    Raises OverlayError when the allow list is wrong or has unused entries.
    """
    allow = _Allow(repo)
    texts = [_Text(*found) for found in _read(repo, model.our_files(repo))]
    places = _places(upstream, {window for text in texts for window in text.windows()})
    copies: list[Copy] = []
    for text in texts:
        marks = allow.marks(text)
        previous = -2
        for at, window in enumerate(text.windows()):
            if window in places and not allow.excuses(marks[at : at + RUN_LINES]):
                first, last = text.numbers[at], text.numbers[at + RUN_LINES - 1]
                if previous == at - 1:
                    copies[-1].last_line = last
                else:
                    copies.append(Copy(text.path, first, last, places[window]))
                previous = at
    allow.require_used()
    return copies


def _places(upstream: Path, wanted: set[Window]) -> dict[Window, str]:
    """Windows of ours that stand upstream, with one place for each."""
    known = {line for window in wanted for line in window}
    places: dict[Window, str] = {}
    for path, lines in _read(upstream, _files(upstream)):
        # Few files have as many lines of ours, in whatever order.
        if sum(map(known.__contains__, lines)) >= RUN_LINES:
            text = _Text(path, lines)
            if not wanted.isdisjoint(text.windows()):
                for number, window in zip(text.numbers, text.windows(), strict=False):
                    if window in wanted:
                        places.setdefault(window, f"{path}:{number}")
    return places


def _files(root: Path) -> Iterator[str]:
    for folder, names, files in os.walk(root):
        names[:] = sorted(name for name in names if name != ".git")
        for name in sorted(files):
            yield os.path.relpath(os.path.join(folder, name), root)


def _read(root: Path, paths: Iterable[str]) -> Iterator[tuple[str, list[bytes]]]:
    """The text files among these, each as lines without white space and comment marks."""
    for path in paths:
        try:
            if (root / path).is_symlink():
                continue
            with open(root / path, "rb") as file:
                data = file.read(_HEAD_BYTES)
                if b"\0" in data:
                    continue
                data += file.read()
        except OSError as error:
            raise OverlayError(f"{root / path}: {error.strerror}") from error
        yield path, _normal_lines(data)


def _normal_lines(data: bytes) -> list[bytes]:
    return [line.strip(_MARKS) for line in data.translate(None, _SPACE).split(b"\n")]


class _Allow:
    """The allow list, and which of its entries were needed."""

    def __init__(self, repo: Path):
        self._document = yamlfile.load(repo / _ALLOW, _ALLOW)
        entries = self._document.value or []
        if not isinstance(entries, list):
            raise self._document.error((), "not a list of entries")
        for index in range(len(entries)):
            self._document.validate(_ENTRY_SCHEMA, (index,))
        self._entries = [
            (model.Globs(entry["files"]), _normal_lines(entry["first"].encode())[0], entry["lines"])
            for entry in entries
        ]
        self._used: set[int] = set()

    def marks(self, text: _Text) -> list[set[int]]:
        """For each non-trivial line of a file, the entries that cover it."""
        marks: list[set[int]] = [set() for _ in text.lines]
        for index, (globs, first, count) in enumerate(self._entries):
            if globs.match(text.path):
                for at, line in enumerate(text.lines):
                    if line == first:
                        for mark in marks[at : at + count]:
                            mark.add(index)
        return marks

    def excuses(self, marks: list[set[int]]) -> bool:
        """Whether an entry covers one of a window's lines."""
        entries = set().union(*marks)
        if len(entries) == 1:
            self._used |= entries
        return bool(entries)

    def require_used(self) -> None:
        """Raise OverlayError for an entry without which nothing would be found."""
        for index in range(len(self._entries)):
            if index not in self._used:
                raise self._document.error((index,), "unused entry: nothing needs it")
