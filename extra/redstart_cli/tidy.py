# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""clang-tidy over our C++: the checks of .clang-tidy, with the commands of a build tree."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from redstart_cli import formatting
from redstart_cli.console import RedstartError, say
from redstart_cli.process import run_captured
from redstart_cli.result import Level

# What it finds depends on its version.
TOOL = "clang-tidy-19"
_TIMEOUT_SEC = 600
# Parts of ha_innodb.cc and of headers: no compiler reads them by themselves.
_PARTS = ("_vars.h", ".ic")


def run(repo: Path, build_tree: Path, paths: Sequence[Path]) -> Level:
    """A test for each of our files, or those that are named; what is found is shown."""
    if shutil.which(TOOL) is None:
        raise RedstartError(f"{TOOL} was not found; it is in Debian's package of that name")
    if not (build_tree / "compile_commands.json").is_file():
        raise RedstartError(f"{build_tree} has no compile_commands.json; `./redstart build` makes it")
    names = [name for name in formatting.chosen(repo, paths) if not name.endswith(_PARTS)]

    def problem(name: str) -> str:
        done = run_captured([TOOL, "--quiet", "-p", build_tree, name], repo, _TIMEOUT_SEC)
        if done is None:
            return f"it did not end within {_TIMEOUT_SEC} s"
        code, output = done
        return "" if code == 0 else output.strip() or f"it ended with {code}"

    level = Level("tidy")
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for name, found in zip(names, pool.map(problem, names), strict=True):
            if not found:
                level.passed += 1
                continue
            level.fail(f"tidy {name}")
            for line in found.splitlines():
                say(f"  | {line}")
    return level
