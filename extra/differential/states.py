# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Random states of a data directory, each from a seed, shown to several servers."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from differential.mutations import BY_SERVERS, MAX_DEPTH, MUTATIONS, NO_FILES, WEIGHTS
from differential.outcome import MAX_RUNS, NO_TIMES, OWN_DEATHS, Outcome, ask, difference, read_start
from differential.server import Server, configure_keyring, copy, has_strace, initialise
from differential.statements import SCHEMAS, Statements, is_table
from redstart_cli import sanitizers
from redstart_cli.mounts import can_mount
from redstart_cli.mysqld import Binary, NotReadyError, NotStoppedError

# Longer than the map's thread waits after DDL, and than a directory is too young to be trusted.
SETTLE_SEC = 6.5
MAP = "#innodb_tablespace_map"
MAP_TIMEOUT_SEC = 60
# Ends in which a server takes its time.
STOPS = ("stop", "no redo")
KILLS = ["openat", "pwrite64", "fsync", "rename", "directory", "journal", "journal"]
# Another file stands at the path of a table. The thread that loads the buffer pool may be the first to open it: then
# MySQL ends with a fatal error, otherwise not.
OTHER_FILE = {"used_inode", "swap", "move", "rename", "old", "schema_rename", "there_and_back", "rename_back",
              "in_place_swap", "in_place_old", "in_place_short", "short", "mount"}
# Mutations are drawn so often until one finds something to change.
MAX_TRIES = 4
NO_BINLOG = ["--skip-log-bin"]
TEMP_PATHS = ("ibtmp1:12M:autoextend", "other:12M:autoextend")


def make_base(binary: Binary, client: Path, home: Path, options: list[str]) -> None:
    """A data directory with three schemas, one of them behind a symbolic link."""
    initialise(binary, home, options)
    for name in ("ext1", "ext2", "link"):
        (home / name).mkdir()
    (home / "by_link").symlink_to("ext2")
    deepest = home / "ext1/deep"
    for level in range(MAX_DEPTH + 2):
        deepest = deepest / f"d{level}"
    deepest.mkdir(parents=True)
    with Server(binary, home, client, ["--skip-log-bin", *options]) as server:
        if not server.wait_ready():
            raise ServerFault(f"cannot start: {server.errors()}")
        server.sql("".join(f"CREATE DATABASE {name};" for name in SCHEMAS))
        server.stop()
    shutil.move(home / "data/c", home / "link/c")
    (home / "data/c").symlink_to("../link/c")


def end_of(code: int) -> int:
    """An exit status as MySQL has it: its handler of these signals ends with 2, and builds with a sanitizer leave them alone."""
    is_watched = any(variable in os.environ for variable, _ in sanitizers.OPTIONS.values())
    return 2 if is_watched and code in (-signal.SIGSEGV, -signal.SIGBUS, -signal.SIGILL) else code


class ServerFault(Exception):
    """A server did, while a state was made, what no server may do."""


def run_on_base(binary: Binary, client: Path, base: Path, home: Path, options: list[str]) -> list[str]:
    """What two starts say, one after the other, where nobody has made a table. ServerFault if there is none."""
    copy(base, home)
    logs = []
    for _ in range(2):
        directories = f"--innodb-directories={home}/ext1;{home}/ext2"
        with Server(binary, home, client, ["--skip-log-bin", directories, *options]) as server:
            if not server.wait_ready():
                raise ServerFault(f"cannot start: {server.errors()}")
            time.sleep(SETTLE_SEC)
            server.stop()
        logs.append(server.said())
    return logs


def trusted_in_base(logs: list[str]) -> int:
    """How many files the second start trusts. ServerFault if it does not use the map at all."""
    start = read_start(logs[1])
    if not start.is_used or start.trusted is None:
        raise ServerFault(f"a server does not use the map of its own data directory: {start.why_not}")
    return start.trusted


def check_times_are_tested(logs: list[str], blind_logs: list[str]) -> None:
    """A server that is shown one time for all directories must say so, and trust none. ServerFault if it does not.

    `logs` are those of a server that sees their times.
    """
    listed, listed_blind = read_start(logs[1]).listed, read_start(blind_logs[1]).listed
    if NO_TIMES in "".join(logs) or NO_TIMES not in blind_logs[0] or listed_blind <= listed:
        raise ServerFault("a server trusts directories that do not change their times: "
                          f"it lists {listed_blind} of them, and {listed} that do")


@dataclass
class Setting:
    """What a state is made with, and where."""

    workdir: Path
    base: Path
    client: Path
    subjects: dict[str, Binary]
    # Options that a data directory keeps for its life.
    options: list[str] = field(default_factory=list)
    is_encrypted: bool = False
    # Kinds of mutations to draw from, and how servers end; all if empty.
    kinds: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()
    # No other server runs but in the changes, and all have their temporary tablespace at the same place.
    is_narrow: bool = False
    # Files that a start trusts in the data directory from which states are made.
    n_trusted_in_base: int = 0
    # Mounts the file system of the working directory by another device, if it can.
    change_device: Callable[[], None] | None = None

    @property
    def home(self) -> Path:
        return self.workdir / "s"


class State:
    """One state: made by random steps, then shown to each server."""

    def __init__(self, seed: int, setting: Setting):
        self.seed, self.setting = seed, setting
        self.random = random.Random(seed)
        self.home, self.subjects = setting.home, setting.subjects
        self.statements = Statements(self.random, self.home)
        self.statements.is_encrypted = setting.is_encrypted
        self.trace: list[str] = []
        # Files whose content was changed in place, which the map cannot see.
        self.in_place: set[str] = set()
        self.directories = [str(self.home / "ext1"), str(self.home / "ext2")]
        # What the last server was told to scan; the map is for that.
        self.mapped_directories: list[str] = []
        # Copies of files, by the copy.
        self.old: dict[Path, Path] = {}
        # What is mounted on what, and in which turns.
        self.mounts: list[tuple[Path, Path]] = []
        self.mounted_turns: set[int] = set()
        # Mutations that changed something within reach of the scan.
        self.mutations: list[str] = []
        self.map = self.home / "data" / MAP
        self.saved_map = setting.workdir / "old/map"
        deep = self.home / "ext1/deep"
        names = [f"d{level}" for level in range(MAX_DEPTH + 2)]
        self.deep_places = [deep, deep.joinpath(*names[:3]), deep.joinpath(*names)]
        self.has_redo = True
        # True if the server with the map was the last to run, and left what tells the next start so.
        self.is_own = False
        # True as long as no server has a reason to refuse a start, or to die: nothing was done to the files.
        self.is_sound = True
        # By system call on the map: kills that were tried there, and those that happened.
        self.kills_at: dict[str, list[int]] = {}
        self.log_bin = ["--log-bin=binlog"] if self.random.random() < 0.25 else NO_BINLOG

    def note(self, text: str) -> None:
        self.trace.append(text)

    def begin(self, step: str) -> None:
        """Draw from here on what follows from the seed and this step alone.

        How much was drawn before depends on the files that there were, and so on time.
        """
        self.random.seed(f"{self.seed} {step}")

    def require(self, is_true: bool, text: str) -> None:
        """Fail, if nothing was done to the files that could be the reason."""
        if is_true or not self.is_sound:
            return
        if not any(words in text for words in OWN_DEATHS):
            raise ServerFault(text)
        self.is_sound = False

    # Options

    def options(self, name: str) -> list[str]:
        """What every server gets in this state."""
        options = [*self.setting.options, *self.log_bin, "--innodb-directories=" + ";".join(self.directories)]
        if name == "on":
            self.mapped_directories = list(self.directories)
        return options

    def run_options(self, name: str, leaves_map: bool) -> list[str]:
        """What a server gets in one run while the state is made."""
        r = self.random
        fast_shutdown = r.choice([1] * 14 + [0, 0, 0, 1 if leaves_map else 2])
        options = [f"--innodb-fast-shutdown={fast_shutdown}",
                   f"--innodb-buffer-pool-load-at-startup={r.choice(['OFF', 'OFF', 'OFF', 'ON'])}"]
        temp_path = TEMP_PATHS[r.random() < (0.1 if name == "on" else 0.4) and not self.setting.is_narrow]
        options.append(f"--innodb-temp-data-file-path={temp_path}")
        return options + self.own_options(name, r)

    @staticmethod
    def own_options(name: str, r: random.Random) -> list[str]:
        """What only some of the servers know; the same is drawn for all."""
        rate, way = r.choice([100, 100, 0, 0, 1_000_000]), r.choice(["AUTO", "AUTO", "IO_URING", "THREADS"])
        options = [f"--innodb-tablespace-check-io={way}"] if name != "stock" else []
        return options + [f"--innodb-tablespace-map-verify-rate={rate}"] * (name == "on")

    # Steps

    def schema(self) -> Path:
        """The directory of a schema; a change may have renamed one of the two."""
        data, name = self.home / "data", self.random.choice("ab")
        return data / name if (data / name).is_dir() else data / ("a" if name == "b" else "b")

    def draw_end(self, ends: list[str]) -> str:
        """One of the ways in which a server may end here."""
        return self.random.choice([end for end in ends if end in self.setting.ends] or ends)

    def stock_or_off(self) -> str:
        return "stock" if "stock" in self.subjects else "off"

    def run(self, name: str, n_ddl: int, settle: bool, end: str, text: str = "", leaves_map: bool = False) -> None:
        """Let a server do some DDL, and end it somehow; not before there is a map, if one is to be left."""
        self.note(f"{name}: {n_ddl} statements, settle={settle}, end={end}")
        options = self.run_options(name, leaves_map)
        server = Server(self.subjects[name], self.home, self.setting.client, [*self.options(name), *options])
        self.is_own = False
        try:
            if not server.wait_ready():
                self.note(f"{name} refused to start")
                self.require(False, f"{name} refused to start: {server.messages()} {server.output()}")
                return
            if not self.has_redo and self.random.random() < 0.7:
                # A kill without it is the end of the data directory.
                text = f"ALTER INSTANCE ENABLE INNODB REDO_LOG;\n{text}"
                self.has_redo = True
            texts = [text] if text else []
            n_clients = self.random.choice([1, 1, 1, 1, 3]) if n_ddl > 2 else 1
            texts += [self.statements.several(n_ddl // n_clients) for _ in range(n_clients) if n_ddl]
            for one in texts:
                self.trace += [f"  {line[:150]}" for line in one.splitlines()]
            if n_clients > 1:
                self.note(f"  by {len(texts)} clients at a time")
                server.sql_at_once(texts)
            elif texts:
                server.sql("".join(texts))
            if self.random.random() < 0.3:
                self.save_old()
            if settle:
                time.sleep(SETTLE_SEC)
            if leaves_map:
                self.wait_for_map()
            self.require(not server.is_stuck, f"{name} does not answer")
            self.require(server.is_running, f"{name} died: {server.process.returncode}, {server.messages()}")
            self.end(server, end)
            if end in STOPS:
                self.require(server.process.poll() == 0,
                             f"{name} stopped with {server.process.poll()}: {server.messages()}")
            # Pages that were not flushed have to be recovered, after which nobody knows who wrote the redo log.
            is_flushed = "--innodb-fast-shutdown=2" not in options
            self.is_own = name == "on" and self.has_redo and (end not in STOPS or is_flushed)
            # Clients get in each other's way, or outlive the server, and put a file where another was.
            self.is_sound = self.is_sound and n_clients == 1 and end != "ddl" and (end in STOPS or self.has_redo)
        except (NotReadyError, NotStoppedError) as error:
            self.note(f"{name} hangs")
            self.require(False, f"{name} neither starts, stops nor refuses: {error}")
        finally:
            server.kill()
            server.check_end()

    def wait_for_map(self) -> None:
        """Wait until a map is there: after IMPORT it is written later, the longer the last one took."""
        end = time.monotonic() + MAP_TIMEOUT_SEC
        while not self.map.exists() and time.monotonic() < end:
            time.sleep(0.2)

    def end(self, server: Server, end: str) -> None:
        if end == "ddl":
            clients = [server.start_sql(self.statements.several(60)) for _ in range(self.random.choice([1, 1, 3]))]
            time.sleep(self.random.random() * 1.5)
            server.kill()
            for client in clients:
                client.wait()
        elif end == "open":
            table, other = self.statements.some_table(), self.statements.some_table()
            client = server.start_sql(f"BEGIN;{self.statements.insert(table)}{self.statements.insert(other)}"
                                      "DO SLEEP(30);\n")
            time.sleep(0.3 + self.random.random())
            server.kill()
            client.wait()
        elif end in KILLS:
            self.kill_at(server, end)
        elif end == "kill":
            server.kill()
        elif end == "no redo":
            self.has_redo = False
            server.sql("ALTER INSTANCE DISABLE INNODB REDO_LOG;" + self.statements.several(3))
            server.stop()
        else:
            server.stop()

    def kill_at(self, server: Server, point: str) -> None:
        """Kill it as it enters a system call on the map, or one of the first writes to the journal."""
        data = self.home / "data"
        path = data if point == "directory" else data / f"{MAP}.{'log' if point == 'journal' else 'tmp'}"
        call = {"directory": "fsync", "journal": f"write:when={self.random.randint(1, 6)}"}.get(point, point)
        strace = subprocess.Popen(
            ["strace", "-f", "-q", "-o", "/dev/null", "-p", str(server.process.pid), "-P", str(path),
             "-P", f"./{path.name}", "-e", f"trace={call.partition(':')[0]}", "-e", f"inject={call}:signal=KILL"],
            stderr=subprocess.DEVNULL)
        time.sleep(0.3)
        if point != "journal":
            # The journal does not cover a directory that others have changed, so that there will be another map.
            scratch = data / "a" / "scratch"
            scratch.touch()
            scratch.unlink()
        server.sql(f"CREATE TABLE a.k{self.random.randrange(10**6)} (id INT PRIMARY KEY);" + self.statements.several(3))
        server.is_killed = True
        counts = self.kills_at.setdefault(point, [0, 0])
        counts[0] += 1
        try:
            code = server.process.wait(SETTLE_SEC + 3)
            self.require(code == -signal.SIGKILL, f"{server.binary.name} died: {code}, {server.messages()}")
            counts[1] += 1
            self.note("  killed there")
        except subprocess.TimeoutExpired:
            self.note("  it did not get there")
            server.kill()
        finally:
            strace.send_signal(signal.SIGTERM)
            strace.wait()

    def files(self) -> list[Path]:
        """The files of user tables."""
        found = []
        for top in (self.home / "data" / "a", self.home / "data" / "b", self.home / "link/c", self.home / "ext1",
                    self.home / "ext2"):
            found += [path for path in top.rglob("*.ibd") if path.is_file() and not path.is_symlink()]
        found += list((self.home / "data").glob("g*.ibd"))
        return sorted(found)

    def save_old(self) -> None:
        """Keep copies of some files, to be restored later."""
        place = self.setting.workdir / "old"
        place.mkdir(exist_ok=True)
        for path in self.random.sample(self.files(), min(3, len(self.files()))):
            target = place / f"{len(self.old)}.ibd"
            try:
                shutil.copy2(path, target)
            except FileNotFoundError:
                continue
            self.old[target] = path

    def mutate(self) -> bool:
        """Do something to the files that no server would; false if there was nothing to change."""
        files = self.files()
        if not files:
            return False
        kinds = sorted(self.setting.kinds or MUTATIONS)
        if self.setting.change_device is None:
            kinds = [kind for kind in kinds if kind != "device"]
        kind = self.random.choices(kinds, [WEIGHTS.get(kind, 1) for kind in kinds])[0]
        path, other = self.random.choice(files), self.random.choice(files)
        self.note(f"mutation {kind} {path.relative_to(self.home)} {other.relative_to(self.home)}")
        self.is_sound = self.is_sound and kind in BY_SERVERS
        touched = MUTATIONS[kind](self, path, other)
        self.is_sound = False
        if not touched:
            self.note("  nothing to change")
            return False
        if kind in NO_FILES or any(self.is_in_reach(path) for path in touched):
            self.mutations.append(kind)
        return True

    def is_in_reach(self, path: Path) -> bool:
        """True if the servers scan the directory."""
        roots = [self.home / "data", self.home / "link/c"]
        roots += [(self.home / "data").joinpath(directory).resolve() for directory in self.directories]
        return any(path.is_relative_to(root) for root in roots)

    def has_usable_map(self) -> bool:
        """True if there is a map for what the servers will be asked to scan, as far as the steps tell."""
        return (self.map.exists() and self.is_own and not {"no_map", "bad_map"} & set(self.mutations)
                and self.mapped_directories == self.directories)

    def make(self) -> None:
        """Make the state."""
        r = random.Random(f"{self.seed} plan")
        copy(self.setting.base, self.home)
        if self.setting.is_encrypted:
            configure_keyring(self.home)
        ends = ["stop", "stop", "stop", "stop", "ddl", "ddl", "open", "open", "kill", "kill"]
        ends.append("no redo")
        foreign_ends = list(ends)
        if has_strace():
            ends += KILLS
        ends = list(self.setting.ends) or ends
        self.spell_directories()
        if r.random() < 0.15:
            (self.schema() / "first.ibd").write_bytes(bytes(65536))
            self.note("a stray file from the beginning")
        end = "stop" if r.random() < 0.7 and "stop" in ends else r.choice(ends)
        self.begin("first run")
        self.run("on", r.randrange(4, 20), True, end, self.statements.creates(r.randrange(3, 8)), leaves_map=True)
        # Others end in DDL: IMPORT removes the map.
        self.require(self.map.exists() or end not in ("stop", "kill", "open"), "no map was written")
        if self.map.exists():
            (self.setting.workdir / "old").mkdir(exist_ok=True)
            shutil.copy2(self.map, self.saved_map)
        name, n_ddl, settle = r.choice([self.stock_or_off(), "off", "on"]), r.randrange(0, 10), r.random() < 0.4
        has_second = r.random() < 0.3 and not self.setting.is_narrow
        if has_second:
            self.begin("second run")
            self.run(name, n_ddl, settle, r.choice(foreign_ends))
        n_ddl, settle, end = r.choice([0, 0, 1, 3, 10]), r.random() < 0.7, r.choice(ends)
        if self.setting.is_narrow:
            n_ddl, settle = 0, True  # A broken server may write a map of all tables only if there is no DDL.
        if r.random() < (0.9 if has_second else 0.6) or self.setting.is_narrow:
            # Another run, so that a directory that was too young at the first end is old enough.
            self.begin("third run")
            self.run("on", n_ddl, settle, end)
        name, n_ddl = r.choice([self.stock_or_off(), "off"]), r.choice([0, 2, 5])
        if r.random() < 0.1 and not self.setting.is_narrow:
            self.begin("fourth run")
            self.run(name, n_ddl, False, r.choice(foreign_ends))
            self.mutations += ["foreign_ddl"] * bool(n_ddl)
        if r.random() < 0.97 and not (self.is_own and self.map.exists()) and not self.setting.is_narrow:
            # Otherwise the changes would meet no map.
            self.begin("fifth run")
            self.run("on", 0, True, "stop", leaves_map=True)
        for change in range(r.choice([1, 1, 1, 2, 3])):
            for number in range(MAX_TRIES):
                self.begin(f"change {change} {number}")
                if self.mutate():
                    break
        if can_mount():
            self.mount()

    def import_link(self) -> tuple[Path | None, str]:
        """A file, and statements by which its table imports what it had before."""
        paths = [path for path in self.files() if path.parent.name in SCHEMAS and is_table(path.stem)]
        if not paths:
            return None, ""
        path = self.random.choice(paths)
        return path, self.statements.import_link(f"{path.parent.name}.`{path.stem}`") + "\n"

    def spell_directories(self) -> None:
        """In some states, say in another way which directories there are."""
        r = self.random
        if r.random() < 0.3:
            spellings = [
                ["../ext1", "../ext2"],
                [str(self.home / "ext1"), str(self.home / "by_link")],
                [str(self.home / "ext1"), str(self.home / "ext1/deep"), str(self.home / "ext2")],
                [str(self.home)],
            ]
            # The last one makes most servers refuse to start, so that there is no map.
            self.directories = r.choices(spellings, [10, 10, 10, 2])[0]
            self.note("directories " + ";".join(self.directories))
            # Where one is above all others, the schema behind a link is found twice.
            self.is_sound = str(self.home) not in self.directories

    def mount(self) -> None:
        """In some states, mount a directory or a file on another while the servers run.

        The state is the one of the seed without the mount, so that it can be made where nothing can be mounted.
        """
        r = random.Random(f"{self.seed} mount")
        target = self.home / "data" / r.choice("ab")
        other = self.home / "data" / ("a" if target.name == "b" else "b")
        files = [path for path in self.files() if not path.is_symlink()]
        kind = r.choice(["copy", "other", "same", "empty", "new", "file"])
        if r.random() > 0.2 or not target.is_dir() or not other.is_dir() or not files or self.setting.kinds:
            return
        source = self.home / "mounted"
        source.mkdir()
        if kind in ("copy", "new"):
            copy(target, source)
        if kind == "new":
            target = self.home / "data/m"
            target.mkdir()
        elif kind == "file":
            source, target = r.choice(files), r.choice(files)
            # The directory shows nothing of it, as if the content had been changed in place.
            self.in_place |= {source.stem, target.stem}
        elif kind != "empty":
            source = {"copy": source, "other": other, "same": target}[kind]
        self.mounts = [(source, target)]
        self.mounted_turns = r.choice([{1}, {2}, {1, 2}])
        self.note(f"mount {kind}: {source.relative_to(self.home)} on {target.relative_to(self.home)} "
                  f"in turns {sorted(self.mounted_turns)}")
        if 1 in self.mounted_turns:
            self.mutations.append("mount")

    # Outcomes

    def turns(self) -> list[list[str]]:
        """The options of each start, the same for all servers. One in the middle may be a special one."""
        r = random.Random(f"turns {self.seed}")
        special = r.choice([[]] * 9 + [["--innodb-read-only=ON"], ["--innodb-force-recovery=1"],
                                       ["--innodb-validate-tablespace-paths=OFF"],
                                       [f"--innodb-temp-data-file-path={TEMP_PATHS[1]}"]])
        if "--innodb-force-recovery=1" in special and self.log_bin != NO_BINLOG:
            # It forbids to write, and whether the server writes GTIDs meanwhile is chance.
            special = []
        load = ["--innodb-buffer-pool-load-at-startup=" + r.choice(["OFF", "OFF", "ON"])]
        if OTHER_FILE & set(self.mutations):
            load = ["--innodb-buffer-pool-load-at-startup=OFF"]
        load = [*load, f"--innodb-fast-shutdown={r.choice([1, 1, 1, 0, 2])}"]
        turns = [load, [*load, *special]]
        if special or self.in_place or r.random() < 0.1:
            turns.append(load)
        return turns

    def heir(self) -> str | None:
        """A server without the map that starts last, on what the one in question has left; in some states."""
        r = random.Random(f"{self.seed} heir")
        name = r.choice([self.stock_or_off(), "off"])
        return None if self.setting.is_narrow or r.random() < 0.6 else name

    def outcome(self, name: str) -> Outcome:
        """Several runs of a server on the state, with the same statements for each server."""
        result = Outcome()
        facts = result.facts
        turns = [(name, options) for options in self.turns()]
        if heir := self.heir():
            turns.append((heir, turns[0][1]))
        for turn, (who, options) in enumerate(turns, 1):
            r = random.Random(self.seed * 10 + turn)
            own = self.own_options(who, random.Random(f"{self.seed} options {turn}"))
            server = Server(self.subjects[who], self.home, self.setting.client, [*self.options(who), *options, *own],
                            self.mounts if turn in self.mounted_turns else ())
            try:
                facts[f"{turn} starts"] = server.wait_ready()
                if facts[f"{turn} starts"]:
                    if "--innodb-buffer-pool-load-at-startup=ON" in options:
                        server.wait_for_pool()
                    ask(server, facts, turn, r, self.in_place)
                    if not (turn == 1 and r.random() < 0.3):
                        server.stop()
            except NotReadyError:
                facts[f"{turn} starts"] = False
                facts[f"{turn} hangs"] = True
            except NotStoppedError:
                facts[f"{turn} stops"] = False  # there is no such fact if it does
            finally:
                server.kill()
            server.check_end()
            result.starts.append(read_start(server.said()))
            facts[f"{turn} messages"] = server.messages()
            if result.short_read_in is None and server.has_read_too_little():
                result.short_read_in = turn
            if (code := end_of(server.process.returncode)) not in (0, 1, -signal.SIGKILL):
                facts[f"{turn} exit code"] = code
            facts[f"{turn} files"] = sorted(str(path.relative_to(self.home)) for top in ("data", "ext1", "ext2", "ext3")
                                            for path in (self.home / top).rglob("*.ibd"))
            if result.short_read_in is not None:
                # Nothing from here on is compared, and each server that reads without end takes its time to be killed.
                break
        return result


def run_state(seed: int, setting: Setting) -> dict[str, Any]:
    """Make a state, show it to all servers. Returns what there is to say about it."""
    workdir, home = setting.workdir, setting.home
    state = State(seed, setting)
    report: dict[str, Any] = {"seed": seed, "difference": None, "error": None, "runs": 1, "cut": False,
                                 "stock": "stock" in setting.subjects}
    begin = time.monotonic()
    try:
        shutil.rmtree(workdir, ignore_errors=True)
        workdir.mkdir(parents=True)
        state.make()
        report["usable"] = state.has_usable_map()
        copy(home, workdir / "state")
        # The map fits the original only: a copy has other inodes, and other times of change and of birth.
        on = state.outcome("on")
        report["make_sec"] = round(time.monotonic() - begin, 1)
        report["starts"] = on.facts.get("1 starts")
        if not report["starts"]:
            report["refusal"] = on.facts["1 messages"]
        report["on"] = [vars(start) for start in on.starts]
        report["used"] = on.starts[0].is_used
        report["trusted"] = on.starts[0].n_trusted(setting.n_trusted_in_base)
        report["met"] = report["trusted"] > 0
        report["rejected"] = report["met"] and not report["used"]
        report["lazy"] = on.starts[0].is_lazy
        # Not if the map had to be given up all the same.
        report["journal"] = on.starts[0].is_used and on.starts[0].has_journal
        report["heir"] = state.heir() or ""

        def outcome(name: str) -> Outcome:
            copy(workdir / "state", home)
            return state.outcome(name)

        # If stock and this build without the map differ, the map is not to blame, but it is a difference all the same.
        for name in state.subjects:
            if name == "on":
                continue
            runs = [outcome(name)]
            while (found := difference("on", on, name, runs, state.in_place)) and len(runs) < MAX_RUNS:
                report["first_difference"] = found
                runs.append(outcome(name))
            report["runs"] = max(len(runs), report["runs"])
            cuts = [run.cut_in for run in (on, *runs) if run.cut_in is not None]
            report["cut"] = report["cut"] or bool(cuts)
            # Hardly anything was compared.
            report["met"] = report["met"] and 1 not in cuts
            report["difference"] = report["difference"] or found
    except Exception as error:  # noqa: BLE001 - whatever goes wrong is reported with its seed
        report["error"] = report["difference"] = "".join(traceback.format_exception(error)[-3:])
    report["mutations"] = state.mutations
    report["kills_at"] = state.kills_at
    report["in_place"] = bool(state.in_place)
    report["mounted"] = bool(state.mounts)
    report["encrypted"] = setting.is_encrypted
    report["sec"] = round(time.monotonic() - begin, 1)
    report["trace"] = state.trace
    return report
