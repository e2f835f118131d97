# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Several edits of one file: order, equality with one after another, guards."""

from __future__ import annotations

from itertools import groupby, permutations
from typing import Any

import pytest

from overlay.model import Edit
from overlay.splice import apply_text
from overlay_support import MakeEdit

SOURCE = b"""\
#include "a.h"

/** Names. */
const char *names[] = {
    "one",
    nullptr};

int kinds[] = {
  A,
  B
};

void f() {
  start();
  work(1);
  stop();
}
"""


def apply_one_by_one(path: str, data: bytes, edits: list[Edit]) -> bytes:
    """Apply feature by feature, each on the result of those before it."""
    for _, feature in groupby(edits, key=lambda edit: edit.order[0]):
        data, landings = apply_text(path, data, list(feature))
        assert [found.reason for found in landings if not found.ok] == []
    return data


_SAME_SPOT = [
    [("after_include", {"header": "a.h", "text": f'#include "{n}.h"'}) for n in "xyz"],
    [("at_function_start", {"function": "f", "text": f"{n}();"}) for n in "xyz"],
    [("before_call", {"function": "f", "callee": "work", "text": f"{n}();"}) for n in "xyz"],
    [("after_call", {"function": "f", "callee": "start", "text": f"{n}();"}) for n in "xyz"],
    [("before_include", {"header": "a.h", "text": f'#include "{n}.h"'}) for n in "xyz"],
    [("after_definition", {"name": "names", "text": f"int {n};"}) for n in "xyz"],
    [("add_array_element", {"name": "kinds", "text": n}) for n in "XYZ"],
    [
        ("add_array_element", {"name": "names", "before_terminator": True, "text": f'"{n}"'})
        for n in "xyz"
    ],
    [("insert_line_after", {"line": "int kinds[] = {", "text": f"  {n},"}) for n in "XYZ"],
    [
        ("after_call", {"function": "f", "callee": "start", "text": "x();"}),
        ("before_call", {"function": "f", "callee": "work", "text": "y();"}),
        ("before_call", {"function": "f", "callee": "work", "text": "z();"}),
        ("before_statement", {"function": "f", "pattern": "work($N)", "text": "w();"}),
    ],
]


@pytest.mark.parametrize("ops", _SAME_SPOT, ids=lambda ops: ops[-1][0])
def test_at_once_is_one_after_another(ops: list[Any], make_edit: MakeEdit) -> None:
    results = set()
    for order in permutations(ops):
        edits = [make_edit(op, order=(i, 0), **inputs) for i, (op, inputs) in enumerate(order)]
        result, landings = apply_text("a.cc", SOURCE, edits)
        assert all(found.ok for found in landings)
        assert result == apply_one_by_one("a.cc", SOURCE, edits)
        assert apply_text("a.cc", SOURCE, edits[::-1])[0] == result, "input order matters"
        results.add(result)
    assert len(results) > 1, "series order does not matter"


def test_order_in_one_feature_is_that_of_the_file(make_edit: MakeEdit) -> None:
    edits = [
        make_edit("at_function_start", order=(0, i), function="f", text=f"{n}();")
        for i, n in enumerate("xyz")
    ]
    result, _ = apply_text("a.cc", SOURCE, edits)
    assert b"void f() {\n  x();\n  y();\n  z();\n  start();\n" in result


def test_missing_comma_is_added_once(make_edit: MakeEdit) -> None:
    edits = [
        make_edit("add_array_element", order=(i, 0), name="kinds", text=n)
        for i, n in enumerate("XY")
    ]
    assert b"int kinds[] = {\n  A,\n  B,\n  X,\n  Y,\n};\n" in apply_text("a.cc", SOURCE, edits)[0]


def test_one_bad_edit_leaves_the_bytes(make_edit: MakeEdit) -> None:
    good = make_edit("at_function_start", function="f", text="x();")
    bad = make_edit("at_function_start", order=(0, 1), function="g", text="x();")
    result, landings = apply_text("a.cc", SOURCE, [good, bad])
    assert result == SOURCE
    assert [found.ok for found in landings] == [True, False]


@pytest.mark.parametrize(
    ("line", "text", "reason"),
    [
        ("};", "void g() {", "brackets of the result"),
        ("void f() {", "if (a b) {}", "does not parse in function `f`"),
        ("};", "#if 0\n#else\n#endif\nvoid g() { a b }", "does not parse in function `g`"),
        ("};", "class g(", "brackets of the result"),
        ("void f() {", "/*", "brackets of the result"),
        ("};", "#if 0", "hides function `f`"),
    ],
)
def test_result_that_is_worse_cpp(line: str, text: str, reason: str, make_edit: MakeEdit) -> None:
    edit = make_edit("insert_line_after", line=line, text=text)
    result, landings = apply_text("a.cc", SOURCE, [edit])
    assert result == SOURCE
    assert reason in landings[0].reason


def test_landing_says_where(make_edit: MakeEdit) -> None:
    edit = make_edit("before_call", function="f", callee="work", text="x();")
    _, landings = apply_text("a.cc", SOURCE, [edit])
    assert str(landings[0]) == "edit-0-0: lands at a.cc:15 in f"
    assert landings[0].lines == (15,)
