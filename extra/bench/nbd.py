# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Programs that serve an image as a disk, and how they are taken down."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from redstart_cli import tools
from redstart_cli.process import tied
from redstart_cli.tools import ToolError, Unavailable

TIMEOUT_SEC = 20.0


def start(words: Sequence[str | Path], log: Path | None = None) -> subprocess.Popen[bytes]:
    """Starts a program that dies with us and does not see the terminal's Ctrl-C; what it says goes to `log`, if there is one."""
    with log.open("wb") if log else contextlib.nullcontext() as file:
        return subprocess.Popen(tied(words, "KILL"), stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True)


def wait_for(path: Path, process: subprocess.Popen[bytes], what: str, log: Path | None = None) -> None:
    """Waits until a program has made its socket or file; Unavailable, with what it said, if it does not."""
    deadline = time.monotonic() + TIMEOUT_SEC
    while not path.exists():
        said = f": {log.read_text(errors='replace').strip()}" if log else ""
        if process.poll() is not None:
            raise Unavailable(f"{what} ended with {process.returncode}{said}")
        if time.monotonic() > deadline:
            raise Unavailable(f"{what} did not start within {TIMEOUT_SEC:.0f} s{said}")
        time.sleep(0.02)


def end(process: subprocess.Popen[bytes]) -> None:
    """Ends a program, by force if need be."""
    process.terminate()
    try:
        process.wait(TIMEOUT_SEC)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def detach(*undo: str | Path) -> None:
    """Runs a command that unmounts the last of its words, and may have to wait for a dying server."""
    deadline = time.monotonic() + TIMEOUT_SEC
    while True:
        try:
            tools.run(undo)
            return
        except ToolError as error:
            if time.monotonic() > deadline:
                raise ToolError(f"{undo[-1]} is left behind: {error}") from error
            time.sleep(0.1)
