# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The picture of the README: what users wait for, as bars, from the documents of the bench."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure

from bench.errors import BenchError
from bench.plots import as_svg
from bench.report import good, groups
from bench.results import Document, Run

# Subjects that are shown, and their names.
NAMES = {"stock": "MySQL", "mariadb": "MariaDB", "defaults": "Redstart"}
MODES = {"cold": "start", "crash": "start after kill -9"}
WIDTH_IN = 8.0
BAR_IN = 0.27
PANEL_IN = 0.36


@dataclass(frozen=True)
class Theme:
    """Colours for a background."""

    text: str
    colors: dict[str, str]


THEMES = {
    "light": Theme("#24292f", {"stock": "#8c959f", "mariadb": "#c4cad1", "defaults": "#0a6d9e"}),
    "dark": Theme("#e6edf3", {"stock": "#848d97", "mariadb": "#555e68", "defaults": "#4db4e6"}),
}


@dataclass(frozen=True)
class Panel:
    """A thing that was waited for: its title, and medians in seconds by subject."""

    title: str
    seconds: dict[str, float]


def panels(documents: Sequence[Document]) -> list[Panel]:
    """One for each kind of run that has MySQL and Redstart: of several sizes the largest, with the smallest buffer.

    BenchError if there is none.
    """
    found = [
        panel
        for document in documents
        for experiment, metric, key, title in (
            ("outage", "first_query_s", _outage_key, _outage_title),
            ("outage", "tables_answered_s", _outage_key, _answered_title),
            ("startup", "ready_s", _start_key, _start_title),
            ("ddl", "alter_s", _ddl_key, _ddl_title),
        )
        for panel in _panels(document, experiment, metric, key, title)
    ]
    if not found:
        raise BenchError(f"no file has runs of both {NAMES['stock']} (stock) and {NAMES['defaults']} (defaults)")
    return found


def _panels(
    document: Document,
    experiment: str,
    metric: str,
    key: Callable[[Run], tuple[float, ...]],
    title: Callable[[Run], str],
) -> list[Panel]:
    runs = [run for run in document.runs if run.experiment == experiment and title(run)]
    made = []
    for mode in dict.fromkeys(run.mode for run in runs):
        chosen = [run for run in runs if run.mode == mode]
        shown = [run for run in chosen if key(run) == max(map(key, chosen))]
        # MariaDB builds an index with one thread.
        shown = [run for run in shown if _threads(run) == max(_threads(other) for other in shown if other.subject == run.subject)]
        seconds = {
            subject: value.median
            for _, subject, some in groups(shown)
            if subject in NAMES and (value := good(some, metric)) is not None
        }
        if {"stock", "defaults"} <= seconds.keys():
            where = f"{title(shown[0])}, {document.profile['name']}"
            made.append(Panel(where, {name: seconds[name] for name in NAMES if name in seconds}))
    return made


def _start_key(run: Run) -> tuple[float, ...]:
    return run.parameters["tables"], -run.parameters["schemas"]


def _outage_key(run: Run) -> tuple[float, ...]:
    return run.parameters["tables"], run.parameters["redo_mib"], run.parameters["binlog_mib"]


def _ddl_key(run: Run) -> tuple[float, ...]:
    return run.parameters["rows"], -run.parameters["buffer_mib"]


def _threads(run: Run) -> int:
    return int(run.parameters.get("threads", 0))


def _start_title(run: Run) -> str:
    return f"{MODES[run.mode]}, {run.parameters['tables']:,} tables" if run.mode in MODES else ""


def _outage_title(run: Run) -> str:
    return f"busy server killed, {run.parameters['tables']:,} tables: first query answered"


def _answered_title(run: Run) -> str:
    return f"busy server killed, {run.parameters['tables']:,} tables: {run.parameters['tables_queried']:,} of them answered"


def _ddl_title(run: Run) -> str:
    return f"index build ({run.mode}), {run.parameters['rows']:,} rows, buffer of {run.parameters['buffer_mib']:g} MiB"


def draw(shown: Sequence[Panel], theme: Theme) -> str:
    """SVG text: a group of bars for each panel, each with its own scale and its figures in seconds."""
    heights = [PANEL_IN + BAR_IN * len(panel.seconds) for panel in shown]
    figure = Figure(figsize=(WIDTH_IN, sum(heights)))
    figure.patch.set_alpha(0)
    grid = figure.subplots(len(shown), 1, squeeze=False, gridspec_kw={"height_ratios": heights, "hspace": 0.7})
    for axes, panel in zip(grid[:, 0], shown, strict=True):
        most = max(panel.seconds.values())
        for place, (name, seconds) in enumerate(panel.seconds.items()):
            axes.barh(place, seconds, color=theme.colors[name], height=0.72)
            weight = "bold" if name == "defaults" else "normal"
            digits = 2 if seconds < 10 else 1
            axes.text(
                seconds + most * 0.01, place, f"{seconds:,.{digits}f} s", va="center", color=theme.text, fontweight=weight
            )
        axes.set_yticks(range(len(panel.seconds)), [NAMES[name] for name in panel.seconds])
        axes.set_xlim(0, most * 1.1)
        axes.set_xticks([])
        axes.invert_yaxis()
        axes.grid(visible=False)
        axes.set_title(panel.title, color=theme.text, fontweight="bold")
        axes.tick_params(colors=theme.text, length=0)
        axes.patch.set_alpha(0)
        for spine in axes.spines.values():
            spine.set_visible(False)
    return as_svg(figure)


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
