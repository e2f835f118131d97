# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Servers that are broken on purpose, which the differential test has to notice."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from differential.states import TEMP_PATHS, Setting
from redstart_cli.mysqld import Binary

SOURCE = Path(__file__).with_name("canary.c")
# Within so many states each has to be found.
MAX_STATES = 50
MAP = "_ZN14tablespace_map"
# A server that is not told would find out that directories do not change their times, and trust none.
HIDDEN_TIMES = ("directory", f"zero:{MAP}7Journal10test_timesE")


@dataclass(frozen=True)
class Canary:
    """One way to break the server, and the changes of a state that it is blind to."""

    faults: tuple[str, ...]
    kinds: tuple[str, ...]
    # How servers end; empty for any end.
    ends: tuple[str, ...] = ()
    # Faults that are there to hide the one that counts; in a state in which it is found they must change nothing.
    helpers: tuple[str, ...] = ()
    # What the report of the state says if the server did what it would not have done otherwise.
    witness: str = "met"


CANARIES = {
    "changed-directory": Canary(HIDDEN_TIMES, ("duplicate", "hard_link", "move", "rename", "swap", "old")),
    "birth-time": Canary(("birth",), ("used_inode",)),
    "duplicate-check": Canary((f"return:{MAP}5Start7checkedE",), ("duplicate", "hard_link"),
                              ("stop", "kill")),
    # The times of directories would give forgotten DDL away, so they are hidden as well. A server that is killed
    # before it has written the map needs them, so that a state counts only if it passes with this fault alone.
    "forgotten-ddl": Canary((*HIDDEN_TIMES, *(f"return:{MAP}{name}" for name in ("3DdlC", "3DdlD", "3Ddl5begin",
                                                                                "3Ddl3end", "6ImportC", "6ImportD"))),
                            ("own_import",), ("stop",), HIDDEN_TIMES),
    # The same of the directories.
    "unwritten-journal": Canary((*HIDDEN_TIMES, "journal"), ("own_ddl",), ("kill",), HIDDEN_TIMES),
    # A server that stops removes its temporary file.
    "dictionary-comparison": Canary(("temporary",), ("rename_back",), ("kill",), witness="lazy"),
}


class CanaryError(Exception):
    """A canary could not be put into the server, so that it says nothing that it was not found."""


def compile_library(target: Path) -> Path:
    """Compile the library that is preloaded."""
    subprocess.run(["gcc", "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", str(target),
                    str(SOURCE)], check=True)
    return target


def prefix(library: Path, faults: tuple[str, ...], mark: Path) -> list[str]:
    """What a broken command is called by."""
    names = ":".join([*(path.split(":")[0] for path in TEMP_PATHS), "temp_1.ibt"])
    return ["env", f"LD_PRELOAD={library}", f"CANARY_FAULTS={','.join(faults)}", f"CANARY_MARK={mark}",
            f"CANARY_TEMPORARY={names}"]


def with_canary(setting: Setting, canary: Canary, library: Path, mark: Path) -> Setting:
    """The same with a server that is broken where it keeps the map; without stock, and less mixed."""
    on = setting.subjects["on"]
    broken = Binary(on.name, on.command, on.options, prefix(library, canary.faults, mark))
    return replace(setting, subjects={"on": broken, "off": setting.subjects["off"]}, kinds=canary.kinds,
                   ends=canary.ends, is_narrow=True)


def is_found(canary: Canary, state: Mapping[str, object]) -> bool:
    """True if the comparison has noticed what the broken server did.

    A state that ended in an error was not compared: it may lack the witness, and finds nothing.
    """
    return not state["error"] and bool(state["difference"]) and bool(state[canary.witness])


def check_functions(server: list[str], canary_names: Iterable[str], library: Path, mark: Path) -> None:
    """Each function that a canary replaces is one of the server `server`, which is asked for its version alone.

    A compiler may put a function into its callers, where it cannot be replaced. Raises CanaryError, before states
    are made for an hour.
    """
    for name in canary_names:
        canary = CANARIES[name]
        functions = tuple(fault for fault in canary.faults if fault.startswith(("return:", "zero:")))
        mark.unlink(missing_ok=True)
        subprocess.run([*prefix(library, functions, mark), *server, "--version"], check=True, stdout=subprocess.DEVNULL)
        check_mark(name, replace(canary, faults=functions), mark)
    mark.unlink(missing_ok=True)


def check_mark(name: str, canary: Canary, mark: Path) -> None:
    """Each fault must have been at work."""
    active = set(mark.read_text().splitlines()) if mark.exists() else set()
    missing = [fault for fault in canary.faults if fault not in active]
    if missing:
        raise CanaryError(f"the canary {name} was not at work: {', '.join(missing)}")
