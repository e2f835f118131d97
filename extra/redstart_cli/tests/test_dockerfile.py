# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The reading of the Dockerfile, without a root to run it in."""

from __future__ import annotations

from pathlib import Path

import pytest

from dropin import dockerfile

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
    assert image.labels[f"{prefix}base.name"] == image.base
    assert image.labels[f"{prefix}revision"] == "$REVISION"
    assert image.labels[f"{prefix}version"] == "9.7.4"
    assert set(image.labels) == {prefix + name for name in ("title", "description", "version", "revision", "base.name", "licenses")}


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
