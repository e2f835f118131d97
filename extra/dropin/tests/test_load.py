# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""When a load counts as done."""

from __future__ import annotations

import pytest

from dropin.load import Ended, problem_of_load

DONE = Ended(0, "")
CUT = Ended(1, "ERROR 2013 (HY000) at line 12: Lost connection to MySQL server during query")
GONE = Ended(1, "ERROR 2006 (HY000) at line 7: MySQL server has gone away")
NEVER = [
    Ended(1, "ERROR 2002 (HY000): Can't connect to local MySQL server through socket '/tmp/x/s' (2)"),
    Ended(1, "ERROR 2003 (HY000): Can't connect to MySQL server on '127.0.0.1:3306' (111)"),
    Ended(1, "ERROR 2013 (HY000): Lost connection to MySQL server at 'reading initial communication packet'"),
]
WRONG = Ended(1, "ERROR 1062 (23000) at line 3: Duplicate entry '1' for key 'base.PRIMARY'")


def test_a_load_that_ended() -> None:
    assert problem_of_load([DONE, DONE], lost=False) == ""
    assert problem_of_load([DONE, CUT], lost=True) == problem_of_load([GONE, CUT], lost=True) == ""


@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize("client", [*NEVER, WRONG, Ended(1, ""), Ended(-11, "")])
def test_a_client_that_never_connected_or_met_an_error(client: Ended, lost: bool) -> None:
    others = [DONE, CUT] if lost else [DONE]
    assert client.text in problem_of_load([*others, client], lost)
    assert problem_of_load([client], lost)


@pytest.mark.parametrize("client", [CUT, GONE])
def test_a_lost_server_that_nobody_killed(client: Ended) -> None:
    assert client.text in problem_of_load([DONE, client], lost=False)


def test_a_kill_that_met_no_load() -> None:
    assert "after the load had ended" in problem_of_load([DONE, DONE], lost=True)


@pytest.mark.parametrize("lost", [False, True])
def test_no_client(lost: bool) -> None:
    assert problem_of_load([], lost)
