/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** Unit tests of trx0prefetch: when to look ahead, and
for how much. */

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "storage/innobase/include/trx0prefetch.h"

namespace innodb_trx0prefetch_unittest {

using namespace rollback_prefetch;

TEST(trx0prefetch, a_sixteenth_of_the_pool) {
  EXPECT_EQ(0U, pages_limit(31));
  EXPECT_EQ(10U, pages_limit(320));
  EXPECT_EQ(256U, pages_limit(8192));
  EXPECT_EQ(MAX_PAGES, pages_limit(1 << 24));
}

TEST(trx0prefetch, the_first_record_is_due) {
  const Pace pace;
  EXPECT_TRUE(pace.is_due(1000000));
  EXPECT_TRUE(pace.is_behind(1000000));
}

TEST(trx0prefetch, half_of_what_was_looked_at) {
  Pace pace;
  pace.looked(1000, 600, 100, 100);
  EXPECT_FALSE(pace.is_due(801));
  EXPECT_TRUE(pace.is_due(800));
  EXPECT_FALSE(pace.is_behind(601));
  EXPECT_TRUE(pace.is_behind(600));

  pace.looked(800, 200, 100, 100);
  EXPECT_FALSE(pace.is_due(501));
  EXPECT_TRUE(pace.is_due(500));
}

/** Looks of a rollback from some record to the first one, each over so many
records, of whose pages so many of a hundred are missing. */
static std::vector<undo_no_t> looks_of(undo_no_t n_records, undo_no_t n_in_look,
                                       size_t n_missing) {
  Pace pace;
  undo_no_t low = n_records;
  std::vector<undo_no_t> found;

  for (auto undo_no = n_records; undo_no-- > 0;) {
    if (!pace.is_due(undo_no)) {
      continue;
    }
    found.push_back(undo_no);
    if (pace.is_behind(undo_no)) {
      low = undo_no;
    }
    low -= std::min(low, n_in_look);
    pace.looked(undo_no, low, 100, n_missing);
  }
  return found;
}

TEST(trx0prefetch, what_is_outstanding_is_bounded) {
  undo_no_t low = 100000;
  Pace pace;

  for (undo_no_t undo_no = low; undo_no-- > 0;) {
    if (pace.is_due(undo_no)) {
      low -= std::min<undo_no_t>(low, 400);
      pace.looked(undo_no, low, 100, 100);
    }
    EXPECT_LE(undo_no - std::min(undo_no, low), 800U);
    EXPECT_TRUE(undo_no > low || low == 0);
  }
}

TEST(trx0prefetch, few_looks_if_all_is_cached) {
  const auto missing = looks_of(1000000, MAX_RECORDS, 100);
  const auto cached = looks_of(1000000, MAX_RECORDS, 6);

  EXPECT_GT(missing.size(), 100U);
  /* One for three times as many records. */
  EXPECT_LT(cached.size() * 2, missing.size());
  EXPECT_GT(cached.size(), 5U);
}

TEST(trx0prefetch, pauses_are_as_long_as_some_looks) {
  Pace pace;
  pace.looked(1000, 990, 100, 0);
  EXPECT_FALSE(pace.is_due(991));
  EXPECT_TRUE(pace.is_due(990));

  pace.looked(990, 980, 100, 0);
  EXPECT_FALSE(pace.is_due(961));
  EXPECT_TRUE(pace.is_due(960));

  pace.looked(960, 950, 100, 50);
  EXPECT_FALSE(pace.is_due(956));
  EXPECT_TRUE(pace.is_due(955));

  pace.looked(955, 945, 100, 0);
  EXPECT_FALSE(pace.is_due(946));
  EXPECT_TRUE(pace.is_due(945));
}

TEST(trx0prefetch, nothing_to_read_for_now) {
  Pace pace;
  pace.skip(100000);
  EXPECT_FALSE(pace.is_due(100000));
  EXPECT_TRUE(pace.is_due(100000 - MAX_RECORDS));
  pace.skip(5);
  EXPECT_TRUE(pace.is_due(0));
}

}  // namespace innodb_trx0prefetch_unittest
