# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The server's error log: lines, errors, and the phases of a start."""

from __future__ import annotations

import datetime
import re
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

LAST_TEXTS = 5
LAST_LENGTH = 300
"""Characters."""

_MYSQL_LINE = re.compile(
    r"(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z) +(?P<thread>\d+) +"
    r"\[(?P<level>\w+)\] +\[(?P<code>MY-\d+)\] +\[(?P<part>\w+)\] +(?P<text>.*)$"
)
_MARIADB_LINE = re.compile(
    r"\d{4}-\d\d-\d\d +\d+:\d\d:\d\d +(?P<thread>\d+) +\[(?P<level>\w+)\] +(?P<text>.*)$"
)
_CHECKED = re.compile(r"Completed space ID check of (\d+) files")
_THREADS = re.compile(r"Using (\d+) threads to scan (\d+) tablespace files")
_VALIDATED = re.compile(r"Scanned (\d+) tablespaces\. Validated (\d+)")
_RECOVERY = re.compile(r"not shut ?down normally|Starting crash recovery", re.IGNORECASE)

_RESURRECTED = re.compile(r"Total records resurrected: (\d+) - Total pages read: (\d+)")

PHASES = (
    "boot",
    "listing",
    "check",
    "engine",
    "dictionary",
    "validate",
    "checks",
    "upgrade",
    "finish",
)
"""Phases of a start, in order:

- boot: from exec to the first directory scanned;
- listing: walking the directories. Seen only where the log names the number of threads (a line
  upstream prints from 8,000 files on); otherwise it is part of check;
- check: reading a header of each file for duplicate space ids;
- engine: buffer pool, redo log, undo and temporary tablespaces, until InnoDB says it is started;
- dictionary: opening the data dictionary;
- validate: reading the dictionary's tablespaces and validating (after a crash: opening) each file;
- checks, upgrade: where the last server was one of another release: reading all definitions in the dictionary, and bringing
  the tables of the schemas mysql and sys up to date;
- finish: the rest, until the server accepts connections.
"""


def in_order(phases: Iterable[str]) -> list[str]:
    """The phases without repetition, in the order of a start; what is not a phase comes last."""
    return sorted(dict.fromkeys(phases), key=lambda name: (*PHASES, name).index(name))


@dataclass(frozen=True)
class LogLine:
    """One line; `time` is seconds since the epoch: the server's own, or when it was seen."""

    time: float
    level: str
    code: str
    text: str


def parse_line(line: str, seen: float) -> LogLine | None:
    """A line of MySQL's or MariaDB's error log, or None if it is something else.

    What stands before the time is skipped: a rollback writes its progress (" 1 2 3") between the
    lines, without a line end. MySQL's lines carry microseconds in UTC (--log-timestamps=UTC). MariaDB's carry whole
    seconds, so the time at which the bench saw the line stands in.
    """
    match = _MYSQL_LINE.search(line)
    if match:
        stamp = datetime.datetime.fromisoformat(match["time"])
        return LogLine(stamp.timestamp(), match["level"], match["code"], match["text"])
    match = _MARIADB_LINE.search(line)
    if match:
        return LogLine(seen, match["level"], "", match["text"])
    return None


def is_ready(line: LogLine) -> bool:
    """Whether the server says that it accepts connections (the X plugin's line does not count)."""
    return "ready for connections" in line.text and "X Plugin" not in line.text


def errors(lines: Iterable[LogLine]) -> list[str]:
    """Texts of the lines of level ERROR."""
    return [line.text for line in lines if line.level.upper() == "ERROR"]


def last(texts: Sequence[str]) -> list[str]:
    """The last few of them, cut off where they are long, without those that a later one repeats but for its numbers."""
    distinct: dict[str, str] = {}
    for text in reversed(texts):
        distinct.setdefault(re.sub(r"\d+", "0", text), text)
        if len(distinct) == LAST_TEXTS:
            break
    return [textwrap.shorten(text, LAST_LENGTH, placeholder=" ...") for text in reversed(distinct.values())]


@dataclass(frozen=True)
class Start:
    """What the log of one start says. Phases are (begin, end) in seconds since the epoch."""

    phases: dict[str, tuple[float, float]]
    files_checked: int | None
    threads: int | None
    tablespaces: int | None
    validated: int | None
    recovered: bool


def _first(lines: Sequence[LogLine], text: str, after: float = 0.0) -> float | None:
    for line in lines:
        if line.time >= after and text in line.text:
            return line.time
    return None


def _number(lines: Sequence[LogLine], pattern: re.Pattern[str], group: int = 1) -> int | None:
    for line in lines:
        match = pattern.search(line.text)
        if match:
            return int(match[group])
    return None


_UPGRADE = re.compile(r"Server upgrade from '\d+' to '\d+' (started|completed)")


def parse_start(lines: Sequence[LogLine], exec_time: float, ready_time: float) -> Start:
    """Reads the phases and counts of a start from its log lines.

    A phase whose lines are missing (another server, a feature that skips it) is left out, and
    its time belongs to the phase before.
    """
    scanned = _first(lines, "Scanned ", _first(lines, "Reading DD tablespace files") or 0.0)
    upgrade = {match[1]: line.time for line in lines if (match := _UPGRADE.search(line.text))}
    marks = (
        ("boot", exec_time),
        ("listing", _first(lines, "Scanning '")),
        ("check", _first(lines, "threads to scan")),
        ("engine", _first(lines, "Completed space ID check")),
        ("dictionary", _first(lines, "InnoDB initialization has ended")),
        ("validate", _first(lines, "Reading DD tablespace files")),
        ("checks" if upgrade else "finish", scanned),
        ("upgrade", upgrade.get("started")),
        ("finish", upgrade.get("completed")),
    )
    seen = [(name, when) for name, when in marks if when is not None]
    if "listing" in dict(seen) and "check" not in dict(seen):
        seen = [("check" if name == "listing" else name, when) for name, when in seen]
    phases = {}
    for index, (name, when) in enumerate(seen):
        end = seen[index + 1][1] if index + 1 < len(seen) else ready_time
        phases[name] = (when, end)
    return Start(
        phases,
        _number(lines, _CHECKED),
        _number(lines, _THREADS),
        _number(lines, _VALIDATED),
        _number(lines, _VALIDATED, 2),
        any(_RECOVERY.search(line.text) for line in lines),
    )


@dataclass(frozen=True)
class Resurrection:
    """The search for the tables of unfinished transactions: from the first to the last line."""

    begin: float
    end: float
    records: int
    pages: int


def parse_resurrection(lines: Sequence[LogLine]) -> Resurrection | None:
    """The resurrection of a start, all transactions added up; None if there was none."""
    begin = _first(lines, "found for resurrecting")
    done = [(line.time, match) for line in lines if (match := _RESURRECTED.search(line.text))]
    if begin is None or not done:
        return None
    records = sum(int(match[1]) for _, match in done)
    pages = sum(int(match[2]) for _, match in done)
    return Resurrection(begin, done[-1][0], records, pages)


def parse_undo_scan(lines: Sequence[LogLine]) -> tuple[float, float] | None:
    """Begin and end of the reading of undo logs after the server has opened; None if it is not over."""
    begin = _first(lines, "recovered transactions are read in the background")
    end = _first(lines, "The undo logs of recovered transactions were read")
    return None if begin is None or end is None else (begin, end)


def parse_rollback(lines: Sequence[LogLine]) -> tuple[float, float] | None:
    """Begin and end of the rollback of unfinished transactions; None if it is not over."""
    begin = _first(lines, "Rolling back trx with id")
    end = _first(lines, "Rollback of non-prepared transactions completed")
    return None if begin is None or end is None else (begin, end)


def parse_pool_load(lines: Sequence[LogLine]) -> tuple[float, float] | None:
    """Begin and end of the load of the buffer pool; None if it is not over."""
    begin = _first(lines, "Loading buffer pool(s) from")
    end = _first(lines, "Buffer pool(s) load completed at")
    return None if begin is None or end is None else (begin, end)


@dataclass(frozen=True)
class Unfinished:
    """Rows that the transactions have changed which a start found: all that are to be rolled back, the largest prepared one."""

    rows_open: int
    rows_prepared: int


_TO_UNDO = re.compile(r"in total (\d+)(M?) row operations to undo")
_PREPARED = re.compile(r"Transaction contains changes to (\d+) rows")


def parse_unfinished(lines: Sequence[LogLine]) -> Unfinished:
    """The unfinished transactions of a start. A prepared one is known as such when the binary log has been read."""
    undo = [int(match[1]) * (10**6 if match[2] else 1) for line in lines if (match := _TO_UNDO.search(line.text))]
    prepared = [int(match[1]) for line in lines if (match := _PREPARED.search(line.text))]
    return Unfinished(sum(undo), max(prepared, default=0))


@dataclass(frozen=True)
class Redo:
    """What the log says of the redo that a start has found and applied.

    `begin` and `end` are seconds since the epoch: from the first line on the recovery to the last batch that was applied.
    `apply_s` is spent in batches, `bytes` is what lay behind the checkpoint, `pages` is the sum over the batches. MariaDB
    tells of no batches: None, and `end` is the end of the scan.
    """

    begin: float
    end: float
    bytes: int
    pages: int
    batches: int | None
    apply_s: float | None


_CHECKPOINT = re.compile(r"checkpoint is at lsn = (\d+)|from checkpoint LSN=(\d+)")
_PAGES = re.compile(r"Applying a batch of (\d+) redo log|To recover: (\d+) pages")
_SCANNED = re.compile(r"scanned up to log sequence number (\d+)|End of log at LSN=(\d+)")


def parse_redo(lines: Sequence[LogLine]) -> Redo | None:
    """The redo recovery of a start; None if there was none."""
    begin = _first(lines, "Starting crash recovery")
    checkpoint = [int(match[1] or match[2]) for line in lines if (match := _CHECKPOINT.search(line.text))]
    scanned = [(line.time, int(match[1] or match[2])) for line in lines if (match := _SCANNED.search(line.text))]
    if begin is None or not checkpoint or not scanned:
        return None
    end, last = scanned[-1]
    batches, apply_s, since = 0, 0.0, None
    for line in lines:
        if "Applying a batch of" in line.text:
            since = line.time
        elif "Apply batch completed" in line.text and since is not None:
            batches, apply_s, since, end = batches + 1, apply_s + line.time - since, None, max(end, line.time)
    pages = sum(int(match[1] or match[2]) for line in lines if (match := _PAGES.search(line.text)))
    is_told = batches > 0
    return Redo(begin, end, last - checkpoint[0], pages, batches if is_told else None, apply_s if is_told else None)
