# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The comparison of two builds, without a compiler."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from redstart_cli import reproducible
from redstart_cli.console import RedstartError
from redstart_cli.layout import Layout
from redstart_cli.tests.conftest import write_program

# A build that has its path in one file, and time and cache told in another.
BUILD = """#!/bin/sh
[ "$*" = "build package --upstream 9.7.4 --target a --target b" ] || exit 1
cd "$(dirname "$0")"
mkdir -p build/package
pwd >build/package/a
echo "$SOURCE_DATE_EPOCH" >build/package/b
[ "$CCACHE_DISABLE" = 1 ] || [ ! -e other ]
"""


@pytest.fixture
def layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    for name in ("SOURCE_DATE_EPOCH", "REDSTART_COMMIT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1767225600")
    found = Layout(tmp_path / "repo")
    write_program(found.repo / "redstart", BUILD)
    (found.repo / ".gitignore").write_text("/build\n")
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "A")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "a@b.c")
    for words in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message", "A"]):
        subprocess.run(["git", "-C", found.repo, *words], check=True)
    return found


def run(layout: Layout, monkeypatch: pytest.MonkeyPatch, *names: str) -> reproducible.Level:
    def build(*_: object) -> None:
        words = ("build", "package", "--upstream", "9.7.4", "--target", "a", "--target", "b")
        command: list[str | Path] = [layout.repo / "redstart", *words]
        subprocess.run(command, check=True, env={"PATH": "/usr/bin:/bin", "SOURCE_DATE_EPOCH": "1767225600", "CCACHE_DISABLE": "1"})

    monkeypatch.setattr(reproducible, "build", build)
    monkeypatch.setattr(reproducible, "targets", lambda: ["a", "b"])
    monkeypatch.setattr(reproducible, "stage", lambda one, root: one.preset("package").rename(root))
    return reproducible.run(layout, names, ["--upstream", "9.7.4"], "9.7.4", None)


@pytest.mark.parametrize("names", [(), ("a", "b")])
def test_what_differs_is_named(layout: Layout, monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...]) -> None:
    level = run(layout, monkeypatch, *names)
    assert (level.passed, level.failures) == (1, ["a differs"])
    # To look at.
    assert (layout.build / "packaging/again/other-clone").is_dir()


def test_equal_builds_pass(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    text = BUILD.replace("pwd >", "echo . >")
    write_program(layout.repo / "redstart", text)
    subprocess.run(["git", "-C", layout.repo, "commit", "--quiet", "--all", "--message", "B"], check=True)
    level = run(layout, monkeypatch)
    assert (level.passed, level.failed) == (2, 0)
    assert not (layout.build / "packaging/again").exists()


def test_only_a_commit_is_built_again(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    (layout.repo / ".gitignore").write_text("")
    with pytest.raises(RedstartError, match="only a commit can be built again"):
        run(layout, monkeypatch)


def test_a_second_build_that_fails(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RedstartError, match="the second build failed"):
        run(layout, monkeypatch, "c")


def test_a_file_that_only_one_build_has() -> None:
    assert reproducible.compare({"a": "1"}, {"a": "1", "b": "2"}).failures == ["b is in one build only"]
