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
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from . import model, yamlfile
from .errors import OverlayError

RUN_LINES = 6
_ALLOW = "cmake/overlay/copied_allow.yaml"
_WORKERS = 2
_BATCH_FILES = 500
_HEAD_BYTES = 8192
_SPACE = b" \t\r\f\v"
_MARKS = b"/*#!<>-"
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

Window = tuple[int, ...]


@dataclass(frozen=True)
class Copy:
    """A run of copied lines: 1-based lines of our file, and an upstream place."""

    path: str
    first_line: int
    last_line: int
    upstream: str

    def __str__(self) -> str:
        return f"{self.path}:{self.first_line}-{self.last_line}: stands in upstream {self.upstream}"


@dataclass
class _Text:
    """A file of ours: ids and 1-based numbers of its non-trivial lines."""

    path: str
    ids: list[int]
    numbers: list[int]


def find_copies(repo: Path, upstream: Path) -> list[Copy]:
    """Copied runs in the repository that no entry of the allow list excuses.

    Raises OverlayError when the allow list is wrong or has unused entries.
    """
    known: dict[bytes, int] = {}
    texts = list(_our_texts(repo, known))
    windows = {window for text in texts for window in _windows(text.ids)}
    matched = _search(upstream, known, windows)
    allow = _Allow(repo, known)
    copies: list[Copy] = []
    for text in texts:
        marks = allow.marks(text)
        hits = [
            (at, matched[window])
            for at, window in enumerate(_windows(text.ids))
            if window in matched and not allow.excuses(marks, at)
        ]
        copies += _runs(text, hits)
    allow.require_used()
    return copies


def _normal_lines(data: bytes) -> list[bytes]:
    """The lines of a file without white space and comment marks."""
    return [line.strip(_MARKS) for line in data.translate(None, _SPACE).split(b"\n")]


def _is_trivial(line: bytes) -> bool:
    """Whether a normal line says nothing by itself."""
    return line in _STRUCTURAL or not any(
        48 <= c <= 57 or 65 <= c <= 90 or 97 <= c <= 122 or c > 127 for c in line
    )


def _read_text(path: Path) -> bytes | None:
    """Bytes of a text file; None for what is binary or not a file."""
    try:
        if path.is_symlink():
            return None
        with open(path, "rb") as file:
            head = file.read(_HEAD_BYTES)
            return None if b"\0" in head else head + file.read()
    except OSError as error:
        raise OverlayError(f"{path}: {error.strerror}") from error


def _our_texts(repo: Path, known: dict[bytes, int]) -> Iterator[_Text]:
    """Our text files; `known` gets an id for each of their non-trivial lines."""
    for path in model.our_files(repo):
        data = _read_text(repo / path)
        if data is None:
            continue
        text = _Text(path, [], [])
        for number, line in enumerate(_normal_lines(data), start=1):
            if not _is_trivial(line):
                text.ids.append(known.setdefault(line, len(known)))
                text.numbers.append(number)
        yield text


def _windows(ids: list[int]) -> Iterator[Window]:
    for at in range(len(ids) - RUN_LINES + 1):
        yield tuple(ids[at : at + RUN_LINES])


def _search(upstream: Path, known: dict[bytes, int], windows: set[Window]) -> dict[Window, str]:
    """Windows of ours that stand upstream, with one place for each."""
    files = []
    for directory, names, here in os.walk(upstream):
        names[:] = sorted(name for name in names if name != ".git")
        files += [os.path.join(directory, name) for name in sorted(here)]
    batches = [files[at : at + _BATCH_FILES] for at in range(0, len(files), _BATCH_FILES)]
    matched: dict[Window, str] = {}
    with ProcessPoolExecutor(_WORKERS, initializer=_prepare, initargs=(known, windows)) as pool:
        for found in pool.map(_search_files, batches):
            for window, place in found.items():
                matched.setdefault(window, os.path.relpath(place, upstream))
    return matched


_known: dict[bytes, int] = {}
_wanted: set[Window] = set()


def _prepare(known: dict[bytes, int], windows: set[Window]) -> None:
    """Give a worker process what all its files are compared with."""
    global _known, _wanted
    _known, _wanted = known, windows


def _search_files(files: list[str]) -> dict[Window, str]:
    found: dict[Window, str] = {}
    for name in files:
        data = _read_text(Path(name))
        if data is None:
            continue
        lines = _normal_lines(data)
        if sum(map(_known.__contains__, lines)) >= RUN_LINES:
            for window, number in _upstream_windows(lines):
                if window in _wanted:
                    found.setdefault(window, f"{name}:{number}")
    return found


def _upstream_windows(lines: Iterable[bytes]) -> Iterator[tuple[Window, int]]:
    """Windows of lines that are all known, with the number of their first line."""
    run: list[tuple[int, int]] = []
    for number, line in enumerate(lines, start=1):
        line_id = _known.get(line)
        if line_id is not None:
            run.append((line_id, number))
            if len(run) >= RUN_LINES:
                last = run[-RUN_LINES:]
                yield tuple(item[0] for item in last), last[0][1]
        elif run and not _is_trivial(line):
            run.clear()


def _runs(text: _Text, hits: list[tuple[int, str]]) -> Iterator[Copy]:
    """Overlapping windows made runs."""
    at = 0
    while at < len(hits):
        first, place = hits[at]
        while at + 1 < len(hits) and hits[at + 1][0] == hits[at][0] + 1:
            at += 1
        last = hits[at][0] + RUN_LINES - 1
        yield Copy(text.path, text.numbers[first], text.numbers[last], place)
        at += 1


class _Allow:
    """The allow list, and which of its entries were needed."""

    def __init__(self, repo: Path, known: dict[bytes, int]):
        self._document = yamlfile.load(repo / _ALLOW, _ALLOW)
        self._entries = self._document.value or []
        if not isinstance(self._entries, list):
            raise self._document.error((), "not a list of entries")
        for index in range(len(self._entries)):
            self._document.validate(_ENTRY_SCHEMA, (index,))
        self._firsts = [
            known.get(_normal_lines(entry["first"].encode("utf-8"))[0]) for entry in self._entries
        ]
        self._globs = [model.Globs(entry["files"]) for entry in self._entries]
        self._used: set[int] = set()

    def marks(self, text: _Text) -> list[set[int]]:
        """For each non-trivial line of a file, the entries that cover it."""
        marks: list[set[int]] = [set() for _ in text.ids]
        for index, entry in enumerate(self._entries):
            if self._globs[index].match(text.path):
                for at, line_id in enumerate(text.ids):
                    if line_id == self._firsts[index]:
                        for mark in marks[at : at + entry["lines"]]:
                            mark.add(index)
        return marks

    def excuses(self, marks: list[set[int]], at: int) -> bool:
        """Whether the window that begins at a line has a covered line in it."""
        entries = set().union(*marks[at : at + RUN_LINES])
        if len(entries) == 1:
            self._used |= entries
        return bool(entries)

    def require_used(self) -> None:
        """Raise OverlayError for an entry without which nothing would be found."""
        for index in range(len(self._entries)):
            if index not in self._used:
                raise self._document.error((index,), "unused entry: nothing needs it")
