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
PLACES = [this_layout().repo / "storage/innobase", this_layout().repo / "sql"]
ALERTS, DASHBOARD = FOLDER / "alerts.yml", FOLDER / "dashboard.json"
METRIC = re.compile(r"\bmysql_global_(status|variables)_([a-z0-9_]+)\b")
# MySQL's own.
UPSTREAM = {("status", "uptime")}
# mysqld_exporter leaves out what is no number.
TEXT = {"innodb_tablespace_map_state"}


def texts(*patterns: str) -> str:
    """Our files of these names, edits among them, one after the other."""
    paths = [path for place in PLACES for pattern in patterns for path in sorted(place.rglob(pattern))]
    return "".join(path.read_text(encoding="utf-8") for path in paths)


def names_of_status(edits: str, sources: str) -> set[str]:
    """Names of status variables: what edits add to the lists of upstream, and what stands in the arrays that they add."""
    arrays = {
        name: re.findall(r'\{"(\w+)"', entries)
        for name, entries in re.findall(r"SHOW_VAR (\w+)\[\] = \{(.*?)\{(?:nullptr|NullS)", sources, re.DOTALL)
    }
    found: set[str] = set()
    # An entry has the array itself, or a pointer to it that is shorter to write.
    pointers = dict(re.findall(r"char \*const (\w+) = \(char \*\)([\w:]+);", sources))
    for name, value, kind in re.findall(r'\{"(\w+)",\s*(?:\(char \*\)&?)?([\w:.\[\]]+),\s*(SHOW_\w+)', edits):
        value = pointers.get(value.split("::")[-1], value)
        whole = name.lower() if name[0].isupper() else f"innodb_{name}"  # InnoDB's own list has no prefix
        found |= {f"{whole}_{entry}" for entry in arrays.pop(value.split("::")[-1])} if kind == "SHOW_ARRAY" else {whole}
    assert arrays == {}  # each is shown
    return found


def own_names() -> dict[str, set[str]]:
    """What this build adds: names of status variables, and of InnoDB's variables."""
    edits, sources = texts("*.edit.yaml"), texts("*.h", "*.cc")
    variables = re.findall(r"MYSQL_SYSVAR_\w+\(\s*(\w+),", edits + sources)
    return {"status": names_of_status(edits, sources), "variables": {f"innodb_{name}" for name in variables}}


def metrics(path: Path) -> set[tuple[str, str]]:
    return set(METRIC.findall(path.read_text(encoding="utf-8")))


def test_names_are_found_in_lists_and_arrays() -> None:
    edits = """
    {"check_files", (char *)&check::g_status.files, SHOW_LONGLONG,
    {"startup_usec", (char *)&progress::g_usec[0], SHOW_LONGLONG,
    {"Binlog_scan", (char *)binlog::g_array, SHOW_ARRAY,
    {"map", (char *)map_status, SHOW_ARRAY,
    {"merge", of::merge_status, SHOW_ARRAY,
    """
    sources = """
    SHOW_VAR g_array[] = {{"bytes", (char *)&s_bytes, SHOW_LONGLONG, SHOW_SCOPE_GLOBAL}, {NullS, NullS, SHOW_LONG}};
    static SHOW_VAR map_status[] = {
        {"state", (char *)&g_status.state, SHOW_CHAR, SHOW_SCOPE_GLOBAL},
        {"files", (char *)&g_status.files, SHOW_LONGLONG, SHOW_SCOPE_GLOBAL}, {nullptr, nullptr, SHOW_LONG}};
    SHOW_VAR g_list[] = {{"passes", (char *)&g_passes, SHOW_LONGLONG, SHOW_SCOPE_GLOBAL}, {nullptr, nullptr, SHOW_LONG}};
    static char *const merge_status = (char *)merge::g_list;
    """
    wanted = {"innodb_check_files", "innodb_startup_usec", "binlog_scan_bytes", "innodb_map_state", "innodb_map_files"}
    wanted |= {"innodb_merge_passes"}
    assert names_of_status(edits, sources) == wanted


def test_names_of_innodb_and_of_the_server_are_found() -> None:
    assert {"innodb_startup_usec", "binlog_startup_scan_bytes_skipped"} <= own_names()["status"]
    assert "innodb_tablespace_map" in own_names()["variables"]


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


# Status of a server that gives no alarm: a start of a second, with the map.
QUIET = {
    "mysql_global_variables_innodb_tablespace_map": "1x20",
    "mysql_global_status_innodb_tablespace_map_files_differing": "0x20",
    "mysql_global_status_innodb_tablespace_map_files_trusted": "1000x20",
    "mysql_global_status_innodb_startup_usec": "1000000x20",
    "mysql_global_status_uptime": "60+60x20",
    "mysql_global_status_innodb_recovery_lock_scan_running": "1x3 0x16",
    "mysql_global_status_innodb_ddl_merge_passes": "3x20",
}
# What has to be different for each alert.
LOUD = {
    "TablespaceFileChangedInPlace": {"mysql_global_status_innodb_tablespace_map_files_differing": "1x20"},
    "StartWithoutTablespaceMap": {
        "mysql_global_status_innodb_tablespace_map_files_trusted": "0x20",
        "mysql_global_status_innodb_startup_usec": "11000000x20",
    },
    "SlowStart": {"mysql_global_status_innodb_startup_usec": "61000000x20"},
    "DdlWaitsForRecovery": {"mysql_global_status_innodb_recovery_lock_scan_running": "1x20"},
    "IndexBuildMergesInPasses": {"mysql_global_status_innodb_ddl_merge_passes": "3+1x20"},
}


def alerts_of(promtool: str, folder: Path, series: dict[str, str], expected: set[str]) -> subprocess.CompletedProcess[str]:
    """`promtool test rules` with these series: each alert of LOUD fires after ten minutes if it is expected, and else not."""
    (folder / "alerts.yml").write_text(ALERTS.read_text(encoding="utf-8"), encoding="utf-8")
    given = [{"series": f'{name}{{instance="db"}}', "values": values} for name, values in series.items()]
    # Labels and texts are not compared.
    wanted = [
        {
            "expr": f'count(ALERTS{{alertname="{name}", alertstate="firing"}}) or vector(0)',
            "eval_time": "10m",
            "exp_samples": [{"labels": "{}", "value": int(name in expected)}],
        }
        for name in LOUD
    ]
    tests = [{"interval": "1m", "input_series": given, "promql_expr_test": wanted}]
    test = {"rule_files": ["alerts.yml"], "evaluation_interval": "1m", "tests": tests}
    (folder / "test.yml").write_text(json.dumps(test), encoding="utf-8")
    return subprocess.run([promtool, "test", "rules", "test.yml"], cwd=folder, capture_output=True, text=True, check=False)


def test_each_alert_is_tried() -> None:
    assert set(re.findall(r"- alert: (\w+)", ALERTS.read_text(encoding="utf-8"))) == set(LOUD)


@pytest.mark.parametrize("name", [None, *LOUD])
def test_alerts_fire_when_they_should_and_only_then(promtool: str, tmp_path: Path, name: str | None) -> None:
    series = QUIET | (LOUD[name] if name else {})
    done = alerts_of(promtool, tmp_path, series, {name} if name else set())
    assert done.returncode == 0, done.stdout + done.stderr
    # promtool compares: what is not expected fails.
    other = next(alert for alert in LOUD if alert != name)
    assert alerts_of(promtool, tmp_path, series, {other}).returncode != 0
