# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""What the Dockerfile is made from."""

from __future__ import annotations

from pathlib import Path

import pytest

from dropin import dockerfile

REPO = Path(__file__).resolve().parents[3]


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
