/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file fil/fil0mapddl.cc
What DDL does to tablespace files while the map is kept. */

#include "fil0mapddl.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <string>

#include "fsp0fsp.h"

namespace tablespace_map {

void Changes::begin() {
  ++m_n_ddl;
  m_last_nsec = now_nsec();
  ++m_seq;
}

void Changes::end(bool is_covered) {
  if (!is_covered) {
    ++m_stale_seq;
  }
  m_last_nsec = now_nsec();
  ++m_seq;
  --m_n_ddl;
}

bool Changes::begin_file(space_id_t space_id, const std::string &path,
                         Change &change) {
  std::optional<Place> place;

  if (!m_is_serving) {
    return false;
  }
  {
    const std::lock_guard guard(m_finder_mutex);
    place = m_finder.find(path);
  }
  if (!place) {
    return false;
  }
  const auto pos = place->second.rfind('/');
  const auto is_root = pos == std::string::npos;

  change.dir = {place->first, is_root ? "" : place->second.substr(0, pos)};
  change.dir_path = m_roots.dir_path(change.dir.first, change.dir.second);
  change.name = is_root ? place->second : place->second.substr(pos + 1);
  change.space_id = space_id;
  return m_journal.begin_change(change);
}

void Changes::note_autoextend(space_id_t space_id) {
  const auto image = m_is_serving ? m_current.image() : nullptr;

  if (image != nullptr && fsp_is_ibd_tablespace(space_id)) {
    const auto &ids = image->reader.summary().opened_at_start;

    if (!std::binary_search(ids.begin(), ids.end(), space_id)) {
      m_last_nsec = now_nsec();
      ++m_stale_seq;
      ++m_seq;
    }
  }
}

void Changes::begin_import() {
  ++m_n_imports;
  ++m_import_seq;
  begin();
  (void)m_current.remove();
}

void Changes::end_import() {
  ++m_import_seq;
  --m_n_imports;
  end(false);
}

}  // namespace tablespace_map
