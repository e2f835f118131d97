/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file sql/event_load.h
Whether there is any event for a start to load. */

#ifndef EVENT_LOAD_INCLUDED
#define EVENT_LOAD_INCLUDED

#include <memory>

#include "sql/dd/impl/raw/raw_record_set.h"
#include "sql/dd/impl/raw/raw_table.h"
#include "sql/dd/impl/tables/events.h"
#include "sql/dd/impl/transaction_impl.h"
#include "sql/dd/types/event.h"
#include "sql/handler.h"
#include "sql/sql_class.h"

namespace event_load {

/** Reads the first record of the dictionary's table of events, in a transaction
like those that read events for each schema: read-only, READ COMMITTED, apart
from the thread's own. An event that replication makes at the same moment is put
in the queue of events by its maker, if that finds the queue.
@param[in,out]  thd  the thread that loads events, without open tables
@return whether there is certainly no event, in any schema. After an error it is
not certain, and the error is taken back: the caller goes on, reads the same
table schema by schema, and reports what it meets. */
inline bool has_none(THD *thd) {
  dd::Transaction_ro trx{thd, ISO_READ_COMMITTED};
  trx.otx.register_tables<dd::Event>();
  std::unique_ptr<dd::Raw_record_set> events;

  if (trx.otx.open_tables() ||
      trx.otx.get_table<dd::Event>()->open_record_set(nullptr, events)) {
    thd->clear_error();
    return false;
  }
  return events->current_record() == nullptr;
}

}  // namespace event_load

#endif  // EVENT_LOAD_INCLUDED
