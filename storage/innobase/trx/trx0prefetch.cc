/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file trx/trx0prefetch.cc
Read the pages of rows ahead of the rollback of a transaction that recovery
found.

Why. A rollback takes one undo record after the other, and waits for one read
whenever the page of its row is not in the buffer pool. After a crash none is,
so the volume serves one read at a time, whatever it could do.

How. The undo log names the rows. A Walk goes through it ahead of the rollback,
and a Leaf_finder finds the page of each row's key in the clustered index: it
goes down the tree to the level above the leaf pages, whose pages are few and
soon in the buffer pool, and does not touch the leaf page itself. The pages that
are not in the buffer pool are sorted, so that those which lie side by side are
one read, and are read by some threads (buf_run::Readers). When half of the
records of a look ahead are rolled back, the next one is due (Pace); later if
nearly all pages were in the buffer pool.

What a look may ask for is a thirty-second of the buffer pool, so pages that
were read ahead do not push out each other before they are used.

Several rollbacks at a time share that. Only the rollback of what recovery found
does this.
Its transactions hold metadata locks on their tables, so none of these is
dropped or altered meanwhile. Those with DDL are rolled back before, when there
are no metadata locks yet, and without this.

Nothing depends on the pages being read. A leaf page may be split or freed
between the look and the read: then the wrong page is read, as by any
read-ahead, and the rollback reads the right one by itself. Read errors and
corruption are met there, too: a page that is not good is dropped without a word
(buf/buf0run.cc).

Latches. Pages of the undo log are latched while their records are copied, and
no index or other page at the same time; a look goes down a tree as a search
does that does not change it, and waits for no page but those above the leaves.

What is not read ahead: secondary indexes, as the undo log has no keys of theirs
that could be used without the row; tables with ROW_FORMAT=COMPRESSED, the
system tablespace, and tablespaces of several files, which buf_run does not
read. */

#include "trx0prefetch.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "btr0btr.h"
#include "buf0buf.h"
#include "buf0run.h"
#include "dict0dd.h"
#include "dict0dict.h"
#include "fil0fil.h"
#include "fut0lst.h"
#include "mtr0mtr.h"
#include "page0cur.h"
#include "rem0rec.h"
#include "scope_guard.h"
#include "srv0srv.h"
#include "trx0ahead.h"
#include "trx0rec.h"
#include "trx0rollers.h"
#include "trx0trx.h"
#include "trx0undo.h"
#include "ut0log.h"

namespace rollback_prefetch {

bool g_enabled = false;
Status g_status;

namespace {

/** Scope of the rollback of this thread. */
thread_local Scope *s_scope = nullptr;

/** @return rollbacks that may go on at the same time */
size_t n_rollbacks() {
  return std::max<size_t>(1, rollback_threads::g_status.used);
}

/** @return page to which a node pointer leads that a key belongs to
@param[in]  block  page above the leaf level, latched
@param[in]  index  index
@param[in]  key    key */
page_no_t child_of(const buf_block_t *block, dict_index_t *index,
                   const dtuple_t *key) {
  page_cur_t cursor;

  page_cur_search(block, index, key, PAGE_CUR_LE, &cursor);

  if (page_rec_is_infimum(page_cur_get_rec(&cursor))) {
    page_cur_move_to_next(&cursor);
  }

  Rec_offsets offsets;
  const auto rec = page_cur_get_rec(&cursor);

  return btr_node_ptr_get_child_page_no(rec, offsets.compute(rec, index));
}

/** @return leaf page of an index that a key belongs to; FIL_NULL if the root is
the only page
@param[in]  index  index
@param[in]  key    key */
page_no_t leaf_of(dict_index_t *index, const dtuple_t *key) {
  const auto page_size = dict_table_page_size(index->table);
  mtr_t mtr;

  mtr.start();
  const auto guard = create_scope_guard([&mtr]() { mtr.commit(); });

  mtr_s_lock(dict_index_get_lock(index), &mtr, UT_LOCATION_HERE);

  for (auto page_no = index->page;;) {
    const auto block =
        btr_block_get(page_id_t{index->space, page_no}, page_size, RW_S_LATCH,
                      UT_LOCATION_HERE, index, &mtr);
    const auto level = btr_page_get_level(buf_block_get_frame(block));

    if (level == 0) {
      return FIL_NULL;
    }

    page_no = child_of(block, index, key);

    if (level == 1) {
      return page_no;
    }
  }
}

}  // namespace

void Pace::looked(undo_no_t undo_no, undo_no_t low, size_t n_pages,
                  size_t n_missing) {
  m_low = low;

  if (n_missing * 16 > n_pages) {
    m_pause = 0;
    m_next = low + (undo_no - low) / 2;
    return;
  }

  m_pause = std::min(m_pause * 2 + 1, MAX_PAUSE);
  m_next = back(low, (m_pause - 1) * (undo_no - low));
}

Walk::Walk(const trx_undo_t *undo)
    : m_heap(mem_heap_create(UNIV_PAGE_SIZE, UT_LOCATION_HERE)) {
  if (undo == nullptr || undo->empty) {
    return;
  }

  m_space_id = undo->space;
  m_page_size.copy_from(undo->page_size);
  m_hdr_page_no = undo->hdr_page_no;
  m_hdr_offset = undo->hdr_offset;
  m_page_no = undo->top_page_no;
  m_offset = undo->top_offset;
  m_undo_no = undo->top_undo_no;
}

undo_no_t Walk::undo_no() const {
  return m_records.empty() ? m_undo_no
                           : trx_undo_rec_get_undo_no(m_records.front());
}

trx_undo_rec_t *Walk::take() {
  if (m_records.empty()) {
    load();
  }

  const auto rec = m_records.front();
  m_records.pop_front();

  return rec;
}

void Walk::load() {
  mtr_t mtr;

  ut_ad(m_page_no != FIL_NULL);
  mem_heap_empty(m_heap.get());
  mtr.start();

  const auto page =
      trx_undo_page_get_s_latched({m_space_id, m_page_no}, m_page_size, &mtr);
  auto rec = page + m_offset;

  for (;;) {
    m_records.push_back(trx_undo_rec_copy(
        page, static_cast<uint32_t>(page_offset(rec)), m_heap.get()));

    const auto prev =
        trx_undo_page_get_prev_rec(rec, m_hdr_page_no, m_hdr_offset);
    if (prev == nullptr) {
      break;
    }
    rec = prev;
  }

  m_page_no = FIL_NULL;

  if (const auto prev =
          trx_undo_get_prev_rec(rec, m_hdr_page_no, m_hdr_offset, true, &mtr)) {
    m_page_no = page_get_page_no(page_align(prev));
    m_offset = page_offset(prev);
    m_undo_no = trx_undo_rec_get_undo_no(prev);
  }

  mtr.commit();
}

Leaf_finder::~Leaf_finder() {
  for (const auto &[id, table] : m_tables) {
    if (table != nullptr) {
      dd_table_close(table, nullptr, nullptr, false);
    }
  }
}

dict_index_t *Leaf_finder::index_of(table_id_t table_id) {
  const auto [found, is_new] = m_tables.emplace(table_id, nullptr);

  if (is_new) {
    found->second =
        dd_table_open_on_id(table_id, nullptr, nullptr, false, true);
  }

  const auto table = found->second;

  if (table == nullptr || table->ibd_file_missing || table->is_corrupted() ||
      table->is_temporary() || dict_table_is_discarded(table) ||
      dict_table_page_size(table).is_compressed()) {
    return nullptr;
  }

  const auto index = table->first_index();

  return index == nullptr || index->page == FIL_NULL || index->is_corrupted()
             ? nullptr
             : index;
}

std::optional<page_id_t> Leaf_finder::find(trx_undo_rec_t *rec,
                                           mem_heap_t *heap) {
  ulint type;
  ulint cmpl_info;
  bool updated_extern;
  undo_no_t undo_no;
  table_id_t table_id;
  type_cmpl_t type_cmpl;

  auto ptr = trx_undo_rec_get_pars(rec, &type, &cmpl_info, &updated_extern,
                                   &undo_no, &table_id, type_cmpl);
  const auto index = index_of(table_id);

  if (index == nullptr) {
    return {};
  }

  if (type != TRX_UNDO_INSERT_REC) {
    trx_id_t trx_id;
    roll_ptr_t roll_ptr;
    ulint info_bits;

    ptr = trx_undo_update_rec_get_sys_cols(ptr, &trx_id, &roll_ptr, &info_bits);
  }

  dtuple_t *key;
  trx_undo_rec_get_row_ref(ptr, index, &key, heap);

  const auto page_no = leaf_of(index, key);

  if (page_no == FIL_NULL) {
    return {};
  }

  return page_id_t{index->space, page_no};
}

Scope::Scope(trx_t *trx) : m_trx(trx), m_trx_id(trx_get_id_for_print(trx)) {
  ut_ad(s_scope == nullptr);

  if (!trx->ddl_operation && trx->undo_no >= LEAST_RECORDS) {
    s_scope = this;
    if (g_enabled) {
      rollback_threads::wait_for_server();
    }
  }
}

Scope::~Scope() { s_scope = nullptr; }

void Scope::end() {
  s_scope = nullptr;
  m_readers.end();

  if (m_readers.n_pages() == 0) {
    return;
  }

  g_status.pages += m_readers.n_pages();
  g_status.reads += m_readers.n_reads();

  ib::info(ER_IB_MSG_1187) << "Rollback of trx with id " << m_trx_id
                           << ": read " << m_readers.n_pages()
                           << " pages ahead with " << m_readers.n_reads()
                           << " reads";
}

void Scope::start_walks() {
  m_walks.clear();
  mutex_enter(&m_trx->undo_mutex);

  for (const auto undo :
       {m_trx->rsegs.m_redo.insert_undo, m_trx->rsegs.m_redo.update_undo}) {
    m_walks.emplace_back(undo);
  }

  mutex_exit(&m_trx->undo_mutex);
}

void Scope::step() {
  if (m_pace.is_due(m_trx->undo_no)) {
    look_ahead();
  }
}

void Scope::read_pages() {
  std::sort(m_pages.begin(), m_pages.end());
  m_pages.erase(std::unique(m_pages.begin(), m_pages.end()), m_pages.end());
  m_n_pages += m_pages.size();

  m_pages.erase(std::remove_if(m_pages.begin(), m_pages.end(), buf_page_peek),
                m_pages.end());
  m_n_missing += m_pages.size();

  m_readers.submit(
      buf_run::make_runs(std::move(m_pages), buf_run::most_pages()));
  m_pages.clear();
}

void Scope::look_ahead() {
  const auto max_pages = pages_limit(buf_pool_get_n_pages() / n_rollbacks());

  if (!g_enabled || max_pages == 0 || srv_force_recovery > 0) {
    m_pace.skip(m_trx->undo_no);
    return;
  }

  if (m_walks.empty() || m_pace.is_behind(m_trx->undo_no)) {
    start_walks();
  }

  const undo_read_ahead::Scope undo_reads;
  const std::unique_ptr<mem_heap_t, decltype(&mem_heap_free)> heap{
      mem_heap_create(1024, UT_LOCATION_HERE), mem_heap_free};
  Leaf_finder finder;
  undo_no_t low = 0;

  m_n_pages = m_n_missing = 0;

  for (undo_no_t n_records = 0;; ++n_records) {
    /* The one whose record is rolled back first. */
    const auto walk = std::max_element(
        m_walks.begin(), m_walks.end(), [](const Walk &one, const Walk &other) {
          return !other.is_over() &&
                 (one.is_over() || one.undo_no() < other.undo_no());
        });

    if (walk->is_over()) {
      break;
    }

    if (n_records >= MAX_RECORDS || m_n_pages + m_pages.size() >= max_pages) {
      low = walk->undo_no();
      break;
    }

    mem_heap_empty(heap.get());

    const auto page = finder.find(walk->take(), heap.get());

    if (page && (m_pages.empty() || m_pages.back() != *page)) {
      m_pages.push_back(*page);
    }

    if (m_pages.size() >= PAGES_AT_A_TIME) {
      read_pages();
    }
  }

  read_pages();
  m_pace.looked(m_trx->undo_no, low, m_n_pages, m_n_missing);
}

void step() {
  if (s_scope != nullptr) {
    s_scope->step();
  }
}

}  // namespace rollback_prefetch
