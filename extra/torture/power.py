# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Power cuts: of what was written, only what was flushed is sure to be there."""

from __future__ import annotations

import contextlib
import os
import random
import re
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pymysql

from redstart_cli.console import warn
from redstart_cli.mysqld import Binary
from redstart_cli.tools import ToolError
from torture import load, pages, preload, stack, writelog
from torture.life import (
    Clients,
    Crash,
    Rig,
    ask,
    case_of,
    check_pages,
    go_on,
    must_start_anew,
    opening,
    start,
    write_large,
    writes_once,
)  # fmt: skip
from torture.oracle import NEVER, History, Verdict
from torture.release import Releases
from torture.server import Place, Server, page_option, random_options
from torture.settings import MAP_ON, SCAN_ON
from torture.writeback import Writeback

MIN_LOAD_SEC = 1.0
MAX_LOAD_SEC = 4.0
# Disks made of one recording. More are cheaper, fewer see more of the load.
CUTS = 6
# Recordings that begin on a disk that a cut has left, one after the other.
MAX_DEPTH = 3
# Cuts in the recovery at the beginning of a recording rather than under load.
RECOVERY_SHARE = 0.25
# The same if the recording began with a clean start.
CLEAN_START_SHARE = 0.05
# How long a canary waits for a checkpoint.
CHECKPOINT_SEC = 60.0
PAGES_SHARE = 0.3
# Flushes that are looked at for one behind which a page and its copy were written.
TRIES = 200
# On what MySQL does not start. Torn pages that it does not repair although their copies are there: page 0 of a small file,
# and that of the transaction system. And a redo log whose newest file has lost its name, for which nothing must be torn.
NEWEST_REDO = "newest redo log file"
UNREPAIRED = {
    "header": ("[MY-015090]",),
    "transaction system": ("[MY-011906]", "[page id: space=0, page number=5]"),
    NEWEST_REDO: ("[MY-013893]", "at least one is missing"),
}
# Lives in which the tablespace map is not flushed.
UNFLUSHED_MAP_SHARE = 0.25
# Lives that may have a note on the binary log, and have it on the disk.
NOTE_SHARE = 0.75
# Until it is on the disk.
NOTE_SEC = 0.5


@dataclass
class Source:
    """A disk, and what must be found on it."""

    image: Path
    histories: list[History]
    limit: float
    # What its data directory may be of.
    releases: Releases
    # Whether the power cut that made it has torn a write.
    is_torn: bool = False
    # That power cut; None if there was none.
    crash: Crash | None = None


@dataclass
class Recording:
    """What was written to a disk while a server recovered and then worked.

    Up to the position `checked` it owes what the disk owed before; from `loaded` on, what the clients were told.
    Between them the oracle ends prepared transactions, and what is owed is neither.
    """

    log: Path
    entries: list[writelog.Entry]
    before: Source
    after: list[History]
    checked: int
    loaded: int
    end: int
    # The server's name, and its release; whether rebuilds have innodb_ddl_doublewrite=OFF.
    server: str
    release: int = 0
    writes_once: bool = False
    # Of the table that is rebuilt all the time.
    rebuilds: list[History] = field(default_factory=list)


class PowerLife:
    """A disk, the servers that work on it, and the disks that power cuts make of it."""

    def __init__(
        self, rig: Rig, seed: int, kind: str | None = None, needs_checkpoint: bool = False, lies: bool = False
    ) -> None:
        """With `lies` flushes leave holes in the binary log, and cuts are made when there are some."""
        self._rig = rig
        self._lies = lies
        self._needs_checkpoint = needs_checkpoint
        self._seed = seed
        self._r = random.Random(seed)
        self._home = rig.work / "power"
        self._kind = kind or self._r.choice(stack.FILE_SYSTEMS)
        self._page_kib = rig.draw_page(self._r)
        self._options = [*random_options(self._r, rig.has_keyring, self._page_kib), *rig.extra]
        # A map that was not flushed may be torn or old, but must not be believed: nothing may be lost by it.
        drops_map = self._r.random() < UNFLUSHED_MAP_SHARE and not rig.is_canary
        self._environment = preload.dropping(rig.work, "map") if drops_map else rig.environment
        # By itself the kernel writes a note on the binary log back when the load is long over.
        self._writes_note = SCAN_ON in self._options and (self._r.random() < NOTE_SHARE or rig.is_canary)
        # MySQL flushes the doublewrite file before it writes the pages only if this is false.
        methods = [option for option in self._options if option.startswith("--innodb-flush-method=")]
        self._is_direct = methods[-1].endswith("=O_DIRECT")
        self._histories, self._numbers = opening()
        self._home.mkdir(parents=True, exist_ok=True)

    def run(self, end: float, cuts: int = CUTS, depth: int | None = None) -> bool:
        """Record and cut until a failure or until `end`; True if nothing was found."""
        image = self._home / "source.img"
        stack.copy_image(self._new_disk(), image)
        source = Source(image, self._histories, NEVER, self._rig.made())
        for level in range(depth or self._r.randrange(1, MAX_DEPTH + 1)):
            recording = self._record(source, level)
            if recording is None:
                return False
            for _ in range(cuts):
                cut, owed = self._choose(recording)
                if not self._is_right(recording, cut, owed):
                    return False
                if time.monotonic() > end:
                    return True
            cut, owed = self._choose(recording)
            writelog.build_disk(image, recording.log, recording.entries, cut)
            source = replace(owed, image=image)
        return True

    def _new_disk(self) -> Path:
        """An image with a file system and a data directory, made once for each kind."""
        image = self._rig.work / f"base-{self._page_kib}-{self._kind}.img"
        if not image.exists():
            making = image.with_suffix(".making")
            point = self._home / "fs"
            point.mkdir(exist_ok=True)
            # A data directory with larger pages is larger.
            larger = pages.times(self._page_kib)
            stack.make_file_system(making, self._kind, stack.IMAGE_BYTES * larger)
            with stack.mounted(making, point, self._kind):
                shutil.copytree(self._rig.base(self._page_kib), point / "data")
                self._write_map(point / "data")
            making.rename(image)
        return image

    def _write_map(self, data: Path) -> None:
        """Let the disk have a tablespace map, which the copied files do not fit."""
        if "ours" in self._rig.binaries:
            place = Place(data, self._home / "map.log", [MAP_ON, page_option(self._page_kib)])
            with Server(self._rig.binaries["ours"], place) as server:
                problem = server.wait_ready() or server.stop()
                if problem:
                    raise ToolError(problem)

    def _place(self, log: str) -> Place:
        path = self._home / log
        path.unlink(missing_ok=True)
        crash = "power" if log == "cut.log" else ""
        return Place(self._home / "fs/data", path, self._options, self._environment, crash)

    def _record(self, source: Source, level: int) -> Recording | None:
        """A start on a disk and a load, with all writes; None if that alone has shown a failure."""
        log = self._home / "writes.log"
        disk = self._home / "disk.img"
        stack.copy_image(source.image, disk)
        place = self._place("recorded.log")
        verdict = Verdict()

        def position() -> int:
            return log.stat().st_size

        with contextlib.ExitStack() as mounts:
            try:
                mounts.enter_context(stack.recorded(self._home, disk, log, self._kind))
            except ToolError as problem:
                if level == 0:
                    raise
                self._unmountable(problem)
                return None

            def begin(binary: Binary, *extra: str) -> Server:
                server = Server(binary, place, extra)
                mounts.callback(server.kill)
                return server

            server, failure, found = start(self._rig, begin, self._rig.binary(self._r), source.releases, "power", place)
            binary, source = server.binary, replace(source, releases=found)
            checked = position()
            if failure:
                verdict.wrong.append(failure)
            else:
                answer, states = ask(self._rig, server, source.histories, source.limit, crash=source.crash)
                verdict.add(answer)
            if verdict.is_clean and must_start_anew(source.histories, states, source.limit):
                self._rig.counts.anew += 1
                failure = server.stop_flushed()
                server = begin(binary)
                failure = failure or server.wait_ready()
                if failure:
                    verdict.wrong.append(failure)
            if verdict.is_clean:
                after = go_on(states)
                loaded = position()
                clients = Clients(
                    self._rig, server, after, self._numbers, self._home / "journal", self._r, position,
                    page_kib=self._page_kib, may_rebuild=True,
                )
                with self._writeback(place.data):
                    if self._lies:
                        loaded = write_holes(server, position)
                    clients.work(self._r.uniform(MIN_LOAD_SEC, MAX_LOAD_SEC))
                if self._needs_checkpoint and wait_for_checkpoint(server):
                    # Cuts are made behind it.
                    loaded = position()
                    clients.work(MIN_LOAD_SEC)
                clients.note_ended()
                end = position()
                server.kill()
                verdict.wrong += clients.stop()
        self._rig.counts.cycles += 1
        if self._is_unrepaired(verdict, lambda image: stack.copy_image(source.image, image), source.is_torn):
            return None
        self._rig.counts.take("power", verdict)
        if not verdict.is_clean:
            self._keep(f"power-{self._seed}-start{level}", verdict, source, binary.name, {"image": source.image})
            return None
        entries = writelog.read_entries(log, end)
        return Recording(log, entries, source, after, checked, loaded, end, binary.name, self._rig.release(binary),
                         writes_once(server), clients.rebuilds)  # fmt: skip

    def _writeback(self, data: Path) -> contextlib.AbstractContextManager[Writeback | None]:
        if not self._writes_note:
            return contextlib.nullcontext()
        return Writeback(data / "binlog.startup", self._rig.counts.writeback_errors)

    def _choose(self, recording: Recording) -> tuple[writelog.Cut, Source]:
        """A power cut, and what is owed after it."""
        early = writelog.flushes_within(recording.entries, recording.checked)
        late = writelog.flushes(recording.entries, recording.loaded, recording.end)
        r = self._r
        is_owed = any(history.steps for history in recording.before.histories)
        share = RECOVERY_SHARE if is_owed else CLEAN_START_SHARE
        in_recovery = bool(early) and (not late or r.random() < share)
        flush, atoms = self._flush(recording, early if in_recovery else late)
        choose = writelog.choose_half if self._rig.all_cuts and atoms else writelog.choose_cut
        cut = choose(recording.entries, flush, recording.end, r, atoms)
        before, is_torn, crash = recording.before, cut.is_torn(recording.entries), Crash("power", recording.server)
        if in_recovery:
            # A cut in a start that changes the release may come between the two commits of release.py, each of which is flushed.
            releases = before.releases.interrupted(recording.release)
            return cut, replace(before, is_torn=is_torn or before.is_torn, crash=crash, releases=releases)
        releases = Releases.settled(recording.release)
        return cut, Source(before.image, recording.after, cut.limit, releases, is_torn, crash)

    def _flush(self, recording: Recording, flushes: list[int]) -> tuple[int, writelog.Atoms]:
        """A flush to cut after, and what behind it is not torn; if all cuts are asked for, one that has something."""
        number, atoms = -1, writelog.Atoms()
        for _ in range(TRIES if self._rig.all_cuts and self._is_direct else 1):
            number = self._r.choice(flushes)
            if self._is_direct:
                atoms = writelog.find_atoms(recording.log, recording.entries, number, self._page_kib * 1024)
            if atoms:
                break
        return number, atoms

    def _is_right(self, recording: Recording, cut: writelog.Cut, owed: Source) -> bool:
        """Make the disk of a cut, start a server on it and ask."""

        def make(image: Path) -> None:
            stack.copy_image(recording.before.image, image)
            writelog.build_disk(image, recording.log, recording.entries, cut)

        image = self._home / "cut.img"
        make(image)
        place = self._place("cut.log")
        binary = self._rig.binary(self._r)
        wants_pages = self._r.random() < PAGES_SHARE or self._rig.counts.power_cuts == 0
        with contextlib.ExitStack() as mounts:
            try:
                mounts.enter_context(stack.mounted(image, self._home / "fs", self._kind))
            except ToolError as problem:
                self._unmountable(problem)
                return True
            verdict = check_place(
                self._rig, place, binary.name, owed.histories, owed.limit, wants_pages, owed.crash, owed.releases
            )  # fmt: skip
        self._rig.counts.power_cuts += 1
        if owed.histories is recording.after:
            self._rig.counts.take_under_way(
                "power", owed.histories + recording.rebuilds, owed.limit, recording.entries[cut.flush].begin,
                recording.writes_once,
            )
        if self._is_unrepaired(verdict, make, owed.is_torn):
            return True
        self._rig.counts.kept_whole += cut.kept_whole
        self._rig.counts.take("power", verdict)
        if verdict.is_clean:
            return True
        make(image)
        files = {"image": image, "writes.log": recording.log, "before.img": recording.before.image}
        self._keep(
            f"power-{self._seed}-{self._rig.counts.power_cuts}", verdict, owed, binary.name, files,
            flush=cut.flush, manner=cut.manner, later={str(number): sectors for number, sectors in cut.later.items()},
        )  # fmt: skip
        return False

    def _is_unrepaired(self, verdict: Verdict, make: Callable[[Path], None], is_torn: bool) -> bool:
        """Whether all that is wrong is one of UNREPAIRED, and stock does not start on the same disk either; said and counted.

        With `is_torn` the disk may have a torn page.
        """
        what = unrepaired(verdict)
        stock = self._rig.binaries.get("stock")
        if not what or not (is_torn or what == NEWEST_REDO) or stock is None or self._rig.is_canary:
            return False
        image = self._home / "stock.img"
        make(image)
        try:
            with stack.mounted(image, self._home / "fs", self._kind), Server(stock, self._place("stock.log")) as server:
                problem = server.wait_ready()
        except ToolError as reason:
            warn(f"stock could not be asked: {reason}")
            return False
        finally:
            image.unlink(missing_ok=True)
        if unrepaired(Verdict(wrong=[problem])) != what:
            return False
        warn(f"a disk on which stock does not start either ({what}), seed {self._seed}: {verdict.wrong[0][:300]}")
        self._rig.counts.unrepaired += 1
        return True

    def _unmountable(self, problem: ToolError) -> None:
        """The file system's failure, not the server's: said, counted and limited (cli.py)."""
        warn(f"the file system of a disk is not mounted: {problem}")
        self._rig.counts.unmountable += 1

    def _keep(
        self, name: str, verdict: Verdict, owed: Source, subject: str, files: dict[str, Path], **more: object
    ) -> None:
        place = self._place("none")
        about = {"kind": "power", "file_system": self._kind, "seed": self._seed, **more}
        possible = sorted(owed.releases.possible)
        case = case_of(place, self._rig.binaries[subject], owed.limit, releases=possible, **about)
        files = {
            **files,
            "recorded.log": self._home / "recorded.log",
            "error.log": self._home / "cut.log",
        }
        self._rig.keep(name, verdict, owed.histories, case, files)


def write_holes(server: Server, position: Callable[[], int]) -> int:
    """Transactions that are on the disk but for what a flush has left out; the position behind them."""
    write_large(server)
    # Until the note has been written back; then its size and that of the binary log are made to last.
    time.sleep(NOTE_SEC)
    with (server.place.data / "after").open("wb") as file:
        os.fsync(file.fileno())
    return position()


def unrepaired(verdict: Verdict) -> str:
    """Which of UNREPAIRED it is, if nothing but the server's start is wrong; else empty."""
    if verdict.lost or len(verdict.wrong) != 1 or " at its start: " not in verdict.wrong[0]:
        return ""
    lines = verdict.wrong[0].split(" | ")
    return next((page for page, words in UNREPAIRED.items() if any(all(word in line for word in words) for line in lines)), "")


def wait_for_checkpoint(server: Server) -> bool:
    """Wait until a checkpoint has passed what is in the redo log now; False if the server died or it took too long."""
    end = time.monotonic() + CHECKPOINT_SEC
    try:
        with load.connect(server.socket) as connection, connection.cursor() as cursor:
            wanted, last = _lsns(cursor)
            while last < wanted and time.monotonic() < end:
                time.sleep(0.05)
                _, last = _lsns(cursor)
    except (pymysql.err.MySQLError, OSError):
        return False
    return last >= wanted


def _lsns(cursor: Any) -> tuple[int, int]:
    """The end of the redo log, and the last checkpoint."""
    cursor.execute("SHOW ENGINE INNODB STATUS")
    text = cursor.fetchone()[2]
    names = ("Log sequence number", "Last checkpoint at")
    found = [re.search(rf"^{name} +(\d+)", text, re.MULTILINE) for name in names]
    end, last = (int(match[1]) if match else 0 for match in found)
    return end, last


def check_place(
    rig: Rig, place: Place, subject: str, histories: list[History], limit: float, wants_pages: bool,
    crash: Crash | None = None, releases: Releases | None = None,
) -> Verdict:  # fmt: skip
    """Start a server on what a crash has left and ask; with `wants_pages` stop it and check all pages, too."""
    with contextlib.ExitStack() as servers:

        def begin(binary: Binary, *extra: str) -> Server:
            return servers.enter_context(Server(binary, place, extra))

        kind = crash.kind if crash else ""
        started = start(rig, begin, rig.binaries[subject], releases or rig.made(), kind, place)
        server = started.server
        if started.problem:
            return Verdict(wrong=[started.problem])
        verdict, states = ask(rig, server, histories, limit, crash=crash)
        if wants_pages and verdict.is_clean:
            problem = server.stop()
            verdict.wrong += [problem] if problem else check_pages(rig, place.data, states)
    return verdict
