# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The experiment on the last binary log."""

from __future__ import annotations

from bench import report
from bench.tests.helpers import make_document, make_run


def test_the_table_shows_the_start() -> None:
    runs = [make_run("stock", 1, 9.5), make_run("binlog-scan", 1, 1.7)]
    for run in runs:
        run.experiment, run.mode, run.parameters = "binlog", "large-clean", {"mib": 1000}
        run.metrics |= {"binlog_bytes": 1000 << 20, "reads": 10, "sectors_read": 2048}
    grid = report.grids(make_document(runs))[0]
    assert "ready, s" in grid.headings and "last binary log, MiB" in grid.headings
    assert grid.rows[1][1] == "1.70"
