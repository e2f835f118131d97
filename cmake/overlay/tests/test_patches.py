# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The patch series: split, bytes, `git am`, and what is refused."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from overlay import golden, load, make_plan
from overlay.changes import REQUIRED, parse, plain, read
from overlay.errors import OverlayError
from overlay.formatting import find_tool
from overlay.git import Git
from overlay.patches import Patches, make_patches, write_patches
from overlay.series import split
from overlay_support import FEATURES, REPOSITORY, edit_item, write_yaml

Real = tuple[str, Path]
STYLE = "BasedOnStyle: Google\n"
TEMPLATE = "### What does this change do?\n\n### AI assistance\n\n- [ ] none\n\n### Areas touched\n"


def section(feature: str) -> str:
    parts = "\n\n".join(f"**{label}.** Text of {label}, [linked](x.md)." for label in REQUIRED)
    return f"\n## {feature}\n\n*What {feature} does.* More.\n\n{parts}\n"


@pytest.fixture
def repo(repo: Path, upstream: Path) -> Path:
    """Two features that edit the same two files, the second in two patches."""
    (repo / "docs").mkdir()
    (repo / "docs/changes.md").write_text("# Changes\n" + section("one") + section("two"))
    for letter, call in (("a", "work"), ("b", "b_work")):
        items = [
            edit_item(f"{letter}-{n}", feature, op="before_call", function="f", callee=call, text=text)
            for n, (feature, text) in enumerate(
                (("one", "first();"), ("two", "second();"), ("two", "third();"))
            )
        ]
        write_yaml(repo / f"sql/{letter}.cc.edit.yaml", items)
    commits = [
        {"subject": "Prepare the second", "why": "The second needs it, that is why.",
         "edits": ["a-1"], "files": ["sql/two/**"]},
        {"subject": "Do the second thing", "why": "Because the first is not enough."},
    ]  # fmt: skip
    write_yaml(repo / "cmake/series.yaml", [FEATURES[0], FEATURES[1] | {"commits": commits}])
    (repo / "sql/two/run.sh").write_text("#!/bin/sh\n")
    (repo / "sql/two/run.sh").chmod(0o755)
    (upstream / ".clang-format").write_text(STYLE)
    (upstream / ".github").mkdir()
    (upstream / ".github/PULL_REQUEST_TEMPLATE.md").write_text(TEMPLATE)
    return repo


def checkout_of(folder: Path, upstream: Path, paths: Iterable[str]) -> Git:
    """A work tree in a folder that holds these files of upstream, committed."""
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(upstream / path, folder / path)
    git = Git(folder)
    git.run("init", "--quiet", "--template=", "--initial-branch=series")
    git.run("add", "--all", "--force")
    git.run("commit", "--quiet", "--allow-empty", "--message=Base")
    return git


def am(git: Git, patches: Sequence[bytes]) -> None:
    """Apply patches as a maintainer would; raises OverlayError."""
    git.run("am", "--quiet", "--no-3way", "--no-gpg-sign", stdin=b"".join(patches))


def apply_in_turn(patches: Patches, upstream: Path, repo: Path, version: str) -> None:
    """`git am`, feature by feature, on upstream's files; each state must be what edits give."""
    overlay = load(repo)
    path_of = {edit.id: edit.at(version).path for edit in overlay.edits}
    paths = set(path_of.values())
    names = [feature.name for feature in patches.series.features()]
    expected = {path: (upstream / path).read_bytes() for path in patches.series.base if path in paths}
    with tempfile.TemporaryDirectory(prefix="am-") as folder:
        git = checkout_of(Path(folder), upstream, expected)
        for count, name in enumerate(names, 1):
            am(git, patches.of(name))
            # A feature leaves the files that it does not edit as they were.
            here = {path_of[edit.id] for edit in overlay.edits if edit.feature == name}
            edits = [edit for edit in overlay.edits if path_of[edit.id] in here]
            plan = make_plan(replace(overlay, edits=edits), upstream, version, names[:count])
            expected |= plan.contents
            stages = git.run("ls-files", "--stage", "-z").decode().rstrip("\0").split("\0")
            modes = {path: stage[:6] for stage, path in (line.split("\t") for line in stages)}
            assert {path: (git.directory / path).read_bytes() for path in modes} == expected
            for path, file in plan.own.items():
                assert (modes[path] == "100755") == bool(file.stat().st_mode & 0o100), path


def test_series_is_edits(repo: Path, upstream: Path) -> None:
    patches = make_patches(repo, upstream, "9.7.4")
    assert [step.commit.subject for step in patches.series.steps] == [
        "A title for one",
        "Prepare the second",
        "Do the second thing",
    ]
    assert sorted(patches.series.steps[1].changed) == ["sql/a.cc", "sql/two/deep.cc", "sql/two/run.sh"]
    apply_in_turn(patches, upstream, repo, "9.7.4")


def test_files(repo: Path, upstream: Path) -> None:
    patches = make_patches(repo, upstream, "9.7.4")
    assert sorted(patches.files) == [
        "01-one/0000-cover-letter.patch",
        "01-one/0001-A-title-for-one.patch",
        "01-one/pull-request.md",
        "02-two/0000-cover-letter.patch",
        "02-two/0001-Prepare-the-second.patch",
        "02-two/0002-Do-the-second-thing.patch",
        "02-two/pull-request.md",
        "README",
        "series",
    ]
    cover = patches.files["02-two/0000-cover-letter.patch"].decode()
    assert "Subject: [PATCH 0/2] A title for two\n" in cover and "***" not in cover
    assert "What two does.\n\nProblem:\n\nText of Problem, linked.\n" in cover
    patch = patches.files["02-two/0001-Prepare-the-second.patch"].decode()
    assert patch.startswith("From " + "0" * 40 + " Mon Sep 17 00:00:00 2001\nFrom: The Submitter <")
    assert "\nThe second needs it, that is why.\n\nBug#1\n---\n" in patch
    assert not patch.rstrip().endswith("2.39.5") and "\n-- \n" not in patch
    request = patches.files["01-one/pull-request.md"].decode()
    assert "do?\n\nWhat one does.\nBug#1\n" in request and "- [ ] none" in request
    assert request.endswith("### Areas touched\n\nsql\n")
    assert patches.files["series"].decode().splitlines() == [
        "01-one/0001-A-title-for-one.patch",
        "02-two/0001-Prepare-the-second.patch",
        "02-two/0002-Do-the-second-thing.patch",
    ]


def test_same_bytes_whatever_git_is_told(
    repo: Path, upstream: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = make_patches(repo, upstream, "9.7.4").files
    (tmp_path / ".gitconfig").write_text("[diff]\ncontext = 9\nnoprefix = true\n[core]\nautocrlf = true\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    monkeypatch.setenv("GIT_AUTHOR_NAME", "Somebody Else")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / ".gitconfig"))
    monkeypatch.chdir(tmp_path)
    assert make_patches(repo, upstream, "9.7.4").files == first


def test_one_feature(repo: Path, upstream: Path) -> None:
    every = make_patches(repo, upstream, "9.7.4").files
    some = make_patches(repo, upstream, "9.7.4", ["two"]).files
    assert {path for path in some if "/" in path} == {path for path in every if path.startswith("02-two")}
    with pytest.raises(OverlayError, match="no feature `three`: there are one, two"):
        make_patches(repo, upstream, "9.7.4", ["three"])


def test_a_patch_that_does_not_apply_is_an_error(
    repo: Path, upstream: Path, tmp_path: Path
) -> None:
    patches = make_patches(repo, upstream, "9.7.4")
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(OverlayError, match="git am failed: .*sql/a.cc"):
        am(checkout_of(empty, upstream, []), patches.of("one"))


def test_another_target_in_another_version(repo: Path, upstream: Path) -> None:
    (upstream / "sql/new.cc").write_text("void N::f() {\n  work();\n}\n")
    path = repo / "sql/a.cc.edit.yaml"
    edits = yaml.safe_load(path.read_text())
    other = {"versions": [">=9.7.4"], "file": "sql/new.cc", "function": "N::f"}
    edits[0]["elsewhere"] = [other]
    path.write_text(yaml.safe_dump(edits))
    patches = make_patches(repo, upstream, "9.7.4")
    assert b"first" in patches.series.steps[0].changed["sql/new.cc"].data
    assert "sql/a.cc" not in patches.series.steps[0].changed
    apply_in_turn(patches, upstream, repo, "9.7.4")
    assert load(repo).edits[0].at("9.7.2").path == "sql/a.cc"
    for bad in ({"file": "x"}, {"versions": [">=1"]}, other | {"header": "a.h"}):
        edits[0]["elsewhere"] = [bad]
        path.write_text(yaml.safe_dump(edits))
        with pytest.raises(OverlayError, match=r"a\.cc\.edit\.yaml:\d+: "):
            load(repo)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"edits": ["a-1", "b-*"]}, "two: commit `Do the second thing` is empty"),
        ({"edits": ["none"], "files": ["none"]}, "two: commit `Prepare the second` is empty"),
        ({"subject": "short"}, "`subject`: 'short' is too short"),
        ({"colour": 1}, "unknown key `colour`"),
    ],
)
def test_bad_split(repo: Path, change: dict[str, Any], error: str) -> None:
    path = repo / "cmake/series.yaml"
    series = yaml.safe_load(path.read_text())
    series[1]["commits"][0] |= change
    if "b-*" in change.get("edits", []):
        series[1]["commits"][0]["edits"].append("a-2")
    path.write_text(yaml.safe_dump(series))
    with pytest.raises(OverlayError, match=error):
        overlay = load(repo)
        split(overlay, overlay.features[1])


def test_only_the_last_patch_takes_the_rest(repo: Path) -> None:
    path = repo / "cmake/series.yaml"
    series = yaml.safe_load(path.read_text())
    series[1]["commits"].reverse()
    path.write_text(yaml.safe_dump(series))
    with pytest.raises(OverlayError, match="`files` or `edits` must say what belongs to it"):
        load(repo)


def test_overlapping_patches(repo: Path) -> None:
    path = repo / "cmake/series.yaml"
    series = yaml.safe_load(path.read_text())
    series[1]["commits"].insert(1, series[1]["commits"][0] | {"subject": "Another one"})
    path.write_text(yaml.safe_dump(series))
    overlay = load(repo)
    with pytest.raises(OverlayError, match="edit `a-1` belongs to several commits"):
        split(overlay, overlay.features[1])


def test_fork_name(repo: Path, upstream: Path) -> None:
    (repo / "sql/one.cc").write_text("int redStart;\n")
    with pytest.raises(OverlayError, match=r"one\.patch:\d+: names this fork: \+int redStart;"):
        make_patches(repo, upstream, "9.7.4")


def test_format(repo: Path, upstream: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (repo / "sql/one.cc").write_text("int   one;\n")
    if find_tool():
        with pytest.raises(OverlayError, match="sql/one.cc:1: not as clang-format writes it"):
            make_patches(repo, upstream, "9.7.4")
    monkeypatch.setattr("overlay.patches.find_tool", lambda: None)
    notes = make_patches(repo, upstream, "9.7.4").notes
    assert notes == ["the formatting was NOT checked: no clang-format (Debian: clang-format-15)"]


def test_sections(repo: Path, upstream: Path) -> None:
    (repo / "docs/changes.md").write_text(section("one") + "\n## two\n\n*Sum.*\n\n**Problem.** P.\n")
    with pytest.raises(OverlayError, match="`## two`: missing Upstream files touched, Alternatives"):
        make_patches(repo, upstream, "9.7.4")
    (repo / "docs/changes.md").write_text(section("one"))
    with pytest.raises(OverlayError, match="has no section `## two`"):
        make_patches(repo, upstream, "9.7.4")
    assert parse("## x\n\nNo summary.\n")["x"].missing[0] == "a summary in *asterisks*"


def test_plain_text() -> None:
    text = "A [link](x.md) and **strong\nwords**.\n\n| a | b |\n|--|--|\n\n- one *two*\n  three\n- four\n"
    assert plain(text) == "A link and strong words.\n\n- one two three\n- four"
    assert max(map(len, plain("word " * 100).split("\n"))) <= 72


def test_nothing_is_overwritten(repo: Path, upstream: Path, tmp_path: Path) -> None:
    patches = make_patches(repo, upstream, "9.7.4")
    write_patches(patches, tmp_path / "new/deep")
    assert (tmp_path / "new/deep/series").read_bytes() == patches.files["series"]
    with pytest.raises(OverlayError, match="holds files"):
        write_patches(patches, tmp_path / "new/deep")
    with pytest.raises(OverlayError, match="is not a directory"):
        write_patches(patches, tmp_path / "new/deep/series")
    with pytest.raises(OverlayError, match="cannot be"):
        write_patches(patches, tmp_path / "new/deep/series/x")
    patches.files["01-one"] = b"a file where a directory is"
    with pytest.raises(OverlayError, match="cannot be written"):
        write_patches(patches, tmp_path / "half")
    assert not (tmp_path / "half").exists()


def test_every_feature_has_its_section() -> None:
    sections = read(REPOSITORY)
    for feature in load(REPOSITORY).features:
        assert feature.name in sections and sections[feature.name].missing == [], feature.name


def test_real_series(real_upstream: Real, tmp_path: Path) -> None:
    """Applied by `git am` it is what the edits give; two runs give the same bytes."""
    version, upstream = real_upstream
    patches = make_patches(REPOSITORY, upstream, version)
    apply_in_turn(patches, upstream, REPOSITORY, version)
    assert make_patches(REPOSITORY, upstream, version).files == patches.files
    # The series for another version applies too.
    for other in {"9.7.2", "9.7.4"} - {version}:
        tree = os.environ.get("REDSTART_UPSTREAM_" + other.replace(".", "_"))
        if tree:
            apply_in_turn(patches, Path(tree), REPOSITORY, other)


def test_a_changed_base_is_seen(repo: Path, upstream: Path) -> None:
    golden.write(repo, upstream, "9.7.4")
    golden.require_pristine(repo, upstream, "9.7.4")
    (upstream / "sql/a.cc").write_bytes((upstream / "sql/a.cc").read_bytes() + b"\n")
    with pytest.raises(OverlayError, match=r"sql/a\.cc does not have its recorded checksum"):
        golden.require_pristine(repo, upstream, "9.7.4")
