/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file include/ddl0key.h
The beginning of a row as a number that sorts as the row does.

Most rows of an index differ in their first bytes. A comparison of two integers
tells them apart; one of rows goes through columns, types and collations. */

#ifndef ddl0key_h
#define ddl0key_h

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "univ.i"

struct CHARSET_INFO;
struct dict_index_t;

namespace ddl::kway {

/** How to make the sort keys of the rows of an index. A row whose key is less
comes first; rows with the same key have to be compared. */
class Sort_key {
 public:
  /** Constructor of one that does not tell any rows apart. */
  Sort_key() = default;

  /** Constructor.
  @param[in]  index  index; of a unique one only the columns that are unique
                     count, so that duplicates have the same key */
  explicit Sort_key(const dict_index_t *index);

  /** Add the next column of an index, if its values can be part of a key and
  there is room.
  @param[in]  mtype         main type
  @param[in]  prtype        precise type
  @param[in]  fixed_bytes   length of all values; 0 = it is not fixed
  @param[in]  is_ascending  whether the column is in ascending order
  @return whether the column after it may be added, too */
  bool add(ulint mtype, ulint prtype, size_t fixed_bytes, bool is_ascending);

  /** @return whether all rows have the same key */
  [[nodiscard]] bool is_empty() const { return m_n_columns == 0; }

  /** @return columns that are in the key as a whole, or not at all NULL; rows
  with the same key are equal in them */
  [[nodiscard]] size_t n_whole() const { return m_n_whole; }

  /** Make the key of a row.
  @tparam Get  const byte *operator()(size_t n, ulint &len), which gives the
               value of a column, and its length or UNIV_SQL_NULL
  @param[in]  get  gives the values
  @return the key */
  template <typename Get>
  [[nodiscard]] uint64_t of(Get get) const {
    std::array<byte, ROOM> bytes{};
    size_t end = 0;

    for (size_t n = 0; n < m_n_columns; ++n) {
      const auto &column = m_columns[n];
      const auto begin = end;
      ulint len;
      const byte *value = get(n, len);

      if (column.m_is_nullable) {
        bytes[end++] = len == UNIV_SQL_NULL ? 0 : 1;
      }
      if (len != UNIV_SQL_NULL) {
        if (column.m_charset == nullptr) {
          memcpy(&bytes[end], value, std::min<size_t>(len, column.m_n_bytes));
        } else {
          weights(column, value, len, &bytes[end]);
        }
      }
      end += column.m_n_bytes;

      if (!column.m_is_ascending) {
        for (auto i = begin; i < end; ++i) {
          bytes[i] = ~bytes[i];
        }
      }
    }

    uint64_t key = 0;
    for (size_t i = 0; i < BYTES; ++i) {
      key = key << 8 | bytes[i];
    }
    return key;
  }

 private:
  /** Size of a key. */
  static constexpr size_t BYTES = sizeof(uint64_t);

  /** Bytes that are made: the last column may begin at the last byte of the key
  and takes a byte for NULL and all of its own. */
  static constexpr size_t ROOM = 2 * BYTES + 1;

  /** A column in the key. */
  struct Column {
    /** Collation of a string; nullptr if the values are sorted as bytes. */
    const CHARSET_INFO *m_charset;

    /** Bytes that a value takes, without the one for NULL; even for a string,
    whose weights have two. */
    size_t m_n_bytes;

    /** Whether values may be NULL, which comes first. */
    bool m_is_nullable;

    /** Whether the least value comes first. */
    bool m_is_ascending;

    /** Whether spaces at the end of a string do not count, although they do in
    its collation. */
    bool m_strips_spaces;
  };

  /** Write the first weights of a string.
  @param[in]  column  column
  @param[in]  value   string
  @param[in]  len     its length in bytes
  @param[out] to      where m_n_bytes of the column go */
  static void weights(const Column &column, const byte *value, size_t len,
                      byte *to);

  /** Columns in the key. */
  std::array<Column, BYTES> m_columns{};

  /** Number of columns in the key. */
  size_t m_n_columns{};

  /** Number of columns that are in the key as a whole. */
  size_t m_n_whole{};

  /** Bytes of these columns. */
  size_t m_n_bytes{};
};

}  // namespace ddl::kway

#endif /* ddl0key_h */
