# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Replication, clone and dumps between stock MySQL and this build, in both directions.

REDSTART_MYSQLD, REDSTART_PLUGINS and REDSTART_CLIENTS name this build's server and folders,
REDSTART_STOCK a root directory with Debian's mysql-server-core. Stock runs by the loader of that
root, so that no chroot is needed. All of them are needed.
"""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dropin.load import Ended, problem_of_load
from dropin.server import Server, given
from redstart_cli.mysqld import Binary, find_stock
from redstart_cli.server import free_port

MYSQLD, PLUGINS = given("REDSTART_MYSQLD"), given("REDSTART_PLUGINS")
CLIENTS, STOCK = given("REDSTART_CLIENTS"), given("REDSTART_STOCK")
WAIT_SEC = 120
LOAD_CLIENTS = 3

REPLICATION = (
    "--gtid-mode=ON",
    "--enforce-gtid-consistency=ON",
    "--log-replica-updates=ON",
    "--bind-address=127.0.0.1",
    # A lost packet of semi-sync must show, not end in asynchronous replication.
    "--plugin-load-add=semisync_source.so",
    "--plugin-load-add=semisync_replica.so",
    "--plugin-load-add=mysql_clone.so",
    "--loose-rpl-semi-sync-source-timeout=120000",
)


def _binary(kind: str) -> Binary:
    if kind == "ours":
        return Binary(kind, [MYSQLD], [f"--plugin-dir={PLUGINS}"])
    found = find_stock(Path(STOCK))
    assert found, f"there is no stock server below {STOCK}"
    return found


class Member(Server):
    """A server that replicates."""

    def __init__(self, folder: Path, kind: str, number: int) -> None:
        self.kind = kind
        port = free_port()
        binary = _binary(kind)
        super().__init__(
            folder,
            binary.command,
            f"{CLIENTS}/mysql",
            *binary.options,
            *REPLICATION,
            f"--port={port}",
            f"--server-id={number}",
            "--relay-log=relay",
        )
        self.port = port

    def check_version(self) -> None:
        assert ("redstart" in self.ask("SELECT VERSION()")[0][0]) == (self.kind == "ours")

    def sums(self) -> list[list[str]]:
        names = self.ask("SELECT CONCAT('t.', table_name) FROM information_schema.tables WHERE table_schema = 't' ORDER BY 1")
        return self.ask("CHECKSUM TABLE " + ", ".join(name for (name,) in names))

    def follow(self, source: Member) -> None:
        self.ask(
            "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_USER = 'repl', SOURCE_PASSWORD = 'r',"
            f" SOURCE_PORT = {source.port}, SOURCE_AUTO_POSITION = 1, GET_SOURCE_PUBLIC_KEY = 1, SOURCE_CONNECT_RETRY = 1;"
            " SET GLOBAL rpl_semi_sync_replica_enabled = ON; START REPLICA"
        )

    def catch_up(self, source: Member) -> None:
        gtids = source.ask("SELECT REPLACE(@@GLOBAL.gtid_executed, '\\n', '')")[0][0].replace("\\n", "")
        done = self.ask(f"SELECT WAIT_FOR_EXECUTED_GTID_SET('{gtids}', {WAIT_SEC})")[0][0]
        assert done == "0", self.client("SHOW REPLICA STATUS\\G").stdout + self.tail()


def _load_sql(number: int, client: int) -> str:
    """Rows of its own for each client: nobody waits for another, so that each error is one."""
    lines = ["SET SESSION transaction_isolation = 'READ-COMMITTED';"]
    for i in range(40):
        lines.append(f"UPDATE t.base SET n = n + 1, s = RANDOM_BYTES(60) WHERE id % 97 = {client * 25 + i % 25};")
        lines.append(f"INSERT INTO t.base (s, n) SELECT s, n FROM t.base WHERE id % 101 = {i} AND id % 3 = {client};")
        table = f"t.c{number}_{client}_{i}"
        lines.append(f"CREATE TABLE {table} (i INT PRIMARY KEY, b BLOB); INSERT INTO {table} VALUES (1, RANDOM_BYTES(1000));")
        if i % 3 == 2:
            lines.append(f"DROP TABLE t.c{number}_{client}_{i - 1}; ALTER TABLE {table} ADD COLUMN c INT DEFAULT 3, ADD KEY (c);")
    return "\n".join(lines)


def _start_load(server: Member, number: int) -> list[subprocess.Popen[str]]:
    load = []
    for client in range(LOAD_CLIENTS):
        process = subprocess.Popen(
            server.client_words(f"{CLIENTS}/mysql"),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdin
        process.stdin.write(_load_sql(number, client))
        process.stdin.close()
        load.append(process)
    # Each client has written its first table, so that what follows meets all of them at work.
    tables = ", ".join(f"'c{number}_{client}_0'" for client in range(LOAD_CLIENTS))
    begun = f"SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 't' AND table_name IN ({tables})"
    end = time.monotonic() + WAIT_SEC
    while server.ask(begun) != [[str(LOAD_CLIENTS)]]:
        assert time.monotonic() < end, "the load does not begin" + server.tail()
        time.sleep(0.1)
    return load


def _end_load(load: list[subprocess.Popen[str]], lost: bool = False) -> None:
    """Wait for a load's end; `lost`: its server was killed meanwhile."""
    ended = []
    for process in load:
        assert process.stderr
        text = process.stderr.read()
        ended.append(Ended(process.wait(WAIT_SEC), text))
    assert not (problem := problem_of_load(ended, lost)), problem


@pytest.fixture(params=[("stock", "ours"), ("ours", "stock")], ids=["stock-to-ours", "ours-to-stock"])
def pair(request: pytest.FixtureRequest) -> Iterator[tuple[Member, Member]]:
    """A source with data and a replica that is empty."""
    # The path of a socket must be short.
    with (
        tempfile.TemporaryDirectory(prefix="redstart-repl.") as folder,
        Member(Path(folder, "a"), request.param[0], 1) as source,
        Member(Path(folder, "b"), request.param[1], 2) as replica,
    ):
        for member in (source, replica):
            member.initialize()
            member.start()
            member.check_version()
        source.ask(
            "CREATE USER repl@'127.0.0.1' IDENTIFIED BY 'r'; GRANT REPLICATION SLAVE, BACKUP_ADMIN ON *.* TO repl@'127.0.0.1';"
            "CREATE DATABASE t; "
            "CREATE TABLE t.base (id BIGINT AUTO_INCREMENT PRIMARY KEY, s VARBINARY(120), n INT, KEY (n), KEY (s))"
            " SELECT NULL AS id, RANDOM_BYTES(60) AS s, FLOOR(RAND() * 1000) AS n FROM information_schema.columns;"
            "SET GLOBAL rpl_semi_sync_source_enabled = ON"
        )
        assert int(source.ask("SELECT COUNT(*) FROM t.base")[0][0]) > 1000
        yield source, replica
        for member in (replica, source):
            member.stop()


def test_replication(pair: tuple[Member, Member]) -> None:
    """GTID and semi-sync, under load, with a kill of each side."""
    source, replica = pair
    replica.follow(source)
    replica.catch_up(source)
    _end_load(_start_load(source, 1))
    replica.catch_up(source)
    assert replica.sums() == source.sums()
    status = dict(source.ask("SHOW GLOBAL STATUS LIKE 'Rpl_semi_sync_source%'"))
    assert status["Rpl_semi_sync_source_status"] == "ON" and status["Rpl_semi_sync_source_clients"] == "1", status
    assert int(status["Rpl_semi_sync_source_yes_tx"]) > 100 and status["Rpl_semi_sync_source_no_tx"] == "0", status

    # The replica is killed; the source waits for it, and goes on.
    load = _start_load(source, 2)
    time.sleep(1)
    replica.kill()
    replica.start()
    replica.ask("SET GLOBAL rpl_semi_sync_replica_enabled = ON; STOP REPLICA; START REPLICA")
    _end_load(load)
    replica.catch_up(source)
    assert replica.sums() == source.sums()

    # The source is killed; nothing that it has is missing there.
    load = _start_load(source, 3)
    time.sleep(1)
    source.kill()
    _end_load(load, lost=True)
    source.start()
    source.ask("SET GLOBAL rpl_semi_sync_source_enabled = ON")
    replica.ask("STOP REPLICA; START REPLICA")
    replica.catch_up(source)
    assert replica.sums() == source.sums()
    errors = "SELECT COUNT(*) FROM performance_schema.replication_applier_status_by_worker WHERE last_error_number != 0"
    assert replica.ask(errors) == [["0"]]


def test_clone(pair: tuple[Member, Member]) -> None:
    """A new replica by the clone plugin, then replication from there."""
    source, replica = pair
    replica.ask(f"SET GLOBAL clone_valid_donor_list = '127.0.0.1:{source.port}'")
    result = replica.client(f"CLONE INSTANCE FROM repl@'127.0.0.1':{source.port} IDENTIFIED BY 'r'")
    # Nobody restarts the server, which therefore ends: ER_CANT_RESTART (3707).
    assert result.returncode == 0 or "ERROR 3707" in result.stderr, result.stderr
    replica.wait_for_end()
    replica.start()
    replica.check_version()
    assert replica.ask("SELECT state, error_no FROM performance_schema.clone_status") == [["Completed", "0"]]
    assert replica.sums() == source.sums()
    replica.follow(source)
    _end_load(_start_load(source, 1))
    replica.catch_up(source)
    assert replica.sums() == source.sums()


def test_dump(pair: tuple[Member, Member]) -> None:
    """mysqldump of one server, loaded into the other."""
    source, replica = pair
    # Nobody follows it, so that its first commit would wait as long as this test does.
    source.ask("SET GLOBAL rpl_semi_sync_source_enabled = OFF")
    dump = [f"{CLIENTS}/mysqldump", "--no-defaults", "--user=root", "--single-transaction", "--hex-blob", "--databases", "t"]
    _end_load(_start_load(source, 1))
    text = subprocess.run([*dump, "--set-gtid-purged=OFF", f"--socket={source.folder}/s"], capture_output=True, check=True).stdout
    subprocess.run(replica.client_words(f"{CLIENTS}/mysql"), input=text, check=True)
    assert replica.sums() == source.sums()


GROUP = (
    "--plugin-load-add=group_replication.so",
    "--loose-group-replication-group-name=9f0e6f5e-5b0e-4c55-9d7c-3b1f6a7c2d10",
    "--loose-group-replication-start-on-boot=OFF",
    "--loose-group-replication-recovery-get-public-key=ON",
    "--loose-group-replication-autorejoin-tries=0",
    "--report-host=127.0.0.1",
)


def _await_members(member: Member, number: int) -> None:
    """Until so many members are online, as this one sees it."""
    end = time.monotonic() + WAIT_SEC
    online = "SELECT COUNT(*) FROM performance_schema.replication_group_members WHERE member_state = 'ONLINE'"
    while member.ask(online) != [[str(number)]]:
        assert time.monotonic() < end, str(member.ask("SELECT * FROM performance_schema.replication_group_members")) + member.tail()
        time.sleep(0.2)


def _await_primary(*members: Member) -> Member:
    """Until the group has elected one of these, which it does when it has given up the one that is gone."""
    end = time.monotonic() + WAIT_SEC
    primary = (
        "SELECT member_port FROM performance_schema.replication_group_members"
        " WHERE member_role = 'PRIMARY' AND member_state = 'ONLINE'"
    )
    while True:
        ports = [row[0] for row in members[0].ask(primary)]
        for member in members:
            if ports == [str(member.port)] and member.ask("SELECT @@super_read_only") == [["0"]]:
                return member
        assert time.monotonic() < end, str(ports) + members[0].tail()
        time.sleep(0.2)


def test_group() -> None:
    """Two members of stock and one of this build; it is killed and rejoins, as secondary and as primary."""
    ports = [free_port() for _ in range(3)]
    seeds = ",".join(f"127.0.0.1:{port}" for port in ports)
    members = []
    with tempfile.TemporaryDirectory(prefix="redstart-group.") as folder, contextlib.ExitStack() as servers:
        for number, kind in enumerate(("stock", "stock", "ours")):
            member = servers.enter_context(Member(Path(folder, str(number)), kind, number + 1))
            address = [
                f"--loose-group-replication-local-address=127.0.0.1:{ports[number]}",
                f"--loose-group-replication-group-seeds={seeds}",
            ]
            member.add_options(*GROUP, *address)
            member.initialize()
            member.start()
            member.check_version()
            members.append(member)
            member.ask(
                "SET sql_log_bin = 0; CREATE USER repl@'%' IDENTIFIED BY 'r';"
                " GRANT REPLICATION SLAVE, BACKUP_ADMIN, GROUP_REPLICATION_STREAM ON *.* TO repl@'%';"
                " SET sql_log_bin = 1;"
                " CHANGE REPLICATION SOURCE TO SOURCE_USER = 'repl', SOURCE_PASSWORD = 'r' FOR CHANNEL 'group_replication_recovery'"
            )
        first, second, ours = members
        first.ask(
            "SET GLOBAL group_replication_bootstrap_group = ON; START GROUP_REPLICATION;"
            " SET GLOBAL group_replication_bootstrap_group = OFF"
        )
        _await_members(first, 1)
        first.ask(
            "CREATE DATABASE t; "
            "CREATE TABLE t.base (id BIGINT AUTO_INCREMENT PRIMARY KEY, s VARBINARY(120), n INT, KEY (n), KEY (s))"
            " SELECT NULL AS id, RANDOM_BYTES(60) AS s, FLOOR(RAND() * 1000) AS n FROM information_schema.columns LIMIT 3000"
        )
        for member in (second, ours):
            member.ask("START GROUP_REPLICATION")
        _await_members(first, 3)

        def expect_same(source: Member, *others: Member) -> None:
            for other in others:
                other.catch_up(source)
                assert other.sums() == source.sums()

        _end_load(_start_load(first, 1))
        expect_same(first, second, ours)

        # As secondary.
        load = _start_load(first, 2)
        time.sleep(1)
        ours.kill()
        _end_load(load)
        _await_members(first, 2)
        ours.start()
        ours.ask("START GROUP_REPLICATION")
        _await_members(first, 3)
        expect_same(first, second, ours)

        # As primary.
        (uuid,) = ours.ask("SELECT @@server_uuid")[0]
        first.ask(f"SELECT group_replication_set_as_primary('{uuid}')")
        load = _start_load(ours, 3)
        time.sleep(1)
        ours.kill()
        _end_load(load, lost=True)
        _await_members(first, 2)
        survivor = _await_primary(first, second)
        _end_load(_start_load(survivor, 4))
        ours.start()
        ours.ask("START GROUP_REPLICATION")
        _await_members(first, 3)
        expect_same(survivor, *(member for member in members if member is not survivor))
        for member in reversed(members):
            member.stop()
