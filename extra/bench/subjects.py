# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The servers that are compared, and the variables each of them is started with.

What a binary knows is found by asking it (--verbose --help), so an unpatched or older binary
leads to skipped subjects with a reason, never to a server that ignores what it was told.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from redstart_cli import tools
from redstart_cli.tools import ToolError, Unavailable

Made = TypeVar("Made")

FILES_PER_THREAD = 8000
THREADS_PER_CORE = 2
THREADS_MOST = 16

FADVISE = "innodb_tablespace_check_fadvise"
LIGHT = "innodb_tablespace_check_light"
THREADS = "innodb_tablespace_check_threads"
CHECK_IO = "innodb_tablespace_check_io"
MAP = "innodb_tablespace_map"
UNDO = "innodb_undo_read_ahead_pages"
WAYS = "innodb_ddl_merge_ways"
ON_THE_FLY = "innodb_ddl_merge_on_the_fly"
DROP_CACHE = "innodb_ddl_merge_drop_cache"
FLUSH_BATCH = "innodb_ddl_flush_batch"
PREALLOCATE = "innodb_ddl_preallocate"
DOUBLEWRITE = "innodb_ddl_doublewrite"
PROGRESS = "innodb_startup_progress_interval"
BINLOG_SCAN = "binlog_startup_scan"
REDO = "innodb_redo_recovery"
FLUSH = "innodb_recovery_flush"
ROLLBACK = "innodb_recovery_rollback_async"
ROLLBACK_THREADS = "innodb_recovery_rollback_threads"
UNDO_SCAN = "innodb_recovery_undo_scan"
PREFETCH = "innodb_rollback_prefetch"
POOL_LOAD = "innodb_buffer_pool_load_by_runs"
POOL_OPEN = "innodb_buffer_pool_load_when_open"
POOL_DUMP = "innodb_buffer_pool_dump_interval"
READ_AHEAD = "innodb_read_ahead_by_runs"
LATE_STATS = "innodb_stats_transient_late"

STOCK_VALUES = {
    FADVISE: "OFF",
    LIGHT: "OFF",
    THREADS: "0",
    CHECK_IO: "THREADS",
    MAP: "OFF",
    UNDO: "0",
    WAYS: "2",
    ON_THE_FLY: "OFF",
    DROP_CACHE: "ON",
    FLUSH_BATCH: "OFF",
    PREALLOCATE: "OFF",
    DOUBLEWRITE: "ON",
    PROGRESS: "0",
    BINLOG_SCAN: "EVENTS",
    REDO: "STOCK",
    FLUSH: "WAIT",
    ROLLBACK: "OFF",
    ROLLBACK_THREADS: "1",
    UNDO_SCAN: "START",
    PREFETCH: "OFF",
    POOL_LOAD: "OFF",
    POOL_OPEN: "OFF",
    POOL_DUMP: "0",
    READ_AHEAD: "OFF",
    LATE_STATS: "OFF",
}
"""Value of each of our variables that gives upstream's behaviour."""


def upstream_threads(files: int, cores: int) -> int:
    """Threads upstream uses to check so many files, the main thread included.

    One more for each 8,000 files, at most 2 for each core, at most 16.
    """
    extra = files // FILES_PER_THREAD
    if cores > 0:
        extra = min(extra, THREADS_PER_CORE * cores)
    return min(extra, THREADS_MOST) + 1


@dataclass(frozen=True)
class Binary:
    """A mysqld or mariadbd, what it calls itself, and the variables it knows.

    `root` is the directory to chroot into; `path` is inside it then. `options` are needed by each start of it.
    """

    path: Path
    root: Path | None
    flavour: str
    version: str
    variables: dict[str, str] = field(default_factory=dict, hash=False, compare=False)
    options: tuple[str, ...] = ()

    @property
    def file(self) -> Path:
        """The program, seen from outside its root."""
        return self.root / self.path.relative_to("/") if self.root else self.path

    @property
    def build(self) -> str:
        """What tells this very build from others, of the same version as well."""
        with open(self.file, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()[:12]

    def knows(self, variable: str) -> bool:
        """Whether the server has this system variable."""
        return variable in self.variables


def command_in_root(root: Path | None, path: Path) -> list[str]:
    """The words that run a program, in its root if it has one."""
    return ["chroot", str(root), str(path)] if root else [str(path)]


def parse_help(text: str) -> dict[str, str]:
    """Variables and default values from the table at the end of --verbose --help.

    Names have underscores. Options that are not variables are in there too.
    """
    variables: dict[str, str] = {}
    table = text.partition("Variables (--variable-name=value)")[2].partition("\n---")[2]
    for line in table.splitlines()[1:]:
        match = re.match(r"^([a-z][a-z0-9-]*)(?: +(.*))?$", line)
        if match:
            variables[match[1].replace("-", "_")] = (match[2] or "").strip()
        elif variables and not line.strip():
            break
    return variables


def inspect_binary(path: Path, root: Path | None = None) -> Binary:
    """Asks a binary for its version and variables.

    Raises Unavailable if there is no such file, ToolError if it does not run or answer.
    """
    real = root / path.relative_to("/") if root else path
    if not real.exists():
        raise Unavailable(f"there is no server at {real}; build it or name one with --mysqld")
    if not os.access(real, os.X_OK) or not real.is_file():
        raise ToolError(f"{real} is not an executable file")
    command = command_in_root(root, path)
    as_root = ["--user=root"] if os.geteuid() == 0 else []
    texts = []
    for options in (["--version"], ["--no-defaults", *as_root, "--verbose", "--help"]):
        try:
            done = subprocess.run(
                command + options,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=60,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ToolError(f"{real} does not run: {error}") from error
        if done.returncode != 0:
            tail = " ".join((done.stderr or done.stdout).strip().splitlines()[-3:])
            raise ToolError(f"{real} {options[-1]} failed with {done.returncode}: {tail}")
        texts.append(done.stdout)
    version = re.search(r"Ver (\S+)", texts[0])
    if version is None:
        raise ToolError(f"{real} is not a MySQL or MariaDB server: it says {texts[0].strip()!r}")
    variables = parse_help(texts[1])
    if "innodb_buffer_pool_size" not in variables:
        raise ToolError(f"{real} --verbose --help names no InnoDB variables")
    flavour = "mariadb" if "MariaDB" in texts[0] else "mysql"
    return Binary(path, root, flavour, version[1], variables)


@dataclass(frozen=True)
class Subject:
    """A server with the options that make it one of those compared.

    `settings` are the values of our variables; `note` says in a few words what it stands for.
    """

    name: str
    binary: Binary
    settings: dict[str, str]
    note: str

    @property
    def options(self) -> list[str]:
        """The settings as command line options."""
        return [f"--{name.replace('_', '-')}={value}" for name, value in self.settings.items()]

    @property
    def identity(self) -> str:
        """What tells it from other subjects, and from itself of another build."""
        return f"{self.name}, {self.binary.version}, build {self.binary.build}"

    @property
    def uses_map(self) -> bool:
        """Whether the server keeps a tablespace map, which then is part of its data directory."""
        if not self.binary.knows(MAP):
            return False
        return self.is_on(MAP)

    def is_on(self, variable: str) -> bool:
        """Whether a boolean variable is ON."""
        return self.value_of(variable).upper() in ("ON", "TRUE", "1")

    def value_of(self, variable: str) -> str:
        """What the server has for a variable, its default if the subject does not set it; empty if it does not know it."""
        return self.settings.get(variable, self.binary.variables.get(variable, ""))


def by_flavour(subjects: Sequence[Subject], make: Callable[[Subject], Made]) -> dict[str, Made]:
    """What is made for the first subject of each flavour; the others have it, too."""
    made: dict[str, Made] = {}
    for subject in subjects:
        if subject.binary.flavour not in made:
            made[subject.binary.flavour] = make(subject)
    return made


def stock_settings(binary: Binary) -> dict[str, str]:
    """All of our variables that the binary knows, at upstream's values."""
    return {name: value for name, value in STOCK_VALUES.items() if binary.knows(name)}


THREADS_OF_ROLLBACK = "8"

ALL_ON = {
    ROLLBACK_THREADS: THREADS_OF_ROLLBACK,
    PREFETCH: "ON",
    POOL_LOAD: "ON",
    PREALLOCATE: "ON",
    DOUBLEWRITE: "OFF",
}
"""What of our own is off by default, at its fast value."""

FOREIGN_SUBJECTS = frozenset({"stock", "older", "mariadb"})
"""Subjects that do not run our own build."""

STARTUP_SUBJECTS = (
    "stock",
    "off",
    "fadvise",
    "light",
    "light+threads",
    "light+io_uring",
    "map",
    "defaults",
    "all-on",
    "mariadb",
)
"""Subjects of the start-up experiment, in the order in which they run."""

READS_SUBJECTS = ("stock", "off", "defaults", "mariadb")
"""Subjects of the list of what a start reads, if none are named."""

SHUTDOWN_SUBJECTS = ("stock", "off", "defaults", "mariadb")
"""Subjects of the experiment on shutdown, if none are named."""

UPGRADE_SUBJECTS = ("older", "stock", "off", "defaults")
"""Subjects of the same after a server of an older patch release, which itself is one: its start is no upgrade."""

FIRST_USE_SUBJECTS = ("stock", "off", "map")
"""Subjects of the first-use experiment, if none are named. MariaDB's views are others."""

UNDO_SUBJECTS = ("stock", "off", "undo-read-ahead", "undo-scan", "rollback-prefetch", "defaults")
"""Subjects of the undo experiment. MariaDB logs nothing about the phase that is measured."""

PREPARED_SUBJECTS = ("stock", "off", "rollback-async", "defaults")
"""Subjects of the same with a transaction that was prepared."""

POOL_SUBJECTS = ("stock", "off", "pool-open", "pool-load", "defaults")
"""Subjects of the experiment on the buffer pool. MariaDB's log is another."""

DDL_SUBJECTS = (
    "stock",
    "off",
    "merge-ways",
    "merge-on-the-fly",
    "merge-keep-cache",
    "read-ahead",
    "defaults",
    "all-on",
    "mariadb",
)
"""Subjects of the index build experiment."""

BINLOG_SUBJECTS = ("stock", "off", "binlog-scan", "defaults", "all-on")
"""Subjects of the experiment on the last binary log. MariaDB's has another format."""

REDO_SUBJECTS = ("stock", "off", "redo", "redo-flush", "defaults", "all-on", "mariadb")
"""Subjects of the experiment on redo."""

BUILT = {
    "pristine": ("pristine", "MySQL as released, built as this build is"),
    "lto": ("lto", "this build, optimised at link time"),
}
"""Subjects that are builds beside the one under test: the build tree, and what they stand for. They run as they come."""

OLTP_SUBJECTS = ("stock", *BUILT, "off", "map", "binlog-scan", "defaults", "all-on", "mariadb")
"""Subjects of the regression check under load."""

OUTAGE_SUBJECTS = ("stock", "off", "defaults", "all-on", "mariadb")
"""Subjects of the experiment on a busy server that is killed."""


def own_subject(name: str, binary: Binary, files: int = 0, cores: int = 0) -> Subject:
    """One of the subjects that run our own binary: one change, all else at upstream's values.

    `files` and `cores` matter to those whose number of threads follows upstream's rule. Raises
    Unavailable, naming the variable, if the binary does not know what the subject needs.
    """
    rule = str(upstream_threads(files, cores))
    changes: dict[str, tuple[dict[str, str], str]] = {
        "off": ({}, "all variables at upstream's values"),
        "fadvise": (
            {FADVISE: "ON", LIGHT: "OFF", THREADS: rule},
            f"fadvise on, light off, {rule} thread(s) as upstream would use",
        ),
        "light": (
            {FADVISE: "ON", LIGHT: "ON", THREADS: rule},
            f"fadvise and light on, {rule} thread(s) as upstream would use",
        ),
        "light+threads": (
            {FADVISE: "ON", LIGHT: "ON", THREADS: "0"},
            "fadvise and light on, threads automatic",
        ),
        "light+io_uring": (
            {FADVISE: "ON", LIGHT: "ON", CHECK_IO: "IO_URING"},
            "fadvise and light on, io_uring",
        ),
        "map": ({MAP: "ON"}, "tablespace map on"),
        "undo-read-ahead": ({UNDO: _default(binary, UNDO)}, "undo read-ahead on"),
        "binlog-scan": ({BINLOG_SCAN: "TRANSACTIONS"}, "last binary log read from transaction to transaction"),
        "redo": ({REDO: "PARALLEL"}, "redo read ahead and parsed without building indexes"),
        "redo-flush": ({REDO: "PARALLEL", FLUSH: "BACKGROUND"}, "the same, and opened before all pages are written"),
        "rollback-async": ({ROLLBACK: "ON"}, "prepared transactions rolled back after the server has opened"),
        "undo-scan": (
            {UNDO: _default(binary, UNDO), UNDO_SCAN: "BACKGROUND"},
            "undo read ahead, to find tables, after the server has opened",
        ),
        "rollback-threads": ({ROLLBACK_THREADS: THREADS_OF_ROLLBACK}, "open transactions rolled back by eight threads"),
        "rollback-prefetch": (
            {UNDO: _default(binary, UNDO), PREFETCH: "ON"},
            "undo read ahead, and pages of rows in the rollback, too",
        ),
        "pool-open": ({POOL_OPEN: "ON"}, "buffer pool loaded when the server is open"),
        "pool-load": ({POOL_LOAD: "ON"}, "buffer pool loaded with large reads"),
        "read-ahead": ({READ_AHEAD: "ON"}, "linear read-ahead with large reads"),
        "merge-ways": ({WAYS: "0"}, "merge of many runs at once, number automatic"),
        "merge-on-the-fly": ({ON_THE_FLY: "ON"}, "last merge not written out"),
        "merge-keep-cache": ({DROP_CACHE: "OFF"}, "sort files stay in the page cache"),
    }
    if name == "defaults":
        if not stock_settings(binary):
            raise _unpatched(binary, list(STOCK_VALUES))
        return Subject(name, binary, {}, "no variable set")
    if name == "all-on":
        _need(binary, ALL_ON)
        return Subject(name, binary, dict(ALL_ON), "as it comes, and what is off by default is on")
    change, note = changes[name]
    _need(binary, change)
    return Subject(name, binary, stock_settings(binary) | change, note)


def _need(binary: Binary, variables: Collection[str]) -> None:
    missing = sorted(variable for variable in variables if not binary.knows(variable))
    if missing:
        raise _unpatched(binary, missing)


def _default(binary: Binary, variable: str) -> str:
    return binary.variables.get(variable, "")


def _unpatched(binary: Binary, variables: Sequence[str]) -> Unavailable:
    return Unavailable(
        f"{binary.path} ({binary.version}) does not know {', '.join(variables)}: "
        "it is not built with the change this subject measures"
    )


def mariadb_binary() -> Binary:
    """The machine's MariaDB server; Unavailable if it is not installed."""
    tools.need("mariadbd")
    return inspect_binary(Path(shutil.which("mariadbd") or "/usr/sbin/mariadbd"))


def check_names(names: Sequence[str], known: Collection[str], what: str = "subject") -> None:
    """Raises ToolError for a name, of a subject or what else, that does not exist or is there twice."""
    for name in names:
        if name not in known:
            raise ToolError(f"unknown {what} {name!r}; there are {', '.join(known)}")
        if names.count(name) > 1:
            raise ToolError(f"{what} {name!r} is named twice")
