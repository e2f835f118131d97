/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file include/trx0async_vars.h
System variable and status variable of the rollback of prepared transactions in
the background. ha_innodb.cc alone includes this: it defines what the arrays
there list. */

#ifndef trx0async_vars_h
#define trx0async_vars_h

#include "mysql/plugin.h"
#include "mysql/status_var.h"

#include "trx0async.h"

static MYSQL_SYSVAR_BOOL(
    recovery_rollback_async, recovery_rollback::g_async,
    PLUGIN_VAR_OPCMDARG | PLUGIN_VAR_READONLY,
    "Roll back prepared transactions that the binary log does not know after "
    "the server has opened, instead of before.",
    nullptr, nullptr, false);

/** Element of innobase_system_variables. */
#define RECOVERY_ROLLBACK_VARIABLES MYSQL_SYSVAR(recovery_rollback_async)

/** Innodb_recovery_rollback_async_* */
static SHOW_VAR recovery_rollback_status[] = {
    {"transactions", (char *)&recovery_rollback::g_status.transactions,
     SHOW_LONGLONG, SHOW_SCOPE_GLOBAL},
    {nullptr, nullptr, SHOW_LONG, SHOW_SCOPE_GLOBAL}};

#endif /* trx0async_vars_h */
