# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Servers with a keyring, for encrypted tables."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
from pathlib import Path

from bench.layout import Layout
from bench.subjects import Binary
from redstart_cli.keyring import COMPONENT
from redstart_cli.tools import Unavailable


def with_keyring(layout: Layout, binary: Binary) -> Binary:
    """The same server beside a manifest that loads a keyring. All have one file of keys, which lies outside all data directories.

    Raises Unavailable if it has no such component.
    """
    inside = binary.root or Path("/")
    component = next((path for path in _components(binary) if _outside(inside, path).exists()), None)
    if binary.flavour != "mysql" or component is None or not binary.knows("basedir"):
        raise Unavailable(f"{binary.file} has no {COMPONENT}")
    folder = Path("/keyring") if binary.root else layout.base / "keyring"
    made = _outside(inside, folder)
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir()
    for path in (binary.path, component):
        # A link that leads out of the root would be followed by those who are not in it.
        if binary.root:
            os.link(_outside(inside, path), made / path.name)
        else:
            (made / path.name).symlink_to(path)
    (made / "mysqld.my").write_text(json.dumps({"components": f"file://{COMPONENT}"}), encoding="ascii")
    keys = {"path": str(layout.data / "keys"), "read_only": False}
    (made / f"{COMPONENT}.cnf").write_text(json.dumps(keys), encoding="ascii")
    # It follows from the program's place, otherwise.
    options = (f"--basedir={binary.variables['basedir']}", f"--plugin-dir={folder}")
    return dataclasses.replace(binary, path=folder / binary.path.name, options=options)


def _components(binary: Binary) -> list[Path]:
    """Where the component may be: in the server's plugin directory, or in that of a build tree."""
    places = [binary.path.parent.parent / "plugin_output_directory"]
    if binary.knows("plugin_dir"):
        places.append(Path(binary.variables["plugin_dir"]))
    return [place / f"{COMPONENT}.so" for place in places]


def _outside(root: Path, path: Path) -> Path:
    """A path in a root, seen from outside of it."""
    return root / path.relative_to("/")
