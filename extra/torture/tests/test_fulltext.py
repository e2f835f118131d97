# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""What a full-text index does not find, and finds too much."""

from __future__ import annotations

import random
import re
from collections import Counter

import pytest

from torture import fulltext

ROWS = {row: f"s{row:06} n{row // 10 * 2:06} {'x' * 11}" for row in range(40)}


class Server:
    """Rows and an index of its own."""

    def __init__(self, rows: dict[int, str], indexed: dict[int, str], cached: int) -> None:
        self._rows, self._indexed, self._cached = rows, indexed, cached
        self._answer: list[tuple[object, ...]] = []
        self.asked: list[str] = []
        self.is_used = False

    def execute(self, text: str) -> None:
        if found := re.search(r"AGAINST \('(.*)'\)", text):
            assert self.is_used
            self.asked.append(found[1])
            self._answer = [(row,) for row, words in self._indexed.items() if found[1] in words.split()]
        elif "information_schema.columns" in text:
            self._answer = [("id,s",)]
        elif "innodb_ft_index_cache" in text:
            self._answer = [(self._cached,)]
        elif "FORCE INDEX (PRIMARY)" in text:
            self._answer = list(self._rows.items())
        elif text.startswith("INSERT"):
            assert text == "INSERT IGNORE INTO c1.f (id,s) SELECT id,s FROM c1.f LIMIT 1" and not self.asked
            self.is_used = True
        else:
            assert text == "SET GLOBAL innodb_ft_aux_table = 'c1/f'"

    def fetchall(self) -> list[tuple[object, ...]]:
        return self._answer

    def fetchone(self) -> tuple[object, ...]:
        return self._answer[0]


def said(server: Server, asked: Counter[str] | None = None) -> list[str]:
    return fulltext.check(server, "c1", "f", "f1", "s", Counter() if asked is None else asked)


def test_words_are_counted_and_nothing_is_wrong() -> None:
    server, asked = Server(ROWS, ROWS, 15), Counter[str]()
    assert said(server, asked) == []
    assert asked == {"indexes": 1, "words": len(server.asked), "stored": 25, "cached": 15}
    assert len(server.asked) >= fulltext.FREQUENT + fulltext.GONE
    # That of all rows, and some of steps that no row has.
    assert server.asked[0] == "x" * 11
    assert {word for word in server.asked if not any(word in words for words in ROWS.values())} == {"n000001", "n000003", "n000005"}


def test_a_row_that_is_not_found_is_wrong() -> None:
    (first, *_) = said(Server(ROWS, {row: words for row, words in ROWS.items() if row != 7}, 0))
    assert first == "c1.f: full-text index f1 finds 39 rows with xxxxxxxxxxx, 40 have it; lacking: [7], too many: []"


def test_a_row_that_has_the_word_no_more_is_wrong() -> None:
    (text,) = said(Server(ROWS, ROWS | {3: f"{ROWS[3]} n000001"}, 0))
    assert text.endswith("finds 1 rows with n000001, 0 have it; lacking: [], too many: [3]")


def test_a_row_that_is_found_twice_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(ROWS, ROWS, 0)
    monkeypatch.setattr(server, "fetchall", lambda: server._answer * 2 if len(server.asked) == 1 else server._answer)
    assert "finds 80 rows" in said(server)[0]


def test_a_table_without_rows_is_asked_nothing() -> None:
    asked = Counter[str]()
    assert said(Server({}, {}, 4), asked) == [] and asked[fulltext.WORDS] == asked[fulltext.CACHED] == 0
    assert fulltext.choose({"some": {1}, "words": {1, 2}}, random.Random(1))[0] == "words"
