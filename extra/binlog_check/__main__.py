# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""python -m binlog_check: servers with binlog_startup_scan=EVENTS and TRANSACTIONS, and stock, start on copies of data
directories whose last binary log is closed, left by a kill, torn or damaged; what they find has to be the same."""

from __future__ import annotations

import json
import random
import re
import shutil
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

import click

from binlog_check import failing, restarts
from binlog_check.cases import (
    CUT,
    DAMAGED,
    NOTED,
    STALE,
    TORN,
    Case,
    cut_points,
    is_checkpoint_whole,
    lying_note,
    noted,
    random_case,
    short_set,
    skippable,
    stale,
    torn,
    whole,
    with_checkpoint,
    wrong_length,
)  # fmt: skip
from binlog_check.images import LARGE_ROWS, Image, last_log, make, make_older, make_source, make_uncommitted
from binlog_check.logfile import (
    Checkpoint,
    encoded_set,
    lengthened,
    note_path,
    read_checkpoint,
    read_gtids,
    transactions,
    write_checkpoint,
    write_gtids,
    write_note,
)
from differential.server import Server, configure_keyring, copy, initialise, stock_below, with_keys
from redstart_cli.mysqld import Binary

CASES_AN_IMAGE = 8
STALE_AN_IMAGE = 2
# Images that a canary may need.
MAX_CANARY_IMAGES = 20
# Fewer cases say nothing about the share in which transactions are moved over: one must.
MANY_CASES = 80
# Of so many cases one may end with a server that refuses to start.
REFUSED_SHARE = 4
MANY_REFUSED = 5
STOCK_EVERY = 3
# Of so many images one after the other, one is a replica that was shut down and one was killed, both with settings that let a
# start take the GTIDs from the note and move over the last transaction. All else of the others is left to chance.
PLAIN_EVERY = 3
STOPPED, KILLED = 0, 2
# Of the others, encrypted ones and replicas.
ENCRYPTED_EVERY = 9
REPLICA_EVERY = 4
RESTARTS = 12
CANARIES = {
    "lying_note": "a note that says that a hole was synced",
    "wrong_length": "a GTID event of two transactions",
    "short_set": "a note whose set lacks a GTID",
    "other_set": "a note with the set of another file",
    "old_set": "a note with the set from before stock has written",
    "lying_checkpoint": "a checkpoint behind a transaction that is not committed in InnoDB",
    "older_files": "a checkpoint that has no LSN, and files of InnoDB from before",
    "hidden_end": "a GTID event that hides the end of a large prepared transaction",
}
# Those with transactions that are not committed in InnoDB.
_UNCOMMITTED = ("lying_checkpoint", "older_files", "hidden_end")
_QUERIES = [
    "SELECT @@GLOBAL.gtid_executed", "SELECT @@GLOBAL.gtid_purged", "XA RECOVER CONVERT XID", "SHOW BINARY LOGS",
    "SHOW BINARY LOG STATUS", "CHECKSUM TABLE d.t, d.m", "SELECT COUNT(*) FROM information_schema.tables",
    "SELECT COUNT(*) FROM d.t",
]  # fmt: skip
_SKIPPED = (
    "SELECT variable_value FROM performance_schema.global_status"
    " WHERE variable_name = 'binlog_startup_scan_transactions_skipped'"
)
# What is said of the binary log, besides warnings and errors.
_NOTE = re.compile(r"MY-010229|MY-010226|MY-010228|truncat|XA crash recovery|prepared", re.IGNORECASE)
# What is said by each pass that begins at a checkpoint.
_AT_CHECKPOINT = "bytes before the last checkpoint"
# What is said by the first one if InnoDB has not reached the checkpoint.
_OLDER = "when the last binary log was written: it seems that its files were put back"
# The facts that the canary of a checkpoint may not and must change: the GTIDs, and the rows; and how many there are.
_GTIDS, _ROWS, _N_ROWS = 0, 5, 7
# What is said of two transactions that are neither committed nor rolled back when a server starts.
_PREPARED = "Found 2 prepared transaction(s) in InnoDB"
_NUMBER_OF_TIME = re.compile(r"^\S+ \d+ ")


@dataclass
class Found:
    """What a start has found."""

    facts: list[str]
    n_skipped: int = 0
    # The GTIDs were taken from the note.
    is_noted: bool = False
    # Passes over the file that began at a checkpoint.
    n_at_checkpoint: int = 0
    # It has said that InnoDB's files are older than a checkpoint.
    is_older: bool = False
    # After it there is a note with a checkpoint.
    has_checkpoint: bool = False


@dataclass
class Report:
    """Counts of a run."""

    seed: int
    images: int = 0
    cases: Counter[str] = field(default_factory=Counter)
    with_stock: int = 0
    refused: int = 0
    # Cases in which transactions were moved over, of those in which some could be.
    skipping: int = 0
    could_skip: int = 0
    transactions_skipped: int = 0
    # The last transactions are to be torn; at how many of how many places they were; how often transactions were moved over,
    # and how often that, or all before a checkpoint, was not read.
    every_byte: int = 0
    cuts: int = 0
    could_cut: int = 0
    cuts_skipping: int = 0
    cuts_jumping: int = 0
    # Starts that took the GTIDs from the note, of those that had to; of those that must not.
    noted: int = 0
    could_note: int = 0
    wrongly_noted: int = 0
    # Starts whose passes have relied on a checkpoint, of those that had to.
    checkpoints: int = 0
    could_checkpoint: int = 0
    replicas: int = 0
    restarts: str = ""
    restart_problems: list[str] = field(default_factory=list)
    differences: int = 0
    # Images that could not be made or gone through.
    errors: int = 0
    # Of servers with a sync that fails.
    failing: list[str] = field(default_factory=list)
    canaries: dict[str, int | None] = field(default_factory=dict)

    def problems(self) -> list[str]:
        found = []
        if self.differences:
            found.append(f"{self.differences} cases differ")
        found += [f"the canary {name} was not found" for name, number in self.canaries.items() if number is None]
        # Those with GTIDs in the note move over whole files instead.
        # The places at which one file is torn are many, and say as much of it as one.
        other = sum(number for kind, number in self.cases.items() if kind not in (NOTED, STALE, CUT))
        skipping = self.skipping - self.cuts_skipping
        if self.skipping * 2 < self.could_skip or skipping * (6 if other >= MANY_CASES else other) < other:
            found.append(f"transactions were moved over in {skipping} of {other} cases only")
        if self.every_byte and self.cuts_jumping == 0:
            found.append(f"the last transactions were torn at {self.cuts} of {self.could_cut} places, and nothing was left out")
        if self.errors:
            found.append(f"{self.errors} binary logs could not be made or gone through")
        if self.noted < self.could_note or self.noted == 0:
            found.append(f"the GTIDs were taken from the note in {self.noted} of {self.could_note} cases only")
        if self.checkpoints < self.could_checkpoint or self.checkpoints == 0:
            found.append(f"{self.checkpoints} of {self.could_checkpoint} starts only have relied on a checkpoint")
        if self.wrongly_noted:
            found.append(f"in {self.wrongly_noted} cases they were, though the note was about something else")
        found += [f"no case was {kind}" for kind in (TORN, DAMAGED) if self.cases[kind] == 0]
        if self.cases[STALE] == 0 or self.replicas == 0:
            found.append(f"{self.cases[STALE]} stale notes and {self.replicas} replicas are too few")
        found += self.failing + self.restart_problems
        total = sum(self.cases.values())
        if self.refused * REFUSED_SHARE > total and self.refused >= MANY_REFUSED:
            found.append(f"in {self.refused} of {total} cases the server did not start, so that nothing was compared")
        if self.with_stock == 0:
            found.append("no case was shown to stock")
        return found


class Runner:
    """Starts servers on copies of an image."""

    def __init__(self, build: Path, stock: Binary, work: Path) -> None:
        self.client = build / "runtime_output_directory/mysql"
        self.work = work
        options = [f"--lc-messages-dir={build}/share", f"--basedir={build}", f"--plugin-dir={build}/plugin_output_directory",
                   "--performance-schema=ON"]  # fmt: skip
        mysqld = work / "mysqld"
        shutil.copy2(build / "runtime_output_directory/mysqld", mysqld)
        ours = Binary("ours", [str(mysqld)], options)
        self.events = Binary("events", ours.command, [*options, "--binlog-startup-scan=EVENTS"])
        self.jumps = Binary("transactions", ours.command, [*options, "--binlog-startup-scan=TRANSACTIONS"])
        keyed = with_keys(ours, work / "keyed")
        self.keyed = {"EVENTS": self._keyed(keyed, "EVENTS"), "TRANSACTIONS": self._keyed(keyed, "TRANSACTIONS")}
        self.stock = stock
        self.base = work / "base"
        initialise(ours, self.base)
        self.source = make_source(self.base, work / "source", self.events, self.client)

    @staticmethod
    def _keyed(keyed: Binary, value: str) -> Binary:
        return Binary(value.lower(), keyed.command, [*keyed.options, f"--binlog-startup-scan={value}"])

    def start(self, image: Image, case: Case, binary: Binary, place: Path) -> Found:
        """What one start finds in a case."""
        copy(image.home, place)
        if image.is_encrypted:
            configure_keyring(place)
        log = last_log(place)
        log.write_bytes(case.content)
        write_note(log, case.synced_bytes)
        if case.gtids is not None:
            write_gtids(log, case.gtids)
        if case.checkpoint is not None and note_path(log).exists():
            write_checkpoint(log, case.checkpoint)
        if case.spoil is not None:
            case.spoil(log)
        server = Server(binary, place, self.client, image.options)
        try:
            if server.wait_ready():
                answers = server.ask(_QUERIES)
                counts = server.ask([_SKIPPED, restarts.NOTED]) if binary.name == "transactions" else ["0", "0"]
                size = log.stat().st_size
                facts = [*answers, f"{log.name}: {size} bytes", *self._messages(server)]
                found = Found(facts, int(counts[0]), counts[1].strip() == "1")
            else:
                found = Found(["refused", *self._messages(server)])
            said = server.said()
            return replace(found, n_at_checkpoint=said.count(_AT_CHECKPOINT), is_older=_OLDER in said,
                           has_checkpoint=read_checkpoint(log) is not None)  # fmt: skip
        finally:
            server.kill()
            shutil.rmtree(place, ignore_errors=True)

    @staticmethod
    def _messages(server: Server) -> list[str]:
        lines = set(server.messages())
        for line in server.said().splitlines():
            if _NOTE.search(line):
                lines.add(_NUMBER_OF_TIME.sub("", line))
        # What InnoDB says, of files and of variables that stock does not know, is compared by the differential test.
        return sorted(line for line in lines if "[InnoDB]" not in line and "innodb_" not in line and _OLDER not in line)


def _first_difference(one: list[str], other: list[str]) -> str:
    for left, right in zip(one, other, strict=False):
        if left != right:
            return f"{left!r} against {right!r}"
    return f"{one[len(other):]!r} against {other[len(one):]!r}"


def _are_rows_lost(found: Found, events: Found, honest: list[Found], is_older: bool) -> bool:
    """Rows are lost, and nothing but rows, because both passes begin at the checkpoint.

    They may at the other one, unless InnoDB's files are older; then that is said, and the note removed, with EVENTS, too.
    """
    is_lost = found.facts[_GTIDS] == events.facts[_GTIDS] and found.facts[_ROWS] != events.facts[_ROWS]
    is_by_checkpoint = (found.n_at_checkpoint, found.is_older) == (2, False)
    is_said = all(one.is_older == is_older and not (is_older and one.has_checkpoint) for one in honest)
    return is_lost and is_by_checkpoint and is_said and honest[0].n_at_checkpoint == (0 if is_older else 2)


def _is_large_lost(found: Found, honest: list[Found], n_skipped: int) -> bool:
    """A large transaction is rolled back that is committed otherwise: it was prepared, and each pass has moved over its middle."""
    if any("refused" in one.facts or not any(_PREPARED in line for line in one.facts) for one in (found, *honest)):
        return False
    n_left, *n_rows = (int(one.facts[_N_ROWS]) for one in (found, *honest))
    return all(number == n_left + LARGE_ROWS for number in n_rows) and found.n_skipped == honest[0].n_skipped == n_skipped


class Check:
    """One run of the whole."""

    def __init__(self, runner: Runner, seed: int, seconds: float, every_byte: int) -> None:
        self.runner = runner
        self.report = Report(seed, every_byte=every_byte)
        self.lock = threading.Lock()
        self.other_gtids: bytes | None = None
        self.end = time.monotonic() + seconds if seconds else float("inf")

    def image(self, seed: int, name: str) -> Image:
        place, turn = self.runner.work / name, seed % PLAIN_EVERY
        if turn in (STOPPED, KILLED):
            source = self.runner.source if turn == STOPPED else None
            return make(seed, self.runner.base, place, self.runner.jumps, self.runner.client, is_plain=True, source=source,
                        is_killed=turn == KILLED)  # fmt: skip
        is_encrypted = seed % ENCRYPTED_EVERY == ENCRYPTED_EVERY // 2
        binary = self.runner.keyed["TRANSACTIONS"] if is_encrypted else self.runner.jumps
        source = self.runner.source if seed % REPLICA_EVERY == 0 else None
        return make(seed, self.runner.base, place, binary, self.runner.client, is_encrypted, source=source)

    def plain_image(self, seed: int, name: str) -> Image:
        place = self.runner.work / name
        return make(seed, self.runner.base, place, self.runner.jumps, self.runner.client, is_plain=True)

    def compare(self, image: Image, case: Case, name: str, with_stock: bool) -> tuple[str, Found, Found]:
        """How the outcome differs, empty if it does not; and what the starts with TRANSACTIONS and EVENTS have found."""
        runner, place = self.runner, self.runner.work
        binaries = runner.keyed if image.is_encrypted else {"EVENTS": runner.events, "TRANSACTIONS": runner.jumps}
        jumps = runner.start(image, case, binaries["TRANSACTIONS"], place / f"{name}t")
        model = case
        if case.is_hidden:
            # The start cannot see the damage: it has to find what it would have found without.
            model = Case(case.kind, case.text, image.log.read_bytes(), case.synced_bytes)
        events = runner.start(image, model, binaries["EVENTS"], place / f"{name}e")
        difference = "" if jumps.facts == events.facts else "transactions, events: " + _first_difference(jumps.facts, events.facts)
        if with_stock and not difference:
            stock = runner.start(image, model, runner.stock, place / f"{name}s")
            if stock.facts != jumps.facts:
                difference = "transactions, stock: " + _first_difference(jumps.facts, stock.facts)
        with self.lock:
            self.report.refused += jumps.facts[0] == "refused"
        return difference, jumps, events

    def cases(self, r: random.Random, image: Image, turn: int) -> Iterator[Case]:
        """What can befall an image. Time may end before all are gone through, so each kind comes early."""
        content = image.log.read_bytes()
        yield whole(content, len(content) if image.is_plain else r.choice([len(content) // 2, len(content)]))
        gtids = read_gtids(image.log)
        if gtids is not None and image.has_checksums:
            yield noted(content, gtids)
            yield stale(r, content, gtids, turn * STALE_AN_IMAGE)
        elif gtids is not None:
            # Without checksums the beginning and the end of a file cannot be relied on.
            yield replace(noted(content, gtids), kind=STALE, text="a file without checksums")
        for kind in (TORN, DAMAGED):
            yield random_case(r, content, kind)
        if gtids is not None and image.has_checksums:
            for number in range(1, STALE_AN_IMAGE):
                yield stale(r, content, gtids, turn * STALE_AN_IMAGE + number)
        for _ in range(CASES_AN_IMAGE - 3):
            yield random_case(r, content)
        if self.report.every_byte:
            cuts = cut_points(content, self.report.every_byte)
            with self.lock:
                self.report.could_cut += len(cuts)
            # When time ends some from everywhere have been gone through.
            for length in r.sample(cuts, len(cuts)):
                yield replace(torn(r, content, length), kind=CUT)

    def one_image(self, seed: int) -> None:
        """All cases of an image; an error is a failure of this one."""
        if time.monotonic() > self.end:
            return
        try:
            self._one_image(seed)
        except Exception:  # noqa: BLE001 - the others are gone through all the same
            with self.lock:
                self.report.errors += 1
            print(f"seed {seed}: {traceback.format_exc()}", flush=True)

    def _one_image(self, seed: int) -> None:
        r = random.Random(seed)
        image = self.image(seed, f"i{seed}")
        if not image.is_killed and not image.is_encrypted and read_gtids(image.log) is None:
            raise RuntimeError(f"seed {seed}: the server has noted no GTIDs when it ended")
        content, checkpoint = image.log.read_bytes(), read_checkpoint(image.log) if image.is_killed else None
        if image.is_plain and image.is_killed and checkpoint is None:
            raise RuntimeError(f"seed {seed}: the server has noted no checkpoint before it was killed")
        with self.lock:
            self.report.images += 1
            self.report.replicas += image.is_replica
        try:
            for number, case in enumerate(self.cases(r, image, seed)):
                if time.monotonic() > self.end:
                    return
                if checkpoint is not None:
                    case = with_checkpoint(case, content, checkpoint, image.has_checksums)
                relies = is_checkpoint_whole(case, content) and image.has_checksums and not image.is_encrypted
                with_stock = (number % STOCK_EVERY == 0 or case.kind == NOTED) and not image.is_encrypted
                difference, found, events = self.compare(image, case, f"c{seed}-{number}", with_stock)
                if (found.is_older or events.is_older) and not difference:
                    difference = "the start says that InnoDB's files are older, and they are not"
                begin = case.checkpoint.begin if relies and case.checkpoint is not None else 0
                could = any(one.begin >= begin for one in skippable(case.content, case.synced_bytes))
                could = could and not image.is_encrypted and case.gtids is None
                with self.lock:
                    report = self.report
                    report.cases[case.kind] += 1
                    report.cuts += case.kind == CUT
                    report.cuts_skipping += case.kind == CUT and found.n_skipped > 0
                    report.cuts_jumping += case.kind == CUT and found.n_skipped + found.n_at_checkpoint > 0
                    report.with_stock += with_stock
                    report.could_skip += could
                    if case.gtids is None:
                        report.skipping += found.n_skipped > 0
                        report.transactions_skipped += found.n_skipped
                    report.could_note += case.kind == NOTED
                    report.noted += case.kind == NOTED and found.is_noted
                    report.wrongly_noted += case.kind != NOTED and not relies and found.is_noted
                    # A start that ends for what it finds behind the checkpoint does so in the first pass, or in the second.
                    n_due = 1 if found.facts[0] == "refused" else 2
                    report.could_checkpoint += relies
                    report.checkpoints += relies and found.n_at_checkpoint >= n_due
                    report.differences += bool(difference)
                if difference:
                    state = "killed" if image.is_killed else "closed"
                    print(f"seed {seed}, case {number}: {case.text}; {state}; {image.settings}\n  {difference[:2000]}", flush=True)
        finally:
            shutil.rmtree(image.home, ignore_errors=True)

    def canary(self, name: str) -> None:
        """The fault has to be found, and by chance is ruled out: the same image without it does not differ."""
        self.report.canaries[name] = None
        n_tried = 0
        for number in range(MAX_CANARY_IMAGES):
            control_case = None
            if name in _UNCOMMITTED:
                made = self._older(f"k{name}") if name == "older_files" else self._uncommitted(f"k{name}", name == "hidden_end")
                if made is None:
                    continue
                image, case, control_case = made
                cases = iter([case])
            else:
                image = self.plain_image(self.report.seed + 500_000 + number, f"k{name}")
                cases = self._canary_cases(name, random.Random(number), image, image.log.read_bytes())
            for case in islice(cases, 2):
                n_tried += 1
                difference, found, events = self.compare(image, case, f"k{name}c", False)
                # Another server may have written.
                content = image.log.read_bytes()
                control, *honest = self.compare(image, control_case or whole(content, len(content)), f"k{name}c",
                                                name == "hidden_end")  # fmt: skip
                is_found = bool(difference) and not control and "refused" not in (found.facts[0], events.facts[0])
                if is_found and name == "hidden_end":
                    is_found = _is_large_lost(found, honest, 2 * len(skippable(content, len(content))))
                elif is_found and control_case is not None:
                    is_found = _are_rows_lost(found, events, honest, name == "older_files")
                if is_found:
                    self.report.canaries[name] = n_tried
                    print(f"canary {name}: found by case {n_tried}: {difference[:200]}", flush=True)
                    return
                if control:
                    self.report.differences += 1
                    print(f"control of the canary {name}: {control[:500]}", flush=True)

    def _uncommitted(self, name: str, is_large: bool) -> tuple[Image, Case, Case] | None:
        """An image with two transactions at the end that are not committed, a checkpoint behind one, and one before both.

        If the first is a large one there is no checkpoint, but a GTID event that has the length of both, and it as it was.
        """
        runner = self.runner
        made = make_uncommitted(runner.base, runner.work / name, runner.jumps, runner.client, is_large)
        if made is None:
            return None
        image, uuid, before = made
        content = image.log.read_bytes()
        committed, first, last = transactions(content)[-3:]
        case = whole(content, len(content))
        if is_large:
            changed = lengthened(content, first, last, image.has_checksums)
            if changed is None:
                raise RuntimeError("the GTID event has no place for the length of two transactions")
            return image, replace(case, text="the length of two", content=changed), case
        lie = Checkpoint(last.begin, last.end, encoded_set(uuid, before + 2))
        truth = Checkpoint(committed.begin, committed.end, encoded_set(uuid, before))
        return (image, replace(case, text="a checkpoint before the last transaction", checkpoint=lie),
                replace(case, text="a checkpoint before what is not committed", checkpoint=truth))  # fmt: skip

    def _older(self, name: str) -> tuple[Image, Case, Case] | None:
        """An image with older files of InnoDB, its checkpoint without the LSN, and as the server has noted it."""
        made = make_older(self.runner.base, self.runner.work / name, self.runner.jumps, self.runner.client)
        if made is None:
            return None
        image, checkpoint = made
        content = image.log.read_bytes()
        case = replace(whole(content, len(content)), text="older files of InnoDB", checkpoint=checkpoint)
        return image, replace(case, checkpoint=replace(checkpoint, lsn=0)), case

    def _canary_cases(self, name: str, r: random.Random, image: Image, content: bytes) -> Iterator[Case]:
        gtids = read_gtids(image.log)
        if name == "lying_note":
            return lying_note(r, content) if image.is_killed else iter(())
        if name == "wrong_length":
            return wrong_length(content, image.has_checksums)
        if gtids is None or not image.has_checksums:
            return iter(())
        if name == "short_set":
            return short_set(content, gtids)
        if name == "other_set":
            # What the file begins with is the set of the one before; a server with less of it wrote the other.
            other, self.other_gtids = self.other_gtids, gtids
            return iter([noted(content, other)] if other not in (None, gtids) else [])
        with Server(self.runner.stock, image.home, self.runner.client, image.options) as server:
            if not server.wait_ready():
                raise RuntimeError(f"stock does not start: {server.errors()}")
            server.sql("INSERT INTO d.t (b) VALUES ('stock');")
            server.stop()
        return iter([noted(image.log.read_bytes(), gtids)])


@click.command(context_settings={"show_default": True, "max_content_width": 120}, help=__doc__)
@click.option("--build", type=click.Path(path_type=Path), required=True, help="Build directory with the server.")
@click.option("--stock", type=click.Path(path_type=Path), required=True, callback=stock_below,
              help="Root directory with the stock server.")  # fmt: skip
@click.option("--work", type=click.Path(path_type=Path), required=True, help="Directory for data; short path.")
@click.option("--seed", default=1, help="The first seed; one an image.")
@click.option("--images", default=40, help="How many data directories.")
@click.option("--seconds", default=0.0, help="Begin no case after this time; 0 = no limit.")
@click.option("--every-byte", default=0, metavar="N",
              help="Tear the last N transactions at each byte, in long events where it may matter.")  # fmt: skip
@click.option("--restarts", "n_restarts", default=RESTARTS, metavar="N", help="Start one directory N times.")
@click.option("--jobs", default=3, help="Images at a time.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Where to write the report.")
def main(
    build: Path, stock: Binary, work: Path, seed: int, images: int, seconds: float, every_byte: int, n_restarts: int,
    jobs: int, json_file: Path | None,
) -> None:  # fmt: skip
    work = work.resolve()
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    begin = time.monotonic()
    stock.options = [*stock.options, "--performance-schema=ON"]
    check = Check(Runner(build.resolve(), stock, work), seed, seconds, every_byte)
    report = check.report
    try:
        with ThreadPoolExecutor(jobs) as pool:
            for task in [pool.submit(check.one_image, seed + number) for number in range(images)]:
                task.result()
        report.failing = failing.problems(check.runner.jumps, check.runner.base, check.runner.client, work)
        runner = check.runner
        done = restarts.run(n_restarts, seed, runner.base, work, runner.client, runner.jumps,
                            [runner.events, stock])  # fmt: skip
        report.restarts = (f"{dict(done.starts)} restarts after {dict(done.ends)}; GTIDs from the note in {done.noted} of "
                           f"{done.due}; {done.compared} compared with another server")  # fmt: skip
        report.restart_problems = done.problems
        if done.noted == 0:
            report.restart_problems.append("no restart has taken the GTIDs from the note")
        if done.noted_compared == 0:
            report.restart_problems.append("no restart that took them was compared with another server")
        for name in CANARIES:
            check.canary(name)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    print(f"{sum(report.cases.values())} cases of {report.images} binary logs: {dict(report.cases)}; {report.with_stock} shown to "
          f"stock, {report.refused} refused; {report.transactions_skipped} transactions moved over in {report.skipping} cases of "
          f"{report.could_skip} where it was possible; last transactions torn at {report.cuts} of {report.could_cut} places, "
          f"something left out in {report.cuts_jumping} of them; GTIDs from the note in {report.noted} cases of "
          f"{report.could_note}, wrongly in {report.wrongly_noted}; checkpoints in {report.checkpoints} of "
          f"{report.could_checkpoint}; {report.replicas} replicas; {report.differences} differ; seeds from {report.seed}; "
          f"{time.monotonic() - begin:.0f} s")  # fmt: skip
    print(report.restarts)
    for name, number in report.canaries.items():
        print(f"canary {name} ({CANARIES[name]}): {'not found' if number is None else f'found by case {number}'}")
    if json_file:
        json_file.parent.mkdir(parents=True, exist_ok=True)
        json_file.write_text(json.dumps({**vars(report), "cases": dict(report.cases)}, indent=1) + "\n", encoding="utf-8")
    problems = report.problems()
    for problem in problems:
        print(f"failed: {problem}")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main(prog_name="binlog_check")
