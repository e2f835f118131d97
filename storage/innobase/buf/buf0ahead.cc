/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file buf/buf0ahead.cc
Linear read-ahead with large reads.

Why. When a scan comes to the end of an extent whose pages it has read in their
order, MySQL asks for the next extent, ahead of the scan: 64 reads of a page
each. A volume with a limit on I/O operations, 3,000 a second say, then gives 47
MiB a second, however much it could.

How. When to read ahead, and what, is MySQL's decision: 64 pages, or fewer in a
small buffer pool, which are an extent of 16 KiB pages. They are handed to one
of a few threads, which reads them with one call (buf_run::read()). The scan
goes on at once; if it comes to a page that is being read it waits for that, as
it waits for any page. It may be faster than the thread and read the first page
itself: then the thread reads the others.

What is left to MySQL. Tables with ROW_FORMAT=COMPRESSED, the system tablespace,
with it the change buffer, temporary tables and undo logs; all of them with
innodb_force_recovery, and on Windows. And what is more than the threads can do:
if too many extents wait for them, the volume or the processor is busy, and one
more queue would not help.

Memory. An extent that waits has no blocks of the buffer pool; the threads have
those of one extent each, fewer in a small buffer pool, where MySQL's area of
read-ahead is smaller. MySQL itself reads nothing ahead if half of the pages of
the buffer pool are being read, and those of the threads count. */

#include "buf0ahead.h"

#include "buf0run.h"
#include "fsp0fsp.h"
#include "srv0srv.h"
#include "srv0start.h"

namespace read_ahead_runs {

bool g_by_runs = true;

namespace {

/** Threads. Four reads of 1 MiB at a time are what a volume needs. */
constexpr size_t MAX_THREADS = 4;

/** Extents that wait for a thread. A scan has one of them, seldom two. */
constexpr size_t MAX_WAITING = 16;

/** The threads. */
buf_run::Readers s_readers{MAX_THREADS};

/** @return whether buf_run::read() reads pages of this kind
@param[in]  space_id   tablespace
@param[in]  page_size  size of its pages */
bool is_for(space_id_t space_id, const page_size_t &page_size) {
#ifdef _WIN32
  return false;
#else
  return srv_force_recovery == 0 && !page_size.is_compressed() &&
         fsp_is_ibd_tablespace(space_id);
#endif /* _WIN32 */
}

}  // namespace

page_no_t submit(const page_id_t &page_id, const page_size_t &page_size,
                 page_no_t low, page_no_t high) {
  const auto space_id = page_id.space();

  if (!g_by_runs || srv_is_being_started || !is_for(space_id, page_size)) {
    return low;
  }

  const auto order = page_id.page_no() < low ? buf_run::Order::ASCENDING
                                             : buf_run::Order::DESCENDING;

  return s_readers.try_submit({space_id, low, high - 1, order}, MAX_WAITING)
             ? high
             : low;
}

void end() { s_readers.end(); }

}  // namespace read_ahead_runs
