# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The operations edits are made of, by name.

An operation looks at one pristine file and says where text goes (Spot). It
never removes or changes bytes. Adding one: write a function with @operation
in a module here and its cases in tests/ops/<name>.yaml.
"""

from . import calls, cmake, containers, definitions, includes, lines, statements  # noqa: F401
from .base import OPERATIONS, Operation, Side, Spot

__all__ = ["OPERATIONS", "Operation", "Side", "Spot"]
