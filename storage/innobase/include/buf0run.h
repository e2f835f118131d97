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

/** What a call has read. */
struct Result {
  /** Pages that were brought into the buffer pool. */
  size_t n_pages{0};
  /** Read calls that it took. */
  size_t n_reads{0};
  /** Pages from the first one on that were left out, because the buffer pool
  had no block for them that was free or could be evicted at once. */
  page_no_t n_left_out{0};
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
pages of the tablespace, but none on pages of the run. How many pages all
callers together read at a time is for them to limit.
@param[in]  space_id  undo tablespace
@param[in]  low       first page
@param[in]  high      last page; nothing is read if it lies behind the end
@param[in]  on_page   called for each page that was read
@return what was read */
[[nodiscard]] Result read(space_id_t space_id, page_no_t low, page_no_t high,
                          const On_page &on_page);

/** A thread is about to wait for a free block of the buffer pool. If it is in
read(), the blocks that it has collected are read and released first. */
void before_wait();

/** Wait until a page is not being read, without a buffer fix: a page that turns
out to be corrupt is dropped, and that allows no fix.
@param[in]  page_id  page that was in the buffer pool
@return true if it was being read, or is not in the buffer pool any more */
[[nodiscard]] bool wait_for_read(const page_id_t &page_id);

}  // namespace buf_run

#endif /* buf0run_h */
