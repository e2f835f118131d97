# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""python -m differential: run random states, by seed."""

import contextlib
import json
import queue
import resource
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click

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
from differential.server import has_strace, stock_below, with_keys
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
from redstart_cli.mysqld import Binary


def _canaries(context: click.Context, parameter: click.Parameter, value: str) -> tuple[str, ...]:
    if value == "none":
        return ()
    return _known(",".join(CANARIES) if value == "all" else value, CANARIES, "canary")


def _kinds(context: click.Context, parameter: click.Parameter, value: str) -> tuple[str, ...]:
    return _known(value, MUTATIONS, "change") if value else ()


def _known(value: str, known: Collection[str], what: str) -> tuple[str, ...]:
    names = tuple(value.split(","))
    if unknown := set(names) - set(known):
        raise click.BadParameter(f"there is no {what} {', '.join(sorted(unknown))}")
    return names


_SINGLE_FLUSH = "--innodb-ddl-flush-batch=OFF"
"""Not what is compared: a page of an index that is flushed by itself has a copy in the doublewrite files for long, which
repairs a file that a change here has replaced by an older one; those of batches are overwritten soon."""


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
                  f"--plugin-dir={build}/plugin_output_directory", _SINGLE_FLUSH]
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


def find_canaries(arguments: SimpleNamespace, settings: Settings, places: Places, report: Report) -> None:
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


def show_states(arguments: SimpleNamespace, settings: Settings, places: Places, report: Report) -> None:
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


@click.command(context_settings={"show_default": True, "max_content_width": 120})
@click.option("--build", type=click.Path(path_type=Path), required=True, help="Build directory with the server.")
@click.option("--stock", type=click.Path(path_type=Path), required=True, callback=stock_below,
              help="Root directory with the stock server.")
@click.option("--work", type=click.Path(path_type=Path), required=True, help="Directory for data; short path.")
@click.option("--seed", default=1, help="The first seed.")
@click.option("--states", default=20, help="How many.")
@click.option("--seconds", default=0.0,
              help="Begin no state after this time, if there were so many as --at-least says; 0 = no limit.")
@click.option("--at-least", default=24, help="How many states whatever time it takes.")
@click.option("--canaries", metavar="NAMES", default="all", callback=_canaries,
              help=f"all, none, or which ones with commas between them: {', '.join(CANARIES)}.")
@click.option("--kinds", metavar="NAMES", default="", callback=_kinds, show_default="all",
              help=f"Draw changes from these only: {', '.join(MUTATIONS)}.")
@click.option("--encrypted", is_flag=True,
              help="All states have encrypted tablespaces, and are not shown to stock; every fifth without.")
@click.option("--jobs", default=8, help="States at a time.")
@click.option("--filesystem", type=click.Choice(KINDS), help="Make the states on such a file system, in a file; as root.")
@click.option("--keep", is_flag=True, help="Keep the data of states with a difference.")
@click.option("--json", type=click.Path(path_type=Path), help="Where to write the report.")
@click.option("--lines", type=click.Path(path_type=Path), help="Where to write one line of JSON a state.")
def main(**options: Any) -> None:
    """Run random states, by seed."""
    arguments = SimpleNamespace(**options)
    work = arguments.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    begin = time.monotonic()
    report = Report(needs_stock=not arguments.encrypted)
    if arguments.json:
        arguments.json.unlink(missing_ok=True)
    if not has_strace():
        print("failed: kills at a system call need strace, and root")
        sys.exit(1)
    problems: list[str] = []
    settings = None
    try:
        compile_library(work / "canary.so")
        mysqld = arguments.build.resolve() / "runtime_output_directory" / "mysqld"
        check_functions([str(mysqld)], arguments.canaries, work / "canary.so", work / "mark")
        settings = Settings(arguments.build.resolve(), arguments.stock, work)
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
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main(prog_name="differential")
