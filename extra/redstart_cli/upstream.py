# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Pristine upstream trees: pinned in cmake/upstream.json, fetched, verified, unpacked.

A tree in build/upstream/<version> is complete and verified: it is made beside its place and renamed.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import shutil
import subprocess
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from overlay import OverlayError, upstream_version
from redstart_cli import apt, fetch
from redstart_cli.console import Meter, RedstartError, say, warn
from redstart_cli.disk import TREE_BYTES, Need, SpaceError, check_space
from redstart_cli.layout import Layout, cache_dir
from redstart_cli.locks import exclusive, shared

_CHUNK_BYTES = 1 << 20
_GZIP_MAGIC = b"\x1f\x8b"
_TEMPORARY = ".new"
# Of the files in which a refused tree differs, so many are named.
_NAMED_FILES = 5


class NoOriginError(RedstartError):
    """No origin has the tree of a release that is pinned."""


class ChecksumError(RedstartError):
    """A file that came is not the pinned one."""


class _WrongTree(RedstartError):
    def __init__(self, text: str, listing: str) -> None:
        super().__init__(text)
        self.listing = listing


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


@dataclass(frozen=True)
class OlderServer:
    """Debian's package of the server of an older patch release, which the archive holds and does not list any more."""

    version: str
    # Below the address of an archive.
    path: str
    count_bytes: int
    sha256: str


def read_older_server(repo: Path) -> OlderServer:
    """The older server of cmake/upstream.json."""
    path = repo / "cmake/upstream.json"
    try:
        pin = json.loads(path.read_text(encoding="utf-8"))["older_server"]
        return OlderServer(pin["version"], pin["path"], pin["bytes"], pin["sha256"])
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise RedstartError(f"{path} is damaged: {problem!r}") from problem


def _downloads(repo: Path, release: Release) -> list[tuple[str, str | None]]:
    """Address of the release's tarball in each download area, and of upstream's signature where there is one."""
    path = repo / "cmake/upstream.json"
    found: list[tuple[str, str | None]] = []
    try:
        for origin in json.loads(path.read_text(encoding="utf-8"))["downloads"]:
            url = origin["url"].format(version=release.version, series=release.version.rpartition(".")[0])
            found.append((url, url + origin["signature"] if "signature" in origin else None))
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise RedstartError(f"{path} is damaged: {problem!r}") from problem
    return found


def file_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _text_sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def tree_sha256(root: Path) -> str:
    """Hash over relative path, execute bit and content of every file, and target of every link."""
    return _text_sha256(_tree_listing(root))


def _tree_listing(root: Path) -> str:
    """A line for each file and link, of which tree_sha256() is the hash."""
    names = []
    for folder, folders, files in os.walk(root):
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        names += [os.path.relpath(os.path.join(folder, name), root) for name in files + links]

    def line(name: str) -> str:
        path = root / name
        if path.is_symlink():
            return f"l {os.readlink(path)} {name}\n"
        return f"{'x' if path.stat().st_mode & 0o100 else '-'} {file_sha256(path)} {name}\n"

    with ThreadPoolExecutor() as pool:
        return "".join(pool.map(line, sorted(names), chunksize=64))


def _listing_path(release: Release) -> Path:
    """Where the listing of a verified tree is kept, so that files of another can be named."""
    return cache_dir() / f"{release.tree_sha256}.gz"


def _difference(release: Release, listing: str) -> str:
    """The first files in which a tree is not the pinned one; empty if its listing is not at hand."""
    try:
        right = gzip.decompress(_listing_path(release).read_bytes()).decode("utf-8", "surrogateescape")
    except (OSError, EOFError, zlib.error):
        return ""
    if _text_sha256(right) != release.tree_sha256:
        return ""
    lines = set(listing.split("\n")) ^ set(right.split("\n"))
    names = sorted({line.split(" ", 2)[2] for line in lines})
    more = f" and {len(names) - _NAMED_FILES} more" if len(names) > _NAMED_FILES else ""
    return f"these files differ: {', '.join(names[:_NAMED_FILES])}{more}"


# Fetching


def cached_archive(release: Release) -> Path:
    """The release's verified archive in the user's cache directory, downloaded if needed."""

    def get(folder: Path) -> Path:
        return apt.download(
            folder,
            release.suite,
            release.package,
            release.package_version,
            release.is_source,
            release.file,
            release.count_bytes,
        )

    return _cached(release.file, release.sha256, release.count_bytes + 2 * apt.LISTS_BYTES, get)


def cached_older_server(mirror: str, pin: OlderServer) -> Path:
    """The same with the package of the older server, from the archive at `mirror`."""

    def get(folder: Path) -> Path:
        folder.mkdir()
        path = folder / Path(pin.path).name
        fetch.download(f"{mirror.rstrip('/')}/{pin.path}", path, pin.count_bytes)
        return path

    return _cached(Path(pin.path).name, pin.sha256, pin.count_bytes, get)


def _cached(file: str, sha256: str, count_bytes: int, get: Callable[[Path], Path]) -> Path:
    """A verified file in the user's cache directory; if it is not there, `get` gets it into a folder that goes afterwards."""
    cache = cache_dir()
    target = cache / file
    with exclusive(cache / "lock", f"the download cache {cache}", wait=True):
        if target.exists():
            if file_sha256(target) == sha256:
                return target
            warn(f"{target} does not have the pinned checksum; deleted, downloading again")
            target.unlink()
        check_space([Need(cache, count_bytes, "download")])
        private = cache / "download"
        shutil.rmtree(private, ignore_errors=True)
        try:
            path = get(private)
            found = file_sha256(path)
            if found != sha256:
                raise ChecksumError(
                    f"checksum mismatch: {file} from the archive has sha256 {found}, cmake/upstream.json "
                    f"pins {sha256}. The download was deleted."
                )
            path.rename(target)
        finally:
            shutil.rmtree(private, ignore_errors=True)
    return target


def _downloaded_tarball(release: Release, url: str, signature: str | None, target: Path) -> Path:
    """The tarball at `url`, as `target` in the cache. Its bytes are not pinned: the tree in it decides."""
    cache = cache_dir()
    with exclusive(cache / "lock", f"the download cache {cache}", wait=True):
        check_space([Need(cache, release.count_bytes, "download")])
        private = cache / "download"
        shutil.rmtree(private, ignore_errors=True)
        private.mkdir()
        try:
            path = private / target.name
            fetch.download(url, path, release.count_bytes)
            with path.open("rb") as file:
                if file.read(2) != _GZIP_MAGIC:
                    raise RedstartError("what came is no tarball")
            said = fetch.check_signature(path, signature) if signature else "it has no signature"
            path.replace(target)
        finally:
            shutil.rmtree(private, ignore_errors=True)
    say(f"{url}: {said}; the hash of the tree decides")
    return target


def _origins(repo: Path, release: Release) -> list[tuple[str, Callable[[], Path]]]:
    """Where the release may come from, in the order of trying: a name, and what gets the file."""
    kept = cache_dir() / f"mysql-{release.version}.tar.gz"
    found: list[tuple[str, Callable[[], Path]]] = [("Debian's archive", partial(cached_archive, release))]
    for url, signature in _downloads(repo, release):
        found.append((url, partial(_downloaded_tarball, release, url, signature, kept)))
    if kept.exists():
        found.insert(0, (str(kept), lambda: kept))
    return found


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
    expected: str | None
    if archive.name != release.file:
        stages = [["cat", str(archive)]]
        expected = None
    elif release.is_source:
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
            if expected is not None and found != expected:
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
    """build/upstream/<version>, fetched from the first origin that has it and unpacked if it is not there.

    Raises NoOriginError with each origin's reason; SpaceError ends it at once.
    """
    tree = layout.upstream / release.version
    if tree.is_dir():
        return tree
    layout.upstream.mkdir(parents=True, exist_ok=True)
    _remove_stale(layout.upstream)
    temporary = layout.upstream / (release.version + _TEMPORARY)
    failures: list[str] = []
    refused: list[tuple[str, str]] = []
    for name, get in _origins(layout.repo, release):
        check_space([Need(layout.upstream, TREE_BYTES, f"source tree of {release.version}")])
        if failures:
            warn(f"{failures[-1]}. Trying {name}.")
        try:
            _fill(release, get, temporary)
        except SpaceError:
            raise
        except RedstartError as problem:
            failures.append(f"{name}: {problem}")
            if isinstance(problem, _WrongTree):
                refused.append((name, problem.listing))
            continue
        temporary.rename(tree)
        for other, listing in refused:
            warn(f"{other} was refused: {_difference(release, listing)}")
        return tree
    raise NoOriginError(
        f"MySQL {release.version} cannot be had. Tried:\n" + "".join(f"  {failure}\n" for failure in failures)
        + "Is the network up?"
    )


def _fill(release: Release, get: Callable[[], Path], folder: Path) -> None:
    """Make `folder` with the verified tree out of the archive that `get` gets; no folder if that fails."""
    archive = get()
    folder.mkdir()
    try:
        _unpack(release, archive, folder)
        if archive.name == release.file:
            # It writes where the tree says: only for bytes that are pinned.
            restore_originals(folder)
        say(f"verifying the source tree of {release.version}")
        listing = _tree_listing(folder)
        found = _text_sha256(listing)
        if found != release.tree_sha256:
            text = f"checksum mismatch: the unpacked tree has {found}, cmake/upstream.json pins {release.tree_sha256}"
            if difference := _difference(release, listing):
                text += f"; {difference}"
            raise _WrongTree(text, listing)
        _listing_path(release).write_bytes(gzip.compress(listing.encode("utf-8", "surrogateescape"), 1))
    except BaseException as problem:
        shutil.rmtree(folder, ignore_errors=True)
        if isinstance(problem, RedstartError) and archive.name != release.file:
            archive.unlink(missing_ok=True)
        raise


# Choosing


def release_pin(layout: Layout, version: str) -> Release:
    """The pinned release, or RedstartError naming those that are known."""
    _, releases = read_pins(layout.repo)
    if version not in releases:
        raise RedstartError(
            f"unknown upstream version {version}; cmake/upstream.json has {', '.join(releases)}. "
            "For any other, give a MySQL checkout: --source DIR"
        )
    return releases[version]


@contextmanager
def reading(layout: Layout, version: str | None = None, checkout: Path | None = None) -> Iterator[Upstream]:
    """As pristine(), for a caller who only reads and holds no lock; the tree is made if it is not there."""
    if checkout is None and not (layout.upstream / (version or read_pins(layout.repo)[0])).is_dir():
        with exclusive(layout.lock, str(layout.build)):
            pristine(layout, version)
    with shared(layout.lock, str(layout.build)):
        yield pristine(layout, version, checkout)


def pristine(layout: Layout, version: str | None = None, checkout: Path | None = None) -> Upstream:
    """The pristine tree to work on: a checkout as it is, a pinned release, or the default one.

    The caller holds the lock of build/. Never another release than that: raises NoOriginError if it cannot be had.
    """
    if checkout is not None:
        checkout = checkout.resolve()
        try:
            found = upstream_version(checkout)
        except OverlayError as problem:
            raise RedstartError(str(problem)) from problem
        if version is not None and version != found:
            raise RedstartError(f"{checkout} holds {found}, not {version}")
        return Upstream(found, checkout, is_checkout=True)
    default, releases = read_pins(layout.repo)
    version = version or default
    try:
        return Upstream(version, _make_tree(layout, release_pin(layout, version)))
    except NoOriginError as problem:
        ways = [*(f"--upstream {other}" for other in releases if other != version), "--source DIR (a MySQL tree)"]
        raise NoOriginError(f"{problem} No other release is taken unasked. Ask for one: {', '.join(ways)}") from problem
