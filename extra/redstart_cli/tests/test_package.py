# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Packaging without a build: paths, commands, texts and scripts."""

from __future__ import annotations

import datetime
import subprocess
from pathlib import Path

import pytest

from redstart_cli import package, relocate, testing
from redstart_cli.console import RedstartError

REPO = Path(__file__).resolve().parents[3]
COMPILE = (
    "ccache /usr/bin/c++ -DX -I/b -I/b/include -I/s/include -O3 -fpch-preprocess -Winvalid-pch "
    "-include /b/CMakeFiles/sql.dir/cmake_pch.hxx -MD -MT {0} -MF {0}.d -o {0} -c /s/{1}"
)


def test_defines_are_set_once_or_not_at_all() -> None:
    text = '#define SHAREDIR "/usr/local/mysql/share"\n#define OTHER 1\n'
    assert relocate.set_defines(text, {"SHAREDIR": "/usr/share/mysql"}).startswith('#define SHAREDIR "/usr/share/mysql"\n')
    for wrong in ("", text + text):
        with pytest.raises(RedstartError, match="SHAREDIR"):
            relocate.set_defines(wrong, {"SHAREDIR": "/x"})


def test_the_servers_own_object_is_taken_of_two() -> None:
    lines = [
        COMPILE.format("mysys/CMakeFiles/m.dir/charset.cc.o", "mysys/charset.cc"),
        COMPILE.format("sql/CMakeFiles/sql_main.dir/__/mysys/charset.cc.o", "mysys/charset.cc"),
        COMPILE.format("sql/x.o", "sql/handler.cc"),
    ]
    for order in (lines, lines[::-1]):
        found = relocate.compilations(order, Path("/s"))
        assert [item.object for item in found] == ["sql/CMakeFiles/sql_main.dir/__/mysys/charset.cc.o"]


def test_compile_command_prefers_the_changed_headers_and_drops_the_precompiled_one() -> None:
    line = COMPILE.format("o/mysqld.cc.o", "sql/mysqld.cc")
    command = relocate.compile_command(relocate.compilations([line], Path("/s"))[0], Path("/new"), Path("/out.o"))
    assert command.index("-I/new") < command.index("-I/b")
    assert not [word for word in command if "pch" in word or word in ("-MD", "-MF", "-MT")]
    assert command[command.index("-o") + 1] == "/out.o" and command[-2:] == ["-c", "/s/sql/mysqld.cc"]


def test_link_command_puts_objects_before_archives() -> None:
    line = ": && c++ -O3 main.o -o bin/mysqld  liba.a -lm && :"
    command = relocate.link_command(line, [Path("/n.o")], Path("/new/mysqld"))
    assert command == ["c++", "-O3", "main.o", "/n.o", "-o", "/new/mysqld", "liba.a", "-lm"]


def test_a_client_plugin_is_made_by_the_commands_of_another_plugin() -> None:
    model = [
        "ccache c++ -Dauth_socket_EXPORTS -O3 -MD -MT a.o -MF a.o.d -o a.o -c /s/plugin/auth/auth_socket.cc",
        ": && c++ -shared -o auth_socket.so a.o libs.a && :",
    ]
    compile_it, link = relocate.client_plugin_commands(model, "mysql_native_password", Path("/s"), Path("/w"))
    folder = "/s/libmysql/authentication_native_password/mysql_native_password"
    assert compile_it == [
        "ccache", "c++", "-Dmysql_native_password_EXPORTS", "-O3", "-o", "/w/mysql_native_password.o", "-c", f"{folder}.cc"
    ]  # fmt: skip
    assert link[:3] == ["c++", "-shared", f"-Wl,--version-script={folder}.ver"]
    place = link.index("-o")
    assert link[place + 1 : place + 3] == ["/w/mysql_native_password.so", "/w/mysql_native_password.o"]
    assert "a.o" not in link and "libs.a" not in link
    with pytest.raises(RedstartError, match="compiled 2 times"):
        relocate.client_plugin_commands([model[0], *model], "mysql_native_password", Path("/s"), Path("/w"))


def test_every_client_plugin_is_in_the_client_package() -> None:
    lines = (REPO / "packaging/debian/redstart-client-core.install").read_text().splitlines()
    wanted = [f"client/{name}.so usr/lib/mysql/plugin" for name in relocate.CLIENT_PLUGINS]
    assert [line for line in lines if line.startswith("client/")] == wanted


def test_a_program_with_the_old_prefix_is_an_error(tmp_path: Path) -> None:
    good, bad = tmp_path / "good", tmp_path / "bad"
    good.write_bytes(b"\0/usr/share/mysql\0")
    bad.write_bytes(b"\0/usr/local/mysql/share\0")
    relocate.check_paths([good])
    with pytest.raises(RedstartError, match="bad"):
        relocate.check_paths([good, bad])


def test_version_lies_between_stock_and_the_next_release() -> None:
    version = package.package_version("9.7.4", 1)
    for lower, higher in (("9.7.4-99", version), (version, package.package_version("9.7.4", 2)), (version, "9.7.5-1")):
        assert subprocess.run(["dpkg", "--compare-versions", lower, "lt", higher]).returncode == 0


def test_changelog_and_maintainer(monkeypatch: pytest.MonkeyPatch) -> None:
    when = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
    lines = package.changelog("1-1", "A B <a@b.c>", when).splitlines()
    assert lines[0] == "redstart (1-1) unstable; urgency=medium"
    assert lines[-1] == " -- A B <a@b.c>  Fri, 02 Jan 2026 03:04:05 +0000"
    monkeypatch.setenv("DEBFULLNAME", "N")
    monkeypatch.setenv("DEBEMAIL", "n@m.o")
    assert package.maintainer() == "N <n@m.o>"


def test_every_staged_program_is_in_one_package() -> None:
    lists = [(REPO / f"packaging/debian/{name}.install").read_text().split() for name in package.PACKAGES[:2]]
    listed = [path for lines in lists for path in lines if path.startswith(("usr/bin/", "usr/sbin/"))]
    staged = {f"usr/sbin/{name}" for name in package.SERVER_PROGRAMS}
    staged |= {f"usr/bin/{name}" for name in (*package.PROGRAMS, *package.SCRIPTS)}
    assert sorted(listed) == sorted(staged)


def test_slow_levels_run_only_by_name() -> None:
    assert set(testing.NOT_IN_ALL) == {"replication", "drivers", "packages", "stock", "dockerfile", "swap", "fuzz"}
    assert set(testing.NOT_IN_ALL) <= set(testing.LEVELS)
