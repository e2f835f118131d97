/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file include/log0pack.h
Redo records that wait to be applied, packed.

log/log0pack.cc has the design. */

#ifndef log0pack_h
#define log0pack_h

#include <cstddef>
#include <cstdint>
#include <vector>

#include "log0recv.h"
#include "mem0mem.h"
#include "univ.i"

namespace redo_recovery {

/** A redo record, as it is parsed. */
struct Record {
  /** Its type. */
  mlog_id_t type;
  /** Its body. */
  const byte *body;
  /** End of the body. */
  const byte *body_end;
  /** Where the mini-transaction begins that has written it. */
  lsn_t start_lsn;
  /** Where that ends. */
  lsn_t end_lsn;

  /** @return length of the body */
  size_t n_bytes() const { return body_end - body; }
};

/** A page with its redo records. Its rec_list is empty, but for the time in
which Records goes through them. */
class Page : public recv_addr_t {
 public:
  /** Make one.
  @param[in,out]  heap     where it is, and its records will be
  @param[in]      space    tablespace
  @param[in]      page_no  page number
  @return the page, without records */
  static Page *create(mem_heap_t *heap, space_id_t space, page_no_t page_no);

  /** Add a record, which is newer than those before.
  @param[in,out]  heap    heap of the page
  @param[in]      record  record, whose body is copied */
  void add(mem_heap_t *heap, const Record &record);

  /** Have the processor read what add() needs of the page itself. */
  void prefetch() const;

  /** The same for the end of its records, when prefetch() is done. */
  void prefetch_end() const;

  /** @return bytes that the records take, without bodies that are kept apart */
  size_t n_bytes() const { return m_n_bytes; }

 private:
  friend class Records;

  /** Bytes of some records; they follow this. */
  struct Chunk {
    /** The next one, or nullptr. */
    Chunk *next;
    /** Bytes that are used. */
    uint16_t n_used;
    /** Bytes that there are. */
    uint16_t n_bytes;
    /** The first of them. */
    byte first;
  };

  Page() = default;

  /** @return where a number of bytes can be written
  @param[in,out]  heap     heap of the page
  @param[in]      n_bytes  how many are needed at most */
  byte *reserve(mem_heap_t *heap, size_t n_bytes);

  /** First of the chunks, or nullptr. */
  Chunk *m_first;
  /** Last of them. */
  Chunk *m_last;
  /** Mini-transaction of the last record. */
  lsn_t m_start_lsn;
  /** Its length, or less if that is too long: then it is written again. */
  uint32_t m_n_mtr_bytes;
  /** Bytes of all chunks. */
  uint32_t m_n_bytes;
};

/** Lives while somebody goes through the records of a page, by its rec_list:
that has two of them at a time. With innodb_redo_recovery=STOCK it has all of
them anyway, and this does nothing. */
class Records {
 public:
  /** Put the first record into the list.
  @param[in,out]  page  page, which nobody else looks at */
  explicit Records(recv_addr_t *page);
  /** Empty the list. */
  ~Records();

  Records(const Records &) = delete;
  Records &operator=(const Records &) = delete;

  /** The caller looks at the last record of the list: let the next one follow
  it. What it looked at before is not there any more. */
  void follow();

 private:
  /** Read a record.
  @param[out]  record  record
  @return false if there is none */
  bool read(recv_t &record);

  /** The page, or nullptr if there is nothing to do. */
  Page *m_page;
  /** True if follow() was called. */
  bool m_is_applied{false};
  /** Where the next record is. */
  Page::Chunk *m_chunk{nullptr};
  /** Where it begins there. */
  size_t m_at{0};
  /** Mini-transaction of the record that was read last. */
  lsn_t m_start_lsn{0};
  /** Where that ends. */
  lsn_t m_end_lsn{0};
  /** Those in the list; its length stays at one. */
  recv_t m_records[2];
  /** The last one of the list. */
  recv_t *m_current{m_records};
};

/** @return true if this thread goes through the records of a page in an undo
tablespace, which was active when it began
@param[in]  space_id  tablespace */
[[nodiscard]] bool is_active_undo(space_id_t space_id);

/** A record that is to be added to its page. */
struct To_add {
  /** Records of its tablespace. */
  recv_sys_t::Space *space;
  /** Tablespace. */
  space_id_t space_id;
  /** Page number. */
  page_no_t page_no;
  /** The record; its body stays where it is until Adder::finish(). */
  Record record;
};

/** Adds records to their pages, many at a time. To find the page of a record,
and the end of its records, are four reads of memory, each of which depends on
the one before, and none is in a cache. Here they are made side by side, for all
records that wait.

Between add() and finish() nobody may look at the pages, their number, or the
memory that records take. */
class Adder {
 public:
  /** keep() uses it from now on. */
  Adder();
  /** Adds all records that wait. */
  ~Adder();

  Adder(const Adder &) = delete;
  Adder &operator=(const Adder &) = delete;

  /** Add a record, now or later.
  @param[in]  record  record */
  void add(const To_add &record);

  /** Add all records that wait. */
  void finish();

  /** @return true if the tablespace is that of the last record since finish(),
  and redo has removed none since
  @param[in]  space_id  tablespace */
  bool was_last(space_id_t space_id) const {
    return !m_waiting.empty() && m_waiting.back().space_id == space_id &&
           m_n_deleted == recv_sys->deleted.size();
  }

 private:
  /** Records that wait at most. */
  static constexpr size_t GROUP = 256;

  /** Pages that are remembered; a power of two. */
  static constexpr size_t N_PAGES = 65536;

  /** @return where a page may be remembered
  @param[in]  space_id  tablespace
  @param[in]  page_no   page number */
  static size_t slot_of(space_id_t space_id, page_no_t page_no) {
    return (page_no + space_id * 7919) % N_PAGES;
  }

  /** @return the page of a record, which is made if there is none
  @param[in]  record  record
  @param[in]  slot    where it may be remembered */
  Page *find(const To_add &record, size_t slot);

  /** Records that wait. */
  std::vector<To_add> m_waiting;
  /** Tablespaces that redo had removed when the last one came. */
  size_t m_n_deleted{0};
  /** Pages of this batch, each in its slot, as far as they have room there. */
  std::vector<Page *> m_pages;
};

/** Keep a record until it is applied.
@param[in,out]  space     records of its tablespace
@param[in]      space_id  tablespace
@param[in]      page_no   page number
@param[in]      record    record
@return false if innodb_redo_recovery is STOCK, and nothing was done. Otherwise
the body stays in use until finish_keeping() */
bool keep(recv_sys_t::Space &space, space_id_t space_id, page_no_t page_no,
          const Record &record);

/** Put all records where they are kept. */
void finish_keeping();

}  // namespace redo_recovery

#endif /* log0pack_h */
