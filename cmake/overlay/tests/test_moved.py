# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Hints on where code went. The layout is that of newer releases; the code is ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from overlay.moved import hints
from overlay_support import MakeEdit

NEW = """\
namespace ib::fil {

int New_dirs::check() { return 0; }

int New_dirs::scan() {
  prepare();
  par_for(files);
  return 0;
}

int get_id(int file) { return file; }

}  // namespace ib::fil
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "storage/innobase/fil"
    folder.mkdir(parents=True)
    (folder / "fil0fil.cc").write_text("int unrelated() { return scan(); }\n")
    (folder / "fil0tablespace_scan.cc").write_text(NEW)
    (folder / "other.cc").write_text("int Walk::scan() { return 1; }\n")
    (tmp_path / "storage/innobase/handler").mkdir()
    (tmp_path / "storage/innobase/handler/vars.cc").write_text("static int variables[] = {\n    1,\n};\n")
    return tmp_path


def test_moved_to_another_class_and_file(tree: Path, make_edit: MakeEdit) -> None:
    edit = make_edit("before_call", "storage/innobase/fil/fil0fil.cc", function="Old_dirs::scan",
                     callee="par_for", text="note();")  # fmt: skip
    assert hints(tree, edit) == [
        "would land at storage/innobase/fil/fil0tablespace_scan.cc:7 in ib::fil::New_dirs::scan"
    ]


def test_moved_but_changed(tree: Path, make_edit: MakeEdit) -> None:
    edit = make_edit("before_call", "storage/innobase/fil/fil0fil.cc", function="get_id",
                     callee="os_file_close", text="note();")  # fmt: skip
    assert hints(tree, edit) == [
        (
            "the function is at storage/innobase/fil/fil0tablespace_scan.cc:11 now, "
            "but: no call of `os_file_close` in `ib::fil::get_id`"
        )
    ]


def test_gone(tree: Path, make_edit: MakeEdit) -> None:
    edit = make_edit("before_call", "storage/innobase/fil/fil0fil.cc", function="nowhere",
                     callee="f", text="note();")  # fmt: skip
    assert hints(tree, edit) == []


def test_array_and_file_moved(tree: Path, make_edit: MakeEdit) -> None:
    edit = make_edit("add_array_element", "storage/innobase/srv/vars.cc", name="variables", text="2,")
    assert hints(tree, edit) == [
        "a file of this name is storage/innobase/handler/vars.cc",
        "would land at storage/innobase/handler/vars.cc:3",
    ]
