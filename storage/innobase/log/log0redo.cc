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
whatever innodb_flush_method says. Nothing depends on it: what has not arrived
is waited for as before, errors are met by who reads, and encrypted redo is
decrypted there.

Beyond the end of redo up to AHEAD bytes are read for nothing, once: where redo
ends is not known before it was read.

Parsing. mtr0index keeps the objects that describe indexes.

Memory. log0pack keeps the records until they are applied. */

#include "log0redo.h"

#include <algorithm>

#include <fcntl.h>

#ifndef _WIN32
#include <unistd.h>
#endif /* !_WIN32 */

#include "log0apply.h"
#include "log0files_io.h"
#include "log0log.h"
#include "log0recv.h"
#include "log0sys.h"
#include "scope_guard.h"

namespace redo_recovery {

namespace {

/** Bytes that are asked for ahead of the parser. A volume of 1 GiB a second
with 10 ms of latency has that under way. */
constexpr lsn_t AHEAD = 16 * 1024 * 1024;

/** Bytes that are asked for at a time. */
constexpr lsn_t STEP = 4 * 1024 * 1024;

/** Names of the values of innodb_redo_recovery. */
const char *s_way_names[] = {"STOCK", "PARALLEL", nullptr};

}  // namespace

ulong g_way = static_cast<ulong>(Way::STOCK);

TYPELIB g_way_typelib = {array_elements(s_way_names) - 1, "redo_recovery",
                         s_way_names, nullptr};

Reading::Reading(const log_t &log)
    : m_log(log), m_is_on(is_on()), m_keeper(is_on()) {
  if (is_on()) {
    m_adder.emplace();
  }
}

Reading::~Reading() {
  note_redo(recv_sys->recovered_lsn - recv_sys->checkpoint_lsn,
            std::chrono::steady_clock::now() - m_begin);

  if (is_on() && m_keeper.n_made() > 0) {
    ib::info(ER_IB_MSG_383) << "Redo recovery: built " << m_keeper.n_made()
                            << " objects of indexes, used them again "
                            << m_keeper.n_found() << " times.";
  }
}

void Reading::ahead_of(lsn_t lsn) {
  m_asked_lsn = std::max(m_asked_lsn, lsn);

  while (m_is_on && m_asked_lsn < lsn + AHEAD) {
    const auto end_lsn = ask(m_asked_lsn);

    m_is_on = end_lsn > m_asked_lsn;
    m_asked_lsn = end_lsn;
  }
}

lsn_t Reading::ask([[maybe_unused]] lsn_t lsn) const {
#ifdef POSIX_FADV_WILLNEED
  const auto file = m_log.m_files.find(lsn);

  if (file == m_log.m_files.end()) {
    return lsn;
  }

  const auto path = log_file_path(m_log.m_files_ctx, file->m_id);
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);

  if (fd < 0) {
    return lsn;
  }

  const auto guard = create_scope_guard([fd]() { close(fd); });
  const auto n_bytes = std::min(STEP, file->m_end_lsn - lsn);

  return posix_fadvise(fd, file->offset(lsn), n_bytes, POSIX_FADV_WILLNEED) == 0
             ? lsn + n_bytes
             : lsn;
#else
  return lsn;
#endif /* POSIX_FADV_WILLNEED */
}

}  // namespace redo_recovery
