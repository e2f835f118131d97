/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file include/buf0load_vars.h
System variables of loading and dumping the buffer pool. ha_innodb.cc alone
includes this: it defines what the array there lists. */

#ifndef buf0load_vars_h
#define buf0load_vars_h

#include "mysql/plugin.h"

#include "buf0load.h"
#include "srv0srv.h"

static MYSQL_SYSVAR_BOOL(
    buffer_pool_load_by_runs, pool_load::g_by_runs, PLUGIN_VAR_OPCMDARG,
    "Load the buffer pool from a dump with large reads, instead of page by "
    "page.",
    nullptr, nullptr, false);

static MYSQL_SYSVAR_BOOL(
    buffer_pool_load_when_open, pool_load::g_when_open,
    PLUGIN_VAR_OPCMDARG | PLUGIN_VAR_READONLY,
    "Begin to load the buffer pool at start-up when the server is open, ten "
    "seconds later at most, not while it still reads what it needs for that.",
    nullptr, nullptr, true);

/** Another interval: the thread that waits for the old one has to know.
@param[out]  to    variable
@param[in]   from  new value */
static void buffer_pool_dump_interval_update(THD *, SYS_VAR *, void *to,
                                             const void *from) {
  *static_cast<uint *>(to) = *static_cast<const uint *>(from);

  if (srv_buf_dump_event != nullptr) {
    os_event_set(srv_buf_dump_event);
  }
}

static MYSQL_SYSVAR_UINT(
    buffer_pool_dump_interval, pool_load::g_dump_interval, PLUGIN_VAR_RQCMDARG,
    "Seconds after which the buffer pool is dumped again while the server "
    "runs, so that a start after a crash can load it. 0 dumps on request and "
    "at "
    "a shutdown only.",
    nullptr, buffer_pool_dump_interval_update, 0, 0, 86400, 0);

/** Elements of innobase_system_variables. */
#define POOL_LOAD_VARIABLES                     \
  MYSQL_SYSVAR(buffer_pool_load_by_runs),       \
      MYSQL_SYSVAR(buffer_pool_load_when_open), \
      MYSQL_SYSVAR(buffer_pool_dump_interval)

#endif /* buf0load_vars_h */
