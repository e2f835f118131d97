/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file include/ddl0extent.h
Write the pages of a table that is being rebuilt many at a time; see
ddl/ddl0extent.cc. */

#ifndef ddl0extent_h
#define ddl0extent_h

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "buf0types.h"
#include "dict0types.h"
#include "fil0fil.h"
#include "fil0types.h"
#include "mach0data.h"
#include "os0thread.h"
#include "trx0types.h"
#include "ut0new.h"

class Flush_observer;

namespace ddl::kway {

/** @return whether a page has neither redo records nor a copy in the
doublewrite files, if its tablespace was made by the statement that builds it,
without a spatial index: it is of a B-tree, not its root, and was never written
@param[in]  page  page, latched */
[[nodiscard]] inline bool needs_no_copy(const byte *page) {
  return mach_read_from_2(page + FIL_PAGE_TYPE) == FIL_PAGE_INDEX &&
         mach_read_from_8(page + FIL_PAGE_LSN) == 0 &&
         (mach_read_from_4(page + FIL_PAGE_PREV) != FIL_NULL ||
          mach_read_from_4(page + FIL_PAGE_NEXT) != FIL_NULL);
}

/** @return where neighbours end in a list of pages
@param[in]  pages   page numbers, ascending
@param[in]  begin   index of the first
@param[in]  n_most  most that are taken together, at least 1 */
[[nodiscard]] inline size_t end_of_neighbours(
    const std::vector<page_no_t> &pages, size_t begin, size_t n_most) {
  auto end = begin + 1;

  while (end < pages.size() && end - begin < n_most &&
         pages[end] == pages[end - 1] + 1) {
    ++end;
  }
  return end;
}

/** Find a dirty page of an index build that nobody holds.
@param[in]  buf_pool  buffer pool instance
@param[in]  page_id   page
@param[in]  observer  whose page it is to be
@return the page, its mutex held by the caller; nullptr if it is none */
[[nodiscard]] buf_page_t *enter_idle_page(buf_pool_t *buf_pool,
                                          const page_id_t &page_id,
                                          const Flush_observer *observer);

/** Writes dirty pages of one tablespace that are neighbours in the file with
one write, not into the doublewrite files. Who calls this knows that the pages
have no redo records. */
class Extents {
 public:
  /** Fewest neighbours that are worth a write while others may come. */
  static constexpr size_t LEAST_PAGES = 16;

  /** Constructor.
  @param[in]  space_id  tablespace
  @param[in]  observer  whose pages */
  Extents(space_id_t space_id, const Flush_observer *observer);

  /** Write pages, and wait for the writes. What somebody holds is left; nothing
  is waited for but the redo log and the device.
  @param[in]  n_least   fewest neighbours that are written
  @param[in]  n_looked  dirty pages of each buffer pool instance that are looked
                        at, whoever changed them, newest first
  @param[in]  trx       transaction; stop when it is interrupted; or nullptr
  @return number of pages written */
  size_t write(size_t n_least, size_t n_looked, const trx_t *trx = nullptr);

  /** Let write() return soon, now and from now on. */
  void stop() { m_is_stopped = true; }

 private:
  /** Find dirty pages, in the order of the file.
  @param[in]  n_looked  how many dirty pages to look at */
  void find(size_t n_looked);

  /** Begin to write a page, if nobody holds it.
  @return whether it is among those that put() writes */
  bool take(page_no_t page_no);

  /** Write what was taken.
  @return number of pages */
  size_t put();

  /** Tablespace. */
  const space_id_t m_space_id;

  /** Whose pages. */
  const Flush_observer *const m_observer;

  /** What is written, in one piece; nullptr if there was no memory. */
  ut::unique_ptr_aligned<byte[]> m_buffer;

  /** Pages that were found. */
  std::vector<page_no_t> m_found;

  /** Neighbours that are being written. */
  std::vector<buf_page_t *> m_taken;

  /** Whether to stop. */
  std::atomic<bool> m_is_stopped{};
};

/** A thread that writes the pages of a rebuild while it goes on. */
class Early_flush {
 public:
  /** Constructor; begin() makes and starts one. */
  Early_flush(space_id_t space_id, const Flush_observer *observer);

  /** Ends the thread. */
  ~Early_flush();

  Early_flush(const Early_flush &) = delete;
  Early_flush &operator=(const Early_flush &) = delete;

  /** Begin, if that is possible for a table.
  @param[in]  table     table that is being made by a rebuild
  @param[in]  observer  of its pages; nullptr = they are logged
  @return the thread, ended with the last reference; nullptr if it cannot be */
  [[nodiscard]] static std::shared_ptr<Early_flush> begin(
      const dict_table_t *table, const Flush_observer *observer);

  /** @return the one of a tablespace; nullptr if there is none */
  [[nodiscard]] static std::shared_ptr<Early_flush> find(space_id_t space_id);

  /** End the thread; nothing is being written when this returns. */
  void end();

 private:
  /** What the thread does. */
  void run();

  /** Tablespace. */
  const space_id_t m_space_id;

  /** Writes; used by the thread alone. */
  Extents m_extents;

  /** Held by who ends the thread. */
  std::mutex m_ending;

  /** Protects m_is_over. */
  std::mutex m_mutex;

  /** Signalled when it has changed. */
  std::condition_variable m_changed;

  /** Whether the thread is to end. */
  bool m_is_over{};

  /** The thread. */
  IB_thread m_thread;

  /** Whether it was started, and has not been ended. */
  bool m_has_thread{};
};

}  // namespace ddl::kway

#endif /* ddl0extent_h */
