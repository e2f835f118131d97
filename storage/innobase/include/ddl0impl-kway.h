/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file include/ddl0impl-kway.h
What the index build calls to have its runs merged; see ddl/ddl0kway.cc. */

#ifndef ddl0impl_kway_h
#define ddl0impl_kway_h

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "btr0rows.h"
#include "ddl0impl-builder.h"
#include "ddl0impl-merge.h"
#include "ddl0key.h"
#include "ddl0kway.h"
#include "ddl0pack.h"
#include "dict0mem.h"
#include "rem0rec.h"

namespace ddl::kway {

class Files;
class Packed_compare;

/** A record of an index in a temporary file. */
class Rec_framing {
 public:
  explicit Rec_framing(const dict_index_t *index)
      : m_index(index),
        m_offsets(1 + REC_OFFS_HEADER_SIZE + dict_index_get_n_fields(index)) {
    m_offsets[0] = m_offsets.size();
    m_offsets[1] = dict_index_get_n_fields(index);
  }

  /** See Run_reader. */
  [[nodiscard]] size_t need(const byte *ptr, size_t n_bytes) {
    if (n_bytes == 0) {
      return 1;
    }

    /* One more than the bytes before the origin, in one byte or two. */
    size_t extra = ptr[0];
    size_t prefix = 1;

    if (extra == 0) {
      return 0;
    }

    if (extra >= 0x80) {
      if (n_bytes < 2) {
        return 2;
      }
      extra = (extra & 0x7f) << 8 | ptr[1];
      prefix = 2;
    }

    const auto header = prefix + extra - 1;

    if (n_bytes < header) {
      return header;
    }

    rec_deserialize_init_offsets(ptr + header, m_index, m_offsets.data());
    m_header = header;
    m_prefix = prefix;
    return header + rec_offs_data_size(m_offsets.data());
  }

  /** @return bytes before the record's origin */
  [[nodiscard]] size_t header() const { return m_header; }

  /** @return the row in parts
  @param[in]  ptr  the row */
  [[nodiscard]] Btree_row parts(const byte *ptr) const {
    return {ptr + m_prefix, m_header - m_prefix, ptr + m_header,
            rec_offs_data_size(offsets())};
  }

  /** @return offsets of the columns */
  [[nodiscard]] const ulint *offsets() const { return m_offsets.data(); }

  /** @return offsets of the columns */
  [[nodiscard]] ulint *offsets() { return m_offsets.data(); }

 private:
  /** Index. */
  const dict_index_t *m_index;

  /** Offsets of the columns. */
  Vector<ulint> m_offsets;

  /** Bytes before the record's origin. */
  size_t m_header{};

  /** Those of them that say how many the others are. */
  size_t m_prefix{};
};

/** Settings and state of one index build. */
struct Build {
  /** Constructor.
  @param[in]  ctx  DDL context */
  explicit Build(Context &ctx);

  /** Destructor. */
  ~Build();

  /** Let the stage of a builder take part in the progress of the statement.
  @param[in,out] builder  index builder */
  static void join_progress(Builder *builder);

  /** A scan begins. Let the sort buffers of a builder share memory with those
  of others.
  @param[in,out] builder      index builder
  @param[in]     n_threads    scan threads
  @param[in]     buffer_size  sizes of the sort buffer and of the buffer for
                              writing runs in the original code */
  static void join_memory(Builder *builder, size_t n_threads,
                          std::pair<size_t, size_t> buffer_size);

  /** Write the runs of the indexes that share memory through one buffer, since
  a scan thread writes one run at a time.
  @param[in,out] builder    index builder
  @param[in]     thread_id  scan thread */
  static void share_io_buffer(Builder *builder, size_t thread_id);

  /** Add a record of the clustered index to the sort buffers of all indexes, if
their columns can be taken from it as they are.
@param[in,out] builders   index builders
@param[in]     row        the record
@param[in]     thread_id  scan thread
@param[in,out] n_rows     records that were scanned; one more if it was added
@return DB_SUCCESS, or error code, which the builders know too; nothing if
the original code is to add it */
  [[nodiscard]] static std::optional<dberr_t> add_record(
      const Builders &builders, const Row &row, size_t thread_id,
      size_t &n_rows);

  /** A row is to be added to a sort buffer. Note its size, and make room in the
  shared memory: if this buffer is the largest it is made too small for the row,
  so that the caller writes it; any other is written here.
  @param[in,out] builder    index builder
  @param[in]     thread_id  scan thread
  @param[in]     n_bytes    size of the row
  @return DB_SUCCESS, or error code, which the builder knows too */
  [[nodiscard]] static dberr_t before_row(Builder *builder, size_t thread_id,
                                          size_t n_bytes);

  /** The same, and if that fails no row was added.
  @tparam Row  the context of the copy, which is local to its file
  @param[in,out] builder  index builder
  @param[in,out] row      the row
  @return DB_SUCCESS, or error code, which the builder knows too */
  template <typename Row>
  [[nodiscard]] static dberr_t before_row(Builder *builder, Row &row) {
    const auto err = before_row(builder, row.m_thread_id, row.m_data_size);

    if (unlikely(err != DB_SUCCESS)) {
      row.m_n_rows_added = 0;
    }
    return err;
  }

  /** Sort the rows of a sort buffer by their keys. If there is a duplicate
  among rows that are packed, the builder knows.
  @param[in,out] builder    index builder
  @param[in]     thread_id  scan thread
  @return false if the original code is to sort them: a duplicate was found, or
  keys are not used */
  [[nodiscard]] static bool sort_rows(Builder *builder, size_t thread_id);

  /** @return whether the check of files with one run is left to the load,
  which compares their rows anyway
  @param[in]  builder  index builder */
  [[nodiscard]] static bool checks_duplicates(Builder *builder);

  /** Plan the merge, when all runs are written.
  @param[in,out] builder  index builder
  @param[in]     n_runs   number of runs
  @return a number whose logarithm to base 2 is the number of passes: n_runs if
  the original code merges */
  [[nodiscard]] static size_t prepare(Builder *builder, size_t n_runs);

  /** @return whether sort() is to be used instead of the original code
  @param[in]  builder  index builder */
  [[nodiscard]] static bool takes_sort(Builder *builder);

  /** Merge the runs of a file.
  @param[in,out] builder  index builder
  @param[in,out] merge    the file, for reporting duplicates, and the threads
                          that sort at a time, for full-text indexes
  @param[in,out] offsets  where the runs begin
  @param[out]    n_rows   rows in the file
  @return DB_SUCCESS or error code */
  [[nodiscard]] static dberr_t sort(Builder *builder,
                                    Merge_file_sort::Context &merge,
                                    Merge_offsets &offsets, uint64_t &n_rows);

  /** Leave the flush at the end of an index to that of the last one, if pages
  are written meanwhile.
  @param[in,out] builder  index builder, then in its next state
  @return whether it is left */
  [[nodiscard]] static bool leaves_flush(Builder *builder);

  /** @return whether load() is to be used instead of the original code
  @param[in]  builder  index builder */
  [[nodiscard]] static bool takes_load(Builder *builder);

  /** Merge what is left and feed it to the index.
  @param[in,out] builder  index builder
  @return DB_SUCCESS or error code */
  [[nodiscard]] static dberr_t load(Builder *builder);

 private:
  /** Files of one scan thread, and the runs in them. */
  struct Thread;

  /** Memory of a merge, for as long as it lives. */
  class Memory_use;

  /** Feeds a merge to the loader of an index. */
  class Load_merge_cursor;

  /** Writes rows as a run: through a buffer, with a function that appends a
  block to the file. */
  using Write_rows = std::function<dberr_t(
      std::pair<byte *, size_t>,
      const std::function<dberr_t(std::pair<byte *, size_t>)> &)>;

  /** Write a run to the file of a scan thread.
  @param[in,out] builder     index builder
  @param[in]     thread_id   scan thread
  @param[in]     io_buffer   buffer for writing
  @param[in]     write_rows  writes it
  @return DB_SUCCESS, or error code, which the builder knows too */
  [[nodiscard]] static dberr_t write_run(Builder *builder, size_t thread_id,
                                         std::pair<byte *, size_t> io_buffer,
                                         const Write_rows &write_rows);

  /** Write the batches of an index as one run to the file of a scan thread.
  @param[in,out] builder    index builder
  @param[in]     thread_id  scan thread
  @param[in]     io_buffer  buffer for writing
  @param[in]     taken      the batches
  @return DB_SUCCESS, or error code, which the builder knows too */
  [[nodiscard]] static dberr_t write_gathered(
      Builder *builder, size_t thread_id, std::pair<byte *, size_t> io_buffer,
      const Gathered::Taken &taken);

  /** Report the duplicate among the rows of a sort buffer that the original
  code would report.
  @param[in,out] builder  index builder, which knows the error then
  @param[in,out] buffer   the buffer, whose rows are packed
  @param[in,out] compare  compares its rows */
  static void report_duplicate(Builder *builder, Key_sort_buffer &buffer,
                               Packed_compare &compare);

  /** When all rows were added, write the batches of an index that are left. An
  error is set in the builder.
  @param[in,out] builder  index builder */
  static void write_rest(Builder *builder);

  /** Empty a sort buffer: write its rows as a run, or hand them over to become
  part of one. The columns of a row that is about to be packed stay.
  @param[in,out] builder    index builder
  @param[in]     thread_id  scan thread
  @return DB_SUCCESS, or error code, which the builder knows too */
  [[nodiscard]] static dberr_t empty_buffer(Builder *builder, size_t thread_id);

  /** Say how much work is left for an index.
  @param[in,out] builder  index builder
  @param[in]     n_left   rows to scan, rewrite or load */
  static void expect(Builder *builder, uint64_t n_left);

  /** Share out the memory for the buffers of merges.
  @param[in]     ctx    DDL context
  @param[in,out] shape  the runs; its memory is set */
  void share_merge_memory(Context &ctx, Shape &shape);

  /** Decide how to merge, and whether a thread of its own merges while the
  index is loaded.
  @param[in]  shape  the runs, with the memory */
  void plan(Shape shape);

  /** @return what of a file of that builder is known; nullptr for the files of
  a full-text index */
  [[nodiscard]] static Thread *find(Builder *builder, const file_t *file);

  /** Merge a group of runs into one.
  @param[in,out] builder       index builder
  @param[in,out] files         files
  @param[in]     runs          the group
  @param[in]     n             number of runs in it
  @param[in]     plan          how to merge
  @param[in]     memory_bytes  memory for the merge
  @param[in]     row_bytes     size of the largest row
  @param[in,out] dup           for reporting duplicates
  @param[in,out] n_unreported  rows that are not in the progress yet
  @param[in,out] out           the merged run; it begins where this ended
  @return DB_SUCCESS or error code */
  [[nodiscard]] static dberr_t merge_group(Builder *builder, Files &files,
                                           const Run *runs, size_t n,
                                           const Plan &plan,
                                           size_t memory_bytes,
                                           size_t row_bytes, Dup *dup,
                                           uint64_t &n_unreported, Run &out);

  /** Merge runs until few enough are left.
  @param[in,out] builder       index builder
  @param[in,out] files         files
  @param[in]     plan          how to merge
  @param[in]     memory_bytes  memory for the merge
  @param[in]     row_bytes     size of the largest row
  @param[in,out] dup           for reporting duplicates
  @param[in,out] runs          runs
  @return DB_SUCCESS or error code */
  [[nodiscard]] static dberr_t merge_runs(Builder *builder, Files &files,
                                          const Plan &plan, size_t memory_bytes,
                                          size_t row_bytes, Dup *dup,
                                          Vector<Run> &runs);

  /** Merge what is left and feed it to a loader.
  @param[in,out] builder     index builder
  @param[in,out] btree_load  the loader
  @return DB_SUCCESS or error code */
  [[nodiscard]] static dberr_t feed(Builder *builder, Btree_load &btree_load);

  /** innodb_ddl_merge_ways. */
  size_t m_ways{};

  /** innodb_ddl_merge_on_the_fly. */
  bool m_on_the_fly{};

  /** innodb_ddl_doublewrite=OFF, which innodb_ddl_flush_batch=ON makes safe. */
  bool m_flushes_early{};

  /** innodb_ddl_preallocate. */
  bool m_preallocates{};

  /** Keys of the rows; empty if they are not used. */
  Sort_key m_sort_key{};

  /** Whether the sort buffers share memory with those of other indexes. */
  bool m_is_sharing{};

  /** Number of the buffer in the shared memory. */
  size_t m_member{};

  /** Size of the largest row that each scan thread has met. */
  Vector<size_t> m_max_row_bytes;

  /** The columns in the records that each scan thread reads; none if rows are
  not made of records. */
  std::vector<Record_columns> m_columns;

  /** Size of the largest row in the files, when all runs are written. */
  size_t m_row_bytes{};

  /** Memory for all merges of the build. */
  size_t m_memory_bytes{};

  /** Memory for a merge in the sort phase. */
  size_t m_sort_memory_bytes{};

  /** Memory for the merge that feeds the index. */
  size_t m_load_memory_bytes{};

  /** How to merge. */
  Plan m_plan{};

  /** Part of that memory through which one thread hands rows over to another:
  bytes of each of two buffers; 0 = one thread merges and loads. */
  size_t m_hand_over_bytes{};

  /** One for each scan thread. */
  std::vector<std::unique_ptr<Thread>> m_threads;
};

}  // namespace ddl::kway

#endif /* ddl0impl_kway_h */
