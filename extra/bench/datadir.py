# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Data directories, made once, and their states.

A data directory is made by a *recipe* and started many times. Each start begins from the same
bytes: a *state* (cleanly shut down, killed after some inserts ...) is a list of all files with
their sizes, and copies of those files that may differ between states; the recipe says which.
With many tables the copies are few: the system files and the tables that the crash state
changes. A file without a copy must never change; if a start changes one, its size, mtime, ctime
or inode number gives that away, and the restore refuses to go on.

Restoring compares every file with what the last restore left (one stat each) and copies only
what has changed since, or what differs between the two states.

Layout of one data directory's folder:

    work/            the data directory itself, always at this path
    about.json       what it holds
    known.json       identity of each file of work/ and the state its bytes belong to
    states/NAME/     files/ (the copies) and manifest.json (STATES_VERSION, who made it unless it is the first, and
                     name -> size of each file)
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

from bench.layout import Layout
from bench.server import Server, initialize
from bench.subjects import Binary
from redstart_cli import tools
from redstart_cli.disk import free_bytes
from redstart_cli.tools import ToolError

PAGE_BYTES = 16384
CLOCK_TICK_SEC = 0.05
"""Longer than the file system's time stamps are coarse."""

STATES_VERSION = 3
"""Raised when directories or states come to be in another way: older ones are made anew, not measured."""

MEMORY_BYTES = 2 << 30
"""Memory that making a data directory takes (its buffer pool is 1 GiB)."""

_FICLONE = 0x40049409
_PUNCH_HOLE_KEEP_SIZE = 0x02 | 0x01

CREATE_OPTIONS = {
    "mysql": (
        "--innodb-flush-method=nosync",
        "--skip-innodb-doublewrite",
        "--innodb-flush-log-at-trx-commit=0",
        "--innodb-buffer-pool-size=1G",
        "--innodb-redo-log-capacity=1G",
        "--performance-schema=OFF",
        "--table-open-cache=400",
        "--skip-log-bin",
    ),
    "mariadb": (
        "--innodb-flush-method=nosync",
        "--skip-innodb-doublewrite",
        "--innodb-flush-log-at-trx-commit=0",
        "--innodb-buffer-pool-size=1G",
        "--innodb-log-file-size=1G",
        "--sync-frm=OFF",
        "--table-open-cache=400",
        "--skip-log-bin",
    ),
}
"""Options of the servers that make data directories: nothing is synced, or written to a binary log."""


class Recipe(Protocol):
    """How a data directory comes to be."""

    @property
    def key(self) -> str:
        """Name of its folder, without the server's flavour."""

    @property
    def what(self) -> str:
        """What it holds, in a few words."""

    @property
    def steps(self) -> int:
        """Steps that `fill` reports."""

    @property
    def peak_bytes(self) -> int:
        """Disk space it takes while it is made."""

    @property
    def final_bytes(self) -> int:
        """Disk space it takes afterwards, states included."""

    @property
    def has_empty_pages(self) -> bool:
        """Whether giving the space of empty pages back is worth a pass over the files."""

    @property
    def page_bytes(self) -> int:
        """Size of its pages; what servers have unless they are told."""
        return PAGE_BYTES

    def keeps_copy(self, name: str) -> bool:
        """Whether states hold a copy of the file with this relative path."""

    def fill(self, server: Server, progress: Callable[[int], None]) -> None:
        """Makes the tables; `progress` takes the number of steps just made."""


class FullTables(Recipe):
    """A recipe for a few full tables: every state holds a copy of every file."""

    @property
    def steps(self) -> int:
        """One for all."""
        return 1

    @property
    def final_bytes(self) -> int:
        """As while it is made."""
        return self.peak_bytes

    @property
    def has_empty_pages(self) -> bool:
        """A full table has none."""
        return False

    def keeps_copy(self, name: str) -> bool:
        """What is measured may change any file."""
        return True


Identity = tuple[int, int, int, int]
"""(size, mtime_ns, ctime_ns, inode) of a file."""


def walk(directory: Path) -> dict[str, Identity]:
    """Identity of each regular file below a directory, by relative path."""
    found: dict[str, Identity] = {}
    pending = [""]
    while pending:
        prefix = pending.pop()
        with os.scandir(directory / prefix) as entries:
            for entry in entries:
                name = prefix + entry.name
                if entry.is_dir(follow_symlinks=False):
                    pending.append(name + "/")
                elif entry.is_file(follow_symlinks=False):
                    status = entry.stat(follow_symlinks=False)
                    found[name] = (
                        status.st_size,
                        status.st_mtime_ns,
                        status.st_ctime_ns,
                        status.st_ino,
                    )
    return found


def copy_file(source: Path, target: Path) -> None:
    """Copies a file's bytes, holes and mode; shares blocks where the file system can."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with open(source, "rb") as reader, open(target, "wb") as writer:
        status = os.fstat(reader.fileno())
        try:
            fcntl.ioctl(writer.fileno(), _FICLONE, reader.fileno())
        except OSError:
            _copy_data(reader.fileno(), writer.fileno(), status.st_size)
        os.fchmod(writer.fileno(), status.st_mode & 0o7777)
        os.fchown(writer.fileno(), status.st_uid, status.st_gid)


def _copy_data(source: int, target: int, size: int) -> None:
    os.ftruncate(target, size)
    offset = 0
    while offset < size:
        try:
            begin = os.lseek(source, offset, os.SEEK_DATA)
        except OSError:
            return
        end = os.lseek(source, begin, os.SEEK_HOLE)
        while begin < end:
            copied = os.copy_file_range(source, target, end - begin, begin, begin)
            if copied == 0:
                raise ToolError("a file became shorter while it was copied")
            begin += copied
        offset = end


def _fallocate() -> Callable[[int, int, int, int], int]:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]

    def call(descriptor: int, mode: int, offset: int, length: int) -> int:
        return int(libc.fallocate(descriptor, mode, offset, length))

    return call


def zero_runs(data: bytes, unit: int = PAGE_BYTES) -> list[tuple[int, int]]:
    """(offset, length) of the runs of whole units that are all zero bytes."""
    runs: list[tuple[int, int]] = []
    zeros = bytes(unit)
    for offset in range(0, len(data) - unit + 1, unit):
        if data[offset : offset + unit] == zeros:
            if runs and runs[-1][0] + runs[-1][1] == offset:
                runs[-1] = (runs[-1][0], runs[-1][1] + unit)
            else:
                runs.append((offset, unit))
    return runs


def punch_empty_pages(path: Path, page_bytes: int = PAGE_BYTES) -> int:
    """Gives the disk space of a file's all-zero pages back; returns the bytes punched out.

    Only whole pages are punched, so that reading any used page costs the same I/O as before.
    A file system that cannot punch holes is left as it is.
    """
    call = _fallocate()
    punched = 0
    with open(path, "r+b") as file:
        for offset, length in zero_runs(file.read(), page_bytes):
            if call(file.fileno(), _PUNCH_HOLE_KEEP_SIZE, offset, length) == 0:
                punched += length
    return punched


class DataDir:
    """A data directory and its states. `folder` is described at the top of this file."""

    def __init__(self, folder: Path, keeps_copy: Callable[[str], bool]) -> None:
        self.folder = folder
        self.work = folder / "work"
        self._keeps_copy = keeps_copy

    @property
    def _known_path(self) -> Path:
        return self.folder / "known.json"

    def _state(self, name: str) -> Path:
        return self.folder / "states" / name

    def has_state(self, name: str, made_by: str | None = None) -> bool:
        """Whether the state was saved, completely, by this version of the bench; and by this maker, if one is named."""
        manifest = self._read_manifest(name)
        return manifest.get("version") == STATES_VERSION and made_by in (None, manifest.get("made_by"))

    def _read_manifest(self, name: str) -> dict[str, Any]:
        """Empty if there is none, or it was not written to its end."""
        try:
            manifest: dict[str, Any] = json.loads((self._state(name) / "manifest.json").read_text())
        except (FileNotFoundError, ValueError):
            return {}
        return manifest

    def drop_state(self, name: str) -> None:
        """Forgets a state, if it is there; it is made anew when it is needed."""
        shutil.rmtree(self._state(name), ignore_errors=True)

    def drop_other_states(self, prefix: str, name: str) -> None:
        """Forgets all states whose names begin with a prefix, but for the one of this name."""
        for state in (self.folder / "states").glob(f"{prefix}*"):
            if state.name != name:
                self.drop_state(state.name)

    def files_to_check(self) -> int:
        """Files whose space id a start reads: *.ibd and undo tablespaces."""
        count = 0
        for name in walk(self.work):
            base = name.rsplit("/", 1)[-1]
            count += base.endswith(".ibd") or base.startswith("undo_")
        return count

    def save_state(self, name: str, made_by: str | None = None) -> None:
        """Saves the data directory as it is, with its server stopped, as a state.

        Raises ToolError if a table that no state keeps a copy of has changed since the first
        state was saved.
        """
        state = self._state(name)
        shutil.rmtree(state, ignore_errors=True)
        (state / "files").mkdir(parents=True)
        files = walk(self.work)
        self._check_untouched(files)
        for path in files:
            if self._keeps_copy(path):
                copy_file(self.work / path, state / "files" / path)
        sizes = {path: identity[0] for path, identity in files.items()}
        self._write_json(state / "manifest.json", {"version": STATES_VERSION, "made_by": made_by, "files": sizes})
        self._remember(files, name)

    def _check_untouched(self, files: Mapping[str, Identity]) -> None:
        known = self._read_known()
        for path, (identity, _) in known.items():
            if not self._keeps_copy(path) and files.get(path) != identity:
                self._known_path.unlink()
                raise ToolError(
                    f"{path} was changed by a start, and no copy of it is kept; "
                    f"{self.folder} will be made anew by the next call"
                )

    def restore(self, name: str) -> int:
        """Brings the data directory to the bytes of a state; returns the number of files copied.

        No server may run on it. Raises ToolError if a table without a copy has changed.
        """
        state = self._state(name)
        sizes: dict[str, int] = self._read_manifest(name)["files"]
        files = walk(self.work)
        self._check_untouched(files)
        known = self._read_known()
        copied = 0
        for path in files.keys() - sizes.keys():
            os.unlink(self.work / path)
        for path, size in sizes.items():
            if not self._keeps_copy(path):
                continue
            identity, holder = known.get(path, (None, ""))
            if holder == name and files.get(path) == identity:
                continue
            copy_file(state / "files" / path, self.work / path)
            if os.stat(self.work / path).st_size != size:
                raise ToolError(f"the copy of {path} in {state} is damaged; run `bench clean`")
            copied += 1
        self._remember(walk(self.work), name)
        time.sleep(CLOCK_TICK_SEC)
        return copied

    def _remember(self, files: Mapping[str, Identity], holder: str) -> None:
        self._write_json(self._known_path, {path: [ident, holder] for path, ident in files.items()})

    def _read_known(self) -> dict[str, tuple[Identity, str]]:
        if not self._known_path.exists():
            return {}
        raw = json.loads(self._known_path.read_text())
        return {path: (tuple(identity), holder) for path, (identity, holder) in raw.items()}

    @staticmethod
    def _write_json(path: Path, value: object) -> None:
        making = path.with_suffix(".making")
        making.write_text(json.dumps(value))
        making.rename(path)

    @property
    def is_complete(self) -> bool:
        """Whether making it came to its end by this version of the bench, and nothing has damaged it since."""
        about = self.folder / "about.json"
        return about.exists() and self.has_state("clean") and self._known_path.exists() and self.work.is_dir()


def open_or_make(
    layout: Layout,
    place: Path,
    recipe: Recipe,
    binary: Binary,
    say: Callable[[str], None],
    progress: Callable[[int], None],
) -> DataDir:
    """The data directory of a recipe below `place`, made by `binary` if it is not there.

    The state `clean` exists afterwards. Raises ToolError if disk or memory do not suffice.
    """
    folder = place / f"{binary.flavour}-{recipe.key}"
    datadir = DataDir(folder, recipe.keeps_copy)
    if datadir.is_complete:
        about = json.loads((folder / "about.json").read_text())
        say(f"reusing {folder} ({recipe.what}; made by {about['made_by']})")
        progress(recipe.steps)
        return datadir
    shutil.rmtree(folder, ignore_errors=True)
    place.mkdir(exist_ok=True)
    say(
        f"making {folder} ({recipe.what}): {recipe.peak_bytes / 2**30:.1f} GiB while at it, about "
        f"{recipe.final_bytes / 2**30:.1f} GiB afterwards; "
        f"{free_bytes(place) / 2**30:.1f} GiB are free"
    )
    for path in (place, layout.base):
        tools.need_space(path, recipe.peak_bytes, recipe.what)
    tools.need_memory(MEMORY_BYTES, recipe.what)
    folder.mkdir()
    log = layout.logs / f"make-{folder.name}.log"
    begin = time.monotonic()
    initialize(layout, binary, datadir.work, log)
    with _loading(layout, binary, datadir.work, log) as server:
        recipe.fill(server, progress)
    say(f"made {recipe.what} in {time.monotonic() - begin:,.0f} s")
    if recipe.has_empty_pages:
        say(f"punched out {_punch_all(datadir.work, recipe.page_bytes) / 2**20:,.0f} MiB of empty pages")
    _settle(layout, binary, datadir.work, log)
    os.sync()
    datadir.save_state("clean")
    (folder / "about.json").write_text(json.dumps({"made_by": binary.version}))
    return datadir


def _punch_all(work: Path, page_bytes: int) -> int:
    paths = [work / name for name in walk(work) if "/" in name and name.endswith(".ibd")]
    with ThreadPoolExecutor(4) as pool:
        return sum(pool.map(lambda path: punch_empty_pages(path, page_bytes), paths))


@contextlib.contextmanager
def _loading(layout: Layout, binary: Binary, work: Path, log: Path) -> Iterator[Server]:
    """A server that makes tables fast and would not survive a crash."""
    options = CREATE_OPTIONS[binary.flavour]
    with Server(layout, binary, work, options, log) as server:
        server.startup(600)
        if binary.flavour == "mysql":
            server.query("ALTER INSTANCE DISABLE INNODB REDO_LOG")
        yield server
        if binary.flavour == "mysql":
            server.query("ALTER INSTANCE ENABLE INNODB REDO_LOG")
        server.query("SET GLOBAL innodb_fast_shutdown = 0")
        server.shutdown()


def _settle(layout: Layout, binary: Binary, work: Path, log: Path) -> None:
    """One ordinary start and slow shutdown, so that the measured starts find nothing to do."""
    with Server(layout, binary, work, [], log) as server:
        server.startup(3600)
        server.query("SET GLOBAL innodb_fast_shutdown = 0")
        server.shutdown()


def make_state(
    layout: Layout,
    datadir: DataDir,
    binary: Binary,
    options: Sequence[str],
    name: str,
    origin: str,
    act: Callable[[Server], None],
    made_by: str,
) -> None:
    """Saves a state: a server starts from the state `origin`, and `act` works with it.

    A server that `act` leaves running is shut down cleanly; for a crash state `act` kills it.
    """
    datadir.restore(origin)
    log = layout.logs / f"state-{datadir.folder.name}-{name}.log"
    with Server(layout, binary, datadir.work, options, log) as server:
        server.startup(3600)
        act(server)
        server.shutdown()
    datadir.save_state(name, made_by)
