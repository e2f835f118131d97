/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** Unit tests of srv0progress: phases, rates, and what is said of them. */

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ratio>
#include <string>
#include <thread>

#include "storage/innobase/include/srv0progress.h"

namespace innodb_srv0progress_unittest {

using namespace startup_progress;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr uint64_t MIB = 1024 * 1024;

/** @param[in]  phase  phase
@return its time so far, in microseconds */
static ulonglong usec(Phase phase) {
  return g_status.phase_usec[static_cast<size_t>(phase)];
}

TEST(srv0progress, meter_knows_nothing_at_first) {
  const Meter meter;

  EXPECT_EQ(0, meter.rate());
  EXPECT_LT(meter.seconds_left(), 0);
}

TEST(srv0progress, meter_rate_and_estimate) {
  Meter meter;

  meter.add({seconds(10), 100, 1000, 0});
  EXPECT_DOUBLE_EQ(10, meter.rate());
  EXPECT_DOUBLE_EQ(90, meter.seconds_left());

  meter.add({seconds(20), 400, 1000, 0});
  EXPECT_DOUBLE_EQ(20, meter.rate());
  EXPECT_DOUBLE_EQ(30, meter.seconds_left());
}

TEST(srv0progress, meter_forgets_old_rates) {
  Meter meter;

  meter.add({seconds(10), 1000000, 2000000, 0});
  for (size_t i = 1; i <= Meter::WINDOW; ++i) {
    meter.add({seconds(10 + i), 1000000 + i * 10, 2000000, 0});
  }
  EXPECT_DOUBLE_EQ(10, meter.rate());
}

TEST(srv0progress, meter_without_progress) {
  Meter meter;

  for (size_t i = 0; i <= Meter::WINDOW; ++i) {
    meter.add({seconds(10 + i), 500, 1000, 0});
  }
  EXPECT_EQ(0, meter.rate());
  EXPECT_LT(meter.seconds_left(), 0);
}

TEST(srv0progress, meter_of_odd_samples) {
  Meter meter;

  /* No total. */
  meter.add({seconds(1), 5, 0, 0});
  EXPECT_LT(meter.seconds_left(), 0);
  /* More done than there was to do. */
  meter.add({seconds(2), 50, 40, 0});
  EXPECT_LT(meter.seconds_left(), 0);
  /* Time that stands still. */
  meter.add({seconds(2), 60, 100, 0});
  EXPECT_DOUBLE_EQ(25, meter.rate());
  /* A phase that begins again. */
  meter.add({seconds(3), 10, 100, 0});
  EXPECT_EQ(0, meter.rate());
  meter.add({seconds(4), 30, 100, 0});
  EXPECT_DOUBLE_EQ(20, meter.rate());
}

TEST(srv0progress, progress_line) {
  Meter meter;
  const Sample sample{milliseconds(10500), 2100, 8400, 3 * MIB};

  meter.add(sample);
  EXPECT_EQ(
      "Start-up, redo apply: 2100 of 8400 pages (25%) in 10.5 s, 3.0 MiB read, "
      "200 pages/s, about 32 s left",
      progress_line(Phase::REDO_APPLY, sample, meter, 0));
  EXPECT_EQ(
      "Start-up, redo apply: 2100 of 8400 pages (25%) in 10.5 s, 3.0 MiB read, "
      "200 pages/s, no progress for 20 s",
      progress_line(Phase::REDO_APPLY, sample, meter, 20));
}

TEST(srv0progress, progress_line_of_bytes) {
  Meter meter;
  const Sample sample{seconds(2), 10 * MIB, 40 * MIB, 10 * MIB};

  meter.add(sample);
  EXPECT_EQ(
      "Start-up, redo scan: 10.0 of 40.0 MiB (25%) in 2.0 s, 10.0 MiB read, "
      "5.0 MiB/s, about 6 s left",
      progress_line(Phase::REDO_SCAN, sample, meter, 0));
}

TEST(srv0progress, progress_line_without_total) {
  Meter meter;
  Sample sample{seconds(1), 7, 0, 0};
  const char *line =
      "Start-up, listing: 7 files in 1.0 s, 0.0 MiB read, 7 files/s";

  meter.add(sample);
  EXPECT_EQ(line, progress_line(Phase::LISTING, sample, meter, 0));

  /* A total that was too low is not shown. */
  sample.total = 6;
  EXPECT_EQ(line, progress_line(Phase::LISTING, sample, meter, 0));

  /* All done is 100 per cent, nearly all is not. */
  sample.total = 7;
  EXPECT_NE(std::string::npos, progress_line(Phase::LISTING, sample, meter, 0)
                                   .find("7 of 7 files (100%)"));
  sample.done = 999999;
  sample.total = 1000000;
  EXPECT_NE(std::string::npos, progress_line(Phase::LISTING, sample, meter, 0)
                                   .find("999999 of 1000000 files (99%)"));
}

TEST(srv0progress, phase_that_counts_nothing) {
  const Sample sample{milliseconds(1500), 0, 0, 2 * MIB};
  Meter meter;

  meter.add(sample);
  EXPECT_EQ("Start-up, map: 1.5 s, 2.0 MiB read",
            progress_line(Phase::MAP, sample, meter, 0));
  EXPECT_EQ("Start-up, map: 1.5 s, 2.0 MiB read, no progress for 10 s",
            progress_line(Phase::MAP, sample, meter, 10));
  EXPECT_EQ("Start-up, map: ended, in 1.5 s, 2.0 MiB read",
            summary_line(Phase::MAP, sample));
}

TEST(srv0progress, summary_line) {
  EXPECT_EQ(
      "Start-up, check: ended, 100000 files in 33.2 s, 391.0 MiB read, 3012 "
      "files/s",
      summary_line(Phase::CHECK,
                   {milliseconds(33200), 100000, 100000, 391 * MIB}));
  EXPECT_EQ("Start-up, rollback: ended, 0 rows in 0.0 s, 0.0 MiB read",
            summary_line(Phase::ROLLBACK, {}));
}

TEST(srv0progress, end_line) {
  Status status{};

  status.usec = 42950 * 1000;
  EXPECT_EQ("Start-up took 43.0 s", end_line(status));

  status.phase_usec[static_cast<size_t>(Phase::LISTING)] = 3400 * 1000;
  status.phase_usec[static_cast<size_t>(Phase::REDO_SCAN)] = 99 * 1000;
  status.phase_usec[static_cast<size_t>(Phase::VALIDATION)] = 4100 * 1000;
  EXPECT_EQ("Start-up took 43.0 s: listing 3.4, validation 4.1",
            end_line(status));
}

TEST(srv0progress, notification) {
  EXPECT_EQ("", notification("", 0));
  EXPECT_EQ("STATUS=text\n", notification("text", 0));
  EXPECT_EQ("STATUS=text\nEXTEND_TIMEOUT_USEC=310000000\n",
            notification("text", 310));
  /* More than 32 bits. */
  EXPECT_EQ("EXTEND_TIMEOUT_USEC=7200000000\n", notification("", 7200));
}

TEST(srv0progress, shutdown_line) {
  Meter meter;

  meter.add({seconds(10), 25000, 100000, 0});
  EXPECT_EQ(
      "Shutdown, flush: 75000 pages left, 12.5 s since it began, 2500 pages/s, "
      "about 30 s left",
      shutdown_line({Wait::FLUSH, 75000}, milliseconds(12500), meter, 0));
  EXPECT_EQ(
      "Shutdown, purge: 3 undo logs left, 1.0 s since it began, no progress "
      "for 7 s",
      shutdown_line({Wait::PURGE, 3}, seconds(1), Meter{}, 7));
  EXPECT_EQ("Shutdown, flush: 1.0 s since it began",
            shutdown_line({Wait::FLUSH, {}}, seconds(1), Meter{}, 0));
}

TEST(srv0progress, fast_shutdown_leaves_work_out) {
  for (const auto wait : {Wait::ROLLBACK, Wait::PURGE}) {
    EXPECT_TRUE(is_counted(wait, 0));
    EXPECT_FALSE(is_counted(wait, 1));
    EXPECT_FALSE(is_counted(wait, 2));
  }
  EXPECT_TRUE(is_counted(Wait::FLUSH, 0));
  EXPECT_TRUE(is_counted(Wait::FLUSH, 1));
  EXPECT_FALSE(is_counted(Wait::FLUSH, 2));
  EXPECT_TRUE(is_counted(Wait::SERVER, 2));
  EXPECT_FALSE(is_counted(Wait::OTHER_THREADS, 0));
}

TEST(srv0progress, each_state_of_a_shutdown_is_later) {
  auto last = Wait::ROLLBACK;

  for (int i = SRV_SHUTDOWN_RECOVERY_ROLLBACK; i <= SRV_SHUTDOWN_EXIT_THREADS;
       ++i) {
    const auto wait = wait_in(static_cast<srv_shutdown_t>(i));
    EXPECT_LE(last, wait) << i;
    last = wait;
  }
  EXPECT_EQ(Wait::FILES, last);
  EXPECT_EQ(Wait::THREADS, wait_in(SRV_SHUTDOWN_NONE));
}

TEST(srv0progress, a_shutdown_moves) {
  const auto before = shutdown_activity(100, {Wait::THREADS, {}});

  /* What is left of the next is as much as it is later. */
  EXPECT_NE(before, shutdown_activity(100, {Wait::PURGE, 1}));
  EXPECT_NE(before, shutdown_activity(101, {Wait::PURGE, 2}));
  EXPECT_EQ(before, shutdown_activity(100, {Wait::THREADS, {}}));
  /* A page was written, and is not left any more. */
  EXPECT_NE(shutdown_activity(100, {Wait::FLUSH, 7}),
            shutdown_activity(101, {Wait::FLUSH, 6}));
}

TEST(srv0progress, watch_writes_each_interval) {
  for (const uint interval : {1U, 3U, 10U, 25U, 60U}) {
    Watch watch{interval, 0};
    uint elapsed = 0;
    uint n_written = 0;

    while (elapsed < 10 * interval) {
      ASSERT_GT(watch.wait_sec(), 0U);
      ASSERT_LE(watch.wait_sec(), LOOK_SEC);
      elapsed += watch.wait_sec();
      if (watch.look(elapsed, true, true).writes) {
        ++n_written;
        EXPECT_EQ(n_written * interval, elapsed) << interval;
      }
    }
    EXPECT_EQ(10U, n_written) << interval;
  }
}

TEST(srv0progress, watch_asks_for_time_whatever_the_interval) {
  /* A start that gets on, under a manager that waits for 90 s. */
  Watch watch{MAX_INTERVAL_SEC, 0};
  uint deadline = 90;
  uint elapsed = 0;

  while (elapsed < 4000) {
    elapsed += watch.wait_sec();
    ASSERT_LT(elapsed, deadline);
    const auto action = watch.look(elapsed, true, true);
    EXPECT_EQ(0U, action.stalled_sec);
    deadline = std::max(deadline, elapsed + action.extend_sec);
    /* Until after the next look, and the grace. */
    EXPECT_EQ(watch.wait_sec() + GRACE_SEC, action.extend_sec);
  }

  /* It hangs: no more time. */
  const auto activity = elapsed;
  for (uint stalled = LOOK_SEC; stalled < 1000; stalled += LOOK_SEC) {
    ASSERT_EQ(LOOK_SEC, watch.wait_sec());
    const auto action = watch.look(activity, true, true);
    EXPECT_EQ(0U, action.extend_sec);
    EXPECT_EQ(stalled, action.stalled_sec);
    EXPECT_FALSE(action.ends);
  }

  /* It gets on; it is ready. */
  EXPECT_EQ(LOOK_SEC + GRACE_SEC, watch.look(5000, true, true).extend_sec);
  EXPECT_EQ(0U, watch.look(5001, false, true).extend_sec);
}

TEST(srv0progress, watch_ends_when_nothing_is_left) {
  Watch watch{1, 0};

  /* A start in which no phase is under way. */
  for (int i = 0; i < 5; ++i) {
    EXPECT_FALSE(watch.look(0, true, false).ends);
  }
  /* It is ready, and the rollback in background has not begun yet. */
  EXPECT_FALSE(watch.look(0, false, false).ends);
  EXPECT_FALSE(watch.look(0, false, true).ends);
  EXPECT_FALSE(watch.look(0, false, true).ends);
  EXPECT_FALSE(watch.look(0, false, false).ends);
  EXPECT_TRUE(watch.look(0, false, false).ends);
}

TEST(srv0progress, rollback_counts_what_recovery_rolls_back) {
  EXPECT_TRUE(is_rolled_back_by_recovery(true, TRX_STATE_ACTIVE));
  EXPECT_FALSE(is_rolled_back_by_recovery(false, TRX_STATE_ACTIVE));
  /* By XA ROLLBACK, or by the recovery of the binary log. */
  EXPECT_FALSE(is_rolled_back_by_recovery(true, TRX_STATE_PREPARED));
}

TEST(srv0progress, inner_phase_pauses_outer) {
  const auto outer = usec(Phase::REDO_SCAN);
  const auto inner = usec(Phase::REDO_APPLY);
  const auto begin = std::chrono::steady_clock::now();

  {
    const Scope scan{Phase::REDO_SCAN};
    std::this_thread::sleep_for(milliseconds(20));
    {
      const Scope apply{Phase::REDO_APPLY};
      std::this_thread::sleep_for(milliseconds(200));
    }
    std::this_thread::sleep_for(milliseconds(20));
  }

  const std::chrono::duration<double, std::micro> all =
      std::chrono::steady_clock::now() - begin;
  const auto scanned = usec(Phase::REDO_SCAN) - outer;
  const auto applied = usec(Phase::REDO_APPLY) - inner;

  EXPECT_GE(scanned, 40 * 1000);
  EXPECT_GE(applied, 200 * 1000);
  EXPECT_LE(scanned + applied, all.count());
}

TEST(srv0progress, phase_takes_the_place_of_another) {
  const auto listing = usec(Phase::LISTING);
  const auto check = usec(Phase::CHECK);

  {
    Scope scope{Phase::LISTING};
    std::this_thread::sleep_for(milliseconds(20));
    scope.enter(Phase::CHECK, 10);
    EXPECT_GE(usec(Phase::LISTING) - listing, 20 * 1000);
    std::this_thread::sleep_for(milliseconds(30));
    EXPECT_EQ(check, usec(Phase::CHECK));
  }

  EXPECT_GE(usec(Phase::CHECK) - check, 30 * 1000);
}

TEST(srv0progress, same_phase_within_itself) {
  const auto check = usec(Phase::CHECK);

  {
    Scope outer{Phase::LISTING};
    outer.enter(Phase::CHECK);
    {
      Scope inner{Phase::LISTING};
      inner.enter(Phase::CHECK);
      std::this_thread::sleep_for(milliseconds(20));
    }
    std::this_thread::sleep_for(milliseconds(20));
  }

  EXPECT_GE(usec(Phase::CHECK) - check, 40 * 1000);
  EXPECT_LT(usec(Phase::CHECK) - check, 10 * 1000 * 1000);
}

TEST(srv0progress, phases_of_two_threads) {
  const auto rollback = usec(Phase::ROLLBACK);
  const auto dictionary = usec(Phase::DICTIONARY);

  std::thread background([] {
    const Scope scope{Phase::ROLLBACK};
    std::this_thread::sleep_for(milliseconds(50));
  });
  {
    const Scope scope{Phase::DICTIONARY};
    std::this_thread::sleep_for(milliseconds(50));
  }
  background.join();

  EXPECT_GE(usec(Phase::ROLLBACK) - rollback, 50 * 1000);
  EXPECT_GE(usec(Phase::DICTIONARY) - dictionary, 50 * 1000);
}

TEST(srv0progress, stop_without_start) { stop(); }

}  // namespace innodb_srv0progress_unittest
