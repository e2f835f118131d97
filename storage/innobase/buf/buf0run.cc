/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file buf/buf0run.cc
Read a run of adjacent pages into the buffer pool with few large reads.

Why. A volume with a limit on I/O operations serves 3,000 reads of 16 KiB in the
time of 3,000 reads of 128 KiB or more. Reading ahead page by page hides latency
but stays below that limit. The pages of a run lie side by side in the file and
anywhere in memory, so one preadv() takes them all.

How. Each page that is not in the buffer pool gets a block as for any other
read: it is in the page hash, i/o-fixed and x-latched, so that whoever wants it
waits, and nobody reads it twice or sees it half. Pages that are in the buffer
pool already, and the descriptor and bitmap pages of the tablespace, split the
run. When the read is done each page is decrypted, checked and completed by the
same function that completes any other read.

What may go wrong. The read is a guess, so it must not report or refuse what the
original code would not have read at all:
- A page that is corrupt, belongs elsewhere or cannot be decrypted is dropped
  again without a word. Who needs it reads it by itself, and reports. If its
  contents are waited for already, it is read once more in MySQL's way, which
  reports, and ends the server as it does for any page. A page that is free may
be corrupt with nobody the worse for it: buf_page_create() waits by
wait_for_read(), and makes the page anew when it was dropped.
- If the large read fails or is short, the pages are read one at a time; those
  that cannot be read are dropped.
- Blocks are taken from the buffer pool while blocks of the same run are already
  i/o-fixed, so they can neither be evicted nor used. If many threads held such
  blocks and waited for more, they would wait for each other. Therefore nobody
  waits with blocks in his hands: buf_LRU_get_free_block() calls before_wait()
  when the next thing to do is to flush or to sleep, and that reads what was
  collected. The run then ends with the block that was waited for. It is gone
  through from the page that is needed first, the last one of an undo log, the
  first one of a scan, so that the rest which is left out is the part that is
  needed last. Readers go on with it.

The tablespace is held with fil_space_acquire_silent() all the time, so it is
neither dropped nor truncated meanwhile. The file of an undo tablespace stays
open as long as the tablespace exists (it is not in the LRU of open files); that
of another one is kept open for the read. Tables with ROW_FORMAT=COMPRESSED and
tablespaces of several files are not read by read(), nor is the system
tablespace: the completion of a page may merge changes from the change buffer,
whose pages are there, while other pages of the run are i/o-fixed. It also gets
a bitmap page, which no run has. Crash recovery reads pages of any tablespace
with File_reader (log/log0apply.cc). */

#include "buf0run.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#ifndef _WIN32
#include <sys/uio.h>
#include <unistd.h>
#endif /* !_WIN32 */

#include "buf0buf.h"
#include "buf0checksum.h"
#include "buf0lru.h"
#include "fsp0fsp.h"
#include "log0recv.h"
#include "os0enc.h"
#include "os0file.h"
#include "os0thread-create.h"
#include "page0page.h"
#include "scope_guard.h"
#include "srv0srv.h"

namespace buf_run {

namespace {

/** Bytes of a large read. For a volume of 3,000 reads and 125 MiB a second, 42
KiB would do. */
constexpr size_t RUN_BYTES = 1024 * 1024;

#ifndef UNIV_PFS_THREAD
/** There are no keys of threads. */
#define io_read_thread_key PFS_NOT_INSTRUMENTED
#endif /* !UNIV_PFS_THREAD */

/** Who takes blocks in this thread. */
thread_local Collector *s_collector = nullptr;

}  // namespace

Collector::Taking::Taking(Collector *collector) {
  ut_ad(s_collector == nullptr);
  s_collector = collector;
}

Collector::Taking::~Taking() { s_collector = nullptr; }

void before_wait() {
  if (s_collector != nullptr) {
    s_collector->before_wait();
  }
}

std::vector<Run> make_runs(std::vector<page_id_t> pages, page_no_t max_pages) {
  std::vector<Run> runs;

  std::sort(pages.begin(), pages.end());

  for (const auto &page : pages) {
    const auto page_no = page.page_no();

    if (!runs.empty() && runs.back().space_id == page.space()) {
      auto &last = runs.back();

      if (page_no == last.high) {
        continue;
      }
      if (page_no == last.high + 1 && page_no - last.low < max_pages) {
        last.high = page_no;
        continue;
      }
    }
    runs.push_back({page.space(), page_no, page_no});
  }

  return runs;
}

page_no_t most_pages() {
  return std::max<page_no_t>(RUN_BYTES / UNIV_PAGE_SIZE, 1);
}

void Readers::end() {
  std::vector<IB_thread> threads;
  {
    std::lock_guard<std::mutex> guard{m_mutex};
    m_is_over = true;
    m_queue.clear();
    m_changed.notify_all();
    threads.swap(m_threads);
  }

  for (auto &thread : threads) {
    thread.join();
  }
}

void Readers::start_threads(size_t n_runs) {
  try {
    while (m_threads.size() < std::min(n_runs, m_max_threads)) {
      m_threads.push_back(os_thread_create(
          io_read_thread_key, srv_n_read_io_threads + m_threads.size() + 1,
          [this]() { work(); }));
      m_threads.back().start();
    }
  } catch (const std::system_error &) {
    /* Those that there are do it. */
  }
}

void Readers::submit(const std::vector<Run> &runs) {
  std::lock_guard<std::mutex> guard{m_mutex};

  start_threads(runs.size());

  if (!m_threads.empty()) {
    m_queue.insert(m_queue.end(), runs.begin(), runs.end());
    m_changed.notify_all();
  }
}

bool Readers::try_submit(const Run &run, size_t max_waiting) {
  std::lock_guard<std::mutex> guard{m_mutex};

  if (m_is_over || m_queue.size() >= max_waiting) {
    return false;
  }

  start_threads(m_n_running + m_queue.size() + 1);

  if (m_threads.empty()) {
    return false;
  }

  m_queue.push_back(run);
  m_changed.notify_all();

  return true;
}

void Readers::wait() {
  std::unique_lock<std::mutex> lock{m_mutex};
  m_changed.wait(lock,
                 [this]() { return m_queue.empty() && m_n_running == 0; });
}

void Readers::read_all(const Run &run) {
  auto low = run.low;
  auto high = run.high;

  while (!m_is_over) {
    const auto result = read(run.space_id, low, high, run.order,
                             [](page_no_t, const byte *) {});
    m_n_pages += result.n_pages;
    m_n_reads += result.n_reads;

    if (!result.success || result.n_left_out == 0) {
      break;
    }

    /* There was no free block. Go on, with fewer pages each time. */
    if (run.order == Order::ASCENDING) {
      low = high - result.n_left_out + 1;
    } else {
      high = low + result.n_left_out - 1;
    }
  }
}

void Readers::work() {
  std::unique_lock<std::mutex> lock{m_mutex};

  for (;;) {
    m_changed.wait(lock, [this]() { return m_is_over || !m_queue.empty(); });

    if (m_is_over) {
      break;
    }

    const auto run = m_queue.front();
    m_queue.pop_front();
    ++m_n_running;

    lock.unlock();

    read_all(run);

    lock.lock();
    --m_n_running;
    m_changed.notify_all();
  }
}

byte *frame_of(buf_page_t *page) {
  return page->size.is_compressed()
             ? page->zip.data
             : reinterpret_cast<buf_block_t *>(page)->frame;
}

IORequest request_with_key(fil_space_t *space) {
  IORequest request(IORequest::READ);

  /* Any page but the first, which is never encrypted. */
  fil_io_set_encryption(request, {space->id, 1}, space);

  return request;
}

bool decrypt(IORequest request, buf_page_t *page) {
  const auto frame = frame_of(page);

  return !Encryption::is_encrypted_page(frame) ||
         request.encryption_algorithm().decrypt(
             request, frame, page->size.physical(), nullptr, 0) == DB_SUCCESS;
}

#ifdef _WIN32

bool File_reader::read_all(const Pages &) { return false; }

bool File_reader::read_one(buf_page_t *) { return false; }

Result read(space_id_t, page_no_t, page_no_t, Order, const On_page &) {
  return {};
}

bool wait_for_read(const page_id_t &) { return false; }

#else

/** Count a read of a file. The counter is MySQL's, which all threads add to
without synchronization. */
static void count_file_read() { ++os_n_file_reads; }

template <typename Call>
bool File_reader::read(size_t n_wanted, Call call) {
#ifdef UNIV_PFS_IO
  PSI_file_locker_state state;
  PSI_file_locker *locker = nullptr;
  const auto location = UT_LOCATION_HERE;
  register_pfs_file_io_begin(&state, locker, m_file.handle, n_wanted,
                             PSI_FILE_READ, location);
#endif /* UNIV_PFS_IO */

  ssize_t n_read;

  do {
    n_read = call(m_file.handle.m_file);
  } while (n_read < 0 && errno == EINTR);

  const size_t n_bytes = n_read < 0 ? 0 : n_read;

#ifdef UNIV_PFS_IO
  register_pfs_file_io_end(locker, n_bytes);
#endif /* UNIV_PFS_IO */

  count_file_read();
  ++m_n_reads;
  srv_stats.data_read.add(n_bytes);

  return n_bytes == n_wanted;
}

bool File_reader::read_all(const Pages &pages) {
  const size_t n_page_bytes = m_page_size.physical();
  const auto first = pages.front()->id.page_no();
  const auto offset = static_cast<os_offset_t>(first) * n_page_bytes;
  auto next = first;
  std::vector<iovec> buffers;

  buffers.reserve(pages.back()->id.page_no() - first + 1);

  for (auto page : pages) {
    for (; next < page->id.page_no(); ++next) {
      ut_ad(m_gap != nullptr);
      buffers.push_back({m_gap, n_page_bytes});
    }
    buffers.push_back({frame_of(page), n_page_bytes});
    ++next;
  }

  return read(buffers.size() * n_page_bytes, [&](os_file_t file) {
    return preadv(file, buffers.data(), static_cast<int>(buffers.size()),
                  offset);
  });
}

bool File_reader::read_one(buf_page_t *page) {
  const size_t n_page_bytes = m_page_size.physical();
  const auto offset =
      static_cast<os_offset_t>(page->id.page_no()) * n_page_bytes;

  return read(n_page_bytes, [&](os_file_t file) {
    return pread(file, frame_of(page), n_page_bytes, offset);
  });
}

namespace {

/** Reads adjacent pages of one tablespace. */
class Reader : public Collector {
 public:
  /** Constructor.
  @param[in]  space    tablespace, acquired, whose file is open
  @param[in]  on_page  called for each page that was read */
  Reader(fil_space_t *space, const On_page &on_page)
      : m_space(space),
        m_page_size(space->flags),
        m_reader(space->files.front(), m_page_size),
        m_on_page(on_page) {}

  /** Read pages.
  @param[in]  low    first page
  @param[in]  high   last page
  @param[in]  order  which page is needed first
  @return what was read */
  Result read(page_no_t low, page_no_t high, Order order);

  /** The thread is about to wait for a free block: hold none. */
  void before_wait() override;

 private:
  /** Read the pages of m_pages, and complete them. */
  void read_pages();

  /** Complete the read of a page, or drop it.
  @param[in]  page     page
  @param[in]  is_full  true if the page was read */
  void complete(buf_page_t *page, bool is_full);

  /** Read a page as MySQL does, which reports what is wrong with it.
  @param[in]  page  page
  @return true if it was read */
  bool read_alone(buf_page_t *page);

  /** Decrypt a page, decompress it, and check that it is what it should be.
  @param[in]  page  page
  @return true if the page is good */
  bool is_good(buf_page_t *page);

  /** Tablespace. */
  fil_space_t *const m_space;
  /** Its page size. */
  const page_size_t m_page_size;
  /** Reads its file. */
  File_reader m_reader;
  /** Called for each page that was read. */
  const On_page &m_on_page;
  /** Adjacent pages that wait for being read, in the order in which they are
  needed. */
  File_reader::Pages m_pages;
  /** True if the buffer pool had no block that could be had at once. */
  bool m_has_waited{false};
  /** Result so far. */
  Result m_result;
};

Result Reader::read(page_no_t low, page_no_t high, Order order) {
  const Taking taking{this};

  m_result.success = true;
  m_pages.reserve(high - low + 1);

  auto n_left = high - low + 1;

  while (n_left > 0 && m_result.success && !m_has_waited) {
    const auto page_no =
        order == Order::ASCENDING ? high + 1 - n_left : low + n_left - 1;
    --n_left;

    const bool is_special =
        page_no % m_page_size.physical() <= FSP_IBUF_BITMAP_OFFSET;

    const auto bpage =
        is_special ? nullptr
                   : buf_page_init_for_read(BUF_READ_ANY_PAGE,
                                            page_id_t{m_space->id, page_no},
                                            m_page_size, false);

    if (bpage != nullptr) {
      ut_a(buf_page_get_state(bpage) == BUF_BLOCK_FILE_PAGE);
      m_pages.push_back(bpage);
    } else {
      read_pages();
    }
  }

  read_pages();
  m_result.n_left_out = n_left;
  m_result.n_reads = m_reader.n_reads();

  return m_result;
}

void Reader::before_wait() {
  m_has_waited = true;
  read_pages();
}

void Reader::read_pages() {
  if (m_pages.empty()) {
    return;
  }

  const auto pages = std::exchange(m_pages, {});
  const bool is_ascending =
      pages.front()->id.page_no() <= pages.back()->id.page_no();
  const bool all_full = m_reader.read_all(
      is_ascending ? pages : File_reader::Pages{pages.rbegin(), pages.rend()});

  if (!all_full) {
    m_result.success = false;
  }

  for (auto page : pages) {
    complete(page, all_full || m_reader.read_one(page));
  }

  /* For the LRU policy, a read-ahead is one operation. */
  buf_LRU_stat_inc_io();
}

bool Reader::read_alone(buf_page_t *page) {
  return fil_io(IORequest(IORequest::READ), true, page->id, m_page_size, 0,
                m_page_size.physical(), frame_of(page), page) == DB_SUCCESS;
}

bool Reader::is_good(buf_page_t *page) {
  const auto frame = frame_of(page);

  if (!decrypt(request_with_key(m_space), page) ||
      os_file_decompress_page(false, frame, nullptr, 0) != DB_SUCCESS ||
      Compression::is_compressed_page(frame)) {
    return false;
  }

  const auto read_id = page_get_page_id(frame);

  /* Zeros in both are a page that was never written. */
  if (!(read_id == page->id) && !(read_id == page_id_t{0, 0})) {
    return false;
  }

  return !BlockReporter{false, frame, m_page_size,
                        fsp_is_checksum_disabled(page->id.space())}
              .is_corrupted();
}

void Reader::complete(buf_page_t *page, bool is_full) {
  const auto page_no = page->id.page_no();

  const auto is_plain = is_full && is_good(page);

  if (!is_plain && !(page->buf_fix_count > 0 && read_alone(page))) {
    m_on_page(page_no, nullptr);
    buf_read_page_handle_error(page);
    return;
  }

  m_on_page(page_no, is_plain ? frame_of(page) : nullptr);

  /* The block can be evicted as soon as it is completed. */
  const auto buf_pool = buf_pool_from_bpage(page);

  if (buf_page_io_complete(page, false)) {
    ++m_result.n_pages;
    buf_pool->stat.n_ra_pages_read.fetch_add(1);
  }
}

/** Keeps the file of a tablespace open. */
class Open_file {
 public:
  /** Constructor.
  @param[in]  space  tablespace of one file, acquired */
  explicit Open_file(fil_space_t *space) : m_space(space) {
    if (fsp_is_undo_tablespace(space->id)) {
      m_is_open = space->files.front().is_open;
      return;
    }

    m_file = open_file(space);
    m_is_open = m_file != nullptr;
  }

  ~Open_file() {
    if (m_file != nullptr) {
      close_file(m_space, m_file);
    }
  }

  Open_file(const Open_file &) = delete;
  Open_file &operator=(const Open_file &) = delete;

  /** @return true if it is open */
  bool is_open() const { return m_is_open; }

 private:
  /** Tablespace. */
  fil_space_t *const m_space;
  /** True if the file is open. */
  bool m_is_open;
  /** The file, if it was opened or kept open. */
  fil_node_t *m_file{nullptr};
};

}  // namespace

Result read(space_id_t space_id, page_no_t low, page_no_t high, Order order,
            const On_page &on_page) {
  ut_ad(low <= high);

  /* In recovery, the completion of a read applies redo: not from here. With
  innodb_force_recovery, pages that are not good are used: not these. The system
  tablespace has pages that other pages wait for when they are completed. */
  if (recv_recovery_is_on() || srv_force_recovery > 0 ||
      space_id == TRX_SYS_SPACE) {
    return {};
  }

  /* Null if it does not exist or is about to be dropped. */
  fil_space_t *space = fil_space_acquire_silent(space_id);

  if (space == nullptr) {
    return {};
  }

  const auto guard =
      create_scope_guard([space]() { fil_space_release(space); });

  if (space->files.size() != 1 || page_size_t(space->flags).is_compressed()) {
    return {};
  }

  const Open_file file{space};

  if (!file.is_open()) {
    return {};
  }

  const auto n_in_file = std::min(space->size, space->files.front().size);

  if (high >= n_in_file || high - low >= MAX_PAGES) {
    return {};
  }

  return Reader(space, on_page).read(low, high, order);
}

bool wait_for_read(const page_id_t &page_id) {
  for (bool has_waited = false;; has_waited = true) {
    rw_lock_t *hash_lock;
    const auto bpage =
        buf_page_hash_get_s_locked(buf_pool_get(page_id), page_id, &hash_lock);

    if (bpage == nullptr) {
      return true;
    }

    const bool is_read = bpage->was_io_fix_read();

    rw_lock_s_unlock(hash_lock);

    if (!is_read) {
      return has_waited;
    }

    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

#endif /* _WIN32 */

}  // namespace buf_run
