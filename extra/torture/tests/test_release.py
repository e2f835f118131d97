# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""A server may refuse a data directory only where a start was interrupted that may have changed its release."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from redstart_cli.mysqld import Binary
from redstart_cli.tools import ToolError
from torture import life
from torture.life import Block, Counts, Crash, Rig, after_block, after_kill, keep_met
from torture.release import CACHE, MINIMAL, ROLLED_BACK, Releases, release_of, releases_of
from torture.server import CHANGE_TIMEOUT_SEC, STANDSTILL_SEC, Place, Server

OLD, NEW = 90702, 90704
BINARIES = {name: Binary(name, []) for name in ("ours", "off", "stock", "older")}


def pending(begun: int, done: int) -> str:
    return (
        f"T 1 [ERROR] [MY-013379] [Server] Server upgrade started with version {begun}, but server upgrade of version {done} is"
        " still pending.\nT 0 [ERROR] [MY-010020] [Server] Data Dictionary initialization failed."
    )


def rig_of(work: Path) -> Rig:
    return Rig(dict(BINARIES), "ours", work, [], releases={"ours": NEW, "off": NEW, "stock": NEW, "older": OLD})


def test_a_start_of_the_same_release_changes_nothing() -> None:
    assert Releases.settled(NEW).interrupted(NEW) == Releases.settled(NEW)


def test_what_an_interrupted_change_may_leave() -> None:
    once = Releases.settled(NEW).interrupted(OLD)
    assert once.possible == {(NEW, NEW), (OLD, NEW), (OLD, OLD)}
    # A second one, back: what it has met is not known.
    assert once.interrupted(NEW).possible == once.possible | {(NEW, OLD)}
    # A server that is refused was killed before it said so.
    assert Releases(frozenset({(OLD, NEW)})).interrupted(NEW).possible == {(OLD, NEW)}
    assert Releases(frozenset({(OLD, NEW)})).interrupted(OLD).possible == {(OLD, NEW), (OLD, OLD)}


def test_only_the_release_that_was_begun_starts_after_a_refusal() -> None:
    left = Releases.settled(NEW).interrupted(OLD).refused(NEW, 1, pending(NEW, NEW))
    assert left and left.possible == {(OLD, NEW)} and left.may_start() == {OLD}
    # It is the other way round after a second change, and the message has the numbers of that.
    twice = Releases.settled(NEW).interrupted(OLD).interrupted(NEW)
    left = twice.refused(OLD, 1, pending(OLD, OLD))
    assert left and left.may_start() == {NEW}


@pytest.mark.parametrize(
    ("releases", "release", "code", "said"),
    [
        # Nothing was interrupted, or a start of the same release.
        (Releases.settled(NEW), OLD, 1, pending(OLD, NEW)),
        (Releases.settled(NEW), NEW, 1, pending(NEW, NEW)),
        (Releases.settled(NEW).interrupted(NEW), OLD, 1, pending(OLD, NEW)),
        # The server of the new release itself, and one of another release than the message says.
        (Releases.settled(OLD).interrupted(NEW), NEW, 1, pending(NEW, OLD)),
        (Releases.settled(OLD).interrupted(NEW), OLD, 1, pending(NEW, OLD)),
        # What is pending is something else.
        (Releases.settled(OLD).interrupted(NEW), OLD, 1, pending(OLD, 90703)),
        # Once a server has answered, nothing is pending.
        (Releases.settled(OLD).interrupted(NEW).refused(OLD, 1, pending(OLD, OLD)), NEW, 1, pending(NEW, OLD)),
        # Another end, or another message.
        (Releases.settled(OLD).interrupted(NEW), OLD, -6, pending(OLD, OLD)),
        (Releases.settled(OLD).interrupted(NEW), OLD, None, pending(OLD, OLD)),
        (Releases.settled(OLD).interrupted(NEW), OLD, 1, "T 0 [ERROR] [MY-010020] [Server] Data Dictionary initialization failed."),
    ],
)
def test_a_refusal_without_such_a_start_is_not_the_rule(releases: Releases, release: int, code: int | None, said: str) -> None:
    assert releases.refused(release, code, said) is None


class FakeServer:
    """A server that dies at its start with some words, or does not."""

    poll_sec = 0.0
    begin = 0.0

    def __init__(self, binary: Binary, said: str = "", code: int | None = None, extra: tuple[str, ...] = ()) -> None:
        self.extra = extra
        self.binary, self._said, self.process = binary, said, SimpleNamespace(returncode=code)

    def wait_ready(self) -> str:
        return "" if self.process.returncode is None else f"{self.binary.name} ended with {self.process.returncode}"

    @property
    def has_died(self) -> bool:
        return self.process.returncode is not None

    def said(self) -> str:
        return self._said

    def errors(self) -> str:
        return "it said why"

    def stop(self) -> str:
        return ""

    def changes_release(self) -> bool:
        return Server.changes_release(cast(Server, self))

    def has_changed_release(self) -> bool:
        return Server.has_changed_release(cast(Server, self))

    def is_open(self) -> bool:
        return "ready" in self._said

    def has_opened_innodb(self) -> bool:
        return "InnoDB" in self._said


def begun(servers: Sequence[FakeServer]) -> Any:
    left: Iterator[FakeServer] = iter(servers)

    def begin(binary: Binary, *extra: str) -> Server:
        server = next(left)
        assert server.binary is binary and extra == server.extra
        return cast(Server, server)

    return begin


def place_of(work: Path) -> Place:
    data = work / "power/data"
    data.mkdir(parents=True, exist_ok=True)
    (data / "ibdata1").write_text("as it was")
    return Place(data, work / "power/error.log", ["--innodb-x=1", "--port=3400"], {"LD_PRELOAD": "slow.so"})


def start(rig: Rig, begin: Any, binary: Binary, releases: Releases, kind: str) -> life.Started:
    return life.start(rig, begin, binary, releases, kind, place_of(rig.work))


def mysql(monkeypatch: pytest.MonkeyPatch, said: str = "", code: int | None = None) -> list[tuple[str, Place]]:
    """What is asked of servers of MySQL, on a copy; each says this and ends with `code`, or starts."""
    asked: list[tuple[str, Place]] = []

    def begin(binary: Binary, place: Place) -> Any:
        assert (place.data / "ibdata1").read_text() == "as it was"
        asked.append((binary.name, place))
        return contextlib.nullcontext(FakeServer(binary, said, code))

    monkeypatch.setattr(life, "Server", begin)
    return asked


def refusing(name: str, release: int, done: int) -> FakeServer:
    return FakeServer(BINARIES[name], pending(release, done), 1)


def test_a_refusal_is_counted_and_the_other_release_must_start(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rig = rig_of(tmp_path)
    servers = [refusing("stock", NEW, NEW), FakeServer(BINARIES["older"])]
    started = start(rig, begun(servers), BINARIES["stock"], Releases.settled(NEW).interrupted(OLD), "kill")
    assert started.server is cast(Server, servers[1]) and started.problem == ""
    assert started.left(rig) == Releases.settled(OLD)
    assert rig.counts.pending == {Crash("kill", "stock"): 1}
    assert "stock is refused after an interrupted change of release; older must start" in capsys.readouterr().out
    # This build is the first of its release.
    servers = [refusing("older", OLD, OLD), FakeServer(BINARIES["ours"], "InnoDB", 1)]
    started = start(rig, begun(servers), BINARIES["older"], Releases.settled(OLD).interrupted(NEW), "power")
    # It has ended: no excuse, and what is known of the directory stays.
    assert started.problem == "ours ended with 1"
    assert started.left(rig).possible == {(NEW, OLD)}
    assert rig.counts.pending == {Crash("kill", "stock"): 1, Crash("power", "older"): 1}


def test_the_other_release_is_not_refused_as_well(tmp_path: Path) -> None:
    rig = rig_of(tmp_path)
    servers = [refusing("older", OLD, OLD), refusing("ours", NEW, OLD)]
    started = start(rig, begun(servers), BINARIES["older"], Releases.settled(OLD).interrupted(NEW), "kill")
    assert started.problem == "ours ended with 1" and rig.counts.pending.total() == 1


STARTED = "T 4 [System] [MY-013381] [Server] Server upgrade from '90702' to '90704' started.\n"
LOCKED = STARTED + (
    "T 4 [ERROR] [MY-013178] [Server] Execution of server-side SQL statement 'EXECUTE stmt; ' failed with error code = 1205, error"
    " message = 'Lock wait timeout exceeded; try restarting transaction'.\n"
    "T 0 [Note] something\nT 0 [ERROR] [MY-013380] [Server] Failed to upgrade server.\n"
)
CACHED = "T 1 [Note] [InnoDB] Rollback of trx with id 7 completed\n" + STARTED + (
    "T 4 [ERROR] [MY-013183] [InnoDB] Assertion failure: dict0dict.cc:1208:table2 == nullptr thread 1\n"
)
ENDED = f"T 0 [Note] [MY-013015] [InnoDB] {ROLLED_BACK}\n"


def test_a_server_with_a_rolled_back_table_in_its_cache_is_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = mysql(monkeypatch, CACHED, 2)
    rig, interrupted = rig_of(tmp_path), Releases.settled(OLD).interrupted(NEW)
    dead = FakeServer(BINARIES["ours"], CACHED, 2)
    started = start(rig, begun([dead, FakeServer(BINARIES["ours"])]), BINARIES["ours"], interrupted, "power")
    assert started.problem == "" and rig.counts.blocked == {Crash("power", "ours"): 1}
    assert start(rig, begun([dead, dead]), BINARIES["ours"], interrupted, "power").problem == "ours ended with 2"
    # The server of the same release, on what this build has met, as it would be run itself; no replica follows it.
    (name, place), *_ = asked
    assert name == "stock" and place.environment == {} and place.data.parent == tmp_path / "met"
    assert place.options == ["--innodb-x=1", "--port=3400", "--skip-networking"]


@pytest.mark.parametrize(
    ("blocked", "there", "code", "does"),
    [
        (LOCKED, "", None, "stock on a copy: it starts"),
        (LOCKED, CACHED, 2, "stock on a copy: stock ended with 2"),
        (LOCKED, LOCKED, 2, "stock on a copy: stock ended with 2"),
        (LOCKED, LOCKED.replace("1205", "1213"), 1, "stock on a copy: stock ended with 1"),
        # It has begun, and then ended for something else.
        (LOCKED, LOCKED.replace(STARTED, ""), 1, "stock on a copy: stock ended with 1"),
        (CACHED, LOCKED, 1, "stock on a copy: stock ended with 1"),
        (CACHED, "", None, "stock on a copy: it starts"),
    ],
)
def test_what_does_not_block_mysql_is_wrong(
    blocked: str, there: str, code: int | None, does: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lock that this build holds itself, for one."""
    rig, interrupted, died = rig_of(tmp_path), Releases.settled(OLD).interrupted(NEW), 1 if blocked == LOCKED else 2
    assert len(mysql(monkeypatch, there, code)) == 0
    started = start(rig, begun([FakeServer(BINARIES["ours"], blocked, died)]), BINARIES["ours"], interrupted, "kill")
    assert started.problem == f"ours ended with {died}; {does}" and not rig.counts.blocked
    # The same if another one was refused before.
    servers = [refusing("older", OLD, OLD), FakeServer(BINARIES["ours"], blocked, died)]
    assert start(rig, begun(servers), BINARIES["older"], interrupted, "kill").problem == started.problem


def test_without_a_server_of_mysql_nothing_is_excused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = mysql(monkeypatch, LOCKED, 1)
    rig, dead = rig_of(tmp_path), FakeServer(BINARIES["off"], LOCKED, 1)
    del rig.binaries["stock"]
    started = start(rig, begun([dead]), BINARIES["off"], Releases.settled(OLD).interrupted(NEW), "kill")
    assert started.problem == "off ended with 1; there is no server of MySQL of that release, which could be asked"
    assert not asked and not rig.counts.blocked


def test_a_server_of_mysql_that_is_blocked_speaks_for_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = mysql(monkeypatch)
    rig, dead = rig_of(tmp_path), FakeServer(BINARIES["older"], CACHED, 2)
    servers = [dead, FakeServer(BINARIES["older"])]
    started = start(rig, begun(servers), BINARIES["older"], Releases.settled(NEW).interrupted(OLD), "kill")
    assert started.problem == "" and rig.counts.blocked == {Crash("kill", "older"): 1} and not asked


def test_a_directory_is_copied_only_for_a_start_that_may_be_blocked(tmp_path: Path) -> None:
    rig, place = rig_of(tmp_path), place_of(tmp_path)
    interrupted = Releases.settled(OLD).interrupted(NEW)
    assert keep_met(rig, BINARIES["ours"], interrupted, place)
    assert (tmp_path / "met/data/ibdata1").exists()
    for name, releases in (("ours", Releases.settled(OLD)), ("stock", interrupted), ("older", interrupted)):
        assert keep_met(rig, BINARIES[name], releases, place) is None
        assert not (tmp_path / "met").exists()


@pytest.mark.parametrize(("said", "code"), [(LOCKED, 1), (LOCKED.replace("1205", "3664"), 1)])
def test_an_open_transaction_that_blocks_a_change_is_rolled_back_first(
    said: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mysql(monkeypatch, LOCKED, 1)
    rig, interrupted = rig_of(tmp_path), Releases.settled(OLD).interrupted(NEW)
    dead, minimal = FakeServer(BINARIES["ours"], said, code), FakeServer(BINARIES["ours"], ENDED, None, (MINIMAL,))
    servers = [refusing("older", OLD, OLD), dead, minimal, FakeServer(BINARIES["ours"])]
    started = start(rig, begun(servers), BINARIES["older"], interrupted, "kill")
    assert started.problem == "" and started.left(rig) == Releases.settled(NEW)
    assert rig.counts.blocked == {Crash("kill", "ours"): 1}
    # It has to be an open transaction, and the only one.
    idle = FakeServer(BINARIES["ours"], "", 0, (MINIMAL,))
    started = start(rig, begun([dead, idle]), BINARIES["ours"], interrupted, "kill")
    assert started.problem == "ours ended with 0"
    idle.process.returncode, idle.wait_ready = 0, lambda: ""  # type: ignore[method-assign]
    started = start(rig, begun([dead, idle]), BINARIES["ours"], interrupted, "kill")
    assert started.problem == "ours has rolled back nothing that could block a change of release: it said why"
    started = start(rig, begun([dead, minimal, dead]), BINARIES["ours"], interrupted, "kill")
    assert started.problem == f"ours ended with {code}"


@pytest.mark.parametrize(
    ("releases", "said", "code"),
    [
        # No change to this release was interrupted.
        (Releases.settled(OLD), LOCKED, 1),
        (Releases.settled(NEW).interrupted(OLD), CACHED, 2),
        # It is not changed here, or any more.
        (Releases.settled(OLD).interrupted(NEW), CACHED.replace(STARTED, ""), 2),
        (Releases.settled(OLD).interrupted(NEW), CACHED.replace(STARTED, STARTED + STARTED.replace("started", "completed")), 2),
        # Another error, another assertion, another end.
        (Releases.settled(OLD).interrupted(NEW), LOCKED.replace("1205", "1213"), 1),
        (Releases.settled(OLD).interrupted(NEW), LOCKED.replace("MY-013380", "MY-010020"), 1),
        (Releases.settled(OLD).interrupted(NEW), CACHED.replace("table2", "table"), 2),
        # Nothing was rolled back before.
        (Releases.settled(OLD).interrupted(NEW), CACHED.replace("Rollback", "Start"), 2),
        (Releases.settled(OLD).interrupted(NEW), LOCKED, 2),
        (Releases.settled(OLD).interrupted(NEW), CACHED, 1),
    ],
)
def test_what_no_open_transaction_explains_is_wrong(releases: Releases, said: str, code: int, tmp_path: Path) -> None:
    rig = rig_of(tmp_path)
    started = start(rig, begun([FakeServer(BINARIES["ours"], said, code)]), BINARIES["ours"], releases, "power")
    assert started.problem == f"ours ended with {code}" and not rig.counts.blocked


def test_a_recovery_that_was_to_be_killed_and_is_blocked_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rig, place, interrupted = rig_of(tmp_path), place_of(tmp_path), Releases.settled(OLD).interrupted(NEW)
    dead = cast(Server, FakeServer(BINARIES["ours"], CACHED, 2))
    met = keep_met(rig, dead.binary, interrupted, place)
    mysql(monkeypatch, CACHED, 2)
    assert after_block(rig, dead, interrupted, "kill", met) == Block(CACHE) and rig.counts.blocked == {Crash("kill", "ours"): 1}
    assert "ours is blocked by an interrupted change of release (cache)" in capsys.readouterr().out
    assert after_block(rig, dead, Releases.settled(NEW), "kill", met) == Block() and rig.counts.blocked.total() == 1
    mysql(monkeypatch)
    assert after_block(rig, dead, interrupted, "kill", met) == Block(differs="stock on a copy: it starts")
    assert rig.counts.blocked.total() == 1


@pytest.mark.parametrize("releases", [Releases.settled(NEW), Releases.settled(OLD), Releases.settled(OLD).interrupted(OLD)])
def test_a_refusal_that_nothing_has_caused_is_wrong(releases: Releases, tmp_path: Path) -> None:
    rig = rig_of(tmp_path)
    started = start(rig, begun([refusing("older", OLD, OLD)]), BINARIES["older"], releases, "kill")
    assert started.problem == "older ended with 1" and started.server.binary.name == "older"
    assert not rig.counts.pending and started.left(rig) == releases


@pytest.mark.parametrize(
    ("said", "possible"),
    [
        ("", {(NEW, NEW)}),
        ("InnoDB", {(NEW, NEW), (OLD, NEW), (OLD, OLD)}),
        ("InnoDB, ready", {(OLD, OLD)}),
    ],
)
def test_a_kill_before_the_dictionary_is_open_interrupts_nothing(said: str, possible: set[tuple[int, int]], tmp_path: Path) -> None:
    rig = rig_of(tmp_path)
    killed = cast(Server, FakeServer(BINARIES["older"], said, -9))
    assert after_kill(rig, killed, rig.made()).possible == possible


def test_a_server_says_its_release() -> None:
    def binary(text: str) -> Binary:
        return Binary("one", [sys.executable, "-c", f"print({text!r})"])

    assert release_of(binary("mysqld  Ver 9.7.2-4 for Linux on x86_64 (Debian 9.7.2-4)")) == OLD
    assert releases_of({"one": binary("mysqld  Ver 9.7.4 for Linux")}) == {"one": NEW}
    for wrong in (binary("who?"), Binary("one", ["/no/such/server"]), Binary("one", ["false"])):
        with pytest.raises(ToolError, match="one does not say its version"):
            release_of(wrong)


# A start that changes the release


COMPLETED = STARTED.replace("started", "completed")
DOWN = STARTED.replace("upgrade", "downgrade")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    made = SimpleNamespace(now=0.0)
    monkeypatch.setattr("torture.server.time", SimpleNamespace(monotonic=lambda: made.now))
    return made


def test_starts_that_have_changed_the_release_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rig, interrupted = rig_of(tmp_path), Releases.settled(OLD).interrupted(NEW)
    monkeypatch.setattr(life.time, "monotonic", lambda: 75.0)
    for said in ("", COMPLETED + DOWN):
        start(rig, begun([FakeServer(BINARIES["ours"], said)]), BINARIES["ours"], Releases.settled(OLD), "kill")
    assert rig.counts.changes_sec == []
    start(rig, begun([FakeServer(BINARIES["ours"], STARTED + COMPLETED)]), BINARIES["ours"], Releases.settled(OLD), "kill")
    assert rig.counts.changes_sec == [75.0]
    # One that does not come to its end has changed nothing; the last of several has.
    mysql(monkeypatch, CACHED, 2)
    done = FakeServer(BINARIES["ours"], STARTED + COMPLETED)
    servers = [refusing("older", OLD, OLD), FakeServer(BINARIES["ours"], CACHED, 2), done]
    start(rig, begun(servers), BINARIES["older"], interrupted, "kill")
    assert rig.counts.changes_sec == [75.0, 75.0]
    total = Counts()
    total.add(rig.counts)
    total.add(rig.counts)
    assert total.changes_sec == [75.0] * 4


def late(monkeypatch: pytest.MonkeyPatch, log: str, written: list[int]) -> Server:
    server = Server.__new__(Server)
    monkeypatch.setattr(server, "said", lambda: log, raising=False)
    monkeypatch.setattr(server, "_bytes_written", lambda: written[-1])
    server.begin = 0.0
    return server


@pytest.mark.parametrize(
    ("log", "is_waited_for"), [("", False), (STARTED, True), (DOWN, True), (STARTED + COMPLETED, False), (COMPLETED + DOWN, True)]
)
def test_a_start_that_changes_the_release_may_take_longer(
    log: str, is_waited_for: bool, monkeypatch: pytest.MonkeyPatch, clock: SimpleNamespace
) -> None:
    clock.now = 181.0
    assert late(monkeypatch, log, [1]).may_take_longer() == is_waited_for


def test_it_may_as_long_as_it_writes(monkeypatch: pytest.MonkeyPatch, clock: SimpleNamespace) -> None:
    written = [1]
    server = late(monkeypatch, STARTED, written)
    clock.now = 181.0
    assert server.may_take_longer()
    clock.now += STANDSTILL_SEC + 1
    written.append(2)
    assert server.may_take_longer()
    clock.now += STANDSTILL_SEC - 1
    assert server.may_take_longer()
    clock.now += 1
    assert not server.may_take_longer()


def test_it_may_not_go_on_without_end(monkeypatch: pytest.MonkeyPatch, clock: SimpleNamespace) -> None:
    clock.now = CHANGE_TIMEOUT_SEC + 1.0
    assert not late(monkeypatch, STARTED, [1]).may_take_longer()


def test_what_a_process_has_written_is_known(tmp_path: Path) -> None:
    program = "import time; print('x' * 5000, flush=True); time.sleep(60)"
    with Server(Binary("ours", [sys.executable, "-c", program]), Place(tmp_path, tmp_path / "log", [])) as server:
        end = time.monotonic() + 30
        while (written := server._bytes_written()) < 5000 and time.monotonic() < end:
            time.sleep(0.01)
        assert 5000 < written < 6000
        server.kill()
        server._written = 7
        assert server._bytes_written() == 7
