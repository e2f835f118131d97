# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The weekly question and its four answers."""

from __future__ import annotations

import json

import pytest

from redstart_cli import archive
from redstart_cli.archive import Answer
from redstart_cli.console import RedstartError
from redstart_cli.layout import Layout

PIN = {"kind": "binary", "suite": "sid", "package": "p", "package_version": "9.7.4-2", "file": "f", "sha256": "0",
       "bytes": 1, "tree_sha256": "0"}  # fmt: skip


@pytest.fixture
def pinned(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> Layout:
    pins = {"default": "9.7.4", "releases": {"9.7.4": PIN}}
    (layout.repo / "cmake/upstream.json").write_text(json.dumps(pins))
    monkeypatch.setattr(archive, "check_edits", lambda layout, version: True)
    return layout


@pytest.mark.parametrize(
    ("found", "lands", "answer"),
    [
        (["9.7.4-2"], True, Answer.APPLIES),
        (["9.7.4-2"], False, Answer.DOES_NOT_APPLY),
        (["9.7.4-2", "9.7.10-1"], True, Answer.NOT_PINNED),
        (["9.7.4-2", "9.7.10-1"], False, Answer.DOES_NOT_APPLY),
        (["9.7.2-1", "9.7.4-2"], True, Answer.APPLIES),
        (["9.7.5-1"], True, Answer.NOT_PINNED),
        ([], True, Answer.NOT_PINNED),
    ],
)
def test_answers(
    pinned: Layout, monkeypatch: pytest.MonkeyPatch, found: list[str], lands: bool, answer: Answer
) -> None:
    monkeypatch.setattr(archive, "archive_versions", lambda release: found)
    monkeypatch.setattr(archive, "check_edits", lambda layout, version: lands)
    assert archive.check_archive(pinned) == answer


def test_no_network(pinned: Layout, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def fail(release: object) -> list[str]:
        raise RedstartError("could not resolve")

    monkeypatch.setattr(archive, "archive_versions", fail)
    answer: int = archive.check_archive(pinned)
    assert answer == 4
    assert "gives no answer: could not resolve" in capsys.readouterr().err


def test_versions() -> None:
    madison = " mysql-source | 9.7.4-2 | http://x sid/main amd64 Packages\n mysql-source | 9.7.10-1 | http://x\n"
    assert archive.parse_versions(madison, False) == ["9.7.4-2", "9.7.10-1"]
    assert archive.parse_versions("Package: p\nVersion: 9.7.2-4\nStandards-Version: 4\n", True) == ["9.7.2-4"]
    assert archive.newest(["9.7.4-2", "9.7.10-1", "9.7.9-9"]) == "9.7.10-1"
    assert archive.newest([]) == ""
