/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file trx/trx0scan.cc
Read the undo logs of transactions that were open at a crash after the server
has opened.

Why. A transaction that is to be rolled back keeps its tables as they are: DDL
and LOCK TABLES wait until it is. Which tables these are is in its undo records
only, so the start reads its undo logs from end to end before it opens. That
takes as long as the transaction is large.

How. Row locks, read views, and purge need the headers of undo logs alone. The
start goes on with these. When it has made the tables that it makes at each
start, the thread that will roll back takes the lock which LOCK INSTANCE FOR
BACKUP takes, so that there is no DDL on any table, and then the server may
open. The thread reads the undo logs, takes the locks on the tables that it
takes otherwise before the server opens, and gives up the first one. Only then
does it begin to roll back: were the rollback itself what reads the undo logs,
all DDL of the server would wait for it.

LOCK TABLES does not ask for the lock of the server. Its metadata lock and that
of the thread get on, as ever; it is its lock in InnoDB, which it takes with
autocommit=0, that has to wait. The thread adds its own lock to a table without
a look at others. So who wants a lock on a whole table waits in this file until
all tables are known. Nobody else takes one without DDL.

A metadata lock of the thread may have to wait for others while the server is
open: FLUSH TABLES within LOCK TABLES takes exclusive locks for a moment,
without the lock of the server, and so may wait for one that the thread has, and
the thread for one that it has. So the thread gives up all its locks when it
does not get one, and begins anew. MySQL, for which nobody else is there, would
end the server.

A table that cannot be opened, or whose file cannot, is not taken for dropped:
its undo would not be applied later, and nothing would hold up DDL. The thread
tries again for some seconds, in which somebody may have closed files.

When not. These are read by the start, as ever:
- undo logs of transactions with DDL: the start rolls them back;
- undo logs of prepared transactions: the start commits those which the binary
log knows, and rolls others back, by a way that takes tables for dropped which
are not in the dictionary's cache;
- all, if innodb_force_recovery is not 0, or if the server is read-only, when
there is no such thread;
- all, if the lock of the server cannot be had.
Whether a transaction has DDL is known when its last undo log was found.

If the server dies meanwhile, nothing was changed, and the next start, of this
server or another, finds what this one has found. If it shuts down, the thread
ends at the next page, and rolls nothing back. */

#include "trx0scan.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "mysqld_error.h"
#include "sql/backup_lock_reason.h"
#include "sql/dd/cache/dictionary_client.h"
#include "sql/dd/dd.h"
#include "sql/sql_backup_lock.h"
#include "sql/sql_class.h"
#include "sql/sql_error.h"

#include "dict0dd.h"
#include "dict0dict.h"
#include "dict0mem.h"
#include "lock0lock.h"
#include "os0event.h"
#include "srv0progress.h"
#include "srv0srv.h"
#include "srv0start.h"
#include "trx0roll.h"
#include "trx0trx.h"
#include "trx0undo.h"
#include "ut0log.h"

namespace undo_scan {

namespace {

using std::chrono::steady_clock;

/** Names of the values of innodb_recovery_undo_scan. */
const char *s_when_names[] = {"START", "BACKGROUND", nullptr};

/** What statements that wait in vain are told. */
constexpr const char *REASON =
    "InnoDB: The undo logs of transactions that were open at a crash are still"
    " being read, to find their tables.";

/** Tell a client so.
@param[in,out]  thd  client */
void warn(THD *thd) {
  push_warning(thd, Sql_condition::SL_WARNING, ER_LOCK_WAIT_TIMEOUT, REASON);
}

/** Seconds of one try to get a metadata lock. */
constexpr ulong TRY_SEC = 1;

/** Tries to open a table, one second after the other, if it is not because of
a metadata lock. */
constexpr int MAX_TRIES = 10;

/** Tries to get all metadata locks until the error log says that one cannot be
had. */
constexpr int TRIES_TO_WARN = 3;

/** Undo log that was left for later. */
struct Log {
  /** Its transaction. */
  trx_t *trx;
  /** The undo log. */
  const trx_undo_t *undo;
};

/** How long metadata locks are waited for; as before when this ends. */
class Patience {
 public:
  /** Constructor.
  @param[in,out]  thd  thread that waits */
  explicit Patience(THD *thd)
      : m_thd(thd), m_before(thd->variables.lock_wait_timeout) {
    thd->variables.lock_wait_timeout = TRY_SEC;
  }

  ~Patience() { m_thd->variables.lock_wait_timeout = m_before; }

  Patience(const Patience &) = delete;
  Patience &operator=(const Patience &) = delete;

 private:
  /** The thread. */
  THD *const m_thd;
  /** What it was. */
  const ulong m_before;
};

/** What the start has left for later, and the thread does. */
class Scan {
 public:
  /** @see undo_scan::postpone() */
  bool postpone(trx_t *trx, const trx_undo_t *undo);

  /** @see undo_scan::read_some() */
  void read_some(Walk walk, Tables_of *tables);

  /** @see undo_scan::lock_server() */
  void lock_server();

  /** @see undo_scan::read_rest() */
  void read_rest(THD *thd);

  /** @see undo_scan::is_complete() */
  bool is_complete() const { return !m_is_incomplete; }

  /** @see undo_scan::end() */
  void end(THD *thd);

  /** @see undo_scan::wait() */
  dberr_t wait(const trx_t *trx, const dict_table_t *table);

 private:
  /** Read undo logs.
  @param[in]  logs  undo logs
  @return false if the server shuts down and not all were read */
  bool read(const std::vector<Log> &logs);

  /** Wait until the start has made its tables, and lock the server.
  @param[in,out]  thd  thread */
  void take_lock(THD *thd);

  /** Give up the metadata locks of tables.
  @param[in,out]  thd  thread */
  void release_tickets(THD *thd);

  /** Get metadata locks on all tables of to_rollback_trx_tables, and forget
  those that are not there any more.
  @param[in,out]  thd  thread
  @return false if the server shuts down */
  bool lock_tables(THD *thd);

  /** Whether undo logs are being found, and not yet read. */
  bool m_is_listing{true};

  /** Undo logs. */
  std::vector<Log> m_logs;

  /** Reads one. */
  Walk m_walk{nullptr};

  /** Where it puts the tables. */
  Tables_of *m_tables{nullptr};

  /** Metadata locks, until the thread has those that it needs. */
  std::vector<MDL_ticket *> m_tickets;

  /** Whether the thread has the lock of the server. */
  bool m_has_lock{false};

  /** Whether the server shuts down before all tables are known. */
  bool m_is_incomplete{false};

  /** When the server could open. */
  steady_clock::time_point m_start;

  /** Protects Status::running for those who wait, and what follows. */
  std::mutex m_mutex;

  /** Signalled when one of these changes. */
  std::condition_variable m_changed;

  /** Whether the start waits for the lock of the server. */
  bool m_is_asked{false};

  /** Whether the start need not wait: the thread has the lock, or has read all.
   */
  bool m_may_open{false};
};

Scan s_scan;

bool Scan::postpone(trx_t *trx, const trx_undo_t *undo) {
  if (!m_is_listing || g_when == static_cast<ulong>(When::START) ||
      srv_force_recovery != 0 || srv_read_only_mode || undo->empty) {
    return false;
  }

  m_logs.push_back({trx, undo});
  return true;
}

bool Scan::read(const std::vector<Log> &logs) {
  uint64_t n_pages = 0;

  for (const auto &log : logs) {
    n_pages += log.undo->size;
  }

  const startup_progress::Scope progress{startup_progress::Phase::UNDO_SCAN,
                                         n_pages};

  for (const auto &[trx, undo] : logs) {
    if (is_cancelled()) {
      return false;
    }

    m_walk(trx, &trx->rsegs.m_redo, undo);
  }

  return !is_cancelled();
}

void Scan::read_some(Walk walk, Tables_of *tables) {
  m_is_listing = false;
  m_walk = walk;
  m_tables = tables;

  const auto later =
      std::stable_partition(m_logs.begin(), m_logs.end(), [](const Log &log) {
        return log.trx->ddl_operation ||
               !trx_state_eq(log.trx, TRX_STATE_ACTIVE);
      });

  if (!m_logs.empty()) {
    /* The start has taken all pages for its own. */
    startup_progress::set_total(startup_progress::Phase::UNDO_SCAN, 0);
  }

  if (later != m_logs.begin()) {
    read({m_logs.begin(), later});
    m_logs.erase(m_logs.begin(), later);
  }

  std::set<const trx_t *> trxs;

  for (const auto &log : m_logs) {
    trxs.insert(log.trx);
  }

  g_status.transactions = trxs.size();
}

void Scan::take_lock(THD *thd) {
  const Patience patience{thd};

  /* The start is let go that far. */
  os_event_set(recovery_lock_taken);

  std::unique_lock guard{m_mutex};
  m_changed.wait(guard, [this] { return m_is_asked; });

  m_start = steady_clock::now();
  m_has_lock = !acquire_exclusive_backup_lock(thd, TRY_SEC, false);
  m_may_open = m_has_lock;
  g_status.running = m_has_lock;
  m_changed.notify_all();

  if (m_has_lock) {
    warn_of_backup_lock = warn;
    ib::info(ER_IB_MSG_1186)
        << "The undo logs of " << g_status.transactions
        << " recovered transactions are read in the background. DDL waits.";
  } else {
    thd->clear_error();
    ib::warn(ER_IB_MSG_1186)
        << "innodb_recovery_undo_scan=BACKGROUND is not possible, because the"
           " server is locked against DDL; the start reads the undo logs.";
  }
}

void Scan::lock_server() {
  if (m_logs.empty() ||
      !srv_thread_is_active(srv_threads.m_trx_recovery_rollback)) {
    return;
  }

  std::unique_lock guard{m_mutex};
  m_is_asked = true;
  m_changed.notify_all();
  m_changed.wait(guard, [this] { return m_may_open; });
}

bool Scan::lock_tables(THD *thd) {
  auto &all = to_rollback_trx_tables;
  int n_tries = 0;

  for (size_t i = 0; i < all.size();) {
    if (is_cancelled()) {
      return false;
    }

    MDL_ticket *ticket = nullptr;

    switch (lock(thd, all[i].second, &ticket)) {
      case Lock_result::LOCKED:
        if (ticket != nullptr) {
          m_tickets.push_back(ticket);
        }
        ++i;
        break;
      case Lock_result::NO_TABLE:
        all.erase(all.begin() + i);
        break;
      case Lock_result::NO_LOCK:
        release_tickets(thd);
        if (++n_tries == TRIES_TO_WARN) {
          ib::warn(ER_IB_MSG_1186)
              << "DDL waits, because the metadata lock of table "
              << all[i].second << " cannot be had. Somebody has it exclusively,"
              << " or has waited for it, perhaps by FLUSH TABLES within LOCK"
                 " TABLES.";
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        i = 0;
        break;
    }
  }

  return true;
}

void Scan::read_rest(THD *thd) {
  if (m_logs.empty()) {
    return;
  }

  take_lock(thd);
  m_is_incomplete = !read(m_logs);

  if (!m_is_incomplete) {
    for (const auto &[trx, tables] : *m_tables) {
      for (const auto id : tables) {
        to_rollback_trx_tables.emplace_back(trx->id, id);
      }
    }

    m_is_incomplete = !lock_tables(thd);
  }

  m_tables->clear();

  if (m_is_incomplete) {
    to_rollback_trx_tables.clear();
  }
}

void Scan::release_tickets(THD *thd) {
  for (auto &ticket : m_tickets) {
    /* dd_release_mdl() would give up the lock of the server, too. */
    dd_mdl_release(thd, &ticket);
  }

  m_tickets.clear();
}

void Scan::end(THD *thd) {
  if (m_logs.empty()) {
    return;
  }

  release_tickets(thd);

  if (m_has_lock) {
    m_has_lock = false;
    warn_of_backup_lock = nullptr;
    release_backup_lock(thd);
  }

  g_status.usec = std::chrono::duration_cast<std::chrono::microseconds>(
                      steady_clock::now() - m_start)
                      .count();
  {
    const std::lock_guard guard{m_mutex};
    g_status.running = false;
    m_may_open = true;
  }
  m_changed.notify_all();

  ib::info(ER_IB_MSG_1186) << "The undo logs of recovered transactions were "
                           << (m_is_incomplete
                                   ? "not read, because the server shuts down."
                                   : "read. DDL goes on.");
}

dberr_t Scan::wait(const trx_t *trx, const dict_table_t *table) {
  if (!g_status.running || table->is_temporary()) {
    return DB_SUCCESS;
  }

  const auto thd = trx->mysql_thd;
  const auto start = steady_clock::now();
  std::unique_lock guard{m_mutex};

  while (g_status.running) {
    m_changed.wait_for(guard, std::chrono::milliseconds(100));

    if (trx_is_interrupted(trx)) {
      return DB_INTERRUPTED;
    }

    if (thd != nullptr &&
        steady_clock::now() - start >=
            std::chrono::seconds(thd->variables.lock_wait_timeout)) {
      warn(thd);
      return DB_LOCK_WAIT_TIMEOUT;
    }
  }

  return DB_SUCCESS;
}

}  // namespace

ulong g_when = static_cast<ulong>(When::START);

TYPELIB g_when_typelib = {array_elements(s_when_names) - 1,
                          "recovery_undo_scan", s_when_names, nullptr};

Status g_status;

bool postpone(trx_t *trx, const trx_undo_t *undo) {
  return s_scan.postpone(trx, undo);
}

void read_some(Walk walk, Tables_of *tables) { s_scan.read_some(walk, tables); }

void read_rest(THD *thd) { s_scan.read_rest(thd); }

bool is_complete() { return s_scan.is_complete(); }

void end(THD *thd) { s_scan.end(thd); }

bool is_cancelled() {
  return srv_shutdown_state.load() >= SRV_SHUTDOWN_RECOVERY_ROLLBACK &&
         !srv_shutdown_waits_for_rollback_of_recovered_transactions();
}

void lock_server() { s_scan.lock_server(); }

dberr_t wait(const trx_t *trx, const dict_table_t *table) {
  return s_scan.wait(trx, table);
}

namespace {

/** @return whether the dictionary has a table, or cannot be asked
@param[in,out]  thd  thread
@param[in]      id   table */
bool may_exist(THD *thd, table_id_t id) {
  const auto client = dd::get_dd_client(thd);
  const dd::cache::Dictionary_client::Auto_releaser releaser{client};
  dd::String_type schema;
  dd::String_type table;

  return client->get_table_name_by_se_private_id(handler_name, id, &schema,
                                                 &table) ||
         (schema.empty() && client->get_table_name_by_partition_se_private_id(
                                handler_name, id, &schema, &table)) ||
         !schema.empty();
}

/** Open a table, and close it.
@param[in,out]  thd     thread
@param[in]      id      table
@param[out]     ticket  metadata lock, if it could be opened and has one
@return whether it could be opened, with its file */
bool open(THD *thd, table_id_t id, MDL_ticket **ticket) {
  *ticket = nullptr;

  const auto table = dd_table_open_on_id(id, thd, ticket, false, true);

  if (table == nullptr) {
    *ticket = nullptr;
    return false;
  }

  const bool is_there =
      !table->ibd_file_missing || dict_table_is_discarded(table);

  dict_sys_mutex_enter();
  dd_table_close(table, nullptr, nullptr, true);

  /* As it is in the cache, its file would not be opened again, and its undo be
  left out. */
  if (!is_there && table->get_ref_count() == 0 &&
      !lock_table_has_locks(table)) {
    dict_table_remove_from_cache(table);
  }
  dict_sys_mutex_exit();

  if (!is_there && *ticket != nullptr) {
    dd_mdl_release(thd, ticket);
  }

  return is_there;
}

}  // namespace

Lock_result lock(THD *thd, table_id_t id, MDL_ticket **ticket) {
  const Patience patience{thd};

  for (int n_tries = 1;; ++n_tries) {
    thd->clear_error();

    if (open(thd, id, ticket)) {
      return Lock_result::LOCKED;
    }

    /* Until the server is about to open, errors of threads are not noted. */
    const auto error = thd->is_error() ? thd->get_stmt_da()->mysql_errno() : 0;

    thd->clear_error();

    if (is_cancelled() || error == ER_LOCK_WAIT_TIMEOUT ||
        error == ER_LOCK_DEADLOCK) {
      return Lock_result::NO_LOCK;
    }

    const bool is_gone = !may_exist(thd, id);

    thd->clear_error();

    if (is_gone) {
      return Lock_result::NO_TABLE;
    }

    if (n_tries == MAX_TRIES) {
      ib::warn(ER_IB_MSG_1186)
          << "Table " << id << " of a recovered transaction cannot be opened."
          << " DDL on it will not wait for the rollback.";
      return Lock_result::NO_TABLE;
    }

    std::this_thread::sleep_for(std::chrono::seconds(1));
  }
}

}  // namespace undo_scan
