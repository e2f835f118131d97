/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file trx/trx0binlog.cc
What a checkpoint of the binary log has to know of InnoDB. */

#include "trx0binlog.h"

#include <cstdint>
#include <optional>

#include "ha_prototypes.h"
#include "handler/ha_innodb.h"
#include "log0buf.h"
#include "log0log.h"
#include "trx0trx.h"

namespace trx_binlog {

bool is_decided(const THD &thd) {
  /* If it has no session of InnoDB yet, this makes one. */
  const trx_t *trx = thd_to_trx(const_cast<THD *>(&thd));
  /* Without redo a recovery does not find it. */
  return trx == nullptr || !trx_is_started(trx) ||
         !trx_is_redo_rseg_updated(trx) || trx_is_prepared_in_tc(trx);
}

/** @return whether there is no redo log, or it counts for nothing */
static bool is_without_redo() {
  return log_sys == nullptr || srv_force_recovery >= SRV_FORCE_NO_LOG_REDO;
}

std::optional<uint64_t> flush_redo() {
  if (is_without_redo() || srv_read_only_mode) return std::nullopt;
  /* What is flushed is what there is now, or more. */
  const auto flushed = log_get_lsn(*log_sys);
  log_buffer_flush_to_disk(true);
  return flushed;
}

uint64_t recovered_lsn() {
  return is_without_redo() ? 0 : log_sys->recovered_lsn;
}

}  // namespace trx_binlog
