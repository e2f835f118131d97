# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""What all of these tests have in common."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    # It ends where the built programs are not named.
    from dropin.entrypoint import EntryPoint


def pytest_configure() -> None:
    """End what fixtures have begun also when the command that runs these tests has ended, which sends SIGTERM."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)


@pytest.fixture
def running(database: EntryPoint) -> EntryPoint:
    """The `database` of a module, running."""
    if not database.is_running:
        database.start()
    return database


@pytest.fixture
def ended(database: EntryPoint) -> EntryPoint:
    """The same, ended cleanly."""
    if database.is_running:
        database.stop()
    return database
