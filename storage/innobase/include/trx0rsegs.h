/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file include/trx0rsegs.h
Read ahead what a start needs of all rollback segments.

trx/trx0rsegs.cc has the design. */

#ifndef trx0rsegs_h
#define trx0rsegs_h

namespace undo_read_ahead {

/** Read the pages that the start is about to ask for, page by page, to make the
objects of the rollback segments: their headers, the first page of each
undo log, and the last page of each history. No other thread uses undo
tablespaces yet. Nothing is read if innodb_undo_read_ahead_pages is 0 or
innodb_force_recovery is not. What cannot be read is left to the start. */
void read_rollback_segments();

}  // namespace undo_read_ahead

#endif /* trx0rsegs_h */
