/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file include/log0redo_vars.h
System variables of recovery from redo. ha_innodb.cc alone includes this: it
defines what the arrays there list. */

#ifndef log0redo_vars_h
#define log0redo_vars_h

#include "mysql/plugin.h"

#include "log0apply.h"
#include "log0flush.h"
#include "log0redo.h"

static MYSQL_SYSVAR_ENUM(
    redo_recovery, redo_recovery::g_way,
    PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_READONLY,
    "How redo is read and applied in crash recovery: STOCK, as MySQL does; or "
    "PARALLEL, read ahead, parsed faster, and applied by runs of pages.",
    nullptr, nullptr, static_cast<ulong>(redo_recovery::Way::PARALLEL),
    &redo_recovery::g_way_typelib);

static MYSQL_SYSVAR_ENUM(
    recovery_flush, recovery_flush::g_way,
    PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_READONLY,
    "What the start after a crash does with pages that redo has changed: WAIT "
    "until all are written, as MySQL does; or write them in the BACKGROUND.",
    nullptr, nullptr, static_cast<ulong>(recovery_flush::Way::BACKGROUND),
    &recovery_flush::g_way_typelib);

/** Elements of innobase_system_variables. */
#define REDO_RECOVERY_VARIABLES \
  MYSQL_SYSVAR(redo_recovery), MYSQL_SYSVAR(recovery_flush)

/** The value of Innodb_recovery. */
static char *const recovery_status = (char *)redo_recovery::g_status_variables;

#endif /* log0redo_vars_h */
