# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The archive that the stock server comes from, and which one is not compared with."""

from __future__ import annotations

from pathlib import Path

import pytest

from redstart_cli import roots
from redstart_cli.layout import this_layout
from redstart_cli.tools import ToolError, Unavailable
from redstart_cli.upstream import read_pins


def test_mirror_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    found = ["http://a.example/apt", "http://a.example/debian-security", "http://a.example/debian/", "http://b.example/debian"]
    monkeypatch.setattr(roots, "machine_mirrors", lambda: found)
    assert roots.machine_mirror() == "http://a.example/debian/"
    del found[2:]
    with pytest.raises(Unavailable, match="name no Debian archive"):
        roots.machine_mirror()


def test_stock_of_another_release_is_not_compared(tmp_path: Path) -> None:
    status = tmp_path / "stock/var/lib/dpkg/status"
    status.parent.mkdir(parents=True)
    pinned, _ = read_pins(this_layout().repo)
    others = "Package: mysql-client-core\nVersion: 1.0.0-1\n\n"
    status.write_text(f"{others}Package: mysql-server-core\nStatus: install ok installed\nVersion: {pinned}-2\n\n")
    assert roots.stock_root(tmp_path, tmp_path) == tmp_path / "stock"
    status.write_text(f"{others}Package: mysql-server-core\nVersion: 9.7.999-1\n\n")
    with pytest.raises(ToolError, match=f"is MySQL 9.7.999, cmake/upstream.json pins {pinned}") as caught:
        roots.stock_root(tmp_path, tmp_path)
    assert not isinstance(caught.value, Unavailable)
    status.write_text(others)
    with pytest.raises(ToolError, match="has no mysql-server-core"):
        roots.stock_root(tmp_path, tmp_path)
