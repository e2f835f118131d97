/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file include/srv0progress.h
What start-up is doing, and how far it is: error log, status variables, systemd.

srv/srv0progress.cc has the design; the variable is
innodb_startup_progress_interval. */

#ifndef srv0progress_h
#define srv0progress_h

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>

#include "my_inttypes.h"

#include "log0types.h"
#include "univ.i"

struct log_t;
struct trx_t;

namespace startup_progress {

/** innodb_startup_progress_interval: seconds between reports; 0 = none. */
extern uint g_interval_sec;

/** Default of innodb_startup_progress_interval. */
constexpr uint DEFAULT_INTERVAL_SEC = 10;

/** Upper limit of innodb_startup_progress_interval. */
constexpr uint MAX_INTERVAL_SEC = 3600;

/** What the service manager is asked to wait, beyond the next report, for a
start that makes progress. Volumes may stall for minutes. */
constexpr uint GRACE_SEC = 300;

/** What it is asked to wait when InnoDB is ready: the rest of the start does
not report. */
constexpr uint REST_SEC = 900;

/** A phase that took less is not named in the last line. */
constexpr uint MIN_SHOWN_USEC = 100 * 1000;

/** Phases of a start; the list of status variables has the same order. */
enum class Phase : size_t {
  /** The map of the tablespace files is read. */
  MAP,
  /** Directories are listed. */
  LISTING,
  /** Tablespace IDs are read from the files. */
  CHECK,
  /** Redo log is read and parsed. */
  REDO_SCAN,
  /** What was parsed is applied to pages. */
  REDO_APPLY,
  /** Rollback segments are read, and the undo logs of open transactions for
  the tables that they have changed. */
  UNDO_SCAN,
  /** Tablespaces are read from the data dictionary; tables that recovery needs
  are opened. */
  DICTIONARY,
  /** Tablespaces of the dictionary are compared with the files. */
  VALIDATION,
  /** Open transactions are rolled back: those on the dictionary before the
  server is ready, the others in background. */
  ROLLBACK
};

/** Number of phases. */
constexpr size_t N_PHASES = 9;

/** Values of the status variables Innodb_startup_*. */
struct Status {
  /** From the look at the tablespace files until InnoDB was ready. */
  ulonglong usec;
  /** Duration of each phase, without that of phases within it. */
  std::array<ulonglong, N_PHASES> phase_usec;
};

/** Status since start, as of the end of each phase. */
extern Status g_status;

/** Start-up begins: times it, and starts the thread that reports unless the
interval is 0. */
void start();

/** Ends the thread, if there is one. Can be called at any time. */
void stop();

/** Start-up ends when this object does. */
class End {
 public:
  End() = default;
  ~End();

  End(const End &) = delete;
  End &operator=(const End &) = delete;
};

/** Lives as long as a phase. The phase of an object that the same thread made
before pauses meanwhile. */
class Scope {
 public:
  /** Constructor.
  @param[in]  phase  phase that begins or goes on
  @param[in]  total  what there is to be done in addition; 0 = not known */
  explicit Scope(Phase phase, uint64_t total = 0);
  ~Scope();

  Scope(const Scope &) = delete;
  Scope &operator=(const Scope &) = delete;

  /** The phase ends and another takes its place.
  @param[in]  phase  phase that begins
  @param[in]  total  what there is to be done; 0 = not known */
  void enter(Phase phase, uint64_t total = 0);

 private:
  /** Phase of this object. */
  Phase m_phase;
  /** Object of this thread that pauses. */
  Scope *const m_outer;
};

/** What was done so far in each phase. */
extern std::array<std::atomic_uint64_t, N_PHASES> g_done;

/** Something was done. May be called by any thread, also when there is no such
phase now.
@param[in]  phase  phase that it belongs to */
inline void step(Phase phase) {
  g_done[static_cast<size_t>(phase)].fetch_add(1, std::memory_order_relaxed);
}

/** @param[in]  phase  phase
@param[in]      done   what was done so far */
inline void set_done(Phase phase, uint64_t done) {
  g_done[static_cast<size_t>(phase)].store(done, std::memory_order_relaxed);
}

/** @param[in]  phase  phase
@param[in]      total  what there is to be done in all */
void set_total(Phase phase, uint64_t total);

/** A record of a transaction is about to be rolled back.
@param[in]  trx  the transaction */
void step_rollback(const trx_t &trx);

/** @param[in]  log             redo log
@param[in]      checkpoint_lsn  where recovery begins
@return bytes from there to the end of the newest file: at most what has to be
scanned */
[[nodiscard]] uint64_t redo_bytes(const log_t &log, lsn_t checkpoint_lsn);

/** @return pages of the undo logs of all open transactions */
[[nodiscard]] uint64_t undo_pages();

/** @param[in]  all  false = only of transactions on the data dictionary
@return undo records of recovered transactions that will be rolled back */
[[nodiscard]] uint64_t rows_to_undo(bool all);

/** What is known of a phase. */
struct Sample {
  /** Time that it has taken. */
  std::chrono::microseconds elapsed{0};
  /** What was done. */
  uint64_t done{0};
  /** What there is to be done; 0 = not known. */
  uint64_t total{0};
  /** Bytes that the server has read from storage. */
  uint64_t bytes_read{0};
};

/** Rate and estimate of a phase, from its last samples. */
class Meter {
 public:
  /** Samples that are kept: the rate is that of the last WINDOW - 1 intervals.
   */
  static constexpr size_t WINDOW = 7;

  /** @param[in]  sample  the newest sample */
  void add(const Sample &sample);

  /** @return what is done per second; 0 = nothing or not known */
  [[nodiscard]] double rate() const;

  /** @return seconds until all is done; negative = not known */
  [[nodiscard]] double seconds_left() const;

 private:
  /** Samples, oldest first; begins with a phase of which nothing is done. */
  std::deque<Sample> m_samples{Sample{}};
};

/** @param[in]  phase  phase that is under way
@param[in]  sample        what is known of it
@param[in]  meter         its rate
@param[in]  stalled_sec  seconds since anything was done
@return line for the error log */
[[nodiscard]] std::string progress_line(Phase phase, const Sample &sample,
                                        const Meter &meter, uint stalled_sec);

/** @param[in]  phase  phase that has ended
@param[in]      sample  what is known of it
@return line for the error log */
[[nodiscard]] std::string summary_line(Phase phase, const Sample &sample);

/** @param[in]  status  times
@return line for the error log that says where the time went */
[[nodiscard]] std::string end_line(const Status &status);

/** @param[in]  text        what is done now, one line
@param[in]      extend_sec  seconds to wait from now on; 0 = as configured
@return message for the service manager */
[[nodiscard]] std::string notification(const std::string &text,
                                       uint extend_sec);

}  // namespace startup_progress

#endif /* srv0progress_h */
