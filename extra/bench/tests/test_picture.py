# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The picture of the README shows medians of runs that went well, and nothing that was not measured."""

from __future__ import annotations

import json
import re
import statistics
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from bench import picture, results
from bench.cli import main
from bench.layout import REPOSITORY
from bench.picture import THEMES, describe, panels, publish, trim, write
from bench.results import Run
from bench.tests.helpers import make_document, make_run
from redstart_cli.tools import ToolError

WHEN = "2026-11-21T10:00:00+00:00"
SVG = "{http://www.w3.org/2000/svg}"


def build(subject: str, seconds: float, buffer_mib: float = 1, threads: int = 4) -> Run:
    parameters = {"rows": 1000, "indexes": 4, "buffer_mib": buffer_mib, "threads": threads}
    return Run("ddl", subject, "rebuild", 1, parameters, WHEN, [], metrics={"alter_s": seconds})


def outage(subject: str, number: int, first: float, tables: float, back: float | None = None) -> Run:
    parameters = {"tables": 1000, "tables_queried": 100, "redo_mib": 5, "binlog_mib": 6}
    metrics = {"first_query_s": first, "tables_answered_s": tables, "after_tps_001": 5.0}
    return Run("outage", subject, "crash", number, parameters, WHEN, [], metrics | ({"load_back_s": back} if back else {}))


def redo(subject: str, ready: float, **parameters: int) -> Run:
    return Run("redo", subject, "crash", 1, {"rows": 5, "pool_mib": 512, **parameters}, WHEN, [], {"ready_s": ready})


def save(path: Path, runs: list[Run], profile: str = "gp3") -> Path:
    results.save(make_document(runs, profile), path)
    return path


def bars(svg: str) -> dict[str, float]:
    """Widths of the bars of an SVG file, by their names."""
    found = {}
    for group in ET.fromstring(svg).iter(f"{SVG}g"):
        if (name := group.get("id", "")).startswith("bar-"):
            (path,) = group.iter(f"{SVG}path")
            across = [float(x) for x in re.findall(r"[ML] (\S+)", path.get("d", ""))]
            found[name] = max(across) - min(across)
    return found


def images_are_wrong(repo: Path, scratch: Path) -> str:
    """What is wrong with the published picture of a clone; nothing if there is none yet."""
    folder, images = repo / "docs/figures", repo / "docs/images"
    shown = [f"docs/images/overview-{name}.svg" for name in THEMES]
    documents = list(picture.load_all(folder).values())
    said = (repo / "README.md").read_text(encoding="utf-8")
    if not documents:
        return "there is a picture of nothing" if images.exists() or any(name in said for name in shown) else ""
    if any(trim(document) != document for document in documents):
        return "docs/figures has what is not published"
    if sorted(path.name for path in images.iterdir()) != sorted(Path(name).name for name in shown):
        return "docs/images has other files"
    for path in write(documents, scratch):
        if path.read_bytes() != (images / path.name).read_bytes():
            return f"{path.name} is not what ./redstart bench plot writes"
    return "".join(f"the README does not show {name}. " for name in shown if name not in said)


def test_panels_are_medians_of_the_largest_size() -> None:
    runs = [make_run("defaults", number, ready) for number, ready in enumerate((2.0, 1.0, 9.0))]
    runs += [make_run("stock", 1, 20.0), make_run("mariadb", 1, 30.0), make_run("light", 1, 5.0), make_run("stock", 1, 3.0, 10)]
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


def test_an_outage_has_a_panel_for_each_thing_that_is_waited_for() -> None:
    runs = [outage("all-on", 1, 1.0, 2.0, 7.0), outage("off", 1, 8.0, 11.0, 40.0), outage("stock", 1, 9.0, 12.0, 50.0)]
    first, many, back = panels([make_document(runs, "gp3")])
    assert [panel.title for panel in (first, many, back)] == [
        "busy server killed, 1,000 tables: first query answered, gp3",
        "busy server killed, 1,000 tables: 100 of them answered, gp3",
        "busy server killed, 1,000 tables: 90 % of the load is back, gp3",
    ]
    assert list(first.seconds.items()) == [("stock", 9.0), ("off", 8.0), ("all-on", 1.0)]
    assert (many.seconds["stock"], back.seconds["stock"]) == (12.0, 50.0)


def test_a_load_that_did_not_come_back_is_later_than_one_that_did() -> None:
    runs = [outage("defaults", number, 1.0, 2.0, back) for number, back in enumerate((7.0, None, 9.0))]
    runs += [outage("stock", number, 9.0, 12.0, back) for number, back in enumerate((50.0, None, None))]
    (*_, back) = panels([make_document(runs)])
    assert back.seconds == {"stock": None, "defaults": 9.0}
    assert describe([back]).endswith(": MySQL not reached, Redstart 9.00 s.")
    svg = picture.draw([back], THEMES["light"])
    assert bars(svg)["bar-0-stock"] == 0 and ">not reached<" in svg
    # If that is so of all, there is nothing to draw.
    assert len(panels([make_document([outage("stock", 1, 9.0, 12.0), outage("defaults", 1, 1.0, 2.0)])])) == 2


def test_redo_is_shown_by_its_size_or_by_the_seconds_that_have_made_it() -> None:
    sized = make_document([redo("stock", 30.0, redo_mib=800), redo("all-on", 10.0, redo_mib=800)])
    timed = make_document([redo("stock", 20.0, seconds=100), redo("all-on", 9.0, seconds=100)])
    assert [panel.title for panel in panels([timed, sized])] == [
        "start after kill -9, 800 MiB of redo, local",
        "start after kill -9, redo of 100 s, local",
    ]


def test_what_has_nothing_to_compare_with_is_an_error() -> None:
    alone = make_document([make_run("defaults", 1, 2.0), make_run("mariadb", 1, 2.0)])
    both = make_document([make_run("stock", 1, 2.0), make_run("defaults", 1, 2.0)])
    for documents in ([alone], [both, alone]):
        with pytest.raises(ToolError, match="bench startup: no panel has good runs of both MySQL"):
            panels(documents)
    with pytest.raises(ToolError, match="two results for: start, 20,000 tables, local"):
        panels([both, both])
    with pytest.raises(ToolError, match="no results"):
        panels([])


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf"), None])
def test_a_figure_that_is_none_is_an_error(value: float | None) -> None:
    odd = make_run("stock", 1, 2.0)
    odd.metrics = {} if value is None else {"ready_s": value}
    with pytest.raises(ToolError, match="startup, stock, round 1: ready_s is"):
        panels([make_document([odd, make_run("defaults", 1, 2.0)])])


@pytest.mark.parametrize("value", [None, "many", True])
def test_a_size_that_is_none_is_an_error(value: Any) -> None:
    odd = make_run("stock", 1, 2.0)
    odd.parameters["tables"] = value
    with pytest.raises(ToolError, match="startup, stock, round 1: tables is .*, not a number"):
        panels([make_document([odd, make_run("defaults", 1, 2.0)])])


def test_the_picture_has_all_figures_for_both_backgrounds(tmp_path: Path) -> None:
    documents = [
        make_document([build("stock", 119.0), build("defaults", 32.7)]),
        make_document([make_run("stock", 1, 41.23), make_run("defaults", 1, 1.644)], "gp3"),
    ]
    files = write(documents, tmp_path / "new")
    assert [path.name for path in files] == ["overview-light.svg", "overview-dark.svg"]
    texts = [path.read_text() for path in files]
    for text in texts:
        assert re.findall(r">([\d.,]+ s)<", text) == ["41.2 s", "1.64 s", "119.0 s", "32.7 s"]
        assert text.count(">Redstart<") == 2 and text.startswith("<svg")
        root = ET.fromstring(text)
        assert root.get("role") == "img" and [part.tag for part in root][:2] == [f"{SVG}title", f"{SVG}desc"]
        assert "start, 20,000 tables, gp3: MySQL 41.2 s, Redstart 1.64 s." in (root[1].text or "")
    assert texts[0] != texts[1]
    assert [path.read_text() for path in write(documents, tmp_path)] == texts


def test_a_bar_is_as_long_as_the_figures_of_the_json_say(tmp_path: Path) -> None:
    figures = {"stock": (40.0, 50.0, 44.0), "mariadb": (1.5, 1.25, 1.75), "all-on": (3.0, 2.0, 9.0)}
    runs = [make_run(subject, number, value) for subject, values in figures.items() for number, value in enumerate(values, 1)]
    file = save(tmp_path / "one.json", runs)
    publish([file], tmp_path / "figures", tmp_path / "images")
    records = json.loads((tmp_path / "figures/one.json").read_text())["runs"]
    medians = {
        subject: statistics.median(record["metrics"]["ready_s"] for record in records if record["subject"] == subject)
        for subject in figures
    }
    assert medians == {"stock": 44.0, "mariadb": 1.5, "all-on": 3.0}
    for name in THEMES:
        widths = bars((tmp_path / f"images/overview-{name}.svg").read_text())
        assert sorted(widths) == sorted(f"bar-0-{subject}" for subject in figures)
        for subject, median in medians.items():
            assert widths[f"bar-0-{subject}"] / widths["bar-0-stock"] == pytest.approx(median / 44.0, abs=1e-4)


def test_what_is_published_names_no_place_of_a_machine(tmp_path: Path) -> None:
    run = make_run("stock", 1, 5.0)
    run.command = ["/srv/bench/mysqld"]
    run.metrics["own_secret"] = 1.0
    bad = make_run("stock", 2, 5.0)
    bad.problems = ["the server died; see /srv/bench/logs/x.log"]
    bad.notes = ["900 transactions/s were not reached"]
    document = make_document([run, bad])
    document.command_line = "./redstart bench startup --json /srv/a --rounds 2 --mysqld=/srv/b --subjects stock".split()
    document.volume = {"file_system": "ext4", "mount_point": "/srv", "device": "sdz"}
    document.subjects = [{"name": "stock", "note": "", "binary": "/srv/root/usr/sbin/mysqld", "version": "9.7.4", "settings": {}}]
    kept = trim(document)
    assert "/srv" not in json.dumps(kept.as_json()) and "sdz" not in json.dumps(kept.as_json())
    assert kept.command_line == "./redstart bench startup --rounds 2 --subjects stock".split()
    assert kept.runs[0].metrics == {"ready_s": 5.0, "sectors_per_table": 36.0}
    assert kept.runs[1].problems == ["the server died; see x.log"] and kept.runs[1].notes == bad.notes
    assert kept.subjects[0]["binary"] == "mysqld" and kept.machine == document.machine
    assert trim(kept) == kept


def test_the_command_publishes_and_draws(tmp_path: Path) -> None:
    file = save(tmp_path / "one.json", [make_run("stock", 1, 5.0), make_run("defaults", 1, 1.0)])
    bad = make_run("stock", 1, 5.0)
    bad.problems = ["the binary log is off"]
    other = save(tmp_path / "two.json", [build("stock", 5.0), build("defaults", 2.0), bad])
    where = ["--results", str(tmp_path / "figures"), "--output", str(tmp_path / "images")]
    said = []
    for words in ([str(file)], [str(other)], []):
        done = CliRunner().invoke(main, ["plot", *words, *where])
        assert done.exit_code == 0, done.output
        said.append(done.output)
    assert sorted(path.name for path in (tmp_path / "figures").iterdir()) == ["one.json", "two.json"]
    assert "went wrong, not counted: stock, round 1: the binary log is off" in said[1]
    assert said[2].splitlines() == [str(tmp_path / f"images/overview-{name}.svg") for name in THEMES]
    assert len(bars((tmp_path / "images/overview-dark.svg").read_text())) == 4


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "cannot read"),
        ("{", "cannot read"),
        ("[]", "x.json: not a bench document"),
        ('{"runs": []}', "x.json: not a bench document: 'schema_version' is a required property"),
        (None, "no panel has good runs"),
    ],
)
def test_what_is_not_of_the_bench_is_an_error_and_changes_nothing(tmp_path: Path, text: str | None, problem: str) -> None:
    file = tmp_path / "x.json"
    if text is None:
        save(file, [make_run("off", 1, 5.0)])
    else:
        file.write_text(text)
    where = ["--results", str(tmp_path / "figures"), "--output", str(tmp_path / "images")]
    done = CliRunner().invoke(main, ["plot", str(file), *where])
    assert done.exit_code == 1 and problem in done.output, done.output
    assert list(tmp_path.iterdir()) == [file]


def test_no_results_and_names_that_do_not_fit_are_errors(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="there are no results in"):
        publish([], tmp_path / "figures", tmp_path / "images")
    with pytest.raises(ToolError, match="two files one.json"):
        publish([tmp_path / "one.json", tmp_path / "a/one.json"], tmp_path, tmp_path)
    with pytest.raises(ToolError, match="end in .json"):
        publish([tmp_path / "one.txt"], tmp_path, tmp_path)
    odd = make_run("stock", 1, 5.0)
    odd.experiment = "guessing"
    with pytest.raises(ToolError, match="no experiment 'guessing'"):
        publish([save(tmp_path / "one.json", [odd])], tmp_path / "figures", tmp_path / "images")


def test_the_published_picture_is_of_the_published_figures(tmp_path: Path) -> None:
    assert images_are_wrong(REPOSITORY, tmp_path) == ""


def test_a_published_picture_that_is_wrong_is_found(tmp_path: Path) -> None:
    repo, scratch = tmp_path / "repo", tmp_path / "scratch"
    figures, images = repo / "docs/figures", repo / "docs/images"
    repo.mkdir()
    readme = repo / "README.md"
    readme.write_text("no picture")
    assert images_are_wrong(repo, scratch) == ""
    file = save(tmp_path / "one.json", [make_run("stock", 1, 5.0), make_run("defaults", 1, 1.0)])
    publish([file], figures, images)
    assert "README does not show docs/images/overview-dark.svg" in images_are_wrong(repo, scratch)
    readme.write_text(" ".join(f"docs/images/overview-{name}.svg" for name in THEMES))
    assert images_are_wrong(repo, scratch) == ""
    image = images / "overview-light.svg"
    right = image.read_text()
    image.write_text(right.replace("5.00 s", "6.00 s"))
    assert "overview-light.svg is not what" in images_are_wrong(repo, scratch)
    image.write_text(right)
    record = figures / "one.json"
    kept = record.read_text()
    record.write_text(kept.replace('"ready_s": 5.0', '"ready_s": 6.0'))
    assert "overview-light.svg is not what" in images_are_wrong(repo, scratch)
    record.write_text(kept.replace('"command": []', '"command": ["/srv/mysqld"]'))
    assert "not published" in images_are_wrong(repo, scratch)
    record.unlink()
    assert images_are_wrong(repo, scratch) == "there is a picture of nothing"
