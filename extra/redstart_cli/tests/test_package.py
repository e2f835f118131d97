# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Packaging without a build: paths, commands, texts and scripts."""

from __future__ import annotations

import datetime
import subprocess
from pathlib import Path

import pytest

from redstart_cli import package, testing
from redstart_cli.console import RedstartError
from redstart_cli.layout import Layout

REPO = Path(__file__).resolve().parents[3]


def test_every_client_plugin_is_in_the_client_package() -> None:
    lines = (REPO / "packaging/debian/redstart-client-core.install").read_text().splitlines()
    wanted = [f"client/{name}.so usr/lib/mysql/plugin" for name in package.CLIENT_PLUGINS]
    assert [line for line in lines if line.startswith("client/")] == wanted


def test_what_debian_has_beside_the_service_is_in_that_package() -> None:
    lines = (REPO / "packaging/debian/redstart-server.install").read_text().splitlines()
    staged = (*package.SERVICE_TEXTS, *package.SERVICE_SCRIPTS)
    assert sorted(lines) == sorted(f"server/{Path(name).name} usr/share/mysql" for name in staged)


def test_stage_takes_what_the_build_has(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "clone")
    tree, root = layout.preset("package"), tmp_path / "root"
    programs = (*package.SERVER_PROGRAMS, *package.PROGRAMS)
    files = [layout.binary("package", name) for name in programs]
    files += [tree / "scripts" / name for name in package.SCRIPTS]
    files += [tree / f"plugin_output_directory/{name}.so" for name in (*package.PLUGINS, *package.CLIENT_PLUGINS)]
    files += [tree / name for name in ("share/mysql/dictionary.txt", "support-files/mysql-log-rotate", *package.SERVICE_TEXTS)]
    files += [layout.source / name for name in ("share/charsets/Index.xml", *package.SERVICE_SCRIPTS)]
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    with pytest.raises(RedstartError, match="has no English messages"):
        package.stage(layout, root)
    for language in ("english", "german"):
        (tree / "share/mysql" / language).mkdir()
        (tree / f"share/mysql/{language}/errmsg.sys").write_text(language)
    package.stage(layout, root)
    assert (root / "usr/share/mysql/german/errmsg.sys").read_text() == "german"
    staged = {path.name for path in root.rglob("*") if path.is_file()}
    assert staged == {file.name for file in files} | {"errmsg.sys"}


def test_version_lies_between_stock_and_the_next_release() -> None:
    version = package.package_version("9.7.4", 1)
    for lower, higher in (("9.7.4-99", version), (version, package.package_version("9.7.4", 2)), (version, "9.7.5-1")):
        assert subprocess.run(["dpkg", "--compare-versions", lower, "lt", higher]).returncode == 0


def test_changelog_and_maintainer(monkeypatch: pytest.MonkeyPatch) -> None:
    when = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
    lines = package.changelog("1-1", "A B <a@b.c>", when).splitlines()
    assert lines[0] == "redstart (1-1) unstable; urgency=medium"
    assert lines[-1] == " -- A B <a@b.c>  Fri, 02 Jan 2026 03:04:05 +0000"
    monkeypatch.setenv("DEBFULLNAME", "N")
    monkeypatch.setenv("DEBEMAIL", "n@m.o")
    assert package.maintainer() == "N <n@m.o>"


def test_every_staged_program_is_in_one_package() -> None:
    lists = [(REPO / f"packaging/debian/{name}.install").read_text().split() for name in package.PACKAGES[:2]]
    listed = [path for lines in lists for path in lines if path.startswith(("usr/bin/", "usr/sbin/"))]
    staged = {f"usr/sbin/{name}" for name in package.SERVER_PROGRAMS}
    staged |= {f"usr/bin/{name}" for name in (*package.PROGRAMS, *package.SCRIPTS)}
    assert sorted(listed) == sorted(staged)


def test_slow_levels_run_only_by_name() -> None:
    assert set(testing.NOT_IN_ALL) == {"replication", "drivers", "packages", "stock", "dockerfile", "swap", "fuzz"}
    assert set(testing.NOT_IN_ALL) <= set(testing.LEVELS)
