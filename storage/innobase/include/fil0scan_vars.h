/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file include/fil0scan_vars.h
System variable of the scan for tablespace files. ha_innodb.cc alone includes
this: it defines what the arrays there list. */

#ifndef fil0scan_vars_h
#define fil0scan_vars_h

#include "mysql/plugin.h"

#include "fil0scan.h"

static MYSQL_SYSVAR_ENUM(
    tablespace_check_io, tablespace_scan::g_io,
    PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_READONLY,
    "How tablespace headers are read at startup: THREADS, one file at a "
    "time in each thread; IO_URING, many at a time, if the system has it; "
    "or AUTO, which is THREADS at present.",
    nullptr, nullptr, static_cast<ulong>(tablespace_scan::Io::AUTO),
    &tablespace_scan::g_io_typelib);

/** Elements of innobase_system_variables. */
#define TABLESPACE_SCAN_VARIABLES MYSQL_SYSVAR(tablespace_check_io)

#endif /* fil0scan_vars_h */
