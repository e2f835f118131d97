/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file ddl/ddl0flush.cc
Flush the pages of a new index in batches.

Why. Changes of an index build are not logged, so that its pages are written
before it ends. The original code does that one page at a time: the copy into
the doublewrite file, and when that is done the page itself. Most of the time of
a build is then the latency of these writes.

How. The pages are flushed as the page cleaner flushes: in the order of the
file, many at a time, with the doublewrite buffer, which writes the copies of a
batch at once and waits for the pages together.

Rules:

1. What cannot be written here is left to the original code, which runs
   afterwards and alone decides when all is written.
2. When the observer has flushed, all pages are on stable storage: changes of
   the index are logged after that, the statement is committed, and nothing
   could make the pages anew. That a page is no longer dirty does not say so:
   its file is flushed later.
3. As long as a batch is under way the page cleaner leaves out its own in the
   same buffer pool instance. Therefore batches are small, and between them its
   work is done here: what a checkpoint waits for, and now and then the oldest
   pages of all.
4. A page that somebody holds is left for a later round. Only one that is
   latched in the instant after it was looked at is waited for, and what is
   flushed for the page cleaner, as it does. The caller holds no latch.
5. The pages of a rebuild that need no copy are written many at a time first, if
   a thread has been doing that; see ddl0extent.cc. It ends here. */

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <set>
#include <thread>

#include "buf0buf.h"
#include "buf0dblwr.h"
#include "buf0flu.h"
#include "ddl0extent.h"
#include "ddl0kway.h"
#include "fil0fil.h"
#include "log0chkp.h"
#include "log0sys.h"
#include "os0file.h"
#include "srv0srv.h"
#include "trx0trx.h"

namespace ddl::kway {

/** Most pages of a batch. */
static constexpr size_t BATCH_PAGES = 512;

/** Most pages that are looked for at a time. */
static constexpr size_t LISTED_PAGES = 64 * 1024;

/** Fewest neighbours that are written with one write when all are written. */
static constexpr size_t LEAST_NEIGHBOURS = 4;

/** Batches after which one is made of the oldest pages, whoever changed them.
 */
static constexpr size_t BATCHES_PER_TURN = 8;

/** Rounds without a page written after which the rest is left. */
static constexpr size_t IDLE_ROUNDS = 100;

/** Time between rounds, so that pages which others are making gather. */
static constexpr std::chrono::milliseconds PAUSE{10};

/** @return dirty pages of an index build, in the order of the file
@param[in]  buf_pool  buffer pool instance
@param[in]  observer  whose pages */
static Vector<page_id_t> find_pages(buf_pool_t *buf_pool,
                                    const Flush_observer *observer) {
  Vector<page_id_t> pages;
  pages.reserve(
      std::min<size_t>(UT_LIST_GET_LEN(buf_pool->flush_list), LISTED_PAGES));

  buf_flush_list_mutex_enter(buf_pool);
  for (auto bpage = UT_LIST_GET_LAST(buf_pool->flush_list);
       bpage != nullptr && pages.size() < pages.capacity();
       bpage = UT_LIST_GET_PREV(list, bpage)) {
    if (bpage->get_flush_observer() == observer) {
      pages.push_back(bpage->id);
    }
  }
  buf_flush_list_mutex_exit(buf_pool);

  std::sort(pages.begin(), pages.end());
  return pages;
}

/** Flush a page, if nobody holds it.
@param[in]  buf_pool  buffer pool instance
@param[in]  page_id   page
@param[in]  observer  whose page it is to be
@return whether it is being written */
static bool flush_page(buf_pool_t *buf_pool, const page_id_t &page_id,
                       const Flush_observer *observer) {
  const auto bpage = enter_idle_page(buf_pool, page_id, observer);

  if (bpage == nullptr) {
    return false;
  }

  const auto mutex = buf_page_get_mutex(bpage);

  if (buf_flush_page(buf_pool, bpage, BUF_FLUSH_LIST, false)) {
    return true;
  }

  mutex_exit(mutex);
  return false;
}

/** Flush some pages and wait for them.
@param[in]  buf_pool  buffer pool instance
@param[in]  begin     first page
@param[in]  end       after the last page
@param[in]  observer  whose pages
@return number of pages written */
static size_t flush_batch(buf_pool_t *buf_pool, const page_id_t *begin,
                          const page_id_t *end,
                          const Flush_observer *observer) {
  bool is_mine = false;

  do {
    buf_flush_await_no_flushing(buf_pool, BUF_FLUSH_LIST);
    buf_pool->change_flush_state(BUF_FLUSH_LIST, [&] {
      if (!buf_pool->is_flushing(BUF_FLUSH_LIST)) {
        buf_pool->init_flush[BUF_FLUSH_LIST] = true;
        is_mine = true;
      }
    });
  } while (!is_mine);

  const size_t n = std::count_if(begin, end, [&](const page_id_t &page_id) {
    return flush_page(buf_pool, page_id, observer);
  });

  buf_pool->change_flush_state(BUF_FLUSH_LIST, [&] {
    buf_pool->try_LRU_scan = true;
    buf_pool->init_flush[BUF_FLUSH_LIST] = false;
  });

  if (dblwr::is_enabled()) {
    dblwr::force_flush(BUF_FLUSH_LIST, buf_pool_index(buf_pool));
  } else {
    os_aio_simulated_wake_handler_threads();
  }
  buf_flush_await_no_flushing(buf_pool, BUF_FLUSH_LIST);
  return n;
}

/** Do what the page cleaner could not do meanwhile.
@param[in]  buf_pool   buffer pool instance
@param[in]  n_batches  number of the batch that has ended */
static void clean(buf_pool_t *buf_pool, size_t n_batches) {
  auto lsn = srv_flush_sync ? log_sync_flush_lsn(*log_sys) : lsn_t{0};

  if (lsn == 0 && n_batches % BATCHES_PER_TURN == 0) {
    lsn = LSN_MAX;
  }

  if (lsn != 0) {
    while (!buf_flush_do_batch(buf_pool, BUF_FLUSH_LIST, BATCH_PAGES, lsn,
                               nullptr)) {
      buf_flush_await_no_flushing(buf_pool, BUF_FLUSH_LIST);
    }
    buf_flush_await_no_flushing(buf_pool, BUF_FLUSH_LIST);
  }
}

/** Flushes the pages of an index build. */
class Flusher {
 public:
  Flusher(const Flush_observer *observer, const trx_t *trx,
          std::set<space_id_t> *spaces)
      : m_observer(observer), m_trx(trx), m_spaces(*spaces) {}

  /** Flush until there is nothing more to be done, or the statement is killed.
   */
  void run() {
    size_t n_idle_rounds = 0;

    while (n_idle_rounds < IDLE_ROUNDS && !trx_is_interrupted(m_trx)) {
      m_n_found = 0;
      m_n_flushed = 0;
      m_is_full = false;

      for (ulint i = 0; i < srv_buf_pool_instances; ++i) {
        flush(buf_pool_from_array(i));
      }

      if (m_n_found == 0) {
        break;
      }

      n_idle_rounds = m_n_flushed == 0 ? n_idle_rounds + 1 : 0;

      if (m_n_flushed == 0 || (m_n_flushed < m_n_found && !m_is_full)) {
        std::this_thread::sleep_for(PAUSE);
      }
    }
  }

 private:
  /** Flush what is found in a buffer pool instance. */
  void flush(buf_pool_t *buf_pool) {
    const auto pages = find_pages(buf_pool, m_observer);

    m_n_found += pages.size();
    m_is_full = m_is_full || pages.size() >= LISTED_PAGES;

    for (size_t begin = 0; begin < pages.size() && !trx_is_interrupted(m_trx);
         begin += BATCH_PAGES) {
      const auto first = &pages[begin];
      const auto last = first + std::min(BATCH_PAGES, pages.size() - begin);

      for (auto page = first; page != last; ++page) {
        m_spaces.insert(page->space());
      }
      m_n_flushed += flush_batch(buf_pool, first, last, m_observer);
      clean(buf_pool, ++m_n_batches);
    }
  }

  /** Whose pages. */
  const Flush_observer *m_observer;

  /** Transaction of the build. */
  const trx_t *m_trx;

  /** Tablespaces of the pages: that of the build, and those that full-text
  indexes have of their own. */
  std::set<space_id_t> &m_spaces;

  /** Batches so far. */
  size_t m_n_batches{};

  /** Dirty pages found in this round. */
  size_t m_n_found{};

  /** Pages written in this round. */
  size_t m_n_flushed{};

  /** Whether there may be more pages than were looked for in this round. */
  bool m_is_full{};
};

Flush_pages::Flush_pages(space_id_t space_id, const Flush_observer *observer,
                         const trx_t *trx) {
  const auto early = Early_flush::find(space_id);

  if (early != nullptr) {
    early->end();
  }

  if (trx == nullptr || trx->mysql_thd == nullptr ||
      !thd_ddl_flush_batch(trx->mysql_thd)) {
    return;
  }

  /* Whoever has written its pages. */
  m_spaces.insert(space_id);

  if (early != nullptr) {
    Extents extents(space_id, observer);

    while (extents.write(Extents::LEAST_PAGES, LISTED_PAGES, trx) > 0) {
    }
    /* Fewer neighbours are better written side by side, in a batch. */
    extents.write(LEAST_NEIGHBOURS, LISTED_PAGES, trx);
  }

  Flusher(observer, trx, &m_spaces).run();
}

Flush_pages::~Flush_pages() {
  for (const auto space_id : m_spaces) {
    fil_flush(space_id);
  }
}

}  // namespace ddl::kway
