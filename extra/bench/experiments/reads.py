# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""What a cold start reads, file by file, after a shutdown or after a kill.

The kernel traces each read of the disk from exec to the first answer. Afterwards the running server is looked at: the file
system says which sectors belong to the files that it has mapped or open, to those of its data directory, and to those that a
start reads and closes. A read of sectors that none of them has is metadata of the file system, if the kernel has marked it so or
one beside it, or unknown: another program's, or of a file that was not looked for.
"""

from __future__ import annotations

import bisect
import contextlib
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench import blocktrace, starts
from bench.blocktrace import Read
from bench.context import Context
from bench.diskstats import SECTOR_BYTES, Device, mount_of
from bench.experiments import startup
from bench.experiments.startup import Prepared
from bench.extents import FILE_SYSTEMS, ExtentMap, Files
from bench.results import FileReads, Run
from bench.rounds import Case, rounds
from bench.server import Server, StartTimes
from bench.subjects import READS_SUBJECTS
from bench.tables import Tables
from redstart_cli import tools
from redstart_cli.tools import Unavailable

PROGRAM, LAUNCHER, LIBRARIES, ICU = "program", "launcher", "libraries", "ICU data"
MESSAGES, PLUGINS, CONFIGURATION = "messages, character sets", "plugins, components", "configuration"
SYSTEM, DICTIONARY, UNDO, REDO, DOUBLEWRITE = "system tablespace", "mysql.ibd", "undo", "redo", "doublewrite"
TEMPORARY, BINLOG, OTHER = "temporary", "binary log", "other files of the data directory"
FILE_SYSTEM, UNKNOWN = "file system", "unknown"

LAUNCHERS = ("setpriv", "sh", "unshare", "mkdir", "mount", "chroot")
"""Programs that a server is started through, which may be outside of its root."""

OUTSIDE = "outside: "
"""Before the names of files that are not in the server's root."""

INODE_READ_AHEAD_SECTORS = 256
"""ext4 reads so much of the table of inodes around a block of it (inode_readahead_blks), and marks that block only."""

LEAST_FOUND = 0.95
"""Of what the server's process has read, by its own counter, so much at least must be of files that were found."""

CONFIGURATION_FILES = (
    "/etc/ld.so.cache", "/etc/nsswitch.conf", "/etc/passwd", "/etc/group", "/etc/hosts", "/etc/host.conf", "/etc/resolv.conf",
    "/etc/services", "/etc/gai.conf", "/etc/localtime", "/etc/ssl/openssl.cnf", "/usr/lib/ssl/openssl.cnf",
    "/usr/lib/locale/locale-archive",
)  # fmt: skip
"""Files of the system that a start reads and closes."""

_DATA_PREFIXES = (
    ("ibdata", SYSTEM), ("mysql.ibd", DICTIONARY), ("undo", UNDO), ("#innodb_redo", REDO), ("ib_logfile", REDO),
    ("ibtmp", TEMPORARY), ("#innodb_temp", TEMPORARY), ("binlog.", BINLOG), ("auto.cnf", CONFIGURATION),
    ("mysqld-auto.cnf", CONFIGURATION),
)  # fmt: skip


@dataclass(frozen=True)
class Options:
    """What the user asked for. `read_ahead_kib` is None: as the disk has it."""

    tables: Tables
    read_ahead_kib: int | None
    subjects: tuple[str, ...]
    crash: bool = False

    @property
    def mode(self) -> str:
        """The mode of all runs."""
        return "crash" if self.crash else "cold"


@dataclass(frozen=True)
class Places:
    """Where a server has what, as it sees it itself."""

    program: str
    data: str
    temporary: str
    plugins: str
    shared: tuple[str, ...]

    def group_of(self, name: str) -> str:
        """The group of a file, by its path; that of a directory ends with a slash."""
        base = os.path.basename(name)
        if name.endswith("/"):
            return FILE_SYSTEM
        if name.startswith(OUTSIDE):
            return LAUNCHER
        if name.startswith(self.temporary) or name.endswith(" (deleted)"):
            return TEMPORARY
        if name.startswith(self.data):
            return _data_group(name.removeprefix(self.data))
        if name == self.program:
            return PROGRAM
        if base.startswith("libicu") or "/icudt" in name:
            return ICU
        if name.startswith(self.plugins):
            return PLUGINS
        if base.endswith(".so") or ".so." in base:
            return LIBRARIES
        if name.startswith(self.shared):
            return MESSAGES
        return CONFIGURATION


def _data_group(name: str) -> str:
    """The group of a file of the data directory, by its path in there."""
    if name.endswith(".dblwr"):
        return DOUBLEWRITE
    return next((group for prefix, group in _DATA_PREFIXES if name.startswith(prefix)), OTHER)


def run(context: Context, options: Options) -> None:
    """Runs the experiment and adds its runs to the document."""
    tools.need_root("a cold start (dropping the kernel's caches)")
    device = context.volume.device
    kind = mount_of(context.volume.directory)[1]
    if device is None or kind not in FILE_SYSTEMS:
        raise Unavailable(f"files on {kind} cannot be found by sector; this needs one of {', '.join(FILE_SYSTEMS)}")
    if context.volume.profile.merged:
        raise Unavailable("what is read is not found below an image; this needs a profile on the disk itself")
    names = options.subjects or READS_SUBJECTS
    of_startup = startup.Options(options.tables, crash=options.crash, ddl=False, warm=False, subjects=names)
    prepared = startup.prepare(context, of_startup)
    with _read_ahead(device, options.read_ahead_kib) as kib:
        parameters = {"tables": options.tables.tables, "schemas": options.tables.schemas, "read_ahead_kib": kib}
        cases = [Case(item, item.subject.name, options.mode, parameters) for item in prepared]
        for item, result in rounds(context, "reads", cases, _in_words):
            _measure(context, device, options, item, result)


@contextlib.contextmanager
def _read_ahead(device: Device, kib: int | None) -> Iterator[int]:
    """The disk's read-ahead in KiB, set if wanted and put back at the end."""
    file = Path(f"/sys/dev/block/{device.numbers}/queue/read_ahead_kb")
    before = file.read_text(encoding="ascii").strip()
    try:
        if kib is not None:
            file.write_text(f"{kib}", encoding="ascii")
        yield int(file.read_text(encoding="ascii"))
    finally:
        file.write_text(before, encoding="ascii")


def _measure(context: Context, device: Device, options: Options, item: Prepared, result: Run) -> None:
    data = Files(device)

    def before() -> None:
        if options.crash and item.subject.uses_map:
            startup.crash(context, options.tables, False, item)
        # As they are before the start, which may remove some.
        os.sync()
        _add_below(data, item.datadir.work, str(item.datadir.work) + "/")
        recorder.begin()

    def at_once(run: Run, server: Server, times: StartTimes) -> None:
        trace = recorder.end()
        if (problem := trace.problem()) is not None:
            run.problems.append(problem)
        places, files = _look_at(server, device)
        wanted = [read for read in trace.reads if times.exec_time <= read.time <= times.first_query_time]
        run.files = attribute(wanted, [files.map(), data.map()], places, times.exec_time)
        run.metrics |= {"traced_reads": len(trace.reads), "counted_reads": trace.counted.reads}
        if places.program in files.elsewhere:
            run.notes.append("the program is on another disk, whose reads are not among these")
        else:
            own = server.io_between(times.exec_time, times.first_query_time).process_read_bytes
            run.problems += missing(run.files, own)

    with blocktrace.recording(device) as recorder:
        starts.measure(context, item.datadir, item.state, item.subject, result, True, before=before, at_once=at_once)


def _look_at(server: Server, device: Device) -> tuple[Places, Files]:
    """Where a running server has its files, and all that can be found of them."""
    process = Path(f"/proc/{server.pid}")
    root = process / "root"
    variables = ", ".join(f"@@GLOBAL.{name}" for name in ("plugin_dir", "lc_messages_dir", "character_sets_dir"))
    plugins, *shared = (os.path.join(str(value), "") for value in server.query(f"SELECT {variables}")[0])
    program = os.readlink(process / "exe")
    places = Places(program, f"{server.datadir}/", f"{server.tmpdir}/", plugins, tuple(shared))
    files = Files(device)
    launchers = [found for name in LAUNCHERS if (found := shutil.which(name)) is not None]
    for name in (*launchers, *_libraries(_open_in(Path("/proc/self")).values())):
        files.add(Path(name), OUTSIDE + name)
    # What is mapped or open; and libraries beside it, which may have been closed again.
    names = _open_in(process)
    for name in _libraries(names.values()):
        files.add(Path(name), name)
    for link, name in names.items():
        files.add(link, name)
    # These names are those in the server's root.
    for name in CONFIGURATION_FILES:
        files.add(root / name.lstrip("/"), name)
    for folder in (plugins, *shared):
        _add_below(files, root / folder.lstrip("/"), folder)
    for folder in (places.data, places.temporary):
        _add_below(files, Path(folder), folder)
    files.add(process / "exe", program)
    return places, files


def _open_in(process: Path) -> dict[Path, str]:
    """The files that a process has mapped or open, and their names; the links can be opened even if the names cannot."""
    found = {}
    for link in (*(process / "map_files").iterdir(), *(process / "fd").iterdir()):
        with contextlib.suppress(OSError):
            if (name := os.readlink(link)).startswith("/"):
                found[link] = name
    return found


def _libraries(names: Iterable[str]) -> list[str]:
    """All files in the directories of the shared libraries among some files."""
    folders = {os.path.dirname(name) for name in names if ".so" in os.path.basename(name)}
    return [path for folder in sorted(folders) for path in _children(Path(folder))]


def _children(folder: Path) -> list[str]:
    """The files in a directory; none if there is no such directory."""
    if not folder.is_dir():
        return []
    with os.scandir(folder) as entries:
        return [entry.path for entry in entries if entry.is_file(follow_symlinks=False)]


def missing(files: Sequence[FileReads], own_bytes: int) -> list[str]:
    """What is wrong with a list of files, given what the server's process has read by its own counter."""
    found = sum(file.bytes for file in files if file.group != UNKNOWN)
    if not any(file.group == PROGRAM for file in files):
        return ["the program was not read: the start was not cold"]
    if found < LEAST_FOUND * own_bytes:
        return [f"{found / 2**20:.1f} MiB are of known files, the server has read {own_bytes / 2**20:.1f} MiB"]
    return []


def _add_below(files: Files, folder: Path, name: str) -> None:
    """Adds all files and directories below one, under a name that ends with a slash."""
    files.add(folder, name)
    for parent, folders, children in os.walk(folder):
        below = name + os.path.join(os.path.relpath(parent, folder), "").removeprefix("./")
        for child in folders:
            files.add(Path(parent, child), f"{below}{child}/")
        for child in children:
            path = Path(parent, child)
            if path.is_file() and not path.is_symlink():
                files.add(path, below + child)


def attribute(reads: Sequence[Read], maps: Sequence[ExtentMap], places: Places, exec_time: float) -> list[FileReads]:
    """What was read of each file, those that were read first at the top; times are seconds after the start.

    A file is looked for in one map after the other. A read counts for the file it begins in, its bytes for all files it reaches.
    """
    found: dict[str, FileReads] = {}
    marked = sorted(read.sector for read in reads if read.is_metadata)
    for read in reads:
        is_first = True
        for name, sectors in _split(read, maps):
            if name is not None:
                group = places.group_of(name)
            elif _is_near(marked, read.sector):
                group, name = FILE_SYSTEM, "metadata"
            else:
                group, name = UNKNOWN, f"read by {read.command}"
            when = read.time - exec_time
            file = found.setdefault(name, FileReads(name, group, 0, 0, when, when))
            file.reads += is_first
            file.bytes += sectors * SECTOR_BYTES
            file.last_s = when
            is_first = False
    return list(found.values())


def _is_near(sectors: Sequence[int], sector: int) -> bool:
    """Whether one of the sectors, in order, is this one or so near that it was read with it."""
    index = bisect.bisect_left(sectors, sector - INODE_READ_AHEAD_SECTORS)
    return index < len(sectors) and sectors[index] <= sector + INODE_READ_AHEAD_SECTORS


def _split(read: Read, maps: Sequence[ExtentMap]) -> Iterator[tuple[str | None, int]]:
    """(file, sectors) of each part of a read."""
    first, *others = maps
    begin = read.sector
    for name, sectors in first.split(begin, begin + read.sectors):
        if name is None and others:
            yield from _split(replace(read, sector=begin, sectors=sectors), others)
        else:
            yield name, sectors
        begin += sectors


def _in_words(run: Run) -> str:
    total = sum(file.bytes for file in run.files) / 2**20
    return f"ready in {run.metrics['ready_s']:.2f} s, {len(run.files)} files, {total:.1f} MiB"
