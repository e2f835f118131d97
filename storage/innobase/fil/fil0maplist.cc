/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file fil/fil0maplist.cc
What the directories hold, for a new map. */

#include "fil0maplist.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>

#include "dict0dict.h"
#include "fil0fil.h"
#include "fil0mapmsg.h"
#include "fsp0fsp.h"

namespace tablespace_map {

namespace {

/** Deeper nesting is not looked into. */
constexpr uint32_t MAX_DEPTH = 64;

}  // namespace

Space *Lister::find_space(const Directory &dir, const std::string &name) {
  const auto it = m_spaces.find(key(dir.root, join(dir.path, name)));

  return it == m_spaces.end() ? nullptr : &it->second;
}

void Lister::add(const Directory &dir, const File &file, const Space *space) {
  File out = file;

  if (space != nullptr) {
    out.is_stray = false;
    out.flags = space->flags;
    out.space_name =
        space->name == default_space_name(dir, file.name) ? "" : space->name;
  }
  if (!out.is_stray) {
    /* What open() could not make as a start does is made at each start. */
    const bool is_odd =
        space == nullptr
            ? m_opened_before.count(out.space_id) != 0
            : space->must_open ||
                  !is_same_path(space->path,
                                m_roots.file_path(place_of(dir, file)));

    if (is_odd || dict_sys_t::is_reserved(out.space_id)) {
      m_summary.opened_at_start.push_back(out.space_id);
    } else if (FSP_FLAGS_GET_ENCRYPTION(out.flags)) {
      m_summary.encrypted.push_back(out.space_id);
    }
    if (!dict_sys_t::is_reserved(out.space_id)) {
      m_summary.max_space_id = std::max(m_summary.max_space_id, out.space_id);
    }
  }
  m_builder.add(out);
}

bool Lister::carry_over(uint32_t old_no, const Directory &dir) {
  const auto &reader = m_last->reader;

  if (!reader.read_files(old_no, [&](const File &file, uint32_t) {
        const auto space = find_space(dir, file.name);

        return !is_stopped() && !m_server.is_dropped(file.space_id) &&
               (space == nullptr ? m_open_ids.count(file.space_id) == 0
                                 : space->id == file.space_id);
      })) {
    return false;
  }

  /* If a block cannot be read again, the map is damaged, and the new one is
  thrown away. */
  return reader.read_files(old_no, [&](const File &file, uint32_t) {
    const auto space = find_space(dir, file.name);

    if (space != nullptr) {
      space->is_seen = true;
    }
    add(dir, file, space);
    return true;
  });
}

/** @return true if a file that the server does not know can be in the map: the
next start asks which tablespaces there are, whoever they belong to
@param[in]  space_id  tablespace ID in its header */
bool Lister::is_stray(space_id_t space_id) {
  Found found;

  /* It may be just being made; or a copy of another file, which the next start
  has to complain about; or a table that nobody has used yet. */
  return !m_server.is_ddl_under_way() && fsp_is_ibd_tablespace(space_id) &&
         !m_server.may_be_deferred(space_id) &&
         m_open_ids.count(space_id) == 0 && !m_server.is_dropped(space_id) &&
         (m_last == nullptr || !m_last->reader.find(space_id, found)) &&
         m_stray_ids.insert(space_id).second;
}

/** Add a file to the map.
@param[in]  path    its path
@param[in]  name    its name
@param[in]  old_no  number of its directory in the last map, or -1
@param[in]  dir     its directory
@return false if that cannot be done, and each start has to look at it */
bool Lister::list_file(const std::string &path, const std::string &name,
                       int64_t old_no, const Directory &dir) {
  const auto space = find_space(dir, name);
  Found known;
  File file;

  if (!file_identity(AT_FDCWD, path, file.identity) || file.identity.ino == 0) {
    return false;
  }
  if (old_no >= 0 && m_last->reader.find_file(old_no, name, known) &&
      !m_server.is_dropped(known.file.space_id) &&
      (space == nullptr ? m_open_ids.count(known.file.space_id) == 0
                        : space->id == known.file.space_id) &&
      known.file.identity.is_same(file.identity) &&
      (m_may_carry || read_header(path).is_of(known.file.space_id))) {
    file = std::move(known.file);
  } else {
    file.name = name;
    file.space_id =
        space == nullptr
            ? SPACE_UNKNOWN
            : m_server.read_id(key(dir.root, join(dir.path, name)), m_before);
    if (file.space_id == SPACE_UNKNOWN || file.space_id != space->id) {
      const auto header = read_header(path);

      if (header.state != Header_state::PLAIN ||
          !(header.identity == file.identity) ||
          (space == nullptr ? !is_stray(header.space_id)
                            : space->id != header.space_id)) {
        return false;
      }
      file.space_id = header.space_id;
      file.flags = header.flags;
    }
    file.is_stray = space == nullptr;
  }

  if (space != nullptr) {
    space->is_seen = true;
  }
  add(dir, file, space);
  return true;
}

void Lister::list(const std::string &phys, int64_t old_no, Directory &dir,
                  std::vector<std::string> &children) {
  std::vector<std::string> names;

  /* The directory is closed before its entries are looked at. */
  {
    Dir_reader reader(phys);

    if (!reader.is_open()) {
      m_has_failed = m_has_failed ||
                     (reader.error() != ENOENT && reader.error() != EACCES);
      dir.is_trusted = false;
      return;
    }
    while (const auto *entry = reader.next()) {
      names.emplace_back(entry->d_name);
    }
    m_has_failed = m_has_failed || reader.error() != 0;
  }
  std::sort(names.begin(), names.end());

  struct stat phys_st;
  const bool has_device = stat(phys.c_str(), &phys_st) == 0;

  const auto distrust = [&](const std::string &path, const char *why) {
    dir.is_trusted = false;
    note_obstacle(path, why);
  };

  for (const auto &name : names) {
    const std::string path = join(phys, name);

    if (is_stopped() || is_touched(dir, name)) {
      continue;
    }

    struct stat st {};

    /* What a link points to may change unseen. The walk says that it skips
    hidden files, and renames old partitions. */
    if (lstat(path.c_str(), &st) != 0) {
      dir.is_trusted = dir.is_trusted && is_touched(dir, name);
    } else if (name[0] == '.') {
      distrust(path, "is hidden");
    } else if (!(S_ISREG(st.st_mode) || S_ISDIR(st.st_mode))) {
      distrust(path, "is neither a file nor a directory");
    } else if (is_old_partition(name)) {
      distrust(path, "has the name of an old partition");
    }
    if (name[0] == '.') {
      continue;
    }
    if ((!S_ISLNK(st.st_mode) || stat(path.c_str(), &st) == 0) &&
        S_ISDIR(st.st_mode)) {
      children.push_back(name);
      continue;
    }
    if (!Fil_path::has_suffix(IBD, name) || name.size() <= 4) {
      if (Fil_path::is_undo_tablespace_name(path)) {
        /* Undo tablespaces change their ID when they are truncated. */
        dir.is_trusted = false;
      }
      continue;
    }
    if (!has_device || st.st_dev != phys_st.st_dev) {
      distrust(path, "is on another device than its directory");
    }
    if (!list_file(path, name, old_no, dir) && !is_touched(dir, name)) {
      distrust(path, "is no tablespace of this server, or has several names");
    }
  }
}

/** Add a directory and what is below it to the map.
@return false if it is not looked into */
bool Lister::walk(uint32_t root, const std::string &path, uint32_t parent,
                  uint32_t depth) {
  const std::string phys = m_roots.dir_path(root, path);
  const auto no = static_cast<uint32_t>(m_summary.dirs.size());
  Directory dir{root, path, {}, true, depth == 0 ? no : parent};
  std::vector<std::string> children;

  if (depth > MAX_DEPTH || is_stopped() || !dir_identity(phys, dir.identity)) {
    return false;
  }
  const auto times = m_times.of(
      phys, dir.identity, [&]() { return m_journal.test_times(phys); },
      [&]() {
        ib::info(MSG_NO_TIMES)
            << "Tablespace map: '" << phys << "' does not get another time when"
            << " files are made in it; each start lists the directories of its"
            << " file system";
      });
  /* A link may lead back up. */
  for (auto above = parent, d = depth; d > 0; --d) {
    const auto &other = m_summary.dirs[above];

    if (other.identity.dev == dir.identity.dev &&
        other.identity.ino == dir.identity.ino) {
      return false;
    }
    above = other.parent;
  }
  dir.first_file = m_builder.n_files();

  const auto old_no =
      m_last == nullptr ? -1 : m_last->reader.summary().find_dir(root, path);

  dir.is_trusted = !is_coarse(dir.identity);

  /* What the last map trusts either was old enough, or has a time of our own.
   */
  if (m_may_carry && old_no >= 0 && m_last->dir(old_no).is_trusted &&
      !m_last->dir(old_no).is_partial &&
      m_last->dir(old_no).identity == dir.identity && carry_over(old_no, dir)) {
    for (const auto child : m_last->children[old_no]) {
      const auto &child_path = m_last->dir(child).path;
      const auto pos = child_path.rfind('/');
      children.push_back(pos == std::string::npos ? child_path
                                                  : child_path.substr(pos + 1));
    }
  } else {
    m_before = dir.identity;
    const Dir_key dir_key{root, path};
    const bool is_watched =
        m_journal.watch(dir_key, phys, dir.identity, m_before);
    const bool is_too_young = !is_watched && is_racy(dir.identity, now_nsec());

    dir.is_trusted = is_watched || !is_coarse(dir.identity);
    list(phys, old_no, dir, children);

    Dir_identity after;
    if (!dir_identity(phys, after) ||
        !(is_watched ? m_journal.is_watched(dir_key, after)
                     : after == dir.identity && !is_too_young)) {
      /* One that is not trusted for other reasons need not be looked at
      again. */
      m_is_racy = m_is_racy || dir.is_trusted;
      dir.is_trusted = false;
    }
  }

  if (times != Times::KEPT && dir.is_trusted) {
    dir.is_trusted = false;
    if (times == Times::UNKNOWN) {
      note_obstacle(phys, "may not get another time when files are made in it");
    }
  }
  dir.n_files = m_builder.n_files() - dir.first_file;
  m_summary.dirs.push_back(std::move(dir));

  for (const auto &child : children) {
    if (!walk(root, join(path, child), no, depth + 1)) {
      /* Who trusts this directory would not look below it. */
      m_summary.dirs[no].is_trusted = false;
      note_obstacle(join(phys, child), "cannot be looked into");
    }
  }
  return true;
}

bool Lister::has(space_id_t space_id) const {
  const auto &ids = m_builder.ids();
  const auto it = std::lower_bound(ids.begin(), ids.end(),
                                   std::pair(space_id, uint32_t{0}));

  return it != ids.end() && it->first == space_id;
}

void Lister::list(std::vector<Space> &&spaces) {
  Place_finder finder{m_roots};

  if (m_last != nullptr) {
    const auto &ids = m_last->reader.summary().opened_at_start;
    m_opened_before.insert(ids.begin(), ids.end());
  }
  for (auto &space : spaces) {
    m_open_ids.insert(space.id);
    if (const auto place = finder.find(space.path)) {
      m_spaces[key(place->first, place->second)] = std::move(space);
    } else {
      note_obstacle(space.path, "is in none of the known directories");
      m_summary.is_clean = false;
    }
  }

  for (uint32_t root = 0; root < m_roots.size(); ++root) {
    (void)walk(root, "", 0, 0);
  }

  for (const auto &[place, space] : m_spaces) {
    if (!space.is_seen && !m_server.is_dropped(space.id) &&
        !m_journal.is_touched(space.id)) {
      note_obstacle(space.path, "was not found");
      m_summary.is_clean = false;
    }
  }

  /* A file that was there and that nobody dropped. */
  m_builder.sort_ids();
  if (m_last != nullptr) {
    (void)m_last->reader.read_ids([this](space_id_t space_id) {
      Found found;

      if (!has(space_id) && !m_server.is_dropped(space_id) &&
          !m_journal.is_touched(space_id) &&
          !(m_last->reader.find(space_id, found) && found.file.is_stray)) {
        m_summary.is_clean = false;
        m_has_loss = m_has_loss || (!m_server.is_ddl_under_way() &&
                                    m_open_ids.count(space_id) == 0);
      }
    });
  }
  std::sort(m_summary.undo.begin(), m_summary.undo.end());
  std::sort(m_summary.opened_at_start.begin(), m_summary.opened_at_start.end());
  std::sort(m_summary.encrypted.begin(), m_summary.encrypted.end());
}

bool Lister::finish(const Session &session) {
  return !is_stopped() && !m_has_failed &&
         m_builder.finish(m_summary, session) &&
         (m_last == nullptr || !m_last->reader.is_damaged());
}

}  // namespace tablespace_map
