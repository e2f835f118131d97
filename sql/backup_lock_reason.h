/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file sql/backup_lock_reason.h
Why the server itself holds the backup lock, for statements that wait for it in
vain: their error, MySQL's, says that they have waited, and not for what. */

#ifndef BACKUP_LOCK_REASON_INCLUDED
#define BACKUP_LOCK_REASON_INCLUDED

#include <atomic>

#include "mysqld_error.h"
#include "sql/mdl.h"
#include "sql/sql_error.h"

class THD;

/** A text that stays; nullptr while the server does not hold the lock. */
inline std::atomic<const char *> backup_lock_reason{nullptr};

/** Add a warning if a lock that was not granted in time is the backup lock, and
the server itself holds it.
@param[in]  thd  client
@param[in]  key  the lock */
inline void warn_of_backup_lock(THD *thd, const MDL_key &key) {
  const char *reason = backup_lock_reason;

  if (reason != nullptr && key.mdl_namespace() == MDL_key::BACKUP_LOCK) {
    push_warning(thd, Sql_condition::SL_WARNING, ER_LOCK_WAIT_TIMEOUT, reason);
  }
}

#endif /* BACKUP_LOCK_REASON_INCLUDED */
