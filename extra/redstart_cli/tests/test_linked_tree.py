# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The tree of links: what is compiled, where, and that it never writes into the pristine tree."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from redstart_cli import linked_tree
from redstart_cli.console import RedstartError
from redstart_cli.layout import Layout
from redstart_cli.linked_tree import LinkedTree, is_compiled

FAILING = ["sh", "-c", "echo no such type; exit 1", "-o", "x"]


@pytest.fixture(autouse=True)
def commands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linked_tree, "compile_commands", lambda *_: {"sql/a.cc": FAILING})


def make_tree(layout: Layout, tmp_path: Path) -> LinkedTree:
    (tmp_path / "upstream/sql").mkdir(parents=True)
    (tmp_path / "upstream/sql/a.cc").write_text("upstream's\n")
    (tmp_path / "upstream/.git").mkdir()
    return LinkedTree(layout, "release", layout.build / "linked", tmp_path / "upstream")


def test_the_pristine_tree_stays_as_it_is(layout: Layout, tmp_path: Path) -> None:
    with make_tree(layout, tmp_path) as links:
        assert os.path.samefile(links.tree / "sql/a.cc", tmp_path / "upstream/sql/a.cc") and not (links.tree / ".git").exists()
        links.write("sql/a.cc", b"ours\n")
        links.write("sql/new/b.cc", b"b\n")
        assert (links.tree / "sql/a.cc").read_text() == "ours\n" and (links.tree / "sql/new/b.cc").is_file()
    assert (tmp_path / "upstream/sql/a.cc").read_text() == "upstream's\n"
    assert not (layout.build / "linked").exists()


@pytest.mark.parametrize("problem", [1, KeyboardInterrupt()])
def test_nothing_stays_of_a_copy_that_has_failed(
    layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem: int | BaseException
) -> None:
    def copy(command: Sequence[str | Path], **_: object) -> subprocess.CompletedProcess[bytes]:
        (Path(command[-1]) / "half").touch()
        if isinstance(problem, BaseException):
            raise problem
        return subprocess.CompletedProcess([], problem)

    monkeypatch.setattr(linked_tree.subprocess, "run", copy)
    with pytest.raises((RedstartError, KeyboardInterrupt)), make_tree(layout, tmp_path):
        pass
    assert (tmp_path / "upstream/sql/a.cc").exists() and not (layout.build / "linked").exists()


def test_command(layout: Layout, tmp_path: Path) -> None:
    links = make_tree(layout, tmp_path)
    source, tree = layout.source, layout.build / "linked/source"
    given = f"c++ -I{source}/include -Winvalid-pch -include x/cmake_pch.hxx -include y.h -MF a.d -o a.o -c {source}/sql/a.cc"
    found = " ".join(links._command("sql/a.cc", False, given.split()))
    made = layout.build / "linked/objects/sql-a.cc.o"
    assert found == f"c++ -I{tree}/include -include y.h -MF {made}.d -o {made} -c {tree}/sql/a.cc -O0"
    assert "-O0" not in links._command("sql/a.cc", True, given.split())


def test_a_source_that_fails_says_why(layout: Layout, tmp_path: Path) -> None:
    layout.preset("release").mkdir()
    with make_tree(layout, tmp_path) as links:
        assert links.compile("sql/b.cc", True) == "sql/b.cc: the build has no command for it"
        said = links.compile("sql/a.cc", True)
    assert said.startswith("sql/a.cc: does not compile\n") and "no such type" in said


def test_what_a_test_compiles_itself_is_not_in_the_build() -> None:
    assert is_compiled("storage/innobase/fil/fil0map.cc")
    assert not is_compiled("mysql-test/suite/innodb/include/tablespace_check_faults.c")
    assert not is_compiled("storage/innobase/include/fil0map.h")
