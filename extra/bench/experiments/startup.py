# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""How long a start takes with many tables, and what it reads.

Each round starts every subject once, in order, from the same bytes of the data directory. Modes:
`cold` (after a clean shutdown, caches dropped), `warm` (the same again right after it, caches
kept), `crash` (after kill -9, caches dropped) and `crash-ddl` (the same, right after a table was
made). After a server of an older patch release: `upgrade` (the first start after its clean shutdown,
caches dropped) and `upgraded` (the next, after a clean shutdown of the same subject).
"""

from __future__ import annotations

import functools
import time
from dataclasses import dataclass
from pathlib import Path

from bench import logs, starts
from bench.context import Context
from bench.datadir import DataDir
from bench.diskstats import SECTOR_BYTES
from bench.results import Run
from bench.rounds import Case, rounds
from bench.server import Server
from bench.subjects import STARTUP_SUBJECTS, UPGRADE_SUBJECTS, Binary, Subject, by_flavour
from bench.tables import Tables
from redstart_cli import tools

MAP_STATE = "clean-map"
OLDER_STATE = "clean-older"
UPGRADED_STATE = "clean-upgraded"
MAP_FILE = "#innodb_tablespace_map"
# It is written again, some seconds later, as long as directories are too young to be trusted.
MAP_QUIET_SEC = 10.0
SYSTEM_FILES = 4
"""Files beside the tables whose id a start reads: mysql.ibd, sys_config.ibd, two undo files."""


@dataclass(frozen=True)
class Options:
    """What the user asked for. `subjects` empty: all that this machine can run."""

    tables: Tables
    crash: bool
    ddl: bool
    warm: bool
    subjects: tuple[str, ...]
    after_older: bool = False

    @property
    def modes(self) -> tuple[str, ...]:
        """The modes of one round, in order."""
        if self.after_older:
            return "upgrade", "upgraded"
        if self.crash:
            return ("crash-ddl",) if self.ddl else ("crash",)
        return ("cold", "warm") if self.warm else ("cold",)


@dataclass(frozen=True)
class Prepared:
    """A subject with the data directory and the state it starts from, and the files to be checked there."""

    subject: Subject
    datadir: DataDir
    state: str
    files: int
    # Where it starts from in the mode `upgraded`.
    upgraded: str = ""


def run(context: Context, options: Options) -> None:
    """Runs the experiment and adds its runs to the document."""
    tools.need_root("a cold start (dropping the kernel's caches)")
    prepared = prepare(context, options)
    parameters = {"tables": options.tables.tables, "schemas": options.tables.schemas}
    if options.tables.is_encrypted:
        parameters["encrypted"] = options.tables.tables
    if options.tables.server_options:
        parameters["page_kib"] = options.tables.page_kib
    cases = [Case(item, item.subject.name, mode, parameters) for item in prepared for mode in options.modes]
    for item, result in rounds(context, "startup", cases, _in_words):
        _measure(context, options, item, result)
    if options.ddl:
        # The new table goes when another state is restored, which changes a directory of the map.
        for item in prepared:
            item.datadir.drop_other_states(MAP_STATE, "")


def prepare(context: Context, options: Options) -> list[Prepared]:
    """The subjects that can run here, each with a data directory and a state, made if not there."""
    names = options.subjects or (UPGRADE_SUBJECTS if options.after_older else STARTUP_SUBJECTS)
    files = options.tables.tables + SYSTEM_FILES
    subjects = context.find_subjects(names, files, options.tables.is_encrypted, options.tables.server_options)
    datadirs = by_flavour(subjects, lambda subject: context.make_datadir(options.tables, subject.binary))
    to_check = {flavour: datadir.files_to_check() for flavour, datadir in datadirs.items()}
    prepared = []
    makers: dict[tuple[str, str], Subject] = {}
    for subject in subjects:
        flavour = subject.binary.flavour
        if options.after_older:
            states = _states_after_older(context, datadirs[flavour], subject)
            prepared.append(Prepared(subject, datadirs[flavour], states[0], to_check[flavour], states[1]))
        else:
            state = _state(context, options, datadirs[flavour], subject, makers)
            prepared.append(Prepared(subject, datadirs[flavour], state, to_check[flavour]))
    return prepared


def _states_after_older(context: Context, datadir: DataDir, subject: Subject) -> tuple[str, str]:
    """The states of both modes: as the older server has left it, and as the subject has, after that."""
    older = context.older_subject()
    upgraded = f"{UPGRADED_STATE}-{subject.name}"
    map_file = datadir.work / MAP_FILE

    def act(_: Server) -> None:
        if subject.uses_map:
            wait_for_map(map_file, context.timeout_sec)

    context.make_state(datadir, OLDER_STATE, older, lambda _: None, f"MySQL {older.binary.version}")
    context.make_state(datadir, upgraded, subject, act, f"{subject.name} after it", origin=OLDER_STATE)
    return OLDER_STATE, upgraded


def _state(
    context: Context, options: Options, datadir: DataDir, subject: Subject, makers: dict[tuple[str, str], Subject]
) -> str:
    """The state a subject starts from, made if it is not there yet by the first that needs it, which is noted in `makers`.

    A subject with a tablespace map starts from a directory that such a server has left, since
    without the map it would measure the making of it. Its crash is made anew before each run
    (`crash`): a copied directory is not the one that the server with the map has used.
    """
    clean, crash = "clean", options.modes[0]
    if subject.uses_map:
        clean = map_state(subject.binary)
        datadir.drop_other_states(MAP_STATE, clean)
        _make_map_state(context, datadir, makers.setdefault((subject.binary.flavour, clean), subject))
    elif options.crash:
        work = "100 inserts, a new table" if options.ddl else "100 inserts"
        act = functools.partial(options.tables.crash, ddl=options.ddl)
        maker = makers.setdefault((subject.binary.flavour, crash), subject)
        context.make_state(datadir, crash, maker, act, f"{work}, kill -9")
        return crash
    return clean


def _make_map_state(context: Context, datadir: DataDir, maker: Subject) -> None:
    """The clean state of a server with a tablespace map, if it is not there."""
    map_file = datadir.work / MAP_FILE
    context.make_state(
        datadir, map_state(maker.binary), maker, lambda server: wait_for_map(map_file, context.timeout_sec), "with a tablespace map"
    )


def wait_for_map(path: Path, timeout_sec: float) -> None:
    """Wait until a map is there and has not been written for some seconds: a shutdown has no time to write one.

    Raises ToolError if there is none after `timeout_sec`.
    """
    tools.wait_until(
        lambda: path.exists() and time.time() - path.stat().st_mtime > MAP_QUIET_SEC, timeout_sec,
        f"no tablespace map was written to {path}",
    )  # fmt: skip


def map_state(binary: Binary) -> str:
    """Name of the clean state with a map of this very build: another may not read it."""
    return f"{MAP_STATE}-{binary.build}"


def crash(context: Context, tables: Tables, ddl: bool, item: Prepared) -> None:
    """A server with a map starts from its clean state, works, and is killed."""
    log = context.layout.logs / f"crash-{item.datadir.folder.name}-{item.subject.name}.log"
    with Server(
        context.layout, item.subject.binary, item.datadir.work, item.subject.options, log
    ) as server:
        server.startup(context.timeout_sec)
        tables.crash(server, ddl)


def _measure(context: Context, options: Options, item: Prepared, result: Run) -> None:
    tables = options.tables.tables

    def extra(run: Run, server: Server, start: logs.Start) -> None:
        if options.crash:
            rows = options.tables.rows_recovered(server)
            run.metrics["rows_recovered"] = rows
            if rows != len(options.tables.crash_tables):
                run.problems.append(f"{rows} of the inserted rows are there")
        _add_ratios(run, tables)
        judge(run, start, item, item.files + options.ddl)

    fresh = options.crash and item.subject.uses_map
    if fresh and options.ddl:
        # The same goes for the rounds before, of whatever subject.
        item.datadir.drop_other_states(MAP_STATE, "")
        _make_map_state(context, item.datadir, item.subject)
    before = (lambda: crash(context, options.tables, options.ddl, item)) if fresh else None
    is_cold = result.mode != "warm"
    state = item.upgraded if result.mode == "upgraded" else item.state
    starts.measure(context, item.datadir, state, item.subject, result, is_cold, extra=extra, before=before)


def _add_ratios(run: Run, tables: int) -> None:
    metrics = run.metrics
    metrics["reads_per_table"] = metrics["reads"] / tables
    metrics["sectors_per_table"] = metrics["sectors_read"] / tables
    own = metrics["process_read_bytes"] / SECTOR_BYTES
    metrics["process_sectors_per_table"] = own / tables
    check = run.phase_io.get("check")
    if check is not None:
        metrics["check_reads_per_table"] = check["reads"] / tables
        metrics["check_sectors_per_table"] = check["sectors_read"] / tables
        own = check["process_read_bytes"] / SECTOR_BYTES
        metrics["check_process_sectors_per_table"] = own / tables


def judge(run: Run, start: logs.Start, item: Prepared, files: int) -> None:
    """Adds what was checked, and what makes a run invalid; `files` are there to be checked."""
    for name, value in (
        ("files_checked", start.files_checked),
        ("check_threads", start.threads),
        ("tablespaces_validated", start.validated),
    ):
        if value is not None:
            run.metrics[name] = value
    checked = run.metrics.get("files_checked")
    needs_check = item.subject.binary.flavour == "mysql" and not item.subject.uses_map
    if needs_check and checked != files:
        run.problems.append(f"{checked} files were checked, {files} are there")
    recovered = bool(run.metrics["recovered"])
    if recovered != run.mode.startswith("crash"):
        run.problems.append("there was a crash recovery" if recovered else "no crash recovery")
    upgrades = run.mode == "upgrade" and item.subject.name != "older"
    if upgrades != ("upgrade" in run.phases_s):
        run.problems.append("there was no upgrade" if upgrades else "there was an upgrade")


def _in_words(run: Run) -> str:
    ready, sectors = run.metrics["ready_s"], run.metrics["process_sectors_per_table"]
    return f"ready in {ready:.2f} s, {sectors:.1f} sectors a table read"
