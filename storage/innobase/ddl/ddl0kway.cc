/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file ddl/ddl0kway.cc
Merge many sorted runs of an index build at a time, and feed the last merge to
the index.

An index build writes sorted runs of keys, one file for each scan thread. The
original code merges two runs at a time until each file is one run, writing
and reading all keys once for every doubling, and then reads them once more to
load the index. Here

- as many runs are merged at a time as the memory of the build has room for
  (make_plan() decides, by what I/Os and bytes cost);
- merging stops as soon as the load can merge what is left;
- no run is rewritten before a later pass needs it: if 70 runs are to become
  64, seven are merged and 63 stay where they are;
- what was consumed is given back to the file system, where it can be.

Rules:

1. Every byte of a run is read once in a pass. Run_reader has no way back.
2. A duplicate is found when two neighbouring rows are compared, in any pass,
   and that row is reported. With several duplicates the original code may meet
   another one first; which it is depends there on the order of its merges, too.
3. Merges take no more memory than innodb_ddl_buffer_size in all, or what the
   original code takes at least: three pages for each merge. What a run takes is
   its buffer and the reader, and room for one row that lies across two buffers
   if it cannot be moved to the front of one.
4. Small buffers do not make small I/Os: the kernel is asked to read ahead,
   while rows that are here already are merged. */

#include "ddl0kway.h"

#ifdef __linux__
#include <fcntl.h>
#endif
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <numeric>  // IWYU pragma: keep
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <boost/sort/spreadsort/integer_sort.hpp>

#include "btr0load.h"
#include "ddl0extent.h"
#include "ddl0fts.h"
#include "ddl0impl-compare.h"
#include "ddl0impl-cursor.h"
#include "ddl0impl-kway.h"
#include "ddl0impl-loader.h"
#include "ddl0impl-merge.h"
#include "ddl0key.h"
#include "ddl0pack.h"
#include "debug_sync.h"
#include "ha_prototypes.h"
#include "os0ahead.h"
#include "os0thread-create.h"
#include "rem0cmp.h"
#include "row0row.h"
#include "srv0srv.h"
#include "ut0stage.h"

namespace ddl::kway {

bool g_drop_cache = false;
Status g_status;

/** The page cache, as index builds share it. */
static Cache_share s_cache_share;

/** Rows between two looks at whether the build was stopped. */
static constexpr uint64_t ROWS_PER_CHECK = 1024;

/** No row of a full-text index is larger: a word, a document and a position. */
static constexpr size_t FTS_ROW_BYTES = FTS_MAX_WORD_LEN + 64;

/** Rows of a clustered index that is loaded in the order of the scan are handed
over so many bytes at a time, if that leaves memory to other indexes. */
static constexpr size_t DIRECT_BYTES = 64 * 1024;

/** Which part of the memory of a scan thread its own sort buffers have, if they
become batches of a run. */
static constexpr size_t OWN_SHARE = 8;

/** Chunks of rows, and copies of them, that each of its own sort buffers has
room for at least. */
static constexpr size_t LEAST_CHUNKS = 2;

/** Consumed bytes after which a long run is given back. */
static constexpr uint64_t GIVE_BACK_BYTES = 64 * 1024;

Plan make_plan(const Shape &shape) {
  const auto n_files = std::max<size_t>(shape.m_n_files, 1);
  const auto bytes = static_cast<double>(shape.m_file_bytes);
  const auto out = output_bytes(shape.m_sort_memory_bytes);
  const auto sort_memory =
      shape.m_sort_memory_bytes > out ? shape.m_sort_memory_bytes - out : 0;
  const auto limit = shape.m_ways == 0
                         ? MAX_WAYS
                         : std::clamp<size_t>(shape.m_ways, 2, MAX_WAYS);
  const auto least = shape.least_bytes();
  const auto run_bytes = least + shape.m_reader_bytes;
  const auto most_sort = std::clamp<size_t>(sort_memory / run_bytes, 2, limit);
  const auto load_ways =
      std::min(shape.m_load_memory_bytes / run_bytes, MAX_WAYS);
  const auto fits = shape.m_feeds_load && shape.m_n_all_runs > 0 &&
                    shape.m_n_all_runs <= std::min(load_ways, limit);
  /* Files may have different numbers of runs. */
  const auto most_load =
      !shape.m_feeds_load ? size_t{1}
      : fits              ? std::max<size_t>(shape.m_n_runs, 1)
                          : std::clamp<size_t>(load_ways / n_files, 1, limit);

  const auto read_cost = [&](size_t memory, size_t n) {
    const auto buffer = input_bytes(memory, n, shape.m_reader_bytes, least);
    return io_cost(
        bytes, shape.m_is_direct ? buffer : std::max(buffer, ahead_bytes(n)));
  };

  const auto write_cost = shape.m_is_direct ? io_cost(bytes, out) : bytes;
  Plan best{};
  bool found = false;

  for (size_t leave = 1;; leave = std::min(leave * 2, most_load)) {
    const auto n_left =
        std::min(std::min(leave, shape.m_n_runs) * n_files,
                 shape.m_n_all_runs > 0 ? shape.m_n_all_runs : SIZE_MAX);
    const auto load_cost = read_cost(shape.m_load_memory_bytes, n_left);

    for (auto fan_in = shape.m_ways == 0 ? 2 : most_sort; fan_in <= most_sort;
         ++fan_in) {
      const auto passes = n_passes(shape.m_n_runs, leave, fan_in);
      double cost = load_cost;
      double n_rewritten = 0;

      if (passes > 0) {
        /* What the first pass does not touch costs nothing in it. The more
        runs are merged at a time, the more are not touched. */
        const auto excess =
            shape.m_n_runs - target_runs(shape.m_n_runs, leave, fan_in);
        const auto n_groups = (excess + fan_in - 2) / (fan_in - 1);
        const auto first =
            static_cast<double>(excess + n_groups) / shape.m_n_runs;

        n_rewritten = first + static_cast<double>(passes - 1);
        cost += n_rewritten * (read_cost(sort_memory, fan_in) + write_cost);
      }

      if (!found || cost < best.m_cost_bytes ||
          (cost == best.m_cost_bytes && passes < best.m_passes)) {
        best = {fan_in,
                leave,
                passes,
                cost,
                n_rewritten,
                least,
                shape.m_reader_bytes};
        found = true;
      }
    }

    if (leave >= most_load) {
      return best;
    }
  }
}

/** @return memory that the system could give away, 0 if it does not say */
static uint64_t available_bytes() {
  uint64_t kib = 0;

  if (auto file = fopen("/proc/meminfo", "r"); file != nullptr) {
    char line[128];
    while (fgets(line, sizeof(line), file) != nullptr) {
      unsigned long long n;
      if (sscanf(line, "MemAvailable: %llu kB", &n) == 1) {
        kib = n;
        break;
      }
    }
    fclose(file);
  }

  return kib * 1024;
}

#ifdef UNIV_DEBUG
/** What this thread has read in a pass of the original code, if it is in one.
 */
static thread_local std::unique_ptr<Range_recorder> s_read_in_pass;
#endif /* UNIV_DEBUG */

Pass::Pass() {
  g_status.passes.fetch_add(1, std::memory_order_relaxed);
  ut_d(s_read_in_pass = std::make_unique<Range_recorder>());
}

Pass::~Pass() { ut_d(s_read_in_pass.reset()); }

bool after_read(int fd [[maybe_unused]], size_t n_bytes,
                uint64_t offset [[maybe_unused]]) {
  ut_ad(s_read_in_pass == nullptr || s_read_in_pass->add(fd, offset, n_bytes));
  g_status.bytes_read.fetch_add(n_bytes, std::memory_order_relaxed);
  return !g_drop_cache;
}

bool after_write(size_t n_bytes, uint64_t offset) {
  g_status.bytes_written.fetch_add(n_bytes, std::memory_order_relaxed);
  return !g_drop_cache && offset + n_bytes <= s_cache_share.bytes();
}

/** @return whether a file is read without the page cache: what
innodb_disable_sort_file_cache was when it was made */
static bool is_direct(const file_t &file) {
#ifdef O_DIRECT
  return file.m_file.is_open() &&
         (fcntl(file.m_file.get(), F_GETFL) & O_DIRECT) != 0;
#else
  return false;
#endif
}

/** Temporary files of one scan thread. */
class Files {
 public:
  /** Constructor.
  @param[in] original  file that the scan wrote */
  explicit Files(file_t *original)
      : m_original(original), m_is_direct(kway::is_direct(*original)) {}

  /** Make a file.
  @param[in]  path  directory
  @return its number, 0 if it could not be made */
  size_t create(const char *path) {
    m_more.push_back(file_create_low(path));
    if (!m_more.back().is_open()) {
      m_more.pop_back();
      return 0;
    }
    MONITOR_ATOMIC_INC(MONITOR_ALTER_TABLE_SORT_FILES);
    return m_more.size();
  }

  /** @return a file made by create() */
  Unique_os_file_descriptor &made(size_t number) { return m_more[number - 1]; }

  /** Close the files that hold none of these runs. */
  void close_unused(const Vector<Run> &runs) {
    for (size_t number = 1; number <= m_more.size(); ++number) {
      const auto used =
          std::any_of(runs.begin(), runs.end(),
                      [=](const Run &run) { return run.m_file == number; });
      if (!used && made(number).is_open()) {
        made(number).close();
      }
    }
  }

  /** @return whether files may be read without the page cache */
  [[nodiscard]] bool is_direct() const { return m_is_direct; }

  /** A pass begins, in which each byte is read once. */
  void begin_pass() { ut_d(m_read_in_pass = Range_recorder{}); }

#ifdef UNIV_DEBUG
  /** @return bytes read in this pass */
  [[nodiscard]] uint64_t n_bytes_read() const {
    return m_read_in_pass.n_bytes();
  }
#endif /* UNIV_DEBUG */

  /** Read a block. */
  [[nodiscard]] dberr_t read(size_t number, byte *to, size_t n_bytes,
                             uint64_t offset) {
    IF_ENABLED("ddl_read_failure", return DB_IO_ERROR;)
    ut_ad(m_read_in_pass.add(number, offset, n_bytes));

    IORequest request;
    request.disable_compression();
    g_status.bytes_read.fetch_add(n_bytes, std::memory_order_relaxed);
    return os_file_read_no_error_handling_int_fd(request, "(ddl)", fd(number),
                                                 to, offset, n_bytes, nullptr);
  }

  /** Write a block. */
  [[nodiscard]] dberr_t write(size_t number, byte *from, size_t n_bytes,
                              uint64_t offset) {
    return ddl::pwrite(fd(number), from, n_bytes, offset);
  }

  /** Ask for a range to be read into the page cache. */
  void read_ahead(size_t number, uint64_t begin, uint64_t end) {
    if (!srv_disable_sort_file_cache) {
      os_read_ahead(fd(number), begin, end);
    }
  }

  /** Give back a range that nobody reads again. */
  void give_back(size_t number, uint64_t begin, uint64_t end) {
#ifdef FALLOC_FL_PUNCH_HOLE
    if (m_can_punch) {
      m_can_punch =
          uninterrupted([&] {
            return fallocate(fd(number),
                             FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, begin,
                             end - begin);
          }) == 0;
      if (m_can_punch) {
        return;
      }
    }
#endif
#ifdef POSIX_FADV_DONTNEED
    posix_fadvise(fd(number), begin, end - begin, POSIX_FADV_DONTNEED);
#endif
  }

 private:
  /** @return a descriptor */
  [[nodiscard]] os_fd_t fd(size_t number) {
    return number == 0 ? m_original->m_file.get() : made(number).get();
  }

  /** File that the scan wrote, number 0. */
  file_t *m_original;

  /** Whether files may be read without the page cache. */
  bool m_is_direct;

  /** Whether the file system can punch holes, as far as is known. */
  bool m_can_punch{true};

  /** Files of merged runs, from number 1. */
  std::vector<Unique_os_file_descriptor> m_more;

#ifdef UNIV_DEBUG
  /** What was read in this pass. */
  Range_recorder m_read_in_pass;
#endif /* UNIV_DEBUG */
};

/** Reads a run, and asks for what comes next while the caller merges. */
class Ahead {
 public:
  /** Constructor.
  @param[in,out] files      files
  @param[in]     run        run to be read through this
  @param[in]     n_bytes    bytes to request at a time
  @param[in]     requested  up to where the caller has requested already */
  Ahead(Files *files, const Run &run, size_t n_bytes, uint64_t requested)
      : m_files(files),
        m_requested(std::max(run.m_begin, requested)),
        m_n_bytes(static_cast<uint32_t>(n_bytes)) {}

  /** See Run_reader. */
  [[nodiscard]] bool is_direct() const { return m_files->is_direct(); }

  /** See Run_reader. */
  [[nodiscard]] dberr_t read(size_t number, byte *to, size_t n_bytes,
                             uint64_t offset, uint64_t end) {
    if (m_n_kept >= GIVE_BACK_BYTES) {
      /* All before this was read. */
      const auto n_rest = static_cast<uint32_t>(offset % BLOCK_BYTES);

      m_files->give_back(number, offset - m_n_kept, offset - n_rest);
      m_n_kept = n_rest;
    }

    if (m_requested < end && offset + n_bytes + m_n_bytes / 2 > m_requested) {
      const auto begin = m_requested;
      m_requested = std::min<uint64_t>(
          end, std::max(begin, offset) + std::max<size_t>(n_bytes, m_n_bytes));
      m_files->read_ahead(number, begin, m_requested);
    }

    m_n_kept += static_cast<uint32_t>(n_bytes);
    return m_files->read(number, to, n_bytes, offset);
  }

 private:
  /** Files. */
  Files *m_files;

  /** Up to where the kernel was asked to read. */
  uint64_t m_requested;

  /** Bytes to request at a time. */
  uint32_t m_n_bytes;

  /** Bytes that were read and not given back, from the beginning of a block. */
  uint32_t m_n_kept{};
};

using Reader = Run_reader<Ahead, Rec_framing>;

/** @return memory that a run takes in a merge besides its buffer
@param[in]  row_bytes  size of the largest row
@param[in]  is_direct  whether files may be read without the page cache */
static size_t reader_bytes(size_t row_bytes, bool is_direct) {
  /* A row that is smaller than half of the buffer moves to its front. */
  const auto across_bytes = is_direct || row_bytes > SMALL_READ_BYTES / 2
                                ? row_bytes + sizeof(Vector<byte>)
                                : 0;

  return sizeof(Ahead) + sizeof(Reader) + TREE_BYTES + across_bytes;
}

/** Orders the rows of an index, which have the same key, and notices
duplicates. */
class Row_order {
 public:
  /** Constructor.
  @param[in]  index      index
  @param[in]  key        keys of its rows
  @param[in]  is_unique  whether duplicates are looked for */
  Row_order(const dict_index_t *index, const Sort_key &key, bool is_unique)
      : m_index(index),
        m_n_fields(dict_index_get_n_fields(index)),
        m_n_unique(is_unique ? dict_index_get_n_unique(index) : 0),
        m_n_equal(m_n_unique == 0 ? key.n_whole() : 0) {}

  /** Compare two rows.
  @param[in]  a_row  a row
  @param[in]  a      what it is
  @param[in]  b_row  another row
  @param[in]  b      what it is
  @return less than 0, 0 or more than 0 */
  [[nodiscard]] int operator()(const byte *a_row, const Rec_framing &a,
                               const byte *b_row, const Rec_framing &b) {
    const auto a_rec = a_row + a.header();
    const auto b_rec = b_row + b.header();
    bool has_null = false;

    for (auto n = m_n_equal; n < m_n_fields; ++n) {
      ulint a_len;
      ulint b_len;
      const auto a_data =
          rec_get_nth_field_instant(a_rec, a.offsets(), n, m_index, &a_len);
      const auto b_data =
          rec_get_nth_field_instant(b_rec, b.offsets(), n, m_index, &b_len);
      const auto col = m_index->get_col(n);
      const auto cmp = cmp_data_data(col->mtype, col->prtype,
                                     m_index->get_field(n)->is_ascending,
                                     a_data, a_len, b_data, b_len);

      if (cmp != 0) {
        return cmp;
      }

      /* Columns that are NULL are equal in order but not duplicates. */
      has_null = has_null || a_len == UNIV_SQL_NULL;

      if (n + 1 == m_n_unique && !has_null) {
        ++m_n_found;
        /* The build is going to stop. Columns after the key of a clustered
        index may be stored elsewhere, so they are not compared. */
        return 0;
      }
    }

    return 0;
  }

  /** @return how often two rows of a unique index were equal */
  [[nodiscard]] size_t n_found() const { return m_n_found; }

 private:
  /** Index. */
  const dict_index_t *m_index;

  /** Columns of the index. */
  size_t m_n_fields;

  /** Columns that must differ; 0 if duplicates are not looked for. */
  size_t m_n_unique;

  /** First columns that are equal in rows with the same key and need not be
  looked at. */
  size_t m_n_equal;

  /** How often two rows of a unique index were equal. */
  size_t m_n_found{};
};

/** One side of a comparison, which often stays while the other one changes: a
row, and where its columns are. */
class Side {
 public:
  explicit Side(const dict_index_t *index) : m_framing(index) {}

  /** Find the columns of a row.
  @param[in]  row      the row
  @param[in]  n_bytes  its size
  @param[in]  version  tells it from other rows that were in the same place */
  void take(const byte *row, size_t n_bytes, uint64_t version) {
    if (row != m_row || version != m_version) {
      const auto n [[maybe_unused]] = m_framing.need(row, n_bytes);
      ut_ad(n == n_bytes);
      m_row = row;
      m_version = version;
    }
  }

  /** @return the row */
  [[nodiscard]] const byte *row() const { return m_row; }

  /** @return what it is */
  [[nodiscard]] Rec_framing &framing() { return m_framing; }

 private:
  /** The row. */
  const byte *m_row{};

  /** Which of those that were there. */
  uint64_t m_version{};

  /** Where its columns are. */
  Rec_framing m_framing;
};

/** Orders the rows of readers, and reports a duplicate. */
class Rec_compare {
 public:
  /** Constructor.
  @param[in,out] builder  index builder
  @param[in]     key      keys of the rows
  @param[in,out] dup      for reporting duplicates; nullptr = do not look for
                          them */
  Rec_compare(Builder *builder, const Sort_key &key, Dup *dup)
      : m_builder(builder),
        m_key(key),
        m_dup(dup),
        m_order(builder->index(), key,
                dup != nullptr && dict_index_is_unique(builder->index())),
        m_framing(builder->index()),
        m_a(builder->index()),
        m_b(builder->index()) {}

  /** @return what the readers share */
  [[nodiscard]] Rec_framing &framing() { return m_framing; }

  /** @return the key of the row of a reader, which was read last */
  [[nodiscard]] uint64_t key(const Reader &reader) const {
    if (m_key.is_empty()) {
      return 0;
    }
    const auto rec = reader.row() + m_framing.header();
    return m_key.of([&](size_t n, ulint &len) {
      return rec_get_nth_field_instant(rec, m_framing.offsets(), n,
                                       m_builder->index(), &len);
    });
  }

  /** Compare the rows of two readers, which have the same key. */
  [[nodiscard]] int operator()(const Reader &a, const Reader &b) {
    const auto n_found = m_order.n_found();

    m_a.take(a.row(), a.row_bytes(), a.offset());
    m_b.take(b.row(), b.row_bytes(), b.offset());

    const auto cmp =
        m_order(m_a.row(), m_a.framing(), m_b.row(), m_b.framing());

    /* Another thread may be reporting what it has met. */
    if (n_found == 0 && found() && m_builder->set_error(DB_DUPLICATE_KEY)) {
      m_dup->report(m_a.row() + m_a.framing().header(),
                    m_a.framing().offsets());
    }
    return cmp;
  }

  /** @return whether two rows of a unique index were equal */
  [[nodiscard]] bool found() const { return m_order.n_found() > 0; }

 private:
  /** Index builder. */
  Builder *m_builder;

  /** Keys of its rows. */
  const Sort_key &m_key;

  /** For reporting duplicates. */
  Dup *m_dup;

  /** Order of the rows. */
  Row_order m_order;

  /** Where the columns of the row are that was read last. */
  Rec_framing m_framing;

  /** Sides of the comparison. */
  Side m_a;
  Side m_b;
};

/** Orders the packed rows of a sort buffer, which have the same key. */
class Packed_compare {
 public:
  /** Constructor.
  @param[in]  index  index
  @param[in]  key    keys of its rows */
  Packed_compare(const dict_index_t *index, const Sort_key &key)
      : m_order(index, key, dict_index_is_unique(index)),
        m_a(index),
        m_b(index) {}

  /** @return less than 0, 0 or more than 0 */
  [[nodiscard]] int operator()(Packed_row a, Packed_row b) {
    const auto n_found = m_order.n_found();

    m_a.take(a, Packed_rows::row_bytes(a), 0);
    m_b.take(b, Packed_rows::row_bytes(b), 0);

    const auto cmp = m_order(a, m_a.framing(), b, m_b.framing());

    if (m_order.n_found() > n_found) {
      m_duplicate = a;
    }
    return cmp;
  }

  /** @return whether two rows of a unique index were equal */
  [[nodiscard]] bool found() const { return m_order.n_found() > 0; }

  /** Report the duplicate that was found last, unless another thread has met an
  error.
  @param[in,out] builder  index builder, which knows the error then
  @param[in,out] table    the table as MySQL knows it
  @param[in]     col_map  columns of a table that is rebuilt */
  void report(Builder *builder, TABLE *table, const size_t *col_map) {
    if (builder->set_error(DB_DUPLICATE_KEY)) {
      Dup dup = {builder->index(), table, col_map, 0};
      m_a.take(m_duplicate, Packed_rows::row_bytes(m_duplicate), 0);
      dup.report(m_duplicate + m_a.framing().header(), m_a.framing().offsets());
    }
  }

 private:
  /** Order of the rows. */
  Row_order m_order;

  /** The row that was equal to another one in the last such comparison. */
  Packed_row m_duplicate{};

  /** Sides of the comparison. */
  Side m_a;
  Side m_b;
};

/** A merge of runs, of one thread's files or of several. */
class Merge {
 public:
  /** Constructor.
  @param[in,out] builder       index builder
  @param[in]     key           keys of the rows
  @param[in,out] dup           for reporting duplicates
  @param[in]     n_runs        number of runs
  @param[in]     memory_bytes  memory for all of them
  @param[in]     row_bytes     size of the largest row
  @param[in]     plan          how runs are merged */
  Merge(Builder *builder, const Sort_key &key, Dup *dup, size_t n_runs,
        size_t memory_bytes, size_t row_bytes, const Plan &plan)
      : m_row_bytes(row_bytes),
        m_compare(builder, key, dup),
        m_tree(m_compare, m_readers),
        m_n_ahead_bytes(ahead_bytes(n_runs)),
        m_n_buffer_bytes(input_bytes(memory_bytes, n_runs, plan.m_reader_bytes,
                                     plan.m_least_bytes)) {
    m_buffer =
        ut::make_unique_aligned<byte[]>(ut::make_psi_memory_key(mem_key_ddl),
                                        BLOCK_BYTES, m_n_buffer_bytes * n_runs);
    m_sources.reserve(n_runs);
    m_readers.reserve(n_runs);
  }

  /** @return whether there was memory */
  [[nodiscard]] bool is_ready() const { return m_buffer != nullptr; }

  /** Add a run.
  @param[in,out] files      files
  @param[in]     run        run
  @param[in]     requested  up to where it is being read ahead already */
  void add(Files *files, const Run &run, uint64_t requested) {
    const auto buffer = m_buffer.get() + m_readers.size() * m_n_buffer_bytes;
    ut_a(m_readers.size() < m_readers.capacity());
    m_sources.emplace_back(files, run, m_n_ahead_bytes, requested);
    m_readers.emplace_back(&m_sources.back(), &m_compare.framing(), run, buffer,
                           m_n_buffer_bytes, m_row_bytes);
  }

  /** Go to the first row. */
  [[nodiscard]] dberr_t open() { return m_tree.open(); }

  /** Go to the next row. */
  [[nodiscard]] dberr_t next() { return m_tree.next(); }

  /** @return reader with the current row */
  [[nodiscard]] const Reader &top() { return m_tree.top(); }

  /** @return whether there is a duplicate */
  [[nodiscard]] bool found_duplicate() const { return m_compare.found(); }

 private:
  /** Size of the largest row. */
  size_t m_row_bytes;

  /** Order of the rows. */
  Rec_compare m_compare;

  /** Next row. */
  Tournament<Reader, Rec_compare> m_tree;

  /** Bytes that are read ahead for each run. */
  size_t m_n_ahead_bytes;

  /** Size of the buffer of each run. */
  size_t m_n_buffer_bytes;

  /** Buffers of all runs. */
  ut::unique_ptr_aligned<byte[]> m_buffer;

  /** What the readers read from; made room for, so that none moves. */
  Vector<Ahead> m_sources;

  /** Readers; made room for, so that none moves. */
  Vector<Reader> m_readers;
};

struct Build::Thread {
  /** Constructor. */
  explicit Thread(file_t *file) : m_files(file) {}

  /** Files. */
  Files m_files;

  /** Runs that are left for the load. */
  Vector<Run> m_runs;
};

void Build_deleter::operator()(Build *build) const { ut::delete_(build); }

Build_ptr create(Context &ctx) {
  return Build_ptr(
      ut::new_withkey<Build>(ut::make_psi_memory_key(mem_key_ddl), ctx));
}

Build::Build(Context &ctx) {
  const auto thd = ctx.thd();

  m_ways = thd_ddl_merge_ways(thd) == 1 ? 2 : thd_ddl_merge_ways(thd);
  m_on_the_fly = thd_ddl_merge_on_the_fly(thd);
  m_flushes_early = !thd_ddl_doublewrite(thd) && thd_ddl_flush_batch(thd);
  m_preallocates = thd_ddl_preallocate(thd);

  s_cache_share.add([] { return g_drop_cache ? 0 : available_bytes(); });
}

Build::~Build() { s_cache_share.remove(); }

void Preallocation::begin(space_id_t space_id) {
  if (m_space_id || srv_unix_file_flush_method == SRV_UNIX_O_DIRECT_NO_FSYNC) {
    return;
  }

  const auto space = fil_space_acquire_silent(space_id);

  if (space == nullptr) {
    return;
  }

  /* Who has asked for large extents gets them as always. */
  if (fsp_is_file_per_table(space_id, space->flags) &&
      space->autoextend_size_in_bytes == 0 &&
      !space->is_bulk_operation_in_progress()) {
    m_size = fil_space_get_size(space_id);
    space->begin_bulk_operation(0);
    m_space_id = space_id;
  }
  fil_space_release(space);
}

Preallocation::~Preallocation() {
  if (!m_space_id) {
    return;
  }

  if (const auto space = fil_space_acquire_silent(*m_space_id)) {
    const auto size = fil_space_get_size(*m_space_id);

    space->end_bulk_operation();
    fil_space_release(space);
    fil_flush(*m_space_id);
    g_status.preallocated_pages += size - std::min(size, m_size);
  }
}

bool Build::leaves_flush(Builder *builder) {
  if (builder->m_ctx.m_kway_shared.m_early_flush == nullptr) {
    return false;
  }
  builder->set_next_state();
  return true;
}

bool Build::takes_load(Builder *builder) {
  return !builder->is_fts_index() && builder->m_kway != nullptr &&
         builder->m_kway->m_on_the_fly;
}

bool Build::takes_sort(Builder *builder) {
  return builder->m_kway != nullptr &&
         (builder->m_kway->m_ways != 2 || takes_load(builder));
}

#ifdef HAVE_PSI_STAGE_INTERFACE
const PSI_stage_info *Progress::load_stage() {
  return &srv_stage_alter_table_insert;
}
#endif /* HAVE_PSI_STAGE_INTERFACE */

bool Progress::enter(const PSI_stage_info *stage [[maybe_unused]]) {
  std::lock_guard<std::mutex> guard(m_mutex);

  if (m_is_finished) {
    return false;
  }

#ifdef HAVE_PSI_STAGE_INTERFACE
  /* All indexes end before the statement does. The flush before the log of the
  first index is applied writes the pages of all; those of the others follow. */
  const auto is_shown = stage != m_stage &&
                        stage != &srv_stage_alter_table_end &&
                        (stage != &srv_stage_alter_table_flush ||
                         m_stage != &srv_stage_alter_table_log_index);

  if (is_shown && std::this_thread::get_id() == m_owner) {
    m_stage = stage;
    m_shown = mysql_set_stage(stage->m_key);
    show();
  }
#endif /* HAVE_PSI_STAGE_INTERFACE */
  return true;
}

void Progress::add(uint64_t n_done, int64_t n_expected) {
  std::lock_guard<std::mutex> guard(m_mutex);
  m_n_done += n_done;
  m_n_expected += n_expected;
  show();
}

void Progress::expect_pages(int64_t n_rows, int64_t n_counted,
                            int64_t n_pages) {
  std::lock_guard<std::mutex> guard(m_mutex);
  m_n_page_rows += n_rows;
  m_n_counted_rows += n_counted;
  m_n_pages += n_pages;
  show();
}

bool Progress::written(uint64_t n_pages) {
  std::lock_guard<std::mutex> guard(m_mutex);

  if (m_is_finished) {
    return false;
  }

  m_n_written += n_pages;
  show();
  return true;
}

void Progress::finish() {
  std::lock_guard<std::mutex> guard(m_mutex);
  m_n_shown_done = expected();
  show();
  m_is_finished = true;
}

void Progress::show() {
  if (m_is_finished) {
    return;
  }

  const auto written =
      m_n_pages == 0
          ? 0
          : static_cast<uint64_t>(static_cast<double>(m_n_counted_rows) *
                                  std::min(m_n_written, m_n_pages) / m_n_pages);

  m_n_shown_done =
      std::max(m_n_shown_done, std::min(m_n_done, m_n_expected) + written);

#ifdef HAVE_PSI_STAGE_INTERFACE
  mysql_stage_set_work_completed(m_shown, done());
  mysql_stage_set_work_estimated(m_shown, expected());
#endif /* HAVE_PSI_STAGE_INTERFACE */
}

void Build::join_progress(Builder *builder [[maybe_unused]]) {
#ifdef HAVE_PSI_STAGE_INTERFACE
  auto &ctx = builder->m_ctx;
  auto &progress = ctx.m_kway_shared.m_progress;

  if (builder->m_kway->m_ways == 2 && !builder->m_kway->m_on_the_fly) {
    return;
  }

  if (progress == nullptr) {
    progress = std::make_shared<Progress>();
    ctx.m_stage->m_part.join_pages(progress);
  }

  const auto n_rows = dict_table_get_n_rows(ctx.m_old_table);
  auto &part = builder->m_local_stage->m_part;
  part.join(progress);

  if (builder->is_fts_index() || builder->is_spatial_index()) {
    part.expect(n_rows);
    return;
  }

  /* Scan, load and write, as long as nothing better is known. A clustered index
  in the order of the scan is loaded with it. */
  if (builder->is_skip_file_sort()) {
    part.expect(n_rows);
    part.expect_pages(
        n_rows, std::max<uint64_t>(
                    ctx.m_old_table->first_index()->stats.n_leaf_pages, 1));
  } else {
    part.expect(2 * n_rows);
    part.expect_pages(n_rows, 0);
  }
#endif /* HAVE_PSI_STAGE_INTERFACE */
}

void Build::expect(Builder *builder [[maybe_unused]],
                   uint64_t n_left [[maybe_unused]]) {
#ifdef HAVE_PSI_STAGE_INTERFACE
  if (auto stage = builder->stage(); stage != nullptr) {
    stage->m_part.expect(n_left);
  }
#endif /* HAVE_PSI_STAGE_INTERFACE */
}

bool Build::checks_duplicates(Builder *builder) { return takes_load(builder); }

/** @return whether the rows of an index are packed, if it shares memory. Those
without keys would have to be taken apart for each comparison; values of a
multi-valued index are in the heap of the buffer until all are added. */
static bool is_packed(const dict_index_t *index) {
  return !Sort_key(index).is_empty() && !index->is_multi_value();
}

/** @return whether a table is large, see there
@param[in]  table         table
@param[in]  memory_bytes  memory of the sort buffers */
static bool is_large(const dict_table_t *table, size_t memory_bytes) {
  const uint64_t n_pages = table->first_index()->stats.n_leaf_pages;

  DBUG_EXECUTE_IF("ddl_table_is_large", return true;);
  return is_large(n_pages * srv_page_size, memory_bytes);
}

void Build::join_memory(Builder *builder, size_t n_threads,
                        std::pair<size_t, size_t> buffer_size) {
  auto &ctx = builder->m_ctx;
  auto &shared = ctx.m_kway_shared;
  auto &build = *builder->m_kway;

  build.m_max_row_bytes.assign(n_threads, 0);
  if (build.m_preallocates) {
    shared.m_preallocation.begin(ctx.new_table()->space);
  }
  if (build.m_flushes_early && ctx.m_old_table != ctx.m_new_table &&
      shared.m_early_flush == nullptr) {
    shared.m_early_flush =
        Early_flush::begin(ctx.new_table(), ctx.flush_observer());
  }

  if (build.m_ways != 2 && !builder->is_fts_index() &&
      !builder->is_spatial_index()) {
    build.m_sort_key = Sort_key(builder->m_index);
  }

  /* What is loaded in the order of the scan has no runs to be written. */
  const auto shares = [&](const dict_index_t *index) {
    return !dict_index_is_spatial(index) && !(index->type & DICT_FTS) &&
           !(ctx.m_skip_pk_sort && index->is_clustered());
  };

  if (build.m_ways == 2 || ctx.m_fts.m_ptr != nullptr ||
      !shares(builder->m_index)) {
    return;
  }

  if (shared.m_pools.empty()) {
    const size_t n_buffers =
        std::count_if(ctx.m_indexes.begin(), ctx.m_indexes.end(), shares);

    /* What a clustered index in the order of the scan does not need. */
    const auto lent_bytes = ctx.m_skip_pk_sort
                                ? buffer_size.second + buffer_size.first -
                                      std::min(buffer_size.first, DIRECT_BYTES)
                                : 0;

    /* What the original code gives them, with one buffer for writing runs. */
    const auto limit_bytes =
        n_buffers * (buffer_size.first + buffer_size.second) -
        buffer_size.second + lent_bytes;

    /* Sorted batches take half of the memory of sort buffers: they have neither
    keys nor places. Runs of them hold the rows of several threads, which the
    files of the original code may not. Rows that are not packed do not take
    part. */
    const size_t n_packed = std::count_if(
        ctx.m_indexes.begin(), ctx.m_indexes.end(),
        [&](const auto index) { return shares(index) && is_packed(index); });
    const auto packed_bytes = limit_bytes * n_packed / n_buffers;
    const auto least_bytes =
        n_packed * LEAST_CHUNKS * 2 * Packed_rows::CHUNK_BYTES;
    /* Runs are not longer if much of the memory is the threads' own, the more
    so with one thread, nor would rows that are not packed have enough. */
    const auto gathers =
        build.m_on_the_fly &&
        (n_threads > 1
             ? least_bytes <= packed_bytes / 2
             : is_large(ctx.m_old_table, limit_bytes) && n_packed > 1 &&
                   n_packed == n_buffers && least_bytes <= packed_bytes / 4);
    const auto own_bytes =
        gathers ? limit_bytes - packed_bytes +
                      std::max(packed_bytes / OWN_SHARE, least_bytes)
                : limit_bytes;

    if (own_bytes < limit_bytes) {
      shared.m_gathered = std::make_shared<Gathered>(
          n_buffers, n_threads, n_threads * (limit_bytes - own_bytes));
    }
    shared.m_pools.assign(n_threads, Pool(n_buffers, own_bytes));
    shared.m_io_buffers.resize(n_threads);
  }

  build.m_is_sharing = true;
  build.m_member = shared.m_members.size();
  shared.m_members.push_back(builder);

  if (ctx.m_old_table == ctx.m_new_table && ctx.m_add_v == nullptr &&
      is_packed(builder->m_index) && Record_columns{builder->m_index}.is_on()) {
    for (size_t i = 0; i < n_threads; ++i) {
      build.m_columns.emplace_back(builder->m_index);
    }
    ++shared.m_n_of_records;
  }
}

std::optional<dberr_t> Build::add_record(const Builders &builders,
                                         const Row &row, size_t thread_id,
                                         size_t &n_rows) {
  const auto first = builders.front();

  DBUG_EXECUTE_IF("builder_add_row_trigger_error", return {};);
  DBUG_EXECUTE_IF("ddl_buf_add_two", return {};);

  if (first->m_ctx.m_kway_shared.m_n_of_records != builders.size() ||
      rec_offs_any_extern(row.m_offsets)) {
    return {};
  }

  /* One log for all indexes. */
  auto err = first->check_state_of_online_build_log();

  for (auto it = builders.begin(); err == DB_SUCCESS && it != builders.end();
       ++it) {
    const auto builder = *it;
    auto &thread_ctx = *builder->m_thread_ctxs[thread_id];
    auto &buffer = *thread_ctx.m_key_buffer;
    auto &columns = builder->m_kway->m_columns[thread_id];
    const auto n_bytes = columns.take(row.m_rec, row.m_offsets);

    err = before_row(builder, thread_id, n_bytes);
    if (err == DB_SUCCESS) {
      buffer.m_pack.add(buffer, columns, n_bytes);
      ++thread_ctx.m_n_recs;
    }
  }
  if (err != DB_SUCCESS) {
    for (const auto builder : builders) {
      (void)builder->handle_error(err);
    }
  }
  ++n_rows;
  return err;
}

void Build::share_io_buffer(Builder *builder, size_t thread_id) {
  const auto &build = *builder->m_kway;
  auto &thread_ctx = *builder->m_thread_ctxs[thread_id];

  if (!build.m_is_sharing) {
    /* Its rows are not written to files. */
    if (build.m_ways != 2 && builder->is_skip_file_sort()) {
      thread_ctx.m_aligned_buffer.reset();
      thread_ctx.m_io_buffer = {};
    }
    return;
  }

  if (is_packed(builder->m_index)) {
    thread_ctx.m_key_buffer->m_pack.begin(
        builder->m_index, &build.m_sort_key,
        builder->m_ctx.m_kway_shared.m_gathered != nullptr);
  }

  auto &io_buffer = builder->m_ctx.m_kway_shared.m_io_buffers[thread_id];

  if (io_buffer.first == nullptr) {
    io_buffer = thread_ctx.m_io_buffer;
  } else {
    thread_ctx.m_aligned_buffer.reset();
    thread_ctx.m_io_buffer = io_buffer;
  }
}

/** Sort rows by their keys, and those with the same key by a comparison.
@param[in,out] rows     rows
@param[in,out] compare  int operator()(row, row) */
template <typename Row, typename Compare>
static void sort_keyed(Vector<Keyed<Row>> &rows, Compare &compare) {
  const auto has_less_key = [](const Keyed<Row> &a, const Keyed<Row> &b) {
    return a.m_key < b.m_key;
  };

  if (!std::is_sorted(rows.begin(), rows.end(), has_less_key)) {
    /* By digits of the keys, with fewer comparisons. */
    boost::sort::spreadsort::integer_sort(
        rows.begin(), rows.end(),
        [](const Keyed<Row> &row, unsigned n) { return row.m_key >> n; },
        has_less_key);
  }

  /* An order that contradicts itself, as that of strings which are not valid
  may, does not harm a stable sort. */
  for (auto begin = rows.begin(); begin != rows.end();) {
    auto end = begin + 1;
    while (end != rows.end() && end->m_key == begin->m_key) {
      ++end;
    }
    if (end - begin > 1) {
      std::stable_sort(begin, end,
                       [&](const Keyed<Row> &a, const Keyed<Row> &b) {
                         return compare(a.m_row, b.m_row) < 0;
                       });
    }
    begin = end;
  }
}

void Build::report_duplicate(Builder *builder, Key_sort_buffer &buffer,
                             Packed_compare &compare) {
  Vector<Packed_row> rows(buffer.m_n_tuples);

  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i] = reinterpret_cast<Packed_row>(buffer.m_dtuples[i]);
  }

  /* The build ends here, so the array is no longer needed. */
  buffer.m_pack.rows() = Vector<Keyed<Packed_row>>();

  Vector<Packed_row> spare(rows.size());
  merge_sort(rows, spare, 0, rows.size(), compare);
  compare.report(builder, builder->m_ctx.m_table, builder->m_ctx.m_col_map);
}

bool Build::sort_rows(Builder *builder, size_t thread_id) {
  const auto &key = builder->m_kway->m_sort_key;
  auto &buffer = *builder->m_thread_ctxs[thread_id]->m_key_buffer;

  if (key.is_empty()) {
    return false;
  }

  if (buffer.m_pack.is_on()) {
    Packed_compare compare(builder->m_index, key);

    sort_keyed(buffer.m_pack.rows(), compare);
    if (compare.found()) {
      report_duplicate(builder, buffer, compare);
    }
    return true;
  }

  Vector<Keyed<dfield_t *>> rows(buffer.size());

  for (size_t i = 0; i < rows.size(); ++i) {
    const auto fields = buffer.m_dtuples[i];
    rows[i] = {key.of([=](size_t n, ulint &len) {
                 len = dfield_get_len(&fields[n]);
                 return static_cast<const byte *>(dfield_get_data(&fields[n]));
               }),
               fields};
  }

  Dup dup = {builder->m_index, nullptr, nullptr, 0};
  const Compare_key compare(builder->m_index,
                            buffer.is_unique() ? &dup : nullptr, true);

  sort_keyed(rows, compare);

  /* Neighbours were compared, so no duplicate was missed. Which one is reported
  depends on the order of comparisons; so the original code is to find it. */
  if (dup.m_n_dup > 0) {
    return false;
  }

  std::transform(rows.begin(), rows.end(), buffer.m_dtuples.begin(),
                 [](const Keyed<dfield_t *> &row) { return row.m_row; });
  return true;
}

/** @return bytes that a sort buffer holds; sorting rows that are not packed
takes an array of them with their keys */
static size_t used_bytes(const Key_sort_buffer &buffer) {
  const auto &rows = buffer.m_dtuples;
  const auto n_array = rows.capacity() * sizeof(rows[0]);

  return buffer.m_pack.is_on() ? buffer.m_pack.n_bytes() + n_array
                               : buffer.m_total_size + n_array +
                                     rows.size() * sizeof(Keyed<dfield_t *>);
}

/** @return bytes that a sort buffer is going to hold more
@param[in]  buffer   buffer
@param[in]  n_bytes  size of the row that is added */
static size_t growth_bytes(const Key_sort_buffer &buffer, size_t n_bytes) {
  return buffer.m_pack.is_on() ? buffer.m_pack.growth_bytes(n_bytes) +
                                     growth_bytes(buffer.m_dtuples)
                               : n_bytes;
}

dberr_t Build::write_run(Builder *builder, size_t thread_id,
                         std::pair<byte *, size_t> io_buffer,
                         const Write_rows &write_rows) {
  auto &thread_ctx = *builder->m_thread_ctxs[thread_id];
  auto &file = thread_ctx.m_file;

  IF_ENABLED("ddl_write_failure", builder->set_error(DB_TEMP_FILE_WRITE_FAIL);
             return builder->get_error();)

  if (!file.m_file.is_open() && !builder->create_file(file)) {
    builder->set_error(DB_IO_ERROR);
    return builder->get_error();
  }

  thread_ctx.m_offsets.push_back(file.m_size);

  const auto err = write_rows(
      io_buffer, [&](IO_buffer block) { return builder->append(file, block); });

  if (err != DB_SUCCESS) {
    builder->set_error(err);
    return builder->get_error();
  }

  builder->m_ctx.note_max_trx_id(builder->m_index);
  return DB_SUCCESS;
}

dberr_t Build::write_gathered(Builder *builder, size_t thread_id,
                              std::pair<byte *, size_t> io_buffer,
                              const Gathered::Taken &taken) try {
  DBUG_EXECUTE_IF("ddl_run_oom", throw std::bad_alloc(););
  Dup dup = {builder->m_index, builder->m_ctx.m_table, builder->m_ctx.m_col_map,
             0};
  Rec_compare compare(builder, builder->m_kway->m_sort_key, &dup);
  Vector<Reader> readers;
  Tournament<Reader, Rec_compare> tree(compare, readers);

  readers.reserve(taken.m_batches.size());
  for (const auto &batch : taken.m_batches) {
    readers.emplace_back(&compare.framing(), batch.data(), batch.size());
  }

  return write_run(builder, thread_id, io_buffer,
                   [&](IO_buffer buffer, const auto &persist) {
                     Packed_run run(buffer, persist);
                     uint64_t n_rows = 0;
                     auto err = tree.open();

                     while (err == DB_SUCCESS && !compare.found()) {
                       const auto &top = tree.top();

                       err = run.add(top.row(), top.row_bytes());
                       if (err == DB_SUCCESS &&
                           n_rows++ % ROWS_PER_CHECK == 0 &&
                           builder->m_ctx.is_interrupted()) {
                         err = DB_INTERRUPTED;
                       }
                       if (err == DB_SUCCESS) {
                         err = tree.next();
                       }
                     }

                     return compare.found()          ? DB_DUPLICATE_KEY
                            : err == DB_END_OF_INDEX ? run.finish()
                                                     : err;
                   });
} catch (const std::bad_alloc &) {
  builder->set_error(DB_OUT_OF_MEMORY);
  return builder->get_error();
}

dberr_t Build::empty_buffer(Builder *builder, size_t thread_id) {
  auto &shared = builder->m_ctx.m_kway_shared;
  auto &buffer = *builder->m_thread_ctxs[thread_id]->m_key_buffer;
  const auto io_buffer = shared.m_io_buffers[thread_id];

  /* Rows without an entry in the index leave bytes, but nothing to write. */
  if (!buffer.empty()) {
    auto err = builder->key_buffer_sort(thread_id);

    if (err == DB_SUCCESS && buffer.m_pack.is_on() &&
        shared.m_gathered != nullptr) {
      try {
        shared.m_gathered->add(builder->m_kway->m_member,
                               buffer.m_pack.take_run());
      } catch (const std::bad_alloc &) {
        err = DB_OUT_OF_MEMORY;
      }
    } else if (err == DB_SUCCESS) {
      err = write_run(builder, thread_id, io_buffer,
                      [&](IO_buffer to, const auto &persist) {
                        return buffer.serialize(to, persist);
                      });
    }

    if (err != DB_SUCCESS) {
      builder->set_error(err);
      return builder->get_error();
    }
  }

  /* The columns of a row that is about to be packed stay. */
  const auto has_unfinished = buffer.m_dtuples.size() > buffer.m_n_tuples;

  if (buffer.m_pack.is_on() && has_unfinished) {
    const auto fields = buffer.m_dtuples.back();

    buffer.m_pack.clear();
    buffer.m_dtuples.assign(1, fields);
    buffer.m_n_tuples = 0;
  } else {
    buffer.clear();
  }
  buffer.m_dtuples.shrink_to_fit();

  if (shared.m_gathered == nullptr) {
    return DB_SUCCESS;
  }

  for (;;) {
    auto taken = shared.m_gathered->take_largest();

    if (taken.m_batches.empty()) {
      return DB_SUCCESS;
    }

    const auto err = write_gathered(shared.m_members[taken.m_index], thread_id,
                                    io_buffer, taken);

    taken.m_batches.clear();
    shared.m_gathered->written(taken.m_n_bytes);
    if (err != DB_SUCCESS) {
      return err;
    }
  }
}

dberr_t Build::before_row(Builder *builder, size_t thread_id, size_t n_bytes) {
  auto &build = *builder->m_kway;
  auto &max_row_bytes = build.m_max_row_bytes[thread_id];

  /* Other threads have their values beside it: write only what changes. */
  if (n_bytes > max_row_bytes) {
    max_row_bytes = n_bytes;
  }

  auto &buffer = *builder->m_thread_ctxs[thread_id]->m_key_buffer;

  if (!build.m_is_sharing) {
    if (builder->is_skip_file_sort() &&
        !builder->m_ctx.m_kway_shared.m_pools.empty()) {
      buffer.m_buffer_size = std::min(buffer.m_buffer_size, DIRECT_BYTES);
    }
    /* The array for sorting by keys is larger than that of the original code,
    for which will_fit() provides. */
    if (!build.m_sort_key.is_empty()) {
      buffer.m_total_size +=
          sizeof(Keyed<dfield_t *>) - sizeof(Key_sort_buffer::DTuple);
    }
    return DB_SUCCESS;
  }

  auto &shared = builder->m_ctx.m_kway_shared;
  auto &pool = shared.m_pools[thread_id];

  if (buffer.empty()) {
    buffer.m_dtuples.shrink_to_fit();
  }

  pool.set_used(build.m_member, used_bytes(buffer));
  buffer.m_buffer_size = std::numeric_limits<size_t>::max();

  while (pool.is_full(growth_bytes(buffer, n_bytes))) {
    /* What the others hold may have grown since they asked: rows of a
    multi-valued index leave bytes even without an entry. */
    for (const auto member : shared.m_members) {
      pool.set_used(
          member->m_kway->m_member,
          used_bytes(*member->m_thread_ctxs[thread_id]->m_key_buffer));
    }
    if (!pool.is_full(growth_bytes(buffer, n_bytes))) {
      break;
    }

    const auto largest = shared.m_members[pool.largest()];
    const auto &its = *largest->m_thread_ctxs[thread_id]->m_key_buffer;

    if ((largest == builder && (its.empty() || !its.m_pack.is_on())) ||
        used_bytes(its) == 0) {
      buffer.m_buffer_size = 1;
      break;
    }

    const auto err = empty_buffer(largest, thread_id);

    if (err != DB_SUCCESS) {
      if (buffer.m_dtuples.size() > buffer.m_n_tuples) {
        buffer.pop_unfinished_tuple();
      }
      return err;
    }

    pool.set_used(largest->m_kway->m_member, used_bytes(its));
  }

  pool.set_used(build.m_member,
                used_bytes(buffer) + growth_bytes(buffer, n_bytes));

  return DB_SUCCESS;
}

void Build::share_merge_memory(Context &ctx, Shape &shape) {
  const auto least = 3 * std::max<size_t>(srv_page_size, 2 * IO_BLOCK_SIZE);
  const size_t n_indexes = std::count_if(
      ctx.m_indexes.begin(), ctx.m_indexes.end(), [&](const auto index) {
        return !dict_index_is_spatial(index) &&
               !(ctx.m_skip_pk_sort && index->is_clustered());
      });
  const auto n_threads = std::max<size_t>(ctx.m_max_threads, 1);
  /* As many files are sorted at a time as there are threads. */
  const auto n_sorts =
      std::clamp<size_t>(n_indexes * shape.m_n_files, 1, n_threads);
  const auto n_loads = std::clamp<size_t>(n_indexes, 1, n_threads);

  m_memory_bytes = std::max(ctx.m_max_buffer_size, n_sorts * least);
  shape.m_sort_memory_bytes = m_memory_bytes / n_sorts;

  const auto n_running =
      std::clamp<size_t>(std::thread::hardware_concurrency(), 1, n_threads);
  share_load_memory(m_memory_bytes, n_loads, n_running, shape);
  m_sort_memory_bytes = shape.m_sort_memory_bytes;
  m_load_memory_bytes = shape.m_load_memory_bytes;

  /* As many loads go on at a time as have room. */
  const auto n_going =
      std::min(n_indexes, m_memory_bytes / m_load_memory_bytes);
  m_hand_over_bytes = 2 * n_going <= n_running
                          ? hand_over_bytes(m_load_memory_bytes, m_row_bytes)
                          : 0;
}

void Build::plan(Shape shape) {
  const auto memory_bytes = shape.m_load_memory_bytes;

  m_plan = make_plan(shape);

  /* Not at the price of more merging. */
  for (; m_hand_over_bytes > 0;
       m_hand_over_bytes = smaller_hand_over(m_hand_over_bytes, m_row_bytes)) {
    shape.m_load_memory_bytes = memory_bytes - 2 * m_hand_over_bytes;

    if (const auto plan = make_plan(shape);
        plan.m_n_rewritten <= m_plan.m_n_rewritten) {
      m_plan = plan;
      return;
    }
  }
}

void Build::write_rest(Builder *builder) {
  auto &shared = builder->m_ctx.m_kway_shared;

  if (!builder->m_kway->m_is_sharing || shared.m_gathered == nullptr) {
    return;
  }

  auto taken = shared.m_gathered->take(builder->m_kway->m_member);

  if (taken.m_batches.empty()) {
    return;
  }

  /* The buffers of the scan threads are shared by the indexes, and another one
  may be at this point, too. */
  const auto n_bytes = builder->m_thread_ctxs[0]->m_io_buffer.second;
  auto io_buffer = ut::make_unique_aligned<byte[]>(
      ut::make_psi_memory_key(mem_key_ddl), BLOCK_BYTES, n_bytes);

  if (!io_buffer) {
    builder->set_error(DB_OUT_OF_MEMORY);
  } else if (const auto err =
                 write_gathered(builder, 0, {io_buffer.get(), n_bytes}, taken);
             err != DB_SUCCESS) {
    builder->set_error(err);
  }
  io_buffer.reset();
  taken.m_batches.clear();
  shared.m_gathered->written(taken.m_n_bytes);
}

size_t Build::prepare(Builder *builder, size_t n_runs) {
  if (!takes_sort(builder)) {
    return n_runs;
  }

  auto &build = *builder->m_kway;
  write_rest(builder);
  n_runs = std::accumulate(builder->m_thread_ctxs.begin(),
                           builder->m_thread_ctxs.end(), size_t{},
                           [](size_t n, const auto thread_ctx) {
                             return n + thread_ctx->m_offsets.size();
                           });
  build.m_row_bytes = *std::max_element(build.m_max_row_bytes.begin(),
                                        build.m_max_row_bytes.end());

  Shape shape{};
  shape.m_n_files = builder->m_thread_ctxs.size();
  shape.m_n_all_runs = n_runs;
  shape.m_ways = build.m_ways;
  shape.m_feeds_load = build.m_on_the_fly;

  for (auto thread_ctx : builder->m_thread_ctxs) {
    auto &file = thread_ctx->m_file;
    const auto n = thread_ctx->m_offsets.size();

    shape.m_n_runs = std::max(shape.m_n_runs, n);
    shape.m_file_bytes = std::max<uint64_t>(shape.m_file_bytes, file.m_size);

    auto thread = std::make_unique<Thread>(&file);
    shape.m_is_direct = shape.m_is_direct || thread->m_files.is_direct();
    if (n == 1) {
      thread->m_runs.push_back({0, thread_ctx->m_offsets.front(), file.m_size});
    }
    build.m_threads.push_back(std::move(thread));
  }

  shape.m_reader_bytes = reader_bytes(build.m_row_bytes, shape.m_is_direct);
  build.share_merge_memory(builder->m_ctx, shape);
  build.plan(shape);

  uint64_t n_rows = 0;
  uint64_t n_bytes = 0;
  for (auto thread_ctx : builder->m_thread_ctxs) {
    n_rows += thread_ctx->m_n_recs;
    n_bytes += thread_ctx->m_file.m_size;
  }
  expect(builder, n_rows + static_cast<uint64_t>(build.m_plan.m_n_rewritten *
                                                 static_cast<double>(n_rows)));
#ifdef HAVE_PSI_STAGE_INTERFACE
  if (auto stage = builder->stage(); stage != nullptr) {
    stage->m_part.expect_pages(n_rows, leaf_pages(n_bytes, srv_page_size));
  }
#endif /* HAVE_PSI_STAGE_INTERFACE */

  return size_t{1} << std::min<size_t>(build.m_plan.m_passes, 62);
}

Build::Thread *Build::find(Builder *builder, const file_t *file) {
  auto &ctxs = builder->m_thread_ctxs;

  for (size_t i = 0; i < builder->m_kway->m_threads.size(); ++i) {
    if (&ctxs[i]->m_file == file) {
      return builder->m_kway->m_threads[i].get();
    }
  }

  return nullptr;
}

#ifdef UNIV_DEBUG
/** @return bytes in runs */
static uint64_t n_bytes(const Run *runs, size_t n) {
  return std::accumulate(runs, runs + n, uint64_t{0},
                         [](uint64_t sum, const Run &run) {
                           return sum + run.m_end - run.m_begin;
                         });
}
#endif /* UNIV_DEBUG */

/** Give back what a merge has consumed; neighbouring runs at once. */
static void give_back(Files &files, const Run *runs, size_t n) {
  for (size_t i = 0; i < n;) {
    auto range = runs[i];
    for (++i; i < n && runs[i].m_file == range.m_file &&
              runs[i].m_begin == range.m_end;
         ++i) {
      range.m_end = runs[i].m_end;
    }
    files.give_back(range.m_file, range.m_begin, range.m_end);
  }
}

class Build::Memory_use {
 public:
  /** Constructor. Waits for the memory, unless an index has failed.
  @param[in,out] builder  index builder
  @param[in]     n_bytes  what its merge needs; 0 = nothing, without waiting */
  Memory_use(Builder *builder, size_t n_bytes)
      : m_shared(builder->m_ctx.m_kway_shared), m_n_bytes(n_bytes) {
    if (n_bytes == 0) {
      return;
    }

    /* Merges come after the tasks in which what is left of the scan is written:
    these are under way at least. */
    if (m_shared.m_gathered != nullptr) {
      m_shared.m_gathered->wait_for_all(
          [&] { return builder->get_error() != DB_SUCCESS; });
    }
    m_shared.m_merge_memory.take(n_bytes, builder->m_kway->m_memory_bytes);
  }

  ~Memory_use() {
    if (m_n_bytes > 0) {
      m_shared.m_merge_memory.give_back(m_n_bytes);
    }
  }

  Memory_use(const Memory_use &) = delete;
  Memory_use &operator=(const Memory_use &) = delete;

 private:
  /** What the indexes share. */
  Shared_memory &m_shared;

  /** What this merge has. */
  size_t m_n_bytes;
};

/** Ask for a whole group of runs that are short and lie side by side.
@return whether the group was asked for */
static bool read_group_ahead(Files &files, const Run *runs, size_t n) {
  for (size_t i = 1; i < n; ++i) {
    if (runs[i].m_file != runs[0].m_file ||
        runs[i].m_begin != runs[i - 1].m_end) {
      return false;
    }
  }

  if (runs[n - 1].m_end - runs[0].m_begin > MAX_AHEAD_TOTAL_BYTES / 4) {
    return false;
  }

  files.read_ahead(runs[0].m_file, runs[0].m_begin, runs[n - 1].m_end);
  return true;
}

dberr_t Build::merge_group(Builder *builder, Files &files, const Run *runs,
                           size_t n, const Plan &plan, size_t memory_bytes,
                           size_t row_bytes, Dup *dup, uint64_t &n_unreported,
                           Run &out) {
  const auto out_bytes = output_bytes(memory_bytes);
  Merge merge(builder, builder->m_kway->m_sort_key, dup, n,
              memory_bytes > out_bytes ? memory_bytes - out_bytes : 0,
              row_bytes, plan);
  auto out_buffer = ut::make_unique_aligned<byte[]>(
      ut::make_psi_memory_key(mem_key_ddl), BLOCK_BYTES, out_bytes);

  if (!merge.is_ready() || !out_buffer) {
    return DB_OUT_OF_MEMORY;
  }

  const auto is_ahead = read_group_ahead(files, runs, n);

  for (size_t i = 0; i < n; ++i) {
    merge.add(&files, runs[i], is_ahead ? runs[i].m_end : 0);
  }

  Run_writer<Files> writer(&files, out.m_file, out.m_end, out_buffer.get(),
                           out_bytes);
  auto stage = builder->stage();
  uint64_t n_rows = 0;
  auto err = merge.open();

  while (err == DB_SUCCESS && !merge.found_duplicate()) {
    auto &top = merge.top();

    err = writer.add(top.row(), top.row_bytes());

    if (err == DB_SUCCESS && n_rows++ % ROWS_PER_CHECK == 0) {
      err = builder->check_state_of_online_build_log();
      if (err == DB_SUCCESS && builder->m_ctx.is_interrupted()) {
        err = DB_INTERRUPTED;
      }
    }

    if (err != DB_SUCCESS) {
      return err;
    }

    if (stage != nullptr) {
      ++n_unreported;
      stage->inc_progress_if_needed(n_unreported);
    }

    err = merge.next();
  }

  if (merge.found_duplicate()) {
    return DB_DUPLICATE_KEY;
  }

  if (err != DB_END_OF_INDEX) {
    return err;
  }

  err = writer.finish();
  out = writer.run();
  return err;
}

dberr_t Build::merge_runs(Builder *builder, Files &files, const Plan &plan,
                          size_t memory_bytes, size_t row_bytes, Dup *dup,
                          Vector<Run> &runs) {
  uint64_t n_unreported = 0;

  while (runs.size() > plan.m_leave) {
    auto excess =
        runs.size() - target_runs(runs.size(), plan.m_leave, plan.m_fan_in);
    size_t n_done = 0;
    Vector<Run> merged;
    Run out{files.create(builder->tmpdir()), 0, 0};

    files.begin_pass();

    if (out.m_file == 0) {
      return DB_OUT_OF_RESOURCES;
    }

    while (excess > 0) {
      const auto n = std::min(plan.m_fan_in, excess + 1);
      const auto err =
          merge_group(builder, files, &runs[n_done], n, plan, memory_bytes,
                      row_bytes, dup, n_unreported, out);
      if (err != DB_SUCCESS) {
        return err;
      }
      give_back(files, &runs[n_done], n);
      merged.push_back(out);
      n_done += n;
      excess -= n - 1;
    }

    ut_ad(files.n_bytes_read() == n_bytes(runs.data(), n_done));
    runs.erase(runs.begin(), runs.begin() + n_done);
    runs.insert(runs.end(), merged.begin(), merged.end());
    files.close_unused(runs);
    g_status.passes.fetch_add(1, std::memory_order_relaxed);
  }

  return DB_SUCCESS;
}

dberr_t Build::sort(Builder *builder, Merge_file_sort::Context &merge,
                    Merge_offsets &offsets, uint64_t &n_rows) {
  /* What was left of the scan may not have been written. */
  if (const auto err = builder->get_error(); err != DB_SUCCESS) {
    return err;
  }

  auto &build = *builder->m_kway;
  const auto file = merge.m_file;
  const auto n_threads = merge.m_n_threads;
  const auto dup = merge.m_dup;
  const auto thread = find(builder, file);
  auto plan = build.m_plan;
  auto memory_bytes = build.m_sort_memory_bytes;
  auto row_bytes = build.m_row_bytes;
  Vector<Run> runs;

  for (size_t i = 0; i < offsets.size(); ++i) {
    const auto end = i + 1 < offsets.size() ? offsets[i + 1] : file->m_size;
    runs.push_back({0, offsets[i], end});
  }

  Files own(file);

  if (thread == nullptr) {
    /* A file of a full-text index, whose parser threads sort on their own. */
    memory_bytes = builder->m_ctx.merge_io_buffer_size(n_threads * 2 + 1) * 3;
    row_bytes = FTS_ROW_BYTES;

    Shape shape{};
    shape.m_is_direct = own.is_direct();
    shape.m_reader_bytes = reader_bytes(row_bytes, shape.m_is_direct);
    shape.m_n_runs = runs.size();
    shape.m_file_bytes = file->m_size;
    shape.m_sort_memory_bytes = memory_bytes;
    shape.m_ways = build.m_ways;
    plan = make_plan(shape);
  }

  auto &files = thread != nullptr ? thread->m_files : own;
  const auto needs_memory = thread != nullptr && runs.size() > plan.m_leave;
  const Memory_use use(builder, needs_memory ? memory_bytes : 0);

  if (const auto err = builder->get_error(); err != DB_SUCCESS) {
    return err;
  }
  const auto err =
      merge_runs(builder, files, plan, memory_bytes, row_bytes, dup, runs);

  if (err != DB_SUCCESS) {
    return err;
  }

  n_rows = file->m_n_recs;

  if (thread != nullptr && takes_load(builder)) {
    thread->m_runs = std::move(runs);
    return DB_SUCCESS;
  }

  ut_a(runs.size() == 1);

  if (runs[0].m_file != 0) {
    ut_a(runs[0].m_begin == 0);
    file->m_file.swap(files.made(runs[0].m_file));
    files.made(runs[0].m_file).close();
    file->m_size = runs[0].m_end;
  }

  offsets.clear();
  offsets.push_back(0);
  return DB_SUCCESS;
}

/** The rows of a merge, which a thread of its own makes. */
class Merge_thread {
 public:
  /** Constructor.
  @param[in,out] merge    merge that was not opened
  @param[in]     index    index
  @param[in]     n_bytes  see hand_over_bytes() */
  Merge_thread(Merge *merge, const dict_index_t *index, size_t n_bytes)
      : m_merge(merge), m_framing(index), m_rows(n_bytes) {}

  ~Merge_thread() {
    if (m_has_thread) {
      m_rows.stop();
      m_thread.join();
    }
  }

  Merge_thread(const Merge_thread &) = delete;
  Merge_thread &operator=(const Merge_thread &) = delete;

  /** Start the thread; throws std::system_error if there is none. */
  void start() {
    m_thread = os_thread_create(ddl_thread_key, 0, [this] { run(); });
    m_thread.start();
    m_has_thread = true;
  }

  /** Go to the next row, the first one at first.
  @return DB_SUCCESS, or what the merge has ended with */
  [[nodiscard]] dberr_t next() {
    m_row += m_n_row_bytes;

    if (m_row == m_taken.m_end) {
      m_taken = m_rows.take();
      m_row = m_taken.m_begin;
      if (m_row == nullptr) {
        m_n_row_bytes = 0;
        return m_err;
      }
    }
    m_n_row_bytes = m_framing.need(m_row, m_taken.m_end - m_row);
    ut_ad(m_n_row_bytes <= size_t(m_taken.m_end - m_row));
    return DB_SUCCESS;
  }

  /** @return the current row */
  [[nodiscard]] const byte *row() const { return m_row; }

  /** @return what it is */
  [[nodiscard]] Rec_framing &framing() { return m_framing; }

 private:
  /** What the thread does. */
  void run() {
    auto err = m_merge->open();

    while (err == DB_SUCCESS && !m_merge->found_duplicate()) {
      const auto &top = m_merge->top();

      err = m_rows.add(top.row(), top.row_bytes()) ? m_merge->next()
                                                   : DB_INTERRUPTED;
      DBUG_EXECUTE_IF("ddl_merge_thread_failure", err = DB_IO_ERROR;);
    }
    m_err = m_merge->found_duplicate() ? DB_DUPLICATE_KEY : err;
    m_rows.end();
  }

  /** Merges; used by the thread alone. */
  Merge *m_merge;

  /** What a row is. */
  Rec_framing m_framing;

  /** Rows that the thread hands over. */
  Hand_over m_rows;

  /** Those that were taken last. */
  Hand_over::Rows m_taken{};

  /** The current row. */
  const byte *m_row{};

  /** Its size. */
  size_t m_n_row_bytes{};

  /** What the merge has ended with; set before the last rows are there. */
  dberr_t m_err{DB_SUCCESS};

  /** The thread. */
  IB_thread m_thread;

  /** Whether it was started. */
  bool m_has_thread{};
};

class Build::Load_merge_cursor : public Load_cursor {
 public:
  /** Constructor.
  @param[in,out] builder  index builder
  @param[in,out] merge    merge that was not opened
  @param[in,out] load     where rows go to
  @param[in]     n_bytes  see hand_over_bytes() */
  Load_merge_cursor(Builder *builder, Merge *merge, Btree_load *load,
                    size_t n_bytes)
      : Load_cursor(builder, nullptr),
        m_merge(merge),
        m_framing(builder->index()),
        m_rows(load, builder->index()) {
    if (n_bytes > 0) {
      try {
        m_thread.emplace(merge, builder->index(), n_bytes);
        m_thread->start();
      } catch (const std::exception &) {
        /* No thread, or no memory: this one merges. */
        m_thread.reset();
      }
    }
  }

  /** Go to the first row. */
  [[nodiscard]] dberr_t open() {
    m_tuple_heap.create(2048, UT_LOCATION_HERE);
    return m_thread ? m_thread->next() : m_merge->open();
  }

  /** @return whether a duplicate was found. A thread that has found one says so
  when all rows before it are loaded. */
  [[nodiscard]] bool duplicates_detected() const noexcept override {
    return !m_thread && m_merge->found_duplicate();
  }

  /** Copy rows to the index until there is one that has to be taken apart, or a
  duplicate.
  @param[out]  dtuple  that row
  @return DB_SUCCESS, DB_END_OF_INDEX or error code */
  [[nodiscard]] dberr_t fetch(dtuple_t *&dtuple) noexcept override {
    auto err = begin_row();

    while (err == DB_SUCCESS && !duplicates_detected() && append()) {
      err = next();
      if (err == DB_SUCCESS) {
        err = begin_row();
      }
    }

    err = err == DB_SUCCESS ? m_err : err;

    if (err != DB_SUCCESS) {
      return err;
    }

    auto &framing = this->framing();
    const auto rec = row() + framing.header();

    m_tuple_heap.clear();
    dtuple = row_rec_to_index_entry_low(rec, m_builder->index(),
                                        framing.offsets(), m_tuple_heap.get());
    return m_builder->dtuple_copy_blobs(dtuple, framing.offsets(), rec,
                                        m_tuple_heap.get());
  }

  /** Go to the next row.
  @return DB_SUCCESS, DB_END_OF_INDEX or error code */
  [[nodiscard]] dberr_t next() noexcept override {
    ++m_n_rows;
    return m_thread ? m_thread->next() : m_merge->next();
  }

  /** @return rows read */
  [[nodiscard]] uint64_t n_rows() const { return m_n_rows; }

 private:
  /** See whether the build was stopped, count the row, and find its columns.
  @return DB_SUCCESS or error code */
  [[nodiscard]] dberr_t begin_row() {
    if (!m_thread) {
      const auto &top = m_merge->top();
      const auto n [[maybe_unused]] =
          m_framing.need(top.row(), top.row_bytes());
      ut_ad(n == top.row_bytes());
    }
    if (auto stage = m_builder->stage(); stage != nullptr) {
      ++m_n_unreported;
      stage->inc_progress_if_needed(m_n_unreported);
    }

    if (m_n_rows % ROWS_PER_CHECK != 0) {
      return DB_SUCCESS;
    }
    const auto err = m_builder->check_state_of_online_build_log();

    return err == DB_SUCCESS && m_builder->m_ctx.is_interrupted()
               ? DB_INTERRUPTED
               : err;
  }

  /** Copy the current row to the index.
  @return false if it has to be taken apart, or on an error, then in m_err */
  [[nodiscard]] bool append() {
    const auto parts = framing().parts(row());

    if (rec_offs_any_extern(framing().offsets()) || !m_rows.takes(parts)) {
      return false;
    }
    m_err = m_rows.append(parts);
    return m_err == DB_SUCCESS;
  }

  /** @return the current row */
  [[nodiscard]] const byte *row() const {
    return m_thread ? m_thread->row() : m_merge->top().row();
  }

  /** @return what it is */
  [[nodiscard]] Rec_framing &framing() {
    return m_thread ? m_thread->framing() : m_framing;
  }

  /** What is fed. */
  Merge *m_merge;

  /** What a row is, if no thread merges. */
  Rec_framing m_framing;

  /** Thread that merges; nothing if this one does. */
  std::optional<Merge_thread> m_thread;

  /** Where rows are copied to. */
  Btree_rows m_rows;

  /** Rows read. */
  uint64_t m_n_rows{};

  /** Rows that are not in the progress yet. */
  uint64_t m_n_unreported{};
};

dberr_t Build::feed(Builder *builder, Btree_load &btree_load) {
  if (const auto err = builder->get_error(); err != DB_SUCCESS) {
    return err;
  }

  auto &build = *builder->m_kway;
  size_t n_runs = 0;
  uint64_t n_rows = 0;

  for (const auto &thread : build.m_threads) {
    n_runs += thread->m_runs.size();
  }

  for (auto thread_ctx : builder->m_thread_ctxs) {
    n_rows += thread_ctx->m_n_recs;
  }

  if (n_runs == 0) {
    ut_a(n_rows == 0);
    return DB_SUCCESS;
  }

  const Memory_use use(builder, build.m_load_memory_bytes);

  /* Another index may have failed meanwhile. */
  if (const auto err = builder->get_error(); err != DB_SUCCESS) {
    return err;
  }

  Dup dup = {builder->m_index, builder->m_ctx.m_table, builder->m_ctx.m_col_map,
             0};
  Merge merge(builder, build.m_sort_key, &dup, n_runs,
              build.m_load_memory_bytes - 2 * build.m_hand_over_bytes,
              build.m_row_bytes, build.m_plan);

  if (!merge.is_ready()) {
    return DB_OUT_OF_MEMORY;
  }

  for (auto &thread : build.m_threads) {
    thread->m_files.begin_pass();
    for (const auto &run : thread->m_runs) {
      merge.add(&thread->m_files, run, 0);
    }
  }

  expect(builder, n_rows);
  Load_merge_cursor cursor(builder, &merge, &btree_load,
                           build.m_hand_over_bytes);
  auto err = cursor.open();

  if (err == DB_SUCCESS) {
    err = btree_load.build(cursor);
    ut_a(err != DB_SUCCESS || cursor.n_rows() == n_rows);
  }

#ifdef UNIV_DEBUG
  for (const auto &thread : build.m_threads) {
    const auto &runs = thread->m_runs;
    ut_a(err != DB_SUCCESS ||
         thread->m_files.n_bytes_read() == n_bytes(runs.data(), runs.size()));
  }
#endif /* UNIV_DEBUG */

  return err == DB_END_OF_INDEX ? DB_SUCCESS : err;
}

dberr_t Build::load(Builder *builder) {
  DEBUG_SYNC(builder->m_ctx.thd(), "ddl_btree_build_interrupt");

  if (auto stage = builder->stage(); stage != nullptr) {
    stage->begin_phase_insert();
  }

  Btree_load btree_load(builder->m_index, builder->m_ctx.m_trx->id,
                        builder->m_ctx.m_trx->flush_observer);

  const auto err = btree_load.finish(feed(builder, btree_load));

  builder->m_kway->m_threads.clear();

  if (err != DB_SUCCESS) {
    builder->set_error(err);
  }

  builder->set_next_state();

  if (err == DB_SUCCESS) {
    builder->m_loader.add_task(Loader::Task{builder});
  }

  return builder->get_error();
}

}  // namespace ddl::kway
