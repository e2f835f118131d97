# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The proof of each patch: what is compiled, where, and that it never writes into the pristine tree."""

from __future__ import annotations

import os
from pathlib import Path

from overlay.series import FileState
from redstart_cli.layout import Layout
from redstart_cli.proof import Proof, is_compiled
from redstart_cli.upstream import Upstream


def make_proof(layout: Layout, tmp_path: Path) -> Proof:
    (tmp_path / "upstream/sql").mkdir(parents=True)
    (tmp_path / "upstream/sql/a.cc").write_text("upstream's\n")
    (tmp_path / "upstream/.git").mkdir()
    return Proof(layout, "release", Upstream("9.7.4", tmp_path / "upstream"))


def test_the_pristine_tree_stays_as_it_is(layout: Layout, tmp_path: Path) -> None:
    proof = make_proof(layout, tmp_path)
    proof._make_tree()
    tree = layout.build / "proof/source"
    assert os.path.samefile(tree / "sql/a.cc", tmp_path / "upstream/sql/a.cc") and not (tree / ".git").exists()
    proof._write({"sql/a.cc": FileState(b"ours\n", False), "sql/new/b.cc": FileState(b"b\n", False)})
    assert (tree / "sql/a.cc").read_text() == "ours\n" and (tree / "sql/new/b.cc").is_file()
    assert (tmp_path / "upstream/sql/a.cc").read_text() == "upstream's\n"


def test_command(layout: Layout, tmp_path: Path) -> None:
    proof = make_proof(layout, tmp_path)
    source, tree = layout.source, layout.build / "proof/source"
    given = f"c++ -I{source}/include -Winvalid-pch -include x/cmake_pch.hxx -include y.h -MF a.d -o a.o -c {source}/sql/a.cc"
    found = " ".join(proof._command("sql/a.cc", False, given.split()))
    made = layout.build / "proof/objects/sql-a.cc.o"
    assert found == f"c++ -I{tree}/include -include y.h -MF {made}.d -o {made} -c {tree}/sql/a.cc -O0"
    assert "-O0" not in proof._command("sql/a.cc", True, given.split())


def test_a_source_that_fails_says_why(layout: Layout, tmp_path: Path) -> None:
    proof = make_proof(layout, tmp_path)
    layout.preset("release").mkdir()
    assert proof._compile("sql/a.cc", True, {}) == "sql/a.cc: the build has no command for it"
    said = proof._compile("sql/a.cc", True, {"sql/a.cc": ["sh", "-c", "echo no such type; exit 1", "-o", "x"]})
    assert said.startswith("sql/a.cc: does not compile\n") and "no such type" in said


def test_what_a_test_compiles_itself_is_not_in_the_build() -> None:
    assert is_compiled("storage/innobase/fil/fil0map.cc")
    assert not is_compiled("mysql-test/suite/innodb/include/tablespace_check_faults.c")
    assert not is_compiled("storage/innobase/include/fil0map.h")
