/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file include/trx0scan.h
When the undo logs of transactions that were open at a crash are read, to find
their tables: before the server opens, or after.

trx/trx0scan.cc has the design; the variable is innodb_recovery_undo_scan. */

#ifndef trx0scan_h
#define trx0scan_h

#include <atomic>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "my_inttypes.h"
#include "typelib.h"

#include "db0err.h"
#include "dict0types.h"
#include "trx0async.h"
#include "trx0types.h"
#include "univ.i"
#include "ut0new.h"

class MDL_ticket;
class THD;
struct trx_undo_ptr_t;

namespace undo_scan {

/** Values of innodb_recovery_undo_scan. */
enum class When : ulong { START, BACKGROUND };

/** innodb_recovery_undo_scan, a value of When. */
extern ulong g_when;

/** Names of the values. */
extern TYPELIB g_when_typelib;

/** Shown as Innodb_recovery_lock_scan_*. */
struct Status {
  /** Transactions whose undo logs were left for later. */
  ulonglong transactions;
  /** Time from opening until their tables were known. */
  ulonglong usec;
  /** Whether they are not known yet: what needs a whole table waits. */
  std::atomic_bool running;
};

extern Status g_status;

/** Tables of a transaction. */
using Tables =
    std::set<table_id_t, std::less<table_id_t>, ut::allocator<table_id_t>>;

/** Tables of transactions. */
using Tables_of = std::map<trx_t *, Tables, std::less<trx_t *>,
                           ut::allocator<std::pair<trx_t *const, Tables>>>;

/** Reads an undo log of a transaction, and adds the tables to Tables_of. */
using Walk = void (*)(trx_t *, const trx_undo_ptr_t *, const trx_undo_t *);

/** An undo log of a transaction was found by the start, and would be read now.
@param[in]  trx   transaction
@param[in]  undo  undo log
@return true if that is left for later */
[[nodiscard]] bool postpone(trx_t *trx, const trx_undo_t *undo);

/** The start knows all undo logs: read those that cannot be left for later.
@param[in]      walk    reads an undo log
@param[in,out]  tables  what it adds to; it has to live as long as the server */
void read_some(Walk walk, Tables_of *tables);

/** The start has made the tables that it makes at each start: if undo logs were
left for later, wait until the server is locked against DDL, or, if it cannot
be, until they are read. */
void lock_server();

/** Nothing is rolled back yet: if undo logs were left for later, let the start
go on, lock the server against DDL when it says so, and read them. Their tables
are added to to_rollback_trx_tables, and all that are listed there have a
metadata lock.
@param[in,out]  thd  of the thread that will roll back */
void read_rest(THD *thd);

/** @return whether the tables of all transactions are known. If not, the server
shuts down and nothing may be rolled back. */
[[nodiscard]] bool is_complete();

/** The threads that roll back have their own locks on those tables: DDL goes
on.
@param[in,out]  thd  of the thread that has called read_rest() */
void end(THD *thd);

/** What came of lock(). */
enum class Lock_result {
  /** There is a lock, but for tables that have none. */
  LOCKED,
  /** There is no such table. */
  NO_TABLE,
  /** Others have a lock that it has to wait for, and may wait for locks of this
  thread; or the server shuts down. */
  NO_LOCK
};

/** Get a shared metadata lock on a table. There is no DDL meanwhile.
@param[in,out]  thd     thread
@param[in]      id      table
@param[out]     ticket  the lock; nullptr if there is none
@return what came of it, after a second or so */
[[nodiscard]] Lock_result lock(THD *thd, table_id_t id, MDL_ticket **ticket);

/** @return whether the server shuts down and does not wait for the rest */
[[nodiscard]] bool is_cancelled();

/** A statement needs a lock on a whole table: wait until the tables of all
transactions are known, at most as long as lock_wait_timeout says.
@param[in]  trx    its transaction
@param[in]  table  the table
@return DB_SUCCESS, DB_INTERRUPTED if it was killed, or DB_LOCK_WAIT_TIMEOUT */
[[nodiscard]] dberr_t wait(const trx_t *trx, const dict_table_t *table);

}  // namespace undo_scan

#endif /* trx0scan_h */
