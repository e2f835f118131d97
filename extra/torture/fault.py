# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Faults: the n-th call of a sort fails, and the server may refuse, end or go on, but nothing acknowledged is lost."""

from __future__ import annotations

import contextlib
import errno
import random
import shutil
import time
from dataclasses import dataclass

from redstart_cli.mysqld import Binary
from torture import preload
from torture.life import Clients, Rig, after_kill, ask, case_of, check_pages, go_on, opening, start
from torture.oracle import NEVER, Verdict
from torture.server import Place, Server, random_options
from torture.settings import MAP_ON, SCAN_ON

# Faults of one data directory; then it is stopped cleanly, its pages are checked and another is begun.
FAULTS = 8
LOAD_SEC = 1.5
# A server that waits, for space for example, is killed after this time.
START_SEC = 20.0
# The number of a call that fails is below the power of two that stands here: later ones rarely come.
CALLS = {"open": 7, "read": 8, "write": 10, "sync": 9, "allocate": 5, "truncate": 3, "rename": 3, "unlink": 5}
# The same for all calls on the map, or the note on the binary log.
FEW_CALLS = 3
KINDS = ("redo", "binlog", "note", "data", "map", "other", "any")
SHORT = 0
_ERRORS = {
    "open": [errno.EIO, errno.EMFILE, errno.ENOMEM, errno.EACCES],
    "read": [errno.EIO, SHORT],
    "write": [errno.EIO, errno.ENOSPC, SHORT],
    "allocate": [errno.EIO, errno.ENOSPC],
}


@dataclass(frozen=True)
class Fault:
    """The calls that fail: the n-th of a sort and those that follow it."""

    call: str
    kind: str
    nth: int
    count: int
    error: int

    def __str__(self) -> str:
        return f"{self.call},{self.kind},{self.nth},{self.count},{self.error}"


def choose(r: random.Random, has_map: bool = True, has_note: bool = True) -> Fault:
    """A fault. Calls at the start are few, those under load many."""
    without = {"map": not has_map, "note": not has_note}
    call, kind = r.choice(list(CALLS)), r.choice([kind for kind in KINDS if not without.get(kind)])
    nth = int(2 ** r.uniform(0, FEW_CALLS if kind in without else CALLS[call]))
    count = r.choice([1, 1, 1, 3, 1 << 30])
    return Fault(call, kind, nth, count, r.choice(_ERRORS.get(call, [errno.EIO])))


class FaultLife:
    """One data directory and the faults it goes through."""

    def __init__(self, rig: Rig, seed: int) -> None:
        self._rig = rig
        self._seed = seed
        self._r = random.Random(seed)
        self._home = rig.work / "fault"
        self._fired = self._home / "fired"
        self._verdict = Verdict()
        self._trace: list[str] = []
        self._histories, self._numbers = opening()
        self._releases = rig.made()
        self._crashed = self._histories
        shutil.rmtree(self._home, ignore_errors=True)
        self._home.mkdir(parents=True)
        shutil.copytree(rig.base(), self._home / "data")
        # Only calls of the C library can be made to fail.
        self._options = [*random_options(self._r, rig.has_keyring), "--innodb-use-native-aio=OFF", *rig.extra]

    def run(self, end: float) -> bool:
        """Faults until a failure, or until `end` if one has happened; True if nothing was found."""
        for number in range(FAULTS):
            is_late = time.monotonic() > end and self._rig.counts.faults > 0
            if not self._verdict.is_clean or (number > 0 and is_late):
                break
            self._fault()
            self._rig.counts.cycles += 1
        self._rig.counts.take("fault", self._verdict)
        if not self._verdict.is_clean:
            case = case_of(
                self._place({}), self._rig.binaries[self._rig.subject], NEVER, kind="fault", seed=self._seed,
                trace=self._trace,
            )  # fmt: skip
            files = {name: self._home / name for name in ("crashed", "error.log", "data")}
            self._rig.keep(f"fault-{self._seed}", self._verdict, self._crashed, case, files)
        return self._verdict.is_clean

    def _place(self, environment: dict[str, str]) -> Place:
        return Place(self._home / "data", self._home / "error.log", self._options, environment, "fault")

    def _fault(self) -> None:
        """A server with a fault, its end, and the oracle."""
        is_ours = self._rig.subject == "ours"
        fault = choose(self._r, is_ours and MAP_ON in self._options, is_ours and SCAN_ON in self._options)
        binary = self._rig.binaries[self._rig.subject]
        self._fired.unlink(missing_ok=True)
        place = self._place(preload.failing(self._rig.work, fault, self._fired))
        with Server(binary, place) as server:
            problem = server.wait_ready(START_SEC)
            self._releases = after_kill(self._rig, server, self._releases)
            if not problem:
                journal = self._home / "journal"
                clients = Clients(
                    self._rig, server, self._histories, self._numbers, journal, self._r, errors_are_expected=True,
                    may_rebuild=True,
                )
                clients.work(self._r.uniform(0.1, LOAD_SEC), enough=1)
                server.kill()
                self._verdict.wrong += clients.stop()
            has_fired = self._fired.exists()
            if problem and not has_fired:
                self._verdict.wrong.append(problem)
        ended = "refused to start" if problem else "ran"
        self._trace.append(f"{fault}: {'fired' if has_fired else 'did not fire'}, the server {ended}")
        self._rig.counts.faults += has_fired
        self._rig.counts.fired[f"{fault.call}, {fault.kind}"] += has_fired
        shutil.rmtree(self._home / "crashed", ignore_errors=True)
        shutil.copytree(self._home / "data", self._home / "crashed")
        if self._verdict.is_clean:
            self._ask()

    def _ask(self) -> None:
        place = self._place({})
        with contextlib.ExitStack() as servers:

            def begin(binary: Binary, *extra: str) -> Server:
                return servers.enter_context(Server(binary, place, extra))

            started = start(self._rig, begin, self._rig.binary(self._r), self._releases, "fault", place)
            self._releases, server = started.left(self._rig), started.server
            if started.problem:
                self._verdict.wrong.append(started.problem)
                return
            self._crashed = self._histories
            verdict, states = ask(self._rig, server, self._histories, NEVER)
            self._verdict.add(verdict)
            self._histories = go_on(states)
            if verdict.is_clean:
                problem = server.stop()
                data = self._home / "data"
                self._verdict.wrong += [problem] if problem else check_pages(self._rig, data, states)
