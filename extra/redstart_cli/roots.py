# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Debian's own MySQL servers, each in a root directory of its own: the stock subject, and that of an older patch release."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import psutil

from redstart_cli import tools
from redstart_cli.apt import machine_mirrors
from redstart_cli.console import RedstartError
from redstart_cli.disk import SpaceError
from redstart_cli.layout import this_layout
from redstart_cli.tools import ToolError, Unavailable
from redstart_cli.upstream import ChecksumError, cached_older_server, read_older_server, read_pins

SUITE = "sid"
SERVER_PACKAGE = "mysql-server-core"
ROOT_NEED_BYTES = 2 * 2**30


def machine_mirror() -> str:
    """The address of the Debian archive that this machine's apt uses; Unavailable if none.

    Security and other archives, whose address does not end in /debian, do not count.
    """
    mirror = next((uri for uri in machine_mirrors() if uri.rstrip("/").endswith("/debian")), None)
    if mirror is None:
        raise Unavailable("the apt sources of this machine name no Debian archive (.../debian)")
    return mirror


def stock_root(roots: Path, logs: Path) -> Path:
    """The root directory with Debian's mysql-server-core, made below `roots` if it is not there yet.

    Takes about a minute and 650 MB. A root that was begun and not finished is made anew. Raises
    Unavailable without root, debootstrap or an archive; ToolError if the server in the root is
    another release than the pinned one, with which nothing is to be compared.
    """
    root = roots / "stock"
    if root.exists():
        check_pinned(stock_version(root), str(root))
        return root
    tools.need_root("the stock subject (debootstrap and chroot)")
    tools.need("debootstrap")
    tools.need_space(roots, ROOT_NEED_BYTES, "the stock subject's root")
    mirror = machine_mirror()
    making = roots / "stock.making"
    if making.exists():
        remove_root(making)
    log = logs / "debootstrap.log"
    include = f"--include={SERVER_PACKAGE},mysql-client-core"
    command: list[str | Path] = ["debootstrap", "--variant=minbase", include, SUITE, making, mirror]
    try:
        tools.run(command, log)
    except ToolError as error:
        raise Unavailable(f"the stock subject's root could not be made (see {log}): {error}") from error
    os.rename(making, root)
    check_pinned(stock_version(root), str(root))
    return root


def older_root(roots: Path, logs: Path) -> Path:
    """The root directory with the server of an older patch release: the stock root, copied, and that package in it.

    Takes some seconds beside those of the stock root, a download of 26 MB, and 650 MB. Raises what stock_root() does, and
    Unavailable if the archive does not hold the package any more.
    """
    pin = read_older_server(this_layout().repo)
    root = roots / "older"
    if not root.exists():
        stock = stock_root(roots, logs)
        tools.need_root("the older server (dpkg in a root)")
        tools.need_space(roots, ROOT_NEED_BYTES, "the older server's root")
        try:
            package = cached_older_server(machine_mirror(), pin)
        except (ChecksumError, SpaceError):
            raise
        except RedstartError as error:
            raise Unavailable(f"the server of MySQL {pin.version} cannot be had: {error}") from error
        making = roots / "older.making"
        if making.exists():
            remove_root(making)
        tools.run(["cp", "-a", stock, making])
        tools.run(["dpkg", f"--root={making}", "--install", package], logs / "dpkg-older.log")
        os.rename(making, root)
    if (found := stock_version(root)) != pin.version:
        raise ToolError(f"{root} has MySQL {found}, cmake/upstream.json pins {pin.version}; remove it, so that it is made anew")
    return root


def stock_version(root: Path) -> str:
    """The release of the MySQL server that is installed in a root."""
    try:
        text = (root / "var/lib/dpkg/status").read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise ToolError(f"{root} is no root with packages: {error}") from error
    for stanza in text.split("\n\n"):
        if re.search(rf"^Package: {SERVER_PACKAGE}$", stanza, re.MULTILINE):
            version = re.search(r"^Version: (?:\d+:)?(\d+\.\d+\.\d+)", stanza, re.MULTILINE)
            if version is not None:
                return version[1]
    raise ToolError(f"{root} has no {SERVER_PACKAGE}; remove it, so that it is made anew")


def check_pinned(found: str, where: str) -> None:
    """ToolError if a stock server is another release than the pinned one, with which nothing is to be compared."""
    pinned, _ = read_pins(this_layout().repo)
    if found != pinned:
        raise ToolError(
            f"the stock server in {where} is MySQL {found}, cmake/upstream.json pins {pinned}: they are not compared. "
            f"If the archive has {pinned}, remove a root that has {found}, so that it is made anew; if the archive has gone on "
            "to another release, pin that one: docs/upgrading-upstream.md"
        )


def remove_root(root: Path) -> None:
    """Removes a root directory after unmounting what debootstrap may have left in it."""
    points = [mount.mountpoint for mount in psutil.disk_partitions(all=True)]
    for point in sorted((p for p in points if p.startswith(f"{root}/")), reverse=True):
        tools.run(["umount", point])
    shutil.rmtree(root)
