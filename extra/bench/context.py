# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""What every experiment is given."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from bench.datadir import DataDir, Recipe, make_state, open_or_make
from bench.keyring import with_keyring
from bench.layout import Layout
from bench.profiles import Volume
from bench.results import Document, Run
from bench.server import Server
from bench.subjects import (
    BUILT,
    Binary,
    Subject,
    inspect_binary,
    mariadb_binary,
    own_subject,
    stock_settings,
)
from bench.ui import Ui
from redstart_cli.layout import this_layout
from redstart_cli.roots import older_root, stock_root
from redstart_cli.tools import ToolError, Unavailable


@dataclass
class Context:
    """Places, display, volume, the document to fill, and the binaries asked so far."""

    layout: Layout
    ui: Ui
    volume: Volume
    document: Document
    mysqld: Path
    rounds: int
    timeout_sec: float
    binaries: dict[str, Binary] = field(default_factory=dict)

    def own_binary(self) -> Binary:
        """The mysqld under test; Unavailable if it is not built."""
        if "own" not in self.binaries:
            self.binaries["own"] = inspect_binary(self.mysqld)
        return self.binaries["own"]

    def stock_binary(self) -> Binary:
        """Debian's mysqld in its own root, which is made if needed."""
        if "stock" not in self.binaries:
            if not (self.layout.roots / "stock").exists():
                self.ui.say("making the root of the stock subject (about a minute)")
            root = stock_root(self.layout.roots, self.layout.logs)
            self.binaries["stock"] = inspect_binary(Path("/usr/sbin/mysqld"), root)
        return self.binaries["stock"]

    def stock_subject(self) -> Subject:
        """The stock package as a subject; a stock server has none of our variables to set."""
        binary = self.stock_binary()
        return Subject("stock", binary, stock_settings(binary), "Debian's mysql-server-core")

    def older_subject(self) -> Subject:
        """The stock package of an older patch release as a subject."""
        if "older" not in self.binaries:
            root = older_root(self.layout.roots, self.layout.logs)
            self.binaries["older"] = inspect_binary(Path("/usr/sbin/mysqld"), root)
        return Subject("older", self.binaries["older"], {}, "Debian's mysql-server-core of an older patch release")

    def mariadb_subject(self) -> Subject:
        """Debian's MariaDB as a subject."""
        if "mariadb" not in self.binaries:
            self.binaries["mariadb"] = mariadb_binary()
        return Subject("mariadb", self.binaries["mariadb"], {}, "Debian's mariadb-server-core")

    def built_subject(self, name: str) -> Subject:
        """A build beside the one under test; Unavailable if it was not made (./redstart build lto, build --pristine)."""
        tree, note = BUILT[name]
        if name not in self.binaries:
            self.binaries[name] = inspect_binary(this_layout().binary(tree, "mysqld"))
        return Subject(name, self.binaries[name], {}, note)

    def find_subjects(
        self, names: Sequence[str], files: int = 0, is_encrypted: bool = False, server_options: Sequence[str] = ()
    ) -> list[Subject]:
        """The subjects of these names that can run here, noted in the document.

        The others are said and noted as skipped; ToolError if none is left. `files` is the
        number of tablespace files, for the subjects whose number of threads follows from it. With `is_encrypted`
        they have a keyring. `server_options` are those of the data directory.
        """
        cores = len(os.sched_getaffinity(0))
        found = []
        for name in names:
            try:
                if name == "stock":
                    subject = self.stock_subject()
                elif name == "older":
                    subject = self.older_subject()
                elif name == "mariadb":
                    subject = self.mariadb_subject()
                elif name in BUILT:
                    subject = self.built_subject(name)
                else:
                    subject = own_subject(name, self.own_binary(), files, cores)
                if is_encrypted:
                    subject = replace(subject, binary=with_keyring(self.layout, subject.binary))
                if server_options:
                    binary = replace(subject.binary, options=(*subject.binary.options, *server_options))
                    subject = replace(subject, binary=binary)
                found.append(subject)
            except Unavailable as error:
                self.skip(f"subject {name}", error)
        if not found:
            raise ToolError("none of the subjects can run here")
        for subject in found:
            self._note(subject)
        return found

    def make_datadir(self, recipe: Recipe, binary: Binary) -> DataDir:
        """The data directory of a recipe on the volume, made if needed, in its clean state."""
        task = self.ui.begin("data directory", recipe.steps)
        datadir = open_or_make(
            self.layout,
            self.volume.directory / "data",
            recipe,
            binary,
            self.ui.say,
            lambda steps: self.ui.update(task, advance=steps),
        )
        self.ui.end(task)
        datadir.restore("clean")
        return datadir

    def make_state(
        self,
        datadir: DataDir,
        name: str,
        maker: Subject,
        act: Callable[[Server], None],
        what: str,
        options: Sequence[str] = (),
        origin: str = "clean",
    ) -> None:
        """Makes a state from another, unless it is there: `act` works with a server of `maker`. `what` is said of it.

        One that another has made, or another build of the maker, does not do: what it holds may be different.
        """
        if not datadir.has_state(name, maker.identity):
            self.ui.say(f"making the state {name} ({what}; by {maker.name})")
            make_state(self.layout, datadir, maker.binary, [*maker.options, *options], name, origin, act, maker.identity)

    def finish(self, run: Run, text: str) -> None:
        """Adds a run to the document and says how it went: `text`, unless it went wrong."""
        self.document.runs.append(run)
        what = f"{run.subject}, {run.mode}"
        if run.problems:
            self.ui.say(f"{what}: WRONG, not counted: {'; '.join(run.problems)}")
        else:
            note = f" ({'; '.join(run.notes)})" if run.notes else ""
            self.ui.say(f"{what}: {text}{note}")

    def skip(self, what: str, error: Unavailable) -> None:
        """Says that something is skipped and why, and notes it in the document."""
        self.ui.say(f"skipped: {what}: {error}")
        self.document.skipped.append({"what": what, "why": str(error)})

    def _note(self, subject: Subject) -> None:
        record = {
            "name": subject.name,
            "note": subject.note,
            "binary": str(subject.binary.file),
            "version": subject.binary.version,
            "settings": subject.settings,
        }
        if record not in self.document.subjects:
            self.document.subjects.append(record)
