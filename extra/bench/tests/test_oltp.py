# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""The load by sysbench: which runs there are, and the tables that it takes."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bench import results, starts, sysbench
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


def report(transactions: int, *lines: str) -> str:
    return "\n".join([
        *lines, f"    transactions: {transactions} (502.00 per sec.)", "    queries: 9 (9.0 per sec.)",
        "    ignored errors: 0 (0.00 per sec.)", "  avg: 31.82", "  95th percentile: 78.60",
    ])  # fmt: skip


RIGHT = ("committed: 4500 order, 4300 payment, 400 status, 400 delivery, 400 stock",
         "committed: 4510 order, 4290 payment, 380 status, 420 delivery, 400 stock")  # fmt: skip


def measured(monkeypatch: pytest.MonkeyPatch, mode: str, text: str, threads: int = 2) -> results.Run:
    """The record of a run in which sysbench says `text`."""

    @contextlib.contextmanager
    def serving(*_: object) -> Iterator[Any]:
        yield SimpleNamespace(startup=lambda timeout: None, cpu_sec=lambda: 1.0, socket="/s")

    monkeypatch.setattr(starts, "serving", serving)
    monkeypatch.setattr(starts, "add_server", lambda *_: None)
    monkeypatch.setattr(tools, "run", lambda words: text)
    run = starts.new_run("oltp", "off", mode, 1, {"rows": 100, "threads": threads, "seconds": 5})
    context, datadir = SimpleNamespace(timeout_sec=9), SimpleNamespace(restore=lambda state: None)
    oltp._measure(cast(Any, context), cast(Any, datadir), cast(Any, None), run)
    return run


def test_how_often_each_kind_of_order_ran_is_in_the_record(monkeypatch: pytest.MonkeyPatch) -> None:
    run = measured(monkeypatch, "orders", report(20_000, *RIGHT))
    kinds = {name: number for name, number in run.metrics.items() if name.endswith("_transactions")}
    assert kinds == {
        "order_transactions": 9010, "payment_transactions": 8590, "status_transactions": 780, "delivery_transactions": 820,
        "stock_transactions": 800,
    }  # fmt: skip
    assert run.problems == []
    assert "order_transactions" not in measured(monkeypatch, "read-only", report(20_000)).metrics


@pytest.mark.parametrize(
    ("transactions", "lines", "problems"),
    [
        # A few less, or more, are chance; a thread may be in the middle of one.
        (10_002, RIGHT[:1], []),
        (100, ["committed: 48 order, 50 payment, 0 status, 1 delivery, 1 stock"], []),
        (10_003, RIGHT[:1], ["the kinds of transactions come to 10,000, sysbench has counted 10,003"]),
        (20_000, RIGHT[:1], ["the kinds of transactions come to 10,000, sysbench has counted 20,000"]),
        (20_000, [], ["the kinds of transactions come to 0, sysbench has counted 20,000"]),
        (10_000, ["committed: 4900 order, 4300 payment, 400 status, 0 delivery, 400 stock"],
         ["0 of 10,000 transactions were of kind delivery, 4 % were asked for"]),
        (10_000, ["committed: 6000 order, 2800 payment, 400 status, 400 delivery, 400 stock"],
         ["6,000 of 10,000 transactions were of kind order, 45 % were asked for",
          "2,800 of 10,000 transactions were of kind payment, 43 % were asked for"]),
        (10_000, ["committed: 4400 order, 4300 payment, 400 status, 400 delivery, 400 stock, 100 refund"],
         ["100 of 10,000 transactions were of kind refund, 0 % were asked for"]),
    ],
)  # fmt: skip
def test_shares_that_are_not_what_was_asked_are_a_problem(
    transactions: int, lines: Sequence[str], problems: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = measured(monkeypatch, "orders", report(transactions, *lines))
    assert run.problems == problems and run.ok == (not problems)


def test_the_script_has_the_shares_that_are_asked_for() -> None:
    """It says how often each kind ran in words that are read here; it runs only where there is sysbench."""
    script = Path(oltp.ORDERS).read_text(encoding="utf-8")
    kinds = re.findall(r'{share = (\d+), name = "(\w+)", work = (\w+)}', script)
    assert {name: int(share) for share, name, _ in kinds} == oltp.SHARES and sum(oltp.SHARES.values()) == 100
    assert all(name == work for _, name, work in kinds)
