/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file include/fil0check.h
The check of the tablespace files at start-up: learn the ID of every file with
as little I/O and as much of it in flight as the volume can use.

Start-up reads the ID of each discovered file to refuse duplicates. This
module supplies a short read for that, and a way to spread it over threads.
Everything here is an optimistic path: whatever is not plain is left to the
original code, which then does, decides and reports as if this module did not
exist.

fil/fil0check.cc has the design; docs of the variables:
innodb_tablespace_check_fadvise, innodb_tablespace_check_light,
innodb_tablespace_check_threads. */

#ifndef fil0check_h
#define fil0check_h

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "my_inttypes.h"

#include "fil0fil.h"
#include "fil0observe.h"
#include "univ.i"

namespace tablespace_check {

/** innodb_tablespace_check_fadvise: read through the page cache, with
POSIX_FADV_RANDOM, instead of O_DIRECT. */
extern bool g_fadvise;

/** innodb_tablespace_check_light: read LIGHT_READ_BYTES instead of a page. */
extern bool g_light;

/** innodb_tablespace_check_threads: number of threads that check files, the
start-up thread included; 0 = automatic. */
extern uint g_threads;

/** Bytes that a light read takes from the start of a file. One block of nearly
every file system and page cache, and a multiple of the logical block size that
O_DIRECT asks for. */
constexpr size_t LIGHT_READ_BYTES = 4096;

/** Upper limit of innodb_tablespace_check_threads. */
constexpr uint MAX_THREADS = 256;

/** Most threads that automatic mode uses. */
constexpr size_t MAX_AUTO_THREADS = 64;

/** Threads that automatic mode begins with. */
constexpr size_t MIN_AUTO_THREADS = 4;

/** With fewer files than this per thread, automatic mode starts fewer threads:
a thread costs about as much as reading a few headers. */
constexpr size_t MIN_FILES_PER_THREAD = 8;

/** Take the tablespace ID from the first bytes of a file, if they settle it.
The ID stands twice: in the page header and in the tablespace header behind it.
@param[in]  header           first bytes of the file
@param[in]  n_bytes          number of bytes in header
@param[in]  file_size_bytes  size of the file
@param[in]  page_size_bytes  innodb_page_size
@return the ID; SPACE_UNKNOWN if these bytes are not enough to trust it: the
file is shorter than a page, there are too few bytes, the two IDs differ, or
they are 0 or SPACE_UNKNOWN */
[[nodiscard]] space_id_t parse_space_id(const byte *header, size_t n_bytes,
                                        uint64_t file_size_bytes,
                                        size_t page_size_bytes);

/** Read the tablespace ID of a file in the way the variables ask for.
@param[in]  path  file name
@return the ID; nothing if the caller has to find out by itself: both variables
are OFF, or the file cannot be opened or read, or its header is not plain.
Nothing is reported here, because the caller will. */
[[nodiscard]] std::optional<space_id_t> read_space_id(const std::string &path);

/** Lives while the ID of one file is known: what its thread asks
read_space_id() is answered with it. */
class Known_space_id {
 public:
  /** Constructor.
  @param[in]  space_id  the ID, not SPACE_UNKNOWN */
  explicit Known_space_id(space_id_t space_id);
  ~Known_space_id();

  Known_space_id(const Known_space_id &) = delete;
  Known_space_id &operator=(const Known_space_id &) = delete;
};

/** Count a header read that was not made by read_space_id().
@param[in]  n_bytes  bytes read */
void count_read(size_t n_bytes);

/** Values of the status variables Innodb_tablespace_check_*. */
struct Status {
  /** Files whose ID was asked for. */
  ulonglong files;
  /** Headers that were read. */
  ulonglong files_read;
  /** Bytes of these headers. */
  ulonglong bytes_read;
  /** Duration of the check in microseconds. */
  ulonglong usec;
};

/** Status since start, as of the last check that ended. */
extern Status g_status;

/** Lives as long as the check: adds its own lifetime to
Innodb_tablespace_check_usec and publishes the status variables at its end. */
class Timer {
 public:
  Timer() : m_start(std::chrono::steady_clock::now()) {}
  ~Timer();

  Timer(const Timer &) = delete;
  Timer &operator=(const Timer &) = delete;

 private:
  /** When the check began. */
  const std::chrono::steady_clock::time_point m_start;
};

/** Decides how many threads are worth having, from the files per second that
were measured with the current number: doubles while that pays by at least a
tenth, goes back when it does not, and looks again after some windows. This is
Little's law found by trial: the threads needed are the IOPS of the volume
multiplied by its latency, neither of which is known at start-up. */
class Thread_ramp {
 public:
  /** Constructor.
  @param[in]  n_start  threads to begin with, at least 1
  @param[in]  n_max    most threads ever asked for, at least n_start */
  Thread_ramp(size_t n_start, size_t n_max);

  /** @return the number of threads that should be at work now */
  [[nodiscard]] size_t target() const { return m_target; }

  /** Take in the rate of one window, all of which ran with target() threads.
  @param[in]  files_per_sec  files checked per second
  @return the new target */
  size_t on_window(double files_per_sec);

  /** A larger number of threads is kept if it gives this many times the rate */
  static constexpr double MIN_GAIN = 1.1;

  /** Windows to stay with a number that doubling did not improve on. */
  static constexpr size_t SETTLED_WINDOWS = 50;

 private:
  /** Most threads ever asked for. */
  const size_t m_max;

  /** Threads that should be at work. */
  size_t m_target;

  /** Best number of threads known. */
  size_t m_best;

  /** Files per second with m_best threads; 0 = not measured yet. */
  double m_best_rate{0};

  /** Windows left before more threads are tried again. */
  size_t m_rest{0};
};

/** Hands out the indexes 0 .. n_items - 1, each exactly once, to any number of
threads, so that none is idle while items are left. */
class Work_share {
 public:
  /** Constructor.
  @param[in]  n_items  number of items */
  explicit Work_share(size_t n_items) : m_n_items(n_items) {}

  /** Take the next item.
  @param[out]  item  index of the item
  @return false if none is left */
  [[nodiscard]] bool next(size_t &item) {
    item = m_next.fetch_add(1, std::memory_order_relaxed);
    return item < m_n_items;
  }

  /** @return number of items handed out so far */
  [[nodiscard]] size_t n_taken() const {
    const auto n = m_next.load(std::memory_order_relaxed);
    return n < m_n_items ? n : m_n_items;
  }

  /** @return number of items in all */
  [[nodiscard]] size_t n_items() const { return m_n_items; }

 private:
  /** Number of items. */
  const size_t m_n_items;

  /** Next item to hand out; exceeds m_n_items by the number of threads at the
  end. */
  std::atomic_size_t m_next{0};
};

/** Checks one item. */
using scan_observer::Check;

/** Starts a thread that runs a function, and returns a function that waits for
its end. Throws std::system_error if the system has no thread to give. */
using Start_thread = std::function<std::function<void()>(
    size_t thread_no, std::function<void()> body)>;

/** Run a check on every item, on several threads. The calling thread works
too, decides about the number of threads, and returns when all items are done.
If no (more) threads can be had, those that are there do the work.
@param[in]  n_items  number of items
@param[in]  ramp     how many threads to begin with and at most
@param[in]  start    starts a thread
@param[in]  check    function to call for each item
@return the largest number of threads that were at work, the caller included */
size_t share_work(size_t n_items, Thread_ramp ramp, const Start_thread &start,
                  const Check &check);

/** Start a server thread; a Start_thread.
@param[in]  thread_no  number of the thread, for the performance schema
@param[in]  body       what the thread does
@return function that waits for its end */
[[nodiscard]] std::function<void()> start_server_thread(
    size_t thread_no, std::function<void()> body);

/** @return whether any of innodb_tablespace_check_fadvise, _light and _threads
differs from what leaves things as they were */
[[nodiscard]] bool is_on();

/** @param[in]  n_items  number of files, or of other things, to check
@return the number of threads to begin with and the most to use, the start-up
thread included, as innodb_tablespace_check_threads says */
[[nodiscard]] Thread_ramp make_ramp(size_t n_items);

/** Checks files in another way than one at a time for each thread. */
using Check_all = std::function<void(size_t n_files, const Check &check)>;

/** If it is set, run() uses it instead of threads of its own. */
extern Check_all g_check_all;

/** Number of additional threads with which the check of the files begins.
@param[in]  n_files  number of files
@param[in]  n_stock  what the original rule gives
@return n_stock if all variables have the values that leave things as they
were, else what the variables ask for, less the start-up thread */
[[nodiscard]] size_t n_additional_threads(size_t n_files, size_t n_stock);

/** Check files on threads that share the work dynamically.
@param[in]  n_files  number of files
@param[in]  check    checks the file of the given index
@return false if the original static split should be used; nothing was done */
[[nodiscard]] bool run(size_t n_files, const Check &check);

}  // namespace tablespace_check

#endif /* fil0check_h */
