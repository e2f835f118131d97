/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file log/log0redo.cc
Read and parse redo faster in crash recovery.

Reading. The thread that parses redo reads it, 64 KiB at a time, and opens the
file for each. With a file that was just opened the system does not know of the
reads before, so it reads no more than it is asked for, and the volume rests
while redo is parsed. Here the system is told what will be wanted: the AHEAD
bytes after the next read, in steps of STEP. It reads them into its page cache
while parsing goes on. Redo log files are always read through the page cache,
whatever innodb_flush_method says. While a batch is applied that is not the
last, as many bytes of redo are asked for as pages are read, up to AHEAD_BESIDE
more. Nothing depends on it: what has not arrived is waited for as before,
errors are met by who reads, and encrypted redo is decrypted there.

Beyond the end of redo some bytes are read for nothing, up to AHEAD or
AHEAD_BESIDE: where redo ends is not known before it was read. What has arrived
is looked at before more is asked for.

Parsing. All that is wanted of a record then is where it ends. MySQL finds that
out by what applies it, without a page: for records of indexes it builds the
objects of the index, and copies what is to be changed. Here the lengths in
these records are added up. What is unusual in one is left to MySQL, with its
checks and messages. For those, and when records are applied, mtr0index keeps
the objects that describe indexes.

Memory. log0pack keeps the records until they are applied. */

#include "log0redo.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include <fcntl.h>

#ifndef _WIN32
#include <sys/uio.h>
#include <unistd.h>
#endif /* !_WIN32 */

#include "buf0buf.h"
#include "data0type.h"
#include "fsp0fsp.h"
#include "log0apply.h"
#include "log0copies.h"
#include "log0files_io.h"
#include "log0keys.h"
#include "log0log.h"
#include "log0recv.h"
#include "log0sys.h"
#include "mach0data.h"
#include "os0ahead.h"
#include "rem0types.h"
#include "scope_guard.h"
#include "trx0purge.h"

namespace redo_recovery {

namespace {

/** Bytes that are asked for ahead of the parser. A volume of 1 GiB a second
with 10 ms of latency has that under way. */
constexpr lsn_t AHEAD = 16 * 1024 * 1024;

/** The same while redo is applied, if there is more of it: the volume rests
then, for the processors are busy. No more than a quarter of the buffer pool. */
constexpr lsn_t AHEAD_BESIDE = 512 * 1024 * 1024;

/** Bytes that are asked for at a time. */
constexpr lsn_t STEP = 4 * 1024 * 1024;

/** The same while redo is applied. */
constexpr lsn_t STEP_BESIDE = 512 * 1024;

/** Exists while redo is read and applied. */
Reading *s_reading = nullptr;

/** Names of the values of innodb_redo_recovery. */
const char *s_way_names[] = {"STOCK", "PARALLEL", nullptr};

/** Find out if redo ends before a place, as far as that is in the page cache.
@param[in]  fd      file
@param[in]  offset  place in the file, of a block
@param[in]  lsn     LSN that the block would have
@return true if there is something else */
bool is_behind_end([[maybe_unused]] int fd, [[maybe_unused]] os_offset_t offset,
                   [[maybe_unused]] lsn_t lsn) {
#ifdef RWF_NOWAIT
  byte header[LOG_BLOCK_HDR_SIZE];
  const iovec where{header, sizeof(header)};

  return preadv2(fd, &where, 1, offset, RWF_NOWAIT) == sizeof(header) &&
         log_block_get_hdr_no(header) != log_block_convert_lsn_to_hdr_no(lsn);
#else
  return false;
#endif /* RWF_NOWAIT */
}

/** What follows in a record. */
class Rest {
 public:
  /** Constructor.
  @param[in]  ptr      where it begins, or nullptr
  @param[in]  end_ptr  end of the log buffer */
  Rest(const byte *ptr, const byte *end_ptr) : m_ptr(ptr), m_end_ptr(end_ptr) {}

  /** Pass over bytes.
  @param[in]  n_bytes  how many */
  void skip(size_t n_bytes) {
    if (m_ptr != nullptr) {
      m_ptr = n_bytes <= static_cast<size_t>(m_end_ptr - m_ptr)
                  ? m_ptr + n_bytes
                  : nullptr;
    }
  }

  /** Read a number whose length is its own.
  @return the number; anything if it is not there */
  uint32_t number() {
    return m_ptr != nullptr ? mach_parse_compressed(&m_ptr, m_end_ptr) : 0;
  }

  /** Read an offset in a page of two bytes.
  @param[in]  max  the record is unusual if there is more */
  void offset(size_t max) {
    const auto before = m_ptr;

    skip(2);
    if (m_ptr != nullptr && mach_read_from_2(before) > max) {
      m_ptr = nullptr;
    }
  }

  /** Pass over the position and the values of DB_ROLL_PTR and DB_TRX_ID. */
  void system_columns() {
    number();
    skip(DATA_ROLL_PTR_LEN);
    number();
    skip(4);
  }

  /** The record is unusual unless something is so.
  @param[in]  is_so  whether it is */
  void expect(bool is_so) {
    if (!is_so) {
      m_ptr = nullptr;
    }
  }

  /** @return true as long as the record is whole, and as usual */
  bool is_good() const { return m_ptr != nullptr; }

  /** @return where it goes on, or nullptr */
  const byte *ptr() const { return m_ptr; }

 private:
  /** Position in the log, or nullptr. */
  const byte *m_ptr;
  /** End of the log buffer. */
  const byte *const m_end_ptr;
};

/** Pass over the body of an insert.
@param[in,out]  rest  what follows the description of the index */
void skip_insert(Rest &rest) {
  rest.offset(UNIV_PAGE_SIZE - 1);

  const size_t n_bytes = rest.number();

  rest.expect(n_bytes < UNIV_PAGE_SIZE * 2);

  if ((n_bytes & 1) != 0) {
    rest.skip(1);
    rest.expect(rest.number() < UNIV_PAGE_SIZE);
    rest.expect(rest.number() < UNIV_PAGE_SIZE);
  }

  rest.skip(n_bytes / 2);
}

/** Pass over the body of a change in place.
@param[in,out]  rest  what follows the description of the index */
void skip_update(Rest &rest) {
  rest.skip(1);
  rest.system_columns();
  rest.offset(UNIV_PAGE_SIZE);
  rest.skip(1);

  for (auto n_fields = rest.number(); n_fields > 0 && rest.is_good();
       --n_fields) {
    /* A number behind those of columns is that of a virtual one. */
    rest.expect(rest.number() < REC_MAX_N_FIELDS);

    const auto n_bytes = rest.number();

    if (n_bytes != UNIV_SQL_NULL) {
      rest.skip(n_bytes);
    }
  }
}

/** Let the IDs of undo tablespaces go on from those that redo drops. They would
begin anew: the next undo tablespace of a free number would get the ID of one
that was dropped before the crash. Recovery knows tablespaces by their ID. If
the server dies before a checkpoint is behind the drop, the next recovery would
take the new undo tablespace for the dropped one, and forget it with its
transactions: what they have changed would stay. */
void pass_over_dropped_undo_ids() {
  for (const auto id : recv_sys->deleted) {
    if (!fsp_is_undo_tablespace(id)) {
      continue;
    }

    auto &last = undo::space_id_bank[undo::id2num(id) - 1];

    /* They count down. */
    if (!last.in_use &&
        (last.space_id == SPACE_UNKNOWN || id < last.space_id)) {
      last.space_id = id;
    }
  }
}

}  // namespace

ulong g_way = static_cast<ulong>(Way::STOCK);

TYPELIB g_way_typelib = {array_elements(s_way_names) - 1, "redo_recovery",
                         s_way_names, nullptr};

const byte *end_of(mlog_id_t type, const byte *body, const byte *end_ptr) {
  if (!is_on() || body == nullptr) {
    return nullptr;
  }

  switch (type) {
    case MLOG_REC_INSERT:
    case MLOG_REC_UPDATE_IN_PLACE:
    case MLOG_REC_DELETE:
    case MLOG_REC_CLUST_DELETE_MARK:
      break;
    default:
      return nullptr;
  }

  Rest rest{mtr_index::skip(body, end_ptr), end_ptr};

  if (type == MLOG_REC_INSERT) {
    skip_insert(rest);
  } else if (type == MLOG_REC_UPDATE_IN_PLACE) {
    skip_update(rest);
  } else {
    if (type == MLOG_REC_CLUST_DELETE_MARK) {
      rest.skip(2);
      rest.system_columns();
    }
    rest.offset(UNIV_PAGE_SIZE);
  }

  return rest.ptr();
}

Reading::Reading(const log_t &log)
    : m_log(log), m_is_on(is_on()), m_keeper(is_on()) {
  if (is_on()) {
    m_adder.emplace();
    s_reading = this;
  }
}

Reading::~Reading() {
  s_reading = nullptr;
  g_copies.end_deferring();
  note_redo(recv_sys->recovered_lsn - recv_sys->checkpoint_lsn,
            std::chrono::steady_clock::now() - m_begin);

  if (is_on()) {
    pass_over_dropped_undo_ids();
  }
  if (is_on() && mtr_index::Keeper::n_made() > 0) {
    ib::info(ER_IB_MSG_383)
        << "Redo recovery: built " << mtr_index::Keeper::n_made()
        << " objects of indexes, used them again "
        << mtr_index::Keeper::n_found() << " times.";
  }
  if (m_n_asked_beside > 0) {
    ib::info(ER_IB_MSG_383)
        << "Redo recovery: asked for " << m_n_asked_beside / 1024
        << " KiB of redo while pages were read.";
  }
}

void Reading::ahead_beside(size_t n_bytes) {
  const auto end_lsn =
      m_asked_lsn + std::min<lsn_t>(AHEAD_BESIDE, buf_pool_get_curr_size() / 4);

  m_beside_lsn = std::max(m_beside_lsn, m_asked_lsn);

  /* Little by little: the pages should not have to wait. */
  for (m_n_beside += n_bytes; m_n_beside >= STEP_BESIDE;
       m_n_beside -= STEP_BESIDE) {
    if (m_is_beside_on && m_beside_lsn < end_lsn) {
      const auto begin = m_beside_lsn;

      m_is_beside_on = ask(m_beside_lsn, STEP_BESIDE);
      if (m_is_beside_on) {
        m_n_asked_beside += m_beside_lsn - begin;
      }
    }
  }
}

void Reading::look_for_keys() const {
  if (m_first_lsn != 0 && g_copies.is_key_missing()) {
    find_keys(*log_sys, m_first_lsn);
  }
}

void Reading::ahead_of(lsn_t lsn) {
  if (m_first_lsn == 0) {
    m_first_lsn = lsn;
    look_for_keys();
  }
  m_asked_lsn = std::max(m_asked_lsn, lsn);

  /* Also for what ahead_beside() has asked for: memory may have been short. */
  while (m_is_on && m_asked_lsn < lsn + AHEAD) {
    m_is_on = ask(m_asked_lsn, STEP);
  }
}

bool Reading::ask([[maybe_unused]] lsn_t &lsn,
                  [[maybe_unused]] lsn_t n_most) const {
#ifdef POSIX_FADV_WILLNEED
  const auto file = m_log.m_files.find(lsn);

  if (file == m_log.m_files.end()) {
    return false;
  }

  const auto first = std::max(file->m_start_lsn, lsn - n_most);
  const auto begin = lsn;

  lsn = std::min(begin + n_most, file->m_end_lsn);

  const auto path = log_file_path(m_log.m_files_ctx, file->m_id);
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);

  if (fd < 0) {
    /* Too many files, perhaps: the next ones may be had. */
    return true;
  }

  const auto guard = create_scope_guard([fd]() { close(fd); });

  return !(first < begin && is_behind_end(fd, file->offset(first), first)) &&
         os_read_ahead(fd, file->offset(begin),
                       file->offset(begin) + (lsn - begin));
#else
  return false;
#endif /* POSIX_FADV_WILLNEED */
}

void read_beside(size_t n_bytes) {
  if (s_reading != nullptr) {
    s_reading->ahead_beside(n_bytes);
  }
}

void copies_are_read() {
  if (s_reading != nullptr) {
    s_reading->look_for_keys();
  }
}

}  // namespace redo_recovery
