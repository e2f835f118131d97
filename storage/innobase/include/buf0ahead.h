/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file include/buf0ahead.h
Linear read-ahead with large reads.

buf/buf0ahead.cc has the design. */

#ifndef buf0ahead_h
#define buf0ahead_h

#include "buf0types.h"
#include "page0size.h"
#include "univ.i"

namespace read_ahead_runs {

/** innodb_read_ahead_by_runs. */
extern bool g_by_runs;

/** Have pages read by a thread, with one large read. Does not wait for that,
and may be called with latches of other pages.
@param[in]  page_id    the page that the scan has come to, before low or behind
high
@param[in]  page_size  size of the pages
@param[in]  low        first page
@param[in]  high       the page behind the last one
@return the first page that is left to the caller: low or high */
[[nodiscard]] page_no_t submit(const page_id_t &page_id,
                               const page_size_t &page_size, page_no_t low,
                               page_no_t high);

/** Shutdown: wait for the threads. From here on all pages are left to the
callers of submit(). */
void end();

}  // namespace read_ahead_runs

#endif /* buf0ahead_h */
