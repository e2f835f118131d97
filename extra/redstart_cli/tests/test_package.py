# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Packaging without a build: paths, commands, texts and scripts."""

from __future__ import annotations

import datetime
import itertools
import os
import subprocess
from pathlib import Path

import pytest

from redstart_cli import package, revision, testing
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
    version, snapshot = package.package_version("9.7.4", 1), package.package_version("9.7.4", 1, WHEN)
    assert (version, snapshot) == ("9.7.4+redstart1-1", "9.7.4+redstart1~20260102.030405-1")
    later = package.package_version("9.7.4", 1, WHEN.replace(hour=20))
    order = ("9.7.4-99", snapshot, later, version, package.package_version("9.7.4", 2, WHEN), "9.7.5-1")
    for lower, higher in itertools.pairwise(order):
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


def write_changes(repo: Path, text: str, monkeypatch: pytest.MonkeyPatch, tag: tuple[str, int] | None = None) -> None:
    (repo / "CHANGELOG.md").write_text(text, encoding="utf-8")
    monkeypatch.setattr(revision, "release", lambda _: tag)


def test_without_a_tag_a_snapshot_is_packaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_changes(tmp_path, CHANGES, monkeypatch)
    assert package.this_version(tmp_path, "9.7.4", WHEN) == "9.7.4+redstart3~20260102.030405-1"
    assert package.this_version(tmp_path, "9.7.5", WHEN) == "9.7.5+redstart1~20260102.030405-1"


def test_a_tag_is_a_release_that_the_changelog_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    released = CHANGES[CHANGES.index("## 9.7.4-redstart2") :]
    write_changes(tmp_path, released, monkeypatch, ("9.7.4", 2))
    assert package.this_version(tmp_path, "9.7.4", WHEN) == "9.7.4+redstart2-1"
    with pytest.raises(RedstartError, match=r"this is release 9\.7\.4-redstart2, and MySQL 9\.7\.5 is packaged"):
        package.this_version(tmp_path, "9.7.5", WHEN)
    for text, tag in ((CHANGES, ("9.7.4", 2)), (released, ("9.7.4", 3)), ("# Changes\n", ("9.7.4", 1))):
        write_changes(tmp_path, text, monkeypatch, tag)
        with pytest.raises(RedstartError, match=r"CHANGELOG\.md does not begin with it"):
            package.this_version(tmp_path, "9.7.4", WHEN)


def test_release_notes(tmp_path: Path) -> None:
    deb = tmp_path / "a_1_all.deb"
    deb.write_bytes(b"abc")
    checksum = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    text = package.release_notes(CHANGES, "9.7.5+redstart1~1-1", "9.7.5", "0123456789ab", [deb])
    assert text.startswith("# Redstart 9.7.5+redstart1~1-1\n\nOf MySQL 9.7.5, commit 0123456789ab. ")
    first = "A start is faster: innodb_a, ON (page), with a line that goes on and on until it has to be broken."
    assert f"\n## Changes\n\n- {first}\n- Another.\n\n## SHA-256\n\n    {checksum}  a_1_all.deb\n" in text
    assert "Second" not in text
    released = CHANGES[CHANGES.index("## 9.7.4-redstart2") :]
    assert "\n- Second.\n\n" in package.release_notes(released, "9.7.4+redstart2-1", "9.7.4", "", [deb])
    assert "Changes" not in package.release_notes(released, "9.7.4+redstart3~1-1", "9.7.4", "", [deb])


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


def test_changelog_of_a_release_and_of_what_comes_after_it() -> None:
    released = "# Changes\n\n" + CHANGES[CHANGES.index("## 9.7.4-redstart2") :]
    text = package.changelog(released, "9.7.4+redstart2-1", "A B <a@b.c>", WHEN)
    assert text.startswith("redstart (9.7.4+redstart2-1) unstable; urgency=medium\n\n  * Second.\n\n -- ")
    assert text.splitlines()[4] == " -- A B <a@b.c>  Fri, 02 Jan 2026 03:04:05 +0000"
    again = package.changelog(released, "9.7.4+redstart3~1-1", "A B <a@b.c>", WHEN)
    assert again.startswith("redstart (9.7.4+redstart3~1-1) ")
    assert "  * Not released; what is new is not listed.\n" in again
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


class Removed:
    """A root from which redstart-server was removed, and not purged. Debian's deb-systemd-helper keeps its records there, too."""

    UNITS, STATE = "etc/systemd/system", "var/lib/systemd/deb-systemd-helper-enabled"
    ALIAS = f"{UNITS}/mysql.service"

    def __init__(self, root: Path, script: Path) -> None:
        self.root, self._script = root, script
        unit = root / "usr/lib/systemd/system/redstart.service"
        unit.parent.mkdir(parents=True)
        unit.write_text((REPO / "packaging/debian/redstart-server.redstart.service").read_text())
        (root / "var/lib/mysql").mkdir(parents=True)
        (root / "etc/mysql/redstart.from-mysql").mkdir(parents=True)
        self._call("deb-systemd-helper", "enable", "redstart.service")
        assert (root / self.ALIAS).is_symlink()
        unit.unlink()
        self.postrm("remove")

    def _call(self, *words: str | Path) -> int:
        environment = {**os.environ, "DPKG_ROOT": str(self.root), "DPKG_MAINTSCRIPT_PACKAGE": "redstart-server"}
        return subprocess.run(words, env=environment).returncode

    def postrm(self, verb: str, end: str = "") -> int:
        """The script as debhelper makes it, with what ends it then; its status."""
        helper = f"if [ $1 = purge ]; then deb-systemd-helper purge redstart.service >/dev/null || true; {end or ':'}; fi"
        text = (REPO / "packaging/debian/redstart-server.postrm").read_text()
        assert text.count("#DEBHELPER#\n") == 1
        self._script.write_text(text.replace("#DEBHELPER#", helper))
        return self._call("sh", self._script, verb)

    def left(self) -> set[str]:
        return {str(path.relative_to(self.root)) for path in self.root.rglob("*") if not path.is_dir()}


@pytest.fixture
def removed(tmp_path: Path) -> Removed:
    return Removed(tmp_path / "root", tmp_path / "postrm")


def test_a_removal_and_a_purge_leave_no_link(removed: Removed) -> None:
    wants = f"{removed.STATE}/multi-user.target.wants/redstart.service"
    assert removed.ALIAS not in removed.left() and wants in removed.left()
    assert removed.postrm("purge") == 0
    assert removed.left() == set() and (removed.root / "var/lib/mysql").is_dir()


@pytest.mark.parametrize("target", ["/dev/null", "/usr/lib/systemd/system/mariadb.service"])
@pytest.mark.parametrize(("end", "status"), [("", 0), ("kill -KILL $$", -9)])
def test_a_purge_never_takes_the_link_of_another_package(removed: Removed, target: str, end: str, status: int) -> None:
    """Also one that is killed at once afterwards."""
    link, record = removed.root / removed.ALIAS, removed.root / removed.STATE / "mysql.service"
    link.symlink_to(target)
    record.touch()
    inode = link.lstat().st_ino
    assert removed.postrm("purge", end) == status
    assert str(link.readlink()) == target and link.lstat().st_ino == inode
    assert removed.left() == {removed.ALIAS, f"{removed.STATE}/mysql.service"}


def test_slow_levels_run_only_by_name() -> None:
    by_name = {"replication", "drivers", "packages", "stock", "dockerfile", "reproducible", "upgrade", "swap", "fuzz", "tidy",
               "arm64", "suites"}  # fmt: skip
    assert set(testing.NOT_IN_ALL) == by_name
    assert set(testing.NOT_IN_ALL) <= set(testing.LEVELS)
