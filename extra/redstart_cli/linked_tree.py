# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""A tree of links to a pristine one, whose sources are compiled as those of a build tree are.

The generated headers and libraries of that build serve. Precompiled headers, which hold all of Redstart's
changes, are left out.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from redstart_cli.compdb import compile_commands
from redstart_cli.console import RedstartError
from redstart_cli.layout import Layout
from redstart_cli.process import run_captured

_COMPILE_TIMEOUT_SEC = 600
_FAILURE_LINES = 30
_SOURCES = (".c", ".cc", ".cpp")
_PCH = ("-Winvalid-pch", "-fpch-preprocess")


def is_compiled(path: str) -> bool:
    """Whether the build compiles a file; MTR tests compile what is theirs when they run."""
    return path.endswith(_SOURCES) and not path.startswith("mysql-test/")


def without_pch(command: Sequence[str]) -> Iterator[str]:
    """The words of a compile command that have nothing to do with the precompiled header."""
    words = iter(command)
    for word in words:
        if word == "-include":
            header = next(words)
            if not header.endswith("cmake_pch.hxx"):
                yield from (word, header)
        elif word not in _PCH:
            yield word


class LinkedTree:
    """It, in a folder `root` of its own, with the objects beside it; both go with the block that uses them."""

    def __init__(self, layout: Layout, preset: str, root: Path, pristine: Path) -> None:
        self._layout, self._preset, self._root, self._pristine = layout, preset, root, pristine
        self.tree, self.objects = root / "source", root / "objects"
        self._commands: dict[str, list[str]] = {}

    def __enter__(self) -> Self:
        self._commands = compile_commands(self._layout, self._preset)
        shutil.rmtree(self._root, ignore_errors=True)
        try:
            self._copy()
        except BaseException:
            shutil.rmtree(self._root, ignore_errors=True)
            raise
        return self

    def _copy(self) -> None:
        self.tree.mkdir(parents=True)
        self.objects.mkdir()
        entries = [str(entry) for entry in self._pristine.resolve().iterdir() if entry.name != ".git"]
        copy = ["cp", "--recursive", "--no-dereference", "--preserve=mode,timestamps"]
        if subprocess.run([*copy, "--link", "--", *entries, self.tree], capture_output=True).returncode != 0:
            # Another file system: links do not reach it.
            shutil.rmtree(self.tree)
            self.tree.mkdir()
            if subprocess.run([*copy, "--", *entries, self.tree]).returncode != 0:
                raise RedstartError(f"{self._pristine} could not be copied to {self.tree} (see above)")

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        shutil.rmtree(self._root, ignore_errors=True)

    def write(self, path: str, data: bytes) -> None:
        file = self.tree / path
        file.parent.mkdir(parents=True, exist_ok=True)
        # The pristine tree has the same file under another name: never write into it.
        file.unlink(missing_ok=True)
        file.write_bytes(data)

    def object(self, path: str) -> Path:
        return self.objects / (path.replace("/", "-") + ".o")

    def compile(self, path: str, is_optimised: bool) -> str:
        """Compile a source, as the build does it or without optimising, which finds the same errors; '' or what went wrong."""
        if path not in self._commands:
            return f"{path}: the build has no command for it"
        code, output = self.shell(self._command(path, is_optimised, self._commands[path]))
        return "" if code == 0 else f"{path}: does not compile\n{output}"

    def _command(self, path: str, is_optimised: bool, command: Sequence[str]) -> list[str]:
        """A compile command turned to this tree, without the precompiled header."""
        result: list[str] = []
        arguments = without_pch(command)
        for argument in arguments:
            if argument in ("-o", "-MF"):
                next(arguments)
                result += [argument, f"{self.object(path)}{'.d' if argument == '-MF' else ''}"]
            else:
                result.append(argument.replace(str(self._layout.source), str(self.tree)))
        return result if is_optimised else [*result, "-O0"]

    def shell(self, command: Sequence[str]) -> tuple[int, str]:
        """Status and first lines of a command in the build tree."""
        done = run_captured(command, self._layout.preset(self._preset), _COMPILE_TIMEOUT_SEC)
        if done is None:
            return 1, f"  | not done within {_COMPILE_TIMEOUT_SEC} s"
        code, output = done
        return code, "\n".join(f"  | {line}" for line in output.splitlines()[:_FAILURE_LINES])
