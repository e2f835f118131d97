# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Configure and build with a fake cmake and a fake ninja."""

from __future__ import annotations

import json
import os
from collections import namedtuple
from pathlib import Path

import pytest

from redstart_cli import build as builds
from redstart_cli import disk
from redstart_cli.console import RedstartError
from redstart_cli.layout import Layout
from redstart_cli.locks import exclusive, shared
from redstart_cli.tests.conftest import Program
from redstart_cli.upstream import Upstream

CMAKE = """#!/bin/sh
echo "cmake $*" >>"$CALLS"
[ -z "$CMAKE_FAILS" ] || { echo "CMake Error: no compiler"; exit 1; }
while [ "$1" != -B ]; do shift; done
touch "$2/build.ninja"
"""
NINJA = """#!/bin/sh
case " $* " in
  *" build.ninja "*) exit ;;
  *" -t compdb "*) echo '[]'; exit ;;
  *" -t targets "*) cat "$CALLS.targets"; exit ;;
  *" -n "*) echo "[1/2] Building CXX object sql/a.cc.o"; echo "[2/2] Linking CXX executable mysqld"; exit ;;
esac
echo "ninja $*" >>"$CALLS"
echo "[1/2] Building CXX object sql/a.cc.o"
[ -z "$NINJA_FAILS" ] || {
  echo "FAILED: sql/a.cc.o"; echo "a.cc:1: error: expected ';'"; echo "ninja: build stopped"; exit 1; }
echo "[2/2] Linking CXX executable mysqld"
"""


@pytest.fixture
def calls(layout: Layout, tmp_path: Path, program: Program, monkeypatch: pytest.MonkeyPatch) -> Path:
    program("cmake", CMAKE)
    program("ninja", NINJA)
    path = tmp_path / "calls"
    monkeypatch.setenv("CALLS", str(path))
    (layout.repo / "cmake/options.cmake").write_text("set(A 1)\n")
    monkeypatch.setattr(builds, "space_needed", lambda *_: [])
    monkeypatch.setattr(disk, "disk_usage", lambda _: Usage(10**12, 0, 10**12))
    monkeypatch.setattr(builds, "ensure_source", lambda *_: Upstream("9.7.4", layout.upstream / "9.7.4"))
    return path


def read(calls: Path) -> list[str]:
    """Names of the programs called since the last read."""
    lines = calls.read_text().splitlines() if calls.exists() else []
    calls.unlink(missing_ok=True)
    return [line.split()[0] for line in lines]


def test_configures_only_when_options_change(layout: Layout, calls: Path) -> None:
    assert builds.build(layout, "release") == "9.7.4"
    assert read(calls) == ["cmake", "ninja"]
    builds.build(layout, "release")
    assert read(calls) == ["ninja"]
    (layout.repo / "cmake/options.cmake").write_text("set(A 2)\n")
    builds.build(layout, "release")
    assert read(calls) == ["cmake", "ninja"]


def test_editors_find_our_files_in_the_clone(layout: Layout, calls: Path, program: Program) -> None:
    own, tree = layout.repo / "sql/own.cc", layout.preset("debug")
    own.parent.mkdir()
    own.write_text("")
    launcher = f"{layout.repo}/cmake/ccache-launcher {layout.repo} ccache "
    entries = [
        {
            "directory": str(tree),
            "command": f"{launcher}c++ -I{tree} -I{layout.source}/sql -I{layout.source}/vio -o a.o -c {layout.source}/{name}",
            "file": f"{layout.source}/{name}",
            "output": f"CMakeFiles/{Path(name).stem}.dir/a.o",
        }
        for name in ("sql/own.cc", "sql/upstream.cc")
    ]
    linked = entries[0] | {"command": "c++ -o mysqld"}
    # A test is compiled for a collection of them, too.
    collected = entries[0] | {"command": entries[0]["command"] + " -DALL", "output": "CMakeFiles/all.dir/a.o"}
    program("ninja", f"#!/bin/sh\ncat <<'END'\n{json.dumps([collected, *entries, collected, linked])}\nEND\n")
    builds.build(layout, "debug", targets=())
    text = (layout.build / "compile_commands.json").read_text()
    arguments = ["c++", f"-I{tree}", f"-I{own.parent}", f"-I{layout.source}/sql", f"-I{layout.source}/vio", "-o", "a.o", "-c"]
    wanted = [str(own), f"{layout.source}/sql/upstream.cc"]
    assert [(entry["file"], entry["arguments"]) for entry in json.loads(text)] == [
        (file, [*arguments, file]) for file in wanted
    ]
    # It is as old as the build tree, or newer.
    os.utime(layout.build / "compile_commands.json", (2_000_000_000, 2_000_000_000))
    program("ninja", "#!/bin/sh\n[ \"$3\" = build.ninja ]\n")
    builds.build(layout, "debug", targets=())
    os.utime(tree / "build.ninja", (2_000_000_001, 2_000_000_001))
    with pytest.raises(RedstartError, match="compdb failed"):
        builds.build(layout, "debug", targets=())


def test_others_read_while_it_compiles(layout: Layout, calls: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def compile_(*_: object) -> None:
        with shared(layout.lock, "the clone"):
            calls.write_text("read\n")
        with pytest.raises(RedstartError, match="in use by process"), exclusive(layout.lock, "the clone"):
            pass

    monkeypatch.setattr(builds, "_compile", compile_)
    builds.build(layout, "release")
    assert read(calls) == ["read"]


def test_configure_only(layout: Layout, calls: Path) -> None:
    builds.build(layout, "debug", targets=())
    assert read(calls) == ["cmake"]


def test_the_packages_options_take_precedence(layout: Layout, calls: Path) -> None:
    own = layout.repo / "cmake/package.cmake"
    own.write_text("set(B 1)\n")
    builds.build(layout, "package", targets=())
    assert f"-C {own} -C {layout.repo / 'cmake/options.cmake'} " in calls.read_text()
    read(calls)
    own.write_text("set(B 2)\n")
    builds.build(layout, "package", targets=())
    assert read(calls) == ["cmake"]
    builds.build(layout, "release", targets=())
    assert "package.cmake" not in calls.read_text()


def test_only_what_is_shipped_is_told_the_commit(layout: Layout, calls: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (layout.repo / "cmake/package.cmake").write_text("")
    monkeypatch.setenv("REDSTART_COMMIT", "0123456789ab")
    for preset in ("release", "package"):
        builds.build(layout, preset, targets=())
    release, package = calls.read_text().splitlines()
    assert "REDSTART" not in release
    assert package.endswith(" -DREDSTART_COMMIT=ON -DREDSTART_RELEASE=")
    assert not (layout.preset("release") / "commit.h").exists()
    header = layout.preset("package") / "commit.h"
    assert header.read_text() == '#define COMMIT "0123456789ab"\n'
    # Another commit begins nothing anew; the same one leaves the file as old as it is.
    calls.unlink()
    os.utime(header, (1, 1))
    builds.build(layout, "package", targets=())
    assert header.stat().st_mtime == 1
    monkeypatch.setenv("REDSTART_COMMIT", "fedcba987654")
    builds.build(layout, "package", targets=())
    assert "fedcba987654" in header.read_text() and read(calls) == []


def test_mysql_as_released_has_a_tree_of_its_own(layout: Layout, calls: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> Upstream:
        raise AssertionError("the edits are not for this tree")

    builds.build(layout, "release", targets=())
    monkeypatch.setattr(builds, "ensure_source", refuse)
    monkeypatch.setattr(builds, "pristine", lambda *_: Upstream("9.7.4", layout.upstream / "9.7.4"))
    calls.unlink()
    assert builds.build(layout, "release", targets=(), is_pristine=True) == "9.7.4"
    assert builds.build(layout, "debug", targets=(), is_pristine=True) == "9.7.4"
    clone = layout.build / "pristine"
    for line, tree in zip(calls.read_text().splitlines(), ("release", "debug"), strict=True):
        # To the compiler cache these are the sources and the build tree of a clone.
        assert f"-S {clone}/build/source -B {clone}/build/{tree} -DREDSTART_PRISTINE={clone} -C " in line
    assert (clone / "build/source").resolve() == (layout.upstream / "9.7.4").resolve()
    assert (layout.preset("pristine") / "configured").is_file() and (layout.preset("pristine-debug") / "configured").is_file()
    calls.unlink()
    # Objects of another release may be younger than its sources.
    assert builds.build(layout, "release", targets=(), is_pristine=True) == "9.7.4"
    assert read(calls) == [] and layout.preset("pristine-debug").is_dir()
    monkeypatch.setattr(builds, "pristine", lambda *_: Upstream("9.7.2", layout.upstream / "9.7.2"))
    assert builds.build(layout, "release", targets=(), is_pristine=True) == "9.7.2"
    assert read(calls) == ["cmake"] and not layout.preset("pristine-debug").exists()
    assert (clone / "build/source").resolve() == (layout.upstream / "9.7.2").resolve()
    monkeypatch.setattr(builds, "ensure_source", lambda *_: Upstream("9.7.4", layout.upstream / "9.7.4"))
    builds.build(layout, "release", targets=())
    assert read(calls) == []


def test_everything_is_programs_and_plugins_without_unit_tests(layout: Layout, calls: Path) -> None:
    targets = Path(f"{calls}.targets")
    targets.write_text(
        "all: phony\nruntime_output_directory/mysqld: CXX_EXECUTABLE_LINKER\nruntime_output_directory/a-t: CXX_EXECUTABLE_LINKER\n"
        "plugin_output_directory/mock.so: CXX_MODULE_LIBRARY_LINKER\nsql/mysqld: phony\n"
    )
    builds.build(layout, "release", builds.EVERYTHING)
    assert calls.read_text().splitlines()[-1].endswith(" plugin_output_directory/mock.so runtime_output_directory/mysqld")
    targets.write_text("all: phony\n")
    with pytest.raises(RedstartError, match=r"ninja does not say what there is in .*/release: all: phony"):
        builds.build(layout, "release", builds.EVERYTHING)


def test_failed_configuration_shows_its_end_and_is_repeated(
    layout: Layout, calls: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CMAKE_FAILS", "1")
    with pytest.raises(RedstartError, match=r"cmake failed(.|\n)*no compiler(.|\n)*release\.log"):
        builds.build(layout, "release")
    monkeypatch.delenv("CMAKE_FAILS")
    builds.build(layout, "release")
    assert read(calls) == ["cmake", "cmake", "ninja"]


def test_failed_build_shows_the_failure_and_goes_on_next_time(
    layout: Layout, calls: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NINJA_FAILS", "1")
    with pytest.raises(RedstartError, match=r"FAILED: sql/a.cc.o(.|\n)*expected ';'") as caught:
        builds.build(layout, "release")
    assert "[1/2]" not in str(caught.value)
    assert "[1/2]" in (layout.build / "release.log").read_text()
    monkeypatch.delenv("NINJA_FAILS")
    builds.build(layout, "release")
    assert read(calls) == ["cmake", "ninja", "ninja"]


Usage = namedtuple("Usage", "total used free")


def test_too_little_disk_is_said_before_anything_starts(
    layout: Layout, calls: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk, "disk_usage", lambda path: Usage(10**9, 0, 10**9))
    with pytest.raises(RedstartError, match="too little disk space: .* needed .build tree release .* available"):
        builds.build(layout, "release")
    assert read(calls) == []
