/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file log/log0pack.cc
Redo records that wait to be applied, packed.

Records are parsed until they fill the memory that there is for them, and then
they are applied: a batch. Pages that change in several batches are read and
written once for each. MySQL needs 64 bytes for a record beside its body, in
three allocations; most bodies are smaller. Here the records of a page lie one
behind the other, in chunks of the same heap:

  type           1 byte; SAME is set if the record before is of the same
                 mini-transaction, and then there are no LSNs
  start LSN      the difference to that of the record before
  end LSN        the difference to the start LSN
  length         of the body
  body           or, if it is longer than INLINE, a pointer to blocks as MySQL
                 has them

Numbers have seven bits in each byte, the lowest first, and the highest bit in
all but the last byte. Chunks grow with what a page has, by whole records of the
size of the first one in it, so that few bytes are not used.

Records are put there many at a time: see Adder.

What applies the records goes through a list of recv_t. It gets one of two
elements, which are filled in turns: the element that is looked at, and the one
that follows. A body is not copied: it is where it was packed. */

#include "log0pack.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>  // IWYU pragma: keep
#include <utility>

#include "fil0fil.h"
#include "fsp0fsp.h"
#include "log0apply.h"
#include "log0redo.h"
#include "my_dbug.h"
#include "trx0purge.h"

namespace redo_recovery {

namespace {

/** A record has the LSNs of the one before. Redo itself uses this bit of the
type, for something that does not concern the record. */
constexpr byte SAME = MLOG_SINGLE_REC_FLAG;

/** In each byte of a number but the last. */
constexpr byte MORE = 0x80;

/** Longer bodies are kept apart, as MySQL does. */
constexpr size_t INLINE = 1024;

/** Bytes of a chunk that are left for further records at most. The largest
chunk fits into a block of the heap with pages of 4 KiB. */
constexpr size_t MOST_FREE = 1000;

/** Bytes of a number at most. */
constexpr size_t MAX_NUMBER = 10;

/** Write a number.
@param[in,out]  to      where to; moved behind it
@param[in]      number  number */
void put(byte *&to, uint64_t number) {
  for (; number >= MORE; number >>= 7) {
    *to++ = static_cast<byte>(number) | MORE;
  }
  *to++ = static_cast<byte>(number);
}

/** Read a number.
@param[in,out]  from  where from; moved behind it
@return the number */
uint64_t get(const byte *&from) {
  uint64_t number = 0;

  for (unsigned shift = 0;; shift += 7) {
    const uint64_t bits = *from++;
    number |= (bits & (MORE - 1)) << shift;
    if (bits < MORE) {
      return number;
    }
  }
}

/** Put a body into blocks.
@param[in,out]  heap    heap
@param[in]      record  record
@return the first block */
recv_data_t *keep_apart(mem_heap_t *heap, const Record &record) {
  /* What MySQL takes from one block when it puts the body together. */
  const size_t n_block = MEM_MAX_ALLOC_IN_BUF - sizeof(recv_data_t);
  recv_data_t *first = nullptr;
  auto place = &first;
  auto from = record.body;

  for (auto n_left = record.n_bytes(); n_left > 0;) {
    const auto n = std::min(n_left, n_block);
    const auto block = static_cast<recv_data_t *>(
        mem_heap_alloc(heap, sizeof(recv_data_t) + n));

    block->next = nullptr;
    memcpy(block + 1, from, n);
    *place = block;
    place = &block->next;
    from += n;
    n_left -= n;
  }

  return first;
}

/** @return true for one record, the last of a page: an insert into a table
@param[in]  space   tablespace
@param[in]  record  last record of a page */
[[maybe_unused]] bool is_to_be_repeated(space_id_t space,
                                        const recv_t &record) {
  static std::atomic<bool> was_one{false};

  return record.type == MLOG_REC_INSERT && !fsp_is_dd_tablespace(space) &&
         !fsp_is_system_or_temp_tablespace(space) &&
         !fsp_is_shared_tablespace(fil_space_get_flags(space)) &&
         !was_one.exchange(true);
}

/** Undo tablespace whose page this thread goes through, if it is active. Which
ones are does not change while redo is applied. */
thread_local space_id_t s_active_undo = SPACE_UNKNOWN;

/** Exists while redo is parsed. */
Adder *s_adder = nullptr;

/** Have the processor read a line of memory.
@param[in]  address  address, which need not be one */
void prefetch_line([[maybe_unused]] const void *address) {
#ifdef __GNUC__
  __builtin_prefetch(address);
#endif /* __GNUC__ */
}

/** @return the page of a record, which is made if there is none
@param[in]  record  record */
Page *find_or_create(const To_add &record) {
  auto &page = record.space->m_pages[record.page_no];

  if (page == nullptr) {
    page = Page::create(record.space->m_heap, record.space_id, record.page_no);
    recv_sys->n_pages_to_recover.increment();
    note_page({record.space_id, record.page_no});
  }

  return static_cast<Page *>(page);
}

}  // namespace

Page *Page::create(mem_heap_t *heap, space_id_t space, page_no_t page_no) {
  const auto page = new (mem_heap_alloc(heap, sizeof(Page))) Page();

  page->state = RECV_NOT_PROCESSED;
  page->space = space;
  page->page_no = page_no;
  page->m_first = page->m_last = nullptr;
  page->m_n_bytes = 0;
  page->m_start_lsn = 0;
  page->m_n_mtr_bytes = 0;

  return page;
}

byte *Page::reserve(mem_heap_t *heap, size_t n_bytes) {
  if (m_last == nullptr || m_last->n_used + n_bytes > m_last->n_bytes) {
    /* As many more of the same size as a tenth of the bytes so far. */
    const auto n_free = std::min<size_t>(m_n_bytes / 10, MOST_FREE);
    const auto n = n_bytes + n_free / n_bytes * n_bytes;
    const auto chunk =
        static_cast<Chunk *>(mem_heap_alloc(heap, offsetof(Chunk, first) + n));

    chunk->next = nullptr;
    chunk->n_used = 0;
    chunk->n_bytes = n;
    (m_last == nullptr ? m_first : m_last->next) = chunk;
    m_last = chunk;
    m_n_bytes += n;
  }

  return &m_last->first + m_last->n_used;
}

void Page::add(mem_heap_t *heap, const Record &record) {
  ut_ad(m_start_lsn <= record.start_lsn);
  ut_ad(record.start_lsn <= record.end_lsn);

  const auto n_mtr_bytes = record.end_lsn - record.start_lsn;
  const bool is_same = m_first != nullptr && record.start_lsn == m_start_lsn &&
                       n_mtr_bytes == m_n_mtr_bytes;

  byte head[1 + 3 * MAX_NUMBER];
  auto end = head;

  *end++ = record.type | (is_same ? SAME : 0);
  if (!is_same) {
    put(end, record.start_lsn - m_start_lsn);
    put(end, n_mtr_bytes);
    m_start_lsn = record.start_lsn;
    m_n_mtr_bytes = n_mtr_bytes;
  }
  put(end, record.n_bytes());

  const size_t n_head = end - head;
  const bool is_inline = record.n_bytes() <= INLINE;
  const recv_data_t *apart = is_inline ? nullptr : keep_apart(heap, record);
  const size_t n_body = is_inline ? record.n_bytes() : sizeof(apart);
  const auto to = reserve(heap, n_head + n_body);

  memcpy(to, head, n_head);
  if (n_body > 0) {
    memcpy(to + n_head,
           is_inline ? record.body : reinterpret_cast<const byte *>(&apart),
           n_body);
  }
  m_last->n_used += n_head + n_body;
}

void Page::prefetch() const {
  prefetch_line(this);
  prefetch_line(&m_n_bytes);
}

void Page::prefetch_end() const {
  if (m_last != nullptr) {
    prefetch_line(m_last);
    /* Most chunks that are not full are longer than a line. */
    prefetch_line(&m_last->first + 48);
  }
}

Records::Records(recv_addr_t *page)
    : m_page(is_on() ? static_cast<Page *>(page) : nullptr) {
  if (m_page == nullptr) {
    return;
  }

  m_chunk = m_page->m_first;
  if (read(*m_current)) {
    UT_LIST_ADD_LAST(m_page->rec_list, m_current);
  }
}

Records::~Records() {
  s_active_undo = SPACE_UNKNOWN;

  if (m_page != nullptr) {
    m_page->rec_list.clear();
  }
}

void Records::follow() {
  if (m_page == nullptr) {
    return;
  }

  if (!std::exchange(m_is_applied, true) &&
      fsp_is_undo_tablespace(m_page->space) && undo::is_active(m_page->space)) {
    s_active_undo = m_page->space;
  }

  auto next = m_current == &m_records[0] ? &m_records[1] : &m_records[0];
  bool has_next = read(*next);

  /* What a test of recovery has to find. */
  DBUG_EXECUTE_IF(
      "redo_recovery_skip_record",
      if (has_next && next->type == MLOG_REC_UPDATE_IN_PLACE) {
        has_next = read(*next);
      });
  DBUG_EXECUTE_IF(
      "redo_recovery_repeat_record",
      if (!has_next && is_to_be_repeated(m_page->space, *m_current)) {
        *next = *m_current;
        has_next = true;
      });

  if (has_next) {
    m_current->rec_list.next = next;
    m_current = next;
  }
}

bool Records::read(recv_t &record) {
  if (m_chunk != nullptr && m_at == m_chunk->n_used) {
    m_chunk = m_chunk->next;
    m_at = 0;
  }

  if (m_chunk == nullptr) {
    return false;
  }

  if (m_at == 0) {
    prefetch_line(m_chunk->next);
  }

  const byte *from = &m_chunk->first + m_at;
  const auto type = *from++;

  if ((type & SAME) == 0) {
    m_start_lsn += get(from);
    m_end_lsn = m_start_lsn + get(from);
  }

  record.type = static_cast<mlog_id_t>(type & ~SAME);
  record.len = get(from);
  record.start_lsn = m_start_lsn;
  record.end_lsn = m_end_lsn;
  record.rec_list.prev = record.rec_list.next = nullptr;

  if (record.len > INLINE) {
    memcpy(&record.data, from, sizeof(record.data));
    from += sizeof(record.data);
  } else if (record.len > 0) {
    /* Nobody looks at the block itself, if there is but one. */
    record.data = reinterpret_cast<recv_data_t *>(const_cast<byte *>(from) -
                                                  sizeof(recv_data_t));
    from += record.len;
  } else {
    record.data = nullptr;
  }

  m_at = from - &m_chunk->first;

  return true;
}

bool is_active_undo(space_id_t space_id) {
  return space_id == s_active_undo && space_id != SPACE_UNKNOWN;
}

Adder::Adder() : m_pages(N_PAGES, nullptr) {
  ut_ad(s_adder == nullptr);
  m_waiting.reserve(GROUP);
  s_adder = this;
}

Adder::~Adder() {
  finish();
  s_adder = nullptr;
}

Page *Adder::find(const To_add &record, size_t slot) {
  auto &page = m_pages[slot];

  if (page == nullptr || page->space != record.space_id ||
      page->page_no != record.page_no) {
    page = find_or_create(record);
  }

  return page;
}

void Adder::add(const To_add &record) {
  prefetch_line(&m_pages[slot_of(record.space_id, record.page_no)]);
  m_waiting.push_back(record);
  m_n_deleted = recv_sys->deleted.size();
  if (m_waiting.size() == GROUP) {
    finish();
  }
}

void Adder::finish() {
  if (m_waiting.empty()) {
    return;
  }

  if (recv_sys->n_pages_to_recover.value() == 0) {
    /* Another batch: those of the one before are gone. */
    std::fill(m_pages.begin(), m_pages.end(), nullptr);
  }

  const auto slot_at = [this](size_t i) {
    return slot_of(m_waiting[i].space_id, m_waiting[i].page_no);
  };

  for (size_t i = 0; i < m_waiting.size(); ++i) {
    if (const auto page = m_pages[slot_at(i)]) {
      page->prefetch();
    }
  }
  for (size_t i = 0; i < m_waiting.size(); ++i) {
    if (const auto page = m_pages[slot_at(i)]) {
      page->prefetch_end();
    }
  }
  for (size_t i = 0; i < m_waiting.size(); ++i) {
    const auto &record = m_waiting[i];
    find(record, slot_at(i))->add(record.space->m_heap, record.record);
  }
  m_waiting.clear();
}

bool keep(recv_sys_t::Space &space, space_id_t space_id, page_no_t page_no,
          const Record &record) {
  if (!is_on()) {
    return false;
  }

  const To_add to_add{&space, space_id, page_no, record};

  if (s_adder != nullptr) {
    s_adder->add(to_add);
    /* With this switch what was parsed is moved before finish_keeping(). */
    DBUG_EXECUTE_IF("innodb_recover_byte_by_byte", s_adder->finish(););
  } else {
    find_or_create(to_add)->add(space.m_heap, record);
  }

  return true;
}

void finish_keeping() {
  if (s_adder != nullptr) {
    s_adder->finish();
  }
}

bool is_known(space_id_t space_id) {
  return s_adder != nullptr && s_adder->was_last(space_id);
}

}  // namespace redo_recovery
