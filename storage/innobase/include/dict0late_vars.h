/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file include/dict0late_vars.h
The system variable of late statistics. ha_innodb.cc alone includes this: it
defines what the array there lists. */

#ifndef dict0late_vars_h
#define dict0late_vars_h

#include "mysql/plugin.h"

#include "dict0late.h"

static MYSQL_SYSVAR_BOOL(
    stats_transient_late, late_stats::g_enabled,
    PLUGIN_VAR_OPCMDARG | PLUGIN_VAR_READONLY,
    "Estimate the statistics of tables without persistent ones, such as those "
    "of the dictionary, when they are first asked for, and not when the start "
    "opens the tables.",
    nullptr, nullptr, true);

/** Elements of innobase_system_variables. */
#define LATE_STATS_VARIABLES MYSQL_SYSVAR(stats_transient_late)

#endif /* dict0late_vars_h */
