# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The command line as other tools call it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from overlay_support import ENGINE, edit_item, write_yaml


def overlay(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "overlay", *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": str(ENGINE.parent)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_apply(repo: Path, upstream: Path, tmp_path: Path) -> None:
    trees = ("--repo", repo, "--upstream", upstream, "--dest", tmp_path / "source")
    done = overlay("apply", *trees, "--version", "9.7.4", "--feature", "one")
    assert done.returncode == 0, done.stderr
    assert done.stdout == (
        "source tree made anew: 1 edits, 2 files written, 0 restored, 0 removed\n"
    )
    done = overlay("apply", *trees, "--version", "9.7.4", "--json")
    assert json.loads(done.stdout)["written"] == ["sql/b.cc", "sql/two/deep.cc"]


def test_errors_go_to_stderr_without_a_traceback(repo: Path, upstream: Path) -> None:
    (repo / "sql/a.cc.edit.yaml").write_text("- 1\n")
    done = overlay("check", "--repo", repo, "--upstream", upstream)
    assert done.returncode == 1
    assert done.stderr.startswith("overlay: sql/a.cc.edit.yaml:1:")


def test_check(repo: Path, upstream: Path) -> None:
    trees = ("--repo", repo, "--upstream", upstream)
    done = overlay("check", *trees)
    assert done.returncode == 0
    assert done.stdout == (
        "a-note: lands at sql/a.cc:5 in f\n"
        "b-note: lands at sql/b.cc:5 in f\n"
        "2 of 2 edits land in 9.7.4\n"
    )
    (upstream / "sql/one.cc").write_text("int upstreams;\n")
    done = overlay("check", *trees)
    assert done.returncode == 1
    assert "sql/one.cc: upstream has a file of this path\n" in done.stdout
    item = edit_item("bad", "one", op="before_call", function="f", callee="x", text="y();")
    write_yaml(repo / "sql/a.cc.edit.yaml", [item])
    done = overlay("check", *trees, "--version", "9.9.0", "--json")
    assert done.returncode == 1
    landings = json.loads(done.stdout)
    assert [(found["id"], found["ok"]) for found in landings] == [("bad", False), ("b-note", True)]


def test_golden(repo: Path, upstream: Path) -> None:
    arguments = ("golden", "--repo", repo, "--upstream", upstream, "--version", "9.7.4")
    assert overlay(*arguments).returncode == 1
    assert overlay(*arguments, "--write").returncode == 0
    assert overlay(*arguments).returncode == 0
    (repo / "sql/a.cc.edit.yaml").unlink()
    done = overlay(*arguments)
    assert done.returncode == 1
    assert "3 differences" in done.stdout
    assert "upstream's sql/a.cc: in the golden record only\n" in done.stdout


def test_copied(repo: Path, upstream: Path) -> None:
    write_yaml(repo / "cmake/overlay/copied_allow.yaml", [])
    arguments = ("copied", "--repo", repo, "--upstream", upstream)
    assert overlay(*arguments).returncode == 0
    lines = "\n".join(f"line {n}" for n in range(6))
    for root in (repo, upstream):
        (root / "sql/one.txt").write_text(lines)
    done = overlay(*arguments)
    assert done.returncode == 1
    assert "sql/one.txt:1-6: stands in upstream sql/one.txt:1\n1 copied runs" in done.stdout
