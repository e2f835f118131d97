# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""What tests share besides fixtures: paths, small contents, YAML."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from overlay.model import Edit

ENGINE = Path(__file__).resolve().parents[1]
REPOSITORY = ENGINE.parents[1]

MakeEdit = Callable[..., Edit]

FEATURES = [
    {
        "name": name,
        "title": f"A title for {name}",
        "bugs": [1],
        "upstreamable": True,
        "files": [f"sql/{name}*", f"sql/{name}/**"],
    }
    for name in ("one", "two")
]
CC = b"""\
#include "a.h"

void f() {
  start();
  work();
}
"""


def edit_item(edit_id: str, feature: str, **inputs: Any) -> dict[str, Any]:
    """An edit as it stands in a file."""
    return {"id": edit_id, "feature": feature, "why": "Needed by a test of ours.", **inputs}


def write_yaml(path: Path, value: Any) -> None:
    """Write a value as YAML."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(value, sort_keys=False))
