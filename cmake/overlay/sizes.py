# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""How large each feature is, what it may be, and where the docs say so.

cmake/budget.yaml is the limit. The table in README.md and the diffstats in
docs/changes.md are generated from the series and stand between comments.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from . import changes, model, texts, yamlfile
from .errors import OverlayError
from .git import commits_of, diffstat
from .series import make_series

_BUDGET = texts.BUDGET
_README = "README.md"
_COMMAND = "python -m overlay sizes --write"
_LIMITS = ("edit_lines", "upstream_files", "own_lines")
_LIMIT_SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "properties": {name: {"type": "integer", "minimum": 0} for name in _LIMITS},
}
_BUDGET_SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": ["total", "edit", "each", "features"],
    "properties": {
        "total": {
            "type": "object",
            "additionalProperties": False,
            "required": ["edit_lines"],
            "properties": {"edit_lines": {"type": "integer", "minimum": 0}},
        },
        "edit": texts.SCHEMA,
        "each": _LIMIT_SCHEMA | {"required": list(_LIMITS)},
        "features": {"type": "object", "additionalProperties": _LIMIT_SCHEMA},
    },
}


@dataclass
class Size:
    """A feature in lines added. upstream: lines by upstream file."""

    feature: str
    upstream: dict[str, int] = field(default_factory=dict)
    own_lines: int = 0
    test_lines: int = 0

    @property
    def edit_lines(self) -> int:
        return sum(self.upstream.values())

    @property
    def upstream_files(self) -> int:
        return len(self.upstream)


def measure(repo: Path, upstream: Path, version: str) -> list[Size]:
    """The size of each feature on an upstream version."""
    series = make_series(model.load(repo), upstream, version)
    sizes = []
    with commits_of(series, [step.commit.subject for step in series.steps]) as (git, names):
        done = 0
        for feature in series.features():
            begin, done = done, done + len(series.of(feature.name))
            size = Size(feature.name)
            for path, added, _ in diffstat(git, names[begin], names[done], []):
                if path in series.base:
                    size.upstream[path] = added
                elif path.startswith(("mysql-test/", "unittest/")):
                    size.test_lines += added
                else:
                    size.own_lines += added
            sizes.append(size)
    return sizes


def over_budget(repo: Path, sizes: list[Size]) -> list[str]:
    """What is larger than cmake/budget.yaml allows, one line each."""
    document = yamlfile.load(repo / _BUDGET, _BUDGET)
    document.validate(_BUDGET_SCHEMA)
    own = document.value["features"]
    known = {size.feature for size in sizes}
    found = [f"{_BUDGET}: no feature `{name}`" for name in own if name not in known]
    for size in sizes:
        limits = document.value["each"] | own.get(size.feature, {})
        for name in _LIMITS:
            if getattr(size, name) > limits[name]:
                found.append(
                    f"{size.feature}: {name} is {getattr(size, name)}, "
                    f"{_BUDGET} allows {limits[name]}"
                )
    total, most = sum(size.edit_lines for size in sizes), document.value["total"]["edit_lines"]
    if total > most:
        found.append(f"all features: edit_lines is {total}, {_BUDGET} allows {most}")
    return found


def documents(repo: Path, sizes: list[Size]) -> dict[str, str]:
    """The documents with the figures as they are now, by path; raises OverlayError."""
    readme = (repo / _README).read_text(encoding="utf-8")
    log = (repo / changes.PATH).read_text(encoding="utf-8")
    for size in sizes:
        log = _put_diffstat(log, size)
    return {_README: _put(readme, "sizes", _table(sizes), _README), changes.PATH: log}


def outdated(repo: Path, sizes: list[Size]) -> list[str]:
    """Documents whose generated figures are not as they are now."""
    return [
        f"{path}: its figures are not current ({_COMMAND})"
        for path, text in documents(repo, sizes).items()
        if (repo / path).read_text(encoding="utf-8") != text
    ]


def _table(sizes: list[Size]) -> str:
    lines = [
        "| feature | lines of edits | upstream files | lines of own code |",
        "|---|---:|---:|---:|",
    ]
    for size in sizes:
        lines.append(
            f"| {size.feature} | {size.edit_lines} | {size.upstream_files} | {size.own_lines} |"
        )
    files = len({path for size in sizes for path in size.upstream})
    lines.append(
        f"| all | {sum(s.edit_lines for s in sizes)} | {files} | {sum(s.own_lines for s in sizes)} |"
    )
    return "\n".join(lines)


def _stat(size: Size) -> str:
    width = max(map(len, size.upstream), default=0)
    lines = [f"    {path:{width}} | {count:4} +" for path, count in sorted(size.upstream.items())]
    total = f"    {size.upstream_files} upstream files, {size.edit_lines} lines inserted"
    return "\n".join([*lines, f"{total}; {size.own_lines} lines of own code"])


def _put(text: str, name: str, block: str, where: str) -> str:
    """Text with the generated block of a name replaced."""
    mark = re.escape(name)
    pattern = re.compile(rf"(<!-- {mark}: [^\n]*-->\n).*?(<!-- /{mark} -->)", re.DOTALL)
    if len(pattern.findall(text)) != 1:
        raise OverlayError(f"{where}: needs one `<!-- {name}: ... -->` and one `<!-- /{name} -->`")
    return pattern.sub(lambda match: f"{match[1]}\n{block}\n\n{match[2]}", text)


def _put_diffstat(text: str, size: Size) -> str:
    """docs/changes.md with the diffstat of a feature; put in where there was none."""
    name = f"diffstat {size.feature}"
    if f"<!-- {name}:" not in text:
        part = re.search(
            rf"^## +{re.escape(size.feature)} *\n(?:(?!^## ).*\n)*?(?=\*\*Alternatives considered)",
            text,
            re.MULTILINE,
        )
        if part is None:
            raise OverlayError(
                f"{changes.PATH}: no `## {size.feature}` with **Alternatives considered.**"
            )
        mark = f"<!-- {name}: generated by {_COMMAND} -->\n<!-- /{name} -->\n\n"
        text = text[: part.end()] + mark + text[part.end() :]
    return _put(text, name, _stat(size), changes.PATH)
