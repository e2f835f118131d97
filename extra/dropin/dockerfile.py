# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Runs the steps of a Dockerfile in roots made by debootstrap, where there is no container engine.

    python -m dropin.dockerfile DOCKERFILE CONTEXT WORK MIRROR [--packages DIR]

Then it starts what the image would start, as its user, and tests that. With --packages the stage that
compiles is not run; DIR stands for its /packages. Needs root. Knows only the instructions that the
Dockerfile has; any other is an error.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import click
import yaml

from dropin.kubernetes import read_manifest
from redstart_cli.apt import acquire_settings
from redstart_cli.layout import cache_dir

START_LIMIT_SEC = 120
# Of a root that debootstrap has made; apt makes newer what it installs.
KEPT_SEC = 24 * 3600
_ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"}


class DockerfileError(Exception):
    """A step that failed or is not known."""


def say(text: str) -> None:
    print(f"dockerfile: {text}", flush=True)


@dataclass
class Stage:
    """What the steps so far have made."""

    base: str
    name: str
    steps: list[tuple[str, str]] = field(default_factory=list)
    root: Path = Path()
    folder: str = "/"
    user: str = "root"
    health: list[str] = field(default_factory=list)
    entry_point: list[str] = field(default_factory=list)
    command: list[str] = field(default_factory=list)
    labels: dict[str, str] = field(default_factory=dict)


def parse(text: str) -> list[Stage]:
    """The stages and their steps."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    stages: list[Stage] = []
    for line in re.sub(r"\\\n", " ", "\n".join(lines)).splitlines():
        if not line.strip():
            continue
        name, _, rest = line.strip().partition(" ")
        if name == "FROM":
            words = rest.split()
            stages.append(Stage(words[0], words[2] if len(words) == 3 and words[1] == "AS" else str(len(stages))))
        elif stages:
            stages[-1].steps.append((name, rest.strip()))
        else:
            raise DockerfileError(f"{name} before FROM")
    return stages


def _call(command: list[str], log: Path) -> None:
    with log.open("ab") as out:
        code = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out).returncode
    if code != 0:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-20:])
        raise DockerfileError(f"{' '.join(command[:6])} ... ended with {code}:\n{tail}")


def make_base(base: str, root: Path, mirror: str, log: Path) -> None:
    """What stands for a base image."""
    match = re.fullmatch(r"debian:([a-z]+)-\d{8}-slim@sha256:[0-9a-f]{64}", base)
    if not match:
        raise DockerfileError(f"{base} is not debian:RELEASE-DATE-slim@sha256:DIGEST")
    say(f"FROM {base}: debootstrap {match[1]}")
    make_root(match[1], root, mirror, log)


def make_root(release: str, root: Path, mirror: str, log: Path) -> None:
    """A root made by debootstrap, less than a day ago, with the machine's settings for its mirror.

    It is kept as an archive, which has its name when all of it is on the disk: neither a full disk nor a power cut leaves a part.
    """
    name = hashlib.sha256(mirror.encode()).hexdigest()[:8]
    kept = cache_dir() / f"root-{release}-{name}.tar"
    tar = ["tar", "--xattrs", "--numeric-owner", "--directory", str(root)]
    if kept.exists() and time.time() - kept.stat().st_mtime < KEPT_SEC:
        root.mkdir(parents=True)
        _call([*tar, "--extract", "--preserve-permissions", "--file", str(kept)], log)
    else:
        _call(["debootstrap", "--variant=minbase", release, str(root), mirror], log)
        kept.parent.mkdir(parents=True, exist_ok=True)
        making = kept.with_suffix(f".{os.getpid()}")
        try:
            _call([*tar, "--one-file-system", "--create", "--file", str(making), "."], log)
            _call(["sync", str(making)], log)
            making.rename(kept)
        finally:
            making.unlink(missing_ok=True)
    settings = [line for line in acquire_settings() if re.match(r"Acquire::.*(Check-|Proxy)", line)]
    (root / "etc/apt/apt.conf.d/90machine").write_text("\n".join(settings) + "\n")


class Runner:
    """Runs the stages of one Dockerfile."""

    def __init__(self, context: Path, work: Path, mirror: str) -> None:
        self._context, self._work, self._mirror, self._log = context, work, mirror, work / "steps.log"
        self._stages: dict[str, Stage] = {}
        ignored = context / ".dockerignore"
        lines = ignored.read_text().splitlines() if ignored.exists() else []
        self._ignored = {line.strip() for line in lines if line.strip() and not line.startswith("#")}

    def provide(self, stage: Stage, packages: Path) -> None:
        """Take packages in place of what a stage would make."""
        stage.root = self._work / stage.name
        shutil.copytree(packages, stage.root / "packages")
        self._stages[stage.name] = stage

    def run(self, stage: Stage) -> None:
        """Run all steps of a stage."""
        stage.root = self._work / stage.name
        make_base(stage.base, stage.root, self._mirror, self._log)
        shutil.copy("/etc/resolv.conf", stage.root / "etc/resolv.conf")
        self._call(["mount", "-t", "proc", "proc", str(stage.root / "proc")])
        try:
            for name, rest in stage.steps:
                say(f"{name} {' '.join(rest.split())}")
                self._step(stage, name, rest)
        finally:
            self._call(["umount", str(stage.root / "proc")])
        self._stages[stage.name] = stage

    def _step(self, stage: Stage, name: str, rest: str) -> None:
        if name == "RUN":
            self._call(inside(stage, ["sh", "-c", f"cd {shlex.quote(stage.folder)} && {rest}"]))
        elif name == "COPY":
            self._copy(stage, rest.split())
        elif name == "WORKDIR":
            stage.folder = rest
            (stage.root / rest.lstrip("/")).mkdir(parents=True, exist_ok=True)
        elif name == "USER":
            stage.user = rest
        elif name == "HEALTHCHECK":
            options, _, command = rest.partition("CMD ")
            for option in options.split():
                if not re.fullmatch(r"--(interval|timeout|start-period|retries)=\d+[smh]?", option):
                    raise DockerfileError(f"HEALTHCHECK {option}")
            stage.health = json.loads(command)
        elif name == "ENTRYPOINT":
            stage.entry_point = json.loads(rest)
        elif name == "CMD":
            stage.command = json.loads(rest)
        elif name == "LABEL":
            # No argument is given a value here.
            rest = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", rest)
            stage.labels |= dict(re.findall(r'([\w.]+)="([^"]*)"', rest))
        elif name == "ARG" and "=" in rest:
            raise DockerfileError(f"ARG {rest}: only arguments without a default are known here")
        elif name not in ("ARG", "VOLUME", "EXPOSE", "STOPSIGNAL"):
            raise DockerfileError(f"{name} is not known here")

    def _copy(self, stage: Stage, words: list[str]) -> None:
        source = self._context
        if words[0].startswith("--from="):
            source = self._stages[words.pop(0).removeprefix("--from=")].root
        *names, target = words
        to = stage.root / (target if target.startswith("/") else f"{stage.folder}/{target}").lstrip("/")
        found = [Path(p) for name in names for p in sorted(glob.glob(str(source / name.lstrip("/"))))]
        if len(found) < len(names):
            raise DockerfileError(f"COPY {' '.join(names)}: found only {len(found)}")
        for path in found:
            if path.is_dir():
                ignored = self._ignored if path.samefile(self._context) else set()
                shutil.copytree(path, to, dirs_exist_ok=True, symlinks=True, ignore=_at_the_top(path, ignored))
            elif target.endswith("/") or len(found) > 1:
                to.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, to / path.name)
            else:
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, to)

    def _call(self, command: list[str]) -> None:
        _call(command, self._log)


def _at_the_top(top: Path, ignored: set[str]) -> Callable[[str, list[str]], list[str]]:
    """For copytree: leave these names out of one folder, not of those in it."""
    return lambda folder, names: [name for name in names if Path(folder) == top and name in ignored]


def inside(stage: Stage, command: list[str], environment: dict[str, str] | None = None) -> list[str]:
    """The command as it would run in the image."""
    variables = [f"{name}={value}" for name, value in {**_ENVIRONMENT, **(environment or {})}.items()]
    user = [] if stage.user == "root" else ["setpriv", f"--reuid={stage.user}", f"--regid={stage.user}", "--init-groups"]
    return ["chroot", str(stage.root), *user, "env", "-i", *variables, *command]


def output(stage: Stage, command: list[str]) -> str:
    """What a command in the image says."""
    result = subprocess.run(inside(stage, command), capture_output=True, text=True)
    check(result.returncode == 0, f"{' '.join(command)}: {result.stderr}")
    return result.stdout.strip()


class Container:
    """What the image would start."""

    def __init__(self, stage: Stage, work: Path) -> None:
        self._stage, self._log = stage, work / "container.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, **environment: str) -> None:
        command = inside(self._stage, [*self._stage.entry_point, *self._stage.command], environment)
        with self._log.open("ab") as out:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)

    def health(self) -> tuple[int, str]:
        result = subprocess.run(inside(self._stage, self._stage.health), capture_output=True, text=True)
        return result.returncode, result.stdout.strip()

    def await_healthy(self) -> None:
        """Until the health check says that the server answers; then it does."""
        assert self._process
        end = time.monotonic() + START_LIMIT_SEC
        while self.health()[0] != 0:
            check(self._process.poll() is None and time.monotonic() < end, "the server does not start", self._log)
            time.sleep(0.2)
        self.sql("SELECT 1")

    def sql(self, statement: str) -> str:
        command = ["mysql", "--user=root", "--batch", "--skip-column-names", "--execute", statement]
        result = subprocess.run(inside(self._stage, command, {"MYSQL_PWD": "x"}), capture_output=True, text=True)
        check(result.returncode == 0, f"{statement}: {result.stderr}", self._log)
        return result.stdout.strip()

    def owner(self) -> str:
        """The user of the process that the container consists of, by the image's names."""
        assert self._process
        return output(self._stage, ["id", "-un", str(Path(f"/proc/{self._process.pid}").stat().st_uid)])

    def end(self, how: signal.Signals) -> int:
        assert self._process
        self._process.send_signal(how)
        code = self._process.wait(START_LIMIT_SEC)
        self._process = None
        return code

    def kill(self) -> None:
        if self._process:
            self.end(signal.SIGKILL)


def check(condition: bool, text: str, log: Path | None = None) -> None:
    if not condition:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-20:]) if log and log.exists() else ""
        raise DockerfileError(f"{text}\n{tail}")


def test_image(stage: Stage, work: Path) -> None:
    """The image as a user would run it."""
    check(stage.user not in ("root", "0"), "the image runs as root")
    for program in (stage.entry_point[0], stage.command[0], stage.health[0]):
        command = inside(stage, ["sh", "-c", f"command -v {program}"])
        check(subprocess.run(command, stdout=subprocess.DEVNULL).returncode == 0, f"{program} is not in the image")
    check(not any((stage.root / "var/lib/mysql").iterdir()), "the image brings a database")
    check(output(stage, ["date", "+%Z"]) == "UTC", "the image is not on UTC")
    accounts = [line.split(":") for line in (stage.root / "etc/shadow").read_text().splitlines()]
    check(all(set(account[1]) <= set("*!") and account[1] for account in accounts), "an account has a password")
    check(output(stage, [*stage.entry_point, "echo", "another program"]) == "another program", "no other program runs")
    test_sbom(stage)
    container = Container(stage, work)
    try:
        say("a first start")
        check(container.health() == (1, "the server was not started yet"), "healthy before it starts")
        container.start(MYSQL_ROOT_PASSWORD="x", MYSQL_DATABASE="app")
        container.await_healthy()
        check("redstart" in container.sql("SELECT VERSION()"), "another server runs")
        variables = container.sql("SELECT @@datadir, @@socket, @@secure_file_priv, @@skip_name_resolve")
        wanted = "/var/lib/mysql/\t/run/mysqld/mysqld.sock\t/var/lib/mysql-files/\t1"
        check(variables == wanted, f"my.cnf was not read: {variables}")
        container.sql("CREATE TABLE app.t (i INT PRIMARY KEY); INSERT INTO app.t VALUES (1)")
        say("killed, and started with a file in conf.d")
        container.end(signal.SIGKILL)
        check(container.health()[0] != 0, "a dead server is healthy")
        (stage.root / "etc/mysql/conf.d/a.cnf").write_text("[mysqld]\nmax_connections = 77\n")
        container.start()
        container.await_healthy()
        check(container.sql("SELECT i, @@max_connections FROM app.t") == "1\t77", "data or setting lost")
        say("ended by SIGTERM")
        check(container.end(signal.SIGTERM) == 0, "no clean end")
        (stage.root / "etc/mysql/conf.d/a.cnf").unlink()
        say("started as root, in folders of root")
        container = Container(replace(stage, user="root"), work)
        folders = [stage.root / "var/lib/mysql", stage.root / "run/mysqld"]
        for folder in folders:
            shutil.rmtree(folder)
            folder.mkdir(mode=0o755)
        container.start(MYSQL_ROOT_PASSWORD="x")
        container.await_healthy()
        check(container.owner() == stage.user, f"the server runs as {container.owner()}")
        check(container.end(signal.SIGTERM) == 0, "no clean end")
    finally:
        container.kill()


def test_sbom(stage: Stage) -> None:
    """The image says what is in it, and what it was made of."""
    query = ["dpkg-query", "--show", "--showformat", "${db:Status-Status} ${Package} ${Version}\n"]
    lines = [line.split(" ") for line in output(stage, query).splitlines()]
    wanted = sorted((name, version) for status, name, version in lines if status == "installed")
    packages = json.loads((stage.root / "usr/share/redstart/image.spdx.json").read_text())["packages"]
    found = [(package["name"], package["versionInfo"]) for package in packages]
    label = "org.opencontainers.image."
    check(found[0] == ("redstart", stage.labels[f"{label}version"]), "the SBOM is of another version than the image")
    check(sorted(found[1:]) == wanted, f"the SBOM differs: {set(found[1:]) ^ set(wanted)}")
    check(any(name == "redstart-server-core" for name, _ in wanted), "the server is no package")
    named = "@".join(stage.labels[f"{label}base.{word}"] for word in ("name", "digest"))
    check(named == stage.base, "the labels name another base")


def test_manifests(stage: Stage, folder: Path) -> None:
    """compose.yaml and kubernetes.yaml say what the image has, and wait for a recovery."""
    compose = yaml.safe_load((folder / "compose.yaml").read_text())["services"]["db"]
    check(compose["volumes"][0].endswith(":/var/lib/mysql"), "compose.yaml: the data has no volume")
    check((folder / compose["build"]["context"] / compose["build"]["dockerfile"]).is_file(), "compose.yaml: dockerfile")
    manifest = read_manifest(folder)
    pod, server = manifest.pod, manifest.server
    passwd = (stage.root / "etc/passwd").read_text()
    check(f"mysql:x:{pod['securityContext']['runAsUser']}:" in passwd, "kubernetes.yaml: another user than the image's")
    check(server["image"] == compose["image"], "compose.yaml and kubernetes.yaml name different images")
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        program = server[probe]["exec"]["command"][0]
        command = inside(stage, ["sh", "-c", f"command -v {program}"])
        check(subprocess.run(command, stdout=subprocess.DEVNULL).returncode == 0, f"{probe}: no {program}")
    start = server["startupProbe"]
    check(start["periodSeconds"] * start["failureThreshold"] >= 24 * 3600, "startupProbe gives less than a day")


@click.command()
@click.argument("dockerfile", type=click.Path(path_type=Path))
@click.argument("context", type=click.Path(path_type=Path))
@click.argument("work", type=click.Path(path_type=Path))
@click.argument("mirror")
@click.option("--packages", type=click.Path(path_type=Path), help="What stands for /packages of the stage that compiles.")
def main(dockerfile: Path, context: Path, work: Path, mirror: str, packages: Path | None) -> None:
    """Run the steps of DOCKERFILE, and test what its image starts."""
    work = work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    check(not any(work.iterdir()), f"{work} is not empty")
    check(os.geteuid() == 0, "needs root")
    runner = Runner(context.resolve(), work, mirror)
    stages = parse(dockerfile.read_text())
    for stage in stages:
        if packages and any("./redstart package" in rest for _, rest in stage.steps):
            say(f"stage {stage.name} is not run: its /packages is {packages}")
            runner.provide(stage, packages)
        else:
            runner.run(stage)
    test_image(stages[-1], work)
    test_manifests(stages[-1], dockerfile.resolve().parent)
    say("passed")


if __name__ == "__main__":
    try:
        main(prog_name="dockerfile")
    except DockerfileError as problem:
        sys.exit(f"dockerfile: FAILED: {problem}")
