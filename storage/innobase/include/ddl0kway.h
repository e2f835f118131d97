/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file include/ddl0kway.h
Merge many sorted runs of an index build at a time.

The first part is pure logic, templates over where bytes come from and what a
record is: the plan (how many runs at a time, how many passes), a reader of one
run, a tournament tree and a writer. The second part is the interface to the
index build; ddl/ddl0kway.cc has it, and the design. */

#ifndef ddl0kway_h
#define ddl0kway_h

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "api0api.h"
#include "db0err.h"
#include "mysql/components/services/bits/psi_stage_bits.h"
#include "univ.i"
#include "ut0new.h"

class THD;
class Flush_observer;
struct trx_t;

namespace ddl {

struct Builder;
struct Context;
struct file_t;

namespace kway {

/** Most runs that are merged at a time. */
constexpr size_t MAX_WAYS = 4096;

/** Greatest value of innodb_ddl_merge_ways. */
constexpr size_t MAX_SET_WAYS = 512;

/** Runs and writes are multiples of this and begin at multiples of it; so are
reads without the page cache. */
constexpr size_t BLOCK_BYTES = 4096;

/** Least buffer for reading a run through the page cache, which does the I/O. A
read of so few bytes costs about as much as to compare a row twice, which is
less than a pass over all rows. */
constexpr size_t CACHED_READ_BYTES = 512;

/** Least buffer where smaller ones make such a pass unnecessary. */
constexpr size_t SMALL_READ_BYTES = 256;

/** Largest buffer for one run, and for the output. */
constexpr size_t MAX_BUFFER_BYTES = 1024 * 1024;

/** What one I/O costs on a volume that limits bytes and I/Os: 125 MiB/s and
3,000 I/Os per second make a smaller I/O as expensive as one of this size. */
constexpr size_t IO_COST_BYTES = 43 * 1024;

/** Most bytes of one read-ahead request for a run. */
constexpr size_t MAX_AHEAD_BYTES = 256 * 1024;

/** Most bytes of read-ahead under way for one merge. */
constexpr size_t MAX_AHEAD_TOTAL_BYTES = 16 * 1024 * 1024;

/** No row of a run is larger; a larger one means that the file is damaged. */
constexpr size_t MAX_ROW_BYTES = 256 * 1024;

/** A vector whose memory is counted as that of index builds. */
template <typename T>
class Vector : public std::vector<T, ut::allocator<T>> {
  using Base = std::vector<T, ut::allocator<T>>;

 public:
  Vector() : Base(ut::allocator<T>(mem_key_ddl)) {}

  /** Constructor.
  @param[in]  n  number of elements */
  explicit Vector(size_t n) : Base(n, ut::allocator<T>(mem_key_ddl)) {}
};

/** A sorted run in a temporary file: rows, a zero byte, padding. */
struct Run {
  /** Number of the file. */
  size_t m_file{};

  /** Offset of the first byte. */
  uint64_t m_begin{};

  /** Offset after the last byte. */
  uint64_t m_end{};
};

/** @return least buffer for reading a run
@param[in]  is_direct  whether files are read without the page cache */
[[nodiscard]] inline size_t least_input_bytes(bool is_direct) {
  return is_direct ? BLOCK_BYTES : CACHED_READ_BYTES;
}

/** What a plan depends on. */
struct Shape {
  /** Runs of a file, of the file with the most. */
  size_t m_n_runs{};

  /** Files, one for each thread that scanned. */
  size_t m_n_files{1};

  /** Runs of all files; 0 = as many in each. */
  size_t m_n_all_runs{};

  /** Bytes of that file. */
  uint64_t m_file_bytes{};

  /** Memory for the buffers of the merge of one file. */
  size_t m_sort_memory_bytes{};

  /** Memory for the buffers of the merge that feeds the index. */
  size_t m_load_memory_bytes{};

  /** Memory that a run takes in a merge besides its buffer: room for a row that
  lies across two buffers, and the reader itself. */
  size_t m_reader_bytes{};

  /** innodb_ddl_merge_ways; 0 = automatic. */
  size_t m_ways{};

  /** Whether the last merge feeds the index: then runs may be left over. */
  bool m_feeds_load{};

  /** Whether the files are read without the page cache, so that a small buffer
  means small I/Os. */
  bool m_is_direct{};

  /** Least buffer for reading a run; 0 = as least_input_bytes() says. */
  size_t m_least_bytes{};

  /** @return least buffer for reading a run */
  [[nodiscard]] size_t least_bytes() const {
    return m_least_bytes > 0 ? m_least_bytes : least_input_bytes(m_is_direct);
  }
};

/** How to merge the runs of a file. */
struct Plan {
  /** Runs merged at a time; 0 = nothing to merge. */
  size_t m_fan_in{2};

  /** Runs of a file that are left for the merge that feeds the index. */
  size_t m_leave{1};

  /** Passes that the file with the most runs needs. */
  size_t m_passes{};

  /** Estimated cost for that file, in bytes of large I/Os. */
  double m_cost_bytes{};

  /** How often a row of that file is rewritten on average. */
  double m_n_rewritten{};

  /** Least buffer for reading a run. */
  size_t m_least_bytes{};

  /** Memory that a run takes besides its buffer, see Shape. */
  size_t m_reader_bytes{};
};

/** @return passes until n_runs have become at most leave, fan_in at a time */
[[nodiscard]] inline size_t n_passes(size_t n_runs, size_t leave,
                                     size_t fan_in) {
  size_t passes = 0;

  for (size_t reach = leave; reach < n_runs; ++passes) {
    reach = reach > n_runs / fan_in ? n_runs : reach * fan_in;
  }

  return passes;
}

/** @return the number of runs that there may be after the next of the passes:
no more merging is done early than what the later passes cannot do */
[[nodiscard]] inline size_t target_runs(size_t n_runs, size_t leave,
                                        size_t fan_in) {
  const auto passes = n_passes(n_runs, leave, fan_in);
  size_t target = leave;

  for (size_t pass = 1; pass < passes; ++pass) {
    target *= fan_in;
  }

  return target;
}

/** @return bytes of the output buffer of a merge with so much memory */
[[nodiscard]] inline size_t output_bytes(size_t memory_bytes) {
  const auto size =
      std::clamp(memory_bytes / 8, 2 * BLOCK_BYTES, MAX_BUFFER_BYTES);
  return size / BLOCK_BYTES * BLOCK_BYTES;
}

/** @return bytes of the buffer of each of n runs, which share the memory
@param[in]  memory_bytes  memory for all of them
@param[in]  n             number of runs
@param[in]  reader_bytes  what a run takes besides its buffer
@param[in]  least         least buffer, of which all are multiples */
[[nodiscard]] inline size_t input_bytes(size_t memory_bytes, size_t n,
                                        size_t reader_bytes, size_t least) {
  const auto share = memory_bytes / std::max(n, size_t{1});
  const auto size = std::clamp(share > reader_bytes ? share - reader_bytes : 0,
                               least, MAX_BUFFER_BYTES);
  return size >= BLOCK_BYTES ? size / BLOCK_BYTES * BLOCK_BYTES
                             : size / least * least;
}

/** @return bytes to request ahead for each of n runs */
[[nodiscard]] inline size_t ahead_bytes(size_t n) {
  return std::clamp(MAX_AHEAD_TOTAL_BYTES / std::max(n, size_t{1}),
                    8 * BLOCK_BYTES, MAX_AHEAD_BYTES);
}

/** @return cost of I/Os of io_bytes each that move so many bytes */
[[nodiscard]] inline double io_cost(double bytes, double io_bytes) {
  return bytes * std::max(1.0, IO_COST_BYTES / io_bytes);
}

/** Choose how many runs to merge at a time: the way that costs least, and of
equal ways the one with fewer passes, then the one with larger buffers.
@param[in]  shape  what is to be merged
@return the plan */
[[nodiscard]] Plan make_plan(const Shape &shape);

/** Memory that the sort buffers of several indexes share in one scan thread.
When it is full the largest buffer is written as a run, whichever index asked
for more: all of the memory is in use all the time, an index with small keys
holds as little as it needs, and one that gets no more rows nothing at last. */
class Pool {
 public:
  /** Constructor.
  @param[in]  n_buffers    number of buffers
  @param[in]  limit_bytes  memory for all of them */
  Pool(size_t n_buffers, size_t limit_bytes)
      : m_limit_bytes(limit_bytes), m_used_bytes(n_buffers, 0) {}

  /** Set what a buffer holds.
  @param[in]  buffer  number of the buffer
  @param[in]  bytes   what it holds */
  void set_used(size_t buffer, size_t bytes) {
    m_total_bytes += bytes - m_used_bytes[buffer];
    m_used_bytes[buffer] = bytes;
  }

  /** @return whether a buffer is to be written before a row is added
  @param[in]  n_bytes  size of the row */
  [[nodiscard]] bool is_full(size_t n_bytes) const {
    return m_total_bytes + n_bytes > m_limit_bytes;
  }

  /** @return number of the buffer that holds most */
  [[nodiscard]] size_t largest() const {
    return std::max_element(m_used_bytes.begin(), m_used_bytes.end()) -
           m_used_bytes.begin();
  }

 private:
  /** Memory for all buffers. */
  size_t m_limit_bytes;

  /** What each buffer holds. */
  std::vector<size_t> m_used_bytes;

  /** What all buffers hold. */
  size_t m_total_bytes{};
};

/** Progress of a statement, of all its indexes and threads together. The stages
of the thread that runs the statement show it: a stage can be entered by its own
thread only, the numbers are updated by all. One unit is one row that is
scanned, rewritten, loaded or written with its page for one index.

How many rows a written page holds is not known: the pages of all indexes stand
for their rows together. */
class Progress {
 public:
  /** Enter a stage, if this is the thread that runs the statement.
  @param[in]  stage  stage
  @return false if the build has ended, so that the stage is not part of it */
  [[nodiscard]] bool enter(const PSI_stage_info *stage);

  /** Work was done, or its amount is known better.
  @param[in]  n_done      units done
  @param[in]  n_expected  units expected in all, more than before; it may be
                          negative */
  void add(uint64_t n_done, int64_t n_expected);

  /** What is to be written is known better.
  @param[in]  n_rows    rows, more than before; it may be negative
  @param[in]  n_counted those of them that are in the pages, more than before
  @param[in]  n_pages   pages, more than before */
  void expect_pages(int64_t n_rows, int64_t n_counted, int64_t n_pages);

  /** Pages were written.
  @param[in]  n_pages  number of pages
  @return false if the build has ended, so that they are not part of it */
  [[nodiscard]] bool written(uint64_t n_pages);

  /** The build has ended: all is done. */
  void finish();

  /** @return what the stage of the statement shows; nullptr if stages are not
  recorded */
  [[nodiscard]] PSI_stage_progress *shown() const { return m_shown; }

  /** @return the stage in which an index is loaded */
  [[nodiscard]] static const PSI_stage_info *load_stage();

  /** @return units done; never less than before, nor more than expected */
  [[nodiscard]] uint64_t done() const { return m_n_shown_done; }

  /** @return units expected in all */
  [[nodiscard]] uint64_t expected() const {
    return std::max(m_n_expected + m_n_page_rows, m_n_shown_done);
  }

 private:
  /** Show the numbers; the mutex is held. */
  void show();

  /** Protects the members below. */
  std::mutex m_mutex;

  /** Thread that runs the statement. */
  const std::thread::id m_owner{std::this_thread::get_id()};

  /** Stage. */
  const PSI_stage_info *m_stage{};

  /** What it shows. */
  PSI_stage_progress *m_shown{};

  /** Units done, without pages. */
  uint64_t m_n_done{};

  /** Units expected in all, without pages. */
  uint64_t m_n_expected{};

  /** Rows in all pages. */
  uint64_t m_n_page_rows{};

  /** Rows of the indexes whose pages are in m_n_pages. */
  uint64_t m_n_counted_rows{};

  /** Pages expected. */
  uint64_t m_n_pages{};

  /** Pages written. */
  uint64_t m_n_written{};

  /** Units done, as shown last. */
  uint64_t m_n_shown_done{};

  /** Whether the build has ended. */
  bool m_is_finished{};
};

/** Part in the progress of the statement: of one index, or of the pages that
the statement writes. */
class Progress_part {
 public:
  /** Rows between two reports. */
  static constexpr uint64_t ROWS = 256;

  /** Take part with an index. */
  void join(std::shared_ptr<Progress> progress) {
    m_progress = std::move(progress);
  }

  /** Take part with the pages that are written. */
  void join_pages(std::shared_ptr<Progress> progress) {
    m_progress = std::move(progress);
    m_counts_pages = true;
  }

  /** Units were done. */
  void done(uint64_t n) {
    if (m_progress != nullptr) {
      m_n_done += n;
      m_progress->add(n, 0);
    }
  }

  /** So many units are left. */
  void expect(uint64_t n_left) {
    if (m_progress != nullptr) {
      const auto n = m_n_done + n_left;
      m_progress->add(0, static_cast<int64_t>(n - m_n_expected));
      m_n_expected = n;
    }
  }

  /** The index has so many rows and pages, which are to be written.
  @param[in]  n_rows   rows
  @param[in]  n_pages  pages; 0 = not known yet */
  void expect_pages(uint64_t n_rows, uint64_t n_pages) {
    if (m_progress != nullptr) {
      const auto n_counted = n_pages > 0 ? n_rows : 0;
      m_progress->expect_pages(
          static_cast<int64_t>(n_rows - m_n_rows),
          static_cast<int64_t>(n_counted - m_n_counted_rows),
          static_cast<int64_t>(n_pages - m_n_pages));
      m_n_rows = n_rows;
      m_n_counted_rows = n_counted;
      m_n_pages = n_pages;
    }
  }

  /** Pages were written.
  @return whether this takes part with them */
  [[nodiscard]] bool written(uint64_t n_pages) {
    return m_counts_pages && m_progress->written(n_pages);
  }

  /** Report rows, if there are enough of them.
  @param[in,out] n        rows that were not reported
  @param[in]     is_last  whether to report any number
  @return whether this takes part */
  bool report(uint64_t &n, bool is_last) {
    if (m_progress != nullptr && (n >= ROWS || is_last)) {
      done(n);
      n = 0;
    }
    return m_progress != nullptr;
  }

  /** Enter a stage.
  @return whether this takes part */
  bool enter(const PSI_stage_info *stage) {
    return m_progress != nullptr && m_progress->enter(stage);
  }

  /** The build has ended: the stage that is shown is that of the statement.
  @param[in,out] stages      stages of the statement
  @param[out]    phase       phase of the statement, if a stage is shown
  @param[in]     load_phase  the phase in which an index is loaded
  @return whether this takes part */
  template <typename Stages, typename Phase>
  bool take_over(Stages &stages, Phase &phase, Phase load_phase) {
    if (m_progress == nullptr) {
      return false;
    }

    m_progress->finish();

    if (const auto shown = m_progress->shown(); shown != nullptr) {
      stages.push_back({Progress::load_stage(), {shown, {}}});
      phase = load_phase;
    }
    return true;
  }

 private:
  /** Progress of the statement. Pages are written by other threads, so that it
  has to live as long as this. */
  std::shared_ptr<Progress> m_progress;

  /** Whether this takes part with pages. */
  bool m_counts_pages{};

  /** Units done. */
  std::atomic<uint64_t> m_n_done{};

  /** Units expected in all. */
  uint64_t m_n_expected{};

  /** Rows of the index. */
  uint64_t m_n_rows{};

  /** Those of them in m_n_pages. */
  uint64_t m_n_counted_rows{};

  /** Pages of the index. */
  uint64_t m_n_pages{};
};

/** @return pages that rows fill, of which one in 16 bytes is left free
@param[in]  n_bytes     bytes of all rows
@param[in]  page_bytes  size of a page */
[[nodiscard]] inline uint64_t leaf_pages(uint64_t n_bytes, size_t page_bytes) {
  return n_bytes / (page_bytes / 16 * 15) + 1;
}

/** Ranges that were read in one pass. */
class Range_recorder {
 public:
  /** Record a range.
  @return false if a part of it was recorded before */
  [[nodiscard]] bool add(uint64_t file, uint64_t begin, uint64_t n_bytes) {
    auto &ranges = m_ranges[file];
    const auto next = ranges.lower_bound(begin);

    if ((next != ranges.end() && next->first < begin + n_bytes) ||
        (next != ranges.begin() && std::prev(next)->second > begin)) {
      return false;
    }

    ranges.emplace(begin, begin + n_bytes);
    m_n_bytes += n_bytes;
    return true;
  }

  /** @return bytes in all ranges */
  [[nodiscard]] uint64_t n_bytes() const { return m_n_bytes; }

 private:
  /** End by begin, for each file. */
  std::map<uint64_t, std::map<uint64_t, uint64_t>> m_ranges;

  /** Bytes in all ranges. */
  uint64_t m_n_bytes{};
};

/** While it lives, a tablespace grows by space that is not written with zeros:
the build will write nearly all of it. What it does not write reads as zeros.

A page that is written to such space is there after a power cut only if the file
system has noted so, which it does when the file is flushed, and need not have
done when the page was written. The original code may flush no file: without
doublewrite files, and for pages that the page cleaner writes last. Therefore
the file is flushed at the end, when all pages of the build were written; the
statement is committed after that. */
class Preallocation {
 public:
  Preallocation() = default;
  Preallocation(const Preallocation &) = delete;
  Preallocation &operator=(const Preallocation &) = delete;
  ~Preallocation();

  /** Begin, if the tablespace is that of one table and nobody else does it.
  With innodb_flush_method=O_DIRECT_NO_FSYNC nothing would tell the file system
  to note that a page was written.
  @param[in]  space_id  tablespace of the build */
  void begin(space_id_t space_id);

 private:
  /** The tablespace, if it is done. */
  std::optional<space_id_t> m_space_id;

  /** Its size in pages at the beginning. */
  page_no_t m_size{};
};

class Early_flush;
class Gathered;

/** Memory that the merges of a build share. A load that has many runs takes
more than its part, so that they need not be merged before; others wait for it.
*/
class Merge_memory {
 public:
  /** Take memory, and wait for it if others have it.
  @param[in]  n_bytes      what a merge needs
  @param[in]  limit_bytes  what all merges of the build may have; one that needs
                           more has it when nobody else has any */
  void take(size_t n_bytes, size_t limit_bytes) {
    std::unique_lock<std::mutex> lock(m_mutex);
    m_given_back.wait(lock, [&] {
      return m_used_bytes == 0 || m_used_bytes + n_bytes <= limit_bytes;
    });
    m_used_bytes += n_bytes;
  }

  /** Give back what take() took.
  @param[in]  n_bytes  as there */
  void give_back(size_t n_bytes) {
    {
      std::lock_guard<std::mutex> guard(m_mutex);
      m_used_bytes -= n_bytes;
    }
    m_given_back.notify_all();
  }

 private:
  /** Protects the members below. */
  std::mutex m_mutex;

  /** Signalled when memory was given back. */
  std::condition_variable m_given_back;

  /** What merges have taken. */
  size_t m_used_bytes{};
};

/** @return how many loads go on at a time at least: half of those that the
processors can do at a time. More memory for one that has many runs must not
cost more than a pass over them, which several threads make; and a thread may
merge while another loads.
@param[in]  n_loads    loads that could go on
@param[in]  n_threads  threads that could run at a time */
[[nodiscard]] inline size_t least_loads(size_t n_loads, size_t n_threads) {
  return (std::min(n_loads, n_threads) + 1) / 2;
}

/** Share out the memory for the merge that feeds an index: the part of one of
so many loads at a time; or, if all runs can be merged then, more, because fewer
loads go on at a time; or with smaller buffers.
@param[in]     memory_bytes  memory of the build
@param[in]     n_loads       loads that could go on at a time
@param[in]     n_threads     threads that could run at a time, at least one
@param[in,out] shape         the runs; the memory and the least buffer are set
 */
inline void share_load_memory(size_t memory_bytes, size_t n_loads,
                              size_t n_threads, Shape &shape) {
  shape.m_load_memory_bytes = memory_bytes / n_loads;
  shape.m_least_bytes = least_input_bytes(shape.m_is_direct);

  for (const auto least : {shape.m_least_bytes, SMALL_READ_BYTES}) {
    const auto n_bytes = shape.m_n_all_runs * (least + shape.m_reader_bytes);

    for (auto n = n_loads; n >= least_loads(n_loads, n_threads); --n) {
      if (memory_bytes / n >= n_bytes) {
        shape.m_load_memory_bytes = memory_bytes / n;
        shape.m_least_bytes = least;
        return;
      }
    }
    if (shape.m_is_direct) {
      return;
    }
  }
}

/** A table is large if it takes so many times the memory of sort buffers. */
constexpr size_t LARGE_TABLE = 256;

/** @return whether a table has so many rows that sort buffers of one thread
could make too many runs: merging batches, which makes fewer, takes longer than
to sort them in one buffer
@param[in]  table_bytes   size of the table
@param[in]  memory_bytes  memory of the sort buffers */
[[nodiscard]] inline bool is_large(uint64_t table_bytes, size_t memory_bytes) {
  return table_bytes / LARGE_TABLE > memory_bytes;
}

/** What the builders of the indexes of one table share in the scan. */
struct Shared_memory {
  /** One for each scan thread; none if nothing is shared. */
  std::vector<Pool> m_pools;

  /** Sorted rows of all scan threads; nullptr if each writes its own runs. */
  std::shared_ptr<Gathered> m_gathered;

  /** Buffer for writing runs, one for each scan thread. */
  std::vector<std::pair<byte *, size_t>> m_io_buffers;

  /** Memory of the merges. */
  Merge_memory m_merge_memory;

  /** Builders that share the memory; their number in a Pool is the index. */
  std::vector<Builder *> m_members;

  /** How many of them can take rows from records, see Record_columns. */
  size_t m_n_of_records{};

  /** Progress of the statement; nullptr if it is that of the original code. */
  std::shared_ptr<Progress> m_progress;

  /** Space of the table. */
  Preallocation m_preallocation;

  /** Thread that writes its pages early; nullptr if there is none. */
  std::shared_ptr<Early_flush> m_early_flush;
};

/** Least memory of a load of which a part is used to hand rows over. */
constexpr size_t LEAST_HANDING_BYTES = 256 * 1024;

/** Least size of a buffer through which rows are handed over. */
constexpr size_t LEAST_HAND_OVER_BYTES = 8 * 1024;

/** @return size of each of the two buffers through which one thread hands rows
over to another: a quarter of what was too much; 0 if it does not
@param[in]  n_bytes    what was too much
@param[in]  row_bytes  size of the largest row */
[[nodiscard]] inline size_t smaller_hand_over(size_t n_bytes,
                                              size_t row_bytes) {
  n_bytes /= 4;
  return n_bytes < LEAST_HAND_OVER_BYTES || row_bytes > n_bytes / 4 ? 0
                                                                    : n_bytes;
}

/** @return size of each of these buffers, if there is room for large ones
@param[in]  memory_bytes  memory of the load
@param[in]  row_bytes     size of the largest row */
[[nodiscard]] inline size_t hand_over_bytes(size_t memory_bytes,
                                            size_t row_bytes) {
  const auto n_bytes = std::min<size_t>(memory_bytes / 16, 64 * 1024);

  return memory_bytes < LEAST_HANDING_BYTES
             ? 0
             : smaller_hand_over(4 * n_bytes, row_bytes);
}

/** Rows that one thread hands over to another, many at a time and in their
order: while one buffer is filled, another is emptied. */
class Hand_over {
 public:
  /** Rows that were handed over, side by side. */
  struct Rows {
    /** The first of them; nullptr after the last. */
    const byte *m_begin;

    /** After the last of them. */
    const byte *m_end;
  };

  /** Constructor.
  @param[in]  n_bytes  size of each of two buffers; no row is larger */
  explicit Hand_over(size_t n_bytes) : m_n_bytes(n_bytes) {
    for (auto &buffer : m_buffers) {
      buffer.reserve(n_bytes);
    }
  }

  /** Add a row; waits until there is room. For the one thread.
  @param[in]  row      row
  @param[in]  n_bytes  its size
  @return false if the other thread wants no more */
  [[nodiscard]] bool add(const byte *row, size_t n_bytes) {
    if (filled().size() + n_bytes > m_n_bytes && !pass()) {
      return false;
    }
    filled().insert(filled().end(), row, row + n_bytes);
    return true;
  }

  /** No more rows follow. For the same thread. */
  void end() {
    std::lock_guard<std::mutex> guard(m_mutex);
    m_n_passed += !filled().empty();
    m_is_over = true;
    m_changed.notify_all();
  }

  /** Get the next rows; waits for them. Those of the last call are gone. For
  the other thread.
  @return rows */
  [[nodiscard]] Rows take() {
    std::unique_lock<std::mutex> lock(m_mutex);

    if (m_is_taken) {
      m_buffers[m_n_emptied++ % 2].clear();
      m_changed.notify_all();
    }
    m_changed.wait(lock, [&] { return m_n_emptied < m_n_passed || m_is_over; });
    m_is_taken = m_n_emptied < m_n_passed;

    if (!m_is_taken) {
      return {};
    }
    const auto &rows = m_buffers[m_n_emptied % 2];
    return {rows.data(), rows.data() + rows.size()};
  }

  /** Want no more rows. For the other thread. */
  void stop() {
    std::lock_guard<std::mutex> guard(m_mutex);
    m_is_stopped = true;
    m_changed.notify_all();
  }

 private:
  /** @return the buffer that is filled */
  [[nodiscard]] Vector<byte> &filled() { return m_buffers[m_n_passed % 2]; }

  /** Hand over the buffer that was filled, and wait until the other one is
  empty.
  @return false if the other thread wants no more */
  [[nodiscard]] bool pass() {
    std::unique_lock<std::mutex> lock(m_mutex);

    ++m_n_passed;
    m_changed.notify_all();
    m_changed.wait(
        lock, [&] { return m_n_passed - m_n_emptied < 2 || m_is_stopped; });
    return !m_is_stopped;
  }

  /** Size of a buffer. */
  size_t m_n_bytes;

  /** The buffers. Who fills or empties one does so without the mutex. */
  std::array<Vector<byte>, 2> m_buffers;

  /** Protects the members below; what the one thread changes, it reads without
  it. */
  std::mutex m_mutex;

  /** Signalled when one of them has changed. */
  std::condition_variable m_changed;

  /** Buffers that were handed over. */
  size_t m_n_passed{};

  /** Buffers that were emptied. */
  size_t m_n_emptied{};

  /** Whether take() has returned rows the last time. */
  bool m_is_taken{};

  /** Whether no more rows follow. */
  bool m_is_over{};

  /** Whether no more rows are wanted. */
  bool m_is_stopped{};
};

/** Reads the rows of one run, every byte of it once and in order. There are as
many of these as runs that are merged, so they are small.

Io:      dberr_t read(size_t file, byte *to, size_t n_bytes, uint64_t offset,
                      uint64_t end): the run ends there
         bool is_direct(): whether reads begin and end at multiples of the
         buffer
Framing: size_t need(const byte *ptr, size_t n_bytes): 0 if the run ends here;
         the size of the row, prepared for use, if it is within n_bytes; else a
         number larger than n_bytes, how many bytes are needed to go on.
         Readers share it: it is that of the row that was read last. */
template <typename Io, typename Framing>
class Run_reader {
 public:
  /** Constructor.
  @param[in,out] io            where bytes come from
  @param[in,out] framing       what a row is
  @param[in]     run           run to read
  @param[in]     buffer        its buffer, aligned for the I/O
  @param[in]     buffer_bytes  size of the buffer, see input_bytes()
  @param[in]     row_bytes     size of the largest row */
  Run_reader(Io *io, Framing *framing, const Run &run, byte *buffer,
             size_t buffer_bytes, size_t row_bytes)
      : m_io(io),
        m_framing(framing),
        m_ptr(buffer),
        m_end(buffer),
        m_buffer(buffer),
        m_offset(run.m_begin),
        m_end_offset(run.m_end),
        m_file(static_cast<uint32_t>(run.m_file)),
        m_buffer_bytes(static_cast<uint32_t>(buffer_bytes)),
        m_max_row_bytes(static_cast<uint32_t>(row_bytes)) {}

  /** Constructor of a reader of a run that is in memory.
  @param[in,out] framing  what a row is
  @param[in]     run      the run
  @param[in]     n_bytes  its size */
  Run_reader(Framing *framing, const byte *run, size_t n_bytes)
      : m_framing(framing), m_ptr(run), m_end(run + n_bytes) {}

  /** Go to the next row.
  @return DB_SUCCESS, DB_END_OF_INDEX or an error */
  [[nodiscard]] dberr_t next() {
    const size_t n_avail = m_end - m_ptr;
    const auto n = m_framing->need(m_ptr, n_avail);

    if (n == 0 && n_avail > 0) {
      return end();
    }

    if (n > 0 && n <= n_avail) {
      m_row = m_ptr;
      m_row_bytes = static_cast<uint32_t>(n);
      m_ptr += n;
      return DB_SUCCESS;
    }

    if (n_avail > 0 && (n > m_buffer_bytes / 2 || m_io->is_direct())) {
      return next_across(n);
    }

    const auto err = refill(n_avail);
    return err == DB_SUCCESS ? next() : err;
  }

  /** @return the row */
  [[nodiscard]] const byte *row() const { return m_row; }

  /** @return size of the row in bytes */
  [[nodiscard]] size_t row_bytes() const { return m_row_bytes; }

  /** @return how far the run has been read: with row(), what the row is */
  [[nodiscard]] uint64_t offset() const { return m_offset; }

  /** @return memory taken for rows that lie across two buffers */
  [[nodiscard]] size_t across_bytes() const {
    return m_across == nullptr ? 0 : m_across->capacity();
  }

 private:
  /** Fill the buffer.
  @param[in]  n_kept  bytes from m_ptr that stay
  @return DB_SUCCESS or error code */
  [[nodiscard]] dberr_t refill(size_t n_kept) {
    if (m_offset >= m_end_offset) {
      /* A run ends with its mark, not with its file. */
      return DB_CORRUPTION;
    }

    const auto n =
        std::min<uint64_t>(m_buffer_bytes - n_kept, m_end_offset - m_offset);

    if (n_kept > 0) {
      memmove(m_buffer, m_ptr, n_kept);
    }
    m_ptr = m_buffer;
    m_end = m_buffer + n_kept;

    const auto err =
        m_io->read(m_file, m_buffer + n_kept, n, m_offset, m_end_offset);

    if (err == DB_SUCCESS) {
      m_offset += n;
      m_end += n;
    }

    return err;
  }

  /** The run has ended: read the padding, which is in the same block.
  @return DB_END_OF_INDEX or an error */
  [[nodiscard]] dberr_t end() {
    if (m_end_offset - m_offset >= BLOCK_BYTES) {
      return DB_CORRUPTION;
    }

    while (m_offset < m_end_offset) {
      if (const auto err = refill(0); err != DB_SUCCESS) {
        return err;
      }
    }
    return DB_END_OF_INDEX;
  }

  /** Go to the next row, of which a part is in the buffer, if the buffer cannot
  be filled up from there on, or that would read little at a time.
  @param[in]  n  bytes needed to go on
  @return DB_SUCCESS, DB_END_OF_INDEX or an error */
  [[nodiscard]] dberr_t next_across(size_t n) {
    if (m_across == nullptr) {
      m_across =
          ut::make_unique<Vector<byte>>(ut::make_psi_memory_key(mem_key_ddl));
    }

    auto &row = *m_across;

    row.reserve(m_max_row_bytes);
    row.assign(m_ptr, m_end);
    m_ptr = m_end;

    while (n > row.size()) {
      if (n > MAX_ROW_BYTES) {
        return DB_CORRUPTION;
      }

      if (m_ptr == m_end) {
        if (const auto err = refill(0); err != DB_SUCCESS) {
          return err;
        }
      }

      const auto take = std::min<size_t>(n - row.size(), m_end - m_ptr);
      row.insert(row.end(), m_ptr, m_ptr + take);
      m_ptr += take;
      if (row.size() == n) {
        n = m_framing->need(row.data(), row.size());
      }
    }

    if (n != row.size()) {
      return DB_CORRUPTION;
    }

    m_row = row.data();
    m_row_bytes = static_cast<uint32_t>(n);
    return DB_SUCCESS;
  }

  /** Where bytes come from; not for a run in memory. */
  Io *m_io{};

  /** What a row is. */
  Framing *m_framing;

  /** First byte in the buffer that was not used. */
  const byte *m_ptr;

  /** End of what is in the buffer. */
  const byte *m_end;

  /** Buffer. */
  byte *m_buffer{};

  /** Offset in the file of what to read next. */
  uint64_t m_offset{};

  /** End of the run. */
  uint64_t m_end_offset{};

  /** Number of its file. */
  uint32_t m_file{};

  /** Size of the buffer. */
  uint32_t m_buffer_bytes{};

  /** Size of the largest row. */
  uint32_t m_max_row_bytes{};

  /** Size of the current row. */
  uint32_t m_row_bytes{};

  /** Current row. */
  const byte *m_row{};

  /** A row that lies across two buffers; nullptr if there was none. */
  ut::unique_ptr<Vector<byte>> m_across;
};

/** Memory that a reader takes in a tournament tree, in bytes. */
constexpr size_t TREE_BYTES = sizeof(uint64_t) + 3 * sizeof(uint32_t) + 1;

/** A tournament tree of readers. The least row is at the top. Of two rows that
are neighbours in the output and come from different runs, each was compared
with the other: a comparison that looks for duplicates finds them all. Rows with
different keys are neither compared nor duplicates.

Compare: int operator()(const Reader &, const Reader &)
         uint64_t key(const Reader &), of the row that was read last: of two
         rows the one with the lesser key comes first */
template <typename Reader, typename Compare>
class Tournament {
 public:
  /** Constructor.
  @param[in,out] compare  comparison
  @param[in,out] readers  readers; all are there before open() */
  Tournament(Compare &compare, Vector<Reader> &readers)
      : m_compare(compare), m_readers(readers) {}

  /** Read the first rows and play the first round.
  @return DB_SUCCESS, DB_END_OF_INDEX if there is no row, or an error */
  [[nodiscard]] dberr_t open() {
    const auto k = static_cast<uint32_t>(m_readers.size());

    m_live.assign(k, false);
    m_keys.assign(k, 0);

    for (size_t i = 0; i < k; ++i) {
      const auto err = m_readers[i].next();
      if (err != DB_SUCCESS && err != DB_END_OF_INDEX) {
        return err;
      }
      m_live[i] = err == DB_SUCCESS;
      m_keys[i] = m_live[i] ? m_compare.key(m_readers[i]) : 0;
    }

    if (k == 0) {
      return DB_END_OF_INDEX;
    }

    m_losers.assign(k, 0);
    Vector<uint32_t> winners(2 * size_t{k});

    for (uint32_t i = 0; i < k; ++i) {
      winners[k + i] = i;
    }

    for (auto node = k - 1; node > 0; --node) {
      const auto a = winners[2 * node];
      const auto b = winners[2 * node + 1];
      const auto a_wins = beats(a, b);
      winners[node] = a_wins ? a : b;
      m_losers[node] = a_wins ? b : a;
    }

    m_top = winners[1];
    return m_live[m_top] ? DB_SUCCESS : DB_END_OF_INDEX;
  }

  /** @return the reader with the least row */
  [[nodiscard]] Reader &top() { return m_readers[m_top]; }

  /** Go to the next row.
  @return DB_SUCCESS, DB_END_OF_INDEX or an error */
  [[nodiscard]] dberr_t next() {
    const auto err = m_readers[m_top].next();

    if (err == DB_END_OF_INDEX) {
      m_live[m_top] = false;
    } else if (err != DB_SUCCESS) {
      return err;
    } else {
      m_keys[m_top] = m_compare.key(m_readers[m_top]);
    }

    auto winner = m_top;

    for (auto node = (m_readers.size() + m_top) / 2; node > 0; node /= 2) {
      if (beats(m_losers[node], winner)) {
        std::swap(m_losers[node], winner);
      }
    }

    m_top = winner;
    return m_live[m_top] ? DB_SUCCESS : DB_END_OF_INDEX;
  }

 private:
  /** @return whether a comes before b; a run that has ended comes last */
  [[nodiscard]] bool beats(uint32_t a, uint32_t b) {
    if (!m_live[a] || !m_live[b]) {
      return m_live[a];
    }
    if (m_keys[a] != m_keys[b]) {
      return m_keys[a] < m_keys[b];
    }
    const auto cmp = m_compare(m_readers[a], m_readers[b]);
    return cmp != 0 ? cmp < 0 : a < b;
  }

  /** Comparison. */
  Compare &m_compare;

  /** Readers. */
  Vector<Reader> &m_readers;

  /** Whether each has a row. */
  Vector<bool> m_live;

  /** Key of the row of each. */
  Vector<uint64_t> m_keys;

  /** Who lost at each inner node; 0 is not used. */
  Vector<uint32_t> m_losers;

  /** Reader with the least row. */
  uint32_t m_top{};
};

/** Writes rows as a run.

Io: dberr_t write(size_t file, byte *from, size_t n_bytes, uint64_t offset) */
template <typename Io>
class Run_writer {
 public:
  /** Constructor.
  @param[in,out] io            where bytes go
  @param[in]     file          number of the file
  @param[in]     offset        where the run begins, a multiple of BLOCK_BYTES
  @param[in]     buffer        buffer, aligned for the I/O
  @param[in]     buffer_bytes  its size, a multiple of BLOCK_BYTES */
  Run_writer(Io *io, size_t file, uint64_t offset, byte *buffer,
             size_t buffer_bytes)
      : m_io(io),
        m_run{file, offset, offset},
        m_buffer(buffer),
        m_buffer_bytes(buffer_bytes) {}

  /** Write a row.
  @return DB_SUCCESS or error code */
  [[nodiscard]] dberr_t add(const byte *row, size_t n_bytes) {
    while (n_bytes > 0) {
      const auto n = std::min(n_bytes, m_buffer_bytes - m_n_buffered);
      memcpy(m_buffer + m_n_buffered, row, n);
      m_n_buffered += n;
      row += n;
      n_bytes -= n;

      if (m_n_buffered == m_buffer_bytes) {
        if (const auto err = flush(); err != DB_SUCCESS) {
          return err;
        }
      }
    }
    return DB_SUCCESS;
  }

  /** End the run.
  @return DB_SUCCESS or error code */
  [[nodiscard]] dberr_t finish() {
    const auto n = (m_n_buffered / BLOCK_BYTES + 1) * BLOCK_BYTES;
    memset(m_buffer + m_n_buffered, 0, n - m_n_buffered);
    m_n_buffered = n;
    return flush();
  }

  /** @return the run, when finished */
  [[nodiscard]] const Run &run() const { return m_run; }

 private:
  /** Write what is in the buffer.
  @return DB_SUCCESS or error code */
  [[nodiscard]] dberr_t flush() {
    const auto err =
        m_io->write(m_run.m_file, m_buffer, m_n_buffered, m_run.m_end);
    m_run.m_end += m_n_buffered;
    m_n_buffered = 0;
    return err;
  }

  /** Where bytes go. */
  Io *m_io;

  /** The run so far. */
  Run m_run;

  /** Buffer. */
  byte *m_buffer;

  /** Size of the buffer. */
  size_t m_buffer_bytes;

  /** Bytes in the buffer; less than its size between calls. */
  size_t m_n_buffered{};
};

/** innodb_ddl_merge_drop_cache: drop each block of a temporary file from the
page cache after every I/O. */
extern bool g_drop_cache;

/** Status variables, all since the start of the server. */
struct Status {
  /** Bytes read from temporary files of index builds. */
  std::atomic<uint64_t> bytes_read{};

  /** Bytes written to them. */
  std::atomic<uint64_t> bytes_written{};

  /** Merge passes over one file that were written out. */
  std::atomic<uint64_t> passes{};

  /** Pages by which files grew without zeros being written. */
  std::atomic<uint64_t> preallocated_pages{};

  /** Pages of rebuilds that were written many at a time, without a copy. */
  std::atomic<uint64_t> extent_pages{};
};

extern Status g_status;

/** How much of the page cache the temporary files of all index builds may take:
a quarter of the memory that the system could give away, shared by the builds
that are under way. */
class Cache_share {
 public:
  /** Files for which the share of one index is meant. */
  static constexpr size_t FILES = 16;

  /** The build of an index begins.
  @param[in]  available  says how many bytes the system could give away; asked
                         by the first index only, once it is more than 0 */
  template <typename Available>
  void add(Available available) {
    std::lock_guard<std::mutex> guard(m_mutex);
    if (m_n_builders++ == 0 || m_available_bytes == 0) {
      m_available_bytes = available();
    }
    share();
  }

  /** The build of an index has ended. */
  void remove() {
    std::lock_guard<std::mutex> guard(m_mutex);
    --m_n_builders;
    share();
  }

  /** @return bytes from the start of each file that may stay cached */
  [[nodiscard]] uint64_t bytes() const {
    return m_bytes.load(std::memory_order_relaxed);
  }

 private:
  /** Share out; the mutex is held. */
  void share() {
    m_bytes.store(m_n_builders == 0
                      ? 0
                      : m_available_bytes / 4 / FILES / m_n_builders /
                            BLOCK_BYTES * BLOCK_BYTES,
                  std::memory_order_relaxed);
  }

  /** Protects the members below. */
  std::mutex m_mutex;

  /** Indexes that are being built. */
  size_t m_n_builders{};

  /** What the system could give away when the first of them began. */
  uint64_t m_available_bytes{};

  /** What each file may keep. */
  std::atomic<uint64_t> m_bytes{};
};

/** Repeat a system call for as long as a signal interrupts it.
@param[in]  call  calls it
@return what it returns */
template <typename Call>
[[nodiscard]] auto uninterrupted(Call call) {
  auto result = call();
  while (result == -1 && errno == EINTR) {
    result = call();
  }
  return result;
}

/** Count a read of the original code, and say whether the block stays cached.
@return true if the page cache is to be left alone */
[[nodiscard]] bool after_read(int fd, size_t n_bytes, uint64_t offset);

/** Count a write, and say whether the block stays cached.
@return true if the page cache is to be left alone */
[[nodiscard]] bool after_write(size_t n_bytes, uint64_t offset);

/** Lives as long as a merge pass of the original code, in the thread that makes
it: counts the pass, and in debug builds no byte may be read twice meanwhile. */
class Pass {
 public:
  Pass();
  ~Pass();

  Pass(const Pass &) = delete;
  Pass &operator=(const Pass &) = delete;
};

/** Flushes the pages of an index build in batches when it is made; see
ddl/ddl0flush.cc. What somebody holds is left to the original code, and all of
them with innodb_ddl_flush_batch=OFF or if the statement was killed. When this
ends, after the original code, the files are flushed to the device. */
class Flush_pages {
 public:
  /** Constructor.
  @param[in]  space_id  tablespace of the build
  @param[in]  observer  whose pages
  @param[in]  trx       transaction of the build; nullptr = do nothing */
  Flush_pages(uint32_t space_id, const Flush_observer *observer,
              const trx_t *trx);
  ~Flush_pages();

  Flush_pages(const Flush_pages &) = delete;
  Flush_pages &operator=(const Flush_pages &) = delete;

 private:
  /** Tablespaces of the pages. */
  std::set<uint32_t> m_spaces;
};

/** What an index build knows about its merge; owned by the Builder. */
struct Build;

/** Deletes a Build where it is a complete type. */
struct Build_deleter {
  void operator()(Build *build) const;
};

using Build_ptr = std::unique_ptr<Build, Build_deleter>;

/** Record the settings of a build.
@param[in]  ctx  DDL context
@return settings, never nullptr */
[[nodiscard]] Build_ptr create(Context &ctx);

}  // namespace kway

}  // namespace ddl

/** @return innodb_ddl_merge_ways of a session */
[[nodiscard]] size_t thd_ddl_merge_ways(THD *thd);

/** @return innodb_ddl_flush_batch of a session */
[[nodiscard]] bool thd_ddl_flush_batch(THD *thd);

/** @return innodb_ddl_doublewrite of a session */
[[nodiscard]] bool thd_ddl_doublewrite(THD *thd);

/** @return innodb_ddl_preallocate of a session */
[[nodiscard]] bool thd_ddl_preallocate(THD *thd);

/** @return innodb_ddl_merge_on_the_fly of a session */
[[nodiscard]] bool thd_ddl_merge_on_the_fly(THD *thd);

#endif /* ddl0kway_h */
