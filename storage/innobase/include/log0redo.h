/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file include/log0redo.h
Read and parse redo faster in crash recovery.

log/log0redo.cc has the design. */

#ifndef log0redo_h
#define log0redo_h

#include <chrono>
#include <optional>

#include "log0pack.h"
#include "log0types.h"
#include "mtr0index.h"
#include "typelib.h"
#include "univ.i"

struct log_t;

namespace redo_recovery {

/** Values of innodb_redo_recovery. */
enum class Way : ulong {
  /** As before. */
  STOCK,
  /** Redo is read ahead, objects of indexes are kept, and records packed. */
  PARALLEL
};

/** innodb_redo_recovery, a Way. */
extern ulong g_way;

/** Names of its values. */
extern TYPELIB g_way_typelib;

/** @return true if innodb_redo_recovery is not STOCK */
inline bool is_on() { return g_way != static_cast<ulong>(Way::STOCK); }

/** Lives while redo is read from the checkpoint to its end. */
class Reading {
 public:
  /** Constructor.
  @param[in]  log  redo log */
  explicit Reading(const log_t &log);
  /** Says what it was good for. */
  ~Reading();

  Reading(const Reading &) = delete;
  Reading &operator=(const Reading &) = delete;

  /** Redo is about to be read: see that what comes then is on its way.
  @param[in]  lsn  where it is read from */
  void ahead_of(lsn_t lsn);

 private:
  /** Ask the system to read a part of a redo log file.
  @param[in]  lsn  where it begins
  @return where it ends; lsn if there is nothing to be had */
  lsn_t ask(lsn_t lsn) const;

  /** Redo log. */
  const log_t &m_log;
  /** False if nothing is read ahead, or nothing more. */
  bool m_is_on;
  /** Up to here redo was asked for. */
  lsn_t m_asked_lsn{0};
  /** Objects of indexes. */
  const mtr_index::Keeper m_keeper;
  /** Adds records to pages; nothing if innodb_redo_recovery is STOCK. */
  std::optional<Adder> m_adder;
  /** When it began. */
  const std::chrono::steady_clock::time_point m_begin{
      std::chrono::steady_clock::now()};
};

}  // namespace redo_recovery

#endif /* log0redo_h */
