# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The dashboard and the alerts ask for what the server has, and for all of what this build adds."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from redstart_cli.layout import this_layout

FOLDER = this_layout().repo / "docs/examples/monitoring"
EDITS = this_layout().repo / "storage/innobase/handler/ha_innodb.cc.edit.yaml"
ALERTS, DASHBOARD = FOLDER / "alerts.yml", FOLDER / "dashboard.json"
METRIC = re.compile(r"\bmysql_global_(status|variables)_([a-z0-9_]+)\b")
# MySQL's own.
UPSTREAM = {("status", "uptime")}
# mysqld_exporter leaves out what is no number.
TEXT = {"innodb_tablespace_map_state"}


def own_names() -> dict[str, set[str]]:
    """What this build adds: names of status variables, and of variables."""
    text = EDITS.read_text(encoding="utf-8")
    status = {f"innodb_{name}" for name in re.findall(r'\{"([a-z_]+)"', text)}
    return {"status": status, "variables": {f"innodb_{name}" for name in re.findall(r"MYSQL_SYSVAR_\w+\(\s*(\w+),", text)}}


def metrics(path: Path) -> set[tuple[str, str]]:
    return set(METRIC.findall(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("path", [ALERTS, DASHBOARD], ids=lambda path: path.name)
def test_what_is_asked_for_is_there(path: Path) -> None:
    own = own_names()
    asked = metrics(path)
    assert asked
    assert {(kind, name) for kind, name in asked - UPSTREAM if name not in own[kind]} == set()


def test_the_dashboard_shows_all_that_this_build_counts() -> None:
    shown = {name for kind, name in metrics(DASHBOARD) if kind == "status"}
    assert own_names()["status"] - TEXT - shown == set()


def test_panels_do_not_overlap() -> None:
    cells = [
        (x, y)
        for panel in json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
        for place in [panel["gridPos"]]
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells)) and max(x for x, _ in cells) < 24


@pytest.fixture(scope="session")
def promtool(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The program; if it is not installed, out of Debian's package, which would start a server if it were installed."""
    if found := shutil.which("promtool"):
        return found
    program = this_layout().build / "tools/prometheus/usr/bin/promtool"
    if not program.exists():
        folder = tmp_path_factory.mktemp("prometheus")
        download = ["apt-get", "download", "prometheus"]
        if subprocess.run(download, cwd=folder, check=False).returncode != 0:
            subprocess.run(["apt-get", "update"], check=True)  # there may be no lists
            subprocess.run(download, cwd=folder, check=True)
        (package,) = folder.glob("*.deb")
        program.parents[2].mkdir(parents=True, exist_ok=True)
        subprocess.run(["dpkg-deb", "--extract", package, program.parents[2]], check=True)
    return str(program)


def check(promtool: str, rules: Path, text: str) -> subprocess.CompletedProcess[str]:
    rules.write_text(text, encoding="utf-8")
    return subprocess.run([promtool, "check", "rules", rules], capture_output=True, text=True, check=False)


def test_prometheus_takes_the_rules(promtool: str, tmp_path: Path) -> None:
    text = ALERTS.read_text(encoding="utf-8")
    done = check(promtool, tmp_path / "a.yml", text)
    assert done.returncode == 0 and f"{text.count('- alert:')} rules found" in done.stdout, done.stdout + done.stderr
    assert check(promtool, tmp_path / "b.yml", text.replace("> 0", "> > 0", 1)).returncode != 0


def test_prometheus_takes_the_expressions_of_the_dashboard(promtool: str, tmp_path: Path) -> None:
    dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    found = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    rules = [{"record": f"a{number}", "expr": text} for number, text in enumerate(found)]
    done = check(promtool, tmp_path / "c.yml", json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    assert done.returncode == 0 and f"{len(found)} rules found" in done.stdout, done.stdout + done.stderr
