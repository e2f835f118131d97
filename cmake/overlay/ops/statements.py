# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Operations on statements of a function."""

from __future__ import annotations

import re

from ast_grep_py import SgNode

from ..errors import LandingError
from ..source import CppSource, Function, end_of, start_of
from .base import FUNCTION, LINE, Inputs, Side, Spot, lay_out, operation, require_whole

# Nodes whose children are statements in a row.
_ROWS = ("compound_statement", "case_statement", "labeled_statement")
_LEAVES = ("return_statement", "break_statement", "continue_statement", "goto_statement",
           "throw_statement")  # fmt: skip
_HEAD = re.compile(r"(if|while|for|switch)\b.*\)\s*\Z", re.DOTALL)


def function_of(source: CppSource, inputs: Inputs) -> Function:
    """The function that an edit's `function` and `signature` name."""
    return source.function(inputs["function"], inputs.get("signature", []))


def statement_of(node: SgNode) -> SgNode:
    """The innermost statement around a node that stands in a row of statements."""
    for parent in node.ancestors():
        if parent.kind() in _ROWS:
            return node
        node = parent
    raise LandingError("no statement around the match")


def before(source: CppSource, function: Function, statement: SgNode, inputs: Inputs) -> Spot:
    """A spot on the line before a statement."""
    require_whole(inputs["text"])
    start = start_of(statement)
    if not source.starts_line(start):
        raise LandingError(f"statement at line {source.line_number(start)} does not begin a line")
    line = source.line_start(start)
    text = lay_out(source, line, inputs["text"], source.indent(line))
    return Spot(line, text, Side.BEFORE, function.name, (function.start, function.end))


def after(source: CppSource, function: Function, statement: SgNode, inputs: Inputs) -> Spot:
    """A spot on the line after a statement."""
    require_whole(inputs["text"])
    start, end = start_of(statement), end_of(statement)
    number = source.line_number(end - 1)
    if statement.kind() in _LEAVES:
        raise LandingError(f"statement at line {number} leaves: nothing after it would run")
    if not source.starts_line(start):
        raise LandingError(f"statement at line {source.line_number(start)} does not begin a line")
    line = source.line_end(end - 1)
    if source.view.code[end:line].strip():
        raise LandingError(f"statement at line {number} does not end its line")
    text = lay_out(source, end - 1, inputs["text"], source.indent(start))
    return Spot(line, text, Side.AFTER, function.name, (function.start, function.end))


def _matching(source: CppSource, inputs: Inputs) -> tuple[Function, list[SgNode]]:
    function = function_of(source, inputs)
    pattern = inputs["pattern"]
    if _HEAD.match(pattern):
        pattern += " $_"
    statements = {}
    for match in source.root.find_all(pattern=pattern):
        if function.body < start_of(match) and end_of(match) <= function.end:
            statement = statement_of(match)
            statements[start_of(statement)] = statement
    if not statements:
        raise LandingError(f"nothing in `{function.name}` matches `{inputs['pattern']}`")
    return function, list(statements.values())


@operation({**FUNCTION, "pattern": LINE}, "function", "pattern")
def before_statement(source: CppSource, inputs: Inputs) -> list[Spot]:
    """Insert lines before the statement that an ast-grep `pattern` matches.

    A pattern that is only the head of a statement, `if (n > 0)`, matches any body.
    """
    function, statements = _matching(source, inputs)
    return [before(source, function, statement, inputs) for statement in statements]


@operation({**FUNCTION, "pattern": LINE}, "function", "pattern")
def after_statement(source: CppSource, inputs: Inputs) -> list[Spot]:
    """Insert lines after the statement that an ast-grep `pattern` matches."""
    function, statements = _matching(source, inputs)
    return [after(source, function, statement, inputs) for statement in statements]


@operation(FUNCTION, "function")
def at_function_start(source: CppSource, inputs: Inputs) -> list[Spot]:
    """Insert lines after the line of the opening brace of `function`."""
    require_whole(inputs["text"])
    function = function_of(source, inputs)
    line = source.line_end(function.body)
    if source.view.code[function.body + 1 : line].strip():
        raise LandingError(f"`{function.name}` has code on the line of its opening brace")
    inside = source.view.code[line : function.end - 1]
    first = line + len(inside) - len(inside.lstrip())
    indent = source.indent(first) if inside.strip() else source.indent(function.start) + b"  "
    text = lay_out(source, function.body, inputs["text"], indent)
    return [Spot(line, text, Side.AFTER, function.name, (function.start, function.end))]


@operation({**FUNCTION, "which": {"enum": ["last", "all"]}}, "function")
def before_return(source: CppSource, inputs: Inputs) -> list[Spot]:
    """Insert lines before the `return` that ends `function`, or before `which: all`.

    Returns of lambdas are not counted. With `all`, none may be the only
    statement of an unbraced `if`: lines before that would run in any case.
    """
    function = function_of(source, inputs)
    spots = []
    for node in source.root.find_all(kind="return_statement"):
        if not function.body < start_of(node) < function.end:
            continue
        outer = node.ancestors()
        kinds = [parent.kind() for parent in outer]
        if "lambda_expression" in kinds[: kinds.index("function_definition")]:
            continue
        last = kinds[0] == "compound_statement" and start_of(outer[0]) == function.body
        if inputs.get("which", "last") == "last" and not last:
            continue
        if kinds[0] not in _ROWS:
            raise LandingError(
                f"return at line {source.line_number(start_of(node))} is not in braces"
            )
        spots.append(before(source, function, node, inputs))
    if not spots:
        raise LandingError(f"`{function.name}` does not end with a return")
    return spots
