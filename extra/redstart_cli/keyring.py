# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Servers with a keyring, and where the keys of a data directory are."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

from redstart_cli.mysqld import Binary

COMPONENT = "component_keyring_file"


def with_keyring(binary: Binary, folder: Path) -> Binary | None:
    """The same server beside a manifest that loads a keyring; None if it has no such component.

    Where the keys are stands in each data directory: see write_keyring().
    """
    *loader, mysqld = binary.command
    places = [Path(option.partition("=")[2]).resolve() for option in binary.options if option.startswith("--plugin-dir=")]
    component = next((path for path in (place / f"{COMPONENT}.so" for place in places) if path.exists()), None)
    if component is None:
        return None
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "mysqld").symlink_to(Path(mysqld).resolve())
    (folder / component.name).symlink_to(component)
    (folder / "mysqld.my").write_text(json.dumps({"components": f"file://{COMPONENT}"}), encoding="ascii")
    (folder / f"{COMPONENT}.cnf").write_text(json.dumps({"read_local_config": True}), encoding="ascii")
    options = [option for option in binary.options if not option.startswith("--plugin-dir=")]
    command = [*loader, str(folder / "mysqld")]
    return dataclasses.replace(binary, command=command, options=[*options, f"--plugin-dir={folder}"])


def write_keyring(data: Path, keys: Path) -> None:
    """Say where the keys of a data directory are; it may be a copy."""
    text = json.dumps({"path": str(keys), "read_only": False})
    path = data / f"{COMPONENT}.cnf"
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def has_keyring(data: Path) -> bool:
    """Whether a data directory has keys."""
    return (data / f"{COMPONENT}.cnf").exists()
