# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""One data directory that is started again and again, by servers of all kinds, stopped, killed, or killed in a shutdown."""

from __future__ import annotations

import random
import shutil
import time
from collections import Counter
from pathlib import Path

from binlog_check.cases import moved_over
from binlog_check.images import last_log, make_writes
from binlog_check.logfile import is_in_use, read_checkpoint, read_gtids, read_note
from differential.server import Server, copy
from redstart_cli.mysqld import Binary

QUERIES = ["SELECT @@GLOBAL.gtid_executed", "SELECT @@GLOBAL.gtid_purged", "SHOW BINARY LOGS"]
NOTED = "SELECT variable_value FROM performance_schema.global_status WHERE variable_name = 'binlog_startup_scan_gtids_noted'"
_ENDS = ("stop", "stop", "stop", "kill", "interrupted")
_OPTIONS = ["--log-bin=binlog", "--server-id=1", "--gtid-mode=ON", "--enforce-gtid-consistency=ON"]
# One start of so many is of another server, and so many are compared with it.
OTHER_EVERY = 4
# So many of the starts that have to take the GTIDs from the note are compared, whenever they come.
NOTED_COMPARED = 3


class Restarts:
    """What was done, and what was wrong."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.starts: Counter[str] = Counter()
        self.ends: Counter[str] = Counter()
        self.noted = 0
        # Starts that had to take the GTIDs from the note.
        self.due = 0
        self.compared = 0
        # Of those, starts that had to take the GTIDs from the note.
        self.noted_compared = 0


def run(
    number: int, seed: int, base: Path, work: Path, client: Path, jumps: Binary, others: list[Binary]
) -> Restarts:
    """Start the directory so many times; each start has to find what the last server knew."""
    r = random.Random(seed)
    done = Restarts()
    home, place = work / "restarts", work / "restarts2"
    copy(base, home)
    known: str | None = None
    try:
        for step in range(number):
            # The first is shut down, so that the second has to take the GTIDs from the note.
            binary = jumps if step <= 1 or r.randrange(OTHER_EVERY) else r.choice(others)
            log = last_log(home) if (home / "data/binlog.index").exists() else None
            is_due = binary is jumps and log is not None and _is_noted(log)
            facts: list[str] | None = None
            is_wanted = step % OTHER_EVERY == 0 or known is None or (is_due and done.noted_compared < NOTED_COMPARED)
            if binary is jumps and log is not None and is_wanted:
                facts = _facts(r.choice(others), home, place, client)
            with Server(binary, home, client, _OPTIONS) as server:
                if not server.wait_ready():
                    raise RuntimeError(f"restart {step} of {binary.name}: {server.errors()}")
                answers = server.ask(QUERIES)
                noted = int(server.ask([NOTED])[0].strip() or 0) if binary is jumps else 0
                done.starts[binary.name] += 1
                done.noted += noted
                done.due += is_due
                if noted != is_due:
                    done.problems.append(f"restart {step}: GTIDs taken from the note {noted} times, {int(is_due)} expected")
                if facts is not None:
                    done.compared += 1
                    done.noted_compared += is_due
                    if facts != answers:
                        done.problems.append(f"restart {step}: {answers} against {facts}")
                if known is not None and answers[0] != known:
                    done.problems.append(f"restart {step} of {binary.name}: gtid_executed {answers[0]!r} after {known!r}")
                server.sql(make_writes(r, step))
                known = server.ask(QUERIES)[0]
                how = "stop" if step == 0 else r.choice(_ENDS)
                done.ends[how] += 1
                if how == "stop":
                    server.stop()
                elif how == "interrupted":
                    server.process.terminate()
                    time.sleep(r.random() * 0.6)
    finally:
        shutil.rmtree(home, ignore_errors=True)
        shutil.rmtree(place, ignore_errors=True)
    return done


def _is_noted(log: Path) -> bool:
    """True if there is a note about the GTIDs of this file: which was closed, or up to a synced checkpoint that saves enough."""
    checkpoint = read_checkpoint(log)
    if checkpoint is not None and checkpoint.end <= read_note(log) and moved_over(log.read_bytes(), checkpoint):
        return True
    is_about = read_note(log) == log.stat().st_size and read_gtids(log) is not None
    return is_about and not is_in_use(log.read_bytes())


def _facts(binary: Binary, home: Path, place: Path, client: Path) -> list[str]:
    """What another server finds in a copy."""
    copy(home, place)
    with Server(binary, place, client, _OPTIONS) as server:
        if not server.wait_ready():
            raise RuntimeError(f"{binary.name} does not start: {server.errors()}")
        return server.ask(QUERIES)
