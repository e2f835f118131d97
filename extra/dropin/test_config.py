# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""What a user's configuration meets: help, checks, errors and persisting of every variable.

Needs the built server (REDSTART_MYSQLD) and its client (REDSTART_MYSQL), and fails without.
The variables are those that our headers define, so that a new one cannot be forgotten.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dropin.server import START_LIMIT_SEC, Server, given

REPO = Path(__file__).resolve().parents[2]
MYSQLD, MYSQL = given("REDSTART_MYSQLD"), given("REDSTART_MYSQL")

# A variable of upstream of each kind, read-only and dynamic, whose errors ours must have too.
SIBLINGS = {
    ("BOOL", True): "innodb_validate_tablespace_paths",
    ("BOOL", False): "innodb_print_all_deadlocks",
    ("UINT", True): "innodb_read_io_threads",
    ("UINT", False): "innodb_lru_scan_depth",
    ("ENUM", True): "innodb_flush_method",
    ("ENUM", False): "innodb_default_row_format",
}
# For each ENUM a value that is not its default; a new ENUM without one fails.
OTHER_NAMES = {
    "innodb_tablespace_check_io": "THREADS",
    "innodb_redo_recovery": "STOCK",
    "innodb_recovery_flush": "WAIT",
    "innodb_recovery_undo_scan": "START",
}
# A manifest of keyring components that a test run of the build tree has left beside the server.
NOT_OURS = "MY-013711"


def _variables() -> dict[str, tuple[str, bool]]:
    """Kind of each variable of InnoDB that we define, and whether it is read-only."""
    found = {}
    for path in sorted((REPO / "storage").rglob("*_vars.h")):
        text = path.read_text(encoding="utf-8")
        for kind, name, rest in re.findall(r"MYSQL_(?:SYS|THD)VAR_([A-Z]+)\(\s*(\w+),(.*?)\);", text, re.DOTALL):
            found[f"innodb_{name}"] = (kind, "PLUGIN_VAR_READONLY" in rest)
    return found


VARIABLES = _variables()


def _run(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([MYSQLD, *options], capture_output=True, text=True, timeout=START_LIMIT_SEC)


def _option(name: str) -> str:
    return name.replace("_", "-")


@pytest.fixture(scope="session")
def help_text() -> str:
    return _run("--no-defaults", "--verbose", "--help").stdout


def _defaults(help_text: str) -> dict[str, str]:
    table = help_text.split("Variables (--variable-name=value)")[1]
    return dict(re.findall(r"^([a-z][a-z0-9-]*) +(\S.*)$", table, re.MULTILINE))


def test_there_are_variables() -> None:
    assert len(VARIABLES) >= 9
    assert set(VARIABLES.values()) <= set(SIBLINGS)


def test_help_has_default_and_description(help_text: str) -> None:
    defaults = _defaults(help_text)
    for name in VARIABLES:
        assert _option(name) in defaults, name
        # The description is the text between this option and the next.
        described = re.search(rf"^  --{_option(name)}\b.*?(?=^  -)", help_text, re.MULTILINE | re.DOTALL)
        assert described and len(described[0].split()) > 5, name


def test_documents_name_each_variable() -> None:
    readme = (REPO / "README.md").read_text(encoding="utf-8")
    stock = (REPO / "docs/examples/stock.cnf").read_text(encoding="utf-8")
    pages = "".join(path.read_text(encoding="utf-8") for path in (REPO / "docs").glob("*.md"))
    for name in VARIABLES:
        assert name in readme, f"README.md does not name {name}"
        assert name in stock, f"docs/examples/stock.cnf does not turn {name} off"
        assert name in pages, f"no page of docs/ names {name}"


def _documented() -> list[tuple[str, str, str]]:
    """Page, variable and default: the rows of tables whose second column is `default`, and `VALUE` (default)."""
    rows = []
    for path in sorted((REPO / "docs").glob("*.md")):
        column, named = "", ""
        for line in path.read_text(encoding="utf-8").splitlines():
            cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
            column = (column or cells[1]) if len(cells) > 1 else ""
            if match := re.fullmatch(r"`(innodb_\w+)`( \(.*\))?", cells[0] if cells else ""):
                rows += [(path.name, match[1], cells[1])] * (column == "default")
            elif match := re.search(r"`(innodb_\w+)`, (?:read-only|dynamic|session)[^:]*:$", line):
                named = match[1]
            elif match := re.fullmatch(r"`(\w+)` \(default\)", cells[0] if cells else ""):
                rows.append((path.name, named, match[1]))
    return rows


def test_documents_say_the_defaults(help_text: str) -> None:
    defaults = _defaults(help_text)
    values = {"TRUE": "ON", "FALSE": "OFF"}
    documented = _documented()
    assert {name for _, name, _ in documented} == set(VARIABLES)
    for page, name, default in documented:
        built_in = defaults[_option(name)]
        assert default == values.get(built_in, built_in), f"{page}: {name}"


@pytest.mark.parametrize("path", sorted((REPO / "docs/examples").glob("*.cnf")), ids=lambda path: path.name)
def test_examples_are_valid(path: Path) -> None:
    result = _run(f"--defaults-file={path}", "--validate-config", "--log-error-verbosity=2")
    assert result.returncode == 0, result.stderr
    assert [line for line in result.stderr.splitlines() if NOT_OURS not in line] == []
    names = set(re.findall(r"^(?:loose_)?(innodb_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE))
    known = _defaults(_run("--no-defaults", "--verbose", "--help").stdout)
    assert {name for name in names if _option(name) not in known} == set()


def test_example_with_an_error_is_refused(tmp_path: Path) -> None:
    """--validate-config can fail: what the test above relies on."""
    file = tmp_path / "my.cnf"
    file.write_text("[mysqld]\ninnodb_tablespace_check_lite = ON\n")
    result = _run(f"--defaults-file={file}", "--validate-config")
    assert result.returncode != 0
    assert "unknown variable 'innodb_tablespace_check_lite=ON'" in result.stderr


def _complaint(name: str, value: str) -> tuple[int, list[str]]:
    """Exit code and error log of --validate-config, without times and the name."""
    result = _run("--no-defaults", "--validate-config", f"--{_option(name)}={value}")
    lines = [re.sub(r"^\S+ \d+ ", "", line) for line in result.stderr.splitlines()]
    return result.returncode, [line.replace(_option(name), "NAME").replace(name, "NAME") for line in lines]


@pytest.mark.parametrize("name", VARIABLES)
@pytest.mark.parametrize("value", ["none", "", "1e3", "-1", "99999999999999999999", "0.5"])
def test_wrong_values_have_upstreams_errors(name: str, value: str) -> None:
    if value not in ("none", "") and VARIABLES[name][0] == "UINT":
        # Beyond the limits is cut, with a warning that names the value; both limits differ.
        code, lines = _complaint(name, value)
        other_code, other = _complaint(SIBLINGS[VARIABLES[name]], value)
        assert code == other_code
        assert [line.split(" ")[:4] for line in lines] == [line.split(" ")[:4] for line in other]
        return
    assert _complaint(name, value) == _complaint(SIBLINGS[VARIABLES[name]], value)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    # The path of a socket must be short.
    with (
        tempfile.TemporaryDirectory(prefix="redstart-config.") as folder,
        Server(Path(folder), [MYSQLD], MYSQL, "--skip-networking", "--disable-log-bin") as found,
    ):
        found.initialize()
        found.start()
        yield found
        found.stop()


def _other(name: str, kind: str, value: str) -> str:
    """A valid value of this variable that is not this one."""
    if kind == "BOOL":
        return "OFF" if value == "ON" else "ON"
    if kind == "ENUM":
        assert value != OTHER_NAMES[name]
        return OTHER_NAMES[name]
    return str(int(value) + 3)


def test_variables_are_persisted(server: Server) -> None:
    names = ", ".join(f"'{name}'" for name in VARIABLES)
    info = f"SELECT variable_name, variable_source FROM performance_schema.variables_info WHERE variable_name IN ({names})"
    assert dict(server.ask(info)) == dict.fromkeys(VARIABLES, "COMPILED")
    values = f"SELECT variable_name, variable_value FROM performance_schema.global_variables WHERE variable_name IN ({names})"
    before = dict(server.ask(values))
    assert set(before) == set(VARIABLES)
    wanted = {name: _other(name, kind, before[name]) for name, (kind, _) in VARIABLES.items()}
    for name, value in wanted.items():
        server.ask(f"SET PERSIST_ONLY {name} = {value}")
    persisted = dict(server.ask("SELECT variable_name, variable_value FROM performance_schema.persisted_variables"))
    assert persisted == wanted
    server.stop()
    server.start()
    assert dict(server.ask(values)) == wanted
    assert dict(server.ask(info)) == dict.fromkeys(VARIABLES, "PERSISTED")
    assert not [line for line in server.log.read_text().splitlines() if "innodb_" in line and "[ERROR]" in line]
    for name in VARIABLES:
        server.ask(f"RESET PERSIST {name}")
    server.stop()
    server.start()
    assert dict(server.ask(values)) == before


@pytest.mark.parametrize("name", VARIABLES)
def test_set_persist(server: Server, name: str) -> None:
    kind, is_read_only = VARIABLES[name]
    ask = f"SELECT variable_value FROM performance_schema.global_variables WHERE variable_name = '{name}'"
    value = server.ask(ask)[0][0]
    other = _other(name, kind, value)
    result = server.client(f"SET PERSIST {name} = {other}")
    if is_read_only:
        assert f"ERROR 1238 (HY000) at line 1: Variable '{name}' is a read only variable" in result.stderr
        return
    assert result.returncode == 0, result.stderr
    assert server.ask(ask) == [[other]]
    persisted = "SELECT variable_name, variable_value FROM performance_schema.persisted_variables"
    assert server.ask(persisted) == [[name, other]]
    server.ask(f"RESET PERSIST {name}; SET GLOBAL {name} = DEFAULT")
    assert server.ask(ask) == [[value]]


@pytest.mark.parametrize("name", VARIABLES)
def test_wrong_values_in_sql_have_upstreams_errors(server: Server, name: str) -> None:
    def outcome(variable: str, value: str) -> str:
        result = server.client(f"SET PERSIST_ONLY {variable} = {value}")
        server.ask(f"RESET PERSIST IF EXISTS {variable}")
        return result.stderr.replace(variable, "NAME")

    sibling = SIBLINGS[VARIABLES[name]]
    outcomes = {value: outcome(name, value) for value in ("'none'", "NULL", "0.5", "''", "-1", "@none", "no_such_name")}
    assert outcomes == {value: outcome(sibling, value) for value in outcomes}
    assert any("ERROR" in text for text in outcomes.values())
