/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file include/fil0check_vars.h
System and status variables of the check of the tablespace files at start-up.
ha_innodb.cc alone includes this: it defines what the arrays there list. */

#ifndef fil0check_vars_h
#define fil0check_vars_h

#include "mysql/plugin.h"
#include "mysql/status_var.h"

#include "fil0check.h"

static MYSQL_SYSVAR_BOOL(
    tablespace_check_fadvise, tablespace_check::g_fadvise,
    PLUGIN_VAR_OPCMDARG | PLUGIN_VAR_READONLY,
    "Read tablespace headers at startup through the page cache, without "
    "readahead, instead of with O_DIRECT.",
    nullptr, nullptr, true);

static MYSQL_SYSVAR_BOOL(
    tablespace_check_light, tablespace_check::g_light,
    PLUGIN_VAR_OPCMDARG | PLUGIN_VAR_READONLY,
    "Read the first 4 KiB of each tablespace at startup instead of a page.",
    nullptr, nullptr, true);

static MYSQL_SYSVAR_UINT(
    tablespace_check_threads, tablespace_check::g_threads,
    PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_READONLY,
    "Number of threads that read tablespace headers at startup. 0 follows "
    "the rate that the volume sustains, or, if both "
    "innodb_tablespace_check_fadvise and innodb_tablespace_check_light are "
    "OFF, the number of files.",
    nullptr, nullptr, 0, 0, tablespace_check::MAX_THREADS, 0);

/** Elements of innobase_system_variables. */
#define TABLESPACE_CHECK_VARIABLES          \
  MYSQL_SYSVAR(tablespace_check_fadvise),   \
      MYSQL_SYSVAR(tablespace_check_light), \
      MYSQL_SYSVAR(tablespace_check_threads)

/** Innodb_tablespace_check_* */
static SHOW_VAR tablespace_check_status_list[] = {
    {"files", (char *)&tablespace_check::g_status.files, SHOW_LONGLONG,
     SHOW_SCOPE_GLOBAL},
    {"files_read", (char *)&tablespace_check::g_status.files_read,
     SHOW_LONGLONG, SHOW_SCOPE_GLOBAL},
    {"bytes_read", (char *)&tablespace_check::g_status.bytes_read,
     SHOW_LONGLONG, SHOW_SCOPE_GLOBAL},
    {"usec", (char *)&tablespace_check::g_status.usec, SHOW_LONGLONG,
     SHOW_SCOPE_GLOBAL},
    {nullptr, nullptr, SHOW_LONG, SHOW_SCOPE_GLOBAL}};

static char *const check_status = (char *)tablespace_check_status_list;

#endif /* fil0check_vars_h */
