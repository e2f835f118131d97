# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Random states of a data directory, each from a seed, and what servers make of them."""

import os
import random
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from differential.server import (NO_ANSWER, Binary, Server, can_mount, configure_keyring, copy, has_strace,
                                 initialise)

SCHEMAS = ["a", "b", "c"]
# Longer than the map's thread waits after DDL, and than a directory is too young to be trusted.
SETTLE_SEC = 6.5
# So often a server without the map may run to do what the one with the map did.
MAX_RUNS = 5
ROW_FORMATS = ["", "", "", " ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=4", " ROW_FORMAT=REDUNDANT"]


@dataclass
class Outcome:
    """What one server made of a state, in two runs."""

    facts: dict[str, object] = field(default_factory=dict)
    # Whether the dictionary was read in full, for each run; not compared.
    states: list[str] = field(default_factory=list)
    # The turn in which it read a file that is too short. MySQL does so if it made the object of a table without a look
    # at the file; an error number from before decides then whether it reads again without end, or asserts.
    short_read_in: int | None = None


def make_base(binary: Binary, client: Path, home: Path) -> None:
    """A data directory with three schemas, one of them behind a symbolic link."""
    initialise(binary, home)
    for name in ("ext1", "ext2", "link"):
        (home / name).mkdir()
    server = Server(binary, home, client, [])
    if not server.wait_ready():
        raise RuntimeError(f"cannot start: {server.log}")
    server.sql("".join(f"CREATE DATABASE {name};" for name in SCHEMAS))
    server.stop()
    shutil.move(home / "data/c", home / "link/c")
    (home / "data/c").symlink_to("../link/c")


class State:
    """One state: made by random steps, then shown to each server."""

    def __init__(self, seed: int, home: Path, base: Path, client: Path, subjects: dict[str, Binary]):
        self.random = random.Random(seed)
        self.home, self.base, self.client, self.subjects = home, base, client, subjects
        self.trace: list[str] = []
        self.n_tables = 0
        # Files whose content was changed in place, which the map cannot see.
        self.in_place: set[str] = set()
        self.directories = [home / "ext1", home / "ext2"]
        # Only with servers that have a keyring.
        self.is_encrypted = False
        self.old: dict[Path, Path] = {}
        # What is mounted on what, and in which of the two turns.
        self.mounts: list[tuple[Path, Path]] = []
        self.mounted_turns: set[int] = set()

    def note(self, text: str) -> None:
        self.trace.append(text)

    def options(self) -> list[str]:
        return ["--innodb-directories=" + ";".join(map(str, self.directories))]

    # SQL

    def some_table(self) -> str:
        return f"{self.random.choice(SCHEMAS)}.t{self.random.randrange(max(self.n_tables, 1))}"

    def columns(self) -> str:
        return "(id INT PRIMARY KEY, v VARCHAR(200), KEY (v))"

    def ddl(self) -> str:
        """One random statement; it may well fail."""
        r = self.random
        schema = r.choice(SCHEMAS)
        kind = r.choice(["create"] * 5 + ["insert"] * 8 + ["rename", "swap", "truncate", "drop", "discard", "import",
                        "index", "rebuild", "partition", "general", "in_general", "rename_general", "directory",
                        "fulltext", "undo", "add_partition", "move_general"]
                       + ["encrypted"] * 8 * self.is_encrypted)
        new = f"{schema}.t{self.n_tables}"
        table = self.some_table()
        if kind in ("create", "partition", "in_general", "directory", "fulltext"):
            self.n_tables += 1
        if kind == "create":
            return f"CREATE TABLE {new} {self.columns()}{r.choice(ROW_FORMATS)};{self.insert(new)}"
        if kind == "insert":
            return self.insert(table)
        if kind == "rename":
            return f"RENAME TABLE {table} TO {schema}.t{r.randrange(self.n_tables + 1)};"
        if kind == "swap":
            other = self.some_table()
            return f"RENAME TABLE {table} TO a.tmp, {other} TO {table}, a.tmp TO {other};"
        if kind == "truncate":
            return f"TRUNCATE TABLE {table};{self.insert(table)}"
        if kind == "drop":
            return f"DROP TABLE {table};"
        if kind == "discard":
            return f"ALTER TABLE {table} DISCARD TABLESPACE;"
        if kind == "import":
            path = self.home / "data" / (table.replace(".", "/") + ".ibd")
            saved = self.home / "tmp/import.ibd"
            return (f"FLUSH TABLES {table} FOR EXPORT;\n\\! cp {path} {saved} 2>/dev/null\n"
                    f"UNLOCK TABLES;ALTER TABLE {table} DISCARD TABLESPACE;\n\\! cp {saved} {path} 2>/dev/null\n"
                    f"ALTER TABLE {table} IMPORT TABLESPACE;")
        if kind == "index":
            return f"ALTER TABLE {table} ADD INDEX i{r.randrange(1000)} (v, id), ALGORITHM=INPLACE;"
        if kind == "rebuild":
            return f"ALTER TABLE {table} ENGINE=InnoDB, ALGORITHM={r.choice(['INPLACE', 'COPY'])};"
        if kind == "partition":
            return (f"CREATE TABLE {new} (id INT PRIMARY KEY, v VARCHAR(200)) PARTITION BY HASH (id)"
                    f" PARTITIONS {r.randrange(1, 5)};{self.insert(new)}")
        if kind == "add_partition":
            return f"ALTER TABLE {table} {r.choice(['ADD PARTITION PARTITIONS 1', 'COALESCE PARTITION 1'])};"
        if kind == "general":
            name = f"g{r.randrange(4)}"
            path = r.choice([f"{name}.ibd", f"{self.home}/ext1/{name}.ibd"])
            return f"CREATE TABLESPACE {name} ADD DATAFILE '{path}';"
        if kind == "in_general":
            return f"CREATE TABLE {new} {self.columns()} TABLESPACE g{r.randrange(4)};{self.insert(new)}"
        if kind == "rename_general":
            return f"ALTER TABLESPACE g{r.randrange(4)} RENAME TO g{r.randrange(4)};"
        if kind == "move_general":
            return f"ALTER TABLE {table} TABLESPACE g{r.randrange(4)};"
        if kind == "directory":
            return f"CREATE TABLE {new} {self.columns()} DATA DIRECTORY='{self.home}/ext2';{self.insert(new)}"
        if kind == "fulltext":
            return f"CREATE TABLE {new} (id INT PRIMARY KEY, v VARCHAR(200), FULLTEXT (v));{self.insert(new)}"
        if kind == "encrypted":
            self.n_tables += 1
            return r.choice([
                f"CREATE TABLE {new} {self.columns()} ENCRYPTION='Y';{self.insert(new)}",
                f"ALTER TABLE {table} ENCRYPTION='{r.choice('YN')}';",
                f"CREATE TABLESPACE g{r.randrange(4)} ADD DATAFILE 'ge{r.randrange(4)}.ibd' ENCRYPTION='Y';",
                f"ALTER TABLESPACE g{r.randrange(4)} ENCRYPTION='{r.choice('YN')}';",
                "ALTER INSTANCE ROTATE INNODB MASTER KEY;",
            ])
        return r.choice(["CREATE UNDO TABLESPACE u1 ADD DATAFILE 'u1.ibu';", "ALTER UNDO TABLESPACE u1 SET INACTIVE;",
                         "DROP UNDO TABLESPACE u1;"])

    def insert(self, table: str) -> str:
        start = self.random.randrange(1_000_000)
        values = ",".join(f"({start + i},REPEAT('x{i}',{self.random.randrange(90)}))" for i in range(10))
        return f"INSERT IGNORE INTO {table} VALUES {values};"

    def statements(self, n: int) -> str:
        return "\n".join(self.ddl() for _ in range(n)) + "\n"

    # Steps

    def run(self, name: str, n_ddl: int, settle: bool, end: str) -> None:
        """Let a server do some DDL, and end it somehow."""
        self.note(f"{name}: {n_ddl} statements, settle={settle}, end={end}")
        server = Server(self.subjects[name], self.home, self.client, self.options())
        if not server.wait_ready():
            self.note(f"{name} refused to start")
            return
        try:
            if n_ddl:
                text = self.statements(n_ddl)
                self.trace += [f"  {line[:150]}" for line in text.splitlines()]
                server.sql(text)
            if self.random.random() < 0.3:
                self.save_old()
            if settle:
                time.sleep(SETTLE_SEC)
            if end == "ddl":
                background = server.start_sql(self.statements(60))
                time.sleep(self.random.random() * 1.5)
                server.kill()
                background.wait()
            elif end == "open":
                table = self.some_table()
                background = server.start_sql(f"BEGIN;{self.insert(table)}{self.insert(self.some_table())}"
                                              "DO SLEEP(30);\n")
                time.sleep(0.3 + self.random.random())
                server.kill()
                background.wait()
            elif end in ("openat", "pwrite64", "fsync", "rename", "directory"):
                self.kill_at(server, end)
            elif end == "kill":
                server.kill()
            else:
                server.stop()
        finally:
            server.kill()

    def kill_at(self, server: Server, point: str) -> None:
        """Kill it as it enters a system call on the map."""
        data = self.home / "data"
        path = data if point == "directory" else data / "#innodb_tablespace_map.tmp"
        call = "fsync" if point == "directory" else point
        pid = self.real_pid(server)
        strace = subprocess.Popen(
            ["strace", "-f", "-q", "-o", "/dev/null", "-p", str(pid), "-P", str(path), "-P", f"./{path.name}",
             "-e", f"trace={call}", "-e", f"inject={call}:signal=KILL"], stderr=subprocess.DEVNULL)
        time.sleep(0.3)
        server.sql(f"CREATE TABLE a.k{self.random.randrange(10**6)} {self.columns()};" + self.statements(3))
        try:
            server.process.wait(SETTLE_SEC + 3)
            self.note("  killed there")
        except subprocess.TimeoutExpired:
            self.note("  it did not get there")
            server.kill()
        strace.send_signal(signal.SIGTERM)
        strace.wait()

    @staticmethod
    def real_pid(server: Server) -> int:
        return server.process.pid

    def files(self) -> list[Path]:
        """The files of user tables."""
        found = []
        for top in (self.home / "data" / "a", self.home / "data" / "b", self.home / "link/c", self.home / "ext1",
                    self.home / "ext2"):
            found += [path for path in top.rglob("*.ibd") if path.is_file() and not path.is_symlink()]
        found += [path for path in (self.home / "data").glob("g*.ibd")]
        return sorted(found)

    def save_old(self) -> None:
        """Keep copies of some files, to be restored later."""
        place = self.home / "old"
        place.mkdir(exist_ok=True)
        for path in self.random.sample(self.files(), min(3, len(self.files()))):
            target = place / f"{len(self.old)}.ibd"
            try:
                shutil.copy2(path, target)
            except FileNotFoundError:
                continue
            self.old[target] = path

    def mutate(self) -> None:
        """Do something to the files that no server would."""
        r = self.random
        files = self.files()
        kind = r.choice(["move", "away", "copy", "rename", "swap", "new_inode", "delete", "empty", "short", "old",
                         "schema_copy", "hard_link", "soft_link", "there_and_back", "touch", "schema_rename", "stray",
                         "hidden", "directories", "ext_rename", "no_map", "bad_map", "old_map", "in_place_short",
                         "in_place_old", "in_place_swap"])
        if not files:
            return
        path, other = r.choice(files), r.choice(files)
        self.note(f"mutation {kind} {path.relative_to(self.home)} {other.relative_to(self.home)}")
        schema = self.home / "data" / r.choice("ab")
        the_map = self.home / "data/#innodb_tablespace_map"
        if kind == "move":
            shutil.move(path, schema / path.name)
        elif kind == "away":
            shutil.move(path, self.home / "tmp" / path.name)
        elif kind == "copy":
            shutil.copy2(path, schema / f"copy{r.randrange(9)}.ibd")
        elif kind == "rename":
            path.rename(path.with_name(f"renamed{r.randrange(9)}.ibd"))
        elif kind == "swap" and path != other:
            spare = self.home / "tmp/spare"
            shutil.move(path, spare)
            shutil.move(other, path)
            shutil.move(spare, other)
        elif kind == "new_inode":
            shutil.copy2(path, self.home / "tmp/new")
            shutil.move(self.home / "tmp/new", path)
        elif kind == "delete":
            path.unlink()
        elif kind in ("empty", "short"):
            data = path.read_bytes()
            path.unlink()
            path.write_bytes(b"" if kind == "empty" else data[: r.choice([1000, 16384, len(data) // 2])])
        elif kind == "old" and self.old:
            source = r.choice(sorted(self.old))
            if self.old[source].parent.is_dir():
                shutil.copy2(source, self.home / "tmp/new")
                shutil.move(self.home / "tmp/new", self.old[source])
        elif kind == "schema_copy":
            copy(schema, self.home / "data/new")
            shutil.rmtree(schema)
            (self.home / "data/new").rename(schema)
        elif kind == "hard_link":
            target = schema / f"link{r.randrange(9)}.ibd"
            if not target.exists():
                os.link(path, target)
        elif kind == "soft_link":
            target = self.home / "link" / f"soft{r.randrange(99)}.ibd"
            shutil.move(path, target)
            path.symlink_to(target)
        elif kind == "there_and_back":
            target = schema / path.name
            if target.exists():
                return
            path.rename(target)
            if r.random() < 0.7:
                self.run(r.choice(["off", self.stock_or_off()]), 0, False, "stop")
            if target.exists() and not path.exists():
                target.rename(path)
        elif kind == "touch":
            os.utime(path.parent)
        elif kind == "schema_rename":
            schema.rename(schema.with_name("other"))
            if r.random() < 0.5:
                schema.with_name("other").rename(schema)
        elif kind == "stray":
            (schema / "stray.ibd").write_bytes(os.urandom(100) if r.random() < 0.5 else bytes(65536))
        elif kind == "hidden":
            shutil.copy2(path, schema / ".hidden.ibd")
        elif kind == "directories":
            self.directories = [self.home / "ext1"] if r.random() < 0.5 else self.directories[::-1]
        elif kind == "ext_rename":
            ext = self.home / "ext2"
            moved = self.home / "ext3"
            ext.rename(moved)
            self.directories = [self.home / "ext1", moved]
            if r.random() < 0.7:
                self.run(self.stock_or_off(), 0, False, r.choice(["stop", "kill"]))
            if r.random() < 0.7:
                moved.rename(ext)
                self.directories = [self.home / "ext1", ext]
        elif kind == "no_map":
            the_map.unlink(missing_ok=True)
        elif kind == "bad_map" and the_map.exists():
            data = bytearray(the_map.read_bytes())
            data[r.randrange(len(data))] ^= 1 << r.randrange(8)
            the_map.write_bytes(data[: r.choice([len(data), len(data), r.randrange(len(data))])])
        elif kind == "old_map" and the_map.exists():
            saved = self.home / "old/map"
            if saved.exists():
                shutil.copy2(saved, the_map)
        elif kind == "in_place_short":
            self.in_place.add(path.stem)
            os.truncate(path, r.choice([0, 1000, 65536]))
        elif kind == "in_place_old" and self.old:
            source = r.choice(sorted(self.old))
            self.in_place.add(self.old[source].stem)
            if self.old[source].exists():
                self.old[source].write_bytes(source.read_bytes())
        elif kind == "in_place_swap" and path != other:
            self.in_place |= {path.stem, other.stem}
            one, two = path.read_bytes(), other.read_bytes()
            path.write_bytes(two)
            other.write_bytes(one)

    def stock_or_off(self) -> str:
        return "stock" if "stock" in self.subjects else "off"

    def make(self) -> None:
        """Make the state."""
        r = self.random
        copy(self.base, self.home)
        if self.is_encrypted:
            configure_keyring(self.home)
        ends = ["stop", "stop", "stop", "ddl", "ddl", "open", "open", "kill"]
        if has_strace():
            ends += ["openat", "pwrite64", "fsync", "rename", "directory"]
        self.run("on", r.randrange(8, 25), True, "stop" if r.random() < 0.7 else r.choice(ends))
        the_map = self.home / "data/#innodb_tablespace_map"
        if the_map.exists():
            (self.home / "old").mkdir(exist_ok=True)
            shutil.copy2(the_map, self.home / "old/map")
        if r.random() < 0.35:
            self.run(r.choice([self.stock_or_off(), "off", "on"]), r.randrange(0, 10), r.random() < 0.4,
                     r.choice(ends))
        if r.random() < 0.8:
            # A second run, so that a directory that was too young at the first end is old enough.
            self.run("on", r.choice([0, 0, 1, 3, 10]), r.random() < 0.7, r.choice(ends))
        if r.random() < 0.2:
            self.run(self.stock_or_off(), r.choice([0, 2, 5]), False, r.choice(ends[:8]))
        for _ in range(r.choice([0, 0, 1, 1, 1, 2, 3])):
            self.mutate()
        if can_mount():
            self.mount()

    def mount(self) -> None:
        """In some states, mount a directory or a file on another while the servers run.

        The state is the one of the seed without the mount, so that it can be made where nothing can be mounted.
        """
        r = random.Random(f"mount {self.random.random()}")
        target = self.home / "data" / r.choice("ab")
        other = self.home / "data" / ("a" if target.name == "b" else "b")
        files = [path for path in self.files() if not path.is_symlink()]
        kind = r.choice(["copy", "other", "same", "empty", "new", "file"])
        if r.random() > 0.25 or not target.is_dir() or not other.is_dir() or not files:
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

    # Outcomes

    def outcome(self, name: str, seed: int) -> Outcome:
        """Two runs of a server on the state, with the same statements for each server."""
        result = Outcome()
        for turn in (1, 2):
            r = random.Random(seed * 10 + turn)
            server = Server(self.subjects[name], self.home, self.client, self.options(),
                            self.mounts if turn in self.mounted_turns else ())
            facts = result.facts
            try:
                facts[f"{turn} starts"] = server.wait_ready()
                if facts[f"{turn} starts"]:
                    self.ask(server, facts, turn, r, result)
                    if not (turn == 1 and r.random() < 0.3):
                        server.stop()
            except subprocess.TimeoutExpired:
                facts[f"{turn} stops"] = False  # there is no such fact if it does
            finally:
                server.kill()
            facts[f"{turn} messages"] = server.messages()
            if result.short_read_in is None and server.has_read_too_little():
                result.short_read_in = turn
            if server.process.returncode not in (0, 1, -signal.SIGKILL):
                facts[f"{turn} exit code"] = server.process.returncode
            facts[f"{turn} files"] = sorted(str(path.relative_to(self.home)) for top in ("data", "ext1", "ext2", "ext3")
                                            for path in (self.home / top).rglob("*.ib[du]"))
            if result.short_read_in is not None:
                # Nothing from here on is compared, and each server that reads without end takes its time to be killed.
                break
        return result

    def ask(self, server: Server, facts: dict[str, object], turn: int, r: random.Random, result: Outcome) -> None:
        """What a client sees, first of all in random order."""
        tables = server.sql("SELECT CONCAT(table_schema, '.', table_name) FROM information_schema.tables"
                            " WHERE table_schema IN ('a', 'b', 'c') ORDER BY 1").split()
        facts[f"{turn} tables"] = list(tables)
        asked = list(tables)
        r.shuffle(asked)
        views = [
            ("spaces", "SELECT name, space, page_size, space_type, encryption, state, autoextend_size"
                       " FROM information_schema.innodb_tablespaces ORDER BY space"),
            ("i_s files", "SELECT file_name, tablespace_name, status, file_type FROM information_schema.files"
                          " WHERE file_type = 'TABLESPACE' ORDER BY tablespace_name"),
            ("statistics", "SELECT table_schema, table_name, row_format, data_length > 0 FROM"
                           " information_schema.tables WHERE table_schema IN ('a', 'b', 'c') ORDER BY 1, 2"),
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
            for table in asked[:4]:
                statement = r.choice([f"ALTER TABLE {table} ADD INDEX di (v)", f"TRUNCATE TABLE {table}",
                                      f"DROP TABLE {table}", f"RENAME TABLE {table} TO a.dr",
                                      f"ALTER TABLE {table} ENGINE=InnoDB", f"INSERT INTO {table} VALUES (-1, 'y')",
                                      f"ALTER TABLE {table} DISCARD TABLESPACE"])
                questions.append((statement, statement))
        for (name, _), answer in zip(questions, server.ask([query for _, query in questions])):
            facts[f"{turn} {name}"] = answer
        if server.binary.name == "on":
            result.states.append("lazy" if "others when they are used" in server.read_log() else "full")

    def difference(self, one: str, first: Outcome, two: str, runs: list[Outcome]) -> str | None:
        """What the first server did and no run of the second; None if that is nothing."""
        if first.short_read_in not in [None, *(run.short_read_in for run in runs)]:
            return f"in turn {first.short_read_in} {one} reads a file that is too short, which {two} does not"
        last = 2
        for run in (first, *runs):
            last = min(last, (run.short_read_in or 3) - 1)
        lines = []
        for key in sorted(set(first.facts).union(*(run.facts for run in runs))):
            left = first.facts.get(key)
            rights = [run.facts.get(key) for run in runs]
            if left in rights or int(key.split()[0]) > last:
                continue
            if self.in_place and not all(self.is_comparable(key, left, right) for right in rights):
                continue
            right = rights[0]
            if isinstance(left, list) and isinstance(right, list):
                left, right = [x for x in left if x not in right], [x for x in right if x not in left]
            lines.append(f"{key}:\n  {one}: {left}\n  {two}: {right}")
        return "\n".join(lines) or None

    def is_comparable(self, key: str, left: object, right: object) -> bool:
        """After a change in place only what other tables hold must be the same, if both servers tell.

        One may refuse to start, and waiting for a broken table takes the answers about others with it. No server may
        crash or hang that would not without the map.
        """
        if key.endswith((" exit code", " stops")):
            return right is None
        if not key.startswith("1 rows of ") or left is None or right is None or NO_ANSWER in (left, right):
            return False
        table = key.split(".")[-1]
        return not any(stem.split("#")[0] == table or stem.startswith("g") for stem in self.in_place)


def run_state(
    seed: int, workdir: Path, base: Path, client: Path, subjects: dict[str, Binary], with_keys: dict[str, Binary]
) -> dict[str, object]:
    """Make a state, show it to all servers. Returns what there is to say about it.

    Every fifth state has encrypted tablespaces, if there are servers with a keyring.
    """
    is_encrypted = bool(with_keys) and seed % 5 == 0
    if is_encrypted:
        subjects = with_keys
    home = workdir / "s"
    shutil.rmtree(workdir, ignore_errors=True)
    workdir.mkdir(parents=True)
    state = State(seed, home, base, client, subjects)
    state.is_encrypted = is_encrypted
    report: dict[str, object] = {"seed": seed, "difference": None}
    try:
        state.make()
        copy(home, workdir / "state")

        def outcome(name: str) -> Outcome:
            copy(workdir / "state", home)
            return state.outcome(name, seed)

        on = outcome("on")
        report["starts"] = on.facts.get("1 starts")
        report["reads"] = on.states
        report["short_read"] = on.short_read_in is not None
        # If stock and this build without the map differ, the map is not to blame, but it is a difference all the same.
        for name in subjects:
            if name == "on":
                continue
            runs = [outcome(name)]
            while (difference := state.difference("on", on, name, runs)) and len(runs) < MAX_RUNS:
                # What redo has to be read after a kill, and so which files recovery opens, is not the same each time.
                runs.append(outcome(name))
            report["runs"] = max(len(runs), report.get("runs", 1))
            report["difference"] = report["difference"] or difference
    except Exception as error:  # noqa: BLE001: whatever goes wrong is reported with its seed
        report["difference"] = f"{type(error).__name__}: {error}"
    report["in_place"] = bool(state.in_place)
    report["mounted"] = bool(state.mounts)
    report["encrypted"] = is_encrypted
    report["trace"] = state.trace
    return report
