/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file include/btr0rows.h
Rows of an index build that are copied to the pages of the index.

The temporary files of an index build have rows in the format of COMPACT and
DYNAMIC pages, without the five bytes which say where a record is in its page.
The original code takes each apart, makes a record of the columns, and copies
that to the page. Here the row itself is copied. */

#ifndef btr0rows_h
#define btr0rows_h

#include <cstddef>

#include "db0err.h"
#include "dict0types.h"
#include "rem0types.h"
#include "univ.i"

class Btree_load;
class Page_load;

/** A row as temporary files have it. */
struct Btree_row {
  /** Lengths of columns, and which of them are NULL. */
  const byte *m_head;

  /** Bytes of that. */
  size_t m_n_head;

  /** The columns. */
  const byte *m_data;

  /** Bytes of them. */
  size_t m_n_data;
};

/** Appends rows to an index. */
class Btree_rows {
 public:
  /** Constructor.
  @param[in,out]  load   builds the index
  @param[in]      index  the index */
  Btree_rows(Btree_load *load, const dict_index_t *index);

  /** @return whether a row can be appended by this. The first one of an index,
  and those that may be too large, are left to Btree_load, as are all of indexes
  whose pages have another format.
  @param[in]  row  the row; none of its columns is stored externally */
  [[nodiscard]] bool takes(const Btree_row &row) const;

  /** Append a row.
  @param[in]  row  the row, for which takes() is true
  @return DB_SUCCESS, or error code of Btree_load */
  [[nodiscard]] dberr_t append(const Btree_row &row);

 private:
  /** @return bytes of a row in its page
  @param[in]  row  the row */
  [[nodiscard]] static size_t n_bytes(const Btree_row &row);

#ifdef UNIV_DEBUG
  /** @return whether a record is what its index wants, and behind the last one
  @param[in]  page     page
  @param[in]  rec      record in it
  @param[in]  n_bytes  its size */
  [[nodiscard]] bool is_valid(const Page_load &page, const rec_t *rec,
                              size_t n_bytes) const;
#endif /* UNIV_DEBUG */

  /** Builds the index. */
  Btree_load *m_load;

  /** The index. */
  const dict_index_t *m_index;

  /** Whether its pages have the format of the rows. */
  bool m_is_same_format;
};

#endif /* btr0rows_h */
