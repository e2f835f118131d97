/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file include/trx0binlog.h
What a checkpoint of the binary log has to know of InnoDB; see
sql/binlog/checkpoint.h. */

#ifndef trx0binlog_h
#define trx0binlog_h

#include <cstdint>
#include <optional>

class THD;

namespace trx_binlog {

/** Whether a recovery needs the binary log for the transaction of a session,
which was written to it and was then to be committed, or with XA PREPARE to be
marked as written. InnoDB may fail to do either for want of an undo segment, and
tells nobody but the error log.
@param[in] thd  the session; nobody else uses its transaction meanwhile
@return true if it has been committed, or marked */
bool is_decided(const THD &thd);

/** Write the redo log to disk, up to what was committed last, whatever
innodb_flush_log_at_trx_commit says.
@return LSN up to which it is on disk; nothing if InnoDB writes no redo log */
std::optional<uint64_t> flush_redo();

/** Up to where a start has recovered, whatever has been written since.
@return LSN; 0 if no redo was looked at */
uint64_t recovered_lsn();

}  // namespace trx_binlog

#endif /* trx0binlog_h */
