# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Packaging without a build: paths, commands, texts and scripts."""

from __future__ import annotations

import datetime
import os
import subprocess
from pathlib import Path

import pytest

from redstart_cli import package, testing
from redstart_cli.console import RedstartError
from redstart_cli.layout import Layout
from redstart_cli.tests.conftest import write_program

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


WHEN = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
CHANGES = """\
# Changes

What users see.

## Unreleased, MySQL 9.7.5

Text that is no change.

- A start is faster: `innodb_a`, ON ([page](docs/a.md)), with a line that goes on and on
  until it has to be broken.
- Another.

## 9.7.4-redstart2, 2025-12-31

- Second.

## 9.7.4-redstart1, 2025-11-30

- First.
"""


def test_changelog() -> None:
    text = package.changelog(CHANGES, "9.7.5+redstart1-1", "A B <a@b.c>", WHEN)
    assert text.splitlines()[:7] == [
        "redstart (9.7.5+redstart1-1) unstable; urgency=medium",
        "",
        "  * A start is faster: innodb_a, ON (page), with a line that goes on and on",
        "    until it has to be broken.",
        "  * Another.",
        "",
        " -- A B <a@b.c>  Fri, 02 Jan 2026 03:04:05 +0000",
    ]
    heads = [line for line in text.splitlines() if line.startswith("redstart")]
    versions = ("9.7.5+redstart1-1", "9.7.4+redstart2-1", "9.7.4+redstart1-1")
    assert heads == [f"redstart ({version}) unstable; urgency=medium" for version in versions]
    assert text.endswith("\n\n  * First.\n\n -- A B <a@b.c>  Sun, 30 Nov 2025 00:00:00 +0000\n")


def test_changelog_of_a_release_and_of_new_packages_of_it() -> None:
    released = "# Changes\n\n" + CHANGES[CHANGES.index("## 9.7.4-redstart2") :]
    text = package.changelog(released, "9.7.4+redstart2-1", "A B <a@b.c>", WHEN)
    assert text.startswith("redstart (9.7.4+redstart2-1) unstable; urgency=medium\n\n  * Second.\n\n -- ")
    assert text.splitlines()[4] == " -- A B <a@b.c>  Fri, 02 Jan 2026 03:04:05 +0000"
    again = package.changelog(released, "9.7.4+redstart3-1", "A B <a@b.c>", WHEN)
    assert again.startswith("redstart (9.7.4+redstart3-1) ")
    assert "  * The same sources, in new packages.\n" in again
    assert "\n\n -- A B <a@b.c>  Wed, 31 Dec 2025 00:00:00 +0000\n\nredstart (9.7.4+redstart1-1)" in again


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("## 9.7.4, 2026-01-01\n\n- A\n", "'9.7.4, 2026-01-01' is neither"),
        ("## 9.7.4-redstart1, 2026-01-01\n\n- A\n\n## Unreleased\n\n- B\n", "'Unreleased' is neither"),
        ("## Unreleased\n\nText.\n", "'Unreleased' lists no change"),
    ],
)
def test_a_changelog_that_is_not_understood_is_an_error(text: str, words: str) -> None:
    with pytest.raises(RedstartError, match=words):
        package.changelog(text, "1-1", "A <a@b.c>", WHEN)


def test_dpkg_reads_our_changelog(tmp_path: Path) -> None:
    source = (REPO / "CHANGELOG.md").read_text(encoding="utf-8")
    (tmp_path / "changelog").write_text(package.changelog(source, "9.7.4+redstart1-1", "A B <a@b.c>", WHEN), encoding="utf-8")
    command = ["dpkg-parsechangelog", "--all", "--file", str(tmp_path / "changelog"), "--show-field"]
    read = [subprocess.run([*command, name], capture_output=True, text=True, check=True) for name in ("Version", "Changes")]
    assert not any(result.stderr for result in read)
    assert read[0].stdout.splitlines()[0] == "9.7.4+redstart1-1"
    points = [line for line in source.splitlines() if line.startswith("- ")]
    assert read[1].stdout.count("\n  * ") == len(points) > 10
    assert not any(len(line) > 80 for line in read[1].stdout.splitlines())


def test_time_of_the_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    before = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
    assert before <= package.source_date(tmp_path) <= datetime.datetime.now(datetime.UTC)
    names = {f"GIT_{who}_{what}": "a@b.c" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    for command in (["init", "--quiet"], ["commit", "--quiet", "--allow-empty", "--message", "A"]):
        environment = {"PATH": os.environ["PATH"], "GIT_COMMITTER_DATE": "2026-01-02T03:04:05Z", **names}
        subprocess.run(["git", "-C", str(tmp_path), *command], check=True, env=environment)
    assert package.source_date(tmp_path) == WHEN
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1")
    assert package.source_date(tmp_path).timestamp() == 1
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "yesterday")
    with pytest.raises(RedstartError, match="'yesterday'"):
        package.source_date(tmp_path)


@pytest.mark.parametrize(
    ("architecture", "triplet", "flag"),
    [("amd64", "x86_64-linux-gnu", "-fcf-protection"), ("arm64", "aarch64-linux-gnu", "-mbranch-protection=standard")],
)
def test_architecture(tmp_path: Path, architecture: str, triplet: str, flag: str) -> None:
    answers = f"-qDEB_HOST_ARCH) echo {architecture} ;; -qDEB_HOST_MULTIARCH) echo {triplet} ;; *) exit 1 ;;"
    write_program(tmp_path / "bin/dpkg-architecture", f"#!/bin/sh\ncase $1 in {answers} esac\n")
    (tmp_path / "a.cmake").write_text(
        f"include({REPO}/cmake/package.cmake)\n"
        'message("$CACHE{INSTALL_LIBDIR}|$CACHE{CMAKE_C_FLAGS}|$CACHE{CMAKE_CXX_FLAGS}")\n'
    )
    environment = {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    done = subprocess.run(["cmake", "-P", tmp_path / "a.cmake"], capture_output=True, text=True, check=True, env=environment)
    folder, *flags = done.stderr.strip().split("|")
    assert folder == f"lib/{triplet}"
    others = {"-fcf-protection", "-mbranch-protection=standard"} - {flag}
    for line in flags:
        assert {flag, "-fstack-clash-protection"} <= set(line.split()) and not others & set(line.split())
    # The packages that hold programs are for the same architectures.
    control = (REPO / "packaging/debian/control").read_text()
    assert control.count("\nArchitecture: amd64 arm64\n") == 2


def test_maintainer(monkeypatch: pytest.MonkeyPatch) -> None:
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
    assert set(testing.NOT_IN_ALL) == {"replication", "drivers", "packages", "stock", "dockerfile", "swap", "fuzz", "tidy"}
    assert set(testing.NOT_IN_ALL) <= set(testing.LEVELS)
