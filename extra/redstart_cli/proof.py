# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Proof that each patch compiles on what stands before it, and passes the unit test it brings.

A tree of links to the pristine one takes the files of one patch after another. What a patch touches is
compiled there with the command of the release build (linked_tree.py); so a patch cannot use a file of a
later one. Upstream's sources are compiled without optimising; ours as in the release.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath

from overlay import load
from overlay.errors import OverlayError
from overlay.series import Step, make_series
from redstart_cli.console import RedstartError, say
from redstart_cli.layout import Layout
from redstart_cli.linked_tree import LinkedTree, is_compiled
from redstart_cli.process import tied
from redstart_cli.result import Level
from redstart_cli.upstream import Upstream

# What a program has that our objects of the server can be linked into.
SERVER_LIBRARY = "storage/innobase/libinnobase.a"


class Proof:
    """The tree of the patches so far, and the commands of a build tree."""

    def __init__(self, layout: Layout, preset: str, upstream: Upstream) -> None:
        self._layout = layout
        self._build = layout.preset(preset)
        self._upstream = upstream
        self._tree = LinkedTree(layout, preset, layout.build / "proof", upstream.tree)
        self._own: dict[str, Path] = {}

    def run(self, jobs: int, run_program: Callable[[str, Path], Level]) -> Level:
        """Compile and test patch by patch; `run_program` runs a GoogleTest program and counts."""
        level = Level("proof")
        try:
            series = make_series(load(self._layout.repo), self._upstream.tree, self._upstream.version)
        except OverlayError as problem:
            raise RedstartError(str(problem)) from problem
        with self._tree, ThreadPoolExecutor(jobs) as pool:
            for number, step in enumerate(series.steps, 1):
                name = f"patch {number} of {len(series.steps)} ({step.commit.feature.name}: {step.commit.subject})"
                for path, state in step.changed.items():
                    self._tree.write(path, state.data)
                sources = [path for path in step.changed if is_compiled(path)]
                are_new = [path in step.commit.files for path in sources]
                results = pool.map(self._compile, sources, are_new)
                failed = [problem for problem in results if problem]
                level.passed += len(sources) - len(failed)
                level.failed += len(failed)
                level.failures += [f"{name}: {problem.splitlines()[0]}" for problem in failed]
                for failure in failed:
                    say(failure)
                say(f"  {name}: {len(sources) - len(failed)} of {len(sources)} sources compile")
                if not failed:
                    self._test(step, level, name, run_program)
        return level

    def _compile(self, path: str, is_own: bool) -> str:
        """Compile one source; returns '' or what went wrong."""
        problem = self._tree.compile(path, is_own)
        if is_own and not problem:
            self._own[path] = self._tree.object(path)
        return problem

    def _test(self, step: Step, level: Level, name: str, run_program: Callable[[str, Path], Level]) -> None:
        """Link the unit tests of a patch with our objects so far, before the libraries, and run them."""
        for path in step.commit.files:
            if not (path.startswith("unittest/") and path.endswith("-t.cc")):
                continue
            stem = PurePosixPath(path).stem
            program = self._tree.objects / stem
            problem = self._link(step, stem, path, program)
            if problem:
                level.failed += 1
                level.failures.append(f"{name}: {stem} does not link")
                say(problem)
            else:
                level.add(run_program(stem, program))

    def _link(self, step: Step, stem: str, path: str, program: Path) -> str:
        done = subprocess.run(
            tied(["ninja", "-C", self._build, "-t", "commands", "-s", f"runtime_output_directory/{stem}"]),
            capture_output=True,
            text=True,
        )
        command = [word for word in shlex.split(done.stdout.strip().split("\n")[-1]) if word not in (":", "&&")]
        test = next((word for word in command if word.endswith(f"/{stem}.cc.o")), None)
        if done.returncode != 0 or test is None or "-o" not in command:
            return f"{stem}: the build has no link command for it"
        own = [str(file) for name, file in self._own.items() if not name.startswith("unittest/")]
        if SERVER_LIBRARY not in command:
            # A small program of MySQL's has none of the libraries that they need: it gets what this patch compiles.
            own = [str(self._tree.object(name)) for name in step.changed if is_compiled(name) and not name.startswith("unittest/")]
        at = command.index(test)
        command[at : at + 1] = [str(self._own[path]), *own]
        command[command.index("-o") + 1] = str(program)
        code, output = self._tree.shell(command)
        return "" if code == 0 else f"{stem}: does not link\n{output}"


def prove(
    layout: Layout, preset: str, upstream: Upstream, run_program: Callable[[str, Path], Level]
) -> Level:
    """Every patch of the series, compiled and tested on what stands before it."""
    return Proof(layout, preset, upstream).run(len(os.sched_getaffinity(0)), run_program)
