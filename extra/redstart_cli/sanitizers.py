# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""What UndefinedBehaviorSanitizer and ThreadSanitizer report while a level runs, and whose it is.

Programs go on after a report and write it to a file. A report is ours if one of the first frames of its stacks, those of
libraries left out, is in a file of this repository: that fails the level. Others are MySQL's: they are counted by place and
listed. Upstream's list of suppressions leaves out all of InnoDB; here it is used without that line.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree

from redstart_cli.console import RedstartError, say
from redstart_cli.layout import Layout
from redstart_cli.result import Level

OPTIONS = {
    "ubsan": ("UBSAN_OPTIONS", "print_stacktrace=1"),
    "tsan": ("TSAN_OPTIONS", "exitcode=0:halt_on_error=0:history_size=5:second_deadlock_stack=1:allocator_may_return_null=1"),
}
"""Of each preset: the variable its programs read, and what is in it besides the path of the reports."""

_FLAGS = {"ubsan": "-fsanitize=undefined", "tsan": "-fsanitize=thread"}
# Nearest frames in which a report makes a file responsible: a helper of the standard library or an inline function of
# upstream's is often in between.
_DEPTH = 3
# Counters of MySQL's that all threads add to, and read, without synchronization; ours do as MySQL's own code does. The
# nearest frame alone counts.
_COUNTERS = ("ib_counter_t", "buf_LRU_stat_inc_io", "count_file_read", "cached_tables")
# Sources of the C and C++ libraries, and of the sanitizers.
_LIBRARY = re.compile(r"^/usr/|/libsanitizer/|^\.\./(sysdeps|csu|nptl|elf|stdlib|string)/")
# Places of MySQL's that are listed.
_MOST_LISTED = 40
_FRAME = re.compile(r"^ +#\d+ (?:0x[0-9a-f]+ in )?(?P<function>.*?)(?: (?P<file>[^ ()]+):(?P<line>\d+)(?::\d+)?)?(?: \(.*\))?$")
_TSAN_HEAD = re.compile(r"^WARNING: ThreadSanitizer: (?P<what>.+?) \(pid=\d+\)")
_UBSAN_HEAD = re.compile(r"^(?P<file>[^ ]+?):(?P<line>\d+):\d+: runtime error: (?P<what>.*)$")
# Where something was made says nothing about who misuses it.
_ORIGIN = re.compile(r"^  (Thread|Mutex .*created at|Location|As if synchronized)")

# Faults of each kind, which are compiled and run under the name of a file of ours.
_CANARIES = {
    "ubsan": ("int main(int count, char **) { return (count << 31 << count) == 5; }\n",),
    "tsan": (
        (
            "#include <thread>\nint shared;\nvoid add() { ++shared; }\n"
            "int main() { std::thread one(add), two(add); one.join(); two.join(); return shared == 5; }\n"
        ),
        (
            "#include <mutex>\nstd::mutex a, b;\n"
            "void lock(std::mutex &x, std::mutex &y) { x.lock(); y.lock(); y.unlock(); x.unlock(); }\n"
            "int main() { lock(a, b); lock(b, a); }\n"
        ),
    ),
}


@dataclass(frozen=True)
class Frame:
    """A function, and where in which file, if that is known (empty and 0 if not)."""

    function: str
    file: str
    line: int

    @property
    def place(self) -> str:
        short = "/".join(self.file.split("/")[-3:])
        return f"{self.function.split('(')[0]} ({short}:{self.line})" if self.file else self.function


@dataclass(frozen=True)
class Report:
    """One report: what is wrong, and the stacks of those who do it, nearest frame first."""

    what: str
    stacks: tuple[tuple[Frame, ...], ...]
    text: str

    def nearest(self) -> list[Frame]:
        """The first frames of each stack that are in a source of MySQL's or ours."""
        return [
            frame
            for stack in self.stacks
            for frame in [frame for frame in stack if frame.file and not _LIBRARY.search(frame.file)][:_DEPTH]
        ]

    def own(self, files: frozenset[str]) -> Frame | None:
        """The first of these frames in one of our files, if there is one."""
        return next((frame for frame in self.nearest() if is_own(frame.file, files)), None)

    @property
    def place(self) -> str:
        frames = self.nearest() or [frame for stack in self.stacks for frame in stack]
        return frames[0].place if frames else "nowhere"


def hides_reports(preset: str, level: str, arguments: Sequence[str]) -> bool:
    """Whether MTR is told to give programs options of its own (--sanitize): they do not write reports where these are read then."""
    is_asked = any(argument.startswith("-") and argument.lstrip("-").lower() == "sanitize" for argument in arguments)
    return is_asked and preset in OPTIONS and level in ("mtr", "regression", "suites")


def is_own(file: str, files: frozenset[str]) -> bool:
    """Whether a path, absolute or not, ends with that of a file of the repository."""
    words = [word for word in file.split("/") if word not in ("", ".")]
    return any("/".join(words[begin:]) in files for begin in range(len(words)))


def own_files(repo: Path) -> frozenset[str]:
    """Paths of our C++ in the source tree."""
    roots = ("components", "include", "mysys", "sql", "storage", "unittest")
    found = (path for root in roots for path in (repo / root).rglob("*") if path.suffix in (".cc", ".h", ".ic"))
    return frozenset(str(path.relative_to(repo)) for path in found)


def parse(text: str) -> list[Report]:
    """The reports in a file that a program has written."""
    reports: list[Report] = []
    what, lines = "", []  # type: str, list[str]

    def end() -> None:
        if what:
            reports.append(Report(what, _stacks(lines), "\n".join(lines)))

    for line in text.splitlines():
        head = _TSAN_HEAD.match(line) or _UBSAN_HEAD.match(line)
        if head:
            end()
            what, lines = _kind(head["what"]), [line]
        elif line.startswith("====="):
            end()
            what, lines = "", []
        elif what:
            lines.append(line)
    end()
    return reports


def _kind(words: str) -> str:
    """What is wrong without the values, which differ from run to run."""
    return re.sub(r"0x[0-9a-f]+|-?\d+", "N", words)


def _stacks(lines: Sequence[str]) -> tuple[tuple[Frame, ...], ...]:
    stacks: list[list[Frame]] = []
    # Of the undefined behaviour itself, which also stands in a report without a stack.
    head = _UBSAN_HEAD.match(lines[0])
    if head:
        stacks.append([Frame("", head["file"], int(head["line"]))])
    is_counted, is_new = True, True
    for line in lines[1:]:
        frame = _FRAME.match(line)
        if frame is None:
            if line.strip():
                is_counted = _ORIGIN.match(line) is None
            is_new = True
        elif is_counted:
            if is_new:
                stacks.append([])
            is_new = False
            stacks[-1].append(Frame(frame["function"], frame["file"] or "", int(frame["line"] or 0)))
    return tuple(tuple(stack) for stack in stacks)


def judge(reports: Sequence[Report], files: frozenset[str], name: str) -> Level:
    """Each place of ours that is reported is a failure; MySQL's are said."""
    level = Level(name)
    ours: Counter[str] = Counter()
    theirs: Counter[str] = Counter()
    texts: dict[str, str] = {}
    for report in reports:
        own = report.own(files)
        line = f"{report.what}: {own.place if own else report.place}"
        (ours if own else theirs)[line] += 1
        texts.setdefault(line, report.text)
    say(f"  {name}: {len(reports)} reports, {ours.total()} in our files ({len(ours)} places), {theirs.total()} in MySQL's alone")
    for line, count in theirs.most_common(_MOST_LISTED):
        say(f"    MySQL's, {count} times: {line}")
    if len(theirs) > _MOST_LISTED:
        say(f"    and {len(theirs) - _MOST_LISTED} places more")
    for line, count in ours.most_common():
        say("\n".join(f"  | {text}" for text in texts[line].splitlines()))
        level.fail(f"{name}, {count} times: {line}")
    return level


@contextmanager
def watching(layout: Layout, preset: str, level_name: str) -> Iterator[Level]:
    """What programs report meanwhile, in the level that is given, once it is over; nothing for other presets.

    RedstartError if a planted fault is not reported, or not taken for one of ours.
    """
    name = f"{preset} {level_name}"
    level = Level(name)
    if preset not in OPTIONS:
        yield level
        return
    folder = layout.build / "test" / f"{level_name}-{preset}"
    rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    variable, options = OPTIONS[preset]
    settings = f"{options}:log_path={folder / 'report'}{_suppressions(layout, preset, folder)}"
    before = os.environ.get(variable)
    os.environ[variable] = f"{settings}:{before}" if before else settings
    try:
        _plant(layout, preset, folder)
        yield level
        level.add(judge(_read(folder), own_files(layout.repo), name))
    finally:
        if before is None:
            del os.environ[variable]
        else:
            os.environ[variable] = before


def _suppressions(layout: Layout, preset: str, folder: Path) -> str:
    """Upstream's list for ThreadSanitizer, but for the line that leaves out all of InnoDB, and some counters."""
    if preset != "tsan":
        return ""
    lines = (layout.source / "mysql-test/tsan.supp").read_text(encoding="utf-8").splitlines()
    target = folder / "suppressions"
    lines = [line for line in lines if line.strip() != "race:innobase"]
    lines += [f"race_top:{name}" for name in _COUNTERS]
    target.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return f":suppressions={target}"


def _read(folder: Path) -> list[Report]:
    paths = sorted(folder.glob("report.*"))
    return [report for path in paths for report in parse(path.read_text(encoding="utf-8", errors="replace"))]


def _plant(layout: Layout, preset: str, folder: Path) -> None:
    """Each fault, in a file with the name of one of ours, has to be reported and taken for ours; its report is removed."""
    source, program = folder / "storage/innobase/fil/fil0map.cc", folder / "canary"
    source.parent.mkdir(parents=True)
    for canary in _CANARIES[preset]:
        source.write_text(canary, encoding="utf-8")
        command = [os.environ.get("CXX", "c++"), _FLAGS[preset], "-g1", "-O1", "-pthread", str(source), "-o", str(program)]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace")
        if done.returncode != 0:
            raise RedstartError(f"{' '.join(command)} failed: {done.stderr[-500:]}")
        subprocess.run([str(program)], capture_output=True)
        if not any(report.own(own_files(layout.repo)) for report in _read(folder)):
            raise RedstartError(f"{preset} did not report a fault that was planted for it (log_path in {folder}): {canary}")
        for path in folder.glob("report.*"):
            path.unlink()
