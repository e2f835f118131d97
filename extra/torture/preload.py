# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The library that is preloaded into servers (faults.c)."""

from __future__ import annotations

from pathlib import Path

from redstart_cli import tools

ROLLBACK_THREAD = "ib_tx_recov"
_SOURCE = Path(__file__).resolve().parent / "faults.c"


def library(work: Path) -> Path:
    """The library, compiled once."""
    made = work / "faults.so"
    if not made.exists():
        tools.need("cc")
        making = made.with_suffix(".making")
        tools.run(["cc", "-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror", "-o", making, _SOURCE, "-ldl"])
        making.rename(made)
    return made


def dropping(work: Path, kinds: str) -> dict[str, str]:
    """Environment of a server whose flushes of some kinds of files do nothing."""
    return {"LD_PRELOAD": str(library(work)), "TORTURE_DROP": kinds} if kinds else {}


def lying(work: Path) -> dict[str, str]:
    """Environment of a server whose flushes of binary logs leave holes on the disk."""
    return {"LD_PRELOAD": str(library(work)), "TORTURE_LIE": "1"}


def slow_undo(work: Path, msec: int) -> dict[str, str]:
    """Environment of a server in which a read of an undo log takes longer for the thread that rolls back after a crash."""
    return {"LD_PRELOAD": str(library(work)), "TORTURE_SLOW": f"undo,{ROLLBACK_THREAD},{msec}"}


def failing(work: Path, fault: object, fired: Path, arm: Path | None = None) -> dict[str, str]:
    """Environment of a server with a fault, which makes the file `fired`; with `arm`, from when there is such a file."""
    environment = {"LD_PRELOAD": str(library(work)), "TORTURE_FAULT": str(fault), "TORTURE_FIRED": str(fired)}
    return environment | ({"TORTURE_ARM": str(arm)} if arm else {})
