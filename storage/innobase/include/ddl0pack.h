/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file include/ddl0pack.h
Rows of a sort buffer in the form in which they go into a run.

The original code keeps a row as an array of columns, 24 bytes each, besides its
values, and makes the bytes of the run from it when the buffer is full. A row of
two integers takes seven times its size then. Here the bytes are made when the
row is added: more rows fit, so that runs are longer, and what is written is a
copy. */

#ifndef ddl0pack_h
#define ddl0pack_h

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "ddl0key.h"
#include "ddl0kway.h"

struct dict_index_t;

namespace ddl {

struct Key_sort_buffer;

namespace kway {

/** A row of a sort buffer with its key. */
template <typename Row>
struct Keyed {
  /** Key. */
  uint64_t m_key;

  /** The row. */
  Row m_row;
};

/** Make room for one more element: for a quarter more at a time, so that little
of what is allocated is not used.
@param[in,out] elements  a vector */
template <typename Elements>
void grow(Elements &elements) {
  if (elements.size() == elements.capacity()) {
    elements.reserve(elements.size() + elements.size() / 4 + 16);
  }
}

/** A smaller array is moved so fast that its old memory does not count. */
constexpr size_t SMALL_ARRAY_BYTES = 64 * 1024;

/** @return bytes that grow() is going to allocate; what was allocated before is
there until its elements are moved
@param[in]  elements  a vector */
template <typename Elements>
[[nodiscard]] size_t growth_bytes(const Elements &elements) {
  const auto n_old = elements.size() * sizeof(elements[0]);
  const auto n_more = (elements.size() / 4 + 16) * sizeof(elements[0]);

  if (elements.size() < elements.capacity()) {
    return 0;
  }
  return n_old < SMALL_ARRAY_BYTES ? n_more : n_old + n_more;
}

/** Sort rows by merging halves, in the order of comparisons of the original
code.
@param[in,out] rows     rows
@param[in,out] spare    as many rows
@param[in]     begin    first of the rows to be sorted
@param[in]     end      end of them
@param[in,out] compare  int operator()(row, row) */
template <typename Rows, typename Compare>
void merge_sort(Rows &rows, Rows &spare, size_t begin, size_t end,
                Compare &compare) {
  const auto middle = (begin + end) / 2;

  if (end - begin < 2) {
    return;
  }

  merge_sort(rows, spare, begin, middle, compare);
  merge_sort(rows, spare, middle, end, compare);

  auto a = begin;
  auto b = middle;

  for (auto i = begin; i < end; ++i) {
    const auto takes_b =
        a == middle || (b < end && compare(rows[a], rows[b]) > 0);
    spare[i] = takes_b ? rows[b++] : rows[a++];
  }
  std::copy(spare.begin() + begin, spare.begin() + end, rows.begin() + begin);
}

/** Finds the columns of an index in the records of the clustered index, which
has the same format: there the bytes are as they go into a run. Each scan thread
has its own, in cache lines of its own. */
class alignas(64) Record_columns {
 public:
  /** Constructor.
  @param[in]  index  index of a table that is not rebuilt */
  explicit Record_columns(const dict_index_t *index);

  /** @return whether all columns are there: none is virtual, has a prefix or
  another format */
  [[nodiscard]] bool is_on() const { return !m_columns.empty(); }

  /** Find the columns of a row. They are used until its record is gone.
  @param[in]  rec      record without columns that are stored externally
  @param[in]  offsets  where its columns are
  @return size of the row in a run */
  [[nodiscard]] size_t take(const rec_t *rec, const ulint *offsets);

  /** Write the row as it goes into a run.
  @param[out]  to  first byte */
  void write(byte *to) const;

  /** @return value of a column of the row
  @param[in]   n    column
  @param[out]  len  its length, or UNIV_SQL_NULL */
  [[nodiscard]] const byte *get(size_t n, ulint &len) const {
    len = m_columns[n].m_len;
    return m_columns[n].m_data;
  }

 private:
  /** A column. */
  struct Column {
    /** Its number in the clustered index. */
    size_t m_number;

    /** Whether it may be NULL. */
    bool m_is_nullable;

    /** Whether all values have the same length. */
    bool m_is_fixed;

    /** Whether lengths from 128 take two bytes. */
    bool m_is_big;

    /** Value in the row. */
    const byte *m_data;

    /** Its length. */
    ulint m_len;
  };

  /** @return bytes that the length of a value takes
  @param[in]  column  the column */
  [[nodiscard]] static size_t length_bytes(const Column &column) {
    return column.m_is_fixed                         ? 0
           : column.m_is_big && column.m_len >= 0x80 ? 2
                                                     : 1;
  }

  /** The columns. */
  std::vector<Column> m_columns;

  /** Bytes that say which columns are NULL. */
  size_t m_n_null_bytes{};

  /** Bytes of the row before its values, without those that say how many there
  are. */
  size_t m_n_extra{};
};

/** A row that is packed: its first byte. */
using Packed_row = const byte *;

/** A run in memory: rows and a zero byte. */
using Memory_run = Vector<byte>;

/** The packed rows of a sort buffer. The place of a row among those of the
original code points to its bytes; that array is in the order in which rows were
added, the one here is sorted. */
class Packed_rows {
 public:
  /** Bytes that are allocated at a time; more for a row that is larger. */
  static constexpr size_t CHUNK_BYTES = 2000;

  Packed_rows() = default;
  Packed_rows(const Packed_rows &) = delete;
  Packed_rows &operator=(const Packed_rows &) = delete;

  /** Pack what is added from now on.
  @param[in]  index       index
  @param[in]  key         keys of its rows; it lives as long as this
  @param[in]  hands_over  whether take_run() will be called, which copies them
*/
  void begin(const dict_index_t *index, const Sort_key *key, bool hands_over) {
    m_index = index;
    m_sort_key = key;
    m_hands_over = hands_over;
  }

  /** @return whether rows are packed */
  [[nodiscard]] bool is_on() const { return m_sort_key != nullptr; }

  /** Make room for the bytes of a row.
  @param[in]  key      its key
  @param[in]  n_bytes  its size
  @return where its bytes go */
  [[nodiscard]] byte *add(uint64_t key, size_t n_bytes) {
    const auto is_long = n_bytes >= LONG;
    const auto n_length = is_long ? sizeof(uint32_t) + 1 : 1;

    if (m_n_free < n_length + n_bytes) {
      m_n_free = std::max(n_length + n_bytes, CHUNK_BYTES);
      m_chunks.emplace_back(m_n_free);
      m_n_chunk_bytes += m_n_free;
      m_free = m_chunks.back().data();
    }

    const auto row = m_free + n_length;

    if (is_long) {
      const auto length = static_cast<uint32_t>(n_bytes);
      memcpy(m_free, &length, sizeof(length));
    }
    row[-1] = is_long ? LONG : static_cast<byte>(n_bytes);

    m_free = row + n_bytes;
    m_n_free -= n_length + n_bytes;

    grow(m_rows);
    m_rows.push_back({key, row});
    return row;
  }

  /** @return the size of a row in bytes */
  [[nodiscard]] static size_t row_bytes(Packed_row row) {
    if (row[-1] != LONG) {
      return row[-1];
    }

    uint32_t length;
    memcpy(&length, row - 1 - sizeof(length), sizeof(length));
    return length;
  }

  /** @return the rows, to be sorted */
  [[nodiscard]] Vector<Keyed<Packed_row>> &rows() { return m_rows; }

  /** @return memory that one more row takes at most, in bytes
  @param[in]  n_bytes  size of the row */
  [[nodiscard]] size_t growth_bytes(size_t n_bytes) const {
    const auto n = n_bytes + 1 + sizeof(uint32_t);

    return (m_n_free < n ? std::max(n, CHUNK_BYTES) * n_copies() : 0) +
           ddl::kway::growth_bytes(m_rows);
  }

  /** @return memory that is taken, and that a copy of the rows will take, in
  bytes */
  [[nodiscard]] size_t n_bytes() const {
    return m_n_chunk_bytes * n_copies() + m_rows.capacity() * sizeof(m_rows[0]);
  }

  /** Take all rows, and give up their memory. Throws std::bad_alloc, and then
  they stay.
  @return the rows as a run, in the order of rows() */
  [[nodiscard]] Memory_run take_run();

  /** Give up all rows, and their memory. */
  void clear() {
    m_rows = Vector<Keyed<Packed_row>>();
    m_chunks = std::vector<Vector<byte>>();
    m_n_chunk_bytes = 0;
    m_n_free = 0;
  }

  /** Pack the last row of a buffer, whose columns the original code has set.
  @param[in,out] buffer    the buffer of this
  @param[in]     n_fields  number of columns
  @param[in]     n_bytes   size of the row
  @return false if rows are not packed */
  [[nodiscard]] bool add(Key_sort_buffer &buffer, size_t n_fields,
                         size_t n_bytes);

  /** Pack a row of a record.
  @param[in,out] buffer   the buffer of this
  @param[in]     columns  its columns
  @param[in]     n_bytes  its size */
  void add(Key_sort_buffer &buffer, const Record_columns &columns,
           size_t n_bytes);

  /** Write the rows as a run, in the order of rows().
  @param[in]  io_buffer  buffer for writing
  @param[in]  persist    writes it
  @return DB_SUCCESS or error code */
  [[nodiscard]] dberr_t write(
      std::pair<byte *, size_t> io_buffer,
      const std::function<dberr_t(std::pair<byte *, size_t>)> &persist) const;

 private:
  /** @return how often the bytes of rows are in memory at last */
  [[nodiscard]] size_t n_copies() const { return m_hands_over ? 2 : 1; }

  /** The byte before a row is its length; if it is this, the length is in the
  four bytes before that one. */
  static constexpr byte LONG = 255;

  /** Index. */
  const dict_index_t *m_index{};

  /** Keys of the rows; nullptr if rows are not packed. */
  const Sort_key *m_sort_key{};

  /** Rows with their keys. */
  Vector<Keyed<Packed_row>> m_rows;

  /** Memory of the rows. */
  std::vector<Vector<byte>> m_chunks;

  /** Bytes of all chunks. */
  size_t m_n_chunk_bytes{};

  /** Whether take_run() will be called. */
  bool m_hands_over{};

  /** Where the next row goes. */
  byte *m_free{};

  /** Bytes that are free there. */
  size_t m_n_free{};
};

/** Writes packed rows as a run. */
class Packed_run {
 public:
  /** Constructor.
  @param[in]  io_buffer  buffer for writing
  @param[in]  persist    writes a block to the end of the file */
  Packed_run(std::pair<byte *, size_t> io_buffer,
             const std::function<dberr_t(std::pair<byte *, size_t>)> &persist)
      : m_io_bytes(io_buffer.second),
        m_sink{persist},
        m_writer(&m_sink, 0, 0, io_buffer.first,
                 io_buffer.second / BLOCK_BYTES * BLOCK_BYTES) {}

  /** Write a row.
  @param[in]  row      the row
  @param[in]  n_bytes  its size
  @return DB_SUCCESS, DB_TOO_BIG_RECORD if no page would have room for it, or
  error code */
  [[nodiscard]] dberr_t add(const byte *row, size_t n_bytes) {
    return n_bytes >= m_io_bytes ? DB_TOO_BIG_RECORD
                                 : m_writer.add(row, n_bytes);
  }

  /** End the run.
  @return DB_SUCCESS or error code */
  [[nodiscard]] dberr_t finish() { return m_writer.finish(); }

 private:
  /** Where blocks go. */
  struct Sink {
    /** See Run_writer. */
    [[nodiscard]] dberr_t write(size_t, byte *from, size_t n_bytes,
                                uint64_t) const {
      return m_persist({from, n_bytes});
    }

    /** Writes a block. */
    const std::function<dberr_t(std::pair<byte *, size_t>)> &m_persist;
  };

  /** Size of the buffer. */
  size_t m_io_bytes;

  /** Where blocks go. */
  Sink m_sink;

  /** Writes rows. */
  Run_writer<Sink> m_writer;
};

/** Sorted batches that the scan threads have handed over. When there is no room
for more, those of the index that has most become one run: a run is as long as
all threads together have memory, and not each of them. While one thread writes
a run, others go on to hand over. */
class Gathered {
 public:
  /** Batches of one index. */
  struct Taken {
    /** Number of the index. */
    size_t m_index{};

    /** The batches; none if there is nothing to be written. */
    std::vector<Memory_run> m_batches;

    /** Memory that they take, in bytes. */
    size_t m_n_bytes{};
  };

  /** Constructor.
  @param[in]  n_indexes    number of indexes
  @param[in]  n_threads    number of scan threads
  @param[in]  limit_bytes  memory for the batches of all of them */
  Gathered(size_t n_indexes, size_t n_threads, size_t limit_bytes)
      : m_limit_bytes(limit_bytes),
        m_most_bytes(n_threads > 1 ? limit_bytes / 2 : limit_bytes),
        m_little_share(std::max<size_t>(8, 2 * n_indexes)),
        m_indexes(n_indexes) {
    for (size_t i = 0; i < n_indexes; ++i) {
      m_indexes[i].m_index = i;
    }
  }

  /** Hand a batch over. Throws std::bad_alloc.
  @param[in]  index  number of the index
  @param[in]  batch  sorted rows */
  void add(size_t index, Memory_run batch) {
    std::lock_guard<std::mutex> guard(m_mutex);
    auto &mine = m_indexes[index];
    const auto n_bytes = batch.capacity() + sizeof(batch);

    mine.m_batches.push_back(std::move(batch));
    mine.m_n_bytes += n_bytes;
    m_n_bytes += n_bytes;
  }

  /** If there is no room, take the batches of the index that has most; or wait
  for those that others are writing, if what it has is little.
  @return them, to be written, and written() to be called; none if there is
  room */
  [[nodiscard]] Taken take_largest() {
    std::unique_lock<std::mutex> lock(m_mutex);

    for (;;) {
      const auto largest = std::max_element(m_indexes.begin(), m_indexes.end(),
                                            [](const Taken &a, const Taken &b) {
                                              return a.m_n_bytes < b.m_n_bytes;
                                            });
      const auto is_over = m_n_bytes > m_limit_bytes;

      if (largest->m_n_bytes > m_most_bytes ||
          (is_over && (largest->m_n_bytes >= m_limit_bytes / m_little_share ||
                       m_n_writing_bytes == 0))) {
        return take_locked(largest - m_indexes.begin());
      }
      if (!is_over) {
        return {};
      }
      m_was_written.wait(lock);
    }
  }

  /** Take what is left of an index, when all rows were handed over.
  @return the batches, to be written, and written() to be called */
  [[nodiscard]] Taken take(size_t index) {
    std::lock_guard<std::mutex> guard(m_mutex);
    return take_locked(index);
  }

  /** Wait until all batches are written, those of other indexes, too: then
  their memory is free for merges.
  @param[in]  has_ended  says whether nobody may write them any more */
  template <typename Ended>
  void wait_for_all(Ended has_ended) {
    std::unique_lock<std::mutex> lock(m_mutex);

    while (m_n_bytes > 0 && !has_ended()) {
      m_was_written.wait_for(lock, std::chrono::milliseconds{10});
    }
  }

  /** What was taken no longer takes memory.
  @param[in]  n_bytes  what it took */
  void written(size_t n_bytes) {
    {
      std::lock_guard<std::mutex> guard(m_mutex);
      m_n_bytes -= n_bytes;
      m_n_writing_bytes -= n_bytes;
    }
    m_was_written.notify_all();
  }

 private:
  /** Take the batches of an index; the mutex is held. */
  [[nodiscard]] Taken take_locked(size_t index) {
    Taken none;
    none.m_index = index;
    m_n_writing_bytes += m_indexes[index].m_n_bytes;
    return std::exchange(m_indexes[index], std::move(none));
  }

  /** Memory for all batches. */
  size_t m_limit_bytes;

  /** Most for one index: half, if there are threads that go on while it is
  written. */
  size_t m_most_bytes;

  /** Which part of it is too little for a run while others are being written:
  half of what an index has on average. */
  size_t m_little_share;

  /** Protects the members below. */
  std::mutex m_mutex;

  /** Signalled when batches were written. */
  std::condition_variable m_was_written;

  /** Batches of each index. */
  std::vector<Taken> m_indexes;

  /** Memory of all batches, also of those that were taken and are not written.
   */
  size_t m_n_bytes{};

  /** Memory of those. */
  size_t m_n_writing_bytes{};
};

}  // namespace kway

}  // namespace ddl

#endif /* ddl0pack_h */
