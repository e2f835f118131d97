# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The shell script ./redstart, with fake apt, dpkg-query and Python environment."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import TextIO

import pytest

from redstart_cli.tests.conftest import write_program

REPO = Path(__file__).resolve().parents[3]
# Programs of the system that the script uses; everything else is fake or absent.
TOOLS = "awk bash cat comm dirname echo env flock grep mkdir mv printf readlink rm sha256sum sort touch xargs".split()
PACKAGES = """# comment
run    ca-certificates  why
build  cmake  why
build  lld  why
test   strace  why
bench  fio  why
"""
DPKG_QUERY = """#!/bin/bash
for name; do case " $INSTALLED $(cat "$STATE" 2>/dev/null) " in *" $name "*) echo "installed $name" ;; esac; done
exit 1
"""
APT_GET = """#!/bin/bash
echo "$*" >>"$CALLS"
case " $* " in
  *" update "*) [ -z "$NO_NETWORK" ] && touch "$STATE.lists" || exit 100 ;;
  *" --simulate "*) [ -e "$STATE.lists" ] ;;
  *) [ -e "$STATE.lists" ] && [ -z "$APT_FAILS" ] && echo "$*" >"$STATE" ;;
esac
"""


class Machine:
    """A clone and a PATH of fakes."""

    def __init__(self, folder: Path) -> None:
        self.clone = folder / "a clone"
        self.folder = folder
        (self.clone / "cmake").mkdir(parents=True)
        shutil.copy(REPO / "redstart", self.clone)
        (self.clone / "cmake/packages.txt").write_text(PACKAGES)
        (self.clone / "cmake/requirements.txt").write_text("click\n")
        version = subprocess.run(["/usr/bin/python3", "--version"], capture_output=True, text=True, check=True).stdout
        made_from = subprocess.run(["sha256sum"], input=version + "click\n", capture_output=True, text=True).stdout
        venv = self.clone / "build/venv"
        write_program(venv / "bin/python", '#!/bin/bash\necho "python $* PYTHONPATH=$PYTHONPATH"\n')
        (venv / "made-from").write_text(made_from)
        self.bin = folder / "bin"
        self.bin.mkdir()
        for tool in TOOLS:
            (self.bin / tool).symlink_to(str(shutil.which(tool)))
        self.write("dpkg-query", DPKG_QUERY)
        self.write("apt-get", APT_GET)
        self.be(0)

    def write(self, name: str, text: str) -> None:
        write_program(self.bin / name, text)

    def be(self, uid: int) -> None:
        self.write("id", f"#!/bin/bash\necho {uid}\n")

    def call(
        self, *arguments: str, script: Path | None = None, terminal: TextIO | None = None, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(script or self.clone / "redstart"), *arguments],
            cwd="/",
            env={
                "PATH": str(self.bin),
                "CALLS": str(self.folder / "calls"),
                "STATE": str(self.folder / "state"),
                "INSTALLED": "ca-certificates",
                **environment,
            },
            stdin=terminal or subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=terminal or subprocess.PIPE,
            text=True,
        )

    def call_in_terminal(self, answer: str, *arguments: str, **environment: str) -> tuple[int, str]:
        """Status and what the terminal shows, which also holds what is typed."""
        master, slave = os.openpty()
        os.write(master, answer.encode())
        with os.fdopen(slave, "r") as terminal:
            done = self.call(*arguments, script=None, terminal=terminal, **environment)
        shown = b""
        with suppress(OSError):  # the end
            while chunk := os.read(master, 10_000):
                shown += chunk
        os.close(master)
        return done.returncode, shown.decode()

    def calls(self) -> str:
        path = self.folder / "calls"
        return path.read_text() if path.exists() else ""


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_hands_over(machine: Machine) -> None:
    result = machine.call("source", "--check", "9.7.4")
    assert result.returncode == 0, result.stderr
    expected = f"python -m redstart_cli source --check 9.7.4 PYTHONPATH={machine.clone}/cmake:{machine.clone}/extra\n"
    assert result.stdout == expected and machine.calls() == ""


def test_through_a_symbolic_link(machine: Machine) -> None:
    link = machine.folder / "rs"
    link.symlink_to(machine.clone / "redstart")
    assert f"PYTHONPATH={machine.clone}/cmake" in machine.call("down", script=link).stdout


def test_root_installs_what_the_command_needs_and_says_so(machine: Machine) -> None:
    result = machine.call("build", "debug")
    assert result.returncode == 0, result.stderr
    assert "installing Debian packages needed to run build (listed in cmake/packages.txt): cmake lld" in result.stdout
    update, install = machine.calls().splitlines()[1:]
    assert update.startswith("update") and install.startswith("install --yes --no-install-recommends")
    assert install.endswith("--quiet cmake lld")
    assert "strace" not in machine.calls() and "fio" not in machine.calls()


@pytest.mark.parametrize(
    ("answer", "arguments", "environment", "asks", "installs"),
    [
        ("\n", ["up"], {}, True, True),
        ("yes\n", ["up"], {}, True, True),
        ("n\n", ["up"], {}, True, False),
        ("\x04", ["up"], {}, True, False),
        ("", ["--yes", "up"], {}, False, True),
        ("", ["up", "--yes"], {}, False, True),
        ("", ["up"], {"CI": "true"}, False, True),
        ("n\n", ["up", "--", "--yes"], {}, True, False),
    ],
)
def test_in_a_terminal_it_asks(
    machine: Machine, answer: str, arguments: list[str], environment: dict[str, str], asks: bool, installs: bool
) -> None:
    code, shown = machine.call_in_terminal(answer, *arguments, **environment)
    assert ("go on? [Y/n]" in shown) == asks and (code, " install " in f" {machine.calls()}") == (int(not installs), installs)
    assert ("nothing was installed" in shown) != installs


@pytest.mark.parametrize("arguments", [["--help"], [], ["--version"], ["build", "-h"], ["--yes", "test", "mtr", "--help"]])
def test_help_makes_and_installs_nothing(machine: Machine, arguments: list[str]) -> None:
    shutil.copy(REPO / "cmake/upstream.json", machine.clone / "cmake")
    shutil.copy(REPO / "CONTRIBUTING.md", machine.clone)
    given = " ".join(word for word in arguments if word != "--yes")
    result = machine.call(*arguments, INSTALLED="")
    assert result.returncode == 0 and result.stdout.startswith(f"python -m redstart_cli {given}".rstrip())
    default = json.loads((REPO / "cmake/upstream.json").read_text())["default"]
    words = f"{default}-redstart" if "--version" in arguments else "    ./redstart status  "
    # An environment of other requirements may lack what the help imports.
    (machine.clone / "cmake/requirements.txt").write_text("click\npsutil\n")
    result = machine.call(*arguments, INSTALLED="")
    assert result.returncode == 0 and words in result.stdout and result.stderr == ""
    shutil.rmtree(machine.clone / "build")
    result = machine.call(*arguments, INSTALLED="")
    assert result.returncode == 0 and words in result.stdout and result.stderr == ""
    assert machine.calls() == "" and not (machine.clone / "build").exists()


def test_help_of_mysql_is_no_help_of_ours(machine: Machine) -> None:
    assert machine.call("sql", "-h", "localhost", INSTALLED="").returncode == 0
    assert "ca-certificates" in machine.calls()


def test_no_update_when_the_lists_are_good(machine: Machine) -> None:
    (machine.folder / "state.lists").touch()
    assert machine.call("up").returncode == 0
    assert "update" not in machine.calls()


@pytest.mark.parametrize(
    ("arguments", "missing"),
    [
        (["test"], "cmake lld strace"),
        (["test", "mtr"], "cmake lld strace"),
        (["test", "unit"], "cmake lld"),
        (["test", "unit", "mtr"], "cmake lld strace"),
        (["test", "--preset", "debug", "unit"], "cmake lld"),
        (["test", "--preset", "debug"], "cmake lld strace"),
        (["test", "overlay", "config", "--", "mtr"], "cmake lld"),
        (["test", "unit", "--", "--help"], "cmake lld"),
        (["bench", "startup"], "cmake fio lld"),
    ],
)
def test_user_gets_one_line_to_run(machine: Machine, arguments: list[str], missing: str) -> None:
    machine.be(1000)
    result = machine.call(*arguments)
    assert result.returncode == 1 and result.stdout == "" and machine.calls() == ""
    lines = [line for line in result.stderr.splitlines() if "apt-get" in line]
    assert lines == [f"  sudo apt-get install --yes --no-install-recommends {missing}"]


@pytest.mark.parametrize(
    ("level", "needed"),
    [
        *((level, {"debootstrap"}) for level in ("all", "differential", "replication", "swap", "packages", "dockerfile")),
        *((level, {"debhelper", "dh-apparmor", "dpkg-dev", "debootstrap"}) for level in ("all", "installation")),
        *((level, {"strace", "libexpect-perl"}) for level in ("all", "mtr", "regression")),
        ("all", {"shellcheck", "clang-format-15", "fio"}),
        ("overlay", {"shellcheck", "clang-format-15"}),
    ],
)
def test_a_level_has_the_tools_without_which_it_fails(machine: Machine, level: str, needed: set[str]) -> None:
    shutil.copy(REPO / "cmake/packages.txt", machine.clone / "cmake")
    machine.be(1000)
    (line,) = [line for line in machine.call("test", level).stderr.splitlines() if "apt-get" in line]
    assert needed <= set(line.split())


@pytest.mark.parametrize("arguments", [["sql"], ["down"], ["source"], ["test", "overlay"], ["--help"], [],
                                       ["test", "nightly"], ["build", "--help"], ["bench", "startup", "-h"]])  # fmt: skip
def test_commands_without_a_build_need_little(machine: Machine, arguments: list[str]) -> None:
    machine.be(1000)
    assert machine.call(*arguments).returncode == 0


def test_no_network(machine: Machine) -> None:
    result = machine.call("up", NO_NETWORK="1")
    assert result.returncode == 1 and "'apt-get update' failed" in result.stderr and "python" not in result.stdout


def test_apt_fails(machine: Machine) -> None:
    result = machine.call("up", APT_FAILS="1")
    assert result.returncode == 1 and "apt could not install the packages" in result.stderr


def test_other_system(machine: Machine) -> None:
    (machine.bin / "dpkg-query").unlink()
    result = machine.call("up")
    assert result.returncode == 1
    assert "made for Debian 12" in result.stderr and "ca-certificates cmake lld" in result.stderr


def test_failed_environment_is_not_taken_for_a_good_one(machine: Machine) -> None:
    shutil.rmtree(machine.clone / "build/venv")
    (machine.clone / "cmake/requirements.txt").write_text("no-such-package-here==1 --hash=sha256:00\n")
    result = machine.call("down", PIP_NO_INDEX="1", PATH=f"{machine.bin}:{os.environ['PATH']}")
    assert result.returncode == 1 and "pip could not install" in result.stderr
    assert not (machine.clone / "build/venv").exists()
