# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""A root of Debian in which packages are installed, and a server runs.

REDSTART_PACKAGES names a folder of packages, REDSTART_MIRROR an archive, REDSTART_WORK a folder for roots. All of them are
needed, and root. No systemd runs in a root: extra/fake_systemctl.sh starts and stops the server as its unit says, when the
scripts of the packages ask for it.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from dropin.dockerfile import make_root
from dropin.server import given
from redstart_cli.process import tied
from redstart_cli.roots import remove_root

PACKAGES, MIRROR, WORK = Path(given("REDSTART_PACKAGES")), given("REDSTART_MIRROR"), Path(given("REDSTART_WORK"))
REPO = Path(__file__).resolve().parents[2]
# systemd is there for systemd-analyze.
TOOLS = ("apparmor", "iproute2", "logrotate", "systemd")
OURS = ("redstart-server", "redstart-server-core", "redstart-client-core")
ENVIRONMENT = ("PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive")
APT = ("apt-get", "--quiet=2", "--yes", "--no-install-recommends", "-o", "DPkg::Use-Pty=0",
       "-o", "Dpkg::Options::=--force-confold")  # fmt: skip
# It may not wait for ever: a script of a package may start a server and wait for its end.
LIMIT_SEC = 300
MYSQL = ("mysql", "--no-defaults", "--user=root", "--socket=/run/mysqld/mysqld.sock")
SMALL_TABLES = "CREATE TABLE t.a (id INT PRIMARY KEY) SELECT 1 AS id; CREATE TABLE t.b SELECT 2 AS id"
WRONG_SETTING = "[mysqld]\ninnodb_no_such_setting = 1\n"


def extract(deb: Path, tree: Path, control: bool = False) -> None:
    """What is in a package; with its control files, if asked for."""
    subprocess.run(["dpkg-deb", "--raw-extract" if control else "--extract", deb, tree], check=True)


def make_deb(tree: Path, deb: Path) -> None:
    """A package of the tree, which goes."""
    subprocess.run(["dpkg-deb", "-Znone", "--root-owner-group", "--build", tree, deb], stdout=subprocess.DEVNULL, check=True)
    shutil.rmtree(tree)


def field(deb: Path, name: str) -> str:
    return subprocess.run(["dpkg-deb", "--field", deb, name], capture_output=True, text=True, check=True).stdout.strip()


class Root:
    """It, made new; it goes with the block that uses it, and what runs there."""

    def __init__(self, release: str, *others: str) -> None:
        """apt takes from the other releases what the packages need, and this one has not."""
        self.path = WORK / release
        # Of the tables.
        self.wanted = ""
        self._release, self._others = release, others
        self._inside = ["chroot", str(self.path), "/usr/bin/env", "-i", *ENVIRONMENT]

    def __enter__(self) -> Self:
        WORK.mkdir(parents=True, exist_ok=True)
        try:
            make_root(self._release, self.path, MIRROR, WORK / "debootstrap.log")
            self._prepare()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._remove()

    def _prepare(self) -> None:
        # Nothing here has to outlive a power cut.
        (self / "etc/dpkg/dpkg.cfg.d/unsafe").write_text("force-unsafe-io\n")
        # The tools bring services, which would go on after the test.
        self._let_services_start(False)
        releases = (self._release, *self._others)
        (self / "etc/apt/sources.list").write_text("".join(f"deb {MIRROR} {name} main\n" for name in releases))
        for name in self._others:
            pin = f"Package: *\nPin: release n={name}\nPin-Priority: 100\n"
            (self / "etc/apt/preferences.d" / name).write_text(pin)
        subprocess.run(["mount", "-t", "proc", "proc", self / "proc"], check=True)
        (self / "packages").mkdir()
        for deb in PACKAGES.glob("redstart-*.deb"):
            if "-dbgsym_" not in deb.name:
                shutil.copy(deb, self / "packages")
        self.ours = self.debs("packages")
        assert len(self.ours) == len(OURS), f"{PACKAGES} has {self.ours}"
        self.apt("update")
        self.install(*TOOLS)
        systemctl = self / "usr/bin/systemctl"
        systemctl.rename(f"{systemctl}.distrib")
        shutil.copy(REPO / "extra/fake_systemctl.sh", systemctl)
        systemctl.chmod(0o755)
        # From now on the scripts of packages see a running systemd, and may start services.
        self._let_services_start(True)
        (self / "run/systemd/system").mkdir(parents=True, exist_ok=True)

    def _let_services_start(self, may_start: bool) -> None:
        policy = self / "usr/sbin/policy-rc.d"
        policy.write_text(f"#!/bin/sh\nexit {0 if may_start else 101}\n")
        policy.chmod(0o755)

    def _remove(self) -> None:
        if self.path.exists():
            while processes := list(self._processes()):
                for process in processes:
                    with suppress(ProcessLookupError):
                        os.kill(process, signal.SIGKILL)
                time.sleep(0.1)
            remove_root(self.path)

    def _processes(self) -> Iterator[int]:
        """Those of which this is the root."""
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if (process / "root").samefile(self.path):
                    yield int(process.name)

    # Paths

    def __truediv__(self, path: str) -> Path:
        """A path in the root, which does not begin with a slash."""
        return self.path / path

    @property
    def data(self) -> Path:
        return self / "var/lib/mysql"

    @property
    def error_log(self) -> Path:
        return self / "var/log/mysql/error.log"

    def debs(self, folder: str) -> list[str]:
        """The packages in a folder of the root, as apt is told them."""
        return sorted(f"/{deb.relative_to(self.path)}" for deb in (self / folder).glob("*.deb"))

    def fingerprint(self) -> dict[str, tuple[int, int, int, int, str]]:
        """Owner, mode, size, time and bytes of everything in the data directory, to see that a refusal touched nothing."""
        found = {}
        for path in (self.data, *self.data.rglob("*")):
            stat = path.lstat()
            contents = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
            found[str(path)] = (stat.st_uid, stat.st_mode, stat.st_size, stat.st_mtime_ns, contents)
        return found

    def settings(self) -> dict[str, tuple[int, int, int, bytes]]:
        """Owner, mode and contents of each file and link in /etc: accounts and services are there, too."""
        found = {}
        for path in (self / "etc").rglob("*"):
            stat = path.lstat()
            if path.is_symlink() or path.is_file():
                contents = bytes(path.readlink()) if path.is_symlink() else path.read_bytes()
                found[f"/{path.relative_to(self.path)}"] = (stat.st_uid, stat.st_gid, stat.st_mode, contents)
        return found

    # Programs

    def call(self, *words: str, user: str = "", stdin: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run a program in the root, as another user, if asked for. Nothing that it starts may hold its output."""
        as_user = ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups"] if user else []
        command = [*self._inside, *as_user, *words]
        with (stdin or Path("/dev/null")).open("rb") as file:
            return subprocess.run(tied(command), stdin=file, capture_output=True, text=True, timeout=LIMIT_SEC)

    def run(self, *words: str, stdin: Path | None = None) -> str:
        """What a program in the root says on standard output, which must succeed."""
        done = self.call(*words, stdin=stdin)
        assert done.returncode == 0, f"{' '.join(words)} ended with {done.returncode}: {done.stdout}{done.stderr}{self.logs()}"
        return done.stdout.rstrip("\n")

    def _logged(self, words: Iterable[str]) -> tuple[int, str]:
        """Status and words of a program that starts a server, which outlives it."""
        log = self / "tmp/apt.log"
        command = tied(["timeout", "--kill-after=10", str(LIMIT_SEC), *self._inside, *words])
        with log.open("wb") as output:
            code = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output).returncode
        return code, log.read_text(errors="replace")

    def _must(self, *words: str) -> None:
        code, said = self._logged(words)
        assert code == 0, f"{' '.join(words)} ended with {code}: {said[-3000:]}{self.logs()}"

    def apt(self, *words: str) -> None:
        """apt-get, which must succeed."""
        self._must(*APT, *words)

    def install(self, *packages: str) -> None:
        self.apt("install", *packages)

    def purge(self, *packages: str) -> None:
        self.apt("purge", *packages)

    def purge_beside(self, *others: str) -> None:
        """Purge ours, whose place others have taken: nothing of theirs goes, and their server runs on."""

        def theirs() -> dict[str, object]:
            folders = ("/var/lib/mysql", "/var/lib/mysql-files", "/var/lib/mysql-keyring", "/var/log/mysql")
            settings = {name: facts for name, facts in self.settings().items() if name not in own and "redstart" not in name}
            return settings | {
                "packages": self.installed(*others),
                "changed files of theirs": self.call("dpkg", "--verify", *others).stdout,
                "owners": self.run("stat", "-c", "%n %U:%G %a", *folders),
                "server": self.server,
            }

        # What others have as well is obsolete in ours.
        listed = self.call("dpkg-query", "-W", "-f", "${Conffiles}\\n", *OURS).stdout.splitlines()
        own = {line.split()[0] for line in listed if line and not line.endswith(" obsolete")}
        assert "/etc/mysql/redstart.cnf" in own
        # What an administrator adds to a profile goes with it.
        own |= {f"/etc/apparmor.d/local/{Path(name).name}" for name in own if name.startswith("/etc/apparmor.d/")}
        # A link of the name that was our unit's other one.
        self.systemctl("mask", "mysql.service")
        before = theirs()
        self.run("dpkg", "--purge", *OURS)
        after = theirs()
        gone = {name: (before.get(name), after.get(name)) for name in before.keys() | after.keys()
                if before.get(name) != after.get(name)}  # fmt: skip
        assert not gone, f"a purge of ours has changed {gone}"
        assert not (self / "etc/mysql/redstart.cnf").exists()
        self.systemctl("unmask", "mysql.service")
        self.assert_data()

    def configure(self) -> None:
        """dpkg goes on where it was refused."""
        self._must("dpkg", "--configure", "-a")

    def refusal(self, *words: str) -> str:
        """What apt-get says, which must fail, by itself."""
        code, said = self._logged([*APT, *words])
        assert code not in (0, 124, 137), f"apt-get {' '.join(words)} ended with {code}: {said[-3000:]}"
        return said

    def installed(self, *names: str) -> list[str]:
        """Those of the packages that are."""
        query = ("dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\\n")
        lines = self.call(*query, *names).stdout.splitlines()
        return [name for name, status in map(str.split, lines) if status == "installed"]

    def candidate(self, package: str) -> str:
        """MySQL's release of the package that apt would install."""
        said = self.run("apt-cache", "policy", package)
        found = re.search(r"^ *Candidate: (?:\d+:)?(\d+\.\d+\.\d+)", said, re.MULTILINE)
        assert found, f"{MIRROR} has no {package}: {said}"
        return found[1]

    # The server

    @property
    def server(self) -> int:
        """The process."""
        return int((self / "run/fake-systemctl.pid").read_text())

    def is_running(self) -> bool:
        """Whether it is. One that has ended and was not waited for has no program any more."""
        try:
            return bool(os.readlink(f"/proc/{self.server}/exe"))
        except FileNotFoundError:
            return False

    def assert_running(self) -> None:
        assert self.is_running(), f"no server runs: {self.logs()}"

    def logs(self) -> str:
        """The ends of the logs, for a message."""
        logs = (self / "tmp/apt.log", self / "tmp/systemctl.log", self / "tmp/mysqld.log", self.error_log)
        return "".join(f"\n{log}:\n{log.read_text(errors='replace')[-2000:]}" for log in logs if log.exists())

    def systemctl(self, verb: str, unit: str = "redstart.service") -> None:
        self._must("systemctl", verb, unit)

    def start(self) -> None:
        self.systemctl("start", "mysql.service")

    def stop(self) -> None:
        """Shut down; it has to end cleanly."""
        self.systemctl("stop", "mysql.service")
        last = self.error_log.read_text(errors="replace").splitlines()[-5:]
        assert any("Shutdown complete" in line for line in last), last

    def kill(self) -> None:
        self._must("systemctl", "kill", "--signal=KILL", "mysql.service")

    def sql(self, statements: str) -> str:
        """What statements give, which must succeed."""
        return self.run(*MYSQL, "--batch", "--skip-column-names", "--execute", statements)

    def values(self, *expressions: str) -> list[str]:
        """What the running server has."""
        return self.sql(f"SELECT {', '.join(expressions)}").split("\t")

    def version(self) -> str:
        return self.sql("SELECT VERSION()")

    def plugin(self, name: str) -> str:
        return self.sql(f"SELECT PLUGIN_STATUS FROM information_schema.PLUGINS WHERE PLUGIN_NAME = '{name}'")

    # Its tables

    def fill(self, statements: str = SMALL_TABLES) -> None:
        """Make them."""
        self.sql(f"CREATE DATABASE t; {statements}")
        self.wanted = self.state()

    def state(self) -> str:
        return self.sql("CHECKSUM TABLE t.a, t.b; SELECT COUNT(*) FROM t.a; SELECT COUNT(*) FROM t.b")

    def assert_data(self) -> None:
        """The server runs, and the tables have what they had."""
        self.assert_running()
        found = self.state()
        assert found == self.wanted, f"the data is {found} instead of {self.wanted}"
