# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Fetching and unpacking, with tiny packages, a fake apt and a web server of its own."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest

from redstart_cli import apt, disk, fetch, upstream
from redstart_cli.console import RedstartError
from redstart_cli.layout import Layout, cache_dir
from redstart_cli.locks import exclusive, shared
from redstart_cli.tests.conftest import Program
from redstart_cli.upstream import NoOriginError

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
        "downloads": [],
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
    return not list(layout.upstream.glob("*.new")) and not [
        name for name in ("apt", "download") if (cache_dir() / name).exists()
    ]


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


def test_no_other_release_unasked(layout: Layout, archive: Path, tmp_path: Path) -> None:
    next(archive.glob("*.deb")).unlink()
    with pytest.raises(NoOriginError, match="9.7.4 cannot be had(?s:.*) was not found(?s:.*)--upstream 9.7.2, --source"):
        upstream.pristine(layout)
    with pytest.raises(NoOriginError, match="9.7.4 cannot be had"):
        upstream.pristine(layout, "9.7.4")
    assert upstream.pristine(layout, "9.7.2").version == "9.7.2"


def test_another_mirror_is_asked(layout: Layout, archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apt, "machine_mirrors", lambda: ["http://127.0.0.1:1/debian", "http://127.0.0.1:2/debian"])
    next(archive.glob("*.deb")).unlink()
    with pytest.raises(NoOriginError, match="was not found; .* was not found"):
        upstream.pristine(layout)


def test_no_network(layout: Layout, archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_NETWORK", "1")
    with pytest.raises(RedstartError, match="Could not resolve(?s:.*)Is the network up"):
        upstream.pristine(layout)
    assert nothing_left(layout)
    monkeypatch.delenv("NO_NETWORK")
    assert upstream.pristine(layout).version == "9.7.4"


class Web:
    """Download areas: what each path answers, and the paths that were asked for."""

    def __init__(self, layout: Layout, tmp_path: Path) -> None:
        self.asked: list[str] = []
        # A tarball; the path to go to instead; None: half of the announced bytes.
        self.answers: dict[str, bytes | str | None] = {}
        self._pins = layout.repo / "cmake/upstream.json"
        self._trees = tmp_path / "trees"
        web = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                web.asked.append(self.path)
                answer = web.answers.get(self.path, b"")
                if isinstance(answer, str):
                    self.send_response(302)
                    self.send_header("Location", answer)
                elif answer == b"":
                    self.send_response(404, "Not Found")
                else:
                    self.send_response(200)
                    self.send_header("Content-Length", str(1000 if answer is None else len(answer)))
                self.end_headers()
                self.wfile.write(answer if isinstance(answer, bytes) else b"x" * 500)

            def log_message(self, *arguments: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.server.server_port}{path}"

    def origins(self, *paths: str, signature: str | None = None) -> None:
        """Pin download areas; `{version}` and `{series}` are allowed."""
        pins = json.loads(self._pins.read_text())
        extra = {"signature": signature} if signature else {}
        pins["downloads"] = [{"url": self.url(path)} | extra for path in paths]
        self._pins.write_text(json.dumps(pins))

    def tarball(self, top: str, **files: str) -> bytes:
        """The release under another top folder, with some files of its folder sql/ written."""
        tree = make_tree(self._trees / str(len(list(self._trees.glob("*")))) / top, 4)
        for name, text in files.items():
            (tree / f"sql/{name}.cc").write_text(text)
        return tarball(tree, tree.parent / "x.tar.gz").read_bytes()


@pytest.fixture
def web(layout: Layout, archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Web]:
    """Download areas of one server, beside an archive that has no 9.7.4 any more."""
    monkeypatch.setenv("no_proxy", "*")
    next(archive.glob("*.deb")).unlink()
    found = Web(layout, tmp_path)
    thread = threading.Thread(target=found.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield found
    found.server.shutdown()
    thread.join()
    found.server.server_close()


def test_the_next_origin_is_tried(layout: Layout, web: Web, capsys: pytest.CaptureFixture[str]) -> None:
    """The archive has nothing, the first area neither; the tag has no generated files."""
    web.origins("/get/MySQL-{series}/{version}.tar.gz", "/tags/{version}.tar.gz")
    web.answers["/tags/9.7.4.tar.gz"] = web.tarball("mysql-server-mysql-9.7.4")
    found = upstream.pristine(layout)
    assert found.version == "9.7.4" and (found.tree / "sql/a.cc").read_text() == "int a;\n"
    assert web.asked == ["/get/MySQL-9.7/9.7.4.tar.gz", "/tags/9.7.4.tar.gz"]
    said = capsys.readouterr()
    assert "was not found" in said.err and "HTTP Error 404: Not Found. Trying" in said.err
    assert "it has no signature; the hash of the tree decides" in said.out
    assert nothing_left(layout)


def test_generated_files_are_left_out_of_a_release_tarball(layout: Layout, web: Web) -> None:
    web.origins("/a")
    web.answers["/a"] = web.tarball("mysql-9.7.4", generated="int x;\n")
    assert not (upstream.pristine(layout).tree / "sql/generated.cc").exists()


def test_a_wrong_tree_is_refused(layout: Layout, web: Web, capsys: pytest.CaptureFixture[str]) -> None:
    web.origins("/wrong", "/right")
    web.answers["/wrong"] = web.tarball("mysql-9.7.4", a="int evil;\n", b="int more;\n")
    web.answers["/right"] = web.tarball("mysql-9.7.4")
    assert (upstream.pristine(layout).tree / "sql/a.cc").read_text() == "int a;\n"
    said = capsys.readouterr().err
    assert "checksum mismatch" in said and "/wrong was refused: these files differ: sql/a.cc, sql/b.cc" in said

    # Now the files of the right tree are known.
    shutil.rmtree(layout.upstream)
    (cache_dir() / "mysql-9.7.4.tar.gz").unlink()
    web.answers["/right"] = web.tarball("mysql-9.7.4", **{f"n{number}": "" for number in range(7)})
    with pytest.raises(NoOriginError, match="differ: sql/a.cc, sql/b.cc\n(?s:.*)/right: .* sql/n4.cc and 2 more"):
        upstream.pristine(layout)
    assert nothing_left(layout) and not (layout.upstream / "9.7.4").exists()
    assert not (cache_dir() / "mysql-9.7.4.tar.gz").exists()


def test_a_kept_tarball_serves_a_second_clone(layout: Layout, web: Web) -> None:
    web.origins("/a")
    web.answers["/a"] = web.tarball("mysql-9.7.4")
    upstream.pristine(layout)
    shutil.rmtree(layout.upstream)
    upstream.pristine(layout)
    assert web.asked == ["/a"]
    shutil.rmtree(layout.upstream)
    (cache_dir() / "mysql-9.7.4.tar.gz").write_text("damaged")
    upstream.pristine(layout)
    assert web.asked == ["/a", "/a"]


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        ({}, "HTTP Error 404: Not Found"),
        ({"/a": None}, "cut short: 500 of 1000 bytes came"),
        ({"/a": b"<html>"}, "what came is no tarball"),
        ({"/a": b"\x1f\x8b and nothing more"}, "unpacking .* failed"),
        ({"/a": "/a"}, "infinite loop"),
        ({"/a": "file:///etc/passwd"}, "not allowed"),
    ],
)
def test_what_is_wrong_with_a_download(
    layout: Layout, web: Web, answers: dict[str, bytes | str | None], reason: str
) -> None:
    web.origins("/a")
    web.answers = answers
    with pytest.raises(NoOriginError, match=reason):
        upstream.pristine(layout)
    assert nothing_left(layout)


def test_redirects_are_followed(layout: Layout, web: Web) -> None:
    web.origins("/a")
    web.answers = {"/a": "/b", "/b": web.tarball("x")}
    assert upstream.pristine(layout).version == "9.7.4"


def test_all_origins_are_named(layout: Layout, web: Web) -> None:
    web.origins("/a", "/b")
    web.answers["/b"] = None
    with pytest.raises(NoOriginError) as caught:
        upstream.pristine(layout)
    lines = str(caught.value).splitlines()
    assert lines[0] == "MySQL 9.7.4 cannot be had. Tried:"
    assert lines[1].startswith("  Debian's archive: E: Version '9.7.4-2'")
    assert lines[2:4] == [f"  {web.url('/a')}: HTTP Error 404: Not Found",
                          f"  {web.url('/b')}: cut short: 500 of 1000 bytes came"]  # fmt: skip
    assert lines[4].endswith("taken unasked. Ask for one: --upstream 9.7.2, --source DIR (a MySQL tree)")


def test_nobody_listens(layout: Layout, web: Web) -> None:
    pins = layout.repo / "cmake/upstream.json"
    pins.write_text(json.dumps(json.loads(pins.read_text()) | {"downloads": [{"url": "http://127.0.0.1:1/x"}]}))
    with pytest.raises(NoOriginError, match="http://127.0.0.1:1/x: .*Connection refused"):
        upstream.pristine(layout)


def test_no_disk_space_ends_it(layout: Layout, web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    web.origins("/a")
    web.answers["/a"] = web.tarball("x")
    with pytest.raises(disk.SpaceError, match="too little disk space for /dev/full: No space left"):
        fetch.download(web.url("/a"), Path("/dev/full"), 1)
    web.asked.clear()
    monkeypatch.setattr(disk, "disk_usage", lambda path: SimpleNamespace(free=1000))
    with pytest.raises(disk.SpaceError, match="too little disk space: 1.4 GB needed"):
        upstream.pristine(layout)
    assert web.asked == [] and nothing_left(layout)


def test_signatures(
    layout: Layout, web: Web, program: Program, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fetch_again() -> str:
        shutil.rmtree(layout.upstream, ignore_errors=True)
        (cache_dir() / "mysql-9.7.4.tar.gz").unlink(missing_ok=True)
        upstream.pristine(layout)
        return capsys.readouterr().out

    web.origins("/a", signature=".asc")
    web.answers["/a"] = web.tarball("x")
    program("gpgv", '#!/bin/sh\n[ "$1" = --keyring ] && [ -s "$2" ] && grep -q good "$3" || { echo BAD >&2; exit 1; }\n')
    assert re.search(r"signature was not checked \(none came from .*/a.asc: HTTP Error 404", fetch_again())
    web.answers["/a.asc"] = b"-----BEGIN PGP SIGNATURE-----\ngood"
    assert "its signature is good, says gpgv with mysql-signing-key.asc" in fetch_again()
    web.answers["/a.asc"] = b"-----BEGIN PGP SIGNATURE-----\nanother"
    with pytest.raises(NoOriginError, match="wrong signature, says gpgv with mysql-signing-key.asc: BAD"):
        fetch_again()
    assert nothing_left(layout)
    monkeypatch.setattr(fetch.shutil, "which", lambda _: None)
    assert "its signature was not checked (no gpgv)" in fetch_again()


@pytest.mark.parametrize(
    ("page", "shown"),
    [(b"<!DOCTYPE html>\n<title>Log in</title>" + b" " * 2000, "<!DOCTYPE html> <title>Log in</title>"), (b"\n", "")],
)
def test_an_origin_whose_signature_is_a_page_of_a_proxy_is_passed_over(
    layout: Layout, web: Web, program: Program, capsys: pytest.CaptureFixture[str], page: bytes, shown: str
) -> None:
    """Its tarball is the right one, but is never looked at."""
    program("gpgv", "#!/bin/sh\n")
    web.origins("/a", "/b", signature=".asc")
    web.answers |= {"/a": web.tarball("x"), "/a.asc": page}
    none = f"what came from {web.url('/a.asc')} is no signature; it begins with '{shown}'"
    with pytest.raises(NoOriginError, match=re.escape(f"{web.url('/a')}: {none}\n") + ".*/b: HTTP Error 404"):
        upstream.pristine(layout)
    assert nothing_left(layout) and not (cache_dir() / "mysql-9.7.4.tar.gz").exists()
    capsys.readouterr()
    web.answers |= {"/b": web.tarball("x"), "/b.asc": b"-----BEGIN PGP SIGNATURE-----"}
    upstream.pristine(layout)
    said = capsys.readouterr()
    assert f"{none}. Trying {web.url('/b')}." in said.err
    assert f"{web.url('/b')}: its signature is good" in said.out and "signature was not checked" not in said.out


def test_the_pinned_key_is_the_one_that_mysql_signs_with(tmp_path: Path) -> None:
    """The signature is that of mysql-9.7.2.tar.gz. Of other bytes it is bad; of another key it could not be checked."""
    file, signature = tmp_path / "file", tmp_path / "file.asc"
    file.write_text("something else")
    shutil.copy(Path(__file__).with_name("mysql-9.7.2.tar.gz.asc"), signature)
    assert 'BAD signature from "MySQL Release Engineering <mysql-build@oss.oracle.com>"' in fetch.wrong_signature(file, signature)


def test_unknown_version(layout: Layout, archive: Path) -> None:
    with pytest.raises(RedstartError, match="unknown upstream version 1.2.3; .* has 9.7.4, 9.7.2"):
        upstream.pristine(layout, "1.2.3")


def test_checkout(layout: Layout, archive: Path, tmp_path: Path) -> None:
    tree = make_tree(tmp_path / "checkout", 9)
    found = upstream.pristine(layout, checkout=tree)
    assert found.version == "9.7.9" and found.tree == tree and found.is_checkout
    with pytest.raises(RedstartError, match="holds 9.7.9, not 9.7.4"):
        upstream.pristine(layout, "9.7.4", tree)
    with pytest.raises(RedstartError, match="is not a MySQL source tree"):
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


def test_readers_make_a_tree_alone_and_read_together(
    layout: Layout, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_shared() -> bool:
        try:
            with shared(layout.lock, "the clone"):
                return True
        except RedstartError:
            return False

    make, seen = upstream._make_tree, list[bool]()

    def watched(layout: Layout, release: upstream.Release) -> Path:
        seen.append(is_shared())
        return make(layout, release)

    monkeypatch.setattr(upstream, "_make_tree", watched)
    for _ in range(2):
        with upstream.reading(layout, "9.7.2") as found:
            assert is_shared() and (found.version, found.tree.is_dir()) == ("9.7.2", True)
    assert seen == [False, True, True]
    # Who compiles lets others read, but nobody make a tree.
    with exclusive(layout.lock, "the clone") as let_readers_in:
        let_readers_in()
        with upstream.reading(layout, "9.7.2"):
            pass
        with pytest.raises(RedstartError, match="in use by process"), upstream.reading(layout, "9.7.4"):
            pass
