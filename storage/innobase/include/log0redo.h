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
#include <cstddef>
#include <optional>

#include "log0apply.h"
#include "log0flush.h"
#include "log0pack.h"
#include "log0recv.h"
#include "log0types.h"
#include "mtr0index.h"
#include "mtr0mtr.h"
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

/** @return true if recovery has to be MySQL's, whatever the variable says: the
data directory was cloned or restored */
inline bool is_restored() {
  return recv_sys->is_cloned_db || recv_sys->is_meb_db;
}

/** Find the end of a redo record that is one of those which fill most of a log:
an insert, a change in place, a deletion or a delete mark in an index. Nothing
is built for that, and nothing is changed.
@param[in]  type     type of the record
@param[in]  body     what follows its page number
@param[in]  end_ptr  end of the log buffer
@return its end; nullptr if it is another one, is not there as a whole, has
values that recovery does not accept, or if innodb_redo_recovery is STOCK: then
it has to be parsed */
[[nodiscard]] const byte *end_of(mlog_id_t type, const byte *body,
                                 const byte *end_ptr);

/** @return true if a mini-transaction applies redo, so that it writes none
@param[in]  mtr  mini-transaction */
inline bool is_applying(const mtr_t *mtr) {
  return recv_recovery_is_on() && is_on() &&
         mtr->get_log_mode() == MTR_LOG_NONE;
}

/** Pages are about to be read, to apply redo: Reading::ahead_beside().
@param[in]  n_bytes  bytes of the pages */
void read_beside(size_t n_bytes);

/** The copies in the doublewrite buffer were read: Reading::look_for_keys(). */
void copies_are_read();

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

  /** Pages are about to be read, to apply redo that is not the last: see that
  what comes after it is on its way, too.
  @param[in]  n_bytes  bytes of the pages */
  void ahead_beside(size_t n_bytes);

  /** The copies in the doublewrite buffer were read: see that the keys of undo
  tablespaces are there, if these need them. */
  void look_for_keys() const;

 private:
  /** Ask the system to read a part of a redo log file.
  @param[in,out]  lsn     where it begins; moved to its end
  @param[in]      n_most  bytes at most
  @return false if there is nothing more to be had */
  bool ask(lsn_t &lsn, lsn_t n_most) const;

  /** Redo log. */
  const log_t &m_log;
  /** False if nothing is read ahead of the parser, or nothing more. */
  bool m_is_on;
  /** The same while a batch is applied, which comes to the end of redo first.
   */
  bool m_is_beside_on{true};
  /** Bytes of pages for which no redo was asked for. */
  size_t m_n_beside{0};
  /** Where redo begins; 0 if none was read yet. */
  lsn_t m_first_lsn{0};
  /** Up to here redo was asked for, to be parsed soon. */
  lsn_t m_asked_lsn{0};
  /** Up to here it was asked for while a batch was applied. */
  lsn_t m_beside_lsn{0};
  /** Bytes that were asked for then. */
  lsn_t m_n_asked_beside{0};
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
