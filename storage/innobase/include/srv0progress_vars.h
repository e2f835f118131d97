/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file include/srv0progress_vars.h
System variable and status variables of the progress of start-up. ha_innodb.cc
alone includes this: it defines what the arrays there list. */

#ifndef srv0progress_vars_h
#define srv0progress_vars_h

#include "mysql/plugin.h"
#include "mysql/status_var.h"

#include "srv0progress.h"

static MYSQL_SYSVAR_UINT(
    startup_progress_interval, startup_progress::g_interval_sec,
    PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_READONLY,
    "Seconds between reports, in the error log and to systemd, of what "
    "startup is doing and how far it is. 0 reports nothing.",
    nullptr, nullptr, startup_progress::DEFAULT_INTERVAL_SEC, 0,
    startup_progress::MAX_INTERVAL_SEC, 0);

/** Elements of innobase_system_variables. */
#define STARTUP_PROGRESS_VARIABLES MYSQL_SYSVAR(startup_progress_interval)

/** Address of the duration of a phase. */
#define PHASE_USEC(phase)             \
  (char *)&startup_progress::g_status \
      .phase_usec[static_cast<size_t>(startup_progress::Phase::phase)]

/** Innodb_startup_* */
static SHOW_VAR startup_status[] = {
    {"usec", (char *)&startup_progress::g_status.usec, SHOW_LONGLONG,
     SHOW_SCOPE_GLOBAL},
    {"map_usec", PHASE_USEC(MAP), SHOW_LONGLONG, SHOW_SCOPE_GLOBAL},
    {"listing_usec", PHASE_USEC(LISTING), SHOW_LONGLONG, SHOW_SCOPE_GLOBAL},
    {"check_usec", PHASE_USEC(CHECK), SHOW_LONGLONG, SHOW_SCOPE_GLOBAL},
    {"redo_scan_usec", PHASE_USEC(REDO_SCAN), SHOW_LONGLONG, SHOW_SCOPE_GLOBAL},
    {"redo_apply_usec", PHASE_USEC(REDO_APPLY), SHOW_LONGLONG,
     SHOW_SCOPE_GLOBAL},
    {"resurrection_usec", PHASE_USEC(UNDO_SCAN), SHOW_LONGLONG,
     SHOW_SCOPE_GLOBAL},
    {"dictionary_usec", PHASE_USEC(DICTIONARY), SHOW_LONGLONG,
     SHOW_SCOPE_GLOBAL},
    {"validation_usec", PHASE_USEC(VALIDATION), SHOW_LONGLONG,
     SHOW_SCOPE_GLOBAL},
    {"rollback_usec", PHASE_USEC(ROLLBACK), SHOW_LONGLONG, SHOW_SCOPE_GLOBAL},
    {nullptr, nullptr, SHOW_LONG, SHOW_SCOPE_GLOBAL}};

#undef PHASE_USEC

#endif /* srv0progress_vars_h */
