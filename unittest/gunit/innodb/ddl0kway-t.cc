/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** Unit tests of ddl0kway: the plan, the reader of a run, the tournament tree,
the writer, and that no byte is read twice. */

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iostream>
#include <map>
#include <memory>
#include <numeric>
#include <queue>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "storage/innobase/include/ddl0extent.h"
#include "storage/innobase/include/ddl0kway.h"

namespace innodb_ddl0kway_unittest {

using namespace ddl::kway;

using Sorted_run = ddl::kway::Run;

/** Files in memory that remember what was read. */
class Memory_files {
 public:
  dberr_t read(size_t file, byte *to, size_t n, uint64_t offset, uint64_t) {
    if (m_reads_until_error == 0) {
      return DB_IO_ERROR;
    }
    --m_reads_until_error;
    if (m_is_direct) {
      EXPECT_EQ(0U, offset % CACHED_READ_BYTES);
      EXPECT_EQ(0U, n % CACHED_READ_BYTES);
      EXPECT_EQ(0U, reinterpret_cast<uintptr_t>(to) % CACHED_READ_BYTES);
    }
    auto &bytes = m_files.at(file);
    EXPECT_LE(offset + n, bytes.size());
    memcpy(to, bytes.data() + offset, n);
    EXPECT_TRUE(m_reads.add(file, offset, n)) << "read twice: " << offset;
    ++m_n_reads;
    return DB_SUCCESS;
  }

  [[nodiscard]] bool is_direct() const { return m_is_direct; }

  dberr_t write(size_t file, byte *from, size_t n, uint64_t offset) {
    if (m_writes_until_error == 0) {
      return DB_OUT_OF_FILE_SPACE;
    }
    --m_writes_until_error;
    EXPECT_EQ(0U, n % BLOCK_BYTES);
    auto &bytes = m_files[file];
    EXPECT_EQ(bytes.size(), offset);
    bytes.insert(bytes.end(), from, from + n);
    return DB_SUCCESS;
  }

  std::map<size_t, std::vector<byte>> m_files;
  Range_recorder m_reads;
  size_t m_n_reads{};
  bool m_is_direct{};
  size_t m_reads_until_error{SIZE_MAX};
  size_t m_writes_until_error{SIZE_MAX};
};

/** A row: its size plus one in two bytes, never beginning with 0; bytes. */
struct Framing {
  size_t need(const byte *ptr, size_t n) {
    if (n == 0) return 1;
    if (ptr[0] == 0) return 0;
    if (n < 3) return 3;
    return 3 + (size_t{ptr[1]} << 8 | ptr[2]);
  }
};

using Reader = Run_reader<Memory_files, Framing>;

static std::vector<byte> row_of(const std::string &text) {
  std::vector<byte> row{1, static_cast<byte>(text.size() >> 8),
                        static_cast<byte>(text.size())};
  row.insert(row.end(), text.begin(), text.end());
  return row;
}

static std::string text_of(const Reader &reader) {
  return {reinterpret_cast<const char *>(reader.row()) + 3,
          reader.row_bytes() - 3};
}

struct Compare {
  int operator()(const Reader &a, const Reader &b) {
    ++m_n;
    const auto cmp = text_of(a).compare(text_of(b));
    m_found = m_found || cmp == 0;
    EXPECT_EQ(key(a), key(b));
    return cmp;
  }
  /** The first bytes of the text, as many as keys are to have. */
  [[nodiscard]] uint64_t key(const Reader &reader) const {
    const auto text = text_of(reader);
    uint64_t key = 0;
    for (size_t i = 0; i < m_key_bytes; ++i) {
      key = key << 8 | (i < text.size() ? static_cast<byte>(text[i]) : 0);
    }
    return key;
  }
  bool m_found{};
  size_t m_n{};
  size_t m_key_bytes{};
};

class Kway : public ::testing::Test {
 protected:
  /** Write rows as a run of file 0. */
  Sorted_run write(std::vector<std::string> rows, size_t buffer_bytes = 8192,
                   size_t file = 0) {
    std::sort(rows.begin(), rows.end());
    return write_as_is(rows, buffer_bytes, file);
  }

  Sorted_run write_as_is(const std::vector<std::string> &rows,
                         size_t buffer_bytes, size_t file) {
    std::vector<byte> buffer(buffer_bytes);
    Run_writer<Memory_files> writer(&m_files, file,
                                    m_files.m_files[file].size(), buffer.data(),
                                    buffer_bytes);
    for (const auto &text : rows) {
      const auto row = row_of(text);
      EXPECT_EQ(DB_SUCCESS, writer.add(row.data(), row.size()));
    }
    EXPECT_EQ(DB_SUCCESS, writer.finish());
    return writer.run();
  }

  /** Merge runs. */
  dberr_t merge(const std::vector<Sorted_run> &runs,
                std::vector<std::string> &rows, size_t buffer_bytes = 4096) {
    Framing framing;
    const auto buffer = ut::make_unique_aligned<byte[]>(
        BLOCK_BYTES, buffer_bytes * runs.size() + 1);
    Vector<Reader> readers;
    Tournament<Reader, Compare> tree(m_compare, readers);
    for (size_t i = 0; i < runs.size(); ++i) {
      readers.emplace_back(&m_files, &framing, runs[i],
                           buffer.get() + i * buffer_bytes, buffer_bytes,
                           m_row_bytes);
    }
    auto err = tree.open();
    while (err == DB_SUCCESS) {
      rows.push_back(text_of(tree.top()));
      err = tree.next();
    }
    m_across_bytes.clear();
    for (const auto &reader : readers) {
      m_across_bytes.push_back(reader.across_bytes());
    }
    return err;
  }

  Memory_files m_files;
  Compare m_compare;
  /** Size of the largest row, as far as the reader is told. */
  size_t m_row_bytes{};
  /** Memory that each reader took for rows across two buffers. */
  std::vector<size_t> m_across_bytes;
};

TEST_F(Kway, merge_equals_sort_and_reads_each_byte_once) {
  std::mt19937 random(1);
  for (size_t k = 1; k <= 40; ++k) {
    m_files = {};
    m_compare.m_key_bytes = k % 9;
    std::vector<Sorted_run> runs;
    std::vector<std::string> all;
    uint64_t n_bytes = 0;
    for (size_t i = 0; i < k; ++i) {
      /* Unequal runs, some of them empty. */
      const auto n = random() % 3 == 0 ? 0 : random() % 200;
      std::vector<std::string> rows;
      for (size_t j = 0; j < n; ++j) {
        rows.push_back(std::to_string(random()) +
                       std::string(random() % 100, 'x'));
      }
      all.insert(all.end(), rows.begin(), rows.end());
      runs.push_back(write(rows));
      n_bytes += runs.back().m_end - runs.back().m_begin;
    }
    std::sort(all.begin(), all.end());
    for (const size_t buffer_bytes : {256, 512, 1024, 3584, 4096, 8192}) {
      std::vector<std::string> merged;
      m_files.m_is_direct = buffer_bytes >= 512 && k % 2 == 0;
      m_files.m_reads = {};
      ASSERT_EQ(DB_END_OF_INDEX, merge(runs, merged, buffer_bytes));
      ASSERT_EQ(all, merged) << k;
      ASSERT_EQ(n_bytes, m_files.m_reads.n_bytes()) << k;
    }
  }
}

TEST_F(Kway, rows_of_every_size) {
  for (const size_t buffer_bytes : {512, 4096, 8192, 65536}) {
    for (const auto is_direct : {false, true}) {
      m_files = {};
      m_files.m_is_direct = is_direct;
      std::vector<std::string> rows;
      for (size_t n = 0; n <= 65000; n += n < 8300 ? 1 : 4099) {
        rows.push_back(std::string(n, 'a'));
      }
      const auto run =
          write_as_is(rows, std::max(buffer_bytes, BLOCK_BYTES), 0);
      std::vector<std::string> read;
      ASSERT_EQ(DB_END_OF_INDEX, merge({run}, read, buffer_bytes));
      ASSERT_EQ(rows, read);
      ASSERT_EQ(run.m_end, m_files.m_reads.n_bytes());
    }
  }
}

TEST_F(Kway, row_across_two_buffers_takes_its_size) {
  /* Rows of 7 KiB and less: every second one does not end in its buffer, and
  reads begin where buffers do. */
  m_files.m_is_direct = true;
  std::vector<Sorted_run> runs;
  std::vector<std::string> all;
  m_row_bytes = 7168;
  for (size_t k = 0; k < 8; ++k) {
    std::vector<std::string> rows;
    for (size_t n = 0; n < 100; ++n) {
      rows.push_back(std::string(1000 + (n * 8 + k) % 6166, 'a'));
    }
    rows.push_back(std::string(m_row_bytes - 3, 'a'));
    all.insert(all.end(), rows.begin(), rows.end());
    runs.push_back(write(rows));
  }
  std::sort(all.begin(), all.end());
  std::vector<std::string> merged;
  ASSERT_EQ(DB_END_OF_INDEX, merge(runs, merged));
  EXPECT_EQ(all, merged);
  for (const auto bytes : m_across_bytes) {
    EXPECT_EQ(m_row_bytes, bytes);
  }

  /* A row that is larger than said is read all the same. */
  m_files.m_reads = {};
  m_row_bytes = 100;
  merged.clear();
  ASSERT_EQ(DB_END_OF_INDEX, merge(runs, merged));
  EXPECT_EQ(all, merged);

  /* Short rows take little. */
  m_files = {};
  m_files.m_is_direct = true;
  m_row_bytes = 103;
  const auto run = write(std::vector<std::string>(1000, std::string(100, 'a')));
  merged.clear();
  ASSERT_EQ(DB_END_OF_INDEX, merge({run}, merged));
  EXPECT_EQ(103U, m_across_bytes[0]);

  /* Where reads may begin anywhere, such a row moves to the front of the
  buffer, which is filled up: two of 103 bytes at a time. */
  m_files.m_reads = {};
  m_files.m_n_reads = 0;
  m_files.m_is_direct = false;
  merged.clear();
  ASSERT_EQ(DB_END_OF_INDEX, merge({run}, merged, 256));
  EXPECT_EQ(1000U, merged.size());
  EXPECT_EQ(0U, m_across_bytes[0]);
  EXPECT_NEAR(500, m_files.m_n_reads, 20);

  /* Not a row of more than half of the buffer, which would take a read each. */
  m_files.m_reads = {};
  m_files.m_n_reads = 0;
  merged.clear();
  ASSERT_EQ(DB_END_OF_INDEX, merge({run}, merged, 204));
  EXPECT_EQ(1000U, merged.size());
  EXPECT_EQ(103U, m_across_bytes[0]);
  EXPECT_NEAR(505, m_files.m_n_reads, 25);
}

TEST_F(Kway, reader_is_small) {
  /* A merge of 1 MiB has room for 2,600 runs with buffers of 256 bytes. */
  EXPECT_EQ(88U, sizeof(Reader));
}

TEST_F(Kway, run_in_memory) {
  const std::vector<std::string> texts{"a", "b", "c"};
  std::vector<byte> bytes;
  for (const auto &text : texts) {
    const auto row = row_of(text);
    bytes.insert(bytes.end(), row.begin(), row.end());
  }
  const auto read = [&](size_t n_bytes) {
    Framing framing;
    Reader reader(&framing, bytes.data(), n_bytes);
    std::vector<std::string> rows;
    auto err = reader.next();
    for (; err == DB_SUCCESS; err = reader.next()) {
      rows.push_back(text_of(reader));
    }
    return std::make_pair(err, rows);
  };

  bytes.push_back(0);
  EXPECT_EQ(std::make_pair(DB_END_OF_INDEX, texts), read(bytes.size()));
  /* Without its mark, and with a part of a row. */
  EXPECT_EQ(DB_CORRUPTION, read(bytes.size() - 1).first);
  EXPECT_EQ(DB_CORRUPTION, read(bytes.size() - 2).first);
  EXPECT_EQ(DB_CORRUPTION, read(0).first);
}

TEST_F(Kway, run_that_fills_its_blocks) {
  /* The mark of the end then has a block of its own. */
  const auto run = write({std::string(4093, 'a')}, 4096);
  EXPECT_EQ(8192U, run.m_end);
  for (const size_t buffer_bytes : {512, 4096}) {
    std::vector<std::string> read;
    m_files.m_reads = {};
    EXPECT_EQ(DB_END_OF_INDEX, merge({run}, read, buffer_bytes));
    EXPECT_EQ(1U, read.size());
    EXPECT_EQ(8192U, m_files.m_reads.n_bytes());
  }
}

TEST_F(Kway, damaged_run) {
  auto run = write({"a", "b"});
  std::vector<std::string> read;

  /* No mark at the end. */
  auto &bytes = m_files.m_files[0];
  std::fill(bytes.begin(), bytes.end(), 1);
  EXPECT_EQ(DB_CORRUPTION, merge({run}, read));

  /* A mark before the last block. */
  m_files = {};
  write({"a"});
  write({"b"});
  for (const size_t buffer_bytes : {512, 4096}) {
    read.clear();
    m_files.m_reads = {};
    EXPECT_EQ(DB_CORRUPTION, merge({{0, 0, 8192}}, read, buffer_bytes));
  }

  /* What is behind the mark cannot be read. */
  m_files.m_reads = {};
  m_files.m_reads_until_error = 1;
  read.clear();
  EXPECT_EQ(DB_IO_ERROR, merge({{0, 0, 4096}}, read, 512));
}

TEST_F(Kway, errors_are_returned) {
  const auto a = write(std::vector<std::string>(3000, "a"));
  const auto b = write(std::vector<std::string>(3000, "b"));
  for (size_t n = 0; n < 6; ++n) {
    m_files.m_reads = {};
    m_files.m_reads_until_error = n;
    std::vector<std::string> read;
    EXPECT_EQ(DB_IO_ERROR, merge({a, b}, read)) << n;
  }

  std::vector<byte> buffer(4096);
  const auto row = row_of(std::string(5000, 'x'));
  m_files.m_writes_until_error = 0;
  Run_writer<Memory_files> writer(&m_files, 1, 0, buffer.data(), 4096);
  EXPECT_EQ(DB_OUT_OF_FILE_SPACE, writer.add(row.data(), row.size()));
  EXPECT_EQ(DB_OUT_OF_FILE_SPACE, writer.finish());
}

TEST_F(Kway, duplicates_are_compared_at_every_position) {
  for (size_t k : {2, 3, 5, 8, 13}) {
    const size_t n = 60;
    for (size_t position = 0; position < n; ++position) {
      for (size_t twin = 0; twin < k; ++twin) {
        m_files = {};
        m_compare = {};
        m_compare.m_key_bytes = position % 9;
        std::vector<std::vector<std::string>> rows(k);
        for (size_t i = 0; i < n; ++i) {
          rows[i * 7 % k].push_back(std::to_string(1000 + i));
        }
        if (twin != position * 7 % k) {
          rows[twin].push_back(std::to_string(1000 + position));
        }
        std::vector<Sorted_run> runs;
        for (const auto &run_rows : rows) {
          runs.push_back(write(run_rows));
        }
        std::vector<std::string> read;
        ASSERT_EQ(DB_END_OF_INDEX, merge(runs, read));
        ASSERT_EQ(twin != position * 7 % k, m_compare.m_found)
            << k << " " << position << " " << twin;
      }
    }
  }
}

TEST_F(Kway, tournament_compares_once_a_level) {
  std::vector<Sorted_run> runs;
  for (size_t i = 0; i < 64; ++i) {
    std::vector<std::string> rows;
    for (size_t j = 0; j < 100; ++j) {
      rows.push_back(std::to_string(100000 + j * 64 + i * 37 % 64));
    }
    runs.push_back(write(rows));
  }
  std::vector<std::string> read;
  ASSERT_EQ(DB_END_OF_INDEX, merge(runs, read));
  EXPECT_LE(m_compare.m_n, 6400U * 6);
}

TEST_F(Kway, tournament_compares_less_than_a_priority_queue) {
  for (const size_t k : {2, 5, 16, 56, 200}) {
    m_files = {};
    m_compare = {};
    std::mt19937 random(k);
    std::vector<std::vector<unsigned>> keys(k);
    std::vector<Sorted_run> runs;
    for (auto &run : keys) {
      std::vector<std::string> rows;
      for (size_t j = 0; j < 100; ++j) {
        run.push_back(1000000000U + random() % 1000000000U);
        rows.push_back(std::to_string(run.back()));
      }
      std::sort(run.begin(), run.end());
      runs.push_back(write(rows));
    }
    std::vector<std::string> merged;
    ASSERT_EQ(DB_END_OF_INDEX, merge(runs, merged));

    /* As the original cursor does it: take the least out, put the next in. */
    size_t n_compares = 0;
    using Item = std::pair<size_t, size_t>;
    const auto later = [&](const Item &a, const Item &b) {
      ++n_compares;
      return keys[a.first][a.second] > keys[b.first][b.second];
    };
    std::priority_queue<Item, std::vector<Item>, decltype(later)> queue(later);
    for (size_t i = 0; i < k; ++i) {
      queue.push({i, 0});
    }
    std::vector<std::string> queued;
    while (!queue.empty()) {
      auto item = queue.top();
      queue.pop();
      queued.push_back(std::to_string(keys[item.first][item.second]));
      if (++item.second < keys[item.first].size()) {
        queue.push(item);
      }
    }
    EXPECT_EQ(queued, merged);
    EXPECT_LE(m_compare.m_n, n_compares) << k;
    std::cout << k << " runs, " << merged.size()
              << " rows: comparisons of the tournament " << m_compare.m_n
              << ", of the priority queue " << n_compares << '\n';
  }
}

TEST(Kway_plan, passes) {
  EXPECT_EQ(0U, n_passes(0, 1, 2));
  EXPECT_EQ(0U, n_passes(1, 1, 2));
  EXPECT_EQ(1U, n_passes(2, 1, 2));
  EXPECT_EQ(9U, n_passes(512, 1, 2));
  EXPECT_EQ(10U, n_passes(513, 1, 2));
  EXPECT_EQ(1U, n_passes(512, 8, 64));
  EXPECT_EQ(2U, n_passes(513, 8, 64));
  EXPECT_EQ(64U, n_passes(SIZE_MAX, 1, 2));

  /* Only as much is merged early as the later passes cannot do. */
  EXPECT_EQ(64U, target_runs(70, 64, 64));
  EXPECT_EQ(64U, target_runs(4096, 1, 64));
  EXPECT_EQ(4096U, target_runs(4097, 1, 64));
}

/** Runs of a file through all passes.
@return runs that were rewritten */
static size_t simulate(size_t n_runs, const Plan &plan) {
  size_t n_rewritten = 0;
  size_t n_passes_done = 0;
  while (n_runs > plan.m_leave) {
    auto excess = n_runs - target_runs(n_runs, plan.m_leave, plan.m_fan_in);
    EXPECT_GT(excess, 0U);
    size_t n_used = 0;
    size_t n_merged = 0;
    while (excess > 0) {
      const auto n = std::min(plan.m_fan_in, excess + 1);
      n_used += n;
      ++n_merged;
      excess -= n - 1;
    }
    EXPECT_LE(n_used, n_runs);
    n_rewritten += n_used;
    n_runs = n_runs - n_used + n_merged;
    ++n_passes_done;
  }
  EXPECT_EQ(plan.m_passes, n_passes_done);
  return n_rewritten;
}

/** @return 1 MiB, 4 threads, 600 runs of 20 KiB in each of 4 files */
static Shape default_shape() {
  Shape shape{};
  shape.m_n_runs = 600;
  shape.m_n_files = 4;
  shape.m_file_bytes = 600 * 20480;
  shape.m_sort_memory_bytes = 256 * 1024;
  shape.m_load_memory_bytes = 256 * 1024;
  shape.m_feeds_load = true;
  return shape;
}

TEST(Kway_plan, default_settings_need_one_pass) {
  const auto shape = default_shape();
  const auto plan = make_plan(shape);
  EXPECT_EQ(1U, plan.m_passes);
  EXPECT_LE(plan.m_leave * shape.m_n_files * CACHED_READ_BYTES,
            shape.m_load_memory_bytes);
  EXPECT_LE(plan.m_fan_in * CACHED_READ_BYTES +
                output_bytes(shape.m_sort_memory_bytes),
            shape.m_sort_memory_bytes);
  EXPECT_LE(simulate(shape.m_n_runs, plan), shape.m_n_runs);
}

TEST(Kway_plan, as_many_at_a_time_as_leaves_most_untouched) {
  /* 320 runs have to become 64: six at a time would do, but rewrites 308 of
  them; 56 at a time rewrites 262. */
  Shape shape{};
  shape.m_n_runs = 320;
  shape.m_file_bytes = 320 * 65536;
  shape.m_sort_memory_bytes = 256 * 1024;
  shape.m_load_memory_bytes = 256 * 1024;
  shape.m_reader_bytes = 4096 - CACHED_READ_BYTES;
  shape.m_feeds_load = true;
  const auto plan = make_plan(shape);
  EXPECT_EQ(64U, plan.m_leave);
  EXPECT_EQ(1U, plan.m_passes);
  EXPECT_LE(simulate(320, plan), 262U);
}

TEST(Kway_plan, few_runs_need_no_pass) {
  Shape shape{};
  shape.m_n_runs = 8;
  shape.m_n_files = 4;
  shape.m_file_bytes = 8 << 20;
  shape.m_sort_memory_bytes = 16 << 20;
  shape.m_load_memory_bytes = 16 << 20;
  shape.m_feeds_load = true;
  EXPECT_EQ(0U, make_plan(shape).m_passes);

  shape.m_feeds_load = false;
  EXPECT_EQ(1U, make_plan(shape).m_passes);
  EXPECT_EQ(1U, make_plan(shape).m_leave);

  shape.m_n_runs = 0;
  EXPECT_EQ(0U, make_plan(shape).m_passes);
}

TEST(Kway_plan, small_ios_cost) {
  EXPECT_EQ(2.0, io_cost(2, IO_COST_BYTES));
  EXPECT_EQ(2.0, io_cost(2, 10 * IO_COST_BYTES));
  EXPECT_EQ(4.0, io_cost(2, IO_COST_BYTES / 2.0));

  /* Without the page cache a small buffer is a small I/O: fewer runs at a time
  and more passes are cheaper than as many runs as fit. */
  auto shape = default_shape();
  const auto cached = make_plan(shape);
  shape.m_is_direct = true;
  const auto direct = make_plan(shape);
  EXPECT_LT(direct.m_fan_in, cached.m_fan_in);
  EXPECT_GT(direct.m_passes, cached.m_passes);
  EXPECT_GT(direct.m_cost_bytes, cached.m_cost_bytes);
}

/** @return memory that a merge of n runs takes */
static size_t merge_bytes(size_t memory_bytes, size_t n, size_t reader_bytes,
                          bool is_direct) {
  return n * (input_bytes(memory_bytes, n, reader_bytes,
                          least_input_bytes(is_direct)) +
              reader_bytes);
}

TEST(Kway_plan, small_buffers_where_the_page_cache_reads) {
  /* The table of the documentation: 88 runs in each of 4 files. */
  auto shape = default_shape();
  shape.m_n_runs = 88;
  shape.m_file_bytes = 88 * 118784;
  shape.m_reader_bytes = 200;
  EXPECT_EQ(0U, make_plan(shape).m_passes);

  shape.m_is_direct = true;
  EXPECT_LT(0U, make_plan(shape).m_passes);

  /* As large as there is room, a multiple of the least. */
  EXPECT_EQ(512U, input_bytes(262144, 352, 200, least_input_bytes(false)));
  EXPECT_EQ(256U, input_bytes(262144, 560, 200, SMALL_READ_BYTES));
  EXPECT_EQ(4096U, input_bytes(262144, 352, 200, least_input_bytes(true)));
  EXPECT_EQ(2048U, input_bytes(262144, 100, 200, least_input_bytes(false)));
  EXPECT_EQ(8192U, input_bytes(262144, 30, 200, least_input_bytes(false)));
  EXPECT_EQ(MAX_BUFFER_BYTES,
            input_bytes(1 << 30, 2, 200, least_input_bytes(false)));
}

TEST(Kway_plan, wide_rows_mean_fewer_runs_at_a_time) {
  /* 1 MiB, one thread, rows of 7 KiB, a run for each half of the buffer. */
  Shape shape{};
  shape.m_n_runs = 560;
  shape.m_file_bytes = 560 << 19;
  shape.m_sort_memory_bytes = 1 << 20;
  shape.m_load_memory_bytes = 1 << 20;
  shape.m_feeds_load = true;
  const auto narrow = make_plan(shape);
  EXPECT_EQ(0U, narrow.m_passes);

  shape.m_reader_bytes = 7168;
  const auto wide = make_plan(shape);
  EXPECT_EQ(136U, wide.m_leave);
  EXPECT_GT(wide.m_n_rewritten, narrow.m_n_rewritten);
  EXPECT_LE(merge_bytes(1 << 20, wide.m_leave, 7168, false), 1U << 20);
  EXPECT_LE(merge_bytes((1 << 20) - output_bytes(1 << 20), wide.m_fan_in, 7168,
                        false),
            (1U << 20) - output_bytes(1 << 20));

  /* Two at a time always, however wide the rows are. */
  shape.m_reader_bytes = MAX_ROW_BYTES;
  shape.m_sort_memory_bytes = 49152;
  shape.m_load_memory_bytes = 49152;
  EXPECT_EQ(2U, make_plan(shape).m_fan_in);
  EXPECT_EQ(1U, make_plan(shape).m_leave);
  EXPECT_EQ(CACHED_READ_BYTES,
            input_bytes(49152, 2, MAX_ROW_BYTES, least_input_bytes(false)));
  EXPECT_EQ(BLOCK_BYTES,
            input_bytes(49152, 2, MAX_ROW_BYTES, least_input_bytes(true)));
}

TEST(Kway_plan, limits_hold_for_all_shapes) {
  std::mt19937 random(2);
  for (int i = 0; i < 2000; ++i) {
    Shape shape{};
    shape.m_n_runs = random() % 5000;
    shape.m_n_files = 1 + random() % 64;
    shape.m_file_bytes = shape.m_n_runs * 20480;
    shape.m_sort_memory_bytes = 49152U << random() % 12;
    shape.m_load_memory_bytes = 49152U << random() % 12;
    shape.m_reader_bytes = random() % 2 == 0 ? 0 : random() % 16384;
    shape.m_ways = random() % 2 == 0 ? 0 : 2 + random() % 511;
    shape.m_feeds_load = random() % 2 == 0;
    shape.m_is_direct = random() % 2 == 0;
    const auto plan = make_plan(shape);
    ASSERT_GE(plan.m_fan_in, 2U);
    ASSERT_GE(plan.m_leave, 1U);
    ASSERT_LE(plan.m_fan_in, MAX_WAYS);
    ASSERT_LE(plan.m_leave, MAX_WAYS);
    if (shape.m_ways != 0) {
      ASSERT_LE(plan.m_fan_in, shape.m_ways);
      ASSERT_LE(plan.m_leave, shape.m_ways);
    }
    if (plan.m_fan_in > 2) {
      ASSERT_LE(
          merge_bytes(shape.m_sort_memory_bytes -
                          output_bytes(shape.m_sort_memory_bytes),
                      plan.m_fan_in, shape.m_reader_bytes, shape.m_is_direct) +
              output_bytes(shape.m_sort_memory_bytes),
          shape.m_sort_memory_bytes);
    }
    if (plan.m_leave > 1) {
      ASSERT_LE(
          merge_bytes(shape.m_load_memory_bytes, plan.m_leave * shape.m_n_files,
                      shape.m_reader_bytes, shape.m_is_direct),
          shape.m_load_memory_bytes);
    }
    simulate(shape.m_n_runs, plan);
  }
}

/** Sort buffers that share a pool as those of an index build do. */
class Buffers {
 public:
  Buffers(size_t n, size_t limit_bytes)
      : m_limit_bytes(limit_bytes),
        m_pool(n, limit_bytes),
        m_used(n),
        m_runs(n) {}

  /** Add a row; whatever is the largest is written until there is room. */
  void add(size_t buffer, size_t n_bytes) {
    while (m_pool.is_full(n_bytes)) {
      const auto largest = m_pool.largest();
      if (m_used[largest] == 0) {
        /* A row that is larger than all of the memory. */
        break;
      }
      m_runs[largest].push_back(m_used[largest]);
      m_used[largest] = 0;
      m_pool.set_used(largest, 0);
    }
    m_used[buffer] += n_bytes;
    m_pool.set_used(buffer, m_used[buffer]);
    EXPECT_LE(std::accumulate(m_used.begin(), m_used.end(), size_t{0}),
              std::max(m_limit_bytes, n_bytes));
  }

  /** @return bytes of the runs of a buffer */
  [[nodiscard]] const std::vector<size_t> &runs(size_t buffer) const {
    return m_runs[buffer];
  }

  /** @return bytes of its shortest run */
  [[nodiscard]] size_t shortest(size_t buffer) const {
    return *std::min_element(m_runs[buffer].begin(), m_runs[buffer].end());
  }

 private:
  size_t m_limit_bytes;
  Pool m_pool;
  std::vector<size_t> m_used;
  std::vector<std::vector<size_t>> m_runs;
};

TEST(Kway_pool, runs_are_longer_than_equal_shares) {
  const size_t limit = 1 << 20;
  for (size_t n : {2, 5, 16}) {
    Buffers buffers(n, limit);
    for (size_t row = 0; row < 200000; ++row) {
      for (size_t i = 0; i < n; ++i) {
        buffers.add(i, 150);
      }
    }
    for (size_t i = 0; i < n; ++i) {
      /* In the first round all buffers are equally full. At last they are of
      all sizes up to twice the share. */
      EXPECT_GE(buffers.shortest(i), limit / n * 9 / 10) << n;
      EXPECT_GE(buffers.runs(i).back(), limit / (n + 1) * 18 / 10) << n;
    }
  }
}

TEST(Kway_pool, small_keys_hold_little) {
  const size_t limit = 1 << 20;
  Buffers buffers(3, limit);
  for (size_t row = 0; row < 200000; ++row) {
    buffers.add(0, 50);
    buffers.add(1, 100);
    buffers.add(2, 1500);
  }
  /* The large ones are written often, the small ones seldom, all as long. */
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_GE(buffers.shortest(i), limit / 4);
  }
}

TEST(Kway_pool, index_that_gets_no_more_rows) {
  /* One index fills all of the memory and then gets no row. It is written once;
  the runs of the others are as long as if it were not there. */
  const size_t limit = 1 << 20;
  Buffers buffers(4, limit);
  Buffers alone(3, limit);
  for (size_t row = 0; row < limit / 100; ++row) {
    buffers.add(0, 100);
  }
  ASSERT_TRUE(buffers.runs(0).empty());
  for (size_t row = 0; row < 100000; ++row) {
    for (size_t i = 0; i < 3; ++i) {
      buffers.add(1 + i, 150);
      alone.add(i, 150);
    }
  }
  EXPECT_EQ(1U, buffers.runs(0).size());
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(alone.runs(i), buffers.runs(1 + i));
  }
}

TEST(Kway_pool, rows_as_large_as_the_memory) {
  /* A buffer that is empty takes one row whatever its size. */
  Buffers buffers(4, 8192);
  std::mt19937 random(3);
  for (int i = 0; i < 100000; ++i) {
    buffers.add(random() % 4, 1 + random() % 9000);
  }
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_GT(buffers.runs(i).size(), 1000U);
  }
}

TEST(Kway_ranges, what_is_read_twice_is_noticed) {
  Range_recorder recorder;
  EXPECT_TRUE(recorder.add(1, 4096, 4096));
  EXPECT_TRUE(recorder.add(1, 8192, 4096));
  EXPECT_TRUE(recorder.add(1, 0, 4096));
  EXPECT_TRUE(recorder.add(2, 4096, 4096));
  EXPECT_TRUE(recorder.add(1, 16384, 8192));
  EXPECT_EQ(24576U, recorder.n_bytes());

  /* The same range; its beginning; its end; around it; across two. */
  EXPECT_FALSE(recorder.add(1, 4096, 4096));
  EXPECT_FALSE(recorder.add(1, 16384, 4096));
  EXPECT_FALSE(recorder.add(1, 20480, 8192));
  EXPECT_FALSE(recorder.add(1, 12288, 16384));
  EXPECT_FALSE(recorder.add(1, 0, 12288));
  EXPECT_TRUE(recorder.add(1, 12288, 4096));
  EXPECT_EQ(28672U, recorder.n_bytes());
}

TEST_F(Kway, recorder_notices_a_second_reading) {
  /* The reader of a run, once on a good file and once beginning again. */
  const auto run = write(std::vector<std::string>(3000, "a"));
  struct Recording {
    dberr_t read(size_t file, byte *to, size_t n, uint64_t offset,
                 uint64_t end) {
      m_is_once = m_recorder.add(file, offset, n) && m_is_once;
      return m_files->read(file, to, n, offset, end);
    }
    [[nodiscard]] bool is_direct() const { return true; }
    Memory_files *m_files;
    Range_recorder m_recorder{};
    bool m_is_once{true};
  } io{&m_files};
  std::vector<byte> buffer(4096);
  Framing framing;

  for (const auto is_once : {true, false}) {
    m_files.m_reads = {};
    Run_reader<Recording, Framing> reader(&io, &framing, run, buffer.data(),
                                          buffer.size(), 4);
    auto err = DB_SUCCESS;
    while (err == DB_SUCCESS) {
      err = reader.next();
    }
    EXPECT_EQ(DB_END_OF_INDEX, err);
    EXPECT_EQ(is_once, io.m_is_once);
    EXPECT_EQ(run.m_end, io.m_recorder.n_bytes());
  }
}

TEST(Kway_progress, all_indexes_count_together) {
  const auto shared = std::make_shared<Progress>();
  auto &progress = *shared;
  Progress_part a;
  Progress_part b;
  Progress_part none;
  uint64_t n = 1000;

  /* Takes no part: nothing is changed. */
  none.done(5);
  none.expect(5);
  EXPECT_FALSE(none.report(n, true));
  EXPECT_EQ(1000U, n);

  a.join(shared);
  b.join(shared);
  a.expect(2000);
  b.expect(1000);
  EXPECT_EQ(3000U, progress.expected());

  a.done(700);
  b.done(700);
  EXPECT_EQ(1400U, progress.done());

  /* There are more rows than the statistics said: never more than all. */
  b.done(2000);
  EXPECT_EQ(3000U, progress.done());

  /* What is left is known: 2700 are done. */
  b.expect(0);
  EXPECT_EQ(4700U, progress.expected());
  EXPECT_EQ(3400U, progress.done());
  a.expect(1000);
  EXPECT_EQ(4400U, progress.expected());

  n = Progress_part::ROWS - 1;
  EXPECT_TRUE(a.report(n, false));
  EXPECT_EQ(Progress_part::ROWS - 1, n);
  EXPECT_TRUE(a.report(n, true));
  EXPECT_EQ(0U, n);
  EXPECT_EQ(3400U + Progress_part::ROWS - 1, progress.done());
}

TEST(Kway_progress, end_is_for_those_who_take_part) {
  enum Phase { SCAN, LOAD } phase{SCAN};
  std::vector<std::pair<const PSI_stage_info *,
                        std::pair<PSI_stage_progress *, std::pair<int, int>>>>
      stages;
  const auto progress = std::make_shared<Progress>();
  Progress_part pages;
  Progress_part none;

  pages.join_pages(progress);
  EXPECT_FALSE(none.take_over(stages, phase, LOAD));
  EXPECT_TRUE(pages.written(1));

  /* The build has ended. No stage is shown here, so that none is taken over. */
  EXPECT_TRUE(pages.take_over(stages, phase, LOAD));
  EXPECT_FALSE(pages.written(1));
  EXPECT_EQ(nullptr, progress->shown());
  EXPECT_TRUE(stages.empty());
  EXPECT_EQ(SCAN, phase);
}

TEST(Kway_progress, pages_stand_for_their_rows) {
  const auto progress = std::make_shared<Progress>();
  Progress_part pages;
  Progress_part a;
  Progress_part b;

  EXPECT_FALSE(a.written(1));
  pages.join_pages(progress);
  a.join(progress);
  b.join(progress);

  /* Scan, load and write 1000 rows for each of two indexes. */
  for (auto part : {&a, &b}) {
    part->expect(2000);
    part->expect_pages(1000, 0);
  }
  EXPECT_EQ(6000U, progress->expected());

  /* The pages of one are known, and half of them written early. */
  a.expect_pages(1000, 20);
  EXPECT_EQ(6000U, progress->expected());
  EXPECT_TRUE(pages.written(10));
  EXPECT_EQ(500U, progress->done());

  /* The scan has shown that there are 1200 rows in each. */
  for (auto part : {&a, &b}) {
    part->done(1200);
    part->expect(1200);
    part->expect_pages(1200, 30);
  }
  EXPECT_EQ(7200U, progress->expected());
  EXPECT_EQ(2400U + 400, progress->done());

  /* All is loaded, so that only pages are left: that is not all. */
  a.done(1200);
  b.done(1200);
  EXPECT_EQ(4800U + 400, progress->done());

  EXPECT_TRUE(pages.written(40));
  EXPECT_EQ(4800U + 2000, progress->done());

  /* More pages than expected are not more than all. */
  EXPECT_TRUE(pages.written(40));
  EXPECT_EQ(7200U, progress->done());
  EXPECT_EQ(7200U, progress->expected());

  /* An estimate that grows takes nothing back. */
  b.expect_pages(1200, 90);
  EXPECT_EQ(7200U, progress->done());
}

TEST(Kway_progress, all_is_done_at_the_end) {
  const auto progress = std::make_shared<Progress>();
  Progress_part pages;
  Progress_part a;

  pages.join_pages(progress);
  a.join(progress);
  a.expect(100);
  a.expect_pages(50, 10);
  a.done(90);
  EXPECT_EQ(90U, progress->done());
  progress->finish();
  EXPECT_EQ(150U, progress->done());
  EXPECT_EQ(150U, progress->expected());

  /* What comes later is not part of it. */
  EXPECT_FALSE(pages.written(1));
  EXPECT_FALSE(pages.enter(nullptr));
  a.done(1000);
  EXPECT_EQ(150U, progress->done());
}

TEST(Kway_progress, leaf_pages) {
  EXPECT_EQ(1U, leaf_pages(0, 16384));
  EXPECT_EQ(1U, leaf_pages(15359, 16384));
  EXPECT_EQ(11U, leaf_pages(153600, 16384));
}

TEST(Kway_cache, share) {
  Cache_share share;
  size_t n_asked = 0;
  const auto available = [&] {
    ++n_asked;
    return 4ULL << 30;
  };

  EXPECT_EQ(0U, share.bytes());
  share.add(available);
  EXPECT_EQ(64U << 20, share.bytes());
  share.add(available);
  share.add(available);
  EXPECT_EQ(0U, share.bytes() % BLOCK_BYTES);
  share.add(available);
  EXPECT_EQ(16U << 20, share.bytes());

  /* Those that go on get what others leave. */
  for (int i = 0; i < 3; ++i) {
    share.remove();
  }
  EXPECT_EQ(64U << 20, share.bytes());
  EXPECT_EQ(1U, n_asked);
  share.remove();
  EXPECT_EQ(0U, share.bytes());

  /* The system is asked again by the next build, and as long as nothing is to
  be cached. */
  share.add([] { return 0; });
  EXPECT_EQ(0U, share.bytes());
  share.add(available);
  EXPECT_EQ(32U << 20, share.bytes());
}

TEST(Kway_extents, neighbours) {
  const std::vector<page_no_t> pages{3, 4, 5, 7, 8, 20};

  EXPECT_EQ(3U, end_of_neighbours(pages, 0, 64));
  EXPECT_EQ(2U, end_of_neighbours(pages, 0, 2));
  EXPECT_EQ(1U, end_of_neighbours(pages, 0, 1));
  EXPECT_EQ(5U, end_of_neighbours(pages, 3, 64));
  EXPECT_EQ(6U, end_of_neighbours(pages, 5, 64));
  /* The same page twice, as two buffer pool instances never have it. */
  EXPECT_EQ(1U, end_of_neighbours({9, 9, 10}, 0, 64));
}

TEST(Kway_extents, pages_that_need_no_copy) {
  const auto is_free = [](page_type_t type, lsn_t lsn, page_no_t prev,
                          page_no_t next) {
    byte page[FIL_PAGE_DATA]{};
    mach_write_to_2(page + FIL_PAGE_TYPE, type);
    mach_write_to_8(page + FIL_PAGE_LSN, lsn);
    mach_write_to_4(page + FIL_PAGE_PREV, prev);
    mach_write_to_4(page + FIL_PAGE_NEXT, next);
    return needs_no_copy(page);
  };

  EXPECT_TRUE(is_free(FIL_PAGE_INDEX, 0, 5, 7));
  EXPECT_TRUE(is_free(FIL_PAGE_INDEX, 0, FIL_NULL, 7));
  EXPECT_TRUE(is_free(FIL_PAGE_INDEX, 0, 5, FIL_NULL));

  /* A root, whose creation is logged. */
  EXPECT_FALSE(is_free(FIL_PAGE_INDEX, 0, FIL_NULL, FIL_NULL));
  /* Written before. */
  EXPECT_FALSE(is_free(FIL_PAGE_INDEX, 1, 5, 7));

  for (const auto type :
       {FIL_PAGE_RTREE, FIL_PAGE_SDI, FIL_PAGE_TYPE_FSP_HDR, FIL_PAGE_TYPE_XDES,
        FIL_PAGE_INODE, FIL_PAGE_IBUF_BITMAP, FIL_PAGE_TYPE_LOB_FIRST,
        FIL_PAGE_TYPE_LOB_DATA, FIL_PAGE_TYPE_BLOB, FIL_PAGE_TYPE_ALLOCATED}) {
    EXPECT_FALSE(is_free(type, 0, 5, 7)) << type;
  }
}

TEST(Kway_hand_over, rows_arrive_in_order) {
  std::mt19937 random{20261201};

  for (const size_t n_rows : {0, 1, 7, 20000}) {
    Hand_over rows(1000);
    std::vector<byte> sent;
    std::vector<byte> received;
    size_t n_taken = 0;

    std::thread merge([&] {
      for (size_t i = 0; i < n_rows; ++i) {
        /* Now and then one that fills a buffer. */
        std::vector<byte> row(i % 50 == 9 ? 1000 : 1 + random() % 200);
        for (auto &b : row) {
          b = static_cast<byte>(random());
        }
        EXPECT_TRUE(rows.add(row.data(), row.size()));
        sent.insert(sent.end(), row.begin(), row.end());
      }
      rows.end();
    });
    for (auto taken = rows.take(); taken.m_begin != nullptr;
         taken = rows.take()) {
      EXPECT_LT(taken.m_begin, taken.m_end);
      EXPECT_GE(taken.m_begin + 1000, taken.m_end);
      received.insert(received.end(), taken.m_begin, taken.m_end);
      ++n_taken;
    }
    EXPECT_EQ(nullptr, rows.take().m_begin);
    merge.join();
    EXPECT_EQ(sent, received);
    EXPECT_GE(n_taken, sent.size() / 1000);
    EXPECT_LE(n_taken, n_rows);
  }
}

TEST(Kway_hand_over, who_wants_no_more_does_not_wait) {
  const std::vector<byte> row(600);

  for (const size_t n_taken : {0, 1, 2, 5}) {
    Hand_over rows(1000);
    std::atomic<size_t> n_added{0};
    /* A buffer has room for one row. What was taken last is still there. */
    const auto n_most = std::max<size_t>(2, n_taken + 1);

    std::thread merge([&] {
      while (rows.add(row.data(), row.size())) {
        ++n_added;
      }
      rows.end();
    });
    for (size_t i = 0; i < n_taken; ++i) {
      const auto taken = rows.take();
      EXPECT_EQ(row, std::vector<byte>(taken.m_begin, taken.m_end));
    }
    /* Then it waits, or is about to. */
    while (n_added < n_most) {
      std::this_thread::yield();
    }
    rows.stop();
    merge.join();
    EXPECT_EQ(n_most, n_added);
  }
}

TEST(Kway_hand_over, memory) {
  EXPECT_EQ(0U, hand_over_bytes(64 * 1024, 100));
  EXPECT_EQ(0U, hand_over_bytes(LEAST_HANDING_BYTES - 1, 100));
  EXPECT_EQ(16U * 1024, hand_over_bytes(LEAST_HANDING_BYTES, 100));
  EXPECT_EQ(64U * 1024, hand_over_bytes(1024 * 1024, 100));
  EXPECT_EQ(64U * 1024, hand_over_bytes(1024 * 1024 * 1024, 100));
  /* A few rows at a time are not worth it. */
  EXPECT_EQ(64U * 1024, hand_over_bytes(1024 * 1024, 16 * 1024));
  EXPECT_EQ(0U, hand_over_bytes(1024 * 1024, 16 * 1024 + 1));

  /* If that is too much, less, but not little. */
  EXPECT_EQ(16U * 1024, smaller_hand_over(64 * 1024, 100));
  EXPECT_EQ(8U * 1024, smaller_hand_over(32 * 1024, 100));
  EXPECT_EQ(0U, smaller_hand_over(16 * 1024, 100));
  EXPECT_EQ(16U * 1024, smaller_hand_over(64 * 1024, 4 * 1024));
  EXPECT_EQ(0U, smaller_hand_over(64 * 1024, 4 * 1024 + 1));
}

TEST(Kway_io, interrupted_call_is_repeated) {
  int n_calls = 0;
  EXPECT_EQ(0, uninterrupted([&] {
              errno = EINTR;
              return ++n_calls < 3 ? -1 : 0;
            }));
  EXPECT_EQ(3, n_calls);

  EXPECT_EQ(-1, uninterrupted([&] {
    ++n_calls;
    errno = EOPNOTSUPP;
    return -1;
  }));
  EXPECT_EQ(4, n_calls);
}

}  // namespace innodb_ddl0kway_unittest
