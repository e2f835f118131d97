/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** Unit tests of ddl0key: no key contradicts the order of an index, for any
type, collation and bytes, and keys tell most rows apart.

DDL0KEY_SEEDS in the environment is the number of seeds; the default is 2. */

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "my_sys.h"
#include "mysql/strings/m_ctype.h"
#include "mysql_com.h"
#include "storage/innobase/include/data0type.h"
#include "storage/innobase/include/ddl0key.h"
#include "storage/innobase/include/rem0cmp.h"

namespace innodb_ddl0key_unittest {

using ddl::kway::Sort_key;

/** A column of an index. */
struct Column {
  ulint m_mtype;
  ulint m_prtype;
  size_t m_fixed_bytes;
  bool m_is_ascending;
};

/** A value; none is NULL. */
using Value = std::optional<std::string>;
using Row = std::vector<Value>;

static size_t n_seeds() {
  const auto value = getenv("DDL0KEY_SEEDS");
  return value == nullptr ? 2 : strtoul(value, nullptr, 10);
}

static uint64_t key_of(const Sort_key &key, const Row &row) {
  return key.of([&](size_t n, ulint &len) {
    len = row[n] ? row[n]->size() : UNIV_SQL_NULL;
    return row[n] ? reinterpret_cast<const byte *>(row[n]->data()) : nullptr;
  });
}

/** Compare two rows as an index does. */
static int compare(const std::vector<Column> &columns, const Row &a,
                   const Row &b, size_t begin = 0) {
  for (size_t n = begin; n < columns.size(); ++n) {
    const auto data = [&](const Row &row) {
      return row[n] ? reinterpret_cast<const byte *>(row[n]->data()) : nullptr;
    };
    const auto len = [&](const Row &row) {
      return row[n] ? row[n]->size() : ulint{UNIV_SQL_NULL};
    };
    const auto cmp = cmp_data_data(columns[n].m_mtype, columns[n].m_prtype,
                                   columns[n].m_is_ascending, data(a), len(a),
                                   data(b), len(b));
    if (cmp != 0) {
      return cmp;
    }
  }
  return 0;
}

/** Make a key; columns that it has no room for are passed over. */
static Sort_key make_key(const std::vector<Column> &columns) {
  Sort_key key;
  for (const auto &column : columns) {
    if (!key.add(column.m_mtype, column.m_prtype, column.m_fixed_bytes,
                 column.m_is_ascending)) {
      break;
    }
  }
  return key;
}

/** Values that are hard to sort. */
class Random {
 public:
  explicit Random(uint64_t seed) : m_engine(seed) {}

  size_t below(size_t n) {
    return std::uniform_int_distribution<size_t>(0, n - 1)(m_engine);
  }

  bool one_in(size_t n) { return below(n) == 0; }

  /** Bytes, many of them the least, the greatest or a space. */
  std::string bytes(size_t n) {
    std::string value(n, '\0');
    for (auto &c : value) {
      constexpr unsigned char edges[] = {0, 0xff, 0x20, 0x80, 0x7f, 1};
      c = static_cast<char>(one_in(2) ? edges[below(sizeof edges)]
                                      : below(256));
    }
    return value;
  }

  /** A string of a collation; now and then it is not valid. */
  std::string text(const CHARSET_INFO *charset, size_t n_chars) {
    /* Latin, marks, ignorable ones, contractions and expansions of many
    languages, scripts that are reordered, ideographs, private use. */
    constexpr my_wc_t first[] = {
        ' ',    'a',    'A',    'c',    '0',    '!',     0xdf,   0xe0,   0x300,
        0x1c4,  0x430,  0x5d0,  0x627,  0xe40,  0x200b,  0x1100, 0x3042, 0x30a2,
        0x4e00, 0xac00, 0xe000, 0xfdfa, 0xfffe, 0x1f600, 0x20000};
    std::string value;
    for (size_t i = 0; i < n_chars; ++i) {
      uint8_t c[8];
      const auto wc =
          first[below(std::size(first))] + below(one_in(2) ? 4 : 26);
      const auto n = charset->cset->wc_mb(charset, wc, c, c + sizeof c);
      value += n > 0 && !one_in(60)
                   ? std::string(reinterpret_cast<char *>(c), n)
                   : bytes(charset->mbminlen);
    }
    return value;
  }

  /** A value of a column, often the beginning of the one before. */
  Value value(const Column &column, const Value &before) {
    if (!(column.m_prtype & DATA_NOT_NULL) && one_in(8)) {
      return {};
    }
    if (column.m_fixed_bytes > 0) {
      auto value = bytes(column.m_fixed_bytes);
      if (before && one_in(2)) {
        const auto n = below(value.size() + 1);
        value.replace(0, n, *before, 0, n);
      }
      if (column.m_mtype == DATA_DOUBLE) {
        const double number = static_cast<double>(below(5)) - 2;
        memcpy(value.data(), &number, sizeof number);
      }
      return value;
    }

    const auto charset =
        get_charset(dtype_get_charset_coll(column.m_prtype), 0);
    const auto is_text =
        column.m_mtype == DATA_VARMYSQL || column.m_mtype == DATA_MYSQL;
    std::string value;
    if (before && !one_in(4)) {
      value = before->substr(0, below(before->size() + 1));
    }
    value += is_text ? text(charset, below(6)) : bytes(below(12));
    return value;
  }

 private:
  std::mt19937_64 m_engine;
};

/** What keys did. */
struct Counts {
  size_t m_n_pairs{};
  size_t m_n_different{};
  size_t m_n_told{};
};

/** Compare random rows, each with the one before. */
static void check_pairs(const std::vector<Column> &columns, Random &random,
                        size_t n_pairs, Counts &counts) {
  const auto key = make_key(columns);
  Row before(columns.size());

  for (size_t i = 0; i < n_pairs; ++i) {
    Row row;
    for (size_t n = 0; n < columns.size(); ++n) {
      row.push_back(random.one_in(3) && (before[n] ||
                                         !(columns[n].m_prtype & DATA_NOT_NULL))
                        ? before[n]
                        : random.value(columns[n], before[n]));
    }

    const auto is_first = i == 0;
    if (is_first) {
      before = row;
    }

    const auto cmp = compare(columns, before, row);
    const auto a = key_of(key, before);
    const auto b = key_of(key, row);

    ++counts.m_n_pairs;
    counts.m_n_different += cmp != 0;
    counts.m_n_told += a != b;

    if (a != b) {
      ASSERT_EQ(a < b, cmp < 0) << a << " " << b << " " << cmp;
      ASSERT_NE(0, cmp) << a << " " << b;
    } else {
      /* Columns that are in the key as a whole need not be compared. */
      ASSERT_EQ(cmp, compare(columns, before, row, key.n_whole()));
    }
    before = row;
  }
}

static Column text_column(unsigned collation, bool is_char, bool is_nullable,
                          bool is_ascending) {
  const ulint type = (is_char ? MYSQL_TYPE_STRING : MYSQL_TYPE_VARCHAR) |
                     (is_nullable ? 0 : DATA_NOT_NULL);
  return {is_char ? ulint{DATA_MYSQL} : ulint{DATA_VARMYSQL},
          dtype_form_prtype(type, collation), 0, is_ascending};
}

/* Every collation of the server, strings that are valid and that are not. */
TEST(ddl0key, collations) {
  size_t n_with_key = 0;
  size_t n_0900 = 0;
  size_t n_without = 0;
  Counts counts;

  for (size_t seed = 1; seed <= n_seeds(); ++seed) {
    for (unsigned id = 1; id < 1024; ++id) {
      const auto charset = get_charset(id, 0);
      if (charset == nullptr) {
        continue;
      }

      const std::string name = charset->m_coll_name;
      const auto has_key =
          !make_key({text_column(id, false, true, true)}).is_empty();

      SCOPED_TRACE(name);
      if (seed == 1) {
        n_with_key += has_key;
        n_without += !has_key;
        n_0900 += has_key && name.find("_0900_") != std::string::npos;
        EXPECT_TRUE(has_key || name.find("_0900_") == std::string::npos);
        EXPECT_TRUE(has_key || charset->mbmaxlen > 1 ||
                    (charset->state & MY_CS_STRNXFRM));
      }

      Random random(seed * 1024 + id);
      for (const auto is_char : {false, true}) {
        for (const auto is_nullable : {false, true}) {
          for (const auto is_ascending : {false, true}) {
            Counts own;
            check_pairs({text_column(id, is_char, is_nullable, is_ascending)},
                        random, 1500, own);
            if (HasFatalFailure()) {
              return;
            }
            if (has_key) {
              counts.m_n_pairs += own.m_n_pairs;
              counts.m_n_different += own.m_n_different;
              counts.m_n_told += own.m_n_told;
              EXPECT_GT(own.m_n_told, own.m_n_different / 4);
            } else {
              EXPECT_EQ(0U, own.m_n_told);
            }
          }
        }
      }
    }
  }

  std::cout << n_with_key << " collations have keys, " << n_0900
            << " of them 0900; " << n_without << " have none. "
            << counts.m_n_pairs << " pairs, " << counts.m_n_different
            << " different, " << counts.m_n_told << " told apart by keys\n";
  EXPECT_GT(n_0900, 50U);
  EXPECT_GT(n_with_key, n_0900 + 50U);
  EXPECT_GT(n_without, 50U);
}

static const Column types[] = {
    {DATA_INT, DATA_NOT_NULL, 1, true},
    {DATA_INT, 0, 2, true},
    {DATA_INT, DATA_NOT_NULL, 3, false},
    {DATA_INT, DATA_NOT_NULL, 4, true},
    {DATA_INT, 0, 4, false},
    {DATA_INT, DATA_NOT_NULL, 8, true},
    {DATA_INT, 0, 8, false},
    {DATA_SYS, DATA_NOT_NULL, 6, true},
    {DATA_FIXBINARY, DATA_NOT_NULL | (63U << 16), 5, true},
    {DATA_FIXBINARY, 63U << 16, 16, false},
    {DATA_FIXBINARY, DATA_NOT_NULL | (8U << 16), 5, true},
    {DATA_BINARY, DATA_NOT_NULL | (63U << 16), 0, true},
    {DATA_BINARY, 63U << 16, 0, false},
    {DATA_BLOB, DATA_BINARY_TYPE | (63U << 16), 0, true},
    {DATA_DOUBLE, 0, 8, true},
    {DATA_VARMYSQL, MYSQL_TYPE_VARCHAR | (255U << 16), 0, true},
    {DATA_VARMYSQL, MYSQL_TYPE_VARCHAR | (45U << 16), 0, true},
    {DATA_MYSQL, MYSQL_TYPE_STRING | DATA_NOT_NULL | (255U << 16), 0, false},
    {DATA_MYSQL, MYSQL_TYPE_STRING | DATA_NOT_NULL | (8U << 16), 0, true}};

/* Indexes of several columns of random types. */
TEST(ddl0key, columns) {
  Counts counts;
  size_t n_whole = 0;

  for (size_t seed = 1; seed <= n_seeds() * 150; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    std::vector<Column> columns(1 + random.below(4));
    for (auto &column : columns) {
      column = types[random.below(std::size(types))];
    }
    n_whole += make_key(columns).n_whole();
    check_pairs(columns, random, 4000, counts);
    if (HasFatalFailure()) {
      return;
    }
  }

  std::cout << counts.m_n_pairs << " pairs, " << counts.m_n_different
            << " different, " << counts.m_n_told << " told apart by keys; "
            << n_whole << " columns are in keys as a whole\n";
  EXPECT_GT(counts.m_n_told, counts.m_n_different / 2);
  EXPECT_GT(n_whole, n_seeds() * 20);
}

/* The order of a million rows is that of a sort without keys. */
TEST(ddl0key, sort) {
  for (size_t seed = 1; seed <= n_seeds(); ++seed) {
    Random random(seed);
    const std::vector<Column> columns{types[random.below(std::size(types))],
                                      types[3]};
    const auto key = make_key(columns);
    std::vector<Row> rows(n_seeds() > 2 ? 1000000 : 100000);

    for (size_t i = 0; i < rows.size(); ++i) {
      const auto number = static_cast<uint32_t>(random.below(UINT32_MAX));
      rows[i] = {random.value(columns[0], i > 0 ? rows[i - 1][0] : Value{}),
                 std::string(reinterpret_cast<const char *>(&number), 4)};
    }

    auto expected = rows;
    std::stable_sort(
        expected.begin(), expected.end(),
        [&](const Row &a, const Row &b) { return compare(columns, a, b) < 0; });
    std::stable_sort(rows.begin(), rows.end(), [&](const Row &a, const Row &b) {
      const auto a_key = key_of(key, a);
      const auto b_key = key_of(key, b);
      return a_key != b_key ? a_key < b_key : compare(columns, a, b) < 0;
    });
    EXPECT_TRUE(rows == expected) << seed;
  }
}

TEST(ddl0key, examples) {
  const Column number{DATA_INT, DATA_NOT_NULL, 4, true};
  const auto pair = make_key({number, number});
  EXPECT_EQ(2U, pair.n_whole());
  EXPECT_EQ(0x0000000100000002U, key_of(pair, {std::string("\0\0\0\1", 4),
                                               std::string("\0\0\0\2", 4)}));

  /* NULL comes first, last in descending order. */
  const auto nullable = make_key({{DATA_INT, 0, 4, true}});
  EXPECT_EQ(1U, nullable.n_whole());
  EXPECT_EQ(0U, key_of(nullable, {{}}));
  EXPECT_EQ(0x0100000001000000U,
            key_of(nullable, {std::string("\0\0\0\1", 4)}));
  const auto descending = make_key({{DATA_INT, 0, 4, false}});
  EXPECT_LT(key_of(descending, {std::string(4, '\xff')}),
            key_of(descending, {{}}));

  /* A byte for NULL leaves no room for all of a BIGINT. */
  EXPECT_EQ(0U, make_key({{DATA_INT, 0, 8, true}}).n_whole());
  EXPECT_EQ(1U, make_key({{DATA_INT, DATA_NOT_NULL, 8, true}}).n_whole());

  /* Nothing follows a string, whose length varies. */
  Sort_key text;
  EXPECT_FALSE(
      text.add(DATA_VARMYSQL, MYSQL_TYPE_VARCHAR | (255U << 16), 0, true));
  EXPECT_FALSE(text.is_empty());
  EXPECT_EQ(0U, text.n_whole());

  /* DECIMAL and most dates have a character set, and one length. */
  EXPECT_FALSE(make_key({types[10]}).is_empty());
  EXPECT_EQ(1U, make_key({types[10]}).n_whole());

  /* In latin7_general_ci a space is not the least weight. */
  const auto latin7 = text_column(41, false, false, true);
  EXPECT_EQ(key_of(make_key({latin7}), {"a "}),
            key_of(make_key({latin7}), {"a"}));
  EXPECT_LT(key_of(make_key({latin7}), {"a-"}),
            key_of(make_key({latin7}), {"a"}));

  /* No keys: floating point, utf8mb4_general_ci. */
  EXPECT_TRUE(make_key({{DATA_DOUBLE, 0, 8, true}}).is_empty());
  EXPECT_TRUE(make_key({text_column(45, false, true, true)}).is_empty());
}

}  // namespace innodb_ddl0key_unittest
