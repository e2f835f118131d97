# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Reading the machine's apt set-up and keeping away from it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from redstart_cli import apt
from redstart_cli.console import RedstartError
from redstart_cli.tests.conftest import Program


def test_mirrors_of_both_formats(tmp_path: Path) -> None:
    parts = tmp_path / "sources.list.d"
    parts.mkdir()
    (tmp_path / "sources.list").write_text(
        "# deb http://127.0.0.1/commented bookworm main\n"
        "deb [arch=amd64 signed-by=/x.gpg] http://127.0.0.1/one bookworm main contrib # note\n"
        "deb-src http://127.0.0.1/src bookworm main\n"
        "deb cdrom:[Debian]/ bookworm main\n"
        "deb http://127.0.0.1/other bookworm stable\n"
    )
    (parts / "b.sources").write_text(
        "Types: deb deb-src\n# comment\nURIs: http://127.0.0.1/two http://127.0.0.1/one\nSuites: bookworm\n"
        " bookworm-updates\nComponents: main\nSigned-By: /x.gpg\n\n"
        "Types: deb\nURIs: http://127.0.0.1/sec\nSuites: bookworm-security\nComponents: main\n\n"
        "Enabled: no\nTypes: deb\nURIs: http://127.0.0.1/off\nSuites: bookworm\nComponents: main\n"
    )
    (parts / "c.sources.disabled").write_text(
        "Types: deb\nURIs: http://127.0.0.1/dis\nSuites: bookworm\nComponents: main\n"
    )
    options = [f"-oDir::Etc={tmp_path}", f"-oAPT::Update::Pre-Invoke::=touch {tmp_path}/hooked"]
    assert apt.machine_mirrors(*options) == ["http://127.0.0.1/one", "http://127.0.0.1/two"]
    assert not (tmp_path / "hooked").exists()
    (parts / "d.sources").write_text("Types: deb\nURIs: http://127.0.0.1/cut\n")
    with pytest.raises(RedstartError, match="apt-get does not work here: E: Malformed entry"):
        apt.machine_mirrors(*options)


def test_private_configuration(tmp_path: Path, program: Program) -> None:
    program(
        "apt-config",
        "#!/bin/sh\ncat <<'E'\n"
        'Acquire "";\nAcquire::http::Proxy "http://127.0.0.1:1";\nAcquire::Check-Valid-Until "false";\n'
        'Acquire::Languages "de";\nAcquire::IndexTargets::deb::X "y";\nAPT::Update::Post-Invoke:: "rm -f x";\nE\n',
    )
    program("apt-get", '#!/bin/sh\ncat "$APT_CONFIG" >seen\n')
    private = apt.PrivateApt(tmp_path / "private", "http://127.0.0.1/debian", "sid", want_sources=True)
    private.update()
    seen = (tmp_path / "private/download/seen").read_text()
    assert 'Acquire::http::Proxy "http://127.0.0.1:1";' in seen
    assert 'Acquire::Check-Valid-Until "false";' in seen
    assert 'Acquire::Languages "none";' in seen and '"de"' not in seen
    assert "Post-Invoke" not in seen and "IndexTargets" not in seen
    assert f'Dir::Etc::parts "{tmp_path}/private/etc/parts";' in seen
    sources = (tmp_path / "private/etc/sources.list").read_text()
    assert sources.startswith("deb-src [signed-by=") and sources.endswith(" http://127.0.0.1/debian sid main\n")


def test_real_apt_reads_only_the_private_configuration(tmp_path: Path) -> None:
    """The hooks of /etc/apt/apt.conf.d (container images have some) must not reach the download."""
    private = apt.PrivateApt(tmp_path / "private", "http://127.0.0.1:1/debian", "sid", want_sources=False)
    dump = subprocess.run(
        ["apt-config", "dump"],
        env={**os.environ, "APT_CONFIG": str(private.root / "etc/apt.conf")},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "Post-Invoke" not in dump
    assert f'Dir::State::lists "{private.root}/lists";' in dump
    assert f'Dir::Cache "{private.root}/cache";' in dump
