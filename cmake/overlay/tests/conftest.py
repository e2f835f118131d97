# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Fixtures: small repositories and upstream trees of our own, and the real ones."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from overlay import yamlfile
from overlay.model import Edit, Feature, parse_edits
from overlay_support import CC, FEATURES, REPOSITORY, MakeEdit, edit_item, write_yaml

VERSIONS = ("9.7.2", "9.7.4")


@pytest.fixture
def make_edit() -> MakeEdit:
    """An edit, validated as one read from a file is."""

    def make(op: str, path: str = "a.cc", order: tuple[int, int] = (0, 0), **inputs: Any) -> Edit:
        item = {
            "id": f"edit-{order[0]}-{order[1]}",
            "feature": f"feature-{order[0]}",
            "why": "Needed by a test of the engine.",
            "op": op,
            **inputs,
        }
        name = path + ".edit.yaml"
        lines: dict[tuple[Any, ...], int] = {(0,): 1, **{(0, key): 1 for key in item}}
        feature = Feature(item["feature"], "Title", [], True, [], order[0])
        edit = parse_edits(yamlfile.Document(name, [item], lines), path, [feature])[0]
        return Edit(**{**vars(edit), "order": order})

    return make


@pytest.fixture
def upstream(tmp_path: Path) -> Path:
    """A tiny upstream tree of version 9.7.4, all its files a day old."""
    root = tmp_path / "upstream"
    files = {
        "MYSQL_VERSION": b"MYSQL_VERSION_MAJOR=9\nMYSQL_VERSION_MINOR=7\nMYSQL_VERSION_PATCH=4\n",
        "sql/a.cc": CC,
        "sql/b.cc": CC.replace(b"work", b"b_work"),
        "sql/plain.txt": b"caf\xe9\r\n",
        ".git/HEAD": b"ref\n",
    }
    for path, data in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)
        os.utime(root / path, (1_000_000_000, 1_000_000_000))
    (root / "sql/link.cc").symlink_to("a.cc")
    return root


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A repository with two features, two edits and two own files."""
    root = tmp_path / "repo"
    (root / "cmake/overlay").mkdir(parents=True)
    (root / "cmake/overlay.yaml").write_bytes((REPOSITORY / "cmake/overlay.yaml").read_bytes())
    write_yaml(root / "cmake/series.yaml", FEATURES)
    for letter, feature, call in (("a", "one", "work"), ("b", "two", "b_work")):
        item = edit_item(
            f"{letter}-note", feature, op="before_call", function="f", callee=call, text="note();"
        )
        write_yaml(root / f"sql/{letter}.cc.edit.yaml", [item])
    (root / "sql/one.cc").write_text("int one;\n")
    (root / "sql/two").mkdir()
    (root / "sql/two/deep.cc").write_text("int two;\n")
    return root


@pytest.fixture(params=VERSIONS)
def real_upstream(request: pytest.FixtureRequest) -> tuple[str, Path]:
    """A version of MySQL and its pristine source tree; skips when it is not there."""
    name = "REDSTART_UPSTREAM_" + request.param.replace(".", "_")
    if not os.environ.get(name):
        pytest.skip(f"{name} does not name the {request.param} source tree")
    return request.param, Path(os.environ[name])
