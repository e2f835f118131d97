# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""How the clients of a load ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

# What the client says when its server has gone in the middle of its work. A client that never got a
# connection says another thing: it "can't connect", or lost the connection "at" a step of the handshake.
_LOST = ("Lost connection to MySQL server during query", "MySQL server has gone away")


@dataclass(frozen=True)
class Ended:
    """Exit code and error output of one client."""

    code: int
    text: str


def problem_of_load(clients: Sequence[Ended], lost: bool) -> str:
    """Why these clients are no load that did its work, or ''.

    Each must have come to its end. If the server was killed meanwhile (`lost`), a client may have lost it in the
    middle of a statement instead, and one must have: else the kill met no load.
    """
    if not clients:
        return "there is no client"
    cut = [client for client in clients if lost and client.code != 0 and any(words in client.text for words in _LOST)]
    for client in clients:
        if client.code != 0 and client not in cut:
            return f"a client ended with {client.code}: {client.text}"
    return "the server was killed after the load had ended" if lost and not cut else ""
