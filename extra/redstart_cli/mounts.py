# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Programs that see directories or files at other places."""

from __future__ import annotations

import ctypes
import functools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

from redstart_cli.tools import ToolError

_CLONE_NEWNS = 0x00020000
_MS_REC, _MS_PRIVATE, _MS_SHARED = 0x4000, 0x40000, 0x100000
# What is mounted, and where.
Mounts = Iterable[tuple[Path, Path]]


def with_mounts(command: list[str], mounts: Mounts) -> list[str]:
    """The command in a mount namespace of its own, with directories or files mounted on others."""
    pairs = [str(path) for pair in mounts for path in pair]
    if not pairs:
        return command
    script = 'while [ "$1" != -- ]; do mount --bind "$1" "$2"; shift 2; done; shift; exec "$@"'
    return ["unshare", "--mount", "--propagation=slave", "sh", "-ec", script, "sh", *pairs, "--", *command]


@functools.cache
def can_mount() -> bool:
    """True if with_mounts() works here: for root, outside of most containers."""
    if shutil.which("unshare") is None or os.geteuid() != 0:
        return False
    with tempfile.TemporaryDirectory() as folder:
        command = with_mounts(["true"], [(Path(folder), Path(folder))])
        return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


def own_namespace(is_shared: bool = False) -> None:
    """Give this process a mount namespace of its own, once, before it has threads.

    Another program that makes itself one would otherwise keep mounted, by its old device, what is mounted here. And that goes
    with the last process, even if it is killed. With `is_shared` what is unmounted here is unmounted for servers with mounts of
    their own, too, which are slaves of this namespace.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    kinds = [_MS_PRIVATE, _MS_SHARED] if is_shared else [_MS_PRIVATE]
    if libc.unshare(_CLONE_NEWNS) != 0 or any(libc.mount(b"none", b"/", None, _MS_REC | kind, None) != 0 for kind in kinds):
        raise ToolError(f"no mount namespace: {os.strerror(ctypes.get_errno())}")
