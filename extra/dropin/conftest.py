# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""What all of these tests have in common."""

from __future__ import annotations

import signal


def pytest_configure() -> None:
    """End what fixtures have begun also when the command that runs these tests has ended, which sends SIGTERM."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
