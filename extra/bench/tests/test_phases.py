# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
"""What `bench.phases` makes of the output of `perf script`."""

import io
import sys

import pytest

from bench import phases

SORT = """connection 12 1.0: 666666 cpu-clock:ppp:
\t  1 my_strnncollsp_simple+0x10 (/bin/mysqld)
\t  2 ddl::merge_sort<dfield_t*, ddl::Compare_key<std::vector<int> > >+0x2 (/bin/mysqld)
\t  3 ddl::Builder::key_buffer_sort+0x2 (/bin/mysqld)
\t  4 ddl::Builder::bulk_add_row+0x2 (/bin/mysqld)
\t  5 Parallel_reader::Ctx::traverse_recs+0x2 (/bin/mysqld)

"""
READING = """connection 12 1.0: 666666 cpu-clock:ppp:
\tff iowrite16+0x10 ([kernel.kallsyms])
\t  5 Parallel_reader::Ctx::traverse_recs+0x2 (/bin/mysqld)

"""
MERGE = """ib-load 13 1.0: 666666 cpu-clock:ppp:
\t  1 ddl::kway::Load_merge_cursor::next(int, char const*)+0x10 (/bin/mysqld)
\t  2 Btree_load::build+0x2 (/bin/mysqld)

"""
CLUSTERED = """connection 12 1.0: 666666 cpu-clock:ppp:
\t  1 Btree_load::build+0x2 (/bin/mysqld)
\t  2 ddl::Builder::insert_direct+0x2 (/bin/mysqld)
\t  3 ddl::Builder::bulk_add_row+0x2 (/bin/mysqld)

"""
# The merge of batches while rows are scanned, and that of runs, with the page that it fills.
BATCHES = """ib_par 12 1.0: 666666 cpu-clock:ppp:
\t  1 ddl::kway::Tournament<ddl::kway::Run_reader<A, B>, C>::next+0x10 (/bin/mysqld)
\t  2 ddl::kway::Build::write_gathered+0x2 (/bin/mysqld)
\t  3 ddl::kway::Build::add_record+0x2 (/bin/mysqld)
\t  4 Parallel_reader::Ctx::traverse_recs+0x2 (/bin/mysqld)

"""
LOADING = """ib_ddl 13 1.0: 666666 cpu-clock:ppp:
\t  1 ddl::kway::Tournament<ddl::kway::Run_reader<A, B>, C>::next+0x10 (/bin/mysqld)
\t  2 ddl::kway::Build::Load_merge_cursor::fetch+0x2 (/bin/mysqld)
\t  3 Btree_load::build+0x2 (/bin/mysqld)

ib_ddl 13 1.0: 666666 cpu-clock:ppp:
\t  1 page_validate+0x10 (/bin/mysqld)
\t  2 Btree_rows::append+0x2 (/bin/mysqld)
\t  3 ddl::kway::Build::Load_merge_cursor::fetch+0x2 (/bin/mysqld)
\t  4 Btree_load::build+0x2 (/bin/mysqld)

"""
OTHER = """ib_buf_dump 12 1.0: 666666 cpu-clock:ppp:
\t  1 buf_load+0x10 (/bin/mysqld)

"""


def test_innermost_phase_counts() -> None:
    """A sort in a scan is a sort, and what is in no build is left out."""
    found = phases.count((SORT * 3 + READING + OTHER + MERGE + CLUSTERED * 2).splitlines())
    assert {name: counter.total() for name, counter in found.items()} == {
        "scan: sort of batches": 3,
        "scan: reading": 1,
        "load: merge": 1,
        "scan: clustered index": 2,
    }


def test_merges_of_batches_and_of_runs_are_told_apart() -> None:
    found = phases.count((BATCHES * 2 + LOADING).splitlines())
    assert {name: counter.total() for name, counter in found.items()} == {
        "scan: merge and writing of runs": 2,
        "load: merge": 1,
        "load: pages": 1,
    }


def test_sample_at_the_end_counts() -> None:
    """The last sample need not be followed by an empty line."""
    assert phases.count(SORT.rstrip().splitlines())["scan: sort of batches"].total() == 1


def test_names_without_arguments() -> None:
    """Functions of a template are one."""
    assert phases.plain("ddl::merge_sort<dfield_t*, ddl::Compare_key<std::vector<int> > >+0x2") == "ddl::merge_sort"


def test_table() -> None:
    """The largest phase comes first, and shares are of all samples that count."""
    lines = phases.table(phases.count((READING + SORT * 3).splitlines()))
    assert lines[2:] == [
        "| scan: sort of batches | 75.0 | my_strnncollsp_simple 75.0 |",
        "| scan: reading | 25.0 | iowrite16 25.0 |",
    ]


def test_nothing_of_a_build_is_an_error(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A recording without call graphs, or of something else, gives no empty table."""
    monkeypatch.setattr(sys, "stdin", io.StringIO(OTHER))
    assert phases.main() == 1
    assert "no sample" in capsys.readouterr().err
