# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""What is kept of a server whose binary log is an image."""

from __future__ import annotations

from pathlib import Path

from binlog_check.images import _tidy


def test_an_image_has_nothing_of_the_run_that_has_made_it(tmp_path: Path) -> None:
    (tmp_path / "data/#innodb_temp").mkdir(parents=True)
    kept = ("data/ibdata1", "tmp", "keyring", "error.log")
    for name in ("s", "s.lock", "pid", "output", "data/#innodb_temp/temp_1.ibt", *kept):
        (tmp_path / name).touch()
    _tidy(tmp_path)
    found = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")}
    assert found == {"data", *kept}
