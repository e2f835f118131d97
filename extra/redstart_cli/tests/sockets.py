# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Sockets that stand in for servers."""

from __future__ import annotations

import socket
import threading

from redstart_cli.mysqld import Mysqld

_ANSWER_SEC = 30


def accepted_by_nobody(server: Mysqld) -> list[bool]:
    """Whether `server` is taken for ready if its socket listens and accepts nobody; empty if there is no answer in time."""
    answers: list[bool] = []
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(server.socket))
        listening.listen()
        asking = threading.Thread(target=lambda: answers.append(server.is_ready()), daemon=True)
        asking.start()
        asking.join(_ANSWER_SEC)
    return answers
