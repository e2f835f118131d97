/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file sql/binlog/logged_gtids.cc
The GTIDs that a start would find in the binary log that is being written. */

#include "sql/binlog/logged_gtids.h"

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "sql/binlog/startup_scan.h"
#include "sql/log_event.h"
#include "sql/rpl_gtid.h"

namespace binlog {

Logged_gtids g_logged_gtids;

/** A set with a map of its own, so that no lock of the server is needed. */
struct Logged_gtids::Set {
  Tsid_map m_tsid_map{nullptr};
  Gtid_set m_gtids{&m_tsid_map};
};

Logged_gtids::Logged_gtids() = default;
Logged_gtids::~Logged_gtids() = default;

void Logged_gtids::forget() { m_set.reset(); }

void Logged_gtids::written(const Log_event &event) {
  if (Startup_scan::s_mode != Startup_scan::TRANSACTIONS) return;

  switch (event.get_type_code()) {
    case mysql::binlog::event::PREVIOUS_GTIDS_LOG_EVENT: {
      const auto &previous =
          dynamic_cast<const Previous_gtids_log_event &>(event);
      m_set = std::make_unique<Set>();
      m_n_added = 0;
      if (previous.add_to_set(&m_set->m_gtids) != 0 || !encode()) forget();
      break;
    }
    case mysql::binlog::event::GTID_LOG_EVENT:
    case mysql::binlog::event::GTID_TAGGED_LOG_EVENT: {
      if (m_set == nullptr) break;
      const auto &gtid = dynamic_cast<const Gtid_log_event &>(event);
      const rpl_sidno sidno = m_set->m_tsid_map.add_tsid(gtid.get_tsid());
      if (sidno <= 0 ||
          m_set->m_gtids.ensure_sidno(sidno) != RETURN_STATUS_OK) {
        forget();
        break;
      }
      m_set->m_gtids._add_gtid(sidno, gtid.get_gno());
      if (++m_n_added % CHECK_EVERY == 0 && !encode()) forget();
      break;
    }
    default:
      break;
  }
}

void Logged_gtids::transaction_written(const Log_event &event, bool is_wrong) {
  if (is_wrong) {
    forget();
  } else {
    written(event);
  }
}

std::optional<std::string> Logged_gtids::encode() const {
  if (m_set == nullptr) return std::nullopt;
  const size_t n_bytes = m_set->m_gtids.get_encoded_length();
  if (n_bytes > MAX_BYTES) return std::nullopt;
  std::string bytes(n_bytes, '\0');
  m_set->m_gtids.encode(reinterpret_cast<unsigned char *>(bytes.data()));
  return bytes;
}

}  // namespace binlog
