/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file include/fil0map_vars.h
System and status variables of the map of the tablespace files. ha_innodb.cc
alone includes this: it defines what the arrays there list. */

#ifndef fil0map_vars_h
#define fil0map_vars_h

#include "mysql/plugin.h"
#include "mysql/status_var.h"

#include "fil0map.h"

static MYSQL_SYSVAR_BOOL(
    tablespace_map, tablespace_map::g_enabled,
    PLUGIN_VAR_OPCMDARG | PLUGIN_VAR_READONLY,
    "Keep a map of the tablespace files, and do not read at startup what "
    "has not changed since.",
    nullptr, nullptr, true);

static MYSQL_SYSVAR_UINT(
    tablespace_map_verify_rate, tablespace_map::g_verify_rate,
    PLUGIN_VAR_RQCMDARG,
    "Files per second whose headers are read, and that are opened, after "
    "startup, if that was not done at startup because of "
    "innodb_tablespace_map. 0: none.",
    nullptr, nullptr, tablespace_map::DEFAULT_VERIFY_RATE, 0,
    tablespace_map::MAX_VERIFY_RATE, 0);

/** Elements of innobase_system_variables. */
#define TABLESPACE_MAP_VARIABLES \
  MYSQL_SYSVAR(tablespace_map), MYSQL_SYSVAR(tablespace_map_verify_rate)

/** Innodb_tablespace_map_* */
static SHOW_VAR tablespace_map_status_list[] = {
    {"files_trusted", (char *)&tablespace_map::g_status.files_trusted,
     SHOW_LONGLONG, SHOW_SCOPE_GLOBAL},
    {"directories_changed",
     (char *)&tablespace_map::g_status.directories_changed, SHOW_LONGLONG,
     SHOW_SCOPE_GLOBAL},
    {"files_differing", (char *)&tablespace_map::g_status.files_differing,
     SHOW_LONGLONG, SHOW_SCOPE_GLOBAL},
    {"files_verified", (char *)&tablespace_map::g_status.files_verified,
     SHOW_LONGLONG, SHOW_SCOPE_GLOBAL},
    {"state", (char *)&tablespace_map::g_status.state, SHOW_CHAR_PTR,
     SHOW_SCOPE_GLOBAL},
    {nullptr, nullptr, SHOW_LONG, SHOW_SCOPE_GLOBAL}};

static char *const map_status = (char *)tablespace_map_status_list;

#endif /* fil0map_vars_h */
