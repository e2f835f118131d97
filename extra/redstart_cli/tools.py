# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Calls to the programs of the machine."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil

from redstart_cli.console import RedstartError
from redstart_cli.disk import free_bytes

POLL_SEC = 0.05
JOIN = 'while [ "$1" != -- ]; do echo $$ > "$1" || exit 70; shift; done; shift; '
"""Shell words that put the shell into cgroups: their files of process ids come first, then "--"."""

PACKAGES = {
    "debootstrap": "debootstrap",
    "fio": "fio",
    "nbdkit": "nbdkit",
    "nbdfuse": "libnbd-bin",
    "sysbench": "sysbench",
    "mariadbd": "mariadb-server-core",
    "mkfs.btrfs": "btrfs-progs",
    "mkfs.ext4": "e2fsprogs",
    "mkfs.xfs": "xfsprogs",
    "qemu-nbd": "qemu-utils",
    "fusermount3": "fuse3",
    "losetup": "mount",
    "unshare": "util-linux",
    "setpriv": "util-linux",
}
"""Debian package of each program that the tools may need."""


class ToolError(RedstartError):
    """Ends what a tool does; its text says what happened and what to do about it."""


class Unavailable(ToolError):
    """This machine cannot do what was asked; callers may skip it, and must say so."""


def need(*programs: str) -> None:
    """Raises Unavailable, with the apt line to run, if a program is missing."""
    missing = [name for name in programs if shutil.which(name) is None]
    if missing:
        packages = " ".join(sorted({PACKAGES.get(name, name) for name in missing}))
        raise Unavailable(f"missing: {', '.join(missing)}; apt-get install {packages}")


def need_root(what: str) -> None:
    """Raises Unavailable unless this process is root."""
    if os.geteuid() != 0:
        raise Unavailable(f"{what} needs root")


def run(
    command: Sequence[str | Path], log: Path | None = None, procs: Sequence[Path] = ()
) -> str:
    """Runs a program to its end and returns its standard output.

    With `log`, output and errors go to that file instead. With `procs`, the program runs in the
    cgroups with these files of process ids. Raises ToolError with the last lines of what the
    program said if it fails. Ctrl-C ends the program and all it has started.
    """
    words = [str(word) for word in command]
    if procs:
        words = ["sh", "-c", JOIN + 'exec "$@"', "sh", *map(str, procs), "--", *words]
    with contextlib.ExitStack() as stack:
        output = stack.enter_context(open(log, "wb+") if log else tempfile.TemporaryFile())
        errors = output if log else stack.enter_context(tempfile.TemporaryFile())
        # A signal between fork and assignment would leave a program that nobody knows.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
        stack.callback(signal.pthread_sigmask, signal.SIG_SETMASK, mask)
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            start_new_session=True,
            preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, mask),
        )
        try:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            code = process.wait()
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise
        output.seek(0)
        errors.seek(0)
        out = output.read().decode("utf-8", "replace")
        said = errors.read().decode("utf-8", "replace").strip() or out
    if code != 0:
        tail = "\n".join(said.strip().splitlines()[-8:])
        name = " ".join(str(word) for word in command[:6])
        raise ToolError(f"{name} ... failed with {code}:\n{tail}")
    return "" if log else out


def need_space(path: Path, need_bytes: int, what: str) -> None:
    """Raises ToolError if the file system of a path has less than `need_bytes` left."""
    free = free_bytes(path)
    if free < need_bytes:
        raise ToolError(
            f"{what} needs {need_bytes / 2**30:.1f} GiB on the file system of {path}, "
            f"{free / 2**30:.1f} GiB are free; free some space or run `bench clean`"
        )


def drop_caches() -> None:
    """Writes dirty pages out and drops page, dentry and inode caches. Needs root."""
    need_root("dropping the kernel's caches")
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("3\n", encoding="ascii")


def wait_until(is_so: Callable[[], bool], timeout_sec: float, otherwise: str) -> None:
    """Wait for something; ToolError if it takes too long."""
    deadline = time.monotonic() + timeout_sec
    while not is_so():
        if time.monotonic() > deadline:
            raise ToolError(f"{otherwise} in {timeout_sec:,.0f} s")
        time.sleep(POLL_SEC)


def need_memory(need_bytes: int, what: str) -> None:
    """Raises ToolError if less memory is available."""
    available = psutil.virtual_memory().available
    if available < need_bytes:
        raise ToolError(f"{what} needs {need_bytes / 2**30:.1f} GiB of memory, {available / 2**30:.1f} GiB are available")
