# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Stands in for systemd: hears what a server tells its service manager, and when."""

from __future__ import annotations

import itertools
import socket
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

MOST_BYTES = 4096
TICK_SEC = 0.2
ASKS = "EXTEND_TIMEOUT_USEC="


@dataclass(frozen=True)
class Message:
    """What was said at once, and when, in seconds since the epoch."""

    time: float
    text: str


class Listener:
    """A socket for NOTIFY_SOCKET at a short path, as a context manager, and what was heard there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.messages: list[Message] = []
        self._stop = threading.Event()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._thread = threading.Thread(target=self._hear, daemon=True)

    def __enter__(self) -> Self:
        self._socket.bind(str(self.path))
        # The server may run as another user.
        self.path.chmod(0o666)
        self._socket.settimeout(TICK_SEC)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join()
        self._socket.close()
        self.path.unlink(missing_ok=True)

    def _hear(self) -> None:
        while not self._stop.is_set():
            try:
                data = self._socket.recv(MOST_BYTES)
            except TimeoutError:
                continue
            self.messages.append(Message(time.time(), data.decode("utf-8", "replace")))


def first(messages: list[Message], text: str) -> float | None:
    """When something was said for the first time."""
    return next((message.time for message in messages if text in message.text), None)


def longest_silence(messages: list[Message], begin: float, end: float) -> float:
    """The longest time between two times in which nothing was said."""
    times = [begin, *(message.time for message in messages if begin <= message.time <= end), end]
    return max(later - earlier for earlier, later in itertools.pairwise(times))
