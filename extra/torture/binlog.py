# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""What the binary logs of a data directory hold, read from the files, and whether the tables hold the same.

Only what the rig writes is understood: GTIDs without tags, row events with full images, CRC32 checksums.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

_MAGIC = b"\xfebin"
_HEADER = struct.Struct("<IBIIIH")
_CHECKSUM_BYTES = 4
_QUERY, _FORMAT, _XID, _TABLE_MAP, _UPDATE_ROWS, _GTID, _XA_PREPARE = 2, 15, 16, 19, 31, 33, 38
# Compressed transactions and GTIDs with tags.
_NOT_UNDERSTOOD = frozenset({40, 42})
# What precedes the variable part of a query event: thread, time, length of the schema's name, error, length of the
# status variables.
_QUERY_HEAD = struct.Struct("<IIBHH")
# One phase or two, format, lengths of the two parts of the name.
_XA_PREPARE_HEAD = struct.Struct("<BIII")
_ENDED = re.compile(rb"^XA (COMMIT|ROLLBACK) X'([0-9a-f]*)'", re.IGNORECASE)
# Transactions that are named if they are missing somewhere.
_SHOWN = 5
# Transactions at the end of a file that may have been under way at once: one of each client.
LAST = 5

# The numbers of transactions, by the UUID of the server.
Gtids = dict[str, set[int]]


class BadBinlog(Exception):
    """A file is not what a server leaves behind."""


@dataclass
class Held:
    """What the files hold."""

    gtids: Gtids = field(default_factory=dict)
    # The number of the last committed transaction of each client that has one.
    progress: dict[int, int] = field(default_factory=dict)
    # The prepared transactions, with the number that they give to a client's progress.
    prepared: dict[str, dict[int, int]] = field(default_factory=dict)
    # The same of prepared transactions that are ended by one of the last events of a file; see compare().
    ended_last: dict[str, dict[int, int]] = field(default_factory=dict)


def read(data: Path) -> Held:
    """The files that the index of a data directory names, from the first to the last."""
    held = Held()
    for name in (data / "binlog.index").read_text(encoding="utf-8").split():
        _read_file(data / name, held)
    return held


def _events(path: Path) -> Iterator[tuple[int, bytes]]:
    """Type and body of each event of a file."""
    content = path.read_bytes()
    if content[: len(_MAGIC)] != _MAGIC:
        raise BadBinlog(f"{path.name} is no binary log")
    at = len(_MAGIC)
    while at < len(content):
        if at + _HEADER.size > len(content):
            raise BadBinlog(f"{path.name} ends within the header of an event at {at}")
        _, kind, _, size, _, _ = _HEADER.unpack_from(content, at)
        if size < _HEADER.size or at + size > len(content):
            raise BadBinlog(f"{path.name} ends within an event at {at} of {size} bytes")
        if kind in _NOT_UNDERSTOOD:
            raise BadBinlog(f"{path.name} has an event of type {kind} at {at}")
        yield kind, content[at + _HEADER.size : at + size - _CHECKSUM_BYTES]
        at += size


def _read_file(path: Path, held: Held) -> None:
    clients: dict[int, int] = {}  # the client whose progress a table is, by the number of the table
    progress: dict[int, int] = {}  # what the transaction that is being read changes
    number = 0  # of that transaction in the file
    ended: dict[str, tuple[int, dict[int, int]]] = {}
    for kind, body in _events(path):
        if kind == _GTID:
            uuid = body[1:17].hex()
            held.gtids.setdefault(uuid, set()).add(struct.unpack_from("<q", body, 17)[0])
            progress = {}
            number += 1
        elif kind == _TABLE_MAP:
            table = int.from_bytes(body[:6], "little")
            schema = body[9 : 9 + body[8]]
            relation = body[11 + body[8] : 11 + body[8] + body[10 + body[8]]]
            clients.pop(table, None)
            if relation == b"progress" and re.fullmatch(rb"c\d", schema):
                clients[table] = int(schema[1:])
        elif kind == _UPDATE_ROWS:
            client = clients.get(int.from_bytes(body[:6], "little"))
            if client is not None:
                progress[client] = struct.unpack("<i", body[-4:])[0]  # the last column of the row after the change
        elif kind == _XID:
            held.progress |= progress
        elif kind == _XA_PREPARE:
            is_one_phase, _, length, _ = _XA_PREPARE_HEAD.unpack_from(body)
            if is_one_phase:
                held.progress |= progress
            else:
                begin = _XA_PREPARE_HEAD.size
                held.prepared[body[begin : begin + length].decode()] = progress
        elif kind == _QUERY:
            _, _, schema_bytes, _, variables_bytes = _QUERY_HEAD.unpack_from(body)
            matched = _ENDED.match(body[_QUERY_HEAD.size + variables_bytes + schema_bytes + 1 :])
            if matched:
                name = bytes.fromhex(matched[2].decode()).decode()
                change = held.prepared.pop(name, {})
                ended[name] = (number, {client: held.progress.get(client, -1) for client in change})
                if matched[1].upper() == b"COMMIT":
                    held.progress |= change
    held.ended_last |= {name: before for name, (at, before) in ended.items() if at > number - LAST}


def parse_gtids(text: str) -> Gtids:
    """A set as gtid_executed shows it."""
    gtids: Gtids = {}
    for part in filter(None, text.replace("\n", "").replace(" ", "").split(",")):
        uuid, *ranges = part.split(":")
        numbers = gtids.setdefault(uuid.replace("-", ""), set())
        for word in ranges:
            first, _, last = word.partition("-")
            numbers.update(range(int(first), int(last or first) + 1))
    return gtids


def compare(
    held: Held, executed: Gtids, progress: dict[int, int], prepared: set[str]
) -> tuple[list[str], list[str]]:
    """How the files differ from gtid_executed, the clients' tables and the prepared transactions of a server.

    First what is wrong, then what MySQL does wrong, too: it marks a full file as closed before XA COMMIT or XA ROLLBACK
    is done in the engine. After a crash at that moment it does not look into the file, and the transaction is prepared
    still. Nobody has been told that it was ended.
    """
    wrong = []
    known = {name: before for name, before in held.ended_last.items() if name in prepared}
    before = {client: number for changes in known.values() for client, number in changes.items()}
    prepared = prepared - known.keys()
    for uuid in sorted(held.gtids.keys() | executed.keys()):
        mine, theirs = held.gtids.get(uuid, set()), executed.get(uuid, set())
        for more, what in ((theirs - mine, "in gtid_executed and in no binary log"),
                           (mine - theirs, "in a binary log and not in gtid_executed")):  # fmt: skip
            if more:
                wrong.append(f"{len(more)} transactions of {uuid} are {what}: {sorted(more)[:_SHOWN]}")
    for client, number in sorted(progress.items()):
        logged = before.get(client, held.progress.get(client, -1))
        if logged != number:
            what = f"{number} in the table and {logged} in the binary log"
            wrong.append(f"client {client}: its last transaction is {what}")
    for names, what in ((prepared - held.prepared.keys(), "and the binary log does not say so"),
                        (held.prepared.keys() - prepared, "in the binary log alone")):  # fmt: skip
        wrong += [f"{name} is prepared {what}" for name in sorted(names)]
    return wrong, [f"{name} is prepared, and the last transactions of a binary log end it" for name in sorted(known)]
