# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The workflows, which do not run here: what they call exists, and is what they are for."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from redstart_cli import cli, testing

REPO = Path(__file__).resolve().parents[3]
COMMANDS = {
    "lint": [["docs"], ["test", "overlay"]],
    "nightly": [
        ["build"],
        ["test"],
        ["test", "tidy"],
        ["package", "build/made"],
        *(["test", level, "--", "build/made"] for level in ("packages", "stock", "dockerfile")),
        ["source", "--check", "archive"],
        ["source", "--check", "/tmp/trunk"],
    ],
}


def jobs(name: str) -> list[dict[str, Any]]:
    text = (REPO / f".github/workflows/{name}.yml").read_text(encoding="utf-8")
    return list(yaml.safe_load(text)["jobs"].values())


def steps(name: str) -> list[dict[str, Any]]:
    return [step for job in jobs(name) for step in job["steps"]]


def test_there_are_no_others() -> None:
    assert {path.name for path in (REPO / ".github/workflows").iterdir()} == {f"{name}.yml" for name in COMMANDS}


@pytest.mark.parametrize("name", COMMANDS)
def test_commands_exist(name: str) -> None:
    runs = [step["run"] for step in steps(name) if "run" in step]
    commands = [shlex.split(run)[1:] for run in runs if run.startswith("./redstart ")]
    assert commands == COMMANDS[name]
    for command, *arguments in commands:
        cli.cli.commands[command].make_context(command, list(arguments))
    assert {words[1] for words in commands if words[0] == "test" and words[1:]} <= set(testing.LEVELS)


@pytest.mark.parametrize("name", COMMANDS)
def test_actions_are_pinned_by_commit(name: str) -> None:
    used = [step["uses"] for step in steps(name) if "uses" in step]
    assert used and [action for action in used if not re.fullmatch(r"actions/[\w/-]+@[0-9a-f]{40}", action)] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_a_job_ends_and_has_the_system_of_the_tools(name: str) -> None:
    for job in jobs(name):
        assert 0 < job["timeout-minutes"] < 360
        image = job["container"] if isinstance(job["container"], str) else job["container"]["image"]
        assert image == "debian:12"


@pytest.mark.parametrize("name", ["archive", "trunk"])
def test_a_weekly_job_is_named_by_its_own_time(name: str) -> None:
    # YAML takes the key `on` for a boolean.
    document: dict[Any, Any] = yaml.safe_load((REPO / ".github/workflows/nightly.yml").read_text(encoding="utf-8"))
    times = [entry["cron"] for entry in document[True]["schedule"]]
    test, weekly = document["jobs"]["test"]["if"], document["jobs"][name]["if"]
    assert len(times) == 2 and f"!= '{times[1]}'" in test and f"== '{times[1]}'" in weekly
    assert times[1].endswith(" * * 1") and times[0].endswith(" * * *")
