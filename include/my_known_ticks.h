/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file include/my_known_ticks.h
The frequency of the tick timer, asked for and not measured. */

#ifndef MY_KNOWN_TICKS_H
#define MY_KNOWN_TICKS_H

#include "my_config.h"
#include "my_rdtsc.h"

#ifdef HAVE_UNISTD_H
#include <unistd.h>
#endif

namespace my_timer {

/** For as long as this object exists, the tick timer looks as if there were
none, and so my_timer_init() does not measure its frequency, which takes eleven
ticks of a busy processor. With times() the system states the frequency, and it
is set; without times(), or if the system does not state it, nothing is done. */
class Known_ticks {
 public:
  /** @param[in,out]  ticks  the tick timer, as it was found; outlives this */
  explicit Known_ticks(my_timer_unit_info *ticks)
      : m_ticks{*ticks}, m_routine{ticks->routine} {
#ifdef _SC_CLK_TCK
    const auto frequency = sysconf(_SC_CLK_TCK);
    if (m_routine != MY_TIMER_ROUTINE_TIMES || frequency <= 0) return;
    m_ticks.frequency = frequency;
    m_ticks.routine = 0;
#endif
  }

  ~Known_ticks() { m_ticks.routine = m_routine; }

  Known_ticks(const Known_ticks &) = delete;
  Known_ticks &operator=(const Known_ticks &) = delete;

 private:
  my_timer_unit_info &m_ticks;
  const ulonglong m_routine;
};

}  // namespace my_timer

#endif  // MY_KNOWN_TICKS_H
