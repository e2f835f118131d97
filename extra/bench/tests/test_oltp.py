# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The load by sysbench: which runs there are, and the tables that it takes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from bench import sysbench
from bench.context import Context
from bench.experiments import oltp
from redstart_cli import tools


def test_each_load_runs_with_each_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    subjects = [SimpleNamespace(name=name, binary=SimpleNamespace(flavour=name)) for name in ("stock", "off")]
    ui = SimpleNamespace(begin=lambda *_: None, update=lambda *_, **__: None, end=lambda _: None)
    context = SimpleNamespace(
        ui=ui, rounds=1, find_subjects=lambda _: subjects, make_datadir=lambda recipe, binary: recipe.key, finish=lambda *_: None
    )
    seen: list[tuple[Any, ...]] = []

    def measure(context: object, datadir: str, subject: Any, result: Any) -> None:
        seen.append((datadir, result.mode, result.parameters["threads"], subject.name))
        result.metrics["transactions_per_sec"] = 1.0

    monkeypatch.setattr(oltp, "_measure", measure)
    monkeypatch.setattr(tools, "need", lambda *_: None)
    oltp.run(cast(Context, context), oltp.Options(100, (1, 64), 5, ("point-select", "orders")))
    # The subjects of one figure follow each other: what changes on the machine meets both.
    assert seen == [
        ("oltp-orders-4x100r", mode, threads, name)
        for mode in ("point-select", "orders")
        for threads in (1, 64)
        for name in ("stock", "off")
    ]


def test_both_kinds_of_tables_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[list[str]] = []
    monkeypatch.setattr(tools, "run", lambda words: ran.append(list(words)))
    server = SimpleNamespace(socket="/s", query=lambda text: ran.append([text]))
    oltp.Oltp(1000).fill(cast(Any, server), lambda _: None)
    assert ran[0] == ["CREATE DATABASE sbtest"]
    assert [words[1] for words in ran[1:]] == ["oltp_read_only", oltp.ORDERS]
    assert all(words[-1] == "prepare" and "--table-size=1000" in words for words in ran[1:])


def test_a_transaction_that_begins_anew_is_an_error_of_the_report() -> None:
    text = (
        "    transactions:  7547   (502.00 per sec.)\n    queries:  206154 (13712.52 per sec.)\n"
        "    ignored errors:  3      (0.20 per sec.)\n  avg:   31.82\n 95th percentile:   78.60\n"
    )
    assert sysbench.parse_report(text)["errors"] == 3
    assert sysbench.parse_transactions(text) == 7547
