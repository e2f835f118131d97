# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The reading of the Dockerfile, without a root to run it in."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from dropin import dockerfile
from redstart_cli.layout import cache_dir
from redstart_cli.tests.conftest import Program

REPO = Path(__file__).resolve().parents[3]


def test_our_dockerfile() -> None:
    build, image = dockerfile.parse((REPO / "Docker/Dockerfile").read_text())
    assert build.base == image.base and build.name == "build"
    (command,) = [rest for name, rest in build.steps if name == "RUN"]
    told = 'REDSTART_COMMIT="$REVISION" REDSTART_RELEASE="$RELEASE"'
    assert command == f"apt-get update && {told} ./redstart package /packages"
    assert {("ARG", name) for name in ("REVISION", "RELEASE", "SOURCE_DATE_EPOCH")} <= set(build.steps)
    names = [name for name, _ in image.steps]
    assert names.index("USER") > max(i for i, name in enumerate(names) if name == "RUN")
    assert "HEALTHCHECK" in names and "ENTRYPOINT" in names


def test_lines_are_joined_and_comments_left_out() -> None:
    (stage,) = dockerfile.parse("# a\nFROM debian:x\nRUN a && \\\n# b\n    c\n\nUSER u\n")
    assert [(name, " ".join(rest.split())) for name, rest in stage.steps] == [("RUN", "a && c"), ("USER", "u")]


def test_a_step_before_from_is_an_error() -> None:
    with pytest.raises(dockerfile.DockerfileError, match="RUN before FROM"):
        dockerfile.parse("RUN a\n")


def test_an_unknown_step_is_an_error(tmp_path: Path) -> None:
    runner = dockerfile.Runner(tmp_path, tmp_path, "")
    stage = dockerfile.Stage("debian:x", "0")
    with pytest.raises(dockerfile.DockerfileError, match="ONBUILD is not known"):
        runner._step(stage, "ONBUILD", "RUN a")
    with pytest.raises(dockerfile.DockerfileError, match="HEALTHCHECK --start-interval"):
        runner._step(stage, "HEALTHCHECK", '--start-interval=1s CMD ["a"]')
    runner._step(stage, "HEALTHCHECK", '--start-period=24h CMD ["a"]')
    assert stage.health == ["a"]
    with pytest.raises(dockerfile.DockerfileError, match="ARG A=1"):
        runner._step(stage, "ARG", "A=1")
    runner._step(stage, "ARG", "A")


def test_labels(tmp_path: Path) -> None:
    _, image = dockerfile.parse((REPO / "Docker/Dockerfile").read_text())
    runner = dockerfile.Runner(tmp_path, tmp_path, "")
    for name, rest in image.steps:
        if name == "LABEL":
            runner._step(image, name, rest)
    prefix = "org.opencontainers.image."
    assert "@".join(image.labels[f"{prefix}base.{word}"] for word in ("name", "digest")) == image.base
    assert image.labels[f"{prefix}revision"] == "$REVISION"
    assert image.labels[f"{prefix}version"] == "9.7.4"
    names = ("title", "description", "version", "revision", "base.name", "base.digest", "licenses")
    assert set(image.labels) == {prefix + name for name in names}


def test_the_base_is_pinned_by_content() -> None:
    text = (REPO / "Docker/Dockerfile").read_text(encoding="utf-8")
    bases = {stage.base for stage in dockerfile.parse(text)}
    assert len(bases) == 1, bases
    name, digest = bases.pop().split("@")
    for word, value in (("name", name), ("digest", digest)):
        assert f'org.opencontainers.image.base.{word}="{value}"' in text
    assert f"`{name}`" in (REPO / "docs/container.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("base", ["debian:bookworm-20260918-slim", "debian:bookworm-slim@sha256:" + "0" * 64, "debian:bookworm"])
def test_a_base_without_date_or_digest_is_refused(base: str, tmp_path: Path) -> None:
    with pytest.raises(dockerfile.DockerfileError, match="is not debian:RELEASE-DATE-slim@sha256:DIGEST"):
        dockerfile.make_base(base, tmp_path / "root", "", tmp_path / "log")


def test_copy(tmp_path: Path) -> None:
    context, root = tmp_path / "context", tmp_path / "root"
    (context / "build").mkdir(parents=True)
    (context / "a").write_text("a")
    (context / "b").write_text("b")
    (context / ".dockerignore").write_text("# c\nbuild\n")
    runner = dockerfile.Runner(context, tmp_path, "")
    stage = dockerfile.Stage("debian:x", "0", root=root)
    runner._step(stage, "COPY", ". /all")
    assert sorted(path.name for path in (root / "all").iterdir()) == [".dockerignore", "a", "b"]
    runner._step(stage, "COPY", "a b /folder/")
    runner._step(stage, "COPY", "a /etc/one")
    assert (root / "folder/b").read_text() == "b" and (root / "etc/one").read_text() == "a"
    with pytest.raises(dockerfile.DockerfileError, match="found only 0"):
        runner._step(stage, "COPY", "none /x")


class Debootstrap:
    """It makes little, and is counted. Other programs are the machine's, but for one that can be made to fail."""

    def __init__(self, program: Program, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self._calls, self._program = folder / "calls", program
        monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        settings = ['Acquire::http::Proxy "http://proxy";', 'Acquire::Retries "3";']
        monkeypatch.setattr(dockerfile, "acquire_settings", lambda: settings)
        script = f'echo called >>{self._calls}; mkdir -p "$3/etc/apt/apt.conf.d"; echo made >"$3/file"'
        program("debootstrap", f"#!/bin/sh\n{script}\n")

    def breaks(self, name: str, script: str) -> None:
        self._program(name, f"#!/bin/sh\n{script}\n")

    @property
    def calls(self) -> int:
        return len(self._calls.read_text().splitlines())


@pytest.fixture
def debootstrap(program: Program, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Debootstrap:
    return Debootstrap(program, monkeypatch, tmp_path)


def root_in(folder: Path) -> Path:
    dockerfile.make_root("bookworm", folder, "http://mirror/debian", folder.with_name("log"))
    return folder


def test_a_root_is_made_once_a_day(debootstrap: Debootstrap, tmp_path: Path) -> None:
    for number in range(3):
        root = root_in(tmp_path / str(number))
        assert (root / "file").read_text() == "made\n"
        assert (root / "etc/apt/apt.conf.d/90machine").read_text() == 'Acquire::http::Proxy "http://proxy";\n'
    assert debootstrap.calls == 1
    (kept,) = cache_dir().iterdir()
    old = time.time() - dockerfile.KEPT_SEC - 1
    os.utime(kept, (old, old))
    root_in(tmp_path / "later")
    assert debootstrap.calls == 2


@pytest.mark.parametrize("name", ["tar", "sync"])
def test_half_a_root_is_not_kept(debootstrap: Debootstrap, tmp_path: Path, name: str) -> None:
    # What it has to write is there in part, as on a full disk.
    debootstrap.breaks(name, 'for word; do case "$word" in *root-*) echo half >"$word" ;; esac; done; echo no space >&2; exit 2')
    with pytest.raises(dockerfile.DockerfileError, match=f"(?s){name} .* ended with 2:.*no space"):
        root_in(tmp_path / "first")
    assert list(cache_dir().iterdir()) == []


def test_a_root_has_its_name_when_it_is_on_the_disk(debootstrap: Debootstrap, tmp_path: Path) -> None:
    debootstrap.breaks("sync", f'[ -s "$1" ] && [ $# = 1 ] && ls "${{1%/*}}" >{tmp_path}/there')
    root_in(tmp_path / "first")
    assert (tmp_path / "there").read_text().split() == [f"{kept.stem}.{os.getpid()}" for kept in cache_dir().iterdir()]
