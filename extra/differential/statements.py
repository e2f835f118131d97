# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Random statements, each from a seed."""

import random
import re
from pathlib import Path

SCHEMAS = ["a", "b", "c"]
# With small pages a file may be shorter than a page of the server.
ROW_FORMATS = ["", "", "", "", " ROW_FORMAT=REDUNDANT",
               *(f" ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE={size}" for size in (1, 2, 4))]
EXTENDS = ["", "", "", " AUTOEXTEND_SIZE=4M", " AUTOEXTEND_SIZE=8M"]
COLUMNS = "(id INT PRIMARY KEY, v VARCHAR(200), KEY (v(50)))"
# Engines that put other files beside those of InnoDB.
OTHER_ENGINES = [f"{COLUMNS} ENGINE=MyISAM", "(id INT NOT NULL, v VARCHAR(200) NOT NULL) ENGINE=CSV"]
ODD_NAMES = ["T{}", "n{:063d}", "x@{}", "x/{}", "x#{}", "x#p#y{}", "äß{}", "表{}", "x-{}"]
PLAIN = re.compile(r"[A-Za-z0-9_]+")

KINDS = (["create"] * 5 + ["insert"] * 8
         + ["rename", "swap", "truncate", "drop", "discard", "import", "import_link", "index", "rebuild", "partition",
            "general", "in_general", "rename_general", "directory", "fulltext", "undo", "add_partition", "move_general",
            "other_engine", "extend", "xa"])
# These need a table that nobody knows; they count it.
NEW = ("create", "partition", "in_general", "directory", "fulltext", "other_engine", "encrypted")


def is_table(stem: str) -> bool:
    """True if a file of that name is that of a table of the same name."""
    return PLAIN.fullmatch(stem) is not None and not stem.startswith("fts_")


class Statements:
    """Makes statements about tables that it may have made; any of them may fail."""

    def __init__(self, r: random.Random, home: Path):
        self.random, self.home = r, home
        self.n_tables = 0
        # Tables that somebody was told to make, with their schemas; some are not there any more.
        self.made: list[str] = []
        self.n_xa = 0
        self.n_saved = 0
        self.is_encrypted = False

    def name(self, number: int) -> str:
        """The name of a table; some are odd. It may stand in several schemas."""
        if number % 7 == 5:
            return ODD_NAMES[number // 7 % len(ODD_NAMES)].format(number)
        return f"t{number}"

    def some_table(self) -> str:
        """A table that is probably there."""
        if self.made and self.random.random() < 0.9:
            return self.random.choice(self.made)
        return f"{self.random.choice(SCHEMAS)}.`{self.name(self.random.randrange(max(self.n_tables, 1)))}`"

    def path(self, table: str) -> Path | None:
        """The file of a table, if its name is no other than that of the file."""
        schema, name = table.replace("`", "").split(".", 1)
        return self.home / "data" / schema / f"{name}.ibd" if PLAIN.fullmatch(name) else None

    def insert(self, table: str) -> str:
        start = self.random.randrange(1_000_000)
        values = ",".join(f"({start + i},REPEAT('x{i}',{self.random.randrange(90)}))" for i in range(10))
        return f"INSERT IGNORE INTO {table} VALUES {values};"

    def several(self, n: int) -> str:
        return "\n".join(self.one() for _ in range(n)) + "\n"

    def creates(self, n: int) -> str:
        return "\n".join(self.one("create") for _ in range(n)) + "\n"

    def one(self, kind: str = "") -> str:
        """A statement of a kind, or of any."""
        r = self.random
        schema = r.choice(SCHEMAS)
        kind = kind or r.choice(KINDS + ["encrypted"] * 8 * self.is_encrypted)
        new = f"{schema}.`{self.name(self.n_tables)}`"
        table = self.some_table()
        if kind in NEW:
            self.n_tables += 1
            self.made.append(new)
        if kind == "create":
            return f"CREATE TABLE {new} {COLUMNS}{r.choice(ROW_FORMATS)}{r.choice(EXTENDS)};{self.insert(new)}"
        if kind == "insert":
            return self.insert(table)
        if kind == "rename":
            renamed = f"{schema}.`{self.name(r.randrange(self.n_tables + 1))}`"
            self.made.append(renamed)
            return f"RENAME TABLE {table} TO {renamed};"
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
            return self.import_copy(table)
        if kind == "import_link":
            return self.import_link(table)
        if kind == "index":
            return f"ALTER TABLE {table} ADD INDEX i{r.randrange(1000)} (v(50), id), ALGORITHM=INPLACE;"
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
            return f"CREATE TABLESPACE {name} ADD DATAFILE '{path}'{r.choice(EXTENDS)};"
        if kind == "in_general":
            return f"CREATE TABLE {new} {COLUMNS} TABLESPACE g{r.randrange(4)};{self.insert(new)}"
        if kind == "rename_general":
            return f"ALTER TABLESPACE g{r.randrange(4)} RENAME TO g{r.randrange(4)};"
        if kind == "move_general":
            return f"ALTER TABLE {table} TABLESPACE g{r.randrange(4)};"
        if kind == "directory":
            place = r.choice(["ext2", "ext2", "ext1/deep", "by_link"])
            return f"CREATE TABLE {new} {COLUMNS} DATA DIRECTORY='{self.home}/{place}';{self.insert(new)}"
        if kind == "fulltext":
            return f"CREATE TABLE {new} (id INT PRIMARY KEY, v VARCHAR(200), FULLTEXT (v));{self.insert(new)}"
        if kind == "other_engine":
            return f"CREATE TABLE {new} {r.choice(OTHER_ENGINES)};{self.insert(new)}"
        if kind == "extend":
            return f"ALTER TABLE {table} AUTOEXTEND_SIZE={r.choice(['4M', '8M', '0'])};"
        if kind == "xa":
            self.n_xa += 1
            return (f"XA START 'x{self.n_xa}';{self.insert(table)}XA END 'x{self.n_xa}';XA PREPARE 'x{self.n_xa}';"
                    + (f"XA {r.choice(['COMMIT', 'ROLLBACK'])} 'x{self.n_xa}';" if r.random() < 0.85 else ""))
        if kind == "encrypted":
            return r.choice([
                f"CREATE TABLE {new} {COLUMNS} ENCRYPTION='Y';{self.insert(new)}",
                f"ALTER TABLE {table} ENCRYPTION='{r.choice('YN')}';",
                f"CREATE TABLESPACE g{r.randrange(4)} ADD DATAFILE 'ge{r.randrange(4)}.ibd' ENCRYPTION='Y';",
                f"ALTER TABLESPACE g{r.randrange(4)} ENCRYPTION='{r.choice('YN')}';",
                "ALTER INSTANCE ROTATE INNODB MASTER KEY;",
            ])
        return r.choice(["CREATE UNDO TABLESPACE u1 ADD DATAFILE 'u1.ibu';", "ALTER UNDO TABLESPACE u1 SET INACTIVE;",
                         "DROP UNDO TABLESPACE u1;"])

    def import_copy(self, table: str) -> str:
        """Import a copy of the table itself: a file that no server has seen."""
        path = self.path(table)
        if path is None:
            return self.insert(table)
        # Other clients make copies, too; and one of a file that has just been created may be empty. MySQL's IMPORT of an
        # empty file ends the server.
        self.n_saved += 1
        saved = self.home / f"tmp/import{self.n_saved}"
        return (f"FLUSH TABLES {table} FOR EXPORT;\n\\! cp {path} {saved} 2>/dev/null && test -s {saved} || rm -f {saved}\n"
                f"UNLOCK TABLES;ALTER TABLE {table} DISCARD TABLESPACE;\n\\! mv {saved} {path} 2>/dev/null\n"
                f"ALTER TABLE {table} IMPORT TABLESPACE;")

    def import_link(self, table: str) -> str:
        """Import the very file that the table had before it got another tablespace ID: import writes into it."""
        path = self.path(table)
        if path is None:
            return self.insert(table)
        self.n_saved += 1
        saved = self.home / f"tmp/link{self.n_saved}"
        statements = (f"FLUSH TABLES {table} FOR EXPORT;\n\\! ln -f {path} {saved} 2>/dev/null\n"
                      f"UNLOCK TABLES;TRUNCATE TABLE {table};ALTER TABLE {table} DISCARD TABLESPACE;\n"
                      f"\\! ln {saved} {path} 2>/dev/null\n")
        if self.random.random() < 0.8:
            statements += f"\\! rm -f {saved}\n"
        return statements + f"ALTER TABLE {table} IMPORT TABLESPACE;{self.insert(table)}"
