# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Operations on the statement that makes a call."""

from __future__ import annotations

from ast_grep_py import SgNode

from ..errors import LandingError
from ..source import CppSource, Function, end_of, field_text, squeeze, start_of
from .base import FUNCTION, LINE, Inputs, Spot, operation
from .statements import after, before, function_of, statement_of


def _is_call_of(call: SgNode, callee: str) -> bool:
    """Whether a call_expression calls `callee`.

    A plain name also fits a call through an object or a scope, with or
    without template arguments: `close` fits `file->close()` and `A::close<T>()`.
    """
    written = field_text(call, "function")
    plain = written.split("<", 1)[0]
    last = plain.replace("->", "::").replace(".", "::").rsplit("::", 1)[-1]
    return callee in (written, plain, last)


def _calls(source: CppSource, inputs: Inputs) -> tuple[Function, list[SgNode]]:
    """The function and, once each, the statements in it that make the call."""
    function = function_of(source, inputs)
    callee, argument = squeeze(inputs["callee"]), squeeze(inputs.get("arg_contains", ""))
    statements = {}
    for call in source.root.find_all(kind="call_expression"):
        if not (function.body < start_of(call) and end_of(call) <= function.end):
            continue
        if _is_call_of(call, callee) and argument in field_text(call, "arguments"):
            statement = statement_of(call)
            statements[start_of(statement)] = statement
    if not statements:
        raise LandingError(f"no call of `{inputs['callee']}` in `{function.name}`")
    return function, list(statements.values())


@operation({**FUNCTION, "callee": LINE, "arg_contains": LINE}, "function", "callee")
def before_call(source: CppSource, inputs: Inputs) -> list[Spot]:
    """Insert lines before the statement that calls `callee`."""
    function, statements = _calls(source, inputs)
    return [before(source, function, statement, inputs) for statement in statements]


@operation({**FUNCTION, "callee": LINE, "arg_contains": LINE}, "function", "callee")
def after_call(source: CppSource, inputs: Inputs) -> list[Spot]:
    """Insert lines after the statement that calls `callee`."""
    function, statements = _calls(source, inputs)
    return [after(source, function, statement, inputs) for statement in statements]
