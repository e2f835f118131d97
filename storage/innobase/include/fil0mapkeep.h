/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file include/fil0mapkeep.h
When a new map is written. */

#ifndef fil0mapkeep_h
#define fil0mapkeep_h

#include <cstdint>

#include "fil0mapfile.h"

namespace tablespace_map {

/** The map is written when there was no DDL for this time, */
constexpr int64_t QUIET_NSEC = 1'000'000'000;
/** or when it has waited for that for this time. */
constexpr int64_t MAX_WAIT_NSEC = 10'000'000'000;
/** When a directory was too young to be trusted, the map is written again after
this time, */
constexpr int64_t OLDER_NSEC = RACY_NSEC + QUIET_NSEC;
/** at most this many times. */
constexpr int MAX_RACY_WRITES = 3;

/** What became of writing a map. */
enum class Written { YES, NO, STOPPED };

/** Decides when the map is written, and how long the thread rests after that.
Times are of one clock that never goes back. */
class Write_policy {
 public:
  /** Ask whether it is time to write; the thread asks twice a second.
  @param[in]  now_nsec   what time it is
  @param[in]  is_stale   true if the next start would not know all that it could
  @param[in]  quiet_nsec for how long there was no DDL
  @return true if so; note() is called next */
  [[nodiscard]] bool must_write(int64_t now_nsec, bool is_stale,
                                int64_t quiet_nsec) {
    m_is_stale = is_stale;
    if (!is_stale) {
      m_stale_since = 0;
    } else if (m_stale_since == 0) {
      m_stale_since = now_nsec;
    }

    const bool is_quiet =
        quiet_nsec >= QUIET_NSEC || now_nsec - m_stale_since >= MAX_WAIT_NSEC;
    const bool is_older = m_n_racy > 0 && m_n_racy <= MAX_RACY_WRITES &&
                          now_nsec - m_last_write >= OLDER_NSEC;

    return now_nsec >= m_rest_until && (is_stale ? is_quiet : is_older);
  }

  /** That was tried.
  @param[in]  written     what became of it
  @param[in]  begin_nsec  when it began
  @param[in]  end_nsec    when it ended
  @param[in]  is_racy     true if a later map may trust more */
  void note(Written written, int64_t begin_nsec, int64_t end_nsec,
            bool is_racy) {
    m_last_write = end_nsec;
    m_rest_until =
        end_nsec + (written == Written::NO ? MAX_REST_NSEC
                                           : rest_nsec(end_nsec - begin_nsec));
    m_stale_since = 0;
    if (written == Written::YES) {
      m_n_racy = is_racy ? (m_is_stale ? 1 : m_n_racy + 1) : 0;
    }
  }

 private:
  int64_t m_rest_until{0};
  /** Since when the map is stale; 0 if it is not. */
  int64_t m_stale_since{0};
  int64_t m_last_write{0};
  /** Maps in a row that a later one may trust more than. */
  int m_n_racy{0};
  /** What must_write() was told. */
  bool m_is_stale{false};
};

}  // namespace tablespace_map

#endif /* fil0mapkeep_h */
