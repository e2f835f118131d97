# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""What a server must hold after a crash, and what it may hold.

Each client has rows and tables of its own and does one step after the other: a transaction, or a statement that
changes a definition. What it has done is a list of steps, and what the server may hold after a crash is the state
after one of them. A step that was acknowledged must be in it; the one that was under way may be, as a whole.
All that is known is written to a journal before and after each step, so that the answer can be given again from
the journal.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

# Position of an acknowledgement, in bytes of the write log; no crash is after it.
NEVER = float("inf")
# Rows that are named in the description of a difference.
ROWS_SHOWN = 5

# A row: the step that wrote it last and the length of its content. Everything else in it follows from these.
Row = tuple[int, int]
Op = list[Any]


@dataclass
class Table:
    """What must be found of a table."""

    variant: str = "plain"
    columns: int = 0
    indexes: set[str] = field(default_factory=set)
    rows: dict[int, Row] = field(default_factory=dict)
    # DISCARD TABLESPACE: it has no rows, and no file of its own.
    is_discarded: bool = False
    # Discarded or not, there is no file where the dictionary says; this is judged apart.
    lacks_file: bool = field(default=False, compare=False)
    # Rows of the file that was copied, until it is imported; the server knows nothing of it.
    exported: dict[int, Row] | None = field(default=None, compare=False)


@dataclass
class State:
    """What one client has in the server. `progress` is the number of its last transaction."""

    progress: int = -1
    tables: dict[str, Table] = field(default_factory=dict)
    moves: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    undo: set[str] = field(default_factory=set)  # undo tablespaces

    def copy(self) -> State:
        tables = {
            name: Table(
                table.variant, table.columns, set(table.indexes), dict(table.rows), table.is_discarded,
                table.lacks_file, table.exported,
            )
            for name, table in self.tables.items()
        }
        return State(self.progress, tables, dict(self.moves), set(self.undo))

    @property
    def discarded(self) -> set[str]:
        """Tables without a file of their own."""
        return {name for name, table in self.tables.items() if table.is_discarded}

    def apply(self, step: Step) -> None:
        """Do what a step does."""
        if step.is_undone:
            return
        for op in step.ops:
            _APPLY[op[0]](self, step.number, *op[1:])
        if step.is_transaction:
            self.progress = step.number


def _insert(state: State, number: int, table: str, low: int, high: int, length: int) -> None:
    state.tables[table].rows.update((row, (number, length)) for row in range(low, high))


def _update(state: State, number: int, table: str, low: int, high: int, length: int) -> None:
    rows = state.tables[table].rows
    rows.update((row, (number, length)) for row in _within(rows, low, high))


def _delete(state: State, number: int, table: str, low: int, high: int) -> None:
    rows = state.tables[table].rows
    for row in _within(rows, low, high):
        del rows[row]


def _within(rows: dict[int, Row], low: int, high: int) -> list[int]:
    return [row for row in range(low, high) if row in rows]


def _move(state: State, number: int, source: int, target: int, amount: int) -> None:
    state.moves[number] = (source, target, amount)


def _create(state: State, number: int, table: str, variant: str) -> None:
    state.tables[table] = Table(variant)


def _drop(state: State, number: int, table: str) -> None:
    del state.tables[table]


def _truncate(state: State, number: int, table: str) -> None:
    state.tables[table].rows.clear()


def _rename(state: State, number: int, table: str, name: str) -> None:
    state.tables[name] = state.tables.pop(table)


def _index(state: State, number: int, table: str, index: str) -> None:
    state.tables[table].indexes.add(index)


def _unindex(state: State, number: int, table: str, index: str) -> None:
    state.tables[table].indexes.remove(index)


def _column(state: State, number: int, table: str, column: int) -> None:
    state.tables[table].columns = column + 1


def _export(state: State, number: int, table: str) -> None:
    state.tables[table].exported = dict(state.tables[table].rows)


def _discard(state: State, number: int, table: str) -> None:
    state.tables[table].rows = {}
    state.tables[table].is_discarded = True


def _import(state: State, number: int, table: str) -> None:
    found = state.tables[table]
    found.rows, found.exported = dict(found.exported or {}), None
    found.is_discarded = found.lacks_file = False


def _undo_create(state: State, number: int, name: str) -> None:
    state.undo.add(name)


def _undo_drop(state: State, number: int, name: str) -> None:
    state.undo.remove(name)


def _nothing(state: State, number: int, *_: object) -> None:
    """Nothing that a client could see."""


_APPLY: dict[str, Any] = {
    "insert": _insert,
    "update": _update,
    "delete": _delete,
    "move": _move,
    "create": _create,
    "drop": _drop,
    "abandon": _drop,
    "truncate": _truncate,
    "rename": _rename,
    "index": _index,
    "unindex": _unindex,
    "column": _column,
    "rebuild": _nothing,
    "optimize": _nothing,
    "export": _export,
    "discard": _discard,
    "import": _import,
    "undone": _nothing,
    "undo-create": _undo_create,
    "undo-drop": _undo_drop,
    "undo-inactive": _nothing,
    "undo-active": _nothing,
}


@dataclass
class Step:
    """Something a client did as a whole. The positions are None until the thing has happened."""

    number: int
    kind: str  # "tx"; "xa"; "ddl"; "xa-back", which is prepared and then rolled back
    ops: list[Op]
    prepared: float | None = None
    decided: float | None = None  # the second phase was sent
    acknowledged: float | None = None
    begun: float | None = None  # it was sent

    @property
    def is_transaction(self) -> bool:
        return self.kind in ("tx", "xa")

    @property
    def is_undone(self) -> bool:
        return self.kind == "xa-back"

    def must_be_there(self, limit: float) -> bool:
        """Whether a crash that only takes what was not acknowledged before `limit` leaves this step.

        A prepared transaction counts: whoever starts the server commits it.
        """
        return self.was_acknowledged(limit) or (self.prepared is not None and self.prepared < limit)

    def was_acknowledged(self, limit: float) -> bool:
        return self.acknowledged is not None and self.acknowledged < limit

    def was_under_way(self, begun: float, limit: float) -> bool:
        """Whether it was sent before `begun` and not acknowledged before `limit`."""
        return self.begun is not None and self.begun < begun and not self.was_acknowledged(limit)

    @property
    def has_changed_nothing(self) -> bool:
        """Whether all that it did was undone again. MySQL writes nothing of such an XA transaction to the binary log."""
        return all(op[0] == "undone" for op in self.ops)

    def must_be_prepared(self, limit: float) -> bool:
        """Whether it must still wait for its second phase."""
        return (
            self.prepared is not None
            and not (self.is_undone and self.has_changed_nothing)
            and self.prepared < limit
            and (self.decided is None or self.decided >= limit)
        )


@dataclass
class Observed:
    """What the server holds of one client; `broken` are rows whose content is not what their step wrote."""

    state: State
    broken: list[str] = field(default_factory=list)


@dataclass
class Verdict:
    """What a check found."""

    checked: int = 0
    lost: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    # What MySQL itself does wrong.
    known: list[str] = field(default_factory=list)
    # What full-text indexes were asked: see fulltext.py.
    text: Counter[str] = field(default_factory=Counter)

    def add(self, other: Verdict) -> None:
        self.checked += other.checked
        self.lost += [text for text in other.lost if text not in self.lost]
        self.wrong += other.wrong
        self.known += other.known
        self.text += other.text

    @property
    def is_clean(self) -> bool:
        return not self.lost and not self.wrong


class History:
    """The steps of one client since a state that was seen."""

    def __init__(self, client: int, base: State) -> None:
        self.client = client
        self.base = base
        self.steps: list[Step] = []

    def step(self, number: int) -> Step:
        return next(step for step in reversed(self.steps) if step.number == number)

    def gone(self, step: Step) -> str:
        return f"client {self.client}: step {step.number} ({step.kind}) is gone"

    def prepared(self, found: set[str], limit: float) -> tuple[dict[str, str], Verdict]:
        """What to do with each prepared transaction that the server has ("COMMIT", "ROLLBACK")."""
        verdict = Verdict()
        todo: dict[str, str] = {}
        for step in self.steps:
            if step.kind not in ("xa", "xa-back"):
                continue
            name = xid(self.client, step.number)
            if name in found:
                todo[name] = "ROLLBACK" if step.is_undone else "COMMIT"
                if step.was_acknowledged(limit):
                    verdict.lost.append(f"client {self.client}: {name} was ended and is prepared again")
            elif step.must_be_prepared(limit):
                verdict.lost.append(self.gone(step))
        return todo, verdict

    def judge(self, observed: Observed, limit: float = NEVER) -> Verdict:
        """Compare with what a crash may leave that takes nothing acknowledged before `limit`."""
        verdict = Verdict(wrong=[f"client {self.client}: {text}" for text in observed.broken])
        seen = observed.state
        state = self.base.copy()
        match = last = None  # the last step after which the state is equal, or has the same progress
        difference = f"its last transaction is {seen.progress}, which it never did"
        for at in range(-1, len(self.steps)):
            if at >= 0:
                state.apply(self.steps[at])
            if state.progress == seen.progress:
                last = at
                found = describe_difference(state, seen)
                if not found:
                    match = at
                difference = found
            elif last is not None:
                break
        required = [at for at, step in enumerate(self.steps) if step.must_be_there(limit)]
        if match is None:
            verdict.wrong.append(f"client {self.client}: after step {seen.progress}: {difference}")
        verdict.wrong += [
            f"client {self.client}: table {name} has lost its file"
            for name, table in sorted(seen.tables.items())
            if table.lacks_file and not self._may_lack_file(name, limit)
        ]
        held = match if match is not None else last
        missing = [] if held is None else [at for at in required if at > held]
        verdict.lost += [self.gone(self.steps[at]) for at in missing if not self.steps[at].is_undone]
        present = [self.steps[at] for at in required if at not in missing]
        verdict.checked = sum(step.was_acknowledged(limit) and not step.is_undone for step in present)
        return verdict

    def _may_lack_file(self, table: str, limit: float) -> bool:
        """Whether a crash may have ended DISCARD TABLESPACE between the file and the dictionary, now or before."""
        before = self.base.tables.get(table)
        return (before is not None and before.lacks_file) or any(
            step.ops == [["discard", table]] and not step.was_acknowledged(limit) for step in self.steps
        )


def describe_difference(expected: State, seen: State) -> str:
    """Empty if the states are equal."""
    if expected == seen:
        return ""
    parts = []
    if expected.progress != seen.progress:
        parts.append(f"its last transaction is {seen.progress} instead of {expected.progress}")
    for name in sorted(expected.tables.keys() | seen.tables.keys()):
        mine, theirs = expected.tables.get(name), seen.tables.get(name)
        if mine == theirs:
            continue
        if mine is None or theirs is None:
            parts.append(f"table {name} is {'missing' if theirs is None else 'too many'}")
            continue
        for what in ("variant", "columns", "indexes", "is_discarded"):
            if getattr(mine, what) != getattr(theirs, what):
                parts.append(f"{name}: {what} {getattr(theirs, what)} instead of {getattr(mine, what)}")
        parts += _differing(name, mine.rows, theirs.rows)
    parts += _differing("moves", expected.moves, seen.moves)
    if expected.undo != seen.undo:
        parts.append(f"undo tablespaces {sorted(seen.undo)} instead of {sorted(expected.undo)}")
    return "; ".join(parts)


def _differing(name: str, expected: dict[int, Any], seen: dict[int, Any]) -> list[str]:
    keys = sorted(key for key in expected.keys() | seen.keys() if expected.get(key) != seen.get(key))
    if not keys:
        return []
    shown = ", ".join(f"{key}: {seen.get(key)} instead of {expected.get(key)}" for key in keys[:ROWS_SHOWN])
    return [f"{name}: {len(keys)} rows differ: {shown}"]


def xid(client: int, number: int) -> str:
    """Name of the XA transaction of a step."""
    return f"c{client}-{number}"


def balances(accounts: int, opening: int, moves: list[tuple[int, int, int]]) -> list[int]:
    """What each account must hold after these transfers."""
    held = [opening] * accounts
    for source, target, amount in moves:
        held[source] -= amount
        held[target] += amount
    return held


# Journal


def _state_to_json(state: State) -> dict[str, Any]:
    tables = {
        name: [
            table.variant, table.columns, sorted(table.indexes), [[row, *what] for row, what in table.rows.items()],
            table.is_discarded, table.lacks_file,
        ]
        for name, table in state.tables.items()
    }
    moves = {str(number): move for number, move in state.moves.items()}
    return {"progress": state.progress, "tables": tables, "moves": moves, "undo": sorted(state.undo)}


def _state_from_json(data: dict[str, Any]) -> State:
    tables = {
        name: Table(variant, columns, set(indexes), {row: (number, length) for row, number, length in rows}, *more)
        for name, (variant, columns, indexes, rows, *more) in data["tables"].items()
    }
    moves = {int(number): (a, b, amount) for number, (a, b, amount) in data["moves"].items()}
    return State(data["progress"], tables, moves, set(data["undo"]))


class Journal:
    """The file of all steps of all clients since a state that was seen.

    It lies outside of what crashes, so that it needs no fsync. There is a thread for each client.
    """

    def __init__(self, path: Path, histories: list[History]) -> None:
        self._lock = threading.Lock()
        self._file: IO[str] = path.open("w", encoding="ascii")
        for history in histories:
            self._write({"c": history.client, "base": _state_to_json(history.base)})

    def _write(self, record: dict[str, Any]) -> None:
        line = json.dumps(record) + "\n"
        with self._lock:
            self._file.write(line)
            self._file.flush()

    def begin(self, client: int, step: Step) -> None:
        self._write({"c": client, "n": step.number, "kind": step.kind, "ops": step.ops})

    def mark(self, client: int, step: Step, what: str, position: float) -> None:
        """`what` is the name of a position of the step."""
        setattr(step, what, position)
        self._write({"c": client, "n": step.number, "mark": what, "at": position})

    def failed(self, client: int, step: Step, reason: str) -> None:
        """The server has said that the step has not happened."""
        self._write({"c": client, "n": step.number, "failed": reason})

    def close(self) -> None:
        self._file.close()


def write_journal(path: Path, histories: list[History]) -> None:
    """A journal of what has been, for read_journal()."""
    journal = Journal(path, histories)
    for history in histories:
        for step in history.steps:
            journal.begin(history.client, step)
            for what in ("prepared", "decided", "acknowledged"):
                if (position := getattr(step, what)) is not None:
                    journal.mark(history.client, step, what, position)
    journal.close()


def read_journal(path: Path) -> list[History]:
    """The histories that a journal holds."""
    histories: dict[int, History] = {}
    with path.open(encoding="ascii") as file:
        for line in file:
            record = json.loads(line)
            client = record["c"]
            if "base" in record:
                histories[client] = History(client, _state_from_json(record["base"]))
                continue
            history = histories[client]
            if "kind" in record:
                history.steps.append(Step(record["n"], record["kind"], record["ops"]))
            elif "mark" in record:
                setattr(history.step(record["n"]), record["mark"], record["at"])
            else:
                history.steps.remove(history.step(record["n"]))
    return [histories[client] for client in sorted(histories)]
