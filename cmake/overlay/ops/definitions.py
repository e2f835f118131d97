# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Operations below definitions at file scope."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ast_grep_py import SgNode

from ..errors import LandingError
from ..mask import close_of, is_balanced, view
from ..source import CppSource, end_of, field_text, squeeze, start_of
from .base import LINE, Inputs, Side, Spot, lay_out, operation

_TRANSPARENT = ("translation_unit", "linkage_specification", "namespace_definition",
                "declaration_list", "ERROR")  # fmt: skip
_TYPES = ("class_specifier", "struct_specifier", "union_specifier", "enum_specifier")


def _file_scope(node: SgNode) -> Iterator[SgNode]:
    """The nodes at file or namespace scope."""
    for child in node.children():
        if child.kind() in _TRANSPARENT:
            yield from _file_scope(child)
        else:
            yield child


def _declared(node: SgNode) -> str | None:
    """The variable that a declarator names; None for functions."""
    while node.kind() not in ("identifier", "qualified_identifier"):
        inner = node.field("declarator")
        if node.kind() == "function_declarator" or not node.children():
            return None
        node = inner if inner is not None else node.children()[-1]
    return squeeze(node.text())


def _variables(node: SgNode) -> set[str | None]:
    """Names that a declaration defines (not those it only declares)."""
    words = {squeeze(c.text()) for c in node.children() if c.kind() == "storage_class_specifier"}
    return {
        _declared(declarator)
        for declarator in node.field_children("declarator")
        if declarator.kind() == "init_declarator" or "extern" not in words
    }


def _macros(source: CppSource, name: str) -> Iterator[tuple[int, int]]:
    """Byte offsets of `static SOME_MACRO(name, ...);` outside functions."""
    macro = re.compile(
        rf"^[ \t]*((?:static|const|extern)\s+)*[A-Z][A-Z0-9_]+\(\s*{re.escape(name)}\s*[,)]",
        re.MULTILINE,
    )
    for match in macro.finditer(source.view.code):
        end = close_of(source.view.code, match.start()) + 1
        if source.view.code[end : end + 1] == ";" and not source.function_at(match.start()):
            yield match.end() - len(match[0].lstrip()), end + 1


def _definitions(source: CppSource, inputs: Inputs) -> list[tuple[int, int]]:
    """Byte offsets, start and end, of the definitions of a name."""
    name = squeeze(inputs["name"])
    found = set(_macros(source, name))
    templates = []
    for node in _file_scope(source.root):
        kind = node.kind()
        if kind == "template_declaration":
            templates.append((start_of(node), end_of(node)))
        elif kind == "declaration" and name in _variables(node):
            found.add((start_of(node), end_of(node)))
        elif kind in _TYPES and node.field("body") and field_text(node, "name") == name:
            found.add((start_of(node), source.view.code.find(";", end_of(node)) + 1))
    if not found:
        function = source.function(name, [])
        span = (function.start, function.end)
        found.add(next((t for t in templates if t[0] < span[0] and t[1] == span[1]), span))
    return sorted(found)


@operation({"name": LINE}, "name")
def after_definition(source: CppSource, inputs: Inputs) -> list[Spot]:
    """Insert a blank line and lines below the definition of `name`.

    A function, a variable, an array, a type, or what a macro defines:
    `static MYSQL_SYSVAR_BOOL(name, ...);`.
    """
    code = view(inputs["text"].encode("utf-8")).code.rstrip()
    if not is_balanced(code) or (code and not code.endswith((";", "}"))):
        raise LandingError("`text` is not whole definitions")
    spots = []
    for start, end in _definitions(source, inputs):
        at = source.line_end(end - 1)
        if source.view.code[end:at].strip():
            raise LandingError(f"`{inputs['name']}` does not end its line")
        text = source.eol(start) + lay_out(source, start, inputs["text"], source.indent(start))
        spots.append(Spot(at, text, Side.AFTER, inputs["name"], (0, len(source.data))))
    return spots
