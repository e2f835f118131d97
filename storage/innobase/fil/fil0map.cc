/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file fil/fil0map.cc
A persisted map of the tablespace files.

The file #innodb_tablespace_map in the data directory; its format is in
fil0mapfile.cc.

What is trusted and why is written in docs/tablespace-map.md. In short: a
directory with the same file system, inode, mtime and ctime has the same files;
a file with the same name, inode and birth time has the same tablespace ID,
since only IMPORT writes another ID into a file, which a server with the map
tells it. A server without the map does not. So the map is not trusted after one
has run. And no file is opened on the word of the map before its header was
read, and none is called missing or moved: all are looked at first, as if there
were no map. */

#include "fil0map.h"
#include "fil0mapparts.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <fcntl.h>

#include "fil0fil.h"
#include "fsp0fsp.h"
#include "sql/handler.h"
#include "srv0srv.h"

namespace tablespace_map {

bool g_enabled = false;
uint g_verify_rate = DEFAULT_VERIFY_RATE;
Status g_status;

namespace {

/** Made before the server starts: the scan tells it what it does. */
Parts &s_parts = *new Parts;

}  // namespace

Parts &parts() { return s_parts; }

bool skip_directory(
    const std::string &path, bool is_recursive,
    const std::function<void(tablespace_scan::Dir &&)> &push_dir,
    const tablespace_scan::Push_file &push_file) {
  return s_parts.start.skip_directory(path, is_recursive, push_dir, push_file);
}

std::optional<space_id_t> known_space_id(const std::string &path) {
  return s_parts.start.known_space_id(path);
}

bool find_unlisted(space_id_t space_id, size_t &root, std::string &path) {
  return s_parts.start.find_unlisted(space_id, root, path);
}

bool can_look_up(space_id_t space_id) {
  return s_parts.start.can_look_up(space_id);
}

bool must_scan() { return s_parts.start.must_scan(); }

bool search_missing() { return s_parts.start.search_missing(); }

dberr_t recheck(const std::vector<const dd::Tablespace *> &tablespaces) {
  return s_parts.start.recheck(tablespaces);
}

void end_recovery() { s_parts.start.end_recovery(); }

bool fetch_tablespaces(dd::cache::Dictionary_client *client,
                       std::vector<const dd::Tablespace *> *tablespaces) {
  return s_parts.start.fetch_tablespaces(client, tablespaces);
}

bool is_dictionary_read() { return s_parts.start.is_dictionary_read(); }

bool is_unread(space_id_t space_id, const std::string &path) {
  return s_parts.start.is_unread(space_id, path);
}

bool can_wait(Fil_state state, space_id_t space_id, const char *space_name,
              const std::string &path, const dd::Properties &options,
              std::atomic_size_t &n_validated) {
  return s_parts.start.can_wait(state, space_id, space_name, path, options,
                                n_validated);
}

void note_opened(space_id_t space_id, const std::string &path) {
  s_parts.start.note_opened(space_id, path);
}

void note_validation(size_t n_differing, size_t n_left) {
  s_parts.start.note_validation(n_differing, n_left);
}

size_t first_page_bytes(int fd [[maybe_unused]], size_t n_bytes) {
  if (!g_enabled) {
    return n_bytes;
  }
#ifdef POSIX_FADV_RANDOM
  (void)posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
#endif /* POSIX_FADV_RANDOM */
  return std::min<size_t>(n_bytes, srv_page_size);
}

void forget(space_id_t space_id) {
  if (g_enabled) {
    s_parts.current.dropped().end(space_id);
  }
}

Ddl::Ddl(space_id_t space_id, bool is_dropped)
    /* Undo tablespaces are not looked up in the map. */
    : m_is_noted(g_enabled && fsp_is_ibd_tablespace(space_id)),
      m_space_id(space_id),
      m_is_dropped(m_is_noted && is_dropped) {
  if (m_is_dropped) {
    s_parts.current.dropped().begin(m_space_id);
    s_parts.deferred.note_dropped(m_space_id);
  }
  if (m_is_noted) {
    s_parts.changes.begin();
  }
}

void Ddl::begin(const char *path, const char *new_name, const char *new_path) {
  if (!m_is_noted) {
    return;
  }
  m_is_covered = s_parts.changes.begin_file(m_space_id, path, m_changes[0]);
  if (new_name != nullptr) {
    const std::string to = new_path != nullptr
                               ? new_path
                               : "./" + std::string(new_name) + dot_ext[IBD];
    m_is_covered = s_parts.changes.begin_file(m_space_id, to, m_changes[1]) &&
                   m_is_covered;
  }
}

void Ddl::end() {
  for (const auto &change : m_changes) {
    if (change.no != 0) {
      m_is_covered =
          s_parts.changes.journal().note_changed(change) && m_is_covered;
    }
  }
}

Ddl::~Ddl() {
  if (m_is_dropped) {
    s_parts.current.dropped().end(m_space_id);
    /* Not if it may not be dropped, and stays. */
    if (fil_space_get(m_space_id) == nullptr) {
      s_parts.changes.look_up(m_space_id, false);
    }
  }
  for (const auto &change : m_changes) {
    if (change.no != 0) {
      m_is_covered =
          s_parts.changes.journal().end_change(change) && m_is_covered;
    }
  }
  if (m_is_noted) {
    s_parts.changes.end(m_is_covered);
  }
}

void note_autoextend(space_id_t space_id, uint64_t n_bytes) {
  if (n_bytes != 0) {
    s_parts.changes.note_autoextend(space_id);
  }
}

Import::Import() : m_is_noted(s_parts.changes.is_serving()) {
  if (m_is_noted) {
    s_parts.changes.begin_import(true);
  }
}

Import::~Import() {
  if (m_is_noted) {
    s_parts.changes.end_import(true);
  }
}

Alter::Alter(const st_alter_tablespace &what, const dd::Tablespace *space) {
  if (what.ts_cmd_type != CREATE_TABLESPACE &&
      what.ts_cmd_type != ALTER_TABLESPACE &&
      what.ts_cmd_type != DROP_TABLESPACE) {
    return;
  }
  /* One that is being made has no ID yet. */
  if (space != nullptr && what.ts_cmd_type != CREATE_TABLESPACE) {
    open_general(*space);
  }
  if (!s_parts.changes.is_serving() || what.ts_cmd_type == DROP_TABLESPACE) {
    return;
  }
  m_is_created = what.ts_cmd_type == CREATE_TABLESPACE;
  m_is_altered = !m_is_created;
  if (m_is_created) {
    s_parts.changes.begin();
  } else {
    s_parts.changes.begin_alter(space_id_of(space));
  }
}

Alter::~Alter() {
  if (m_is_created) {
    s_parts.changes.end(false);
  }
  if (m_is_altered) {
    s_parts.changes.end_import(false);
  }
}

void start() { s_parts.start.finish(s_parts.keeper); }

void stop_verifying() {
  if (s_parts.changes.is_serving()) {
    s_parts.verifier.stop();
  }
}

void shutdown() {
  if (s_parts.changes.is_serving()) {
    s_parts.keeper.stop();
  } else if (s_parts.start.is_ours() && !srv_read_only_mode) {
    /* The start has failed. */
    s_parts.current.set_shut_down();
    (void)s_parts.current.write_session(true);
  }
}

}  // namespace tablespace_map
