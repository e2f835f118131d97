/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file include/log0apply.h
Read the pages of a batch of redo by runs, and keep them for the next one.

log/log0apply.cc has the design. */

#ifndef log0apply_h
#define log0apply_h

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

#include "buf0run.h"
#include "log0recv.h"
#include "os0thread-create.h"
#include "univ.i"

struct SHOW_VAR;

namespace redo_recovery {

/** Shares memory between redo records that wait to be applied and the pages to
which they are. */
class Room {
 public:
  /** Constructor.
  @param[in]  n_bytes       memory for both
  @param[in]  n_page_bytes  size of a page */
  Room(size_t n_bytes, size_t n_page_bytes)
      : m_n_bytes(n_bytes), m_n_page_bytes(n_page_bytes) {}

  /** @return bytes that records may take before they are applied
  @param[in]  n_kept  pages that are there from the batches before
  @param[in]  n_new   further pages that these records need */
  size_t limit(size_t n_kept, size_t n_new) const;

  /** @return true if there is room for records beside pages
  @param[in]  n_pages  pages that would stay for the next batch */
  bool can_keep(size_t n_pages) const {
    return n_pages * m_n_page_bytes <= m_n_bytes / 2;
  }

 private:
  /** Memory for records and pages. */
  const size_t m_n_bytes;
  /** Size of a page. */
  const size_t m_n_page_bytes;
};

/** Decides where a run of pages ends. */
class Run_limits {
 public:
  /** Constructor.
  @param[in]  n_page_bytes  size of a page in the file */
  explicit Run_limits(size_t n_page_bytes) : m_n_page_bytes(n_page_bytes) {}

  /** Begin a run.
  @param[in]  page_no   its first page
  @param[in]  n_record_bytes  bytes of the records of the page */
  void begin(page_no_t page_no, size_t n_record_bytes) {
    m_first = m_last = page_no;
    m_n_record_bytes = n_record_bytes;
  }

  /** @return true if a page may be the next of the run; then it is
  @param[in]  page_no         page, behind all of the run
  @param[in]  n_record_bytes  bytes of its records */
  [[nodiscard]] bool add(page_no_t page_no, size_t n_record_bytes);

 private:
  /** Size of a page in the file. */
  const size_t m_n_page_bytes;
  /** First page of the run. */
  page_no_t m_first{0};
  /** Last page of the run. */
  page_no_t m_last{0};
  /** Bytes of the records of all pages of the run. */
  size_t m_n_record_bytes{0};
};

/** Lives while a batch of redo is applied. With innodb_redo_recovery=STOCK it
only counts. */
class Batch : public buf_run::Collector {
 public:
  Batch();
  /** Adds to the status variables. */
  ~Batch() override;

  /** See that the pages of a tablespace are read and redo is applied to them.
  With innodb_redo_recovery=STOCK nothing is done. The caller holds
  recv_sys->mutex, which is released meanwhile.
  @param[in]  space_id  tablespace, which is open
  @param[in]  pages     its pages */
  void apply(space_id_t space_id, const recv_sys_t::Pages &pages);

  /** Wait until redo was applied to all pages of the batch; ends the server if
  one of them cannot be read. All of them were asked for. */
  void finish();

  /** Redo was applied to all pages: add what was read to the status variables.
  The buffer pool forgets it when it is emptied. */
  void count_pages() const;

  /** @return true if a tablespace has compressed pages */
  bool has_compressed() const { return m_has_compressed; }

  /** The thread is about to wait for a free block: have none in hands. */
  void before_wait() override;

 private:
  /** Pages of a tablespace that wait for being read or, if they are in the
  buffer pool, for redo. */
  struct Run {
    /** Tablespace. */
    fil_space_t *space{nullptr};
    /** Its file, which stays open for the run; nullptr if nothing is read. */
    fil_node_t *file{nullptr};
    /** What its pages are decrypted with. Redo of the first page may take the
    key away, as soon as that is read. */
    IORequest request;
    /** Pages, in ascending order: i/o-fixed, or buffer-fixed if there is no
    file. */
    buf_run::File_reader::Pages pages;
  };

  /** Take the pages to which redo was not applied yet.
  @param[in]  pages  pages of a tablespace
  @return those pages, in ascending order */
  static std::vector<recv_addr_t *> take(const recv_sys_t::Pages &pages);

  /** Read pages of a tablespace, and apply redo to them.
  @param[in]  space  tablespace
  @param[in]  pages  pages, in ascending order */
  void read(fil_space_t *space, const std::vector<recv_addr_t *> &pages);

  /** Give the pages that are to be read to a thread. */
  void submit_run();

  /** Give the pages that were in the buffer pool to a thread. */
  void submit_cached();

  /** Give a run to a thread.
  @param[in]  run  run */
  void submit(Run &&run);

  /** Body of each thread. */
  void work();

  /** Wait until threads have applied redo to what they were given. */
  void end_threads();

  /** Read the pages of a run, and apply redo to them.
  @param[in]  run  run
  @param[in]  gap  buffer for a page that nobody wants */
  void complete(const Run &run, byte *gap);

  /** Pages that are collected, to be read. */
  Run m_run;
  /** Pages that are collected and were in the buffer pool. */
  Run m_cached;
  /** Bytes of the records of those. */
  size_t m_n_cached_bytes{0};
  /** Runs that no thread has taken yet. */
  std::deque<Run> m_queue;
  /** Protects m_queue and m_is_over. */
  std::mutex m_mutex;
  /** A run was put into m_queue, or taken from it, or m_is_over was set. */
  std::condition_variable m_changed;
  /** No further run comes. */
  bool m_is_over{false};
  /** Threads. */
  std::vector<IB_thread> m_threads;
  /** True if a tablespace has compressed pages. */
  bool m_has_compressed{false};
  /** Pages that were in the buffer pool, all of the batch. */
  size_t m_n_cached{0};
  /** Pages read by runs. */
  std::atomic<size_t> m_n_pages{0};
  /** Read calls for them. */
  std::atomic<size_t> m_n_reads{0};
  /** Pages that this server had read before. */
  size_t m_n_pages_before;
  /** Its read calls before. */
  size_t m_n_reads_before;
  /** When the batch began. */
  const std::chrono::steady_clock::time_point m_begin{
      std::chrono::steady_clock::now()};
};

/** @return true if a record of this tablespace was kept just now: what was
found out about the tablespace then is still so
@param[in]  space_id  tablespace */
bool is_known(space_id_t space_id);

/** Put the records that were parsed where they are kept.
@return bytes that records may take before they are applied
@param[in]  n_bytes  what MySQL allows */
size_t records_limit(size_t n_bytes);

/** The first record for a page was parsed.
@param[in]  page_id  page */
void note_page(const page_id_t &page_id);

/** A batch has ended: decide whether its pages stay in the buffer pool until
the next one.
@param[in]  batch  batch
@return true if they do */
[[nodiscard]] bool keep_pages(const Batch &batch);

/** @return true if pages of a tablespace may be in the buffer pool from the
batches before; then it is open and was checked by an earlier one
@param[in]  space_id  tablespace */
bool is_kept(space_id_t space_id);

/** Write all pages that were kept, and empty the buffer pool: what comes next
relies on that. */
void evict_pages();

/** Keeps the file of a tablespace open. Without that it can be closed when
others are opened, to write pages that were kept; with none of these nothing is
done. */
class Pin {
 public:
  /** Constructor.
  @param[in]  space_id  tablespace */
  explicit Pin(space_id_t space_id);
  ~Pin() { release(); }

  Pin(const Pin &) = delete;
  Pin &operator=(const Pin &) = delete;

  /** The file may be closed, once it was synced: this counts as a write. */
  void release();

 private:
  /** Tablespace. */
  const space_id_t m_space_id;
  /** Its first file; nullptr if it is not kept open. */
  fil_node_t *m_file{nullptr};
};

/** Redo was read, parsed and applied to its end.
@param[in]  n_bytes  bytes of it
@param[in]  time     how long that took, all batches included */
void note_redo(uint64_t n_bytes, std::chrono::steady_clock::duration time);

/** Innodb_recovery_*. */
extern SHOW_VAR g_status_variables[];

}  // namespace redo_recovery

#endif /* log0apply_h */
