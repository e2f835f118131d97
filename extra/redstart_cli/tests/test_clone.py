# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""State, difference and cleaning of a clone: nothing goes that is in use or was not asked for."""

import fcntl
import json
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from overlay.tree import manifest_path
from redstart_cli import clone
from redstart_cli.console import RedstartError
from redstart_cli.layout import Layout
from redstart_cli.server import Running


@pytest.fixture
def built(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> Layout:
    """A clone with a source, a finished and an unfinished build tree, and a data directory."""
    for name in ("source", "release", "debug", "run", "venv"):
        (layout.build / name).mkdir()
        (layout.build / name / "file").write_bytes(bytes(10000))
    (layout.build / "release/runtime_output_directory").mkdir()
    (layout.build / "release/runtime_output_directory/mysqld").touch()
    for name in ("release", "debug"):
        (layout.build / name / "build.ninja").touch()
    layout.source_stamp.write_text(json.dumps({"version": "9.7.4", "repository": "old"}))
    monkeypatch.setattr(clone, "read_pins", lambda _: ("9.7.4", {}))
    monkeypatch.setattr(clone, "cache_dir", lambda: layout.repo / "none")
    monkeypatch.setattr(clone.server, "read_state", lambda _: None)
    return layout


def left(layout: Layout) -> set[str]:
    return {path.name for path in layout.build.iterdir() if path.is_dir()}


def test_state_of_a_clone(built: Layout, capsys: pytest.CaptureFixture[str]) -> None:
    clone.status(built)
    lines = capsys.readouterr().out.splitlines()
    assert any("MySQL 9.7.4" in line and "the clone has changed" in line for line in lines)
    assert [line.split()[1:5] for line in lines if line.startswith(("release", "debug"))] == [
        ["not", "built", "to", "the"], ["built,", "0", "MB"],
    ]  # fmt: skip
    assert any(line.startswith("server     none") for line in lines)


def test_state_of_a_clone_that_has_built_nothing(
    layout: Layout, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    layout.build.rmdir()
    monkeypatch.setattr(clone, "read_pins", lambda _: ("9.7.4", {}))
    clone.status(layout)
    clone.clean(layout, [], False)
    assert "not made yet" in capsys.readouterr().out


def test_nothing_is_removed_without_a_name(built: Layout, capsys: pytest.CaptureFixture[str]) -> None:
    clone.clean(built, [], False)
    assert left(built) == {"source", "release", "debug", "run", "venv"}
    assert "run" in capsys.readouterr().out


def test_what_is_named_is_removed(built: Layout) -> None:
    clone.clean(built, ["source", "source"], False)
    assert left(built) == {"release", "debug", "run", "venv"} and not built.source_stamp.exists()
    (built.build / ".removing-release").mkdir()
    clone.clean(built, ["release"], False)
    assert left(built) == {"debug", "run", "venv"}


def test_all_leaves_the_data_directory(built: Layout) -> None:
    for name, file in (("mine", "ibdata1"), ("old", "auto.cnf"), ("torture", "found/kill-1"), ("kept", ".git/x")):
        (built.build / name / file).parent.mkdir(parents=True)
        (built.build / name / file).touch()
    (built.build / "fuzz/found").mkdir(parents=True)
    clone.clean(built, [], True)
    assert left(built) == {"run", "venv", "mine", "old", "torture", "kept"}
    clone.clean(built, ["run", "torture"], False)
    assert left(built) == {"venv", "mine", "old", "kept"}


def test_what_cannot_be_removed_is_said_and_is_in_nobodys_way(built: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    remove = clone.shutil.rmtree

    def refuse(path: Path, ignore_errors: bool = False) -> None:
        if not ignore_errors:
            raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(clone.shutil, "rmtree", refuse)
    with pytest.raises(RedstartError, match="debug was not removed as a whole; the rest is in .*removing-debug-0"):
        clone.clean(built, ["debug"], False)
    assert "debug" not in left(built)
    monkeypatch.setattr(clone.shutil, "rmtree", remove)
    (built.build / "debug").mkdir()
    clone.clean(built, ["debug"], False)
    assert left(built) == {"source", "release", "run", "venv"}


@pytest.mark.parametrize("name", ["nothing", "venv", "..", "release/file", ""])
def test_a_name_that_is_not_there_removes_nothing(built: Layout, name: str) -> None:
    with pytest.raises(RedstartError, match="no folder"):
        clone.clean(built, ["debug", name], False)
    assert "debug" in left(built)


@pytest.mark.parametrize("name", ["lock", "test.lock", "torture.lock", "bench/lock"])
def test_what_another_call_uses_is_not_removed(built: Layout, name: str) -> None:
    (built.build / "bench").mkdir()
    with (built.build / name).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(RedstartError, match="in use"):
            clone.clean(built, ["debug"], False)
    assert "debug" in left(built)


@pytest.mark.parametrize(("name", "how"), [("release", "runs from"), ("run", "has its data in")])
def test_what_the_server_uses_is_not_removed(built: Layout, name: str, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    running = Running(7, 1, "release", str(built.build / "run/data"), 3306, "s", "l", [])
    monkeypatch.setattr(clone.server, "read_state", lambda _: running)
    with pytest.raises(RedstartError, match=f"server 7 {how}"):
        clone.clean(built, ["debug", name], False)
    assert {"debug", name} <= left(built)
    clone.clean(built, ["debug"], False)


def test_what_has_a_mount_below_it_is_not_removed(built: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = [SimpleNamespace(mountpoint=point) for point in ("/proc", f"{built.build}/debug/a b")]
    monkeypatch.setattr(psutil, "disk_partitions", lambda all: mounts if all else [])
    with pytest.raises(RedstartError, match="a b is mounted"):
        clone.clean(built, ["debug"], False)
    assert "debug" in left(built)


@pytest.fixture
def edited(layout: Layout) -> tuple[Layout, Path]:
    """A tree with an edited file, a new one and one as it was."""
    upstream = layout.upstream / "9.7.4"
    for tree, text in ((upstream, "one\ntwo\n"), (layout.source, "one\n2\n")):
        (tree / "sql").mkdir(parents=True)
        (tree / "sql/a.cc").write_text(text)
    (layout.source / "sql/new.cc").write_text("new\n")
    manifest_path(layout.source).write_text(json.dumps({"files": {"sql/a.cc": "1", "sql/new.cc": "2"}}))
    return layout, upstream


@pytest.mark.parametrize(
    ("paths", "has_edit", "has_new"),
    [([], True, False), (["a.cc"], True, False), (["sql/new.cc"], False, True), (["sql/"], True, True),
     (["new.cc", "a.cc"], True, True)],
)  # fmt: skip
def test_the_difference_from_mysql(
    edited: tuple[Layout, Path], paths: list[str], has_edit: bool, has_new: bool, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    clone.diff(*edited, paths)
    text = capfdbinary.readouterr().out.decode()
    assert ("--- a/sql/a.cc\n+++ b/sql/a.cc\n" in text and "-two\n+2\n" in text) == has_edit
    assert ("+++ b/sql/new.cc\n" in text and "+new\n" in text) == has_new
    assert str(edited[0].repo) not in text


def test_a_file_that_redstart_leaves_alone_is_an_error(edited: tuple[Layout, Path]) -> None:
    for path in ("b.cc", "new", "a.c"):
        with pytest.raises(RedstartError, match=f"ends in {path}"):
            clone.diff(*edited, ["a.cc", path])
