# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The C++ that edits insert: how much of it, and how it is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from overlay.texts import faults
from overlay_support import REPOSITORY, edit_item, write_yaml


def _faults(repo: Path, upstream: Path, text: str, **limits: Any) -> list[str]:
    """Faults of one edit with this text."""
    edit = {"lines": 2, "long": {}} | limits
    write_yaml(repo / "cmake/budget.yaml", {"edit": edit})
    item = edit_item("a-note", "one", op="before_call", function="f", callee="work", text=text)
    write_yaml(repo / "sql/a.cc.edit.yaml", [item])
    return faults(repo, upstream, "9.7.4")


@pytest.mark.parametrize("text", ["note();", "note();\nnote(2);\n", "g(" + 73 * "x" + ");"])
def test_good(repo: Path, upstream: Path, text: str) -> None:
    assert _faults(repo, upstream, text) == []


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("a();\n\nb();", "inserts a blank line"),
        ("a();  \nb();", "has a tab, or white space at the end of a line"),
        ("a(1,\t2);", "has a tab, or white space at the end of a line"),
        ("a();  // why", "inserts a comment: `why` is the place for it"),
        ("/* why */ a();", "inserts a comment: `why` is the place for it"),
        ("g(" + 75 * "x" + ");", "makes a line of 81 columns, 80 are the most: g(" + 75 * "x" + ");"),
    ],
)
def test_bad(repo: Path, upstream: Path, text: str, fault: str) -> None:
    assert [found.split(": a-note: ")[1] for found in _faults(repo, upstream, text, lines=3)] == [fault]


def test_long(repo: Path, upstream: Path) -> None:
    text = "a();\nb();\nc();\n"
    (found,) = _faults(repo, upstream, text)
    assert found.endswith("inserts 3 lines, cmake/budget.yaml allows 2: logic belongs into our own files")
    long = {"a-note": "They are three values of the function."}
    assert _faults(repo, upstream, text, long=long) == []
    (found,) = _faults(repo, upstream, "a();", long=long)
    assert found == "cmake/budget.yaml: no edit `a-note` that is longer than 2 lines"


def test_other_files_are_not_meant(repo: Path, upstream: Path) -> None:
    item = edit_item("plain", "one", op="insert_line_after", line="two", text="\n\n// x\n\n")
    (upstream / "sql/plain.txt").write_text("one\ntwo\n")
    write_yaml(repo / "sql/plain.txt.edit.yaml", [item])
    assert _faults(repo, upstream, "note();") == []


def test_this_repository(real_upstream: tuple[str, Path]) -> None:
    version, upstream = real_upstream
    assert faults(REPOSITORY, upstream, version) == []
