/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file include/trx0ahead.h
Read-ahead for walks through an undo log from its end to its start: the search
for the tables of a transaction that recovery found, and rollback.

trx/trx0ahead.cc has the design; the variable is innodb_undo_read_ahead_pages.
*/

#ifndef trx0ahead_h
#define trx0ahead_h

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "my_inttypes.h"

#include "buf0run.h"
#include "buf0types.h"
#include "dict0types.h"
#include "fil0fil.h"
#include "page0types.h"
#include "trx0types.h"
#include "univ.i"

namespace undo_read_ahead {

/** innodb_undo_read_ahead_pages: most pages of one read; 0 = no read-ahead. */
extern uint g_pages;

/** Default of innodb_undo_read_ahead_pages: 1 MiB of 16 KiB pages. */
constexpr uint DEFAULT_PAGES = 64;

/** Upper limit of innodb_undo_read_ahead_pages. */
constexpr uint MAX_PAGES = buf_run::MAX_PAGES;

/** Size of the first read of a walk in pages. */
constexpr page_no_t FIRST_PAGES = 4;

/** Runs that are read before the walk gets there, besides the one it is in. */
constexpr size_t MAX_RUNS_AHEAD = 2;

/** A walk gets a thread that reads ahead after it has read this many pages. */
constexpr size_t PAGES_BEFORE_THREAD = 24;

/** Most threads that read ahead at the same time. Walks beyond that read
their runs themselves. */
constexpr int MAX_THREADS = 16;

/** Link of a page that was in the buffer pool and was not looked at. */
constexpr page_no_t LINK_UNKNOWN = FIL_NULL - 1;

/** Pages that lie side by side. */
struct Run {
  /** First page. */
  page_no_t low{1};
  /** Last page. */
  page_no_t high{0};

  /** @return number of pages */
  page_no_t size() const { return high - low + 1; }

  /** @param[in]  page_no  page number
  @return true if the page is one of them */
  bool contains(page_no_t page_no) const {
    return low <= page_no && page_no <= high;
  }
};

/** What the links in the pages of a run say. */
struct Followed {
  /** Pages of the run that the undo log goes through, from its last page. */
  page_no_t n_used;
  /** Page that the undo log goes to from the run; FIL_NULL if that is not
  known or there is none. */
  page_no_t next;
};

/** Follow the links of an undo log through a run.
@param[in]  run    the run; the undo log enters it at its last page
@param[in]  links  for each page of the run, lowest first, the page that the
undo log goes to; FIL_NULL if it ends there or the page is not a good one;
LINK_UNKNOWN is taken for the page below
@return what was found */
[[nodiscard]] Followed follow(const Run &run,
                              const std::vector<page_no_t> &links);

/** Decides which pages to read. Knows what has come of the last runs. */
class Planner {
 public:
  /** Constructor.
  @param[in]  extent_pages    pages of an extent
  @param[in]  interval_pages  pages from one descriptor page to the next */
  Planner(page_no_t extent_pages, page_no_t interval_pages);

  /** Choose a run.
  @param[in]  top        last page of the run: the next one that is needed
  @param[in]  max_pages  most pages
  @return the run; of one page at least */
  [[nodiscard]] Run plan(page_no_t top, page_no_t max_pages) const;

  /** Learn from a run that was read.
  @param[in]  run       the run
  @param[in]  followed  what its links say */
  void learn(const Run &run, const Followed &followed);

  /** Learn that pages were read in vain: the walk took another way, or they
  had left the buffer pool when they were needed. */
  void on_miss();

  /** @param[in]  page_no  page number
  @return true if an undo log can have this page */
  bool is_possible(page_no_t page_no) const {
    return page_no % m_interval_pages > FSP_IBUF_BITMAP_OFFSET;
  }

 private:
  /** @param[in]  page_no  page number
  @return the nearest lower page that can belong to an undo log */
  page_no_t below(page_no_t page_no) const;

  /** Pages of an extent. */
  const page_no_t m_extent_pages;
  /** Pages from one descriptor page to the next. */
  const page_no_t m_interval_pages;
  /** Pages that the next run should have, before limits. */
  page_no_t m_n_pages{FIRST_PAGES};
  /** True if the undo log went from one extent to the one below it, so that a
  run over the border is worth while. */
  bool m_crosses{false};
};

/** What SHOW GLOBAL STATUS tells of resurrection, all since start. */
struct Status {
  /** Undo pages that were walked through. */
  ulonglong pages;
  /** Read operations for them. */
  ulonglong reads;
  /** Time in microseconds. */
  ulonglong usec;
};

extern Status g_status;

class Stream;

/** While it lives, walks of this thread through undo logs read ahead. */
class Scope {
 public:
  Scope();
  ~Scope();

  Scope(const Scope &) = delete;
  Scope &operator=(const Scope &) = delete;

  /** An undo log is about to be left for its previous page.
  @param[in]  page_id  the page that is needed next
  @param[in]  hdr_page_no  header page of the undo log */
  void before_page(const page_id_t &page_id, page_no_t hdr_page_no);

  /** @return read operations of these walks so far, single pages included */
  [[nodiscard]] uint64_t n_reads();

  /** @return pages that the walks have gone to */
  [[nodiscard]] uint64_t n_pages() const { return m_n_pages; }

 private:
  /** A rollback goes through an insert and an update undo log in turns. */
  std::array<std::unique_ptr<Stream>, 2> m_streams;

  /** Stream that is replaced if there is a third undo log. */
  size_t m_oldest{0};

  /** Reads of single pages, and reads of streams that are no more. */
  uint64_t m_n_reads{0};

  /** Pages that the walks have gone to. */
  uint64_t m_n_pages{0};

  /** Scope that this one took the place of. */
  Scope *const m_outer;
};

/** A walk for the tables of a resurrected transaction. */
class Resurrection {
 public:
  /** Constructor.
  @param[in]  page_id  page of the last record of the undo log */
  explicit Resurrection(const page_id_t &page_id);

  /** Adds to the status variables. */
  ~Resurrection();

  Resurrection(const Resurrection &) = delete;
  Resurrection &operator=(const Resurrection &) = delete;

  /** Go back over records of a table that is known, but not to another page.
  @param[in,out]  rec   record; stays if its table is not known yet, that is if
  the record before was of another one
  @param[in]      undo  undo log
  @return number of records that were left behind */
  ulong skip_known(trx_undo_rec_t **rec, const trx_undo_t *undo);

 private:
  /** Read-ahead for the walk. */
  Scope m_scope;

  /** When it began. */
  const std::chrono::steady_clock::time_point m_start;

  /** Table of the last record; at first one that does not exist. */
  table_id_t m_table_id{std::numeric_limits<table_id_t>::max()};

  /** Reads that the first page needs. */
  const uint64_t m_n_first_reads;
};

/** Called before a walk backwards goes to another page of its undo log. Brings
this page and those that follow into the buffer pool, if the thread has a Scope.
@param[in]  page_id      the page
@param[in]  hdr_page_no  header page of the undo log */
void before_page(const page_id_t &page_id, page_no_t hdr_page_no);

}  // namespace undo_read_ahead

#endif /* trx0ahead_h */
