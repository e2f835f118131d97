# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Tests that need a server fail without one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("name", ["test_config.py", "test_clients.py", "test_replication.py"])
def test_without_a_server(name: str) -> None:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("REDSTART_")}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(FOLDER / name)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode not in (0, 5), done.stdout
    assert "REDSTART_MYSQLD is not set" in done.stdout and "1 error" in done.stdout
