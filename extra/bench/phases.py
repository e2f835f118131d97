# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""Where an index build spends its processor time, by phase and by function.

Reads what `perf script` says of a recording with call graphs, from standard input, and prints a
table: the phases of the build, and the functions that take most in each.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator

PHASES = (
    ("scan: clustered index", r"Builder::insert_direct\b"),
    ("scan: sort of batches", r"Builder::key_buffer_sort\b|Key_sort_buffer::sort\b"),
    ("scan: merge and writing of runs", r"Build::write_(gathered|rest)\b|Packed_rows::take_run\b|Key_sort_buffer::serialize\b"),
    ("passes", r"Build::sort\b|Merge_file_sort::"),
    ("load: merge", r"Tournament::|Merge_thread::|Load_merge_cursor::(next|open)\b"),
    ("load: pages", r"Btree_rows::append\b"),
    ("load: rows", r"Load_merge_cursor::(fetch|begin_row)\b"),
    ("load: pages", r"Btree_load::|kway::Build::load\b|Builder::btree_build\b"),
    ("scan: rows into sort buffers", r"Builder::add_row\b|Builder::bulk_add_row\b|Build::(add_record|before_row)\b"),
    ("scan: reading", r"Parallel_reader::|Parallel_cursor::"),
    ("flush", r"buf_flush|Flush_observer::|buf_page_cleaner"),
)
"""The first that one of the functions of a call chain fits."""
PATTERNS = tuple((name, re.compile(pattern)) for name, pattern in PHASES)
FRAME = re.compile(r"^\s+[0-9a-f]+\s+(?P<function>.+)\s+\(\S+\)$")


def chains(lines: Iterable[str]) -> Iterator[list[str]]:
    """The functions of each sample, the innermost first."""
    chain: list[str] = []
    for line in lines:
        if frame := FRAME.match(line):
            chain.append(plain(frame["function"]))
        elif not line.strip() and chain:
            yield chain
            chain = []
    if chain:
        yield chain


def plain(function: str) -> str:
    """A function without its template arguments and the place in it."""
    name = re.sub(r"\+0x[0-9a-f]+$", "", function)
    while (shorter := re.sub(r"<[^<>]*>", "", name)) != name:
        name = shorter
    return name


def phase_of(chain: list[str]) -> str | None:
    """The phase that a sample belongs to; None if it is not part of a build."""
    for name, pattern in PATTERNS:
        if any(pattern.search(function) for function in chain):
            return name
    return None


def count(lines: Iterable[str]) -> dict[str, Counter[str]]:
    """Samples by phase and innermost function."""
    found: dict[str, Counter[str]] = {}
    for chain in chains(lines):
        if phase := phase_of(chain):
            found.setdefault(phase, Counter())[chain[0]] += 1
    return found


def table(found: dict[str, Counter[str]], functions: int = 4) -> list[str]:
    """Lines of a Markdown table, of all samples that belong to a phase."""
    total = sum(counter.total() for counter in found.values())
    lines = ["| phase | % | of these, by function |", "|---|---:|---|"]
    for phase, counter in sorted(found.items(), key=lambda item: -item[1].total()):
        most = ", ".join(f"{name} {100 * n / total:.1f}" for name, n in counter.most_common(functions))
        lines.append(f"| {phase} | {100 * counter.total() / total:.1f} | {most} |")
    return lines


def main() -> int:
    """Prints the table."""
    found = count(sys.stdin)
    if not found:
        print("no sample of an index build in what perf script says; was it recorded with --call-graph?", file=sys.stderr)
        return 1
    print("\n".join(table(found)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
