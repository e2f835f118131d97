# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Kills: SIGKILL under load, in a start, in a recovery, in a shutdown. What the kernel has been given stays."""

from __future__ import annotations

import random
import re
import shutil
import time
from dataclasses import replace

from redstart_cli.console import warn
from redstart_cli.mysqld import Binary
from torture import load, preload
from torture.life import (
    CRASHED,
    KILLED,
    Clients,
    Crash,
    Rig,
    after_block,
    after_kill,
    after_refusal,
    ask,
    case_of,
    check_pages,
    go_on,
    keep_met,
    left_by_last_kill,
    must_start_anew,
    opening,
    start,
)
from torture.oracle import NEVER, Verdict
from torture.release import Releases
from torture.replica import Replica, free_port, source_options
from torture.server import UNDO_BY_PAGE, Place, Server, random_options
from torture.settings import REDO_OFF, UNDO_SCAN_ON

# Crashes of one data directory; then it is stopped cleanly, its pages are checked and another is begun.
CYCLES = 10
MAX_LOAD_SEC = 2.5
# One life in so many has a replica.
REPLICA_EACH = 3
KILLED_RECOVERIES = (0, 0, 0, 1, 1, 2, 3, 5)
# A first guess at how long a start and a shutdown take; then it is what the last one took.
START_SEC = 2.0
# With innodb_recovery_undo_scan=BACKGROUND the thread of some servers reads undo logs slowly, and a recovery may be killed
# that much later, when it has opened and they are not read. Of the slow ones this share is watched until they do that, and
# killed within so much time.
SLOW_SHARE = 0.5
SLOW_MSEC = (20, 100, 300)
LATER = 1.4
WATCHED_SHARE = 0.7
WATCHED_SEC = 0.4
# MySQL writes encrypted pages of an undo tablespace before the page with its key, which is in the redo log. A recovery that
# needs several batches opens the tablespace before it has read that far, and no server starts.
NO_START = "Assertion failure: buf0dblwr.cc"
NO_KEY = re.compile(r"Encryption key missing: space_id=(\d+), space_name=innodb_undo_\d+")
NO_PAGE = re.compile(r"Dumping the data file page \(page_id=\[page id: space=(\d+),")


def _without_key(log: str) -> set[str]:
    """The tablespaces whose pages a server could not repair; empty if it had the key of one, or could repair all."""
    spaces = set(NO_PAGE.findall(log))
    return spaces if spaces <= set(NO_KEY.findall(log)) else set()


class KillLife:
    """One data directory and the crashes it goes through."""

    def __init__(self, rig: Rig, seed: int) -> None:
        self._rig = rig
        self._seed = seed
        self._r = random.Random(seed)
        self._home = rig.work / "kill"
        # By whether it may change the release, which takes some seconds more.
        self._start_sec = {False: START_SEC, True: START_SEC}
        self._histories, self._numbers = opening()
        self._trace: list[str] = []
        self._verdict = Verdict()
        # What the last crash has met: its server is asked for it, or does not start.
        self._crashed = self._histories
        shutil.rmtree(self._home, ignore_errors=True)
        self._home.mkdir(parents=True)
        self._page_kib = page_kib = rig.draw_page(self._r)
        environment = rig.environment
        shutil.copytree(rig.base(page_kib), self._home / "data")
        options = [*random_options(self._r, rig.has_keyring, page_kib), *rig.extra]
        self._is_slow = UNDO_SCAN_ON in options and not rig.is_canary and self._r.random() < SLOW_SHARE
        if self._is_slow:
            options += UNDO_BY_PAGE
            environment = preload.slow_undo(rig.work, self._r.choice(SLOW_MSEC))
        self._later = LATER if UNDO_SCAN_ON in options else 1
        self._server: Server | None = None  # the last one
        self._releases = rig.made()
        # What the last copy of _keep() may be of.
        self._kept = self._releases
        self._replica: Replica | None = None
        if (rig.counts.kill_lives - rig.first_replica) % REPLICA_EACH == 0 and not rig.is_canary:
            port = free_port(self._r)
            options += source_options(port)
            self._replica = Replica(rig, self._r, port, page_kib)
        rig.counts.kill_lives += 1
        self.place = Place(self._home / "data", self._home / "error.log", options, environment, "kill")

    def run(self, end: float, cycles: int = CYCLES) -> bool:
        """Go through crashes until a failure or until `end`; True if nothing was found."""
        try:
            server = self._start(self._rig.binary(self._r))
            for cycle in range(cycles):
                if not self._verdict.is_clean or (cycle > 0 and time.monotonic() > end):
                    break
                server = self._cycle(server)
                self._rig.counts.cycles += 1
            if self._replica:
                self._compare(self._replica, server)
            if self._verdict.is_clean:
                self._wrong(server.stop())
                self._verdict.wrong += check_pages(
                    self._rig, self.place.data, [history.base for history in self._histories]
                )
        finally:
            if self._server:
                self._server.kill()
            if self._replica:
                self._replica.kill()
        if self._is_without_key():
            self._verdict.wrong.clear()
        self._rig.counts.take("kill", self._verdict)
        if not self._verdict.is_clean:
            possible = sorted(self._kept.possible)
            case = case_of(self.place, server.binary, NEVER, kind="kill", seed=self._seed, trace=self._trace, releases=possible)
            files = {name: self._home / name for name in (CRASHED, KILLED, "error.log", "data")}
            if self._replica:
                files["replica"] = self._rig.work / "replica"
            self._rig.keep(f"kill-{self._seed}", self._verdict, self._crashed, case, files)
        return self._verdict.is_clean

    def _is_without_key(self) -> bool:
        """Whether all that is wrong is NO_START for NO_KEY, of the tablespace whose page it is, and stock on a copy of what the
        last kill left says the same; counted, and the directory is kept. If stock says something else, that is wrong as well.
        Where innodb_redo_recovery is not STOCK, the key is looked for, and nothing is excused."""
        wrong, stock = self._verdict.wrong, self._rig.binaries.get("stock")
        if stock is None or self._rig.is_canary or self._verdict.lost or not wrong:
            return False
        if self._server and self._server.binary.name == "ours" and REDO_OFF not in self.place.options:
            return False
        # A recovery that was killed may have written such pages.
        crashed = left_by_last_kill(self._home)
        if not all(NO_START in problem for problem in wrong) or not crashed.exists():
            return False
        if not (spaces := _without_key(self._server.said() if self._server else "")):
            return False
        home = self._rig.work / "stock"
        shutil.copytree(crashed, home / "data")
        place = replace(self.place, data=home / "data", log=home / "error.log", environment=self._rig.environment)
        with Server(stock, place) as server:
            problem = server.wait_ready()
        if NO_START not in problem or _without_key(server.said()) != spaces:
            wrong.append(f"stock on what the last kill left: {problem or 'it starts'}")
            return False
        kept = self._rig.work / "found" / f"without-key-{self._seed}"
        shutil.rmtree(kept, ignore_errors=True)
        kept.mkdir(parents=True)
        crashed.rename(kept / CRASHED)
        shutil.copy2(self.place.log, kept)
        after = ", ".join(self._trace[-4:])
        warn(f"an undo tablespace without its key, which stock does not start either, seed {self._seed}, after {after}: {wrong[0]}")
        self._rig.counts.without_key += 1
        return True

    def _wrong(self, problem: str) -> None:
        if problem:
            self._verdict.wrong.append(problem)

    def _begin(self, binary: Binary, *extra: str) -> Server:
        """A server that starts; run() ends the last one."""
        # What is slow is about this build alone.
        is_ours = binary.name == "ours"
        place = self.place if is_ours else replace(self.place, environment=self._rig.environment)
        self._server = Server(binary, place, extra)
        return self._server

    def _start(self, binary: Binary) -> Server:
        """A server that answers; if it does not, that is a failure."""
        self._trace.append(f"start {binary.name}")
        started = start(self._rig, self._begin, binary, self._releases, "kill", self.place)
        if started.server.binary is not binary:
            self._trace.append(f"{binary.name} is refused, start {started.server.binary.name}")
        self._start_sec[self._may_change(started.server.binary, started.found)] = time.monotonic() - started.server.begin
        self._releases = started.left(self._rig)
        self._wrong(started.problem)
        return started.server

    def _may_change(self, binary: Binary, releases: Releases) -> bool:
        """Whether a server that starts on that may change the release."""
        return releases != Releases.settled(self._rig.release(binary))

    def _compare(self, replica: Replica, server: Server) -> None:
        """Whether the replica holds what the server holds; it ends then."""
        if self._verdict.known and not replica.problem:
            # What was prepared again is ended twice in the binary log, which no replica can follow.
            self._rig.counts.uncompared += 1
        elif self._verdict.is_clean:
            verdict = replica.compare(server, [history.base for history in self._histories])
            self._verdict.add(verdict)
        self._verdict.wrong += replica.stop()

    def _cycle(self, server: Server) -> Server:
        """Load, a crash, maybe crashes of recoveries, a start, the oracle; returns the server that runs then.

        After some crashes the server is started anew before there is load again: see must_start_anew().
        """
        r = self._r
        journal = self._home / "journal"
        may_import = self._replica is None
        clients = Clients(
            self._rig, server, self._histories, self._numbers, journal, r,
            may_import=may_import, page_kib=self._page_kib, may_rebuild=True,
        )  # fmt: skip
        clients.work(r.uniform(0.1, MAX_LOAD_SEC))
        how = "load" if self._rig.is_canary else r.choices(["load", "shutdown", "start"], [7, 2, 1])[0]
        lives = clients.note_ended()
        if not lives:
            how = "load"
        self._trace.append(f"kill in {how}")
        if how == "shutdown":
            clients.expect_end()
            server.process.terminate()
            time.sleep(r.uniform(0, self._start_sec[False]))
        elif how == "start":
            self._verdict.wrong += clients.stop(lives=True)
            self._wrong(server.stop())
            server = self._begin(server.binary)
            time.sleep(r.uniform(0, self._start_sec[False]))
        if how != "load" and server.process.poll():
            self._wrong(f"{server.binary.name} ended with {server.process.returncode} in its {how}: {server.errors()}")
        if how == "load" and lives:
            clients.take_under_way("kill")
        self._kill(server)
        if how != "start":
            self._verdict.wrong += clients.stop()
        shutil.rmtree(self._home / KILLED, ignore_errors=True)
        self._keep(CRASHED)
        self._crashed = self._histories
        crash = Crash("kill", server.binary.name)
        required: Binary | None = None
        for _ in range(0 if self._rig.is_canary else r.choice(KILLED_RECOVERIES)):
            drawn = self._rig.binary(r)
            binary, required = required or drawn, None
            met = keep_met(self._rig, binary, self._releases, self.place)
            server = self._begin(binary)
            self._wait_in_recovery(server)
            self._trace.append(f"kill recovery of {binary.name}")
            if server.has_died:
                if left := after_refusal(self._rig, server, self._releases, "kill"):
                    self._trace[-1] = f"{binary.name} is refused"
                    self._releases, required = left, self._rig.successor(left)
                    continue
                block = after_block(self._rig, server, self._releases, "kill", met)
                if block.what:
                    # The last start meets the lock as well, and is blocked itself.
                    self._trace[-1] = f"{binary.name} is blocked"
                    required = binary
                    break
                self._wrong(f"{binary.name} ended with {server.process.returncode} in recovery: {server.errors()}")
                self._wrong(block.differs)
                # It is the one that is asked why: _is_without_key().
                return server
            self._kill(server)
            crash = Crash("kill", binary.name)
            self._releases = after_kill(self._rig, server, self._releases)
            self._keep(KILLED)
        drawn = self._rig.binary(r)
        server = self._start(required or drawn)
        if self._verdict.is_clean:
            made = load.undo_made(self._crashed[load.BUILDER])
            verdict, states = ask(self._rig, server, self._histories, NEVER, crash=crash)
            self._verdict.add(verdict)
            self._histories = go_on(states)
            if states:
                stray = load.stray_undo(self.place.data, states[load.BUILDER].undo) & made
                self._rig.counts.undo_left += len(stray)
                self._trace += [f"{name}.ibu is left of an undo tablespace that was there" for name in sorted(stray)]
            if self._verdict.is_clean and must_start_anew(self._crashed, states, NEVER):
                self._rig.counts.anew += 1
                self._wrong(server.stop_flushed())
                server = self._start(server.binary)
        return server

    def _wait_in_recovery(self, server: Server) -> None:
        """Some time; for a recovery that may read undo logs slowly, sometimes until it has opened and does."""
        start_sec = self._later * self._start_sec[self._may_change(server.binary, self._releases)]
        wait_sec = self._r.uniform(0, start_sec)
        if not self._is_slow or self._r.random() >= WATCHED_SHARE:
            time.sleep(wait_sec)
            return
        end = time.monotonic() + 2 * start_sec
        while time.monotonic() < end and not server.has_died and not server.reads_undo_open():
            time.sleep(0.02)
        time.sleep(self._r.uniform(0, WATCHED_SEC))

    def _kill(self, server: Server) -> None:
        self._rig.counts.kills += not server.has_died
        self._rig.counts.kills_in_undo_scan[server.place.crash] += not server.has_died and server.reads_undo_open()
        server.kill()

    def _keep(self, name: str) -> None:
        """A copy of what a kill left, for whoever has to look at a failure."""
        if self._rig.is_canary:
            return
        self._kept = self._releases
        copy = self._home / name
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(self.place.data, copy)

