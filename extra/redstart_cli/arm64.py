# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""./redstart test arm64: our C++ as a compiler for arm64 reads it.

No server is built for arm64, and nothing is run there. The headers that cmake and the build have made are this machine's, and so
are those of libraries where the compiler has none of its own.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from redstart_cli import formatting
from redstart_cli.compdb import compile_commands
from redstart_cli.console import RedstartError, say
from redstart_cli.layout import Layout
from redstart_cli.linked_tree import is_compiled, without_pch
from redstart_cli.process import run_captured
from redstart_cli.result import Level

COMPILER = "aarch64-linux-gnu-g++"
_TIMEOUT_SEC = 600
_FAILURE_LINES = 30
# What only one processor has. It has to be refused.
_FOREIGN = "#include <immintrin.h>\nint pause() { _mm_pause(); return 0; }\n"


def arguments_for(command: Sequence[str]) -> list[str]:
    """The compile command of a source for the other compiler, which writes nothing."""
    words = without_pch(command)
    # Before the compiler stands what caches its objects.
    for word in words:
        if Path(word).name in ("c++", "g++"):
            break
    else:
        raise RedstartError(f"this build is not made by g++: {' '.join(command[:4])}")
    found = [COMPILER, "-fsyntax-only", "-idirafter", f"/usr/include/{os.uname().machine}-linux-gnu"]
    for word in words:
        if word in ("-o", "-MF", "-MT"):
            next(words)
        elif word not in ("-c", "-MD") and not word.startswith(("-m", "-fcf-protection", "-march")):
            found.append(word)
    return found


def run(layout: Layout, preset: str, paths: Sequence[Path]) -> Level:
    """A test for each of our sources, or those that are named; what the compiler says is shown. RedstartError if that is none."""
    if shutil.which(COMPILER) is None:
        raise RedstartError(f"{COMPILER} was not found; it is in Debian's package g++-aarch64-linux-gnu")
    commands = compile_commands(layout, preset)
    names = [name for name in formatting.chosen(layout.repo, paths) if is_compiled(name)]
    for path in paths or [layout.repo]:
        if not any((layout.repo / name).is_relative_to(path.resolve()) for name in names):
            raise RedstartError(f"{path}: no source is there; a header is read with the sources that include it")
    level = Level("arm64")

    def problem(name: str) -> str:
        if name not in commands:
            return "the build has no command for it"
        return _said(arguments_for(commands[name]), layout.preset(preset))

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for name, found in zip(names, pool.map(problem, names), strict=True):
            if not found:
                level.passed += 1
                continue
            level.fail(f"arm64 {name}")
            for line in found.splitlines()[:_FAILURE_LINES]:
                say(f"  | {line}")
    with tempfile.NamedTemporaryFile("w", suffix=".cc") as file:
        file.write(_FOREIGN)
        file.flush()
        if "immintrin.h" in _said([COMPILER, "-fsyntax-only", file.name], layout.build):
            level.passed += 1
        else:
            level.fail(f"{COMPILER} takes what only another processor has")
    return level


def _said(command: Sequence[str], folder: Path) -> str:
    """What is wrong; empty if nothing is."""
    done = run_captured(command, folder, _TIMEOUT_SEC)
    if done is None:
        return f"it did not end within {_TIMEOUT_SEC} s"
    code, output = done
    return "" if code == 0 else output.strip() or f"it ended with {code}"
