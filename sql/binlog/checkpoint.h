/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file sql/binlog/checkpoint.h
Up to where a recovery does not need the binary log that is being written.

After a crash a storage engine may have prepared transactions, and the last
binary log says which of them were committed. It is the last one only, because
a server begins another file when no transaction that the old one has is still
to be committed in the engines, and has flushed their logs. The same holds at a
place within a file, the checkpoint, as soon as

- each transaction that was written before it has been committed in the engines,
  or, with XA PREPARE, is marked there as being in the binary log;
- and then the engines have flushed their logs.

A transaction counts from when it is written to when MYSQL_BIN_LOG takes it from
the number for which a rotation waits. Those that never are in that number have
nothing in the engines that the binary log decides about, but for XA COMMIT and
XA ROLLBACK, which commit and roll back after they were written: behind one of
these there is no checkpoint until the next file. Nor is there one behind a
transaction that MySQL takes for committed and InnoDB could not commit. */

#ifndef BINLOG_CHECKPOINT_H
#define BINLOG_CHECKPOINT_H

#include <cstdint>
#include <mutex>
#include <optional>

#include "sql/binlog/logged_gtids.h"
#include "sql/binlog/synced_mark.h"

namespace binlog {

/** Finds checkpoints in the binary log that is being written. Thread-safe. A
checkpoint is the end of a transaction. At most one is under way: it waits for
the transactions before it, then for somebody who takes it. */
class Checkpoint {
 public:
  /** Makes commits durable that the engines have done.
  @return LSN of InnoDB up to which they are; nothing if that has failed */
  using Flush = std::optional<uint64_t> (*)();

  /** Longest transaction, in bytes, that a checkpoint stands behind: a start
  looks at all of it before it relies on the checkpoint. */
  static constexpr uint64_t MAX_TRANSACTION_BYTES = 65536;

  /** There is one checkpoint each so many bytes; in a large file, each such
  part of it. What is behind the last one has to be read by a start. */
  static constexpr uint64_t STEP_BYTES = 65536;
  static constexpr uint64_t STEP_PART = 64;

  /** @param[in] flush  see there
  @param[in] gtids  the GTIDs of the file */
  Checkpoint(Flush flush, const Logged_gtids &gtids)
      : m_flush(flush), m_gtids(gtids) {}
  Checkpoint(const Checkpoint &) = delete;
  Checkpoint &operator=(const Checkpoint &) = delete;

  /** Another file is begun. */
  void begin();

  /** A transaction has been written, or an error may have left a part of it.
  @param[in] n_bytes  its length
  @param[in] is_wrong there was an error
  @param[in] is_xa    it is XA COMMIT or XA ROLLBACK */
  void written(uint64_t n_bytes, bool is_wrong, bool is_xa);

  /** What was written last is to be committed in the engines, and a rotation
  waits for that. The lock of those that write is held.
  @param[in] end  offset in the file at which the transaction ends */
  void prepared(uint64_t end);

  /** A transaction has been committed in the engines, or should have been; a
  rotation is just about to wait for it no more.
  @param[in] end         what prepared() was told
  @param[in] is_decided  false if it is still prepared: then a recovery has to
                         find it, and there are no more checkpoints */
  void committed(uint64_t end, bool is_decided = true);

  /** Take a checkpoint that was found; what the engines have committed before
  it is durable now.
  @param[in] synced_bytes  how much of the file was synced
  @return the checkpoint; nothing if there is none yet within these bytes */
  std::optional<Checkpoint_note> take(uint64_t synced_bytes);

 private:
  const Flush m_flush;
  const Logged_gtids &m_gtids;
  std::mutex m_mutex;
  /** Transactions to be committed, those up to the checkpoint under way and the
  others. */
  uint64_t m_n_before{};
  uint64_t m_n_after{};
  /** The checkpoint under way, if there is one. */
  std::optional<Checkpoint_note> m_note;
  /** End of the last checkpoint that was taken. */
  uint64_t m_taken_end{};
  /** Length of what was written last; 0 if it is not to be relied on. */
  uint64_t m_last_bytes{};
  /** No more checkpoints in this file. */
  bool m_is_blocked{true};
};

/** Of the server's own binary log. */
extern Checkpoint g_checkpoint;

}  // namespace binlog

#endif  // BINLOG_CHECKPOINT_H
