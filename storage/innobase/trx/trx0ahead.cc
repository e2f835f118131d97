/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file trx/trx0ahead.cc
Read-ahead for walks through an undo log from its end to its start.

The pages of an undo log are a list. A walk from the end learns the number of
the previous page when it gets to a page, and then waits for one read. But undo
segments grow by whole extents, from low to high page numbers, so most of the
time the previous page is the one below.

A Stream reads runs of pages: from the page that is needed down to the start of
its extent, or further if the log has crossed borders of extents before. When a
run has arrived, the links in its pages tell which of them the undo log really
goes through, and where it goes on. The next run ends at exactly that page, so
a log whose extents are scattered, because other transactions took turns with
it, is followed without guessing. How much of a run was used sets the size of
the next one (see Planner): sizes double from FIRST_PAGES to the limit as long
as all pages are used, and shrink when half of them are not.

A walk that has read PAGES_BEFORE_THREAD pages gets a thread, which reads up to
MAX_RUNS_AHEAD runs while the walk parses the one before. A walk that comes to a
page in a run that is on its way waits for the whole run; it does not latch
single pages of it. A page that no run holds is looked for in the buffer pool;
only if it is not there a new run is begun. So undo that is cached is not
touched.

Nothing depends on the pages being read: the walk gets each of its pages from
the buffer pool in the original way, which reads and checks whatever is not
there. Read errors and corruption are met there too.

How much of the buffer pool this takes does not depend on the number of walks.
Each run is granted by the Budget before it is read, and the grant is given back
when the walk has left the run. All grants together are at most three sixteenths
of a buffer pool instance; a walk that has asked gets no more than its equal
share of that, for the run in which it is and MAX_RUNS_AHEAD more. With so many
walks that a share is less than a page, there is no read-ahead until some have
ended.

Mutex order: a Stream's mutex is held for its members only, never during a
read; the Budget's mutex is taken last. */

#include "trx0ahead.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <system_error>
#include <utility>
#include <vector>

#include "buf0buf.h"
#include "fil0types.h"
#include "fsp0fsp.h"
#include "fut0lst.h"
#include "mach0data.h"
#include "os0thread-create.h"
#include "srv0srv.h"
#include "trx0rec.h"
#include "trx0undo.h"

namespace undo_read_ahead {

uint g_pages = DEFAULT_PAGES;
Status g_status{};

namespace {

/** Threads that read ahead. */
std::atomic_int s_n_threads{0};

/** Scope of the walks of this thread. */
thread_local Scope *s_scope = nullptr;

/** The buffer pool of the server. */
class Server_pool : public Pool {
 public:
  buf_run::Result read(space_id_t space_id, const Run &run,
                       const buf_run::On_page &on_page) override {
    return buf_run::read(space_id, run.low, run.high,
                         buf_run::Order::DESCENDING, on_page);
  }

  bool is_cached(const page_id_t &page_id) override {
    return buf_page_peek(page_id);
  }

  size_t n_pages(const page_id_t &page_id) override {
    /* To drop a bad page ends the server if another thread waits for it. That
    is what a bad undo page does anyway, but not with innodb_force_recovery. */
    return srv_force_recovery > 0 ? 0 : buf_pool_get(page_id)->curr_size;
  }
};

/** The buffer pool. */
Server_pool s_pool;

/** What all walks of the server share. */
Budget s_budget;

/** @param[in]  frame  page that was read, nullptr if it was not good
@return where the undo log goes to from there; FIL_NULL if nowhere */
page_no_t get_link(const byte *frame) {
  if (frame == nullptr ||
      mach_read_from_2(frame + FIL_PAGE_TYPE) != FIL_PAGE_UNDO_LOG) {
    return FIL_NULL;
  }

  return mach_read_from_4(frame + TRX_UNDO_PAGE_HDR + TRX_UNDO_PAGE_NODE +
                          FLST_PREV + FIL_ADDR_PAGE);
}

}  // namespace

Followed follow(const Run &run, const std::vector<page_no_t> &links) {
  ut_a(links.size() == run.size());

  page_no_t page_no = run.high;

  for (page_no_t n_used = 1; n_used <= run.size(); ++n_used) {
    page_no_t next = links[page_no - run.low];

    if (next == LINK_UNKNOWN) {
      next = page_no == 0 ? FIL_NULL : page_no - 1;
    }

    if (next == FIL_NULL || !run.contains(next)) {
      return {n_used, next};
    }

    page_no = next;
  }

  /* The links go round in a circle. */
  return {run.size(), FIL_NULL};
}

Planner::Planner(page_no_t extent_pages, page_no_t interval_pages)
    : m_extent_pages(extent_pages), m_interval_pages(interval_pages) {
  ut_a(extent_pages > FSP_IBUF_BITMAP_OFFSET + 1);
  ut_a(interval_pages >= extent_pages);
}

page_no_t Planner::below(page_no_t page_no) const {
  constexpr page_no_t n_special = FSP_IBUF_BITMAP_OFFSET + 1;

  if (page_no % m_interval_pages == n_special) {
    page_no -= n_special;
  }

  return page_no == 0 ? FIL_NULL : page_no - 1;
}

Run Planner::plan(page_no_t top, page_no_t max_pages) const {
  ut_a(max_pages > 0);
  const auto n_pages = std::clamp<page_no_t>(m_n_pages, 1, max_pages);

  page_no_t low = top - std::min(n_pages - 1, top);

  if (!m_crosses) {
    low = std::max(low, top - top % m_extent_pages);
  }

  /* Descriptor and bitmap page are in the way of a single read. */
  const auto first = top - top % m_interval_pages + FSP_IBUF_BITMAP_OFFSET + 1;

  return {std::min(std::max(low, first), top), top};
}

void Planner::learn(const Run &run, const Followed &followed) {
  const auto n_pages = run.size();

  if (followed.n_used < n_pages) {
    m_crosses = false;

    if (followed.n_used * 2 <= n_pages) {
      m_n_pages = followed.n_used;
    }
    return;
  }

  const bool is_straight =
      followed.next != FIL_NULL && followed.next == below(run.low);

  if (run.low % m_extent_pages == 0 || !is_possible(run.low - 1)) {
    m_crosses = is_straight;
  }

  if (is_straight) {
    m_n_pages =
        std::max(m_n_pages, std::min<page_no_t>(n_pages * 2, MAX_PAGES));
  }
}

void Planner::on_miss() {
  m_crosses = false;
  m_n_pages = std::max<page_no_t>(m_n_pages / 2, 1);
}

size_t Budget::n_pages() const {
  std::lock_guard<std::mutex> guard{m_mutex};
  return m_n_pages;
}

size_t Budget::n_members() const {
  std::lock_guard<std::mutex> guard{m_mutex};
  return m_n_members;
}

Budget::Grant::Grant(Grant &&other) noexcept
    : m_budget(other.m_budget), m_n_pages(std::exchange(other.m_n_pages, 0)) {}

Budget::Grant &Budget::Grant::operator=(Grant &&other) noexcept {
  std::swap(m_budget, other.m_budget);
  std::swap(m_n_pages, other.m_n_pages);
  return *this;
}

Budget::Grant::~Grant() {
  if (m_n_pages > 0) {
    std::lock_guard<std::mutex> guard{m_budget->m_mutex};
    ut_a(m_n_pages <= m_budget->m_n_pages);
    m_budget->m_n_pages -= m_n_pages;
  }
}

Budget::Member::~Member() {
  if (m_is_counted) {
    std::lock_guard<std::mutex> guard{m_budget.m_mutex};
    --m_budget.m_n_members;
  }
}

Budget::Grant Budget::Member::take(page_no_t n_wanted, size_t pool_pages) {
  std::lock_guard<std::mutex> guard{m_budget.m_mutex};

  if (!m_is_counted) {
    m_is_counted = true;
    ++m_budget.m_n_members;
  }

  /* It is less than what is granted already if the pool was made smaller. */
  const auto n_all = limit(pool_pages);
  const auto n_left = n_all - std::min(n_all, m_budget.m_n_pages);
  const auto n_share = n_all / m_budget.m_n_members / (MAX_RUNS_AHEAD + 1);

  Grant grant;
  grant.m_budget = &m_budget;
  grant.m_n_pages =
      static_cast<page_no_t>(std::min({size_t{n_wanted}, n_share, n_left}));
  m_budget.m_n_pages += grant.m_n_pages;

  return grant;
}

Stream::~Stream() {
  {
    Lock lock{m_mutex};
    m_stop = true;
    m_changed.notify_all();
  }

  if (m_has_thread) {
    m_thread.join();
    --s_n_threads;
  }
}

uint64_t Stream::n_reads() {
  Lock lock{m_mutex};
  return m_n_reads;
}

bool Stream::read(Lock &lock, page_no_t top) {
  const page_no_t max_pages = g_pages;
  const auto pool_pages = m_pool.n_pages({m_space_id, top});

  if (max_pages == 0 || pool_pages == 0 || m_has_failed) {
    return false;
  }

  auto grant = m_member.take(m_planner.plan(top, max_pages).size(), pool_pages);

  if (grant.n_pages() == 0) {
    return false;
  }

  auto run = m_planner.plan(top, grant.n_pages());

  m_runs.push_back({run, false, {}});
  m_next = FIL_NULL;

  const auto generation = m_generation;
  std::vector<page_no_t> links(run.size(), LINK_UNKNOWN);

  lock.unlock();

  const auto result =
      m_pool.read(m_space_id, run, [&](page_no_t page_no, const byte *frame) {
        links[page_no - run.low] = get_link(frame);
      });
  lock.lock();

  m_n_reads += result.n_reads;
  m_n_pages += result.n_pages;
  m_has_failed |= !result.success;

  /* Otherwise the walk has gone another way meanwhile. */
  if (generation == m_generation) {
    run.low += result.n_left_out;
    links.erase(links.begin(), links.begin() + result.n_left_out);

    const auto followed = follow(run, links);

    m_planner.learn(run, followed);

    if (result.n_left_out > 0) {
      m_planner.on_miss();
    }

    if (followed.next != FIL_NULL && m_planner.is_possible(followed.next)) {
      m_next = followed.next;
    }

    m_runs.back() = {run, true, std::move(grant)};
  }

  m_changed.notify_all();
  return true;
}

void Stream::read_ahead() {
  Lock lock{m_mutex};

  while (!m_stop) {
    if (m_next == FIL_NULL || m_runs.size() > MAX_RUNS_AHEAD ||
        !read(lock, m_next)) {
      m_changed.wait(lock);
    }
  }
}

void Stream::start_thread() {
  if (m_has_thread || m_has_failed || m_n_pages < PAGES_BEFORE_THREAD ||
      m_next == FIL_NULL) {
    return;
  }

  if (++s_n_threads > MAX_THREADS) {
    --s_n_threads;
    return;
  }

  try {
    m_thread =
        os_thread_create(PFS_NOT_INSTRUMENTED, 0, [this]() { read_ahead(); });
    m_thread.start();
    m_has_thread = true;
  } catch (const std::system_error &) {
    --s_n_threads;
  }
}

void Stream::before_page(page_no_t page_no) {
  const page_id_t page_id{m_space_id, page_no};

  if (m_current.contains(page_no)) {
    if (!m_pool.is_cached(page_id)) {
      /* The run was too large for what the buffer pool can keep, or the page
      was not good. */
      Lock lock{m_mutex};
      m_planner.on_miss();
      ++m_n_reads;
    }
    return;
  }

  Lock lock{m_mutex};

  const auto find = [&]() {
    return std::find_if(m_runs.begin(), m_runs.end(), [&](const Item &item) {
      return item.run.contains(page_no);
    });
  };

  /* A run that is on its way may turn out to end above the page. */
  auto found = find();
  while (found != m_runs.end() && !found->is_done) {
    m_runs.erase(m_runs.begin(), found);
    m_changed.notify_all();
    m_changed.wait(lock, [this]() { return m_runs.front().is_done; });
    found = find();
  }

  if (found != m_runs.end()) {
    m_runs.erase(m_runs.begin(), found);
    m_changed.notify_all();
  } else {
    /* Runs that are read now, and those that were, are not where the walk goes:
    forget them. */
    if (m_next != page_no && m_next != FIL_NULL) {
      m_planner.on_miss();
    }

    m_runs.clear();
    m_next = FIL_NULL;
    ++m_generation;

    if (!m_planner.is_possible(page_no) || m_pool.is_cached(page_id) ||
        !read(lock, page_no)) {
      m_runs.push_back({{page_no, page_no}, true, {}});
    } else {
      start_thread();
    }
  }

  m_current = m_runs.front().run;

  if (!m_pool.is_cached(page_id)) {
    ++m_n_reads;
  }
}

Scope::Scope() : Scope(s_pool, s_budget) {}

Scope::Scope(Pool &pool, Budget &budget)
    : m_pool(pool), m_budget(budget), m_outer(s_scope) {
  s_scope = this;
}

Scope::~Scope() { s_scope = m_outer; }

void Scope::end_streams() {
  for (auto &stream : m_streams) {
    if (stream != nullptr) {
      m_n_reads += stream->n_reads();
      stream.reset();
    }
  }
}

void Scope::before_page(const page_id_t &page_id, page_no_t hdr_page_no) {
  ++m_n_pages;

  if (g_pages == 0) {
    end_streams();
  }

  if (g_pages == 0 || !fsp_is_undo_tablespace(page_id.space())) {
    m_n_reads += !m_pool.is_cached(page_id);
    return;
  }

  for (const auto &stream : m_streams) {
    if (stream != nullptr && stream->is_for(page_id.space(), hdr_page_no)) {
      stream->before_page(page_id.page_no());
      return;
    }
  }

  auto &stream = m_streams[m_oldest];
  m_oldest = (m_oldest + 1) % m_streams.size();

  if (stream != nullptr) {
    m_n_reads += stream->n_reads();
  }

  stream = std::make_unique<Stream>(
      m_pool, m_budget, page_id.space(), hdr_page_no,
      Planner(FSP_EXTENT_SIZE, static_cast<page_no_t>(UNIV_PAGE_SIZE)));
  stream->before_page(page_id.page_no());
}

uint64_t Scope::n_reads() {
  auto n_reads = m_n_reads;

  for (const auto &stream : m_streams) {
    if (stream != nullptr) {
      n_reads += stream->n_reads();
    }
  }

  return n_reads;
}

Resurrection::Resurrection(const page_id_t &page_id)
    : m_start(std::chrono::steady_clock::now()),
      m_n_first_reads(buf_page_peek(page_id) ? 0 : 1) {}

Resurrection::~Resurrection() {
  using std::chrono::microseconds;

  g_status.pages += m_scope.n_pages() + 1;
  g_status.reads += m_scope.n_reads() + m_n_first_reads;
  g_status.usec += std::chrono::duration_cast<microseconds>(
                       std::chrono::steady_clock::now() - m_start)
                       .count();
}

ulong Resurrection::skip_known(trx_undo_rec_t **rec, const trx_undo_t *undo) {
  for (ulong n_skipped = 0;; ++n_skipped) {
    const auto table_id = trx_undo_rec_get_table_id(*rec);

    if (table_id != m_table_id) {
      m_table_id = table_id;
      return n_skipped;
    }

    const auto prev =
        trx_undo_page_get_prev_rec(*rec, undo->hdr_page_no, undo->hdr_offset);

    if (prev == nullptr) {
      return n_skipped;
    }

    *rec = prev;
  }
}

void before_page(const page_id_t &page_id, page_no_t hdr_page_no) {
  if (s_scope != nullptr) {
    s_scope->before_page(page_id, hdr_page_no);
  }
}

}  // namespace undo_read_ahead
