# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""./redstart fuzz: libFuzzer targets for what reads files, with planted faults that they must find.

A target is compiled with clang, AddressSanitizer and UndefinedBehaviorSanitizer, against the source that it tests alone
and the headers of the release build.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import click

from redstart_cli import build as builds
from redstart_cli.compdb import compile_commands
from redstart_cli.console import HELP, RedstartError, duration, error, say
from redstart_cli.layout import this_layout
from redstart_cli.locks import exclusive
from redstart_cli.process import run_captured, tied

COMPILER = "clang++-16"
COMPILE_TIMEOUT_SEC = 600
MAX_BYTES = 4096
# Of one input; a target that needs more hangs, or takes memory for what the bytes only say.
INPUT_SEC, MEMORY_MIB = 10, 2048
# A planted fault must be found within so many runs.
CANARY_RUNS = 5_000_000
REPLAY_SEC = 60
_FLAGS = (
    "-fsanitize=fuzzer,address,undefined", "-fno-sanitize=vptr,function", "-fno-sanitize-recover=undefined",
    "-std=c++20", "-O1", "-g", "-w", "-ffunction-sections",
)  # fmt: skip
# The rest of a source refers to the whole server; none of it is called.
_LINK = ("-fuse-ld=lld", "-Wl,--gc-sections", "-Wl,--unresolved-symbols=ignore-all", "-no-pie")
_RUNS = re.compile(r"^stat::number_of_executed_units: +(\d+)$", re.MULTILINE)
_RIGHT = re.compile(r"^stat::right_inputs: +(\d+)$", re.MULTILINE)
# One input in so many must be what it is made for, or the mutations lead nowhere. Of a million inputs 6,675 are maps,
# and 1,369 when mutations give them the magic of another format.
MAX_WRONG = 300
# In fewer runs it is chance.
COUNTED_RUNS = 100_000
_HERE = Path(__file__).parent


@dataclass(frozen=True)
class Planted:
    """A fault: `text` of the source, which stands there once, becomes `fault`."""

    name: str
    text: str
    fault: str


@dataclass(frozen=True)
class Target:
    """What is fuzzed: a file of this folder, and the source of the tree that it tests."""

    name: str
    source: str
    planted: tuple[Planted, ...]

    @property
    def main(self) -> Path:
        return _HERE / f"{self.name}_fuzz.cc"


TARGETS = (
    Target(
        "map", "storage/innobase/fil/fil0mapfile.cc",
        (
            Planted("the summary may end behind the file", "header.n_summary != n_bytes - header.summary_offset", "false"),
            Planted("an entry of the index may name any file", "file_no >= m_n_files ||", ""),
            Planted("the index is not compared with the files", "ids[no] != id", "false"),
            Planted("a block may begin with another file", "(i == 0 && name != place.first_name)", "false"),
            Planted("directories need not be sorted", "!walk_order(dirs[d - 1].path, dir.path)", "false"),
        ),
    ),
    Target(
        "header", "storage/innobase/fil/fil0check.cc",
        (
            Planted(
                "the second ID is read without being there", "n_bytes < second_copy + sizeof(space_id_t)", "n_bytes < second_copy"
            ),
            Planted("the second ID may be another", "space_id != mach_read_from_4(header + second_copy)", "false"),
        ),
    ),
)  # fmt: skip


def plant(source: str, planted: Planted) -> str:
    """The source with a fault; RedstartError if it has no such place any more."""
    if source.count(planted.text) != 1:
        times = source.count(planted.text)
        raise RedstartError(f"the fault '{planted.name}' cannot be planted: the source has '{planted.text}' {times} times")
    return source.replace(planted.text, planted.fault)


def header_flags(command: Sequence[str]) -> list[str]:
    """What of a compile command of GCC says where headers are and how they are read."""
    flags: list[str] = []
    words = iter(command)
    for word in words:
        if word in ("-I", "-isystem", "-D"):
            flags += [word, next(words)]
        elif word.startswith(("-I", "-D")):
            flags.append(word)
    return flags


@dataclass(frozen=True)
class Runs:
    """Inputs that were tried, how many of them were maps or headers, and what was found, if anything."""

    made: int
    right: int
    found: str


class Fuzzer:
    """Compiles and runs targets below a folder."""

    def __init__(self, work: Path, tree: Path, commands: dict[str, list[str]], seed: int, jobs: int) -> None:
        self._work, self._tree, self._commands = work, tree, commands
        self._seed, self._jobs = seed, jobs

    def make(self, target: Target, name: str, planted: Planted | None = None) -> Path:
        """The program of a target, with a fault or without."""
        folder = self._work / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        source = (self._tree / target.source).read_text(encoding="utf-8")
        copy = folder / Path(target.source).name
        copy.write_text(plant(source, planted) if planted else source, encoding="utf-8")
        program = folder / "fuzz"
        flags = header_flags(self._commands[target.source])
        command: list[str | Path] = [COMPILER, *_FLAGS, *flags, copy, target.main, *_LINK, "-o", program]
        done = run_captured(command, self._tree, COMPILE_TIMEOUT_SEC)
        if done is None or done[0] != 0:
            said = "it took too long" if done is None else done[1][-2000:]
            raise RedstartError(f"{target.name} does not compile with {COMPILER}:\n{said}")
        return program

    def run(self, program: Path, runs: int) -> Runs:
        """Run a program in all jobs together so often."""
        with ThreadPoolExecutor(self._jobs) as pool:
            parts = list(pool.map(lambda job: self._run(program, job, -(-runs // self._jobs)), range(self._jobs)))
        found = next((part.found for part in parts if part.found), "")
        return Runs(sum(part.made for part in parts), sum(part.right for part in parts), found)

    def is_clean(self, program: Path, inputs: Sequence[Path]) -> bool:
        """Whether a program finds nothing in some inputs."""
        done = run_captured([program, *inputs], program.parent, REPLAY_SEC)
        return done is not None and done[0] == 0

    def _run(self, program: Path, job: int, runs: int) -> Runs:
        folder = program.parent / f"job{job}"
        folder.mkdir()
        command: list[str | Path] = [
            program, folder, f"-runs={runs}", f"-seed={self._seed + job + 1}", f"-max_len={MAX_BYTES}",
            f"-timeout={INPUT_SEC}", f"-rss_limit_mb={MEMORY_MIB}", f"-artifact_prefix={program.parent}/found-{job}-",
            "-print_final_stats=1", "-verbosity=0", "-close_fd_mask=1",
        ]  # fmt: skip
        done = subprocess.run(
            tied(command), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            errors="replace", env={"FUZZ_SEEDS": str(folder), "PATH": "/usr/bin:/bin"}, cwd=program.parent,
        )  # fmt: skip
        made, right = _RUNS.search(done.stderr), _RIGHT.search(done.stderr)
        has_found = any(program.parent.glob(f"found-{job}-*"))
        # One that ends with a finding does not tell the second.
        if made is None or (done.returncode != 0) != has_found or (right is None and not has_found):
            raise RedstartError(f"{program} did not run as it should ({done.returncode}): {done.stderr[-1000:]}")
        return Runs(int(made[1]), int(right[1]) if right else 0, done.stderr if has_found else "")


@click.command(context_settings=HELP)
@click.option("--runs", type=click.IntRange(min=1), default=1_000_000, show_default=True, help="Inputs for each target.")
@click.option("--seed", type=click.IntRange(0, 2**31), help="Default: from the clock.")
@click.option("--jobs", type=click.IntRange(min=1), default=2, show_default=True, help="Processes at a time.")
@click.option("--canaries/--no-canaries", "wants_canaries", default=True, show_default=True,
              help="Planted faults; not to find one is a failure.")  # fmt: skip
@click.option("--json", "json_file", type=click.Path(dir_okay=False, path_type=Path), help="Where to write the counts.")
def main(runs: int, seed: int | None, jobs: int, wants_canaries: bool, json_file: Path | None) -> None:
    """Feed the readers of the tablespace map and of tablespace headers with bytes that nobody has written."""
    if json_file is not None and not json_file.absolute().parent.is_dir():
        raise RedstartError(f"--json {json_file}: there is no such folder")
    if shutil.which(COMPILER) is None:
        raise RedstartError(f"there is no {COMPILER}, which has libFuzzer")
    layout = this_layout()
    builds.build(layout, "release", builds.SERVER_TARGETS)
    seed = time.time_ns() % (1 << 31) if seed is None else seed
    targets: dict[str, object] = {}
    problems: list[str] = []
    with exclusive(layout.build / "fuzz.lock", "the fuzzing of this clone"):
        work = layout.build / "fuzz"
        fuzzer = Fuzzer(work, layout.source, compile_commands(layout, "release"), seed, jobs)
        for target in TARGETS:
            program = fuzzer.make(target, target.name)
            canaries = {
                fault.name: _is_found(fuzzer, target, fault, program) for fault in target.planted if wants_canaries
            }
            problems += [f"{target.name}: not found: {name}" for name, is_found in canaries.items() if not is_found]
            begin = time.monotonic()
            done = fuzzer.run(program, runs)
            if done.found:
                say(done.found[-4000:])
                problems.append(f"{target.name}: see above; the input is {work / target.name}/found-*")
            elif done.made >= COUNTED_RUNS and done.right * MAX_WRONG < done.made:
                problems.append(f"{target.name}: only {done.right} of {done.made} inputs were right ones")
            result = "FAILED" if done.found else f"{done.right} of them right, nothing found"
            say(f"{target.name}: {done.made} runs, {result}, {duration(time.monotonic() - begin)}")
            targets[target.name] = {
                "wanted": runs, "runs": done.made, "right": done.right, "failed": bool(done.found), "canaries": canaries,
            }  # fmt: skip
    if json_file is not None:
        json_file.write_text(json.dumps({"seed": seed, "targets": targets}, indent=1) + "\n", encoding="utf-8")
    for problem in problems:
        error(problem)
    if problems:
        raise RedstartError(f"{len(problems)} failed; seed {seed}")


def _is_found(fuzzer: Fuzzer, target: Target, planted: Planted, sound: Path) -> bool:
    """Whether a planted fault is found by an input that is no finding without it; RedstartError if it is one."""
    begin = time.monotonic()
    program = fuzzer.make(target, f"{target.name}.planted", planted)
    done = fuzzer.run(program, CANARY_RUNS)
    inputs = sorted(program.parent.glob("found-*"))
    if done.found and not fuzzer.is_clean(sound, inputs):
        names = ", ".join(map(str, inputs))
        raise RedstartError(f"{target.name}: found without a planted fault, too: {names}\n{done.found}")
    said = f"found after {done.made} runs, {duration(time.monotonic() - begin)}" if done.found else "NOT FOUND"
    say(f"  {target.name}, planted: {planted.name}: {said}")
    return bool(done.found)
