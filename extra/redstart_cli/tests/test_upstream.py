# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Fetching and unpacking, with tiny packages and a fake apt."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from redstart_cli import apt, upstream
from redstart_cli.console import RedstartError
from redstart_cli.layout import Layout, cache_dir
from redstart_cli.tests.conftest import Program

# An apt-get that serves the files of $ARCHIVE, and whose update works unless $NO_NETWORK is set.
FAKE_APT = """#!/bin/sh
echo "$@" >>"$APT_CALLS"
for last; do :; done
case " $* " in
  *" update "*)
    [ -z "$NO_NETWORK" ] || { echo "E: Failed to fetch InRelease  Could not resolve the name"; exit 100; } ;;
  *)
    name=${last%=*}
    set -- "$ARCHIVE/$name"_*
    [ -e "$1" ] || { echo "E: Version '${last#*=}' for '$name' was not found"; exit 100; }
    cp "$1" . ;;
esac
"""
VERSION = "MYSQL_VERSION_MAJOR=9\nMYSQL_VERSION_MINOR=7\nMYSQL_VERSION_PATCH={}\nMYSQL_VERSION_EXTRA=\n"


def make_tree(folder: Path, patch: int) -> Path:
    (folder / "sql").mkdir(parents=True)
    (folder / "MYSQL_VERSION").write_text(VERSION.format(patch))
    (folder / "sql/a.cc").write_text("int a;\n")
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "link").symlink_to("run.sh")
    return folder


def tarball(tree: Path, target: Path) -> Path:
    subprocess.run(["tar", "-czf", target, "-C", tree.parent, tree.name], check=True)
    return target


@pytest.fixture
def archive(layout: Layout, tmp_path: Path, program: Program, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fake archive with 9.7.4 as a binary package and 9.7.2 as a source package; pins for both."""
    folder = tmp_path / "archive"
    folder.mkdir()
    new, old = make_tree(tmp_path / "mysql-9.7", 4), make_tree(tmp_path / "mysql-9.7.2", 2)
    hashes = {"9.7.4": upstream.tree_sha256(new), "9.7.2": upstream.tree_sha256(old)}

    # What the distribution does to the tree before it packs it.
    originals = new / ".pc/fix.patch/sql"
    originals.mkdir(parents=True)
    shutil.copy(new / "sql/a.cc", originals)
    (originals / "new.cc").touch()
    (new / ".pc/applied-patches").write_text("fix.patch\n")
    (new / "sql/a.cc").write_text("int patched;\n")
    (new / "sql/new.cc").write_text("int added;\n")
    (new / "sql/generated.cc").touch()
    (new / "builddir").mkdir()
    (new / "builddir/object.o").write_text("x")
    package = tmp_path / "package"
    (package / "DEBIAN").mkdir(parents=True)
    (package / "DEBIAN/control").write_text(
        "Package: mysql-source\nVersion: 9.7.4-2\nArchitecture: all\nMaintainer: x <x@localhost>\nDescription: x\n"
    )
    (package / "usr/src").mkdir(parents=True)
    inner = tarball(new, package / "usr/src/source.tar.gz")
    deb, orig = folder / "mysql-source_9.7.4-2_amd64.deb", folder / "mysql-9.7_9.7.2.orig.tar.gz"
    subprocess.run(["dpkg-deb", "--build", package, deb], check=True, stdout=subprocess.DEVNULL)
    tarball(old, orig)

    def pin(file: Path, version: str, package: str, package_version: str) -> dict[str, object]:
        return {
            "kind": "source",
            "suite": "sid",
            "package": package,
            "package_version": package_version,
            "file": file.name,
            "bytes": file.stat().st_size,
            "sha256": upstream.file_sha256(file),
            "tree_sha256": hashes[version],
        }

    pins = {
        "default": "9.7.4",
        "releases": {
            "9.7.4": pin(deb, "9.7.4", "mysql-source", "9.7.4-2")
            | {
                "kind": "binary",
                "member": "usr/src/source.tar.gz",
                "member_sha256": upstream.file_sha256(inner),
                "drop": ["builddir", "sql/generated.cc"],
            },
            "9.7.2": pin(orig, "9.7.2", "mysql-9.7", "9.7.2-4"),
        },
    }
    (layout.repo / "cmake/upstream.json").write_text(json.dumps(pins))
    program("apt-get", FAKE_APT)
    program("apt-config", "#!/bin/sh\necho 'Acquire::http::Proxy \"http://127.0.0.1:1\";'\n")
    monkeypatch.setenv("ARCHIVE", str(folder))
    monkeypatch.setenv("APT_CALLS", str(tmp_path / "calls"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(apt, "machine_mirrors", lambda: ["http://127.0.0.1:1/debian"])
    keyring = tmp_path / "keyring.gpg"
    keyring.touch()
    monkeypatch.setattr(apt, "KEYRING", keyring)
    return folder


def nothing_left(layout: Layout) -> bool:
    return not list(layout.upstream.glob("*.new")) and not (cache_dir() / "apt").exists()


def test_binary_package_is_restored_to_the_true_upstream(layout: Layout, archive: Path) -> None:
    found = upstream.pristine(layout)
    assert found.version == "9.7.4" and found.tree == layout.upstream / "9.7.4"
    assert (found.tree / "sql/a.cc").read_text() == "int a;\n"
    names = {path.name for path in found.tree.rglob("*")}
    assert names == {"MYSQL_VERSION", "sql", "a.cc", "run.sh", "link"}
    assert nothing_left(layout)


def test_source_package(layout: Layout, archive: Path) -> None:
    assert (upstream.pristine(layout, "9.7.2").tree / "MYSQL_VERSION").is_file()


def test_a_second_clone_uses_the_cache(layout: Layout, archive: Path, tmp_path: Path) -> None:
    upstream.pristine(layout)
    (tmp_path / "calls").unlink()
    shutil.rmtree(layout.upstream)
    upstream.pristine(layout)
    assert not (tmp_path / "calls").exists()


def test_a_damaged_download_in_the_cache_is_replaced(
    layout: Layout, archive: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cache_dir().mkdir(parents=True)
    (cache_dir() / "mysql-source_9.7.4-2_amd64.deb").write_text("cut short")
    upstream.pristine(layout)
    assert "does not have the pinned checksum" in capsys.readouterr().err


def test_checksum_mismatch_of_the_package(layout: Layout, archive: Path) -> None:
    next(archive.glob("*.deb")).write_text("something else")
    with pytest.raises(RedstartError, match="checksum mismatch: mysql-source_9.7.4-2_amd64.deb"):
        upstream.pristine(layout)
    assert nothing_left(layout) and not list(cache_dir().glob("*.deb")) and not (layout.upstream / "9.7.4").exists()


def test_checksum_mismatch_of_the_tree(layout: Layout, archive: Path) -> None:
    pins = layout.repo / "cmake/upstream.json"
    data = json.loads(pins.read_text())
    data["releases"]["9.7.4"]["tree_sha256"] = "0"
    pins.write_text(json.dumps(data))
    with pytest.raises(RedstartError, match="checksum mismatch: the unpacked tree"):
        upstream.pristine(layout)
    assert nothing_left(layout) and not (layout.upstream / "9.7.4").exists()


def test_a_package_that_does_not_unpack(layout: Layout, archive: Path) -> None:
    pins = layout.repo / "cmake/upstream.json"
    data = json.loads(pins.read_text())
    data["releases"]["9.7.4"]["member"] = "usr/src/none.tar.gz"
    pins.write_text(json.dumps(data))
    with pytest.raises(RedstartError, match="unpacking .* failed"):
        upstream.pristine(layout)
    assert nothing_left(layout)


def test_a_killed_unpack_is_cleaned_up(layout: Layout, archive: Path) -> None:
    stale = layout.upstream / "9.7.4.new"
    (stale / "sql").mkdir(parents=True)
    (stale / "sql/half.cc").touch()
    tree = upstream.pristine(layout).tree
    assert not (tree / "sql/half.cc").exists() and nothing_left(layout)


def test_fallback_is_loud_and_remembered(
    layout: Layout, archive: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    next(archive.glob("*.deb")).unlink()
    assert upstream.pristine(layout).version == "9.7.2"
    assert "USING 9.7.2 INSTEAD" in capsys.readouterr().err
    (tmp_path / "calls").unlink()
    assert upstream.pristine(layout).version == "9.7.2"
    assert "no longer had 9.7.4" in capsys.readouterr().err
    assert not (tmp_path / "calls").exists()


def test_no_fallback_from_a_named_version(layout: Layout, archive: Path) -> None:
    next(archive.glob("*.deb")).unlink()
    with pytest.raises(RedstartError, match="was not found"):
        upstream.pristine(layout, "9.7.4")


def test_no_network(layout: Layout, archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_NETWORK", "1")
    with pytest.raises(RedstartError, match="could not be downloaded: .*Is the network up"):
        upstream.pristine(layout)
    assert nothing_left(layout)
    monkeypatch.delenv("NO_NETWORK")
    assert upstream.pristine(layout).version == "9.7.4"


def test_unknown_version(layout: Layout, archive: Path) -> None:
    with pytest.raises(RedstartError, match="unknown upstream version 1.2.3; .* has 9.7.4, 9.7.2"):
        upstream.pristine(layout, "1.2.3")


def test_checkout(layout: Layout, archive: Path, tmp_path: Path) -> None:
    tree = make_tree(tmp_path / "checkout", 9)
    found = upstream.pristine(layout, checkout=tree)
    assert found.version == "9.7.9" and found.tree == tree and found.is_checkout
    with pytest.raises(RedstartError, match="holds 9.7.9, not 9.7.4"):
        upstream.pristine(layout, "9.7.4", tree)
    with pytest.raises(RedstartError, match="no MySQL source tree"):
        upstream.pristine(layout, checkout=tmp_path)


def test_damaged_pins(layout: Layout) -> None:
    (layout.repo / "cmake/upstream.json").write_text('{"default": "9.7.4"}')
    with pytest.raises(RedstartError, match="is damaged"):
        upstream.pristine(layout)


def test_tree_hash_sees_content_mode_names_and_links(tmp_path: Path) -> None:
    tree = make_tree(tmp_path / "tree", 4)
    seen = {upstream.tree_sha256(tree)}
    (tree / "sql/a.cc").write_text("int b;\n")
    seen.add(upstream.tree_sha256(tree))
    (tree / "sql/a.cc").chmod(0o755)
    seen.add(upstream.tree_sha256(tree))
    (tree / "sql/a.cc").rename(tree / "sql/b.cc")
    seen.add(upstream.tree_sha256(tree))
    (tree / "link").unlink()
    (tree / "link").symlink_to("sql")
    seen.add(upstream.tree_sha256(tree))
    assert len(seen) == 5
