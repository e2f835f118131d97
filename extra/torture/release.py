# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Which release of MySQL a data directory is of, and which servers MySQL lets start on it.

The dictionary has two numbers: the release of the last server that has begun with it, and the last release for which the
tables of the schemas `mysql` and `sys` were made. A start that changes the release commits the first one, makes the tables, and
commits the second one. Where the two differ only a server of the first release starts; others end with
ER_SERVER_UPGRADE_PENDING, MY-013379. What a start that was interrupted has left is one of three, and which one nobody has said.

It may also have left an open transaction that has changed these tables. MySQL rolls it back only after it has made the tables, and
so does not come that far, start after start: it waits for a lock of that transaction for innodb_lock_wait_timeout. A start with
--upgrade=MINIMAL makes no tables, and rolls back. And a start that has rolled back an interrupted ALTER of such a table dies when
it alters the table, which is in its cache already; the next one finds nothing to roll back.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass

from redstart_cli.mysqld import Binary
from redstart_cli.tools import ToolError

PENDING = re.compile(
    r"\[MY-013379\] .*Server upgrade started with version (\d+), but server upgrade of version (\d+) is still pending"
)
MINIMAL = "--upgrade=MINIMAL"
ROLLED_BACK = "Rollback of non-prepared transactions completed"
# A timeout by itself, or one of the lock of what stands in a tablespace about its tables (ER_SDI_OPERATION_FAILED).
_LOCKED = re.compile(r"\[MY-013178\] .* failed with error code = (?:1205|3664),[^\n]*\n(?:.*\n)*?.*\[MY-013380\]")
_CACHED = re.compile(r"Rollback of trx with id \d+ completed\n(?:.*\n)*?.*Assertion failure: dict0dict\.cc:\d+:table2 == nullptr")
LOCK, CACHE = "lock", "cache"
# How such a server ends: not by a signal, nor by an assertion.
_EXIT = 1
_VERSION = re.compile(r" Ver (\d+)\.(\d+)\.(\d+)")
VERSION_TIMEOUT_SEC = 60


@dataclass(frozen=True)
class Releases:
    """All that the two numbers of a data directory may be."""

    possible: frozenset[tuple[int, int]]

    @classmethod
    def settled(cls, release: int) -> Releases:
        """After a start that has come to its end."""
        return cls(frozenset({(release, release)}))

    def interrupted(self, release: int) -> Releases:
        """After a start that was interrupted anywhere."""
        left = set(self.possible)
        for begun, done in self.possible:
            # Others are refused, and change nothing.
            if begun in (done, release):
                left |= {(release, done), (release, release)}
        return Releases(frozenset(left))

    def refused(self, release: int, code: int | None, said: str) -> Releases | None:
        """After a server of this release that has ended with `code` and has said this; None if MySQL's rule does not explain it."""
        found = PENDING.search(said)
        if code != _EXIT or found is None or int(found[1]) != release:
            return None
        left = {pair for pair in self.possible if pair[0] not in (pair[1], release) and pair[1] == int(found[2])}
        return Releases(frozenset(left)) if left else None

    def may_block(self, release: int) -> bool:
        """Whether what an interrupted change to this release has left may block the next one."""
        return any(begun == release != done for begun, done in self.possible)

    def blocked(self, release: int, code: int | None, said: str) -> str:
        """By what of an interrupted change to this release a server was kept from it that has ended with `code` and has said this:
        LOCK, CACHE, or empty if that explains nothing."""
        if not self.may_block(release):
            return ""
        if code == _EXIT:
            return LOCK if _LOCKED.search(said) else ""
        return CACHE if _CACHED.search(said) else ""

    def may_start(self) -> set[int]:
        """The releases that the dictionary may be of; after a refusal others do not start."""
        return {begun for begun, _ in self.possible}


def release_of(binary: Binary) -> int:
    """The release of a server as the dictionary has it, 90704 for 9.7.4; ToolError if it does not say it."""
    try:
        done = subprocess.run(
            [*binary.words, "--no-defaults", "--version"], capture_output=True, text=True, timeout=VERSION_TIMEOUT_SEC
        )
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise ToolError(f"{binary.name} does not say its version: {problem}") from problem
    found = _VERSION.search(done.stdout)
    if done.returncode != 0 or found is None:
        raise ToolError(f"{binary.name} does not say its version: {done.stdout.strip()} {done.stderr.strip()}")
    major, minor, patch = (int(word) for word in found.groups())
    return major * 10000 + minor * 100 + patch


def releases_of(binaries: Mapping[str, Binary]) -> dict[str, int]:
    """Those of several servers by name."""
    return {name: release_of(binary) for name, binary in binaries.items()}
