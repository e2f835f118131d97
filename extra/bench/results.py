# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The records of the bench and their JSON file."""

from __future__ import annotations

import datetime
import json
import os
import platform
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import jsonschema

from redstart_cli.tools import ToolError

SCHEMA_VERSION = 1
_SCHEMA_PATH = Path(__file__).with_name("schema.json")


@dataclass
class FileReads:
    """What a start has read of one file; times are seconds after exec."""

    file: str
    group: str
    reads: int
    bytes: int
    first_s: float
    last_s: float


@dataclass
class Run:
    """One measured run.

    `metrics` holds the figures by name; the unit is the end of the name (_s, _kib, _bytes ...).
    `problems` says what went wrong; a run with problems is reported and never averaged in.
    `notes` are remarks that leave the run valid. `files` is what was read, where that was traced.
    """

    experiment: str
    subject: str
    mode: str
    round: int
    parameters: dict[str, Any]
    started_at: str
    command: list[str]
    metrics: dict[str, float] = field(default_factory=dict)
    phases_s: dict[str, float] = field(default_factory=dict)
    phase_io: dict[str, dict[str, int]] = field(default_factory=dict)
    status: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    files: list[FileReads] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether the run counts."""
        return not self.problems


@dataclass
class Document:
    """Everything one call of the bench measured, and where."""

    command_line: list[str]
    profile: dict[str, Any]
    volume: dict[str, Any]
    subjects: list[dict[str, Any]] = field(default_factory=list)
    skipped: list[dict[str, str]] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    created_at: str = field(default_factory=lambda: now_text())
    machine: dict[str, Any] = field(default_factory=lambda: machine_facts())

    def as_json(self) -> dict[str, Any]:
        """The document as the schema describes it."""
        value = asdict(self)
        value["schema_version"] = SCHEMA_VERSION
        for record, run in zip(value["runs"], self.runs, strict=True):
            record["ok"] = run.ok
        return value


def now_text() -> str:
    """The time now, in UTC, to the second."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def machine_facts() -> dict[str, Any]:
    """Kernel, cores, memory and processor of this machine."""
    facts: dict[str, Any] = {
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
    }
    for line in Path("/proc/cpuinfo").read_text(errors="replace").splitlines():
        if line.startswith("model name"):
            facts["processor"] = line.partition(":")[2].strip()
            break
    return facts


def check(value: Any) -> None:
    """Raises ToolError if a value is not a bench document."""
    try:
        jsonschema.validate(value, json.loads(_SCHEMA_PATH.read_text()))
    except jsonschema.ValidationError as error:
        where = "/".join(str(part) for part in error.absolute_path)
        raise ToolError(f"not a bench document: {error.message} at {where or 'the top'}") from error


def save(document: Document, path: Path) -> None:
    """Writes the JSON file, checked against the schema; an existing file is replaced."""
    value = document.as_json()
    check(value)
    making = path.with_name(path.name + ".making")
    try:
        making.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
        making.rename(path)
    except OSError as error:
        raise ToolError(f"cannot write {path}: {error}") from error


def load(path: Path) -> Document:
    """Reads a JSON file; ToolError if it is not one of ours."""
    try:
        return parse(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise ToolError(f"cannot read {path}: {error}") from error
    except ToolError as error:
        raise ToolError(f"{path}: {error}") from error


def parse(value: Any) -> Document:
    """The document that `as_json` has written; ToolError if it is none. The value is used up."""
    check(value)
    del value["schema_version"]
    runs = []
    for record in value.pop("runs"):
        del record["ok"]
        files = [FileReads(**file) for file in record.pop("files", [])]
        runs.append(Run(**record, files=files))
    return Document(**value, runs=runs)
