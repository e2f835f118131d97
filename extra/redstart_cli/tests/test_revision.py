# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""What Git and the environment say of a tree."""

from __future__ import annotations

import datetime
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from redstart_cli import revision
from redstart_cli.console import RedstartError

REPO = Path(__file__).resolve().parents[3]
WHEN = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
Git = Callable[..., str]


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SOURCE_DATE_EPOCH", "REDSTART_COMMIT", "REDSTART_RELEASE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def git(tmp_path: Path) -> Git:
    """Runs Git in a clone of one commit."""
    names = {f"GIT_{who}_{what}": "a@b.c" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    variables = {"PATH": os.environ["PATH"], "GIT_COMMITTER_DATE": "2026-01-02T03:04:05Z", **names}

    def call(*words: str) -> str:
        command = ["git", "-C", str(tmp_path), *words]
        return subprocess.run(command, check=True, env=variables, capture_output=True, text=True).stdout.strip()

    call("init", "--quiet")
    (tmp_path / "file").write_text("a")
    call("add", "file")
    call("commit", "--quiet", "--message", "A")
    return call


def test_time(tmp_path: Path, git: Git, monkeypatch: pytest.MonkeyPatch) -> None:
    assert revision.source_date(tmp_path) == WHEN
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1")
    assert revision.source_date(tmp_path).timestamp() == 1
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "yesterday")
    with pytest.raises(RedstartError, match="'yesterday'"):
        revision.source_date(tmp_path)


def test_commit(tmp_path: Path, git: Git) -> None:
    git("tag", "9.7.4-redstart1")
    head = git("rev-parse", "HEAD")[:12]
    assert revision.commit(tmp_path) == head
    (tmp_path / "file").write_text("b")
    assert revision.commit(tmp_path) == f"{head}+"
    assert revision.release(tmp_path) is None


def test_release(tmp_path: Path, git: Git) -> None:
    for name in ("9.7.4-redstart01", "9.7.4-redstart", "v9.7.4-redstart1", "9.7.4-redstart1-rc"):
        git("tag", name)
    assert revision.release(tmp_path) is None
    assert revision.options(tmp_path)[1] == "-DREDSTART_RELEASE="
    for name in ("9.7.4-redstart2", "9.7.4-redstart10", "9.7.2-redstart11"):
        git("tag", "--annotate", "--message", name, name)
    assert revision.release(tmp_path) == ("9.7.4", 10)
    assert revision.options(tmp_path) == ["-DREDSTART_COMMIT=ON", "-DREDSTART_RELEASE=10"]
    git("commit", "--quiet", "--allow-empty", "--message", "B")
    assert revision.release(tmp_path) is None


def test_without_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
    assert before <= revision.source_date(tmp_path) <= datetime.datetime.now(datetime.UTC)
    assert revision.options(tmp_path) == ["-DREDSTART_COMMIT=OFF", "-DREDSTART_RELEASE="]
    monkeypatch.setenv("PATH", str(tmp_path))
    assert revision.commit(tmp_path) == ""


def test_the_environment_counts_first(tmp_path: Path, git: Git, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDSTART_COMMIT", "0123456789abcdef+")
    monkeypatch.setenv("REDSTART_RELEASE", "9.7.4-redstart3")
    assert revision.commit(tmp_path) == "0123456789ab+"
    assert revision.options(tmp_path) == ["-DREDSTART_COMMIT=ON", "-DREDSTART_RELEASE=3"]
    monkeypatch.setenv("REDSTART_COMMIT", 'a"b')
    with pytest.raises(RedstartError, match="must be the name of a commit"):
        revision.commit(tmp_path)
    monkeypatch.setenv("REDSTART_RELEASE", "3")
    with pytest.raises(RedstartError, match="must be such as 9.7.4-redstart1, not '3'"):
        revision.release(tmp_path)


# A server of three sources: one reads the text, one the header without it, one neither. The names are those of
# MySQL, which version_comment.cmake knows.
LISTS = """
cmake_minimum_required(VERSION 3.25)
set(BUILD_SPEED OFF)
project(MySQL LANGUAGES CXX)
file(CONFIGURE OUTPUT include/mysql_version.h CONTENT [[
#pragma once
#define MYSQL_COMPILATION_COMMENT_SERVER "@COMPILATION_COMMENT_SERVER@"
]] @ONLY)
include_directories(${CMAKE_BINARY_DIR}/include)
add_library(sql_main STATIC sql/log.cc sql/mysqld.cc sql/sql_parse.cc sql/sys_vars.cc)
add_executable(mysqld main.cc)
target_link_libraries(mysqld sql_main)
"""
READER = '#include "mysql_version.h"\nextern const char *text;\nconst char *text = MYSQL_COMPILATION_COMMENT_SERVER;\n'
OTHER = '#include "mysql_version.h"\n'
MAIN = '#include <cstdio>\n#include "mysql_version.h"\nextern const char *text;\nint main() { puts(text); }\n'


def test_a_commit_compiles_one_object(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sql").mkdir()
    sources = {"CMakeLists.txt": LISTS, "main.cc": MAIN, "sql/sys_vars.cc": READER}
    sources |= {f"sql/{name}.cc": OTHER for name in ("log", "mysqld", "sql_parse")}
    for name, text in sources.items():
        (tmp_path / name).write_text(text)
    build = tmp_path / "build"

    options = ["-G", "Ninja", "-DREDSTART_COMMIT=ON", f"-DCMAKE_PROJECT_MySQL_INCLUDE={REPO}/cmake/project_hook.cmake"]
    subprocess.run(["cmake", "-S", tmp_path, "-B", build, *options], check=True, capture_output=True)

    def compiled(commit: str) -> tuple[str, int]:
        """What the server says, and how many objects were made for it."""
        monkeypatch.setenv("REDSTART_COMMIT", commit)
        revision.write_commit(tmp_path, build)
        log = subprocess.run(["ninja", "-C", build, "-v"], check=True, capture_output=True, text=True).stdout
        said = subprocess.run([build / "mysqld"], check=True, capture_output=True, text=True).stdout
        return said, sum(" -c " in line for line in log.splitlines())

    assert compiled("0123456789ab") == ("Redstart, a fork of MySQL - GPL, commit 0123456789ab\n", 6)
    assert compiled("fedcba987654+") == ("Redstart, a fork of MySQL - GPL, commit fedcba987654+\n", 1)
    assert compiled("fedcba987654+")[1] == 0
