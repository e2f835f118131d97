/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file include/trx0async_vars.h
System variables and status variables of what the start leaves for later when
redo is applied: the undo logs of open transactions, and the rollback of
prepared ones. ha_innodb.cc alone includes this: it defines what the arrays
there list. */

#ifndef trx0async_vars_h
#define trx0async_vars_h

#include "mysql/plugin.h"
#include "mysql/status_var.h"

#include "trx0async.h"
#include "trx0rollers.h"
#include "trx0scan.h"

static MYSQL_SYSVAR_BOOL(
    recovery_rollback_async, recovery_rollback::g_async,
    PLUGIN_VAR_OPCMDARG | PLUGIN_VAR_READONLY,
    "Roll back prepared transactions that the binary log does not know after "
    "the server has opened, instead of before.",
    nullptr, nullptr, true);

static MYSQL_SYSVAR_ENUM(
    recovery_undo_scan, undo_scan::g_when,
    PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_READONLY,
    "When the undo logs of transactions that were open at a crash are read, to "
    "find their tables: at the START, as MySQL does; or in the BACKGROUND, "
    "when "
    "the server is open and DDL waits.",
    nullptr, nullptr, static_cast<ulong>(undo_scan::When::BACKGROUND),
    &undo_scan::g_when_typelib);

static MYSQL_SYSVAR_UINT(
    recovery_rollback_threads, rollback_threads::g_threads,
    PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_READONLY,
    "Most threads that roll back transactions which were open at a crash, each "
    "of them whole transactions. 1 is MySQL's one.",
    nullptr, nullptr, 1, 1, rollback_threads::MAX_THREADS, 0);

/** Elements of innobase_system_variables. */
#define RECOVERY_ROLLBACK_VARIABLES            \
  MYSQL_SYSVAR(recovery_rollback_async),       \
      MYSQL_SYSVAR(recovery_rollback_threads), \
      MYSQL_SYSVAR(recovery_undo_scan)

/** Innodb_recovery_*, of this feature. */
static SHOW_VAR off_path_status[] = {
    {"rollback_async_transactions",
     (char *)&recovery_rollback::g_status.transactions, SHOW_LONGLONG,
     SHOW_SCOPE_GLOBAL},
    {"rollback_threads_used", (char *)&rollback_threads::g_status.used,
     SHOW_LONGLONG, SHOW_SCOPE_GLOBAL},
    {"lock_scan_running", (char *)&undo_scan::g_status.running, SHOW_BOOL,
     SHOW_SCOPE_GLOBAL},
    {"lock_scan_transactions", (char *)&undo_scan::g_status.transactions,
     SHOW_LONGLONG, SHOW_SCOPE_GLOBAL},
    {"lock_scan_usec", (char *)&undo_scan::g_status.usec, SHOW_LONGLONG,
     SHOW_SCOPE_GLOBAL},
    {nullptr, nullptr, SHOW_LONG, SHOW_SCOPE_GLOBAL}};

#endif /* trx0async_vars_h */
