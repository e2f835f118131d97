# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The source tree on disk: the pristine tree, our files and the edited files.

Crash safety. A tree made from scratch is made under another name and renamed
when whole; its manifest is written after that, and a tree without a manifest
is made again. An update of a tree first writes a manifest that names every
file it may touch, then the files, then the final manifest. Each apply compares
all files its manifest names by content, so that whatever a killed one left is
put right.

Times. Unchanged files keep the times of the pristine tree. Every file whose
bytes differ from what stood at its path before gets the current time, also
when it becomes older in content (an edit withdrawn, another version), because
build tools go by time alone.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from . import model
from .errors import OverlayError
from .plan import Plan, make_plan, require_version
from .splice import Landing

_FORMAT = 1


@dataclass
class Report:
    """What an apply did. Paths are relative to the source tree."""

    rebuilt: bool = False
    written: list[str] = field(default_factory=list)
    restored: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    landings: list[Landing] = field(default_factory=list)

    def as_json(self) -> str:
        return json.dumps(asdict(self), indent=1)

    def __str__(self) -> str:
        made = "made anew" if self.rebuilt else "updated"
        return (
            f"source tree {made}: {len(self.landings)} edits, {len(self.written)} files written, "
            f"{len(self.restored)} restored, {len(self.removed)} removed"
        )


def apply(
    repo: Path, upstream: Path, dest: Path, version: str, features: list[str] | None = None
) -> Report:
    """Make or update the source tree at dest; see the top of this file.

    features: names to apply, None for all. Raises OverlayError before the
    first byte is written when anything is wrong with repository or upstream.
    """
    repo, upstream, dest = repo.resolve(), upstream.resolve(), dest.absolute()
    require_version(upstream, version)
    _require_apart(repo, upstream, dest)
    plan = make_plan(model.load(repo), upstream, version, features)
    dest.parent.mkdir(parents=True, exist_ok=True)
    with _lock(dest):
        identity = {
            "version": version,
            "upstream": str(upstream),
            "upstream_inode": upstream.stat().st_ino,
        }
        tracked = _read_manifest(dest, identity)
        if tracked is None:
            report = _make(upstream, dest, plan, identity)
        else:
            report = _update(upstream, dest, plan, identity, tracked)
    report.landings = plan.landings
    return report


def manifest_path(dest: Path) -> Path:
    """Where the manifest of the tree at dest is kept."""
    return dest.with_name(dest.name + ".manifest.json")


def _make(upstream: Path, dest: Path, plan: Plan, identity: dict[str, Any]) -> Report:
    """Make the tree from scratch beside dest, then swap it in."""
    _require_ours(dest)
    new, old = dest.with_name(dest.name + ".new"), dest.with_name(dest.name + ".old")
    for leftover in (new, old):
        shutil.rmtree(leftover, ignore_errors=True)
    new.mkdir()
    entries = sorted(str(entry) for entry in upstream.iterdir() if entry.name != ".git")
    copy = ["cp", "-R", "-P", "--preserve=mode,timestamps,links", "--reflink=auto", "--"]
    done = subprocess.run([*copy, *entries, str(new)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        shutil.rmtree(new, ignore_errors=True)
        raise OverlayError(f"cannot copy {upstream}: {done.stderr.strip()[-500:]}")
    report = Report(rebuilt=True)
    for path, data in plan.contents.items():
        _write(new, path, data, plan)
        report.written.append(path)
    if dest.exists():
        _touch_changed(new, dest)
    manifest_path(dest).unlink(missing_ok=True)
    if dest.exists():
        dest.rename(old)
    new.rename(dest)
    _write_manifest(dest, identity, plan, [])
    shutil.rmtree(old, ignore_errors=True)
    return report


def _update(
    upstream: Path, dest: Path, plan: Plan, identity: dict[str, Any], tracked: list[str]
) -> Report:
    """Write, restore and remove what differs from the plan."""
    report = Report()
    changes: dict[str, bytes | None] = {}
    for path, data in plan.contents.items():
        if not _holds(dest, path, data, plan):
            changes[path] = data
            report.written.append(path)
    for path in tracked:
        if path in plan.contents:
            continue
        pristine = upstream / path
        if not pristine.is_file():
            if (dest / path).exists():
                changes[path] = None
                report.removed.append(path)
        elif not (dest / path).is_file() or (dest / path).read_bytes() != pristine.read_bytes():
            changes[path] = pristine.read_bytes()
            report.restored.append(path)
    stale = set(tracked) - set(plan.contents)
    if changes:
        _write_manifest(dest, identity, plan, sorted(stale))
    for path, new in changes.items():
        if new is not None:
            _write(dest, path, new, plan)
        else:
            _remove(dest, path, upstream)
    if changes or stale or set(plan.contents) - set(tracked):
        _write_manifest(dest, identity, plan, [])
    return report


def _holds(dest: Path, path: str, data: bytes, plan: Plan) -> bool:
    """Whether the file in the tree is as planned already."""
    file = dest / path
    if not file.is_file() or file.read_bytes() != data:
        return False
    return path not in plan.own or _mode(file) == _mode(plan.own[path])


def _mode(file: Path) -> int:
    """Permissions a file gets in the tree: executable or not is all that counts."""
    return 0o755 if file.stat().st_mode & 0o100 else 0o644


def _write(root: Path, path: str, data: bytes, plan: Plan) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)
    if path in plan.own:
        file.chmod(_mode(plan.own[path]))


def _remove(dest: Path, path: str, upstream: Path) -> None:
    """Remove a file, and the directories that it leaves empty and upstream lacks."""
    (dest / path).unlink()
    for parent in Path(path).parents:
        if (upstream / parent).is_dir() or any((dest / parent).iterdir()):
            break
        (dest / parent).rmdir()


def _touch_changed(new: Path, old: Path) -> None:
    """Give files that differ in size or time from those they replace the current time."""
    for directory, _, files in os.walk(new):
        for name in files:
            file = Path(directory, name)
            before = old / file.relative_to(new)
            if file.is_symlink():
                continue
            now = file.stat()
            if before.is_file():
                then = before.stat()
                if (then.st_size, then.st_mtime_ns) == (now.st_size, now.st_mtime_ns):
                    continue
            os.utime(file)


def _read_manifest(dest: Path, identity: dict[str, Any]) -> list[str] | None:
    """Paths the tree at dest may hold of ours, or None: make it from scratch."""
    if not dest.is_dir():
        return None
    try:
        manifest = json.loads(manifest_path(dest).read_text(encoding="utf-8"))
        if manifest["format"] != _FORMAT or manifest["identity"] != identity:
            return None
        return [*manifest["files"], *manifest["stale"]]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write_manifest(dest: Path, identity: dict[str, Any], plan: Plan, stale: list[str]) -> None:
    """Replace the manifest. `stale`: paths still to be restored or removed;
    while an update runs it may be that files do not have their hash yet."""
    files = {path: hashlib.sha256(data).hexdigest() for path, data in sorted(plan.contents.items())}
    manifest = {"format": _FORMAT, "identity": identity, "files": files, "stale": stale}
    target = manifest_path(dest)
    draft = target.with_name(target.name + ".new")
    draft.write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    os.replace(draft, target)


def _require_apart(repo: Path, upstream: Path, dest: Path) -> None:
    """Raise OverlayError when making dest could harm the repository or upstream."""
    if not upstream.is_dir():
        raise OverlayError(f"{upstream}: no such directory")
    real = dest.resolve()
    for other in (upstream, repo):
        if real == other or real in other.parents:
            raise OverlayError(f"{dest} would overwrite {other}")
    if upstream in real.parents:
        raise OverlayError(f"{dest} lies inside the upstream tree")


def _require_ours(dest: Path) -> None:
    """Raise OverlayError when dest holds something that is not a tree of ours."""
    empty = not dest.exists() or (dest.is_dir() and not any(dest.iterdir()))
    ours = (dest / "MYSQL_VERSION").is_file() and not (dest / ".git").exists()
    if not (empty or ours):
        raise OverlayError(f"{dest} exists and is not a source tree made by us: remove it")


@contextmanager
def _lock(dest: Path) -> Iterator[None]:
    """Keep a second apply on the same tree waiting."""
    with open(dest.with_name(dest.name + ".lock"), "w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
