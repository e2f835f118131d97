# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Samples and records for the tests."""

from __future__ import annotations

from pathlib import Path

from bench import logs
from bench.results import Document, Run

SAMPLES = Path(__file__).with_name("samples")


def log_lines(name: str, seen: float = 0.0) -> list[logs.LogLine]:
    """The lines of a recorded error log."""
    text = (SAMPLES / name).read_text(encoding="utf-8")
    parsed = [logs.parse_line(line, seen) for line in text.splitlines()]
    return [line for line in parsed if line is not None]


def make_run(subject: str, number: int, ready: float, tables: int = 20000) -> Run:
    """A start that went well."""
    return Run(
        "startup",
        subject,
        "cold",
        number,
        {"tables": tables, "schemas": 1},
        "2026-11-21T10:00:00+00:00",
        ["mysqld", "--no-defaults"],
        metrics={"ready_s": ready, "sectors_per_table": 36.0},
        phases_s={"boot": 0.4, "check": ready - 0.4},
        phase_io={"check": {"reads": 3, "sectors_read": 32, "process_read_bytes": 16384}},
    )


def make_document(runs: list[Run], profile: str = "local") -> Document:
    """A document that holds the runs."""
    return Document(
        command_line=["./redstart", "bench", "startup"],
        profile={"name": profile, "what": "a disk", "verified": {}},
        volume={"file_system": "ext4", "mount_point": "/"},
        runs=runs,
    )
