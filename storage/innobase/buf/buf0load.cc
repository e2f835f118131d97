/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file buf/buf0load.cc
Load the buffer pool from a dump with large reads, and write the dump from time
to time.

Loading. MySQL reads the pages of a dump one after the other, and waits for
each: the volume serves one read of a page at a time. But the entries are
sorted, and many pages lie side by side. Here the loop that loads them is left
as it is. Every 1,024 entries it stops, and their pages are read before it goes
on: those side by side with one read, by some threads (buf_run::Readers). The
loop then finds them in the buffer pool. What could not be read in this way it
reads itself: pages of tables with ROW_FORMAT=COMPRESSED, of the system
tablespace and of tablespaces with several files, and pages that are not good.
Its progress, its throttling and the ways to end it stay what they are; they are
looked at between such steps.

Dumping. MySQL writes the dump at a shutdown, so the start after a crash loads
what was in the buffer pool before the last shutdown, or nothing. The thread
waits for requests; with an interval it does not wait longer than that, and
writes a dump. A dump is written to a file of its own, which then gets its name.
It is not synced: after a power cut there may be none, and nothing is loaded. */

#include "buf0load.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "buf0buf.h"
#include "fil0map.h"
#include "mysqld_error.h"
#include "ut0log.h"

namespace pool_load {

bool g_by_runs = false;
uint g_dump_interval = 0;

Loader::~Loader() {
  if (m_readers.n_pages() > 0) {
    ib::info(ER_IB_MSG_121)
        << "Buffer pool load: read " << m_readers.n_pages() << " pages with "
        << m_readers.n_reads() << " reads";
  }
}

void Loader::before_entry(const uint64_t *dump, size_t n_entries, size_t i) {
  if (i < m_end) {
    return;
  }

  m_end = std::min(n_entries, i + MAX_ENTRIES);

  if (!g_by_runs) {
    return;
  }

  std::vector<page_id_t> pages;
  auto last_space = SPACE_UNKNOWN;

  for (; i < m_end; ++i) {
    const page_id_t page{static_cast<space_id_t>(dump[i] >> 32),
                         static_cast<page_no_t>(dump[i])};

    if (page.space() != last_space) {
      last_space = page.space();
      tablespace_map::open(last_space);
    }

    if (!buf_page_peek(page)) {
      pages.push_back(page);
    }
  }

  m_readers.submit(buf_run::make_runs(std::move(pages), buf_run::most_pages()));
  m_readers.wait();
}

bool wait_for_dump(os_event_t event) {
  const auto n_seconds = g_dump_interval;

  if (n_seconds == 0) {
    os_event_wait(event);
    return false;
  }

  return os_event_wait_time_low(event, std::chrono::seconds{n_seconds}, 0) ==
         OS_SYNC_TIME_EXCEEDED;
}

}  // namespace pool_load
