# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Every operation against its cases in ops/<name>.yaml.

A case has a source and an edit, and either a result or an error (a regular
expression). `crlf` gives source and result CRLF line ends, `latin1` stores
them in that encoding, `unterminated` takes the last line end away.
"""

from __future__ import annotations

import difflib
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from overlay.ops import OPERATIONS
from overlay.splice import apply_text
from overlay_support import MakeEdit

_CASES = Path(__file__).parent / "ops"


def _cases(kind: str) -> list[Any]:
    return [
        pytest.param(file.stem, case, id=f"{file.stem}: {case['name']}")
        for file in sorted(_CASES.glob("*.yaml"))
        for case in yaml.safe_load(file.read_text(encoding="utf-8"))[kind]
    ]


def _bytes(case: dict[str, Any], key: str) -> bytes:
    data: bytes = case[key].encode("latin-1" if case.get("latin1") else "utf-8")
    if case.get("crlf"):
        data = data.replace(b"\n", b"\r\n")
    return data.rstrip(b"\r\n") if case.get("unterminated") else data


def test_every_operation_has_cases_and_says_what_it_does() -> None:
    assert {file.stem for file in _CASES.glob("*.yaml")} == set(OPERATIONS)
    for operation in OPERATIONS.values():
        assert operation.find.__doc__, operation.name


@pytest.mark.parametrize(("op", "case"), _cases("valid"))
def test_valid(op: str, case: dict[str, Any], make_edit: MakeEdit) -> None:
    path = case.get("path", "a.cc")
    source, wanted = _bytes(case, "source"), _bytes(case, "result")
    edit = make_edit(op, path, **case["edit"])
    result, landings = apply_text(path, source, [edit])
    assert [found.reason for found in landings] == [""]
    assert result.decode("latin-1") == wanted.decode("latin-1")
    changes = difflib.SequenceMatcher(None, source, result, autojunk=False).get_opcodes()
    assert {change[0] for change in changes} <= {"equal", "insert"}

    again, landings = apply_text(path, result, [edit])
    assert again == result
    assert not landings[0].ok


@pytest.mark.parametrize(("op", "case"), _cases("invalid"))
def test_invalid(op: str, case: dict[str, Any], make_edit: MakeEdit) -> None:
    path = case.get("path", "a.cc")
    source = _bytes(case, "source")
    result, landings = apply_text(path, source, [make_edit(op, path, **case["edit"])])
    assert result == source
    assert re.search(case["error"], landings[0].reason), landings[0].reason
