# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Has the kernel write a file back early, as it would by itself within half a minute, which no recording lasts."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

INTERVAL_SEC = 0.03


class Writeback(threading.Thread):
    """Writes back what a file has in the page cache, again and again, as a context manager.

    It flushes nothing: the writes may be lost by a power cut as any other, and nothing else becomes durable by them.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(daemon=True)
        self._path = path
        self._ended = threading.Event()

    def run(self) -> None:
        while not self._ended.wait(INTERVAL_SEC):
            try:
                file = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                continue  # not there yet
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
        self.join()
