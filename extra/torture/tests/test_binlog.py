# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Binary logs are read event by event, and what they hold is compared with what a server says."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from torture import binlog

UUID = "00112233445566778899aabbccddeeff"


def event(kind: int, body: bytes) -> bytes:
    return struct.pack("<IBIIIH", 0, kind, 1, 19 + len(body) + 4, 0, 0) + body + b"crc!"


def gtid(number: int) -> bytes:
    return event(33, b"\0" + bytes.fromhex(UUID) + struct.pack("<q", number) + b"more")


def query(text: str) -> bytes:
    return event(2, struct.pack("<IIBHH", 1, 0, 2, 0, 3) + b"var" + b"c0\0" + text.encode())


def update(client: int, number: int, table: str = "progress") -> bytes:
    name = table.encode()
    place = (7 + client).to_bytes(6, "little")
    made = event(19, place + b"\0\0" + b"\2" + f"c{client}".encode() + b"\0" + bytes([len(name)]) + name + b"\0\2\3\3")
    return made + event(31, place + b"\0\0\2\0\2\xff\xff" + bytes(9) + b"\0" + struct.pack("<ii", 0, number))


def prepare(name: str) -> bytes:
    return event(38, struct.pack("<BIII", 0, 1, len(name), 0) + name.encode())


XID = event(16, bytes(8))


def read(folder: Path, *files: bytes) -> binlog.Held:
    names = []
    for number, content in enumerate(files):
        names.append(f"./binlog.{number:06}")
        (folder / names[-1]).write_bytes(b"\xfebin" + content)
    (folder / "binlog.index").write_text("\n".join(names) + "\n")
    return binlog.read(folder)


def test_what_was_committed_is_found(tmp_path: Path) -> None:
    held = read(
        tmp_path,
        gtid(1) + query("BEGIN") + update(0, 4) + XID + gtid(2) + query("BEGIN") + update(0, 5, "w") + XID,
        gtid(3) + query("BEGIN") + update(1, 8) + XID + gtid(4) + query("BEGIN") + update(0, 9),
    )
    assert held == binlog.Held({UUID: {1, 2, 3, 4}}, {0: 4, 1: 8}, {})


def test_two_phases(tmp_path: Path) -> None:
    begun = gtid(1) + query("XA START X'63302d39',X'',1") + update(0, 9) + query("XA END X'63302d39',X'',1")
    assert read(tmp_path, begun).prepared == {}
    held = read(tmp_path, begun + prepare("c0-9"))
    assert (held.progress, held.prepared) == ({}, {"c0-9": {0: 9}})
    held = read(tmp_path, begun + prepare("c0-9"), gtid(2) + query("XA COMMIT X'63302d39',X'',1"))
    assert (held.progress, held.prepared) == ({0: 9}, {})
    held = read(tmp_path, begun + prepare("c0-9"), gtid(2) + query("XA ROLLBACK X'63302d39',X'',1"))
    assert (held.progress, held.prepared) == ({}, {})


@pytest.mark.parametrize(
    ("content", "said"),
    [(XID[:10], "header of an event"), (XID[:-1], "within an event"), (event(40, b""), "type 40")],
)
def test_a_file_that_is_not_whole(content: bytes, said: str, tmp_path: Path) -> None:
    with pytest.raises(binlog.BadBinlog, match=said):
        read(tmp_path, content)
    (tmp_path / "binlog.000000").write_bytes(b"\0\0\0\0")
    with pytest.raises(binlog.BadBinlog, match="no binary log"):
        binlog.read(tmp_path)


def test_sets() -> None:
    text = "00112233-4455-6677-8899-aabbccddeeff:1-3:7,\n11111111-2222-3333-4444-555555555555:2"
    assert binlog.parse_gtids(text) == {UUID: {1, 2, 3, 7}, "11111111222233334444555555555555": {2}}
    assert binlog.parse_gtids("") == {}


def test_differences_are_named() -> None:
    held = binlog.Held({UUID: {1, 2}}, {0: 5}, {"c0-6": {0: 6}})

    def compare(executed: set[int], progress: dict[int, int], prepared: set[str]) -> list[str]:
        wrong, known = binlog.compare(held, {UUID: executed}, progress, prepared)
        assert known == []
        return wrong

    assert compare({1, 2}, {0: 5, 1: -1}, {"c0-6"}) == []
    (said,) = compare({1, 2, 3}, {0: 5}, {"c0-6"})
    assert "[3]" in said and "in no binary log" in said
    (said,) = compare({1}, {0: 5}, {"c0-6"})
    assert "[2]" in said and "not in gtid_executed" in said
    (said,) = compare({1, 2}, {0: 6}, {"c0-6"})
    assert said == "client 0: its last transaction is 6 in the table and 5 in the binary log"
    assert compare({1, 2}, {0: 5}, {"c1-1"}) == [
        "c1-1 is prepared and the binary log does not say so", "c0-6 is prepared in the binary log alone",
    ]  # fmt: skip


def test_what_mysql_does_wrong_is_known_and_nothing_else(tmp_path: Path) -> None:
    begun = gtid(1) + query("BEGIN") + update(0, 4) + XID + gtid(2) + query("XA START X'63302d39',X'',1") + update(0, 9)
    ended = begun + prepare("c0-9") + gtid(3) + query("XA COMMIT X'63302d39',X'',1")
    held = read(tmp_path, ended, gtid(4) + query("BEGIN") + update(1, 1) + XID)
    executed = {UUID: {1, 2, 3, 4}}
    assert binlog.compare(held, executed, {0: 9, 1: 1}, set()) == ([], [])
    wrong, known = binlog.compare(held, executed, {0: 4, 1: 1}, {"c0-9"})
    assert wrong == [] and "c0-9" in known[0]
    # The transaction is there, or it is prepared; it is not neither or both.
    assert binlog.compare(held, executed, {0: 4, 1: 1}, set())[0]
    assert binlog.compare(held, executed, {0: 9, 1: 1}, {"c0-9"})[0]
    later = b"".join(gtid(4 + number) + query("BEGIN") + update(1, number) + XID for number in range(binlog.LAST))
    held = read(tmp_path, ended + later)
    assert binlog.compare(held, held.gtids, {0: 4, 1: 4}, {"c0-9"})[0]
