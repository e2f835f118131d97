/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file include/trx0ahead_vars.h
System variable and status variables of read-ahead of undo logs. ha_innodb.cc
alone includes this: it defines what the arrays there list. */

#ifndef trx0ahead_vars_h
#define trx0ahead_vars_h

#include "mysql/plugin.h"
#include "mysql/status_var.h"

#include "trx0ahead.h"

static MYSQL_SYSVAR_UINT(
    undo_read_ahead_pages, undo_read_ahead::g_pages, PLUGIN_VAR_RQCMDARG,
    "Most pages that one read takes when an undo log is read from its end, "
    "for crash recovery or rollback. 0 reads page by page.",
    nullptr, nullptr, undo_read_ahead::DEFAULT_PAGES, 0,
    undo_read_ahead::MAX_PAGES, 0);

/** Elements of innobase_system_variables. */
#define UNDO_READ_AHEAD_VARIABLES MYSQL_SYSVAR(undo_read_ahead_pages)

/** Innodb_resurrect_* */
static SHOW_VAR resurrect_status_list[] = {
    {"pages", (char *)&undo_read_ahead::g_status.pages, SHOW_LONGLONG,
     SHOW_SCOPE_GLOBAL},
    {"reads", (char *)&undo_read_ahead::g_status.reads, SHOW_LONGLONG,
     SHOW_SCOPE_GLOBAL},
    {"usec", (char *)&undo_read_ahead::g_status.usec, SHOW_LONGLONG,
     SHOW_SCOPE_GLOBAL},
    {nullptr, nullptr, SHOW_LONG, SHOW_SCOPE_GLOBAL}};

/** The value of Innodb_resurrect. */
static char *const resurrect_status = (char *)resurrect_status_list;

#endif /* trx0ahead_vars_h */
