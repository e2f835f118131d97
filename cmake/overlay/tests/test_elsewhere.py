# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Edits with other targets in 26.x, on a made-up tree with its layout.

The trees hold what the edits hang on and nothing else of upstream's. A mark `// ID` stands where an edit's lines are to be.
"""

from __future__ import annotations

import re

import pytest

from overlay.model import Edit, load
from overlay.splice import apply_text
from overlay_support import REPOSITORY

VERSION = "26.1.0"
TREE = {
    "storage/innobase/fil/fil0tablespace_scan.cc": """\
#include "fil0tablespace_scan.h"
// fil-observe-include
#include "os0thread-create.h"

namespace ib::fil {

void Scanned_tablespace_dirs::add_path(const std::string &path) { m_scanned_dirs_and_files.emplace_back(path); }

void Scanned_tablespace_dirs::duplicate_check(const Iter &from, const Iter &to) {
  for (auto it = from; it != to; ++it) {
    const auto space_info = get_tablespace_info(it->second);
    const auto space_id = space_info.space_id;
    // fil-observe-checked
    if (space_id != 0) {
      note(space_id);
    }
  }
}

dberr_t Scanned_tablespace_dirs::scan() {
  // fil-observe-begin
  Files ibd_files, undo_files;
  for (const auto &dir : m_scanned_dirs_and_files) {
    walk(dir, [&](const std::string &path) {
      std::string other;
      // fil-observe-found
      if (m_upgrader.get_partition_file(path, IBD, other)) {
        m_upgrader.add_old_path(path);
      }
      ibd_files.push_back(path);
    });
  }
  size_t n_threads = fil_get_scan_threads(ibd_files.size());
  // fil-observe-listed
  if (n_threads > 0) {
    say(n_threads);
  }
  // fil-observe-check
  par_for(NO_KEY, ibd_files, n_threads, check, &m, &unique, &duplicates);
  duplicate_check(undo_files.begin(), undo_files.end());
  dberr_t err;
  // fil-observe-end
  if (!duplicates.empty()) {
    err = DB_FAIL;
  } else {
    err = DB_SUCCESS;
  }
  return err;
}

}  // namespace ib::fil
""",
}
MARK = re.compile(r"^( *)// ([a-z0-9-]+)\n", re.MULTILINE)
MOVED = [edit for edit in load(REPOSITORY).edits if edit.elsewhere]


def lines(indent: str, edit: Edit) -> str:
    return "".join(f"{indent}{line}\n" for line in edit.inputs["text"].splitlines())


def test_each_edit_with_another_target_has_a_mark() -> None:
    marks = [mark[2] for text in TREE.values() for mark in MARK.finditer(text)]
    assert sorted(marks) == sorted(edit.id for edit in MOVED)


@pytest.mark.parametrize("path", TREE)
def test_all_land_at_their_marks(path: str) -> None:
    edits = {edit.id: edit.at(VERSION) for edit in MOVED if edit.at(VERSION).path == path}
    found, landings = apply_text(path, TREE[path].encode(), list(edits.values()))
    assert [str(landing) for landing in landings if not landing.ok] == []
    assert MARK.sub("", found.decode()) == MARK.sub(lambda mark: lines(mark[1], edits[mark[2]]), TREE[path])


def test_none_has_moved_in_a_pinned_release() -> None:
    assert [edit.id for edit in MOVED if edit.at("9.7.4").path in TREE] == []


@pytest.mark.parametrize("old", ["get_partition_file", "par_for", "n_threads > 0", "Scanned_tablespace_dirs::scan"])
def test_another_layout_is_noticed(old: str) -> None:
    for path, text in TREE.items():
        _, landings = apply_text(path, text.replace(old, "other").encode(), [edit.at(VERSION) for edit in MOVED])
        assert [landing for landing in landings if not landing.ok]
