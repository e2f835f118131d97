/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file include/srv0progress.h
What start-up is doing, and how far it is: error log, status variables, systemd.
Of a shutdown, what it waits for.

srv/srv0progress.cc has the design; the variable is
innodb_startup_progress_interval. */

#ifndef srv0progress_h
#define srv0progress_h

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "my_inttypes.h"

#include "log0types.h"
#include "srv0shutdown.h"
#include "trx0types.h"
#include "univ.i"

struct log_t;

namespace startup_progress {

/** innodb_startup_progress_interval: seconds between reports; 0 = none. */
extern uint g_interval_sec;

/** Default of innodb_startup_progress_interval. */
constexpr uint DEFAULT_INTERVAL_SEC = 10;

/** Upper limit of innodb_startup_progress_interval. */
constexpr uint MAX_INTERVAL_SEC = 3600;

/** Most seconds between two looks at whether the start makes progress. The
service manager hears of it after each: its own limit may be much shorter than
the interval. */
constexpr uint LOOK_SEC = 10;

/** What the service manager is asked to wait, beyond the next look, for a start
that makes progress. Volumes may stall for minutes. */
constexpr uint GRACE_SEC = 300;

/** What it is asked to wait when InnoDB is ready, or has ended its threads: the
rest of the start, or of the shutdown, does not report. */
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

/** InnoDB begins to shut down: a thread reports until stop(), unless the
interval is 0. */
void begin_shutdown();

/** Ends the thread, if there is one. Can be called at any time. At the end of a
shutdown the service manager is asked for time to free the memory. */
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

/** @return whether a transaction is one of those that recovery rolls back, and
not a prepared one, which is rolled back when somebody says so
@param[in]  is_recovered  whether it is left from before the start
@param[in]  state         its state */
[[nodiscard]] constexpr bool is_rolled_back_by_recovery(bool is_recovered,
                                                        trx_state_t state) {
  return is_recovered && state == TRX_STATE_ACTIVE;
}

/** A record of a transaction was fetched, to be rolled back.
@param[in]  undo_rec  the record; nullptr if none is left
@param[in]  trx       the transaction */
void step_rollback(const trx_undo_rec_t *undo_rec, const trx_t &trx);

/** The redo log is read. At most what is between the checkpoint and the end of
the newest file has to be scanned.
@param[in]  log             redo log
@param[in]  checkpoint_lsn  where recovery begins
@return the phase */
[[nodiscard]] Scope scan_redo(const log_t &log, lsn_t checkpoint_lsn);

/** The redo log was read and parsed up to an LSN.
@param[in]  lsn             where the next part begins
@param[in]  checkpoint_lsn  where recovery began */
void redo_scanned(lsn_t lsn, lsn_t checkpoint_lsn);

/** What was parsed is applied.
@param[in]  n_pages  pages that it changes
@return the phase */
[[nodiscard]] inline Scope apply_redo(uint64_t n_pages) {
  return Scope{Phase::REDO_APPLY, n_pages};
}

/** The undo logs of all open transactions will be walked through: their pages
are what there is to be done. */
void expect_undo_scan();

/** Tablespaces of the dictionary are compared with the files.
@param[in]  n_tablespaces  how many
@return the phase */
[[nodiscard]] inline Scope validate(uint64_t n_tablespaces) {
  return Scope{Phase::VALIDATION, n_tablespaces};
}

/** Transactions that recovery found are rolled back.
@param[in]  all  false = only transactions on the data dictionary
@return the phase; their undo records are what there is to be done */
[[nodiscard]] Scope roll_back(bool all);

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

/** What a shutdown of InnoDB waits for, in this order. */
enum class Wait : size_t {
  /** Transactions that a recovery has found are rolled back, with
  innodb_fast_shutdown=0. */
  ROLLBACK,
  /** Threads that use the data dictionary. */
  THREADS,
  /** Purge, with innodb_fast_shutdown=0. */
  PURGE,
  /** The server shuts down, and frees the tables that it has kept open. */
  SERVER,
  /** The other threads: the change buffer is merged, with
  innodb_fast_shutdown=0; the list of the pages in the buffer pool is
  written. */
  OTHER_THREADS,
  /** Modified pages are written, but with innodb_fast_shutdown=2. */
  FLUSH,
  /** Files are flushed and closed. */
  FILES
};

/** Number of things that a shutdown waits for. */
constexpr size_t N_WAITS = 7;

/** What a shutdown waits for. */
struct Left {
  /** What it is. */
  Wait wait{Wait::THREADS};
  /** How much of it is left, if that is counted. */
  std::optional<uint64_t> count;
};

/** @param[in]  shutdown_state  state of InnoDB
@return what the shutdown waits for in it */
[[nodiscard]] Wait wait_in(srv_shutdown_t shutdown_state);

/** @param[in]  wait           what a shutdown waits for
@param[in]      fast_shutdown  innodb_fast_shutdown, which leaves some of it out
@return whether it is known how much of it is left */
[[nodiscard]] bool is_counted(Wait wait, ulong fast_shutdown);

/** @param[in]  activity  a number that grows as long as anything moves
@param[in]      left      what the shutdown waits for
@return a number that changes as long as the shutdown gets on: what it waits for
counts more than all else, so that the parts do not make up for one another */
[[nodiscard]] uint64_t shutdown_activity(uint64_t activity, const Left &left);

/** Decides when the reporting thread looks, and what it does then. */
class Watch {
 public:
  /** What to do after a look. */
  struct Action {
    /** Whether to write lines. */
    bool writes;
    /** Seconds that the service manager is asked to wait; 0 = as configured. */
    uint extend_sec;
    /** Seconds since anything was done. */
    uint stalled_sec;
    /** Whether there is nothing to report any more. */
    bool ends;
  };

  /** Constructor.
  @param[in]  interval_sec  seconds between lines
  @param[in]  activity      a number that grows as long as start-up gets on */
  Watch(uint interval_sec, uint64_t activity)
      : m_interval_sec(interval_sec),
        m_left_sec(interval_sec),
        m_activity(activity) {}

  /** @return seconds until the next look */
  [[nodiscard]] uint wait_sec() const { return std::min(m_left_sec, LOOK_SEC); }

  /** Look, after that time.
  @param[in]  activity     number that grows
  @param[in]  is_starting  whether InnoDB is not ready yet
  @param[in]  is_busy      whether a phase is under way
  @return what to do */
  [[nodiscard]] Action look(uint64_t activity, bool is_starting, bool is_busy);

 private:
  /** Seconds between lines. */
  const uint m_interval_sec;
  /** Seconds until the next lines. */
  uint m_left_sec;
  /** The number that grows, at the last look. */
  uint64_t m_activity;
  /** Seconds since it has grown. */
  uint m_stalled_sec{0};
  /** Looks in a row that found nothing under way. */
  uint m_n_idle{0};
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

/** @param[in]  left         what a shutdown waits for
@param[in]  elapsed      since the shutdown began
@param[in]  meter        of how much was done, in all
@param[in]  stalled_sec  seconds since anything was done
@return line for the error log */
[[nodiscard]] std::string shutdown_line(const Left &left,
                                        std::chrono::microseconds elapsed,
                                        const Meter &meter, uint stalled_sec);

/** @param[in]  text        what is done now, one line
@param[in]      extend_sec  seconds to wait from now on; 0 = as configured
@return message for the service manager */
[[nodiscard]] std::string notification(const std::string &text,
                                       uint extend_sec);

}  // namespace startup_progress

#endif /* srv0progress_h */
