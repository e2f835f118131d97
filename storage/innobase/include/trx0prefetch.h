/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file include/trx0prefetch.h
Read the pages of rows ahead of the rollback of a transaction that recovery
found.

trx/trx0prefetch.cc has the design; the variable is innodb_rollback_prefetch. */

#ifndef trx0prefetch_h
#define trx0prefetch_h

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "my_inttypes.h"

#include "buf0run.h"
#include "buf0types.h"
#include "data0data.h"
#include "dict0types.h"
#include "mem0mem.h"
#include "page0size.h"
#include "trx0types.h"
#include "univ.i"

namespace rollback_prefetch {

/** innodb_rollback_prefetch. */
extern bool g_enabled;

/** A transaction with fewer records is rolled back before reads would help. */
constexpr undo_no_t LEAST_RECORDS = 128;

/** Most undo records that one look ahead goes through. */
constexpr undo_no_t MAX_RECORDS = 8192;

/** Most pages of rows that one look ahead asks for. */
constexpr size_t MAX_PAGES = 1024;

/** Pages after which reads begin, while the look goes on. */
constexpr size_t PAGES_AT_A_TIME = 128;

/** Most threads that read. Most of the time they wait for the volume. */
constexpr size_t MAX_THREADS = 16;

/** Looks that are left out, one after the other, at most. */
constexpr undo_no_t MAX_PAUSE = 3;

/** @return how many pages one look ahead may ask for
@param[in]  pool_pages  pages of the buffer pool; looks that overlap have at
most a sixteenth of them */
[[nodiscard]] constexpr size_t pages_limit(size_t pool_pages) {
  return std::min(MAX_PAGES, pool_pages / 32);
}

/** Decides when to look ahead. Undo numbers go down in a rollback. */
class Pace {
 public:
  /** @return true if it is time to look ahead
  @param[in]  undo_no  record that is rolled back */
  bool is_due(undo_no_t undo_no) const { return undo_no <= m_next; }

  /** @return true if the rollback has come to where nobody has looked yet
  @param[in]  undo_no  record that is rolled back */
  bool is_behind(undo_no_t undo_no) const { return undo_no <= m_low; }

  /** A look ahead has ended. The next one is due when half of the records that
  were looked at are rolled back; or later, if nearly all of its pages were in
  the buffer pool.
  @param[in]  undo_no    record that is rolled back
  @param[in]  low        all records behind this one were looked at
  @param[in]  n_pages    pages that they need
  @param[in]  n_missing  those of them which were not in the buffer pool */
  void looked(undo_no_t undo_no, undo_no_t low, size_t n_pages,
              size_t n_missing);

  /** Nothing is to be read for now.
  @param[in]  undo_no  record that is rolled back */
  void skip(undo_no_t undo_no) { m_next = back(undo_no, MAX_RECORDS); }

 private:
  /** @return a smaller undo number, but no less than 0
  @param[in]  undo_no  undo number
  @param[in]  n        how much smaller it is */
  static undo_no_t back(undo_no_t undo_no, undo_no_t n) {
    return undo_no - std::min(undo_no, n);
  }

  /** All records behind this one were looked at. */
  undo_no_t m_low{std::numeric_limits<undo_no_t>::max()};
  /** The next look is due with this record. */
  undo_no_t m_next{std::numeric_limits<undo_no_t>::max()};
  /** Looks to be left out. */
  undo_no_t m_pause{0};
};

/** Goes through an undo log from where its rollback is. */
class Walk {
 public:
  /** Constructor.
  @param[in]  undo  undo log; nullptr if there is none. The caller has
  trx_t::undo_mutex. */
  explicit Walk(const trx_undo_t *undo);

  Walk(Walk &&) = default;
  Walk &operator=(Walk &&) = default;

  /** @return true if there is no further record */
  bool is_over() const { return m_records.empty() && m_page_no == FIL_NULL; }

  /** @return undo number of the next record, if there is one */
  undo_no_t undo_no() const;

  /** @return a copy of the next record, which there is; good until the next
  call */
  trx_undo_rec_t *take();

 private:
  /** Copy the records of one more page. */
  void load();

  /** Frees the copies. */
  struct Heap_deleter {
    void operator()(mem_heap_t *heap) const { mem_heap_free(heap); }
  };

  /** Undo tablespace. */
  space_id_t m_space_id{0};
  /** Its page size. */
  page_size_t m_page_size{univ_page_size};
  /** Header of the undo log. */
  page_no_t m_hdr_page_no{FIL_NULL};
  /** Where it is in that page. */
  size_t m_hdr_offset{0};
  /** Page of the record behind those of m_records; FIL_NULL if there is none.
   */
  page_no_t m_page_no{FIL_NULL};
  /** Where the record is in that page. */
  size_t m_offset{0};
  /** Its undo number. */
  undo_no_t m_undo_no{0};
  /** Has the copies. */
  std::unique_ptr<mem_heap_t, Heap_deleter> m_heap;
  /** Copies of records, the next one first. */
  std::deque<trx_undo_rec_t *> m_records;
};

/** Finds the leaf pages of rows. */
class Leaf_finder {
 public:
  Leaf_finder() = default;
  /** Closes the tables. */
  ~Leaf_finder();

  Leaf_finder(const Leaf_finder &) = delete;
  Leaf_finder &operator=(const Leaf_finder &) = delete;

  /** Find the page of the clustered index in which the row of an undo record is
  or would be. Pages above the leaf pages are read if need be.
  @param[in]  rec   copy of an undo record
  @param[in]  heap  for the row reference
  @return the page; none if it is not known, or is the root */
  [[nodiscard]] std::optional<page_id_t> find(trx_undo_rec_t *rec,
                                              mem_heap_t *heap);

 private:
  /** @return clustered index of a table, nullptr if it is not to be used
  @param[in]  table_id  table */
  dict_index_t *index_of(table_id_t table_id);

  /** Tables that were met; nullptr if one could not be opened. */
  std::map<table_id_t, dict_table_t *> m_tables;
};

/** While it lives, the rollback of a transaction by this thread has the pages
of its rows read ahead. */
class Scope {
 public:
  /** Constructor.
  @param[in]  trx  transaction that recovery found */
  explicit Scope(trx_t *trx);
  ~Scope();

  Scope(const Scope &) = delete;
  Scope &operator=(const Scope &) = delete;

  /** A record was taken for being rolled back. */
  void step();

  /** No more records come: end the reads, say in the error log what was read,
  and add to the status variables. */
  void end();

 private:
  /** Have the pages read that are not in the buffer pool. */
  void read_pages();

  /** Have the pages read that the next records need. */
  void look_ahead();

  /** Go on from where the rollback is. */
  void start_walks();

  /** Transaction. */
  trx_t *const m_trx;
  /** Its ID; it has none when it is rolled back. */
  const trx_id_t m_trx_id;
  /** When to look ahead. */
  Pace m_pace;
  /** Insert and update undo log. */
  std::vector<Walk> m_walks;
  /** Pages that the look needs, and that nobody was asked for yet. */
  std::vector<page_id_t> m_pages;
  /** Different pages of the look. */
  size_t m_n_pages{0};
  /** Those of them which were not in the buffer pool. */
  size_t m_n_missing{0};
  /** Reads the pages. */
  buf_run::Readers m_readers{MAX_THREADS};
};

/** An undo record was taken for being rolled back by this thread. */
void step();

/** Innodb_rollback_prefetch_*, all since start. */
struct Status {
  /** Pages that were read ahead. */
  std::atomic<ulonglong> pages;
  /** Read calls for them. */
  std::atomic<ulonglong> reads;
};

extern Status g_status;

}  // namespace rollback_prefetch

#endif /* trx0prefetch_h */
