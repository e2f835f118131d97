# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Docker/sbom.pl: the packages of a root as an SPDX document."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "Docker/sbom.pl"
STATUS = """\
Package: libstdc++6
Status: install ok installed
Architecture: amd64
Source: gcc-12
Version: 12.2.0-14+deb12u1
Maintainer: Debian GCC Maintainers <gcc@example.org>
Description: a library
 Package: not a field

Package: gone
Status: deinstall ok config-files
Architecture: amd64
Version: 1

Package: redstart-server-core
Status: install ok installed
Architecture: amd64
Source: redstart (9.7.4-1)
Version: 9.7.4+redstart1-1
Maintainer: Rēdstart <r@example.org>

Package: bash
Status: install ok installed
Architecture: amd64
Version: 1:5.2-2
Homepage: http://example.org/bash
Maintainer: B <b@example.org>
"""


def made(root: Path, status: str = STATUS, **environment: str) -> subprocess.CompletedProcess[bytes]:
    (root / "var/lib/dpkg").mkdir(parents=True, exist_ok=True)
    (root / "etc").mkdir(exist_ok=True)
    (root / "etc/os-release").write_text('PRETTY_NAME="Debian"\nVERSION_ID="12"\nID=debian\n')
    (root / "var/lib/dpkg/status").write_text(status, encoding="utf-8")
    command = ["perl", str(SCRIPT), str(root), "redstart", "9.7.4"]
    return subprocess.run(command, capture_output=True, env={"PATH": "/usr/bin:/bin", **environment})


def document(root: Path, **environment: str) -> dict[str, Any]:
    result = made(root, **environment)
    assert result.returncode == 0 and not result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_what_is_installed_and_nothing_else(tmp_path: Path) -> None:
    image, *packages = document(tmp_path)["packages"]
    assert (image["name"], image["versionInfo"]) == ("redstart", "9.7.4")
    assert [(package["name"], package["versionInfo"]) for package in packages] == [
        ("bash", "1:5.2-2"),
        ("libstdc++6", "12.2.0-14+deb12u1"),
        ("redstart-server-core", "9.7.4+redstart1-1"),
    ]


def test_fields(tmp_path: Path) -> None:
    _, bash, library, ours = document(tmp_path)["packages"]
    urls = [package["externalRefs"][0]["referenceLocator"] for package in (bash, library, ours)]
    assert urls == [
        "pkg:deb/debian/bash@1%3A5.2-2?arch=amd64&distro=debian-12",
        "pkg:deb/debian/libstdc%2B%2B6@12.2.0-14%2Bdeb12u1?arch=amd64&distro=debian-12",
        "pkg:generic/redstart-server-core@9.7.4%2Bredstart1-1?arch=amd64",
    ]
    assert library["SPDXID"] == "SPDXRef-Package-libstdc..6-amd64"
    assert library["sourceInfo"].endswith(" gcc-12 (12.2.0-14+deb12u1)") and ours["sourceInfo"].endswith(" redstart (9.7.4-1)")
    assert ours["supplier"] == "Organization: Rēdstart (r@example.org)"
    assert (bash["homepage"], ours["licenseDeclared"]) == ("http://example.org/bash", "GPL-2.0-only")
    assert "licenseDeclared" not in bash


def test_every_package_is_in_the_image(tmp_path: Path) -> None:
    found = document(tmp_path)
    ids = [package["SPDXID"] for package in found["packages"]]
    assert len(set(ids)) == len(ids)
    pairs = [(edge["spdxElementId"], edge["relationshipType"], edge["relatedSpdxElement"]) for edge in found["relationships"]]
    assert pairs == [("SPDXRef-DOCUMENT", "DESCRIBES", ids[0])] + [(ids[0], "CONTAINS", package) for package in ids[1:]]


def test_same_packages_same_bytes(tmp_path: Path) -> None:
    first, again = (made(tmp_path, SOURCE_DATE_EPOCH="1767322800").stdout for _ in range(2))
    assert first == again and b'"2026-01-02T03:00:00Z"' in first
    name = json.loads(first)["documentNamespace"]
    assert json.loads(made(tmp_path, STATUS.replace("5.2-2", "5.2-3")).stdout)["documentNamespace"] != name


@pytest.mark.parametrize("status", ["", "Package: a\nStatus: deinstall ok config-files\nArchitecture: all\nVersion: 1\n"])
def test_a_root_without_packages_is_an_error(tmp_path: Path, status: str) -> None:
    result = made(tmp_path, status)
    assert result.returncode != 0 and b"no package is installed" in result.stderr and not result.stdout
