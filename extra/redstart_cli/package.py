# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""./redstart package: Debian packages of the preset `package`, by debhelper over a staged tree."""

from __future__ import annotations

import datetime
import hashlib
import os
import re
import shutil
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from email.utils import format_datetime
from pathlib import Path

from redstart_cli import revision
from redstart_cli.build import SERVER_TARGETS, build
from redstart_cli.console import RedstartError, say
from redstart_cli.disk import Need, check_space
from redstart_cli.layout import PACKAGE, Layout
from redstart_cli.process import Tail, run_logged

# The staged tree, the packages' trees and the packages; most of it is for the debugger.
PACKAGE_BYTES = 5_000_000_000
SERVER_PROGRAMS = ("mysqld",)
PROGRAMS = (
    "ibd2sdi",
    "innochecksum",
    "my_print_defaults",
    "myisam_ftdump",
    "myisamchk",
    "myisamlog",
    "myisampack",
    "mysql",
    "mysql_config_editor",
    "mysql_migrate_keyring",
    "mysql_secure_installation",
    "mysql_tzinfo_to_sql",
    "mysqladmin",
    "mysqlbinlog",
    "mysqlcheck",
    "mysqldump",
    "mysqlimport",
    "mysqlshow",
    "mysqlslap",
    "perror",
)
# Those of Debian's mysql-server-core.
PLUGINS = (
    "adt_null",
    "auth_socket",
    "authentication_webauthn",
    "component_audit_api_message_emit",
    "component_classic_hashing",
    "component_connection_control",
    "component_group_replication_elect_prefers_most_updated",
    "component_group_replication_flow_control_stats",
    "component_group_replication_resource_manager",
    "component_keyring_file",
    "component_log_filter_dragnet",
    "component_log_sink_json",
    "component_log_sink_syseventlog",
    "component_mysqlbackup",
    "component_query_attributes",
    "component_reference_cache",
    "component_replication_applier_metrics",
    "component_telemetry",
    "component_validate_password",
    "connection_control",
    "ddl_rewriter",
    "group_replication",
    "keyring_udf",
    "libpluginmecab",
    "locking_service",
    "mypluglib",
    "mysql_clone",
    "mysql_no_login",
    "rewriter",
    "semisync_replica",
    "semisync_source",
    "telemetry_client",
    "thread_pool",
    "validate_password",
)
# Those of the client library, in Debian's mysql-client-core.
CLIENT_PLUGINS = (
    "authentication_kerberos_client",
    "authentication_oci_client",
    "authentication_openid_connect_client",
    "authentication_webauthn_client",
    "mysql_native_password",
)
SCRIPTS = ("mysqld_multi", "mysqld_safe", "mysqldumpslow")
# What is in Debian's mysql-server beside the service: from the build tree, and from the source.
SERVICE_TEXTS = ("plugin/rewriter/install_rewriter.sql", "plugin/rewriter/uninstall_rewriter.sql")
SERVICE_SCRIPTS = ("support-files/mysqld_multi.server",)
# Manual pages that Debian has in mysql-client-core, although the programs are the server's: each half
# can be swapped alone only if no file is in both; and one on where the manual is.
CLIENT_PAGES = ("myisam_ftdump", "mysqldumpslow", "mysqlman")
PACKAGES = ("redstart-server-core", "redstart-client-core", "redstart-server")
DEFAULT_MAINTAINER = "Redstart authors <redstart@users.noreply.invalid>"


def package_version(upstream: str, number: int, snapshot: datetime.datetime | None = None) -> str:
    """9.7.4+redstart1-1: newer than Debian's 9.7.4-N, older than 9.7.5. A snapshot, 9.7.4+redstart1~20261231.120000-1,
    is older than the release that is to come."""
    time = f"{snapshot:~%Y%m%d.%H%M%S}" if snapshot else ""
    return f"{upstream}+redstart{number}{time}-1"


def this_version(repo: Path, upstream: str, when: datetime.datetime) -> str:
    """That of the tag at this commit, which CHANGELOG.md must know; else a snapshot before the next release."""
    found = releases((repo / "CHANGELOG.md").read_text(encoding="utf-8"))
    tagged = revision.release(repo)
    if tagged:
        name = f"{tagged[0]}-redstart{tagged[1]}"
        if tagged[0] != upstream:
            raise RedstartError(f"this is release {name}, and MySQL {upstream} is packaged")
        version = package_version(*tagged)
        if not found or found[0].version != version:
            raise RedstartError(f"this is release {name}, and CHANGELOG.md does not begin with it")
        return version
    mine = re.compile(re.escape(upstream) + r"\+redstart(\d+)-1")
    numbers = [int(match[1]) for match in (mine.fullmatch(release.version) for release in found) if match]
    return package_version(upstream, max(numbers, default=0) + 1, when)


def maintainer() -> str:
    """DEBFULLNAME and DEBEMAIL, as Debian's tools use them."""
    name, address = os.environ.get("DEBFULLNAME"), os.environ.get("DEBEMAIL")
    return f"{name} <{address}>" if name and address else DEFAULT_MAINTAINER


@dataclass
class Release:
    """A section of CHANGELOG.md. What is not released yet has no version and no date."""

    version: str
    when: datetime.datetime | None
    changes: list[str] = field(default_factory=list)


def releases(text: str) -> list[Release]:
    """The sections of CHANGELOG.md: `## Unreleased, ...` at most at the top, `## 9.7.4-redstart1, 2026-12-31`."""
    found: list[Release] = []
    for heading, body in re.findall(r"^## (.*)\n((?:(?!## ).*\n?)*)", text, re.MULTILINE):
        match = re.fullmatch(r"(\d+\.\d+\.\d+)-redstart(\d+), (\d{4}-\d\d-\d\d)", heading)
        if match:
            when = datetime.datetime.fromisoformat(match[3]).replace(tzinfo=datetime.UTC)
            found.append(Release(package_version(match[1], int(match[2])), when))
        elif not found and heading.startswith("Unreleased"):
            found.append(Release("", None))
        else:
            raise RedstartError(f"CHANGELOG.md: {heading!r} is neither VERSION-redstartN, DATE nor Unreleased at the top")
        points = re.findall(r"^- (.*(?:\n  .*)*)", body, re.MULTILINE)
        if not points:
            raise RedstartError(f"CHANGELOG.md: {heading!r} lists no change")
        found[-1].changes = [_plain(point) for point in points]
    return found


def _plain(markdown: str) -> str:
    """Without links and marks of code."""
    return " ".join(re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", markdown).replace("`", "").split())


# MySQL's list of the licences of all that it holds, in the folder of documentation of a package.
NOTICES = "upstream-notices"


def changelog(text: str, version: str, who: str, when: datetime.datetime) -> str:
    """Debian's changelog of this version, from CHANGELOG.md."""
    found = releases(text)
    if found and not found[0].version:
        found[0].version = version
    if not found or found[0].version != version:
        found.insert(0, Release(version, None, ["Not released; what is new is not listed."]))
    # The packages are as old as their source, also those of a release.
    found[0].when = when
    return "\n".join(_entry(release, who) for release in found)


def _entry(release: Release, who: str) -> str:
    assert release.when
    wrapped = [textwrap.wrap(change, 76, break_long_words=False, break_on_hyphens=False) for change in release.changes]
    lines = [f"  {'*' if not at else ' '} {line}\n" for change in wrapped for at, line in enumerate(change)]
    return (
        f"redstart ({release.version}) unstable; urgency=medium\n\n"
        f"{''.join(lines)}\n"
        f" -- {who}  {format_datetime(release.when)}\n"
    )


def release_notes(text: str, version: str, upstream: str, commit: str, packages: Sequence[Path]) -> str:
    """What goes beside the packages of this version: what they are of, what is new, and their checksums."""
    found = releases(text)
    changes = found[0].changes if found and found[0].version in ("", version) else []
    origin = f"MySQL {upstream}, commit {commit}" if commit else f"MySQL {upstream}"
    lines = [
        f"# Redstart {version}",
        "",
        f"Of {origin}. Install: `apt install ./redstart-*.deb`; back: `apt install mysql-server`.",
        *(["", "## Changes", "", *(f"- {change}" for change in changes)] if changes else []),
        *("", "## SHA-256", ""),
        *(f"    {hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}" for path in packages),
    ]
    return "\n".join(lines) + "\n"


def _install(source: Path, target: Path, mode: int) -> None:
    if not source.is_file():
        raise RedstartError(f"{source} was not built")
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    target.chmod(mode)


def stage(
    layout: Layout,
    root: Path,
    preset: str = PACKAGE,
    plugins: Sequence[str] = PLUGINS,
    client_plugins: Sequence[str] = CLIENT_PLUGINS,
) -> None:
    """Lay out the built files below `root` as they will be installed."""
    tree, source = layout.preset(preset), layout.source
    for program in SERVER_PROGRAMS:
        _install(layout.binary(preset, program), root / "usr/sbin" / program, 0o755)
    for program in PROGRAMS:
        _install(layout.binary(preset, program), root / "usr/bin" / program, 0o755)
    for script in SCRIPTS:
        _install(tree / "scripts" / script, root / "usr/bin" / script, 0o755)
    for plugin in plugins:
        name = f"{plugin}.so"
        _install(tree / "plugin_output_directory" / name, root / "usr/lib/mysql/plugin" / name, 0o644)
    # Apart, since the folder of plugins is the server package's.
    for plugin in client_plugins:
        _install(tree / "plugin_output_directory" / f"{plugin}.so", root / "client" / f"{plugin}.so", 0o644)
    share = root / "usr/share/mysql"
    # Where the tree has them follows from INSTALL_MYSQLSHAREDIR.
    languages = tree / "share/mysql" if preset == PACKAGE else tree / "share"
    for messages in sorted(languages.glob("*/errmsg.sys")):
        _install(messages, share / messages.parent.name / "errmsg.sys", 0o644)
    if not (share / "english/errmsg.sys").is_file():
        raise RedstartError(f"{languages} has no English messages: the build is not complete")
    for charset in sorted((source / "share/charsets").iterdir()):
        if charset.suffix == ".xml" or charset.name == "README":
            _install(charset, share / "charsets" / charset.name, 0o644)
    for file in (languages / "dictionary.txt", tree / "support-files/mysql-log-rotate"):
        _install(file, share / file.name, 0o644)
    # Apart, since what is in /usr/share/mysql is the core package's.
    for text in SERVICE_TEXTS:
        _install(tree / text, root / "server" / Path(text).name, 0o644)
    for script in SERVICE_SCRIPTS:
        _install(source / script, root / "server" / Path(script).name, 0o755)


def write_debian(
    layout: Layout, folder: Path, version: str, mysql_version: str, who: str, when: datetime.datetime
) -> None:
    """debian/ of the package tree: the repository's files, the changelog, lists of manual pages."""
    # As new as the rest: dpkg takes what is newer than SOURCE_DATE_EPOCH for as old, not what a checkout has left older.
    shutil.copytree(layout.repo / "packaging/debian", folder, copy_function=shutil.copy)
    control = (folder / "control").read_text(encoding="utf-8")
    (folder / "control").write_text(
        control.replace("@MAINTAINER@", who).replace("@MYSQL@", mysql_version), encoding="utf-8"
    )
    text = (layout.repo / "CHANGELOG.md").read_text(encoding="utf-8")
    (folder / "changelog").write_text(changelog(text, version, who, when), encoding="utf-8")
    _install(layout.source / "LICENSE", folder / NOTICES, 0o644)
    for package in PACKAGES[:2]:
        (folder / f"{package}.docs").write_text(f"debian/{NOTICES}\n", encoding="utf-8")
        lines = (folder / f"{package}.install").read_text(encoding="utf-8").splitlines()
        names = [Path(line).name for line in lines if line.startswith(("usr/bin/", "usr/sbin/"))]
        if package == "redstart-client-core":
            names += CLIENT_PAGES
        else:
            names = [name for name in names if name not in CLIENT_PAGES]
        pages = [page for name in names for page in sorted((layout.source / "man").glob(f"{name}.[18]"))]
        for page in pages:
            _install(page, folder / "man" / page.name, 0o644)
        lines = [f"debian/man/{page.name}\n" for page in pages]
        (folder / f"{package}.manpages").write_text("".join(lines), encoding="utf-8")


def work_folder(layout: Layout) -> Path:
    """Where packages are made and tested."""
    return layout.build / "packaging"


def targets(plugins: Sequence[str] = (*PLUGINS, *CLIENT_PLUGINS)) -> list[str]:
    """Everything that `stage` takes from the build."""
    files = (f"plugin_output_directory/{name}.so" for name in plugins)
    return list(dict.fromkeys([*SERVER_TARGETS, *PROGRAMS, *files]))


def package(layout: Layout, target: Path, version: str | None, checkout: Path | None) -> list[Path]:
    """Build the packages and put them into `target`; returns their paths."""
    work = work_folder(layout)
    check_space([Need(work, PACKAGE_BYTES, "packages")])
    if target.exists() and not target.is_dir():
        raise RedstartError(f"{target} is not a directory")
    tree = work / "tree"
    remove_old(tree, target)
    when = revision.source_date(layout.repo)
    # For the compiler, cmake and dpkg.
    os.environ["SOURCE_DATE_EPOCH"] = str(int(when.timestamp()))
    upstream = build(layout, PACKAGE, targets(), version, checkout)
    own = this_version(layout.repo, upstream, when)
    stage(layout, tree / "stage")
    write_debian(layout, tree / "debian", own, upstream, maintainer(), when)
    build_packages(tree, work / "package.log")
    made = hand_over(work, target)
    text = (layout.repo / "CHANGELOG.md").read_text(encoding="utf-8")
    notes = release_notes(text, own, upstream, revision.commit(layout.repo), made)
    (target / "release-notes.md").write_text(notes, encoding="utf-8")
    return made


def remove_old(tree: Path, target: Path) -> None:
    """So that nobody takes the packages of another time for new ones."""
    if tree.exists():
        shutil.rmtree(tree)
    for old in target.glob("redstart-*.deb"):
        old.unlink()


def build_packages(tree: Path, log: Path, environment: dict[str, str] | None = None) -> None:
    """The packages of a tree with `debian` and `stage`, beside it."""
    log.write_text("", encoding="utf-8")
    say(f"making the packages (log: {log})")
    tail = Tail(30)
    command: Sequence[str] = ["dpkg-buildpackage", "--build=binary", "--no-sign", "--no-pre-clean"]
    try:
        code = run_logged(command, log, tail.add, cwd=tree, environment=environment)
    except OSError as problem:
        raise RedstartError(f"dpkg-buildpackage does not run: {problem}") from problem
    if code != 0:
        raise RedstartError(f"dpkg-buildpackage failed; its last lines:\n{tail.text()}\nThe whole log is {log}")


def hand_over(work: Path, target: Path) -> list[Path]:
    """Move the packages from `work`; nothing else stays there."""
    target.mkdir(parents=True, exist_ok=True)
    made = []
    for path in sorted(work.glob("redstart-*.deb")):
        made.append(Path(shutil.move(path, target / path.name)))
    for leftover in (*work.glob("redstart_*.buildinfo"), *work.glob("redstart_*.changes")):
        leftover.unlink()
    missing = [name for name in PACKAGES if not any(path.name.startswith(f"{name}_") for path in made)]
    if missing:
        raise RedstartError(f"dpkg-buildpackage made no {', '.join(missing)}")
    return made


def describe(paths: Sequence[Path]) -> None:
    for path in paths:
        say(f"  {path} ({path.stat().st_size / 10**6:.1f} MB)")
    say("They need the libraries of the Debian release they were made on. Install: apt install ./redstart-*.deb")
