# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""A series as git sees it: commits in a scratch repository, patches out.

Only the files that the series touches are in the scratch repository. git runs
with no configuration but what stands here, so that the same series gives the
same bytes on every machine and day.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from .errors import OverlayError
from .series import FileState, Series

# Who submits puts in a name of their own (see README in the output).
AUTHOR = "The Submitter <submitter@example.invalid>"
_EPOCH = "1767225600 +0000"
_FORMAT = (
    "--zero-commit --full-index --no-signature --no-renames --diff-algorithm=myers --unified=3 "
    "--src-prefix=a/ --dst-prefix=b/ --no-color --no-ext-diff --no-textconv --numbered "
    "--no-thread --no-notes --no-base --cover-letter --stat=79 --subject-prefix=PATCH"
).split()


class Git:
    """git in one directory, without any configuration of user or machine."""

    def __init__(self, directory: Path):
        self.directory = directory
        name, address = AUTHOR.rstrip(">").split(" <")
        kept = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
        self._environment = kept | {
            "HOME": str(directory),
            "XDG_CONFIG_HOME": str(directory),
            "LC_ALL": "C",
            "TZ": "UTC",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_CEILING_DIRECTORIES": str(directory.parent),
            "GIT_AUTHOR_NAME": name,
            "GIT_AUTHOR_EMAIL": address,
            "GIT_AUTHOR_DATE": _EPOCH,
            "GIT_COMMITTER_NAME": name,
            "GIT_COMMITTER_EMAIL": address,
            "GIT_COMMITTER_DATE": _EPOCH,
        }

    def run(self, *arguments: str, stdin: bytes = b"") -> bytes:
        """Output of a git command; raises OverlayError with what git said."""
        try:
            done = subprocess.run(
                ["git", *arguments],
                cwd=self.directory,
                env=self._environment,
                input=stdin,
                capture_output=True,
                check=False,
            )
        except OSError as error:
            raise OverlayError(f"git cannot be run: {error}") from error
        if done.returncode != 0:
            said = (done.stderr + done.stdout).decode("utf-8", "replace").strip()
            raise OverlayError(f"git {arguments[0]} failed: {said[-1000:]}")
        return done.stdout


@contextmanager
def commits_of(series: Series, messages: Sequence[str]) -> Iterator[tuple[Git, list[str]]]:
    """A scratch repository with a commit of the base and one for each step; their names in order."""
    with tempfile.TemporaryDirectory(prefix="series-") as folder:
        git = Git(Path(folder))
        git.run("init", "--quiet", "--bare", "--template=", "--initial-branch=series")
        changes = [step.changed for step in series.steps]
        _import(git, ["Base\n", *messages], [series.base, *changes])
        names = git.run("rev-list", "--reverse", "series").decode().split()
        yield git, names


def _import(git: Git, messages: Sequence[str], changes: Sequence[Mapping[str, FileState]]) -> None:
    stream = [b"feature done\n"]
    for message, changed in zip(messages, changes, strict=True):
        text = message.encode("utf-8")
        stream.append(f"commit refs/heads/series\ncommitter {AUTHOR} {_EPOCH}\n".encode())
        stream.append(b"data %d\n%s" % (len(text), text))
        for path, state in sorted(changed.items()):
            mode = "100755" if state.executable else "100644"
            stream.append(f"M {mode} inline {_quoted(path)}\n".encode())
            stream.append(b"data %d\n%s\n" % (len(state.data), state.data))
    stream.append(b"done\n")
    git.run("fast-import", "--quiet", stdin=b"".join(stream))


def _quoted(path: str) -> str:
    if "\n" in path:
        raise OverlayError(f"{path!r}: no line end in a file name, please")
    escaped = path.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def format_patches(git: Git, first: str, last: str) -> dict[str, bytes]:
    """File name to content: a cover letter and the patches after `first` up to `last`."""
    with tempfile.TemporaryDirectory(prefix="patches-") as folder:
        git.run("format-patch", *_FORMAT, f"--output-directory={folder}", f"{first}..{last}")
        return {file.name: file.read_bytes() for file in sorted(Path(folder).iterdir())}


def diffstat(git: Git, first: str, last: str, paths: Sequence[str]) -> list[tuple[str, int, int]]:
    """Each of the paths that differs between two commits, lines added, lines removed."""
    text = git.run("diff", "--numstat", "--no-renames", "-z", first, last, "--", *paths).decode()
    rows = (line.split("\t") for line in text.split("\0") if line)
    return [(path, int(added), int(removed)) for added, removed, path in rows]


def added_lines(git: Git, first: str, last: str, path: str) -> list[tuple[int, int]]:
    """First and last line, from 1, of each run of lines that a file gained."""
    text = git.run("diff", "--unified=0", "--no-ext-diff", first, last, "--", path)
    runs = []
    for line in text.split(b"\n"):
        if line.startswith(b"@@ "):
            start, _, count = line.split(b" ")[2][1:].partition(b",")
            if count != b"0":
                runs.append((int(start), int(start) + int(count or b"1") - 1))
    return runs
