# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""What all kinds of crash have in common: clients on a server, counts, and what is kept of a failure."""

from __future__ import annotations

import contextlib
import json
import random
import shutil
import subprocess
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import pymysql

from bench import unlogged
from redstart_cli.console import say
from redstart_cli.mysqld import Binary, ServerError
from redstart_cli.tools import ToolError
from torture import load, pages, preload, rebuild, subjects
from torture.exercised import Exercised
from torture.oracle import NEVER, History, Journal, State, Verdict, write_journal
from torture.release import LOCK, MINIMAL, ROLLED_BACK, Releases
from torture.server import (
    CHANGE_TIMEOUT_SEC,
    UNDO_BY_PAGE,
    Place,
    Server,
    ask_oracle,
    check_binlog,
    initialise,
    page_option,
)  # fmt: skip
from torture.settings import (
    BATCH_OFF,
    BATCH_ON,
    FLUSH_OFF,
    MAP_ON,
    ONCE_OFF,
    ONCE_ON,
    PREALLOCATE_ON,
    ROLLBACK_ON,
    SCAN_ON,
    SETTINGS,
    UNDO_SCAN_ON,
)

JOIN_TIMEOUT_SEC = 90
# Between the end of a server's connections and its own.
DEATH_SEC = 5.0
# What is kept of a data directory: after the crash, and, if recoveries were killed, after the last of them.
CRASHED, KILLED = "crashed", "killed"
# Commits that make a crash worth its while, and how long to wait for them.
ENOUGH = 10
SLOW_SEC = 10.0
# Directories have to be some seconds old, and a stop has little time to write the map.
MAP_STARTS = 10
# Of 300 rows of 1,000 bytes each, and so one note each.
SCAN_TRANSACTIONS = 12
SCAN_ROWS = 300 * SCAN_TRANSACTIONS
_LARGE = (
    "INSERT INTO scan.t (b) WITH RECURSIVE q (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM q WHERE n < 300)"
    " SELECT REPEAT('s', 1000) FROM q"
)
# Rows of the transaction that is cut off the binary log, and of the one before.
CUT_ROWS = 300
_CUT = (
    f"INSERT INTO cut.t (b) WITH RECURSIVE q (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM q WHERE n < {CUT_ROWS})"
    " SELECT REPEAT('c', 1000) FROM q"
)
CUT_SEC = 60.0
ROLLBACK_SEC = 60.0
OPEN_ROWS = 8000
_OPEN = (
    f"INSERT INTO opened.t (b) WITH RECURSIVE q (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM q WHERE n < {OPEN_ROWS})"
    " SELECT 'o' FROM q"
)
# A read of undo takes so long, so that a server is met which reads it in the background; and how often it is killed then.
OPEN_MSEC = 1500
OPEN_KILLS = 2
# The same where DDL waits for that.
OPEN_DDL_MSEC = 200
# Lives with pages of another size than 16 KiB.
OTHER_PAGE_SHARE = 0.3
OTHER_PAGES_KIB = (4, 8, 32, 64)


class Crash(NamedTuple):
    """What a start follows: the kind, and the server that it has ended."""

    kind: str
    server: str


# Raised when data directories come to hold something else that is asked for: what was kept before cannot be asked again.
RIG = 2
# A rebuild whose pages are written once, among the definitions that a crash meets.
ONCE = "rebuild once"


def writes_once(server: Server) -> bool:
    """Whether the pages of rebuilds have no copies in the doublewrite files."""

    def holds(on: str, off: str, default: str) -> bool:
        """What comes last holds."""
        return [default, *(option for option in server.place.options if option in (on, off))][-1] == on

    return server.has(ONCE_ON) and holds(ONCE_ON, ONCE_OFF, ONCE_OFF) and holds(BATCH_ON, BATCH_OFF, BATCH_ON)


@dataclass
class Counts:
    """What a run came to."""

    cycles: int = 0
    kills: int = 0
    kill_lives: int = 0
    power_cuts: int = 0
    faults: int = 0
    acknowledged: int = 0
    checked: int = 0
    lost: int = 0
    wrong: int = 0
    refused: int = 0
    # Tablespaces that were exported, discarded and imported; in `acknowledged`, too.
    imported: int = 0
    # Indexes that were built and tables that were rebuilt in place; those with innodb_ddl_preallocate; rebuilds with
    # innodb_ddl_doublewrite=OFF and innodb_ddl_flush_batch.
    built: int = 0
    preallocated: int = 0
    rebuilt_once: int = 0
    # Loads in which a table is rebuilt all the time, with the same; and how often it was.
    rebuilding: int = 0
    rebuilt_again: int = 0
    # Pages by which files grew in all of these; that were written once.
    grown: int = 0
    written_once: int = 0
    # `acknowledged` in lives that may import.
    importing: int = 0
    # Replicas that were compared, and the transactions that they have executed.
    replicas: int = 0
    replicated: int = 0
    # Those that could not be: see Verdict.known.
    uncompared: int = 0
    unmountable: int = 0
    # Disks on which neither the subject nor stock starts: see power.UNREPAIRED.
    unrepaired: int = 0
    # Directories that are like that after a kill: see kill.NO_KEY.
    without_key: int = 0
    # Power cuts with a page as a whole of which there would have been a part.
    kept_whole: int = 0
    # Servers that were started anew between the oracle and the load: see must_start_anew().
    anew: int = 0
    # What MySQL itself does wrong: see binlog.py.
    known: int = 0
    # Tablespace files and their pages that innochecksum has read.
    files_checked: int = 0
    pages_checked: int = 0
    # Starts of this build with a setting that were asked, by its name and the kind of crash, and those that have used it;
    # without the recoveries of kind redo.
    starts: Counter[tuple[str, str]] = field(default_factory=Counter)
    used: Counter[tuple[str, str]] = field(default_factory=Counter)
    # Of those with binlog_startup_scan=TRANSACTIONS, the ones whose passes have both relied on a checkpoint.
    scan_checkpoints: Counter[str] = field(default_factory=Counter)
    # Starts that took InnoDB's files for older than the binary log, which no crash makes them.
    took_for_older: int = 0
    # Transactions that innodb_recovery_rollback_async has handed over.
    handed_over: int = 0
    # Kills while undo logs were read that innodb_recovery_undo_scan had left for later.
    kills_in_undo_scan: Counter[str] = field(default_factory=Counter)
    # Of kind redo: crashes whose pages can be compared, those that stock did not recover, and those with little redo.
    images: int = 0
    # Why stock did not.
    refusals: list[str] = field(default_factory=list)
    without_redo: int = 0
    # Recoveries that were compared, by server, and their batches; what this build's have met.
    recoveries: Counter[str] = field(default_factory=Counter)
    batches: int = 0
    exercised: Exercised = field(default_factory=Exercised)
    # Those whose rows were compared, and the tables.
    rows_compared: int = 0
    tables_compared: int = 0
    # Crashes of a server of another release, whose rows alone are compared and whose recoveries nobody kills: see redo.py. They
    # are in none of the others of kind redo but `recovered`.
    rows_only: Counter[str] = field(default_factory=Counter)
    kills_in_recovery: int = 0
    # Kills of a server that had left pages to the page cleaners, and was not open yet.
    kills_with_pages_left: int = 0
    # Kills of one that was open; its checkpoint was within the redo of the crash, and the next start has applied that.
    kills_after_opening: int = 0
    # Kills with pages left and another checkpoint than that of the crash, and the pages whose redo it had passed.
    checkpoints_moved: int = 0
    pages_passed: int = 0
    # Those that were not checked, as redo removes their tables.
    passed_left_out: int = 0
    # Crashes with encrypted redo: what it removes is not known.
    removals_unknown: int = 0
    # Shutdowns after a recovery that had no end, by server.
    stuck: Counter[str] = field(default_factory=Counter)
    # Pages that redo has changed, in stock's recoveries; pages that were compared, and those that were not, by the reason.
    pages_recovered: int = 0
    pages_compared: int = 0
    pages_left_out: Counter[str] = field(default_factory=Counter)
    # Loads, and those that made no undo tablespace because of a file that a crash has left.
    loads: int = 0
    undo_barred: int = 0
    # Acknowledged steps with undo tablespaces, by kind.
    undo: Counter[str] = field(default_factory=Counter)
    # Acknowledged definitions of tables with full-text indexes, by kind, and what these indexes were asked: see fulltext.py.
    text_steps: Counter[str] = field(default_factory=Counter)
    text: Counter[str] = field(default_factory=Counter)
    # Crashes under load, by kind, and definitions that they have met under way, by the kind of crash and of definition.
    under_load: Counter[str] = field(default_factory=Counter)
    # Those of loads with innodb_ddl_doublewrite=OFF.
    under_load_once: Counter[str] = field(default_factory=Counter)
    under_way: Counter[tuple[str, str]] = field(default_factory=Counter)
    # Files of undo tablespaces whose CREATE was acknowledged, and which are in the dictionary no more.
    undo_left: int = 0
    # Servers that were asked after a crash, by name.
    turns: Counter[str] = field(default_factory=Counter)
    # Servers that were asked after a crash of another or of the same one, or whose recovery was compared.
    recovered: Counter[tuple[Crash, str]] = field(default_factory=Counter)
    # Servers that did not start because one of another release was interrupted while it changed the release, which MySQL
    # forbids, and after each of which one of that release had to: see release.py.
    pending: Counter[Crash] = field(default_factory=Counter)
    # Those that could not change the release, for what such a start had left, before that was rolled back.
    blocked: Counter[Crash] = field(default_factory=Counter)
    # How long starts have taken that have changed the release.
    changes_sec: list[float] = field(default_factory=list)
    # `starts` and `used` by the setting's name and the server that the crash has ended.
    starts_after: Counter[tuple[str, str]] = field(default_factory=Counter)
    used_after: Counter[tuple[str, str]] = field(default_factory=Counter)
    # Faults that were drawn and have happened, by call and kind of file.
    fired: Counter[str] = field(default_factory=Counter)
    # Faults that have happened at each site of sites.py.
    sites: Counter[str] = field(default_factory=Counter)
    # Lives by the size of their pages.
    page_kib: Counter[int] = field(default_factory=Counter)
    # `checked` by the kind of crash.
    checked_in: Counter[str] = field(default_factory=Counter)
    found: list[str] = field(default_factory=list)
    # All that was wrong, as it was said.
    said: list[str] = field(default_factory=list)
    # Why threads have ended that write the note on the binary log back.
    writeback_errors: list[str] = field(default_factory=list)

    def take(self, kind: str, verdict: Verdict) -> None:
        self.checked += verdict.checked
        self.checked_in[kind] += verdict.checked
        self.lost += len(verdict.lost)
        self.wrong += len(verdict.wrong)
        self.said += verdict.wrong
        self.known += len(verdict.known)
        self.text += verdict.text

    def add(self, other: Counts) -> None:
        """What others have counted, too."""
        for name, value in vars(other).items():
            mine = getattr(self, name)
            if isinstance(mine, Exercised):
                mine.add(value)
            else:
                setattr(self, name, mine + value)

    def take_under_way(
        self, kind: str, histories: list[History], limit: float, begun: float = NEVER, writes_once: bool = False
    ) -> None:
        """Count a crash under load, and the definitions that it meets: sent before `begun`, not acknowledged before `limit`.

        With `writes_once` rebuilds in place have innodb_ddl_doublewrite=OFF, and a name of their own.
        """
        self.under_load[kind] += 1
        self.under_load_once[kind] += writes_once
        steps = [step for history in histories for step in list(history.steps) if step.kind == "ddl"]
        met = [step.ops[0] for step in steps if step.was_under_way(begun, limit)]
        self.under_way.update((kind, ONCE if writes_once and op[0] == "rebuild" and op[2:] == ["INPLACE"] else op[0]) for op in met)

    def builds_under_way(self, kind: str) -> int:
        """How many of them were index builds."""
        return self.under_way[kind, "index"]

    def starts_with(self, name: str) -> Counter[str]:
        """Starts with a setting, by the kind of crash."""
        return Counter({kind: number for (setting, kind), number in self.starts.items() if setting == name})

    def used_by(self, name: str) -> Counter[str]:
        """Those that have used it."""
        return Counter({kind: number for (setting, kind), number in self.used.items() if setting == name})

    def ask(self, server: Server, is_turn: bool = True, crash: Crash | None = None) -> None:
        """A server is asked, which has started after `crash`; with `is_turn` it is one of those that take turns."""
        self.turns[server.binary.name] += is_turn
        if crash:
            self.recovered[crash, server.binary.name] += 1
        for setting in SETTINGS:
            if server.has(setting.option):
                has_used = server.has_used(setting)
                self.starts[setting.name, server.place.crash] += 1
                self.used[setting.name, server.place.crash] += has_used
                if crash:
                    self.starts_after[setting.name, crash.server] += 1
                    self.used_after[setting.name, crash.server] += has_used
        if server.has(ROLLBACK_ON):
            self.handed_over += server.handed_over()
        if server.has(SCAN_ON):
            self.scan_checkpoints[server.place.crash] += server.scans_from_checkpoint()
        self.took_for_older += server.takes_files_for_older()


@dataclass
class Rig:
    """The servers, where the work is done, and what has been counted."""

    binaries: dict[str, Binary]
    subject: str
    work: Path
    innochecksum: list[str]
    has_keyring: bool = False
    counts: Counts = field(default_factory=Counts)
    # Options and environment of each server, after all others: what a canary changes.
    extra: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    is_canary: bool = False
    # A canary, too, has the table that is rebuilt all the time.
    rebuilds: bool = False
    # Also those that MySQL itself gets wrong.
    all_indexes: bool = False
    # No table is compressed or encrypted, so that recovery may keep pages between batches of redo.
    is_plain: bool = False
    # Which life of kills is the first to have a replica.
    first_replica: int = 0
    # innodb_page_size of those lives that have not the usual one.
    other_page_kib: int = 8
    # Power cuts that leave half of a page whose copy is not flushed, too: see writelog.py.
    all_cuts: bool = False
    # That of each server, as dictionaries have it; none if nobody has asked.
    releases: dict[str, int] = field(default_factory=dict)

    def binary(self, r: random.Random) -> Binary:
        """Who recovers this time."""
        names, weights = subjects.turns(self.subject, self.binaries)
        return self.binaries[r.choices(names, weights)[0]]

    def release(self, binary: Binary) -> int:
        """That of a server; servers whose release is not known are of one."""
        return self.releases.get(binary.name, 0)

    def made(self) -> Releases:
        """The release of a new data directory."""
        return Releases.settled(self.releases.get(self.subject, 0))

    def successor(self, releases: Releases) -> Binary:
        """Who has to start after a refusal: the first that takes turns and may; this build, if it is of that release."""
        names, _ = subjects.turns(self.subject, self.binaries)
        return next(self.binaries[name] for name in names if self.release(self.binaries[name]) in releases.may_start())

    def base(self, page_kib: int = pages.PAGE_KIB) -> Path:
        """A data directory with what the load expects, made once for each size of pages."""
        home = self.work / f"base-{page_kib}"
        if not home.exists():
            making = self.work / "base.making"
            shutil.rmtree(making, ignore_errors=True)
            making.mkdir(parents=True)
            place = Place(making / "data", making / "error.log", [page_option(page_kib)])
            try:
                initialise(self.binaries[self.subject], place, self.has_keyring)
            except ServerError as problem:
                raise ToolError(f"no data directory with pages of {page_kib} KiB: {problem}; see {place.log}") from problem
            if pages.bytes_of(place.data / "mysql.ibd") != page_kib * 1024:
                raise ToolError(f"the server has made other pages than of {page_kib} KiB")
            making.rename(home)
        return home / "data"

    def tidy(self) -> None:
        """Remove the directories of what has ended; failures that were kept, and what is made once, stay."""
        for path in self.work.iterdir():
            if path.is_dir() and path.name not in ("found", "servers") and not path.name.startswith("base-"):
                shutil.rmtree(path, ignore_errors=True)

    def draw_page(self, r: random.Random) -> int:
        """The size of pages of a life, in KiB."""
        page_kib = self.other_page_kib if r.random() < OTHER_PAGE_SHARE and not self.is_canary else pages.PAGE_KIB
        self.counts.page_kib[page_kib] += 1
        return page_kib

    def variants(self, page_kib: int) -> list[str]:
        """Definitions of tables that a server with such pages has."""
        able = [name for name in load.VARIANTS if page_kib in load.COMPRESSED_PAGES_KIB.get(name, (page_kib,))]
        return [name for name in able if name not in self._without()]

    def _without(self) -> set[str]:
        """Definitions that are left out whatever the size of pages."""
        if self.is_plain:
            return {"compressed", "encrypted"}
        return set() if self.has_keyring else {"encrypted"}

    def keep(
        self, name: str, verdict: Verdict, histories: list[History], case: dict[str, Any], files: dict[str, Path]
    ) -> None:
        """Keep what shows a failure again, and say how."""
        if self.is_canary:
            return
        folder = self.work / "found" / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for target, source in files.items():
            if source.exists():
                subprocess.run(["cp", "-a", "--sparse=always", source, folder / target], check=True)
        write_journal(folder / "journal", histories)
        report = {**case, "lost": verdict.lost, "wrong": verdict.wrong}
        (folder / "case.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
        self.counts.found.append(str(folder))
        say(f"FOUND {name}: {len(verdict.lost)} lost, {len(verdict.wrong)} wrong")
        for text in [*verdict.lost, *verdict.wrong][:8]:
            say(f"  {text[:1500]}")
        older = "--older " if self.subject == "ours" and "older" in self.binaries else ""
        say(f"  shown again by: ./redstart torture {older}--again {folder}")


def after_refusal(rig: Rig, server: Server, releases: Releases, kind: str) -> Releases | None:
    """What a data directory is known to be when MySQL's rule explains why a server has ended at its start; counted.

    None if the rule does not, as no start was interrupted that could have changed the release of `releases`.
    """
    if not server.has_died:
        return None
    left = releases.refused(rig.release(server.binary), server.process.returncode, server.said())
    if left is not None:
        rig.counts.pending[Crash(kind, server.binary.name)] += 1
        say(f"  {server.binary.name} is refused after an interrupted change of release; {rig.successor(left).name} must start")
    return left


def after_kill(rig: Rig, server: Server, releases: Releases) -> Releases:
    """What a data directory may be after a server was killed on what `releases` says."""
    if server.is_open():
        return Releases.settled(rig.release(server.binary))
    return releases.interrupted(rig.release(server.binary)) if server.has_opened_innodb() else releases


class Started(NamedTuple):
    """A start, and that of another server instead if MySQL forbids the first."""

    server: Server
    # Why none answers; empty if it does.
    problem: str
    # Before the last start.
    found: Releases

    def left(self, rig: Rig) -> Releases:
        """Once it answers."""
        return self.found if self.problem else Releases.settled(rig.release(self.server.binary))


class Block(NamedTuple):
    """Whether what was left of an interrupted change of release has kept a server from changing it, as it does with MySQL."""

    # By what: see Releases.blocked(). Empty if not.
    what: str = ""
    # What MySQL does, if the server says that it was, and MySQL is not.
    differs: str = ""


def keep_met(rig: Rig, binary: Binary, releases: Releases, place: Place) -> Place | None:
    """A copy of what a server of this build is about to meet, if that may block it: for the server of MySQL that is asked then."""
    home = rig.work / "met"
    shutil.rmtree(home, ignore_errors=True)
    if binary.name in subjects.FOREIGN or not releases.may_block(rig.release(binary)):
        return None
    shutil.copytree(place.data, home / "data")
    # A replica must not follow it.
    options = [*place.options, "--skip-networking"]
    return replace(place, data=home / "data", log=home / "error.log", options=options, environment=rig.environment)


def _ask_mysql(rig: Rig, releases: Releases, release: int, met: Place, what: str) -> str:
    """Empty if MySQL's server of a release is blocked by the same, else what it does."""
    servers = [rig.binaries[name] for name in subjects.FOREIGN if name in rig.binaries]
    binary = next((binary for binary in servers if rig.release(binary) == release), None)
    if binary is None:
        return "there is no server of MySQL of that release, which could be asked"
    with Server(binary, met) as server:
        problem = server.wait_ready()
        is_blocked = server.changes_release() and releases.blocked(release, server.process.returncode, server.said()) == what
    return "" if problem and is_blocked else f"{binary.name} on a copy: {problem or 'it starts'}"


def after_block(rig: Rig, server: Server, releases: Releases, kind: str, met: Place | None) -> Block:
    """Whether a server that has ended was blocked; counted. `met` is that of keep_met(): a server of MySQL speaks for itself."""
    if not server.has_died or not server.changes_release():
        return Block()
    release = rig.release(server.binary)
    what = releases.blocked(release, server.process.returncode, server.said())
    if what and met and (differs := _ask_mysql(rig, releases, release, met, what)):
        return Block(differs=differs)
    if what:
        rig.counts.blocked[Crash(kind, server.binary.name)] += 1
        say(f"  {server.binary.name} is blocked by an interrupted change of release ({what}); it must start later")
    return Block(what)


def wait_ready(rig: Rig, server: Server) -> str:
    """Server.wait_ready(); a start that has changed the release is counted, with its time."""
    problem = server.wait_ready()
    if not problem and server.has_changed_release():
        rig.counts.changes_sec.append(time.monotonic() - server.begin)
    return problem


def start(rig: Rig, begin: Callable[..., Server], binary: Binary, releases: Releases, kind: str, place: Place) -> Started:
    """Start a server, and if it is refused by MySQL's rule on releases, one that must not be.

    Where something that was left blocks a change of release, do what an administrator can do; then the server has to start.
    `begin` is given a server, and an option, and starts it in `place`.
    """
    met = keep_met(rig, binary, releases, place)
    server = begin(binary)
    problem = wait_ready(rig, server)
    if problem and (left := after_refusal(rig, server, releases, kind)):
        releases, binary = left, rig.successor(left)
        met = keep_met(rig, binary, releases, place)
        server = begin(binary)
        problem = wait_ready(rig, server)
    block = after_block(rig, server, releases, kind, met) if problem else Block()
    if block.differs:
        problem += f"; {block.differs}"
    elif block.what:
        problem = ""
        if block.what == LOCK:
            server = begin(binary, MINIMAL)
            problem = server.wait_ready() or _roll_back(server)
        if not problem:
            server = begin(binary)
            problem = wait_ready(rig, server)
    return Started(server, problem, releases)


def _roll_back(server: Server) -> str:
    """Wait until a server has rolled back what was open, and stop it; why there was nothing, or how it has ended."""
    end = time.monotonic() + ROLLBACK_SEC
    while ROLLED_BACK not in server.said():
        if server.has_died or time.monotonic() > end:
            return f"{server.binary.name} has rolled back nothing that could block a change of release: {server.errors()}"
        time.sleep(server.poll_sec)
    return server.stop()


def left_by_last_kill(folder: Path) -> Path:
    """What the last server met, of what is kept in `folder`."""
    return folder / KILLED if (folder / KILLED).exists() else folder / CRASHED


class Clients:
    """The clients of one server, from their start to its end."""

    def __init__(
        self,
        rig: Rig,
        server: Server,
        histories: list[History],
        numbers: dict[int, int],
        journal: Path,
        r: random.Random,
        position: Callable[[], float] = lambda: 0,
        errors_are_expected: bool = False,
        may_import: bool = True,
        page_kib: int = pages.PAGE_KIB,
        may_rebuild: bool = False,
    ) -> None:
        """With `may_import` tablespaces are imported, which no replica can follow; with `may_rebuild` a table is rebuilt."""
        self._rig = rig
        self._server = server
        # What note_ended() has found.
        self._ended: list[str] = []
        self._may_import = may_import
        self._preallocates = server.has(PREALLOCATE_ON)
        self.writes_once = writes_once(server)
        self._numbers = numbers
        self._histories = {history.client: history for history in histories}
        self._journal = Journal(journal, histories)
        self._book = load.Book(
            self._journal,
            position,
            threading.Event(),
            load.Copies(server.place.data, journal.with_name("exported")),
            errors_are_expected,
            lambda: server.has_died,
        )
        undo = {name for history in histories for name in history.base.undo}
        strays = load.stray_undo(server.place.data, undo)
        if not rig.is_canary:
            rig.counts.loads += 1
            rig.counts.undo_barred += bool(strays)
        if strays:
            say(f"  no CREATE UNDO TABLESPACE in this load: there is {', '.join(sorted(strays))} of an earlier one")
        self._clients = {
            history.client: load.Client(
                server.socket,
                history,
                numbers[history.client],
                load.Planner(
                    history.client, random.Random(r.random()), rig.variants(page_kib), not rig.is_canary,
                    rig.all_indexes, may_import, not strays,
                ),
                self._book,
            )
            for history in histories
            if not (rig.is_canary and history.client == load.BUILDER)
        }
        # Where pages are written once, without which there is less to be found.
        self._rebuilder = (
            rebuild.Rebuilder(server.socket, self._book, r.randrange(2**32))
            if may_rebuild and self.writes_once and (rig.rebuilds or not rig.is_canary)
            else None
        )
        for client in self._clients.values():
            client.start()
        if self._rebuilder:
            self._rebuilder.start()

    @property
    def rebuilds(self) -> list[History]:
        """Steps of the table that is rebuilt all the time."""
        return [self._rebuilder.history] if self._rebuilder else []

    def work(self, seconds: float, enough: int = ENOUGH) -> None:
        """Let them work for a time, and on a slow machine until enough is acknowledged."""
        time.sleep(seconds)
        end = time.monotonic() + SLOW_SEC
        clients = self._clients.values()
        while (
            sum(client.acknowledged for client in clients) < enough
            and time.monotonic() < end
            and any(client.is_alive() for client in clients)
        ):
            time.sleep(0.02)

    def take_under_way(self, kind: str) -> None:
        """Count the definitions that are under way now, when the server is about to be killed."""
        alive = [self._histories[number] for number, client in self._clients.items() if client.is_alive()]
        if self._rebuilder and self._rebuilder.is_alive():
            alive += self.rebuilds
        self._rig.counts.take_under_way(kind, alive, NEVER, writes_once=self.writes_once)

    def expect_end(self) -> None:
        """The server will be told to shut down."""
        self._book.is_ending = True

    def stop(self, lives: bool = False) -> list[str]:
        """Let them end their steps; returns what was wrong with the server's answers.

        With `lives` the server goes on: note_ended() once more, of what they have met until then.
        """
        self._book.stop.set()
        wrong = []
        end = time.monotonic() + JOIN_TIMEOUT_SEC
        for number, client in self._clients.items():
            client.join(max(0.0, end - time.monotonic()))
            if client.is_alive():
                wrong.append(f"client {number} has waited {JOIN_TIMEOUT_SEC} s for an answer")
            self._numbers[number] = client.next_number
            self._rig.counts.acknowledged += client.acknowledged
            self._rig.counts.refused += client.refused
            self._rig.counts.imported += client.imported
            self._rig.counts.built += client.built
            self._rig.counts.preallocated += client.built * self._preallocates
            self._rig.counts.rebuilt_once += client.rebuilt * self.writes_once
            self._rig.counts.undo += client.undo
            self._rig.counts.text_steps += client.text
            self._rig.counts.importing += client.acknowledged * self._may_import
            if client.defect:
                wrong.append(client.defect)
        self._rig.counts.grown += max((client.grown for client in self._clients.values()), default=0)
        written = [client.written_once for client in self._clients.values()]
        if self._rebuilder:
            self._rebuilder.join(max(0.0, end - time.monotonic()))
            if self._rebuilder.is_alive():
                wrong.append(f"a rebuild has waited {JOIN_TIMEOUT_SEC} s for an answer")
            if self._rebuilder.defect:
                wrong.append(self._rebuilder.defect)
            self._rig.counts.refused += self._rebuilder.refused
            self._rig.counts.rebuilding += not self._book.errors_are_expected
            self._rig.counts.rebuilt_again += self._rebuilder.rebuilt
            written.append(self._rebuilder.written_once)
        self._rig.counts.written_once += max(written, default=0)
        self._journal.close()
        if lives:
            self.note_ended()
        return wrong + self._ended

    def note_ended(self) -> bool:
        """A server is about to be killed; True if it lives.

        One that has died is a defect, as are connections that it has ended while it goes on.
        """
        threads: list[load.Worker] = [*self._clients.values(), *([self._rebuilder] if self._rebuilder else [])]
        ended = [thread for thread in threads if thread.ended_by and not thread.defect]
        # A server that dies closes its connections first.
        end = time.monotonic() + DEATH_SEC
        while ended and not self._server.has_died and time.monotonic() < end:
            time.sleep(0.05)
        server = self._server
        if server.has_died:
            self._ended = [f"{server.binary.name} died under load with {server.process.returncode}: {server.errors()}"]
        else:
            self._ended = [f"{thread.title}: a server that lives has ended the connection: {thread.ended_by}" for thread in ended]
        return not server.has_died


def opening() -> tuple[list[History], dict[int, int]]:
    """Histories of a new data directory, and the number of each client's first step."""
    histories = [History(client, state) for client, state in enumerate(load.opening_states())]
    return histories, {history.client: 0 for history in histories}


def go_on(states: list[State]) -> list[History]:
    """Histories that begin with what a server holds."""
    return [History(client, state) for client, state in enumerate(states)]


def must_start_anew(histories: Sequence[History], states: Sequence[State], limit: float) -> bool:
    """Whether there must be no load before a shutdown has left a checkpoint behind all redo, after a crash.

    See docs/reliability.md. The load removes the file that is left of a discarded table when it drops it, for which there may be
    redo of an import that was rolled back. And MySQL applies the redo of the removal of an undo tablespace, by DROP or
    because its CREATE was cut off, to one that is made with the same number.
    """
    steps = [step for step in histories[load.BUILDER].steps if step.ops]
    removed = any(step.ops[0][0] == "undo-drop" for step in steps)
    cut_off = any(step.ops[0][0] == "undo-create" and not step.was_acknowledged(limit) for step in steps)
    return removed or cut_off or any(state.discarded for state in states)


def ask(
    rig: Rig, server: Server, histories: list[History], limit: float, is_turn: bool = True, crash: Crash | None = None
) -> tuple[Verdict, list[State]]:
    """ask_oracle(), with a server that does not answer, or answers what nobody expects, as something wrong."""
    rig.counts.ask(server, is_turn, crash)
    try:
        return ask_oracle(server, histories, limit)
    except (pymysql.err.MySQLError, OSError) as problem:
        ended = f" (it has ended with {server.process.returncode})" if server.has_died else ""
        return Verdict(wrong=[f"the oracle was not answered{ended}: {problem}: {server.errors()}"]), []
    except Exception:  # noqa: BLE001 - the answer is evidence, and the run goes on to keep it
        return Verdict(wrong=[f"the oracle was given an answer that it does not expect: {traceback.format_exc()}"]), []


def check_pages(rig: Rig, data: Path, states: Sequence[State] = ()) -> list[str]:
    """Whether all pages have a right checksum; after a clean stop.

    Files that lie where a discarded tablespace was are left out: whoever put them there may have died.
    """
    return innochecksum(rig, data, load.discarded_files(data, states))


def innochecksum(rig: Rig, data: Path, discarded: set[Path]) -> list[str]:
    """The same with the places where files are left out.

    Those of encrypted tables are, too: innochecksum cannot decrypt them. The server looks at each that it reads.
    """
    if not rig.innochecksum:
        return []
    wrong = []
    for path in [path for path in pages.files(data) if path not in discarded]:
        size = path.stat().st_size if path.exists() else 0
        if size == 0 or pages.is_encrypted(path):
            continue
        command: list[str | Path] = [*rig.innochecksum, path]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        rig.counts.files_checked += 1
        rig.counts.pages_checked += size // pages.bytes_of(path)
        if done.returncode != 0:
            said = " ".join((done.stderr or done.stdout).split())[:300]
            wrong.append(f"innochecksum {path.relative_to(data)}: {done.returncode}: {said}")
    return wrong


def write_large(server: Server) -> None:
    """Large transactions of small rows, in a table that no client has; each is noted as synced."""
    with load.connect(server.socket) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE scan")
        cursor.execute("CREATE TABLE scan.t (a INT AUTO_INCREMENT PRIMARY KEY, b LONGBLOB)")
        for _ in range(SCAN_TRANSACTIONS):
            cursor.execute(_LARGE)
            connection.commit()


def _check_rows(
    server: Server, table: str, is_right: str, number: int, first: str = "", is_loss: bool = False
) -> Verdict:
    """Whether the binary log holds what it should, `first` is answered, and a table has so many rows, all of them right."""
    with load.connect(server.socket) as connection, connection.cursor() as cursor:
        verdict = check_binlog(cursor, server.place.data)
        if first:
            cursor.execute(first)
        cursor.execute(f"SELECT COUNT(*), CAST(SUM({is_right}) AS SIGNED) FROM {table}")
        rows, right = cursor.fetchone()
    if (rows, right) != (number, number):
        said = verdict.lost if is_loss else verdict.wrong
        said.append(f"{table} has {rows} rows, {right} of them right, and not {number}")
    return verdict


@contextlib.contextmanager
def _running(rig: Rig, place: Place) -> Iterator[Server]:
    """A server of this build, which is stopped at the end if nobody has killed it; ToolError if that fails."""
    with Server(rig.binaries["ours"], place) as server:
        problem = server.wait_ready()
        if not problem:
            yield server
            problem = server.stop() if server.process.returncode is None else ""
        if problem:
            raise ToolError(problem)


def _use(rig: Rig, name: str, options: list[str], work: Callable[[Place], Verdict]) -> None:
    """Something that is done on a data directory of its own; what is wrong is a finding as any other."""
    home = rig.work / name
    rig.tidy()
    shutil.copytree(rig.base(), home / "data")
    place = Place(home / "data", home / "error.log", options, crash=name)
    try:
        verdict = work(place)
    except (ToolError, pymysql.err.MySQLError, OSError) as problem:
        verdict = Verdict(wrong=[f"{name}: {problem}"])
    rig.counts.take(name, verdict)
    if not verdict.is_clean:
        case = case_of(place, rig.binaries["ours"], NEVER, kind=name)
        rig.keep(name, verdict, [], case, {"crashed": place.data, "error.log": place.log})


def use_scan(rig: Rig) -> None:
    """Transactions until one is noted as synced, a kill, and a start that must not read it whole, nor lose a row."""

    def work(place: Place) -> Verdict:
        with _running(rig, place) as server:
            write_large(server)
            server.kill()
        with _running(rig, place) as server:
            rig.counts.ask(server, is_turn=False)
            # All of the transactions are there.
            return _check_rows(server, "scan.t", "b = REPEAT('s', 1000)", SCAN_ROWS, is_loss=True)

    _use(rig, "scan", [SCAN_ON, "--max-binlog-size=64M"], work)


def cut_off(server: Server) -> None:
    """Kill a server when a transaction is prepared and in the binary log, and cut it off there."""
    with load.connect(server.socket) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE cut")
        cursor.execute("CREATE TABLE cut.t (a INT AUTO_INCREMENT PRIMARY KEY, b LONGBLOB)")
        cursor.execute(_CUT)
        cursor.execute(f"SET GLOBAL {unlogged.DELAY}")
        cursor.execute("SHOW BINARY LOG STATUS")
        name, position = cursor.fetchone()[:2]

    def commit() -> None:
        with load.connect(server.socket) as other, other.cursor() as cursor:
            cursor.execute(_CUT)

    unlogged.cut_off(server.place.data / name, position, commit, server.kill, CUT_SEC)


def use_rollback(rig: Rig) -> None:
    """A start that finds a prepared transaction that the binary log does not know, and must leave it to its thread."""

    def work(place: Place) -> Verdict:
        with _running(rig, place) as server:
            cut_off(server)
        with _running(rig, place) as server:
            rig.counts.ask(server, is_turn=False)
            # Rows of the transaction are not there, and its locks go.
            change = "UPDATE cut.t SET b = CONCAT(b, 'd')"
            return _check_rows(server, "cut.t", "b = CONCAT(REPEAT('c', 1000), 'd')", CUT_ROWS, change)

    _use(rig, "rollback", [ROLLBACK_ON], work)


def leave_open(server: Server) -> None:
    """Kill a server with a transaction that has changed each row of a table; all but this was committed."""
    with load.connect(server.socket) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE opened")
        cursor.execute("CREATE TABLE opened.t (a INT AUTO_INCREMENT PRIMARY KEY, b VARCHAR(9))")
        cursor.execute("CREATE TABLE opened.other (a INT PRIMARY KEY)")
        cursor.execute("SET cte_max_recursion_depth = 1000000")
        cursor.execute(_OPEN)
        cursor.execute("BEGIN")
        cursor.execute("UPDATE opened.t SET b = 'changed'")
        with load.connect(server.socket) as second, second.cursor() as other:
            # Redo of the open transaction is flushed with it.
            other.execute("INSERT INTO opened.other VALUES (1)")
        server.kill()


def use_undo_scan(rig: Rig) -> None:
    """Kills of servers that have opened and read the undo log of an open transaction; then one that may end that."""

    def work(place: Place) -> Verdict:
        with _running(rig, place) as server:
            leave_open(server)

        def slow(msec: int) -> Place:
            return replace(place, environment=preload.slow_undo(rig.work, msec))

        for _ in range(OPEN_KILLS):
            with _running(rig, slow(OPEN_MSEC)) as server:
                rig.counts.kills_in_undo_scan[server.place.crash] += server.reads_undo_open()
                server.kill()
        with _running(rig, slow(OPEN_DDL_MSEC)) as server:
            rig.counts.ask(server, is_turn=False)
            with load.connect(server.socket) as connection, connection.cursor() as cursor:
                # DDL goes on when undo was read, the rows can be changed when the transaction was rolled back.
                cursor.execute("ALTER TABLE opened.t COMMENT 'read'")
                cursor.execute("SHOW GLOBAL STATUS LIKE 'Innodb_recovery_lock_scan_running'")
                is_early = cursor.fetchone()[1] != "OFF"
            change = "UPDATE opened.t SET b = CONCAT(b, 'd')"
            verdict = _check_rows(server, "opened.t", "b = 'od'", OPEN_ROWS, change)
        if is_early:
            verdict.wrong.append("DDL has not waited until undo was read")
        return verdict

    # Pages that a recovery leaves in the buffer pool need not be read.
    _use(rig, "undo scan", [UNDO_SCAN_ON, FLUSH_OFF, *UNDO_BY_PAGE], work)


def use_map(rig: Rig) -> None:
    """Clean starts and stops, until one has used the tablespace map: nothing changes, so that one must."""
    used = rig.counts.used_by("map")

    def work(place: Place) -> Verdict:
        for _ in range(MAP_STARTS):
            if rig.counts.used_by("map") == used:
                with _running(rig, place) as server:
                    rig.counts.ask(server, is_turn=False)
        return Verdict()

    _use(rig, "map", [MAP_ON], work)


def use_releases(rig: Rig) -> None:
    """Starts that change the release, to an older one and back, and are killed meanwhile: the other server must be refused
    then, and the one that was killed must start."""

    def work(place: Place) -> Verdict:
        verdict = Verdict()
        releases, histories = rig.made(), opening()[0]

        def begin(binary: Binary, *extra: str) -> Server:
            return servers.enter_context(Server(binary, place, extra))

        for changing, other in (("older", "ours"), ("ours", "older")):
            with contextlib.ExitStack() as servers:
                server = begin(rig.binaries[changing])
                end = time.monotonic() + CHANGE_TIMEOUT_SEC
                while not server.changes_release() and not server.has_died and time.monotonic() < end:
                    time.sleep(server.poll_sec)
                if not server.changes_release():
                    raise ToolError(f"{changing} has not begun to change the release: {server.errors()}")
                server.kill()
                interrupted = releases.interrupted(rig.release(server.binary))
                started = start(rig, begin, rig.binaries[other], interrupted, place.crash, place)
                if started.problem:
                    return Verdict(wrong=[started.problem])
                if started.server.binary.name != changing:
                    return Verdict(wrong=[f"{other} has started, although {changing} was killed while it changed the release"])
                answer, _ = ask(rig, started.server, histories, NEVER, is_turn=False)
                verdict.add(answer)
                releases = started.left(rig)
        return verdict

    _use(rig, "releases", [], work)


def case_of(place: Place, binary: Binary, limit: float, **more: object) -> dict[str, Any]:
    """What a failure is shown again with."""
    return {
        "rig": RIG, "place": asdict(place) | {"data": "", "log": ""}, "subject": binary.name, "limit": limit, **more,
    }  # fmt: skip
