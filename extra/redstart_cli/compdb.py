# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The commands that a build tree compiles sources with."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import PurePosixPath

from redstart_cli.console import RedstartError
from redstart_cli.layout import Layout
from redstart_cli.process import tied


def compile_commands(layout: Layout, preset: str) -> dict[str, list[str]]:
    """Command by source path; that of a program of its own before that of a collection.

    RedstartError if the build tree is not configured.
    """
    done = subprocess.run(
        tied(["ninja", "-C", layout.preset(preset), "-t", "compdb"]), capture_output=True, text=True, errors="replace"
    )
    if done.returncode != 0:
        raise RedstartError(f"ninja -t compdb failed: {done.stderr.strip()[-500:]}")
    found: dict[str, list[str]] = {}
    prefix = f"{layout.source}/"
    for entry in json.loads(done.stdout[done.stdout.index("[") :]):
        path = entry["file"].removeprefix(prefix)
        if path != entry["file"] and " -c " in entry["command"]:
            if path not in found or f"/{PurePosixPath(path).stem}.dir/" in entry["output"]:
                found[path] = shlex.split(entry["command"])
    return found
