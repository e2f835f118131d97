# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The pages: those of features have one template and the figures that other pages repeat; commands are taken as written."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import click
import pytest
from markdown_it import MarkdownIt

from bench.cli import main as bench
from fuzz.cli import main as fuzz
from overlay import model
from redstart_cli.cli import cli
from redstart_cli.console import HELP
from torture.cli import main as torture

REPO = Path(__file__).resolve().parents[3]
PAGES = [
    REPO / "README.md",
    REPO / "CONTRIBUTING.md",
    *sorted((REPO / "docs").rglob("*.md")),
    *sorted((REPO / "extra").glob("*/README.md")),
]
FEATURES = [feature.name for feature in model.load(REPO).features]
# One that only prepares others has no page.
WITH_PAGE = [name for name in FEATURES if (REPO / f"docs/{name}.md").exists()]
# What a page of a feature has, in this order; it may have more after these.
TEMPLATE = ["What you get", "When to use it", "Variables", "What you see", "Limits", "How it works", "Measured", "Tested"]
# Words that stand for something in a command, and what to try in their place.
FILE = str(Path(__file__))
JSON = ("one", "two", "outage", "start", "crash", "ddl")
STAND_INS = {"P": "1", "N": "16", "NAME": "undo"} | {f"{name}.json": FILE for name in JSON}
STAND_INS |= dict.fromkeys(["D", "DIR", "CHECKOUT", "build/torture/found/NAME"], ".")
# Commands that hand their arguments to programs of their own.
PROGRAMS: dict[str, click.Command] = {"bench": bench, "torture": torture, "fuzz": fuzz}


def headings(text: str) -> list[str]:
    tokens = MarkdownIt("commonmark").parse(text)
    return [inline.content for token, inline in pairwise(tokens) if token.type == "heading_open" and token.tag == "h2"]


def commands(text: str) -> Iterator[str]:
    """What begins ./redstart, in blocks of code and in text."""
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        code = token.content.splitlines() if token.type in ("code_block", "fence") else []
        code += [child.content for child in token.children or [] if child.type == "code_inline"]
        yield from (line.strip() for line in code if line.strip().startswith("./redstart "))


def parse(line: str) -> None:
    """Read a command line as the program would, and do nothing; raises ClickException."""
    plain = re.sub(r"\[(\w+)(?:\|\w+)+\]|\[(-- \w+)\]", r"\1\2", line)
    words = [STAND_INS.get(word, word) for word in shlex.split(plain, comments=True)[1:] if word != "--help"]
    command: click.Command = cli
    while isinstance(command, click.Group):
        if not words:
            return
        found = command.get_command(click.Context(command), words[0])
        if found is None:
            raise click.UsageError(f"no such command: {words[0]}")
        command, words = PROGRAMS.get(words[0], found), words[1:]
        if isinstance(command, click.Group) and command.chain:
            _parse_chain(command, words)
            return
    command.make_context("redstart", words, parent=click.Context(cli, **HELP))


def _parse_chain(group: click.Group, words: list[str]) -> None:
    context = group.make_context("redstart", words, parent=click.Context(cli, **HELP))
    words = [*context._protected_args, *context.args]
    while words:
        name, command, words = group.resolve_command(context, words)
        assert command is not None
        words = command.make_context(name, words, parent=context, allow_extra_args=True, allow_interspersed_args=False).args


@pytest.mark.parametrize("feature", WITH_PAGE)
def test_a_page_of_a_feature_has_the_headings_of_all(feature: str) -> None:
    text = (REPO / f"docs/{feature}.md").read_text(encoding="utf-8")
    assert headings(text)[: len(TEMPLATE)] == TEMPLATE
    assert f"`{feature}`" in text


def test_readme_lists_each_feature() -> None:
    rows = re.findall(r"^\| \[([\w-]+)\]\(docs/([\w-]+)\.md\) \|", (REPO / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(rows) == sorted((name, name) for name in WITH_PAGE)


@pytest.mark.parametrize("feature", FEATURES)
def test_reviewers_are_told_of_each_feature(feature: str) -> None:
    text = (REPO / "docs/for-reviewers.md").read_text(encoding="utf-8")
    assert feature in headings(text)
    section = text.split(f"\n## {feature}\n")[1].split("\n## ")[0]
    gains = re.search(r"^\| what \|.*\n\|[-:|]+\|\n\| ", section, re.MULTILINE) or "visibility, not speed" in section
    assert gains if feature in WITH_PAGE else "It changes nothing" in section
    assert "Look first at: " in section and ("MTR: " in section or "GoogleTest: " in section)


NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")


def missing_figures(table: str, page: str) -> list[str]:
    """Figures of the second to fourth column that no figure of the page gives, rounded to as many digits."""
    known = [float(number.replace(",", "")) for number in NUMBER.findall(page)]
    found = []
    for row in re.findall(r"^\|.*\|$", table, re.MULTILINE):
        for cell in [cell.strip() for cell in row.strip("|").split("|")][1:3]:
            if match := re.fullmatch(rf"({NUMBER.pattern})(?: (?:s|MiB))?", cell):
                digits = len(match[1].partition(".")[2])
                if float(match[1].replace(",", "")) not in {round(number, digits) for number in known}:
                    found.append(f"{row}: {cell}")
    return found


def test_figures_of_the_readme_are_those_of_the_pages() -> None:
    text = (REPO / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\|.*\|$", text.split("\n## Measured\n")[1].split("\n## ")[0], re.MULTILINE)[2:]
    page, seen = "", set()
    for row in rows:
        if link := re.search(r"\((docs/[\w-]+\.md)", row):
            page = (REPO / link[1]).read_text(encoding="utf-8")
            seen.add(link[1])
        assert missing_figures(row, page) == []
    assert len(rows) >= 8 and len(seen) >= 4


@pytest.mark.parametrize("feature", WITH_PAGE)
def test_figures_for_reviewers_are_those_of_the_page(feature: str) -> None:
    text = (REPO / "docs/for-reviewers.md").read_text(encoding="utf-8")
    section = text.split(f"\n## {feature}\n")[1].split("\n## ")[0]
    assert missing_figures(section, (REPO / f"docs/{feature}.md").read_text(encoding="utf-8")) == []


def test_a_figure_that_disagrees_is_found() -> None:
    row = "| a start | 7.4 s | 4.6 s | [a](a.md) |"
    assert missing_figures(row, "It took 7.41 s and 4.62 s.") == []
    assert missing_figures(row, "It took 7.41 s and 4.8 s.") == [f"{row}: 4.6 s"]
    assert missing_figures("| reads | 34,311 | 615 |", "34,311 and 615") == []


def test_readme_is_short() -> None:
    assert len((REPO / "README.md").read_text(encoding="utf-8").splitlines()) <= 150


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(REPO).as_posix())
def test_commands_of_a_page_are_taken(page: Path) -> None:
    for line in commands(page.read_text(encoding="utf-8")):
        try:
            parse(line)
        except click.ClickException as error:
            pytest.fail(f"{line}: {error.format_message()}")


def test_there_are_commands() -> None:
    assert sum(len(list(commands(page.read_text(encoding="utf-8")))) for page in PAGES) > 100


WRONG = ["./redstart no-such-command", "./redstart bench undo --no-such-option", "./redstart bench undo --rows many"]


@pytest.mark.parametrize("line", WRONG)
def test_a_wrong_command_is_found(line: str) -> None:
    assert list(commands(f"    {line}\n\nOr `{line}`.\n")) == [line, line]
    with pytest.raises(click.ClickException):
        parse(line)
