/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file include/ddl0kway_vars.h
System and status variables of the merge of index builds. ha_innodb.cc alone
includes this: it defines what the arrays there list. */

#ifndef ddl0kway_vars_h
#define ddl0kway_vars_h

#include "mysql/plugin.h"
#include "mysql/status_var.h"

#include "ddl0kway.h"

static MYSQL_THDVAR_UINT(
    ddl_merge_ways, PLUGIN_VAR_RQCMDARG,
    "Number of sorted runs that an index build merges at a time. 2 merges as "
    "before; 0 follows the memory that innodb_ddl_buffer_size gives.",
    nullptr, nullptr, 0, 0, ddl::kway::MAX_SET_WAYS, 0);

static MYSQL_THDVAR_BOOL(
    ddl_merge_on_the_fly, PLUGIN_VAR_OPCMDARG,
    "Feed the last merge of an index build to the index, instead of writing "
    "it to a temporary file and reading it again.",
    nullptr, nullptr, true);

static MYSQL_SYSVAR_BOOL(
    ddl_merge_drop_cache, ddl::kway::g_drop_cache, PLUGIN_VAR_OPCMDARG,
    "Drop each block of the temporary files of an index build from the page "
    "cache after every I/O; OFF drops only what is written beyond a share of "
    "the memory.",
    nullptr, nullptr, false);

static MYSQL_THDVAR_BOOL(
    ddl_flush_batch, PLUGIN_VAR_OPCMDARG,
    "Write the pages of a new index many at a time, as the page cleaner does, "
    "instead of one after the other.",
    nullptr, nullptr, true);

static MYSQL_THDVAR_BOOL(
    ddl_doublewrite, PLUGIN_VAR_OPCMDARG,
    "Write the pages of a table that is rebuilt in place into the doublewrite "
    "files, too; OFF writes them once, many at a time, from when they are "
    "made.",
    nullptr, nullptr, true);

static MYSQL_THDVAR_BOOL(
    ddl_preallocate, PLUGIN_VAR_OPCMDARG,
    "Do not write zeros to the space by which the file of a table grows while "
    "an index is built or the table is rebuilt in place.",
    nullptr, nullptr, false);

bool thd_ddl_flush_batch(THD *thd) { return THDVAR(thd, ddl_flush_batch); }

bool thd_ddl_doublewrite(THD *thd) { return THDVAR(thd, ddl_doublewrite); }

bool thd_ddl_preallocate(THD *thd) { return THDVAR(thd, ddl_preallocate); }

size_t thd_ddl_merge_ways(THD *thd) { return THDVAR(thd, ddl_merge_ways); }

bool thd_ddl_merge_on_the_fly(THD *thd) {
  return THDVAR(thd, ddl_merge_on_the_fly);
}

/** Elements of innobase_system_variables. */
#define DDL_MERGE_VARIABLES                                              \
  MYSQL_SYSVAR(ddl_merge_ways), MYSQL_SYSVAR(ddl_merge_on_the_fly),      \
      MYSQL_SYSVAR(ddl_merge_drop_cache), MYSQL_SYSVAR(ddl_flush_batch), \
      MYSQL_SYSVAR(ddl_doublewrite), MYSQL_SYSVAR(ddl_preallocate)

/** Innodb_ddl_merge_* */
static SHOW_VAR ddl_merge_status_list[] = {
    {"bytes_read", (char *)&ddl::kway::g_status.bytes_read, SHOW_LONGLONG,
     SHOW_SCOPE_GLOBAL},
    {"bytes_written", (char *)&ddl::kway::g_status.bytes_written, SHOW_LONGLONG,
     SHOW_SCOPE_GLOBAL},
    {"extent_pages", (char *)&ddl::kway::g_status.extent_pages, SHOW_LONGLONG,
     SHOW_SCOPE_GLOBAL},
    {"passes", (char *)&ddl::kway::g_status.passes, SHOW_LONGLONG,
     SHOW_SCOPE_GLOBAL},
    {"preallocated_pages", (char *)&ddl::kway::g_status.preallocated_pages,
     SHOW_LONGLONG, SHOW_SCOPE_GLOBAL},
    {nullptr, nullptr, SHOW_LONG, SHOW_SCOPE_GLOBAL}};

/** The value of Innodb_ddl_merge. */
static char *const ddl_merge_status = (char *)ddl_merge_status_list;

#endif /* ddl0kway_vars_h */
