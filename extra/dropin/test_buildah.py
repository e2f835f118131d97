# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The image made by buildah and started, as root, without a daemon or a registry.

REDSTART_PACKAGES names a folder of packages, which stand for the stage of the Dockerfile that compiles; REDSTART_MIRROR an
archive, of which debootstrap makes a root that stands for the base image; REDSTART_WORK a new folder. All of them are needed.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dropin.dockerfile import make_base, parse
from dropin.server import given
from redstart_cli.process import tied

REPO = Path(__file__).resolve().parents[2]
DOCKERFILE = (REPO / "Docker/Dockerfile").read_text(encoding="utf-8")
PACKAGES, MIRROR, WORK = Path(given("REDSTART_PACKAGES")), given("REDSTART_MIRROR"), Path(given("REDSTART_WORK"))
IMAGE, REVISION, RELEASE, TIME = "redstart-test", "0123456789abcdef0123456789abcdef01234567", "9.7.4-redstart9", "1767225600"
# chroot: a container shares the processes and the network of the machine.
ENVIRONMENT = os.environ | {"BUILDAH_ISOLATION": "chroot", "TMPDIR": str(WORK / "tmp")}
START_LIMIT_SEC = 300


def words(*arguments: str | Path) -> list[str]:
    """A call of buildah."""
    # vfs: copies, since one overlay cannot lie on another in a machine that is a container itself.
    return tied(["buildah", "--root", WORK / "root", "--runroot", WORK / "run", "--storage-driver", "vfs", *arguments])


def call(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words(*arguments), env=ENVIRONMENT, stdin=subprocess.DEVNULL, capture_output=True, text=True)


def buildah(*arguments: str | Path) -> str:
    """What buildah says, which must succeed."""
    done = call(*arguments)
    assert done.returncode == 0, "\n".join((done.stdout + done.stderr).splitlines()[-20:])
    return done.stdout.strip()


@pytest.fixture(scope="module")
def image() -> Iterator[str]:
    """The name of the image. Whatever has become of its containers, they go."""
    context, base = WORK / "context", WORK / "base"
    for folder in (context / "packages", WORK / "tmp"):
        folder.mkdir(parents=True)
    last = parse(DOCKERFILE)[-1]
    try:
        make_base(last.base, base, MIRROR, WORK / "debootstrap.log")
        container = buildah("from", "scratch")
        buildah("add", "--quiet", container, base, "/")
        # What debootstrap has made is not what the digest pins.
        tag, _, digest = last.base.partition("@")
        buildah("commit", "--quiet", container, f"docker.io/library/{tag}")
        buildah("rm", container)
        shutil.rmtree(base)
        for package in PACKAGES.glob("redstart-*.deb"):
            if "-dbgsym_" not in package.name:
                shutil.copy(package, context / "packages")
        shutil.copytree(REPO / "Docker", context / "Docker")
        _, _, stages = re.split(r"^(?=FROM )", DOCKERFILE, maxsplit=2, flags=re.MULTILINE)
        assert stages.count(f"@{digest}\n") == 1
        stages = stages.replace(f"@{digest}\n", "\n")
        (context / "Dockerfile").write_text(f"FROM scratch AS build\nCOPY packages /packages\n{stages}")
        options = ["--pull-never", "--layers=false", "--format", "docker", "--timestamp", TIME]
        values = {"REVISION": REVISION, "RELEASE": RELEASE, "SOURCE_DATE_EPOCH": TIME}
        arguments = [word for name, value in values.items() for word in ("--build-arg", f"{name}={value}")]
        buildah("bud", *options, *arguments, "--file", context / "Dockerfile", "--tag", IMAGE, context)
        yield IMAGE
    finally:
        buildah("rm", "--all")


@pytest.fixture(scope="module")
def container(image: str) -> str:
    """The name of a container of the image."""
    return buildah("from", "--pull-never", image)


@pytest.fixture(scope="module")
def folder(container: str) -> Path:
    """Where its files are."""
    return Path(buildah("mount", container))


def servers(runner: int) -> list[int]:
    """Servers below the process that runs a container, whose processes are the machine's."""
    table = subprocess.run(["ps", "-eo", "pid=,ppid=,comm="], stdout=subprocess.PIPE, text=True, check=True).stdout
    parents, found = {}, []
    for line in table.splitlines():
        process, parent, name = line.split(maxsplit=2)
        parents[int(process)] = int(parent)
        if name == "mysqld":
            found.append(int(process))

    def is_below(process: int) -> bool:
        return process == runner or (process in parents and is_below(parents[process]))

    return [process for process in found if is_below(process)]


def is_healthy(container: str) -> bool:
    return call("run", container, "--", "healthcheck.sh").returncode == 0


@pytest.fixture(scope="module")
def runner(container: str) -> Iterator[subprocess.Popen[bytes]]:
    """What runs the entry point and its server, which is healthy, in the container."""
    log = WORK / "container.log"
    variables = ["--env", "MYSQL_ROOT_PASSWORD=x", "--env", "MYSQL_DATABASE=app"]
    with log.open("wb") as output:
        command = words("run", *variables, container, "--", "entrypoint.sh", "mysqld")
        found = subprocess.Popen(command, env=ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        end = time.monotonic() + START_LIMIT_SEC
        while not is_healthy(container):
            tail = "\n".join(log.read_text(errors="replace").splitlines()[-20:])
            assert found.poll() is None, f"the container ended: {tail}"
            assert time.monotonic() < end, f"the server does not answer: {tail}"
            time.sleep(0.5)
        yield found
    finally:
        if found.poll() is None:
            for process in servers(found.pid):
                os.kill(process, signal.SIGKILL)
            found.terminate()
            found.wait()


@pytest.mark.parametrize(
    ("template", "wanted"),
    [
        ("{{.Docker.Config.User}} {{.Docker.Config.Entrypoint}} {{.Docker.Config.Cmd}}", "mysql [entrypoint.sh] [mysqld]"),
        ("{{.Docker.Config.Volumes}} {{.Docker.Config.StopSignal}}", "map[/var/lib/mysql:{}] SIGTERM"),
        ("{{.Docker.Config.Healthcheck.Test}} {{.Docker.Config.Healthcheck.StartPeriod}}", "[CMD healthcheck.sh] 24h0m0s"),
        ('{{index .Docker.Config.Labels "org.opencontainers.image.revision"}}', REVISION),
        ('{{index .Docker.Config.Labels "org.opencontainers.image.version"}}', RELEASE),
        ("{{.Docker.Created.Unix}}", TIME),
    ],
    ids=["program", "volume-and-signal", "health", "revision", "version", "time"],
)
def test_what_the_image_says_of_itself(image: str, template: str, wanted: str) -> None:
    assert buildah("inspect", "--type", "image", "--format", template, image) == wanted


def test_the_image_brings_no_database(folder: Path) -> None:
    assert not any((folder / "var/lib/mysql").iterdir())


def test_a_container_is_unhealthy_before_it_starts(container: str) -> None:
    assert not is_healthy(container)


def test_the_server_runs_as_mysql(runner: subprocess.Popen[bytes], folder: Path) -> None:
    (server,) = servers(runner.pid)
    users = dict(line.split(":")[0:3:2] for line in (folder / "etc/passwd").read_text().splitlines())
    assert Path(f"/proc/{server}").stat().st_uid == int(users["mysql"])


def test_the_server_is_ours_and_has_the_database(runner: subprocess.Popen[bytes], container: str) -> None:
    client = ["mysql", "--user=root", "--batch", "--skip-column-names", "--execute"]
    said = buildah("run", "--env", "MYSQL_PWD=x", container, "--", *client, "SELECT VERSION(); SHOW DATABASES LIKE 'app'")
    version, database = said.splitlines()
    assert "redstart" in version and database == "app"


def test_sigterm_ends_the_container_cleanly(runner: subprocess.Popen[bytes]) -> None:
    (server,) = servers(runner.pid)
    os.kill(server, signal.SIGTERM)
    assert runner.wait(START_LIMIT_SEC) == 0, (WORK / "container.log").read_text(errors="replace")[-3000:]
