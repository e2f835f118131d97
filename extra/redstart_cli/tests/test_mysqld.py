# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""A server, played by a script, that starts, does not, says why, is asked for nothing and ends."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from redstart_cli import keyring, mysqld
from redstart_cli.mysqld import Binary, Mysqld, NotReadyError, NotStoppedError, ServerError, initialise
from redstart_cli.process import module_environment
from redstart_cli.tests.sockets import accepted_by_nobody

REPO = Path(__file__).resolve().parents[3]
# `ready` is what the tests take for an answer.
SERVER = """
import os, sys, time
given = dict(word.lstrip("-").partition("=")[::2] for word in sys.argv[1:])
log = open(given["log-error"], "a", buffering=1)
if "initialize-insecure" in given:
    os.mkdir(given["datadir"])
log.write("T 0 [Note] begins\\n")
if "fail" in given:
    log.write("T 0 [ERROR] no such thing\\nT 0 [Note] ends\\n")
    sys.exit(int(given["fail"]))
if "mute" in given:
    sys.exit("what comes before the log")
log.write(f"preload {os.environ.get('PRELOAD')} by {os.getppid()}\\n")
if "initialize-insecure" in given:
    sys.exit(0)
if "stay" in given:
    import signal
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if "slow" not in given:
    log.write("ready\\n")
# Longer than any test waits for its end.
time.sleep(600)
"""


class Played(Mysqld):
    """A script in the place of mysqld."""

    poll_sec = 0.005

    def is_ready(self) -> bool:
        return "ready\n" in self.said()


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    script = tmp_path / "server.py"
    script.write_text(SERVER)
    return [sys.executable, str(script)]


@pytest.fixture
def server(tmp_path: Path, words: list[str]) -> Iterator[Played]:
    with Played("ours", words, tmp_path / "data", tmp_path / "log", []) as made:
        yield made


def test_a_start_and_a_stop(server: Played) -> None:
    with pytest.raises(ServerError, match="was not started"):
        assert server.process
    server.launch()
    server.await_ready(60)
    assert server.is_running
    with pytest.raises(ServerError, match="ours runs already"):
        server.launch()
    assert server.end(60) == -signal.SIGTERM
    assert not server.is_running


def test_a_folder_of_its_own_goes_with_the_block(words: list[str], tmp_path: Path) -> None:
    with Played("ours", words, tmp_path / "data", tmp_path / "log", []) as server:
        for end in (server.kill, lambda: server.end(60)):
            server.launch()
            server.await_ready(60)
            end()
            assert server.run.is_dir()
    assert not server.run.exists()


def test_a_folder_of_its_own_goes_with_the_object(words: list[str], tmp_path: Path) -> None:
    server = Played("ours", words, tmp_path / "data", tmp_path / "log", [])
    run = server.run
    server.launch()
    server.kill()
    assert run.is_dir()
    del server
    assert not run.exists()


def test_why_it_does_not_start(server: Played) -> None:
    server.launch("--fail=3")
    with pytest.raises(ServerError, match=r"^ours ended with 3 at its start: T 0 \[ERROR\] no such thing$"):
        server.await_ready(60)


def test_what_it_says_before_it_has_a_log(server: Played) -> None:
    server.log = Path("/nonexistent")
    server.launch("--mute")
    with pytest.raises(ServerError, match="ended with 1 at its start: what comes before the log$"):
        server.await_ready(60)


def test_what_it_says_besides_its_log(server: Played) -> None:
    server.launch("--mute")
    server.process.wait()
    assert server.errors() == "T 0 [Note] begins | what comes before the log"
    assert server.end(60) == 1
    assert server.errors() == "T 0 [Note] begins | what comes before the log"


def test_a_start_that_takes_too_long(server: Played) -> None:
    server.launch("--slow")
    with pytest.raises(NotReadyError, match=f"did not start within 2 s: T 0 .*; see {server.log}$"):
        server.await_ready(2)
    assert not server.is_running


def test_a_stop_that_takes_too_long(server: Played) -> None:
    server.launch("--stay")
    server.await_ready(60)
    with pytest.raises(NotStoppedError, match="did not stop within 0.2 s: T 0"):
        server.end(0.2)
    assert server.process.returncode == -signal.SIGKILL


def test_a_log_is_read_from_the_last_start(server: Played) -> None:
    for option in ("--fail=1", "--fail=2"):
        server.launch(option)
        server.process.wait()
    assert server.said() == server.log.read_text()[len(server.log.read_text()) // 2 :]
    assert server.said().count("begins") == 1


def test_variables_are_those_of_the_server_alone(server: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRELOAD", "none")
    server.launch(environment={"PRELOAD": "a b"})
    server.await_ready(60)
    assert f"preload a b by {os.getpid()}" in server.said()
    assert Path(f"/proc/{server.process.pid}/cmdline").read_text().startswith(sys.executable)


def test_ctrl_c_is_for_the_tool(server: Played) -> None:
    server.launch()
    server.await_ready(60)
    assert os.getsid(server.process.pid) == server.process.pid != os.getsid(0)


def test_a_path_that_env_would_take_for_a_variable_is_refused(server: Played, tmp_path: Path) -> None:
    (tmp_path / "a=b").symlink_to(sys.executable)
    server.words[0] = str(tmp_path / "a=b")
    with pytest.raises(ServerError, match="a=b cannot be given variables"):
        server.launch(environment={"PRELOAD": "x"})
    server.launch()
    server.await_ready(60)


def test_a_server_that_listens_and_accepts_nobody_is_not_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mysqld, "READY_TIMEOUT_SEC", 0.2)
    server = Mysqld("ours", ["true"], tmp_path, tmp_path / "log", [])
    assert accepted_by_nobody(server) == [False]


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    server = Mysqld("ours", [str(tmp_path / "none")], tmp_path, tmp_path / "log", [])
    with pytest.raises(FileNotFoundError, match="none"):
        server.launch()
    server.kill()


def test_a_server_dies_with_its_tool(tmp_path: Path, words: list[str]) -> None:
    tool = (
        "import sys, time\nfrom pathlib import Path\nfrom redstart_cli.mysqld import Mysqld\n"
        f"server = Mysqld('ours', {words!r}, Path('data'), Path(sys.argv[1]), ['--stay'], Path(sys.argv[2]))\n"
        "server.launch()\nprint(server.process.pid, flush=True)\ntime.sleep(60)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", tool, tmp_path / "log", tmp_path], env=module_environment(REPO), stdout=subprocess.PIPE, text=True
    )
    assert process.stdout
    pid = int(process.stdout.readline())
    status, log = Path(f"/proc/{pid}/status"), tmp_path / "log"
    end = time.monotonic() + 60
    # Until setpriv has told the kernel, which it does before it becomes the server, a server would stay.
    while not (log.exists() and "ready" in log.read_text()) and time.monotonic() < end:
        time.sleep(0.01)
    assert status.exists()
    process.kill()
    process.wait()
    end = time.monotonic() + 60
    try:
        while status.exists() and "State:\tZ" not in status.read_text() and time.monotonic() < end:
            time.sleep(0.01)
        assert not status.exists() or "State:\tZ" in status.read_text()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_a_data_directory(tmp_path: Path, words: list[str]) -> None:
    log = tmp_path / "log"
    initialise("ours", words, tmp_path / "data", log)
    assert (tmp_path / "data").is_dir()
    with pytest.raises(ServerError, match=r"^ours could not make a data directory: it ended with 4: T 0 \[ERROR\] no such thing"):
        initialise("ours", [*words, "--fail=4"], tmp_path / "other", log)
    # What one before has said is not quoted.
    with pytest.raises(ServerError, match=r"it ended with 5: T 0 \[ERROR\] no such thing $"):
        initialise("ours", [*words, "--fail=5"], tmp_path / "third", log)


def test_errors_come_first() -> None:
    lines = [f"{number} [Note]" for number in range(20)]
    assert mysqld.last_errors("\n".join([*lines, "[ERROR] e", "[Note] later"])) == "[ERROR] e"
    assert mysqld.last_errors("\n".join(lines)) == " | ".join(lines[-mysqld.LOG_LINES_SHOWN :])


def test_a_frozen_server_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "counted"
    program = (
        "import sys, threading\n"
        "def work():\n"
        "    while True:\n"
        "        with open(sys.argv[1], 'ab') as file: file.write(b'x')\n"
        "for _ in range(3): threading.Thread(target=work, daemon=True).start()\n"
        "threading.Event().wait()\n"
    )
    server = Mysqld("ours", [sys.executable, "-c", program, str(path)], tmp_path, tmp_path / "log", [])
    server.launch()

    def grows() -> bool:
        size = path.stat().st_size if path.exists() else 0
        end = time.monotonic() + 0.3
        while time.monotonic() < end:
            time.sleep(0.01)
            if path.exists() and path.stat().st_size > size:
                return True
        return False

    try:
        end = time.monotonic() + 30
        while not grows() and time.monotonic() < end:
            pass
        with server.frozen():
            assert not grows()
        assert grows()
    finally:
        server.kill()


def test_a_server_that_is_not_still_is_not_frozen(server: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    server.launch()
    server.await_ready(60)
    monkeypatch.setattr(mysqld, "FREEZE_TIMEOUT_SEC", 0.1)
    with monkeypatch.context() as patched:
        patched.setattr(server, "_stands_still", lambda: False)
        with pytest.raises(ServerError, match="did not stand still within 0.1 s"), server.frozen():
            pytest.fail("it was taken for frozen")
    server.kill()
    with pytest.raises(ServerError, match="has ended with -9"), server.frozen():
        pytest.fail("a dead server was taken for frozen")


def test_a_thread_that_ends_meanwhile_stands_still(server: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    server.launch()
    server.await_ready(60)
    there = list(Path(f"/proc/{server.process.pid}/task").glob("*/stat"))
    with monkeypatch.context() as patched:
        patched.setattr(mysqld.Path, "glob", lambda *_: [Path("/proc/self/task/0/stat")])
        assert server._stands_still()
        patched.setattr(mysqld.Path, "glob", lambda *_: there)
        assert not server._stands_still()


@pytest.mark.parametrize("name", ["mysqld", "lib"])
def test_a_keyring_of_a_relative_path(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for path in (Path("mysqld"), Path("lib") / f"{keyring.COMPONENT}.so"):
        path.parent.mkdir(exist_ok=True)
        path.write_text("")
    binary = Binary("ours", ["mysqld" if name == "mysqld" else str(tmp_path / "mysqld")],
                    [f"--plugin-dir={'lib' if name == 'lib' else tmp_path / 'lib'}"])  # fmt: skip
    keyed = keyring.with_keyring(binary, Path("servers/ours"))
    assert keyed
    assert Path(keyed.command[-1]).exists()
    assert (Path("servers/ours") / f"{keyring.COMPONENT}.so").exists()
