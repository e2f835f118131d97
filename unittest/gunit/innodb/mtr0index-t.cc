/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** Unit tests of mtr0index: which index objects are kept, and found again. The
objects are built by mlog_parse_index(), from descriptions as redo has them. */

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <mutex>
#include <thread>
#include <vector>

#include "storage/innobase/include/dict0mem.h"
#include "storage/innobase/include/mtr0index.h"
#include "storage/innobase/include/mtr0log.h"
#include "unittest/gunit/innodb/mtr0index-suite.h"

namespace innodb_mtr0index_unittest {

using innodb_mtr0index_suite::Bytes;
using innodb_mtr0index_suite::put_2;

/** Length of a field that is variable, and NOT NULL. */
constexpr int VARIABLE = 0xffff;

/** @return description of an index, in a format other than redundant
@param[in]  lengths   lengths of its fields, the highest bit for NOT NULL
@param[in]  n_unique  number of unique fields; all for a secondary index */
static Bytes describe(const std::vector<int> &lengths, size_t n_unique) {
  Bytes bytes{INDEX_LOG_VERSION_CURRENT, COMPACT_FLAG};

  put_2(bytes, lengths.size());
  put_2(bytes, n_unique);
  for (const auto length : lengths) {
    put_2(bytes, length);
  }

  return bytes;
}

/** A clustered index with a key of so many bytes, and a column. */
static Bytes describe_clustered(int n_bytes) {
  return describe({0x8000 | n_bytes, 0x8006, 0x8007, VARIABLE}, 1);
}

/** What parsing a description gave. */
struct Parsed {
  dict_index_t *index{nullptr};
  size_t n_bytes{0};
};

/** Parse a description, which the body of a record follows, and do with the
object what is done after a record.
@param[in]  bytes   description
@param[in]  n_rest  bytes of the body
@return the object, if it is kept, and how long its description is */
static Parsed parse(Bytes bytes, size_t n_rest = 3) {
  Parsed parsed;
  const auto n_described = bytes.size();

  bytes.resize(n_described + n_rest, 0xee);
  const auto end = mlog_parse_index(bytes.data(), bytes.data() + bytes.size(),
                                    &parsed.index);

  if (end == nullptr) {
    EXPECT_EQ(nullptr, parsed.index);
    return parsed;
  }

  parsed.n_bytes = end - bytes.data();
  EXPECT_EQ(n_described, parsed.n_bytes);

  const auto index = parsed.index;
  mtr_index::release(parsed.index);

  if (parsed.index != nullptr) {
    const auto table = index->table;
    dict_mem_index_free(index);
    dict_mem_table_free(table);
    parsed.index = nullptr;
  } else {
    parsed.index = index;
  }

  return parsed;
}

using mtr0index = innodb_mtr0index_suite::Suite;

TEST_F(mtr0index, nothing_is_kept_without_a_keeper) {
  const auto parsed = parse(describe_clustered(4));

  EXPECT_EQ(nullptr, parsed.index);
  EXPECT_NE(0U, parsed.n_bytes);
}

TEST_F(mtr0index, nothing_is_kept_by_one_that_is_off) {
  const mtr_index::Keeper keeper{false};

  EXPECT_EQ(nullptr, parse(describe_clustered(4)).index);
  EXPECT_EQ(nullptr, parse(describe_clustered(4)).index);
}

TEST_F(mtr0index, objects_take_no_more_than_a_mebibyte) {
  const mtr_index::Keeper keeper{true};
  constexpr size_t N_FIELDS = 900, N_DESCRIPTIONS = 60;
  size_t n_bytes = 0;

  for (size_t i = 0; i < N_DESCRIPTIONS; ++i) {
    const std::vector<int> lengths(N_FIELDS + i, 0x8004);
    const auto parsed = parse(describe(lengths, lengths.size()));

    ASSERT_NE(nullptr, parsed.index);
    EXPECT_EQ(lengths.size(), parsed.index->n_fields);
    n_bytes += mem_heap_get_size(parsed.index->heap);
    /* It stays until there is too much. */
    EXPECT_EQ(parsed.index, parse(describe(lengths, lengths.size())).index);
  }
  ASSERT_GT(n_bytes, 1024U * 1024);
  EXPECT_EQ(N_DESCRIPTIONS, mtr_index::Keeper::n_made());

  /* The first one is not there any more. */
  const std::vector<int> lengths(N_FIELDS, 0x8004);
  EXPECT_NE(nullptr, parse(describe(lengths, lengths.size())).index);
  EXPECT_EQ(N_DESCRIPTIONS + 1, mtr_index::Keeper::n_made());
}

TEST_F(mtr0index, equal_descriptions_have_one_object) {
  const mtr_index::Keeper keeper{true};
  const auto first = parse(describe_clustered(4), 3);

  ASSERT_NE(nullptr, first.index);
  EXPECT_EQ(first.index, parse(describe_clustered(4), 0).index);
  EXPECT_EQ(first.index, parse(describe_clustered(4), 99).index);
  EXPECT_EQ(1U, mtr_index::Keeper::n_made());
  EXPECT_EQ(2U, mtr_index::Keeper::n_found());

  EXPECT_EQ(4U, first.index->n_fields);
  EXPECT_EQ(1U, first.index->n_uniq);
  EXPECT_TRUE(first.index->is_clustered());
  EXPECT_EQ(4U, first.index->get_col(0)->len);
}

TEST_F(mtr0index, others_have_others) {
  const mtr_index::Keeper keeper{true};

  for (const int n_bytes : {4, 8, 4, 16, 8}) {
    const auto parsed = parse(describe_clustered(n_bytes));
    ASSERT_NE(nullptr, parsed.index);
    EXPECT_EQ(n_bytes, static_cast<int>(parsed.index->get_col(0)->len));
  }

  const auto secondary = parse(describe({0x8004, 0x8004}, 2));
  EXPECT_FALSE(secondary.index->is_clustered());
  const auto longer = parse(describe({0x8004, 0x8004, 0x8004}, 3));
  EXPECT_EQ(3U, longer.index->n_fields);
  EXPECT_EQ(2U, parse(describe({0x8004, 0x8004}, 2)).index->n_fields);
}

TEST_F(mtr0index, a_thousand_share_the_places) {
  const mtr_index::Keeper keeper{true};

  for (int round = 0; round < 2; ++round) {
    for (int n_bytes = 1; n_bytes <= 1000; ++n_bytes) {
      const auto parsed = parse(describe_clustered(n_bytes));
      ASSERT_EQ(n_bytes, static_cast<int>(parsed.index->get_col(0)->len));
    }
  }
  EXPECT_EQ(2000U, mtr_index::Keeper::n_made() + mtr_index::Keeper::n_found());
}

TEST_F(mtr0index, redundant_format) {
  const mtr_index::Keeper keeper{true};
  const Bytes bytes{INDEX_LOG_VERSION_CURRENT, 0};
  const auto parsed = parse(bytes);

  ASSERT_NE(nullptr, parsed.index);
  EXPECT_EQ(parsed.index, parse(bytes, 0).index);
  EXPECT_EQ(1U, parsed.index->n_fields);
}

/** @return description with columns of other versions of the row
@param[in]  flags    format
@param[in]  version  in which the last column was added */
static Bytes describe_versions(byte flags, byte version) {
  Bytes bytes{INDEX_LOG_VERSION_CURRENT, flags};

  put_2(bytes, 5);
  if (flags & COMPACT_FLAG) {
    put_2(bytes, 1);
    for (const int length : {0x8004, 0x8006, 0x8007, 0x7fff, 0x7fff}) {
      put_2(bytes, length);
    }
  }
  put_2(bytes, 1);
  put_2(bytes, 4);
  put_2(bytes, 0x8000 | 4);
  bytes.push_back(version);

  return bytes;
}

TEST_F(mtr0index, versions_of_the_row_tell_apart) {
  const mtr_index::Keeper keeper{true};
  const byte flags = COMPACT_FLAG | VERSION_FLAG;

  for (const int version : {1, 2, 1}) {
    const auto parsed = parse(describe_versions(flags, version));
    ASSERT_NE(nullptr, parsed.index);
    EXPECT_TRUE(parsed.index->has_row_versions());
    EXPECT_EQ(version, parsed.index->get_col(4)->get_version_added());
  }
  EXPECT_EQ(3U, mtr_index::Keeper::n_made());

  parse(describe_versions(flags, 1));
  EXPECT_EQ(1U, mtr_index::Keeper::n_found());
}

TEST_F(mtr0index, cut_off_descriptions_are_not_kept) {
  const mtr_index::Keeper keeper{true};

  for (const auto &whole :
       {describe_clustered(4),
        describe_versions(COMPACT_FLAG | VERSION_FLAG, 1)}) {
    for (size_t n = 0; n < whole.size(); ++n) {
      auto part = whole;
      part.resize(n);
      dict_index_t *index = nullptr;
      EXPECT_EQ(nullptr, mlog_parse_index(part.data(), part.data() + n, &index))
          << n;
      mtr_index::release(index);
      if (index != nullptr) {
        const auto table = index->table;
        dict_mem_index_free(index);
        dict_mem_table_free(table);
      }
    }
  }
  EXPECT_EQ(0U, mtr_index::Keeper::n_made());

  /* Also if the whole one is known. */
  const auto whole = describe_clustered(4);
  ASSERT_NE(nullptr, parse(whole).index);
  dict_index_t *index = nullptr;
  EXPECT_EQ(nullptr, mlog_parse_index(whole.data(),
                                      whole.data() + whole.size() - 1, &index));
  if (index != nullptr) {
    const auto table = index->table;
    dict_mem_index_free(index);
    dict_mem_table_free(table);
  }
}

TEST_F(mtr0index, each_thread_has_its_own) {
  const mtr_index::Keeper keeper{true};
  const auto mine = parse(describe_clustered(4)).index;
  dict_index_t *other = nullptr;

  std::thread([&other]() {
    other = parse(describe_clustered(4)).index;
  }).join();

  ASSERT_NE(nullptr, other);
  EXPECT_NE(mine, other);
  EXPECT_EQ(2U, mtr_index::Keeper::n_made());
}

/* Batches of redo have threads of their own, one after the other. */
TEST_F(mtr0index, a_thread_goes_on_where_another_has_ended) {
  const mtr_index::Keeper keeper{true};
  const auto mine = parse(describe_clustered(4)).index;
  std::vector<dict_index_t *> others;

  for (int i = 0; i < 5; ++i) {
    std::thread([&others]() {
      others.push_back(parse(describe_clustered(4)).index);
    }).join();
  }

  EXPECT_NE(mine, others.front());
  for (const auto other : others) {
    EXPECT_EQ(others.front(), other);
  }
  EXPECT_EQ(2U, mtr_index::Keeper::n_made());
  EXPECT_EQ(4U, mtr_index::Keeper::n_found());
}

/* A thread that ends after its keeper leaves nothing to the next one. */
TEST_F(mtr0index, a_thread_may_end_after_the_keeper) {
  std::mutex mutex;
  std::thread thread;

  mutex.lock();
  {
    const mtr_index::Keeper keeper{true};
    std::atomic<bool> has_parsed{false};
    thread = std::thread([&]() {
      EXPECT_NE(nullptr, parse(describe_clustered(4)).index);
      has_parsed = true;
      mutex.lock();
      mutex.unlock();
    });
    while (!has_parsed) {
      std::this_thread::yield();
    }
  }

  const mtr_index::Keeper keeper{true};
  mutex.unlock();
  thread.join();

  std::thread([]() {
    EXPECT_NE(nullptr, parse(describe_clustered(4)).index);
  }).join();
  EXPECT_EQ(1U, mtr_index::Keeper::n_made());
}

TEST_F(mtr0index, the_next_keeper_begins_anew) {
  for (int i = 0; i < 3; ++i) {
    const mtr_index::Keeper keeper{true};
    EXPECT_NE(nullptr, parse(describe_clustered(4)).index);
    EXPECT_EQ(1U, mtr_index::Keeper::n_made());
  }
  EXPECT_EQ(nullptr, parse(describe_clustered(4)).index);
}

}  // namespace innodb_mtr0index_unittest
