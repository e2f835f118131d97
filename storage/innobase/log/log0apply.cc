/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file log/log0apply.cc
Read the pages of a batch of redo by runs, and keep them for the next one.

Reading. MySQL asks for the pages of a batch one by one. A volume with a limit
on I/O operations serves as many of these as it would serve reads of 128 KiB or
more. Here the pages of a tablespace are gone through in ascending order. Those
that lie side by side, or nearly so, make a run: one vectored read takes them
all (buf/buf0run.cc), and pages between them that nobody wants go to a buffer
which nobody looks at. A run has at most RUN_BYTES, and ends where its records
are many, so that pages that change often do not wait for each other.

Applying. The thread of the start takes a block for each page, as MySQL does,
and gives the run to one of some threads, which reads it, completes each page
and thereby applies redo to it. These threads do the work of MySQL's I/O
threads: a page is decrypted, checked, recovered and released by the same
functions. What a large read cannot do is left to MySQL's own read of a single
page into the block that there is: a short or failed read, a page that is
compressed for the file system or cannot be decrypted. Pages of the system
tablespace, bitmaps of the change buffer, what lies behind the end of a file,
and all of a directory that was cloned or restored are read by MySQL.

No thread but that of the start takes blocks. Before it waits for one it submits
what it has collected, so all blocks that are i/o-fixed or buffer-fixed belong
to runs whose threads wait for nothing but the volume; docs/redo-no-hang.md has
the argument.

Keeping. MySQL writes all pages after each batch and empties the buffer pool, to
have room for records. If pages are changed in several batches they are written
and read once for each. But often all pages that redo changes fit into half of
the buffer pool. So records are applied as soon as they and the pages they need
would fill it; then nothing has to be evicted while they are applied, and the
pages may stay. If the records would have less than a quarter, because each
needs another page, they get what MySQL gives them, and so they do in a small
buffer pool. Whether pages stay is decided after each batch: if they take more
than half of the buffer pool, or there is a compressed page, all is written and
evicted as in MySQL.

A page that was kept is dirty, with the LSN of its oldest change. If the server
dies, recovery begins at the same checkpoint. Redo is applied to a page in the
buffer pool under its latch, by the LSN of its newest change.

What relies on a buffer pool without pages while redo is parsed: the removal of
a tablespace, zeros that are written at the end of a file, another key of a
tablespace. Before each of these the pages are written and evicted after all, by
evict_pages(). A tablespace is opened by each batch in MySQL, which then looks
for torn pages in its file; that must not happen while pages are written, and
need not happen twice, so a tablespace with pages that were kept is not opened
again. */

#include "log0apply.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <sstream>
#include <system_error>
#include <thread>
#include <unordered_set>
#include <utility>
#include <vector>

#include "arch0arch.h"
#include "buf0buf.h"
#include "buf0flu.h"
#include "buf0rea.h"
#include "fil0fil.h"
#include "ibuf0ibuf.h"
#include "log0copies.h"
#include "log0pack.h"
#include "log0redo.h"
#include "mysql/components/library_mysys/my_system.h"
#include "mysql/status_var.h"
#include "os0file.h"
#include "srv0srv.h"
#include "trx0sys.h"
#include "ut0new.h"

namespace redo_recovery {

namespace {

/** Bytes of a run at most. */
constexpr size_t RUN_BYTES = 1024 * 1024;

/** Bytes between two pages of a run at most. A volume of 125 MiB/s and 3,000
operations/s reads that in the time of one operation. */
constexpr size_t GAP_BYTES = 32 * 1024;

/** Bytes of records of a run at most, if it has more than one page. */
constexpr size_t RUN_RECORD_BYTES = 256 * 1024;

/** With less memory for records no pages are kept: there would be few, and
records need the memory. */
constexpr size_t LEAST_POOL_BYTES = 4 * 1024 * 1024;

/** Pages that cannot be read and are named. */
constexpr size_t MAX_NAMED = 20;

/** Time between two looks at whether reads have come, in microseconds. */
constexpr int AWAIT_USEC = 500;

/** Threads that read and apply. Most of the time they wait for the volume. */
constexpr size_t MIN_THREADS = 32;
constexpr size_t MAX_THREADS = 64;

/** What is in the buffer pool beside the records. */
class Cached_pages {
 public:
  /** A page gets its first record of this batch.
  @param[in]  page_id  page */
  void note(const page_id_t &page_id) {
    if (m_spaces.empty() || !buf_page_peek(page_id)) {
      ++m_n_new;
    }
  }

  /** A tablespace is part of the batch that is applied.
  @param[in]  space_id  tablespace */
  void add(space_id_t space_id) { m_spaces.insert(space_id); }

  /** A batch has ended.
  @param[in]  is_kept  true if its pages stay */
  void end_batch(bool is_kept) {
    m_n_new = 0;
    if (!is_kept) {
      m_spaces.clear();
    }
  }

  /** Pages were evicted while redo is parsed.
  @param[in]  n_to_read  pages of this batch so far */
  void forget(size_t n_to_read) {
    m_spaces.clear();
    m_n_new = n_to_read;
  }

  /** No batch will leave its pages. */
  void give_up() { m_is_hopeless = true; }

  /** @return true if no batch will leave its pages */
  bool is_hopeless() const { return m_is_hopeless; }

  /** @return true if pages of the tablespace may be there */
  bool contains(space_id_t space_id) const {
    return m_spaces.count(space_id) > 0;
  }

  /** @return true if there is no page */
  bool is_empty() const { return m_spaces.empty(); }

  /** @return number of pages that are there */
  size_t n_kept() const {
    if (is_empty()) {
      return 0;
    }

    ulint n_in_lru, n_free, n_dirty;
    buf_get_total_list_len(&n_in_lru, &n_free, &n_dirty);

    return n_in_lru;
  }

  /** @return number of pages of this batch that have to be read */
  size_t n_new() const { return m_n_new; }

 private:
  /** Tablespaces whose pages were not evicted. */
  std::unordered_set<space_id_t> m_spaces;
  /** Pages of this batch that are not in the buffer pool. */
  size_t m_n_new{0};
  /** True if there is something that keeps no pages. */
  bool m_is_hopeless{false};
};

Cached_pages s_cached;

/** Status variables, all since start. */
struct {
  uint64_t redo_bytes{0};
  uint64_t redo_usec{0};
  uint64_t apply_usec{0};
  uint64_t batches{0};
  uint64_t pages_read{0};
  uint64_t page_reads{0};
  uint64_t pages_kept{0};
} s_status;

/** @return number of pages that were read into the buffer pool */
size_t get_n_pages_read() {
  size_t n = 0;

  for (ulong i = 0; i < srv_buf_pool_instances; ++i) {
    n += buf_pool_from_array(i)->stat.n_pages_read;
  }

  return n;
}

/** @return microseconds
@param[in]  time  duration */
uint64_t to_usec(std::chrono::steady_clock::duration time) {
  return std::chrono::duration_cast<std::chrono::microseconds>(time).count();
}

/** Find a page in the buffer pool.
@param[in]  page_id  page
@return the page, buffer-fixed; nullptr if it is not there */
buf_page_t *fix_cached(const page_id_t &page_id) {
  rw_lock_t *hash_lock;
  const auto page =
      buf_page_hash_get_s_locked(buf_pool_get(page_id), page_id, &hash_lock);

  if (page != nullptr) {
    ut_a(buf_page_get_state(page) == BUF_BLOCK_FILE_PAGE);
    buf_block_fix(page);
    rw_lock_s_unlock(hash_lock);
  }

  return page;
}

/** Apply redo to a page that was in the buffer pool.
@param[in]  page  page, which is buffer-fixed, and not any more afterwards */
void recover_cached(buf_page_t *page) {
  const auto block = reinterpret_cast<buf_block_t *>(page);

  rw_lock_x_lock(&block->lock, UT_LOCATION_HERE);
  recv_recover_page(false, block);
  rw_lock_x_unlock(&block->lock);
  buf_block_unfix(block);
}

/** Read a page as MySQL does, into the block that it has.
@param[in]  page  page, which is i/o-fixed
@return false if its tablespace is not there any more */
bool read_alone(buf_page_t *page) {
  const auto err =
      fil_io(IORequest(IORequest::READ), true, page->id, page->size, 0,
             page->size.physical(), buf_run::frame_of(page), page);

  ut_a(err == DB_SUCCESS || err == DB_TABLESPACE_DELETED);

  return err == DB_SUCCESS;
}

/** Complete the read of a page, and thereby apply redo to it.
@param[in]  request  has the key of the tablespace
@param[in]  page     page, which is i/o-fixed
@param[in]  is_full  true if it was read */
void complete_read(const IORequest &request, buf_page_t *page, bool is_full) {
  ut_d(page->take_io_responsibility());

  const bool is_plain =
      is_full && buf_run::decrypt(request, page) &&
      (page->size.is_compressed() ||
       !Compression::is_compressed_page(buf_run::frame_of(page)));

  if (is_plain || read_alone(page)) {
    buf_page_io_complete(page, false);
  } else {
    buf_read_page_handle_error(page);
  }
}

/** Wait until redo was applied to all pages of a batch. A page that cannot be
read never comes: MySQL would wait for it for ever. All reads were requested. */
void await_pages() {
  mutex_enter(&recv_sys->mutex);

  while (recv_sys->n_pages_to_recover.value() > 0) {
    mutex_exit(&recv_sys->mutex);

    /* Redo is applied to a page before its read is over. */
    const bool is_over = buf_pool_pending_io_reads_count() == 0;

    std::this_thread::sleep_for(
        std::chrono::microseconds(is_over ? 0 : AWAIT_USEC));
    mutex_enter(&recv_sys->mutex);

    if (is_over && recv_sys->n_pages_to_recover.value() > 0) {
      std::ostringstream text;

      size_t n_named = 0;

      text << "Redo cannot be applied to "
           << recv_sys->n_pages_to_recover.value()
           << " pages, for they cannot be read:";
      for (const auto &space : *recv_sys->spaces) {
        for (const auto &page : space.second.m_pages) {
          if (page.second->state == RECV_BEING_READ && n_named < MAX_NAMED) {
            text << " " << page_id_t{space.first, page.first};
            ++n_named;
          }
        }
      }
      text << ". If they are damaged, the doublewrite buffer has no copy of"
              " them. Restore a backup, or see what --innodb-force-recovery=1"
              " makes of them.";
      mutex_exit(&recv_sys->mutex);
      ib::fatal(UT_LOCATION_HERE, ER_IB_MSG_383, text.str().c_str());
    }
  }

  mutex_exit(&recv_sys->mutex);
}

}  // namespace

size_t Room::limit(size_t n_kept, size_t n_new) const {
  const auto without = [](size_t n, size_t n_less) {
    return n - std::min(n, n_less);
  };
  const auto n_free = without(m_n_bytes, n_kept * m_n_page_bytes);
  const auto n_left = without(n_free, n_new * m_n_page_bytes);

  return n_left >= m_n_bytes / 4 ? n_left : n_free;
}

bool Run_limits::add(page_no_t page_no, size_t n_record_bytes) {
  ut_ad(page_no > m_last);

  if ((page_no - m_last - 1) * m_n_page_bytes > GAP_BYTES ||
      (page_no - m_first + 1) * m_n_page_bytes > RUN_BYTES ||
      m_n_record_bytes + n_record_bytes > RUN_RECORD_BYTES) {
    return false;
  }

  m_last = page_no;
  m_n_record_bytes += n_record_bytes;

  return true;
}

Batch::Batch() {
  g_copies.restore();
  g_copies.compare();

  /* They will be given to tablespaces as they are opened. */
  if (recv_sys->keys != nullptr) {
    evict_pages();
  }

  m_n_pages_before = get_n_pages_read();
  m_n_reads_before = os_n_file_reads;
}

Batch::~Batch() {
  end_threads();

  ++s_status.batches;
  s_status.apply_usec += to_usec(std::chrono::steady_clock::now() - m_begin);
}

void Batch::count_pages() const {
  s_status.pages_read += get_n_pages_read() - m_n_pages_before;
  s_status.page_reads += os_n_file_reads - m_n_reads_before;
}

std::vector<recv_addr_t *> Batch::take(const recv_sys_t::Pages &pages) {
  ut_ad(mutex_own(&recv_sys->mutex));

  std::vector<recv_addr_t *> taken;
  taken.reserve(pages.size());

  for (const auto &page : pages) {
    if (page.second->state == RECV_NOT_PROCESSED) {
      page.second->state = RECV_BEING_READ;
      taken.push_back(page.second);
    }
  }

  std::sort(taken.begin(), taken.end(),
            [](const recv_addr_t *a, const recv_addr_t *b) {
              return a->page_no < b->page_no;
            });

  return taken;
}

void Batch::apply(space_id_t space_id, const recv_sys_t::Pages &pages) {
  if (!is_on() || is_restored()) {
    return;
  }

  const auto taken = take(pages);
  const auto space = fil_space_get(space_id);

  ut_a(space != nullptr);
  s_cached.add(space_id);

  mutex_exit(&recv_sys->mutex);
  read(space, taken);
  mutex_enter(&recv_sys->mutex);
}

void Batch::read(fil_space_t *space, const std::vector<recv_addr_t *> &pages) {
  fil_space_open_if_needed(space);

  const page_size_t page_size(space->flags);
  const bool has_runs = space->id != TRX_SYS_SPACE && space->files.size() == 1;
  Run_limits limits{page_size.physical()};
  const Taking taking{this};

  m_has_compressed |= page_size.is_compressed();
  m_run.space = m_cached.space = space;

  for (const auto addr : pages) {
    const page_id_t page_id{space->id, addr->page_no};
    const auto n_record_bytes = static_cast<const Page *>(addr)->n_bytes();

    if (const auto page = fix_cached(page_id)) {
      m_cached.pages.push_back(page);
      m_n_cached_bytes += n_record_bytes;
      if (m_n_cached_bytes > RUN_RECORD_BYTES ||
          m_cached.pages.size() * UNIV_PAGE_SIZE >= RUN_BYTES) {
        submit_cached();
      }
      continue;
    }

    if (!has_runs || addr->page_no >= space->files.front().size ||
        ibuf_bitmap_page(page_id, page_size)) {
      buf_read_recv_pages(space->id, &addr->page_no, 1);
      continue;
    }

    if (m_run.pages.empty() || !limits.add(addr->page_no, n_record_bytes)) {
      submit_run();
      limits.begin(addr->page_no, n_record_bytes);
    }

    /* May submit the run by before_wait(). Nobody else reads pages. */
    const auto page =
        buf_page_init_for_read(BUF_READ_ANY_PAGE, page_id, page_size, true);
    ut_a(page != nullptr);
    ut_d(page->release_io_responsibility());

    if (m_run.pages.empty()) {
      limits.begin(addr->page_no, n_record_bytes);
    }
    m_run.pages.push_back(page);
  }

  before_wait();
}

void Batch::before_wait() {
  submit_run();
  submit_cached();
}

void Batch::submit_cached() {
  m_n_cached += m_cached.pages.size();
  m_n_cached_bytes = 0;

  if (!m_cached.pages.empty()) {
    submit({m_cached.space, nullptr, {}, std::exchange(m_cached.pages, {})});
  }
}

void Batch::submit_run() {
  if (m_run.pages.empty()) {
    return;
  }

  Run run{m_run.space, nullptr, buf_run::request_with_key(m_run.space),
          std::exchange(m_run.pages, {})};
  auto page_no = run.pages.front()->id.page_no();

  const auto err = fil_prepare_file_for_io(run.space->id, page_no, &run.file);
  ut_a(err == DB_SUCCESS);

  if (!recovery_flush::is_last_batch()) {
    read_beside(run.pages.size() * run.pages.front()->size.physical());
  }

  submit(std::move(run));
}

void Batch::submit(Run &&run) {
  static const auto n_most =
      std::clamp(2 * size_t{my_num_vcpus()}, MIN_THREADS, MAX_THREADS);

  /* One more for each run, as few as it takes. */
  if (m_threads.size() < n_most) {
    try {
      m_threads.push_back(os_thread_create(
          PFS_NOT_INSTRUMENTED, m_threads.size(), [this]() { work(); }));
      m_threads.back().start();
    } catch (const std::system_error &) {
      /* Those that there are do it. */
    }
  }

  if (m_threads.empty()) {
    const auto gap =
        static_cast<byte *>(ut::aligned_alloc(UNIV_PAGE_SIZE, UNIV_PAGE_SIZE));
    complete(run, gap);
    ut::aligned_free(gap);
    return;
  }

  std::unique_lock<std::mutex> lock{m_mutex};

  m_changed.wait(lock, [this]() { return m_queue.size() <= m_threads.size(); });
  m_queue.push_back(std::move(run));
  m_changed.notify_all();
}

void Batch::work() {
  const auto gap =
      static_cast<byte *>(ut::aligned_alloc(UNIV_PAGE_SIZE, UNIV_PAGE_SIZE));
  std::unique_lock<std::mutex> lock{m_mutex};

  for (;;) {
    m_changed.wait(lock, [this]() { return m_is_over || !m_queue.empty(); });

    if (m_queue.empty()) {
      break;
    }

    const auto run = std::move(m_queue.front());
    m_queue.pop_front();
    m_changed.notify_all();

    lock.unlock();
    complete(run, gap);
    lock.lock();
  }

  ut::aligned_free(gap);
}

void Batch::complete(const Run &run, byte *gap) {
  if (run.file == nullptr) {
    for (auto page : run.pages) {
      recover_cached(page);
    }
    return;
  }

  buf_run::File_reader reader{*run.file, run.pages.front()->size, gap};
  const bool is_full = reader.read_all(run.pages);

  /* As if it had been written: a server that was killed may have written what
  it did not sync, and no checkpoint may rely on that. */
  fil_complete_write(run.space->id, run.file);

  m_n_pages += run.pages.size();
  m_n_reads += reader.n_reads();

  for (auto page : run.pages) {
    complete_read(run.request, page, is_full);
  }
}

void Batch::finish() {
  end_threads();
  await_pages();
}

void Batch::end_threads() {
  if (m_threads.empty()) {
    return;
  }

  {
    std::lock_guard<std::mutex> guard{m_mutex};
    m_is_over = true;
    m_changed.notify_all();
  }

  for (auto &thread : m_threads) {
    thread.join();
  }
  m_threads.clear();

  s_status.pages_kept += m_n_cached;

  ib::info(ER_IB_MSG_383) << "Redo recovery: read " << m_n_pages
                          << " pages with " << m_n_reads << " reads; "
                          << m_n_cached << " were in the buffer pool.";
}

size_t records_limit(size_t n_bytes) {
  /* Who asks is about to look at what records take, and to reuse the memory
  that they were parsed from. */
  finish_keeping();

  if (n_bytes < LEAST_POOL_BYTES) {
    s_cached.give_up();
  }

  return !is_on() || s_cached.is_hopeless()
             ? n_bytes
             : Room{n_bytes, UNIV_PAGE_SIZE}.limit(s_cached.n_kept(),
                                                   s_cached.n_new());
}

void note_page(const page_id_t &page_id) { s_cached.note(page_id); }

bool keep_pages(const Batch &batch) {
  ut_ad(!mutex_own(&recv_sys->mutex));

  if (!is_on() || is_restored() || batch.has_compressed() ||
      recv_sys->keys != nullptr ||
      (arch_page_sys != nullptr && arch_page_sys->is_active())) {
    s_cached.give_up();
  }

  const Room room{buf_pool_get_n_pages() * UNIV_PAGE_SIZE, UNIV_PAGE_SIZE};
  const bool is_kept =
      !s_cached.is_hopeless() && room.can_keep(s_cached.n_kept());

  s_cached.end_batch(is_kept);

  if (is_kept) {
    /* A thread that has recovered a page looks at its records once more, before
    it completes the read. They are about to be freed. */
    buf_pool_wait_for_no_pending_io();
  }

  return is_kept;
}

bool is_kept(space_id_t space_id) { return s_cached.contains(space_id); }

void evict_pages() {
  finish_keeping();

  if (s_cached.is_empty()) {
    return;
  }

  ib::info(ER_IB_MSG_383) << "Redo recovery: writing and evicting "
                          << s_cached.n_kept()
                          << " pages, for a tablespace is about to change.";

  mutex_enter(&recv_sys->writer_mutex);
  buf_flush_await_no_flushing(nullptr, BUF_FLUSH_LRU);
  buf_pool_wait_for_no_pending_io();

  /* A page that is just being looked at is passed over. */
  for (ulint n_in_lru, n_free, n_dirty = 1; n_dirty > 0;) {
    buf_flush_lists(ULINT_MAX, LSN_MAX, nullptr);
    buf_flush_await_no_flushing(nullptr, BUF_FLUSH_LIST);
    buf_get_total_list_len(&n_in_lru, &n_free, &n_dirty);
  }

  buf_pool_invalidate();
  mutex_exit(&recv_sys->writer_mutex);

  s_cached.forget(recv_sys->n_pages_to_recover.value());
}

Pin::Pin(space_id_t space_id) : m_space_id(space_id) {
  page_no_t page_no = 0;

  if (!s_cached.is_empty()) {
    const auto err = fil_prepare_file_for_io(space_id, page_no, &m_file);
    ut_a(err == DB_SUCCESS);
  }
}

void Pin::release() {
  if (m_file != nullptr) {
    fil_complete_write(m_space_id, std::exchange(m_file, nullptr));
  }
}

void note_redo(uint64_t n_bytes, std::chrono::steady_clock::duration time) {
  s_status.redo_bytes = n_bytes;
  s_status.redo_usec = to_usec(time) - s_status.apply_usec;
}

SHOW_VAR g_status_variables[] = {
    {"apply_usec", reinterpret_cast<char *>(&s_status.apply_usec),
     SHOW_LONGLONG, SHOW_SCOPE_GLOBAL},
    {"batches", reinterpret_cast<char *>(&s_status.batches), SHOW_LONGLONG,
     SHOW_SCOPE_GLOBAL},
    {"page_reads", reinterpret_cast<char *>(&s_status.page_reads),
     SHOW_LONGLONG, SHOW_SCOPE_GLOBAL},
    {"pages_kept", reinterpret_cast<char *>(&s_status.pages_kept),
     SHOW_LONGLONG, SHOW_SCOPE_GLOBAL},
    {"pages_read", reinterpret_cast<char *>(&s_status.pages_read),
     SHOW_LONGLONG, SHOW_SCOPE_GLOBAL},
    {"redo_bytes", reinterpret_cast<char *>(&s_status.redo_bytes),
     SHOW_LONGLONG, SHOW_SCOPE_GLOBAL},
    {"redo_usec", reinterpret_cast<char *>(&s_status.redo_usec), SHOW_LONGLONG,
     SHOW_SCOPE_GLOBAL},
    {nullptr, nullptr, SHOW_LONGLONG, SHOW_SCOPE_GLOBAL}};

}  // namespace redo_recovery
