/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file log/log0flush.cc
Open the server with the pages of the last batch of redo in the buffer pool.

Why. After each batch of redo all pages are written and the buffer pool is
emptied, the last one included. The server opens when that is done, and then
reads the same pages again.

How. A page that redo has changed is dirty like any other: it has the LSN of its
oldest change, it is in a flush list, and no checkpoint may be written behind
that change. So the pages of the last batch can stay where they are. If the
server dies, the next one finds the checkpoint from which this one has
recovered, or a later one that the flush lists allow. A page is written as ever:
to the doublewrite buffer first, and synced before a checkpoint relies on it.

What has to be done for that, while nothing else reads, writes or changes pages:

Order. Redo is applied in the order of pages, and flush lists are made in the
order in which pages are read. A checkpoint looks at the end of each list, where
the oldest change has to be. So the lists are sorted.

Written before the server opens, because a start reads or closes these files
without regard to the buffer pool:
- the first page of each tablespace: it has the flags and the key of encryption,
  which are read from the file when the dictionary is compared with it;
- the pages of undo tablespaces, whose files are closed and opened again;
- as many of the oldest changes as it takes to have room in the redo log: down
to the age at which the page cleaners begin to take notice of it. At the one at
which they do nothing else, the first checkpoint would ask for more, and as long
as the server starts that means all pages.

When not. Pages are written and evicted as before if the data directory was
cloned or restored from a backup, whose redo log is rewritten at the end of
recovery; if changed pages are tracked for a backup; if an undo tablespace was
being truncated: its file is going to be deleted, and its old pages must not be
in the buffer pool; or if the change buffer is not empty: a page gets the
changes that wait there when it is read, but not in recovery, so it has to be
read again. The same if a page that a start needs in its file cannot be written;
and if a mini-transaction has more redo than flush lists may be out of order. A
page that redo has changed says where the record of its oldest change begins,
not the mini-transaction. A checkpoint stays as far behind the oldest change as
flush lists may be out of order, so that it is not inside any smaller one:
recovery would begin behind it, and know nothing of its other records.

Until recovery ends no checkpoint is written, as before. */

#include "log0flush.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "arch0arch.h"
#include "buf0buf.h"
#include "buf0flu.h"
#include "ibuf0ibuf.h"
#include "log0apply.h"
#include "log0log.h"
#include "log0recv.h"
#include "log0sys.h"
#include "my_dbug.h"
#include "page0page.h"
#include "trx0purge.h"

namespace recovery_flush {

namespace {

/** Names of the values of innodb_recovery_flush. */
const char *s_way_names[] = {"WAIT", "BACKGROUND", nullptr};

/** How far recovery has come. */
enum class State {
  /** Redo is read, or applied in batches. */
  BATCHES,
  /** The last batch is applied. */
  LAST_BATCH,
  /** It was applied, and its pages were left. */
  PAGES_LEFT
};

State s_state = State::BATCHES;

/** @return true if a start relies on the page in its file
@param[in]  bpage  page */
bool is_needed_in_file(const buf_page_t *bpage) {
  return bpage->id.page_no() == 0 || fsp_is_undo_tablespace(bpage->id.space());
}

/** @return true if no change waits in the change buffer. */
bool is_change_buffer_empty() {
  DBUG_EXECUTE_IF("recovery_flush_ignore_ibuf", return true;);

  mtr_t mtr;
  mtr_start(&mtr);
  mtr_set_log_mode(&mtr, MTR_LOG_NO_REDO);

  const auto block =
      buf_page_get(page_id_t{IBUF_SPACE_ID, IBUF_TREE_ROOT_PAGE_NO},
                   univ_page_size, RW_S_LATCH, UT_LOCATION_HERE, &mtr);
  const bool is_empty = page_is_empty(buf_block_get_frame(block));

  mtr_commit(&mtr);

  return is_empty;
}

/** Redo of the largest mini-transaction that was parsed, in bytes. */
lsn_t s_largest_group{0};

/** @return why the pages of the last batch may not stay in the buffer pool;
nullptr if they may */
const char *why_not() {
  if (recv_sys->is_cloned_db || recv_sys->is_meb_db) {
    return "the data directory was cloned or restored";
  }

  if (arch_page_sys != nullptr && arch_page_sys->is_active()) {
    return "changed pages are tracked for a backup";
  }

  for (space_id_t number = 1; number <= FSP_MAX_UNDO_TABLESPACES; ++number) {
    if (undo::is_active_truncate_log_present(number)) {
      return "an undo tablespace was being truncated";
    }
  }

  if (s_largest_group > buf_flush_list_added->order_lag()) {
    return "a mini-transaction has more redo than flush lists may be out of "
           "order";
  }

  return is_change_buffer_empty() ? nullptr : "the change buffer is not empty";
}

/** Put pages that are needed in their files where a flush list is flushed
first. Nobody flushes, and no checkpoint may be written until it is sorted.
@param[in,out]  buf_pool  buffer pool instance
@return how many there are */
size_t put_needed_first(buf_pool_t *buf_pool) {
  std::vector<buf_page_t *> pages;

  buf_flush_list_mutex_enter(buf_pool);

  for (auto bpage : buf_pool->flush_list) {
    if (is_needed_in_file(bpage)) {
      pages.push_back(bpage);
    }
  }

  for (auto bpage : pages) {
    UT_LIST_REMOVE(buf_pool->flush_list, bpage);
    UT_LIST_ADD_LAST(buf_pool->flush_list, bpage);
  }

  buf_flush_list_mutex_exit(buf_pool);

  return pages.size();
}

/** Write the pages that a start needs in their files.
@param[in,out]  buf_pool   buffer pool instance
@param[in,out]  n_written  grows by the number of pages written
@return false if some of them cannot be written */
bool write_needed(buf_pool_t *buf_pool, size_t &n_written) {
  while (auto n_needed = put_needed_first(buf_pool)) {
    ulint n_pages = 0;

    DBUG_EXECUTE_IF("recovery_flush_write_nothing", n_needed = 0;);
    buf_flush_do_batch(buf_pool, BUF_FLUSH_LIST, n_needed, LSN_MAX, &n_pages);
    buf_flush_await_no_flushing(buf_pool, BUF_FLUSH_LIST);

    if (n_pages == 0) {
      return false;
    }
    n_written += n_pages;
  }

  return true;
}

/** Sort a flush list by the oldest change, newest first. Nobody flushes.
@param[in,out]  buf_pool  buffer pool instance */
void sort(buf_pool_t *buf_pool) {
  DBUG_EXECUTE_IF("recovery_flush_skip_sort", return;);

  std::vector<std::pair<lsn_t, buf_page_t *>> pages;

  buf_flush_list_mutex_enter(buf_pool);

  auto &list = buf_pool->flush_list;
  pages.reserve(UT_LIST_GET_LEN(list));

  for (auto bpage : list) {
    pages.emplace_back(bpage->get_oldest_lsn(), bpage);
  }

  std::sort(pages.begin(), pages.end());

  for (const auto &page : pages) {
    UT_LIST_REMOVE(list, page.second);
    UT_LIST_ADD_FIRST(list, page.second);
  }

  /* They tell where to go on, in the order that was. */
  buf_pool->flush_hp.set(nullptr);
  buf_pool->oldest_hp.set(nullptr);

  buf_flush_list_mutex_exit(buf_pool);
}

/** Lose a page of a table, as if it had been written.
@param[in,out]  buf_pool  buffer pool instance */
[[maybe_unused]] void lose_page(buf_pool_t *buf_pool) {
  buf_flush_list_mutex_enter(buf_pool);

  auto bpage = UT_LIST_GET_LAST(buf_pool->flush_list);

  while (bpage != nullptr &&
         (fsp_is_system_or_temp_tablespace(bpage->id.space()) ||
          fsp_is_dd_tablespace(bpage->id.space()))) {
    bpage = UT_LIST_GET_PREV(list, bpage);
  }

  buf_flush_list_mutex_exit(buf_pool);

  if (bpage != nullptr) {
    const auto mutex = buf_page_get_mutex(bpage);

    mutex_enter(mutex);
    buf_flush_remove(bpage);
    mutex_exit(mutex);
  }
}

/** Take the newest change of each page for its oldest.
@param[in,out]  buf_pool  buffer pool instance */
[[maybe_unused]] void forget_oldest(buf_pool_t *buf_pool) {
  for (auto bpage : buf_pool->flush_list) {
    const auto mutex = buf_page_get_mutex(bpage);

    mutex_enter(mutex);
    bpage->set_oldest_lsn(bpage->get_newest_lsn());
    mutex_exit(mutex);
  }
}

/** Write what a start needs in its files, and see that the rest can stay.
@return false if all pages have to be written */
bool arrange_pages() {
  size_t n_written = 0;
  bool is_done = true;

  /* No batch by the recv_writer thread begins, and the one before has ended. */
  mutex_enter(&recv_sys->writer_mutex);
  buf_flush_await_no_flushing(nullptr, BUF_FLUSH_LRU);
  buf_pool_wait_for_no_pending_io();

  for (ulong i = 0; i < srv_buf_pool_instances && is_done; ++i) {
    const auto buf_pool = buf_pool_from_array(i);

    is_done = write_needed(buf_pool, n_written);
    DBUG_EXECUTE_IF("recovery_flush_forget_oldest", forget_oldest(buf_pool););
    sort(buf_pool);
    DBUG_EXECUTE_IF("recovery_flush_lose_page", lose_page(buf_pool););
  }

  mutex_exit(&recv_sys->writer_mutex);

  if (!is_done) {
    return false;
  }

  ulint n_in_lru, n_free, n_left;
  buf_get_total_list_len(&n_in_lru, &n_free, &n_left);

  ib::info(ER_IB_MSG_383)
      << "Redo recovery: " << n_left
      << " changed pages are left to the page cleaners, after " << n_written
      << " that the start needs in their files were written.";

  return true;
}

/** Decide what leave_pages() returns, and write what must be in files.
@param[in]  batch  batch
@return whether the other pages may stay */
bool may_leave_pages(const redo_recovery::Batch &batch) {
  ut_ad(mutex_own(&recv_sys->mutex));

  mutex_exit(&recv_sys->mutex);
  const bool is_kept = redo_recovery::keep_pages(batch);
  mutex_enter(&recv_sys->mutex);

  if (s_state == State::BATCHES) {
    return is_kept;
  }

  if (s_state != State::LAST_BATCH || !recv_needed_recovery ||
      g_way != static_cast<ulong>(Way::BACKGROUND)) {
    return false;
  }

  mutex_exit(&recv_sys->mutex);

  auto reason = why_not();

  if (reason == nullptr && !arrange_pages()) {
    reason = "a page that the start needs in its file cannot be written";
  }

  if (reason != nullptr) {
    ib::info(ER_IB_MSG_383)
        << "Redo recovery: all pages are written before the "
           "server opens, because "
        << reason << ".";
  } else {
    s_state = State::PAGES_LEFT;
  }

  mutex_enter(&recv_sys->mutex);

  return s_state == State::PAGES_LEFT;
}

}  // namespace

ulong g_way = static_cast<ulong>(Way::WAIT);

TYPELIB g_way_typelib = {array_elements(s_way_names) - 1, "recovery_flush",
                         s_way_names, nullptr};

Last_batch::Last_batch() { s_state = State::LAST_BATCH; }

Last_batch::~Last_batch() {
  if (s_state == State::LAST_BATCH) {
    s_state = State::BATCHES;
  }
}

bool is_last_batch() { return s_state != State::BATCHES; }

void note_group(lsn_t n_bytes) {
  s_largest_group = std::max(s_largest_group, n_bytes);
}

bool leave_pages(const redo_recovery::Batch &batch, void (*empty_records)()) {
  batch.count_pages();

  if (!may_leave_pages(batch)) {
    return false;
  }

  recv_sys->apply_log_recs = false;
  ib::info(ER_IB_MSG_710);

  empty_records();
  mutex_exit(&recv_sys->mutex);

  return true;
}

bool make_room(const log_t &log) {
  if (s_state != State::PAGES_LEFT || !recv_recovery_is_on()) {
    return false;
  }

  const auto age = log.recovered_lsn - log.last_checkpoint_lsn.load();
  auto max_age = log.m_capacity.adaptive_flush_min_age();

  DBUG_EXECUTE_IF("recovery_flush_full_log", max_age = age / 2;);

  if (age > max_age) {
    ulint n_pages = 0;

    buf_flush_lists(ULINT_MAX, log.recovered_lsn - max_age, &n_pages);
    buf_flush_await_no_flushing(nullptr, BUF_FLUSH_LIST);

    if (n_pages > 0) {
      ib::info(ER_IB_MSG_383)
          << "Redo recovery: wrote " << n_pages
          << " pages with the oldest changes, because the redo log is full.";
    }
  }

  return true;
}

}  // namespace recovery_flush
