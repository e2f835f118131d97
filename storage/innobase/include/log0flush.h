/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file include/log0flush.h
Open the server with the pages of the last batch of redo in the buffer pool.

log/log0flush.cc has the design. */

#ifndef log0flush_h
#define log0flush_h

#include "log0types.h"
#include "typelib.h"
#include "univ.i"

struct log_t;

namespace redo_recovery {
class Batch;
}  // namespace redo_recovery

namespace recovery_flush {

/** Values of innodb_recovery_flush. */
enum class Way : ulong {
  /** As before: all pages are written, and the buffer pool is emptied. */
  WAIT,
  /** They stay in the buffer pool, and the page cleaners write them. */
  BACKGROUND
};

/** innodb_recovery_flush, a Way. */
extern ulong g_way;

/** Names of its values. */
extern TYPELIB g_way_typelib;

/** Lives while the last batch of redo is applied. */
class Last_batch {
 public:
  Last_batch();
  ~Last_batch();

  Last_batch(const Last_batch &) = delete;
  Last_batch &operator=(const Last_batch &) = delete;
};

/** @return true if the last batch of redo is applied, or was */
[[nodiscard]] bool is_last_batch();

/** Redo of a mini-transaction of several records was parsed.
@param[in]  n_bytes  how much it is */
void note_group(lsn_t n_bytes);

/** Redo of a batch was applied. Leave its pages in the buffer pool, for the
next batch or, if it is the last one, for the page cleaners, if nothing speaks
against it; then pages that are read from now on get no redo of this batch. The
caller holds recv_sys->mutex, which is released meanwhile.
@param[in]  batch          batch
@param[in]  empty_records  forgets the records of the batch, under the mutex
@return false if the pages must be written, and the buffer pool emptied; if true
the mutex is not held any more */
[[nodiscard]] bool leave_pages(const redo_recovery::Batch &batch,
                               void (*empty_records)());

/** All pages are about to be written. If recovery ends with pages that
leave_pages() has left, write only as many of them as it takes to have room in
the redo log.
@param[in]  log  redo log
@return false if all pages must be written */
[[nodiscard]] bool make_room(const log_t &log);

}  // namespace recovery_flush

#endif /* log0flush_h */
