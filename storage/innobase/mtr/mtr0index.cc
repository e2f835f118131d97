/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file mtr/mtr0index.cc
Index objects for redo records, kept as long as recovery goes on.

Why. A redo record of an index page begins with a description of the index: the
lengths of its fields, and which of them are nullable or belong to other
versions of the row. To parse the record, and again to apply it, a table object
and an index object are built from that, and freed. That takes about half of the
time in which redo is parsed, while the log has a few different descriptions,
each of them thousands of times.

How. Each thread has a table of descriptions and their objects. Equal bytes make
equal objects, of whatever tablespace the page is. A description says itself
where it ends, so a stored one that the log goes on with is the one that stands
there. The place in the table follows from its fixed part: what is known of the
columns of other versions is left out, since that part has no length of its own.
Another description for the same place replaces the first.

Who uses an object has got it from the table of his own thread, and gives it
back before he asks for the next one, so nothing is replaced in use. Objects
belong to the table until the Keeper ends, which is when no redo is left; a
thread that comes back to the table of a former Keeper sees by a number that it
is gone. The table of a thread that has ended goes to the next one that needs
one, so there are as many as there were threads at a time. */

#include "mtr0index.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <mutex>

#include "dict0mem.h"
#include "mach0data.h"
#include "mtr0log.h"
#include "ut0crc32.h"
#include "ut0new.h"

namespace mtr_index {

namespace {

/** Descriptions for which a thread keeps objects. An object of an index with
ten fields takes some 3 KiB. */
constexpr size_t N_SLOTS = 128;

/** Memory of the objects of a thread. Before there is more, all are freed. */
constexpr size_t MAX_BYTES = 1024 * 1024;

/** Find out by how many bytes a description is looked for.
@param[in]  ptr      start of the description
@param[in]  end_ptr  end of the log buffer
@return its length without columns of other versions; 0 if it is not there as a
whole, or is of another format */
size_t get_n_key_bytes(const byte *ptr, const byte *end_ptr) {
  const size_t n_bytes = end_ptr - ptr;

  if (n_bytes < 2 || ptr[0] != INDEX_LOG_VERSION_CURRENT) {
    return 0;
  }

  const auto flag = ptr[1];
  size_t n_key_bytes = 2;

  if (IS_COMPACT(flag)) {
    /* Number of fields, of unique ones, and of those before the first instant
    ADD COLUMN if there was one; then each field. */
    n_key_bytes += IS_INSTANT(flag) ? 6 : 4;
    if (n_bytes < n_key_bytes) {
      return 0;
    }
    n_key_bytes += 2 * size_t{mach_read_from_2(ptr + 2)};
  } else if (IS_VERSIONED(flag)) {
    n_key_bytes += 2;
  }

  return n_key_bytes <= n_bytes ? n_key_bytes : 0;
}

/** Find the end of what a description says of columns of other versions.
@param[in]  ptr      behind the rest of the description
@param[in]  end_ptr  end of the log buffer
@return its end, or nullptr if it is not there as a whole */
const byte *skip_versions(const byte *ptr, const byte *end_ptr) {
  if (end_ptr - ptr < 2) {
    return nullptr;
  }

  auto n_columns = mach_read_from_2(ptr);

  for (ptr += 2; n_columns > 0; --n_columns) {
    /* Its places in the row; then the versions that have added and dropped it,
    if there are any. */
    if (end_ptr - ptr < 4) {
      return nullptr;
    }

    const auto place = mach_read_from_2(ptr + 2);

    ptr +=
        4 + ((place & 0x8000) != 0 ? 1 : 0) + ((place & 0x4000) != 0 ? 1 : 0);
  }

  return ptr <= end_ptr ? ptr : nullptr;
}

/** Free an object as it is freed where it is not kept. */
void free_index(dict_index_t *index) {
  const auto table = index->table;

  dict_mem_index_free(index);
  dict_mem_table_free(table);
}

/** Descriptions and their objects, for one thread. */
class Table {
 public:
  Table() = default;
  ~Table() {
    for (auto &slot : m_slots) {
      slot.clear();
    }
  }

  Table(const Table &) = delete;
  Table &operator=(const Table &) = delete;

  /** Look for an object.
  @param[in]  ptr          start of the description
  @param[in]  end_ptr      end of the log buffer
  @param[in]  n_key_bytes  what get_n_key_bytes() returned
  @param[out] n_bytes      length of the description, if it was found
  @return object, or nullptr */
  dict_index_t *find(const byte *ptr, const byte *end_ptr, size_t n_key_bytes,
                     size_t *n_bytes) {
    const auto &slot = get_slot(ptr, n_key_bytes);

    *n_bytes = slot.bytes.size();

    if (*n_bytes == 0 || *n_bytes > static_cast<size_t>(end_ptr - ptr) ||
        memcmp(slot.bytes.data(), ptr, *n_bytes) != 0) {
      return nullptr;
    }

    ++m_n_found;
    m_last = slot.index;
    return m_last;
  }

  /** Keep an object.
  @param[in]  ptr          start of its description
  @param[in]  n_key_bytes  what get_n_key_bytes() returned
  @param[in]  n_bytes      length of the description
  @param[in]  index        object */
  void add(const byte *ptr, size_t n_key_bytes, size_t n_bytes,
           dict_index_t *index) {
    auto &slot = get_slot(ptr, n_key_bytes);

    const auto n_index_bytes =
        mem_heap_get_size(index->heap) + mem_heap_get_size(index->table->heap);

    m_n_bytes -= slot.n_index_bytes;
    slot.clear();

    if (m_n_bytes + n_index_bytes > MAX_BYTES) {
      for (auto &other : m_slots) {
        other.clear();
      }
      m_n_bytes = 0;
    }

    slot.bytes.assign(ptr, ptr + n_bytes);
    slot.index = index;
    slot.n_index_bytes = n_index_bytes;
    m_n_bytes += n_index_bytes;
    ++m_n_made;
    m_last = index;
  }

  /** @return how many objects were made */
  size_t n_made() const { return m_n_made; }

  /** @return how many times an object was used again */
  size_t n_found() const { return m_n_found; }

  /** @return true if this is the object that was found or added last */
  bool is_last(const dict_index_t *index) const { return index == m_last; }

 private:
  /** A description and its object. */
  struct Slot {
    /** Description; empty if there is none. */
    ut::vector<byte> bytes;
    /** Its object. */
    dict_index_t *index{nullptr};
    /** Memory that this takes. */
    size_t n_index_bytes{0};

    /** Free what is there. */
    void clear() {
      if (index != nullptr) {
        free_index(index);
        index = nullptr;
      }
      bytes.clear();
      n_index_bytes = 0;
    }
  };

  /** @return where a description belongs */
  Slot &get_slot(const byte *ptr, size_t n_key_bytes) {
    return m_slots[ut_crc32(ptr, n_key_bytes) % N_SLOTS];
  }

  /** All descriptions. */
  std::array<Slot, N_SLOTS> m_slots;
  /** Memory of all objects. */
  size_t m_n_bytes{0};
  /** Object that was found or added last. */
  dict_index_t *m_last{nullptr};
  /** Objects that were made. */
  size_t m_n_made{0};
  /** How many times an object was used again. */
  size_t m_n_found{0};
};

/** The tables of all threads. */
class Tables {
 public:
  /** Begin. */
  void begin() {
    ut_a(!m_is_on);
    ++m_generation;
    m_is_on = true;
  }

  /** End, and free all objects. */
  void end() {
    std::lock_guard<std::mutex> guard(m_mutex);
    m_is_on = false;
    m_free.clear();
    m_tables.clear();
  }

  /** @return table of this thread, or nullptr if nothing is kept */
  Table *get() {
    if (!m_is_on.load(std::memory_order_relaxed)) {
      return nullptr;
    }

    thread_local Of_thread s_own{*this};

    if (s_own.generation != m_generation) {
      std::lock_guard<std::mutex> guard(m_mutex);
      if (m_free.empty()) {
        m_tables.push_back(ut::make_unique<Table>(UT_NEW_THIS_FILE_PSI_KEY));
        m_free.push_back(m_tables.back().get());
      }
      s_own.table = m_free.back();
      m_free.pop_back();
      s_own.generation = m_generation;
    }

    return s_own.table;
  }

  /** @return sum of what each table counts
  @param[in]  count  returns it */
  size_t sum(size_t (Table::*count)() const) {
    std::lock_guard<std::mutex> guard(m_mutex);
    size_t sum = 0;

    for (const auto &table : m_tables) {
      sum += (*table.*count)();
    }

    return sum;
  }

 private:
  /** The table of a thread. When the thread ends, another one may have it. */
  struct Of_thread {
    explicit Of_thread(Tables &all) : tables(all) {}
    ~Of_thread() {
      std::lock_guard<std::mutex> guard(tables.m_mutex);
      if (tables.m_is_on && generation == tables.m_generation) {
        tables.m_free.push_back(table);
      }
    }

    /** Where it belongs. */
    Tables &tables;
    /** The table, or one that is gone. */
    Table *table{nullptr};
    /** When it was got. */
    uint64_t generation{0};
  };

  /** True if objects are kept. */
  std::atomic<bool> m_is_on{false};
  /** Counts calls of begin(). */
  std::atomic<uint64_t> m_generation{0};
  /** Protects m_tables and m_free. */
  std::mutex m_mutex;
  /** Tables of the threads. */
  ut::vector<ut::unique_ptr<Table>> m_tables;
  /** Those whose threads have ended. */
  ut::vector<Table *> m_free;
};

/** The tables of all threads. */
Tables s_tables;

}  // namespace

Keeper::Keeper(bool is_on) {
  if (is_on) {
    s_tables.begin();
  }
}

Keeper::~Keeper() { s_tables.end(); }

size_t Keeper::n_made() { return s_tables.sum(&Table::n_made); }

size_t Keeper::n_found() { return s_tables.sum(&Table::n_found); }

Lookup::Lookup(const byte *&ptr, const byte *end_ptr, dict_index_t **index)
    : m_ptr(ptr), m_start(ptr), m_index(index) {
  const auto table = s_tables.get();

  if (table == nullptr) {
    return;
  }

  m_n_key_bytes = get_n_key_bytes(ptr, end_ptr);

  if (m_n_key_bytes == 0) {
    return;
  }

  size_t n_bytes;

  if (const auto kept = table->find(ptr, end_ptr, m_n_key_bytes, &n_bytes)) {
    *m_index = kept;
    m_ptr += n_bytes;
    m_found = true;
  }
}

Lookup::~Lookup() {
  if (m_found || m_n_key_bytes == 0 || m_ptr == nullptr) {
    return;
  }

  s_tables.get()->add(m_start, m_n_key_bytes, m_ptr - m_start, *m_index);
}

const byte *skip(const byte *ptr, const byte *end_ptr) {
  const auto n_key_bytes = get_n_key_bytes(ptr, end_ptr);

  if (n_key_bytes == 0) {
    return nullptr;
  }

  const auto end = ptr + n_key_bytes;

  return IS_VERSIONED(ptr[1]) ? skip_versions(end, end_ptr) : end;
}

void release(dict_index_t *&index) {
  const auto table = s_tables.get();

  if (table != nullptr && index != nullptr && table->is_last(index)) {
    index = nullptr;
  }
}

}  // namespace mtr_index
