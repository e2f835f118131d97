# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""What happens to the files of a data directory while no server, or another one, runs on it.

Each function changes a state and returns the paths that it touched: nothing if there was nothing to change.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from differential.server import copy
from differential.statements import is_table

if TYPE_CHECKING:
    from differential.states import State

Mutation = Callable[["State", Path, Path], list[Path]]
MUTATIONS: dict[str, Mutation] = {}
# Directories are looked into to this depth.
MAX_DEPTH = 64
# So many files are made to get one with an inode number that has become free.
MAX_TRIES = 500


def mutation(function: Mutation) -> Mutation:
    MUTATIONS[function.__name__] = function
    return function


def space_id(path: Path) -> bytes:
    """The tablespace ID in the header of a file, as it is there; nothing without a file."""
    if not path.exists():
        return b""
    with path.open("rb") as file:
        return file.read(38)[34:]


@mutation
def move(state: State, path: Path, _other: Path) -> list[Path]:
    target = state.schema() / path.name
    if target == path or target.exists():
        return []
    shutil.move(path, target)
    return [path, target]


@mutation
def away(state: State, path: Path, _other: Path) -> list[Path]:
    shutil.move(path, state.home / "tmp" / path.name)
    return [path]


@mutation
def duplicate(state: State, path: Path, _other: Path) -> list[Path]:
    target = state.schema() / f"copy{state.random.randrange(9)}.ibd"
    shutil.copy2(path, target)
    return [target]


@mutation
def rename(state: State, path: Path, _other: Path) -> list[Path]:
    target = path.with_name(f"renamed{state.random.randrange(9)}.ibd")
    path.rename(target)
    return [path, target]


@mutation
def swap(state: State, path: Path, other: Path) -> list[Path]:
    if path == other:
        return []
    spare = state.home / "tmp/spare"
    shutil.move(path, spare)
    shutil.move(other, path)
    shutil.move(spare, other)
    return [path, other]


@mutation
def new_inode(state: State, path: Path, _other: Path) -> list[Path]:
    shutil.copy2(path, state.home / "tmp/new")
    shutil.move(state.home / "tmp/new", path)
    return [path]


@mutation
def used_inode(state: State, path: Path, other: Path) -> list[Path]:
    """Another file of the same name; most file systems give it the inode number that has just become free."""
    source = state.random.choice([other, *sorted(state.old)])
    if source == path:
        return []
    inode = path.stat().st_ino
    content = source.read_bytes()
    path.unlink()
    tries = [path.with_name(f"try{number}") for number in range(MAX_TRIES)]
    for found in tries:
        found.touch()
        if found.stat().st_ino == inode:
            break
    else:
        state.note("  got another inode")
    found.write_bytes(content)
    found.rename(path)
    for spare in tries:
        spare.unlink(missing_ok=True)
    return [path]


def import_link(state: State, run: Callable[[str], None]) -> list[Path]:
    """Let a server run statements that import a file; nothing is touched if its ID has stayed."""
    path, text = state.import_link()
    if path is None:
        return []
    before = space_id(path)
    run(text)
    return [path] if space_id(path) != before else []


@mutation
def own_import(state: State, _path: Path, _other: Path) -> list[Path]:
    """Let the server with the map import the very file that a table had before it got another tablespace ID."""
    return import_link(state, lambda text: state.run(
        "on", 0, state.random.random() < 0.7, state.draw_end(["stop", "stop", "kill"]), text))


@mutation
def own_ddl(state: State, _path: Path, _other: Path) -> list[Path]:
    """Let the server with the map do DDL and be killed at once, so that only the journal has what has changed."""
    before = set(state.files())
    # Without a new table nothing might be needed of the journal.
    text = state.statements.creates(state.random.randrange(1, 4))
    state.run("on", state.random.choice([0, 3, 6]), False, state.draw_end(["kill", "kill", "ddl", "stop"]), text)
    return sorted(before ^ set(state.files()))


@mutation
def foreign_import(state: State, _path: Path, _other: Path) -> list[Path]:
    """The same by a server that does not keep the map."""
    def run(text: str) -> None:
        end = state.draw_end(["stop", "kill", "kill", "open"])
        state.run(state.random.choice(["off", state.stock_or_off()]), 0, False, end, text)

    return import_link(state, run)


@mutation
def delete(_state: State, path: Path, _other: Path) -> list[Path]:
    path.unlink()
    return [path]


@mutation
def short(state: State, path: Path, _other: Path) -> list[Path]:
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content[: state.random.choice([0, 0, 1000, 16384, len(content) // 2])])
    return [path]


@mutation
def old(state: State, _path: Path, _other: Path) -> list[Path]:
    """Restore a file from a copy."""
    sources = [source for source in sorted(state.old) if state.old[source].parent.is_dir()]
    if not sources:
        return []
    source = state.random.choice(sources)
    target = state.old[source]
    shutil.copy2(source, state.home / "tmp/new")
    shutil.move(state.home / "tmp/new", target)
    return [target]


@mutation
def schema_copy(state: State, _path: Path, _other: Path) -> list[Path]:
    schema = state.schema()
    copy(schema, state.home / "data/new")
    shutil.rmtree(schema)
    (state.home / "data/new").rename(schema)
    return [schema]


@mutation
def hard_link(state: State, path: Path, _other: Path) -> list[Path]:
    target = state.schema() / f"link{state.random.randrange(9)}.ibd"
    if target.exists():
        return []
    os.link(path, target)
    return [target]


@mutation
def soft_link(state: State, path: Path, _other: Path) -> list[Path]:
    target = state.home / "link" / f"soft{state.random.randrange(99)}.ibd"
    shutil.move(path, target)
    path.symlink_to(target)
    return [path]


@mutation
def there_and_back(state: State, path: Path, _other: Path) -> list[Path]:
    """Move a file, let another server see it there, and move it back."""
    target = state.schema() / path.name
    if target.exists():
        return []
    path.rename(target)
    if state.random.random() < 0.7:
        state.run(state.random.choice(["off", state.stock_or_off()]), 0, False, state.draw_end(["stop", "kill"]))
    if target.exists() and not path.exists():
        target.rename(path)
    return [path, target]


@mutation
def rename_back(state: State, path: Path, _other: Path) -> list[Path]:
    """Let another server rename a table, and undo that in the files: only the dictionary is another."""
    if path.parent.name not in ("a", "b", "c") or not is_table(path.stem):
        return []
    new = path.with_name(f"back{state.random.randrange(99)}.ibd")
    statement = f"RENAME TABLE {path.parent.name}.`{path.stem}` TO {path.parent.name}.{new.stem};\n"
    is_twice = state.random.random() < 0.5 or state.setting.is_narrow
    state.run(state.stock_or_off(), 0, False, "stop" if is_twice else state.draw_end(["stop", "kill"]), statement)
    if is_twice:
        # It leaves no redo of the table, so that recovery does not open that: only the dictionary tells.
        state.run(state.stock_or_off(), 0, False, state.draw_end(["stop", "kill"]))
    if not new.exists() or path.exists():
        return []
    new.rename(path)
    return [path]


@mutation
def touch(_state: State, path: Path, _other: Path) -> list[Path]:
    os.utime(path.parent)
    return [path.parent]


@mutation
def schema_rename(state: State, _path: Path, _other: Path) -> list[Path]:
    schema = state.schema()
    other = schema.with_name("other")
    if other.exists():
        return []
    schema.rename(other)
    if state.random.random() < 0.5:
        other.rename(schema)
    return [schema, other]


@mutation
def stray(state: State, _path: Path, _other: Path) -> list[Path]:
    """A file that is no tablespace."""
    target = state.schema() / "stray.ibd"
    target.write_bytes(os.urandom(100) if state.random.random() < 0.5 else bytes(65536))
    return [target]


@mutation
def hidden(state: State, path: Path, _other: Path) -> list[Path]:
    target = state.schema() / ".hidden.ibd"
    shutil.copy2(path, target)
    return [target]


@mutation
def deep(state: State, path: Path, _other: Path) -> list[Path]:
    """A table's file in the deepest of directories, some of which are too deep to be looked into."""
    places = [place for place in state.deep_places if place.is_dir()]
    if not places:
        return []
    target = state.random.choice([*places, places[-1]]) / path.name
    shutil.move(path, target)
    return [path, target]


@mutation
def directories(state: State, _path: Path, _other: Path) -> list[Path]:
    state.directories = state.directories[:1] if state.random.random() < 0.5 else state.directories[::-1]
    return [state.home / "ext1", state.home / "ext2"]


@mutation
def ext_rename(state: State, _path: Path, _other: Path) -> list[Path]:
    """Rename an external directory, let another server find its files there, and perhaps rename it back."""
    ext, moved = state.home / "ext2", state.home / "ext3"
    before = list(state.directories)
    if moved.exists() or not ext.is_dir() or str(ext) not in before:
        return []
    ext.rename(moved)
    state.directories = [str(moved) if path == str(ext) else path for path in before]
    if state.random.random() < 0.8:
        state.run(state.stock_or_off(), 0, False, state.draw_end(["stop", "kill"]))
    if state.random.random() < 0.8:
        moved.rename(ext)
        state.directories = before
    return [ext, moved]


@mutation
def device(state: State, _path: Path, _other: Path) -> list[Path]:
    """Mount everything by another device."""
    assert state.setting.change_device is not None
    state.setting.change_device()
    return [state.home / "data"]


@mutation
def no_map(state: State, _path: Path, _other: Path) -> list[Path]:
    if not state.map.exists():
        return []
    state.map.unlink()
    return [state.map]


@mutation
def bad_map(state: State, _path: Path, _other: Path) -> list[Path]:
    """Damage it. It need not be noticed: the damage may lie in a block that nobody reads."""
    r = state.random
    if not state.map.exists():
        return []
    content = bytearray(state.map.read_bytes())
    content[r.randrange(len(content))] ^= 1 << r.randrange(8)
    state.map.write_bytes(content[: r.choice([len(content), len(content), r.randrange(len(content))])])
    return [state.map]


@mutation
def old_map(state: State, _path: Path, _other: Path) -> list[Path]:
    if not state.map.exists() or not state.saved_map.exists():
        return []
    shutil.copy2(state.saved_map, state.map)
    return [state.map]


@mutation
def in_place_short(state: State, path: Path, _other: Path) -> list[Path]:
    state.in_place.add(path.stem)
    os.truncate(path, state.random.choice([0, 1000, 65536]))
    return [path]


@mutation
def in_place_old(state: State, _path: Path, _other: Path) -> list[Path]:
    sources = [source for source in sorted(state.old) if state.old[source].exists()]
    if not sources:
        return []
    source = state.random.choice(sources)
    target = state.old[source]
    state.in_place.add(target.stem)
    target.write_bytes(source.read_bytes())
    return [target]


@mutation
def in_place_swap(state: State, path: Path, other: Path) -> list[Path]:
    if path == other:
        return []
    state.in_place |= {path.stem, other.stem}
    one, two = path.read_bytes(), other.read_bytes()
    path.write_bytes(two)
    other.write_bytes(one)
    return [path, other]


# Drawn in this proportion. What the map can believe in spite of a change is drawn more often; what leaves no map
# to believe, or what one sees in every log, less.
WEIGHTS = {"move": 4, "duplicate": 3, "used_inode": 3, "swap": 3, "old": 3, "touch": 3, "deep": 3, "hard_link": 2,
           "in_place_short": 2, "in_place_old": 2, "in_place_swap": 2, "delete": 2, "short": 2, "rename": 2, "schema_copy": 2,
           "own_import": 2, "own_ddl": 5, "device": 6, "no_map": 0.4, "bad_map": 0.6, "directories": 0.5, "ext_rename": 0.6,
           "foreign_import": 0.7, "there_and_back": 0.6, "rename_back": 0.6}
# These leave the files to servers until the end.
BY_SERVERS = {"own_import", "own_ddl", "foreign_import", "rename_back"}
NO_FILES = {"no_map", "bad_map", "old_map", "directories", "touch"}
