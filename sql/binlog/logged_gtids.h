/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file sql/binlog/logged_gtids.h
The GTIDs that a start would find in the binary log that is being written.

A start takes the GTIDs of the Previous_gtids event at the beginning of the last
file and of each GTID event that follows. The same events are counted here, when
they are written, so that at shutdown the set is known without reading them. It
is not derived from gtid_executed, which may differ: what was added to
gtid_purged, say, is in gtid_executed and in no file. */

#ifndef BINLOG_LOGGED_GTIDS_H
#define BINLOG_LOGGED_GTIDS_H

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

class Log_event;

namespace binlog {

/** Counts with binlog_startup_scan=TRANSACTIONS only. Not thread-safe: who
writes to the binary log holds its lock, or is alone, as at the start. */
class Logged_gtids {
 public:
  /** Largest encoded set that is kept; some 500 intervals. To add a GTID means
  to walk along those of its server, and other commits wait for that. */
  static constexpr size_t MAX_BYTES = 8192;

  /** The size is looked at each so many GTIDs. */
  static constexpr unsigned CHECK_EVERY = 1024;

  Logged_gtids();
  Logged_gtids(const Logged_gtids &) = delete;
  Logged_gtids &operator=(const Logged_gtids &) = delete;
  ~Logged_gtids();

  /** An event has been written to the binary log. With a Previous_gtids event a
  file begins, and what was known before is forgotten.
  @param[in] event  the event, of any type */
  void written(const Log_event &event);

  /** A transaction has been written, or only a part of it.
  @param[in] event     its GTID event
  @param[in] is_wrong  there was an error: what a start finds in this file from
                       here on is not known */
  void transaction_written(const Log_event &event, bool is_wrong);

  /** The file has been closed. */
  void forget();

  /** @return the set, encoded as in a Previous_gtids event; nothing if it is
  not known, since the file has no such event, or too large */
  std::optional<std::string> encode() const;

 private:
  struct Set;

  /** Nothing if the set is not known. */
  std::unique_ptr<Set> m_set;
  unsigned m_n_added{0};
};

/** The GTIDs of the server's own binary log. */
extern Logged_gtids g_logged_gtids;

}  // namespace binlog

#endif  // BINLOG_LOGGED_GTIDS_H
