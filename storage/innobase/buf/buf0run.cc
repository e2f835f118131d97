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
  again without a word. Who needs it reads it by itself, and reports. If it
  is waited for already, dropping it ends the server, as any failed read does.
- If the large read fails or is short, the pages are read one at a time; those
  that cannot be read are dropped.
- Blocks are taken from the buffer pool while blocks of the same run are already
  i/o-fixed. This cannot block for good, because getting a block waits for no
  page latch, and max_pages() bounds the number of blocks.

Only undo tablespaces: they have one file, which stays open as long as the
tablespace exists (they are not in the LRU of open files), have no compressed
pages and no change buffer entries. The tablespace is held with
fil_space_acquire_silent() all the time, so it is neither dropped nor truncated
meanwhile. */

#include "buf0run.h"

#include <algorithm>
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

page_no_t max_pages(size_t pool_pages) {
  /* Callers keep up to three runs. Three sixteenths of a pool leave room for
  everything else, even in the smallest one of 5 MiB. */
  constexpr size_t SHARE = 16;

  return static_cast<page_no_t>(
      std::clamp<size_t>(pool_pages / SHARE, 1, MAX_PAGES));
}

#ifdef _WIN32

Result read(space_id_t, page_no_t, page_no_t, const On_page &) { return {}; }

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

 private:
  /** Read the pages of m_blocks, and complete them. */
  void read_blocks();

  /** Read into all frames of m_blocks with one call.
  @return true if all of them are full */
  bool read_all();

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
  /** Blocks of adjacent pages that wait for being read. */
  std::vector<buf_block_t *> m_blocks;
  /** Result so far. */
  Result m_result;
};

Result Reader::read(page_no_t low, page_no_t high) {
  m_result.success = true;
  m_blocks.reserve(high - low + 1);

  for (page_no_t page_no = low; page_no <= high && m_result.success;
       ++page_no) {
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

  return m_result;
}

void Reader::read_blocks() {
  if (m_blocks.empty()) {
    return;
  }

  const bool all_full = read_all();

  if (!all_full) {
    m_result.success = false;
  }

  for (auto block : m_blocks) {
    complete(block, all_full || read_one(block));
  }

  m_blocks.clear();

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

bool Reader::read_all() {
  const size_t n_page_bytes = m_page_size.physical();
  const auto offset =
      static_cast<os_offset_t>(m_blocks.front()->page.id.page_no()) *
      n_page_bytes;

  std::vector<iovec> buffers;
  buffers.reserve(m_blocks.size());

  for (const auto block : m_blocks) {
    buffers.push_back({block->frame, n_page_bytes});
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

  if (buf_page_io_complete(&block->page, false)) {
    ++m_result.n_pages;
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

  const auto result = Reader(space, on_page).read(low, high);

  buf_pool_get(page_id_t{space_id, low})
      ->stat.n_ra_pages_read.fetch_add(result.n_pages);

  return result;
}

#endif /* _WIN32 */

}  // namespace buf_run
