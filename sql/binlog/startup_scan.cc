/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file sql/binlog/startup_scan.cc
The scan of the last binary log at start-up, from transaction to transaction. */

#include "sql/binlog/startup_scan.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "my_byteorder.h"
#include "mysql/components/services/log_builtins.h"
#include "mysqld_error.h"
#include "sql/binlog/checkpoint.h"
#include "sql/binlog/logged_gtids.h"
#include "sql/mysqld.h"  // opt_source_verify_checksum
#include "sql/rpl_gtid.h"
#include "sql/sql_class.h"
#include "sql/sql_lex.h"
#include "sql/sys_vars.h"  // Sys_var_enum
#include "storage/innobase/include/trx0binlog.h"

using mysql::binlog::event::enum_binlog_checksum_alg;
using mysql::binlog::event::Log_event_footer;
using mysql::binlog::event::Log_event_type;

static const char *binlog_startup_scan_names[] = {"EVENTS", "TRANSACTIONS",
                                                  nullptr};

static Sys_var_enum Sys_binlog_startup_scan(
    "binlog_startup_scan",
    "How the last binary log is read when the server starts: EVENTS, each "
    "event; TRANSACTIONS, after a crash what follows the last checkpoint that "
    "was noted, of large transactions that are known to be on disk only the "
    "beginning and the end, and after a shutdown that has noted the GTIDs only "
    "the beginning and the end of the file.",
    READ_ONLY GLOBAL_VAR(binlog::Startup_scan::s_mode), CMD_LINE(REQUIRED_ARG),
    binlog_startup_scan_names, DEFAULT(binlog::Startup_scan::TRANSACTIONS));

namespace binlog {

ulong Startup_scan::s_mode = EVENTS;
ulonglong Startup_scan::s_transactions_skipped = 0;
ulonglong Startup_scan::s_bytes_skipped = 0;
ulonglong Startup_scan::s_gtids_noted = 0;

SHOW_VAR g_startup_scan_status[] = {
    {"bytes_skipped", (char *)&Startup_scan::s_bytes_skipped, SHOW_LONGLONG,
     SHOW_SCOPE_GLOBAL},
    {"gtids_noted", (char *)&Startup_scan::s_gtids_noted, SHOW_LONGLONG,
     SHOW_SCOPE_GLOBAL},
    {"transactions_skipped", (char *)&Startup_scan::s_transactions_skipped,
     SHOW_LONGLONG, SHOW_SCOPE_GLOBAL},
    {nullptr, nullptr, SHOW_LONG, SHOW_SCOPE_GLOBAL}};

void Startup_scan::opened(const char *path, bool is_relay_log) {
  if (is_relay_log || s_mode != TRANSACTIONS) return;
  g_checkpoint.begin();
  g_synced_mark.begin(path);
}

void Startup_scan::transaction_written(const THD &thd,
                                       const Gtid_log_event &event,
                                       bool is_wrong) {
  if (s_mode != TRANSACTIONS) return;
  g_logged_gtids.transaction_written(event, is_wrong);
  const auto command = thd.lex->sql_command;
  g_checkpoint.written(
      event.get_trx_length(), is_wrong,
      command == SQLCOM_XA_COMMIT || command == SQLCOM_XA_ROLLBACK);
}

/** @return offset in the binary log at which the transaction of a session ends
 */
static my_off_t end_of_transaction(const THD &thd) {
  my_off_t end;
  thd.get_trans_fixed_pos(nullptr, &end);
  return end;
}

void Startup_scan::prepared(const THD &thd) {
  if (s_mode == TRANSACTIONS) g_checkpoint.prepared(end_of_transaction(thd));
}

void Startup_scan::committed(const THD &thd) {
  if (s_mode != TRANSACTIONS) return;
  g_checkpoint.committed(end_of_transaction(thd), trx_binlog::is_decided(thd));
}

namespace {

constexpr size_t XID_BYTES = sizeof(uint64_t);

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
  if (m_bytes == 0 && !m_is_noted) return;
  char text[200];
  if (m_is_at_checkpoint) {
    snprintf(
        text, sizeof(text),
        "Binary log scan at start-up: %llu bytes before the last checkpoint "
        "and in the middle of %llu transactions were not read.",
        m_bytes, m_transactions);
  } else if (m_is_noted) {
    snprintf(text, sizeof(text),
             "Binary log scan at start-up: the GTIDs were noted at shutdown; "
             "%llu bytes were not read.",
             m_bytes);
  } else {
    snprintf(text, sizeof(text),
             "Binary log scan at start-up: %llu bytes in the middle of %llu "
             "transactions were not read.",
             m_bytes, m_transactions);
  }
  LogErr(INFORMATION_LEVEL, ER_LOG_PRINTF_MSG, text);
}

size_t Startup_scan::event_bytes(Log_event_type type,
                                 enum_binlog_checksum_alg checksum) {
  return LOG_EVENT_MINIMAL_HEADER_LEN +
         (type == mysql::binlog::event::XID_EVENT ? XID_BYTES : 0) +
         (has_checksum(checksum) ? BINLOG_CHECKSUM_LEN : 0);
}

bool Startup_scan::is_event(unsigned char *event, Log_event_type type,
                            enum_binlog_checksum_alg checksum, my_off_t end) {
  const size_t n_bytes = event_bytes(type, checksum);
  /* The position has four bytes, of a larger one the last four. */
  return event[EVENT_TYPE_OFFSET] == type &&
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
  const my_off_t end = std::exchange(m_end, 0);
  if (std::exchange(m_is_first, false) && m_purpose == RECOVERY) {
    check_innodb(reader.ifile()->file_name());
  }

  switch (event.get_type_code()) {
    case mysql::binlog::event::FORMAT_DESCRIPTION_EVENT:
      m_is_closed = !(event.common_header->flags & LOG_EVENT_BINLOG_IN_USE_F);
      break;
    case mysql::binlog::event::PREVIOUS_GTIDS_LOG_EVENT:
      if (m_purpose != OTHER && has_checksum(checksum) &&
          is_intact(event, checksum) && !take_noted_gtids(reader)) {
        skip_to_checkpoint(reader);
      }
      break;
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

std::optional<my_off_t> Startup_scan::move_to(Binlog_file_reader &reader,
                                              Log_event_type type,
                                              my_off_t end) {
  const auto checksum =
      reader.format_description_event().footer()->checksum_alg;
  const size_t n_bytes = event_bytes(type, checksum);
  const my_off_t here = reader.position();
  if (end < here + n_bytes) return std::nullopt;

  unsigned char
      event[LOG_EVENT_MINIMAL_HEADER_LEN + XID_BYTES + BINLOG_CHECKSUM_LEN];
  const my_off_t there = end - n_bytes;
  const bool found =
      !reader.seek(there) &&
      reader.ifile()->read(event, n_bytes) == static_cast<ssize_t>(n_bytes) &&
      is_event(event, type, checksum, end);
  if (reader.seek(found ? there : here) || !found) return std::nullopt;
  return there - here;
}

void Startup_scan::skip_to_xid(Binlog_file_reader &reader, my_off_t end) {
  const auto xid_bytes =
      event_bytes(mysql::binlog::event::XID_EVENT,
                  reader.format_description_event().footer()->checksum_alg);
  if (end < reader.position() + xid_bytes + MIN_SKIP_BYTES) return;
  const auto n_bytes = move_to(reader, mysql::binlog::event::XID_EVENT, end);
  if (!n_bytes) return;
  ++m_transactions;
  m_bytes += *n_bytes;
  ++s_transactions_skipped;
  s_bytes_skipped += *n_bytes;
}

std::unique_ptr<Gtid_set> Startup_scan::decode_gtids(
    const std::string &encoded) const {
  auto gtids = std::make_unique<Gtid_set>(m_gtids->get_tsid_map());
  if (gtids->add_gtid_encoding(
          reinterpret_cast<const unsigned char *>(encoded.data()),
          encoded.size()) != RETURN_STATUS_OK ||
      !m_gtids->is_subset(gtids.get())) {
    gtids.reset();
  }
  return gtids;
}

bool Startup_scan::take_noted_gtids(Binlog_file_reader &reader) {
  if (m_purpose != GTIDS || !m_is_closed) return false;
  if (m_limit == NOT_KNOWN) m_limit = find_limit(reader);
  const my_off_t length = reader.ifile()->length();
  if (m_limit != length) return false;
  const std::string &path = reader.ifile()->file_name();
  const auto encoded = g_synced_mark.known_gtids(path);
  if (!encoded) return false;
  const auto noted = decode_gtids(*encoded);
  if (noted == nullptr) return false;

  const my_off_t here = reader.position();
  const auto n_bytes =
      move_to(reader, mysql::binlog::event::STOP_EVENT, length);
  if (!n_bytes) return false;
  if (m_gtids->add_gtid_set(noted.get()) != RETURN_STATUS_OK) {
    /* What could not be added may be found. */
    (void)reader.seek(here);
    return false;
  }
  m_is_noted = true;
  m_bytes += *n_bytes;
  ++s_gtids_noted;
  s_bytes_skipped += *n_bytes;
  return true;
}

bool Startup_scan::is_transaction(Binlog_file_reader &reader,
                                  const Checkpoint_note &note) {
  using namespace mysql::binlog::event;
  const size_t n_bytes = note.m_end - note.m_begin;
  if (n_bytes > Checkpoint::MAX_TRANSACTION_BYTES) return false;
  std::vector<unsigned char> events(n_bytes);
  if (reader.seek(note.m_begin) ||
      reader.ifile()->read(events.data(), n_bytes) !=
          static_cast<ssize_t>(n_bytes)) {
    return false;
  }
  size_t at = 0;
  while (n_bytes - at >= LOG_EVENT_MINIMAL_HEADER_LEN) {
    unsigned char *event = &events[at];
    const auto type = static_cast<Log_event_type>(event[EVENT_TYPE_OFFSET]);
    const size_t length = uint4korr(event + EVENT_LEN_OFFSET);
    const bool is_gtid = type == GTID_LOG_EVENT ||
                         type == GTID_TAGGED_LOG_EVENT ||
                         type == ANONYMOUS_GTID_LOG_EVENT;
    if (length < LOG_EVENT_MINIMAL_HEADER_LEN || length > n_bytes - at ||
        is_gtid != (at == 0) ||
        Log_event_footer::event_checksum_test(event, length,
                                              BINLOG_CHECKSUM_ALG_CRC32)) {
      return false;
    }
    at += length;
    if (uint4korr(event + LOG_POS_OFFSET) !=
        static_cast<uint32_t>(note.m_begin + at)) {
      return false;
    }
  }
  return at == n_bytes;
}

void Startup_scan::check_innodb(const std::string &path) {
  const auto lsn = trx_binlog::recovered_lsn();
  const auto note = g_synced_mark.known_checkpoint(path);
  if (lsn == 0 || !note || lsn >= note->m_lsn) return;
  std::string text = "InnoDB has recovered up to LSN " + std::to_string(lsn) +
                     ", and had LSN " + std::to_string(note->m_lsn) +
                     " when the last binary log was written: it seems that "
                     "its files were put back to an earlier state. The last "
                     "binary log is read whole.";
  if (!Synced_mark::remove(path)) {
    text += " Remove the file " + Synced_mark::path_of(path) + ".";
  }
  LogErr(WARNING_LEVEL, ER_LOG_PRINTF_MSG, text.c_str());
}

void Startup_scan::skip_to_checkpoint(Binlog_file_reader &reader) {
  if (m_limit == NOT_KNOWN) m_limit = find_limit(reader);
  if (m_limit == 0) return;
  const std::string &path = reader.ifile()->file_name();
  const auto note = g_synced_mark.known_checkpoint(path);
  const my_off_t here = reader.position();
  if (!note || note->m_end > m_limit || note->m_begin < here + MIN_SKIP_BYTES ||
      trx_binlog::recovered_lsn() < note->m_lsn) {
    return;
  }
  std::unique_ptr<Gtid_set> noted;
  if (m_purpose == GTIDS) {
    noted = decode_gtids(note->m_gtids);
    if (noted == nullptr) return;
  }
  if (!is_transaction(reader, *note) || reader.seek(note->m_begin) ||
      (noted != nullptr &&
       m_gtids->add_gtid_set(noted.get()) != RETURN_STATUS_OK)) {
    (void)reader.seek(here);
    return;
  }
  m_is_at_checkpoint = true;
  m_bytes += note->m_begin - here;
  s_bytes_skipped += note->m_begin - here;
  if (noted != nullptr) ++s_gtids_noted;
}

}  // namespace binlog
