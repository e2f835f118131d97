# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The development server of a clone: up, down, sql."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import os
import pwd
import shlex
import shutil
import signal
import socket
import stat
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from redstart_cli import datadir as datadirs
from redstart_cli.console import RedstartError, duration, say
from redstart_cli.disk import DATADIR_BYTES, Need, check_space
from redstart_cli.layout import Layout
from redstart_cli.mysqld import Mysqld, as_root, initialise

# sun_path holds 108 bytes with the closing zero.
SOCKET_PATH_BYTES = 107
FIRST_PORT = 3306
PORTS_TRIED = 100
# Seconds between lines that say that `up` or `down` still waits.
WAIT_NOTE_SEC = 10.0
# Options of mysqld that `up` sets itself.
_OWN_OPTIONS = ("--datadir", "--port", "--socket", "--log-error", "--initialize", "--basedir", "--daemonize")


@dataclass(frozen=True)
class Running:
    """A server that `up` started. `started_ticks` tells it from a later process with the same pid."""

    pid: int
    started_ticks: int
    preset: str
    datadir: str
    port: int
    socket: str
    log: str
    options: list[str]


# Processes and ports


def _started_ticks(pid: int) -> int | None:
    """Start time of a process in clock ticks since boot; None if there is none or it is a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in ("Z", "X") else int(fields[19])


def is_alive(server: Running) -> bool:
    return _started_ticks(server.pid) == server.started_ticks


def read_state(layout: Layout) -> Running | None:
    """The server that `up` started last, if it still runs."""
    try:
        server = Running(**json.loads(layout.run_state.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None
    return server if is_alive(server) else None


def _write_state(layout: Layout, server: Running) -> None:
    temporary = layout.run_state.with_suffix(".new")
    temporary.write_text(json.dumps(dataclasses.asdict(server), indent=1) + "\n", encoding="utf-8")
    temporary.rename(layout.run_state)


def port_is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def who_listens(port: int) -> str:
    """`name (process pid)` of the listener on a TCP port, as far as this user may see it."""
    for found in psutil.net_connections("tcp"):
        if found.status == psutil.CONN_LISTEN and found.laddr and found.laddr.port == port and found.pid:
            with suppress(psutil.Error):
                return f"{psutil.Process(found.pid).name()} (process {found.pid})"
    return "another process"


def choose_port(wanted: int | None) -> int:
    """The wanted port, or the first free one from 3306 on; RedstartError naming who has it."""
    if wanted is not None:
        if not port_is_free(wanted):
            raise RedstartError(f"port {wanted} is in use by {who_listens(wanted)}; give another --port or none")
        return wanted
    for port in range(FIRST_PORT, FIRST_PORT + PORTS_TRIED):
        if port_is_free(port):
            return port
    raise RedstartError(f"no free port from {FIRST_PORT} to {FIRST_PORT + PORTS_TRIED - 1}; give one: --port P")


def _run_folder(datadir: Path) -> Path:
    """A folder of this user with a short path: in the runtime directory, if there is one, else in /tmp."""
    name = f"redstart-{os.geteuid()}-{hashlib.sha256(os.fsencode(datadir)).hexdigest()[:12]}"
    runtime = Path(os.environ.get("XDG_RUNTIME_DIR") or "/tmp")
    folder = (runtime if os.access(runtime, os.W_OK | os.X_OK) else Path("/tmp")) / name
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
    except OSError as problem:
        raise RedstartError(f"{folder} cannot be made: {problem.strerror}") from problem
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        raise RedstartError(f"{folder} belongs to another user; the socket cannot be made there")
    return folder


def _socket_path(datadir: Path, run: Path) -> Path:
    """<datadir>.sock, which stays when its user logs out, or one in `run` when that is too long for a socket."""
    path = datadir.with_name(datadir.name + ".sock")
    return path if len(os.fsencode(path)) <= SOCKET_PATH_BYTES else run / "s"


# Starting


def _check_options(options: Sequence[str]) -> None:
    for option in options:
        name = option.partition("=")[0].replace("_", "-")
        if name in _OWN_OPTIONS or name.startswith("--initialize"):
            raise RedstartError(f"{name} is set by `up` itself; use its --datadir and --port")


def _check_user(options: Sequence[str], owner_uid: int) -> None:
    """mysqld refuses to run as root unless told so: it runs as the directory's owner."""
    if as_root(options):
        name = pwd.getpwuid(owner_uid).pw_name
        if name != "root":
            raise RedstartError(
                f"the data directory belongs to {name}; run this command as {name}, or say as whom the server is to "
                f"run: -- --user={name} (it must reach build/), or --user=root"
            )
        say("running as root: mysqld gets --user=root, which is meant for a private development directory only")


def _words(layout: Layout, preset: str) -> list[str]:
    tree = layout.preset(preset)
    return [
        str(layout.binary(preset, "mysqld")),
        "--no-defaults",
        f"--basedir={tree}",
        f"--lc-messages-dir={tree / 'share'}",
        f"--character-sets-dir={layout.source / 'share/charsets'}",
        f"--plugin-dir={tree / 'plugin_output_directory'}",
    ]


def _initialise(words: list[str], target: Path, log: Path) -> None:
    """Make a new data directory beside its place and rename it: a killed call leaves no half-made one."""
    check_space([Need(target, DATADIR_BYTES, "data directory")])
    target.parent.mkdir(parents=True, exist_ok=True)
    for stale in target.parent.glob(f".{target.name}.init-*"):
        if _started_ticks(int(stale.name.rpartition("-")[2])) is None:
            shutil.rmtree(stale)
    temporary = target.with_name(f".{target.name}.init-{os.getpid()}")
    temporary.mkdir(mode=0o750)
    say(f"initialising {target} (user root without a password)")
    try:
        initialise("mysqld", words, temporary, log)
        temporary.rename(target)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


class _Server(Mysqld):
    """A server that outlives the call; it is waited for as long as it lives, for a recovery may take hours."""

    poll_sec = 0.1
    is_tied = False
    # Bytes of its log that were shown, and when.
    _shown = 0
    _last_note = 0.0

    def is_ready(self) -> bool:
        """Whether it answers; shows its log without time, thread and subsystem: `InnoDB initialization has ended.`"""
        is_up = super().is_ready()
        new = self._new_lines()
        for line in new.decode("utf-8", "replace").splitlines():
            parts = line.split("] ")
            say("  " + (parts[-1] if len(parts) >= 4 else line))
        now = time.monotonic()
        if new:
            self._shown += len(new) + 1
            self._last_note = now
        elif now - max(self._last_note, self.begin) >= WAIT_NOTE_SEC:
            self._last_note = now
            say(f"  still starting after {duration(now - self.begin)} (./redstart down stops it)")
        return is_up

    def _new_lines(self) -> bytes:
        """What was not shown, up to its last whole line; a log of hours is not read from its beginning each time."""
        if not self.log.exists():
            return b""
        with self.log.open("rb") as file:
            file.seek(self._log_begin + self._shown)
            return file.read().rpartition(b"\n")[0]


def describe(layout: Layout, server: Running) -> None:
    """How to connect."""
    if os.readlink(f"/proc/{server.pid}/exe").endswith(" (deleted)"):
        say("the server was built anew since it started; to run the new one: ./redstart down, ./redstart up")
    client = layout.binary(server.preset, "mysql")
    say("connect:   ./redstart sql")
    say(f"           {shlex.join([str(client), '--user=root', f'--socket={server.socket}'])}")
    say(f"port:      {server.port} (address 127.0.0.1, unless mysqld options say otherwise)")
    say(f"socket:    {server.socket}")
    say(f"data:      {server.datadir}")
    say(f"error log: {server.log}")
    say("stop:      ./redstart down")


def up(layout: Layout, preset: str, version: str, datadir: Path, port: int | None, options: Sequence[str]) -> None:
    """Start the built server on `datadir`, which is initialised if it is new or empty."""
    _check_options(options)
    datadir = Path(os.path.abspath(datadir))
    found = datadirs.inspect(datadir)
    note = datadirs.check_version(found, datadirs.parse_version(version))
    if note:
        say(note)
    port = choose_port(port)
    words = _words(layout, preset)
    log = datadir.with_name(datadir.name + ".log")
    is_new = found.kind is datadirs.Kind.NEW
    _check_user(options, os.geteuid() if is_new else datadir.stat().st_uid)
    if is_new:
        _initialise([*words, *(option for option in options if option.startswith("--user"))], datadir, log)

    # mysqld warns of a process id in a folder whose path others can enter.
    own = [f"--port={port}", "--bind-address=127.0.0.1", f"--pid-file={datadir / 'mysqld.pid'}"]
    run = _run_folder(datadir)
    server = _Server("mysqld", words, datadir, log, [*own, *options], run, _socket_path(datadir, run))
    server.launch()
    running = Running(
        server.process.pid, _started_ticks(server.process.pid) or 0, preset, str(datadir), port, str(server.socket), str(log),
        list(options),
    )  # fmt: skip
    _write_state(layout, running)
    say(f"starting mysqld {version} (process {running.pid})")
    server.await_ready(math.inf)
    say(f"answers after {time.monotonic() - server.begin:.1f} s")
    describe(layout, running)


def check_same(running: Running, datadir: Path | None, port: int | None, options: Sequence[str]) -> None:
    """RedstartError if `up` is asked for another server than the one that runs."""
    differs = []
    if datadir is not None and os.path.abspath(datadir) != running.datadir:
        differs.append(f"data directory {running.datadir}")
    if port is not None and port != running.port:
        differs.append(f"port {running.port}")
    if options and list(options) != running.options:
        differs.append(f"options {shlex.join(running.options) or '(none)'}")
    if differs:
        raise RedstartError(
            f"a server of this clone already runs with {', '.join(differs)} (process {running.pid}); "
            "stop it first: ./redstart down"
        )


# Stopping and connecting


def down(layout: Layout) -> None:
    """Ask the server to shut down and wait until it has; it is never killed."""
    server = read_state(layout)
    if server is None:
        say("no server of this clone is running")
        return
    say(f"stopping mysqld (process {server.pid}, data {server.datadir})")
    os.kill(server.pid, signal.SIGTERM)
    begin = last_note = time.monotonic()
    while is_alive(server):
        if time.monotonic() - last_note >= WAIT_NOTE_SEC:
            last_note = time.monotonic()
            say(f"  still shutting down after {duration(last_note - begin)} (error log: {server.log})")
        time.sleep(0.05)
    layout.run_state.unlink(missing_ok=True)
    say(f"stopped after {time.monotonic() - begin:.1f} s")


def sql(layout: Layout, arguments: Sequence[str]) -> None:
    """Become the mysql client, connected to the running server."""
    server = read_state(layout)
    if server is None:
        raise RedstartError("no server of this clone is running; start one: ./redstart up")
    client = str(layout.binary(server.preset, "mysql"))
    os.execv(client, [client, "--no-defaults", "--user=root", f"--socket={server.socket}", *arguments])
