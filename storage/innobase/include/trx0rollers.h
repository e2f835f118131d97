/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file include/trx0rollers.h
Several threads that roll back the transactions which were open at a crash.

trx/trx0rollers.cc has the design; the variable is
innodb_recovery_rollback_threads. */

#ifndef trx0rollers_h
#define trx0rollers_h

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "my_inttypes.h"

#include "trx0types.h"
#include "univ.i"

namespace rollback_threads {

/** innodb_recovery_rollback_threads: most threads; 1 = MySQL's one. */
extern uint g_threads;

/** Upper limit of innodb_recovery_rollback_threads. */
constexpr uint MAX_THREADS = 64;

/** Shown as Innodb_recovery_rollback_threads_used. */
struct Status {
  /** Threads that roll back, or have; 0 if there was nothing to do. */
  ulonglong used;
};

extern Status g_status;

/** Transaction to be rolled back. */
struct Work {
  /** Transaction. */
  trx_id_t id;
  /** Undo records of it. */
  uint64_t n_records;
};

/** Share transactions among threads, so that each has as many undo records as
the others, as far as that goes.
@param[in]  works      transactions
@param[in]  n_threads  most threads, at least 1
@return transactions of each thread, the largest first; no thread has none,
unless there are no transactions */
[[nodiscard]] std::vector<std::vector<trx_id_t>> share(std::vector<Work> works,
                                                       size_t n_threads);

/** Rolls a transaction back. The caller has the mutex of trx_sys, which is
released if true is returned. */
using Roll_back = bool (*)(trx_t *, bool);

/** The thread that rolls back has its locks on the tables, and DDL may not go
on yet: start the others, wait until each has its own locks, and give up those
of the caller that they have.
@param[in]  roll_back  rolls a transaction back */
void start(Roll_back roll_back);

/** Roll back, and wait for the others to end. Does nothing if there are none.
 */
void run();

/** @return whether there are several threads, which is known when the first
may roll back */
[[nodiscard]] bool are_several();

/** @return where this thread notes which transaction it rolls back
@param[in]  current  where MySQL's only thread does */
[[nodiscard]] const trx_t *&own(const trx_t *&current);

/** Wait until the server is open: what it still has to read for that must not
queue up behind pages that it does not need for it. Statements of the start
itself may wait for the rows, so no longer than MAX_WAIT from the first call by
anybody, and not if there is an init_file. */
void wait_for_server();

/** How long the server may take to open, once it could. */
constexpr auto MAX_WAIT = std::chrono::seconds(10);

}  // namespace rollback_threads

#endif /* trx0rollers_h */
