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

Mutex order: a Stream's mutex is held for its members only, never during a
read or with another mutex. */

#include "trx0ahead.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>

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

/** @param[in]  page_id  page
@return most pages that a run with this page may have; 0 = no read-ahead */
page_no_t max_pages(const page_id_t &page_id) {
  /* To drop a bad page ends the server if another thread waits for it. That is
  what a bad undo page does anyway, but not with innodb_force_recovery. */
  if (srv_force_recovery > 0) {
    return 0;
  }

  return std::min<page_no_t>(
      g_pages, buf_run::max_pages(buf_pool_get(page_id)->curr_size));
}

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

/** Reads ahead for the walk through one undo log. */
class Stream {
 public:
  /** Constructor.
  @param[in]  space_id     undo tablespace
  @param[in]  hdr_page_no  header page of the undo log */
  Stream(space_id_t space_id, page_no_t hdr_page_no)
      : m_space_id(space_id),
        m_hdr_page_no(hdr_page_no),
        m_planner(FSP_EXTENT_SIZE, static_cast<page_no_t>(UNIV_PAGE_SIZE)) {}

  /** Waits for the thread. */
  ~Stream();

  /** @param[in]  space_id     undo tablespace
  @param[in]  hdr_page_no  header page
  @return true if the stream is for this undo log */
  bool is_for(space_id_t space_id, page_no_t hdr_page_no) const {
    return m_space_id == space_id && m_hdr_page_no == hdr_page_no;
  }

  /** The walk goes to another page.
  @param[in]  page_no  the page */
  void before_page(page_no_t page_no);

  /** @return read operations so far */
  uint64_t n_reads() {
    std::lock_guard<std::mutex> guard{m_mutex};
    return m_n_reads;
  }

 private:
  /** A run that was read or is on its way. */
  struct Item {
    /** The pages. */
    Run run;
    /** True if they are in the buffer pool. */
    bool is_done;
  };

  using Lock = std::unique_lock<std::mutex>;

  /** Read a run, with the mutex released meanwhile, and learn from it.
  @param[in,out]  lock  lock of m_mutex
  @param[in]      run   pages to read */
  void read(Lock &lock, const Run &run);

  /** Start the thread if that pays. The mutex is held. */
  void start_thread();

  /** What the thread does. */
  void read_ahead();

  /** Undo tablespace. */
  const space_id_t m_space_id;
  /** Header page of the undo log. */
  const page_no_t m_hdr_page_no;
  /** Run in which the walk is; for the walk only. */
  Run m_current;
  /** Protects all below. */
  std::mutex m_mutex;
  /** Notified when anything below changes. */
  std::condition_variable m_changed;
  /** Runs from the one in which the walk is, in the order of the undo log. */
  std::deque<Item> m_runs;
  /** Page at which the next run ends; FIL_NULL if that is not known. */
  page_no_t m_next{FIL_NULL};
  /** Grows when the walk does not follow m_runs and a reader has to forget its
  run. */
  uint64_t m_generation{0};
  /** What was learned. */
  Planner m_planner;
  /** Read operations. */
  uint64_t m_n_reads{0};
  /** Pages that they have read. */
  uint64_t m_n_pages{0};
  /** True if reading failed once; then it is left to the original code. */
  bool m_has_failed{false};
  /** True if the thread has to end. */
  bool m_stop{false};
  /** True if there is a thread. */
  bool m_has_thread{false};
  /** The thread that reads ahead. */
  IB_thread m_thread;
};

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

void Stream::read(Lock &lock, const Run &run) {
  m_runs.push_back({run, false});
  m_next = FIL_NULL;

  const auto generation = m_generation;
  std::vector<page_no_t> links(run.size(), LINK_UNKNOWN);

  lock.unlock();

  const auto result = buf_run::read(
      m_space_id, run.low, run.high, [&](page_no_t page_no, const byte *frame) {
        links[page_no - run.low] = get_link(frame);
      });
  lock.lock();

  m_n_reads += result.n_reads;
  m_n_pages += result.n_pages;
  m_has_failed |= !result.success;

  /* Otherwise the walk has gone another way meanwhile. */
  if (generation == m_generation) {
    const auto followed = follow(run, links);

    m_planner.learn(run, followed);

    if (followed.next != FIL_NULL && m_planner.is_possible(followed.next)) {
      m_next = followed.next;
    }

    m_runs.back().is_done = true;
  }

  m_changed.notify_all();
}

void Stream::read_ahead() {
  Lock lock{m_mutex};

  while (!m_stop) {
    const auto n_max = m_next == FIL_NULL || m_has_failed
                           ? 0
                           : max_pages(page_id_t{m_space_id, m_next});

    if (n_max == 0 || m_runs.size() > MAX_RUNS_AHEAD) {
      m_changed.wait(lock);
    } else {
      read(lock, m_planner.plan(m_next, n_max));
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
    if (!buf_page_peek(page_id)) {
      /* The run was too large for what the buffer pool can keep, or the page
      was not good. */
      Lock lock{m_mutex};
      m_planner.on_miss();
      ++m_n_reads;
    }
    return;
  }

  Lock lock{m_mutex};

  const auto found = std::find_if(
      m_runs.begin(), m_runs.end(),
      [&](const Item &item) { return item.run.contains(page_no); });

  if (found != m_runs.end()) {
    m_runs.erase(m_runs.begin(), found);
    m_changed.notify_all();
    m_changed.wait(lock, [this]() { return m_runs.front().is_done; });
  } else {
    /* Runs that are read now, and those that were, are not where the walk goes:
    forget them. */
    if (m_next != page_no && m_next != FIL_NULL) {
      m_planner.on_miss();
    }

    m_runs.clear();
    m_next = FIL_NULL;
    ++m_generation;

    const auto n_max = m_has_failed ? 0 : max_pages(page_id);

    if (n_max > 0 && m_planner.is_possible(page_no) &&
        !buf_page_peek(page_id)) {
      read(lock, m_planner.plan(page_no, n_max));
      start_thread();
    } else {
      m_runs.push_back({{page_no, page_no}, true});
    }
  }

  m_current = m_runs.front().run;

  if (!buf_page_peek(page_id)) {
    ++m_n_reads;
  }
}

Scope::Scope() : m_outer(s_scope) { s_scope = this; }

Scope::~Scope() { s_scope = m_outer; }

void Scope::before_page(const page_id_t &page_id, page_no_t hdr_page_no) {
  ++m_n_pages;

  if (g_pages == 0 || !fsp_is_undo_tablespace(page_id.space())) {
    m_n_reads += !buf_page_peek(page_id);
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

  stream = std::make_unique<Stream>(page_id.space(), hdr_page_no);
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
