/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file btr/btr0redo.cc
A copy of an index page for as long as redo reorganizes it.

Redo is applied to a page by the thread that completes its read. The records
that were parsed may fill the buffer pool but for some hundred frames, and these
are taken by pages whose reads have been requested: nobody can evict them before
redo was applied to them. Were the copy taken from the buffer pool, as it is
outside recovery, then as soon as every one of these threads wants one, each
would wait for what only they could free.

With a copy that is allocated elsewhere, no thread that applies redo needs a
frame, and all reads that were requested complete. There is at most one copy for
each of these threads at a time. */

#include "btr0redo.h"

#include <cstring>

#include "buf0buf.h"
#include "ut0new.h"

namespace btr_redo {

buf_block_t *alloc_block() {
  /* The control block stands behind the frame, which must be aligned so that
  page_align() finds the page of a record. */
  static_assert(UNIV_PAGE_SIZE_MIN % alignof(buf_block_t) == 0);
  const auto frame = static_cast<byte *>(ut::aligned_alloc_withkey(
      UT_NEW_THIS_FILE_PSI_KEY, UNIV_PAGE_SIZE + sizeof(buf_block_t),
      UNIV_PAGE_SIZE));
  ut_a(frame != nullptr);

  /* As in the buffer pool, the memory of a control block begins as zeros. The
  block is private: neither its mutex nor its latch is used, so they are not
  created. */
  memset(frame + UNIV_PAGE_SIZE, 0, sizeof(buf_block_t));
  const auto block = reinterpret_cast<buf_block_t *>(frame + UNIV_PAGE_SIZE);
  block->frame = frame;
  block->page.state = BUF_BLOCK_MEMORY;

  return block;
}

void free_block(buf_block_t *block) {
  ut_a(buf_block_get_state(block) == BUF_BLOCK_MEMORY);
  ut::aligned_free(block->frame);
}

Source source(bool recovery) {
  if (recovery) return {[](buf_pool_t *) { return alloc_block(); }, free_block};
  return {buf_block_alloc, [](buf_block_t *block) { buf_block_free(block); }};
}

}  // namespace btr_redo
