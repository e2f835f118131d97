/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file fil/fil0mapimage.cc
The map that is in the data directory. */

#include "fil0mapimage.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <sstream>
#include <string>
#include <utility>

#include <fcntl.h>

#include "fil0fil.h"
#include "fil0mapmsg.h"
#include "fsp0fsp.h"
#include "fsp0sysspace.h"
#include "log0log.h"
#include "my_dbug.h"
#include "mysql_version.h"
#include "scope_guard.h"
#include "sql/dd/dd_version.h"
#include "srv0srv.h"

namespace tablespace_map {

std::string default_space_name(const Directory &dir, const std::string &file) {
  const auto pos = dir.path.rfind('/');
  auto name = pos == std::string::npos ? dir.path : dir.path.substr(pos + 1);
  name.push_back('/');
  return name.append(file, 0, file.size() - 4);
}

std::string space_name(const Directory &dir, const File &file) {
  return file.space_name.empty() ? default_space_name(dir, file.name)
                                 : file.space_name;
}

const char *Image::open(int fd) {
  m_fd = fd;

  struct stat st;
  if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
    return "it is not a file";
  }
#ifdef POSIX_FADV_RANDOM
  (void)posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
#endif /* POSIX_FADV_RANDOM */

  const auto source = [fd](uint64_t offset, size_t n_bytes, char *to) {
    return read_all(fd, offset, n_bytes, to);
  };

  auto n_at_once = CHECKED_AT_ONCE_BYTES;
  DBUG_EXECUTE_IF("tablespace_map_by_block", n_at_once = m_n_kept = 0;);

  if (const char *reason = reader.open(source, st.st_size, n_at_once)) {
    return reason;
  }

  const auto &dirs = reader.summary().dirs;

  children.resize(dirs.size());
  for (uint32_t d = 0; d < dirs.size(); ++d) {
    if (dirs[d].is_trusted) {
      trusted_devs.insert(dirs[d].identity.dev);
    }
    if (dirs[d].parent != d) {
      children[dirs[d].parent].push_back(d);
    }
  }
  return nullptr;
}

std::string config_of(const Roots &roots) {
  std::ostringstream out;

  out << server_config(MYSQL_VERSION_ID, dd::DD_VERSION, srv_page_size);
  for (const auto &root : roots.dirs()) {
    out << root.first << '\n' << root.second << '\n';
  }
  return out.str();
}

std::string map_path(const char *name) {
  std::string path{MySQL_datadir_path.path()};
  return join(path, name);
}

namespace {

/** @return what tells one run of a server from another: the file of the global
temporary tablespace, which each start makes anew, and the first of those for
sessions, so that a server notices one with another innodb_temp_data_file_path,
too; not the same as anything if there is no such file
@param[in]  temp_path  path of the global one */
File_identity run_identity(const std::string &temp_path) {
  File_identity id{0, 0};
  File_identity pool{0, 0};

  if (!file_identity(AT_FDCWD, temp_path, id) || id.btime_nsec == 0) {
    return {0, 0};
  }
  /* It may be elsewhere: then it is not here in either run. */
  (void)file_identity(AT_FDCWD, map_path("#innodb_temp/temp_1.ibt"), pool);
  id.ino += pool.ino * 1'000'003;
  id.btime_nsec += pool.btime_nsec;
  return id;
}

}  // namespace

const char *Current_map::read() {
  /* What is no plain file must neither be followed nor waited for. */
  const int fd = ::open(map_path(MAP_NAME).c_str(),
                        O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

  if (fd < 0) {
    return errno == ENOENT ? "there is none" : "it cannot be opened";
  }

  auto image = std::make_shared<Image>();

  if (const char *reason = image->open(fd)) {
    return reason;
  }
  if (image->reader.summary().config != config_of(m_roots)) {
    return "release series, dictionary, page size or directories differ";
  }
  set(std::move(image));
  return nullptr;
}

bool Current_map::is_of_last_run() const {
  const auto &reader = m_image->reader;

  return reader.session().temp_file.is_same(
      run_identity(reader.summary().temp_path));
}

bool Current_map::reject(const char *reason) {
  m_rejected = reason;
  return !srv_read_only_mode && remove();
}

bool Current_map::remove() {
  const std::lock_guard guard(m_file_mutex);
  const bool is_gone =
      unlink(map_path(MAP_NAME).c_str()) == 0 || errno == ENOENT;

  sync_directory(MySQL_datadir_path.path());
  return is_gone;
}

void Current_map::give_up(const char *why) {
  if (m_is_given_up.exchange(true)) {
    return;
  }
  if (reject(why)) {
    ib::warn(MSG_REMOVED) << "Tablespace map was removed, because " << why
                          << "; the next start reads all files";
  } else {
    ib::warn(MSG_NOT_REMOVED)
        << "Tablespace map should be removed, because " << why
        << ", but cannot be: '" << map_path(MAP_NAME) << "'";
  }
}

Session Current_map::make_session(bool is_behind) const {
  Session session;

  if (!srv_redo_log) {
    return session;
  }
  session.is_behind = is_behind;
  if (m_is_shut_down) {
    session.end_lsn = log_get_lsn(*log_sys);
  } else {
    session.temp_file =
        run_identity(srv_tmp_space.first_datafile()->filepath());
  }
  return session;
}

bool Current_map::write_session(bool is_behind) {
  const std::lock_guard guard(m_file_mutex);
  const int fd = ::open(map_path(MAP_NAME).c_str(),
                        O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

  if (fd < 0) {
    return false;
  }
  const auto close_guard = create_scope_guard([fd]() { close(fd); });

  std::string header(HEADER_BYTES, '\0');
  const auto n_bytes = static_cast<ssize_t>(HEADER_BYTES);

  return m_image != nullptr && m_image->is_file(fd) &&
         !m_image->reader.is_damaged() && !m_is_given_up &&
         ::pread(fd, header.data(), HEADER_BYTES, 0) == n_bytes &&
         set_session(header, make_session(is_behind)) &&
         ::pwrite(fd, header.data(), HEADER_BYTES, 0) == n_bytes &&
         fdatasync(fd) == 0;
}

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
  if (!m_is_serving || !fsp_is_ibd_tablespace(space_id)) {
    return;
  }
  /* A map that is begun from now on will know, but not one that is being made,
  even if the last one does. */
  look_up(space_id);

  /* Asked first: a map that is made by then is the one that is looked at. */
  const bool is_mapping = m_journal.is_mapping();

  if (const auto image = m_current.image(); image != nullptr && !is_mapping) {
    const auto &ids = image->reader.summary().opened_at_start;

    if (std::binary_search(ids.begin(), ids.end(), space_id)) {
      return;
    }
  }
  m_journal.note_looked_up(space_id);
  m_last_nsec = now_nsec();
  ++m_stale_seq;
  ++m_seq;
}

void Changes::begin_import(bool has_new_id) {
  ++m_n_imports;
  m_id_seq += has_new_id;
  ++m_import_seq;
  begin();
  (void)m_current.remove();
}

void Changes::end_import(bool has_new_id) {
  m_id_seq += has_new_id;
  ++m_import_seq;
  --m_n_imports;
  end(false);
}

void Changes::begin_alter(space_id_t space_id) {
  look_up(space_id);
  begin_import(false);
}

}  // namespace tablespace_map
