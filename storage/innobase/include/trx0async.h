/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file include/trx0async.h
Roll back prepared transactions that the binary log does not know after the
server has opened.

trx/trx0async.cc has the design. */

#ifndef trx0async_h
#define trx0async_h

#include <vector>

#include "sql/xa.h"
#include "trx0rollers.h"
#include "trx0types.h"
#include "univ.i"

class MDL_ticket;
class THD;

namespace recovery_rollback {

/** innodb_recovery_rollback_async. */
extern bool g_async;

/** What the start has done, shown as Innodb_recovery_rollback_async_*. */
struct Status {
  /** Prepared transactions that were handed over. */
  ulonglong transactions;
};

extern Status g_status;

/** A prepared transaction is to be rolled back by its XID. In the recovery of
the binary log, hand it over to the thread that rolls back in the background, if
nothing speaks against that.
@param[in,out]  trx  transaction, whose own XID was reset
@param[in]      xid  its XID
@return false if the caller has to roll it back */
[[nodiscard]] bool hand_over(trx_t *trx, const XID &xid);

/** The thread that rolls back in the background is about to start: from now on
nothing more is taken. */
void end_hand_over();

/** The thread that rolls back has its locks on the tables: let DDL go on, when
the other threads, if there are to be any, have theirs.
@param[in,out]  thd        of the thread
@param[in]      roll_back  rolls a transaction back
@return false if the server shuts down and nothing may be rolled back, because
not all tables are known */
[[nodiscard]] bool begin(THD *thd, rollback_threads::Roll_back roll_back);

/** A thread that rolls back has a metadata lock.
@param[in]  id      transaction for which it has it
@param[in]  ticket  the lock */
void note_lock(trx_id_t id, MDL_ticket *ticket);

/** A transaction was rolled back, or is another thread's: this one gives up the
metadata locks that it had for it.
@param[in]  id  transaction */
void release_locks(trx_id_t id);

/** A thread has nothing more to roll back: it gives up the metadata locks that
it still has. */
void release_all_locks();

/** The first thread is about to give up all metadata locks: leave out those
that it has no more.
@param[in,out]  tickets  all that it has had */
void forget_released(std::vector<MDL_ticket *> *tickets);

}  // namespace recovery_rollback

#endif /* trx0async_h */
