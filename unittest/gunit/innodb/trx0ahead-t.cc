/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** Unit tests of trx0ahead: which pages of an undo log are read ahead. */

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "storage/innobase/include/buf0run.h"
#include "storage/innobase/include/trx0ahead.h"

namespace innodb_trx0ahead_unittest {

using namespace undo_read_ahead;

constexpr page_no_t EXTENT = 64;
constexpr page_no_t INTERVAL = 16384;

/** What reading a whole undo log has cost. */
struct Cost {
  size_t n_reads{0};
  size_t n_pages{0};
  size_t n_largest{0};
};

/** Read an undo log as a stream does.
@param[in]  chain      its pages, from its end
@param[in]  max_pages  most pages of a read
@return what it cost; all pages of the chain are read, or a test fails */
Cost walk(const std::vector<page_no_t> &chain, page_no_t max_pages) {
  Planner planner(EXTENT, INTERVAL);
  Cost cost;

  for (size_t i = 0; i < chain.size();) {
    const auto run = planner.plan(chain[i], max_pages);

    EXPECT_EQ(chain[i], run.high);
    EXPECT_LE(run.low, run.high);
    EXPECT_LE(run.size(), max_pages);
    for (auto page_no = run.low; page_no <= run.high; ++page_no) {
      EXPECT_TRUE(planner.is_possible(page_no)) << page_no;
    }

    std::vector<page_no_t> links(run.size(), FIL_NULL);
    for (size_t j = 0; j < chain.size(); ++j) {
      if (run.contains(chain[j])) {
        links[chain[j] - run.low] =
            j + 1 < chain.size() ? chain[j + 1] : FIL_NULL;
      }
    }

    const auto followed = follow(run, links);
    planner.learn(run, followed);

    i += followed.n_used;
    EXPECT_EQ(i < chain.size() ? chain[i] : FIL_NULL, followed.next);

    ++cost.n_reads;
    cost.n_pages += run.size();
    cost.n_largest = std::max<size_t>(cost.n_largest, run.size());
  }

  return cost;
}

/** @return page numbers from high down to low, without those that hold no
undo */
std::vector<page_no_t> descend(page_no_t high, page_no_t low) {
  std::vector<page_no_t> chain;
  for (auto page_no = high; page_no >= low; --page_no) {
    if (page_no % INTERVAL > 1) {
      chain.push_back(page_no);
    }
  }
  return chain;
}

TEST(trx0ahead, contiguous_log_takes_large_reads) {
  const auto chain = descend(EXTENT * 200 - 1, EXTENT);
  const auto cost = walk(chain, 64);

  EXPECT_EQ(chain.size(), cost.n_pages);
  EXPECT_EQ(64u, cost.n_largest);
  EXPECT_LE(cost.n_reads, chain.size() / 64 + 8);
}

TEST(trx0ahead, larger_limit_goes_over_extents) {
  const auto chain = descend(EXTENT * 200 - 1, EXTENT);
  const auto cost = walk(chain, 1024);

  /* The last run may go beyond the start of the log. */
  EXPECT_LE(cost.n_pages, chain.size() + EXTENT);
  EXPECT_EQ(1024u, cost.n_largest);
  EXPECT_LE(cost.n_reads, 24u);
}

TEST(trx0ahead, descriptor_pages_are_left_out) {
  const auto chain = descend(INTERVAL * 2 + 1000, INTERVAL - 1000);
  const auto cost = walk(chain, 64);

  /* The last run may go beyond the start of the log. */
  EXPECT_LE(cost.n_pages, chain.size() + EXTENT);
  EXPECT_EQ(64u, cost.n_largest);
}

TEST(trx0ahead, interleaved_extents_are_read_whole_and_alone) {
  std::vector<page_no_t> chain;
  for (page_no_t extent = 200; extent > 0; extent -= 2) {
    for (auto page_no :
         descend(extent * EXTENT + EXTENT - 1, extent * EXTENT)) {
      chain.push_back(page_no);
    }
  }
  const auto cost = walk(chain, 1024);

  EXPECT_LE(cost.n_pages, chain.size() + EXTENT);
  EXPECT_LE(cost.n_reads, 100u + 10);
}

TEST(trx0ahead, scattered_pages_are_hardly_read_in_vain) {
  std::mt19937 random(116195);
  std::set<page_no_t> pages;
  while (pages.size() < 500) {
    const page_no_t page_no = random() % 1000000;
    if (page_no % INTERVAL > 1) {
      pages.insert(page_no);
    }
  }
  std::vector<page_no_t> chain(pages.begin(), pages.end());
  std::shuffle(chain.begin(), chain.end(), random);
  const auto cost = walk(chain, 64);

  EXPECT_EQ(chain.size(), cost.n_reads);
  EXPECT_LE(cost.n_pages, chain.size() + 2 * FIRST_PAGES);
}

TEST(trx0ahead, recovers_after_a_fragmented_stretch) {
  auto chain = descend(EXTENT * 300 - 1, EXTENT * 200);
  for (page_no_t page_no = 99 * EXTENT; page_no > 90 * EXTENT; page_no -= 3) {
    chain.push_back(page_no);
  }
  for (auto page_no : descend(EXTENT * 80 - 1, EXTENT)) {
    chain.push_back(page_no);
  }
  const auto n_fragments = 9 * EXTENT / 3;
  const auto cost = walk(chain, 64);

  EXPECT_EQ(64u, cost.n_largest);
  EXPECT_LE(cost.n_reads, n_fragments + 179 + 20);
  EXPECT_LE(cost.n_pages, chain.size() + 128);
}

TEST(trx0ahead, limit_of_one_page) {
  const auto chain = descend(500, 200);
  const auto cost = walk(chain, 1);

  EXPECT_EQ(chain.size(), cost.n_reads);
  EXPECT_EQ(chain.size(), cost.n_pages);
}

TEST(trx0ahead, plan_stays_in_the_extent_until_it_was_crossed) {
  Planner planner(EXTENT, INTERVAL);

  for (int i = 0; i < 10; ++i) {
    planner.learn({1000, 1063}, {64, 999});
  }
  EXPECT_EQ(192u, planner.plan(200, 1024).low);

  planner.learn({192, 200}, {9, 191});
  EXPECT_GT(128u, planner.plan(191, 1024).low);

  planner.learn({64, 191}, {100, 5000});
  EXPECT_EQ(4992u, planner.plan(5000, 1024).low);
}

TEST(trx0ahead, plan_at_the_start_of_the_file) {
  const Planner planner(EXTENT, INTERVAL);

  EXPECT_EQ(2u, planner.plan(2, 64).low);
  EXPECT_EQ(2u, planner.plan(3, 64).low);
  EXPECT_EQ(2u, planner.plan(4, 64).low);
  EXPECT_EQ(1u, planner.plan(3, 64).size() - 1);
  EXPECT_FALSE(planner.is_possible(0));
  EXPECT_FALSE(planner.is_possible(1));
  EXPECT_FALSE(planner.is_possible(INTERVAL + 1));
  EXPECT_TRUE(planner.is_possible(INTERVAL + 2));
}

TEST(trx0ahead, misses_make_runs_small) {
  Planner planner(EXTENT, INTERVAL);
  planner.learn({1024, 1055}, {32, 1023});
  EXPECT_EQ(64u, planner.plan(1087, 64).size());

  for (int i = 0; i < 10; ++i) {
    planner.on_miss();
  }
  EXPECT_EQ(1u, planner.plan(1087, 64).size());
}

TEST(trx0ahead, follow_links) {
  const undo_read_ahead::Run run{10, 13};

  const auto check = [&](std::vector<page_no_t> links, page_no_t n_used,
                         page_no_t next) {
    const auto followed = follow(run, links);
    EXPECT_EQ(n_used, followed.n_used);
    EXPECT_EQ(next, followed.next);
  };

  check({9, 10, 11, 12}, 4, 9);
  check({FIL_NULL, 10, 11, 12}, 4, FIL_NULL);
  check({9, 10, 11, 500}, 1, 500);
  check({77, FIL_NULL, FIL_NULL, 10}, 2, 77);
  check({9, 10, 11, FIL_NULL}, 1, FIL_NULL);
  check({LINK_UNKNOWN, LINK_UNKNOWN, LINK_UNKNOWN, LINK_UNKNOWN}, 4, 9);
}

TEST(trx0ahead, follow_ends_in_a_circle) {
  EXPECT_EQ(FIL_NULL, follow({10, 13}, {13, 10, 11, 12}).next);
  EXPECT_EQ(FIL_NULL, follow({10, 13}, {13, 13, 13, 13}).next);
  EXPECT_EQ(FIL_NULL, follow({0, 0}, {LINK_UNKNOWN}).next);
}

TEST(trx0ahead, share_of_the_buffer_pool) {
  EXPECT_EQ(1u, buf_run::max_pages(0));
  EXPECT_EQ(1u, buf_run::max_pages(15));
  EXPECT_EQ(20u, buf_run::max_pages(320));
  EXPECT_EQ(512u, buf_run::max_pages(8192));
  EXPECT_EQ(1024u, buf_run::max_pages(1 << 20));
}

}  // namespace innodb_trx0ahead_unittest
