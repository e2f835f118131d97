/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** Unit tests of trx0ahead: which pages of an undo log are read ahead, and how
many at a time. */

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "storage/innobase/include/buf0run.h"
#include "storage/innobase/include/dict0dict.h"
#include "storage/innobase/include/fut0lst.h"
#include "storage/innobase/include/mach0data.h"
#include "storage/innobase/include/os0thread-create.h"
#include "storage/innobase/include/trx0ahead.h"
#include "storage/innobase/include/trx0undo.h"

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
static Cost walk(const std::vector<page_no_t> &chain, page_no_t max_pages) {
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
static std::vector<page_no_t> descend(page_no_t high, page_no_t low) {
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

  const auto check = [&](const std::vector<page_no_t> &links, page_no_t n_used,
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

TEST(trx0ahead, budget_is_a_part_of_the_smallest_buffer_pool) {
  EXPECT_EQ(0u, Budget::limit(0));
  EXPECT_EQ(60u, Budget::limit(320));
  EXPECT_EQ(1536u, Budget::limit(8192));

  Budget budget;
  Budget::Member member{budget};

  EXPECT_EQ(0u, member.take(64, 0).n_pages());
  EXPECT_EQ(20u, member.take(64, 320).n_pages());
  EXPECT_EQ(4u, member.take(4, 320).n_pages());
  EXPECT_EQ(512u, member.take(1024, 8192).n_pages());
  EXPECT_EQ(1024u, member.take(1024, 1 << 20).n_pages());
  EXPECT_EQ(0u, budget.n_pages());
}

TEST(trx0ahead, budget_is_given_back) {
  Budget budget;
  {
    Budget::Member member{budget};
    EXPECT_EQ(0u, budget.n_members());

    auto first = member.take(10, 320);
    auto second = member.take(20, 320);
    EXPECT_EQ(1u, budget.n_members());
    EXPECT_EQ(30u, budget.n_pages());

    auto moved = std::move(first);
    EXPECT_EQ(10u, moved.n_pages());
    EXPECT_EQ(30u, budget.n_pages());

    second = std::move(moved);
    EXPECT_EQ(10u, second.n_pages());
  }
  EXPECT_EQ(0u, budget.n_pages());
  EXPECT_EQ(0u, budget.n_members());
}

TEST(trx0ahead, budget_holds_for_a_thousand_walks) {
  for (const size_t pool_pages : {320, 8192, 65536}) {
    Budget budget;
    std::vector<std::unique_ptr<Budget::Member>> members;
    std::vector<Budget::Grant> grants;

    /* Those who come first take all they get, before the others come. */
    for (int i = 0; i < 1000; ++i) {
      members.push_back(std::make_unique<Budget::Member>(budget));
      for (size_t j = 0; j <= MAX_RUNS_AHEAD; ++j) {
        grants.push_back(members.back()->take(MAX_PAGES, pool_pages));
        EXPECT_LE(budget.n_pages(), Budget::limit(pool_pages));
      }
    }

    /* When they have given it back, all get the same. */
    grants.clear();
    const auto share =
        Budget::limit(pool_pages) / members.size() / (MAX_RUNS_AHEAD + 1);
    for (auto &member : members) {
      grants.push_back(member->take(MAX_PAGES, pool_pages));
      EXPECT_EQ(share, grants.back().n_pages());
    }
  }
}

TEST(trx0ahead, budget_follows_the_size_of_the_pool) {
  Budget budget;
  Budget::Member member{budget};
  auto grant = member.take(500, 8192);
  EXPECT_EQ(500u, grant.n_pages());

  /* More is out than a pool of that size allows. */
  EXPECT_EQ(0u, member.take(1, 320).n_pages());

  grant = {};
  EXPECT_EQ(1u, member.take(1, 320).n_pages());
}

/** A buffer pool that holds everything, and an undo log in it. */
class Fake_pool : public Pool {
 public:
  /** @param[in]  chain  pages of the undo log, from its end */
  explicit Fake_pool(const std::vector<page_no_t> &chain) {
    for (size_t i = 0; i < chain.size(); ++i) {
      m_links.emplace(chain[i], i + 1 < chain.size() ? chain[i + 1] : FIL_NULL);
    }
  }

  buf_run::Result read(space_id_t, const undo_read_ahead::Run &run,
                       const buf_run::On_page &on_page) override {
    std::unique_lock<std::mutex> lock{m_mutex};
    m_runs.push_back(run);
    m_changed.notify_all();
    m_changed.wait(lock, [this]() { return !m_is_held; });

    buf_run::Result result;
    result.n_reads = 1;
    result.success = !m_fails;
    result.n_left_out = m_fails ? 0 : std::min(m_n_left_out, run.size() - 1);

    for (auto page_no = run.high; page_no >= run.low + result.n_left_out;
         --page_no) {
      std::vector<byte> frame(UNIV_PAGE_SIZE_ORIG);
      const auto link = m_links.find(page_no);
      mach_write_to_2(frame.data() + FIL_PAGE_TYPE, FIL_PAGE_UNDO_LOG);
      mach_write_to_4(frame.data() + TRX_UNDO_PAGE_HDR + TRX_UNDO_PAGE_NODE +
                          FLST_PREV + FIL_ADDR_PAGE,
                      link == m_links.end() ? FIL_NULL : link->second);
      on_page(page_no, m_fails ? nullptr : frame.data());
      if (!m_fails) {
        m_cached.insert(page_no);
        ++result.n_pages;
      }
    }

    return result;
  }

  bool is_cached(const page_id_t &page_id) override {
    std::lock_guard<std::mutex> guard{m_mutex};
    return m_cached.count(page_id.page_no()) > 0;
  }

  size_t n_pages(const page_id_t &) override { return m_n_pages; }

  /** Let reads begin, but not end.
  @param[in]  is_held  false to let them end */
  void hold(bool is_held) {
    std::lock_guard<std::mutex> guard{m_mutex};
    m_is_held = is_held;
    m_changed.notify_all();
  }

  /** Wait for a read that begins.
  @param[in]  n_runs  number of reads, with it */
  void wait_for_run(size_t n_runs) {
    std::unique_lock<std::mutex> lock{m_mutex};
    m_changed.wait(lock, [&]() { return m_runs.size() >= n_runs; });
  }

  /** @return what was read so far */
  std::vector<undo_read_ahead::Run> runs() {
    std::lock_guard<std::mutex> guard{m_mutex};
    return m_runs;
  }

  /** Pages of the buffer pool. */
  std::atomic_size_t m_n_pages{8192};
  /** Pages of each run for which there is no room. */
  page_no_t m_n_left_out{0};
  /** True if reads fail. */
  bool m_fails{false};

 private:
  std::mutex m_mutex;
  std::condition_variable m_changed;
  std::map<page_no_t, page_no_t> m_links;
  std::set<page_no_t> m_cached;
  std::vector<undo_read_ahead::Run> m_runs;
  bool m_is_held{false};
};

/** Tests with a stream that reads from a fake buffer pool. */
class trx0ahead_stream : public ::testing::Test {
 protected:
  void SetUp() override {
    srv_max_n_threads = 100;
    g_pages = DEFAULT_PAGES;
  }

  void TearDown() override {
    EXPECT_EQ(0u, m_budget.n_pages());
    EXPECT_EQ(0u, m_budget.n_members());
    g_pages = DEFAULT_PAGES;
  }

  /** @param[in]  pool  buffer pool
  @return a stream */
  std::unique_ptr<Stream> make(Pool &pool) {
    return std::make_unique<Stream>(pool, m_budget, SPACE_ID, HDR_PAGE_NO,
                                    Planner(EXTENT, INTERVAL));
  }

  static constexpr space_id_t SPACE_ID = dict_sys_t::s_max_undo_space_id;
  static constexpr page_no_t HDR_PAGE_NO = 3;

  Budget m_budget;
};

TEST_F(trx0ahead_stream, reads_each_page_once_and_gives_all_back) {
  const auto chain = descend(EXTENT * 40 - 1, EXTENT);
  Fake_pool pool(chain);
  {
    const auto stream = make(pool);

    for (const auto page_no : chain) {
      stream->before_page(page_no);
      ASSERT_TRUE(pool.is_cached({SPACE_ID, page_no})) << page_no;
      ASSERT_LE(m_budget.n_pages(), Budget::limit(pool.m_n_pages));
    }
    EXPECT_EQ(stream->n_reads(), pool.runs().size());
  }

  std::set<page_no_t> seen;
  for (const auto &run : pool.runs()) {
    for (auto page_no = run.low; page_no <= run.high; ++page_no) {
      EXPECT_TRUE(seen.insert(page_no).second) << page_no;
    }
  }
  EXPECT_LE(pool.runs().size(), chain.size() / 64 + 10);
}

TEST_F(trx0ahead_stream, a_walk_that_strays_while_the_thread_reads) {
  auto chain = descend(EXTENT * 40 - 1, EXTENT * 20);
  Fake_pool pool(chain);
  const auto stream = make(pool);
  size_t i = 0;

  /* Until there is a thread, and it is in a read. */
  while (i <= PAGES_BEFORE_THREAD) {
    stream->before_page(chain[i++]);
  }
  pool.hold(true);
  while (chain[i] > pool.runs().back().high) {
    stream->before_page(chain[i++]);
  }
  const auto n_held = pool.runs().size() + 1;
  std::thread release([&]() {
    pool.wait_for_run(n_held);
    pool.hold(false);
  });

  /* Another way: the run that is on its way is forgotten. */
  stream->before_page(EXTENT * 10 + 5);
  release.join();
  EXPECT_TRUE(pool.is_cached({SPACE_ID, EXTENT * 10 + 5}));

  /* And back again. */
  while (i < chain.size()) {
    stream->before_page(chain[i++]);
    ASSERT_TRUE(pool.is_cached({SPACE_ID, chain[i - 1]}));
  }
}

TEST_F(trx0ahead_stream, links_in_a_circle) {
  auto chain = descend(EXTENT * 2 - 1, EXTENT);
  chain.push_back(EXTENT * 2 - 1);
  Fake_pool pool(chain);
  const auto stream = make(pool);

  for (int round = 0; round < 10; ++round) {
    for (const auto page_no : chain) {
      stream->before_page(page_no);
    }
  }
  EXPECT_LE(pool.runs().size(), chain.size());
}

TEST_F(trx0ahead_stream, a_failed_read_is_the_last_one) {
  const auto chain = descend(EXTENT * 40 - 1, EXTENT * 20);
  Fake_pool pool(chain);
  pool.m_fails = true;
  const auto stream = make(pool);

  for (const auto page_no : chain) {
    stream->before_page(page_no);
  }
  EXPECT_EQ(1u, pool.runs().size());
}

TEST_F(trx0ahead_stream, pages_that_were_left_out_are_read_later) {
  const auto chain = descend(EXTENT * 40 - 1, EXTENT * 20);
  Fake_pool pool(chain);
  pool.m_n_left_out = 1;
  const auto stream = make(pool);

  for (const auto page_no : chain) {
    stream->before_page(page_no);
    ASSERT_TRUE(pool.is_cached({SPACE_ID, page_no})) << page_no;
  }

  /* Larger runs are no use where there is no room. */
  for (const auto &run : pool.runs()) {
    EXPECT_LE(run.size(), FIRST_PAGES * 2);
  }
}

TEST_F(trx0ahead_stream, no_pool_no_read_ahead) {
  const auto chain = descend(EXTENT * 4 - 1, EXTENT);
  Fake_pool pool(chain);
  pool.m_n_pages = 0;
  const auto stream = make(pool);

  for (const auto page_no : chain) {
    stream->before_page(page_no);
  }
  EXPECT_EQ(0u, pool.runs().size());
  EXPECT_EQ(chain.size(), stream->n_reads());
}

TEST_F(trx0ahead_stream, variable_to_zero_and_back) {
  const auto chain = descend(EXTENT * 40 - 1, EXTENT);
  Fake_pool pool(chain);
  Scope scope{pool, m_budget};
  size_t i = 0;

  const auto walk_pages = [&](size_t n) {
    while (n-- > 0) {
      scope.before_page({SPACE_ID, chain[i++]}, HDR_PAGE_NO);
    }
  };

  walk_pages(200);
  EXPECT_EQ(1u, m_budget.n_members());
  EXPECT_LT(0u, m_budget.n_pages());

  /* Neither a thread nor pages are kept. */
  g_pages = 0;
  walk_pages(1);
  EXPECT_EQ(0u, m_budget.n_members());
  EXPECT_EQ(0u, m_budget.n_pages());
  const auto n_runs = pool.runs().size();
  walk_pages(500);
  EXPECT_EQ(n_runs, pool.runs().size());

  g_pages = 64;
  walk_pages(500);
  EXPECT_LT(n_runs, pool.runs().size());
  EXPECT_EQ(1u, m_budget.n_members());
  EXPECT_LE(pool.runs().size(), scope.n_reads());

  g_pages = 0;
  walk_pages(1);
}

TEST_F(trx0ahead_stream, forty_walks_at_once_share_the_smallest_pool) {
  constexpr size_t N_WALKS = 40;
  const auto chain = descend(EXTENT * 4 - 1, EXTENT);
  std::vector<std::unique_ptr<Fake_pool>> pools;
  std::vector<std::thread> threads;
  std::atomic_size_t n_most{0};

  g_pages = MAX_PAGES;

  for (size_t i = 0; i < N_WALKS; ++i) {
    pools.push_back(std::make_unique<Fake_pool>(chain));
    pools.back()->m_n_pages = 320;
    /* The vector grows while others run. */
    threads.emplace_back([&, pool = pools.back().get()]() {
      const auto stream = make(*pool);
      for (const auto page_no : chain) {
        stream->before_page(page_no);
        const auto n_pages = m_budget.n_pages();
        for (auto n = n_most.load();
             n < n_pages && !n_most.compare_exchange_weak(n, n_pages);) {
        }
      }
    });
  }
  for (auto &thread : threads) {
    thread.join();
  }
  EXPECT_LE(n_most, Budget::limit(320));
}

}  // namespace innodb_trx0ahead_unittest
