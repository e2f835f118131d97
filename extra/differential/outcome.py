# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""What a server makes of a state, and whether another does the same."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field
from typing import Any

from differential.server import NO_ANSWER, Server

# So often a server without the map may run to do what the one with the map did.
MAX_RUNS = 3
TRUSTED = re.compile(r"Tablespace map: (\d+) of (\d+) files are as they were")
NOT_USED = re.compile(r"Tablespace map not used: (.*)")
VERIFIED = "headers were read after startup"
NO_TIMES = "does not get another time when files are made in it"
LISTED = re.compile(r"Tablespace map: .* (\d+) directories were listed")
JOURNALLED = "Tablespace map: its journal has the changes of"
AGAIN = "start the server again"
# MySQL dies of these whatever the map does.
OWN_DEATHS = (
    # A full-text table was used whose file was imported, or is not the right one: then at the end of the server.
    "pars0pars.cc:sym_node->table != nullptr",
)
# And of this, where the file at the path of a table is that of another: only what was done to the files excuses it.
WRONG_FILE = "[FATAL] Tablespace id is"
# The message of MySQL before it ends over that.
CUT = "[MY-012094]"
# And before it ends over a page that redo has and the file has not: a race, as the file grows when redo of its first page is
# applied. Of servers that both died of it in one turn, the one or the other may get through later.
OUTSIDE = "[MY-012153]"
# When an undo tablespace is emptied, and gets another ID, is up to purge.
UNDO = re.compile(r"(?m)^(\S+)\t.*\tUndo\t.*$")
# Rows were read.
NUMBERS = re.compile(r"\d+\t\d+\n")
FOREIGN = "another server may have run"
# The map was used, and given up for what the scan then found.
REJECTED = re.compile("has the ID of a file that was not read|has more than one name|has another tablespace ID than|"
                      f"may be wrong|a tablespace has more than one file|{FOREIGN}")


@dataclass
class Start:
    """How a start went, as far as the map is concerned; not compared."""

    # Files whose header was not read since the map knew them. None if there was no map to use.
    trusted: int | None = None
    # The map was trusted until something was found that it did not know: another file with the ID of one of its own.
    is_rejected: bool = False
    # The dictionary was not read in full.
    is_lazy: bool = False
    # Directories that were listed.
    listed: int = 0
    # The journal of the map had changes, and they were taken.
    has_journal: bool = False
    # The headers that were not read at the start have been read since.
    is_verified: bool = False
    why_not: str = ""

    @property
    def is_used(self) -> bool:
        return self.trusted is not None and not self.is_rejected

    def n_trusted(self, n_in_base: int) -> int:
        """Files that were trusted, at the end or until the map was given up, but those that every state has.

        0 if the map was given up whatever it said, since another server had run.
        """
        return 0 if FOREIGN in self.why_not else max(0, (self.trusted or 0) - n_in_base)


def read_start(log: str) -> Start:
    """What the error log says."""
    start = Start(is_lazy="the others when they are used" in log, is_rejected=REJECTED.search(log) is not None,
                  has_journal=JOURNALLED in log, is_verified=VERIFIED in log)
    if match := TRUSTED.search(log):
        start.trusted = int(match[1])
    if match := LISTED.search(log):
        start.listed = int(match[1])
    if reasons := NOT_USED.findall(log):
        start.why_not = reasons[-1]
    return start


@dataclass
class Outcome:
    """What one server made of a state, in its runs."""

    facts: dict[str, Any] = field(default_factory=dict)
    starts: list[Start] = field(default_factory=list)
    # The turn in which it read a file that is too short. MySQL does so if it made the object of a table without a look
    # at the file; an error number from before decides then whether it reads again without end, or asserts.
    short_read_in: int | None = None

    def has_died_of_cut(self, turn: int) -> bool:
        """True if it died of a file that is shorter than its header says, when it happened to use it."""
        return self._has_died_of(CUT, turn)

    def has_died_outside(self, turn: int) -> bool:
        """True if its start died of a page beyond the end of a file."""
        return self._has_died_of(OUTSIDE, turn) and self.facts.get(f"{turn} starts") is False

    def _has_died_of(self, words: str, turn: int) -> bool:
        return f"{turn} exit code" in self.facts and any(words in text for text in self.facts.get(f"{turn} messages", []))

    @property
    def cut_in(self) -> int | None:
        """The turn up to which it is compared only, for one of the three reasons."""
        turns = range(1, len(self.starts) + 1)
        deaths = (turn for turn in turns if self.has_died_of_cut(turn) or self.has_died_outside(turn))
        return min(filter(None, (self.short_read_in, next(deaths, None))), default=None)


def ask(server: Server, facts: dict[str, Any], turn: int, r: random.Random, in_place: set[str]) -> None:
    """What a client sees, first of all in random order. Tables that were changed in place are left as they are."""
    tables = server.sql("SELECT CONCAT('`', table_schema, '`.`', table_name, '`') FROM information_schema.tables"
                        " WHERE table_schema IN ('a', 'b', 'c') ORDER BY 1").splitlines()
    facts[f"{turn} tables"] = list(tables)
    asked = list(tables)
    r.shuffle(asked)
    views = [
        ("spaces", ("SELECT name, space, page_size, space_type, encryption, state, autoextend_size"
                    " FROM information_schema.innodb_tablespaces ORDER BY space")),
        ("i_s files", ("SELECT file_name, tablespace_name, status, file_type, autoextend_size"
                       " FROM information_schema.files WHERE file_type = 'TABLESPACE' ORDER BY tablespace_name")),
        ("statistics", ("SELECT table_schema, table_name, row_format, data_length > 0 FROM"
                        " information_schema.tables WHERE table_schema IN ('a', 'b', 'c') ORDER BY 1, 2")),
        ("prepared", "XA RECOVER"),
    ]
    r.shuffle(views)
    n_first = r.randrange(len(views) + 1)
    questions = [*views[:n_first]]
    for table in asked:
        questions += [
            (f"rows of {table}", f"SELECT COUNT(*), SUM(CRC32(CONCAT(id, IFNULL(v, '')))) FROM {table}"),
            (f"definition of {table}", f"SHOW CREATE TABLE {table}"),
            (f"check of {table}", f"CHECK TABLE {table}"),
        ]
    questions += views[n_first:]
    if turn == 1:
        for table in [table for table in asked if not is_in_place(in_place, table)][:4]:
            statement = r.choice([f"ALTER TABLE {table} ADD INDEX di (v(50))", f"TRUNCATE TABLE {table}",
                                  f"DROP TABLE {table}", f"RENAME TABLE {table} TO a.dr",
                                  f"ALTER TABLE {table} ENGINE=InnoDB", f"INSERT INTO {table} VALUES (-1, 'y')",
                                  f"ALTER TABLE {table} DISCARD TABLESPACE"])
            questions.append((statement, statement))
    for (name, _), answer in zip(questions, server.ask([query for _, query in questions]), strict=True):
        facts[f"{turn} {name}"] = UNDO.sub(r"\1\tUndo", answer)


def is_in_place(in_place: set[str], key: str) -> bool:
    """True if the table that a fact is about may be one whose file was changed in place."""
    table = key.rsplit("`.`", maxsplit=1)[-1].rstrip("`")
    if "@" in "".join(in_place) and (not table.isascii() or set("@#/-") & set(table)):
        return True  # the name of its file is another one
    return any(stem.split("#")[0] == table or stem.startswith("g") for stem in in_place)


def is_untold(first: Outcome, run: Outcome, key: str) -> bool:
    """After a change in place: true if one of the servers died before it could tell the fact, and may have.

    MySQL dies when it uses a file that holds another tablespace, or less, than the object it made of it. That may
    be at another question than with the map.
    """
    died = f"{key.split(maxsplit=1)[0]} exit code"
    if run.facts.get(key) == "" and died in run.facts:
        return True
    return first.facts.get(key) == "" and died in first.facts and has_died(run)


def may_start_again(first: Outcome, run: Outcome, key: str) -> bool:
    """After a change in place: may one of the servers start and the other not?

    If one without the map refuses, one with it may start once: when it has read the headers that it had trusted, the
    next start refuses too. If one without the map starts, one with it may refuse once.
    """
    turn = int(key.split(maxsplit=1)[0])
    if first.facts.get(key) is False:
        # It may refuse once, and says then what to do.
        return turn == 1 and any(AGAIN in message for message in first.facts.get("1 messages", []))
    return (turn < 2 or not first.starts or not first.starts[turn - 2].is_verified
            or any(run.facts.get(f"{before} starts") for before in range(1, turn + 1)))


def has_died(run: Outcome) -> bool:
    """True if a server died in any turn."""
    return any(key.endswith(" exit code") for key in run.facts)


def is_comparable(in_place: set[str], key: str, left: object, right: object) -> bool:
    """After a change in place only what other tables hold must be the same, if both servers tell.

    One may refuse to start, and waiting for a broken table takes the answers about others with it. No server may
    crash or hang that would not without the map.
    """
    if key.endswith((" exit code", " stops", " hangs")):
        return right is None
    if not key.startswith("1 rows of ") or left is None or right is None or NO_ANSWER in (left, right):
        return False
    return not is_in_place(in_place, key)


def is_told(key: str, last: int, left: object, right: object) -> bool:
    """False for what a server may have failed to say since a file was too short for it in this turn, or before.

    Rows that both have counted are told, and so is a start that the first refuses and the second does not.
    """
    turn = int(key.split(maxsplit=1)[0])
    if turn == last + 1 and key.endswith(" starts"):
        return left is False and right is True
    if turn != last + 1 or " rows of " not in key:
        return turn <= last
    return all(isinstance(value, str) and NUMBERS.fullmatch(value) for value in (left, right))


def run_difference(one: str, first: Outcome, two: str, run: Outcome, in_place: set[str]) -> str | None:
    """What the first server did and this run of the second did not; None if that is nothing."""
    if first.short_read_in is not None and run.short_read_in is None:
        return f"in turn {first.short_read_in} {one} reads a file that is too short, which {two} does in none"
    facts = first.facts
    n_turns = max((int(key.split()[0]) for key in {*facts, *run.facts}), default=0)
    last = min((first.short_read_in or n_turns + 1), (run.short_read_in or n_turns + 1)) - 1
    for turn in range(1, last + 1):
        if run.has_died_of_cut(turn) or (run.has_died_outside(turn) and first.has_died_outside(turn)):
            last, keys = turn - 1, {*facts, *run.facts}
            break
        if facts.get(f"{turn} starts") != run.facts.get(f"{turn} starts") and not in_place:
            # What follows is different in all.
            last = turn
            keys = {f"{turn} starts", f"{turn} messages", f"{turn} exit code"}
            break
    else:
        keys = {*facts, *run.facts}
    if first.cut_in == last + 1 and not first.has_died_outside(last + 1):
        keys.discard(f"{last + 1} starts")  # the same file may have been the end of the other, too, at another time
    lines = []
    for key in sorted(keys):
        left, right = facts.get(key), run.facts.get(key)
        if left == right or not is_told(key, last, left, right):
            continue
        if in_place and is_untold(first, run, key):
            continue
        if in_place and key.endswith(" exit code") and has_died(run):
            continue  # of the same file, perhaps in another turn: MySQL does so after a clean shutdown only
        if in_place and key.endswith(" exit code") and has_died_by_itself(first, run, key):
            continue
        if in_place and not is_comparable(in_place, key, left, right):
            if not key.endswith(" starts") or may_start_again(first, run, key):
                continue
        if isinstance(left, str) and isinstance(right, str):
            left, right = left.splitlines(), right.splitlines()
        if isinstance(left, list) and isinstance(right, list):
            left, right = [x for x in left if x not in right], [x for x in right if x not in left]
        lines.append(f"{key}:\n  {one}: {left}\n  {two}: {right}")
    return "\n".join(lines) or None


def has_died_by_itself(first: Outcome, run: Outcome, key: str) -> bool:
    """True if a server has died, in the turn of an exit code, of what MySQL dies of with any file that is not right.

    The other has seen the file at its start, and refused that.
    """
    turn = key.split(maxsplit=1)[0]
    said = "".join(first.facts.get(f"{turn} messages", []))
    return run.facts.get(f"{turn} starts") is False and any(words in said for words in (*OWN_DEATHS, WRONG_FILE))


def difference(one: str, first: Outcome, two: str, runs: list[Outcome], in_place: set[str]) -> str | None:
    """What the first server did, compared with the nearest run of the second; None if one run is the same in all."""
    found = [run_difference(one, first, two, run, in_place) for run in runs]
    told = [text for text in found if text is not None]
    if len(told) < len(found):
        return None
    return min(told, key=lambda text: (text.count("\n"), text))
