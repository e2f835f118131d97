# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Golden records: where every edit lands in a version, and what comes out.

They hold names, line numbers and hashes, never upstream text. A difference
means that an edit, the engine or upstream changed: look, then write anew.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from . import model
from .errors import OverlayError
from .plan import make_plan, require_version


def golden_path(repo: Path, version: str) -> Path:
    """Where the golden record of a version is kept."""
    return repo / "cmake" / "overlay" / "golden" / f"{version}.json"


def record(repo: Path, upstream: Path, version: str) -> dict[str, Any]:
    """The golden record as it is now; raises OverlayError if an edit does not land."""
    require_version(upstream, version)
    plan = make_plan(model.load(repo), upstream, version)
    return {
        "version": version,
        "edits": {
            found.id: {
                "feature": found.feature,
                "file": found.path,
                "function": found.anchor,
                "lines": list(found.lines),
            }
            for found in sorted(plan.landings, key=lambda found: found.id)
        },
        "upstream_sha256": {path: _sha256((upstream / path).read_bytes()) for path in plan.edited},
        "sha256": {path: _sha256(data) for path, data in plan.edited.items()},
    }


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _read(repo: Path, version: str) -> dict[str, Any]:
    target = golden_path(repo, version)
    try:
        wanted: dict[str, Any] = json.loads(target.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise OverlayError(f"{target}: no golden record: {error}") from error
    return wanted


def write(repo: Path, upstream: Path, version: str) -> Path:
    """Write the golden record of a version; returns its path."""
    target = golden_path(repo, version)
    target.parent.mkdir(exist_ok=True)
    parts = (f" {json.dumps(part)}: {_lines(held)}" for part, held in record(repo, upstream, version).items())
    target.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")
    return target


def _lines(held: Any) -> str:
    """JSON of a part of the record, one line an entry."""
    if not isinstance(held, dict):
        return json.dumps(held)
    return "{\n" + ",\n".join(f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in held.items()) + "\n }"


def differences(repo: Path, upstream: Path, version: str) -> list[str]:
    """What differs from the golden record, one line each; [] if nothing does."""
    wanted, now = _read(repo, version), record(repo, upstream, version)
    found = []
    for part in ("edits", "upstream_sha256", "sha256"):
        held = wanted.get(part, {})
        for key in sorted(set(held) | set(now[part])):
            old, new = held.get(key), now[part].get(key)
            if part == "upstream_sha256":
                key = f"upstream's {key}"
            if old is None:
                found.append(f"{key}: not in the golden record")
            elif new is None:
                found.append(f"{key}: in the golden record only")
            elif old != new:
                found.append(f"{key}: golden {_short(old)}, now {_short(new)}")
    return found


def require_pristine(repo: Path, upstream: Path, version: str) -> None:
    """Raise OverlayError unless the files to edit have the bytes that the record was made from."""
    for path, wanted in _read(repo, version).get("upstream_sha256", {}).items():
        file = upstream / path
        if not file.is_file() or _sha256(file.read_bytes()) != wanted:
            raise OverlayError(
                f"{file} does not have its recorded checksum ({golden_path(repo, version).name}): "
                "the tree was changed. Remove it, so that it is fetched anew."
            )


def _short(value: Any) -> str:
    return value[:12] if isinstance(value, str) else json.dumps(value)
