/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file sql/binlog/startup_scan.cc
The scan of the last binary log at start-up, from transaction to transaction. */

#include "sql/binlog/startup_scan.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "my_byteorder.h"
#include "mysql/components/services/log_builtins.h"
#include "mysqld_error.h"
#include "sql/binlog/synced_mark.h"
#include "sql/mysqld.h"    // opt_source_verify_checksum
#include "sql/sys_vars.h"  // Sys_var_enum

using mysql::binlog::event::enum_binlog_checksum_alg;
using mysql::binlog::event::Log_event_footer;

static const char *binlog_startup_scan_names[] = {"EVENTS", "TRANSACTIONS",
                                                  nullptr};

static Sys_var_enum Sys_binlog_startup_scan(
    "binlog_startup_scan",
    "How the last binary log is read when the server starts: EVENTS, each "
    "event; TRANSACTIONS, of large transactions that are known to be on disk "
    "only the beginning and the end.",
    READ_ONLY GLOBAL_VAR(binlog::Startup_scan::s_mode), CMD_LINE(REQUIRED_ARG),
    binlog_startup_scan_names, DEFAULT(binlog::Startup_scan::EVENTS));

namespace binlog {

ulong Startup_scan::s_mode = EVENTS;
ulonglong Startup_scan::s_transactions_skipped = 0;
ulonglong Startup_scan::s_bytes_skipped = 0;

SHOW_VAR g_startup_scan_status[] = {
    {"bytes_skipped", (char *)&Startup_scan::s_bytes_skipped, SHOW_LONGLONG,
     SHOW_SCOPE_GLOBAL},
    {"transactions_skipped", (char *)&Startup_scan::s_transactions_skipped,
     SHOW_LONGLONG, SHOW_SCOPE_GLOBAL},
    {nullptr, nullptr, SHOW_LONG, SHOW_SCOPE_GLOBAL}};

void Startup_scan::opened(const char *path, bool is_relay_log) {
  if (!is_relay_log && s_mode == TRANSACTIONS) g_synced_mark.begin(path);
}

namespace {

bool has_checksum(enum_binlog_checksum_alg checksum) {
  return checksum == mysql::binlog::event::BINLOG_CHECKSUM_ALG_CRC32;
}

/** @return true if the event is as it was written, as far as a checksum tells
 */
bool is_intact(const Log_event &event, enum_binlog_checksum_alg checksum) {
  if (!has_checksum(checksum)) return true;
  auto *bytes = reinterpret_cast<unsigned char *>(event.temp_buf);
  return bytes != nullptr &&
         !Log_event_footer::event_checksum_test(
             bytes, uint4korr(bytes + EVENT_LEN_OFFSET), checksum);
}

bool is_begin(const Log_event &event) {
  if (event.get_type_code() != mysql::binlog::event::QUERY_EVENT) return false;
  const auto &query = dynamic_cast<const Query_log_event &>(event);
  return query.query != nullptr && query.q_len == 5 &&
         memcmp(query.query, "BEGIN", 5) == 0;
}

}  // namespace

Startup_scan::~Startup_scan() {
  if (m_transactions == 0) return;
  char text[160];
  snprintf(text, sizeof(text),
           "Binary log scan at start-up: %llu bytes in the middle of %llu "
           "transactions were not read.",
           m_bytes, m_transactions);
  LogErr(INFORMATION_LEVEL, ER_LOG_PRINTF_MSG, text);
}

size_t Startup_scan::xid_event_bytes(enum_binlog_checksum_alg checksum) {
  return LOG_EVENT_MINIMAL_HEADER_LEN + sizeof(uint64_t) +
         (has_checksum(checksum) ? BINLOG_CHECKSUM_LEN : 0);
}

bool Startup_scan::is_xid_event(unsigned char *event,
                                enum_binlog_checksum_alg checksum,
                                my_off_t end) {
  const size_t n_bytes = xid_event_bytes(checksum);
  /* The position has four bytes, of a larger one the last four. */
  return event[EVENT_TYPE_OFFSET] == mysql::binlog::event::XID_EVENT &&
         uint4korr(event + EVENT_LEN_OFFSET) == n_bytes &&
         uint4korr(event + LOG_POS_OFFSET) == static_cast<uint32_t>(end) &&
         (!has_checksum(checksum) ||
          !Log_event_footer::event_checksum_test(event, n_bytes, checksum));
}

my_off_t Startup_scan::find_limit(Binlog_file_reader &reader) {
  if (s_mode != TRANSACTIONS || opt_source_verify_checksum ||
      get_server_state() != SERVER_BOOTING) {
    return 0;
  }

  /* Of an encrypted file the size is larger by its header. */
  const std::string &path = reader.ifile()->file_name();
  const my_off_t length = reader.ifile()->length();
  struct stat status;
  if (::stat(path.c_str(), &status) != 0 ||
      static_cast<my_off_t>(status.st_size) != length) {
    return 0;
  }
  return std::min<my_off_t>(length, g_synced_mark.known_bytes(path));
}

void Startup_scan::after_event(Binlog_file_reader &reader,
                               const Log_event &event) {
  const auto checksum =
      reader.format_description_event().footer()->checksum_alg;
  const my_off_t end = m_end;
  m_end = 0;

  switch (event.get_type_code()) {
    case mysql::binlog::event::GTID_LOG_EVENT:
    case mysql::binlog::event::GTID_TAGGED_LOG_EVENT:
    case mysql::binlog::event::ANONYMOUS_GTID_LOG_EVENT: {
      if (m_limit == NOT_KNOWN) m_limit = find_limit(reader);
      const my_off_t start = reader.event_start_pos();
      const my_off_t length =
          dynamic_cast<const Gtid_log_event &>(event).get_trx_length();
      if (length > MIN_SKIP_BYTES && start < m_limit &&
          length <= m_limit - start && is_intact(event, checksum)) {
        m_end = start + length;
      }
      break;
    }
    default:
      if (end != 0 && is_begin(event)) skip_to_xid(reader, end);
      break;
  }
}

void Startup_scan::skip_to_xid(Binlog_file_reader &reader, my_off_t end) {
  const auto checksum =
      reader.format_description_event().footer()->checksum_alg;
  const size_t n_bytes = xid_event_bytes(checksum);
  const my_off_t here = reader.position();
  if (end < here + n_bytes + MIN_SKIP_BYTES) return;

  unsigned char event[LOG_EVENT_MINIMAL_HEADER_LEN + sizeof(uint64_t) +
                      BINLOG_CHECKSUM_LEN];
  const my_off_t xid = end - n_bytes;
  const bool found =
      !reader.seek(xid) &&
      reader.ifile()->read(event, n_bytes) == static_cast<ssize_t>(n_bytes) &&
      is_xid_event(event, checksum, end);
  if (reader.seek(found ? xid : here) || !found) return;

  ++m_transactions;
  m_bytes += xid - here;
  ++s_transactions_skipped;
  s_bytes_skipped += xid - here;
}

}  // namespace binlog
