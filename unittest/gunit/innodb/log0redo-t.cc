/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** Unit tests of log0redo: the end of a record that is found without parsing it
is the one that MySQL's parser finds. */

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "storage/innobase/include/btr0cur.h"
#include "storage/innobase/include/dict0mem.h"
#include "storage/innobase/include/log0redo.h"
#include "storage/innobase/include/mach0data.h"
#include "storage/innobase/include/mtr0index.h"
#include "storage/innobase/include/mtr0log.h"
#include "storage/innobase/include/page0cur.h"
#include "storage/innobase/include/rem0types.h"
#include "unittest/gunit/innodb/mtr0index-suite.h"

namespace innodb_log0redo_unittest {

using innodb_mtr0index_suite::Bytes;
using innodb_mtr0index_suite::put_2;

/** The records whose end is found. */
const mlog_id_t TYPES[] = {MLOG_REC_INSERT, MLOG_REC_UPDATE_IN_PLACE,
                           MLOG_REC_DELETE, MLOG_REC_CLUST_DELETE_MARK};

/** Append a number whose length is its own. */
static void put_number(Bytes &bytes, uint32_t value) {
  byte number[5];
  const auto n_bytes = mach_write_compressed(number, value);
  bytes.insert(bytes.end(), number, number + n_bytes);
}

/** Append bytes that mean nothing. */
static void put_any(Bytes &bytes, size_t n_bytes) {
  bytes.insert(bytes.end(), n_bytes, 0xee);
}

/** Makes bodies of records. */
class Maker {
 public:
  /** Constructor.
  @param[in]  seed  for all choices */
  explicit Maker(unsigned seed) : m_random(seed) {}

  /** @return a number from 0 to max */
  uint32_t up_to(uint32_t max) {
    return std::uniform_int_distribution<uint32_t>(0, max)(m_random);
  }

  /** @return a number, most of them small, and less than max */
  uint32_t number(uint32_t max) {
    const uint32_t limits[] = {0x7f, 0x3fff, 0x1fffff, max - 1};
    return std::min(up_to(limits[up_to(3)]), max - 1);
  }

  /** @return description of an index in any of the formats */
  Bytes describe() {
    const bool is_compact = up_to(5) != 0;
    const bool is_versioned = up_to(3) == 0;
    const bool is_instant = is_compact && !is_versioned && up_to(3) == 0;
    const uint32_t n_fields = 4 + up_to(12);
    Bytes bytes{INDEX_LOG_VERSION_CURRENT,
                static_cast<byte>((is_compact ? COMPACT_FLAG : 0) |
                                  (is_versioned ? VERSION_FLAG : 0) |
                                  (is_instant ? INSTANT_FLAG : 0))};

    if (is_compact || is_versioned) {
      put_2(bytes, n_fields);
    }
    if (is_compact) {
      if (is_instant) {
        put_2(bytes, 1 + up_to(2));
      }
      /* All fields are unique in a secondary index. */
      put_2(bytes, !is_versioned && up_to(3) == 0 ? n_fields : 1);
      put_2(bytes, 0x8004);
      put_2(bytes, 0x8006);
      put_2(bytes, 0x8007);
      for (uint32_t i = 3; i < n_fields; ++i) {
        put_2(bytes, up_to(1) == 0 ? 0xffff : 1 + up_to(100));
      }
    }
    if (is_versioned) {
      const auto n_columns = 1 + up_to(n_fields - 4);
      put_2(bytes, n_columns);
      for (auto i = n_fields - n_columns; i < n_fields; ++i) {
        const auto versions = up_to(3);
        put_2(bytes, i);
        put_2(bytes, i | versions << 14);
        for (uint32_t version = 1; version <= 2; ++version) {
          if ((versions & version) != 0) {
            bytes.push_back(version);
          }
        }
      }
    }

    return bytes;
  }

  /** Append what a record says of DB_ROLL_PTR and DB_TRX_ID. */
  void put_system_columns(Bytes &bytes) {
    put_number(bytes, number(1000));
    put_any(bytes, DATA_ROLL_PTR_LEN);
    put_number(bytes, number(UINT32_MAX));
    put_any(bytes, 4);
  }

  /** @return what follows the description of the index in a record */
  Bytes rest_of(mlog_id_t type) {
    Bytes bytes;

    switch (type) {
      case MLOG_REC_INSERT: {
        const auto n_bytes = number(3000);
        const bool has_more = up_to(1) == 0;
        put_2(bytes, up_to(UNIV_PAGE_SIZE - 1));
        put_number(bytes, n_bytes * 2 + (has_more ? 1 : 0));
        if (has_more) {
          put_any(bytes, 1);
          put_number(bytes, number(UNIV_PAGE_SIZE));
          put_number(bytes, number(UNIV_PAGE_SIZE));
        }
        put_any(bytes, n_bytes);
        break;
      }
      case MLOG_REC_UPDATE_IN_PLACE: {
        const auto n_fields = up_to(9);
        put_any(bytes, 1);
        put_system_columns(bytes);
        put_2(bytes, up_to(UNIV_PAGE_SIZE));
        put_any(bytes, 1);
        put_number(bytes, n_fields);
        for (uint32_t i = 0; i < n_fields; ++i) {
          put_number(bytes, number(REC_MAX_N_FIELDS));
          if (up_to(3) == 0) {
            put_number(bytes, UNIV_SQL_NULL);
          } else {
            const auto n_bytes = up_to(300);
            put_number(bytes, n_bytes);
            put_any(bytes, n_bytes);
          }
        }
        break;
      }
      case MLOG_REC_CLUST_DELETE_MARK:
        put_any(bytes, 2);
        put_system_columns(bytes);
        put_2(bytes, up_to(UNIV_PAGE_SIZE));
        break;
      default:
        put_2(bytes, up_to(UNIV_PAGE_SIZE));
    }

    return bytes;
  }

  /** @return a record, without its type and page number */
  Bytes record(mlog_id_t type) {
    auto bytes = describe();
    const auto rest = rest_of(type);

    bytes.insert(bytes.end(), rest.begin(), rest.end());
    return bytes;
  }

 private:
  /** Where choices come from. */
  std::mt19937 m_random;
};

/** Parse a record as MySQL does.
@param[in]  type     type
@param[in]  ptr      its body
@param[in]  end_ptr  end of the log
@return its end, or nullptr */
static const byte *parse(mlog_id_t type, const byte *ptr, const byte *end_ptr) {
  dict_index_t *index = nullptr;
  ptr = mlog_parse_index(ptr, end_ptr, &index);

  if (ptr != nullptr) {
    switch (type) {
      case MLOG_REC_INSERT:
        ptr = page_cur_parse_insert_rec(false, ptr, end_ptr, nullptr, index,
                                        nullptr);
        break;
      case MLOG_REC_UPDATE_IN_PLACE:
        ptr = btr_cur_parse_update_in_place(ptr, end_ptr, nullptr, nullptr,
                                            index);
        break;
      case MLOG_REC_DELETE:
        ptr = page_cur_parse_delete_rec(ptr, end_ptr, nullptr, index, nullptr);
        break;
      default:
        ptr = btr_cur_parse_del_mark_set_clust_rec(ptr, end_ptr, nullptr,
                                                   nullptr, index);
    }
  }

  if (index != nullptr) {
    const auto table = index->table;
    dict_mem_index_free(index);
    dict_mem_table_free(table);
  }

  return ptr;
}

/** Find the end of a record in memory of its own, so that AddressSanitizer sees
a look at what is not there.
@param[in]  type     type
@param[in]  bytes    body, and what follows
@param[in]  n_bytes  how many of them there are
@return its length, or 0 */
static size_t find(mlog_id_t type, const Bytes &bytes, size_t n_bytes) {
  const auto copy = std::make_unique<byte[]>(n_bytes);
  std::copy_n(bytes.begin(), n_bytes, copy.get());
  const auto end =
      redo_recovery::end_of(type, copy.get(), copy.get() + n_bytes);

  return end == nullptr ? 0 : end - copy.get();
}

class log0redo : public innodb_mtr0index_suite::Suite {
 protected:
  void SetUp() override {
    srv_page_size = UNIV_PAGE_SIZE_ORIG;
    redo_recovery::g_way = static_cast<ulong>(redo_recovery::Way::PARALLEL);
  }
  void TearDown() override { redo_recovery::g_way = m_way; }

  /** As it was. */
  const ulong m_way{redo_recovery::g_way};
};

TEST_F(log0redo, the_end_is_that_of_mysql) {
  for (unsigned seed = 0; seed < 4000; ++seed) {
    Maker maker{seed};
    const auto type = TYPES[seed % std::size(TYPES)];
    auto bytes = maker.record(type);
    const auto n_bytes = bytes.size();
    put_any(bytes, maker.up_to(20));

    const auto end = parse(type, bytes.data(), bytes.data() + bytes.size());
    ASSERT_EQ(bytes.data() + n_bytes, end) << "seed " << seed;
    ASSERT_EQ(n_bytes, find(type, bytes, bytes.size())) << "seed " << seed;
    ASSERT_EQ(n_bytes, find(type, bytes, n_bytes)) << "seed " << seed;
  }
}

TEST_F(log0redo, a_part_of_a_record_has_no_end) {
  for (unsigned seed = 0; seed < 80; ++seed) {
    Maker maker{seed};
    const auto type = TYPES[seed % std::size(TYPES)];
    const auto bytes = maker.record(type);

    for (size_t n_bytes = 0; n_bytes < bytes.size(); ++n_bytes) {
      ASSERT_EQ(0U, find(type, bytes, n_bytes)) << "seed " << seed;
      ASSERT_EQ(nullptr, parse(type, bytes.data(), bytes.data() + n_bytes))
          << "seed " << seed;
    }
  }
}

TEST_F(log0redo, any_bytes_do_no_harm) {
#ifdef UNIV_DEBUG
  GTEST_SKIP()
      << "A debug server ends for numbers that are longer than need be";
#endif /* UNIV_DEBUG */
  size_t n_found = 0;

  for (unsigned seed = 0; seed < 200000; ++seed) {
    Maker maker{seed};
    Bytes bytes{INDEX_LOG_VERSION_CURRENT};

    for (auto n = maker.up_to(60); n > 0; --n) {
      bytes.push_back(maker.up_to(3) == 0 ? maker.up_to(255) : maker.up_to(3));
    }
    const auto n_bytes =
        find(TYPES[seed % std::size(TYPES)], bytes, bytes.size());
    ASSERT_LE(n_bytes, bytes.size());
    n_found += n_bytes > 0 ? 1 : 0;
  }

  EXPECT_GT(n_found, 1000U);
}

TEST_F(log0redo, what_is_unusual_is_left_to_mysql) {
  const Bytes index{INDEX_LOG_VERSION_CURRENT, 0};
  const auto with = [&index](const Bytes &rest) {
    auto bytes = index;
    bytes.insert(bytes.end(), rest.begin(), rest.end());
    put_any(bytes, 64);
    return bytes;
  };
  const auto has_end = [](mlog_id_t type, const Bytes &bytes) {
    return find(type, bytes, bytes.size()) > 0;
  };

  /* Behind the end of the page. */
  for (const auto type : {MLOG_REC_INSERT, MLOG_REC_DELETE}) {
    EXPECT_TRUE(has_end(type, with({0x3f, 0xff, 0})));
    EXPECT_FALSE(has_end(type, with({0x40, 0x01, 0})));
  }
  EXPECT_TRUE(has_end(MLOG_REC_DELETE, with({0x40, 0x00})));
  EXPECT_FALSE(has_end(MLOG_REC_INSERT, with({0x40, 0x00, 0})));

  /* Longer than a page. */
  Bytes insert{0, 0};
  put_number(insert, UNIV_PAGE_SIZE * 2);
  put_any(insert, UNIV_PAGE_SIZE);
  EXPECT_FALSE(has_end(MLOG_REC_INSERT, with(insert)));

  /* The number of a virtual column. */
  for (const uint32_t field : {REC_MAX_N_FIELDS - 1, REC_MAX_N_FIELDS}) {
    Bytes update{0, 0, 1, 2, 3, 4, 5, 6, 7, 0, 0, 0, 0, 0, 0, 0, 0, 1};
    put_number(update, field);
    put_number(update, 3);
    EXPECT_EQ(field < REC_MAX_N_FIELDS,
              has_end(MLOG_REC_UPDATE_IN_PLACE, with(update)));
  }

  /* Another format of the description, other records, no record. */
  Bytes bytes = with({0, 0, 0, 0});
  EXPECT_TRUE(has_end(MLOG_REC_INSERT, bytes));
  EXPECT_FALSE(has_end(MLOG_WRITE_STRING, bytes));
  EXPECT_FALSE(has_end(MLOG_PAGE_REORGANIZE, bytes));
  EXPECT_FALSE(has_end(MLOG_FILE_DELETE, bytes));
  bytes[0] = INDEX_LOG_VERSION_CURRENT + 1;
  EXPECT_FALSE(has_end(MLOG_REC_INSERT, bytes));
  EXPECT_EQ(nullptr,
            redo_recovery::end_of(MLOG_REC_INSERT, nullptr, bytes.data()));

  redo_recovery::g_way = static_cast<ulong>(redo_recovery::Way::STOCK);
  EXPECT_FALSE(has_end(MLOG_REC_INSERT, with({0, 0, 0, 0})));
}

}  // namespace innodb_log0redo_unittest
