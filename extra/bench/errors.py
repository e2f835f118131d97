# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The errors a user of the bench sees."""

from __future__ import annotations

from redstart_cli.console import RedstartError


class BenchError(RedstartError):
    """Ends the bench; its text says what happened and what to do about it."""


class Unavailable(BenchError):
    """This machine cannot do what was asked; callers may skip it, and must say so."""
