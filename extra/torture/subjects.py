# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The servers that take turns."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from bench.subjects import inspect_binary, stock_settings
from redstart_cli.mysqld import Binary, find_stock

SUBJECTS = ("ours", "off", "stock", "older")
# Debian's servers: that of the same release, and that of an older patch release.
FOREIGN = ("stock", "older")
# Who recovers what crashed, if the load runs on this build with its variables as they are.
_TURNS = {"ours": 6, "off": 1, "stock": 2, "older": 4}


def own_binaries(mysqld: Path) -> dict[str, Binary]:
    """This build with its variables as they are, and with upstream's values."""
    build = mysqld.parent.parent
    common = [f"--lc-messages-dir={build}/share", f"--basedir={build}", f"--plugin-dir={build}/plugin_output_directory"]
    settings = stock_settings(inspect_binary(mysqld))
    off = [f"--{name.replace('_', '-')}={value}" for name, value in settings.items()]
    return {"ours": Binary("ours", [str(mysqld)], common), "off": Binary("off", [str(mysqld)], [*common, *off])}


def foreign_binary(name: str, root: Path) -> dict[str, Binary]:
    """Debian's server below a root directory; empty if there is none."""
    found = find_stock(root)
    return {name: replace(found, name=name)} if found else {}


def turns(subject: str, there: dict[str, Binary]) -> tuple[list[str], list[int]]:
    """Who recovers, and how often in proportion.

    With `ours` the others take turns on the same data directory; any other is tested by itself.
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
