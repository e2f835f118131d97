# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The start-up experiment from its command to the report, with a few hundred real tables.

Run by `./redstart test bench`, which names the server in REDSTART_BENCH_MYSQLD. Data lives in a
directory of its own below build/, so a bench that the user runs is not disturbed.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from bench import results
from bench.diskstats import SECTOR_BYTES
from bench.layout import REPOSITORY
from bench.profiles import PROFILES

TABLES = 600
USED = 150
PAGE_BYTES = 16384
TIMEOUT_SEC = 400
PROFILE = "slow"

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="device profiles and cold caches need root")


@pytest.fixture(scope="module")
def directory() -> Iterator[Path]:
    """A bench directory on the disk of build/, removed afterwards."""
    path = REPOSITORY / "build" / "test" / "bench"
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    yield path
    shutil.rmtree(path)


def bench(directory: Path, *arguments: str | Path, prefix: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """What the bench says and how it ends."""
    environment = os.environ | {"REDSTART_BENCH_DIR": str(directory)}
    return subprocess.run(
        [*prefix, sys.executable, "-m", "bench.cli", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=TIMEOUT_SEC,
        check=False,
    )


def mysqld() -> str:
    """The server to start."""
    return os.environ["REDSTART_BENCH_MYSQLD"]


@pytest.fixture(scope="module")
def document(directory: Path) -> dict[str, Any]:
    """The JSON of one round on a limited disk, clean and cold."""
    path = directory / "out.json"
    done = bench(
        directory, "startup", "--tables", str(TABLES), "--profile", PROFILE, "--rounds", "1", "--no-warm",
        "--subjects", "off,light", "--mysqld", mysqld(), "--json", path,
    )  # fmt: skip
    if "cgroup" in done.stderr and "blkio" in done.stderr and not path.exists():
        pytest.skip(f"this machine cannot limit a disk: {done.stderr.strip()}")
    assert done.returncode == 0, done.stdout + done.stderr
    value: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return value


@needs_root
def test_document_follows_the_schema(document: dict[str, Any]) -> None:
    results.check(document)
    assert [run["subject"] for run in document["runs"]] == ["off", "light"]
    for run in document["runs"]:
        assert run["ok"], run["problems"]
        assert run["mode"] == "cold"
        assert run["metrics"]["files_checked"] == TABLES + 4


@needs_root
def test_throttling_held(document: dict[str, Any]) -> None:
    """fio saw the limit, and the server was held to it where it reads one file after the other."""
    limits = PROFILES[PROFILE].limits
    assert limits is not None
    small = document["profile"]["verified"]["fio"][0]
    assert small["block_bytes"] == 16384
    assert 0.9 * limits.read_iops <= small["iops"] <= 1.1 * limits.read_iops
    for run in document["runs"]:
        # One read a file, but for those that the error log has at the edge of the phase.
        assert run["phase_io"]["check"]["most_reads"] >= 0.9 * TABLES
        assert sum(io["most_reads"] for io in run["phase_io"].values()) >= TABLES
        assert run["phases_s"]["check"] >= 0.9 * TABLES / limits.read_iops


@needs_root
def test_sectors_of_the_check(document: dict[str, Any]) -> None:
    """A header costs a page with everything off and 4 KiB with the light check.

    The server counts exactly. What the process read is attributed to phases by time: bounds of it
    are compared.
    """
    off, light = document["runs"]
    name = "Innodb_tablespace_check_bytes_read"
    assert int(off["status"][name]) == 16384 * (TABLES + 4)
    assert int(light["status"][name]) == 4096 * (TABLES + 4)
    least, most = (
        [run["phase_io"]["check"][f"{bound}_process_read_bytes"] / SECTOR_BYTES / TABLES for run in (off, light)]
        for bound in ("least", "most")
    )
    assert most[0] >= 31
    assert most[1] >= 7.5
    assert least[1] <= most[0] - 20


@needs_root
def test_first_use(directory: Path, document: dict[str, Any]) -> None:
    """Each mode is measured right after a cold start, and every queried table was read from the disk."""
    path = directory / "first.json"
    done = bench(
        directory, "startup", "--tables", str(TABLES), "--first-use", str(USED), "--rounds", "1",
        "--subjects", "off,map", "--mysqld", mysqld(), "--json", path,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    value = json.loads(path.read_text(encoding="utf-8"))
    results.check(value)
    modes = ("queries", "tables", "innodb_tablespaces", "files")
    runs = {(run["mode"], run["subject"]): run for run in value["runs"]}
    assert list(runs) == [(mode, subject) for mode in modes for subject in ("off", "map")]
    for (mode, _), run in runs.items():
        assert run["ok"], run["problems"]
        metrics = run["metrics"]
        assert 0 < metrics["ready_s"] < metrics["first_query_s"] < metrics["last_answer_s"]
        assert metrics["answers_s"] <= metrics["last_answer_s"] - metrics["first_query_s"] + 0.01
        if mode == "queries":
            assert metrics["answers_process_read_bytes"] >= USED * PAGE_BYTES
            assert 0 < metrics["latency_p50_ms"] <= metrics["latency_p99_ms"] <= metrics["latency_max_ms"]
            assert metrics["latency_max_ms"] <= metrics["answers_s"] * 1000
        else:
            assert metrics["view_rows"] == TABLES
    trusted = "Innodb_tablespace_map_files_trusted"
    assert int(runs["queries", "map"]["status"][trusted]) >= TABLES
    assert int(runs["queries", "off"]["status"][trusted]) == 0


def only_run(done: subprocess.CompletedProcess[str], path: Path) -> dict[str, Any]:
    """The one run of a bench that went well."""
    assert done.returncode == 0, done.stdout + done.stderr
    value = json.loads(path.read_text(encoding="utf-8"))
    results.check(value)
    (run,) = value["runs"]
    return cast(dict[str, Any], run)


@needs_root
def test_what_a_start_reads(directory: Path) -> None:
    """Every table's header is read, and known to be; a disk that is not limited, so that the program comes in large reads."""
    path = directory / "reads.json"
    done = bench(
        directory, "reads", "--tables", str(TABLES), "--rounds", "1", "--subjects", "off", "--mysqld", mysqld(), "--json", path,
    )  # fmt: skip
    if not path.exists() or not json.loads(path.read_text(encoding="utf-8"))["runs"]:
        if any(text in done.stderr for text in ("trace", "cannot be found by sector")):
            pytest.skip(f"this machine cannot trace a disk: {done.stderr.strip()}")
    run = only_run(done, path)
    headers = [file for file in run["files"] if "/bench0000/" in file["file"] and file["file"].endswith(".ibd")]
    assert len(headers) == TABLES
    assert all(file["bytes"] >= PAGE_BYTES for file in headers)
    assert {"program", "libraries", "mysql.ibd", "undo", "redo", "file system"} <= {file["group"] for file in run["files"]}
    program = next(file for file in run["files"] if file["group"] == "program")
    assert os.stat(mysqld()).st_size / 10 <= program["bytes"] <= os.stat(mysqld()).st_size + PAGE_BYTES
    assert all(0 <= file["first_s"] <= file["last_s"] <= run["metrics"]["first_query_s"] for file in run["files"])


@needs_root
def test_shutdown(directory: Path) -> None:
    """All tables are open, and the phases that the server tells of are together what the shutdown has taken."""
    path = directory / "shutdown.json"
    done = bench(
        directory, "shutdown", "--tables", str(TABLES), "--rounds", "1", "--subjects", "off", "--mysqld", mysqld(), "--json", path,
    )  # fmt: skip
    run = only_run(done, path)
    assert run["metrics"]["open_tables"] >= TABLES
    assert list(run["phases_s"]) == ["connections", "before the plugins", "plugins", "table cache", "exit"]
    assert sum(run["phases_s"].values()) == pytest.approx(run["metrics"]["shutdown_s"])
    assert run["metrics"]["longest_silence_s"] <= run["metrics"]["shutdown_s"]


@needs_root
def test_report_of_the_document(directory: Path, document: dict[str, Any]) -> None:
    markdown, html = directory / "out.md", directory / "out.html"
    done = bench(directory, "report", directory / "out.json", "--markdown", markdown, "--html", html)
    assert done.returncode == 0, done.stderr
    assert "light" in markdown.read_text(encoding="utf-8")
    assert "<svg" in html.read_text(encoding="utf-8") or "<img" in html.read_text(encoding="utf-8")


@needs_root
def test_without_root(directory: Path) -> None:
    """Said plainly, and nothing is measured."""
    as_user = ("unshare", "--user", "--map-user=1000", "--map-group=1000", "--")
    done = bench(directory, "startup", "--tables", "10", "--subjects", "off", "--mysqld", mysqld(), prefix=as_user)
    assert done.returncode == 1
    assert "root" in done.stderr


@needs_root
def test_unknown_subject(directory: Path) -> None:
    done = bench(directory, "startup", "--subjects", "of", "--mysqld", mysqld())
    assert done.returncode == 1
    assert "unknown subject 'of'" in done.stderr
