# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Programs of a build tree with the paths of a Debian package; client plugins that the build leaves out.

The release build knows the paths of /usr/local/mysql. A packaged server must know Debian's without
any configuration file. A few sources hold all of these paths; they are compiled once more against
changed copies of the two generated headers, and the programs are linked again with these objects in
front of the archives that hold the old ones. Nothing in the build tree changes.

A plugin of the client library is one source. It is compiled and linked by the commands of a plugin that
the build has, so that the build's configuration, which every developer shares, need not name it.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from redstart_cli.console import Meter, RedstartError
from redstart_cli.process import tied

# Values in Debian's mysql-server-core.
CONFIG_PATHS = {
    "DEFAULT_MYSQL_HOME": "/usr",
    "SHAREDIR": "/usr/share/mysql",
    "DEFAULT_BASEDIR": "/usr",
    "MYSQL_DATADIR": "/var/lib/mysql",
    "MYSQL_KEYRINGDIR": "/var/lib/mysql-keyring",
    "DEFAULT_CHARSET_HOME": "/usr",
    "PLUGINDIR": "/usr/lib/mysql/plugin",
    "DEFAULT_SYSCONFDIR": "/etc/mysql",
    "DEFAULT_SECURE_FILE_PRIV_DIR": "/var/lib/mysql-files",
}
VERSION_PATHS = {"MYSQL_UNIX_ADDR": "/var/run/mysqld/mysqld.sock"}
# The sources that use them. check_paths() finds out if upstream adds one.
SOURCES = (
    "sql/mysqld.cc",
    "sql/sys_vars.cc",
    "sql-common/client_plugin.cc",
    "libmysql/libmysql.cc",
    "mysys/charset.cc",
    "mysys/mf_path.cc",
    "mysys/my_default.cc",
    "storage/federated/ha_federated.cc",
)
# Where the server takes a source from that it and a library both compile.
_SERVER_OBJECTS = "sql/CMakeFiles/sql_main.dir/"
_OLD_PREFIX = b"/usr/local/mysql"
# Client plugins: name to folder in the source tree. The source and the list of symbols have the plugin's name.
CLIENT_PLUGINS = {"mysql_native_password": "libmysql/authentication_native_password"}
# The plugin whose commands are taken, and what a client plugin needs besides.
_MODEL = "auth_socket"
_CLIENT_LIBRARIES = tuple(f"archive_output_directory/lib{name}.a" for name in ("mysys", "mytime", "strings"))
_SYSTEM_LIBRARIES = ("-lssl", "-lcrypto", "-lz")


@dataclass(frozen=True)
class Compilation:
    """One object to compile again: its command, and the object inside the build tree it stands for."""

    source: str
    object: str
    command: list[str]


def _with_value(value: str, found: re.Match[str]) -> str:
    return f'{found[1]}"{value}"'


def set_defines(text: str, values: dict[str, str]) -> str:
    """`text` with `#define NAME "..."` changed; RedstartError unless each name is there exactly once."""
    for name, value in values.items():
        define = re.compile(rf'^(#\s*define\s+{name}\s+)"[^"\n]*"', re.MULTILINE)
        text, count = define.subn(partial(_with_value, value), text)
        if count != 1:
            raise RedstartError(
                f"the configuration defines {name} {count} times, not once: extra/redstart_cli/relocate.py "
                "must be brought up to date with this upstream version"
            )
    return text


def compilations(commands: Sequence[str], source_tree: Path) -> list[Compilation]:
    """The commands that compile one of SOURCES, one object for each source.

    `commands` are all commands that lead to one program. A source that is compiled twice is taken as
    the server's own objects have it.
    """
    found: dict[str, Compilation] = {}
    for line in commands:
        words = shlex.split(line)
        if "-c" not in words or "-o" not in words:
            continue
        path = Path(words[words.index("-c") + 1])
        if not path.is_relative_to(source_tree):
            continue
        source, target = str(path.relative_to(source_tree)), words[words.index("-o") + 1]
        if source not in SOURCES:
            continue
        if source in found and not target.startswith(_SERVER_OBJECTS):
            continue
        found[source] = Compilation(source, target, words)
    return list(found.values())


def compile_command(compilation: Compilation, include: Path, output: Path) -> list[str]:
    """The command with the changed headers first, without precompiled header, writing to `output`."""
    words, result = iter(compilation.command), []
    is_first = True
    for word in words:
        if word == "-include":
            header = next(words)
            if not header.endswith("cmake_pch.hxx"):
                result += [word, header]
        elif word in ("-Winvalid-pch", "-fpch-preprocess", "-MD"):
            continue
        elif word in ("-MT", "-MF"):
            next(words)
        elif word == "-o":
            next(words)
            result += ["-o", str(output)]
        else:
            if word.startswith("-I") and is_first:
                result.append(f"-I{include}")
                is_first = False
            result.append(word)
    if is_first:
        raise RedstartError(f"the command of {compilation.source} names no include directory: {compilation.command}")
    return result


def link_command(line: str, objects: Sequence[Path], output: Path) -> list[str]:
    """The link command with `objects` in front of everything else, writing to `output`."""
    words = shlex.split(line.removeprefix(": &&").removesuffix("&& :"))
    place = words.index("-o")
    return [*words[:place], *map(str, objects), "-o", str(output), *words[place + 2 :]]


def client_plugin_commands(model: Sequence[str], name: str, source_tree: Path, work: Path) -> list[list[str]]:
    """The commands that compile and link a client plugin; `model` are all commands that lead to _MODEL."""
    folder = source_tree / CLIENT_PLUGINS[name]
    found = [line for line in model if line.split()[-1].endswith(f"/{_MODEL}.cc")]
    if len(found) != 1:
        raise RedstartError(f"{_MODEL} is compiled {len(found)} times, not once: see client_plugin_commands")
    words, compile_it = iter(shlex.split(found[0])), []
    for word in words:
        if word in ("-MT", "-MF", "-o", "-c"):
            next(words)
        elif word != "-MD":
            compile_it.append(word.replace(_MODEL, name))
    compiled = work / f"{name}.o"
    compile_it += ["-o", str(compiled), "-c", str(folder / f"{name}.cc")]
    link = shlex.split(model[-1].removeprefix(": &&").removesuffix("&& :"))
    options = [*link[: link.index("-o")], f"-Wl,--version-script={folder / name}.ver", "-Wl,--no-undefined"]
    libraries = [*_CLIENT_LIBRARIES, *_SYSTEM_LIBRARIES]
    return [compile_it, [*options, "-o", str(work / f"{name}.so"), str(compiled), *libraries]]


def client_plugins(build_tree: Path, source_tree: Path, work: Path) -> Path:
    """Make CLIENT_PLUGINS; returns the folder that holds them."""
    work.mkdir(parents=True, exist_ok=True)
    target = f"plugin_output_directory/{_MODEL}.so"
    model = _run(["ninja", "-t", "commands", target], build_tree, f"ninja -t commands {target}").splitlines()
    for name in CLIENT_PLUGINS:
        for command in client_plugin_commands(model, name, source_tree, work):
            _run(command, build_tree, f"making the client plugin {name}")
    return work


def check_paths(files: Sequence[Path]) -> None:
    """RedstartError if a file still knows the prefix of the release build."""
    wrong = [path.name for path in files if _OLD_PREFIX in path.read_bytes()]
    if wrong:
        raise RedstartError(
            f"{', '.join(wrong)} still know(s) {_OLD_PREFIX.decode()}: another source uses the paths of the "
            "configuration; add it to SOURCES in extra/redstart_cli/relocate.py"
        )


def _run(command: Sequence[str], cwd: Path, what: str) -> str:
    done = subprocess.run(
        tied(command), cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace"
    )
    if done.returncode != 0:
        tail = "\n".join((done.stderr or done.stdout).splitlines()[-20:])
        raise RedstartError(f"{what} failed with {done.returncode}:\n{tail}")
    return done.stdout


def _write_if_changed(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def relocate(build_tree: Path, source_tree: Path, programs: Sequence[str], work: Path, jobs: int) -> Path:
    """Link `programs` (names in runtime_output_directory) again; returns the folder that holds them."""
    include = work / "include"
    for name, values in (("my_config.h", CONFIG_PATHS), ("mysql_version.h", VERSION_PATHS)):
        text = (build_tree / "include" / name).read_text(encoding="utf-8")
        _write_if_changed(include / name, set_defines(text, values))
    plans: dict[str, tuple[str, list[Compilation]]] = {}
    for program in programs:
        target = f"runtime_output_directory/{program}"
        lines = _run(["ninja", "-t", "commands", target], build_tree, f"ninja -t commands {target}").splitlines()
        plans[program] = (lines[-1], compilations(lines, source_tree))
    todo = {item.object: item for _, items in plans.values() for item in items}
    bin_folder = work / "bin"
    bin_folder.mkdir(parents=True, exist_ok=True)

    def make(item: Compilation) -> None:
        output = work / "objects" / item.object
        output.parent.mkdir(parents=True, exist_ok=True)
        _run(compile_command(item, include, output), build_tree, f"compiling {item.source}")

    def link(program: str) -> None:
        line, items = plans[program]
        objects = [work / "objects" / item.object for item in items]
        _run(link_command(line, objects, bin_folder / program), build_tree, f"linking {program}")

    with Meter("setting Debian's paths", len(todo) + len(plans)) as meter, ThreadPoolExecutor(jobs) as pool:
        done = 0
        for step, items in ((make, todo.values()), (link, plans)):
            for _ in pool.map(step, items):
                done += 1
                meter.update(done)
    check_paths([bin_folder / program for program in programs])
    return bin_folder
