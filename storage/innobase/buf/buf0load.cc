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
as it is. Every 1,024 entries, or fewer in a small buffer pool, it stops, and
their pages are read before it goes on: those side by side with one read, by
some threads (buf_run::Readers). The loop then finds them in the buffer pool. It
stops at a tablespace that has no object yet, too: making one needs the mutex of
the dictionary, whose owner may wait until the loop has given up the tablespace
that it is in. What could not be read in this way it reads itself: pages of
tables with ROW_FORMAT=COMPRESSED, of the system tablespace and of tablespaces
with several files, and pages that are not good. Its progress, its throttling
and the ways to end it stay what they are; they are looked at between such
steps.

At a start the load waits until the server is open, however it reads. Until then
the server has pages to read one by one, and each of them would have to wait
behind pages that nobody has asked for.

Dumping. MySQL writes the dump at a shutdown, so the start after a crash loads
what was in the buffer pool before the last shutdown, or nothing. The thread
waits for requests; with an interval it does not wait longer than that, and
writes a dump. A dump is written to a file of its own, which then takes the
place of the last one. MySQL removes that one first, and puts a dump that a
shutdown has cut off in its place; that is left out here, and the file is
synced, because there is to be a dump whenever the server dies. */

#include "buf0load.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

#include "sql/mysqld.h"

#include "buf0buf.h"
#include "fil0fil.h"
#include "my_sys.h"
#include "mysqld_error.h"
#include "srv0shutdown.h"
#include "srv0srv.h"
#include "trx0rollers.h"
#include "ut0log.h"

namespace pool_load {

namespace {

/** @return whether a tablespace has an object; one is not made
@param[in]  space_id  tablespace */
bool has_object(space_id_t space_id) {
  const auto space = fil_space_acquire_silent(space_id);

  if (space == nullptr) {
    return false;
  }

  fil_space_release(space);
  return true;
}

}  // namespace

bool g_by_runs = false;
bool g_when_open = true;
uint g_dump_interval = 0;

Loader::Loader() {
  /* One that makes a data directory never opens. */
  if (!g_when_open || opt_initialize || get_server_state() != SERVER_BOOTING) {
    return;
  }

  rollback_threads::wait_for_server();

  if (get_server_state() == SERVER_SHUTTING_DOWN ||
      srv_shutdown_state.load() != SRV_SHUTDOWN_NONE) {
    m_is_cancelled = true;
    srv_buffer_pool_dump_at_shutdown = false;
  }
}

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

  const auto most_entries =
      std::min<size_t>(MAX_ENTRIES, buf_pool_get_n_pages() / POOL_SHARE);
  const auto most_pages =
      std::min<page_no_t>(buf_run::most_pages(), most_entries / MAX_THREADS);

  m_end = std::min(n_entries, i + most_entries);

  if (!g_by_runs || most_pages == 0) {
    return;
  }

  std::vector<page_id_t> pages;
  /* The caller has acquired this one. */
  auto last_space = static_cast<space_id_t>(dump[i] >> 32);

  for (; i < m_end; ++i) {
    const page_id_t page{static_cast<space_id_t>(dump[i] >> 32),
                         static_cast<page_no_t>(dump[i])};

    if (page.space() != last_space && !has_object(page.space())) {
      m_end = i;
      break;
    }

    last_space = page.space();

    if (!buf_page_peek(page)) {
      pages.push_back(page);
    }
  }

  m_readers.submit(buf_run::make_runs(std::move(pages), most_pages));
  m_readers.wait();
}

bool end_dump(bool was_cut_off, const char *tmp_filename,
              const char *filename) {
  if (g_dump_interval == 0) {
    return false;
  }

  if (was_cut_off) {
    unlink(tmp_filename);
    return true;
  }

  const auto file = my_open(tmp_filename, O_RDONLY, MYF(0));
  bool success = file >= 0 && my_sync(file, MYF(0)) == 0;

  if (file >= 0) {
    my_close(file, MYF(0));
  }

  success = success && std::rename(tmp_filename, filename) == 0;

  auto &status = export_vars.innodb_buffer_pool_dump_status;

  if (!success) {
    snprintf(status, sizeof(status), "Cannot sync and rename '%s': %s",
             tmp_filename, strerror(errno));
    ib::error(ER_IB_MSG_120) << status;
    return true;
  }

  char now[32];
  ut_sprintf_timestamp(now);
  snprintf(status, sizeof(status), "Buffer pool(s) dump completed at %s", now);
  ib::info(ER_IB_MSG_119) << status;

  return true;
}

bool wait_for_dump(os_event_t event) {
  const auto n_seconds = g_dump_interval;

  if (n_seconds == 0) {
    os_event_wait(event);
    return false;
  }

  const auto is_due =
      os_event_wait_time_low(event, std::chrono::seconds{n_seconds}, 0) ==
      OS_SYNC_TIME_EXCEEDED;

  /* A start that fails leaves the dump as it is, see Loader; a shutdown writes
  its own. */
  return is_due && get_server_state() != SERVER_SHUTTING_DOWN;
}

}  // namespace pool_load
