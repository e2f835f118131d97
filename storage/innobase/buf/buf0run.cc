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
  contents are waited for already, dropping it ends the server, as any failed
  read does. A page that is free may be corrupt with nobody the worse for it:
  buf_page_create() waits by wait_for_read(), and makes the page anew when it
  was dropped.
- If the large read fails or is short, the pages are read one at a time; those
  that cannot be read are dropped.
- Blocks are taken from the buffer pool while blocks of the same run are already
  i/o-fixed, so they can neither be evicted nor used. If many threads held such
  blocks and waited for more, they would wait for each other. Therefore nobody
  waits with blocks in his hands: buf_LRU_get_free_block() calls before_wait()
  when the next thing to do is to flush or to sleep, and that reads what was
  collected. The run then ends with the block that was waited for. It is gone
  through from its last page, the one that is needed first, so that the rest
  which is left out is the part that is needed last.

Only undo tablespaces: they have one file, which stays open as long as the
tablespace exists (they are not in the LRU of open files), have no compressed
pages and no change buffer entries. The tablespace is held with
fil_space_acquire_silent() all the time, so it is neither dropped nor truncated
meanwhile. */

#include "buf0run.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include <errno.h>

#ifndef _WIN32
#include <sys/uio.h>
#include <unistd.h>
#endif /* !_WIN32 */

#include "buf0buf.h"
#include "buf0checksum.h"
#include "buf0lru.h"
#include "fsp0fsp.h"
#include "log0recv.h"
#include "mach0data.h"
#include "os0enc.h"
#include "os0file.h"
#include "scope_guard.h"
#include "srv0srv.h"

namespace buf_run {

#ifdef _WIN32

Result read(space_id_t, page_no_t, page_no_t, const On_page &) { return {}; }

void before_wait() {}

bool wait_for_read(const page_id_t &) { return false; }

#else

namespace {

/** Reads adjacent pages of one tablespace. */
class Reader {
 public:
  /** Constructor.
  @param[in]  space    undo tablespace, acquired
  @param[in]  on_page  called for each page that was read */
  Reader(fil_space_t *space, const On_page &on_page)
      : m_space(space),
        m_file(space->files.front()),
        m_page_size(space->flags),
        m_on_page(on_page) {}

  /** Read pages.
  @param[in]  low   first page
  @param[in]  high  last page
  @return what was read */
  Result read(page_no_t low, page_no_t high);

  /** The thread is about to wait for a free block: hold none. */
  void before_wait();

 private:
  using Blocks = std::vector<buf_block_t *>;

  /** Read the pages of m_blocks, and complete them. */
  void read_blocks();

  /** Read into the frames of several blocks with one call.
  @param[in]  blocks  blocks of adjacent pages, last page first
  @return true if all of them are full */
  bool read_all(const Blocks &blocks);

  /** Read one page.
  @param[in]  block  where to
  @return true if it was read */
  bool read_one(const buf_block_t *block);

  /** Complete the read of a page, or drop it.
  @param[in]  block    block of the page
  @param[in]  is_full  true if the page was read */
  void complete(buf_block_t *block, bool is_full);

  /** Decrypt a page, and check that it is what it should be.
  @param[in]  block  block of the page
  @return true if the page is good */
  bool is_good(const buf_block_t *block);

  /** Call a read function of the system, until it is not interrupted.
  @param[in]  n_wanted  number of bytes
  @param[in]  call      the function, for a file descriptor
  @return true if that many bytes were read */
  template <typename Call>
  bool read_instrumented(size_t n_wanted, Call call);

  /** Undo tablespace. */
  fil_space_t *const m_space;
  /** Its file. */
  fil_node_t &m_file;
  /** Its page size. */
  const page_size_t m_page_size;
  /** Called for each page that was read. */
  const On_page &m_on_page;
  /** Blocks of adjacent pages that wait for being read, last page first. */
  Blocks m_blocks;
  /** True if the buffer pool had no block that could be had at once. */
  bool m_has_waited{false};
  /** Result so far. */
  Result m_result;
};

/** Reader of this thread, if it is in Reader::read(). */
thread_local Reader *s_reader = nullptr;

Result Reader::read(page_no_t low, page_no_t high) {
  ut_ad(s_reader == nullptr);
  s_reader = this;
  const auto guard = create_scope_guard([]() { s_reader = nullptr; });

  m_result.success = true;
  m_blocks.reserve(high - low + 1);

  auto n_left = high - low + 1;

  while (n_left > 0 && m_result.success && !m_has_waited) {
    const auto page_no = low + --n_left;

    const bool is_special =
        page_no % m_page_size.physical() <= FSP_IBUF_BITMAP_OFFSET;

    const auto bpage =
        is_special ? nullptr
                   : buf_page_init_for_read(BUF_READ_ANY_PAGE,
                                            page_id_t{m_space->id, page_no},
                                            m_page_size, false);

    if (bpage != nullptr) {
      ut_a(buf_page_get_state(bpage) == BUF_BLOCK_FILE_PAGE);
      m_blocks.push_back(reinterpret_cast<buf_block_t *>(bpage));
    } else {
      read_blocks();
    }
  }

  read_blocks();
  m_result.n_left_out = n_left;

  return m_result;
}

void Reader::before_wait() {
  m_has_waited = true;
  read_blocks();
}

void Reader::read_blocks() {
  if (m_blocks.empty()) {
    return;
  }

  const auto blocks = std::exchange(m_blocks, {});
  const bool all_full = read_all(blocks);

  if (!all_full) {
    m_result.success = false;
  }

  for (auto block : blocks) {
    complete(block, all_full || read_one(block));
  }

  /* For the LRU policy, a read-ahead is one operation. */
  buf_LRU_stat_inc_io();
}

template <typename Call>
bool Reader::read_instrumented(size_t n_wanted, Call call) {
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

  ++os_n_file_reads;
  ++m_result.n_reads;
  srv_stats.data_read.add(n_bytes);

  return n_bytes == n_wanted;
}

bool Reader::read_all(const Blocks &blocks) {
  const size_t n_page_bytes = m_page_size.physical();
  const auto offset =
      static_cast<os_offset_t>(blocks.back()->page.id.page_no()) * n_page_bytes;

  std::vector<iovec> buffers;
  buffers.reserve(blocks.size());

  for (auto it = blocks.rbegin(); it != blocks.rend(); ++it) {
    buffers.push_back({(*it)->frame, n_page_bytes});
  }

  return read_instrumented(buffers.size() * n_page_bytes, [&](os_file_t file) {
    return preadv(file, buffers.data(), static_cast<int>(buffers.size()),
                  offset);
  });
}

bool Reader::read_one(const buf_block_t *block) {
  const size_t n_page_bytes = m_page_size.physical();
  const auto offset =
      static_cast<os_offset_t>(block->page.id.page_no()) * n_page_bytes;

  return read_instrumented(n_page_bytes, [&](os_file_t file) {
    return pread(file, block->frame, n_page_bytes, offset);
  });
}

bool Reader::is_good(const buf_block_t *block) {
  const auto frame = block->frame;
  const auto &page_id = block->page.id;

  if (Encryption::is_encrypted_page(frame)) {
    IORequest request(IORequest::READ);
    fil_io_set_encryption(request, page_id, m_space);

    if (request.encryption_algorithm().decrypt(
            request, frame, m_page_size.physical(), nullptr, 0) != DB_SUCCESS) {
      return false;
    }
  }

  if (Compression::is_compressed_page(frame)) {
    return false;
  }

  const page_id_t read_id{mach_read_from_4(frame + FIL_PAGE_SPACE_ID),
                          mach_read_from_4(frame + FIL_PAGE_OFFSET)};

  /* Zeros in both are a page that was never written. */
  if (!(read_id == page_id) && !(read_id == page_id_t{0, 0})) {
    return false;
  }

  return !BlockReporter{false, frame, m_page_size,
                        fsp_is_checksum_disabled(page_id.space())}
              .is_corrupted();
}

void Reader::complete(buf_block_t *block, bool is_full) {
  const auto page_no = block->page.id.page_no();

  if (!is_full || !is_good(block)) {
    m_on_page(page_no, nullptr);
    buf_read_page_handle_error(&block->page);
    return;
  }

  m_on_page(page_no, block->frame);

  /* The block can be evicted as soon as it is completed. */
  const auto buf_pool = buf_pool_from_block(block);

  if (buf_page_io_complete(&block->page, false)) {
    ++m_result.n_pages;
    buf_pool->stat.n_ra_pages_read.fetch_add(1);
  }
}

}  // namespace

Result read(space_id_t space_id, page_no_t low, page_no_t high,
            const On_page &on_page) {
  ut_ad(low <= high);

  /* In recovery, the completion of a read applies redo: not from here. */
  if (!fsp_is_undo_tablespace(space_id) || recv_recovery_is_on()) {
    return {};
  }

  /* Null if it does not exist or is about to be dropped. */
  fil_space_t *space = fil_space_acquire_silent(space_id);

  if (space == nullptr) {
    return {};
  }

  const auto guard =
      create_scope_guard([space]() { fil_space_release(space); });

  if (space->files.size() != 1 || !space->files.front().is_open ||
      page_size_t(space->flags).is_compressed()) {
    return {};
  }

  const auto n_in_file = std::min(space->size, space->files.front().size);

  if (high >= n_in_file || high - low >= MAX_PAGES) {
    return {};
  }

  return Reader(space, on_page).read(low, high);
}

void before_wait() {
  if (s_reader != nullptr) {
    s_reader->before_wait();
  }
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
