# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""What the repository may not say: every error names file and line."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator

from overlay import schema
from overlay.errors import OverlayError
from overlay.model import EDIT_SUFFIX, glob_pattern, load, our_files
from overlay_support import ENGINE, FEATURES, REPOSITORY, edit_item, write_yaml

GOOD = """\
- id: a-note
  feature: one
  why: Needed by a test of ours.
  op: before_call
  function: f
  callee: work
  text: note();
"""


def test_loads(repo: Path) -> None:
    overlay = load(repo)
    assert [edit.id for edit in overlay.edits] == ["a-note", "b-note"]
    assert overlay.own_files == {"sql/one.cc": "one", "sql/two/deep.cc": "two"}
    edit = overlay.edits[0]
    assert (edit.path, edit.place, edit.count) == ("sql/a.cc", "sql/a.cc.edit.yaml:1", 1)
    assert edit.inputs == {"function": "f", "callee": "work", "text": "note();"}


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (GOOD + "  colour: red\n", r"a\.cc\.edit\.yaml:8: unknown key `colour`"),
        (GOOD + "  callee: other\n", r"a\.cc\.edit\.yaml:8: duplicate key `callee`"),
        (GOOD + "  count: 0\n", r":8: `count`: 0 is less than"),
        (GOOD + "  count: true\n", r":8: `count`: True is not of type"),
        (GOOD + "  header: a.h\n", r":8: unknown key `header`"),
        (GOOD + "  elsewhere: [{versions: ['9.7'], callee: x}]\n", r":8: `elsewhere.0.versions.0`: '9.7' does not match"),
        (GOOD.replace("before_call", "before_cal"), r":4: `op`: 'before_cal' is not one of"),
        (GOOD.replace("  callee: work\n", ""), r":1: 'callee' is a required property"),
        (GOOD.replace("Needed by a test of ours.", "Needed."), r":3: `why`: .* is too short"),
        (GOOD.replace("feature: one", "feature: three"), r":2: `three` is not in cmake/series"),
        (GOOD.replace("a-note", "A note"), r":1: `id`: 'A note' does not match"),
        (GOOD.replace("text: note();", "text: ' '"), r":7: `text`: ' ' does not match"),
        (GOOD.replace("callee: work", "callee: 'a\n\n    b'"), r":6: `callee`: .* does not match"),
        (GOOD + GOOD, r":8: id `a-note` is taken at sql/a\.cc\.edit\.yaml:1"),
        (GOOD.replace("a-note", "b-note"), r"id `b-note` is taken"),
        ("edits:\n" + GOOD, r":1: not a list of edits"),
        (GOOD + "  elsewhere: [{versions: ['>=26']}]\n", r":8: `elsewhere.0`: .* enough properties"),
        (GOOD + "  elsewhere:\n  - versions: ['>=26']\n    header: a.h\n", r":10: unknown key `header`"),
        (GOOD.replace("id: a-note", 'id: "a-note\\n"'), r":1: `id`: .* does not match"),
        ("", r":1: not a list of edits"),
        ("edits: []\n", r":1: not a list of edits"),
        ("- 1\n", r":1: 1 is not of type 'object'"),
        ("- [a]: b\n", r":1: a key is not a plain word"),
        ("- id: &a [*a]\n", r"a\.cc\.edit\.yaml: nested too deeply"),
        ("- id: [\n", r":2: not YAML"),
        ("- id: !!python/name:os.system\n", r":1: not YAML"),
    ],
)
def test_bad_edit_file(repo: Path, text: str, error: str) -> None:
    (repo / "sql/a.cc.edit.yaml").write_text(text)
    with pytest.raises(OverlayError) as raised:
        load(repo)
    assert re.search(error, str(raised.value)), str(raised.value)


def test_schema_for_editors_is_that_of_the_parser() -> None:
    assert (ENGINE / "edit.schema.json").read_text() == schema.text(), "see `python -m overlay schema`"
    assert "\\\\A" not in schema.text() and "\\\\Z" not in schema.text(), "JavaScript knows neither"
    Draft7Validator.check_schema(json.loads(schema.text()))


def test_edit_files_are_valid_by_the_schema_for_editors() -> None:
    validator = Draft7Validator(json.loads((ENGINE / "edit.schema.json").read_text()))
    files = [path for path in our_files(REPOSITORY) if path.endswith(EDIT_SUFFIX)]
    assert files
    for path in files:
        validator.validate(yaml.safe_load((REPOSITORY / path).read_text()))


def test_all_bad_files_are_named_at_once(repo: Path) -> None:
    for name in "ab":
        (repo / f"sql/{name}.cc.edit.yaml").write_text("- 1\n")
    with pytest.raises(OverlayError, match=r"(?s)sql/a\.cc.*sql/b\.cc"):
        load(repo)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"title": "x" * 73}, "`title`: .* is too long"),
        ({"name": "two"}, "feature `two` stands twice"),
        ({"extra": 1}, "unknown key `extra`"),
        ({"bugs": ["1"]}, "`bugs.0`: '1' is not of type 'integer'"),
        ({"files": ["sql/two/*", "sql/one*"]}, "sql/two/deep.cc: belongs to several features"),
        ({"files": []}, "sql/one.cc: belongs to no feature"),
    ],
)
def test_bad_series(repo: Path, change: dict[str, Any], error: str) -> None:
    write_yaml(repo / "cmake/series.yaml", [FEATURES[0] | change, FEATURES[1]])
    with pytest.raises(OverlayError) as raised:
        load(repo)
    assert re.search(error, str(raised.value)), str(raised.value)


def test_what_is_not_an_own_file(repo: Path) -> None:
    for path in (
        "mysql-test/regression.list",
        "mysql-test/skip.yaml",
        "mysql-test/README.md",
        "sql/__pycache__/x.pyc",
        "sql/one.cc~",
        "docs/x.md",
    ):
        (repo / path).parent.mkdir(parents=True, exist_ok=True)
        (repo / path).write_text("x\n")
    (repo / "sql/two/README.md").write_text("x\n")
    assert set(load(repo).own_files) == {"sql/one.cc", "sql/two/deep.cc", "sql/two/README.md"}


def test_unknown_feature(repo: Path) -> None:
    with pytest.raises(OverlayError, match="no feature `three`: there are one, two"):
        load(repo).chosen(["three"])


@pytest.mark.parametrize(
    ("constraints", "version", "holds"),
    [
        ([">=9.7.4"], "9.7.4", True),
        ([">=9.7.4"], "9.7.2", False),
        ([">=9.7", "<9.8"], "9.7.10", True),
        (["<9.7.10"], "9.7.9", True),
        (["!=9.7.4"], "9.7.4", False),
        (["==9.7.4"], "9.7.4", True),
    ],
)
def test_versions(repo: Path, constraints: list[str], version: str, holds: bool) -> None:
    item = edit_item("a-note", "one", op="at_function_start", function="f", text="note();")
    write_yaml(repo / "sql/a.cc.edit.yaml", [item | {"elsewhere": [{"versions": constraints, "function": "g"}]}])
    assert load(repo).edits[0].at(version).inputs["function"] == ("g" if holds else "f")


@pytest.mark.parametrize(
    ("glob", "path", "matches"),
    [
        ("a/*.cc", "a/b.cc", True),
        ("a/*.cc", "a/b/c.cc", False),
        ("a/**/c*", "a/c.cc", True),
        ("a/**/c*", "a/b/b/c.cc", True),
        ("**/x", "x", True),
        ("a/**", "a/b/c", True),
        ("a?c", "a/c", False),
        ("a.c", "abc", False),
    ],
)
def test_globs(glob: str, path: str, matches: bool) -> None:
    assert bool(glob_pattern(glob).match(path)) is matches
