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
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <mutex>
#include <vector>

#include "my_inttypes.h"

#include "buf0run.h"
#include "buf0types.h"
#include "dict0types.h"
#include "fil0fil.h"
#include "os0thread.h"
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
  @param[in]  max_pages  most pages, at least 1
  @return the run; of one page at least */
  [[nodiscard]] Run plan(page_no_t top, page_no_t max_pages) const;

  /** Learn from a run that was read.
  @param[in]  run       the run
  @param[in]  followed  what its links say */
  void learn(const Run &run, const Followed &followed);

  /** Learn that pages were read in vain: the walk took another way, or they
  had left the buffer pool when they were needed, or did not fit into it. */
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

/** Shares a part of the buffer pool out to all walks that read ahead, so that
any number of them keeps no more than that. What a walk is granted counts from
before the read until it has left these pages. Nobody waits for a grant: who
gets none reads single pages as if there were no read-ahead. */
class Budget {
 public:
  class Grant;
  class Member;

  /** @param[in]  pool_pages  size of a buffer pool instance in pages
  @return most pages that all grants together may have. Which pages are in which
  instance is not up to us, so it is as if all were in one. */
  static constexpr size_t limit(size_t pool_pages) {
    return pool_pages * 3 / 16;
  }

  /** @return pages that are granted at this moment */
  size_t n_pages() const;

  /** @return members that have asked for pages so far, and are still there */
  size_t n_members() const;

 private:
  /** Protects all below. No other mutex is taken while it is held. */
  mutable std::mutex m_mutex;
  /** Pages that are granted. */
  size_t m_n_pages{0};
  /** Members that have asked for pages. */
  size_t m_n_members{0};
};

/** Pages that were granted; given back by its destructor. */
class Budget::Grant {
 public:
  Grant() = default;
  Grant(Grant &&other) noexcept;
  Grant &operator=(Grant &&other) noexcept;
  ~Grant();

  /** @return number of pages */
  page_no_t n_pages() const { return m_n_pages; }

 private:
  friend class Budget::Member;

  /** Where they came from; not used if there are none. */
  Budget *m_budget{nullptr};
  /** Number of pages. */
  page_no_t m_n_pages{0};
};

/** One of those who share the budget. It counts from when it asks first. */
class Budget::Member {
 public:
  /** @param[in]  budget  what is shared */
  explicit Member(Budget &budget) : m_budget(budget) {}
  ~Member();

  Member(const Member &) = delete;
  Member &operator=(const Member &) = delete;

  /** Ask for the pages of a run.
  @param[in]  n_wanted    number of pages
  @param[in]  pool_pages  size of a buffer pool instance in pages, at present
  @return as many as this member may have for a run, and are left; maybe none */
  [[nodiscard]] Grant take(page_no_t n_wanted, size_t pool_pages);

 private:
  /** What is shared. */
  Budget &m_budget;
  /** True if it is counted. */
  bool m_is_counted{false};
};

/** What a stream needs of the buffer pool. */
class Pool {
 public:
  virtual ~Pool() = default;

  /** As buf_run::read(). */
  virtual buf_run::Result read(space_id_t space_id, const Run &run,
                               const buf_run::On_page &on_page) = 0;

  /** @param[in]  page_id  page
  @return true if it is in the buffer pool */
  virtual bool is_cached(const page_id_t &page_id) = 0;

  /** @param[in]  page_id  page
  @return pages of the instance that it belongs to; 0 = no read-ahead */
  virtual size_t n_pages(const page_id_t &page_id) = 0;
};

/** Reads ahead for the walk through one undo log. */
class Stream {
 public:
  /** Constructor.
  @param[in]  pool         buffer pool
  @param[in]  budget       shared by all streams
  @param[in]  space_id     undo tablespace
  @param[in]  hdr_page_no  header page of the undo log
  @param[in]  planner      decides which pages to read */
  Stream(Pool &pool, Budget &budget, space_id_t space_id, page_no_t hdr_page_no,
         const Planner &planner)
      : m_pool(pool),
        m_space_id(space_id),
        m_hdr_page_no(hdr_page_no),
        m_member(budget),
        m_planner(planner) {}

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
  uint64_t n_reads();

 private:
  /** A run that was read or is on its way. */
  struct Item {
    /** The pages. */
    Run run;
    /** True if they are in the buffer pool. */
    bool is_done;
    /** What was granted for them; empty while they are read. */
    Budget::Grant grant;
  };

  using Lock = std::unique_lock<std::mutex>;

  /** Read a run, with the mutex released meanwhile, and learn from it.
  @param[in,out]  lock  lock of m_mutex
  @param[in]      top   last page of the run
  @return false if none is to be read */
  bool read(Lock &lock, page_no_t top);

  /** Start the thread if that pays. The mutex is held. */
  void start_thread();

  /** What the thread does. */
  void read_ahead();

  /** Buffer pool. */
  Pool &m_pool;
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
  /** Grants the pages of runs. */
  Budget::Member m_member;
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

/** While it lives, walks of this thread through undo logs read ahead. */
class Scope {
 public:
  /** For the walks of the server. */
  Scope();

  /** Constructor.
  @param[in]  pool    buffer pool
  @param[in]  budget  shared by all streams */
  Scope(Pool &pool, Budget &budget);

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
  /** End all streams: their threads, and what they were granted. */
  void end_streams();

  /** Buffer pool. */
  Pool &m_pool;

  /** Shared by all streams. */
  Budget &m_budget;

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
