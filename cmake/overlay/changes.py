# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""docs/changes.md: one section per feature, read for cover letters and checked.

A section begins `## <feature>` and a paragraph whose first sentence, in
asterisks, sums it up. Its parts begin `**Label.**` at the start of a line.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass, field
from pathlib import Path

from .errors import OverlayError

PATH = "docs/changes.md"
REQUIRED = (
    "Problem",
    "Upstream files touched",
    "Alternatives considered",
    "How to get rid of it",
    "Upstream status",
)
_WIDTH = 72
_PART = re.compile(r"^\*\*([A-Z][^*\n]*?)\.?\*\*", re.MULTILINE)
_SUMMARY = re.compile(r"\A\*([^*]+)\*")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_LINK = re.compile(r"\[([^\]]+)\]\([^)\s]+\)")
_STRONG = re.compile(r"(\*\*|\*)(?=\S)([^*\n]+(?:\n[^*\n]+)*)(?<=\S)\1")
_BULLET = re.compile(r"(- |\* |\d+\. )")


@dataclass(frozen=True)
class Section:
    """What docs/changes.md says of a feature, as Markdown: its summary, and each part by its label."""

    feature: str
    summary: str
    parts: dict[str, str] = field(default_factory=dict)

    @property
    def missing(self) -> list[str]:
        """What every section must have and this one lacks."""
        found = [label for label in REQUIRED if not self.parts.get(label, "").strip()]
        return found if self.summary else ["a summary in *asterisks*", *found]


def read(repo: Path) -> dict[str, Section]:
    """All sections by feature; raises OverlayError."""
    try:
        text = (repo / PATH).read_text(encoding="utf-8")
    except OSError as error:
        raise OverlayError(f"{PATH} cannot be read: {error}") from error
    return parse(text)


def parse(text: str) -> dict[str, Section]:
    """The sections of a text, by the heading of each."""
    pieces = re.split(r"^## +(\S.*?) *$", text, flags=re.MULTILINE)
    sections = {}
    for name, body in zip(pieces[1::2], pieces[2::2], strict=True):
        parts = _PART.split(body)
        summary = _SUMMARY.match(parts[0].strip())
        labelled = dict(zip(parts[1::2], (part.strip() for part in parts[2::2]), strict=True))
        sections[name] = Section(name, plain(summary[1]) if summary else "", labelled)
    return sections


def section_of(sections: dict[str, Section], feature: str) -> Section:
    """The complete section of a feature; raises OverlayError naming what is missing."""
    if feature not in sections:
        raise OverlayError(f"{PATH} has no section `## {feature}`")
    if sections[feature].missing:
        raise OverlayError(f"{PATH}, `## {feature}`: missing {', '.join(sections[feature].missing)}")
    return sections[feature]


def plain(markdown: str) -> str:
    """Text for a letter: links, emphasis and tables gone, lines of at most 72 characters."""
    text = _LINK.sub(r"\1", _COMMENT.sub("", markdown))
    text = _STRONG.sub(r"\2", text)
    blocks = []
    for block in re.split(r"\n\s*\n", text.strip("\n")):
        lines = [line for line in block.split("\n") if not line.lstrip().startswith("|")]
        if all(line.startswith("    ") for line in lines):
            blocks.append("\n".join(line.rstrip() for line in lines))
            continue
        items: list[str] = []
        for line in lines:
            if items and not _BULLET.match(line):
                items[-1] += " " + line.strip()
            else:
                items.append(line.strip())
        blocks.append("\n".join(_wrap(item) for item in items))
    return "\n\n".join(block for block in blocks if block.strip())


def _wrap(item: str) -> str:
    bullet = _BULLET.match(item)
    indent = " " * len(bullet[0]) if bullet else ""
    return textwrap.fill(
        item, _WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
