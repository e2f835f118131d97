# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The check for upstream text in our files finds what is planted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from overlay import OverlayError
from overlay.copied import find_copies
from overlay_support import write_yaml

LINES = [f"step_{n}(value, {n});" for n in range(12)]


@pytest.fixture(autouse=True)
def _tree(upstream: Path, repo: Path) -> None:
    (upstream / "sql/long.cc").write_text("\n".join(["head();", *LINES, "tail();"]) + "\n")
    (upstream / "sql/image.png").write_bytes(b"\x89PNG\0" + "\n".join(LINES).encode())
    (upstream / ".git/packed").write_text("\n".join(f"hidden{n}" for n in range(9)))
    allow(repo, [])


def allow(repo: Path, entries: list[dict[str, Any]]) -> None:
    write_yaml(repo / "cmake/overlay/copied_allow.yaml", entries)


def plant(repo: Path, lines: list[str], path: str = "sql/one.cc") -> None:
    (repo / path).parent.mkdir(parents=True, exist_ok=True)
    (repo / path).write_text("\n".join(["ours();", *lines, "ours_too();"]) + "\n")


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(LINES[2:8], id="as it is"),
        pytest.param(["\t    " + line for line in LINES[2:8]], id="indented"),
        pytest.param([line.replace(", ", " ,  ") for line in LINES[2:8]], id="spaced"),
        pytest.param([line + "\r" for line in LINES[2:8]], id="CRLF"),
        pytest.param(["// " + line for line in LINES[2:8]], id="commented out"),
        pytest.param(["/* " + line + " */" for line in LINES[2:8]], id="in comments"),
        pytest.param(
            [part for line in LINES[2:8] for part in (line, "", "}", "else", "/***/")],
            id="trivial lines between",
        ),
    ],
)
@pytest.mark.parametrize("path", ["sql/one.cc", "docs/page.md", "sql/x.cc.edit.yaml"])
def test_planted_copy_is_found(lines: list[str], path: str, repo: Path, upstream: Path) -> None:
    plant(repo, lines, path)
    copies = find_copies(repo, upstream)
    assert [(copy.path, copy.first_line, copy.upstream) for copy in copies] == [
        (path, 2, "sql/long.cc:4")
    ]


def test_trivial_lines_upstream(repo: Path, upstream: Path) -> None:
    (upstream / "sql/long.cc").write_text("\n\n{\n".join(LINES))
    plant(repo, LINES[:6])
    assert len(find_copies(repo, upstream)) == 1


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(LINES[:5], id="five lines"),
        pytest.param(LINES[:3] + ["mine();"] + LINES[3:6], id="broken by our own"),
        pytest.param(LINES[5::-1], id="other order"),
        pytest.param(["}"] * 20, id="trivial"),
        pytest.param([f"hidden{n}" for n in range(9)], id="only in .git"),
    ],
)
def test_what_is_no_copy(lines: list[str], repo: Path, upstream: Path) -> None:
    plant(repo, lines)
    assert find_copies(repo, upstream) == []


def test_long_run_is_one_finding(repo: Path, upstream: Path) -> None:
    plant(repo, LINES)
    (copy,) = find_copies(repo, upstream)
    assert (copy.first_line, copy.last_line) == (2, 13)


ENTRY = {
    "why": "A block that has to be the same.",
    "files": ["sql/*.cc"],
    "first": "step_0(value, 0);",
    "lines": 6,
}


def test_allowed(repo: Path, upstream: Path) -> None:
    plant(repo, LINES[:6])
    allow(repo, [ENTRY])
    assert find_copies(repo, upstream) == []


def test_allowed_block_does_not_cover_what_follows(repo: Path, upstream: Path) -> None:
    plant(repo, LINES)
    allow(repo, [ENTRY])
    (copy,) = find_copies(repo, upstream)
    assert (copy.first_line, copy.last_line) == (8, 13)


@pytest.mark.parametrize(
    "entries",
    [
        pytest.param([ENTRY, ENTRY | {"first": "step_9(value, 9);"}], id="never met"),
        pytest.param([ENTRY, ENTRY | {"files": ["docs/*"]}], id="other files"),
        pytest.param([ENTRY, ENTRY | {"first": "ours();"}], id="covers no copy alone"),
    ],
)
def test_unused_entry(entries: list[dict[str, Any]], repo: Path, upstream: Path) -> None:
    plant(repo, LINES[:6])
    allow(repo, entries)
    with pytest.raises(OverlayError, match=r"copied_allow\.yaml:\d+: unused entry"):
        find_copies(repo, upstream)


@pytest.mark.parametrize("key", ["why", "first"])
def test_entry_must_be_whole(key: str, repo: Path, upstream: Path) -> None:
    allow(repo, [{name: value for name, value in ENTRY.items() if name != key}])
    with pytest.raises(OverlayError, match=f"'{key}' is a required property"):
        find_copies(repo, upstream)
