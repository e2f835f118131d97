/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file include/fil0mapddl.h
What DDL does to tablespace files while the map is kept. */

#ifndef fil0mapddl_h
#define fil0mapddl_h

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

#include "fil0journal.h"
#include "fil0mapimage.h"

namespace tablespace_map {

/** Counts DDL and IMPORT, and has the journal. Thread-safe. */
class Changes {
 public:
  static constexpr uint64_t FIRST_SEQ = 1;

  /** What a map has that is begun now. */
  struct Mark {
    uint64_t seq;
    uint64_t stale_seq;
    uint64_t import_seq;
  };

  /** @param[in]  roots    directories that are scanned
  @param[in]  current  the map that is in use */
  Changes(const Roots &roots, Current_map &current)
      : m_current(current), m_roots(roots), m_finder(roots) {}

  /** The journal is open: DDL is written to it from now on, or no more.
  @param[in]  is_serving  whether it is */
  void serve(bool is_serving) { m_is_serving = is_serving; }

  [[nodiscard]] bool is_serving() const { return m_is_serving; }

  /** DDL on a file begins. */
  void begin();

  /** It ends.
  @param[in]  is_covered  whether the journal has all of it */
  void end(bool is_covered);

  /** Begin a change of a file in the journal.
  @param[in]   space_id  tablespace ID
  @param[in]   path      path of the file
  @param[out]  change    the change
  @return false if the journal does not cover it */
  [[nodiscard]] bool begin_file(space_id_t space_id, const std::string &path,
                                Change &change);

  /** A file is opened at each start from now on.
  @param[in]  space_id  tablespace ID */
  void note_autoextend(space_id_t space_id);

  /** A file gets another tablespace ID: there is no map from now on. */
  void begin_import();

  void end_import();

  /** The journal of the map that the server keeps. */
  [[nodiscard]] Journal &journal() { return m_journal; }

  /** @return number of begins and ends of DDL */
  [[nodiscard]] uint64_t seq() const { return m_seq; }

  /** @return DDL that is under way */
  [[nodiscard]] uint64_t n_ddl() const { return m_n_ddl; }

  /** @return false if nothing has happened since, and nothing is under way
  @param[in]  seq  what seq() was */
  [[nodiscard]] bool is_ddl_since(uint64_t seq) const {
    return m_seq != seq || m_n_ddl != 0;
  }

  /** @return time of the last begin or end of DDL, by the clock of files */
  [[nodiscard]] int64_t last_nsec() const { return m_last_nsec; }

  /** @return number of begins and ends of imports */
  [[nodiscard]] uint64_t import_seq() const { return m_import_seq; }

  [[nodiscard]] bool is_importing() const { return m_n_imports != 0; }

  [[nodiscard]] Mark mark() const { return {m_seq, m_stale_seq, m_import_seq}; }

  /** @return seq() when the map was begun that is in the file */
  [[nodiscard]] uint64_t written_seq() const { return m_written_seq; }

  /** @return true if neither the map nor its journal has all that was done */
  [[nodiscard]] bool is_stale() const {
    return m_written_stale_seq != m_stale_seq;
  }

  /** A map was written.
  @param[in]  mark  mark() when it was begun */
  void note_written(const Mark &mark) {
    m_written_seq = mark.seq;
    m_written_stale_seq = mark.stale_seq;
  }

  /** The map of the start-up is right. DDL of the start itself is not in the
  journal. */
  void note_start_written() { note_written({m_seq, FIRST_SEQ, 0}); }

  /** The map in the file is not right. */
  void set_stale() { m_written_stale_seq = 0; }

 private:
  Current_map &m_current;
  const Roots &m_roots;
  Journal m_journal;
  std::atomic_bool m_is_serving{false};
  /** Begins and ends of DDL on files, recovery's included. */
  std::atomic<uint64_t> m_seq{FIRST_SEQ};
  std::atomic<uint64_t> m_n_ddl{0};
  std::atomic<uint64_t> m_import_seq{0};
  std::atomic<uint64_t> m_n_imports{0};
  std::atomic<uint64_t> m_written_seq{0};
  /** What neither the map nor its journal has, and what it was when the map was
  written. */
  std::atomic<uint64_t> m_stale_seq{FIRST_SEQ};
  std::atomic<uint64_t> m_written_stale_seq{0};
  std::atomic<int64_t> m_last_nsec{0};
  /** Protects m_finder. No other latch is requested under it. */
  std::mutex m_finder_mutex;
  Place_finder m_finder;
};

}  // namespace tablespace_map

#endif /* fil0mapddl_h */
