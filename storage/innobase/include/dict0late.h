/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file include/dict0late.h
Statistics of tables that a start opens, when somebody asks for them.

The statistics of a table that has no persistent ones are estimated when it is
opened, from some pages of each of its indexes: eight leaves, and those above
them. The tables of the dictionary are such tables. A start opens most of them,
to look up what it needs, and nobody asks for their statistics. With few tables
in the dictionary their pages are read anyway; with many the start reads some
hundred pages for that alone.

Here a table that is opened before the server is has no statistics. It gets them
when the optimizer asks for them, from this or any other instance of it. */

#ifndef dict0late_h
#define dict0late_h

#include "dict0mem.h"

struct TABLE;

namespace late_stats {

/** innodb_stats_transient_late. */
extern bool g_enabled;

/** A table is opened as long as this object lives. If the server is not open
yet and the statistics would be estimated, the table does without for now. */
class Opening {
 public:
  /** @param[in]  table  the table */
  explicit Opening(const dict_table_t *table);
  ~Opening();

  Opening(const Opening &) = delete;
  Opening &operator=(const Opening &) = delete;
};

/** @return true if this thread is opening a table that does without
@param[in]  table  the table */
[[nodiscard]] bool is_opening(const dict_table_t *table);

/** Somebody asks for the statistics of a table: it gets them if it has none.
The caller holds no latch.
@param[in,out]  table  the table */
void need(dict_table_t *table);

/** As need(), for handler::info().
@param[in,out]  table   the table
@param[in]      server  the instance of it that asks
@param[in,out]  flag    HA_STATUS_ flags: what is asked for. As long as the
                        instances do not know what is constant, that is asked
for as well. */
void need(dict_table_t *table, const TABLE *server, unsigned &flag);

}  // namespace late_stats

#endif /* dict0late_h */
