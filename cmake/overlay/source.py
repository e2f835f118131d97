# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""One upstream file as bytes, with what operations ask about lines and C++."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import PurePosixPath

from ast_grep_py import SgNode, SgRoot

from .errors import LandingError
from .mask import View, close_of, view

# What the language is called by ast-grep: its own guess takes .h for C and
# does not know .ic.
CPP_SUFFIXES = frozenset({".h", ".hpp", ".ic", ".c", ".cc", ".cpp", ".tpp"})

_CLASSES = ("class_specifier", "struct_specifier", "union_specifier")
_SPACE = re.compile(r"\s+")
_TEMPLATE_ARGUMENTS = re.compile(r"<[^<>]*(?:<[^<>]*>[^<>]*)*>(?=::)")


class Source:
    """A file of any kind, seen as lines."""

    def __init__(self, path: str, data: bytes):
        self.path = path
        self.data = data

    def line_start(self, offset: int) -> int:
        """Offset of the first byte of the line of `offset`."""
        return self.data.rfind(b"\n", 0, offset) + 1

    def line_end(self, offset: int) -> int:
        """Offset after the line end of the line of `offset`."""
        end = self.data.find(b"\n", offset)
        return len(self.data) if end < 0 else end + 1

    def line_number(self, offset: int) -> int:
        """1-based number of the line of `offset`."""
        return self.data.count(b"\n", 0, offset) + 1

    def indent(self, offset: int) -> bytes:
        """White space the line of `offset` begins with."""
        line = self.data[self.line_start(offset) : self.line_end(offset)]
        return line[: len(line) - len(line.lstrip())].rstrip(b"\r\n")

    def eol(self, offset: int) -> bytes:
        """Line end in use at `offset`: of its line, or of the one before it."""
        end = self.line_end(offset)
        if self.data[end - 1 : end] != b"\n":
            end = self.line_start(offset)
        return b"\r\n" if self.data[max(end - 2, 0) : end] == b"\r\n" else b"\n"

    def starts_line(self, offset: int) -> bool:
        """Whether only white space stands before `offset` on its line."""
        return not self.data[self.line_start(offset) : offset].strip()


@dataclass(frozen=True)
class Function:
    """One function definition.

    name: with all the scopes it stands in, `ns::Fil_system::get_tablespace_id`.
    least: as name, without the namespaces around the definition.
    header: text up to the body, white space folded.
    start, end: byte offsets of the definition; body: offset of its `{`.
    """

    name: str
    least: str
    header: str
    start: int
    body: int
    end: int


def start_of(node: SgNode) -> int:
    """Byte offset of a node (its text has one character per byte)."""
    return node.range().start.index


def end_of(node: SgNode) -> int:
    """Byte offset after a node."""
    return node.range().end.index


def fold(text: str) -> str:
    """White space runs made one space."""
    return _SPACE.sub(" ", text).strip()


def squeeze(text: str) -> str:
    """All white space removed: for comparing names and calls."""
    return _SPACE.sub("", text)


def field_text(node: SgNode, name: str) -> str:
    """Text of a field of a node, without white space; '' if it has none."""
    field = node.field(name)
    return "" if field is None else squeeze(field.text())


def is_cpp(path: str) -> bool:
    """Whether the structural operations work on a file of this name."""
    return PurePosixPath(path).suffix in CPP_SUFFIXES


class CppSource(Source):
    """A C++ file, parsed from its masked view (mask.py)."""

    @cached_property
    def view(self) -> View:
        return view(self.data)

    @cached_property
    def root(self) -> SgNode:
        return SgRoot(self.view.parse, "cpp").root()

    @cached_property
    def errors(self) -> list[int]:
        """Offsets of what the parser could not read or had to invent."""
        nodes = self.root.find_all(kind="ERROR") + self.root.find_all(regex="^$")
        return sorted({start_of(node) for node in nodes if node.kind() != "translation_unit"})

    @cached_property
    def functions(self) -> list[Function]:
        """All function definitions in the order of the file."""
        found = []
        for node in self.root.find_all(kind="function_definition"):
            body, declarator = node.field("body"), _function_declarator(node)
            if body is None or declarator is None or body.kind() != "compound_statement":
                continue
            start, brace = start_of(node), start_of(body)
            own = squeeze(declarator.text())
            least = _qualify(node, own, _CLASSES)
            name = _qualify(node, own, ("namespace_definition", *_CLASSES))
            header = fold(self.view.parse[start:brace])
            found.append(Function(name, least, header, start, brace, end_of(node)))
        return found

    def function(self, name: str, signature: list[str]) -> Function:
        """The one function of this name; raises LandingError."""
        named = [f for f in self.functions if _is_named(f, squeeze(name))]
        if not named:
            raise LandingError(f"no function `{name}`")
        fit = [f for f in named if all(fold(part) in f.header for part in signature)]
        if not fit:
            raise LandingError(f"no overload of `{name}` has {signature} in its signature")
        if len(fit) > 1:
            lines = ", ".join(str(self.line_number(f.start)) for f in fit)
            raise LandingError(
                f"{len(fit)} functions `{name}` (lines {lines}): choose one by `signature`"
            )
        function = fit[0]
        self.require_parsed(function.start, function.end, f"function `{name}`")
        if close_of(self.view.code, function.body) != function.end - 1:
            raise LandingError(f"function `{name}` does not end where its braces do")
        return function

    def require_parsed(self, start: int, end: int, what: str) -> None:
        """Raise LandingError when the parser stumbled between two offsets."""
        bad = self._errors_in(start, end)
        if bad:
            raise LandingError(f"{what} does not parse at line {self.line_number(bad[0])}")

    def _errors_in(self, start: int, end: int) -> list[int]:
        return self.errors[bisect_left(self.errors, start) : bisect_left(self.errors, end)]

    def function_at(self, offset: int) -> str:
        """Name of the innermost function around an offset, or ''."""
        around = [f for f in self.functions if f.start <= offset < f.end]
        return around[-1].name if around else ""

    @cached_property
    def error_counts(self) -> Counter[str]:
        """Parse errors by function name, and definitions by function name + '/'."""
        counts: Counter[str] = Counter()
        for function in self.functions:
            counts[function.name + "/"] += 1
            counts[function.name] += len(self._errors_in(function.start, function.end))
        return counts


@lru_cache(maxsize=4)
def open_source(path: str, data: bytes) -> Source:
    """The right kind of Source for a file name.

    Kept for a while: the result of one feature is the source of the next.
    """
    return CppSource(path, data) if is_cpp(path) else Source(path, data)


def _function_declarator(node: SgNode) -> SgNode | None:
    """The name of a function_definition, through pointers and references."""
    declarator = node.field("declarator")
    while declarator is not None and declarator.kind() != "function_declarator":
        inner = declarator.field("declarator")
        if inner is None:
            inner = next((c for c in declarator.children() if "declarator" in c.kind()), None)
        declarator = inner
    return None if declarator is None else declarator.field("declarator")


def _qualify(node: SgNode, name: str, scope_kinds: tuple[str, ...]) -> str:
    """Put the names of the scopes around a node before a name."""
    for outer in node.ancestors():
        if outer.kind() in scope_kinds and (scope := outer.field("name")) is not None:
            name = squeeze(scope.text()) + "::" + name
    return name


def _is_named(function: Function, name: str) -> bool:
    """Whether a function goes by a name; enclosing namespaces may be left out."""
    for full, least in (
        (function.name, function.least),
        (_TEMPLATE_ARGUMENTS.sub("", function.name), _TEMPLATE_ARGUMENTS.sub("", function.least)),
    ):
        if full == name or (full.endswith("::" + name) and len(name) >= len(least)):
            return True
    return False
