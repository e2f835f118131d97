# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Where things are: the repository, build/ inside it, the user's cache directory."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

PRESETS = ("release", "debug", "asan", "ubsan", "tsan")
# That of the release, optimised across files when it is linked: to measure what that brings.
LTO = "lto"
# That of the packages: it has their paths, so it is built and not run in the clone.
PACKAGE = "package"
# That of MySQL as released, with the options of the release preset; `pristine-debug` has those of debug, and so on.
PRISTINE = "pristine"


@dataclass(frozen=True)
class Layout:
    """Paths of one clone. `build/` is the only folder of it that is written to."""

    repo: Path

    @property
    def build(self) -> Path:
        return self.repo / "build"

    @property
    def lock(self) -> Path:
        """Held alone while `upstream` or `source` changes and by one build at a time, shared by who reads them."""
        return self.build / "lock"

    @property
    def upstream(self) -> Path:
        """Pristine trees, one per version."""
        return self.build / "upstream"

    @property
    def source(self) -> Path:
        """The patched tree."""
        return self.build / "source"

    @property
    def source_stamp(self) -> Path:
        """Written when `source` is complete: what it was made from."""
        return self.build / "source.json"

    @property
    def pristine(self) -> Layout:
        """Of MySQL as released: laid out like a clone, in which the compiler cache knows sources and build trees by the same paths.

        Its `source` is a link to a tree of `upstream`.
        """
        return Layout(self.build / PRISTINE)

    def preset(self, name: str) -> Path:
        """Build tree of a preset."""
        if name == PRISTINE:
            return self.pristine.preset("release")
        if name.startswith(f"{PRISTINE}-"):
            return self.pristine.preset(name.removeprefix(f"{PRISTINE}-"))
        return self.build / name

    def binary(self, preset: str, name: str) -> Path:
        return self.preset(preset) / "runtime_output_directory" / name

    @property
    def run(self) -> Path:
        """Default data directory of `up`."""
        return self.build / "run"

    @property
    def run_state(self) -> Path:
        """The server that `up` started last."""
        return self.build / "run.json"


def this_layout() -> Layout:
    """The clone that holds this file."""
    return Layout(Path(__file__).resolve().parents[2])


def cache_dir() -> Path:
    """Verified downloads, shared by all clones of a user."""
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "redstart"
