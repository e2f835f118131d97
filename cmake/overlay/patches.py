# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The series of patches to contribute, made and checked in memory, then written."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from . import changes, letters, model
from .errors import OverlayError, OverlayErrors
from .formatting import find_tool, first_unformatted, is_formatted
from .git import Git, added_lines, commits_of, format_patches
from .series import Series, make_series

# The code is meant for upstream: no word of where it comes from.
_FORK_NAME = re.compile(rb"redstart", re.IGNORECASE)


@dataclass
class Patches:
    """A series and the files to write, by path.

    formatting: how it was checked. notes: what could not be done.
    """

    series: Series
    files: dict[str, bytes] = field(default_factory=dict)
    formatting: str = ""
    notes: list[str] = field(default_factory=list)

    def of(self, feature: str) -> list[bytes]:
        """The patches of a feature in order, without its cover letter."""
        return [
            data
            for path, data in sorted(self.files.items())
            if path.startswith(f"{_folder(self.series, feature)}/")
            and path.endswith(".patch")
            and not path.endswith("/0000-cover-letter.patch")
        ]


def _folder(series: Series, feature: str) -> str:
    names = [found.name for found in series.features()]
    return f"{names.index(feature) + 1:02}-{feature}"


def make_patches(
    repo: Path, upstream: Path, version: str, features: list[str] | None = None
) -> Patches:
    """The patches of all features, or of some, on an upstream version.

    A feature's patches apply on those of all features before it. Raises
    OverlayError when anything is not fit to be sent.
    """
    overlay = model.load(repo)
    chosen = overlay.chosen(features)
    patches = Patches(make_series(overlay, upstream, version))
    series = patches.series
    sections = changes.read(repo)
    texts = {f.name: changes.section_of(sections, f.name) for f in series.features()}
    messages = [
        letters.message(step.commit, texts[step.commit.feature.name]) for step in series.steps
    ]
    with commits_of(series, messages) as (git, names):
        _check_format(git, names, patches, upstream)
        done = 0
        for feature in series.features():
            steps = series.of(feature.name)
            begin, done = done, done + len(steps)
            if feature.name not in chosen:
                continue
            folder = _folder(series, feature.name)
            for name, data in format_patches(git, names[begin], names[done]).items():
                if name == "0000-cover-letter.patch":
                    data = letters.cover(data, feature, texts[feature.name])
                patches.files[f"{folder}/{name}"] = data
            request = letters.pull_request(upstream, feature, texts[feature.name], steps)
            if request:
                patches.files[f"{folder}/pull-request.md"] = request.encode("utf-8")
        blobs = git.run("ls-tree", "-r", "--format=    %(objectname) %(path)", names[0]).decode()
    if not any(path.endswith("/pull-request.md") for path in patches.files):
        patches.notes.append(f"MySQL {version} has no pull-request template; none was filled in")
    listed = [p for p in sorted(patches.files) if p.endswith(".patch") and "/0000-" not in p]
    patches.files["series"] = "".join(f"{path}\n" for path in listed).encode("utf-8")
    readme = letters.README.format(version=version, blobs=blobs)
    patches.files["README"] = readme.encode("utf-8")
    _check_fork_name(patches.files)
    return patches


def _check_fork_name(files: dict[str, bytes]) -> None:
    errors = []
    for path, data in sorted(files.items()):
        for number, line in enumerate(data.split(b"\n"), 1):
            if _FORK_NAME.search(line):
                shown = line.decode("utf-8", "replace").strip()
                errors.append(OverlayError(f"{path}:{number}: names this fork: {shown}"))
    if errors:
        raise OverlayErrors(errors)


def _check_format(git: Git, names: list[str], patches: Patches, upstream: Path) -> None:
    """Check all added lines of C++ by upstream's .clang-format; raises OverlayErrors."""
    tool, style = find_tool(), upstream / ".clang-format"
    if tool is None or not style.is_file():
        why = f"{style} is missing" if tool else "no clang-format (Debian: clang-format-15)"
        patches.notes.append(f"the formatting was NOT checked: {why}")
        return
    errors = []
    for path, state in patches.series.after(len(patches.series.steps)).items():
        if is_formatted(path):
            runs = added_lines(git, names[0], names[-1], path)
            line = first_unformatted(tool, style, path, state.data, runs)
            if line is not None:
                errors.append(OverlayError(f"{path}:{line}: not as clang-format writes it"))
    if errors:
        raise OverlayErrors(errors)
    patches.formatting = f"the added lines are formatted as {Path(tool).name} does it"


def write_patches(patches: Patches, folder: Path) -> None:
    """Write all files into a new or empty directory; raises OverlayError, overwrites nothing."""
    require_empty(folder)
    written: list[Path] = []
    made = not folder.exists()
    try:
        for path, data in patches.files.items():
            file = folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("xb") as out:
                written.append(file)
                out.write(data)
    except OSError as error:
        for file in written:
            file.unlink(missing_ok=True)
        for parent in sorted({file.parent for file in written} - {folder}):
            parent.rmdir()
        if made and folder.is_dir():
            folder.rmdir()
        raise OverlayError(f"{folder} cannot be written: {error}") from error


def require_empty(folder: Path) -> None:
    """Raise OverlayError unless a directory can be made or is empty."""
    try:
        if folder.is_symlink() or folder.exists():
            if not folder.is_dir():
                raise OverlayError(f"{folder} is not a directory")
            if any(folder.iterdir()):
                raise OverlayError(f"{folder} holds files; name a new or an empty directory")
    except OSError as error:
        raise OverlayError(f"{folder} cannot be read: {error}") from error
