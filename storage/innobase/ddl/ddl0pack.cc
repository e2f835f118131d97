/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file ddl/ddl0pack.cc
Rows of a sort buffer in the form in which they go into a run. */

#include "ddl0pack.h"

#include "ddl0impl-buffer.h"
#include "rem0rec.h"

namespace ddl::kway {

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
  /* The number of bytes before the origin, and one more. */
  const auto extra = n_extra + 1;
  const size_t n_prefix = extra < 0x80 ? 1 : 2;
  const auto key = m_sort_key->of([&](size_t n, ulint &len) {
    len = dfield_get_len(&fields[n]);
    return static_cast<const byte *>(dfield_get_data(&fields[n]));
  });
  const auto row = add(key, n_prefix + size);

  ut_ad(n_prefix + size == n_bytes);

  ut_a(extra < 0x8000);

  if (n_prefix == 1) {
    row[0] = static_cast<byte>(extra);
  } else {
    row[0] = static_cast<byte>(0x80 | extra >> 8);
    row[1] = static_cast<byte>(extra);
  }
  rec_serialize_dtuple(row + n_prefix + n_extra, m_index, fields, n_fields,
                       nullptr, MAX_ROW_VERSION);

  place = reinterpret_cast<dfield_t *>(row);
  ++buffer.m_n_tuples;
  grow(buffer.m_dtuples);

  /* The columns point to what the scan has read, and nobody needs them now. */
  mem_heap_empty(buffer.m_heap);
  buffer.m_total_size = 0;

  return true;
}

dberr_t Packed_rows::write(
    std::pair<byte *, size_t> io_buffer,
    const std::function<dberr_t(std::pair<byte *, size_t>)> &persist) const {
  Packed_run run(io_buffer, persist);

  for (const auto &row : m_batch.m_rows) {
    if (const auto err = run.add(row.m_row); err != DB_SUCCESS) {
      return err;
    }
  }

  return run.finish();
}

}  // namespace ddl::kway
