# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Packages around the developers' build, for a test: scripts, unit, profile and settings as they are shipped.

The build of what is shipped takes hours, so that CI has none. Here the server has no X plugin, no tcmalloc and few
plugins, and is told the paths that the shipped one has compiled in.
"""

from __future__ import annotations

import os
from pathlib import Path

from redstart_cli.build import build
from redstart_cli.layout import Layout
from redstart_cli.package import build_packages, hand_over, remove_old, stage, targets, work_folder, write_debian
from redstart_cli.revision import source_date

PRESET = "release"
PLUGINS = ("auth_socket", "component_keyring_file")
VERSION_END = "+lean-1"
_PATHS = """\
[mysqld]
datadir = /var/lib/mysql
socket = /var/run/mysqld/mysqld.sock
plugin_dir = /usr/lib/mysql/plugin
secure_file_priv = /var/lib/mysql-files
lc_messages_dir = /usr/share/mysql
character_sets_dir = /usr/share/mysql/charsets

"""


def adapt(tree: Path) -> None:
    """debian/ of a package tree: without the files that were not built, with paths, X plugin's settings left aside."""
    debian = tree / "debian"
    for path in debian.glob("*.install"):
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        path.write_text("".join(line for line in lines if (tree / "stage" / line.split()[0]).exists()), encoding="utf-8")
    for name, head in (("redstart.cnf", _PATHS), ("redstart-server.prepare", "")):
        text = (debian / name).read_text(encoding="utf-8")
        (debian / name).write_text(head + text.replace("mysqlx-", "loose_mysqlx-"), encoding="utf-8")


def lean_packages(layout: Layout, target: Path, version: str | None, checkout: Path | None) -> list[Path]:
    """Build the packages and put them into `target`; returns their paths."""
    work = work_folder(layout) / "lean"
    tree = work / "tree"
    remove_old(tree, target)
    upstream = build(layout, PRESET, targets(PLUGINS), version, checkout)
    stage(layout, tree / "stage", PRESET, PLUGINS, ())
    when = source_date(layout.repo)
    write_debian(layout, tree / "debian", f"{upstream}{VERSION_END}", upstream, "A test <test@example.org>", when)
    adapt(tree)
    quick = {"DEB_BUILD_OPTIONS": "noautodbgsym", "DPKG_DEB_COMPRESSOR_TYPE": "none"}
    build_packages(tree, work / "package.log", os.environ | quick | {"SOURCE_DATE_EPOCH": str(int(when.timestamp()))})
    return hand_over(work, target)
