# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The weekly question: do our edits still apply to what the archive has today?"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable
from enum import IntEnum

from redstart_cli import apt
from redstart_cli.console import RedstartError, error, say, warn
from redstart_cli.layout import Layout, cache_dir
from redstart_cli.locks import exclusive
from redstart_cli.source import check_edits
from redstart_cli.upstream import Release, read_pins


class Answer(IntEnum):
    """Exit status of `./redstart source --check archive` (2 is a wrong command line)."""

    APPLIES = 0
    DOES_NOT_APPLY = 1
    NOT_PINNED = 3
    NO_ANSWER = 4


def parse_versions(output: str, is_source: bool) -> list[str]:
    """Package versions in the output of `apt-cache madison` or `apt-cache showsrc`."""
    pattern = r"^Version: (\S+)$" if is_source else r"^ *\S+ \| *(\S+) \|"
    return list(dict.fromkeys(re.findall(pattern, output, re.MULTILINE)))


def newest(versions: Iterable[str]) -> str:
    """The highest of some Debian versions."""
    best = ""
    for version in versions:
        command = ["dpkg", "--compare-versions", version, "gt", best]
        if not best or subprocess.run(command).returncode == 0:
            best = version
    return best


def archive_versions(release: Release) -> list[str]:
    """Versions of a release's package that the archive has now; RedstartError if none of the mirrors answers."""
    problems = []
    private = cache_dir() / "apt-check"
    with exclusive(cache_dir() / "check-lock", "the check of the archive", wait=True):
        for mirror in apt.machine_mirrors():
            shutil.rmtree(private, ignore_errors=True)
            try:
                source = apt.PrivateApt(private, mirror, release.suite, release.is_source)
                source.update()
                command = ["showsrc", "--only-source"] if release.is_source else ["madison"]
                return parse_versions(source.ask(*command, release.package), release.is_source)
            except RedstartError as problem:
                problems.append(str(problem))
            finally:
                shutil.rmtree(private, ignore_errors=True)
    raise RedstartError("; ".join(problems) or "the machine's apt sources name no Debian mirror with component main")


def check_archive(layout: Layout) -> Answer:
    """Say what the archive has and whether the edits apply to it."""
    _, releases = read_pins(layout.repo)
    # Source and binary packages of one Debian version hold the same upstream release.
    pinned = {release.package_version for release in releases.values()}
    held: list[str] = []
    unpinned: list[str] = []
    for version, release in releases.items():
        try:
            found = archive_versions(release)
        except RedstartError as problem:
            error(f"the archive gives no answer: {problem}")
            return Answer.NO_ANSWER
        name = f"{release.package} ({release.suite})"
        if release.package_version in found:
            say(f"the archive has {name} {release.package_version}, pinned as {version}")
            held.append(version)
        else:
            warn(f"the archive no longer has {name} {release.package_version}, pinned as {version}")
        last = newest(found)
        if last and last not in pinned:
            unpinned.append(f"{release.package} {last}")
    applies = [check_edits(layout, version) for version in held]
    if not all(applies):
        return Answer.DOES_NOT_APPLY
    if unpinned or not held:
        what = ", ".join(unpinned) or "none of the pinned releases"
        error(f"the archive has {what}, which cmake/upstream.json does not pin: docs/upgrading-upstream.md")
        return Answer.NOT_PINNED
    say("the edits apply to what the archive has")
    return Answer.APPLIES
