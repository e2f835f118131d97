/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** Unit tests of ddl0pack: rows that are packed, batches that threads hand
over, and the memory that merges share. */

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <iostream>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "storage/innobase/include/ddl0kway.h"
#include "storage/innobase/include/ddl0pack.h"

namespace innodb_ddl0pack_unittest {

using namespace ddl::kway;

static std::string text_of(Packed_row row) {
  return {reinterpret_cast<const char *>(row), Packed_rows::row_bytes(row)};
}

static void add(Packed_rows &rows, uint64_t key, const std::string &text) {
  memcpy(rows.add(key, text.size()), text.data(), text.size());
}

TEST(ddl0pack, rows_of_all_sizes) {
  Packed_rows rows;
  std::vector<std::string> wanted;
  std::mt19937 random(1);

  for (size_t n : {1U, 2U, 253U, 254U, 255U, 256U, 1994U, 1995U, 1996U, 1999U,
                   2000U, 2001U, 65535U, 65536U, 200000U}) {
    wanted.emplace_back(n, static_cast<char>('a' + n % 26));
  }
  for (int i = 0; i < 3000; ++i) {
    wanted.emplace_back(1 + random() % 600, static_cast<char>(random()));
  }
  std::shuffle(wanted.begin(), wanted.end(), random);
  for (size_t i = 0; i < wanted.size(); ++i) {
    add(rows, i, wanted[i]);
  }

  ASSERT_EQ(wanted.size(), rows.rows().size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_EQ(i, rows.rows()[i].m_key);
    ASSERT_EQ(wanted[i], text_of(rows.rows()[i].m_row));
  }
}

TEST(ddl0pack, memory_is_what_is_announced) {
  Packed_rows rows;
  std::mt19937 random(2);
  size_t n_row_bytes = 0;

  EXPECT_EQ(0U, rows.n_bytes());
  for (int i = 0; i < 20000; ++i) {
    const size_t n = 1 + (i % 100 == 0 ? random() % 9000 : random() % 120);
    const auto before = rows.n_bytes();
    const auto growth = rows.growth_bytes(n);

    add(rows, 0, std::string(n, 'x'));
    n_row_bytes += n;
    ASSERT_LE(rows.n_bytes(), before + growth);
  }
  /* A row takes its length, 16 bytes for its key and its place, and little of
  what is allocated is not used. */
  EXPECT_LE(rows.n_bytes(), 1.15 * (n_row_bytes + 20000 * 18));

  rows.clear();
  EXPECT_EQ(0U, rows.n_bytes());
  EXPECT_TRUE(rows.rows().empty());
}

TEST(ddl0pack, what_is_handed_over_is_a_run) {
  Packed_rows rows;
  Packed_rows without_copy;
  const std::string large(1000, 'd');

  rows.begin(nullptr, nullptr, true);
  without_copy.begin(nullptr, nullptr, false);
  add(without_copy, 2, "b");
  EXPECT_EQ(rows.growth_bytes(1),
            without_copy.n_bytes() + Packed_rows::CHUNK_BYTES);

  add(rows, 2, "b");
  /* The copy is counted from the beginning. */
  EXPECT_EQ(without_copy.n_bytes() + Packed_rows::CHUNK_BYTES, rows.n_bytes());
  add(rows, 4, large);
  add(rows, 1, "a");
  std::sort(rows.rows().begin(), rows.rows().end(),
            [](const auto &a, const auto &b) { return a.m_key < b.m_key; });
  const auto run = rows.take_run();

  EXPECT_EQ(0U, rows.n_bytes());
  add(rows, 3, "c");
  EXPECT_EQ("ab" + large + std::string(1, '\0'),
            std::string(run.begin(), run.end()));
  /* Nothing that is not used, neither keys nor places. */
  EXPECT_EQ(run.size(), run.capacity());
  ASSERT_EQ(1U, rows.rows().size());
  EXPECT_EQ("c", text_of(rows.rows()[0].m_row));

  rows.clear();
  EXPECT_EQ(1U, rows.take_run().size());
}

/** @return a batch of n rows of 100 bytes */
static Memory_run batch_of(size_t n) {
  Packed_rows rows;
  for (size_t i = 0; i < n; ++i) {
    add(rows, i, std::string(100, 'x'));
  }
  return rows.take_run();
}

/** What a batch of 100 rows takes. */
static const size_t unit = batch_of(100).size() + sizeof(Memory_run);

TEST(ddl0pack, the_index_with_most_is_taken) {
  Gathered gathered(3, 4, 8 * unit);

  for (const size_t index : {0, 1, 1, 2, 0, 1, 2, 1}) {
    gathered.add(index, batch_of(100));
  }
  /* There is room for this much. */
  EXPECT_TRUE(gathered.take_largest().m_batches.empty());

  gathered.add(2, batch_of(100));
  const auto first = gathered.take_largest();
  EXPECT_EQ(1U, first.m_index);
  EXPECT_EQ(4U, first.m_batches.size());
  EXPECT_EQ(4 * unit, first.m_n_bytes);

  /* While it is being written it takes memory. */
  const auto second = gathered.take_largest();
  EXPECT_EQ(3U, second.m_batches.size());
  EXPECT_EQ(2U, second.m_index);
  gathered.written(first.m_n_bytes);
  EXPECT_TRUE(gathered.take_largest().m_batches.empty());
  gathered.written(second.m_n_bytes);

  /* At the end, each index has what is left of it. */
  EXPECT_TRUE(gathered.take(1).m_batches.empty());
  EXPECT_EQ(2U, gathered.take(0).m_batches.size());
}

/** Hand over batches of one index, for all of which there is room. */
static void add_with_room(Gathered &gathered, int n) {
  for (int i = 0; i < n; ++i) {
    gathered.add(0, batch_of(100));
    EXPECT_TRUE(gathered.take_largest().m_batches.empty());
  }
}

TEST(ddl0pack, one_index_has_room_while_it_is_written) {
  Gathered gathered(1, 4, 20 * unit);

  add_with_room(gathered, 10);
  gathered.add(0, batch_of(100));
  const auto half = gathered.take_largest();
  EXPECT_EQ(11U, half.m_batches.size());

  add_with_room(gathered, 9);

  /* One batch is no run while another run is written: wait for that. */
  Gathered small(1, 4, 20 * unit);
  small.add(0, batch_of(3000));
  const auto large = small.take_largest();
  EXPECT_EQ(1U, large.m_batches.size());
  small.add(0, batch_of(100));
  std::atomic<bool> is_written{};
  std::thread writer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    is_written = true;
    small.written(large.m_n_bytes);
  });
  EXPECT_TRUE(small.take_largest().m_batches.empty());
  EXPECT_TRUE(is_written);
  writer.join();
}

TEST(ddl0pack, one_thread_fills_all) {
  Gathered gathered(1, 1, 20 * unit);

  add_with_room(gathered, 20);
  gathered.add(0, batch_of(100));
  EXPECT_EQ(21U, gathered.take_largest().m_batches.size());
}

TEST(ddl0pack, a_load_waits_for_what_is_left) {
  Gathered gathered(2, 4, 1000000);
  std::atomic<bool> has_ended{};
  std::atomic<bool> is_written{};

  gathered.wait_for_all([] { return false; });
  gathered.add(0, batch_of(10));
  gathered.add(1, batch_of(10));
  std::thread writer([&] {
    for (const size_t index : {0, 1}) {
      const auto taken = gathered.take(index);
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      is_written = index == 1;
      gathered.written(taken.m_n_bytes);
    }
  });
  gathered.wait_for_all([] { return false; });
  EXPECT_TRUE(is_written);
  writer.join();

  /* Not if nobody will write it. */
  gathered.add(0, batch_of(10));
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    has_ended = true;
  });
  gathered.wait_for_all([&] { return has_ended.load(); });
  EXPECT_TRUE(has_ended);
  other.join();
}

TEST(ddl0pack, of_many_indexes_each_may_be_written) {
  Gathered gathered(20, 4, 40 * unit);
  size_t n_taken = 0;

  for (size_t i = 0; i < 41; ++i) {
    gathered.add(i % 20, batch_of(100));
  }
  /* Two threads take what the two largest have; neither waits for the other. */
  for (int i = 0; i < 2; ++i) {
    n_taken += gathered.take_largest().m_batches.size();
  }
  EXPECT_EQ(5U, n_taken);
}

TEST(ddl0pack, the_sort_that_finds_the_duplicate_to_report) {
  using Pair = std::pair<int, int>;
  std::vector<Pair> compared;
  std::vector<Pair> equal;
  const auto sort = [&](const std::vector<int> &keys) {
    Vector<size_t> rows(keys.size());
    Vector<size_t> spare(keys.size());
    std::iota(rows.begin(), rows.end(), 0);
    compared.clear();
    equal.clear();
    auto compare = [&](size_t a, size_t b) {
      compared.emplace_back(a, b);
      if (keys[a] == keys[b]) {
        equal.emplace_back(a, b);
      }
      return keys[a] - keys[b];
    };
    merge_sort(rows, spare, 0, rows.size(), compare);
    return std::vector<size_t>(rows.begin(), rows.end());
  };

  /* The order of MySQL's comparisons: halves, the smaller one first; of two
  rows the one before the other is the first argument. */
  EXPECT_EQ((std::vector<size_t>{0, 1, 2, 3, 4}), sort({1, 2, 3, 4, 5}));
  EXPECT_EQ((std::vector<Pair>{{0, 1}, {3, 4}, {2, 3}, {0, 2}, {1, 2}}),
            compared);
  EXPECT_EQ((std::vector<size_t>{4, 3, 2, 1, 0}), sort({5, 4, 3, 2, 1}));
  EXPECT_EQ((std::vector<Pair>{
                {0, 1}, {3, 4}, {2, 4}, {2, 3}, {1, 4}, {1, 3}, {1, 2}}),
            compared);
  /* Equal rows keep their order; MySQL reports the first row of the last pair.
   */
  EXPECT_EQ((std::vector<size_t>{1, 5, 0, 3, 2, 4}), sort({7, 3, 9, 7, 9, 3}));
  EXPECT_EQ((std::vector<Pair>{{1, 5}, {0, 3}, {2, 4}}), equal);

  std::mt19937 random(3);
  for (size_t n = 0; n < 300; ++n) {
    std::vector<int> keys(n);
    std::vector<size_t> wanted(n);
    for (auto &key : keys) {
      key = random() % (1 + n / 2);
    }
    std::iota(wanted.begin(), wanted.end(), 0);
    std::stable_sort(wanted.begin(), wanted.end(),
                     [&](size_t a, size_t b) { return keys[a] < keys[b]; });
    ASSERT_EQ(wanted, sort(keys));
  }
}

TEST(ddl0pack, no_row_is_lost_among_threads) {
  constexpr size_t THREADS = 4;
  constexpr size_t INDEXES = 5;
  constexpr size_t BATCHES = 400;
  const auto unit = batch_of(20).size() + sizeof(Memory_run);
  Gathered gathered(INDEXES, THREADS, 30 * unit);
  std::atomic<size_t> n_written{};
  std::atomic<size_t> n_runs{};
  std::vector<std::thread> threads;

  for (size_t id = 0; id < THREADS; ++id) {
    threads.emplace_back([&, id] {
      std::mt19937 random(id);
      for (size_t i = 0; i < BATCHES; ++i) {
        gathered.add(random() % INDEXES, batch_of(20));
        for (;;) {
          const auto taken = gathered.take_largest();
          if (taken.m_batches.empty()) {
            break;
          }
          n_written += taken.m_batches.size();
          ++n_runs;
          std::this_thread::sleep_for(std::chrono::microseconds(50));
          gathered.written(taken.m_n_bytes);
        }
      }
    });
  }
  for (auto &thread : threads) {
    thread.join();
  }
  for (size_t index = 0; index < INDEXES; ++index) {
    n_written += gathered.take(index).m_batches.size();
  }
  EXPECT_EQ(THREADS * BATCHES, n_written);
  EXPECT_GT(n_runs, 0U);
  /* A run has the batches of all threads: several at a time. */
  EXPECT_LT(n_runs, THREADS * BATCHES / 3);
  std::cout << n_runs << " runs of " << n_written << " batches\n";
}

TEST(ddl0pack, merges_share_memory) {
  Merge_memory memory;
  std::atomic<size_t> n_used{};
  std::atomic<size_t> n_most{};
  std::vector<std::thread> threads;

  for (size_t id = 0; id < 8; ++id) {
    threads.emplace_back([&, id] {
      for (int i = 0; i < 50; ++i) {
        /* One of them is more than there is. */
        const size_t n = id == 0 ? 150 : 10 * id;
        memory.take(n, 100);
        const auto used = n_used += n;
        auto most = n_most.load();
        while (used > most && !n_most.compare_exchange_weak(most, used)) {
        }
        EXPECT_TRUE(used <= 100 || used == 150);
        std::this_thread::yield();
        n_used -= n;
        memory.give_back(n);
      }
    });
  }
  for (auto &thread : threads) {
    thread.join();
  }
  EXPECT_EQ(0U, n_used);
  EXPECT_EQ(150U, n_most);
}

TEST(ddl0pack, memory_of_a_load) {
  constexpr size_t MEMORY = 1 << 20;
  size_t n_threads = 4;
  const auto shared = [&](size_t n_loads, size_t n_runs, bool is_direct) {
    Shape shape{};
    shape.m_n_all_runs = n_runs;
    shape.m_reader_bytes = 288;
    shape.m_is_direct = is_direct;
    share_load_memory(MEMORY, n_loads, n_threads, shape);
    return shape;
  };

  /* As many loads at a time as there could be: 327 runs of 800 bytes. */
  EXPECT_EQ(MEMORY / 4, shared(4, 1, false).m_load_memory_bytes);
  EXPECT_EQ(MEMORY / 4, shared(4, 327, false).m_load_memory_bytes);
  EXPECT_EQ(CACHED_READ_BYTES, shared(4, 327, false).m_least_bytes);
  /* Fewer, if then no pass is needed. */
  EXPECT_EQ(MEMORY / 3, shared(4, 328, false).m_load_memory_bytes);
  EXPECT_EQ(MEMORY / 2, shared(4, 655, false).m_load_memory_bytes);
  EXPECT_EQ(CACHED_READ_BYTES, shared(4, 655, false).m_least_bytes);
  /* Then smaller buffers: 963 runs of 544 bytes. */
  EXPECT_EQ(MEMORY / 2, shared(4, 656, false).m_load_memory_bytes);
  EXPECT_EQ(SMALL_READ_BYTES, shared(4, 656, false).m_least_bytes);
  EXPECT_EQ(MEMORY / 2, shared(4, 963, false).m_load_memory_bytes);
  /* If a pass is needed all the same, it is as if nothing had been tried. Not
  one load alone: the pass costs less. */
  EXPECT_EQ(MEMORY / 4, shared(4, 964, false).m_load_memory_bytes);
  EXPECT_EQ(CACHED_READ_BYTES, shared(4, 964, false).m_least_bytes);
  EXPECT_EQ(MEMORY, shared(1, 964, false).m_load_memory_bytes);
  /* Without the page cache there are no smaller buffers. */
  EXPECT_EQ(MEMORY / 2, shared(4, 119, true).m_load_memory_bytes);
  EXPECT_EQ(MEMORY / 4, shared(4, 120, true).m_load_memory_bytes);
  EXPECT_EQ(BLOCK_BYTES, shared(4, 120, true).m_least_bytes);

  /* Of many loads, half. */
  n_threads = 8;
  EXPECT_EQ(MEMORY / 4, shared(8, 300, false).m_load_memory_bytes);
  EXPECT_EQ(MEMORY / 8, shared(8, 655, false).m_load_memory_bytes);

  /* Two processors do one load at a time, if a thread merges for it. */
  for (n_threads = 1; n_threads <= 2; ++n_threads) {
    EXPECT_EQ(MEMORY / 4, shared(4, 327, false).m_load_memory_bytes);
    EXPECT_EQ(MEMORY / 2, shared(4, 655, false).m_load_memory_bytes);
    EXPECT_EQ(MEMORY, shared(4, 1310, false).m_load_memory_bytes);
    EXPECT_EQ(CACHED_READ_BYTES, shared(4, 1310, false).m_least_bytes);
    EXPECT_EQ(SMALL_READ_BYTES, shared(4, 1927, false).m_least_bytes);
    EXPECT_EQ(MEMORY / 4, shared(4, 1928, false).m_load_memory_bytes);
  }
}

TEST(ddl0pack, large_table) {
  EXPECT_FALSE(is_large(0, 1 << 20));
  EXPECT_FALSE(is_large(256 << 20, 1 << 20));
  EXPECT_TRUE(is_large((256 << 20) + 256, 1 << 20));
  EXPECT_TRUE(is_large(uint64_t{1} << 40, size_t{1} << 31));
  EXPECT_FALSE(is_large(uint64_t{1} << 39, size_t{1} << 31));
}

TEST(ddl0pack, a_plan_knows_all_runs) {
  /* 100 runs in all, most of them in one file, and memory for 120. */
  Shape shape{};
  shape.m_n_runs = 90;
  shape.m_n_files = 4;
  shape.m_file_bytes = 90 << 18;
  shape.m_reader_bytes = 1024 - CACHED_READ_BYTES;
  shape.m_sort_memory_bytes = 256 * 1024;
  shape.m_load_memory_bytes = 120 * 1024;
  shape.m_feeds_load = true;
  EXPECT_LT(0U, make_plan(shape).m_passes);

  shape.m_n_all_runs = 100;
  EXPECT_EQ(0U, make_plan(shape).m_passes);

  shape.m_n_all_runs = 121;
  EXPECT_LT(0U, make_plan(shape).m_passes);

  shape.m_n_all_runs = 100;
  shape.m_ways = 64;
  EXPECT_LT(0U, make_plan(shape).m_passes);
  shape.m_ways = 0;
  shape.m_feeds_load = false;
  EXPECT_EQ(1U, make_plan(shape).m_leave);
}

}  // namespace innodb_ddl0pack_unittest
