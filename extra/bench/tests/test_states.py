# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""States are made by the subject that a run names, and by no other build of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bench import context, subjects
from bench.context import Context
from bench.datadir import DataDir
from bench.experiments import startup
from bench.subjects import Binary, Subject
from bench.tables import Tables


class Bench:
    """The part of a context that makes states, with servers that are files."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder, self.layout = folder, None
        self.made: list[tuple[str, str]] = []
        self.ui = SimpleNamespace(say=lambda _: None)
        self.timeout_sec = 1.0
        self.datadirs = {flavour: DataDir(folder / f"data-{flavour}", lambda name: True) for flavour in ("mysql", "mariadb")}
        for datadir in self.datadirs.values():
            datadir.work.mkdir(parents=True)
            datadir.save_state("clean")
        for name in ("stock", "own", "mariadb"):
            self.build(name, "1")

        def make_state(_: object, datadir: DataDir, binary: Binary, *rest: Any) -> None:
            name, made_by = rest[1], rest[4]
            self.made.append((name, binary.path.name))
            datadir.save_state(name, made_by)

        monkeypatch.setattr(context, "make_state", make_state)

    def build(self, name: str, text: str) -> None:
        """Another build of a server."""
        (self._folder / name).write_text(f"{name} {text * 20}")

    def find_subjects(self, names: Sequence[str], *_: object) -> list[Subject]:
        return [self.subject(name) for name in names]

    def subject(self, name: str) -> Subject:
        if name in ("stock", "mariadb"):
            return Subject(name, Binary(self._folder / name, None, "mysql" if name == "stock" else name, "9.7.4"), {}, "")
        variables = dict.fromkeys(subjects.ALL_ON, "") | {subjects.MAP: "ON"}
        return subjects.own_subject(name, Binary(self._folder / "own", None, "mysql", "9.7.4", variables))

    def make_datadir(self, _: Tables, binary: Binary) -> DataDir:
        return self.datadirs[binary.flavour]

    def make_state(self, *arguments: Any) -> None:
        Context.make_state(cast(Any, self), *arguments)

    def prepare(self, *names: str, crash: bool) -> list[tuple[str, str]]:
        """What a run with these subjects makes anew."""
        self.made.clear()
        options = startup.Options(Tables(10, 0), crash=crash, ddl=False, warm=False, subjects=names)
        startup.prepare(cast(Any, self), options)
        return [*self.made]


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(tmp_path, monkeypatch)


def test_a_state_is_made_anew_for_another_maker_and_another_build(bench: Bench) -> None:
    def make(name: str) -> list[tuple[str, str]]:
        bench.made.clear()
        bench.make_state(bench.datadirs["mysql"], "large-crash", bench.subject(name), lambda _: None, "for a test")
        return [*bench.made]

    assert make("stock") == [("large-crash", "stock")]
    assert make("stock") == []
    assert make("off") == [("large-crash", "own")]
    bench.build("own", "2")
    assert make("off") == [("large-crash", "own")]
    assert make("off") == []


def test_subjects_of_a_run_share_the_crash_of_the_first(bench: Bench) -> None:
    assert bench.prepare("stock", "off", "mariadb", crash=True) == [("crash", "stock"), ("crash", "mariadb")]
    assert bench.prepare("stock", "off", "mariadb", crash=True) == []
    # Of a build that a later run does not have.
    assert bench.prepare("off", crash=True) == [("crash", "own")]
    assert bench.prepare("stock", "off", crash=True) == [("crash", "stock")]


def test_subjects_of_a_run_share_a_map(bench: Bench) -> None:
    (made,) = bench.prepare("defaults", "all-on", "off", crash=False)
    assert made[0].startswith(startup.MAP_STATE)
    assert bench.prepare("defaults", "all-on", crash=False) == []
    bench.build("own", "2")
    assert len(bench.prepare("defaults", "all-on", crash=True)) == 1
