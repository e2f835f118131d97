# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""./redstart test: the levels and their sum."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import xml.etree.ElementTree as xml
from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path
from shutil import disk_usage, rmtree
from typing import Any

from bench.layout import default_layout
from redstart_cli import arm64, lint, mtr, nightly, parity, proof, reproducible, sanitizers, skips, suites, tidy, upgrade
from redstart_cli.build import EVERYTHING, SERVER_TARGETS, build
from redstart_cli.console import RedstartError, duration, error, say, size
from redstart_cli.disk import TEST_BYTES, Need, check_space
from redstart_cli.layout import Layout
from redstart_cli.lean import lean_packages
from redstart_cli.locks import exclusive
from redstart_cli.mounts import can_mount
from redstart_cli.package import package, work_folder
from redstart_cli.process import module_environment, run_captured, run_module, tied
from redstart_cli.result import Level, Skip
from redstart_cli.roots import machine_mirror, remove_root, stock_root
from redstart_cli.source import reading_source
from redstart_cli.tools import Unavailable, need_root
from redstart_cli.upstream import NoOriginError, Upstream, pristine, read_pins, reading
from torture import stack

RELEASE = "release"
# One GoogleTest program; they take seconds.
UNIT_TIMEOUT_SEC = 600
# Tests of the tools that need no server. Each must be there; those of other tools are found.
_PYTEST_FOLDERS = (
    "cmake/overlay/tests",
    "extra/redstart_cli/tests",
    "extra/bench/tests",
    "extra/binlog_check/tests",
    "extra/differential/tests",
    "extra/dropin/tests",
    "extra/torture/tests",
)
_BENCH_FOLDER = "extra/bench/e2e"
_DROPIN_FOLDER = "extra/dropin"
# The developers' build has none.
_WITHOUT_X_PLUGIN = f"--deselect={_DROPIN_FOLDER}/test_installation.py::test_the_x_protocol_is_served"
_TORTURE_TARGETS = ("innochecksum", "component_keyring_file")
_REPLICATION_TARGETS = ("mysql", "mysqldump", "clone", "semisync_source", "semisync_replica", "group_replication")
_PYTEST_NO_TESTS = 5
SWAP_TURNS = 24
# Each collects all tests of the tools.
MAX_WORKERS = 8
# No state is begun after this time; the canaries come after it. Seeds begin with the date.
DIFFERENTIAL_STATES = 1000
DIFFERENTIAL_SEC = 150
# No case is begun after this time; the canaries come after it.
BINLOG_SEC = 45
TORTURE_MINUTES = 2


class Tester:
    """Runs levels against one clone."""

    def __init__(
        self,
        layout: Layout,
        version: str | None,
        checkout: Path | None,
        arguments: Sequence[str],
        preset: str = RELEASE,
    ) -> None:
        self._layout = layout
        self._version = version
        self._checkout = checkout
        self._arguments = list(arguments)
        self._preset = preset
        self._output = layout.build / "test"

    def _build(self, targets: Sequence[str]) -> None:
        build(self._layout, self._preset, list(dict.fromkeys(targets)), self._version, self._checkout)

    # overlay

    def overlay(self) -> Level:
        """pytest of the engine and of all tools; what lint.py checks; copied-lines, golden and size checks."""
        level = Level("overlay")
        upstreams = self._upstreams(level)
        trees = {"REDSTART_UPSTREAM_" + found.version.replace(".", "_"): str(found.tree) for found in upstreams}
        # A file's tests stay together and in order. One that ends its worker is run again in the next one.
        workers = min(len(os.sched_getaffinity(0)), MAX_WORKERS)
        spread = [] if self._arguments else [f"--numprocesses={workers}", "--dist=loadfile", "--max-worker-restart=1"]
        level.add(self._pytest(trees, *pytest_folders(self._layout.repo), options=spread))
        if self._arguments:
            return level
        level.add(lint.run(self._layout.repo, upstreams[0].tree))
        for upstream in upstreams:
            if upstream.is_checkout:
                reason = "a tree given by --source is not compared with the golden records"
                level.skips.append(Skip(f"overlay golden {upstream.version}", reason, is_listed=True))
            else:
                level.add(self._overlay_check("golden", upstream))
        level.add(self._overlay_check("copied", upstreams[0]))
        level.add(self._overlay_check("sizes", upstreams[0]))
        return level

    def _upstreams(self, level: Level) -> list[Upstream]:
        """The tree that is worked on, then the other pinned releases as far as they can be had."""
        with reading(self._layout, self._version, self._checkout) as first:
            found = [first]
        _, releases = read_pins(self._layout.repo)
        for version in releases:
            if version != first.version:
                try:
                    with reading(self._layout, version) as other:
                        found.append(other)
                except NoOriginError as problem:
                    level.skips.append(Skip(f"overlay golden {version}", str(problem)))
        return found

    def _pytest(
        self,
        environment: dict[str, str],
        *targets: str,
        arguments: Sequence[str] | None = None,
        options: Sequence[str] = (),
    ) -> Level:
        """One call of pytest; each target, a folder or a file, has to have tests. Its arguments: the level's, or other ones."""
        arguments = self._arguments if arguments is None else arguments
        level = Level(f"pytest {' '.join(targets)}")
        self._output.mkdir(parents=True, exist_ok=True)
        report = self._output / (targets[0].replace("/", "-") + ".xml")
        report.unlink(missing_ok=True)
        say(level.name)
        # What one target cannot import keeps none of the others from being run.
        usual = ["-q", "-p", "no:cacheprovider", "--continue-on-collection-errors", f"--junitxml={report}"]
        command = [sys.executable, "-m", "pytest", *usual, *options, *targets]
        code = subprocess.run(
            tied([*command, *arguments]),
            cwd=self._layout.repo,
            env=module_environment(self._layout.repo) | environment,
            stdin=subprocess.DEVNULL,
        ).returncode
        if code == _PYTEST_NO_TESTS and arguments:
            return level
        names = count_junit(report, level) if report.is_file() else []
        if level.failed == 0 and code != 0:
            level.problem = f"pytest ended with {code} and reported no failed test"
        for target in targets:
            module = target.removesuffix(".py").replace("/", ".")
            if not level.problem and not arguments and not any(name.startswith(f"{module}.") for name in names):
                level.fail(f"pytest found no test in {target}")
        return level

    def _overlay_check(self, check: str, upstream: Upstream) -> Level:
        name = f"overlay {check} {upstream.version}"
        level = Level(name)
        say(name)
        arguments: list[str | Path] = ["overlay", check, "--repo", self._layout.repo, "--upstream", upstream.tree]
        if check == "golden":
            arguments += ["--version", upstream.version]
        if run_module(self._layout.repo, *arguments) == 0:
            level.passed = 1
        else:
            level.fail(name)
        return level

    # unit

    def unit(self) -> Level:
        """The GoogleTest programs of this repository; then each patch by itself (proof.py)."""
        level = Level("unit")
        stems = unit_programs(self._layout.repo)
        self._build([*SERVER_TARGETS, *stems])
        for stem in stems:
            level.add(self._run_unit(stem, self._layout.binary(self._preset, stem)))
        if not self._arguments and self._preset == RELEASE:
            say("each patch on what stands before it")
            with exclusive(self._layout.lock, str(self._layout.build)):
                upstream = pristine(self._layout, self._version, self._checkout)
                level.add(proof.prove(self._layout, self._preset, upstream, self._run_unit))
        return level

    def _run_unit(self, stem: str, program: Path) -> Level:
        level = Level(stem)
        report = self._output / f"{stem}.xml"
        report.parent.mkdir(parents=True, exist_ok=True)
        report.unlink(missing_ok=True)
        # For the superuser every file is readable.
        options = [f"--gtest_output=xml:{report}", "--gtest_brief=1", *self._arguments]
        command: list[str | Path] = [*mtr.unprivileged(), program, *options]
        done = run_captured(command, self._output, UNIT_TIMEOUT_SEC)
        if done is None:
            level.problem = f"{stem} did not end within {UNIT_TIMEOUT_SEC} s"
            return level
        code, output = done
        if report.is_file():
            count_junit(report, level, f"{stem} ")
        if code != 0:
            say("\n".join(f"  | {line}" for line in output.splitlines()[-mtr.FAILURE_LINES :]))
            if level.failed == 0:
                level.problem = f"{stem} ended with {code}"
        elif level.passed + level.failed + level.skipped == 0 and not self._arguments:
            level.problem = f"{stem} reported no test"
        return level

    # bench

    def bench(self) -> Level:
        """A small experiment of the bench with the built server, from the command to the report."""
        self._build(SERVER_TARGETS)
        server = self._layout.binary(self._preset, "mysqld")
        return self._pytest({"REDSTART_BENCH_MYSQLD": str(server)}, _BENCH_FOLDER)

    # mtr, regression

    def mtr(self) -> Level:
        """The MTR tests of this repository, or what the arguments say."""
        tests = mtr.own_tests(self._layout.repo)
        if not tests:
            return Level("mtr", problem="there are no MTR tests in mysql-test")
        return self._run_mtr("mtr", [] if self._arguments else tests, self._arguments)

    def regression(self) -> Level:
        """Upstream tests of mysql-test/regression.list, each section with its options."""
        level = Level("regression")
        path = self._layout.repo / "mysql-test/regression.list"
        if not path.is_file():
            level.problem = f"{path} is missing"
            return level
        for section in mtr.parse_regression_list(path.read_text(encoding="utf-8")):
            level.skips += [
                Skip(f"{section.name}/{test}", reason, is_listed=True) for test, reason in section.skips.items()
            ]
            tests = [test for test in section.tests if test not in section.skips]
            if not tests:
                level.fail(f"section [{section.name}] of regression.list has no test to run")
                continue
            # MySQL's tests are made for that, and wait much of their time: for disks, and for servers to start and stop.
            options = [f"--parallel={len(os.sched_getaffinity(0)) + 1}", *(f"--mysqld={option}" for option in section.options)]
            found = self._run_mtr(f"regression-{section.name}", tests, [*options, *self._arguments])
            if found.problem:
                say(found.problem)
            found.skips = [Skip(f"{section.name}/{skip.test}", skip.reason) for skip in found.skips]
            level.add(found)
            # MTR itself complains of the others.
            for test in section.skips:
                if not mtr.exists(self._layout, test):
                    level.fail(f"{test} (skipped in regression.list, but there is no such test)")
        return level

    def suites(self) -> Level:
        """MySQL's suites whole, and whose their failures and skips are, by a build of MySQL as released; arguments: suites and
        options of MTR."""
        self._prepare_mtr(EVERYTHING)

        def build_pristine() -> None:
            build(self._layout, self._preset, EVERYTHING, self._version, self._checkout, is_pristine=True)

        return suites.run(self._layout, self._preset, self._arguments, build_pristine)

    def _prepare_mtr(self, targets: Sequence[str]) -> None:
        mtr.unprivileged()
        check_space([Need(self._layout.build, TEST_BYTES, "test data")])
        self._build(targets)

    def _run_mtr(self, name: str, tests: Sequence[str], options: Sequence[str]) -> Level:
        self._prepare_mtr([*SERVER_TARGETS, *mtr.TARGETS])
        level = mtr.run(self._layout, self._preset, name, tests, options)
        say(f"  {name}: {level.counts()}")
        return level

    # config, replication, image

    def config(self) -> Level:
        """Help, checks, errors and persisting of each variable; the examples of docs/examples."""
        self._build([*SERVER_TARGETS, "mysql"])
        return self._pytest(self._dropin_environment(), f"{_DROPIN_FOLDER}/test_config.py")

    def drivers(self) -> Level:
        """Drivers for Python, Node and Go from their registries."""
        self._build([*SERVER_TARGETS, "mysql"])
        return self._pytest(self._dropin_environment(), f"{_DROPIN_FOLDER}/test_clients.py")

    def replication(self) -> Level:
        """Replication, clone and dumps between stock and this build, in both directions."""
        self._build([*SERVER_TARGETS, *_REPLICATION_TARGETS])
        plugins = self._layout.preset(self._preset) / "plugin_output_directory"
        environment = {"REDSTART_STOCK": str(self._stock_root()), "REDSTART_PLUGINS": str(plugins)}
        return self._pytest(self._dropin_environment() | environment, f"{_DROPIN_FOLDER}/test_replication.py")

    def image(self) -> Level:
        """The entry point and the health check of the image, with the built server; as root also a start as root, and one as
        Docker/kubernetes.yaml has it."""
        self._build([*SERVER_TARGETS, "mysql", "mysqladmin", "mysql_tzinfo_to_sql"])
        targets = [f"{_DROPIN_FOLDER}/test_entrypoint.py"]
        if os.geteuid() == 0:
            targets += [f"{_DROPIN_FOLDER}/test_entrypoint_root.py", f"{_DROPIN_FOLDER}/test_pod.py"]
        level = self._pytest(self._dropin_environment(), *targets)
        if len(targets) == 1:
            level.skips.append(Skip("entry point as root", "needs root"))
        return level

    def _dropin_environment(self) -> dict[str, str]:
        server = self._layout.binary(self._preset, "mysqld")
        clients = {"REDSTART_MYSQL": str(server.parent / "mysql"), "REDSTART_CLIENTS": str(server.parent)}
        return {"REDSTART_MYSQLD": str(server)} | clients

    # packages

    def packages(self) -> Level:
        """Debian packages: lintian, and a swap with stock and back in roots made by debootstrap; argument: a folder of
        packages instead of new ones."""
        need_root("the test of the packages")
        level = Level("packages")
        with exclusive(self._layout.build / "package.lock", "the packages of this clone"):
            made = self._packages()
            level.add(self._program("lintian", ["lintian", "--fail-on", "error,warning", *made]))
            level.add(self._in_roots(made[0].parent, "test_mysql_layout.py", "test_installation.py", "test_packages.py"))
        return level

    def installation(self) -> Level:
        """Packages with the developers' build in them are made and, as root, installed on a machine without a database."""
        level = Level("installation")
        folder = work_folder(self._layout) / "lean/made"
        with exclusive(self._layout.build / "package.lock", "the packages of this clone"):
            lean_packages(self._layout, folder, self._version, self._checkout)
            level.passed = 1
            if os.geteuid() == 0:
                level.add(self._in_roots(folder, "test_installation.py", options=[_WITHOUT_X_PLUGIN]))
            else:
                level.skips.append(Skip("a new installation in a root", "needs root"))
        return level

    def _packages(self) -> list[Path]:
        """New packages, or those of the folder that was given."""
        if not self._arguments:
            return package(self._layout, work_folder(self._layout) / "tested", self._version, self._checkout)
        made = sorted(Path(self._arguments[0]).absolute().glob("redstart-*.deb"))
        if len(self._arguments) > 1 or not made:
            raise RedstartError("this test takes one folder with packages, or nothing")
        return made

    def _in_roots(self, folder: Path, *names: str, options: Sequence[str] = ()) -> Level:
        """Files of tests of packages, in roots made by debootstrap; each test goes on where the one before has ended."""
        work = work_folder(self._layout) / "roots"
        environment = {"REDSTART_PACKAGES": str(folder), "REDSTART_MIRROR": machine_mirror(), "REDSTART_WORK": str(work)}
        level = Level("packages in roots")
        _remove_roots([work])
        try:
            for name in names:
                target = f"{_DROPIN_FOLDER}/{name}"
                level.add(self._pytest(environment, target, arguments=(), options=["--exitfirst", *options]))
        finally:
            _remove_roots([work])
        return level

    # stock

    def stock(self) -> Level:
        """The packages against Debian's MySQL: files, hardening, options, plugins, variables; argument: a folder of
        packages instead of new ones."""
        need_root("the comparison with stock")
        with exclusive(self._layout.build / "package.lock", "the packages of this clone"):
            return parity.run(self._layout.repo, self._packages(), self._stock_root(), work_folder(self._layout) / "parity")

    # dockerfile

    def dockerfile(self) -> Level:
        """The steps of the Dockerfile in a root, and what its image starts; the image by buildah, and its start. Argument:
        a folder of packages instead of new ones, or `all`: the steps of the stage that compiles, too, without buildah."""
        need_root("the test of the Dockerfile")
        work = work_folder(self._layout) / "image"
        repo, mirror = self._layout.repo, machine_mirror()
        command: list[str | Path] = [sys.executable, "-m", "dropin.dockerfile", repo / "Docker/Dockerfile", repo, work, mirror]
        level = Level("dockerfile")
        with exclusive(self._layout.build / "package.lock", "the packages of this clone"):
            _remove_roots([work])
            try:
                if self._arguments == ["all"]:
                    return self._program("Dockerfile", command, module_environment(repo))
                folder = self._packages()[0].parent
                level.add(self._program("Dockerfile", [*command, "--packages", folder], module_environment(repo)))
                _remove_roots([work])
                environment = {"REDSTART_PACKAGES": str(folder), "REDSTART_MIRROR": mirror, "REDSTART_WORK": str(work)}
                level.add(self._pytest(environment, f"{_DROPIN_FOLDER}/test_buildah.py", arguments=()))
            finally:
                _remove_roots([work])
        return level

    # reproducible

    def reproducible(self) -> Level:
        """What is shipped, built again in another clone without a cache: the same bytes; arguments: files of
        build/package instead of all."""
        options = ["--upstream", self._version] if self._version else []
        if self._checkout:
            options += ["--source", str(self._checkout.absolute())]
        with exclusive(self._layout.build / "package.lock", "the packages of this clone"):
            return reproducible.run(self._layout, self._arguments, options, self._version, self._checkout)

    # upgrade

    def upgrade(self) -> Level:
        """A patch release of MySQL that is made up: each edit lands in it, and all of ours compiles."""
        self._build(SERVER_TARGETS)
        with exclusive(self._layout.lock, str(self._layout.build)):
            upstream = pristine(self._layout, self._version, self._checkout)
            return upgrade.run(self._layout, self._preset, upstream)

    # swap

    def swap(self) -> Level:
        """Stock and this build in turns on one data directory; argument: turns."""
        need_root("the swap test")
        turns = self._arguments[0] if self._arguments else str(SWAP_TURNS)
        if not turns.isdigit() or not 2 <= int(turns) <= 1000:
            raise RedstartError(f"the number of turns must be 2 to 1000, not {turns!r}")
        self._build(SERVER_TARGETS)
        work = self._output / "swap"
        if work.exists():
            rmtree(work)
        environment = {"REDSTART_STOCK": str(self._stock_root()), "REDSTART_WORK": str(work), "REDSTART_TURNS": turns}
        level = self._pytest(
            self._dropin_environment() | environment, f"{_DROPIN_FOLDER}/test_swap.py", arguments=(), options=["--exitfirst"]
        )
        if not level.failed and not level.problem:
            rmtree(work)
        return level

    def _stock_root(self) -> Path:
        """Where the stock server is, made if it is not there; RedstartError if it cannot be had."""
        bench = default_layout()
        bench.make()
        try:
            return stock_root(bench.roots, bench.logs)
        except Unavailable as reason:
            raise RedstartError(f"this test needs the stock server: {reason}") from reason

    # differential

    def differential(self) -> Level:
        """Map on, map off and stock on the same random data directories (extra/differential); arguments: its options."""
        self._build(SERVER_TARGETS)
        arguments = self._arguments or ["--states", str(DIFFERENTIAL_STATES), "--seconds", str(DIFFERENTIAL_SEC)]
        code, _ = self._rig("differential", "differential", *self._rig_options("differential"), *arguments)
        level = Level("differential", passed=1) if code == 0 else Level("differential", failed=1, failures=["see above"])
        if not can_mount():
            level.skips.append(Skip("mounts", "needs root and mount namespaces"))
        return level

    # binlog

    def binlog(self) -> Level:
        """Both values of binlog_startup_scan and stock on the same binary logs (extra/binlog_check); arguments: its options."""
        self._build([*SERVER_TARGETS, "component_keyring_file"])
        arguments = self._arguments or ["--seconds", str(BINLOG_SEC)]
        code, report = self._rig("binlog", "binlog_check", *self._rig_options("binlog"), *arguments)
        if code != 0:
            return Level("binlog", failed=1, failures=["see above"])
        return Level("binlog", passed=sum(_read(report).get("cases", {}).values()))

    # torture

    def torture(self) -> Level:
        """Kills, power cuts and servers that must be caught (extra/torture); arguments: its options."""
        self._build([*SERVER_TARGETS, *_TORTURE_TARGETS])
        arguments = self._arguments or ["--minutes", str(TORTURE_MINUTES), "--seed", str(nightly.today())]
        mysqld = self._layout.binary(self._preset, "mysqld")
        level = Level("torture")
        if not self._arguments and not stack.missing_programs() and (lacks := stack.missing_devices()):
            arguments += ["--kinds", "kill,redo"]
            level.skips.append(Skip("power", f"no power cuts without {'; '.join(lacks)}"))
        code, report = self._rig("torture", "redstart_cli", "torture", "--mysqld", mysqld, *arguments)
        if code != 0:
            level.problem = f"it ended with {code}; its report is {report}"
            return level
        level.passed = _read(report).get("cycles", 0)
        if not level.passed:
            level.problem = "it reported no cycle"
        return level

    # fuzz

    def fuzz(self) -> Level:
        """Bytes that nobody has written, for what reads files (extra/fuzz); arguments: its options."""
        self._build(SERVER_TARGETS)
        code, report = self._rig("fuzz", "redstart_cli", "fuzz", *self._arguments)
        level = Level("fuzz")
        if not report.is_file():
            level.problem = f"it ended with {code} and no report"
            return level
        for name, target in _read(report)["targets"].items():
            outcomes = {name: not target["failed"] and target["runs"] >= target["wanted"] > 0}
            outcomes |= {f"{name}, planted: {fault}": found for fault, found in target["canaries"].items()}
            for outcome, is_good in outcomes.items():
                if is_good:
                    level.passed += 1
                else:
                    level.fail(outcome)
        if code != 0 and not level.failed:
            level.problem = f"it ended with {code}; its report is {report}"
        return level

    # tidy

    def tidy(self) -> Level:
        """clang-tidy over our C++ (.clang-tidy), which needs the headers that a build makes; arguments: files or folders."""
        self._build([*SERVER_TARGETS, *unit_programs(self._layout.repo)])
        paths = [Path(argument) for argument in self._arguments]
        return tidy.run(self._layout.repo, self._layout.preset(self._preset), paths)

    # arm64

    def arm64(self) -> Level:
        """Our C++ as a compiler for arm64 reads it, with the headers of a build; arguments: files or folders."""
        self._build([*SERVER_TARGETS, *unit_programs(self._layout.repo)])
        return arm64.run(self._layout, self._preset, [Path(argument) for argument in self._arguments])

    def _rig_options(self, name: str) -> list[str | Path]:
        """What is compared, where, and the seed of the day."""
        compared: list[str | Path] = ["--build", self._layout.preset(self._preset), "--stock", self._stock_root()]
        return [*compared, "--work", self._output / name, "--seed", f"{date.today():%Y%m%d}000"]

    def _rig(self, name: str, *words: str | Path) -> tuple[int, Path]:
        """Exit status of a program of ours, and the report that it writes, if it comes to that."""
        report = self._output / f"{name}.json"
        report.parent.mkdir(parents=True, exist_ok=True)
        report.unlink(missing_ok=True)
        say(name)
        return run_module(self._layout.repo, *words, "--json", report), report

    def _program(
        self, name: str, command: Sequence[str | Path], environment: dict[str, str] | None = None
    ) -> Level:
        """One program as one test."""
        say(name)
        code = subprocess.run(tied(command), env=environment, stdin=subprocess.DEVNULL).returncode
        return Level(name, passed=1) if code == 0 else Level(name, failed=1, failures=[name])


def _read(report: Path) -> dict[str, Any]:
    """What a report says; nothing if it was not written."""
    return json.loads(report.read_text(encoding="utf-8")) if report.is_file() else {}


def _remove_roots(roots: Sequence[Path]) -> None:
    for root in roots:
        if root.exists():
            remove_root(root)


def pytest_folders(repo: Path) -> list[str]:
    """Folders of tests of the tools."""
    found = {str(path.relative_to(repo)) for path in (repo / "extra").glob("*/tests")}
    return [*_PYTEST_FOLDERS, *sorted(found - set(_PYTEST_FOLDERS))]


def unit_programs(repo: Path) -> list[str]:
    """Stems of the GoogleTest sources, which are also the names of targets and programs."""
    return sorted(path.stem for path in (repo / "unittest/gunit").rglob("*-t.cc"))


def count_junit(report: Path, level: Level, prefix: str = "") -> list[str]:
    """Add the outcome of a JUnit file of pytest or GoogleTest; returns the names of its tests."""
    names = []
    for case in xml.parse(report).getroot().iter("testcase"):
        name = f"{prefix}{case.get('classname')}.{case.get('name')}"
        names.append(name)
        if case.find("failure") is not None or case.find("error") is not None:
            level.fail(name)
        elif (skipped := case.find("skipped")) is not None:
            level.skips.append(Skip(name, skipped.get("message", "")))
        elif case.get("status") == "notrun":
            level.skips.append(Skip(name, "disabled"))
        else:
            level.passed += 1
    return names


LEVELS: dict[str, Callable[[Tester], Level]] = {
    "overlay": Tester.overlay,
    "unit": Tester.unit,
    "bench": Tester.bench,
    "mtr": Tester.mtr,
    "regression": Tester.regression,
    "suites": Tester.suites,
    "config": Tester.config,
    "image": Tester.image,
    "replication": Tester.replication,
    "drivers": Tester.drivers,
    "installation": Tester.installation,
    "packages": Tester.packages,
    "stock": Tester.stock,
    "dockerfile": Tester.dockerfile,
    "reproducible": Tester.reproducible,
    "upgrade": Tester.upgrade,
    "swap": Tester.swap,
    "differential": Tester.differential,
    "binlog": Tester.binlog,
    "torture": Tester.torture,
    "fuzz": Tester.fuzz,
    "tidy": Tester.tidy,
    "arm64": Tester.arm64,
}
# Levels for which another preset than release makes sense.
ANY_PRESET = ("unit", "mtr", "regression", "suites", "differential", "binlog", "torture")
# Levels whose tests are not ours: what is skipped stands in their report.
ANY_SKIPS = ("suites",)
# Levels that have no use for arguments.
NO_ARGUMENTS = ("image", "installation", "upgrade")
# Need root, the network, a root of stock MySQL, another compiler or minutes: only when asked for by name, and by nightly.
NOT_IN_ALL = ("suites", "replication", "drivers", "packages", "stock", "dockerfile", "reproducible", "upgrade", "swap", "fuzz",
              "tidy", "arm64")  # fmt: skip


def _run_level(tester: Tester, name: str) -> Level:
    """A level, which has a problem if it could not run."""
    try:
        return LEVELS[name](tester)
    except RedstartError as problem:
        return Level(name, problem=str(problem))


def run_levels(
    layout: Layout,
    names: Sequence[str],
    version: str | None,
    checkout: Path | None,
    arguments: Sequence[str],
    preset: str = RELEASE,
) -> bool:
    """Run levels, print each subtotal and the closing sum; True if nothing failed."""
    tester = Tester(layout, version, checkout, arguments, preset)
    total = Level("total")
    with exclusive(layout.build / "test.lock", f"the test data of {layout.build}"):
        expected = skips.read(layout.repo / skips.LIST)
        for name in names:
            say(f"== {name}")
            begin = time.monotonic()
            try:
                if preset in sanitizers.OPTIONS:
                    # What is known to be reported stands in the source, which the first level would make only then.
                    with reading_source(layout, version, checkout):
                        pass
                with sanitizers.watching(layout, preset, name) as reported:
                    level = _run_level(tester, name)
                level.add(reported)
            except RedstartError as problem:
                level = Level(name, problem=str(problem))
            level.name = name
            skips.describe(level)
            if not level.problem:
                if not arguments and name not in ANY_SKIPS:
                    skips.check(expected, level, name, preset, os.geteuid() == 0)
                if level.passed + level.failed == 0:
                    level.problem = "no test was run"
            if level.problem:
                error(f"{name}: {level.problem}")
            free = size(disk_usage(layout.build).free)
            say(f"== {name}: {level.counts()} in {duration(time.monotonic() - begin)}, {free} of disk space left")
            total.add(level)
    for failure in total.failures:
        say(f"failed: {failure}")
    say(total.counts())
    return total.failed == 0
