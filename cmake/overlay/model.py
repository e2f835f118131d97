# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""What the repository says: features, edits and own files, read and validated."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from . import schema, yamlfile
from .errors import OverlayError, OverlayErrors
from .ops import OPERATIONS

EDIT_SUFFIX = ".edit.yaml"
_CONFIG = "cmake/overlay.yaml"
_SERIES = "cmake/series.yaml"

_GLOBS = {"type": "array", "items": {"type": "string", "minLength": 1}}
_CONFIG_SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": ["roots", "exclude", "ignore"],
    "properties": {"roots": _GLOBS, "exclude": _GLOBS, "ignore": _GLOBS},
}
_FEATURE_SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": ["name", "title", "bugs", "upstreamable", "files"],
    "properties": {
        "name": {"type": "string", "pattern": r"\A[a-z0-9]+(-[a-z0-9]+)*\Z"},
        "title": {"type": "string", "minLength": 8, "maxLength": 72},
        "bugs": {"type": "array", "items": {"type": "integer", "minimum": 1}},
        "upstreamable": {"type": "boolean"},
        "files": _GLOBS,
        "commits": {"type": "array", "minItems": 1, "items": {"type": "object"}},
    },
}
_COMMIT_SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": ["subject", "why"],
    "properties": {
        "subject": {"type": "string", "minLength": 8, "maxLength": 72},
        "why": {"type": "string", "minLength": 20},
        "files": _GLOBS | {"minItems": 1},
        "edits": _GLOBS | {"minItems": 1},
    },
}

@dataclass(frozen=True)
class CommitSpec:
    """One patch of a feature as cmake/series.yaml declares it.

    files: globs of own files, and of upstream files with all their edits.
    edits: globs of edit ids. The last patch has neither: it takes the rest.
    """

    subject: str
    why: str
    files: list[str] = field(default_factory=list)
    edits: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Feature:
    """A feature of the series: its edits and files are one contribution.

    order: its place in cmake/series.yaml, from 0.
    files: globs of the own files that belong to it.
    commits: how it is split into patches; [] is one patch with all of it.
    """

    name: str
    title: str
    bugs: list[int]
    upstreamable: bool
    files: list[str]
    order: int
    commits: list[CommitSpec] = field(default_factory=list)


@dataclass(frozen=True)
class Edit:
    """One edit of one upstream file.

    path: the upstream file. place: file:line of the edit itself.
    order: (place of its feature in the series, place in its file).
    elsewhere: other targets in other versions (see `at`).
    """

    id: str
    feature: str
    why: str
    op: str
    inputs: dict[str, Any]
    count: int
    path: str
    place: str
    order: tuple[int, int]
    elsewhere: list[dict[str, Any]] = field(default_factory=list)

    def at(self, version: str) -> Edit:
        """The edit with the target it has in a version: the first of `elsewhere` that is for it."""
        for other in self.elsewhere:
            if all(_holds(constraint, version) for constraint in other["versions"]):
                inputs = {k: v for k, v in other.items() if k not in ("versions", "file")}
                path = other.get("file", self.path)
                return replace(self, path=path, inputs=self.inputs | inputs, elsewhere=[])
        return self


@dataclass(frozen=True)
class Overlay:
    """All that the repository lays over upstream.

    edits: in the order of series, path and file. own_files: path to feature.
    """

    repo: Path
    features: list[Feature]
    edits: list[Edit]
    own_files: dict[str, str] = field(default_factory=dict)

    def chosen(self, names: list[str] | None) -> set[str]:
        """Feature names to apply; None is all. Raises OverlayError on unknown ones."""
        known = [feature.name for feature in self.features]
        for name in names or []:
            if name not in known:
                raise OverlayError(f"no feature `{name}`: there are {', '.join(known)}")
        return set(known if names is None else names)


def glob_pattern(glob: str) -> re.Pattern[str]:
    """A glob as a regular expression: `*` stays in a directory, `**/` crosses them."""
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", glob)
    wild = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return re.compile("".join(wild.get(part, re.escape(part)) for part in parts) + r"\Z")


class Globs:
    """A list of globs to match paths against."""

    def __init__(self, globs: list[str]):
        self._patterns = [glob_pattern(glob) for glob in globs]

    def match(self, path: str) -> bool:
        """Whether any of the globs matches the whole path."""
        return any(pattern.match(path) for pattern in self._patterns)


def our_files(repo: Path) -> list[str]:
    """Paths of all files of the repository, ignored ones left out."""
    return _walk(repo, "", Globs(_load_config(repo)["ignore"]))


def load(repo: Path) -> Overlay:
    """Read and validate the whole overlay; raises OverlayError(s)."""
    config = _load_config(repo)
    features = _load_series(repo)
    own_files = _own_files(repo, config, features)
    edits: list[Edit] = []
    errors: list[OverlayError] = []
    for path in _walk(repo, "", Globs(config["ignore"])):
        if path.endswith(EDIT_SUFFIX):
            try:
                edits += _load_edits(repo, path, features)
            except OverlayError as error:
                errors.append(error)
    seen: dict[str, str] = {}
    for edit in edits:
        if edit.id in seen:
            errors.append(OverlayError(f"{edit.place}: id `{edit.id}` is taken at {seen[edit.id]}"))
        seen.setdefault(edit.id, edit.place)
    if errors:
        raise OverlayErrors(errors)
    edits.sort(key=lambda edit: (edit.order[0], edit.path, edit.order[1]))
    return Overlay(repo, features, edits, own_files)


def parse_edits(document: yamlfile.Document, path: str, features: list[Feature]) -> list[Edit]:
    """Edits of one document for the upstream file `path`; raises OverlayError."""
    if not isinstance(document.value, list) or not document.value:
        raise document.error((), "not a list of edits")
    orders = {feature.name: feature.order for feature in features}
    edits = []
    for index, item in enumerate(document.value):
        document.validate(schema.EDIT, (index,))
        if item["feature"] not in orders:
            raise document.error((index, "feature"), f"`{item['feature']}` is not in {_SERIES}")
        edits.append(
            Edit(
                id=item["id"],
                feature=item["feature"],
                why=item["why"],
                op=item["op"],
                inputs={key: item[key] for key in OPERATIONS[item["op"]].properties if key in item},
                count=item.get("count", 1),
                path=path,
                place=f"{document.name}:{document.lines[(index,)]}",
                order=(orders[item["feature"]], index),
                elsewhere=item.get("elsewhere", []),
            )
        )
    return edits


def _load_config(repo: Path) -> dict[str, Any]:
    config = yamlfile.load(repo / _CONFIG, _CONFIG)
    config.validate(_CONFIG_SCHEMA)
    return dict(config.value)


def _load_edits(repo: Path, name: str, features: list[Feature]) -> list[Edit]:
    return parse_edits(yamlfile.load(repo / name, name), name.removesuffix(EDIT_SUFFIX), features)


def _load_series(repo: Path) -> list[Feature]:
    document = yamlfile.load(repo / _SERIES, _SERIES)
    if not isinstance(document.value, list):
        raise document.error((), "not a list of features")
    features: list[Feature] = []
    for order, item in enumerate(document.value):
        document.validate(_FEATURE_SCHEMA, (order,))
        if any(feature.name == item["name"] for feature in features):
            raise document.error((order, "name"), f"feature `{item['name']}` stands twice")
        commits = _load_commits(document, (order, "commits"), item.get("commits", []))
        features.append(Feature(**item | {"commits": commits}, order=order))
    return features


def _load_commits(
    document: yamlfile.Document, where: yamlfile.Where, items: list[Any]
) -> list[CommitSpec]:
    for index, item in enumerate(items):
        document.validate(_COMMIT_SCHEMA, (*where, index))
        chooses = "files" in item or "edits" in item
        if index < len(items) - 1 and not chooses:
            raise document.error((*where, index), "`files` or `edits` must say what belongs to it")
        if index == len(items) - 1 and chooses:
            raise document.error(
                (*where, index), "the last commit takes the rest: no `files`, no `edits`"
            )
    return [CommitSpec(**item) for item in items]


def _own_files(repo: Path, config: dict[str, Any], features: list[Feature]) -> dict[str, str]:
    """Own files under the roots, with the one feature each belongs to."""
    exclude = Globs([*config["exclude"], *config["ignore"], "**/*" + EDIT_SUFFIX])
    owners = [(feature.name, Globs(feature.files)) for feature in features]
    own: dict[str, str] = {}
    errors: list[OverlayError] = []
    for root in config["roots"]:
        for path in _walk(repo, root, exclude):
            names = [name for name, globs in owners if globs.match(path)]
            if len(names) == 1:
                own[path] = names[0]
            else:
                who = f"several features: {', '.join(names)}" if names else "no feature"
                errors.append(OverlayError(f"{path}: belongs to {who} (`files` in {_SERIES})"))
    if errors:
        raise OverlayErrors(errors)
    return own


def _walk(repo: Path, root: str, exclude: Globs) -> list[str]:
    """Paths, relative to repo and sorted, of the files under a directory."""
    found = []
    for directory, names, files in os.walk(repo / root):
        base = os.path.relpath(directory, repo)
        base = "" if base == "." else base + "/"
        names[:] = [name for name in names if not exclude.match(base + name + "/")]
        found += [base + name for name in files if not exclude.match(base + name)]
    return sorted(found)


def _holds(constraint: str, version: str) -> bool:
    match = re.match(schema.CONSTRAINT, constraint)
    assert match is not None  # the schema saw to it
    left, right = _numbers(version), _numbers(match[2])
    return {
        ">=": left >= right,
        "<=": left <= right,
        "==": left == right,
        "!=": left != right,
        ">": left > right,
        "<": left < right,
    }[match[1]]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
