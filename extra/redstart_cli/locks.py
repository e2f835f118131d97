# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Locks between calls. The kernel drops them when the holder ends, however it ends."""

from __future__ import annotations

import fcntl
import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from redstart_cli.console import RedstartError, say


def _holder(text: str) -> str:
    return text.strip() or "another call"


@contextmanager
def exclusive(path: Path, what: str, wait: bool = False) -> Iterator[None]:
    """Hold the lock file `path`.

    With `wait`, waits for the holder after saying who it is; without, raises RedstartError.
    `what` names the thing that is locked.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = _holder(file.read())
            if not wait:
                raise RedstartError(f"{what} is in use by {holder}; wait for it to end, or stop it") from None
            say(f"waiting for {holder}, which uses {what}")
            fcntl.flock(file, fcntl.LOCK_EX)
        file.truncate(0)
        file.write(f"process {os.getpid()}: redstart {shlex.join(sys.argv[1:])}")
        file.flush()
        try:
            yield
        finally:
            file.truncate(0)
