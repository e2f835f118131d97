# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Golden records."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from overlay import OverlayError, golden


def test_written_record_agrees(repo: Path, upstream: Path) -> None:
    target = golden.write(repo, upstream, "9.7.4")
    assert target == repo / "cmake/overlay/golden/9.7.4.json"
    assert golden.differences(repo, upstream, "9.7.4") == []
    assert '  "a-note": {"feature": "one", "file": "sql/a.cc", "function": "f", "lines": [5]},\n' in target.read_text()
    record = json.loads(target.read_text())
    assert record["edits"]["a-note"] == {
        "feature": "one",
        "file": "sql/a.cc",
        "function": "f",
        "lines": [5],
    }
    assert set(record["sha256"]) == {"sql/a.cc", "sql/b.cc"}


def test_differences(repo: Path, upstream: Path) -> None:
    golden.write(repo, upstream, "9.7.4")
    file = repo / "sql/a.cc.edit.yaml"
    file.write_text(file.read_text().replace("note", "other"))
    (upstream / "sql/b.cc").write_bytes(b"\n" + (upstream / "sql/b.cc").read_bytes())
    differences = "\n".join(golden.differences(repo, upstream, "9.7.4"))
    assert "a-note: in the golden record only" in differences
    assert "a-other: not in the golden record" in differences
    assert "b-note: golden" in differences and '"lines": [6]' in differences
    assert "sql/a.cc: golden" in differences


def test_no_record(repo: Path, upstream: Path) -> None:
    with pytest.raises(OverlayError, match="no golden record"):
        golden.differences(repo, upstream, "9.7.4")
