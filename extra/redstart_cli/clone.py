# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""What this clone holds: its state, the difference from MySQL's source, and what of build/ can go."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import psutil

from redstart_cli import server
from redstart_cli.console import RedstartError, say, size
from redstart_cli.layout import Layout, cache_dir
from redstart_cli.locks import exclusive
from redstart_cli.process import tied
from redstart_cli.source import is_current, made_of, manifest_files
from redstart_cli.upstream import read_pins

# The data directory of `up`: removed only by its name.
_DATA = "run"
# Holds the interpreter that runs this.
_OURS = "venv"
_REMOVING = ".removing-"
# Held by who builds, tests, measures or runs a server of this clone; below build/.
_LOCKS = ("lock", "run.lock", "package.lock", "test.lock", "nightly.lock", "torture.lock", "fuzz.lock", "bench/lock")


def bytes_below(folder: Path) -> int:
    """Disk space of a folder, without what else is mounted in it."""
    total = 0
    device = folder.lstat().st_dev
    for path, folders, names in os.walk(folder):
        for name in (*names, *folders):
            try:
                status = os.lstat(os.path.join(path, name))
            except FileNotFoundError:
                continue
            if status.st_dev == device:
                total += status.st_blocks * 512
            elif name in folders:
                folders.remove(name)
    return total


def version(layout: Layout) -> str:
    """MySQL's release that this clone is for, and the commit of the clone."""
    release, _ = read_pins(layout.repo)
    done = subprocess.run(
        tied(["git", "-C", layout.repo, "describe", "--always", "--dirty", "--abbrev=12"]), capture_output=True, text=True
    )
    return f"{release}-redstart" + (f" ({done.stdout.strip()})" if done.returncode == 0 else "")


def own_files(repo: Path, *below: str) -> list[str]:
    """Paths of the clone's files, all or those below some folders: what git knows or is to be told."""
    command: list[str | Path] = ["git", "-C", repo, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *below]
    done = subprocess.run(tied(command), capture_output=True)
    if done.returncode != 0:
        raise RedstartError(f"git does not name the files of {repo}: {done.stderr.decode('utf-8', 'replace').strip()}")
    names = {os.fsdecode(name) for name in done.stdout.split(b"\0") if name}
    return sorted(name for name in names if (repo / name).is_file() and not (repo / name).is_symlink())


def folders(layout: Layout) -> list[Path]:
    """What `clean` may remove, in the order of names."""
    if not layout.build.is_dir():
        return []
    found = (path for path in layout.build.iterdir() if path.is_dir() and not path.is_symlink())
    return sorted(path for path in found if path.name != _OURS and not path.name.startswith("."))


def status(layout: Layout) -> None:
    """Say what is there, how large it is, and what runs."""
    say(f"clone      {layout.repo}: {version(layout)}")
    made = made_of(layout)
    if not made:
        say("source     not made yet: ./redstart source")
    else:
        old = "" if is_current(layout) else "; the clone has changed since, the next build brings it up to date"
        say(f"source     MySQL {made} with Redstart's edits{old}")
    for path in folders(layout):
        mysqld = path / "runtime_output_directory/mysqld"
        if (path / "build.ninja").is_file():
            state = "built" if mysqld.is_file() else "not built to the end"
            say(f"{path.name:<10} {state}, {size(bytes_below(path))}")
    running = server.read_state(layout)
    if running is None:
        say("server     none: ./redstart up")
    else:
        say(f"server     process {running.pid} ({running.preset}), port {running.port}, data {running.datadir}")
    if layout.build.is_dir():
        say(f"disk       build/ {size(bytes_below(layout.build))}, {size(shutil.disk_usage(layout.build).free)} available")
    if cache_dir().is_dir():
        say(f"downloads  {cache_dir()} {size(bytes_below(cache_dir()))}, shared by all clones")


def clean(layout: Layout, names: Sequence[str], everything: bool) -> None:
    """Remove folders of build/; without a name show them.

    RedstartError if one is not there or in use; nothing was removed then.
    """
    there = {path.name: path for path in folders(layout)}
    if not names and not everything:
        for name, path in there.items():
            why = "" if can_be_made_again(path) else ", only by its name: data or evidence"
            say(f"{name:<12} {size(bytes_below(path))}{why}")
        say("remove with: ./redstart clean NAME..., or --all for all that can be made again")
        return
    others = [name for name, path in there.items() if can_be_made_again(path)] if everything else []
    wanted = list(dict.fromkeys([*names, *others]))
    if unknown := [name for name in wanted if name not in there]:
        raise RedstartError(f"no folder {', '.join(unknown)} in {layout.build}; there are: {', '.join(there) or 'none'}")
    with ExitStack() as locks:
        for lock in _LOCKS:
            if (layout.build / lock).parent.is_dir():
                locks.enter_context(exclusive(layout.build / lock, str(layout.build)))
        _check_unused(layout, [there[name] for name in wanted])
        if "source" in wanted:
            layout.source_stamp.unlink(missing_ok=True)
        for name in wanted:
            _remove(layout, there[name])
        for left in layout.build.glob(f"{_REMOVING}*"):
            shutil.rmtree(left, ignore_errors=True)


def can_be_made_again(path: Path) -> bool:
    """Whether a folder of build/ is no data directory, no repository, and no evidence of a failure."""
    if path.name == _DATA or any((path / name).exists() for name in ("ibdata1", "auto.cnf", ".git")):
        return False
    found = path / "found"
    return not (found.is_dir() and any(found.iterdir()))


def _remove(layout: Layout, path: Path) -> None:
    """Remove a folder; what is removed in part has another name, so that nobody takes it for the whole."""
    count = bytes_below(path)
    number = 0
    while (gone := layout.build / f"{_REMOVING}{path.name}-{number}").exists():
        number += 1
    try:
        path.rename(gone)
        shutil.rmtree(gone)
    except OSError as problem:
        raise RedstartError(f"{path} was not removed as a whole; the rest is in {gone}: {problem}") from problem
    say(f"removed {path}, {size(count)}")


def _check_unused(layout: Layout, paths: Sequence[Path]) -> None:
    mounts = [Path(mount.mountpoint) for mount in psutil.disk_partitions(all=True)]
    running = server.read_state(layout)
    for path in paths:
        if mounted := [mount for mount in mounts if mount.is_relative_to(path.resolve())]:
            raise RedstartError(f"{mounted[0]} is mounted; unmount it first")
        uses = {} if running is None else {layout.preset(running.preset): "runs from", Path(running.datadir): "has its data in"}
        for place, how in uses.items():
            if running is not None and place.resolve().is_relative_to(path.resolve()):
                raise RedstartError(f"server {running.pid} {how} {path}: ./redstart down stops it")


def diff(layout: Layout, upstream: Path, paths: Sequence[str]) -> None:
    """Show how files of build/source differ from MySQL's: those named, or all that are edited.

    A name may be a path in MySQL's tree, a folder of it, or the end of a path. RedstartError if nothing matches.
    """
    ours = manifest_files(layout)
    files = [name for name in ours if (upstream / name).is_file()]
    if paths:
        found = {path: [name for name in ours if _matches(name, path.strip("/"))] for path in paths}
        for path, names in found.items():
            if not names:
                raise RedstartError(f"no file of Redstart's tree is or ends in {path}")
        files = sorted({name for names in found.values() for name in names})
    color = "always" if sys.stdout.isatty() else "never"
    sys.stdout.flush()
    for name in files:
        old = upstream / name if (upstream / name).is_file() else Path("/dev/null")
        command: list[str | Path] = [
            "git", "-c", "core.quotePath=false", "--no-pager", "diff", "--no-index", "--no-ext-diff", "--src-prefix=a/",
            "--dst-prefix=b/", f"--color={color}", "--", old, layout.source / name,
        ]  # fmt: skip
        done = subprocess.run(tied(command), capture_output=True)
        if done.returncode not in (0, 1):
            raise RedstartError(f"git diff failed: {done.stderr.decode('utf-8', 'replace').strip()}")
        text = done.stdout.replace(str(upstream).encode(), b"").replace(str(layout.source).encode(), b"")
        sys.stdout.buffer.write(text)
    sys.stdout.buffer.flush()


def _matches(name: str, wanted: str) -> bool:
    return name == wanted or name.startswith(f"{wanted}/") or name.endswith(f"/{wanted}")
