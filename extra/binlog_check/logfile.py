# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The events of a binary log, found from the file, and ways to damage it."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from pathlib import Path

MAGIC = b"\xfebin"
_HEADER = struct.Struct("<IBIIIH")
QUERY, STOP, ROTATE, FORMAT, XID, GTID, ANONYMOUS_GTID, TAGGED_GTID = 2, 3, 4, 15, 16, 33, 34, 42
GTIDS = frozenset({GTID, ANONYMOUS_GTID, TAGGED_GTID})
IN_USE = 1
_FLAGS_AT = 4 + 17
# sql/binlog/startup_scan.h
MIN_SKIP_BYTES = 65536
# Flags, UUID, number, kind of the logical time, two logical times.
_GTID_POST_HEADER = 1 + 16 + 8 + 1 + 8 + 8
_NOTE = struct.Struct("<8sQQII4x")
# sql/binlog/synced_mark.h: of a closed file.
_GTIDS = struct.Struct("<8sQII")
_TAIL_BYTES = 23
# Of a file that is written to.
_CHECKPOINT = struct.Struct("<8sQIIQ")
NOTE_BYTES = _NOTE.size + 4


@dataclass(frozen=True)
class Event:
    """Where an event is, in bytes, and its type."""

    begin: int
    end: int
    kind: int


@dataclass(frozen=True)
class Checkpoint:
    """The last transaction before which a recovery needs nothing, and the encoded GTIDs up to its end."""

    begin: int
    end: int
    gtids: bytes
    # Of InnoDB, up to which all was durable.
    lsn: int = 0


@dataclass(frozen=True)
class Transaction:
    """The events from a GTID to the one before the next."""

    events: tuple[Event, ...]

    @property
    def begin(self) -> int:
        return self.events[0].begin

    @property
    def end(self) -> int:
        return self.events[-1].end

    @property
    def middle(self) -> range:
        """What a start may move over; empty if it has to read all."""
        if len(self.events) < 3 or self.events[1].kind != QUERY or self.events[-1].kind != XID:
            return range(0)
        found = range(self.events[1].end, self.events[-1].begin)
        return found if len(found) >= MIN_SKIP_BYTES else range(0)


def events(content: bytes) -> list[Event]:
    """The whole events of a file, up to the first that is none."""
    found: list[Event] = []
    if not content.startswith(MAGIC):
        return found
    at = len(MAGIC)
    while at + _HEADER.size <= len(content):
        _, kind, _, size, _, _ = _HEADER.unpack_from(content, at)
        if size < _HEADER.size or at + size > len(content):
            break
        found.append(Event(at, at + size, kind))
        at += size
    return found


def transactions(content: bytes) -> list[Transaction]:
    """What begins with a GTID event, anonymous ones included."""
    groups: list[list[Event]] = []
    for event in events(content):
        if event.kind in GTIDS:
            groups.append([event])
        elif groups and event.kind not in (STOP, ROTATE):
            groups[-1].append(event)
    return [Transaction(tuple(group)) for group in groups]


def is_in_use(content: bytes) -> bool:
    """True if the file was not closed."""
    return bool(content[_FLAGS_AT] & IN_USE)


def note_path(log: Path) -> Path:
    """The file in which a server notes what it knows of its binary log."""
    return log.with_suffix(".startup")


def write_note(path: Path, synced_bytes: int) -> None:
    """Note that so much of a binary log was synced, as the server does it; see sql/binlog/synced_mark.h.

    Of an encrypted one, and one without a whole first event, there is no note.
    """
    content = path.read_bytes()
    if not content.startswith(MAGIC) or _first_event(content)[1] > len(content):
        return
    first = bytearray(content[slice(*_first_event(content))])
    first[17] &= ~IN_USE & 0xFF
    note = _NOTE.pack(
        b"MYBLSYN1", path.stat().st_ino, synced_bytes, zlib.crc32(path.name.encode()), zlib.crc32(bytes(first))
    )
    note_path(path).write_bytes(note + struct.pack("<I", zlib.crc32(note)))


def read_note(path: Path) -> int:
    """How much of a binary log is noted as synced, 0 if there is no note about it."""
    note = note_path(path)
    content = note.read_bytes()[:NOTE_BYTES] if note.exists() else b""
    if len(content) != NOTE_BYTES or struct.pack("<I", zlib.crc32(content[:-4])) != content[-4:]:
        return 0
    _, inode, synced, name, _ = _NOTE.unpack(content[:-4])
    return int(synced) if (inode, name) == (path.stat().st_ino, zlib.crc32(path.name.encode())) else 0


def read_checkpoint(path: Path) -> Checkpoint | None:
    """What a server has noted while it wrote to a binary log."""
    note = note_path(path)
    content = note.read_bytes() if note.exists() else b""
    synced = read_note(path)
    if not synced or len(content) < NOTE_BYTES + _CHECKPOINT.size + 4:
        return None
    magic, begin, length, n_gtids, lsn = _CHECKPOINT.unpack_from(content, NOTE_BYTES)
    at = NOTE_BYTES + _CHECKPOINT.size
    crc = content[at + n_gtids : at + n_gtids + 4]
    if magic != b"MYBLCHK2" or crc != _checkpoint_crc(content, at + n_gtids) or begin + length > synced:
        return None
    return Checkpoint(begin, begin + length, content[at : at + n_gtids], lsn)


def _checkpoint_crc(content: bytes, end: int) -> bytes:
    """The checksum of what a note says up to there, whatever it says of what was synced."""
    first = content[:16] + bytes(8) + content[24 : NOTE_BYTES - 4]
    return struct.pack("<I", zlib.crc32(first + content[NOTE_BYTES:end]))


def write_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Add a checkpoint to the note about a binary log."""
    note = note_path(path)
    length = checkpoint.end - checkpoint.begin
    head = _CHECKPOINT.pack(b"MYBLCHK2", checkpoint.begin, length, len(checkpoint.gtids), checkpoint.lsn)
    content = note.read_bytes()[:NOTE_BYTES] + head + checkpoint.gtids
    note.write_bytes(content + _checkpoint_crc(content, len(content)))


def encoded_set(uuid: str, last: int) -> bytes:
    """The GTIDs 1 to `last` of a server, as in a Previous_gtids event."""
    return struct.pack("<Q16sQQQ", 1, bytes.fromhex(uuid.replace("-", "")), 1, 1, last + 1)


def read_gtids(path: Path) -> bytes | None:
    """The encoded set of GTIDs that a server has noted when it closed a binary log, or None."""
    note = note_path(path)
    content = note.read_bytes() if note.exists() else b""
    if content[NOTE_BYTES : NOTE_BYTES + 8] != b"MYBLGTI1" or struct.pack("<I", zlib.crc32(content[:-4])) != content[-4:]:
        return None
    return content[NOTE_BYTES + _GTIDS.size : -4]


def write_gtids(path: Path, gtids: bytes) -> None:
    """Note what a server notes when it has closed a binary log: all of it was synced, and these GTIDs are in it."""
    write_note(path, path.stat().st_size)
    note = note_path(path)
    tail = zlib.crc32(path.read_bytes()[-_TAIL_BYTES:])
    content = note.read_bytes() + _GTIDS.pack(b"MYBLGTI1", path.stat().st_mtime_ns, tail, len(gtids)) + gtids
    note.write_bytes(content + struct.pack("<I", zlib.crc32(content)))


def name_the_copy(path: Path) -> None:
    """Make the note, if there is one, about this binary log, which is a copy of the one that it is about.

    It says which one that is by the inode and, if that was closed, the time.
    """
    note = note_path(path)
    content = note.read_bytes() if note.exists() else b""
    magic, _, synced, name, event = _NOTE.unpack_from(content) if len(content) >= NOTE_BYTES else (b"", 0, 0, 0, 0)
    if magic != b"MYBLSYN1":
        return
    first = _NOTE.pack(magic, path.stat().st_ino, synced, name, event)
    more = content[NOTE_BYTES:]
    content = first + struct.pack("<I", zlib.crc32(first)) + more
    if more.startswith(b"MYBLCHK2"):
        end = NOTE_BYTES + _CHECKPOINT.size + int(_CHECKPOINT.unpack_from(more)[3])
        content = content[:end] + _checkpoint_crc(content, end)
    elif more:
        _, _, tail, n_gtids = _GTIDS.unpack_from(more)
        head = _GTIDS.pack(b"MYBLGTI1", path.stat().st_mtime_ns, tail, n_gtids)
        content = content[:NOTE_BYTES] + head + more[_GTIDS.size : -4]
        content += struct.pack("<I", zlib.crc32(content))
    note.write_bytes(content)


def without_one(gtids: bytes) -> bytes | None:
    """A set that lacks one GTID: the last of an interval of several. None if there is none."""
    changed = bytearray(gtids)
    is_tagged = gtids[7] == 1
    (n_sources,) = struct.unpack("<Q", gtids[:8])
    if is_tagged:
        # The format stands in the first and the last byte.
        n_sources = (n_sources & 0x00FFFFFFFFFFFFFF) >> 8
    at = 8
    for _ in range(n_sources):
        at += 16
        if is_tagged:
            # Tags have at most 32 characters; the length is packed in one byte.
            at += 1 + (gtids[at] >> 1)
        (n_intervals,) = struct.unpack_from("<Q", gtids, at)
        at += 8
        for _ in range(n_intervals):
            begin, end = struct.unpack_from("<QQ", gtids, at)
            if end > begin + 1:
                struct.pack_into("<Q", changed, at + 8, end - 1)
                return bytes(changed)
            at += 16
    return None


def _first_event(content: bytes) -> tuple[int, int]:
    if len(content) < 4 + _HEADER.size:
        return 4, len(content) + 1
    size = struct.unpack_from("<I", content, 4 + 9)[0]
    return 4, 4 + size


def lengthened(content: bytes, first: Transaction, second: Transaction, has_checksum: bool) -> bytes | None:
    """The file with a GTID event that says that its transaction has the length of two; None if that does not fit.

    A start that believes it goes from the first to the end of the second, and misses the second's GTID.
    """
    event = first.events[0]
    if event.kind == TAGGED_GTID:
        return None
    body = bytearray(content[event.begin : event.end])
    old, new = (_packed(end - first.begin) for end in (first.end, second.end))
    at = body.find(old, _HEADER.size + _GTID_POST_HEADER)
    if at < 0 or len(old) != len(new):
        return None
    body[at : at + len(new)] = new
    if has_checksum:
        body[-4:] = struct.pack("<I", zlib.crc32(bytes(body[:-4])))
    return content[: event.begin] + bytes(body) + content[event.end :]


def _packed(number: int) -> bytes:
    """A number as the protocol packs it."""
    if number < 251:
        return bytes([number])
    if number < 1 << 16:
        return b"\xfc" + struct.pack("<H", number)
    return b"\xfd" + struct.pack("<I", number)[:3]
