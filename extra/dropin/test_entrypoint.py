# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The entry point and the health check of the image, as scripts, with the built programs (REDSTART_CLIENTS).

Root becomes another user in a user namespace, for whom a folder without write permission is not writable.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from dropin.entrypoint import DOCKER, NO_ZONES, EntryPoint
from redstart_cli.mtr import unprivileged
from redstart_cli.server import free_port

PASSWORD = "sec'ret \\ \"x\""
USER, USER_PASSWORD = "o'neil", "p\\w"
DATABASE, QUOTED = "my_d`b", "`my_d``b`"

# Not executable: a part of the entry point.
SOURCED = """\
echo 'INSERT INTO a VALUES (6)' | docker_process_sql
docker_process_sql --database=mysql --execute 'INSERT INTO `my_d``b`.a VALUES (7)' $UNSET
"${mysql[@]}" <<<'INSERT INTO a VALUES (8)'
[ "$SOCKET" = "$WORK/run/mysqld.sock" ] && [ "$DATADIR" = "$WORK/data" ]
"""
# Executable: a program of its own, with what it needs in the environment.
EXECUTED = """\
#!/bin/bash
set -eu
mysql --no-defaults -uroot -p"$MYSQL_ROOT_PASSWORD" "$MYSQL_DATABASE" --execute 'INSERT INTO a VALUES (9)'
mysql --no-defaults -u"$MYSQL_USER" -p"$MYSQL_PASSWORD" "$MYSQL_DATABASE" --execute 'INSERT INTO a VALUES (10)'
if healthcheck.sh >"$WORK/health"; then touch "$WORK/too-early"; fi
"""


def make() -> EntryPoint:
    """The entry point of an ordinary user, with empty folders."""
    found = EntryPoint()
    found.prefix = unprivileged()
    # For /etc/mysql/my.cnf, from which the clients in the image know the socket.
    found.environment["MYSQL_UNIX_PORT"] = str(found.socket)
    found.options.append("--secure-file-priv=NULL")
    return found


@pytest.fixture
def image() -> Iterator[EntryPoint]:
    with make() as found:
        yield found


# What leaves no database


def test_the_secret_of_compose_is_made_as_its_comment_says(tmp_path: Path) -> None:
    shutil.copytree(DOCKER, tmp_path / "Docker", ignore=shutil.ignore_patterns("secrets"))
    text = (DOCKER / "compose.yaml").read_text()
    commands = "\n".join(re.findall(r"^#   (.*)$", text, re.MULTILINE))
    assert commands, "compose.yaml does not say how the secret is made"
    subprocess.run(["bash", "-eu", "-c", commands], cwd=tmp_path, check=True)
    ((named,),) = (secret.values() for secret in yaml.safe_load(text)["secrets"].values())
    secret = tmp_path / "Docker" / named
    assert secret.stat().st_size > 0
    # It is mounted as it is, into a container of another user; on the host the folder keeps others out.
    assert secret.stat().st_mode & 0o7777 == 0o644 and secret.parent.stat().st_mode & 0o7777 == 0o700
    folder = secret.parent.relative_to(tmp_path)
    for ignored in (".dockerignore", ".gitignore"):
        lines = (DOCKER.parent / ignored).read_text().splitlines()
        assert str(folder) in [line.strip("/") for line in lines], f"{ignored} does not leave out {folder}"


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        (["mysqld", "--version"], "Ver"),
        (["mysqld", "--verbose", "--help"], "^datadir.*/"),
        (["mysqld", "--validate-config"], ""),
        (["--version"], "Ver"),
        (["--print-defaults"], "mysqld would have been started with the following arguments"),
        (["echo", "other", "program"], "^other program$"),
    ],
)
def test_a_question_is_passed_on_without_a_password(image: EntryPoint, arguments: list[str], answer: str) -> None:
    options = image.options if arguments[0] == "mysqld" else []
    assert re.search(answer, image.ask(*arguments[:1], *options, *arguments[1:]), re.MULTILINE)
    assert not any(image.data.iterdir())


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({}, "no password is given"),
        ({"MYSQL_ROOT_PASSWORD": "x", "MYSQL_USER": "u"}, "MYSQL_USER needs MYSQL_PASSWORD"),
        ({"MYSQL_ROOT_PASSWORD": "x", "MYSQL_PASSWORD": "y"}, "MYSQL_PASSWORD needs MYSQL_USER"),
        ({"MYSQL_ROOT_PASSWORD": "x", "MYSQL_USER": "root", "MYSQL_PASSWORD": "y"}, "MYSQL_USER cannot be root"),
        ({"MYSQL_ROOT_PASSWORD": "x", "MYSQL_ROOT_PASSWORD_FILE": "/etc/hostname"}, "both set"),
        ({"MYSQL_ROOT_PASSWORD_FILE": "/no/such/file"}, "cannot be read"),
    ],
)
def test_variables_that_are_refused(image: EntryPoint, variables: dict[str, str], said: str) -> None:
    assert said in image.refusal(**variables)
    assert not any(image.data.iterdir())


def test_a_data_directory_with_something_else_is_refused(image: EntryPoint) -> None:
    (image.data / "something").touch()
    assert "holds no database" in image.refusal(MYSQL_ROOT_PASSWORD="x")
    assert [path.name for path in image.data.iterdir()] == ["something"]


@pytest.mark.parametrize("name", ["data", "run"])
def test_a_folder_that_cannot_be_written_is_refused(image: EntryPoint, name: str) -> None:
    (image.work / name).chmod(0o500)
    assert f"{name} cannot be written by user" in image.refusal(MYSQL_ROOT_PASSWORD="x")
    assert not any(image.data.iterdir())


@pytest.mark.parametrize(
    ("option", "said"),
    [("--no-such-option", ""), ("--max-allowed-packet=false", "Error while setting value 'false' to 'max_allowed_packet'")],
)
def test_a_configuration_that_the_server_refuses(image: EntryPoint, option: str, said: str) -> None:
    text = image.refusal(option, MYSQL_ROOT_PASSWORD="x")
    assert "does not accept its configuration" in text and said in text
    assert not any(image.data.iterdir())


# What leaves a part of one


def test_a_database_that_could_not_be_made_is_not_started(image: EntryPoint) -> None:
    no_room = ["prlimit", f"--fsize={8 << 20}"]
    assert "could not be made" in image.refusal(under=no_room, MYSQL_ROOT_PASSWORD="x")
    assert "did not come to its end" in image.refusal(MYSQL_ROOT_PASSWORD="x")


@pytest.mark.parametrize(("name", "script"), [("1.sql", "THIS IS NO SQL;\n"), ("1.sh", "false\ntrue\n")])
def test_a_database_whose_script_failed_is_not_started(image: EntryPoint, name: str, script: str) -> None:
    (image.init / name).write_text(script)
    assert f"{name} failed" in image.refusal(MYSQL_ROOT_PASSWORD="x")
    assert "did not come to its end" in image.refusal(MYSQL_ROOT_PASSWORD="x")


# A database with every variable and every kind of script


@pytest.fixture(scope="module")
def database() -> Iterator[EntryPoint]:
    """It, started; a test may have ended it."""
    with make() as found:
        (found.work / "password").write_text(PASSWORD)
        (found.init / "1.sql").write_text("CREATE TABLE a (i INT); INSERT INTO a VALUES (1);\n")
        rows = [b"INSERT INTO a VALUES (%d);\n" % number for number in range(6)]
        (found.init / "2.sql.gz").write_bytes(gzip.compress(rows[2]))
        (found.init / "3.sql.xz").write_bytes(lzma.compress(rows[3]))
        zstd = subprocess.run(["zstd", "--quiet"], input=rows[4], stdout=subprocess.PIPE, check=True)
        (found.init / "4.sql.zst").write_bytes(zstd.stdout)
        (found.init / "5.sql.bz2").write_bytes(bz2.compress(rows[5]))
        (found.init / "6.sh").write_text(SOURCED)
        (found.init / "7.sh").write_text(EXECUTED)
        (found.init / "7.sh").chmod(0o755)
        (found.init / "8.txt").write_text("x\n")
        user = {"MYSQL_USER": USER, "MYSQL_PASSWORD": USER_PASSWORD, "MYSQL_DATABASE": DATABASE}
        found.start(**NO_ZONES, **user, MYSQL_ROOT_PASSWORD_FILE=str(found.work / "password"), MYSQL_ROOT_HOST="10.%")
        yield found


def test_every_kind_of_script_runs(running: EntryPoint) -> None:
    # The first start has said it.
    assert f"ignoring {running.init}/8.txt" in running.output()
    found = running.sql("root", PASSWORD, f"SELECT GROUP_CONCAT(i ORDER BY i) FROM {QUOTED}.a")
    assert found == ",".join(str(number) for number in range(1, 11))


def test_the_user_has_its_database_and_no_other(running: EntryPoint) -> None:
    table = f"{QUOTED}.a"
    statements = f"INSERT INTO {table} VALUES (11); SELECT COUNT(*) FROM {table}; DELETE FROM {table} WHERE i = 11"
    assert running.sql(USER, USER_PASSWORD, statements) == "11"
    assert "denied" in running.denial(USER, USER_PASSWORD, "SELECT * FROM mysql.user")


def test_root_is_let_in_from_the_host_that_was_named(running: EntryPoint) -> None:
    hosts = running.sql("root", PASSWORD, "SELECT GROUP_CONCAT(host ORDER BY host) FROM mysql.user WHERE user = 'root'")
    assert hosts == "10.%,localhost"


def test_a_server_that_was_never_started_is_unhealthy(image: EntryPoint) -> None:
    assert not image.is_ready()


def test_a_server_is_unhealthy_until_its_database_is_made(running: EntryPoint) -> None:
    assert (running.work / "health").read_text(), "the health check says nothing while the database is being made"
    assert not (running.work / "too-early").exists()
    assert running.is_ready()


def test_a_server_that_has_ended_is_unhealthy(ended: EntryPoint) -> None:
    assert not ended.is_ready()


def test_a_server_that_ended_at_once_is_unhealthy(ended: EntryPoint) -> None:
    ended.refusal("--port=none")
    assert not ended.is_ready()


def test_a_later_start_needs_no_variable_and_changes_nothing(ended: EntryPoint) -> None:
    ended.start()
    assert ended.sql("root", PASSWORD, f"SELECT COUNT(*) FROM {QUOTED}.a") == "10"


def test_scripts_run_before_a_later_start_with_data_and_socket_elsewhere(ended: EntryPoint) -> None:
    script, moved, socket = ended.start_scripts / "1.sql", ended.work / "moved", f"--socket={ended.run}/other.sock"
    script.write_text("UPDATE a SET i = 100 WHERE i = 10\n")
    ended.data.rename(moved)
    variables = {"MYSQL_ROOT_PASSWORD_FILE": str(ended.work / "password"), "MYSQL_DATABASE": DATABASE}
    try:
        ended.start(socket, f"--datadir={moved}", REDSTART_DATADIR="", **variables)
        assert ended.sql("root", PASSWORD, f"SELECT MAX(i) FROM {QUOTED}.a", socket) == "100"
        ended.stop()
        assert not ended.data.exists(), "a directory was made that nobody asked for"
    finally:
        # For the other tests.
        ended.kill()
        script.unlink()
        moved.rename(ended.data)


# Passwords, binary log, time zones


def test_a_random_password_for_one_time_is_printed_and_has_to_be_changed(image: EntryPoint) -> None:
    (image.init / "1.sh").write_text('echo "$MYSQL_ROOT_PASSWORD" >"$WORK/random"\n')
    output = image.work / "standard-output"
    alone = ["sh", "-c", 'exec "$@" >"$0"', str(output)]
    image.start(under=alone, **NO_ZONES, MYSQL_RANDOM_ROOT_PASSWORD="1", MYSQL_ONETIME_PASSWORD="1")
    # The fourth word of its line on standard output.
    ((password,),) = (line.split()[3:] for line in output.read_text().splitlines() if line.startswith("GENERATED ROOT PASSWORD: "))
    assert (image.work / "random").read_text() == f"{password}\n", "scripts do not know the generated password"
    image.denial("root", "", "SELECT 1")
    assert "connect-expired-password" in image.denial("root", password, "SELECT 1")
    change = "ALTER USER USER() IDENTIFIED BY 'new'; SELECT 1"
    assert image.sql("root", password, change, "--connect-expired-password") == "1"
    accounts = "SELECT GROUP_CONCAT(host, password_expired ORDER BY host) FROM mysql.user WHERE user = 'root'"
    assert image.sql("root", "new", accounts) == "%Y,localhostN", "not every root must change the password"
    image.stop()


@pytest.fixture(scope="module")
def without_password() -> Iterator[EntryPoint]:
    """A database that logs transactions by GTID, with time zones."""
    with make() as found:
        found.options += ["--server-id=1", "--gtid-mode=ON", "--enforce-gtid-consistency=ON"]
        found.start(MYSQL_ALLOW_EMPTY_PASSWORD="1")
        yield found
        found.stop()


def test_an_empty_password_is_one(without_password: EntryPoint) -> None:
    assert without_password.sql("root", "", "SELECT 1") == "1"


def test_the_first_start_writes_nothing_into_the_binary_log(without_password: EntryPoint) -> None:
    assert without_password.sql("root", "", "SELECT @@log_bin, @@global.gtid_executed") == "1\t"


def test_there_are_the_time_zones_that_the_system_has(without_password: EntryPoint) -> None:
    wanted = "2026-01-01 01:00:00" if Path("/usr/share/zoneinfo").is_dir() else "NULL"
    assert without_password.sql("root", "", "SELECT CONVERT_TZ('2026-01-01', 'UTC', 'Europe/Berlin')") == wanted


# What the tests of docker-library/official-images do with MySQL's image over the network, done here by TCP

NAMED = {
    "MYSQL_ROOT_PASSWORD": "a password of root",
    "MYSQL_USER": "0123456789012345",
    "MYSQL_PASSWORD": "a password",
    "MYSQL_DATABASE": "a database with blanks",
}


class Remote:
    """A database in new folders, which is asked by TCP."""

    def __init__(self, image: EntryPoint) -> None:
        self.image, port = image, free_port()
        image.data.rmdir()
        image.environment["REDSTART_DATADIR"] = ""
        self.data = image.data / "in/dir"
        image.options.remove("--skip-networking")
        image.options += ["--bind-address=127.0.0.1", f"--port={port}", "--skip-name-resolve", "--loose-mysqlx=OFF",
                          "--server-id=1", "--gtid-mode=ON", "--enforce-gtid-consistency=ON", f"--datadir={self.data}",
                          "--log-bin=foo-1"]  # fmt: skip
        self._options = ["--host=127.0.0.1", f"--port={port}", f"--database={NAMED['MYSQL_DATABASE']}"]

    def sql(self, statements: str) -> str:
        return self.image.sql(NAMED["MYSQL_USER"], NAMED["MYSQL_PASSWORD"], statements, *self._options)

    def denial_of_root(self) -> str:
        return self.image.denial("root", NAMED["MYSQL_ROOT_PASSWORD"], "SELECT 1", *self._options)


@pytest.fixture(scope="module")
def remote() -> Iterator[Remote]:
    with make() as image:
        found = Remote(image)
        (image.init / "test.sql").write_text("CREATE TABLE init (c VARCHAR(255)); INSERT INTO init VALUES ('goodbye!');\n")
        image.start(**NO_ZONES, **NAMED, MYSQL_ONETIME_PASSWORD="1")
        yield found
        image.stop()


def test_a_user_fills_a_table_of_a_database_with_blanks_by_tcp(remote: Remote) -> None:
    remote.sql("CREATE TABLE test (a INT, b INT, c VARCHAR(255))")
    remote.sql("INSERT INTO test VALUES (1, 2, 'hello'), (2, 3, 'goodbye!'); DELETE FROM test WHERE a = 1")
    assert remote.sql("SELECT COUNT(*), MAX(c) FROM test") == "1\tgoodbye!"


def test_a_user_sees_the_rows_of_a_script_by_tcp(remote: Remote) -> None:
    assert remote.sql("SELECT COUNT(*), MAX(c) FROM init") == "1\tgoodbye!"


def test_data_and_binary_log_are_in_new_folders(remote: Remote) -> None:
    assert remote.sql("SELECT @@datadir, @@log_bin_basename") == f"{remote.data}/\t{remote.data}/foo-1"


def test_there_are_no_time_zones_if_none_are_wanted(remote: Remote) -> None:
    assert remote.sql("SELECT CONVERT_TZ('2018-01-01 00:00:00', 'US/Eastern', 'US/Central')") == "NULL"


def test_root_has_to_change_a_password_for_one_time_by_tcp(remote: Remote) -> None:
    assert "connect-expired-password" in remote.denial_of_root()


def test_root_is_let_in_from_the_host_that_was_named_only(image: EntryPoint) -> None:
    remote = Remote(image)
    image.start(**NO_ZONES, **NAMED, MYSQL_ROOT_HOST="host-1")
    assert remote.denial_of_root().startswith("ERROR 1045")
    assert image.sql("root", NAMED["MYSQL_ROOT_PASSWORD"], "SELECT 1") == "1"
    image.stop()
