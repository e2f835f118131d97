/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file trx/trx0rollers.cc
Several threads that roll back the transactions which were open at a crash.

Why. MySQL rolls them back by one thread, one after the other. A rollback waits
for one page after the other, and the last transaction, its rows, and DDL on its
tables wait for all that are rolled back before.

How. Each thread rolls back whole transactions, shared by the number of their
undo records. Sessions roll back at the same time, so there is nothing in a
rollback that minds. What trx0roll.cc has only once is its report in percent,
which is left out: no thread says there which transaction it rolls back.
srv0progress.cc has a report.

Metadata locks. To roll a row back, its table is opened with a metadata lock,
by the thread that does it. Were the lock another thread's, DDL that waits for
that lock would come before this thread, which waits for DDL then, as DDL waits
for it. So each thread has its locks before DDL is possible: before the server
opens, or while the server is locked against it (trx0scan.cc). The first thread
gives up its own locks for the transactions of others when they have theirs. A
thread that does not get a lock, because somebody waits for one of the first
thread, gives up: its transactions are left to the first. So they are if there
can be no thread. */

#include "trx0rollers.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <system_error>
#include <thread>
#include <unordered_set>
#include <vector>

#include "sql/mysqld.h"
#include "sql/sql_class.h"
#include "sql/sql_thd_internal_api.h"

#include "dict0dd.h"
#include "os0thread-create.h"
#include "srv0progress.h"
#include "srv0shutdown.h"
#include "srv0srv.h"
#include "trx0async.h"
#include "trx0roll.h"
#include "trx0scan.h"
#include "trx0sys.h"
#include "trx0trx.h"
#include "ut0log.h"

namespace rollback_threads {

namespace {

/** The threads, but for the one that MySQL has. */
class Threads {
 public:
  /** @see rollback_threads::start() */
  void start(Roll_back roll_back);

  /** @see rollback_threads::run() */
  void run();

  /** @return whether there are any, once all are there */
  bool are_any() const { return m_are_any; }

 private:
  /** A thread.
  @param[in]  i  which of m_shares is its own; without transactions if it has
  not got its locks */
  void execute(size_t i);

  /** Get the metadata locks of a thread.
  @param[in,out]  thd  thread
  @param[in]      ids  its transactions
  @return false if it has not got all */
  bool lock_tables(THD *thd, const std::vector<trx_id_t> &ids);

  /** Roll back transactions.
  @param[in]  ids  transactions */
  void roll_back(const std::vector<trx_id_t> &ids);

  /** Transactions of each thread; the first is MySQL's. */
  std::vector<std::vector<trx_id_t>> m_shares;

  /** Rolls a transaction back. */
  Roll_back m_roll_back{nullptr};

  /** All but the first. */
  std::vector<IB_thread> m_threads;

  /** Whether there are any; sessions may ask, too. */
  std::atomic_bool m_are_any{false};

  /** Protects what follows. */
  std::mutex m_mutex;

  /** Signalled when that changes. */
  std::condition_variable m_changed;

  /** Threads that have their locks. */
  size_t m_n_ready{0};

  /** Whether they may roll back. */
  bool m_may_roll_back{false};
};

Threads s_threads;

/** @return transactions that recovery has left to be rolled back */
std::vector<Work> find_work() {
  std::vector<Work> works;

  trx_sys_mutex_enter();
  for (const auto trx : trx_sys->rw_trx_list) {
    if (startup_progress::is_rolled_back_by_recovery(
            trx->is_recovered, trx->state.load(std::memory_order_relaxed))) {
      works.push_back({trx->id, trx->undo_no});
    }
  }
  trx_sys_mutex_exit();

  return works;
}

void Threads::roll_back(const std::vector<trx_id_t> &ids) {
  for (const auto id : ids) {
    if (undo_scan::is_cancelled()) {
      return;
    }

    /* It stays until this thread has rolled it back. */
    const auto trx = trx_sys->latch_and_execute_with_active_trx(
        id, [](trx_t *active) { return active; }, UT_LOCATION_HERE);

    if (trx == nullptr) {
      continue;
    }

    trx_sys_mutex_enter();

    if (!m_roll_back(trx, true)) {
      trx_sys_mutex_exit();
    }
  }
}

bool Threads::lock_tables(THD *thd, const std::vector<trx_id_t> &ids) {
  const std::unordered_set<trx_id_t> is_mine(ids.begin(), ids.end());

  for (const auto &[trx_id, table_id] : to_rollback_trx_tables) {
    if (is_mine.count(trx_id) == 0) {
      continue;
    }

    MDL_ticket *ticket = nullptr;

    switch (undo_scan::lock(thd, table_id, &ticket)) {
      case undo_scan::Lock_result::LOCKED:
        if (ticket != nullptr) {
          recovery_rollback::note_lock(trx_id, ticket);
        }
        break;
      case undo_scan::Lock_result::NO_TABLE:
        break;
      case undo_scan::Lock_result::NO_LOCK:
        return false;
    }
  }

  return true;
}

void Threads::execute(size_t i) {
  const auto thd = create_internal_thd();

  if (!lock_tables(thd, m_shares[i])) {
    m_shares[i].clear();
    recovery_rollback::release_all_locks();
  }

  {
    std::unique_lock guard{m_mutex};
    ++m_n_ready;
    m_changed.notify_all();
    m_changed.wait(guard, [this] { return m_may_roll_back; });
  }

  roll_back(m_shares[i]);
  recovery_rollback::release_all_locks();
  destroy_internal_thd(thd);
}

void Threads::start(Roll_back roll_back) {
  m_roll_back = roll_back;
  m_shares = share(find_work(), g_threads);

  for (size_t i = 1; i < m_shares.size(); ++i) {
    try {
      m_threads.push_back(os_thread_create(trx_recovery_rollback_thread_key, i,
                                           [this, i] { execute(i); }));
    } catch (const std::system_error &) {
      m_shares.resize(i);
      break;
    }
    m_threads.back().start();
  }

  {
    std::unique_lock guard{m_mutex};
    m_changed.wait(guard, [this] { return m_n_ready == m_threads.size(); });
  }

  for (size_t i = 1; i < m_shares.size(); ++i) {
    g_status.used += !m_shares[i].empty();

    for (const auto id : m_shares[i]) {
      recovery_rollback::release_locks(id);
    }
  }

  if (g_status.used > 0) {
    ++g_status.used;
    ib::info(ER_IB_MSG_1186) << "Recovered transactions are rolled back by "
                             << g_status.used << " threads.";
  }
  m_are_any = !m_threads.empty();
}

void Threads::run() {
  if (!are_any()) {
    return;
  }

  wait_for_server();

  {
    const std::lock_guard guard{m_mutex};
    m_may_roll_back = true;
  }
  m_changed.notify_all();

  roll_back(m_shares[0]);

  for (auto &thread : m_threads) {
    thread.join();
  }
}

}  // namespace

uint g_threads = 1;

Status g_status;

std::vector<std::vector<trx_id_t>> share(std::vector<Work> works,
                                         size_t n_threads) {
  std::vector<std::vector<trx_id_t>> shares(std::min(n_threads, works.size()));
  std::vector<uint64_t> n_records(shares.size());

  std::sort(works.begin(), works.end(), [](const Work &a, const Work &b) {
    return a.n_records != b.n_records ? a.n_records > b.n_records : a.id > b.id;
  });

  for (const auto &work : works) {
    const auto least = std::min_element(n_records.begin(), n_records.end());

    /* One more, so that transactions without records are shared, too. */
    *least += work.n_records + 1;
    shares[least - n_records.begin()].push_back(work.id);
  }

  return shares;
}

void start(Roll_back roll_back) { s_threads.start(roll_back); }

void run() { s_threads.run(); }

bool are_several() { return s_threads.are_any(); }

const trx_t *&own(const trx_t *&current) {
  static thread_local const trx_t *s_own;

  return are_several() ? s_own : current;
}

void wait_for_server() {
  static const auto s_end = std::chrono::steady_clock::now() + MAX_WAIT;

  while (get_server_state() == SERVER_BOOTING && opt_init_file == nullptr &&
         srv_shutdown_state.load() == SRV_SHUTDOWN_NONE &&
         std::chrono::steady_clock::now() < s_end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

}  // namespace rollback_threads
