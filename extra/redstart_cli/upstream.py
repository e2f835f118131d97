# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Pristine upstream trees: pinned in cmake/upstream.json, fetched, verified, unpacked.

A tree in build/upstream/<version> is complete and verified: it is made beside its place and renamed.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from redstart_cli import apt
from redstart_cli.console import Meter, RedstartError, say, warn
from redstart_cli.disk import TREE_BYTES, Need, check_space
from redstart_cli.layout import Layout, cache_dir
from redstart_cli.locks import exclusive

_CHUNK_BYTES = 1 << 20
_TEMPORARY = ".new"


@dataclass(frozen=True)
class Release:
    """One release of cmake/upstream.json."""

    version: str
    package: str
    package_version: str
    suite: str
    is_source: bool
    file: str
    sha256: str
    count_bytes: int
    # Path inside a binary package and hash of the tarball that holds the tree.
    member: str | None
    member_sha256: str | None
    # Paths in the tree that not every origin has, or not with the same bytes; left out whatever the origin.
    drop: tuple[str, ...]
    tree_sha256: str


@dataclass(frozen=True)
class Upstream:
    """A pristine tree that edits can be applied to."""

    version: str
    tree: Path
    # True for a user's checkout (--source), of which nothing is verified.
    is_checkout: bool = False


def read_pins(repo: Path) -> tuple[str, dict[str, Release]]:
    """Default version and all releases of cmake/upstream.json."""
    path = repo / "cmake/upstream.json"
    try:
        data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        releases = {
            version: Release(
                version=version,
                package=pin["package"],
                package_version=pin["package_version"],
                suite=pin["suite"],
                is_source=pin["kind"] == "source",
                file=pin["file"],
                sha256=pin["sha256"],
                count_bytes=pin["bytes"],
                member=pin.get("member"),
                member_sha256=pin.get("member_sha256"),
                drop=tuple(pin.get("drop", [])),
                tree_sha256=pin["tree_sha256"],
            )
            for version, pin in data["releases"].items()
        }
        default = data["default"]
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise RedstartError(f"{path} is damaged: {problem!r}") from problem
    if default not in releases:
        raise RedstartError(f"{path}: the default {default} is not among the releases")
    return default, releases


def file_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def tree_sha256(root: Path) -> str:
    """Hash over relative path, execute bit and content of every file, and target of every link."""
    names = []
    for folder, folders, files in os.walk(root):
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        names += [os.path.relpath(os.path.join(folder, name), root) for name in files + links]

    def line(name: str) -> str:
        path = root / name
        if path.is_symlink():
            return f"l {os.readlink(path)} {name}\n"
        return f"{'x' if path.stat().st_mode & 0o100 else '-'} {file_sha256(path)} {name}\n"

    total = hashlib.sha256()
    with ThreadPoolExecutor() as pool:
        for text in pool.map(line, sorted(names), chunksize=64):
            total.update(text.encode("utf-8", "surrogateescape"))
    return total.hexdigest()


# Fetching


def cached_archive(release: Release) -> Path:
    """The release's verified archive in the user's cache directory, downloaded if needed."""
    cache = cache_dir()
    target = cache / release.file
    with exclusive(cache / "lock", f"the download cache {cache}", wait=True):
        if target.exists():
            if file_sha256(target) == release.sha256:
                return target
            warn(f"{target} does not have the pinned checksum; deleted, downloading again")
            target.unlink()
        check_space([Need(cache, release.count_bytes + 2 * apt.LISTS_BYTES, "download")])
        private = cache / "apt"
        shutil.rmtree(private, ignore_errors=True)
        try:
            path = apt.download(
                private,
                release.suite,
                release.package,
                release.package_version,
                release.is_source,
                release.file,
                release.count_bytes,
            )
            found = file_sha256(path)
            if found != release.sha256:
                raise RedstartError(
                    f"checksum mismatch: {release.file} from the archive has sha256 {found}, cmake/upstream.json "
                    f"pins {release.sha256}. The download was deleted."
                )
            path.rename(target)
        finally:
            shutil.rmtree(private, ignore_errors=True)
    return target


# Unpacking


def _copy_hashed(source: Any, sink: Any, meter: Meter) -> str:
    digest = hashlib.sha256()
    done = 0
    while chunk := source.read(_CHUNK_BYTES):
        digest.update(chunk)
        sink.write(chunk)
        done += len(chunk)
        meter.update(done)
    return digest.hexdigest()


def _unpack(release: Release, archive: Path, folder: Path) -> None:
    """Unpack the tree of `archive` into the empty `folder`; hashes what it reads on the way."""
    if release.is_source:
        stages = [["cat", str(archive)]]
        expected = release.sha256
    else:
        assert release.member is not None and release.member_sha256 is not None
        stages = [
            ["dpkg-deb", "--fsys-tarfile", str(archive)],
            ["tar", "--extract", "--to-stdout", f"./{release.member}"],
        ]
        expected = release.member_sha256
    # The folder at the top has another name in each origin.
    excluded = ["--anchored", "--no-wildcards-match-slash", *(f"--exclude=*/{name}" for name in release.drop)]
    extract = ["tar", "--extract", "--gzip", "--strip-components=1", "--no-same-owner", "--no-same-permissions"]
    readers: list[subprocess.Popen[bytes]] = []
    for stage in stages:
        stdin = readers[-1].stdout if readers else subprocess.DEVNULL
        readers.append(subprocess.Popen(stage, stdin=stdin, stdout=subprocess.PIPE))
        if len(readers) > 1:
            readers[-2].stdout.close()  # type: ignore[union-attr]
    writer = subprocess.Popen([*extract, *excluded, f"--directory={folder}"], stdin=subprocess.PIPE)
    problem = ""
    with Meter(f"unpacking {release.version}", release.count_bytes) as meter:
        try:
            found = _copy_hashed(readers[-1].stdout, writer.stdin, meter)
            if found != expected:
                problem = f"checksum mismatch inside {archive}: {found}, pinned {expected}"
        except BrokenPipeError:
            problem = "tar stopped"
        finally:
            readers[-1].stdout.close()  # type: ignore[union-attr]
            try:
                writer.stdin.close()  # type: ignore[union-attr]
            except BrokenPipeError:
                problem = problem or "tar stopped"
            codes = [process.wait() for process in (*readers, writer)]
    if problem or any(codes):
        raise RedstartError(f"unpacking {archive} failed (see above): {problem or 'exit codes ' + str(codes)}")


def restore_originals(tree: Path) -> None:
    """Undo the distribution's quilt patches: `.pc` holds the originals; an empty one = no file before."""
    quilt = tree / ".pc"
    if not quilt.is_dir():
        return
    for patch in reversed((quilt / "applied-patches").read_text(encoding="utf-8").split()):
        for original in sorted((quilt / patch).rglob("*")):
            if not original.is_file() or original.name == ".timestamp":
                continue
            target = tree / original.relative_to(quilt / patch)
            if original.stat().st_size == 0:
                target.unlink(missing_ok=True)
            else:
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(original, target)
    shutil.rmtree(quilt)


def _remove_stale(folder: Path) -> None:
    for path in folder.glob(f"*{_TEMPORARY}"):
        shutil.rmtree(path)


def _make_tree(layout: Layout, release: Release) -> Path:
    """build/upstream/<version>, fetched and unpacked if it is not there."""
    tree = layout.upstream / release.version
    if tree.is_dir():
        return tree
    layout.upstream.mkdir(parents=True, exist_ok=True)
    _remove_stale(layout.upstream)
    check_space([Need(layout.upstream, TREE_BYTES, f"source tree of {release.version}")])
    archive = cached_archive(release)
    temporary = layout.upstream / (release.version + _TEMPORARY)
    temporary.mkdir()
    try:
        _unpack(release, archive, temporary)
        restore_originals(temporary)
        say(f"verifying the source tree of {release.version}")
        found = tree_sha256(temporary)
        if found != release.tree_sha256:
            raise RedstartError(
                f"checksum mismatch: the unpacked tree of {release.version} has sha256 {found}, "
                f"cmake/upstream.json pins {release.tree_sha256}"
            )
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    temporary.rename(tree)
    return tree


# Choosing


def checkout_version(folder: Path) -> str:
    """Version of a MySQL source tree, from its MYSQL_VERSION file."""
    try:
        text = (folder / "MYSQL_VERSION").read_text(encoding="utf-8")
        parts = [re.search(rf"^MYSQL_VERSION_{name}=(\d+)", text, re.MULTILINE) for name in ("MAJOR", "MINOR", "PATCH")]
        return ".".join(part[1] for part in parts)  # type: ignore[index]
    except (OSError, TypeError, UnicodeDecodeError) as problem:
        raise RedstartError(f"{folder} is no MySQL source tree (no readable MYSQL_VERSION file in it)") from problem


def release_pin(layout: Layout, version: str) -> Release:
    """The pinned release, or RedstartError naming those that are known."""
    _, releases = read_pins(layout.repo)
    if version not in releases:
        raise RedstartError(
            f"unknown upstream version {version}; cmake/upstream.json has {', '.join(releases)}. "
            "For any other, give a MySQL checkout: --source DIR"
        )
    return releases[version]


def pristine(layout: Layout, version: str | None = None, checkout: Path | None = None) -> Upstream:
    """The pristine tree to work on.

    A checkout is used as it is. A version named by the user must be had; the default one may be
    replaced by another pinned release when the archive no longer has it, which is said aloud.
    """
    if checkout is not None:
        checkout = checkout.resolve()
        found = checkout_version(checkout)
        if version is not None and version != found:
            raise RedstartError(f"{checkout} holds {found}, not {version}")
        return Upstream(found, checkout, is_checkout=True)
    if version is not None:
        try:
            return Upstream(version, _make_tree(layout, release_pin(layout, version)))
        except apt.GoneError as problem:
            raise apt.GoneError(f"the archive no longer has {version} ({problem})") from problem

    default, releases = read_pins(layout.repo)
    remembered = layout.upstream / f"instead-of-{default}"
    if remembered.is_file() and not (layout.upstream / default).is_dir():
        candidate = remembered.read_text(encoding="utf-8").strip()
        if (layout.upstream / candidate).is_dir():
            warn(f"using {candidate}, as the archive no longer had {default}. --upstream {default} tries it again.")
            return Upstream(candidate, layout.upstream / candidate)
    gone: list[str] = []
    for candidate in [default, *(name for name in releases if name != default)]:
        try:
            tree = _make_tree(layout, releases[candidate])
        except apt.GoneError as problem:
            gone.append(f"{candidate} ({problem})")
            continue
        if gone:
            warn(f"the archive no longer has {'; '.join(gone)}. USING {candidate} INSTEAD.")
            remembered.write_text(candidate + "\n", encoding="utf-8")
        return Upstream(candidate, tree)
    raise RedstartError(
        f"the archive has none of the pinned releases: {'; '.join(gone)}. Give a MySQL checkout: --source DIR"
    )
