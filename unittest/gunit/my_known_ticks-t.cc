/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** Unit tests of my_known_ticks: the frequency of the tick timer is that of the
system, and nobody waits for ticks to learn it. */

#include <gtest/gtest.h>

#include "my_config.h"

#if defined(__linux__) && defined(HAVE_SYS_TIMES_H) && defined(HAVE_TIMES)

#include <sys/syscall.h>
#include <sys/times.h>
#include <unistd.h>

#include <ctime>

#include "my_known_ticks.h"
#include "my_rdtsc.h"

namespace my_known_ticks_unittest {

/** Calls from one tick to the next of the clock below. */
constexpr int CALLS_PER_TICK = 10000;

/** Is the clock that of this test? */
static bool s_is_clock_ours = false;

/** Calls of the clock of this test. */
static int s_calls = 0;

class my_known_ticks : public ::testing::Test {
 protected:
  void SetUp() override {
    s_calls = 0;
    s_is_clock_ours = true;
  }
  void TearDown() override { s_is_clock_ours = false; }
};

}  // namespace my_known_ticks_unittest

/** Takes the place of the system's function. It ticks by calls and not by time,
and is the system's for all other tests of the same program. */
extern "C" clock_t times(tms *buffer) noexcept {
  using namespace my_known_ticks_unittest;
  if (!s_is_clock_ours) return syscall(SYS_times, buffer);
  *buffer = {};
  return 1 + (++s_calls / CALLS_PER_TICK);
}

namespace my_known_ticks_unittest {

TEST_F(my_known_ticks, are_not_measured) {
  my_timer_info timers{};
  my_timer_init(&timers);

  EXPECT_GT(s_calls, 0) << "times() of this test is not the one that is called";
  EXPECT_LT(s_calls, CALLS_PER_TICK);

  EXPECT_EQ(MY_TIMER_ROUTINE_TIMES, timers.ticks.routine);
  EXPECT_EQ(sysconf(_SC_CLK_TCK), timers.ticks.frequency);
  EXPECT_EQ(1, timers.ticks.resolution);
  EXPECT_GT(timers.cycles.frequency, 0);
}

TEST_F(my_known_ticks, routine_is_hidden_for_a_while) {
  my_timer_unit_info ticks{MY_TIMER_ROUTINE_TIMES, 2, 3, 4};
  {
    const my_timer::Known_ticks known{&ticks};
    EXPECT_EQ(0, ticks.routine);
  }
  EXPECT_EQ(MY_TIMER_ROUTINE_TIMES, ticks.routine);
  EXPECT_EQ(2, ticks.overhead);
  EXPECT_EQ(sysconf(_SC_CLK_TCK), ticks.frequency);
  EXPECT_EQ(4, ticks.resolution);
}

TEST_F(my_known_ticks, other_timers_are_left_alone) {
  for (const ulonglong routine : {0, MY_TIMER_ROUTINE_GETTICKCOUNT}) {
    my_timer_unit_info ticks{routine, 2, 3, 4};
    {
      const my_timer::Known_ticks known{&ticks};
      EXPECT_EQ(routine, ticks.routine);
    }
    EXPECT_EQ(routine, ticks.routine);
    EXPECT_EQ(3, ticks.frequency);
  }
}

}  // namespace my_known_ticks_unittest

#endif
