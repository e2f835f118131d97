# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Redo: the pages that a recovery leaves, against those that the stock server leaves of the same crash.

A server is killed under load. Copies of what it leaves are recovered without rollback and purge, once by the stock
server, then by this build, which may be killed in between, and stopped cleanly. Each page that redo has made must be
the same, byte for byte.
"""

from __future__ import annotations

import dataclasses
import hashlib
import random
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from bench.errors import BenchError
from differential.server import Binary
from redstart_cli.console import say
from torture import pages
from torture.life import Clients, Counts, Rig, case_of, opening
from torture.oracle import NEVER, Verdict
from torture.redolog import RedoLog
from torture.server import FLUSH_OFF, FLUSH_ON, LEFT, REDO_ON, REUSED, Place, Server, random_options

# Recoveries of this build for each crash.
RECOVERIES = 3
KILLS = (0, 1, 1, 2, 3, 5)
MAX_LOAD_SEC = 3.0
# Redo of fewer pages shows nothing.
LEAST_PAGES = 20
POOLS_MIB = (5, 5, 6, 8, 16, 64, 128)
# Later than in a second after it has begun few recoveries go on, and few pages are left to write.
MAX_RECOVERY_SEC = 1.0
# Kills of servers that open before they have written all pages, which come after that.
AFTER_OPENING_SHARE = 0.5
BEGIN_TIMEOUT_SEC = 30.0
# MySQL's shutdown has no end at times if nothing is purged: it waits for pages that it does not write. It is killed,
# and what it leaves recovered once more.
STOPS, STOP_TIMEOUT_SEC = 3, 20.0
# Neither rollback nor purge; a shutdown writes all pages.
_RECOVERY = ("--innodb-force-recovery=3", "--innodb-fast-shutdown=1")
# Mostly, what was written last is in the redo log alone.
_LAZY = ("--innodb-redo-log-capacity=64M", "--innodb-buffer-pool-size=128M", "--innodb-max-dirty-pages-pct=90",
         "--innodb-max-dirty-pages-pct-lwm=0", "--innodb-adaptive-flushing=OFF", "--innodb-idle-flush-pct=0")  # fmt: skip
LAZY_SHARE = 0.7
# Servers write into these at each start.
_OF_SERVERS = re.compile(r"(mysql\.ibd|ibdata1|undo_\d+|.*\.ibu|sys/.*)")
_SCANNED = re.compile(r"Doing recovery: scanned up to log sequence number (\d+)")
_STARTED = re.compile(r"started; log sequence number (\d+)")
# Redo of a start itself; 8,466 bytes were the most that was seen. It is not known where that begins: what was scanned
# may end with a part of a mini-transaction.
OF_START_BYTES = 16384
_RESTORED = re.compile(r"Recovered page \[page id: space=(\d+), page number=(\d+)\] from the doublewrite buffer")
_BATCH = re.compile(r"Applying a batch of (\d+) redo")
_BEGUN, _OPEN, _ENDED = "Applying a batch of", "changed pages are left to the page cleaners", "InnoDB initialization has ended"
# Bytes of rows that the canary changes in the redo of one image; some of them are freed later, or overwritten.
CHANGED_ROWS = 40
CANARY_IMAGES = 6
MOST_LEFT_OUT = 0.2
SHOWN = 8

class Page(NamedTuple):
    """What is compared of a page."""

    lsn: int
    # Of all that it holds.
    digest: bytes
    # Of what it holds besides its LSN and its checksum; None if it may be encrypted.
    content: bytes | None


Key = tuple[str, int]
Pages = dict[Key, Page]


def _digest(page: bytes) -> bytes:
    return hashlib.blake2b(page, digest_size=16).digest()


def read_pages(data: Path) -> Pages:
    """Each page of the tablespaces of a data directory that no server uses.

    The place in ibdata1 where a shutdown says how far it came is left out; its page's checksum does so, too.
    """
    found: Pages = {}
    for path in pages.files(data):
        name = str(path.relative_to(data))
        if name.startswith("#innodb_temp"):
            continue
        n_bytes, is_encrypted = pages.bytes_of(path), pages.is_encrypted(path)
        with path.open("rb") as file:
            number = 0
            while page := file.read(n_bytes):
                if name == "ibdata1" and number == 0:
                    page = page[: pages.FLUSH_LSN.start] + bytes(8) + page[pages.FLUSH_LSN.stop :]
                content = None if is_encrypted else _digest(pages.without_lsn(page))
                found[name, number] = Page(pages.lsn(page), _digest(page), content)
                number += 1
    return found


@dataclass
class Comparison:
    """Pages of two recoveries of one crash."""

    compared: int
    # Written after the recovery, by the servers themselves.
    left_out: int
    different: list[str]


class Ends(NamedTuple):
    """LSNs of the stock server's recovery."""

    # Where redo of the crash may have ended: what a start has changed itself is behind it.
    redo: int
    # What that server has changed later is behind it.
    start: int


def ends_of(log: str) -> Ends | None:
    """Those of the first start of an error log; None if it had no redo to apply, or did not come so far."""
    started = _STARTED.search(log)
    scanned = _SCANNED.findall(log, 0, started.start()) if started else []
    if not started or not scanned:
        return None
    return Ends(min(int(scanned[-1]), int(started[1]) - OF_START_BYTES), int(started[1]))


def restored(log: str, data: Path, before: Pages) -> set[Key]:
    """Pages that had never been written to their files, and which a recovery has taken from the doublewrite buffer."""
    names = {pages.space_of(path): str(path.relative_to(data)) for path in pages.files(data)}
    found = {(names.get(int(space), ""), int(number)) for space, number in _RESTORED.findall(log)}
    return {key for key in found if key in before and not before[key].lsn}


def compare(one: Pages, other: Pages, ends: Ends, unlogged: Iterable[Key] = ()) -> Comparison:
    """Which pages of the stock server's recovery, and of another, differ.

    Those in `unlogged` may: an index build logs no rows, and if pages of one that has not ended are in the doublewrite
    buffer alone, the first of several starts may overwrite them there.
    What servers change themselves they change in their own tablespaces, where what is behind the end of the redo is left
    out. In others each page is compared; where a server goes on with a DDL statement after the recovery it makes the
    same content, but not at the same LSN.
    """
    different, left_out = [], 0
    both = one.keys() | other.keys()
    for key in sorted(both):
        left, right = one.get(key), other.get(key)
        if _OF_SERVERS.fullmatch(key[0]) and any(page and page.lsn > ends.redo for page in (left, right)):
            left_out += 1
        elif left is None or right is None:
            different.append(f"{key[0]}:{key[1]} is {'missing' if right is None else 'too many'}")
        elif left != right and key in unlogged:
            left_out += 1
        elif left != right:
            is_later = left.lsn > ends.start and right.lsn > ends.redo
            if is_later and None in (left.content, right.content):
                left_out += 1
            elif not is_later or left.content != right.content:
                different.append(f"{key[0]}:{key[1]} differs, LSN {left.lsn} and {right.lsn}")
    return Comparison(len(both) - left_out, left_out, different)


@dataclass
class Image:
    """What a crash left, and what the stock server makes of it."""

    crashed: Path
    options: list[str]
    expected: Pages
    ends: Ends
    # See compare().
    unlogged: set[Key]


class RedoLife:
    """One crash, and recoveries of it."""

    def __init__(self, rig: Rig, seed: int, tamper: Callable[[Path, random.Random], bool] | None = None) -> None:
        """With `tamper` the subject is given something else to recover; it returns whether it could."""
        self._rig, self._seed, self._tamper = rig, seed, tamper
        self._r = random.Random(seed)
        self._home = rig.work / "redo"
        self._verdict = Verdict()
        # Whether a recovery was found to be wrong, and by pages that differ.
        self.has_noticed = self.has_differed = False

    def run(self, end: float) -> bool:
        """Make a crash and recover it, the first time without regard to `end`; True if nothing was found."""
        shutil.rmtree(self._home, ignore_errors=True)
        self._home.mkdir(parents=True)
        image = self._make()
        if image is not None:
            for number in range(1 if self._tamper else RECOVERIES):
                if not self._verdict.is_clean or (number and time.monotonic() > end):
                    break
                self._compare(image)
        counts = self._rig.counts
        counts.take("redo", self._verdict)
        counts.cycles += image is not None
        return self._verdict.is_clean

    def _place(self, name: str, options: list[str]) -> Place:
        return Place(self._home / name, self._home / f"{name}.log", [*options, "--skip-log-bin"], self._rig.environment)

    def _make(self) -> Image | None:
        """None if there was nothing to recover, or the stock server does not recover it."""
        rig, r = self._rig, self._r
        page_kib = rig.draw_page(r)
        options = [*random_options(r, rig.has_keyring and not rig.is_canary, page_kib)]
        lazy = list(_LAZY) if r.random() < LAZY_SHARE or rig.is_canary else []
        place = self._place("crashed", [*options, *lazy])
        shutil.copytree(rig.base(page_kib), place.data)
        self._load(place, page_kib)
        before = read_pages(place.data)
        counts = rig.counts
        counts.images += 1
        stock = rig.binaries.get("stock") or rig.binaries["off"]
        expecting = self._copy(place.data, "expected", options)
        answer = self._recover(stock, expecting, options)
        if isinstance(answer, str):
            say(f"  no pages to compare with: {answer[:300]}")
            counts.refusals.append(answer)
            return None
        # The first start of several has recovered.
        said = expecting.log.read_text(encoding="utf-8", errors="replace")
        ends = ends_of(said)
        if not ends:
            counts.without_redo += 1
            return None
        recovered = sum(before.get(key) != page for key, page in answer.items() if page.lsn <= ends.redo)
        counts.pages_recovered += recovered
        if recovered < LEAST_PAGES:
            counts.without_redo += 1
            return None
        return Image(place.data, options, answer, ends, restored(said, expecting.data, before))

    def _load(self, place: Place, page_kib: int) -> None:
        """A server under load, which is killed."""
        rig, r = self._rig, self._r
        server = Server(rig.binary(r), place)
        try:
            if problem := server.wait_ready():
                raise BenchError(problem)
            histories, numbers = opening()
            clients = Clients(rig, server, histories, numbers, self._home / "journal", r, page_kib=page_kib)
            clients.work(r.uniform(0.3, MAX_LOAD_SEC))
            server.kill()
            self._verdict.wrong += clients.stop()
        finally:
            server.kill()

    def _copy(self, crashed: Path, name: str, options: list[str]) -> Place:
        """A copy of what a crash left."""
        place = self._place(name, options)
        shutil.rmtree(place.data, ignore_errors=True)
        place.log.unlink(missing_ok=True)
        subprocess.run(["cp", "-a", "--sparse=always", crashed, place.data], check=True)
        return place

    def _recover(self, binary: Binary, place: Place, options: list[str], extra: tuple[str, ...] = ()) -> Pages | str:
        """The pages after a recovery, or why there was none."""
        problem = ""
        for _ in range(STOPS):
            server = Server(binary, place, [*_RECOVERY, *extra, *self._pool(options)])
            try:
                if problem := server.wait_ready():
                    return problem
                if not (problem := server.stop(STOP_TIMEOUT_SEC)):
                    return read_pages(place.data)
            finally:
                server.kill()
            self._rig.counts.stuck[binary.name] += 1
        return problem

    def _pool(self, options: list[str]) -> list[str]:
        """Pools of their own, small ones mostly, so that there are several batches."""
        page_kib = next(int(text.partition("=")[2].rstrip("k")) for text in options if "innodb-page-size" in text)
        return [f"--innodb-buffer-pool-size={self._r.choice(POOLS_MIB) * max(1, page_kib // pages.PAGE_KIB)}M"]

    def _kill_in_recovery(self, server: Server, opens_early: bool) -> None:
        """Kill it some time after it has begun to apply redo, or has left pages to the page cleaners."""
        end = time.monotonic() + BEGIN_TIMEOUT_SEC
        is_late = opens_early and self._r.random() < AFTER_OPENING_SHARE
        awaited = _OPEN if is_late else _BEGUN
        while awaited not in server.said() and _ENDED not in server.said() and not server.has_died and time.monotonic() < end:
            time.sleep(0.002)
        time.sleep(self._r.random() ** 3 * MAX_RECOVERY_SEC)
        if server.has_died:
            code = server.process.returncode
            self._verdict.wrong.append(f"{server.binary.name} ended with {code} in recovery: {server.errors()}")
        server.kill()
        said = server.said()
        self._rig.counts.kills_in_recovery += _BEGUN in said and _ENDED not in said
        self._rig.counts.kills_after_opening += bool(LEFT.search(said))

    def _compare(self, image: Image) -> None:
        rig, r, counts = self._rig, self._r, self._rig.counts
        # The others, too: what this build does with MySQL's values must be what MySQL does.
        name = r.choices(["ours", "off"], [4, 1])[0] if self._tamper is None else "ours"
        extra = (REDO_ON, r.choice([FLUSH_ON, FLUSH_OFF])) if name == "ours" else ()
        binary = rig.binaries[name]
        place = self._copy(image.crashed, "found", image.options)
        if self._tamper and not self._tamper(place.data, r):
            return
        kills = 0 if self._tamper else r.choice(KILLS)
        for _ in range(kills):
            server = Server(binary, place, [*_RECOVERY, *extra, *self._pool(image.options)])
            self._kill_in_recovery(server, FLUSH_ON in extra)
        answer = self._recover(binary, place, image.options, extra)
        if isinstance(answer, str):
            self._verdict.wrong.append(answer)
        else:
            counts.recoveries[name] += 1
            # Of all starts: the last of several may have found little to do.
            said = place.log.read_text(encoding="utf-8", errors="replace")
            counts.batches += len(_BATCH.findall(said))
            counts.recoveries_parallel += name == "ours" and bool(REUSED.search(said))
            counts.recoveries_left += bool(LEFT.search(said))
            result = compare(image.expected, answer, image.ends, image.unlogged if kills else ())
            counts.pages_compared += result.compared
            counts.pages_left_out += result.left_out
            if result.different:
                self.has_differed = True
                shown = ", ".join(result.different[:SHOWN])
                self._verdict.wrong.append(f"{len(result.different)} pages differ from the stock server's: {shown}")
        if not self._verdict.is_clean:
            self.has_noticed = True
            case = case_of(place, binary, NEVER, kind="redo", seed=self._seed, extra=list(extra), ends=image.ends)
            files = {part: self._home / part for part in ("crashed", "expected", "found", "found.log", "expected.log")}
            rig.keep(f"redo-{self._seed}", self._verdict, [], case, files)


def _change_rows(data: Path, r: random.Random) -> bool:
    return RedoLog(data).change_content(r, CHANGED_ROWS) > 0


def _move_checkpoint(data: Path, r: random.Random) -> bool:
    # A server that lacks the beginning mostly dies: it lacks pages that later redo changes.
    return RedoLog(data).move_checkpoint(r.uniform(0, MOST_LEFT_OUT)) > 0


# What is done to a copy of the crash, and whether its pages have to be seen to differ: others may end the server.
CANARIES: dict[str, tuple[Callable[[Path, random.Random], bool], bool]] = {
    "redo, bytes of rows are changed": (_change_rows, True),
    "redo, the checkpoint is moved": (_move_checkpoint, False),
}


def is_found(name: str, rig: Rig, seed: int) -> bool:
    """Whether the rig notices what is done to a crash that is recovered without fault otherwise."""
    begin = time.monotonic()
    tamper, must_differ = CANARIES[name]
    found = False
    for number in range(CANARY_IMAGES):
        life = RedoLife(dataclasses.replace(rig, counts=Counts(), is_canary=True), seed + number, tamper)
        life.run(0)
        if life.has_differed if must_differ else life.has_noticed:
            found = True
            break
    say(f"  canary {name}: {'found' if found else 'NOT FOUND'} after {time.monotonic() - begin:.0f} s")
    return found


def again(rig: Rig, folder: Path, case: dict[str, Any]) -> bool:
    """Recover what a crash left once more, without kills; True if the pages are those that the stock server made."""
    home = rig.work / "again"
    home.mkdir()
    place = Place(home / "data", home / "error.log", case["place"]["options"], case["place"]["environment"])
    subprocess.run(["cp", "-a", "--sparse=always", folder / "crashed", place.data], check=True)
    server = Server(rig.binaries[case["subject"]], place, [*_RECOVERY, *case["extra"]])
    try:
        problem = server.wait_ready() or server.stop()
    finally:
        server.kill()
    ends = Ends(*case["ends"])
    different = [problem] if problem else compare(read_pages(folder / "expected"), read_pages(place.data), ends).different
    for text in different[:SHOWN]:
        say(f"  {text}")
    say(f"{len(different)} differences; log: {place.log}")
    return not different
