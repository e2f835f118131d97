# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Whether a full-text index finds the rows that have a word, and no others.

The first use of a table after a crash makes InnoDB read the rows whose words were in its cache only: those behind the number of
the last document in the files of the index. If that use is a search, MySQL begins one row too late, and an entry is lost; so it
is an insert here, which changes nothing. See docs/reliability.md.
"""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from typing import Any

# Words of a table that are looked up: of most rows, of any, and of a step that no row has any more.
FREQUENT, ANY, GONE = 3, 10, 3
SHOWN = 5
# The word of a step; see load.py.
_STEP = re.compile(r"n(\d{6})")
# What is counted: indexes and words that were looked up; rows whose words were in the files and in the cache.
INDEXES, WORDS, STORED, CACHED = "indexes", "words", "stored", "cached"


def choose(held: dict[str, set[int]], r: random.Random) -> list[str]:
    """Words to look up, of those that rows have, and of steps between these."""
    words = sorted(held)
    chosen = sorted(words, key=lambda word: (-len(held[word]), word))[:FREQUENT]
    chosen += r.sample(words, min(ANY, len(words)))
    steps = [int(found[1]) for word in words if (found := _STEP.fullmatch(word))]
    gone = [f"n{step:06}" for step in range(min(steps, default=0), max(steps, default=0)) if f"n{step:06}" not in held]
    chosen += r.sample(gone, min(GONE, len(gone)))
    return list(dict.fromkeys(chosen))


def check(cursor: Any, schema: str, table: str, index: str, column: str, asked: Counter[str]) -> list[str]:
    """What is wrong with an index; `asked` counts."""
    name = f"{schema}.{table}"
    cursor.execute(
        "SELECT GROUP_CONCAT(column_name) FROM information_schema.columns WHERE generation_expression = ''"
        f" AND table_schema = '{schema}' AND table_name = '{table}'"
    )
    columns = cursor.fetchone()[0]
    # A row that is there already.
    cursor.execute(f"INSERT IGNORE INTO {name} ({columns}) SELECT {columns} FROM {name} LIMIT 1")
    cursor.execute(f"SELECT id, {column} FROM {name} FORCE INDEX (PRIMARY)")
    rows = cursor.fetchall()
    held: dict[str, set[int]] = defaultdict(set)
    for row, text in rows:
        for word in text.split():
            held[word].add(row)
    wrong = []
    words = choose(held, random.Random(len(rows)))
    for word in words:
        cursor.execute(f"SELECT id FROM {name} WHERE MATCH ({column}) AGAINST ('{word}')")
        found = [row for (row,) in cursor.fetchall()]
        expected = held.get(word, set())
        if sorted(found) != sorted(expected):
            lacking, more = sorted(expected - set(found)), sorted(set(found) - expected)
            wrong.append(f"{name}: full-text index {index} finds {len(found)} rows with {word}, {len(expected)} have it;"
                         f" lacking: {lacking[:SHOWN]}, too many: {more[:SHOWN]}")  # fmt: skip
    asked[INDEXES] += 1
    asked[WORDS] += len(words)
    cursor.execute(f"SET GLOBAL innodb_ft_aux_table = '{schema}/{table}'")
    cursor.execute("SELECT COUNT(DISTINCT doc_id) FROM information_schema.innodb_ft_index_cache")
    cached = min(cursor.fetchone()[0], len(rows))
    asked[CACHED] += cached
    asked[STORED] += len(rows) - cached
    return wrong
