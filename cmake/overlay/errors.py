# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Errors of the overlay engine: every one carries a place and a plain reason."""

from __future__ import annotations


class OverlayError(Exception):
    """The repository, an edit or a tree is not as it must be."""


class OverlayErrors(OverlayError):
    """Several errors found together; str() has one a line."""

    def __init__(self, errors: list[OverlayError]):
        super().__init__("\n".join(str(error) for error in errors))
        self.errors = errors


class LandingError(OverlayError):
    """An edit finds no right place in the text it is applied to."""
