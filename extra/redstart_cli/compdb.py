# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The commands that a build tree compiles sources with."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from redstart_cli.console import RedstartError
from redstart_cli.layout import Layout
from redstart_cli.process import tied


def compile_commands(layout: Layout, preset: str) -> dict[str, list[str]]:
    """Command by source path; RedstartError if the build tree is not configured."""
    found: dict[str, list[str]] = {}
    prefix = f"{layout.source}/"
    for entry in _entries(layout, preset):
        path = entry["file"].removeprefix(prefix)
        if path != entry["file"]:
            found[path] = shlex.split(entry["command"])
    return found


def write(layout: Layout, preset: str) -> None:
    """Bring compile_commands.json of a build tree, to which the one in build/ leads, up to date for editors.

    Sources and headers that the clone holds are at their place there.
    """
    target, link = layout.preset(preset) / "compile_commands.json", layout.build / "compile_commands.json"
    link.unlink(missing_ok=True)
    link.symlink_to(target.relative_to(layout.build))
    if target.is_file() and target.stat().st_mtime > (layout.preset(preset) / "build.ninja").stat().st_mtime:
        return
    in_tree, launcher = f"{layout.source}/", str(layout.repo / "cmake/ccache-launcher")

    def at_home(path: str, exists: Callable[[Path], bool]) -> str:
        own = layout.repo / path.removeprefix(in_tree)
        return str(own) if path.startswith(in_tree) and exists(own) else path

    entries = []
    for entry in _entries(layout, preset):
        file, arguments = at_home(entry["file"], Path.is_file), []
        for word in shlex.split(entry["command"]):
            home = at_home(word[2:], Path.is_dir) if word.startswith("-I") else word[2:]
            arguments += [file if word == entry["file"] else word] if home == word[2:] else [f"-I{home}", word]
        if arguments[0] == launcher:
            del arguments[:3]  # itself, the clone and ccache
        entries.append({"directory": entry["directory"], "file": file, "arguments": arguments, "output": entry["output"]})
    target.write_text(json.dumps(entries, indent=0) + "\n", encoding="utf-8")


def _entries(layout: Layout, preset: str) -> list[dict[str, str]]:
    """What ninja knows of compilations: one a source, that of a program of its own before that of a collection."""
    done = subprocess.run(
        tied(["ninja", "-C", layout.preset(preset), "-t", "compdb"]), capture_output=True, text=True, errors="replace"
    )
    if done.returncode != 0:
        raise RedstartError(f"ninja -t compdb failed: {done.stderr.strip()[-500:]}")
    found: dict[str, dict[str, str]] = {}
    for entry in json.loads(done.stdout[done.stdout.index("[") :]):
        file = entry["file"]
        if " -c " in entry["command"] and (file not in found or f"/{PurePosixPath(file).stem}.dir/" in entry["output"]):
            found[file] = entry
    return list(found.values())
