/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file include/trx0prefetch_vars.h
System variable and status variables of reading ahead for rollback.
ha_innodb.cc alone includes this: it defines what the arrays there list. */

#ifndef trx0prefetch_vars_h
#define trx0prefetch_vars_h

#include "mysql/plugin.h"
#include "mysql/status_var.h"

#include "trx0prefetch.h"

static MYSQL_SYSVAR_BOOL(
    rollback_prefetch, rollback_prefetch::g_enabled, PLUGIN_VAR_OPCMDARG,
    "Read the pages of rows ahead while a transaction is rolled back that was "
    "open when the server died.",
    nullptr, nullptr, false);

/** Element of innobase_system_variables. */
#define ROLLBACK_PREFETCH_VARIABLES MYSQL_SYSVAR(rollback_prefetch)

/** Innodb_rollback_prefetch_* */
static SHOW_VAR rollback_prefetch_status_list[] = {
    {"pages", (char *)&rollback_prefetch::g_status.pages, SHOW_LONGLONG,
     SHOW_SCOPE_GLOBAL},
    {"reads", (char *)&rollback_prefetch::g_status.reads, SHOW_LONGLONG,
     SHOW_SCOPE_GLOBAL},
    {nullptr, nullptr, SHOW_LONG, SHOW_SCOPE_GLOBAL}};

static char *const prefetch_array = (char *)rollback_prefetch_status_list;

#endif /* trx0prefetch_vars_h */
