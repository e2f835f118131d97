# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""What a data directory holds, found out without changing a byte of it.

Format facts: page 0 of mysql.ibd (InnoDB's dictionary tablespace, MySQL 8.0 and newer) holds the
version of the server that last wrote it as a big-endian number at byte 8 (FIL_PAGE_SRV_VERSION),
9.7.4 = 90704. InnoDB locks ibdata1 with fcntl while a server runs on it.
"""

from __future__ import annotations

import fcntl
import os
import struct
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from redstart_cli.console import RedstartError

_SERVER_VERSION_OFFSET = 8
_FLOCK = "hhqqi"


class Kind(Enum):
    NEW = "does not exist or is empty"
    MYSQL = "data of MySQL 8.0 or newer"


@dataclass(frozen=True)
class DataDir:
    """A directory that a server may use: `version` is None for a new one."""

    path: Path
    kind: Kind
    version: tuple[int, int, int] | None


def parse_version(text: str) -> tuple[int, int, int]:
    """(9, 7, 4) of 9.7.4."""
    major, minor, patch = (int(part) for part in text.split("."))
    return major, minor, patch


def version_text(version: tuple[int, int, int]) -> str:
    return ".".join(map(str, version))


def written_by(mysql_ibd: Path) -> tuple[int, int, int] | None:
    """Version of the server that wrote the dictionary tablespace; None if the file is too short or zero."""
    with mysql_ibd.open("rb") as file:
        head = file.read(_SERVER_VERSION_OFFSET + 4)
    if len(head) < _SERVER_VERSION_OFFSET + 4:
        return None
    (number,) = struct.unpack_from(">I", head, _SERVER_VERSION_OFFSET)
    return (number // 10000, number // 100 % 100, number % 100) if number else None


def locked_by(path: Path) -> int | None:
    """Process that holds InnoDB's lock on a file (0 if it is not visible from here); None if nobody."""
    with path.open("rb") as file:
        query = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        kind, _, _, _, pid = struct.unpack(_FLOCK, fcntl.fcntl(file, fcntl.F_GETLK, query))
    return None if kind == fcntl.F_UNLCK else pid


def inspect(path: Path) -> DataDir:
    """Tell what `path` is; RedstartError for anything a server must not be started on."""
    if not path.exists():
        if path.is_symlink():
            raise RedstartError(f"{path} is a broken symbolic link")
        return DataDir(path, Kind.NEW, None)
    if not path.is_dir():
        raise RedstartError(f"{path} is not a directory")
    try:
        names = set(os.listdir(path))
    except PermissionError as problem:
        raise RedstartError(f"the data directory {path} cannot be read by this user") from problem
    untouched = "Nothing was touched; give another --datadir."
    if not names:
        if os.path.ismount(path):
            raise RedstartError(f"{path} is a mount point; give a new directory inside it: --datadir {path}/data")
        return DataDir(path, Kind.NEW, None)
    if any(name.startswith("aria_log") for name in names) or "mariadb_upgrade_info" in names:
        raise RedstartError(f"{path} is a data directory of MariaDB. {untouched}")
    if "PG_VERSION" in names:
        raise RedstartError(f"{path} is a data directory of PostgreSQL. {untouched}")
    if "ibdata1" in names and "mysql.ibd" not in names:
        raise RedstartError(
            f"{path} has ibdata1 but no mysql.ibd: data of MySQL 5.7 or older, or an initialisation that "
            f"was cut short. {untouched}"
        )
    if "mysql.ibd" not in names:
        some = ", ".join(sorted(names)[:5])
        raise RedstartError(f"{path} is not empty and is no MySQL data directory (it has {some}). {untouched}")
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK) or not os.access(path / "mysql.ibd", os.R_OK | os.W_OK):
        raise RedstartError(f"the data directory {path} cannot be written by this user. {untouched}")
    if "ibdata1" in names:
        pid = locked_by(path / "ibdata1")
        if pid is not None:
            who = f"process {pid}" if pid else "a process of another container or namespace"
            raise RedstartError(f"a running server ({who}) uses {path}. {untouched}")
    version = written_by(path / "mysql.ibd")
    if version is None:
        raise RedstartError(f"{path}/mysql.ibd names no server version: is the file damaged? {untouched}")
    return DataDir(path, Kind.MYSQL, version)


def check_version(datadir: DataDir, server: tuple[int, int, int]) -> str | None:
    """A note for the user if the server will upgrade (or step back within its series); RedstartError
    if the data is of another series, because opening it would change it for good or fail."""
    if datadir.version is None or datadir.version == server:
        return None
    ours, theirs = version_text(server), version_text(datadir.version)
    if datadir.version[:2] == server[:2]:
        if datadir.version < server:
            return f"{datadir.path} was last used by {theirs}; {ours} will upgrade it (9.7 can step back later)"
        return f"{datadir.path} was last used by the newer {theirs}; {ours} is of the same LTS series and can open it"
    if datadir.version > server:
        raise RedstartError(
            f"{datadir.path} was written by MySQL {theirs}, newer than {ours}, which cannot open it. "
            "Nothing was touched; give another --datadir."
        )
    raise RedstartError(
        f"{datadir.path} was written by MySQL {theirs}. Opening it with {ours} would upgrade it for good, so `up` "
        "does not do that by itself. Copy it and start build/release/runtime_output_directory/mysqld on the copy, "
        "or give another --datadir."
    )
