/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file include/buf0run.h
Read a run of adjacent pages into the buffer pool with few large reads.

buf/buf0run.cc has the design. */

#ifndef buf0run_h
#define buf0run_h

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <vector>

#include "buf0types.h"
#include "fil0fil.h"
#include "os0thread.h"
#include "univ.i"

namespace buf_run {

/** Most pages that one call reads; no more fit into one vectored read. */
constexpr page_no_t MAX_PAGES = 1024;

/** In which order the pages of a run are needed. */
enum class Order { ASCENDING, DESCENDING };

/** What a call has read. */
struct Result {
  /** Pages that were brought into the buffer pool. */
  size_t n_pages{0};
  /** Read calls that it took. */
  size_t n_reads{0};
  /** Pages that were left out, because the buffer pool had no block for them
  that was free: those that are needed last. */
  page_no_t n_left_out{0};
  /** False if the tablespace is not there, cannot be read in this way, or is
  being dropped, or if a read failed: it is better not to try again. */
  bool success{false};
};

/** Called for each page that was read, before others can see it.
@param[in]  page_no  page number
@param[in]  frame    its contents; nullptr if it could not be read or is corrupt
and was not kept */
using On_page = std::function<void(page_no_t page_no, const byte *frame)>;

/** Read pages of a tablespace, as many as are not in the buffer pool.
Returns when they are in the buffer pool. For an undo tablespace the caller may
hold latches on other pages of it; else none: changes may be merged into a page
from the change buffer. How many pages all
callers together read at a time is for them to limit.
@param[in]  space_id  tablespace
@param[in]  low       first page
@param[in]  high      last page; nothing is read if it lies behind the end
@param[in]  order     which page is needed first: it is the first to be there
@param[in]  on_page   called for each page that was read
@return what was read */
[[nodiscard]] Result read(space_id_t space_id, page_no_t low, page_no_t high,
                          Order order, const On_page &on_page);

/** Open the file of a tablespace, and keep it open.
@param[in]  space  tablespace of one file, acquired
@return the file; nullptr if it cannot be opened */
[[nodiscard]] fil_node_t *open_file(fil_space_t *space);

/** The file may be closed again.
@param[in]      space  tablespace
@param[in,out]  file   what open_file() has returned */
void close_file(fil_space_t *space, fil_node_t *file);

/** Pages of one tablespace that lie side by side. */
struct Run {
  /** Tablespace. */
  space_id_t space_id;
  /** First page. */
  page_no_t low;
  /** Last page. */
  page_no_t high;
  /** Which page is needed first. */
  Order order{Order::ASCENDING};
};

/** Put pages together to runs.
@param[in]  pages      pages in any order, some of them more than once
@param[in]  max_pages  most pages of a run
@return runs in ascending order */
[[nodiscard]] std::vector<Run> make_runs(std::vector<page_id_t> pages,
                                         page_no_t max_pages);

/** @return how many pages a run may have to be one large read: 1 MiB of them */
[[nodiscard]] page_no_t most_pages();

/** Threads that read runs. Most of the time they wait for the volume. For the
performance schema they are threads like those of MySQL that read. */
class Readers {
 public:
  /** Constructor.
  @param[in]  max_threads  most threads; they are started when there are runs,
  and stay until end() */
  explicit Readers(size_t max_threads) : m_max_threads(max_threads) {}
  ~Readers() { end(); }

  Readers(const Readers &) = delete;
  Readers &operator=(const Readers &) = delete;

  /** Have runs read. Does not wait for that. If there can be no thread nothing
  is read.
  @param[in]  runs  runs, in the order in which they are begun */
  void submit(const std::vector<Run> &runs);

  /** Have a run read, unless others wait. Several threads may call this at a
  time, with latches of pages other than those of the run.
  @param[in]  run          the run
  @param[in]  max_waiting  most runs that may wait with it
  @return false if it is not going to be read */
  [[nodiscard]] bool try_submit(const Run &run, size_t max_waiting);

  /** Wait until all runs are read. */
  void wait();

  /** Forget what is not begun, and wait for the threads. Nothing can be
  submitted afterwards. */
  void end();

  /** @return pages that were read so far */
  size_t n_pages() const { return m_n_pages; }

  /** @return read calls for them */
  size_t n_reads() const { return m_n_reads; }

 private:
  /** Body of each thread. */
  void work();

  /** Read a run, or as much as can be before the threads have to end.
  @param[in]  run  run */
  void read_all(const Run &run);

  /** Start threads, if there are too few. The mutex is held.
  @param[in]  n_runs  runs that wait, or are about to */
  void start_threads(size_t n_runs);

  /** Most threads. */
  const size_t m_max_threads;
  /** Protects the members up to m_threads. */
  std::mutex m_mutex;
  /** One of them has changed. */
  std::condition_variable m_changed;
  /** Runs that no thread has begun. */
  std::deque<Run> m_queue;
  /** Runs that are being read. */
  size_t m_n_running{0};
  /** The threads have to end. They look at it between parts of a run, too,
  without the mutex. */
  std::atomic<bool> m_is_over{false};
  /** Threads. */
  std::vector<IB_thread> m_threads;
  /** Pages that were read. */
  std::atomic<size_t> m_n_pages{0};
  /** Read calls. */
  std::atomic<size_t> m_n_reads{0};
};

/** Takes blocks of the buffer pool for pages that are to be read, and keeps
them i/o-fixed while it takes more. */
class Collector {
 public:
  Collector() = default;
  virtual ~Collector() = default;

  Collector(const Collector &) = delete;
  Collector &operator=(const Collector &) = delete;

  /** The thread is about to wait for a free block: see that those which were
  taken are read. */
  virtual void before_wait() = 0;

 protected:
  /** Lives while this thread takes blocks. */
  class Taking {
   public:
    /** Constructor.
    @param[in]  collector  who takes them; no other one of this thread does */
    explicit Taking(Collector *collector);
    ~Taking();

    Taking(const Taking &) = delete;
    Taking &operator=(const Taking &) = delete;
  };
};

/** Reads pages of one file into their frames in the buffer pool. */
class File_reader {
 public:
  using Pages = std::vector<buf_page_t *>;

  /** Constructor.
  @param[in]      file       file, which stays open
  @param[in]      page_size  size of its pages
  @param[in,out]  gap        where pages go that lie between those which are
  read: a buffer for one page, aligned as a frame; nullptr if there are none */
  File_reader(fil_node_t &file, const page_size_t &page_size,
              byte *gap = nullptr)
      : m_file(file), m_page_size(page_size), m_gap(gap) {}

  /** Read several pages with one vectored call.
  @param[in]  pages  pages, in ascending order, that are i/o-fixed; with those
  between them no more than MAX_PAGES
  @return true if all of them were read */
  [[nodiscard]] bool read_all(const Pages &pages);

  /** Read one page.
  @param[in]  page  page, which is i/o-fixed
  @return true if it was read */
  [[nodiscard]] bool read_one(buf_page_t *page);

  /** @return read calls so far */
  size_t n_reads() const { return m_n_reads; }

 private:
  /** Call a read function of the system, until it is not interrupted.
  @param[in]  n_wanted  number of bytes
  @param[in]  call      the function, for a file descriptor
  @return true if that many bytes were read */
  template <typename Call>
  bool read(size_t n_wanted, Call call);

  /** The file. */
  fil_node_t &m_file;
  /** Its page size. */
  const page_size_t m_page_size;
  /** Where pages go that nobody wants. */
  byte *const m_gap;
  /** Read calls. */
  size_t m_n_reads{0};
};

/** @return where the contents of a page are read to
@param[in]  page  page */
[[nodiscard]] byte *frame_of(buf_page_t *page);

/** @return request that has the key of a tablespace, as it is now, if it has
one
@param[in]  space  tablespace */
[[nodiscard]] IORequest request_with_key(fil_space_t *space);

/** Decrypt a page, if it is encrypted.
@param[in]      request  what request_with_key() returned for its tablespace
@param[in,out]  page     page that was read
@return false if it cannot be decrypted */
[[nodiscard]] bool decrypt(IORequest request, buf_page_t *page);

/** A thread is about to wait for a free block of the buffer pool. If it has
collected blocks, they are read and released first. */
void before_wait();

/** A page that was free is about to be created, and was found in the buffer
pool. If it is being read, wait for that, without a buffer fix: a page that
turns out to be corrupt is dropped, and that allows no fix.
@param[in]  page_id  the page
@return true if it may not be in the buffer pool any more */
[[nodiscard]] bool wait_for_read(const page_id_t &page_id);

}  // namespace buf_run

#endif /* buf0run_h */
