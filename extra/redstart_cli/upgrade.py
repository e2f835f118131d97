# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""./redstart test upgrade: the edits on a patch release that nobody has made, which is compiled with them.

The release is the pinned one with changes as patch releases bring them, in files and functions that edits are in. Every edit
has to land, and every edited file, and each of ours, has to compile. Two more changes are canaries: one that an edit must not
survive, and one that it survives, with a name in its text that is gone.
"""

from __future__ import annotations

import os
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import repeat

from overlay import load
from overlay.model import Overlay
from overlay.plan import Plan, survey
from redstart_cli.console import RedstartError, say
from redstart_cli.layout import Layout
from redstart_cli.linked_tree import LinkedTree, is_compiled
from redstart_cli.result import Level
from redstart_cli.upstream import Upstream


@dataclass(frozen=True)
class Change:
    """What a release changes in a file: each match of a regular expression."""

    what: str
    path: str
    pattern: str
    text: str

    def made(self, before: str) -> str:
        """The file with it; RedstartError if there is nothing to change."""
        after, count = re.subn(self.pattern, self.text, before, flags=re.MULTILINE)
        if count == 0:
            raise RedstartError(f"{self.path} has nothing to make a change of ({self.what}): {self.pattern}")
        return after


_INNODB = "storage/innobase"
CHANGES = (
    Change("another include beside one that edits hang on", f"{_INNODB}/fil/fil0fil.cc",
           r'^#include "os0thread-create\.h"$', '#include "os0thread.h"\n\\g<0>\n#include "ut0new.h"'),
    Change("another name of a local variable", f"{_INNODB}/fil/fil0fil.cc", r"\bprint_msg\b", "has_said_progress"),
    Change("one statement more in a block that an edit stands before", f"{_INNODB}/fil/fil0fil.cc",
           r"^  if \(n_threads > 0\) \{$", "\\g<0>\n    ut_a(!ibd_files.empty());"),
    Change("one parameter more of a function that edits are in", f"{_INNODB}/trx/trx0roll.cc",
           r"^static void trx_rollback_active\(trx_t \*trx\)",
           "static void trx_rollback_active(trx_t *trx, [[maybe_unused]] bool is_last)"),
    Change("the same in its calls", f"{_INNODB}/trx/trx0roll.cc", r"^( +)trx_rollback_active\(trx\);$",
           r"\1trx_rollback_active(trx, false);"),
    Change("a check at the begin of a function that an edit is in", f"{_INNODB}/trx/trx0undo.cc",
           r"^  space_id_t space;\n(?=  page_no_t prev_page_no;)", "  ut_a(rec != nullptr);\n\n\\g<0>"),
    Change("one member more of a class that ours use", f"{_INNODB}/include/trx0trx.h", r"^  bool is_recovered;$",
           "\\g<0>\n\n  /** Whether its rollback was said to have begun. */\n  bool is_rollback_said{false};"),
    Change("one source more in a list that edits add to", f"{_INNODB}/CMakeLists.txt", r"^  api/api0misc\.cc$",
           "\\g<0>\n  api/api0more.cc"),
    Change("one variable more", f"{_INNODB}/handler/ha_innodb.cc", r"^static MYSQL_SYSVAR_STR\(data_home_dir,",
           'static bool innodb_more_checks;\n\nstatic MYSQL_SYSVAR_BOOL(more_checks, innodb_more_checks, PLUGIN_VAR_RQCMDARG,\n'
           '                         "Checks more.", nullptr, nullptr, true);\n\n\\g<0>'),
    Change("the same in the list of all", f"{_INNODB}/handler/ha_innodb.cc", r"^    MYSQL_SYSVAR\(log_checksums\),$",
           "\\g<0>\n    MYSQL_SYSVAR(more_checks),"),
    Change("one option more", "mysql-test/r/mysqld--help-notwin.result", r"^binlog-rows-query-log-events FALSE$",
           "\\g<0>\nbinlog-safe-purge FALSE"),
)  # fmt: skip
RENAMED = Change("another name of a function that edits are in", f"{_INNODB}/trx/trx0roll.cc",
                 r"\btrx_recovery_rollback\b", "trx_roll_back_recovered")  # fmt: skip
# No pattern of an edit has it; the text of one has.
SILENT = Change("another name of a local variable that the text of an edit has", f"{_INNODB}/trx/trx0undo.cc",
                r"\bprev_page_no\b", "previous_page_no")  # fmt: skip


class _Release:
    """The made-up release, in a tree of links."""

    def __init__(self, overlay: Overlay, links: LinkedTree, upstream: Upstream) -> None:
        self._overlay, self._links = overlay, links
        numbers, _, last = upstream.version.rpartition(".")
        self.version = f"{numbers}.{int(last) + 1}"
        version = Change("its number", "MYSQL_VERSION", r"^MYSQL_VERSION_PATCH=\d+$", f"MYSQL_VERSION_PATCH={int(last) + 1}")
        for change in (version, *CHANGES):
            say(f"  {change.path}: {change.what}")
            links.write(change.path, change.made(self._read(change.path)).encode())

    def _read(self, path: str) -> str:
        return (self._links.tree / path).read_text(encoding="utf-8")

    def plan(self) -> Plan:
        return survey(self._overlay, self._links.tree, self.version)

    def plan_with(self, change: Change) -> Plan:
        """The same with one change more, which is taken back."""
        before = self._read(change.path)
        self._links.write(change.path, change.made(before).encode())
        found = self.plan()
        self._links.write(change.path, before.encode())
        return found


def run(layout: Layout, preset: str, upstream: Upstream) -> Level:
    """Make the release of `upstream`, look where edits land in it, compile it with them."""
    level = Level("upgrade")
    with LinkedTree(layout, preset, layout.build / "upgrade", upstream.tree) as links:
        say(f"a release after {upstream.version}, made up:")
        release = _Release(load(layout.repo), links, upstream)
        plan, without, silent = release.plan(), release.plan_with(RENAMED), release.plan_with(SILENT)
        say(f"MySQL {release.version}: {len(plan.landings)} edits, of which {len(plan.problems)} do not land")
        _count(level, not plan.problems, "not every edit lands")
        level.failures += plan.problems
        lost = [landing.id for landing in without.landings if not landing.ok and landing.path == RENAMED.path]
        say(f"{RENAMED.what}: {', '.join(lost) or 'none'} of the edits do not land")
        _count(level, bool(lost), f"{RENAMED.what}: each edit lands")
        _count(level, not silent.problems, f"{SILENT.what}: seen before it is compiled, so that nothing is tried")
        if level.failed:
            return level
        for path, data in plan.contents.items():
            links.write(path, data)
        sources = [path for path in plan.contents if is_compiled(path) and not path.startswith("unittest/")]
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            for problem in pool.map(links.compile, sources, repeat(False)):
                if problem:
                    say(problem)
                _count(level, not problem, problem.split("\n")[0])
        say(f"{len(sources)} sources were compiled: {len(plan.edited.keys() & set(sources))} edited, the others ours")
        links.write(SILENT.path, silent.contents[SILENT.path])
        said = links.compile(SILENT.path, is_optimised=False)
        _count(level, "prev_page_no" in said, f"{SILENT.what}: the compiler does not say so")
    return level


def _count(level: Level, is_good: bool, failure: str) -> None:
    if is_good:
        level.passed += 1
    else:
        level.fail(failure)
