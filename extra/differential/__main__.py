# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""python -m differential: run random states, by seed."""

import argparse
import contextlib
import json
import queue
import resource
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path
from typing import Any

from differential.canary import (
    CANARIES,
    MAX_STATES,
    Canary,
    CanaryError,
    check_functions,
    check_mark,
    compile_library,
    is_found,
    prefix,
    with_canary,
)
from differential.filesystems import KINDS, FileSystem, check
from differential.mutations import MUTATIONS
from differential.report import Report
from differential.server import has_strace, with_keys
from differential.states import (
    ServerFault,
    Setting,
    check_times_are_tested,
    make_base,
    run_on_base,
    run_state,
    trusted_in_base,
)
from redstart_cli.console import RedstartError
from redstart_cli.mounts import own_namespace
from redstart_cli.mysqld import Binary, find_stock


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="differential", description=__doc__)
    parser.add_argument("--build", type=Path, required=True, help="build directory with the server")
    parser.add_argument("--stock", type=Path, required=True, help="root directory with the stock server")
    parser.add_argument("--work", type=Path, required=True, help="directory for data; short path")
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--states", type=int, default=20, help="how many")
    parser.add_argument("--seconds", type=float, default=0,
                        help="begin no state after this time, if there were AT_LEAST states; 0 = no limit")
    parser.add_argument("--at-least", type=int, default=24, help="how many states whatever time it takes")
    parser.add_argument("--canaries", metavar="NAMES", default="all",
                        help="all, none, or which ones with commas between them: " + ", ".join(CANARIES))
    parser.add_argument("--kinds", metavar="NAMES", default="",
                        help="draw changes from these only: " + ", ".join(MUTATIONS))
    parser.add_argument("--encrypted", action="store_true",
                        help="all states have encrypted tablespaces, and are not shown to stock; every fifth without")
    parser.add_argument("--jobs", type=int, default=5, help="states at a time")
    parser.add_argument("--filesystem", choices=KINDS, help="make the states on such a file system, in a file; as root")
    parser.add_argument("--keep", action="store_true", help="keep the data of states with a difference")
    parser.add_argument("--json", type=Path, help="where to write the report")
    parser.add_argument("--lines", type=Path, help="where to write one line of JSON a state")
    arguments = parser.parse_args()
    names = {"all": list(CANARIES), "none": []}.get(arguments.canaries, arguments.canaries.split(","))
    if unknown := set(names) - set(CANARIES):
        parser.error(f"there is no canary {', '.join(sorted(unknown))}")
    arguments.canaries = names
    arguments.kinds = tuple(filter(None, arguments.kinds.split(",")))
    if unknown := set(arguments.kinds) - set(MUTATIONS):
        parser.error(f"there is no change {', '.join(sorted(unknown))}")
    arguments.stock_binary = find_stock(arguments.stock.resolve())
    if arguments.stock_binary is None:
        parser.error(f"there is no stock server below {arguments.stock}")
    return arguments


class Places:
    """Directories for states, one for each job; each on a file system of its own if that is asked for."""

    def __init__(self, work: Path, kind: str | None, jobs: int, keep: bool):
        self.free: queue.SimpleQueue[tuple[Path, FileSystem | None]] = queue.SimpleQueue()
        self.stack = contextlib.ExitStack()
        if kind is not None:
            check(kind)
            own_namespace(is_shared=True)
        for number in range(jobs):
            if kind is None:
                self.free.put((work, None))
                continue
            file_system = FileSystem(kind, work / f"f{number}")
            self.stack.callback(file_system.close, keep)
            self.free.put((file_system.place, file_system))

    @contextlib.contextmanager
    def place(self) -> Iterator[tuple[Path, FileSystem | None]]:
        """A directory that no other job uses meanwhile, and its file system."""
        found = self.free.get()
        try:
            yield found
        finally:
            self.free.put(found)


class Settings:
    """Makes the settings of states: which servers, from which data directory."""

    def __init__(self, build: Path, stock: Binary, work: Path):
        bin_dir = build / "runtime_output_directory"
        common = [f"--lc-messages-dir={build}/share", f"--basedir={build}",
                  f"--plugin-dir={build}/plugin_output_directory"]
        self.client = bin_dir / "mysql"
        self.work = work
        # In a directory of its own: beside it would be read what other tests put there, as mysqld.my.
        mysqld = work / "mysqld"
        shutil.copy2(bin_dir / "mysqld", mysqld)
        self.subjects = {
            "on": Binary("on", [str(mysqld)], [*common, "--innodb-tablespace-map=ON"]),
            "off": Binary("off", [str(mysqld)], [*common, "--innodb-tablespace-map=OFF"]),
            "stock": stock,
        }
        # In one folder: servers name it in their logs, which are compared.
        self.with_keys = {name: with_keys(self.subjects[name], work / "keyed") for name in ("on", "off")}
        self.n_trusted_in_base = 0
        # By the value of lower_case_table_names.
        self.bases: dict[int, Path] = {}
        for value in (0, 1):
            self.bases[value] = work / f"base{value}"
            make_base(self.subjects["off"], self.client, self.bases[value], [f"--lower-case-table-names={value}"])
        self.n_trusted_in_base = self._check_map()

    def _check_map(self) -> int:
        """The map is used, and not where directories do not change their times; returns how many files are trusted."""
        mark = self.work / "mark-times"
        on = self.subjects["on"]
        blind = replace(on, prefix=prefix(self.work / "canary.so", ("directory",), mark))
        logs = []
        for binary in (on, blind):
            tried = self.work / "tried"
            logs.append(run_on_base(binary, self.client, self.bases[0], tried, ["--lower-case-table-names=0"]))
            shutil.rmtree(tried)
        check_mark("times", Canary(("directory",), ()), mark)
        n_trusted = trusted_in_base(logs[0])
        check_times_are_tested(logs[0], logs[1])
        return n_trusted

    def plain(self, workdir: Path, lower_case: int = 0) -> Setting:
        """A state without encrypted tablespaces."""
        return Setting(workdir, self.bases[lower_case], self.client, self.subjects,
                       [f"--lower-case-table-names={lower_case}"], n_trusted_in_base=self.n_trusted_in_base)

    def of(self, workdir: Path, seed: int, is_encrypted: bool = False) -> Setting:
        """Every fifth state, or each, has encrypted tablespaces, every eleventh names in lower case."""
        setting = self.plain(workdir, int(seed % 11 == 0))
        if is_encrypted or seed % 5 == 0:
            setting = replace(setting, subjects=self.with_keys, is_encrypted=True)
        return setting

    def remove(self) -> None:
        for directory in (*self.bases.values(), self.work / "keyed"):
            shutil.rmtree(directory, ignore_errors=True)
        (self.work / "mysqld").unlink(missing_ok=True)


def find_canaries(arguments: argparse.Namespace, settings: Settings, places: Places, report: Report) -> None:
    """Break the server in each of the ways, and count the states until the comparison notices.

    It has to notice the state each time, and what the broken server did has to be in its log. A state in which the
    server without the fault that counts differs as well is no find, and a difference if nothing else was broken.
    """
    names, seed, library = arguments.canaries, arguments.seed, settings.work / "canary.so"
    counts = dict.fromkeys(names, 0)
    # The last error of a state, by canary: a broken server may do what stops the making of a state.
    errors: dict[str, str] = {}
    for name in names:
        (settings.work / f"mark-{name}").unlink(missing_ok=True)
    report.canaries = dict.fromkeys(names)
    lock = threading.Lock()

    def show(name: str, number: int, canary: Canary) -> dict[str, Any]:
        with places.place() as (place, _):
            setting = with_canary(settings.plain(place / f"{name}{number}"), canary, library,
                                  settings.work / f"mark-{name}")
            state = run_state(seed + number, setting)
            shutil.rmtree(setting.workdir, ignore_errors=True)
        if state["error"]:
            errors[name] = f"seed {seed + number}: {state['error']}"
        return state

    def one(name: str, number: int) -> None:
        if report.canaries[name] is not None:
            return
        canary = CANARIES[name]
        state = show(name, number, canary)
        with lock:
            counts[name] += 1
            needed = counts[name]

        # Once more, so that nothing is found by chance.
        if report.canaries[name] is not None or not (is_found(canary, state)
                                                     and is_found(canary, show(name, number, canary))):
            return
        control = show(name, number, replace(canary, faults=canary.helpers))
        with lock:
            if control["difference"] and canary.helpers:
                return  # It may have been these.
            if control["difference"]:
                report.differences += 1
                print(f"control of the canary {name}, seed {seed + number}:", *control["trace"],
                      control["difference"], sep="\n", flush=True)
            elif report.canaries[name] is None:
                report.canaries[name] = needed
                print(f"canary {name}: state {needed}, {state['mutations']}: {state['difference'][:200]}", flush=True)

    with ThreadPoolExecutor(arguments.jobs) as pool:
        for task in [pool.submit(one, name, number) for number in range(MAX_STATES) for name in names]:
            task.result()
    for name in names:
        if report.canaries[name] is None and name in errors:
            print(f"canary {name}: {errors[name]}", flush=True)
        check_mark(name, CANARIES[name], settings.work / f"mark-{name}")


def show_states(arguments: argparse.Namespace, settings: Settings, places: Places, report: Report) -> None:
    """Make states from seeds one after the other, and compare the servers on each."""
    begin = time.monotonic()

    def one(seed: int) -> dict[str, Any] | None:
        has_time = not arguments.seconds or time.monotonic() - begin < arguments.seconds
        if not has_time and seed >= arguments.seed + arguments.at_least:
            return None
        with places.place() as (place, file_system):
            setting = replace(settings.of(place / f"w{seed}", seed, arguments.encrypted), kinds=arguments.kinds)
            if file_system is not None and file_system.can_change_device:
                setting = replace(setting, change_device=file_system.change_device)
            state = run_state(seed, setting)
            if not (arguments.keep and state["difference"]):
                shutil.rmtree(setting.workdir, ignore_errors=True)
        return state

    with ThreadPoolExecutor(arguments.jobs) as pool:
        seeds = range(arguments.seed, arguments.seed + arguments.states)
        for future in as_completed([pool.submit(one, seed) for seed in seeds]):
            state = future.result()
            if state is None:
                continue
            report.add(state)
            if state["difference"]:
                print(f"seed {state['seed']}:", *state["trace"], state["difference"], sep="\n", flush=True)
            if arguments.lines:
                with arguments.lines.open("a") as out:
                    out.write(json.dumps(state) + "\n")


def main() -> int:
    arguments = parse()
    work = arguments.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    begin = time.monotonic()
    report = Report(needs_stock=not arguments.encrypted)
    if arguments.json:
        arguments.json.unlink(missing_ok=True)
    if not has_strace():
        print("failed: kills at a system call need strace, and root")
        return 1
    problems: list[str] = []
    settings = None
    try:
        compile_library(work / "canary.so")
        mysqld = arguments.build.resolve() / "runtime_output_directory" / "mysqld"
        check_functions([str(mysqld)], arguments.canaries, work / "canary.so", work / "mark")
        settings = Settings(arguments.build.resolve(), arguments.stock_binary, work)
        places = Places(work, arguments.filesystem, arguments.jobs, arguments.keep)
        with places.stack:
            show_states(arguments, settings, places, report)
            find_canaries(arguments, settings, places, report)
    except (CanaryError, ServerFault, RedstartError, subprocess.SubprocessError, OSError) as error:
        problems.append(f"it could not go on: {error}")
    finally:
        if settings is not None:
            settings.remove()

    for line in report.lines():
        print(line)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"servers: on off stock; seeds from {arguments.seed}; "
          f"{arguments.filesystem or 'the file system of the directory'}; {time.monotonic() - begin:.0f} s, "
          f"{used.ru_utime + used.ru_stime:.0f} s of CPU")
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(report.as_json(), indent=1) + "\n")
    problems += report.problems()
    for problem in problems:
        print(f"failed: {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
