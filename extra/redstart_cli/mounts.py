# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Programs that see directories or files at other places."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

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
