/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file ddl/ddl0pack.cc
Rows of a sort buffer in the form in which they go into a run. */

#include "ddl0pack.h"

#include <numeric>

#include "ddl0impl-buffer.h"
#include "rem0rec.h"

namespace ddl::kway {

/** @return bytes that say how many bytes there are before the values of a row
@param[in]  n_extra  how many */
static size_t prefix_bytes(size_t n_extra) {
  return n_extra + 1 < 0x80 ? 1 : 2;
}

/** Write these bytes.
@param[out]  to       first byte
@param[in]   n_extra  bytes before the values
@return byte after them */
static byte *write_prefix(byte *to, size_t n_extra) {
  const auto extra = n_extra + 1;

  ut_a(extra < 0x8000);
  if (prefix_bytes(n_extra) == 2) {
    *to++ = static_cast<byte>(0x80 | extra >> 8);
  }
  *to++ = static_cast<byte>(extra);
  return to;
}

Record_columns::Record_columns(const dict_index_t *index) {
  const auto clustered = index->table->first_index();

  if (!dict_table_is_comp(index->table) || index->is_multi_value() ||
      clustered->has_instant_cols_or_row_versions()) {
    return;
  }

  const size_t n_fields = dict_index_get_n_fields(index);

  /* With a cache line behind them that nobody uses. */
  m_columns.reserve(n_fields + alignof(Record_columns) / sizeof(Column));
  for (size_t n = 0; n < n_fields; ++n) {
    const auto field = index->get_field(n);
    const auto col = field->col;
    const auto number = col->is_virtual()
                            ? ULINT_UNDEFINED
                            : clustered->get_col_pos(dict_col_get_no(col));

    if (number == ULINT_UNDEFINED || field->prefix_len > 0) {
      m_columns.clear();
      return;
    }
    m_columns.push_back({number, !(col->prtype & DATA_NOT_NULL),
                         field->fixed_len > 0, DATA_BIG_COL(col), nullptr, 0});
  }
  m_n_null_bytes = UT_BITS_IN_BYTES(index->n_nullable);
}

size_t Record_columns::take(const rec_t *rec, const ulint *offsets) {
  size_t n_data = 0;

  m_n_extra = m_n_null_bytes;

  for (auto &column : m_columns) {
    column.m_data = rec_get_nth_field(nullptr, rec, offsets, column.m_number,
                                      &column.m_len);

    if (column.m_len != UNIV_SQL_NULL) {
      m_n_extra += length_bytes(column);
      n_data += column.m_len;
    }
  }
  return prefix_bytes(m_n_extra) + m_n_extra + n_data;
}

void Record_columns::write(byte *to) const {
  auto data = write_prefix(to, m_n_extra) + m_n_extra;
  /* Both go down from the values, the second from the end of the first. */
  auto nulls = data - 1;
  auto lengths = nulls - m_n_null_bytes;
  size_t n_nullable = 0;

  memset(lengths + 1, 0, m_n_null_bytes);

  for (const auto &column : m_columns) {
    if (column.m_is_nullable) {
      if (column.m_len == UNIV_SQL_NULL) {
        nulls[-static_cast<ptrdiff_t>(n_nullable / 8)] |= 1 << n_nullable % 8;
      }
      ++n_nullable;
    }
    if (column.m_len == UNIV_SQL_NULL) {
      ut_ad(column.m_is_nullable);
      continue;
    }
    switch (length_bytes(column)) {
      case 2:
        *lengths-- = static_cast<byte>(0x80 | column.m_len >> 8);
        [[fallthrough]];
      case 1:
        *lengths-- = static_cast<byte>(column.m_len);
    }
    memcpy(data, column.m_data, column.m_len);
    data += column.m_len;
  }
  DBUG_EXECUTE_IF("ddl_record_row_differs", data[-1] ^= 1;);
}

void Packed_rows::add(Key_sort_buffer &buffer, const Record_columns &columns,
                      size_t n_bytes) {
  const auto key =
      m_sort_key->of([&](size_t n, ulint &len) { return columns.get(n, len); });
  const auto row = add(key, n_bytes);

  ut_ad(buffer.m_dtuples.size() == buffer.m_n_tuples);
  columns.write(row);
  grow(buffer.m_dtuples);
  buffer.m_dtuples.push_back(reinterpret_cast<dfield_t *>(row));
  ++buffer.m_n_tuples;
}

bool Packed_rows::add(Key_sort_buffer &buffer, size_t n_fields,
                      size_t n_bytes [[maybe_unused]]) {
  if (!is_on()) {
    return false;
  }

  auto &place = buffer.m_dtuples[buffer.m_n_tuples];
  const auto fields = place;
  ulint n_extra;
  const auto size = rec_get_serialize_size(m_index, fields, n_fields, nullptr,
                                           &n_extra, MAX_ROW_VERSION);
  const auto n_prefix = prefix_bytes(n_extra);
  const auto key = m_sort_key->of([&](size_t n, ulint &len) {
    len = dfield_get_len(&fields[n]);
    return static_cast<const byte *>(dfield_get_data(&fields[n]));
  });
  const auto row = add(key, n_prefix + size);

  ut_ad(n_prefix + size == n_bytes);

  rec_serialize_dtuple(write_prefix(row, n_extra) + n_extra, m_index, fields,
                       n_fields, nullptr, MAX_ROW_VERSION);

  place = reinterpret_cast<dfield_t *>(row);
  ++buffer.m_n_tuples;
  grow(buffer.m_dtuples);

  /* The columns point to what the scan has read, and nobody needs them now. */
  mem_heap_empty(buffer.m_heap);
  buffer.m_total_size = 0;

  return true;
}

Memory_run Packed_rows::take_run() {
  Memory_run run;

  DBUG_EXECUTE_IF("ddl_batch_oom", throw std::bad_alloc(););
  run.reserve(std::accumulate(
      m_rows.begin(), m_rows.end(), size_t{1},
      [](size_t n, const auto &row) { return n + row_bytes(row.m_row); }));
  for (const auto &row : m_rows) {
    run.insert(run.end(), row.m_row, row.m_row + row_bytes(row.m_row));
  }
  run.push_back(0);
  clear();
  return run;
}

dberr_t Packed_rows::write(
    std::pair<byte *, size_t> io_buffer,
    const std::function<dberr_t(std::pair<byte *, size_t>)> &persist) const {
  Packed_run run(io_buffer, persist);

  for (const auto &row : m_rows) {
    if (const auto err = run.add(row.m_row, row_bytes(row.m_row));
        err != DB_SUCCESS) {
      return err;
    }
  }

  return run.finish();
}

}  // namespace ddl::kway
