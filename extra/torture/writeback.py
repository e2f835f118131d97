# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Has the kernel write a file back early, as it would by itself within half a minute, which no recording lasts."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

INTERVAL_SEC = 0.03
JOIN_SEC = 60.0


class Writeback(threading.Thread):
    """Writes back what a file has in the page cache, again and again, as a context manager.

    It flushes nothing: the writes may be lost by a power cut as any other, and nothing else becomes durable by them.
    """

    def __init__(self, path: Path, errors: list[str]) -> None:
        """Why it has ended by itself is added to `errors` at the end."""
        super().__init__(daemon=True)
        self._path = path
        self._errors = errors
        self.error = ""
        self._ended = threading.Event()

    def run(self) -> None:
        try:
            while not self._ended.wait(INTERVAL_SEC):
                self._write_back()
        except OSError as problem:
            self.error = f"{self._path.name} is not written back: {problem}"

    def _write_back(self) -> None:
        try:
            file = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return  # not yet
        try:
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(file)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self.join(JOIN_SEC)
        if self.is_alive():
            self.error = f"{self._path.name}: the thread that writes it back does not end"
        if self.error:
            self._errors.append(self.error)
