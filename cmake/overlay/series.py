# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The features as commits: what each adds, and the files after each of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from .errors import OverlayError, OverlayErrors
from .model import CommitSpec, Edit, Feature, Globs, Overlay
from .plan import make_plan
from .splice import apply_text


@dataclass
class Commit:
    """One patch of a feature: the ids of its edits, the paths of its own files."""

    feature: Feature
    subject: str
    why: str
    edits: set[str] = field(default_factory=set)
    files: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class FileState:
    """A file as a commit leaves it."""

    data: bytes
    executable: bool


@dataclass(frozen=True)
class Step:
    """A commit and the files that it changes, as it leaves them."""

    commit: Commit
    changed: dict[str, FileState]


@dataclass(frozen=True)
class Series:
    """All commits on one upstream version.

    base: the upstream files that any of the steps changes, as they are.
    """

    version: str
    base: dict[str, FileState]
    steps: list[Step]

    def features(self) -> list[Feature]:
        """The features that have commits, in order."""
        return list({step.commit.feature.name: step.commit.feature for step in self.steps}.values())

    def of(self, feature: str) -> list[Step]:
        """The steps of one feature."""
        return [step for step in self.steps if step.commit.feature.name == feature]

    def after(self, count: int) -> dict[str, FileState]:
        """All files of the series after so many steps."""
        states = dict(self.base)
        for step in self.steps[:count]:
            states |= step.changed
        return states


def split(overlay: Overlay, feature: Feature) -> list[Commit]:
    """The commits of a feature; raises OverlayError when the declared ones do not fit it."""
    specs = feature.commits or [CommitSpec(feature.title, "")]
    commits = [Commit(feature, spec.subject, spec.why) for spec in specs]
    for edit in overlay.edits:
        if edit.feature == feature.name:
            index = _choose(feature, specs, f"edit `{edit.id}`", edit.path, edit.id)
            commits[index].edits.add(edit.id)
    for path, owner in overlay.own_files.items():
        if owner == feature.name:
            commits[_choose(feature, specs, path, path)].files.append(path)
    if not any(commit.edits or commit.files for commit in commits):
        return []  # declared before its first line is written
    for commit in commits:
        if not commit.edits and not commit.files:
            raise OverlayError(f"{feature.name}: commit `{commit.subject}` is empty")
    return commits


def _choose(
    feature: Feature, specs: list[CommitSpec], what: str, path: str, edit_id: str = ""
) -> int:
    """Which commit something belongs to; the last one takes what no other names."""
    found = [
        index
        for index, spec in enumerate(specs)
        if Globs(spec.files).match(path) or (edit_id and Globs(spec.edits).match(edit_id))
    ]
    if len(found) > 1:
        raise OverlayError(f"{feature.name}: {what} belongs to several commits")
    return found[0] if found else len(specs) - 1


def make_series(overlay: Overlay, upstream: Path, version: str) -> Series:
    """All commits and the states of the files; raises OverlayError.

    Every state comes from the pristine bytes and the edits so far. That the
    last one is what all edits at once give is checked here.
    """
    plan = make_plan(overlay, upstream, version)
    base = {path: _state(upstream / path) for path in sorted(plan.edited)}
    commits = [commit for feature in overlay.features for commit in split(overlay, feature)]
    edits = [edit.at(version) for edit in overlay.edits]
    changes: list[dict[str, FileState]] = [{} for _ in commits]
    for path, state in base.items():  # each file is parsed once for all commits
        here = [edit for edit in edits if edit.path == path]
        for number, data in _edited(path, state.data, here, commits):
            changes[number][path] = FileState(data, state.executable)
    steps = []
    for commit, changed in zip(commits, changes, strict=True):
        files = {path: _state(overlay.repo / path) for path in commit.files}
        steps.append(Step(commit, changed | files))
    series = Series(version, base, steps)
    last = {path: state.data for path, state in series.after(len(steps)).items()}
    if last != plan.contents:
        wrong = [path for path in last | plan.contents if last.get(path) != plan.contents.get(path)]
        raise OverlayError(f"commit by commit is not all at once: {', '.join(wrong)}")
    return series


def _edited(
    path: str, data: bytes, edits: list[Edit], commits: list[Commit]
) -> Iterator[tuple[int, bytes]]:
    """The numbers of the commits that edit an upstream file, each with its bytes after all edits so far."""
    names = {edit.id for edit in edits}
    done: set[str] = set()
    for number, commit in enumerate(commits):
        if names.isdisjoint(commit.edits):
            continue
        done |= commit.edits
        result, landings = apply_text(path, data, [edit for edit in edits if edit.id in done])
        bad = [OverlayError(f"after `{commit.subject}`: {f}") for f in landings if not f.ok]
        if bad:
            raise OverlayErrors(bad)
        yield number, result


def _state(file: Path) -> FileState:
    return FileState(file.read_bytes(), bool(file.stat().st_mode & 0o100))
