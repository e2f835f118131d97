/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file sql/binlog/checkpoint.cc
Up to where a recovery does not need the binary log that is being written. */

#include "sql/binlog/checkpoint.h"

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <mutex>
#include <optional>
#include <utility>

#include "sql/handler.h"
#include "storage/innobase/include/trx0binlog.h"

namespace binlog {

/** As a rotation does; but InnoDB in any case, which that leaves to
innodb_flush_log_at_trx_commit. */
static std::optional<uint64_t> flush_engines() {
  if (ha_flush_logs(true)) return std::nullopt;
  return trx_binlog::flush_redo();
}

Checkpoint g_checkpoint{flush_engines, g_logged_gtids};

void Checkpoint::begin() {
  const std::lock_guard guard{m_mutex};
  /* After RESET BINARY LOGS AND GTIDS there may be some of the old file: they
  have offsets, too. */
  m_is_blocked = m_n_before + m_n_after != 0;
  m_n_after += std::exchange(m_n_before, 0);
  m_note.reset();
  m_taken_end = m_last_bytes = 0;
}

void Checkpoint::written(uint64_t n_bytes, bool is_wrong, bool is_xa) {
  const std::lock_guard guard{m_mutex};
  m_last_bytes = n_bytes;
  if (is_wrong || is_xa) m_is_blocked = true;
}

void Checkpoint::prepared(uint64_t end) {
  const std::lock_guard guard{m_mutex};
  ++m_n_after;
  if (m_is_blocked || m_note || m_last_bytes == 0 ||
      m_last_bytes > MAX_TRANSACTION_BYTES || m_last_bytes > end ||
      end < m_taken_end + std::max(STEP_BYTES, end / STEP_PART)) {
    return;
  }
  auto gtids = m_gtids.encode();
  if (!gtids) return;
  m_note.emplace();
  m_note->m_begin = end - m_last_bytes;
  m_note->m_end = end;
  m_note->m_gtids = std::move(*gtids);
  m_n_before = std::exchange(m_n_after, 0);
}

void Checkpoint::committed(uint64_t end, bool is_decided) {
  const std::lock_guard guard{m_mutex};
  if (!is_decided) {
    m_is_blocked = true;
    m_n_after += std::exchange(m_n_before, 0);
    m_note.reset();
  }
  auto &number =
      m_n_before > 0 && end <= m_note->m_end ? m_n_before : m_n_after;
  assert(number > 0 && end > 0);
  if (number > 0) --number;
}

std::optional<Checkpoint_note> Checkpoint::take(uint64_t synced_bytes) {
  std::optional<Checkpoint_note> note;
  {
    const std::lock_guard guard{m_mutex};
    if (!m_note || m_n_before > 0 || m_note->m_end > synced_bytes) return note;
    m_taken_end = m_note->m_end;
    note = std::exchange(m_note, std::nullopt);
  }
  const auto lsn = m_flush();
  if (!lsn) return std::nullopt;
  note->m_lsn = *lsn;
  return note;
}

}  // namespace binlog
