/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file trx/trx0rsegs.cc
Read ahead what a start needs of all rollback segments.

Why. Each start, also one after a shutdown, makes an object for each of the 256
rollback segments of two undo tablespaces. For each it reads the header of the
segment, the first page of each undo log that the segment has, open or kept for
the next transaction, and the last page of its history, page by page, by at most
four threads. These are some 550 reads, two thirds of InnoDB's in the start of
an empty server; a volume with 3,000 I/Os a second takes 0.2 s for them.

How. The headers of an undo tablespace lie side by side or nearly so; they are
read with few large reads. They say where the rest is, which is read by some
threads, in the order of the file. The start then finds it all in the buffer
pool. At most a quarter of the buffer pool is read; the start reads the rest as
ever, and what could not be read. So it does with the last page of an undo log
that has several, and with what it reads of a history to find GTIDs.

What is read here is a guess, as in buf0run.cc: a damaged header must not end
the server where MySQL would go on, so numbers are taken from it as bytes. */

#include "trx0rsegs.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "buf0buf.h"
#include "buf0run.h"
#include "fil0types.h"
#include "fut0lst.h"
#include "mach0data.h"
#include "mtr0mtr.h"
#include "srv0srv.h"
#include "trx0ahead.h"
#include "trx0purge.h"
#include "trx0rseg.h"
#include "trx0types.h"

namespace undo_read_ahead {

namespace {

/** Threads that read. */
constexpr size_t N_READERS = 8;

/** Share of the buffer pool that may be read: one of so many parts. */
constexpr size_t POOL_PARTS = 4;

/** Pages, and how many there may be. */
class Pages {
 public:
  /** Constructor.
  @param[in]  max_pages  most pages */
  explicit Pages(size_t max_pages) : m_max_pages(max_pages) {}

  /** @return whether there is no room for another one */
  bool is_full() const { return m_pages.size() >= m_max_pages; }

  /** Add a page, unless there is none or no room.
  @param[in]  space_id  tablespace
  @param[in]  page_no   page number, or FIL_NULL */
  void add(space_id_t space_id, page_no_t page_no) {
    if (page_no != FIL_NULL && !is_full()) {
      m_pages.emplace_back(space_id, page_no);
    }
  }

  /** @return the pages */
  const std::vector<page_id_t> &get() const { return m_pages; }

  /** Read them, and wait for that.
  @param[in,out]  readers  threads */
  void read(buf_run::Readers *readers) const {
    readers->submit(buf_run::make_runs(
        m_pages, std::min<page_no_t>(buf_run::most_pages(), g_pages)));
    readers->wait();
  }

 private:
  /** Most pages. */
  const size_t m_max_pages;
  /** Pages. */
  std::vector<page_id_t> m_pages;
};

/** Find the headers of all rollback segments.
@param[in,out]  headers  pages */
void find_headers(Pages *headers) {
  undo::spaces->s_lock();

  for (const auto space : undo::spaces->m_spaces) {
    mtr_t mtr;
    mtr.start();

    const auto array = trx_rsegsf_get(space->id(), &mtr);

    for (ulint slot = 0; slot < FSP_MAX_ROLLBACK_SEGMENTS; ++slot) {
      const auto page_no = trx_rsegsf_get_page_no(array, slot, &mtr);

      /* The start looks at none behind it. */
      if (page_no == FIL_NULL) {
        break;
      }
      headers->add(space->id(), page_no);
    }

    mtr.commit();

    if (headers->is_full()) {
      break;
    }
  }

  undo::spaces->s_unlock();
}

/** Find what a rollback segment refers to.
@param[in]      page_id  page of its header
@param[in,out]  logs     pages */
void find_logs(const page_id_t &page_id, Pages *logs) {
  mtr_t mtr;
  mtr.start();

  const auto header = trx_rsegf_get_new(page_id.space(), page_id.page_no(),
                                        univ_page_size, &mtr);

  for (ulint slot = 0; slot < TRX_RSEG_N_SLOTS; ++slot) {
    logs->add(page_id.space(), trx_rsegf_get_nth_undo(header, slot, &mtr));
  }

  /* An empty list has no last page that means anything. */
  if (flst_get_len(header + TRX_RSEG_HISTORY) > 0) {
    logs->add(page_id.space(), mach_read_from_4(header + TRX_RSEG_HISTORY +
                                                FLST_LAST + FIL_ADDR_PAGE));
  }

  mtr.commit();
}

}  // namespace

void read_rollback_segments() {
#ifdef _WIN32
  /* There are no reads of several pages. */
  return;
#endif /* _WIN32 */

  if (g_pages == 0 || srv_force_recovery > 0) {
    return;
  }

  const auto max_pages = buf_pool_get_n_pages() / POOL_PARTS;
  buf_run::Readers readers{N_READERS};
  Pages headers{max_pages};

  find_headers(&headers);
  headers.read(&readers);

  Pages logs{max_pages - headers.get().size()};

  for (const auto &page_id : headers.get()) {
    if (logs.is_full()) {
      break;
    }
    find_logs(page_id, &logs);
  }

  logs.read(&readers);
}

}  // namespace undo_read_ahead
