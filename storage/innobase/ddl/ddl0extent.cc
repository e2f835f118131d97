/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file ddl/ddl0extent.cc
Write the pages of a table that is being rebuilt many at a time, once, and while
its indexes are built.

Why. Each page of a rebuilt table is written twice, into the doublewrite files
and to its place, there as a write of its own. A volume that limits the number
and the bytes of writes makes that most of the time of a rebuild. And nothing is
written until the end, or until the buffer pool has no free page left.

Why no copy is needed. The copy in the doublewrite files is for a page of which
a power cut left a part on the device: recovery could not apply the redo log to
it. That needs redo records of the page. There are none:

1. The tablespace was made by this statement. Until the statement is committed,
   nobody else has a page in it.
2. Changes of an index build are not logged, except the creation of the root of
   each index. Roots are not written here: a page without siblings is left out.
   So is what is not a page of a B-tree: what is allocated is logged on pages of
   other types, LOBs are left to the original code, and a table with a spatial
   index, whose pages are logged, is not written here at all.
3. When changes are logged, the pages are on stable storage: they are flushed,
   the file too, before the log of the changes that others made meanwhile is
   applied and before the statement is committed. See ddl0flush.cc.
4. There is no older copy in the doublewrite files either, which recovery would
   compare with the page, and which may be torn by the same power cut: a page
   that was written before, by the page cleaner, is left to it. A page that was
   not has an LSN of zero. What is left is the top page of an index, which is
   freed when its rows are moved to the root. If it was written before, and
   another index gets the page, that has a copy of an earlier life. With
   DETECT_ONLY no server starts then if the page is torn; otherwise none does if
   both are torn, the page and the copy.

A power cut before that leaves a file that no committed table has. The DDL log
deletes it, without reading such pages. A program that checks the pages of files
while no server runs may find them before.

The pages of an index that is added to an existing table are not written here:
they may have been pages of another index since the last checkpoint. Neither are
those of encrypted and compressed tables, which are not written as they are in
the buffer pool. */

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <system_error>
#include <vector>

#include "arch0arch.h"
#include "buf0buf.h"
#include "buf0flu.h"
#include "buf0lru.h"
#include "ddl0extent.h"
#include "ddl0kway.h"
#include "dict0dict.h"
#include "dict0mem.h"
#include "fil0fil.h"
#include "fsp0fsp.h"
#include "log0log.h"
#include "log0write.h"
#include "os0thread-create.h"
#include "srv0srv.h"
#include "trx0trx.h"
#include "ut0new.h"

namespace ddl::kway {

/** Bytes of one write, the size of an extent. */
static constexpr size_t WRITE_BYTES = 1024 * 1024;

/** Dirty pages of each buffer pool instance that the thread looks at. */
static constexpr size_t LOOKED_AT_PAGES = 4 * 1024;

/** Time between rounds that found nothing to write, the first and the longest.
 */
static constexpr std::chrono::milliseconds SHORT_PAUSE{10}, LONG_PAUSE{80};

Extents::Extents(space_id_t space_id, const Flush_observer *observer)
    : m_space_id(space_id), m_observer(observer) {
  try {
    m_buffer = ut::make_unique_aligned<byte[]>(
        ut::make_psi_memory_key(mem_key_ddl), UNIV_PAGE_SIZE, WRITE_BYTES);
  } catch (const std::bad_alloc &) {
    /* Nothing is written here. */
  }
  m_taken.reserve(WRITE_BYTES / UNIV_PAGE_SIZE);
}

void Extents::find(size_t n_looked) {
  m_found.clear();

  for (ulint i = 0; i < srv_buf_pool_instances; ++i) {
    const auto buf_pool = buf_pool_from_array(i);
    auto n_left = n_looked;

    buf_flush_list_mutex_enter(buf_pool);
    for (auto bpage = UT_LIST_GET_FIRST(buf_pool->flush_list);
         bpage != nullptr && n_left > 0;
         bpage = UT_LIST_GET_NEXT(list, bpage), --n_left) {
      if (bpage->get_flush_observer() == m_observer &&
          bpage->space() == m_space_id) {
        m_found.push_back(bpage->page_no());
      }
    }
    buf_flush_list_mutex_exit(buf_pool);
  }

  std::sort(m_found.begin(), m_found.end());
}

buf_page_t *enter_idle_page(buf_pool_t *buf_pool, const page_id_t &page_id,
                            const Flush_observer *observer) {
  rw_lock_t *hash_lock;
  const auto bpage = buf_page_hash_get_s_locked(buf_pool, page_id, &hash_lock);

  if (bpage == nullptr) {
    return nullptr;
  }

  const auto mutex = buf_page_get_mutex(bpage);
  mutex_enter(mutex);
  rw_lock_s_unlock(hash_lock);

  if (bpage->get_flush_observer() == observer && bpage->buf_fix_count == 0 &&
      !bpage->was_stale() && buf_flush_ready_for_flush(bpage, BUF_FLUSH_LIST)) {
    return bpage;
  }

  mutex_exit(mutex);
  return nullptr;
}

bool Extents::take(page_no_t page_no) {
  const page_id_t page_id{m_space_id, page_no};
  const auto buf_pool = buf_pool_get(page_id);
  const auto bpage = enter_idle_page(buf_pool, page_id, m_observer);

  if (bpage == nullptr) {
    return false;
  }

  const auto mutex = buf_page_get_mutex(bpage);
  const auto block = reinterpret_cast<buf_block_t *>(bpage);

  if (buf_page_get_state(bpage) != BUF_BLOCK_FILE_PAGE ||
      !rw_lock_sx_lock_nowait(&block->lock, BUF_IO_WRITE, UT_LOCATION_HERE)) {
    mutex_exit(mutex);
    return false;
  }

  if (!needs_no_copy(block->frame)) {
    rw_lock_sx_unlock_gen(&block->lock, BUF_IO_WRITE);
    mutex_exit(mutex);
    return false;
  }

  buf_pool->change_flush_state(BUF_FLUSH_SINGLE_PAGE, [&] {
    buf_page_set_io_fix(bpage, BUF_IO_WRITE);
    buf_page_set_flush_type(bpage, BUF_FLUSH_SINGLE_PAGE);
    ++buf_pool->n_flush[BUF_FLUSH_SINGLE_PAGE];
    buf_pool->max_lsn_io =
        std::max(buf_pool->max_lsn_io, bpage->get_oldest_lsn());

    if (buf_pool->track_page_lsn != LSN_MAX) {
      arch_page_sys->track_page(bpage, buf_pool->track_page_lsn,
                                mach_read_from_8(block->frame + FIL_PAGE_LSN),
                                false);
    }
  });
  mutex_exit(mutex);

  /* It belongs to no batch of the doublewrite buffer. */
  bpage->set_dblwr_batch_id(std::numeric_limits<uint16_t>::max());
  bpage->get_flush_observer()->notify_flush(buf_pool, bpage);
  m_taken.push_back(bpage);
  return true;
}

size_t Extents::put() {
  const auto n = m_taken.size();

  if (n == 0) {
    return 0;
  }

  lsn_t lsn = 0;
  auto to = m_buffer.get();

  for (const auto bpage : m_taken) {
    const auto block = reinterpret_cast<buf_block_t *>(bpage);

    lsn = std::max(lsn, bpage->get_newest_lsn());
    buf_flush_init_for_writing(block, block->frame, nullptr,
                               bpage->get_newest_lsn(),
                               fsp_is_checksum_disabled(m_space_id), false);
    std::memcpy(to, block->frame, UNIV_PAGE_SIZE);
    to += UNIV_PAGE_SIZE;
  }

  /* The pages that point to these are not logged either, but where these are
  allocated is. */
  if (log_sys->flushed_to_disk_lsn.load() < lsn) {
    log_write_up_to(*log_sys, lsn, true);
  }

  const auto err = fil_io(IORequest(IORequest::WRITE | IORequest::DO_NOT_WAKE),
                          true, m_taken.front()->id, univ_page_size, 0,
                          n * UNIV_PAGE_SIZE, m_buffer.get(), nullptr);

  /* What the original code takes from a write of a page: others end the server
  where they happen. */
  ut_a(err == DB_SUCCESS || err == DB_TABLESPACE_DELETED);

  for (const auto bpage : m_taken) {
    buf_LRU_stat_inc_io();
    buf_page_io_complete(bpage, false);
  }
  m_taken.clear();
  g_status.extent_pages += n;
  return n;
}

size_t Extents::write(size_t n_least, size_t n_looked, const trx_t *trx) {
  const auto n_most = WRITE_BYTES / UNIV_PAGE_SIZE;
  size_t n_written = 0;

  if (m_buffer == nullptr) {
    return 0;
  }

  find(n_looked);

  for (size_t begin = 0, end; begin < m_found.size() && !m_is_stopped &&
                              (trx == nullptr || !trx_is_interrupted(trx));
       begin = end) {
    end = end_of_neighbours(m_found, begin, n_most);

    if (end - begin < std::min(n_least, n_most)) {
      continue;
    }

    for (auto i = begin; i < end; ++i) {
      if (!take(m_found[i])) {
        n_written += put();
      }
    }
    n_written += put();
  }

  return n_written;
}

/** Rebuilds under way whose pages are written here, by tablespace. */
static struct {
  /** Protects the map. */
  std::mutex m_mutex;

  /** The threads. */
  std::map<space_id_t, std::weak_ptr<Early_flush>> m_by_space;
} s_rebuilds;

Early_flush::Early_flush(space_id_t space_id, const Flush_observer *observer)
    : m_space_id(space_id), m_extents(space_id, observer) {}

std::shared_ptr<Early_flush> Early_flush::begin(
    const dict_table_t *table, const Flush_observer *observer) {
  if (observer == nullptr ||
      srv_unix_file_flush_method == SRV_UNIX_O_DIRECT_NO_FSYNC) {
    return nullptr;
  }

  for (auto index = table->first_index(); index != nullptr;
       index = index->next()) {
    if (dict_index_is_spatial(index)) {
      return nullptr;
    }
  }

  const auto space = fil_space_acquire_silent(table->space);

  if (space == nullptr) {
    return nullptr;
  }

  const auto is_plain = fsp_is_file_per_table(space->id, space->flags) &&
                        !page_size_t(space->flags).is_compressed() &&
                        !FSP_FLAGS_GET_ENCRYPTION(space->flags) &&
                        space->compression_type == Compression::NONE;
  fil_space_release(space);

  if (!is_plain) {
    return nullptr;
  }

  const auto early = std::make_shared<Early_flush>(table->space, observer);

  try {
    early->m_thread = os_thread_create(ddl_thread_key, 0,
                                       [flush = early.get()] { flush->run(); });
  } catch (const std::system_error &) {
    return nullptr;
  }

  early->m_thread.start();
  early->m_has_thread = true;

  std::lock_guard<std::mutex> guard(s_rebuilds.m_mutex);
  s_rebuilds.m_by_space[table->space] = early;
  return early;
}

std::shared_ptr<Early_flush> Early_flush::find(space_id_t space_id) {
  std::lock_guard<std::mutex> guard(s_rebuilds.m_mutex);
  const auto it = s_rebuilds.m_by_space.find(space_id);
  return it == s_rebuilds.m_by_space.end() ? nullptr : it->second.lock();
}

Early_flush::~Early_flush() {
  {
    std::lock_guard<std::mutex> guard(s_rebuilds.m_mutex);
    s_rebuilds.m_by_space.erase(m_space_id);
  }
  end();
}

void Early_flush::end() {
  std::lock_guard<std::mutex> ending(m_ending);

  if (!m_has_thread) {
    return;
  }
  {
    std::lock_guard<std::mutex> guard(m_mutex);
    m_is_over = true;
  }
  m_changed.notify_all();
  m_extents.stop();
  m_thread.join();
  m_has_thread = false;
}

void Early_flush::run() {
  std::unique_lock<std::mutex> lock(m_mutex);
  auto pause = SHORT_PAUSE;

  while (!m_is_over) {
    lock.unlock();
    const auto n_written =
        m_extents.write(Extents::LEAST_PAGES, LOOKED_AT_PAGES);
    lock.lock();

    if (n_written > 0) {
      pause = SHORT_PAUSE;
    } else {
      m_changed.wait_for(lock, pause, [this] { return m_is_over; });
      pause = std::min(2 * pause, LONG_PAUSE);
    }
  }
}

}  // namespace ddl::kway
