# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The library that breaks a server does so, and says that it does."""

import shutil
import subprocess
from pathlib import Path

import pytest

from differential.canary import (
    CANARIES,
    Canary,
    CanaryError,
    check_functions,
    check_mark,
    compile_library,
    is_found,
    prefix,
)
from differential.mutations import MUTATIONS

PROGRAM = """
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
__attribute__((noinline)) int wanted_answer(int x) { __asm__ volatile(""); return x + 40; }
__attribute__((noinline)) int other_answer(int x) { __asm__ volatile(""); return x + 40; }
int main(int argc, char **argv) {
  struct stat st;
  struct statx stx;
  for (int i = 1; i < argc; ++i) {
    if (stat(argv[i], &st) != 0 || statx(AT_FDCWD, argv[i], 0, STATX_BASIC_STATS | STATX_BTIME, &stx) != 0) return 2;
    printf("%lld %lld %lld %llu ", (long long)st.st_mtim.tv_sec, (long long)st.st_ctim.tv_sec,
           (long long)stx.stx_btime.tv_sec, (unsigned long long)stx.stx_ino);
  }
  printf("%d %d\\n", wanted_answer(argc), other_answer(argc));
  return 0;
}
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the library and a program that is to be broken."""
    if shutil.which("gcc") is None:
        pytest.skip("needs gcc")
    place = tmp_path_factory.mktemp("canary")
    compile_library(place / "canary.so")
    (place / "program.c").write_text(PROGRAM)
    subprocess.run(["gcc", "-O1", "-o", str(place / "program"), str(place / "program.c")], check=True)
    return place


def run(built: Path, faults: tuple[str, ...], *paths: Path) -> tuple[list[int], set[str]]:
    """What the broken program says, and what the library says."""
    mark = built / "mark"
    mark.unlink(missing_ok=True)
    command = [*prefix(built / "canary.so", faults, mark), str(built / "program"), *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [int(word) for word in done.stdout.split()], set(mark.read_text().split()) if mark.exists() else set()


def test_without_faults_nothing_changes(built: Path) -> None:
    path = built / "program"
    seen, marks = run(built, (), path)
    assert seen[0] == int(path.stat().st_mtime) and seen[3] == path.stat().st_ino and seen[4:] == [42, 42]
    assert not marks


def test_directories_keep_their_times(built: Path) -> None:
    file = built / "program"
    seen, marks = run(built, ("directory",), built, file)
    assert seen[:2] == [1600000000] * 2
    assert seen[4] == int(file.stat().st_mtime)
    assert marks == {"directory"}


def test_files_are_born_at_one_time(built: Path) -> None:
    file = built / "program"
    seen, marks = run(built, ("birth",), file)
    assert seen[2] == 1600000000 and seen[3] == file.stat().st_ino
    assert marks == {"birth"}


def test_the_temporary_file_stays_the_same(built: Path) -> None:
    (built / "ibtmp1").touch()
    (built / "other1").touch()
    seen, marks = run(built, ("temporary",), built / "ibtmp1", built / "other1")
    assert seen[2:4] == [1600000000, 7]
    assert seen[7] == (built / "other1").stat().st_ino
    assert marks == {"temporary"}


def test_functions_of_the_program_do_nothing(built: Path) -> None:
    seen, marks = run(built, ("zero:wanted_answer",))
    assert seen == [0, 41]
    assert marks == {"zero:wanted_answer"}
    seen, marks = run(built, ("return:other_answer",))
    assert seen[0] == 41 and marks == {"return:other_answer"}


def test_a_function_that_is_not_there_is_reported(built: Path) -> None:
    canary = CANARIES["duplicate-check"]
    _, marks = run(built, canary.faults)
    assert not marks
    with pytest.raises(CanaryError, match="duplicate-check"):
        check_mark("duplicate-check", canary, built / "mark")


def test_a_server_without_the_functions_is_refused_before_any_state(built: Path) -> None:
    program = ["true"]
    with pytest.raises(CanaryError, match="duplicate-check was not at work: return:.*Start7checked"):
        check_functions(program, ["birth-time", "duplicate-check"], built / "canary.so", built / "mark")
    # This one hides times alone.
    check_functions(program, ["birth-time"], built / "canary.so", built / "mark")


def test_canaries_are_blind_to_kinds_that_there_are() -> None:
    for canary in CANARIES.values():
        assert set(canary.kinds) <= set(MUTATIONS)


def test_a_state_finds_a_canary_by_a_difference_while_it_was_at_work() -> None:
    canary = Canary(("fault",), ("swap",), witness="lazy")
    assert is_found(canary, {"error": None, "difference": "1 messages", "lazy": True})
    assert not is_found(canary, {"error": None, "difference": "1 messages", "lazy": False})
    assert not is_found(canary, {"error": None, "difference": None, "lazy": True})


def test_a_state_that_ended_in_an_error_finds_nothing() -> None:
    # It ended before anything was known of the first start.
    assert not is_found(Canary(("fault",), ("swap",)), {"error": "a server died", "difference": "a server died"})
