# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""./redstart test: the levels and their sum."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as xml
from collections.abc import Callable, Sequence
from pathlib import Path
from shutil import rmtree

from bench.errors import Unavailable
from bench.layout import default_layout
from bench.roots import machine_mirror, remove_root, stock_root
from redstart_cli import mtr, proof
from redstart_cli.apt import GoneError
from redstart_cli.build import SERVER_TARGETS, build, lock_path
from redstart_cli.console import RedstartError, duration, error, say, warn
from redstart_cli.disk import TEST_BYTES, Need, check_space
from redstart_cli.layout import Layout
from redstart_cli.locks import exclusive
from redstart_cli.package import package
from redstart_cli.process import module_environment, run_captured, run_logged, run_module, tied
from redstart_cli.result import Level
from redstart_cli.upstream import Upstream, pristine, read_pins

RELEASE = "release"
# One GoogleTest program; they take seconds.
UNIT_TIMEOUT_SEC = 600
_PYTEST_FOLDERS = ("cmake/overlay/tests", "extra/redstart_cli/tests", "extra/bench/tests", "extra/differential/tests")
_BENCH_FOLDER = "extra/bench/e2e"
_DROPIN_FOLDER = "extra/dropin"
_REPLICATION_TARGETS = ("mysql", "mysqldump", "clone", "semisync_source", "semisync_replica", "group_replication")
_PYTEST_NO_TESTS = 5
SWAP_TURNS = 24
DIFFERENTIAL_STATES = 20
# No state is begun after this time.
DIFFERENTIAL_SEC = 60


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
        """pytest of the engine, of this package and of the bench; copied-lines and golden checks."""
        level = Level("overlay")
        upstreams = self._upstreams(level)
        trees = {"REDSTART_UPSTREAM_" + found.version.replace(".", "_"): str(found.tree) for found in upstreams}
        for folder in _PYTEST_FOLDERS:
            if (self._layout.repo / folder).is_dir():
                level.add(self._pytest(folder, trees))
        if self._arguments:
            return level
        for upstream in upstreams:
            if not upstream.is_checkout:
                level.add(self._overlay_check("golden", upstream))
        level.add(self._overlay_check("copied", upstreams[0]))
        level.add(self._overlay_check("sizes", upstreams[0]))
        return level

    def _upstreams(self, level: Level) -> list[Upstream]:
        """The tree that is worked on, then the other pinned releases as far as the archive has them."""
        with exclusive(lock_path(self._layout), str(self._layout.build)):
            found = [pristine(self._layout, self._version, self._checkout)]
            _, releases = read_pins(self._layout.repo)
            for version in releases:
                if version == found[0].version:
                    continue
                try:
                    found.append(pristine(self._layout, version))
                except GoneError as problem:
                    warn(f"overlay golden {version} is skipped: {problem}")
                    level.skipped += 1
        return found

    def _pytest(self, folder: str, environment: dict[str, str]) -> Level:
        level = Level(f"pytest {folder}")
        self._output.mkdir(parents=True, exist_ok=True)
        report = self._output / (folder.replace("/", "-") + ".xml")
        report.unlink(missing_ok=True)
        say(level.name)
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", folder]
        code = subprocess.run(
            tied([*command, *self._arguments]),
            cwd=self._layout.repo,
            env=module_environment(self._layout.repo) | environment,
            stdin=subprocess.DEVNULL,
        ).returncode
        if code == _PYTEST_NO_TESTS and self._arguments:
            return level
        if report.is_file():
            count_pytest(report, level)
        if code != 0 and level.failed == 0:
            level.problem = f"pytest ended with {code}"
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
            level.failed = 1
            level.failures = [name]
        return level

    # unit

    def unit(self) -> Level:
        """The GoogleTest programs of this repository; then each patch by itself (proof.py)."""
        level = Level("unit")
        stems = unit_programs(self._layout.repo)
        if not stems:
            return level
        self._build([*SERVER_TARGETS, *stems])
        for stem in stems:
            level.add(self._run_unit(stem, self._layout.binary(self._preset, stem)))
        if not self._arguments and self._preset == RELEASE:
            say("each patch on what stands before it")
            with exclusive(lock_path(self._layout), str(self._layout.build)):
                upstream = pristine(self._layout, self._version, self._checkout)
                level.add(proof.prove(self._layout, self._preset, upstream, self._run_unit))
        return level

    def _run_unit(self, stem: str, program: Path) -> Level:
        level = Level(stem)
        report = self._output / f"{stem}.json"
        report.parent.mkdir(parents=True, exist_ok=True)
        report.unlink(missing_ok=True)
        command = [str(program), f"--gtest_output=json:{report}", "--gtest_brief=1", *self._arguments]
        done = run_captured(command, self._output, UNIT_TIMEOUT_SEC)
        if done is None:
            level.problem = f"{stem} did not end within {UNIT_TIMEOUT_SEC} s"
            return level
        code, output = done
        if report.is_file():
            count_gtest(report, level)
        if code != 0:
            say("\n".join(f"  | {line}" for line in output.splitlines()[-mtr.FAILURE_LINES :]))
            if level.failed == 0:
                level.problem = f"{stem} ended with {code}"
        return level

    # bench

    def bench(self) -> Level:
        """A small experiment of the bench with the built server, from the command to the report."""
        self._build(SERVER_TARGETS)
        server = self._layout.binary(self._preset, "mysqld")
        return self._pytest(_BENCH_FOLDER, {"REDSTART_BENCH_MYSQLD": str(server)})

    # mtr, regression

    def mtr(self) -> Level:
        """The MTR tests of this repository, or what the arguments say."""
        tests = mtr.own_tests(self._layout.repo)
        if not tests and not self._arguments:
            return Level("mtr")
        return self._run_mtr("mtr", [] if self._arguments else tests, self._arguments)

    def regression(self) -> Level:
        """Upstream tests of mysql-test/regression.list, each section with its options."""
        level = Level("regression")
        path = self._layout.repo / "mysql-test/regression.list"
        if not path.is_file():
            level.problem = f"{path} is missing"
            return level
        for section in mtr.parse_regression_list(path.read_text(encoding="utf-8")):
            for test, reason in section.skips.items():
                say(f"  skipped: {test}: {reason}")
            level.skipped += len(section.skips)
            tests = [test for test in section.tests if test not in section.skips]
            if tests:
                options = [f"--mysqld={option}" for option in section.options]
                level.add(self._run_mtr(f"regression-{section.name}", tests, [*options, *self._arguments]))
        return level

    def _run_mtr(self, name: str, tests: Sequence[str], options: Sequence[str]) -> Level:
        mtr.unprivileged()
        check_space([Need(self._layout.build, TEST_BYTES, "test data")])
        self._build([*SERVER_TARGETS, *mtr.TARGETS])
        level = mtr.run(self._layout, self._preset, name, tests, options)
        say(f"  {name}: {level.counts()}")
        return level

    # config, replication, image

    def config(self) -> Level:
        """Help, checks, errors and persisting of each variable; the examples of docs/examples."""
        self._build([*SERVER_TARGETS, "mysql"])
        return self._pytest(f"{_DROPIN_FOLDER}/test_config.py", self._dropin_environment())

    def drivers(self) -> Level:
        """Drivers for Python, Node and Go from their registries."""
        self._build([*SERVER_TARGETS, "mysql"])
        return self._pytest(f"{_DROPIN_FOLDER}/test_clients.py", self._dropin_environment())

    def replication(self) -> Level:
        """Replication, clone and dumps between stock and this build, in both directions."""
        self._build([*SERVER_TARGETS, *_REPLICATION_TARGETS])
        bench = default_layout()
        bench.make()
        plugins = self._layout.preset(self._preset) / "plugin_output_directory"
        environment = {"REDSTART_STOCK": str(stock_root(bench)), "REDSTART_PLUGINS": str(plugins)}
        return self._pytest(f"{_DROPIN_FOLDER}/test_replication.py", self._dropin_environment() | environment)

    def image(self) -> Level:
        """The entry point and the health check of the image, with the built server."""
        self._build([*SERVER_TARGETS, "mysql", "mysqladmin", "mysql_tzinfo_to_sql"])
        # The path of a socket must be short.
        work = Path(tempfile.mkdtemp(prefix="redstart-image."))
        programs = self._layout.binary(self._preset, "mysqld").parent
        environment = {**os.environ, "PATH": f"{programs}:{os.environ.get('PATH', '')}"}
        try:
            script = self._layout.repo / "extra/entrypoint_test.sh"
            return self._program("entry point", [script, self._layout.repo / "Docker", work], environment)
        finally:
            rmtree(work)

    def _dropin_environment(self) -> dict[str, str]:
        server = self._layout.binary(self._preset, "mysqld")
        clients = {"REDSTART_MYSQL": str(server.parent / "mysql"), "REDSTART_CLIENTS": str(server.parent)}
        return {"REDSTART_MYSQLD": str(server)} | clients

    # packages

    def packages(self) -> Level:
        """Debian packages: lintian, and a swap with stock and back in a root made by debootstrap."""
        if os.geteuid() != 0:
            raise RedstartError("the test of the packages needs root (debootstrap, chroot)")
        level = Level("packages")
        folder, root = self._layout.build / "package/tested", self._layout.build / "package/root"
        with exclusive(self._layout.build / "package.lock", "the packages of this clone"):
            made = package(self._layout, folder, self._version, self._checkout, 1)
            level.add(self._program("lintian", ["lintian", "--fail-on", "error,warning", *_without_symbols(made)]))
            mirror = machine_mirror()
            try:
                if root.exists():
                    remove_root(root)
                self._output.mkdir(parents=True, exist_ok=True)
                log = self._output / "debootstrap.log"
                say(f"making a root of sid (log: {log})")
                if run_logged(["debootstrap", "--variant=minbase", "sid", root, mirror], log, lambda line: None) != 0:
                    raise RedstartError(f"debootstrap failed; see {log}")
                script = self._layout.repo / "extra/package_test.sh"
                level.add(self._program("packages in a root", [script, folder, root, mirror]))
            finally:
                if root.exists():
                    remove_root(root)
        return level

    # dockerfile

    def dockerfile(self) -> Level:
        """The steps of the Dockerfile in a root, and what its image starts; argument `all`: also the stage
        that compiles, which is otherwise `./redstart package` here."""
        if os.geteuid() != 0:
            raise RedstartError("the test of the Dockerfile needs root (debootstrap, chroot)")
        if self._arguments not in ([], ["all"]):
            raise RedstartError(f"the test of the Dockerfile takes `all` or nothing, not {' '.join(self._arguments)}")
        work = self._layout.build / "package/image"
        repo = self._layout.repo
        with exclusive(self._layout.build / "package.lock", "the packages of this clone"):
            arguments: list[str | Path] = [repo / "Docker/Dockerfile", repo, work, machine_mirror()]
            if not self._arguments:
                folder = self._layout.build / "package/tested"
                package(self._layout, folder, self._version, self._checkout, 1)
                arguments += ["--packages", folder]
            try:
                if work.exists():
                    remove_root(work)
                command = [sys.executable, "-m", "dropin.dockerfile", *arguments]
                return self._program("Dockerfile", command, module_environment(repo))
            finally:
                if work.exists():
                    remove_root(work)

    # swap

    def swap(self) -> Level:
        """Stock and this build in turns on one data directory (extra/swap_test.sh); argument: turns."""
        if os.geteuid() != 0:
            raise RedstartError("the swap test needs root (debootstrap, chroot)")
        turns = self._arguments[0] if self._arguments else str(SWAP_TURNS)
        if not turns.isdigit() or not 2 <= int(turns) <= 1000:
            raise RedstartError(f"the number of turns must be 2 to 1000, not {turns!r}")
        self._build(SERVER_TARGETS)
        bench = default_layout()
        bench.make()
        root = stock_root(bench)
        work = self._output / "swap"
        if work.exists():
            rmtree(work)
        script = self._layout.repo / "extra/swap_test.sh"
        mysqld = self._layout.binary(self._preset, "mysqld")
        level = self._program(
            f"swap, {turns} turns", [script, mysqld, self._layout.preset(self._preset) / "share", root, work, turns]
        )
        if not level.failed:
            rmtree(work)
        return level

    # differential

    def differential(self) -> Level:
        """Map on, map off and stock on the same random data directories (extra/differential); arguments: its options."""
        self._build(SERVER_TARGETS)
        command: list[str | Path] = [
            "--build", self._layout.preset(self._preset), "--work", self._output / "differential"
        ]
        bench = default_layout()
        bench.make()
        try:
            command += ["--stock", stock_root(bench)]
        except Unavailable as reason:
            warn(f"the stock server is left out: {reason}")
        arguments = self._arguments or ["--states", str(DIFFERENTIAL_STATES), "--seconds", str(DIFFERENTIAL_SEC)]
        say("differential")
        code = run_module(self._layout.repo, "differential", *command, *arguments)
        return Level("differential", passed=1) if code == 0 else Level("differential", failed=1, failures=["see above"])

    def _program(
        self, name: str, command: Sequence[str | Path], environment: dict[str, str] | None = None
    ) -> Level:
        """One program as one test."""
        say(name)
        code = subprocess.run(tied(command), env=environment, stdin=subprocess.DEVNULL).returncode
        return Level(name, passed=1) if code == 0 else Level(name, failed=1, failures=[name])


def unit_programs(repo: Path) -> list[str]:
    """Stems of the GoogleTest sources, which are also the names of targets and programs."""
    return sorted(path.stem for path in (repo / "unittest/gunit/innodb").glob("*-t.cc"))


def count_pytest(report: Path, level: Level) -> None:
    """Add the outcome of a JUnit file."""
    for case in xml.parse(report).getroot().iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            level.failed += 1
            level.failures.append(f"{case.get('classname')}.{case.get('name')}")
        elif case.find("skipped") is not None:
            level.skipped += 1
        else:
            level.passed += 1


def count_gtest(report: Path, level: Level) -> None:
    """Add the outcome of a GoogleTest JSON file; disabled tests count as skipped."""
    data = json.loads(report.read_text(encoding="utf-8"))
    for suite in data["testsuites"]:
        for case in suite["testsuite"]:
            if case.get("failures"):
                level.failed += 1
                level.failures.append(f"{level.name} {suite['name']}.{case['name']}")
            elif case.get("result") == "COMPLETED":
                level.passed += 1
            else:
                level.skipped += 1


def _without_symbols(packages: Sequence[Path]) -> list[Path]:
    """Packages of symbols hold no line numbers (-g0), which lintian warns of for every file."""
    return [path for path in packages if "-dbgsym_" not in path.name]


LEVELS: dict[str, Callable[[Tester], Level]] = {
    "overlay": Tester.overlay,
    "unit": Tester.unit,
    "bench": Tester.bench,
    "mtr": Tester.mtr,
    "regression": Tester.regression,
    "config": Tester.config,
    "image": Tester.image,
    "replication": Tester.replication,
    "drivers": Tester.drivers,
    "packages": Tester.packages,
    "dockerfile": Tester.dockerfile,
    "swap": Tester.swap,
    "differential": Tester.differential,
}
# Levels for which another preset than release makes sense.
ANY_PRESET = ("unit", "mtr", "regression")
# Need root, the network, a root of stock MySQL or minutes: only when asked for by name.
NOT_IN_ALL = ("image", "replication", "drivers", "packages", "dockerfile", "swap")


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
        for name in names:
            say(f"== {name}")
            begin = time.monotonic()
            try:
                level = LEVELS[name](tester)
            except RedstartError as problem:
                level = Level(name, problem=str(problem))
            if level.problem:
                error(f"{name}: {level.problem}")
            say(f"== {name}: {level.counts()} in {duration(time.monotonic() - begin)}")
            total.add(level)
    for failure in total.failures:
        say(f"failed: {failure}")
    say(total.counts())
    return total.failed == 0
