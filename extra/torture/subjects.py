# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The servers that take turns."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

from bench.subjects import inspect_binary, stock_settings
from redstart_cli.mysqld import Binary, find_stock

KEYRING = "component_keyring_file"
SUBJECTS = ("ours", "off", "stock")
# Who recovers what crashed, if the load runs on this build with its variables as they are.
_TURNS = {"ours": 6, "off": 1, "stock": 2}


def own_binaries(mysqld: Path) -> dict[str, Binary]:
    """This build with its variables as they are, and with upstream's values."""
    build = mysqld.parent.parent
    common = [f"--lc-messages-dir={build}/share", f"--basedir={build}", f"--plugin-dir={build}/plugin_output_directory"]
    settings = stock_settings(inspect_binary(mysqld))
    off = [f"--{name.replace('_', '-')}={value}" for name, value in settings.items()]
    return {"ours": Binary("ours", [str(mysqld)], common), "off": Binary("off", [str(mysqld)], [*common, *off])}


def stock_binary(root: Path) -> dict[str, Binary]:
    """Debian's server below a root directory; empty if there is none."""
    found = find_stock(root)
    return {"stock": found} if found else {}


def with_keyring(binary: Binary, folder: Path) -> Binary | None:
    """The same server beside a manifest that loads a keyring; None if it has no such component.

    Where the keys are stands in each data directory: see write_keyring().
    """
    *loader, mysqld = binary.command
    places = [Path(option.partition("=")[2]) for option in binary.options if option.startswith("--plugin-dir=")]
    component = next((path for path in (place / f"{KEYRING}.so" for place in places) if path.exists()), None)
    if component is None:
        return None
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "mysqld").symlink_to(mysqld)
    (folder / component.name).symlink_to(component)
    (folder / "mysqld.my").write_text(json.dumps({"components": f"file://{KEYRING}"}), encoding="ascii")
    (folder / f"{KEYRING}.cnf").write_text(json.dumps({"read_local_config": True}), encoding="ascii")
    options = [option for option in binary.options if not option.startswith("--plugin-dir=")]
    command = [*loader, str(folder / "mysqld")]
    return dataclasses.replace(binary, command=command, options=[*options, f"--plugin-dir={folder}"])


def write_keyring(data: Path) -> None:
    """Say where the keys of a data directory are: in it, so that they are copied and crash with it."""
    text = json.dumps({"path": str(data / "keyring"), "read_only": False})
    path = data / f"{KEYRING}.cnf"
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def has_keyring(data: Path) -> bool:
    """Whether a data directory has keys."""
    return (data / f"{KEYRING}.cnf").exists()


def turns(subject: str, there: dict[str, Binary]) -> tuple[list[str], list[int]]:
    """Who recovers, and how often in proportion.

    With `ours` the others take turns on the same data directory; `off` and `stock` are tested by themselves.
    """
    if subject != "ours":
        return [subject], [1]
    names = [name for name in _TURNS if name in there]
    return names, [_TURNS[name] for name in names]


def beside(binary: Binary, name: str) -> list[str]:
    """How a program is called that was built with a server; empty if it was not."""
    *loader, mysqld = binary.command
    for folder in (Path(mysqld).parent, Path(mysqld).parent.parent / "bin"):
        if (folder / name).exists():
            return [*loader, str(folder / name)]
    return []
