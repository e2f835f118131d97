/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file include/btr0redo.h
A copy of an index page for as long as redo reorganizes it, in memory that is
not the buffer pool's. btr/btr0redo.cc says why. */

#ifndef btr0redo_h
#define btr0redo_h

#include "buf0types.h"

namespace btr_redo {

/** Get a block whose frame has room for a copy of a page. It belongs to no
buffer pool instance, so that only free_block() may free it. Waits for nothing;
as elsewhere in recovery, the server ends if there is no memory.
@return block in state BUF_BLOCK_MEMORY; the frame is not initialized */
[[nodiscard]] buf_block_t *alloc_block();

/** Free a block.
@param[in]  block  what alloc_block() has returned */
void free_block(buf_block_t *block);

/** Where the copy of a page comes from, and where it goes. */
struct Source {
  buf_block_t *(*alloc)(buf_pool_t *);
  void (*free)(buf_block_t *);
};

/** @return the functions of the buffer pool, or in recovery those above
@param[in]  recovery  true if redo is being applied */
[[nodiscard]] Source source(bool recovery);

}  // namespace btr_redo

#endif /* btr0redo_h */
