# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The source tree on disk: made, updated, killed half-way, refused."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from overlay import OverlayError, Report, apply, tree
from overlay_support import CC, ENGINE, edit_item, write_yaml

A_EDITED = CC.replace(b"  work", b"  note();\n  work")
B_EDITED = CC.replace(b"  work", b"  note();\n  b_work")


@pytest.fixture
def dest(tmp_path: Path) -> Path:
    return tmp_path / "build" / "source"


def run(repo: Path, upstream: Path, dest: Path, features: list[str] | None = None) -> Report:
    return apply(repo, upstream, dest, "9.7.4", features)


def snapshot(dest: Path) -> dict[str, bytes]:
    """Contents of all files of a tree."""
    return {
        str(file.relative_to(dest)): file.read_bytes()
        for file in sorted(dest.rglob("*"))
        if file.is_file()
    }


def times(dest: Path) -> dict[str, int]:
    """Modification times, in ns, of all files of a tree."""
    return {
        str(file.relative_to(dest)): file.lstat().st_mtime_ns
        for file in dest.rglob("*")
        if not file.is_dir()
    }


def test_first_time(repo: Path, upstream: Path, dest: Path) -> None:
    report = run(repo, upstream, dest)
    assert report.rebuilt
    assert sorted(report.written) == ["sql/a.cc", "sql/b.cc", "sql/one.cc", "sql/two/deep.cc"]
    files = snapshot(dest)
    assert files["sql/a.cc"] == A_EDITED
    assert files["sql/b.cc"] == B_EDITED
    assert files["sql/one.cc"] == b"int one;\n"
    assert files["sql/plain.txt"] == b"caf\xe9\r\n"
    assert ".git/HEAD" not in files
    assert (dest / "sql/link.cc").is_symlink()
    assert (dest / "sql/plain.txt").stat().st_mtime == 1_000_000_000
    assert (dest / "sql/a.cc").stat().st_mtime > 1_000_000_000
    assert (upstream / "sql/a.cc").read_bytes() == CC
    assert sorted(path.name for path in dest.parent.iterdir()) == [
        "source",
        "source.lock",
        "source.manifest.json",
    ]


def test_second_time_writes_nothing(repo: Path, upstream: Path, dest: Path) -> None:
    run(repo, upstream, dest)
    before = times(dest) | {"manifest": tree.manifest_path(dest).stat().st_mtime_ns}
    report = run(repo, upstream, dest)
    assert not (report.rebuilt or report.written or report.restored or report.removed)
    assert times(dest) | {"manifest": tree.manifest_path(dest).stat().st_mtime_ns} == before


def test_changed_edit_writes_one_file(repo: Path, upstream: Path, dest: Path) -> None:
    run(repo, upstream, dest)
    before = times(dest)
    file = repo / "sql/a.cc.edit.yaml"
    file.write_text(file.read_text().replace("note", "other"))
    report = run(repo, upstream, dest)
    assert report.written == ["sql/a.cc"]
    assert {path for path, when in times(dest).items() if when != before[path]} == {"sql/a.cc"}
    assert b"other();" in (dest / "sql/a.cc").read_bytes()


def test_lost_edit_is_restored_with_a_new_time(repo: Path, upstream: Path, dest: Path) -> None:
    run(repo, upstream, dest)
    start = time.time() - 1
    (repo / "sql/a.cc.edit.yaml").unlink()
    report = run(repo, upstream, dest)
    assert (report.restored, report.written, report.removed) == (["sql/a.cc"], [], [])
    assert (dest / "sql/a.cc").read_bytes() == CC
    assert (dest / "sql/a.cc").stat().st_mtime > start, "a build would not notice"
    assert run(repo, upstream, dest).restored == []


def test_vanished_own_file_and_its_directory(repo: Path, upstream: Path, dest: Path) -> None:
    run(repo, upstream, dest)
    shutil.rmtree(repo / "sql/two")
    report = run(repo, upstream, dest)
    assert report.removed == ["sql/two/deep.cc"]
    assert not (dest / "sql/two").exists()
    assert (dest / "sql").is_dir()


def test_features(repo: Path, upstream: Path, dest: Path) -> None:
    run(repo, upstream, dest, ["one"])
    files = snapshot(dest)
    assert (files["sql/a.cc"], files["sql/b.cc"]) == (
        A_EDITED,
        (upstream / "sql/b.cc").read_bytes(),
    )
    assert "sql/one.cc" in files and "sql/two/deep.cc" not in files
    report = run(repo, upstream, dest, ["two"])
    assert sorted(report.written) == ["sql/b.cc", "sql/two/deep.cc"]
    assert (report.restored, report.removed) == (["sql/a.cc"], ["sql/one.cc"])
    assert snapshot(dest)["sql/a.cc"] == CC
    with pytest.raises(OverlayError, match="no feature `three`"):
        run(repo, upstream, dest, ["three"])


def test_own_file_mode(repo: Path, upstream: Path, dest: Path) -> None:
    run(repo, upstream, dest)
    (repo / "sql/one.cc").chmod(0o755)
    assert run(repo, upstream, dest).written == ["sql/one.cc"]
    assert (dest / "sql/one.cc").stat().st_mode & 0o777 == 0o755


def test_changed_by_hand_is_put_right(repo: Path, upstream: Path, dest: Path) -> None:
    run(repo, upstream, dest)
    (dest / "sql/a.cc").write_bytes(b"broken")
    (dest / "sql/one.cc").unlink()
    assert sorted(run(repo, upstream, dest).written) == ["sql/a.cc", "sql/one.cc"]


@pytest.mark.parametrize("manifest", [None, "", "{", "[]", '{"format": 1}', '{"format": 0}'])
def test_bad_manifest_makes_anew(
    manifest: str | None, repo: Path, upstream: Path, dest: Path
) -> None:
    run(repo, upstream, dest)
    stray = dest / "sql/stray.cc"
    stray.write_text("x")
    before = times(dest)
    path = tree.manifest_path(dest)
    path.unlink() if manifest is None else path.write_text(manifest)
    assert run(repo, upstream, dest).rebuilt
    assert not stray.exists()
    assert times(dest)["sql/plain.txt"] == before["sql/plain.txt"]
    assert not run(repo, upstream, dest).rebuilt


def test_other_version_makes_anew_with_new_times(
    repo: Path, upstream: Path, dest: Path, tmp_path: Path
) -> None:
    run(repo, upstream, dest)
    older = tmp_path / "older"
    shutil.copytree(upstream, older, symlinks=True)
    text = (older / "MYSQL_VERSION").read_text().replace("PATCH=4", "PATCH=2")
    (older / "MYSQL_VERSION").write_text(text)
    (older / "sql/plain.txt").write_bytes(b"older")
    (older / "sql/new.h").write_bytes(b"new")
    for name in ("sql/plain.txt", "sql/new.h"):
        os.utime(older / name, (900_000_000, 900_000_000))
    start = time.time() - 1
    assert apply(repo, older, dest, "9.7.2").rebuilt
    assert (dest / "sql/plain.txt").read_bytes() == b"older"
    assert (dest / "sql/plain.txt").stat().st_mtime > start
    assert (dest / "sql/new.h").stat().st_mtime > start
    assert (dest / "sql/a.cc").stat().st_mtime > start


def test_error_leaves_the_tree(repo: Path, upstream: Path, dest: Path) -> None:
    run(repo, upstream, dest)
    before = (snapshot(dest), times(dest))
    (repo / "sql/one.cc").write_text("int changed;\n")
    item = edit_item("a-note", "one", op="before_call", function="f", callee="x", text="y();")
    write_yaml(repo / "sql/a.cc.edit.yaml", [item])
    with pytest.raises(OverlayError, match="no call of `x` in `f`"):
        run(repo, upstream, dest)
    assert (snapshot(dest), times(dest)) == before


def test_all_errors_are_named(repo: Path, upstream: Path, dest: Path) -> None:
    item = edit_item("gone", "one", op="before_call", function="f", callee="x", text="y();")
    write_yaml(repo / "sql/gone.cc.edit.yaml", [item])
    (upstream / "sql/one.cc").write_text("int upstreams;\n")
    with pytest.raises(OverlayError) as raised:
        run(repo, upstream, dest)
    assert "gone: sql/gone.cc: no such upstream file" in str(raised.value)
    assert "sql/one.cc: upstream has a file of this path" in str(raised.value)
    assert not dest.exists()


_CRASH = """
import os, signal, sys
from pathlib import Path
from overlay import tree
writes = int(sys.argv[4])
def die_at(name):
    original = getattr(tree, name)
    def wrapper(*args):
        global writes
        if writes == 0:
            if name == "_write":  # in the middle of a file
                (args[0] / args[1]).parent.mkdir(parents=True, exist_ok=True)
                (args[0] / args[1]).write_bytes(b"half")
            os.kill(os.getpid(), signal.SIGKILL)
        writes -= 1
        return original(*args)
    setattr(tree, name, wrapper)
for name in ("_write", "_remove", "_write_manifest", "_touch_changed"):
    die_at(name)
tree.apply(Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), "9.7.4")
"""


def _crash(repo: Path, upstream: Path, dest: Path, writes: int) -> bool:
    """Run an apply that is killed before its n-th step; whether it was."""
    done = subprocess.run(
        [sys.executable, "-c", _CRASH, str(repo), str(upstream), str(dest), str(writes)],
        env=os.environ | {"PYTHONPATH": str(ENGINE.parent)},
        check=False,
    )
    assert done.returncode in (0, -signal.SIGKILL)
    return done.returncode != 0


@pytest.mark.parametrize("exists", [False, True], ids=["first", "update"])
def test_killed_at_every_step(
    exists: bool, repo: Path, upstream: Path, dest: Path, tmp_path: Path
) -> None:
    if exists:
        run(repo, upstream, dest)
        (repo / "sql/a.cc.edit.yaml").unlink()
        shutil.rmtree(repo / "sql/two")
        (repo / "sql/one.cc").write_text("int changed;\n")
        (repo / "sql/one").mkdir()
        (repo / "sql/one/new.cc").write_text("int added;\n")
    clean = tmp_path / "clean" / "source"
    run(repo, upstream, clean)
    for step in range(20):
        work = tmp_path / f"work{step}" / "source"
        if exists:
            shutil.copytree(dest, work, symlinks=True)
            shutil.copy(tree.manifest_path(dest), tree.manifest_path(work))
        if not _crash(repo, upstream, work, step):
            break
        run(repo, upstream, work)
        assert snapshot(work) == snapshot(clean), f"killed at step {step}"
        assert not work.with_name("source.new").exists()
        assert not work.with_name("source.old").exists()
    assert step > 4


def test_refuses_what_is_not_ours(repo: Path, upstream: Path, tmp_path: Path) -> None:
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "thesis.txt").write_text("x")
    with pytest.raises(OverlayError, match="not a source tree made by us"):
        run(repo, upstream, foreign)
    shutil.copy(upstream / "MYSQL_VERSION", foreign)
    (foreign / ".git").mkdir()
    with pytest.raises(OverlayError, match="not a source tree made by us"):
        run(repo, upstream, foreign)
    assert (foreign / "thesis.txt").exists()


@pytest.mark.parametrize("where", ["upstream", "upstream/sql/x", "repo", "."])
def test_refuses_to_overwrite_its_inputs(
    where: str, repo: Path, upstream: Path, tmp_path: Path
) -> None:
    with pytest.raises(OverlayError, match="would overwrite|lies inside"):
        run(repo, upstream, tmp_path / where)


def test_wrong_version(repo: Path, upstream: Path, dest: Path) -> None:
    with pytest.raises(OverlayError, match="is MySQL 9.7.4, not 9.7.2"):
        apply(repo, upstream, dest, "9.7.2")
    (upstream / "MYSQL_VERSION").write_text("hello")
    with pytest.raises(OverlayError, match="does not name a version"):
        run(repo, upstream, dest)
    with pytest.raises(OverlayError, match="no such directory|not a MySQL source tree"):
        run(repo, upstream / "none", dest)


def test_copy_that_fails_leaves_nothing(
    repo: Path, upstream: Path, dest: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object, **_: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess([], 1, "", "No space left on device")

    monkeypatch.setattr(tree.subprocess, "run", fail)
    with pytest.raises(OverlayError, match="No space left on device"):
        run(repo, upstream, dest)
    assert [path.name for path in dest.parent.iterdir()] == ["source.lock"]


def test_report_as_json(repo: Path, upstream: Path, dest: Path) -> None:
    report = json.loads(run(repo, upstream, dest).as_json())
    assert report["rebuilt"] is True
    assert [found["id"] for found in report["landings"]] == ["a-note", "b-note"]
