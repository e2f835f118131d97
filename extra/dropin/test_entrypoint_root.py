# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The entry point of the image when the container is started as root: what becomes whose, and who the server is.

Needs root and the built programs (REDSTART_CLIENTS). Nobody stands for the user mysql.
"""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from dropin.entrypoint import DOCKER, NO_ZONES, PROGRAMS, EntryPoint
from redstart_cli.mounts import with_mounts

USER = pwd.getpwnam("nobody")
SERVER, ROOT = USER.pw_name, "root"


def make() -> EntryPoint:
    """The entry point of root, with folders of root, as an engine makes them for a mount that is not there."""
    found = EntryPoint()
    found.work.chmod(0o711)
    for folder in (found.data, found.init, found.run):
        folder.chmod(0o755)
    found.start_scripts.rmdir()
    # By mounts that only its processes see the server's user reaches the programs wherever the clone is.
    found.docker, build = found.work / "Docker", found.work / "build"
    found.docker.mkdir()
    build.mkdir()
    found.prefix = with_mounts([], [(DOCKER, found.docker), (PROGRAMS.parent, build)])
    path = f"{found.docker}:{build}/{PROGRAMS.name}:/usr/sbin:/usr/bin:/sbin:/bin"
    found.environment |= {**NO_ZONES, "PATH": path, "HOME": "/root", "REDSTART_USER": SERVER}
    return found


@pytest.fixture
def image() -> Iterator[EntryPoint]:
    with make() as found:
        yield found


def owners(*paths: Path) -> list[str]:
    return [path.owner() for path in paths]


def not_of_the_server(folder: Path) -> list[Path]:
    """What in a folder belongs to somebody else."""
    return [path for path in (folder, *folder.rglob("*")) if path.lstat().st_uid != USER.pw_uid]


# Before there is a database


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [(["--version"], "Ver"), (["mysqld", "--verbose", "--help"], "^datadir"), (["id", "-un"], "^root$")],
)
def test_a_question_changes_no_owner(image: EntryPoint, arguments: list[str], answer: str) -> None:
    assert re.search(answer, image.ask(*arguments), re.MULTILINE)
    assert owners(image.data, image.run) == [ROOT, ROOT]


def test_what_is_not_empty_and_no_database_stays_as_it_is(image: EntryPoint) -> None:
    (image.data / "something").touch()
    assert "holds no database" in image.refusal(MYSQL_ROOT_PASSWORD="x")
    assert owners(image.data / "something", image.data, image.run) == [ROOT, ROOT, ROOT]


def test_a_folder_that_has_other_files_is_not_given_away(image: EntryPoint) -> None:
    (image.run / "other").touch()
    assert f"cannot write in {image.run}, which is not empty" in image.refusal(MYSQL_ROOT_PASSWORD="x")
    assert owners(image.run) == [ROOT]


def test_a_value_that_the_server_refuses_is_named(image: EntryPoint) -> None:
    said = image.refusal("--max-allowed-packet=false", MYSQL_ROOT_PASSWORD="x")
    assert "Error while setting value 'false' to 'max_allowed_packet'" in said


def test_root_that_cannot_become_another_user_is_refused(image: EntryPoint) -> None:
    said = image.refusal(under=["setpriv", "--bounding-set=-setuid", "--inh-caps=-setuid"], MYSQL_ROOT_PASSWORD="x")
    assert f"root cannot become user {SERVER}" in said


def test_a_data_directory_in_new_folders_is_the_servers(image: EntryPoint) -> None:
    folder = image.work / "new/data/dir"
    image.start(f"--datadir={folder}", REDSTART_DATADIR="", MYSQL_ROOT_PASSWORD="x")
    assert image.sql("root", "x", "SELECT @@datadir") == f"{folder}/"
    image.stop()
    assert owners(folder, image.work / "new") == [SERVER, ROOT] and folder.stat().st_mode & 0o7777 == 0o700


# A database


@pytest.fixture(scope="module")
def database() -> Iterator[EntryPoint]:
    """It, after a first start in folders of root with a password that only root can read; a test may have ended it."""
    with make() as found:
        (found.data / "lost+found").mkdir(mode=0o700)
        password, script = found.work / "password", found.init / "1.sh"
        password.write_text("x")
        password.chmod(0o600)
        script.write_text('#!/bin/sh\necho "$(id -un) $HOME" >"$WORK/data/who"\n')
        script.chmod(0o755)
        # In one that everybody may write in nothing is to be changed; one that is not there is made.
        (found.work / "everybody").mkdir()
        (found.work / "everybody").chmod(0o1777)
        found.options += [f"--pid-file={found.work}/everybody/a.pid", f"--slow-query-log-file={found.work}/logs/slow/a.log",
                          "--slow-query-log"]  # fmt: skip
        found.start(MYSQL_ROOT_PASSWORD_FILE=str(password))
        yield found


def test_root_reads_the_password(running: EntryPoint) -> None:
    assert running.sql("root", "x", "SELECT CURRENT_USER()") == "root@localhost"


def test_the_entry_point_becomes_a_server_without_rights_of_root(running: EntryPoint) -> None:
    process = Path(f"/proc/{running.process.pid}")
    assert (process.owner(), (process / "comm").read_text()) == (SERVER, "mysqld\n")
    status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
    assert {int(group) for group in status["Groups"].split()} == set(os.getgrouplist(SERVER, USER.pw_gid))
    assert {name: int(status[name], 16) for name in ("CapEff", "CapPrm", "CapAmb")} == {"CapEff": 0, "CapPrm": 0, "CapAmb": 0}


def test_scripts_are_run_by_the_servers_user(running: EntryPoint) -> None:
    assert (running.data / "who").read_text() == f"{SERVER} {USER.pw_dir}\n"


def test_no_more_is_given_away_than_has_to_be(ended: EntryPoint) -> None:
    lost = ended.data / "lost+found"
    assert owners(lost) == [ROOT] and lost.stat().st_mode & 0o7777 == 0o700
    assert not_of_the_server(ended.data) == [lost]
    assert not_of_the_server(ended.run) == not_of_the_server(ended.work / "logs/slow") == []
    others = [ended.work / name for name in ("everybody", "logs", "password")]
    assert owners(*others) == [ROOT, ROOT, ROOT]


def test_a_later_start_gives_nothing_away(ended: EntryPoint) -> None:
    ended.start()
    assert "giving" not in ended.output()


def test_a_database_of_somebody_else_is_given_to_the_server(ended: EntryPoint) -> None:
    for path in (ended.data, *ended.data.rglob("*")):
        os.chown(path, 12345, 12345)
    outside = ended.work / "outside"
    outside.write_text("secret\n")
    (ended.data / "link").symlink_to(outside)
    (ended.data / "lost+found").rmdir()
    ended.start()
    assert f"giving {ended.data} to user {SERVER}" in ended.output()
    assert ended.sql("root", "x", "SELECT 1") == "1"
    ended.stop()
    assert owners(outside) == [ROOT], "a file outside was given away"
    assert not_of_the_server(ended.data) == []
