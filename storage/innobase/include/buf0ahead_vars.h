/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file include/buf0ahead_vars.h
System variable of the linear read-ahead. ha_innodb.cc alone includes this: it
defines what the array there lists. */

#ifndef buf0ahead_vars_h
#define buf0ahead_vars_h

#include "mysql/plugin.h"

#include "buf0ahead.h"

static MYSQL_SYSVAR_BOOL(
    read_ahead_by_runs, read_ahead_runs::g_by_runs, PLUGIN_VAR_OPCMDARG,
    "Linear read-ahead reads the next extent with one large read, instead of "
    "page by page.",
    nullptr, nullptr, true);

#endif /* buf0ahead_vars_h */
