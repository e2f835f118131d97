# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The picture of the README shows medians of runs that went well, and nothing that was not measured."""

import re
from pathlib import Path

import pytest

from bench.errors import BenchError
from bench.picture import panels, write
from bench.results import Run
from bench.tests.helpers import make_document, make_run


def build(subject: str, seconds: float, buffer_mib: float = 1, threads: int = 4) -> Run:
    parameters = {"rows": 1000, "indexes": 4, "buffer_mib": buffer_mib, "threads": threads}
    return Run("ddl", subject, "rebuild", 1, parameters, "2026-11-21T10:00:00+00:00", [], metrics={"alter_s": seconds})


def test_panels_are_medians_of_the_largest_size() -> None:
    runs = [make_run("defaults", number, ready) for number, ready in enumerate((2.0, 1.0, 9.0))]
    runs += [make_run("stock", 1, 20.0), make_run("mariadb", 1, 30.0), make_run("off", 1, 5.0), make_run("stock", 1, 3.0, 10)]
    bad = make_run("stock", 2, 500.0)
    bad.problems = ["it has crashed"]
    (panel,) = panels([make_document([*runs, bad], "gp3")])
    assert panel.title == "start, 20,000 tables, gp3"
    assert list(panel.seconds.items()) == [("stock", 20.0), ("mariadb", 30.0), ("defaults", 2.0)]


def test_index_builds_are_shown_with_the_smallest_buffer() -> None:
    runs = [build("stock", 9.0), build("defaults", 4.0), build("stock", 5.0, 64), build("defaults", 3.0, 64)]
    runs += [build("stock", 20.0, threads=1), build("mariadb", 30.0, threads=1)]
    (panel,) = panels([make_document(runs)])
    assert panel.title.startswith("index build (rebuild), 1,000 rows, buffer of 1 MiB")
    assert panel.seconds == {"stock": 9.0, "mariadb": 30.0, "defaults": 4.0}


def test_an_outage_has_a_panel_for_the_first_answer_and_one_for_those_of_many_tables() -> None:
    parameters = {"tables": 1000, "tables_queried": 100, "redo_mib": 5, "binlog_mib": 6}
    runs = [
        Run("outage", subject, "crash", 1, parameters, "2026-11-25T10:00:00", [], {"first_query_s": one, "tables_answered_s": two})
        for subject, one, two in (("stock", 9.0, 12.0), ("all-on", 1.0, 2.0), ("defaults", 3.0, 4.0))
    ]
    first, many = panels([make_document(runs, "gp3")])
    assert (first.title, many.title) == (
        "busy server killed, 1,000 tables: first query answered, gp3",
        "busy server killed, 1,000 tables: 100 of them answered, gp3",
    )
    assert (first.seconds, many.seconds) == ({"stock": 9.0, "defaults": 3.0}, {"stock": 12.0, "defaults": 4.0})


def test_what_has_nothing_to_compare_with_is_an_error() -> None:
    with pytest.raises(BenchError, match="runs of both"):
        panels([make_document([make_run("defaults", 1, 2.0), make_run("mariadb", 1, 2.0)])])


def test_the_picture_has_all_figures_for_both_backgrounds(tmp_path: Path) -> None:
    documents = [
        make_document([make_run("stock", 1, 41.23), make_run("defaults", 1, 1.644)], "gp3"),
        make_document([build("stock", 119.0), build("defaults", 32.7)]),
    ]
    files = write(documents, tmp_path / "new")
    assert [path.name for path in files] == ["overview-light.svg", "overview-dark.svg"]
    texts = [path.read_text() for path in files]
    for text in texts:
        assert re.findall(r">([\d.,]+ s)<", text) == ["41.2 s", "1.64 s", "119.0 s", "32.7 s"]
        assert text.count(">Redstart<") == 2 and text.startswith("<svg")
    assert texts[0] != texts[1]
    assert [path.read_text() for path in write(documents, tmp_path)] == texts
