# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""./redstart format: which files it takes, when it writes, and what it says if it cannot."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from redstart_cli import cli, formatting
from redstart_cli.console import RedstartError
from redstart_cli.layout import Layout
from redstart_cli.tests.conftest import Program
from redstart_cli.upstream import Upstream

# Takes the place of clang-format: no space stands before a semicolon.
TOOL = "#!/bin/sh\nexec sed 's/ *;/;/'\n"
FILES = {
    "sql/good.cc": "a;\n",
    "sql/deep/bad.cc": "a ;\nb;\n",
    "storage/new.h": "c  ;\n",
    "unittest/ignored.cc": "d ;\n",
    "sql/good.cc.edit.yaml": "e ;\n",
    "extra/fuzz/other.cc": "f ;\n",
}
OURS = ["sql/deep/bad.cc", "sql/good.cc", "storage/new.h"]
BAD = ["sql/deep/bad.cc", "storage/new.h"]


@pytest.fixture
def tree(layout: Layout, program: Program) -> Path:
    """A clone with files of all kinds, a clang-format, and MySQL's tree, which is returned."""
    for name, text in FILES.items():
        (layout.repo / name).parent.mkdir(parents=True, exist_ok=True)
        (layout.repo / name).write_text(text)
    (layout.repo / "sql/link.cc").symlink_to("deep/bad.cc")
    (layout.repo / ".gitignore").write_text("/build/\nignored.*\n")
    subprocess.run(["git", "init", "--quiet", layout.repo], check=True)
    subprocess.run(["git", "-C", layout.repo, "add", "sql"], check=True)
    program("clang-format-15", TOOL)
    tree = layout.upstream / "9.7.4"
    tree.mkdir(parents=True)
    (tree / ".clang-format").write_text("BasedOnStyle: Google\n")
    return tree


def texts(layout: Layout) -> dict[str, str]:
    return {name: (layout.repo / name).read_text() for name in FILES}


def test_only_what_is_not_formatted_is_written(layout: Layout, tree: Path) -> None:
    os.utime(layout.repo / "sql/good.cc", (1, 1))
    assert formatting.run(layout.repo, tree, formatting.chosen(layout.repo, []), only_check=False) == BAD
    assert texts(layout) == FILES | {"sql/deep/bad.cc": "a;\nb;\n", "storage/new.h": "c;\n"}
    assert (layout.repo / "sql/good.cc").stat().st_mtime == 1
    assert formatting.run(layout.repo, tree, OURS, only_check=False) == []


def test_a_check_changes_nothing(layout: Layout, tree: Path) -> None:
    assert formatting.run(layout.repo, tree, OURS, only_check=True) == BAD
    assert texts(layout) == FILES


@pytest.mark.parametrize(
    ("paths", "found"),
    [
        ([], OURS),
        (["."], OURS),
        (["sql"], OURS[:2]),
        (["storage/new.h", "sql/deep/", "sql/deep/bad.cc"], BAD),
        (["sql/../storage"], ["storage/new.h"]),
    ],
)
def test_files_may_be_named(
    layout: Layout, tree: Path, paths: list[str], found: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(layout.repo)
    assert formatting.chosen(layout.repo, [Path(path) for path in paths]) == found


@pytest.mark.parametrize("path", ["sql/none.cc", "extra", "extra/fuzz/other.cc", "sql/good.cc.edit.yaml", "unittest", "sq"])
def test_a_name_that_is_none_of_ours_is_an_error(
    layout: Layout, tree: Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(layout.repo)
    with pytest.raises(RedstartError, match=f"^{path} is no C\\+\\+ file of this clone in include, sql, storage, unittest"):
        formatting.chosen(layout.repo, [Path("sql"), Path(path)])


def test_a_file_that_was_removed_is_none(layout: Layout, tree: Path) -> None:
    (layout.repo / "sql/good.cc").unlink()
    assert formatting.sources(layout.repo) == BAD


def test_without_clang_format_the_package_is_named(layout: Layout, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formatting, "find_tool", lambda: None)
    with pytest.raises(RedstartError, match="Debian's package clang-format-15"):
        formatting.run(layout.repo, tree, OURS, only_check=False)
    assert texts(layout) == FILES


def test_a_tree_that_does_not_say_how(layout: Layout, tree: Path) -> None:
    (tree / ".clang-format").unlink()
    with pytest.raises(RedstartError, match=r"clang-format is missing"):
        formatting.run(layout.repo, tree, OURS, only_check=False)
    assert texts(layout) == FILES


def test_a_tool_that_fails_leaves_the_file_as_it_is(layout: Layout, tree: Path, program: Program) -> None:
    program("clang-format-15", "#!/bin/sh\necho 'unknown key: Later' >&2\nexit 1\n")
    with pytest.raises(RedstartError, match="^sql/deep/bad.cc: .*unknown key: Later"):
        formatting.run(layout.repo, tree, OURS, only_check=False)
    assert texts(layout) == FILES


def test_a_folder_that_is_no_clone(tmp_path: Path) -> None:
    with pytest.raises(RedstartError, match="git does not name the files"):
        formatting.sources(tmp_path)


def test_command(layout: Layout, tree: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[Any] = []

    @contextmanager
    def reading(layout: Layout, version: str | None, checkout: Path | None) -> Iterator[Upstream]:
        asked.append((version, checkout))
        yield Upstream("9.7.4", tree)

    monkeypatch.setattr(cli, "this_layout", lambda: layout)
    monkeypatch.setattr(cli.upstreams, "reading", reading)
    monkeypatch.chdir(layout.repo)
    said: list[str] = []
    monkeypatch.setattr(cli, "say", said.append)

    def call(*arguments: str) -> int:
        said.clear()
        return CliRunner().invoke(cli.cli, ["format", *arguments]).exit_code

    assert call("--check") == 1
    assert said == [*(f"not formatted: {name}" for name in BAD), "2 of 3 files would be changed"]
    assert call("--check", "sql/good.cc") == 0
    assert call("--upstream", "9.7.2", "sql") == 0 and said == ["formatted sql/deep/bad.cc", "1 of 2 files were changed"]
    assert call("--source", str(tree)) == 0 and said == ["formatted storage/new.h", "1 of 3 files were changed"]
    assert call("--check") == 0 and said == ["0 of 3 files would be changed"]
    assert asked == [(None, None), (None, None), ("9.7.2", None), (None, tree), (None, None)]
    asked.clear()
    assert call("nothing") == 1 and asked == []
