# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Command line of the overlay engine: `python -m overlay COMMAND --help`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from . import golden, model, moved, schema, sizes, texts
from .copied import RUN_LINES, find_copies
from .errors import OverlayError
from .plan import survey, upstream_version
from .tree import apply

_DIRECTORY = click.Path(exists=True, file_okay=False, path_type=Path)


def _options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options that all commands share."""
    function = click.option("--upstream", type=_DIRECTORY, required=True)(function)
    return click.option("--repo", type=_DIRECTORY, required=True)(function)


@click.group(help=__doc__)
def main() -> None:
    pass


@main.command(name="apply")
@_options
@click.option("--dest", type=click.Path(path_type=Path), required=True)
@click.option("--version", required=True)
@click.option("--feature", "features", multiple=True, help="Only these features.")
@click.option("--json", "as_json", is_flag=True)
def apply_command(
    repo: Path, upstream: Path, dest: Path, version: str, features: tuple[str, ...], as_json: bool
) -> None:
    """Make or update the source tree DEST."""
    report = apply(repo, upstream, dest, version, list(features) or None)
    click.echo(report.as_json() if as_json else str(report))


@main.command()
@_options
@click.option("--version", help="Default: what the upstream tree says.")
@click.option("--json", "as_json", is_flag=True)
def check(repo: Path, upstream: Path, version: str | None, as_json: bool) -> None:
    """Say where each edit lands, or why not."""
    version = version or upstream_version(upstream)
    loaded = model.load(repo)
    plan = survey(loaded, upstream, version)
    landings = plan.landings
    edits = {edit.id: edit.at(version) for edit in loaded.edits}
    hints = {f.id: moved.hints(upstream, edits[f.id]) for f in landings if not f.ok}
    if as_json:
        rows = [asdict(f) | {"ok": f.ok, "hints": hints.get(f.id, [])} for f in landings]
        click.echo(json.dumps(rows, indent=1))
    else:
        for found in landings:
            click.echo(str(found))
            for hint in hints.get(found.id, []):
                click.echo(f"  {hint}")
        for path in plan.conflicts:
            click.echo(f"{path}: upstream has a file of this path")
        good = sum(found.ok for found in landings)
        click.echo(f"{good} of {len(landings)} edits land in {version}")
    if plan.problems:
        sys.exit(1)


@main.command(name="golden")
@_options
@click.option("--version", required=True)
@click.option("--write", is_flag=True, help="Write the record instead of comparing with it.")
def golden_command(repo: Path, upstream: Path, version: str, write: bool) -> None:
    """Compare with the golden record of VERSION."""
    if write:
        click.echo(f"{golden.write(repo, upstream, version)} written")
        return
    differences = golden.differences(repo, upstream, version)
    for difference in differences:
        click.echo(difference)
    click.echo(f"{len(differences)} differences from the golden record of {version}")
    if differences:
        sys.exit(1)


@main.command(name="sizes")
@_options
@click.option("--write", is_flag=True, help="Write the figures into README.md and docs/changes.md.")
def sizes_command(repo: Path, upstream: Path, write: bool) -> None:
    """Measure the features and look at the lines of edits; compare with cmake/budget.yaml and the docs."""
    version = upstream_version(upstream)
    found = sizes.measure(repo, upstream, version)
    for size in found:
        click.echo(
            f"{size.feature}: {size.edit_lines} lines in {size.upstream_files} upstream files, "
            f"{size.own_lines} lines of own code, {size.test_lines} lines of tests"
        )
    if write:
        for path, text in sizes.documents(repo, found).items():
            (repo / path).write_text(text, encoding="utf-8")
    problems = sizes.over_budget(repo, found) + sizes.outdated(repo, found) + texts.faults(repo, upstream, version)
    for problem in problems:
        click.echo(problem)
    if problems:
        sys.exit(1)


@main.command(name="schema")
def schema_command() -> None:
    """Print the JSON schema of edit files, which cmake/overlay/edit.schema.json holds."""
    click.echo(schema.text(), nl=False)


@main.command(name="copied")
@_options
def copied_command(repo: Path, upstream: Path) -> None:
    """Look for upstream text in our files."""
    copies = find_copies(repo, upstream)
    for copy in copies:
        click.echo(str(copy))
    click.echo(f"{len(copies)} copied runs of {RUN_LINES} or more lines")
    if copies:
        sys.exit(1)


if __name__ == "__main__":
    try:
        main()
    except OverlayError as error:
        click.echo(f"overlay: {error}", err=True)
        sys.exit(1)
