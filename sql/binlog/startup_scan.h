/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file sql/binlog/startup_scan.h
The scan of the last binary log at start-up, from transaction to transaction.

Each start reads the last binary log event by event for its GTIDs, and after a
crash once more for the transactions in it and its last valid position. Of a
transaction of InnoDB both need the GTID event at its beginning and the XID
event at its end. The GTID event holds the length of the transaction: with
binlog_startup_scan=TRANSACTIONS the reader is moved from the BEGIN that follows
it to the XID event, which is then read as any other.

An object of Startup_scan stands beside the loop that reads the events, sees
each of them, and moves the reader or leaves it. It leaves it unless all of this
holds; the loop then goes on as if the object did not exist:

- the GTID event is followed by BEGIN, and its checksum, if there is one, fits;
- an XID event ends where the transaction should end: type, length, position and
  checksum fit;
- the whole transaction is known to be on disk: its end is within what
Synced_mark notes. Otherwise a power cut may have left the end without the
middle, which only reading the middle can tell;
- the file is not encrypted, and source_verify_checksum is OFF;
- at least MIN_SKIP_BYTES are saved, below which reading on is faster;
- the server is starting: the first loop has other callers later.

After a crash there is a shorter way if the server has noted a checkpoint, see
Checkpoint: a place before which no transaction is needed. Once the
Previous_gtids event at the beginning has been read, the GTIDs are taken from
the note, and the reader is moved to the last transaction before that place, if
all of this holds besides the last two above:

- the file has checksums, that of the Previous_gtids event fits, and its GTIDs
  are in the set;
- the checkpoint is within what is known to be on disk;
- InnoDB has reached the LSN that it had then: its files are no older ones;
- the transaction is there: events whose positions and checksums fit, a GTID
  event first, from where to where the note says. So the loop has read a whole
  transaction when it meets what was not synced, and does not take the file for
  torn at its beginning;
- MIN_SKIP_BYTES are saved.

After a shutdown there is a still shorter way. The server that has closed the
file has noted the GTIDs in it, see Closed_note. Then they are taken from there
once the Previous_gtids event at the beginning has been read, and the reader is
moved to the Stop event at the end, if all of this holds besides the last two
above:

- the Format_description event says that the file was closed;
- the note is about this file, all of which was synced, and about this state;
- the file has checksums, that of the Previous_gtids event fits, and its GTIDs
  are in the set;
- a Stop event, whose checksum fits, ends where the file ends.

What is moved over is not looked at: damage in the middle of a transaction that
had been written and synced, or anywhere in a file that was closed, is not
noticed by the start. With EVENTS it is, if it hits the header of an event. */

#ifndef BINLOG_STARTUP_SCAN_H
#define BINLOG_STARTUP_SCAN_H

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "my_inttypes.h"
#include "mysql/binlog/event/binlog_event.h"
#include "mysql/status_var.h"
#include "sql/binlog/synced_mark.h"
#include "sql/binlog_reader.h"
#include "sql/log_event.h"

class Gtid_set;
class THD;

namespace binlog {

class Startup_scan {
 public:
  /** Values of binlog_startup_scan. */
  enum Mode : ulong { EVENTS, TRANSACTIONS };

  /** binlog_startup_scan. */
  static ulong s_mode;

  /** Transactions that were moved over since the server started. */
  static ulonglong s_transactions_skipped;

  /** Bytes that were moved over since the server started. */
  static ulonglong s_bytes_skipped;

  /** Files whose GTIDs were taken from the note, all or those up to a
  checkpoint: 1 or 0. */
  static ulonglong s_gtids_noted;

  /** Fewest bytes that are moved over. A read of so much takes a volume with
  3,000 reads and 125 MiB a second longer than a read elsewhere. */
  static constexpr my_off_t MIN_SKIP_BYTES = 65536;

  /** What the loop is after. */
  enum Purpose { GTIDS, RECOVERY, OTHER };

  /** @param[in] purpose  not GTIDS */
  explicit Startup_scan(Purpose purpose) : m_purpose(purpose) {}

  /** @param[in,out] gtids  the set to which the loop adds the GTIDs of the
                        file; nullptr if it is after something else */
  explicit Startup_scan(Gtid_set *gtids)
      : m_purpose(gtids != nullptr ? GTIDS : OTHER), m_gtids(gtids) {}
  Startup_scan(const Startup_scan &) = delete;
  Startup_scan &operator=(const Startup_scan &) = delete;

  /** Writes to the error log what was moved over. */
  ~Startup_scan();

  /** To be called after an event has been read and used.
  @param[in,out] reader  the reader of the binary log, positioned after the
                         event; it is moved to the event to be read next
  @param[in]     event   the event */
  void after_event(Binlog_file_reader &reader, const Log_event &event);

  /** A relay log is read event by event: its transactions may begin in one file
  and end in another, and the server verifies its checksums.
  @tparam Reader  reader of another kind of log */
  template <class Reader>
  void after_event(Reader &, const Log_event &) {}

  /** The server has begun to write to a file: note from now on what of it is
  synced, if a start may need that.
  @param[in] path          the file; its first event has been written
  @param[in] is_relay_log  true if it is no binary log */
  static void opened(const char *path, bool is_relay_log);

  /** A transaction has been written to the binary log, or an error may have
  left a part of it.
  @param[in] thd       the session
  @param[in] event     its GTID event
  @param[in] is_wrong  there was an error */
  static void transaction_written(const THD &thd, const Gtid_log_event &event,
                                  bool is_wrong);

  /** What was written last is to be committed in the engines, and a rotation of
  the binary log waits for that.
  @param[in] thd  the session, which knows where in the file it ends */
  static void prepared(const THD &thd);

  /** It has been committed, or could not be.
  @param[in] thd  the session */
  static void committed(const THD &thd);

  /** @param[in] type      XID_EVENT or STOP_EVENT
  @param[in] checksum  how the events of the file are checked
  @return size of such an event in bytes */
  static size_t event_bytes(
      mysql::binlog::event::Log_event_type type,
      mysql::binlog::event::enum_binlog_checksum_alg checksum);

  /** Check what should be an event of a type.
  @param[in,out] event     event_bytes() bytes; unchanged at return
  @param[in]     type      XID_EVENT or STOP_EVENT
  @param[in]     checksum  how the events of the file are checked
  @param[in]     end       offset in the file at which the event ends
  @return true if it is an event of this type that says so of itself */
  static bool is_event(unsigned char *event,
                       mysql::binlog::event::Log_event_type type,
                       mysql::binlog::event::enum_binlog_checksum_alg checksum,
                       my_off_t end);

 private:
  /** Find out how much of the file may be moved over.
  @param[in] reader  the reader
  @return offset in bytes, 0 if the file is to be read event by event */
  static my_off_t find_limit(Binlog_file_reader &reader);

  /** Move the reader to the XID event at the end of a transaction.
  @param[in,out] reader  the reader
  @param[in]     end     offset at which the transaction ends */
  void skip_to_xid(Binlog_file_reader &reader, my_off_t end);

  /** Take the GTIDs of the file from the note, if there is one, and move the
  reader to the Stop event.
  @param[in,out] reader  the reader, after the Previous_gtids event
  @return whether it was moved */
  bool take_noted_gtids(Binlog_file_reader &reader);

  /** If InnoDB has less than when a checkpoint was noted, say so and remove the
  note, whatever binlog_startup_scan is: the next start would find a higher LSN
  if this one did not come to its end.
  @param[in] path  the binary log */
  static void check_innodb(const std::string &path);

  /** Take the GTIDs up to the checkpoint from the note, if there is one, and
  move the reader to the last transaction before it.
  @param[in,out] reader  the reader, after the Previous_gtids event */
  void skip_to_checkpoint(Binlog_file_reader &reader);

  /** @param[in] encoded  the set of a note
  @return the set; nothing if it is none, or lacks what the loop has found */
  std::unique_ptr<Gtid_set> decode_gtids(const std::string &encoded) const;

  /** @param[in,out] reader  the reader; where it stands afterwards is undefined
  @param[in]     note    a checkpoint
  @return true if the transaction before it is there, undamaged */
  static bool is_transaction(Binlog_file_reader &reader,
                             const Checkpoint_note &note);

  /** Move the reader to an event, or leave it where it is.
  @param[in,out] reader  the reader
  @param[in]     type    XID_EVENT or STOP_EVENT
  @param[in]     end     offset at which such an event should end
  @return bytes that were moved over, also none; nothing if there is no such
          event */
  static std::optional<my_off_t> move_to(
      Binlog_file_reader &reader, mysql::binlog::event::Log_event_type type,
      my_off_t end);

  /** Offset up to which transactions may be moved over; NOT_KNOWN until it has
  been asked for. */
  my_off_t m_limit{NOT_KNOWN};

  /** If the last event was a GTID event: where its transaction ends, otherwise
  0. */
  my_off_t m_end{0};

  const Purpose m_purpose;
  Gtid_set *const m_gtids{nullptr};

  /** No event has been seen yet. */
  bool m_is_first{true};

  /** The Format_description event says that the file was closed. */
  bool m_is_closed{false};

  ulonglong m_transactions{0};
  ulonglong m_bytes{0};
  /** The GTIDs were taken from the note, and what was moved over is up to the
  end or up to a checkpoint. */
  bool m_is_noted{false};
  bool m_is_at_checkpoint{false};

  static constexpr my_off_t NOT_KNOWN = ~my_off_t{0};
};

/** The status variables Binlog_startup_scan_*. */
extern SHOW_VAR g_startup_scan_status[];

/** The same as the value of an element of such a list. */
inline char *const scan_status = (char *)g_startup_scan_status;

}  // namespace binlog

#endif  // BINLOG_STARTUP_SCAN_H
