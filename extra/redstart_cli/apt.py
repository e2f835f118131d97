# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Downloads from Debian's archive by apt with a private configuration.

The machine's apt set-up is read (which mirror, which proxy) and never changed: sources, lists, cache
and state are private, and /etc/apt/apt.conf.d is not read, because hooks there (container images
delete downloaded packages after an update) would reach the machine's own apt. Works without root.
"""

from __future__ import annotations

import os
import re
import subprocess
import threading
from contextlib import suppress
from pathlib import Path

from redstart_cli.console import Meter, RedstartError, size
from redstart_cli.process import tied

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
# Bytes of package lists that come before the package itself; only the progress bar uses it.
LISTS_BYTES = 60_000_000
# Settings that only matter to index files which the private set-up does not fetch.
_NOT_TAKEN = re.compile(r"^Acquire::(IndexTargets|Languages|GzipIndexes|cdrom)\b", re.IGNORECASE)


def _ask(*command: str) -> str:
    """Output of one of apt's programs, with the machine's set-up; RedstartError if it fails."""
    try:
        return subprocess.run(command, capture_output=True, text=True, errors="replace", check=True).stdout
    except OSError as problem:
        raise RedstartError(f"{command[0]} does not work here: {problem}") from problem
    except subprocess.CalledProcessError as problem:
        raise RedstartError(f"{command[0]} does not work here: {problem.stderr.strip()[-500:]}") from problem


def machine_mirrors(*options: str) -> list[str]:
    """URIs of the machine's Debian archive, in the order apt reads them; `options` are apt's.

    Third-party archives that look like Debian's stay in the list; they cannot serve a suite signed
    with Debian's key and are passed over when tried.
    """
    # Unlike `indextargets` this knows archives of which no list was fetched yet. Nothing is fetched here either.
    text = _ask("apt-get", "-oDir::State::lists=/nonexistent", *options, "--print-uris", "update")
    found = re.findall(r"^'(?!cdrom:)(.+?)/dists/(.+?)/main/binary-", text, re.MULTILINE)
    return list(dict.fromkeys(uri for uri, suite in found if "security" not in suite))


def acquire_settings() -> list[str]:
    """The machine's `Acquire` settings (proxy, timeouts, validity checks) as apt.conf lines."""
    lines = []
    for line in _ask("apt-config", "dump").splitlines():
        if line.startswith("Acquire::") and not _NOT_TAKEN.match(line) and not line.endswith(' "";'):
            lines.append(line)
    return lines


class PrivateApt:
    """An apt set-up below `root` that knows one suite of one mirror."""

    def __init__(self, root: Path, mirror: str, suite: str, want_sources: bool) -> None:
        self.root = root
        for folder in ("etc/parts", "lists/partial", "cache/archives/partial", "state", "download"):
            (root / folder).mkdir(parents=True, exist_ok=True)
        (root / "state/status").touch()
        kind = "deb-src" if want_sources else "deb"
        (root / "etc/sources.list").write_text(f"{kind} [signed-by={KEYRING}] {mirror} {suite} main\n")
        settings = [
            'Dir::Etc::main "/dev/null";',
            f'Dir::Etc::parts "{root}/etc/parts";',
            f'Dir::Etc::sourcelist "{root}/etc/sources.list";',
            'Dir::Etc::sourceparts "/dev/null";',
            'Dir::Etc::preferences "/dev/null";',
            'Dir::Etc::preferencesparts "/dev/null";',
            f'Dir::State "{root}/state";',
            f'Dir::State::lists "{root}/lists";',
            f'Dir::State::status "{root}/state/status";',
            f'Dir::Cache "{root}/cache";',
            f'Dir::Log "{root}/state";',
            # The source is the same on every machine; its package is built for one architecture only.
            'APT::Architecture "amd64";',
            'APT::Architectures { "amd64"; };',
            'APT::Update::Error-Mode "any";',
            'Acquire::Languages "none";',
        ]
        if os.geteuid() == 0:
            # The cache directory is private to root, so apt's download user cannot reach it.
            settings.append('APT::Sandbox::User "root";')
        config = root / "etc/apt.conf"
        config.write_text("\n".join(settings + acquire_settings()) + "\n")
        self._environment = {**os.environ, "APT_CONFIG": str(config), "LC_ALL": "C"}

    def run(self, *arguments: str) -> None:
        """Run apt-get in the download folder; RedstartError with apt's last words."""
        result = subprocess.run(
            tied(["apt-get", "--quiet", "--assume-yes", *arguments]),
            cwd=self.root / "download",
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        if result.returncode == 0:
            return
        problems = [line for line in result.stdout.splitlines() if line.startswith(("E:", "W:", "Err:"))]
        text = "; ".join(problems[-4:]) or f"apt-get ended with {result.returncode}"
        raise RedstartError(text)

    def ask(self, *arguments: str) -> str:
        """Output of an apt-cache command; RedstartError with its last words."""
        result = subprocess.run(
            tied(["apt-cache", *arguments]), env=self._environment, capture_output=True, text=True, errors="replace"
        )
        if result.returncode != 0 and "Unable to locate package" not in result.stderr:
            raise RedstartError(result.stderr.strip()[-500:] or f"apt-cache ended with {result.returncode}")
        return result.stdout

    def update(self) -> None:
        """Fetch the package lists."""
        self.run("update")


def _count_bytes(root: Path) -> int:
    total = 0
    for folder, _, names in os.walk(root):
        for name in names:
            with suppress(FileNotFoundError):
                total += os.lstat(os.path.join(folder, name)).st_size
    return total


def download(
    root: Path, suite: str, package: str, package_version: str, is_source: bool, file: str, count_bytes: int
) -> Path:
    """Download `file` of the package into a private set-up below `root`; returns where it is.

    Tries each of the machine's mirrors. Raises RedstartError if none has it. apt has checked Debian's
    signature; the caller checks the pinned hash.
    """
    if not KEYRING.is_file():
        raise RedstartError(f"{KEYRING} is missing (Debian package debian-archive-keyring)")
    mirrors = machine_mirrors()
    if not mirrors:
        raise RedstartError("the machine's apt sources (/etc/apt) name no Debian mirror with component main")
    problems: list[str] = []
    for number, mirror in enumerate(mirrors):
        apt = PrivateApt(root / str(number), mirror, suite, is_source)
        job = "source" if is_source else "download"
        options = ["--download-only", "--tar-only"] if is_source else []
        with Meter(f"downloading {file} ({size(count_bytes)})", count_bytes + LISTS_BYTES) as meter:
            stop = threading.Event()
            watcher = threading.Thread(target=_watch, args=(apt.root, meter, stop), daemon=True)
            watcher.start()
            try:
                apt.update()
                apt.run(job, *options, f"{package}={package_version}")
            except RedstartError as problem:
                problems.append(str(problem))
                continue
            finally:
                stop.set()
                watcher.join()
        path = apt.root / "download" / file
        if path.is_file():
            return path
        problems.append(f"apt-get {job} made no {file}")
    raise RedstartError("; ".join(problems))


def _watch(root: Path, meter: Meter, stop: threading.Event) -> None:
    while not stop.wait(0.5):
        meter.update(_count_bytes(root))
