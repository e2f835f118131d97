# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Redo: what recoveries of a crash leave, against what the stock server leaves of it.

A server is stopped dead under load several times, and killed in the end; each time there is a copy of what SIGKILL leaves.
Copies of such an image are recovered by the stock server, and then by this build, which may be killed in between.

Pages: without rollback and purge, and stopped cleanly. Each page that redo has made must be the same, byte for byte.
Rows: with rollback, purge and DDL that was under way. After a clean stop checksums of pages must be right, and the stock
server must find there what it finds after its own recovery. Where the server that crashed was of another release, this is all:
with innodb_force_recovery no server changes the release, and kills of such changes are the business of other kinds.

Where a server is killed after it has opened, what its checkpoint has passed must be in its files.
"""

from __future__ import annotations

import dataclasses
import random
import re
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from redstart_cli.console import RedstartError, say
from redstart_cli.mysqld import Binary, ServerError
from redstart_cli.tools import ToolError
from torture import pages, redolog
from torture.held import Held, held
from torture.life import Clients, Counts, Crash, Rig, case_of, innochecksum, opening, wait_ready
from torture.oracle import NEVER, Verdict
from torture.recovered import Ends, Key, Pages, compare, ends_of, passed, read_pages, restored, shown
from torture.redolog import RedoLog
from torture.server import INNODB_OPEN, Place, Server, random_options
from torture.settings import FLUSH_OFF, FLUSH_ON, LAZY, LEFT, REDO_ON

# Crashes of one load.
IMAGES = 5
# Those that are looked at at a time.
WORKERS = 2
MAX_LOAD_SEC = 2.0
# Images whose rows are compared, too.
ROWS_SHARE = 0.35
KILLS = (0, 1, 1, 2, 3, 5)
# Redo of fewer pages shows nothing.
LEAST_PAGES = 20
POOLS_MIB = (5, 5, 6, 8, 16, 64, 128)
# Later than in a second after it has begun few recoveries go on, and few pages are left to write.
MAX_RECOVERY_SEC = 1.0
BEGIN_TIMEOUT_SEC = 30.0
# MySQL's shutdown has no end at times if nothing is purged: it waits for pages that it does not write. It is killed,
# and what it leaves recovered once more.
STOPS, STOP_TIMEOUT_SEC = 3, 20.0
# Neither rollback nor purge; a shutdown writes all pages.
_WITHOUT_ROLLBACK = ("--innodb-force-recovery=3", "--innodb-fast-shutdown=1")
# Mostly, what was written last is in the redo log alone.
LAZY_SHARE = 0.7
# Loads without compressed or encrypted tables.
PLAIN_SHARE = 0.5
# With changes in the change buffer no pages are left, so most lives have none.
_UNBUFFERED, UNBUFFERED_SHARE = "--innodb-change-buffering=none", 0.7
# Page cleaners that take their time, so that kills of an open server find pages left, and others written.
_SLOW = ("--innodb-io-capacity=100", "--innodb-io-capacity-max=200", "--innodb-max-dirty-pages-pct=90",
         "--innodb-max-dirty-pages-pct-lwm=0", "--innodb-adaptive-flushing=OFF")  # fmt: skip
SLOW_SHARE = 0.75
# Of that capacity, what they write in a second while nothing else is done.
IDLE_PERCENT = (0, 5, 20)
# A pool that needs no pages evicted.
_LARGE_POOL = "--innodb-buffer-pool-size=256M"
# A redo log that is to become smaller is full, as far as it is not flushed.
_SMALL_LOG = "--innodb-redo-log-capacity=8M"
_BATCH = re.compile(r"Applying a batch of (\d+) redo")
# A start without redo says that there are 0.
_BEGUN = re.compile(r"Applying a batch of [1-9]")
_ENDED, _READY = INNODB_OPEN, re.compile("ready for connections")
# Bytes of rows that the canary changes in the redo of one image; some of them are freed later, or overwritten.
CHANGED_ROWS = 40
CANARY_IMAGES = 6
MOST_LEFT_OUT = 0.2
# The share of the redo that a checkpoint passes which is not true.
PASSED = 0.5, 0.9
# What is counted of crashes of another release.
CRASHES, REFUSED, COMPARED, TABLES = "crashes", "refused", "compared", "tables"
# How often a kept failure is recovered again, with as many kills as it had: their moments are up to chance.
AGAIN = 5


@dataclass
class Image:
    """What a crash left."""

    crashed: Path
    options: list[str]
    # Its checkpoint.
    checkpoint: int
    # The server that was killed, if that is known.
    server: str = ""


@dataclass
class Expected:
    """What the stock server makes of an image, without rollback and purge."""

    data: Path
    found: Pages
    ends: Ends
    # See recovered.compare(). None if they are not known: see _removed().
    removed: set[str] | None
    unlogged: set[Key]
    before: Pages


@dataclass(frozen=True)
class Canary:
    """What is done to the copy of an image that this build is given."""

    # False if it cannot be done there.
    tamper: Callable[[Path, random.Random], bool]
    # Rows are compared, and not pages.
    is_of_rows: bool = False
    # Others may end the server.
    must_differ: bool = True
    # The server is killed, and this is done to what it leaves.
    is_of_kill: bool = False


# A load of the buffer pool merges changes into pages, in one recovery before it ends and in another one after it.
_QUIET = ("--skip-log-bin", "--loose-mysqlx=OFF", "--innodb-buffer-pool-load-at-startup=OFF")


def _place(rig: Rig, home: Path, name: str, options: list[str]) -> Place:
    return Place(home / name, home / f"{name}.log", [*options, *_QUIET], rig.environment)


def _copy(data: Path, to: Path) -> None:
    shutil.rmtree(to, ignore_errors=True)
    subprocess.run(["cp", "-a", "--sparse=always", data, to], check=True)


def _pool(r: random.Random, options: list[str]) -> str:
    """Pools of their own, small ones mostly, so that there are several batches."""
    page_kib = next(int(text.partition("=")[2].rstrip("k")) for text in options if "innodb-page-size" in text)
    return f"--innodb-buffer-pool-size={r.choice(POOLS_MIB) * pages.times(page_kib)}M"


class RedoLife:
    """Crashes of one load, and recoveries of them."""

    def __init__(self, rig: Rig, seed: int, canary: Canary | None = None) -> None:
        """With `canary` there is one crash, and something else is given to the subject."""
        self._rig, self._seed, self._canary = rig, seed, canary
        self._r = random.Random(seed)
        self._home = rig.work / "redo"
        self._verdict = Verdict()
        # What was found to be wrong, and whether that is a difference.
        self.has_noticed = self.has_differed = False
        # Pages have to be left for this one.
        self._kills_for_canary = canary is not None and canary.is_of_kill

    def run(self, end: float) -> bool:
        """Make crashes and recover them, the first one without regard to `end`; True if nothing was found."""
        shutil.rmtree(self._home, ignore_errors=True)
        self._home.mkdir(parents=True)
        trials = [
            Trial(dataclasses.replace(self._rig, counts=Counts()), self._home / f"image-{number}", f"{self._seed}-{number}",
                  image, self._r.randrange(1 << 32), self._canary)
            for number, image in enumerate(self._make())
        ]  # fmt: skip
        with ThreadPoolExecutor(WORKERS) as pool:
            running = [pool.submit(trial.run, end if number else float("inf")) for number, trial in enumerate(trials)]
            for future in running:
                future.result()
        counts = self._rig.counts
        for trial in trials:
            counts.add(trial.rig.counts)
            self._verdict.add(trial.verdict)
            self.has_noticed |= not trial.verdict.is_clean
            self.has_differed |= trial.has_differed
        counts.take("redo", self._verdict)
        return self._verdict.is_clean

    def _make(self) -> list[Image]:
        """A server under load, which is stopped dead some times, and then killed."""
        r = self._r
        rig = dataclasses.replace(self._rig, is_plain=r.random() < PLAIN_SHARE)
        page_kib = rig.draw_page(r)
        options = [*random_options(r, rig.has_keyring and not rig.is_canary and not rig.is_plain, page_kib)]
        options += [_UNBUFFERED] if r.random() < UNBUFFERED_SHARE or self._kills_for_canary else []
        lazy = list(LAZY) if r.random() < LAZY_SHARE or rig.is_canary else []
        place = _place(rig, self._home, "loaded", [*options, *lazy])
        _copy(rig.base(page_kib), place.data)
        copies = [self._home / f"crashed-{number}" for number in range(1 if self._canary else IMAGES)]
        with Server(rig.binary(r), place) as server:
            if problem := wait_ready(rig, server):
                raise ToolError(problem)
            histories, numbers = opening()
            clients = Clients(rig, server, histories, numbers, self._home / "journal", r, page_kib=page_kib)
            try:
                for copy in copies[:-1]:
                    clients.work(r.uniform(0.2, MAX_LOAD_SEC))
                    with server.frozen():
                        clients.take_under_way("redo")
                        _copy(place.data, copy)
                clients.work(r.uniform(0.2, MAX_LOAD_SEC))
            except ServerError as problem:
                self._verdict.wrong.append(str(problem))
            if clients.note_ended():
                clients.take_under_way("redo")
            server.kill()
            self._verdict.wrong += clients.stop()
        if not self._verdict.is_clean:
            case = case_of(place, server.binary, NEVER, kind="kill", seed=self._seed, trace=["load of a crash"])
            files = {"crashed": place.data, "error.log": place.log}
            rig.keep(f"redo-load-{self._seed}", self._verdict, histories, case, files)
            return []
        place.data.rename(copies[-1])
        return [Image(copy, options, redolog.checkpoint(copy), server.binary.name) for copy in copies]


class Trial:
    """Recoveries of one crash."""

    def __init__(self, rig: Rig, home: Path, name: str, image: Image, seed: int, canary: Canary | None) -> None:
        self.rig, self._home, self._name, self._image, self._canary = rig, home, name, image, canary
        self._r = random.Random(seed)
        self.verdict = Verdict()
        self.has_differed = False
        self._has_kept = False
        # The last server was killed when it was open, with redo of the crash behind its checkpoint.
        self._was_open = False
        self._kills_for_canary = canary is not None and canary.is_of_kill
        # The server that has crashed was of another release than those that recover.
        ours = rig.releases.get("ours")
        self._is_of_rows_only = rig.releases.get(image.server, ours) != ours

    def run(self, end: float) -> None:
        """Compare pages, or rows, or both; nothing after `end`."""
        if time.monotonic() > end:
            return
        self._home.mkdir()
        canary, counts = self._canary, self.rig.counts
        if self._is_of_rows_only:
            counts.rows_only[CRASHES] += 1
        else:
            counts.images += 1
        wants_rows = canary.is_of_rows if canary else self._r.random() < ROWS_SHARE
        wants_rows = wants_rows or self._is_of_rows_only
        expected = None if (canary and canary.is_of_rows) or self._is_of_rows_only else self._expect()
        if expected:
            self._compare_pages(expected, *self._subject(), self._draw_kills())
        if wants_rows and self.verdict.is_clean:
            # A small redo log makes room when it opens.
            binary, extra = self._subject()
            kills = 0 if self._is_of_rows_only else self._draw_kills()
            self._compare_rows(expected, binary, (*extra, *self._r.choice([(), (_SMALL_LOG,)])), kills)
        counts.cycles += bool(expected) or wants_rows
        if self.verdict.is_clean:
            shutil.rmtree(self._home)
            shutil.rmtree(self._image.crashed)

    def repeat(self, case: dict[str, Any]) -> None:
        """Compare once more what was found to be wrong."""
        self._home.mkdir(parents=True)
        plan = self.rig.binaries[case["subject"]], tuple(case["extra"]), case["kills"]
        self._has_kept = True
        expected = self._expect()
        if not case["pages"]:
            self._compare_rows(expected, *plan)
        elif expected:
            self._compare_pages(expected, *plan)
        else:
            self.verdict.wrong.append("there is nothing to compare with")

    def _stock(self) -> Binary:
        return self.rig.binaries.get("stock") or self.rig.binaries["off"]

    def _place(self, name: str) -> Place:
        """A copy of the image."""
        place = _place(self.rig, self._home, name, self._image.options)
        place.log.unlink(missing_ok=True)
        _copy(self._image.crashed, place.data)
        return place

    def _expect(self) -> Expected | None:
        """None if there is too little to recover, or the stock server does not recover it."""
        counts = self.rig.counts
        before = read_pages(self._image.crashed)
        place = self._place("expected")
        found = self._recover(self._stock(), place)
        if isinstance(found, str):
            say(f"  no pages to compare with: {found[:300]}")
            counts.refusals.append(found)
            return None
        # The first start of several has recovered.
        said = place.log.read_text(encoding="utf-8", errors="replace")
        ends = ends_of(said)
        recovered = sum(before.get(key) != page for key, page in found.items() if ends and page.lsn <= ends.redo)
        counts.pages_recovered += recovered
        if not ends or recovered < LEAST_PAGES:
            counts.without_redo += 1
            return None
        removed = _removed(self._image.crashed)
        counts.removals_unknown += removed is None
        return Expected(place.data, found, ends, removed, restored(said, place.data, before), before)

    def _recover(self, binary: Binary, place: Place, extra: tuple[str, ...] = ()) -> Pages | str:
        """The pages after a recovery without rollback, or why there was none."""
        problem = ""
        for _ in range(STOPS):
            with Server(binary, place, [*_WITHOUT_ROLLBACK, *extra, _pool(self._r, self._image.options)]) as server:
                if problem := server.wait_ready():
                    return problem
                self._note_again(server)
                if not (problem := server.stop(STOP_TIMEOUT_SEC)):
                    return read_pages(place.data)
            self.rig.counts.stuck[binary.name] += 1
        return problem

    def _note_again(self, server: Server) -> None:
        """Whether a server that was killed when it was open has left redo to the next one."""
        self.rig.counts.kills_after_opening += self._was_open and bool(_BEGUN.search(server.said()))
        self._was_open = False

    def _subject(self) -> tuple[Binary, tuple[str, ...]]:
        """Who recovers, and how. The others, too: what this build does with MySQL's values must be what MySQL does."""
        name = self._r.choices(["ours", "off"], [6, 1])[0] if self._canary is None else "ours"
        flush = FLUSH_ON if self._kills_for_canary else self._r.choice([FLUSH_ON, FLUSH_ON, FLUSH_OFF])
        return self.rig.binaries[name], (REDO_ON, flush) if name == "ours" else ()

    def _kill(self, binary: Binary, place: Place, extra: tuple[str, ...], expected: Expected | None) -> None:
        """A server that is killed some time after it has begun to apply redo, has left pages, or has opened."""
        slow: tuple[str, ...] = ()
        if self._kills_for_canary:
            slow = (*_SLOW, "--innodb-idle-flush-pct=0", _LARGE_POOL)
        elif self._r.random() < SLOW_SHARE:
            slow = (*_SLOW, f"--innodb-idle-flush-pct={self._r.choice(IDLE_PERCENT)}")
        server = Server(binary, place, [*extra, _pool(self._r, self._image.options), *slow])
        awaited = _BEGUN
        if FLUSH_ON in extra:
            awaited = LEFT if self._kills_for_canary else self._r.choice([_BEGUN, _BEGUN, LEFT, _READY, _READY])
        end = time.monotonic() + BEGIN_TIMEOUT_SEC
        while (not awaited.search(said := server.said()) and not (awaited != _READY and _ENDED.search(said))
               and not server.has_died and time.monotonic() < end):  # fmt: skip
            time.sleep(0.005)
        if not self._kills_for_canary:
            time.sleep(self._r.random() ** 3 * MAX_RECOVERY_SEC)
        if server.has_died:
            code = server.process.returncode
            self.verdict.wrong.append(f"{server.binary.name} ended with {code} in recovery: {server.errors()}")
        server.kill()
        self._note_again(server)
        said, counts = server.said(), self.rig.counts
        counts.kills_in_recovery += bool(_BEGUN.search(said)) and not _ENDED.search(said)
        if not LEFT.search(said):
            return
        is_open = bool(_READY.search(said))
        counts.kills_with_pages_left += not is_open
        if self._canary and self._kills_for_canary and not self._canary.tamper(place.data, self._r):
            return
        checkpoint = redolog.checkpoint(place.data)
        # Without pages there is nothing that says where redo has ended.
        self._was_open = is_open and bool(expected and checkpoint < expected.ends.redo)
        if expected and checkpoint > self._image.checkpoint:
            self._check_passed(place.data, expected, checkpoint)

    def _check_passed(self, data: Path, expected: Expected, checkpoint: int) -> None:
        """Whether all that a checkpoint has passed is in the files."""
        limit = min(checkpoint, expected.ends.redo)
        found = passed(data, expected.data, self._image.checkpoint, limit, expected.removed or (), expected.unlogged)
        self.rig.counts.checkpoints_moved += 1
        self.rig.counts.pages_passed += found.checked
        self.rig.counts.passed_left_out += found.left_out
        if found.lacking:
            self._differ(expected, f"the checkpoint has passed {len(found.lacking)} pages: {shown(found.lacking)}")

    def _differ(self, expected: Expected, text: str) -> None:
        """Pages are not what the stock server has made."""
        self.has_differed = True
        if expected.removed is None:
            text += "; redo is encrypted, so it is not known whether it removes their tables later, which would explain it"
        self.verdict.wrong.append(text)

    def _draw_kills(self) -> int:
        return self._r.choice(KILLS) if self._canary is None else int(self._kills_for_canary)

    def _kill_some(self, binary: Binary, place: Place, extra: tuple[str, ...], kills: int, expected: Expected | None) -> None:
        self._was_open = False
        for _ in range(kills):
            if self.verdict.is_clean:
                self._kill(binary, place, extra, expected)

    def _take(self, binary: Binary, place: Place, is_open: bool) -> None:
        """Count a recovery that is compared, of all its starts: the last of several may have found little to do."""
        self.rig.counts.recovered[Crash("redo", self._image.server), binary.name] += 1
        if self._is_of_rows_only:
            return
        said = place.log.read_text(encoding="utf-8", errors="replace")
        self.rig.counts.recoveries[binary.name] += 1
        self.rig.counts.batches += len(_BATCH.findall(said))
        if binary.name == "ours":
            self.rig.counts.exercised.take(said, is_open)

    def _tampers(self, place: Place) -> bool:
        """Whether there is something to recover: a canary may not be possible."""
        return not self._canary or self._kills_for_canary or self._canary.tamper(place.data, self._r)

    def _compare_pages(self, expected: Expected, binary: Binary, extra: tuple[str, ...], kills: int) -> None:
        place = self._place("found")
        if not self._tampers(place):
            return
        self._kill_some(binary, place, (*_WITHOUT_ROLLBACK, *extra), kills, expected)
        answer = self._recover(binary, place, extra) if self.verdict.is_clean else ""
        if isinstance(answer, str):
            self.verdict.wrong += [answer] if answer else []
        else:
            counts = self.rig.counts
            self._take(binary, place, is_open=False)
            of_kills = (expected.unlogged, expected.before) if kills else ()
            result = compare(expected.found, answer, expected.ends, expected.removed or (), *of_kills)
            counts.pages_compared += result.compared
            counts.pages_left_out += result.left_out
            if result.different:
                text = f"{len(result.different)} pages differ from the stock server's: {shown(result.different)}"
                self._differ(expected, text)
        self._keep(binary, place, extra, kills, is_of_pages=True)

    def _compare_rows(self, expected: Expected | None, binary: Binary, extra: tuple[str, ...], kills: int) -> None:
        """With rollback and purge: no two recoveries write the same pages then, but the rows must be the same."""
        answer = self._held(self._place("held"))
        if isinstance(answer, str):
            say(f"  no rows to compare with: {answer[:300]}")
            if self._is_of_rows_only:
                self.rig.counts.rows_only[REFUSED] += 1
            else:
                self.rig.counts.refusals.append(answer)
            return
        place = self._place("found")
        if not self._tampers(place):
            return
        self._kill_some(binary, place, extra, kills, expected)
        if self.verdict.is_clean:
            # A slow shutdown purges all.
            self._hold(binary, place, [*extra, f"--innodb-fast-shutdown={self._r.choice([0, 1])}"], answer)
            self._take(binary, place, is_open=True)
        self._keep(binary, place, extra, kills, is_of_pages=False)

    def _hold(self, binary: Binary, place: Place, extra: list[str], expected: Held) -> None:
        """Recover, stop cleanly, and look at pages and rows."""
        with Server(binary, place, [*extra, _pool(self._r, self._image.options)]) as server:
            problem = wait_ready(self.rig, server)
            time.sleep(self._r.random() ** 2)
            problem = problem or server.stop()
        if problem:
            self.verdict.wrong.append(problem)
            return
        discarded = {place.data / schema / f"{table}.ibd" for schema, table in expected.discarded}
        self.verdict.wrong += innochecksum(self.rig, place.data, discarded)
        found = self._held(Place(place.data, self._home / "checked.log", place.options, place.environment))
        if isinstance(found, str):
            self.verdict.wrong.append(f"after a recovery by {binary.name}: {found}")
            return
        if self._is_of_rows_only:
            self.rig.counts.rows_only += Counter({COMPARED: 1, TABLES: len(found.tables)})
        else:
            self.rig.counts.rows_compared += 1
            self.rig.counts.tables_compared += len(found.tables)
        if _BEGUN.search((self._home / "checked.log").read_text(encoding="utf-8", errors="replace")):
            self.verdict.wrong.append(f"{binary.name} has stopped cleanly, and left redo to be applied")
        if different := expected.differences(found):
            self.has_differed = True
            self.verdict.wrong.append(f"{len(different)} differences from the stock server: {shown(different)}")

    def _held(self, place: Place) -> Held | str:
        """What the stock server finds, or why it does not start. It is killed."""
        with Server(self._stock(), place) as server:
            return wait_ready(self.rig, server) or held(server)

    def _keep(self, binary: Binary, place: Place, extra: tuple[str, ...], kills: int, is_of_pages: bool) -> None:
        if self.verdict.is_clean or self._has_kept:
            return
        self._has_kept = True
        case = case_of(place, binary, NEVER, kind="redo", seed=self._name, extra=list(extra), kills=kills,
                       pages=is_of_pages)  # fmt: skip
        files = {part: self._home / part for part in ("found", "found.log", "expected", "expected.log", "held.log", "checked.log")}
        self.rig.keep(f"redo-{self._name}", self.verdict, [], case, files | {"crashed": self._image.crashed})


def _removed(data: Path) -> set[str] | None:
    """Files that redo removes; None if it is encrypted."""
    try:
        spaces = RedoLog(data).removed()
    except ValueError:
        return None
    return {str(path.relative_to(data)) for path in pages.files(data) if pages.space_of(path) in spaces}


def _change_rows(data: Path, r: random.Random) -> bool:
    return RedoLog(data).change_content(r, CHANGED_ROWS) > 0


def _pass_pages(data: Path, r: random.Random) -> bool:
    # Far enough that pages were changed before it for the last time: no server starts there.
    return RedoLog(data).move_checkpoint(r.uniform(*PASSED)) > 0


def _move_checkpoint(data: Path, r: random.Random) -> bool:
    # A server that lacks the beginning mostly dies: it lacks pages that later redo changes.
    return RedoLog(data).move_checkpoint(r.uniform(0, MOST_LEFT_OUT)) > 0


CANARIES = {
    "redo, bytes of rows are changed": Canary(_change_rows),
    "redo, bytes of rows are changed, and rows are compared": Canary(_change_rows, is_of_rows=True),
    "redo, the checkpoint is moved": Canary(_move_checkpoint, must_differ=False),
    "redo, the checkpoint of a server that was killed is moved": Canary(_pass_pages, is_of_kill=True),
}


def is_found(name: str, rig: Rig, seed: int) -> bool:
    """Whether the rig notices what is done to a crash that is recovered without fault otherwise."""
    begin = time.monotonic()
    canary = CANARIES[name]
    found = False
    for number in range(CANARY_IMAGES):
        life = RedoLife(dataclasses.replace(rig, counts=Counts(), is_canary=True), seed + number, canary)
        life.run(0)
        if life.has_differed if canary.must_differ else life.has_noticed:
            found = True
            break
    say(f"  canary {name}: {'found' if found else 'NOT FOUND'} after {time.monotonic() - begin:.0f} s")
    return found


def again(rig: Rig, folder: Path, case: dict[str, Any]) -> bool:
    """Recover what a crash left some times more, with as many kills; True if that is always what the stock server made."""
    if missing := {"pages", "kills", "extra"} - case.keys():
        raise RedstartError(f"{folder} was kept by another version: it does not say {', '.join(sorted(missing))}")
    home = rig.work / "again"
    home.mkdir()
    options = case["place"]["options"]
    image = Image(folder / "crashed", options, redolog.checkpoint(folder / "crashed"))
    for number in range(AGAIN):
        trial = Trial(rig, home / str(number), f"again-{number}", image, number, None)
        trial.repeat(case)
        for text in trial.verdict.wrong:
            say(f"  {text[:1500]}")
        if not trial.verdict.is_clean:
            say(f"recovery {number + 1} of {AGAIN}, with {case['kills']} kills: {home / str(number)}")
            return False
    say(f"nothing was wrong in {AGAIN} recoveries with {case['kills']} kills each")
    return True
