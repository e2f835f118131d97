/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** Unit tests of btr0redo: the block that a page is copied to. There is no
buffer pool here that it could come from. */

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "storage/innobase/include/btr0redo.h"
#include "storage/innobase/include/buf0buf.h"
#include "storage/innobase/include/page0page.h"

namespace innodb_btr0redo_unittest {

/** Runs with each page size, and leaves the page size as it was. */
class btr0redo : public ::testing::TestWithParam<ulong> {
 protected:
  void SetUp() override { srv_page_size = GetParam(); }
  void TearDown() override { srv_page_size = m_page_size; }

 private:
  const ulong m_page_size{srv_page_size};
};

TEST_P(btr0redo, block_is_as_from_the_buffer_pool) {
  auto block = btr_redo::alloc_block();

  EXPECT_EQ(BUF_BLOCK_MEMORY, buf_block_get_state(block));
  EXPECT_EQ(block->frame, buf_block_get_frame(block));
  EXPECT_EQ(nullptr, buf_block_get_page_zip(block));
  EXPECT_EQ(0U, block->page.buf_fix_count);

  btr_redo::free_block(block);
}

TEST_P(btr0redo, page_of_a_record_is_found) {
  auto block = btr_redo::alloc_block();

  EXPECT_EQ(block->frame, page_align(block->frame));
  EXPECT_EQ(block->frame, page_align(block->frame + UNIV_PAGE_SIZE - 1));

  btr_redo::free_block(block);
}

TEST_P(btr0redo, frame_has_room_for_a_page) {
  std::vector<byte> page(UNIV_PAGE_SIZE, 0xa5);
  auto block = btr_redo::alloc_block();

  memcpy(block->frame, page.data(), UNIV_PAGE_SIZE);
  EXPECT_EQ(BUF_BLOCK_MEMORY, buf_block_get_state(block));
  EXPECT_EQ(0, memcmp(block->frame, page.data(), UNIV_PAGE_SIZE));

  btr_redo::free_block(block);
}

TEST_P(btr0redo, as_many_as_there_are_threads) {
  std::vector<buf_block_t *> blocks;

  for (byte i = 0; i < 65; ++i) {
    blocks.push_back(btr_redo::alloc_block());
    memset(blocks.back()->frame, i, UNIV_PAGE_SIZE);
  }
  for (byte i = 0; i < 65; ++i) {
    EXPECT_EQ(i, blocks[i]->frame[0]);
    EXPECT_EQ(i, blocks[i]->frame[UNIV_PAGE_SIZE - 1]);
    btr_redo::free_block(blocks[i]);
  }
}

INSTANTIATE_TEST_SUITE_P(page_sizes, btr0redo,
                         ::testing::Values(4096, 8192, 16384, 32768, 65536));

TEST_P(btr0redo, in_recovery_no_buffer_pool_is_asked) {
  const auto [alloc, free] = btr_redo::source(true);
  const auto block = alloc(nullptr);
  EXPECT_EQ(BUF_BLOCK_MEMORY, buf_block_get_state(block));
  free(block);
  EXPECT_EQ(&buf_block_alloc, btr_redo::source(false).alloc);
}

}  // namespace innodb_btr0redo_unittest
