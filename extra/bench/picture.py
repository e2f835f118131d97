# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The picture of the README: what users wait for, as bars, from the documents of the bench that are published."""

from __future__ import annotations

import html
import math
import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from bench import results
from bench.layout import REPOSITORY
from bench.plots import as_svg
from bench.report import LAYOUTS
from bench.results import Document, Run
from redstart_cli.tools import ToolError

FIGURES = REPOSITORY / "docs/figures"
IMAGES = REPOSITORY / "docs/images"
# Subjects that are shown, from top to bottom, and their names.
NAMES = {
    "stock": "MySQL",
    "mariadb": "MariaDB",
    "off": "Redstart, all off",
    "defaults": "Redstart",
    "all-on": "Redstart, all on",
}
OURS = {"defaults", "all-on"}
NOT_REACHED = "not reached"
WIDTH_IN = 8.0
BAR_IN = 0.27
GAP_IN = 0.42
# Options of a call that say where its output goes, and where the server lies.
_OUTPUT = ("--json", "--markdown", "--html", "--mysqld")
_PATH = re.compile(r"(?<![\w./])(?:/[\w.+#@-]+)*/([\w.+#@-]+)")


@dataclass(frozen=True)
class Theme:
    """Colours for a background."""

    text: str
    colors: dict[str, str]


THEMES = {
    "light": Theme(
        "#24292f",
        {"stock": "#8c959f", "mariadb": "#c4cad1", "off": "#9cc3d8", "defaults": "#0a6d9e", "all-on": "#064a6c"},
    ),
    "dark": Theme(
        "#e6edf3",
        {"stock": "#848d97", "mariadb": "#555e68", "off": "#2c6b8a", "defaults": "#4db4e6", "all-on": "#9bd8f8"},
    ),
}


@dataclass(frozen=True)
class Panel:
    """A thing that was waited for: its title, and medians in seconds by subject; None for what most runs did not reach."""

    title: str
    seconds: dict[str, float | None]


@dataclass(frozen=True)
class Kind:
    """Panels that an experiment can have.

    The runs with the largest `size` are shown, a tuple of parameters; a minus is for smallest. In `title` the braces are
    parameters, or the mode. Only of runs of this `mode`, and that have the parameter `given`, if there are such words.
    """

    experiment: str
    metric: str
    size: tuple[str, ...]
    title: str
    mode: str = ""
    given: str = ""
    may_miss: bool = False

    def size_of(self, run: Run) -> tuple[float, ...]:
        """By which runs are chosen."""
        return tuple(-_number(run, name[1:]) if name[0] == "-" else _number(run, name) for name in self.size)

    def title_of(self, run: Run) -> str:
        """With the parameters of a run."""
        names = re.findall(r"{(\w+)}", self.title)
        return self.title.format(**{name: run.mode if name == "mode" else f"{_number(run, name):,}" for name in names})


_OUTAGE = ("tables", "redo_mib", "binlog_mib")
_START = ("tables", "-schemas")
# From top to bottom.
KINDS = (
    Kind("outage", "first_query_s", _OUTAGE, "busy server killed, {tables} tables: first query answered"),
    Kind("outage", "tables_answered_s", _OUTAGE, "busy server killed, {tables} tables: {tables_queried} of them answered"),
    Kind("outage", "load_back_s", _OUTAGE, "busy server killed, {tables} tables: 90 % of the load is back", may_miss=True),
    Kind("startup", "ready_s", _START, "start after kill -9, {tables} tables", mode="crash"),
    Kind("startup", "ready_s", _START, "start, {tables} tables", mode="cold"),
    Kind("redo", "ready_s", ("redo_mib",), "start after kill -9, {redo_mib} MiB of redo", given="redo_mib"),
    Kind("redo", "ready_s", ("seconds",), "start after kill -9, redo of {seconds} s", given="seconds"),
    Kind("ddl", "alter_s", ("rows", "-buffer_mib"), "index build ({mode}), {rows} rows, buffer of {buffer_mib} MiB"),
)


def _number(run: Run, name: str) -> float:
    value = run.parameters.get(name)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ToolError(f"{run.experiment}, {run.subject}, round {run.round}: {name} is {value!r}, not a number")
    return value


def panels(documents: Sequence[Document]) -> list[Panel]:
    """One for each kind of run that has MySQL and Redstart: of several sizes the largest, with the smallest buffer.

    ToolError if a document has none, or two have the same.
    """
    if not documents:
        raise ToolError("there are no results to be drawn")
    found = [(number, panel) for kind in KINDS for number, document in enumerate(documents) for panel in _panels(document, kind)]
    for number, document in enumerate(documents):
        if number not in {place for place, _ in found}:
            raise ToolError(
                f"{' '.join(document.command_line)}: no panel has good runs of both MySQL (stock) and Redstart (defaults or all-on)"
            )
    titles = [panel.title for _, panel in found]
    for title in titles:
        if titles.count(title) > 1:
            raise ToolError(f"there are two results for: {title}")
    return [panel for _, panel in found]


def _panels(document: Document, kind: Kind) -> list[Panel]:
    runs = [
        run
        for run in document.runs
        if run.ok
        and run.experiment == kind.experiment
        and kind.mode in ("", run.mode)
        and (not kind.given or kind.given in run.parameters)
    ]
    made = []
    for mode in dict.fromkeys(run.mode for run in runs):
        chosen = [run for run in runs if run.mode == mode]
        largest = max(map(kind.size_of, chosen))
        shown = [run for run in chosen if kind.size_of(run) == largest]
        # MariaDB builds an index with one thread.
        shown = [run for run in shown if _threads(run) == max(_threads(other) for other in shown if other.subject == run.subject)]
        by_subject = {name: [run for run in shown if run.subject == name] for name in NAMES}
        seconds = {name: _median(some, kind) for name, some in by_subject.items() if some}
        if "stock" in seconds and OURS & seconds.keys() and any(value is not None for value in seconds.values()):
            made.append(Panel(f"{kind.title_of(shown[0])}, {document.profile['name']}", seconds))
    return made


def _threads(run: Run) -> int:
    return int(_number(run, "threads")) if run.experiment == "ddl" else 0


def _median(runs: Sequence[Run], kind: Kind) -> float | None:
    """Of all runs; what a run did not reach is later than all figures."""
    values = [run.metrics.get(kind.metric, math.inf) for run in runs]
    for run, value in zip(runs, values, strict=True):
        if not value > 0 or (math.isinf(value) and (not kind.may_miss or kind.metric in run.metrics)):
            said = run.metrics.get(kind.metric, "no figure")
            raise ToolError(f"{run.experiment}, {run.subject}, round {run.round}: {kind.metric} is {said}")
    median = statistics.median(values)
    return None if math.isinf(median) else median


def in_seconds(value: float | None) -> str:
    """A figure as it is written at its bar."""
    return NOT_REACHED if value is None else f"{value:,.{2 if value < 10 else 1}f} s"


def describe(shown: Sequence[Panel]) -> str:
    """All figures in words, for those who do not see the bars."""
    return " ".join(
        f"{panel.title}: {', '.join(f'{NAMES[name]} {in_seconds(value)}' for name, value in panel.seconds.items())}."
        for panel in shown
    )


def draw(shown: Sequence[Panel], theme: Theme) -> str:
    """SVG text: a group of bars for each panel, each with its own scale and its figures in seconds."""
    counts = [len(panel.seconds) for panel in shown]
    figure = Figure(figsize=(WIDTH_IN, BAR_IN * sum(counts) + GAP_IN * (len(shown) - 1)))
    figure.patch.set_alpha(0)
    # The gap is given as a share of the mean height; what is outside of the bars is added by `as_svg`.
    places = {"height_ratios": counts, "hspace": GAP_IN / BAR_IN / statistics.mean(counts), "top": 1, "bottom": 0}
    grid = figure.subplots(len(shown), 1, squeeze=False, gridspec_kw=places)
    for number, (axes, panel) in enumerate(zip(grid[:, 0], shown, strict=True)):
        most = max(value for value in panel.seconds.values() if value is not None)
        for place, (name, value) in enumerate(panel.seconds.items()):
            (bar,) = axes.barh(place, value or 0, color=theme.colors[name], height=0.72)
            bar.set_gid(f"bar-{number}-{name}")
            weight = "bold" if name in OURS else "normal"
            axes.text(
                (value or 0) + most * 0.01, place, in_seconds(value), va="center", color=theme.text, fontweight=weight
            )
        axes.set_yticks(range(len(panel.seconds)), [NAMES[name] for name in panel.seconds])
        axes.set_xlim(0, most * 1.1)
        axes.set_xticks([])
        axes.set_ylim(len(panel.seconds) - 0.5, -0.5)
        axes.grid(visible=False)
        axes.set_title(panel.title, color=theme.text, fontweight="bold")
        axes.tick_params(colors=theme.text, length=0)
        axes.patch.set_alpha(0)
        for spine in axes.spines.values():
            spine.set_visible(False)
    head, end, rest = as_svg(figure).partition(">")
    words = f"<title>Seconds, less is better</title>\n <desc>{html.escape(describe(shown), quote=False)}</desc>"
    return f'{head} role="img"{end}\n {words}{rest}'


def write(documents: Sequence[Document], folder: Path) -> list[Path]:
    """Write overview-light.svg and overview-dark.svg; the files."""
    shown = panels(documents)
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for name, theme in THEMES.items():
        path = folder / f"overview-{name}.svg"
        path.write_text(draw(shown, theme), encoding="utf-8")
        files.append(path)
    return files


def trim(document: Document) -> Document:
    """What is published of a document: all runs with the figures of the report's tables; no path of a machine."""
    runs = []
    for run in document.runs:
        if run.experiment not in LAYOUTS:
            raise ToolError(f"there is no experiment {run.experiment!r}")
        shown = {column.metric for column in LAYOUTS[run.experiment].columns}
        metrics = {name: value for name, value in run.metrics.items() if name in shown}
        runs.append(replace(run, command=[], metrics=metrics, phases_s={}, phase_io={}, status={}, files=[]))
    words, is_value = [], False
    for word in document.command_line:
        if not is_value and word.partition("=")[0] not in _OUTPUT:
            words.append(word)
        is_value = word in _OUTPUT
    volume = {"file_system": document.volume["file_system"], "mount_point": ""}
    value = replace(document, command_line=words, volume=volume, runs=runs).as_json()
    return results.parse(_without_paths(value))


def _without_paths(value: Any) -> Any:
    """The same with the last name of each absolute path."""
    if isinstance(value, str):
        return _PATH.sub(r"\1", value)
    if isinstance(value, list):
        return [_without_paths(part) for part in value]
    if isinstance(value, dict):
        return {name: _without_paths(part) for name, part in value.items()}
    return value


def load_all(folder: Path) -> dict[str, Document]:
    """The documents of a folder by file name; ToolError, with the name, for one that is none."""
    return {path.name: results.load(path) for path in sorted(folder.glob("*.json"))}


def publish(files: Sequence[Path], results_folder: Path, folder: Path) -> list[Path]:
    """Put trimmed documents to those that are published, and draw all of these; the files that were written.

    Nothing is written if that is an error.
    """
    names = [path.name for path in files]
    for name in names:
        if names.count(name) > 1:
            raise ToolError(f"there are two files {name}")
        if not name.endswith(".json"):
            raise ToolError(f"the name of {name} does not end in .json")
    new = {path.name: trim(results.load(path)) for path in files}
    known = dict(sorted((load_all(results_folder) | new).items()))
    if not known:
        raise ToolError(f"there are no results in {results_folder}; name JSON files of the bench")
    panels(list(known.values()))
    results_folder.mkdir(parents=True, exist_ok=True)
    for name, document in new.items():
        results.save(document, results_folder / name)
    return [*(results_folder / name for name in new), *write(list(known.values()), folder)]
