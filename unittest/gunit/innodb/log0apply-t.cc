/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** Unit tests of log0apply: how memory is shared between redo records and
pages, and where a run of pages ends. */

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "storage/innobase/include/log0apply.h"

namespace innodb_log0apply_unittest {

using redo_recovery::Room;
using redo_recovery::Run_limits;

constexpr size_t PAGE = 16 * 1024;
/** Memory for 1000 pages. */
constexpr size_t MEMORY = 1000 * PAGE;

/** Let records come, each of which has a page of its own or the page of one
before, until they are to be applied.
@param[in]  n_kept         pages from batches before
@param[in]  n_record       bytes of a record
@param[in]  n_for_a_page   records of one page
@param[in]  n_most_pages   pages that there are
@return bytes of records, and new pages */
static std::pair<size_t, size_t> fill(size_t n_kept, size_t n_record,
                                      size_t n_for_a_page,
                                      size_t n_most_pages) {
  const Room room{MEMORY, PAGE};
  size_t n_bytes = 0;
  size_t n_records = 0;
  size_t n_pages = 0;

  while (n_bytes <= room.limit(n_kept, n_pages)) {
    n_pages = std::min(n_most_pages, ++n_records / n_for_a_page);
    n_bytes += n_record;
  }

  return {n_bytes, n_pages};
}

TEST(log0apply, NoPagesLeaveAllToRecords) {
  EXPECT_EQ((Room{MEMORY, PAGE}.limit(0, 0)), MEMORY);
}

TEST(log0apply, RecordsAndPagesFitTogether) {
  const auto [n_bytes, n_pages] = fill(0, 1000, 5, 300);

  EXPECT_EQ(n_pages, 300);
  EXPECT_LE(n_bytes, MEMORY - 300 * PAGE + 1000);
  EXPECT_GT(n_bytes, MEMORY - 301 * PAGE);
}

TEST(log0apply, PagesFromBeforeCount) {
  const auto [n_bytes, n_pages] = fill(400, 1000, 5, 100);

  EXPECT_EQ(n_pages, 100);
  EXPECT_GT(n_bytes, MEMORY - 501 * PAGE);
  EXPECT_LE(n_bytes, MEMORY - 500 * PAGE + 1000);
}

/* If each record needs another page, few records would fill the memory with
pages; then it is better to collect more of them for each. */
TEST(log0apply, RecordsThatNeedTooManyPagesGetAll) {
  const auto [n_bytes, n_pages] = fill(0, 100, 1, 1000000);

  EXPECT_GT(n_bytes, MEMORY);
  EXPECT_GT(n_pages, 1000);
}

TEST(log0apply, KeptPagesAreNotForgottenThen) {
  const auto [n_bytes, n_pages] = fill(500, 100, 1, 1000000);

  EXPECT_GT(n_bytes, MEMORY / 2);
  EXPECT_LE(n_bytes, MEMORY / 2 + 100);
  EXPECT_GT(n_pages, 500);
}

TEST(log0apply, LimitNeverExceedsMemoryNorWraps) {
  const Room room{MEMORY, PAGE};

  for (size_t n_kept : {0, 1, 499, 500, 999, 1000, 1001, 5000}) {
    for (size_t n_new : {0, 1, 250, 750, 1000, 1001, 1000000}) {
      EXPECT_LE(room.limit(n_kept, n_new), MEMORY) << n_kept << " " << n_new;
    }
  }
}

TEST(log0apply, HalfOfTheMemoryIsKeptAtMost) {
  const Room room{MEMORY, PAGE};

  EXPECT_TRUE(room.can_keep(0));
  EXPECT_TRUE(room.can_keep(500));
  EXPECT_FALSE(room.can_keep(501));
}

TEST(log0apply, NeighboursMakeARun) {
  Run_limits limits{PAGE};
  limits.begin(10, 1);

  for (page_no_t page_no = 11; page_no < 10 + 64; ++page_no) {
    EXPECT_TRUE(limits.add(page_no, 1)) << page_no;
  }
  EXPECT_FALSE(limits.add(10 + 64, 1));
}

TEST(log0apply, SmallGapsAreReadOver) {
  Run_limits limits{PAGE};
  limits.begin(10, 1);

  EXPECT_TRUE(limits.add(13, 1));
  EXPECT_FALSE(limits.add(17, 1));
  EXPECT_TRUE(limits.add(14, 1));
  EXPECT_TRUE(limits.add(17, 1));
}

TEST(log0apply, GapsAreBytes) {
  Run_limits small{4096};
  small.begin(0, 1);
  EXPECT_TRUE(small.add(9, 1));
  EXPECT_FALSE(small.add(19, 1));

  Run_limits large{64 * 1024};
  large.begin(0, 1);
  EXPECT_FALSE(large.add(2, 1));
  EXPECT_TRUE(large.add(1, 1));
}

TEST(log0apply, ManyRecordsEndARun) {
  Run_limits limits{PAGE};
  limits.begin(10, 1000 * 1000);
  EXPECT_FALSE(limits.add(11, 1));

  limits.begin(11, 1);
  EXPECT_TRUE(limits.add(12, 200 * 1024));
  EXPECT_FALSE(limits.add(13, 200 * 1024));
  EXPECT_TRUE(limits.add(13, 1024));
}

TEST(log0apply, ARunEndsAtTheLastPageNumber) {
  Run_limits limits{PAGE};
  limits.begin(FIL_NULL - 2, 1);
  EXPECT_TRUE(limits.add(FIL_NULL - 1, 1));
}

}  // namespace innodb_log0apply_unittest
