# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The edits and files of this repository against the real upstream trees.

REDSTART_UPSTREAM_9_7_4 and REDSTART_UPSTREAM_9_7_2 name the pristine trees.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from overlay import Edit, apply_text, golden, load, make_plan
from overlay.mask import view
from overlay.source import CppSource
from overlay_support import REPOSITORY

Real = tuple[str, Path]

_SOURCES = (".cc", ".h", ".ic", ".cpp", ".c", ".i")
# Functions that the first features work on; all must parse.
_FUNCTIONS = {
    "storage/innobase/fil/fil0fil.cc": [
        "Fil_system::get_tablespace_id",
        "Tablespace_dirs::duplicate_check",
        "Tablespace_dirs::scan",
        "fil_get_scan_threads",
        "fil_ibd_open",
    ],
    "storage/innobase/fsp/fsp0file.cc": ["Datafile::read_first_page"],
    "storage/innobase/handler/ha_innodb.cc": ["boot_tablespaces", "Validate_files::check"],
    "storage/innobase/trx/trx0trx.cc": ["trx_resurrect_table_ids"],
    "storage/innobase/ddl/ddl0merge.cc": ["Merge_file_sort::sort"],
    "storage/innobase/srv/srv0start.cc": ["srv_start"],
    "storage/innobase/os/os0file.cc": ["os_file_create_func"],
}


def _apply_in_turn(path: str, data: bytes, groups: list[list[Edit]]) -> bytes:
    for group in groups:
        data, landings = apply_text(path, data, group)
        assert [str(found) for found in landings if not found.ok] == []
    return data


def test_at_once_is_feature_by_feature(real_upstream: Real) -> None:
    version, upstream = real_upstream
    edits = [edit.at(version) for edit in load(REPOSITORY).edits]
    for path, group in groupby(sorted(edits, key=lambda e: e.path), key=lambda e: e.path):
        here = list(group)
        data = (upstream / path).read_bytes()
        once, landings = apply_text(path, data, here)
        assert [str(found) for found in landings if not found.ok] == []
        features = [list(g) for _, g in groupby(here, key=lambda e: e.order[0])]
        assert _apply_in_turn(path, data, features) == once
        # Each edit as a feature of its own: none disturbs another's anchor.
        alone = [[replace(edit, order=(n, 0))] for n, edit in enumerate(here)]
        split = [edit for group in alone for edit in group]
        assert _apply_in_turn(path, data, alone) == apply_text(path, data, split)[0]


def test_golden_record(real_upstream: Real) -> None:
    version, upstream = real_upstream
    assert golden.differences(REPOSITORY, upstream, version) == []


def test_edits_only_insert_lines(real_upstream: Real) -> None:
    version, upstream = real_upstream
    for path, data in make_plan(load(REPOSITORY), upstream, version).edited.items():
        lines = iter(data.splitlines(keepends=True))
        for line in (upstream / path).read_bytes().splitlines(keepends=True):
            assert any(line == candidate for candidate in lines), f"{path}: {line!r}"


def test_functions_parse(real_upstream: Real) -> None:
    _, upstream = real_upstream
    for path, names in _FUNCTIONS.items():
        source = CppSource(path, (upstream / path).read_bytes())
        for name in names:
            source.function(name, [])


def test_most_of_innodb_parses(real_upstream: Real) -> None:
    """Macros that the mask does not know show here."""
    _, upstream = real_upstream
    total = bad = 0
    for directory in ("ddl", "fil", "fsp", "os", "trx", "srv"):
        for file in sorted((upstream / "storage/innobase" / directory).glob("*.cc")):
            source = CppSource(str(file), file.read_bytes())
            assert len(view(source.data).parse) == len(source.data)
            total += len(source.functions)
            bad += sum(any(f.start <= e < f.end for e in source.errors) for f in source.functions)
    assert total > 1000
    assert bad <= total // 100, f"{bad} of {total} functions do not parse"


def test_codes_of_messages_are_those_of_no_other(real_upstream: Real) -> None:
    """The map names codes of MySQL that nothing of MySQL logs, with a text that is all ours."""
    _, upstream = real_upstream
    names = re.findall(r"= (ER_IB_MSG_\d+);", (REPOSITORY / "storage/innobase/include/fil0mapmsg.h").read_text())
    texts = (upstream / "share/messages_to_error_log.txt").read_text()
    assert len(set(names)) == len(names) >= 18
    for name in names:
        assert f'\n{name}\n  eng "%s"\n' in texts
    pattern = re.compile(rb"\b(" + b"|".join(name.encode() for name in names) + rb")\b")
    sources = (path for part in ("storage", "sql", "plugin", "components") for path in (upstream / part).rglob("*"))
    used = [str(path) for path in sources if path.suffix in _SOURCES and pattern.search(path.read_bytes())]
    assert used == []
