# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Operations on the ends of arrays and classes."""

from __future__ import annotations

import re

from ast_grep_py import SgNode

from ..errors import LandingError
from ..mask import is_balanced, view
from ..source import CppSource, end_of, field_text, squeeze, start_of
from .base import FLAG, LINE, Inputs, Side, Spot, lay_out, operation, require_whole

_TERMINATOR = re.compile(r"(?:nullptr|NullS|NULL|0)\Z|\{(?:nullptr|NullS|NULL|0)\s*[,}]")


def _element_text(text: str) -> str:
    """The text of list elements, always with a comma after the last."""
    code = view(text.encode("utf-8")).code
    if not is_balanced(code):
        raise LandingError("brackets in `text` do not pair up")
    end = len(code.rstrip())
    return text if code[:end].endswith(",") else text[:end] + "," + text[end:]


def _into_list(source: CppSource, body: SgNode, inputs: Inputs) -> Spot:
    """A spot at the end of a braced list, or before its terminator."""
    name = inputs["name"]
    text = _element_text(inputs["text"])
    scope = start_of(body), end_of(body)
    source.require_parsed(*scope, f"`{name}`")
    elements = [node for node in body.children() if node.is_named() and node.kind() != "comment"]
    if not elements:
        raise LandingError(f"`{name}` is empty")
    indent = next(
        (source.indent(start_of(e)) for e in elements if source.starts_line(start_of(e))), None
    )
    last, close = elements[-1], end_of(body) - 1
    ends = bool(_TERMINATOR.match(squeeze(last.text())))
    if inputs.get("before_terminator", False):
        if not ends:
            raise LandingError(f"`{name}` does not end with a terminator")
        stop, previous = start_of(last), elements[-2] if len(elements) > 1 else None
    elif ends:
        raise LandingError(f"`{name}` ends with a terminator: say `before_terminator: true`")
    else:
        stop, previous = close, last
    if indent is None or not source.starts_line(stop):
        raise LandingError(f"`{name}` has no line of its own where the new element goes")
    at = source.line_start(stop)
    comma_at = None
    if previous is not None and "," not in source.view.code[end_of(previous) : stop]:
        comma_at = end_of(previous)
        if any(comma_at <= start < stop for start, _ in source.view.directives):
            raise LandingError(f"`{name}` needs a comma before a preprocessor line")
    return Spot(at, lay_out(source, at, text, indent), Side.BEFORE, name, scope, comma_at)


def _arrays(source: CppSource, name: str) -> list[SgNode]:
    """The initializer lists of the arrays of this name."""
    bodies = []
    for node in source.root.find_all(kind="init_declarator"):
        array, value = node.field("declarator"), node.field("value")
        while array is not None and array.kind() != "array_declarator":
            array = array.field("declarator")
        if array is None or value is None or value.kind() != "initializer_list":
            continue
        if field_text(array, "declarator") == name:
            bodies.append(value)
    return bodies


@operation({"name": LINE, "before_terminator": FLAG}, "name")
def add_array_element(source: CppSource, inputs: Inputs) -> list[Spot]:
    """Add elements at the end of the initializer of the array `name`.

    With `before_terminator: true` before the closing `nullptr` or `{NullS, ...}`.
    Where the last element has no comma, one is added: the only byte that an
    edit ever adds to an upstream line.
    """
    bodies = _arrays(source, squeeze(inputs["name"]))
    if not bodies:
        raise LandingError(f"no array `{inputs['name']}` with an initializer")
    return [_into_list(source, body, inputs) for body in bodies]


@operation({"name": LINE, "access": {"enum": ["public", "protected", "private"]}}, "name")
def add_struct_member(source: CppSource, inputs: Inputs) -> list[Spot]:
    """Add members at the end of the class or struct `name`, or of its last section
    with the given `access`."""
    require_whole(inputs["text"])
    name = squeeze(inputs["name"])
    spots = []
    for kind in ("class_specifier", "struct_specifier"):
        for node in source.root.find_all(kind=kind):
            body = node.field("body")
            if body is not None and field_text(node, "name") == name:
                spots.append(_into_class(source, inputs, body, kind))
    if not spots:
        raise LandingError(f"no class or struct `{inputs['name']}`")
    return spots


def _into_class(source: CppSource, inputs: Inputs, body: SgNode, kind: str) -> Spot:
    name, close = inputs["name"], end_of(body) - 1
    source.require_parsed(start_of(body), close, f"`{name}`")
    current = "private" if kind == "class_specifier" else "public"
    sections = [(current, start_of(body))]  # access and where the section begins
    for child in body.children():
        if child.kind() == "access_specifier":
            sections.append((squeeze(child.text()), start_of(child)))
    wanted = inputs.get("access", sections[-1][0])
    indexes = [i for i, (access, _) in enumerate(sections) if access == wanted]
    if not indexes:
        raise LandingError(f"`{name}` has no {wanted} section")
    index = indexes[-1]
    begin = sections[index][1]
    stop = sections[index + 1][1] if index + 1 < len(sections) else close
    if not source.starts_line(stop):
        raise LandingError(f"`{name}` does not end its section on a line of its own")
    held = source.data[: source.line_start(stop)].rstrip()
    at = source.line_end(max(len(held) - 1, begin))
    members = [
        start_of(child) for child in body.children()
        if child.is_named() and child.kind() not in ("access_specifier", "comment")
    ]  # fmt: skip
    indent = next((source.indent(m) for m in members if source.starts_line(m)), None)
    if indent is None:
        indent = source.indent(start_of(body)) + b"  "
    text = lay_out(source, at - 1, inputs["text"], indent)
    return Spot(at, text, Side.BEFORE, name, (start_of(body), close))
