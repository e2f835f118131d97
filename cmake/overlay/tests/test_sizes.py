# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Sizes: what is counted, the budget, the generated figures in the documents."""

from __future__ import annotations

from pathlib import Path

import pytest

from overlay.errors import OverlayError
from overlay.sizes import Size, documents, measure, outdated, over_budget
from overlay_support import write_yaml

EACH = {"edit_lines": 10, "upstream_files": 10, "own_lines": 10}
LIMITS = {"total": {"edit_lines": 2}, "edit": {"lines": 1, "long": {}}, "each": EACH}
CHANGES = "## one\n\n*S.*\n\n**Alternatives considered.** None.\n\n## two\n\n**Alternatives considered.** None.\n"


@pytest.fixture
def sizes(repo: Path, upstream: Path) -> list[Size]:
    (repo / "docs").mkdir()
    (repo / "docs/changes.md").write_text(CHANGES)
    (repo / "README.md").write_text("<!-- sizes: x -->\nold\n<!-- /sizes -->\n")
    return measure(repo, upstream, "9.7.4")


def test_measure(sizes: list[Size]) -> None:
    assert sizes == [Size("one", {"sql/a.cc": 1}, 1, 0), Size("two", {"sql/b.cc": 1}, 1, 0)]


def test_budget(repo: Path, sizes: list[Size]) -> None:
    write_yaml(repo / "cmake/budget.yaml", LIMITS | {"features": {}})
    assert over_budget(repo, sizes) == []
    write_yaml(repo / "cmake/budget.yaml", LIMITS | {"features": {"two": {"edit_lines": 0}, "six": {}}})
    assert over_budget(repo, sizes) == [
        "cmake/budget.yaml: no feature `six`",
        "two: edit_lines is 1, cmake/budget.yaml allows 0",
    ]
    write_yaml(repo / "cmake/budget.yaml", LIMITS | {"total": {"edit_lines": 1}, "features": {}})
    assert over_budget(repo, sizes) == ["all features: edit_lines is 2, cmake/budget.yaml allows 1"]
    write_yaml(repo / "cmake/budget.yaml", LIMITS | {"features": {"two": {"lines": 0}}})
    with pytest.raises(OverlayError, match="lines"):
        over_budget(repo, sizes)


def test_documents(repo: Path, sizes: list[Size]) -> None:
    assert len(outdated(repo, sizes)) == 2
    made = documents(repo, sizes)
    assert "| all | 2 | 2 | 2 |" in made["README.md"] and "old" not in made["README.md"]
    assert made["docs/changes.md"].index("sql/a.cc |    1 +") < made["docs/changes.md"].index("## two")
    for path, text in made.items():
        (repo / path).write_text(text)
    assert outdated(repo, sizes) == []
    sizes[1].own_lines += 1
    assert len(outdated(repo, sizes)) == 2
    (repo / "README.md").write_text("no place\n")
    with pytest.raises(OverlayError, match="README.md: needs one"):
        documents(repo, sizes)
