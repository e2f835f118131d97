/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file trx/trx0async.cc
Roll back prepared transactions that the binary log does not know after the
server has opened.

Why. With the binary log on, a commit first prepares the transaction in InnoDB
and then writes it to the binary log. After a crash between the two, the start
finds a prepared transaction that the binary log does not know, and rolls it
back, whatever its size, before it goes on. A transaction that was killed before
it was prepared does not hold up the start: a thread rolls it back later.

How. A prepared transaction is rolled back in two steps: it becomes an active
one, in the headers of its undo logs, and the rollback begins. The first step is
what makes it safe to be killed during the second, so after the first alone the
transaction is like one that was never prepared: if the server dies, the next
one, this or another, finds it active. So the first step is done as ever, when
the binary log was read, and the transaction is left to the thread, which takes
the metadata locks of its tables before the server opens.

The redo of the first step is written to disk before the start goes on, as that
of a rollback is when it ends, with innodb_flush_log_at_trx_commit=1. When the
start is done with the binary log it marks it as closed and begins another. Were
the first step lost then, the transaction would be prepared again after a crash,
and looked for in that other binary log, which may know another transaction by
the same XID: XIDs are made of a number that begins anew with each start.

When not. These are rolled back by the start, as ever:
- transactions with changes of the data dictionary: what follows in the start
needs it without them;
- transactions with changes in schema mysql: what follows in the start reads and
changes tables there, and would wait for row locks. A replica keeps the
positions of its applier in such a table, with each transaction, unless they
follow from GTIDs alone;
- XA transactions of users: their fate is not InnoDB's to decide;
- all, if the thread does not start (innodb_force_recovery, innodb_read_only);
- all, if Group Replication is loaded: a member gets the transaction from the
group again as soon as it joins, and would wait for the locks of the first
attempt.

If the server ends before it starts the thread, as it does with
tc_heuristic_recover, or because of an error, the next start finds the
transactions active. tc_heuristic_recover cannot tell that case: the recovery
sets it to ROLLBACK by itself if no engine but InnoDB can prepare transactions.

Metadata locks. The thread has a shared lock on each table of each transaction
that it rolls back, whether it was handed over or not, and keeps them until all
are rolled back. Here it gives up those of a transaction when that one is. */

#include "trx0async.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <unordered_map>
#include <vector>

#include "sql/rpl_group_replication.h"

#include "dict0dd.h"
#include "dict0mem.h"
#include "log0buf.h"
#include "log0log.h"
#include "log0write.h"
#include "mtr0mtr.h"
#include "my_dbug.h"
#include "srv0srv.h"
#include "srv0start.h"
#include "trx0rollers.h"
#include "trx0rseg.h"
#include "trx0scan.h"
#include "trx0sys.h"
#include "trx0trx.h"
#include "trx0undo.h"
#include "ut0log.h"

namespace recovery_rollback {

namespace {

/** Whether the thread that rolls back in the background was about to start. */
bool s_has_ended = false;

/** Metadata locks of a thread that rolls back, by the transaction for which it
has them. */
thread_local std::unordered_multimap<trx_id_t, MDL_ticket *> s_locks;

/** @return whether the metadata locks of a transaction are given up when it is
rolled back; MySQL keeps them all until the last is */
bool gives_up_locks() {
  return g_async || rollback_threads::g_threads > 1 ||
         undo_scan::g_when == static_cast<ulong>(undo_scan::When::BACKGROUND);
}

/** @return true if a table is in schema mysql
@param[in]  table  table */
bool is_of_server(const dict_table_t *table) {
  return std::strncmp(table->name.m_name, "mysql/", 6) == 0;
}

/** @return true if a transaction may wait until the server has opened
@param[in]  trx  prepared transaction
@param[in]  xid  its XID */
bool may_wait(const trx_t &trx, const XID &xid) {
  if (!g_async || s_has_ended || srv_read_only_mode ||
      srv_force_recovery >= SRV_FORCE_NO_BACKGROUND ||
      is_group_replication_plugin_loaded()) {
    return false;
  }

  return trx.is_recovered && !trx.ddl_operation && xid.get_my_xid() != 0 &&
         std::none_of(trx.mod_tables.begin(), trx.mod_tables.end(),
                      is_of_server);
}

/** Make a prepared transaction an active one in its undo logs, durably.
@param[in,out]  trx  transaction */
void activate_undo(trx_t *trx) {
  auto &redo = trx->rsegs.m_redo;
  mtr_t mtr;

  mtr.start();
  redo.rseg->latch();

  for (auto undo : {redo.insert_undo, redo.update_undo}) {
    if (undo == nullptr) {
      continue;
    }

    if (undo == redo.update_undo) {
      trx_undo_gtid_set(trx, undo, false);
    }

    trx_undo_set_state_at_prepare(trx, undo, true, &mtr);
    undo->state = TRX_UNDO_ACTIVE;
  }

  redo.rseg->unlatch();
  mtr.commit();

  DBUG_EXECUTE_IF("recovery_rollback_crash_before_flush", DBUG_SUICIDE(););

  log_write_up_to(*log_sys, mtr.commit_lsn(), true);

  DBUG_EXECUTE_IF("recovery_rollback_crash_after_flush", DBUG_SUICIDE(););
}

/** Make a prepared transaction an active one in memory, like those that
recovery has found active.
@param[in,out]  trx  transaction */
void activate(trx_t *trx) {
  trx_sys_mutex_enter();
  trx_mutex_enter(trx);

  ut_ad(trx_state_eq(trx, TRX_STATE_PREPARED));
  ut_a(trx_sys->n_prepared_trx > 0);

  trx->state.store(TRX_STATE_ACTIVE, std::memory_order_relaxed);
  trx->no = TRX_ID_MAX;
  --trx_sys->n_prepared_trx;

  trx_mutex_exit(trx);
  trx_sys_mutex_exit();
}

}  // namespace

bool g_async = false;

Status g_status;

bool hand_over(trx_t *trx, const XID &xid) {
  if (!may_wait(*trx, xid)) {
    return false;
  }

  activate_undo(trx);
  activate(trx);

  for (const auto table : trx->mod_tables) {
    to_rollback_trx_tables.emplace_back(trx->id, table->id);
  }

  trx->mod_tables.clear();
  ++g_status.transactions;

  return true;
}

void end_hand_over() {
  s_has_ended = true;

  if (g_status.transactions == 0) {
    return;
  }

  ib::info(ER_IB_MSG_1186)
      << "Prepared transactions that the binary log does not know, to be"
         " rolled back in the background: "
      << g_status.transactions;
}

bool begin(THD *thd, rollback_threads::Roll_back roll_back) {
  const bool is_complete = undo_scan::is_complete();

  if (is_complete && rollback_threads::g_threads > 1) {
    rollback_threads::start(roll_back);
  }

  undo_scan::end(thd);

  return is_complete;
}

void note_lock(trx_id_t id, MDL_ticket *ticket) {
  if (gives_up_locks()) {
    s_locks.emplace(id, ticket);
  }
}

void release_locks(trx_id_t id) {
  const auto [begin, end] = s_locks.equal_range(id);

  for (auto lock = begin; lock != end; ++lock) {
    dd_release_mdl(lock->second);
  }

  s_locks.erase(begin, end);
}

void release_all_locks() {
  for (const auto &[id, ticket] : s_locks) {
    dd_release_mdl(ticket);
  }

  s_locks.clear();
}

void forget_released(std::vector<MDL_ticket *> *tickets) {
  if (!gives_up_locks()) {
    return;
  }

  tickets->clear();

  for (const auto &[id, ticket] : s_locks) {
    tickets->push_back(ticket);
  }

  s_locks.clear();
}

}  // namespace recovery_rollback
