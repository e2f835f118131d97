# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Locks between calls. The kernel drops them when the holder ends, however it ends."""

from __future__ import annotations

import fcntl
import os
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from redstart_cli.console import RedstartError, say


def _holder(text: str) -> str:
    return text.strip() or "another call"


def exclusive(path: Path, what: str, wait: bool = False) -> AbstractContextManager[Callable[[], None]]:
    """Hold the lock file `path`; what the context gives, called, lets readers in from then on.

    With `wait`, waits for the holder after saying who it is; without, raises RedstartError.
    `what` names the thing that is locked.
    """
    return _held(path, what, fcntl.LOCK_EX, wait)


def shared(path: Path, what: str) -> AbstractContextManager[Callable[[], None]]:
    """Hold the lock file `path` together with others who read; RedstartError if someone holds it alone."""
    return _held(path, what, fcntl.LOCK_SH, False)


@contextmanager
def _held(path: Path, what: str, kind: int, wait: bool) -> Iterator[Callable[[], None]]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = _holder(file.read())
            if not wait:
                raise RedstartError(f"{what} is in use by {holder}; wait for it to end, or stop it") from None
            say(f"waiting for {holder}, which uses {what}")
            fcntl.flock(file, kind)
        text = f"process {os.getpid()}: redstart {shlex.join(sys.argv[1:])}"
        file.seek(0)
        # Of several readers the first is named.
        is_named = kind == fcntl.LOCK_EX or not file.read()
        if is_named:
            file.truncate(0)
            file.write(text)
            file.flush()
        try:
            yield lambda: fcntl.flock(file, fcntl.LOCK_SH)
        finally:
            file.seek(0)
            if is_named and file.read() == text:
                file.truncate(0)
