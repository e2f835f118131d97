# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""What is built: the commit, its time, and the release if a tag names one.

A tree without history (an unpacked source, the context of an image) can be told by SOURCE_DATE_EPOCH,
REDSTART_COMMIT and REDSTART_RELEASE, which count before what Git says.
"""

from __future__ import annotations

import datetime
import os
import re
import subprocess
from pathlib import Path

from redstart_cli.console import RedstartError
from redstart_cli.process import tied

_TAG = re.compile(r"(\d+\.\d+\.\d+)-redstart([1-9]\d*)")


def _git(repo: Path, *words: str) -> str:
    """Nothing if there is no Git, or no history."""
    try:
        return subprocess.run(tied(["git", "-C", str(repo), *words]), capture_output=True, text=True).stdout.strip()
    except OSError:
        return ""


def source_date(repo: Path) -> datetime.datetime:
    """The time that packages bear: SOURCE_DATE_EPOCH, else the commit's; now if the clone's history is not there."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH") or _git(repo, "log", "-1", "--format=%ct")
    if not epoch:
        return datetime.datetime.now(datetime.UTC).replace(microsecond=0)
    try:
        return datetime.datetime.fromtimestamp(int(epoch), datetime.UTC)
    except (ValueError, OverflowError) as problem:
        raise RedstartError(f"SOURCE_DATE_EPOCH must be seconds since 1970, not {epoch!r}") from problem


def commit(repo: Path) -> str:
    """12 digits, and + if files differ from it; nothing if it is not known."""
    given = os.environ.get("REDSTART_COMMIT")
    if not given:
        return _git(repo, "describe", "--always", "--abbrev=12", "--exclude=*", "--dirty=+")
    if not re.fullmatch(r"[0-9a-f]{7,64}\+?", given):
        raise RedstartError(f"REDSTART_COMMIT must be the name of a commit, not {given!r}")
    return given.rstrip("+")[:12] + "+" * given.endswith("+")


def release(repo: Path) -> tuple[str, int] | None:
    """MySQL's version and ours, of a tag such as 9.7.4-redstart1 at this commit; of several the last."""
    given = os.environ.get("REDSTART_RELEASE")
    if given and not _TAG.fullmatch(given):
        raise RedstartError(f"REDSTART_RELEASE must be such as 9.7.4-redstart1, not {given!r}")
    if not given and commit(repo).endswith("+"):
        return None
    tags = [given] if given else _git(repo, "tag", "--points-at", "HEAD").split()
    found = [(match[1], int(match[2])) for match in map(_TAG.fullmatch, tags) if match]
    return max(found, key=lambda tag: ([int(part) for part in tag[0].split(".")], tag[1]), default=None)


def options(repo: Path) -> list[str]:
    """For cmake/project_hook.cmake: what `version` says, and whether `version_comment` says a commit."""
    known = release(repo)
    return [f"-DREDSTART_COMMIT={'ON' if commit(repo) else 'OFF'}", f"-DREDSTART_RELEASE={known[1] if known else ''}"]


def write_commit(repo: Path, tree: Path) -> None:
    """commit.h of a build tree, for cmake/version_comment.cmake; as old as it is if it says the same."""
    text = f'#define COMMIT "{commit(repo)}"\n'
    file = tree / "commit.h"
    if not file.is_file() or file.read_text(encoding="utf-8") != text:
        tree.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
