/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file ddl/ddl0key.cc
The beginning of a row as a number that sorts as the row does.

The order of an index is that of cmp_data_data(), and a key must not contradict
it for any bytes, or the index is corrupt. So only those types and collations
have keys whose order is that of bytes which are easily made:

- integers, DECIMAL, dates and others that InnoDB stores so that they sort as
  bytes;
- binary strings without padding;
- strings of one byte a character, and those of collations without padding
  (utf8mb4_0900_*). The weights that these give to strings which are not valid
  are those with which they compare them. Older collations of several bytes a
  character compare what is not valid as bytes, but give no weights for it.

Floating-point numbers, the old DECIMAL and geometry end the key. */

#include "ddl0key.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "data0type.h"
#include "dict0dict.h"
#include "dict0mem.h"
#include "my_sys.h"
#include "mysql/strings/m_ctype.h"
#include "mysql_com.h"

namespace ddl::kway {

/** @return the collation of a column of strings, nullptr if its strings cannot
be part of a key
@param[in]  mtype   main type
@param[in]  prtype  precise type */
static const CHARSET_INFO *charset_of(ulint mtype, ulint prtype) {
  const CHARSET_INFO *charset = nullptr;

  switch (mtype) {
    case DATA_VARCHAR:
    case DATA_CHAR:
      charset = &my_charset_latin1;
      break;
    case DATA_BLOB:
      if (prtype & DATA_BINARY_TYPE) {
        return nullptr;
      }
      [[fallthrough]];
    case DATA_VARMYSQL:
    case DATA_MYSQL:
      charset = get_charset(dtype_get_charset_coll(prtype), MYF(0));
      break;
    default:
      return nullptr;
  }

  if (charset == nullptr || charset->pad_attribute == NO_PAD) {
    return charset;
  }
  return charset->mbmaxlen == 1 && !use_strnxfrm(charset) ? charset : nullptr;
}

/** @return whether the values of a column are sorted as bytes, and a value that
is the beginning of another one comes before it
@param[in]  mtype     main type
@param[in]  prtype    precise type
@param[in]  is_fixed  whether all values have the same length */
static bool sorts_as_bytes(ulint mtype, ulint prtype, bool is_fixed) {
  switch (mtype) {
    case DATA_INT:
    case DATA_SYS:
    case DATA_SYS_CHILD:
      return true;
    case DATA_FIXBINARY:
      /* DECIMAL and most dates have a character set, in which shorter values
      would be padded; there are none. */
      if (is_fixed) {
        return true;
      }
      [[fallthrough]];
    case DATA_BINARY:
      return dtype_get_charset_coll(prtype) == DATA_MYSQL_BINARY_CHARSET_COLL;
    case DATA_BLOB:
      return prtype & DATA_BINARY_TYPE;
    default:
      return false;
  }
}

Sort_key::Sort_key(const dict_index_t *index) {
  const auto n = dict_index_get_n_unique(index);

  for (size_t i = 0; i < n; ++i) {
    const auto field = index->get_field(i);
    const auto col = index->get_col(i);

    if (!add(col->mtype, col->prtype, field->fixed_len, field->is_ascending)) {
      break;
    }
  }
}

bool Sort_key::add(ulint mtype, ulint prtype, size_t fixed_bytes,
                   bool is_ascending) {
  const auto charset = charset_of(mtype, prtype);
  const auto is_bytes = sorts_as_bytes(mtype, prtype, fixed_bytes > 0);

  if (m_n_bytes >= BYTES || (charset == nullptr && !is_bytes)) {
    return false;
  }

  auto &column = m_columns[m_n_columns++];
  column.m_charset = charset;
  column.m_n_bytes =
      is_bytes && fixed_bytes > 0 && fixed_bytes < BYTES ? fixed_bytes : BYTES;
  column.m_is_nullable = !(prtype & DATA_NOT_NULL);
  column.m_is_ascending = is_ascending;
  column.m_strips_spaces = charset != nullptr &&
                           charset->pad_attribute == NO_PAD &&
                           (prtype & DATA_MYSQL_TYPE_MASK) == MYSQL_TYPE_STRING;

  m_n_bytes += column.m_n_bytes + (column.m_is_nullable ? 1 : 0);

  if (!is_bytes || fixed_bytes != column.m_n_bytes) {
    return false;
  }

  /* The last column may be cut off by the end of the key. */
  if (m_n_bytes <= BYTES) {
    ++m_n_whole;
  }
  return m_n_bytes < BYTES;
}

void Sort_key::weights(const Column &column, const byte *value, size_t len,
                       byte *to) {
  const auto charset = column.m_charset;

  if (column.m_strips_spaces) {
    len = charset->cset->lengthsp(charset,
                                  reinterpret_cast<const char *>(value), len);
  }

  /* A collation that pads with spaces gives the weight of a space to what is
  missing, which is not that of the byte with which strnxfrm() would pad. */
  byte padded[BYTES];
  if (charset->pad_attribute == PAD_SPACE) {
    len = std::min(len, BYTES);
    memcpy(padded, value, len);
    memset(padded + len, ' ', BYTES - len);
    value = padded;
    len = BYTES;
  }

  charset->coll->strnxfrm(charset, to, column.m_n_bytes,
                          static_cast<unsigned>(column.m_n_bytes), value, len,
                          MY_STRXFRM_PAD_TO_MAXLEN);
}

}  // namespace ddl::kway
