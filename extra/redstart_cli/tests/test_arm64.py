# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The level arm64: its commands, and what fails it. The compiler is made up."""

from __future__ import annotations

import os

import pytest

from redstart_cli import arm64, formatting
from redstart_cli.arm64 import COMPILER, arguments_for
from redstart_cli.console import RedstartError
from redstart_cli.layout import Layout
from redstart_cli.tests.conftest import Program

COMMAND = (
    "cmake/ccache-launcher . ccache /usr/bin/c++ -DA=1 -I/include -O3 -march=native -mcx16 -fcf-protection -Winvalid-pch "
    "-include x/cmake_pch.hxx -include y.h -MD -MT a.o -MF a.d -o a.o -c /source/sql/a.cc"
)
REFUSES_OTHERS = "! grep -q immintrin.h \"$1\" || { echo no immintrin.h; exit 1; }"


def test_command() -> None:
    found = arguments_for(COMMAND.split())
    other = f"/usr/include/{os.uname().machine}-linux-gnu"
    wanted = [COMPILER, "-fsyntax-only", "-idirafter", other, "-DA=1", "-I/include", "-O3", "-include", "y.h", "/source/sql/a.cc"]
    assert found == wanted


def test_another_compiler_is_an_error() -> None:
    with pytest.raises(RedstartError, match="not made by g\\+\\+: clang -c a.cc"):
        arguments_for(["clang", "-c", "a.cc"])


@pytest.mark.parametrize(
    ("script", "failures"),
    [
        (REFUSES_OTHERS, []),
        (f"{REFUSES_OTHERS}; ! grep -q wrong \"$1\"", ["arm64 sql/b.cc"]),
        ("true", [f"{COMPILER} takes what only another processor has"]),
    ],
)
def test_what_fails_it(
    layout: Layout, program: Program, monkeypatch: pytest.MonkeyPatch, script: str, failures: list[str]
) -> None:
    sources = {"sql/a.cc": "right", "sql/b.cc": "wrong", "sql/a.h": "no source"}
    for name, text in sources.items():
        (layout.repo / name).parent.mkdir(exist_ok=True)
        (layout.repo / name).write_text(text)
    layout.preset("release").mkdir(parents=True)
    # The file is the last argument.
    program(COMPILER, f'#!/bin/sh\nfor last; do :; done\nset -- "$last"\n{script}\n')
    commands = {name: ["c++", "-c", str(layout.repo / name)] for name in sources}
    monkeypatch.setattr(arm64, "compile_commands", lambda *_: commands)
    monkeypatch.setattr(arm64.formatting, "chosen", lambda *_: list(sources))
    level = arm64.run(layout, "release", [])
    assert level.failures == failures
    assert level.passed == 3 - len(failures)


@pytest.mark.parametrize("others", [(), ("sql/a.cc",), ("sql",)])
def test_a_header_is_an_error(
    layout: Layout, program: Program, monkeypatch: pytest.MonkeyPatch, others: tuple[str, ...]
) -> None:
    """Also beside sources, by whose success it would seem to be read."""
    program(COMPILER, "#!/bin/sh\necho no immintrin.h\nexit 1\n")
    monkeypatch.setattr(arm64, "compile_commands", lambda *_: {"sql/a.cc": ["c++", "-c", "sql/a.cc"]})
    monkeypatch.setattr(formatting, "sources", lambda _: ["sql/a.cc", "sql/a.h"])
    header = layout.repo / "sql/a.h"
    with pytest.raises(RedstartError, match=f"^{header}: no source is there; a header is read with the sources that include it"):
        arm64.run(layout, "release", [*(layout.repo / name for name in others), header])


def test_a_clone_without_a_source_is_an_error(layout: Layout, program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    program(COMPILER, "#!/bin/sh\n")
    monkeypatch.setattr(arm64, "compile_commands", lambda *_: {})
    monkeypatch.setattr(formatting, "sources", lambda _: ["sql/a.h"])
    with pytest.raises(RedstartError, match=f"^{layout.repo}: no source is there"):
        arm64.run(layout, "release", [])


def test_a_source_that_the_build_does_not_know_fails(layout: Layout, program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    program(COMPILER, "#!/bin/sh\necho no immintrin.h\nexit 1\n")
    monkeypatch.setattr(arm64, "compile_commands", lambda *_: {})
    monkeypatch.setattr(arm64.formatting, "chosen", lambda *_: ["sql/a.cc"])
    assert arm64.run(layout, "release", []).failures == ["arm64 sql/a.cc"]
