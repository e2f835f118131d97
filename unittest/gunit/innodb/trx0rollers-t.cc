/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** Unit tests of trx0rollers: how transactions are shared among threads. */

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <set>
#include <vector>

#include "storage/innobase/include/trx0rollers.h"

namespace innodb_trx0rollers_unittest {

using namespace rollback_threads;

using Shares = std::vector<std::vector<trx_id_t>>;

TEST(trx0rollers, nothing_to_share) { EXPECT_TRUE(share({}, 4).empty()); }

TEST(trx0rollers, one_thread_has_all_the_largest_first) {
  EXPECT_EQ((Shares{{12, 11, 10}}), share({{10, 1}, {11, 2}, {12, 3}}, 1));
}

TEST(trx0rollers, no_thread_has_none) {
  EXPECT_EQ((Shares{{7}, {5}}), share({{5, 100}, {7, 200}}, 64));
}

TEST(trx0rollers, a_large_one_has_a_thread_for_itself) {
  EXPECT_EQ((Shares{{1}, {4, 3, 2}}),
            share({{1, 1000}, {2, 10}, {3, 10}, {4, 10}}, 2));
}

TEST(trx0rollers, transactions_without_records_are_shared) {
  EXPECT_EQ((Shares{{4, 2}, {3, 1}}),
            share({{1, 0}, {2, 0}, {3, 0}, {4, 0}}, 2));
}

TEST(trx0rollers, each_is_shared_once_and_evenly) {
  std::mt19937 random{20261125};

  for (int round = 0; round < 1000; ++round) {
    const size_t n_works = random() % 50;
    const size_t n_threads = 1 + random() % MAX_THREADS;
    std::vector<Work> works;
    std::vector<uint64_t> n_records(n_works);
    uint64_t most = 0;

    for (size_t i = 0; i < n_works; ++i) {
      n_records[i] = random() % 1000;
      most = std::max(most, n_records[i]);
      works.push_back({i, n_records[i]});
    }

    const auto shares = share(works, n_threads);
    std::set<trx_id_t> seen;
    uint64_t least_load = UINT64_MAX;
    uint64_t most_load = 0;

    EXPECT_EQ(std::min(n_works, n_threads), shares.size());

    for (const auto &ids : shares) {
      uint64_t load = 0;

      EXPECT_FALSE(ids.empty());

      for (const auto id : ids) {
        EXPECT_TRUE(seen.insert(id).second);
        load += n_records[id] + 1;
      }

      least_load = std::min(least_load, load);
      most_load = std::max(most_load, load);
    }

    EXPECT_EQ(n_works, seen.size());

    if (n_works > 0) {
      EXPECT_LE(most_load - least_load, most + 1);
    }
  }
}

}  // namespace innodb_trx0rollers_unittest
