/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** Unit tests of log0pack: records of redo that are packed come out as they
went in, also many at a time, and need little more than their bytes. */

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "storage/innobase/include/log0apply.h"
#include "storage/innobase/include/log0pack.h"
#include "storage/innobase/include/log0redo.h"
#include "storage/innobase/include/mem0mem.h"
#include "storage/innobase/include/os0event.h"
#include "storage/innobase/include/srv0srv.h"
#include "storage/innobase/include/sync0debug.h"

namespace innodb_log0pack_unittest {

using redo_recovery::Page;
using redo_recovery::Record;
using redo_recovery::Records;
using redo_recovery::Way;

/** A record with its own body. */
struct Written {
  mlog_id_t type;
  std::vector<byte> body;
  lsn_t start_lsn;
  lsn_t end_lsn;
};

class log0pack : public ::testing::Test {
 protected:
  log0pack() {
    os_event_global_init();
    srv_page_size = UNIV_PAGE_SIZE_ORIG;
    srv_max_n_threads = 1 + srv_sync_array_size;
    sync_check_init(srv_max_n_threads);
  }

  ~log0pack() override {
    sync_check_close();
    os_event_global_destroy();
  }

  void SetUp() override {
    redo_recovery::g_way = static_cast<ulong>(Way::PARALLEL);
    m_heap = mem_heap_create(256, UT_LOCATION_HERE);
    m_page = Page::create(m_heap, 7, 3);
  }

  void TearDown() override {
    mem_heap_free(m_heap);
    redo_recovery::g_way = static_cast<ulong>(Way::STOCK);
  }

  /** Add a record to the page, and remember it. */
  void add(size_t n_bytes, lsn_t start_lsn, lsn_t end_lsn,
           mlog_id_t type = MLOG_WRITE_STRING) {
    Written record{type, {}, start_lsn, end_lsn};

    for (size_t i = 0; i < n_bytes; ++i) {
      record.body.push_back(static_cast<byte>(m_random()));
    }
    m_page->add(m_heap, {type, record.body.data(), record.body.data() + n_bytes,
                         start_lsn, end_lsn});
    m_written.push_back(record);
  }

  /** @return body of a record, as recovery puts it together */
  static std::vector<byte> body_of(const recv_t &record) {
    const size_t n_block = MEM_MAX_ALLOC_IN_BUF - sizeof(recv_data_t);
    std::vector<byte> body;
    auto block = record.data;

    if (record.len == 0) {
      EXPECT_EQ(nullptr, block);
      return body;
    }

    for (auto n_left = record.len; n_left > 0;) {
      const auto n = std::min<size_t>(n_left, n_block);
      const auto from = reinterpret_cast<const byte *>(block) + sizeof(*block);

      body.insert(body.end(), from, from + n);
      n_left -= n;
      if (n_left > 0) {
        block = block->next;
      }
    }
    return body;
  }

  /** Go through the records of the page as recovery does. */
  void check() {
    size_t n = 0;
    {
      Records records{m_page};

      for (auto record : m_page->rec_list) {
        records.follow();
        ASSERT_LT(n, m_written.size());
        const auto &written = m_written[n++];
        EXPECT_EQ(written.type, record->type);
        EXPECT_EQ(written.start_lsn, record->start_lsn);
        EXPECT_EQ(written.end_lsn, record->end_lsn);
        ASSERT_EQ(written.body.size(), record->len);
        EXPECT_EQ(written.body, body_of(*record)) << "record " << n;
      }
    }
    EXPECT_EQ(m_written.size(), n);
    EXPECT_EQ(nullptr, UT_LIST_GET_FIRST(m_page->rec_list));
  }

  mem_heap_t *m_heap{nullptr};
  Page *m_page{nullptr};
  std::vector<Written> m_written;
  std::mt19937 m_random{1};
};

TEST_F(log0pack, a_page_is_as_it_is_made) {
  EXPECT_EQ(7U, m_page->space);
  EXPECT_EQ(3U, m_page->page_no);
  EXPECT_EQ(RECV_NOT_PROCESSED, m_page->state);
  check();
}

TEST_F(log0pack, one_record) {
  add(5, 8204, 8300);
  check();
}

TEST_F(log0pack, records_can_be_gone_through_again) {
  add(5, 8204, 8300);
  add(6, 8300, 8400);
  check();
  check();
}

TEST_F(log0pack, the_first_one_alone) {
  add(0, 8204, 8300, MLOG_INIT_FILE_PAGE2);
  add(6, 8300, 8400);
  {
    const Records records{m_page};
    const auto first = UT_LIST_GET_FIRST(m_page->rec_list);
    ASSERT_NE(nullptr, first);
    EXPECT_EQ(MLOG_INIT_FILE_PAGE2, first->type);
  }
  check();
}

TEST_F(log0pack, no_body) {
  for (int i = 0; i < 100; ++i) {
    add(0, 9000 + i / 3, 9100 + i / 3, MLOG_COMP_PAGE_CREATE);
  }
  check();
}

TEST_F(log0pack, every_length_at_the_borders) {
  const size_t block = MEM_MAX_ALLOC_IN_BUF - sizeof(recv_data_t);
  lsn_t lsn = 8204;

  for (const auto around : {size_t{127}, size_t{1024}, size_t{16383}, block,
                            2 * block, 5 * block}) {
    for (auto n = around - 2; n <= around + 2; ++n) {
      add(n, lsn, lsn + n);
      lsn += n;
    }
  }
  check();
}

TEST_F(log0pack, every_type) {
  for (int type = 1; type < MLOG_SINGLE_REC_FLAG; ++type) {
    add(3, 8204 + type / 2, 8300 + type / 2, static_cast<mlog_id_t>(type));
  }
  check();
}

TEST_F(log0pack, far_apart) {
  for (const lsn_t lsn :
       {lsn_t{1}, lsn_t{127}, lsn_t{128}, lsn_t{1} << 32, lsn_t{1} << 62}) {
    add(9, lsn, lsn);
    add(9, lsn, lsn + (lsn_t{1} << 40));
  }
  check();
}

/* The end of a mini-transaction belongs to what is the same. */
TEST_F(log0pack, the_same_start_and_another_end) {
  add(4, 8204, 8300);
  add(4, 8204, 8300);
  add(4, 8204, 8301);
  add(4, 8204, 8301);
  check();
}

TEST_F(log0pack, at_random) {
  for (int round = 0; round < 200; ++round) {
    m_written.clear();
    m_page = Page::create(m_heap, 7, round);
    lsn_t lsn = m_random();
    const auto n_records = m_random() % 300;

    for (unsigned i = 0; i < n_records; ++i) {
      if (m_random() % 3 > 0) {
        lsn += m_random() % (1 << (m_random() % 20));
      }
      const auto n_bytes =
          m_random() % 50 == 0 ? m_random() % 40000 : m_random() % 200;
      add(n_bytes, lsn, lsn + n_bytes,
          static_cast<mlog_id_t>(1 + m_random() % 76));
    }
    check();
  }
}

/* Each record is added once, to its page, in the order in which they come; what
was given may be overwritten after finish_keeping(). */
TEST_F(log0pack, records_are_added_together) {
  const auto memory = std::make_unique<recv_sys_t>();
  recv_sys = memory.get();
  {
    redo_recovery::Adder adder;
    lsn_t lsn = 1000;

    /* Each round is a batch; the pages of the one before are gone. */
    for (int round = 0; round < 20; ++round) {
      const auto heap = mem_heap_create(256, UT_LOCATION_HERE);
      recv_sys_t::Space space{heap};
      std::map<page_no_t, std::vector<Written>> written;
      std::vector<byte> bodies(1 << 20);
      size_t n_records = 0;

      for (int part = 0; part < 50; ++part) {
        size_t at = 0;

        for (auto n = m_random() % 2000; n > 0; --n) {
          /* Some of them share a slot. */
          const page_no_t page_no = m_random() % 290 + m_random() % 2 * 65536;
          const auto n_bytes = m_random() % 100;
          const auto body = &bodies[at];

          for (size_t i = 0; i < n_bytes; ++i) {
            bodies[at++] = static_cast<byte>(m_random());
          }
          written[page_no].push_back(
              {MLOG_WRITE_STRING, {body, body + n_bytes}, lsn, lsn + n_bytes});
          EXPECT_TRUE(redo_recovery::keep(
              space, 7, page_no,
              {MLOG_WRITE_STRING, body, body + n_bytes, lsn, lsn + n_bytes}));
          lsn += n_bytes;
          ++n_records;
        }
        redo_recovery::finish_keeping();
        std::fill(bodies.begin(), bodies.end(), 0xee);
      }
      ASSERT_LT(10000u, n_records);
      ASSERT_EQ(580u, written.size());
      ASSERT_EQ(580u, space.m_pages.size());
      EXPECT_EQ(580u, recv_sys->n_pages_to_recover.value());
      for (const auto &page : space.m_pages) {
        m_page = static_cast<Page *>(page.second);
        m_written = written[page.first];
        check();
        recv_sys->n_pages_to_recover.decrement();
      }
      mem_heap_free(heap);
    }
  }
  recv_sys = nullptr;
}

/* What was found out about a tablespace holds for its records in a row. */
TEST_F(log0pack, a_tablespace_is_known) {
  const auto memory = std::make_unique<recv_sys_t>();
  recv_sys = memory.get();
  EXPECT_FALSE(redo_recovery::is_known(7));
  {
    redo_recovery::Adder adder;
    recv_sys_t::Space space{m_heap};
    const byte body = 1;
    const Record record{MLOG_1BYTE, &body, &body + 1, 1, 2};

    EXPECT_FALSE(redo_recovery::is_known(7));
    EXPECT_TRUE(redo_recovery::keep(space, 7, 3, record));
    EXPECT_TRUE(redo_recovery::is_known(7));
    EXPECT_FALSE(redo_recovery::is_known(8));
    recv_sys->deleted.insert(9);
    EXPECT_FALSE(redo_recovery::is_known(7)) << "it may be this one";
    EXPECT_TRUE(redo_recovery::keep(space, 7, 3, record));
    EXPECT_TRUE(redo_recovery::is_known(7));
    redo_recovery::finish_keeping();
    EXPECT_FALSE(redo_recovery::is_known(7));
  }
  EXPECT_FALSE(redo_recovery::is_known(7));
  recv_sys = nullptr;
}

TEST_F(log0pack, stock_has_its_own_list) {
  add(5, 8204, 8300);
  redo_recovery::g_way = static_cast<ulong>(Way::STOCK);
  recv_sys_t::Space space{m_heap};
  const byte body = 1;

  EXPECT_FALSE(
      redo_recovery::keep(space, 7, 3, {MLOG_1BYTE, &body, &body + 1, 1, 2}));
  EXPECT_TRUE(space.m_pages.empty());

  recv_t record;
  UT_LIST_ADD_LAST(m_page->rec_list, &record);
  {
    Records records{m_page};
    records.follow();
  }
  EXPECT_EQ(&record, UT_LIST_GET_FIRST(m_page->rec_list));
}

/* It is not more than what MySQL needs, and much less where pages have many
records. */
TEST_F(log0pack, memory) {
  for (const size_t n_bytes : {0, 4, 15, 40, 100, 300}) {
    for (const size_t n_on_page : {1, 2, 3, 4, 5, 6, 8, 10, 50, 2000}) {
      const auto heap = mem_heap_create(256, UT_LOCATION_HERE);
      const auto stock = mem_heap_create(256, UT_LOCATION_HERE);
      const byte body[300] = {};

      for (size_t n = 0; n < 20000 / n_on_page; ++n) {
        const auto page = Page::create(heap, 7, n);
        mem_heap_alloc(stock, sizeof(recv_addr_t));

        for (size_t i = 0; i < n_on_page; ++i) {
          const lsn_t lsn = 1000000000 + 1000 * i;

          page->add(heap,
                    {MLOG_WRITE_STRING, body, body + n_bytes, lsn, lsn + 200});
          mem_heap_alloc(stock, sizeof(recv_t));
          if (n_bytes > 0) {
            mem_heap_alloc(stock, sizeof(recv_data_t) + n_bytes);
          }
        }
      }

      const double used = mem_heap_get_size(heap);
      const double limit = mem_heap_get_size(stock);
      /* The heap itself has blocks of 8,000 bytes, with a rest in each. */
      EXPECT_LT(used, 1.05 * limit) << n_bytes << ", " << n_on_page;
      if (n_bytes == 40 && n_on_page >= 50) {
        EXPECT_LT(used, (n_on_page == 50 ? 0.67 : 0.55) * limit);
      }
      mem_heap_free(heap);
      mem_heap_free(stock);
    }
  }
}

}  // namespace innodb_log0pack_unittest
