# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The plots of the HTML report, as SVG text."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.logs import PHASES, in_order
from bench.report import good, groups, in_words, phase_medians
from bench.results import Document, Run
from bench.stats import Summary

matplotlib.rcParams.update(
    {
        "svg.fonttype": "none",
        "svg.hashsalt": "redstart",
        "font.family": "sans-serif",
        "font.size": 9.5,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": "#e4e4e4",
        "axes.titlesize": 10.5,
        "axes.titlelocation": "left",
    }
)

PALETTE = (
    "#4c566a", "#9aa5b8", "#c98b2b", "#4f9d69", "#2f6db3",
    "#7d5ba6", "#3aa6a6", "#b5443c", "#d17ba0", "#8a6d1f",
)  # fmt: skip
COLORED = (
    *("stock", "mariadb", "off", "fadvise", "light", "light+threads", "map", "defaults"),
    "light+io_uring",
    "all-on",
)
# Subjects of other experiments, which are in no plot with the one whose colour they share.
SAME_COLOR = {
    "undo-read-ahead": "map",
    "merge-ways": "fadvise",
    "merge-on-the-fly": "light",
    "merge-keep-cache": "light+threads",
    "read-ahead": "map",
}
WIDTH_IN = 8.6
BAR_IN = 0.34


@dataclass(frozen=True)
class Plot:
    """A picture with its caption."""

    caption: str
    svg: str


def _color(name: str, names: Sequence[str], place: int) -> str:
    """The same colour for the same name in every plot; by place for names without their own."""
    name = SAME_COLOR.get(name, name)
    return PALETTE[(names.index(name) if name in names else place) % len(PALETTE)]


def as_svg(figure: Figure) -> str:
    """The text of a figure, the same for the same figure."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", bbox_inches="tight", metadata={"Date": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def _figure(height_in: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(WIDTH_IN, height_in))
    return figure, figure.subplots()


def _bars(labels: Sequence[str], values: Sequence[Summary], unit: str) -> str:
    """Horizontal bars of medians; a line from least to most; the figure at the end."""
    figure, axes = _figure(0.9 + BAR_IN * len(labels))
    most = max((value.maximum for value in values), default=1.0) or 1.0
    for place, value in enumerate(values):
        color = _color(labels[place], COLORED, place)
        axes.barh(place, value.median, color=color, height=0.68)
        if value.count > 1:
            axes.plot([value.minimum, value.maximum], [place, place], color="#222222", lw=1.2)
        digits = 3 if value.median < 1 else 2 if value.median < 100 else 0
        shown = f"{value.median:,.{digits}f}"
        axes.text(value.maximum + most * 0.012, place, shown, va="center")
    axes.set_yticks(range(len(labels)), labels)
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.set_xlim(0, most * 1.12)
    axes.set_xlabel(unit)
    return as_svg(figure)


def _lines(
    series: dict[str, list[tuple[float, Summary]]], x_label: str, y_label: str, log_x: bool
) -> str:
    """Lines of medians over x, with bars from least to most."""
    figure, axes = _figure(3.6)
    for place, (name, points) in enumerate(series.items()):
        points = sorted(points, key=lambda point: point[0])
        middle = [value.median for _, value in points]
        below = [value.median - value.minimum for _, value in points]
        above = [value.maximum - value.median for _, value in points]
        axes.errorbar(
            [x for x, _ in points], middle, yerr=[below, above], label=name, marker="o",
            markersize=4, lw=1.6, capsize=2, color=_color(name, COLORED, place),
        )  # fmt: skip
    if log_x:
        axes.set_xscale("log", base=2)
    ticks = sorted({x for points in series.values() for x, _ in points})
    axes.set_xticks(ticks, [f"{x:,.0f}" for x in ticks])
    axes.minorticks_off()
    axes.set_ylim(bottom=0)
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    axes.legend(frameon=False, bbox_to_anchor=(1.01, 1), loc="upper left")
    return as_svg(figure)


def _stack(rows: dict[str, dict[str, float]], unit: str) -> str:
    """Horizontal bars, each made of named parts."""
    figure, axes = _figure(1.2 + BAR_IN * len(rows))
    names = in_order(name for parts in rows.values() for name in parts)
    left = [0.0] * len(rows)
    for place, name in enumerate(names):
        widths = [parts.get(name, 0.0) for parts in rows.values()]
        color = _color(name, PHASES, place)
        axes.barh(range(len(rows)), widths, left=left, label=name, height=0.68, color=color)
        left = [start + width for start, width in zip(left, widths, strict=True)]
    axes.set_yticks(range(len(rows)), list(rows))
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.set_xlabel(unit)
    axes.legend(frameon=False, ncols=len(names), loc="lower left", bbox_to_anchor=(0, 1.0))
    return as_svg(figure)


def _select(documents: Sequence[Document], experiment: str) -> dict[tuple[str, str], list[Run]]:
    """Runs of an experiment by (mode, profile)."""
    found: dict[tuple[str, str], list[Run]] = {}
    for document in documents:
        for run in document.runs:
            if run.experiment == experiment:
                found.setdefault((run.mode, document.profile["name"]), []).append(run)
    return found


def _startup(documents: Sequence[Document]) -> list[Plot]:
    plots = []
    for (mode, profile), runs in _select(documents, "startup").items():
        series: dict[str, list[tuple[float, Summary]]] = {}
        schemas = {run.parameters["schemas"] for run in runs}
        for parameters, subject, chosen in groups(runs):
            value = good(chosen, "ready_s")
            name = subject
            if len(schemas) > 1:
                name += f", {parameters['schemas']:,} schema(s)"
            if value is not None:
                series.setdefault(name, []).append((parameters["tables"], value))
        where = f"{mode} start, profile {profile}"
        if any(len(points) > 1 for points in series.values()):
            svg = _lines(series, "tables", "seconds until ready", log_x=False)
            plots.append(Plot(f"Start time against tables: {where}", svg))
        else:
            plots += _per_size(runs, where)
        plots += _phases(runs, where)
    return plots


def _sizes(runs: Sequence[Run]) -> dict[str, list[Run]]:
    found: dict[str, list[Run]] = {}
    for run in runs:
        found.setdefault(in_words(run.parameters), []).append(run)
    return found


def _per_size(runs: Sequence[Run], where: str) -> list[Plot]:
    plots = []
    for size, chosen in _sizes(runs).items():
        plots += _bars_of(chosen, "ready_s", "seconds until ready", f"Start time: {where}, {size}")
    return plots


def _phases(runs: Sequence[Run], where: str) -> list[Plot]:
    plots = []
    for size, chosen in _sizes(runs).items():
        rows = {subject: phase_medians(some) for _, subject, some in groups(chosen)}
        rows = {subject: parts for subject, parts in rows.items() if parts}
        if rows:
            plots.append(Plot(f"Phases: {where}, {size}", _stack(rows, "seconds")))
    return plots


def _first_use(documents: Sequence[Document]) -> list[Plot]:
    plots = []
    for (mode, profile), runs in _select(documents, "first-use").items():
        for size, chosen in _sizes(runs).items():
            where = f"{mode}, profile {profile}, {size}"
            rows = {}
            for _, subject, some in groups(chosen):
                ready, last = good(some, "ready_s"), good(some, "last_answer_s")
                if ready is not None and last is not None:
                    rows[subject] = {"start": ready.median, mode: last.median - ready.median}
            if rows:
                plots.append(Plot(f"First use: {where}", _stack(rows, "seconds until the last answer")))
    return plots


def _ddl(documents: Sequence[Document]) -> list[Plot]:
    plots = []
    for (mode, profile), runs in _select(documents, "ddl").items():
        series: dict[str, list[tuple[float, Summary]]] = {}
        for parameters, subject, chosen in groups(runs):
            read = good(chosen, "temp_read_multiple")
            if read is not None:
                name = f"{subject}, {parameters['threads']} thread(s)"
                series.setdefault(name, []).append((parameters["buffer_mib"], read))
        if series:
            svg = _lines(series, "sort buffer, MiB", "times the key data", log_x=True)
            plots.append(Plot(f"Temporary bytes read: {mode}, profile {profile}", svg))
    return plots


# Bars of all runs: the experiment, the caption and, by metric, the unit. With {size} in the caption a plot for each size.
BARS: tuple[tuple[str, str, dict[str, str]], ...] = (
    ("first-use", "First use, latency: {mode}, profile {profile}, {size}",
     {"latency_p99_ms": "ms that 99 % of the queries do not exceed"}),
    ("undo", "Undo: {mode} start, profile {profile}, {size}",
     {"resurrect_s": "seconds until the locks are found", "resurrect_mib_per_sec": "MiB of undo read a second"}),
    ("binlog", "Last binary log: {mode}, profile {profile}, {size}", {"ready_s": "seconds until ready"}),
    ("outage", "Outage: profile {profile}, {size}",
     {"first_query_s": "seconds until the first query is answered",
      "tables_answered_s": "seconds until all tables have answered",
      "load_back_s": "seconds until 90 % of the throughput before is reached"}),
    ("fileio", "fileio: {mode}, profile {profile}", {"iops": "reads a second"}),
    ("oltp", "oltp: {mode}, profile {profile}, {size}", {"transactions_per_sec": "transactions a second"}),
)  # fmt: skip


def _bars_of(runs: Sequence[Run], metric: str, unit: str, caption: str) -> list[Plot]:
    """A plot of the medians of all subjects; none if there is nothing to be seen."""
    values = {subject: good(chosen, metric) for _, subject, chosen in groups(runs)}
    shown = {subject: value for subject, value in values.items() if value is not None}
    if not any(value.maximum for value in shown.values()):
        return []
    return [Plot(caption, _bars(list(shown), list(shown.values()), unit))]


def _all_bars(documents: Sequence[Document]) -> list[Plot]:
    plots = []
    for experiment, caption, metrics in BARS:
        for (mode, profile), runs in _select(documents, experiment).items():
            for size, chosen in (_sizes(runs) if "{size}" in caption else {"": runs}).items():
                for metric, unit in metrics.items():
                    plots += _bars_of(chosen, metric, unit, caption.format(mode=mode, profile=profile, size=size))
    return plots


def plots(documents: Sequence[Document]) -> list[Plot]:
    """All plots that the documents have data for."""
    return [
        *_startup(documents),
        *_first_use(documents),
        *_ddl(documents),
        *_all_bars(documents),
    ]
