# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Configuring and building a preset from build/source into build/<preset>, or of MySQL as released beside it."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from redstart_cli import compdb, ninja, revision
from redstart_cli.console import Meter, RedstartError, duration, say
from redstart_cli.disk import PRESET_BYTES, Need, check_space
from redstart_cli.layout import PACKAGE, PRESETS, PRISTINE, Layout
from redstart_cli.locks import exclusive
from redstart_cli.process import Tail, run_logged, tied
from redstart_cli.source import ensure_source, space_needed
from redstart_cli.upstream import pristine

# What `up` and `sql` need, and the tools an administrator expects beside the server.
SERVER_TARGETS = (
    "mysqld",
    "mysql",
    "mysqladmin",
    "mysqldump",
    "component_keyring_file",
)

# What MTR may start, and what its servers may load.
EVERYTHING = ("every program and plugin",)

# Enough for the stack of a report, and half the time of a build with all of it.
_LINES_ONLY = [f"-DCMAKE_{language}_FLAGS_RELWITHDEBINFO=-O1 -g1 -DNDEBUG" for language in ("C", "CXX")]
# Differences between the presets; what they share stands in cmake/options.cmake.
PRESET_OPTIONS = {
    "release": ["-DCMAKE_BUILD_TYPE=Release"],
    "debug": ["-DCMAKE_BUILD_TYPE=Debug", "-DWITH_DEBUG=ON"],
    "asan": ["-DCMAKE_BUILD_TYPE=RelWithDebInfo", "-DWITH_ASAN=ON"],
    "ubsan": ["-DCMAKE_BUILD_TYPE=RelWithDebInfo", "-DWITH_UBSAN=ON", *_LINES_ONLY],
    "tsan": ["-DCMAKE_BUILD_TYPE=RelWithDebInfo", "-DWITH_TSAN=ON", *_LINES_ONLY],
    # The linker that finishes what GCC left for link time is GNU's.
    "lto": ["-DCMAKE_BUILD_TYPE=Release", "-DWITH_LTO=ON", "-DWITH_LD="],
    "package": ["-DCMAKE_BUILD_TYPE=RelWithDebInfo"],
}
# Options of a preset that take precedence over cmake/options.cmake.
PRESET_FILES = {"package": "cmake/package.cmake"}

# Memory that one compiler process may take at its peak.
_COMPILER_BYTES = 1_500_000_000
# Lines of output shown from the first failed step on.
_FAILURE_LINES = 60


def tree_name(preset: str, is_pristine: bool) -> str:
    """Name of the build tree; that of MySQL as released is `pristine`, or `pristine-debug` and so on."""
    if not is_pristine:
        return preset
    return PRISTINE if preset == "release" else f"{PRISTINE}-{preset}"


def _jobs() -> int:
    cores = len(os.sched_getaffinity(0))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(1, min(cores, memory // _COMPILER_BYTES))


def _check_build_space(layout: Layout, preset: str, tree: str, version: str | None, checkout: Path | None) -> None:
    """Everything that this build will still take, before its first step."""
    needs = space_needed(layout, version, checkout, tree != preset)
    if not (layout.preset(tree) / "configured").is_file():
        needs.append(Need(layout.build, PRESET_BYTES[preset], f"build tree {tree}"))
    check_space(needs)


def _option_files(layout: Layout, preset: str) -> list[Path]:
    """In the order of precedence."""
    names = [*([PRESET_FILES[preset]] if preset in PRESET_FILES else []), "cmake/options.cmake"]
    return [layout.repo / name for name in names]


def _link_source(layout: Layout, upstream: Path) -> Path:
    """The link by which trees of MySQL as released know their source; those of another source are removed."""
    link = layout.pristine.source
    if not (link.is_symlink() and link.resolve() == upstream.resolve()):
        if layout.pristine.repo.is_dir():
            say(f"removing {layout.pristine.repo}, which is not of {upstream.name}")
            shutil.rmtree(layout.pristine.repo)
        link.parent.mkdir(parents=True)
        link.symlink_to(os.path.relpath(upstream, link.parent))
    return link


def _configure_command(layout: Layout, preset: str, tree: str, source: Path) -> list[str]:
    is_pristine = tree != preset
    return [
        "cmake",
        "--fresh",
        "-G",
        "Ninja",
        "-S",
        str(source),
        "-B",
        str(layout.preset(tree)),
        *([f"-DREDSTART_PRISTINE={layout.pristine.repo}"] if is_pristine else []),
        *(word for path in _option_files(layout, preset) for word in ("-C", str(path))),
        *PRESET_OPTIONS[preset],
        # Of what is shipped only: each new commit costs a new mysqld.
        *(revision.options(layout.repo) if tree == PACKAGE else []),
    ]


def _configure(layout: Layout, preset: str, command: list[str], tree: str, log: Path) -> None:
    """Run cmake if its options changed or it never finished; ninja looks for changes of the files that it reads."""
    options = b"".join(path.read_bytes() for path in _option_files(layout, preset))
    wanted = hashlib.sha256(options + "\0".join(command).encode()).hexdigest()
    stamp = layout.preset(tree) / "configured"
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted:
        command = [*_ninja(layout, tree), "build.ninja"]
    else:
        stamp.unlink(missing_ok=True)
        layout.preset(tree).mkdir(parents=True, exist_ok=True)
        say(f"configuring {tree} (log: {log})")
    tail = Tail(30)
    if run_logged(command, log, tail.add) != 0:
        raise RedstartError(f"cmake failed; its last lines:\n{tail.text()}\nThe whole log is {log}")
    stamp.write_text(wanted, encoding="utf-8")


def _ninja(layout: Layout, tree: str) -> list[str]:
    return ["ninja", "-C", str(layout.preset(tree))]


def _everything(layout: Layout, tree: str) -> list[str]:
    """Targets of a configured tree."""
    command = [*_ninja(layout, tree), "-t", "targets", "all"]
    done = subprocess.run(tied(command), capture_output=True, text=True, errors="replace")
    if done.returncode != 0 or not (found := ninja.programs(done.stdout)):
        said = done.stdout[-2000:] + done.stderr[-2000:]
        raise RedstartError(f"ninja does not say what there is in {layout.preset(tree)}: {said}")
    return found


def _compile(layout: Layout, tree: str, targets: Sequence[str], log: Path, jobs: int) -> None:
    command = [*_ninja(layout, tree), "-j", str(jobs)]
    environment = {**os.environ, "NINJA_STATUS": "[%f/%t] "}
    dry = subprocess.run(
        tied([*command, "-n", *targets]), env=environment, capture_output=True, text=True, errors="replace"
    )
    if dry.returncode != 0:
        raise RedstartError(f"ninja cannot build {' '.join(targets)}: {dry.stdout[-2000:]}{dry.stderr[-2000:]}")
    total = ninja.planned_cost(dry.stdout)
    failure: list[str] = []
    done = 0.0
    with Meter(f"building {tree}", total) as meter:

        def on_line(line: str) -> None:
            nonlocal done
            step = ninja.parse_step(line)
            if step is not None:
                done += ninja.cost(step.description)
                meter.update(done, f"step {step.number} of {step.count}")
            if (failure or line.startswith("FAILED:")) and len(failure) < _FAILURE_LINES:
                failure.append("  | " + line[:400])

        code = run_logged([*command, *targets], log, on_line, environment=environment)
        if code != 0:
            raise RedstartError("the build failed:\n" + "\n".join(failure) + f"\nThe whole log is {log}")
        if meter.elapsed_sec > 10:
            say(f"built {tree} in {duration(meter.elapsed_sec)}")


def build(
    layout: Layout,
    preset: str,
    targets: Sequence[str] = SERVER_TARGETS,
    version: str | None = None,
    checkout: Path | None = None,
    jobs: int | None = None,
    is_pristine: bool = False,
) -> str:
    """Bring build/<preset> up to date; returns the upstream version it is built from.

    A killed call leaves trees from which the next one goes on. With no targets, only configures. With `is_pristine`
    the same of MySQL without Redstart's files and edits, with the same options, in a build tree of its own.
    """
    tree = tree_name(preset, is_pristine)
    with exclusive(layout.lock, str(layout.build)) as let_readers_in:
        _check_build_space(layout, preset, tree, version, checkout)
        upstream = (pristine if is_pristine else ensure_source)(layout, version, checkout)
        let_readers_in()
        log = layout.build / f"{tree}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text("", encoding="utf-8")
        source = _link_source(layout, upstream.tree) if is_pristine else layout.source
        if tree == PACKAGE:
            revision.write_commit(layout.repo, layout.preset(tree))
        _configure(layout, preset, _configure_command(layout, preset, tree, source), tree, log)
        if tree in PRESETS:
            compdb.write(layout, tree)
        if targets:
            names = _everything(layout, tree) if tuple(targets) == EVERYTHING else targets
            _compile(layout, tree, names, log, jobs or _jobs())
        return upstream.version
