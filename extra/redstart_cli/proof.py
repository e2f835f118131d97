# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Proof that each patch compiles on what stands before it, and passes the unit test it brings.

A tree of links to the pristine one takes the files of one patch after another. What a patch touches is
compiled there with the command of the release build, whose generated headers and libraries serve; so a
patch cannot use a file of a later one. Precompiled headers hold the whole series and are left out.
Upstream's sources are compiled without optimising, which finds the same errors; ours as in the release.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from pathlib import Path, PurePosixPath

from overlay import load
from overlay.errors import OverlayError
from overlay.series import FileState, Step, make_series
from redstart_cli.compdb import compile_commands
from redstart_cli.console import RedstartError, say
from redstart_cli.layout import Layout
from redstart_cli.process import run_captured, tied
from redstart_cli.result import Level
from redstart_cli.upstream import Upstream

_COMPILE_TIMEOUT_SEC = 600
_FAILURE_LINES = 30
_SOURCES = (".c", ".cc", ".cpp")
_PCH = ("-Winvalid-pch", "-fpch-preprocess")


def is_compiled(path: str) -> bool:
    """Whether the build compiles a file; MTR tests compile what is theirs when they run."""
    return path.endswith(_SOURCES) and not path.startswith("mysql-test/")


class Proof:
    """The tree of the patches so far, and the commands of a build tree."""

    def __init__(self, layout: Layout, preset: str, upstream: Upstream) -> None:
        self._layout = layout
        self._preset = preset
        self._build = layout.preset(preset)
        self._upstream = upstream
        self._root = layout.build / "proof"
        self._tree = self._root / "source"
        self._objects = self._root / "objects"
        self._own: dict[str, Path] = {}

    def run(self, jobs: int, run_program: Callable[[str, Path], Level]) -> Level:
        """Compile and test patch by patch; `run_program` runs a GoogleTest program and counts."""
        level = Level("proof")
        try:
            series = make_series(load(self._layout.repo), self._upstream.tree, self._upstream.version)
        except OverlayError as problem:
            raise RedstartError(str(problem)) from problem
        self._make_tree()
        commands = compile_commands(self._layout, self._preset)
        try:
            with ThreadPoolExecutor(jobs) as pool:
                for number, step in enumerate(series.steps, 1):
                    name = f"patch {number} of {len(series.steps)} ({step.commit.feature.name}: {step.commit.subject})"
                    self._write(step.changed)
                    sources = [path for path in step.changed if is_compiled(path)]
                    are_new = [path in step.commit.files for path in sources]
                    results = pool.map(self._compile, sources, are_new, repeat(commands))
                    failed = [problem for problem in results if problem]
                    level.passed += len(sources) - len(failed)
                    level.failed += len(failed)
                    level.failures += [f"{name}: {problem.splitlines()[0]}" for problem in failed]
                    for failure in failed:
                        say(failure)
                    say(f"  {name}: {len(sources) - len(failed)} of {len(sources)} sources compile")
                    if not failed:
                        self._test(step, level, name, run_program)
        finally:
            shutil.rmtree(self._root, ignore_errors=True)
        return level

    def _make_tree(self) -> None:
        shutil.rmtree(self._root, ignore_errors=True)
        self._tree.mkdir(parents=True)
        self._objects.mkdir()
        entries = [str(entry) for entry in self._upstream.tree.resolve().iterdir() if entry.name != ".git"]
        copy = ["cp", "--recursive", "--no-dereference", "--preserve=mode,timestamps"]
        if subprocess.run([*copy, "--link", "--", *entries, self._tree], capture_output=True).returncode == 0:
            return
        # Another file system: links do not reach it.
        shutil.rmtree(self._tree)
        self._tree.mkdir()
        if subprocess.run([*copy, "--", *entries, self._tree]).returncode != 0:
            raise RedstartError(f"{self._upstream.tree} could not be copied to {self._tree} (see above)")

    def _write(self, changed: dict[str, FileState]) -> None:
        for path, state in changed.items():
            file = self._tree / path
            file.parent.mkdir(parents=True, exist_ok=True)
            # The pristine tree has the same file under another name: never write into it.
            file.unlink(missing_ok=True)
            file.write_bytes(state.data)

    def _object(self, path: str) -> Path:
        return self._objects / (path.replace("/", "-") + ".o")

    def _command(self, path: str, is_own: bool, command: Sequence[str]) -> list[str]:
        """A compile command turned to the tree of links, without the precompiled header."""
        result: list[str] = []
        arguments = iter(command)
        for argument in arguments:
            if argument == "-include":
                header = next(arguments)
                if not header.endswith("cmake_pch.hxx"):
                    result += [argument, header]
            elif argument in ("-o", "-MF"):
                next(arguments)
                result += [argument, f"{self._object(path)}{'.d' if argument == '-MF' else ''}"]
            elif argument not in _PCH:
                result.append(argument.replace(str(self._layout.source), str(self._tree)))
        return result if is_own else [*result, "-O0"]

    def _compile(self, path: str, is_own: bool, commands: dict[str, list[str]]) -> str:
        """Compile one source; returns '' or what went wrong."""
        if path not in commands:
            return f"{path}: the build has no command for it"
        code, output = self._shell(self._command(path, is_own, commands[path]))
        if code != 0:
            return f"{path}: does not compile\n{output}"
        if is_own:
            self._own[path] = self._object(path)
        return ""

    def _shell(self, command: Sequence[str]) -> tuple[int, str]:
        done = run_captured(command, self._build, _COMPILE_TIMEOUT_SEC)
        if done is None:
            return 1, f"  | not done within {_COMPILE_TIMEOUT_SEC} s"
        code, output = done
        return code, "\n".join(f"  | {line}" for line in output.splitlines()[:_FAILURE_LINES])

    def _test(self, step: Step, level: Level, name: str, run_program: Callable[[str, Path], Level]) -> None:
        """Link the unit tests of a patch with our objects so far, before the libraries, and run them."""
        for path in step.commit.files:
            if not (path.startswith("unittest/") and path.endswith("-t.cc")):
                continue
            stem = PurePosixPath(path).stem
            program = self._objects / stem
            problem = self._link(stem, path, program)
            if problem:
                level.failed += 1
                level.failures.append(f"{name}: {stem} does not link")
                say(problem)
            else:
                level.add(run_program(stem, program))

    def _link(self, stem: str, path: str, program: Path) -> str:
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
        at = command.index(test)
        command[at : at + 1] = [str(self._own[path]), *own]
        command[command.index("-o") + 1] = str(program)
        code, output = self._shell(command)
        return "" if code == 0 else f"{stem}: does not link\n{output}"


def prove(
    layout: Layout, preset: str, upstream: Upstream, run_program: Callable[[str, Path], Level]
) -> Level:
    """Every patch of the series, compiled and tested on what stands before it."""
    return Proof(layout, preset, upstream).run(len(os.sched_getaffinity(0)), run_program)
