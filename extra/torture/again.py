# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""A kept failure, shown once more."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from redstart_cli.console import RedstartError, say
from redstart_cli.mounts import own_namespace
from torture import preload, redo, stack
from torture.life import RIG, Rig, left_by_last_kill
from torture.oracle import Verdict, read_journal
from torture.power import check_place
from torture.release import Releases
from torture.replica import REPLICA
from torture.server import Place


def show_again(rig: Rig, folder: Path) -> bool:
    """Start the same server on a copy of what the crash left and ask the oracle; True if nothing is wrong."""
    try:
        case = json.loads((folder / "case.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise RedstartError(f"{folder} holds no kept failure: {problem}") from problem
    if case.get("rig") != RIG:
        raise RedstartError(f"{folder} was kept by another version of this test, which asked for other things")
    if case["wrong"] and not case["lost"] and all(text.startswith(REPLICA) for text in case["wrong"]):
        raise RedstartError(f"a replica cannot be asked again; what it held is in {folder / 'replica'}")
    if case["kind"] == "redo":
        return redo.again(rig, folder, case)
    histories = read_journal(folder / "journal")
    home = rig.work / "again"
    home.mkdir()
    environment = case["place"]["environment"]
    if "LD_PRELOAD" in environment:
        environment["LD_PRELOAD"] = str(preload.library(rig.work))
    possible = case.get("releases")
    releases = Releases(frozenset((begun, done) for begun, done in possible)) if possible else None
    # Its port may be taken.
    options = [*case["place"]["options"], "--skip-networking"]
    place = Place(home / "data", home / "error.log", options, environment)
    if case["kind"] == "power":
        own_namespace()
        image, point = home / "image", home / "fs"
        point.mkdir()
        stack.copy_image(folder / "image", image)
        place.data = point / "data"
        with stack.mounted(image, point, case["file_system"]):
            verdict = check_place(
                rig, place, case["subject"], histories, case["limit"], wants_pages=True, releases=releases
            )  # fmt: skip
    else:
        shutil.copytree(left_by_last_kill(folder), place.data)
        verdict = check_place(
            rig, place, case["subject"], histories, case["limit"], wants_pages=True, releases=releases
        )  # fmt: skip
    _say(verdict, place)
    return verdict.is_clean


def _say(verdict: Verdict, place: Place) -> None:
    for text in [*verdict.lost, *verdict.wrong]:
        say(f"  {text}")
    say(f"{verdict.checked} commits are there, {len(verdict.lost)} lost, {len(verdict.wrong)} wrong; log: {place.log}")
