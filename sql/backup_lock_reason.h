/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file sql/backup_lock_reason.h
For statements that wait in vain for the backup lock while the server itself
holds it: their error, MySQL's, says that they have waited, and not for what. */

#ifndef BACKUP_LOCK_REASON_INCLUDED
#define BACKUP_LOCK_REASON_INCLUDED

#include <atomic>

#include "sql/mdl.h"

class THD;

/** Adds a warning that says what the server holds the backup lock for; nullptr
while it does not hold it. Not a call: programs have mdl.cc without what makes
warnings. */
inline std::atomic<void (*)(THD *)> warn_of_backup_lock{nullptr};

/** A lock was not granted in time.
@param[in]  thd  client
@param[in]  key  the lock */
inline void on_lock_timeout(THD *thd, const MDL_key &key) {
  const auto warn = warn_of_backup_lock.load();

  if (warn != nullptr && key.mdl_namespace() == MDL_key::BACKUP_LOCK) {
    warn(thd);
  }
}

#endif /* BACKUP_LOCK_REASON_INCLUDED */
