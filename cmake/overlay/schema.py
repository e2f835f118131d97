# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The JSON schema of edit files, made from the register of operations.

The parser validates with it; edit.schema.json is the same for editors, which
read patterns as JavaScript does: no \\A and \\Z.
"""

from __future__ import annotations

import inspect
import json
from typing import Any

from .ops import OPERATIONS, Operation
from .ops.base import END, LINE

CONSTRAINT = rf"^(>=|<=|==|!=|>|<)\s*(\d+(?:\.\d+)*){END}"
_VERSIONS = {
    "type": "array",
    "minItems": 1,
    "items": {"type": "string", "pattern": CONSTRAINT},
    "description": "The upstream versions; all must hold.",
}
_COMMON: dict[str, Any] = {
    "id": {
        "type": "string",
        "pattern": f"^[a-z0-9]+(-[a-z0-9]+)*{END}",
        "description": "A name, unique in the repository.",
    },
    "feature": {"type": "string", "description": "A feature of cmake/series.yaml."},
    "why": {
        "type": "string",
        "minLength": 20,
        "description": "What upstream does here, and why we need a line.",
    },
    "op": {"enum": sorted(OPERATIONS), "description": "The operation."},
    "count": {"type": "integer", "minimum": 1, "description": "How many places there are; 1 unless said."},
}


def _of_operation(operation: Operation) -> dict[str, Any]:
    """What holds for edits of one operation."""
    elsewhere = {
        "type": "object",
        "additionalProperties": False,
        "required": ["versions"],
        "minProperties": 2,
        "properties": {"versions": _VERSIONS, "file": LINE, **operation.properties},
    }
    return {
        "additionalProperties": False,
        "required": list(operation.required),
        "properties": {
            **dict.fromkeys(_COMMON, True),  # see EDIT
            "op": {"const": operation.name, "description": inspect.getdoc(operation.find)},
            **operation.properties,
            "elsewhere": {
                "type": "array",
                "minItems": 1,
                "items": elsewhere,
                "description": "Other targets in other versions; the first that fits.",
            },
        },
    }


EDIT: dict[str, Any] = {
    "type": "object",
    "required": ["id", "feature", "why", "op"],
    "properties": _COMMON,
    "allOf": [
        {"if": {"properties": {"op": {"const": name}}, "required": ["op"]}, "then": _of_operation(operation)}
        for name, operation in sorted(OPERATIONS.items())
    ],
}


def text() -> str:
    """What edit.schema.json has to hold, an operation a line."""
    draft = "http://json-schema.org/draft-07/schema#"
    whole = {"$schema": draft, "title": "Edits of an upstream file", "type": "array", "minItems": 1, "items": EDIT}
    return json.dumps(whole).replace('{"if"', '\n{"if"') + "\n"
