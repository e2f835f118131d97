# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Tables of results, for the terminal, in Markdown and in HTML."""

from __future__ import annotations

import json
import shlex
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from rich.table import Table

from bench.logs import in_order
from bench.results import Document, FileReads, Run
from bench.stats import Summary, ratio, summarize


@dataclass(frozen=True)
class Column:
    """A column of figures: a metric, its heading, and how it is written."""

    metric: str
    heading: str
    decimals: int
    spread: bool = False
    scale: float = 1.0


@dataclass(frozen=True)
class Layout:
    """The columns of an experiment. The first is the one subjects are compared by."""

    columns: tuple[Column, ...]
    higher_is_better: bool = False
    compares: bool = True


_MEMORY = Column("peak_memory_kib", "peak memory, MiB", 0, scale=1 / 1024)

LAYOUTS = {
    "startup": Layout(
        (
            Column("ready_s", "ready, s", 2, spread=True),
            Column("first_query_s", "first query, s", 2),
            Column("reads_per_table", "reads/table", 2),
            Column("sectors_per_table", "sectors/table", 1),
            Column("process_sectors_per_table", "own sectors/table", 1),
            Column("check_process_sectors_per_table", "in the check", 1),
            _MEMORY,
        )
    ),
    "reads": Layout(
        (
            Column("first_query_s", "first query, s", 2, spread=True),
            Column("ready_s", "ready, s", 2),
            Column("reads", "reads", 0),
            Column("sectors_read", "read, MiB", 1, scale=1 / 2048),
            Column("process_read_bytes", "own, MiB", 1, scale=2**-20),
            _MEMORY,
        )
    ),
    "shutdown": Layout(
        (
            Column("shutdown_s", "stopped, s", 2, spread=True),
            Column("open_tables", "open tables", 0),
            Column("open_files", "files", 0),
            Column("cpu_s", "CPU, s", 2),
            Column("reads", "reads", 0),
            Column("writes", "writes", 0),
            Column("messages", "messages", 0),
            Column("extensions", "of these for more time", 0),
            Column("longest_silence_s", "longest silence, s", 2),
            _MEMORY,
        )
    ),
    "first-use": Layout(
        (
            Column("last_answer_s", "last answer, s", 2, spread=True),
            Column("ready_s", "ready, s", 2),
            Column("answered_p99_s", "99 % answered, s", 2),
            Column("answers_s", "queries, s", 2),
            Column("answers_cpu_s", "CPU, s", 2),
            Column("answers_process_read_bytes", "read, MB", 1, scale=1e-6),
            Column("latency_p50_ms", "50 %, ms", 1),
            Column("latency_p99_ms", "99 %, ms", 1),
            Column("latency_max_ms", "longest, ms", 1),
            Column("no_table_s", "no table, s", 2),
            Column("bench_cpu_s", "bench's CPU, s", 2),
            _MEMORY,
        )
    ),
    "undo": Layout(
        (
            Column("resurrect_s", "locks found, s", 2, spread=True),
            Column("undo_pages", "undo pages", 0),
            Column("resurrect_reads", "reads", 0),
            Column("resurrect_reads_per_sec", "reads/s", 0),
            Column("resurrect_mib_per_sec", "MiB/s", 1),
            Column("ready_s", "ready, s", 2),
            Column("rollback_s", "rolled back, s", 1),
            Column("rollback_reads", "its reads", 0),
            _MEMORY,
        )
    ),
    "pool": Layout(
        (
            Column("load_s", "loaded, s", 2, spread=True),
            Column("pages_loaded", "pages", 0),
            Column("load_reads", "reads", 0),
            Column("load_mib_per_sec", "MiB/s", 1),
            Column("ready_s", "ready, s", 2),
            _MEMORY,
        )
    ),
    "binlog": Layout(
        (
            Column("ready_s", "ready, s", 2, spread=True),
            Column("first_query_s", "first query, s", 2),
            Column("reads", "reads", 0),
            Column("sectors_read", "read, MiB", 0, scale=1 / 2048),
            Column("binlog_bytes", "last binary log, MiB", 0, scale=2**-20),
            _MEMORY,
        )
    ),
    "redo": Layout(
        (
            Column("ready_s", "ready, s", 2, spread=True),
            Column("redo_bytes", "redo, MiB", 0, scale=2**-20),
            Column("redo_s", "redo, s", 2),
            Column("scan_s", "scanned, s", 2),
            Column("apply_s", "applied, s", 2),
            Column("batches", "batches", 0),
            Column("redo_pages", "pages", 0),
            Column("reads", "reads", 0),
            Column("sectors_read", "read, MiB", 0, scale=1 / 2048),
            Column("after_first_tps", "then transactions/s", 0),
            Column("after_tps", "in the whole load", 0),
            _MEMORY,
        )
    ),
    "outage": Layout(
        (
            Column("first_query_s", "first query, s", 2, spread=True),
            Column("tables_answered_s", "tables answered, s", 2, spread=True),
            Column("load_back_s", "90 % of the load, s", 1, spread=True),
            Column("before_tps", "transactions/s before", 0),
            Column("redo_bytes", "redo, MiB", 0, scale=2**-20),
            Column("binlog_bytes", "last binary log, MiB", 0, scale=2**-20),
            Column("reads", "reads", 0),
            Column("sectors_read", "read, MiB", 0, scale=1 / 2048),
            _MEMORY,
        )
    ),
    "ddl": Layout(
        (
            Column("alter_s", "time, s", 1, spread=True),
            Column("temp_read_bytes", "temp read, MB", 0, scale=1e-6),
            Column("temp_written_bytes", "temp written, MB", 0, scale=1e-6),
            Column("temp_read_multiple", "read x keys", 2),
            Column("temp_written_multiple", "written x keys", 2),
            Column("temp_peak_multiple", "peak temp x keys", 2),
            Column("temp_reads", "temp reads", 0),
            Column("temp_writes", "temp writes", 0),
            _MEMORY,
        )
    ),
    "fileio": Layout(
        (
            Column("iops", "reads/s", 0, spread=True),
            Column("mib_per_sec", "MiB/s", 1),
            Column("latency_mean_usec", "mean latency, usec", 0),
            Column("latency_p99_usec", "99 %, usec", 0),
        ),
        compares=False,
    ),
    "oltp": Layout(
        (
            Column("transactions_per_sec", "transactions/s", 0, spread=True),
            Column("queries_per_sec", "queries/s", 0),
            Column("cpu_usec_a_transaction", "CPU, µs a transaction", 0, spread=True),
            Column("latency_mean_ms", "mean latency, ms", 2),
            Column("latency_p95_ms", "95 %, ms", 2),
            Column("errors", "errors", 0),
            _MEMORY,
        ),
        higher_is_better=True,
    ),
}


@dataclass(frozen=True)
class Grid:
    """A table as text: a caption, headings, rows, and remarks to print below it."""

    caption: str
    headings: list[str]
    rows: list[list[str]]
    remarks: list[str]


def number(value: float | None, decimals: int) -> str:
    """A figure with thousands separators, or a dash."""
    return "-" if value is None else f"{value:,.{decimals}f}"


def spread(value: Summary | None, decimals: int) -> str:
    """Median (minimum to maximum); the median alone if there was one run."""
    if value is None:
        return "-"
    text = number(value.median, decimals)
    if value.count == 1:
        return text
    low, high = number(value.minimum, decimals), number(value.maximum, decimals)
    return f"{text} ({low} to {high})"


def good(runs: Sequence[Run], metric: str, scale: float = 1.0) -> Summary | None:
    """Summary of a metric over the runs that count."""
    return summarize([r.metrics[metric] * scale for r in runs if r.ok and metric in r.metrics])


def remarks(runs: Sequence[Run]) -> list[str]:
    """A remark for each run that went wrong, and for each note."""
    found = []
    for run in runs:
        where = f"{run.subject}, round {run.round}"
        found += [f"went wrong, not counted: {where}: {text}" for text in run.problems]
        found += [f"{where}: {text}" for text in run.notes]
    return found


def split_parameters(runs: Sequence[Run]) -> tuple[dict[str, Any], list[str]]:
    """(parameters that all runs share, names of those that differ)."""
    names = list(dict.fromkeys(name for run in runs for name in run.parameters))
    shared, differing = {}, []
    for name in names:
        values = {json.dumps(run.parameters.get(name)) for run in runs}
        if len(values) == 1:
            shared[name] = runs[0].parameters[name]
        else:
            differing.append(name)
    return shared, differing


def in_words(parameters: dict[str, Any]) -> str:
    """Parameters as text: "tables 20,000, schemas 1"."""
    return ", ".join(f"{name.replace('_', ' ')} {in_digits(value)}" for name, value in parameters.items())


def in_digits(value: Any) -> str:
    """A parameter as text: numbers with thousands separators."""
    return f"{value:,}" if isinstance(value, (int, float)) else f"{value}"


def groups(runs: Sequence[Run]) -> list[tuple[dict[str, Any], str, list[Run]]]:
    """The runs by parameters and subject: (parameters, subject, runs), in order of appearance."""
    found: dict[tuple[str, str], tuple[dict[str, Any], str, list[Run]]] = {}
    for run in runs:
        key = (json.dumps(run.parameters, sort_keys=True), run.subject)
        found.setdefault(key, (run.parameters, run.subject, []))[2].append(run)
    return list(found.values())


def grids(document: Document) -> list[Grid]:
    """The tables of a document: for each experiment and mode, totals and, if any, phases."""
    found = []
    for experiment, mode in dict.fromkeys((run.experiment, run.mode) for run in document.runs):
        runs = [r for r in document.runs if (r.experiment, r.mode) == (experiment, mode)]
        shared, differing = split_parameters(runs)
        rounds = max(run.round for run in runs)
        caption = (
            f"{experiment}, {mode}: {in_words(shared)}; profile {document.profile['name']}; "
            + (f"median of {rounds} rounds (least to most)" if rounds > 1 else "one round")
        )
        found.append(_totals(LAYOUTS[experiment], caption, runs, differing))
        if any(run.phases_s for run in runs):
            found.append(_phases(f"{experiment}, {mode}: phases, s", runs, differing))
        if any(run.files for run in runs):
            found.append(_files(f"{experiment}, {mode}: what was read, until the first answer", runs, differing))
    return found


def _labels(subject: str, parameters: dict[str, Any], differing: list[str]) -> list[str]:
    return [subject, *(in_digits(parameters.get(name, "-")) for name in differing)]


def _headings(differing: list[str]) -> list[str]:
    return ["subject", *(name.replace("_", " ") for name in differing)]


def _columns(layout: Layout, runs: Sequence[Run]) -> list[Column]:
    """The first column, and those that some run has a figure for."""
    first, *rest = layout.columns
    return [first, *(column for column in rest if any(column.metric in run.metrics for run in runs))]


def _totals(layout: Layout, caption: str, runs: Sequence[Run], differing: list[str]) -> Grid:
    first = runs[0].subject
    bases: dict[str, Summary | None] = {}
    metric = layout.columns[0].metric
    columns = _columns(layout, runs)
    rows = []
    for parameters, subject, chosen in groups(runs):
        cells = _labels(subject, parameters, differing)
        for column in columns:
            value = good(chosen, column.metric, column.scale)
            if column.spread:
                cells.append(spread(value, column.decimals))
            else:
                cells.append(number(value.median if value else None, column.decimals))
        if layout.compares:
            key = json.dumps(parameters, sort_keys=True)
            value = good(chosen, metric)
            if subject == first:
                bases[key] = value
            cells.append(number(_times(layout, value, bases.get(key)), 2))
        rows.append(cells)
    headings = _headings(differing) + [column.heading for column in columns]
    if layout.compares:
        headings.append(f"speed ({first} = 1)")
    return Grid(caption, headings, rows, remarks(runs))


def _times(layout: Layout, value: Summary | None, base: Summary | None) -> float | None:
    if value is None or base is None:
        return None
    if layout.higher_is_better:
        return ratio(base.median, value.median)
    return ratio(value.median, base.median)


def phase_medians(runs: Sequence[Run]) -> dict[str, float]:
    """Median of each phase over the runs that count, in seconds."""
    names = in_order(name for run in runs for name in run.phases_s)
    found = {}
    for name in names:
        value = summarize([r.phases_s[name] for r in runs if r.ok and name in r.phases_s])
        if value is not None:
            found[name] = value.median
    return found


def _phases(caption: str, runs: Sequence[Run], differing: list[str]) -> Grid:
    phases = in_order(name for run in runs for name in run.phases_s)
    rows = []
    for parameters, subject, chosen in groups(runs):
        medians = phase_medians(chosen)
        if medians:
            cells = [number(medians.get(phase), 2) for phase in phases]
            rows.append([*_labels(subject, parameters, differing), *cells])
    return Grid(caption, [*_headings(differing), *phases], rows, [])


def by_group(files: Sequence[FileReads]) -> dict[str, FileReads]:
    """What was read of each group of files together, in the order of the first reads."""
    found: dict[str, FileReads] = {}
    for file in sorted(files, key=lambda file: file.first_s):
        group = found.setdefault(file.group, replace(file, file="", reads=0, bytes=0))
        group.reads += file.reads
        group.bytes += file.bytes
        group.last_s = max(group.last_s, file.last_s)
    return found


def _files(caption: str, runs: Sequence[Run], differing: list[str]) -> Grid:
    """Groups of files, each figure the median of the runs that have read of it, and their sum."""
    rows = []
    for parameters, subject, chosen in groups(runs):
        labels = _labels(subject, parameters, differing)
        counted = [by_group(run.files) for run in chosen if run.ok]
        for name in dict.fromkeys(name for groups_read in counted for name in groups_read):
            read = [groups_read[name] for groups_read in counted if name in groups_read]
            reads, size, first, last = (
                statistics.median(getattr(group, figure) for group in read) for figure in ("reads", "bytes", "first_s", "last_s")
            )
            rows.append([*labels, name, number(reads, 0), number(size / 2**20, 2), number(first, 3), number(last, 3)])
        totals = [(sum(file.reads for file in run.files), sum(file.bytes for file in run.files)) for run in chosen if run.ok]
        if totals:
            reads, size = (statistics.median(values) for values in zip(*totals, strict=True))
            rows.append([*labels, "all", number(reads, 0), number(size / 2**20, 2), "", ""])
    return Grid(caption, [*_headings(differing), "files", "reads", "MiB", "first, s", "last, s"], rows, [])


def terminal(grid: Grid) -> Table:
    """A table for the terminal."""
    table = Table(title=grid.caption, title_justify="left", caption_justify="left")
    table.caption = "\n".join(grid.remarks) or None
    for index, heading in enumerate(grid.headings):
        table.add_column(heading, justify="left" if index == 0 else "right")
    for row in grid.rows:
        table.add_row(*row)
    return table


def provenance(document: Document) -> str:
    """Where and when a document was measured, in one sentence."""
    machine = document.machine
    return (
        f"Measured {document.created_at[:10]} on {machine['cores']} cores, "
        f"{machine['memory_bytes'] / 2**30:.0f} GiB, kernel {machine['kernel']}, "
        f"{document.volume['file_system']}; profile {document.profile['name']}: "
        f"{document.profile['what']}."
    )


def verification(document: Document) -> str:
    """What fio measured under the profile, in one sentence; "" for an unlimited disk."""
    parts = [
        f"{item['block_bytes'] / 1024:,.0f} KiB reads at depth {item['depth']:.0f}: "
        f"{item['iops']:,.0f}/s, {item['bytes_per_sec'] / 2**20:,.0f} MiB/s"
        for item in document.profile["verified"].get("fio", [])
    ]
    return f"Verified with fio: {'; '.join(parts)}." if parts else ""


def markdown(documents: Sequence[Document]) -> str:
    """All tables in Markdown, each document's below the command that made it."""
    lines: list[str] = []
    for document in documents:
        lines += ["```", shlex.join(document.command_line), "```", ""]
        lines.append(" ".join(filter(None, (provenance(document), verification(document)))))
        for grid in grids(document):
            lines += ["", f"{grid.caption}:", "", f"| {' | '.join(grid.headings)} |"]
            lines.append("|---|" + "---:|" * (len(grid.headings) - 1))
            lines += [f"| {' | '.join(row)} |" for row in grid.rows]
            if grid.remarks:
                lines += ["", *(f"- {remark}" for remark in grid.remarks)]
        if document.skipped:
            lines += ["", "Skipped:", ""]
            lines += [f"- {item['what']}: {item['why']}" for item in document.skipped]
        lines.append("")
    return "\n".join(lines)
