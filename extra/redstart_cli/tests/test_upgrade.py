# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The level upgrade: what fails it. Trees, edits and compiler are made up."""

from __future__ import annotations

from pathlib import Path
from typing import Self

import pytest

from overlay.plan import Plan
from overlay.splice import Landing
from redstart_cli import upgrade
from redstart_cli.console import RedstartError
from redstart_cli.layout import Layout
from redstart_cli.upgrade import RENAMED, SILENT, Change
from redstart_cli.upstream import Upstream

EDITED = ("sql/sql_a.cc", RENAMED.path, SILENT.path)


def test_a_change_of_nothing_is_an_error() -> None:
    change = Change("a name", "sql/a.cc", r"\bold\b", "new")
    assert change.made("old older old\n") == "new older new\n"
    with pytest.raises(RedstartError, match="sql/a.cc has nothing to make a change of"):
        change.made("older\n")


class Links:
    """A tree of two files, in which what is said to fail does not compile."""

    def __init__(self, tree: Path, fails: str, is_silent_caught: bool) -> None:
        self.tree, self._fails, self._is_silent_caught = tree, fails, is_silent_caught
        (tree / "MYSQL_VERSION").write_text("MYSQL_VERSION_PATCH=4\n")
        for change, text in ((RENAMED, "trx_recovery_rollback"), (SILENT, "prev_page_no")):
            (tree / change.path).parent.mkdir(parents=True, exist_ok=True)
            (tree / change.path).write_text(f"{text}\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def write(self, path: str, data: bytes) -> None:
        (self.tree / path).parent.mkdir(parents=True, exist_ok=True)
        (self.tree / path).write_bytes(data)

    def compile(self, path: str, is_optimised: bool) -> str:
        if "previous_page_no" in (self.tree / path).read_text():
            return "no prev_page_no here" if self._is_silent_caught else ""
        return f"{path}: does not compile\nbecause" if path == self._fails else ""


@pytest.mark.parametrize(
    ("fails", "lost", "is_rename_seen", "is_silent_caught", "failures"),
    [
        ("", "", True, True, []),
        ("sql/sql_a.cc", "", True, True, ["sql/sql_a.cc: does not compile"]),
        ("", "sql/sql_a.cc", True, True, ["not every edit lands", "an-edit: sql/sql_a.cc: gone (op at place)",
                                         f"{SILENT.what}: seen before it is compiled, so that nothing is tried"]),
        ("", "", False, True, [f"{RENAMED.what}: each edit lands"]),
        ("", "", True, False, [f"{SILENT.what}: the compiler does not say so"]),
    ],
)  # fmt: skip
def test_what_fails_it(
    layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    fails: str, lost: str, is_rename_seen: bool, is_silent_caught: bool, failures: list[str],
) -> None:  # fmt: skip
    def survey(_: object, tree: Path, version: str) -> Plan:
        assert version == "9.7.5"
        is_renamed = is_rename_seen and "trx_roll_back_recovered" in (tree / RENAMED.path).read_text()
        gone = {lost, RENAMED.path if is_renamed else ""}
        landings = [Landing("an-edit", "f", path, "op", "place", reason="gone" if path in gone else "") for path in EDITED]
        contents = {path: (tree / path).read_bytes() if (tree / path).exists() else b"" for path in EDITED}
        return Plan(edited=contents, landings=landings)

    monkeypatch.setattr(upgrade, "CHANGES", ())
    monkeypatch.setattr(upgrade, "survey", survey)
    monkeypatch.setattr(upgrade, "load", lambda _: None)
    monkeypatch.setattr(upgrade, "LinkedTree", lambda *_: Links(tmp_path, fails, is_silent_caught))
    level = upgrade.run(layout, "release", Upstream("9.7.4", tmp_path))
    assert level.failures == failures
    assert bool(level.failed) == bool(failures) and level.passed > 0
