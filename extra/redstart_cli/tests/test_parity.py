# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The comparison with stock, without packages and servers."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from redstart_cli import package, parity
from redstart_cli.console import RedstartError

REPO = Path(__file__).resolve().parents[3]
PROGRAM = """ELF Header:
  Type:                              DYN (Position-Independent Executable file)
Program Headers:
  INTERP         0x000318 0x0000000000000318 0x0000000000000318 0x00001c 0x00001c R   0x1
  GNU_STACK      0x000000 0x0000000000000000 0x0000000000000000 0x000000 0x000000 RW  0
  GNU_RELRO      0x1df0 0x3df0 0x3df0 0x000210 0x000210 R   0x1
Dynamic section:
 0x0000000000000001 (NEEDED)             Shared library: [libaio.so.1t64]
 0x0000000000000001 (NEEDED)             Shared library: [libprotobuf-lite.so.32]
 0x0000000000000001 (NEEDED)             Shared library: [libstdc++.so.6]
 0x0000000000000001 (NEEDED)             Shared library: [ld-linux-x86-64.so.2]
 0x000000000000001e (FLAGS)              BIND_NOW
Symbol table '.dynsym':
     3: 0000000000000000     0 FUNC    GLOBAL DEFAULT  UND __stack_chk_fail@GLIBC_2.4 (2)
     4: 0000000000000000     0 FUNC    GLOBAL DEFAULT  UND __memcpy_chk@GLIBC_2.3.4 (3)
"""


def test_what_readelf_says_of_a_hardened_program() -> None:
    elf = parity.parse_elf(PROGRAM)
    assert elf.is_program and elf.libraries == ("libaio", "libprotobuf-lite", "libstdc++")
    assert elf.hardening == {
        "position independent": "yes", "relro": "full", "stack protector": "yes", "fortify": "yes",
        "stack": "not executable", "run path": "no",
    }  # fmt: skip
    assert not list(parity.check_hardening({"/a": elf}, {"/a": elf}))


@pytest.mark.parametrize(
    ("old", "new", "name"),
    [
        ("DYN (", "EXEC (", "/a position independent"), ("(FLAGS)              BIND_NOW", "(FLAGS)  ORIGIN", "/a relro"),
        ("__stack_chk_fail", "memset", "/a stack protector"), ("__memcpy_chk", "memcpy", "/a fortify"),
        ("RW  0", "RWE 0", "/a stack"), ("(NEEDED)             Shared library: [libaio.so.1t64]", "(RUNPATH)  [/x]", "/a run path"),
    ],
)  # fmt: skip
def test_each_protection_is_missed(old: str, new: str, name: str) -> None:
    assert PROGRAM.count(old) == 1
    found = parity.check_hardening({"/a": parity.parse_elf(PROGRAM.replace(old, new))}, {"/a": parity.parse_elf(PROGRAM)})
    assert [finding.name for finding in found] == [name]


def test_a_library_that_is_missing() -> None:
    stock = PROGRAM.replace("libprotobuf-lite.so.32", "libtcmalloc_minimal.so.4")
    found = parity.compare_libraries({"/a": parity.parse_elf(PROGRAM)}, {"/a": parity.parse_elf(stock)})
    assert [str(finding) for finding in found] == [
        "library /a libprotobuf-lite: only ours", "library /a libtcmalloc_minimal: only stock's"
    ]  # fmt: skip


def test_paths_of_a_clone(tmp_path: Path) -> None:
    (tmp_path / "good").write_bytes(b"./sql/mysqld.cc\0/build/reproducible-path")
    (tmp_path / "bad").write_bytes(b"\0/home/me/redstart/build/source/sql/mysqld.cc\0")
    (tmp_path / "clone").write_bytes(b"\0/opt/clone/cmake\0")
    (tmp_path / "link").symlink_to("bad")
    found = parity.check_paths(tmp_path, ["/good", "/bad", "/clone", "/link"], Path("/opt/clone"))
    assert [finding.name for finding in found] == ["/bad paths", "/clone paths"]


SOURCE = """
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int count, char **words) {
  char text[32];
  strcpy(text, words[count - 1]);
  return write(1, text, strlen(text)) < 0;
}
"""
HARDENED = (
    "-g -O2 -fPIE -pie -fstack-protector-strong -D_FORTIFY_SOURCE=2 -ffile-prefix-map={folder}=. "
    "-Wl,-z,relro,-z,now,--build-id"
)


@pytest.mark.parametrize(
    ("fault", "name"),
    [
        ("", ""), ("-no-pie -fno-PIE", "position independent"), ("-Wl,-z,lazy", "relro"), ("-Wl,-z,norelro", "relro"),
        ("-fno-stack-protector", "stack protector"), ("-U_FORTIFY_SOURCE", "fortify"), ("-z execstack", "stack"),
        ("-Wl,-rpath,/opt/x", "run path"), ("-g0", "lines"), ("-ffile-prefix-map={folder}=/a/build/source", "symbols' paths"),
        ("-ffile-prefix-map={folder}={folder}", "symbols' paths"), ("-Wl,-rpath,{folder}/x", "run path, paths"),
    ],
)  # fmt: skip
def test_each_fault_of_a_program_is_found(tmp_path: Path, fault: str, name: str) -> None:
    """The same program with one flag that takes one property away."""
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler")
    (tmp_path / "a.c").write_text(SOURCE)
    root, symbols = tmp_path / "root", tmp_path / "symbols"
    root.mkdir()
    flags = f"{HARDENED} {fault}".format(folder=tmp_path).split()
    subprocess.run(["cc", tmp_path / "a.c", "-o", root / "a", *flags], check=True)
    elf = parity.read_elf(root / "a")
    assert elf is not None
    debug = symbols / f"usr/lib/debug/.build-id/{elf.build_id[:2]}/{elf.build_id[2:]}.debug"
    debug.parent.mkdir(parents=True)
    subprocess.run(["objcopy", "--only-keep-debug", "--compress-debug-sections", root / "a", debug], check=True)
    subprocess.run(["strip", root / "a"], check=True)
    hardened = parity.parse_elf(PROGRAM)
    found = [
        *parity.check_hardening({"/a": elf}, {"/a": hardened}),
        *parity.check_paths(root, ["/a"], tmp_path),
        *parity.check_symbols({"/a": elf}, symbols, tmp_path, tmp_path),
    ]
    assert ", ".join(finding.name.removeprefix("/a ") for finding in found) == name
    debug.unlink()
    assert [str(finding) for finding in parity.check_symbols({"/a": elf}, symbols, tmp_path, tmp_path)] == [
        "hardening /a lines: has no symbols"
    ]


def test_options_and_their_values() -> None:
    text = (
        "Usage: x\n  -?, --help          Display\n  --auto-x[=n]  Text\n      --not-one\n\n"
        "Variables (--variable-name=value)\nand boolean options {FALSE|TRUE}  Value\n--------- -----\n"
        "auto-x                 FALSE\ndatadir                /var/lib/mysql/\n"
    )
    assert parity.parse_help("p", text) == {"p --help": "", "p --auto-x": "FALSE", "p --datadir": "/var/lib/mysql/"}


def test_differences_are_found_and_must_be_stated() -> None:
    found = list(parity.compare("variable", {"a": "1", "b": "2", "c": "3"}, {"a": "1", "b": "3", "d": "4"}))
    assert [str(finding) for finding in found] == [
        "variable b: ours 2, stock's 3", "variable c: only ours (3)", "variable d: only stock's (4)"
    ]  # fmt: skip
    stated = [parity.Difference("variable", "[bc]", "x"), parity.Difference("variable", "d", "x")]
    assert parity.judge(found, stated) == []
    other = [parity.Difference("file", "b", "x"), parity.Difference("variable", "[cd]", "x")]
    assert parity.judge(found, other) == [
        "variable b: ours 2, stock's 3", f"{parity.LIST} states a difference that is none: file b"
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["- {kind: file, name: x}", "- {kind: none, name: x, why: y}", "- {kind: file, name: x, why: ''}"])
def test_wrong_statements_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "list"
    path.write_text(text)
    with pytest.raises(RedstartError):
        parity.read_differences(path)


def test_the_list_of_this_repository_can_be_read() -> None:
    found = parity.read_differences(REPO / parity.LIST)
    assert found and len({(item.kind, item.name) for item in found}) == len(found)


def test_every_plugin_is_loaded() -> None:
    lines = parity.load_statements((*package.PLUGINS, *package.CLIENT_PLUGINS)).splitlines()
    # The statements of its own make the rewriter.
    assert {line.split()[1] for line in lines} == {*package.PLUGINS, *package.CLIENT_PLUGINS} - {"rewriter"}
