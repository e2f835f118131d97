/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file dict/dict0late.cc
Statistics of tables that a start opens, when somebody asks for them. */

#include "dict0late.h"

#include <array>
#include <mutex>

#include "sql/key.h"
#include "sql/mysqld.h"
#include "sql/table.h"

#include "dict0stats.h"
#include "my_base.h"
#include "srv0srv.h"

namespace late_stats {

bool g_enabled = true;

namespace {

/** The table that this thread is opening, if it does without statistics. */
thread_local const dict_table_t *t_opening = nullptr;

}  // namespace

Opening::Opening(const dict_table_t *table) {
  if (g_enabled && !opt_initialize && get_server_state() == SERVER_BOOTING &&
      !table->stat_initialized && !table->is_temporary() &&
      !dict_stats_is_persistent_enabled(table)) {
    t_opening = table;
  }
}

Opening::~Opening() { t_opening = nullptr; }

bool is_opening(const dict_table_t *table) { return table == t_opening; }

void need(dict_table_t *table) {
  if (table->stat_initialized) {
    return;
  }
  if (dict_stats_is_persistent_enabled(table)) {
    /* By now; those are read from a table, with a metadata lock. */
    dict_stats_init(table);
    return;
  }
  /* Many connections may ask for the same at once, right after the start. No
  other latch is held when one of these is requested. */
  static std::array<std::mutex, 64> mutexes;
  const std::lock_guard guard(mutexes[table->id % mutexes.size()]);

  dict_stats_init(table);
}

void need(dict_table_t *table, const TABLE *server, unsigned &flag) {
  if ((flag & (HA_STATUS_VARIABLE | HA_STATUS_CONST)) == 0 ||
      table->is_temporary()) {
    return;
  }
  need(table);

  /* All instances share it. The last key is told last. */
  if (const auto n_keys = server->s->keys; n_keys > 0) {
    const auto &key = server->key_info[n_keys - 1];

    if (key.supports_records_per_key() && !key.has_records_per_key(0)) {
      flag |= HA_STATUS_CONST;
    }
  }
}

}  // namespace late_stats
