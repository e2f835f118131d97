/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file include/buf0run.h
Read a run of adjacent pages into the buffer pool with few large reads.

buf/buf0run.cc has the design. */

#ifndef buf0run_h
#define buf0run_h

#include <cstddef>
#include <functional>

#include "fil0fil.h"
#include "univ.i"

namespace buf_run {

/** Most pages that one call reads; no more fit into one vectored read. */
constexpr page_no_t MAX_PAGES = 1024;

/** Most pages that a call should read at a time, so that runs stay a small part
of the buffer pool.
@param[in]  pool_pages  size of a buffer pool instance in pages
@return number of pages, at least 1 */
[[nodiscard]] page_no_t max_pages(size_t pool_pages);

/** What a call has read. */
struct Result {
  /** Pages that were brought into the buffer pool. */
  size_t n_pages{0};
  /** Read calls that it took. */
  size_t n_reads{0};
  /** False if the tablespace is not there, cannot be read in this way, or is
  being dropped, or if a read failed: it is better not to try again. */
  bool success{false};
};

/** Called for each page that was read, before others can see it.
@param[in]  page_no  page number
@param[in]  frame    its contents; nullptr if it could not be read or is corrupt
and was not kept */
using On_page = std::function<void(page_no_t page_no, const byte *frame)>;

/** Read pages of an undo tablespace, as many as are not in the buffer pool.
Returns when they are in the buffer pool. The caller may hold latches on other
pages of the tablespace, but none on pages of the run.
@param[in]  space_id  undo tablespace
@param[in]  low       first page
@param[in]  high      last page; nothing is read if it lies behind the end
@param[in]  on_page   called for each page that was read
@return what was read */
[[nodiscard]] Result read(space_id_t space_id, page_no_t low, page_no_t high,
                          const On_page &on_page);

}  // namespace buf_run

#endif /* buf0run_h */
