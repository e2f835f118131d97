/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file fil/fil0map.cc
A persisted map of the tablespace files.

The file #innodb_tablespace_map in the data directory; its format is in
fil0mapfile.cc.

What is trusted and why is written in docs/tablespace-map.md. In short: a
directory with the same device, inode, mtime and ctime has the same files; a
file with the same name, inode and birth time has the same tablespace ID, if the
server knew it as a tablespace, since only IMPORT writes another ID into a file,
and only into files that it does not know. Nothing is ever opened because of the
map alone: opening a file checks its header as it always did. */

#include "fil0map.h"
#include "fil0mapfile.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <sstream>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dict0dd.h"
#include "dict0dict.h"
#include "fil0fil.h"
#include "fil0scan.h"
#include "fsp0fsp.h"
#include "fsp0sysspace.h"
#include "ibuf0ibuf.h"
#include "log0ddl.h"
#include "log0log.h"
#include "log0recv.h"
#include "mach0data.h"
#include "my_dbug.h"
#include "mysql_version.h"
#include "os0file.h"
#include "os0thread-create.h"
#include "scope_guard.h"
#include "sql/dd/cache/dictionary_client.h"
#include "sql/dd/properties.h"
#include "sql/dd/types/tablespace.h"
#include "srv0srv.h"
#include "srv0start.h"
#include "trx0purge.h"
#include "trx0sys.h"
#include "trx0trx.h"
#include "ut0crc32.h"

/** Look up an ID among the scanned files; in fil0fil.cc.
@param[in]  space_id  tablespace ID
@return true if there is a file */
bool fil_space_id_was_scanned(space_id_t space_id);

namespace tablespace_map {

bool g_enabled = false;
uint g_verify_rate = DEFAULT_VERIFY_RATE;
Status g_status{0, 0, "OFF", 0, 0};

namespace {

constexpr char MAP_NAME[] = "#innodb_tablespace_map";
constexpr char TEMP_NAME[] = "#innodb_tablespace_map.tmp";

int64_t nsec(const struct timespec &t) {
  return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

int64_t now_nsec() {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return nsec(t);
}

bool dir_identity(const std::string &path, Dir_identity &id) {
  struct stat st;

  if (stat(path.c_str(), &st) != 0 || !S_ISDIR(st.st_mode)) {
    return false;
  }
  id = {st.st_dev, st.st_ino, nsec(st.st_mtim), nsec(st.st_ctim)};
  return true;
}

/** Get the identity of a file. A link is not followed: what it points to has
another path, which decides what the server thinks of the file.
@param[in]   fd    file descriptor, or AT_FDCWD
@param[in]   path  file name; empty for fd itself
@param[out]  id    identity
@return false if it is not a regular file */
bool file_identity(int fd, const std::string &path, File_identity &id) {
#ifdef STATX_BTIME
  struct statx st;

  if (statx(fd, path.c_str(),
            path.empty() ? AT_EMPTY_PATH : AT_SYMLINK_NOFOLLOW,
            STATX_BASIC_STATS | STATX_BTIME, &st) != 0 ||
      !S_ISREG(st.stx_mode)) {
    return false;
  }
  id = {st.stx_ino, 0};
  if (st.stx_mask & STATX_BTIME) {
    id.btime_nsec =
        int64_t{st.stx_btime.tv_sec} * 1'000'000'000 + st.stx_btime.tv_nsec;
  }
  return true;
#else
  return false;
#endif /* STATX_BTIME */
}

/** @return the name of a tablespace that follows from the path of its file
@param[in]  dir   directory
@param[in]  file  file name */
std::string default_space_name(const Directory &dir, const std::string &file) {
  const auto pos = dir.path.rfind('/');
  auto name = pos == std::string::npos ? dir.path : dir.path.substr(pos + 1);
  name.push_back('/');
  return name.append(file, 0, file.size() - 4);
}

/** @return the name of the tablespace of a file
@param[in]  dir   directory
@param[in]  file  file in it */
std::string space_name(const Directory &dir, const File &file) {
  return file.space_name.empty() ? default_space_name(dir, file.name)
                                 : file.space_name;
}

/** Blocks of a map that are kept in memory after the start; 1 MiB. */
constexpr size_t KEPT_BLOCKS = 64;

/** A map that is open. */
struct Image {
  Reader reader;
  /** Subdirectories of each directory. */
  std::vector<std::vector<uint32_t>> children;

  /** Open the file of a map.
  @param[in]  fd  file descriptor; the image closes it
  @return nullptr if all is well, or what is wrong */
  const char *open(int fd);

  /** Keep only some blocks in memory from now on. */
  void keep_few() { reader.keep(m_n_kept); }

  /** @return true if the file is on the disk */
  bool sync() const { return fsync(m_fd) == 0; }

  const Directory &dir(uint32_t no) const { return reader.summary().dirs[no]; }

  ~Image() {
    if (m_fd >= 0) {
      close(m_fd);
    }
  }

 private:
  int m_fd{-1};
  size_t m_n_kept{KEPT_BLOCKS};
};

using Image_ptr = std::shared_ptr<Image>;

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
    for (size_t n = 0; n < n_bytes;) {
      const auto got = ::pread(fd, to + n, n_bytes - n, offset + n);
      if (got <= 0) {
        return false;
      }
      n += got;
    }
    return true;
  };

  auto n_at_once = CHECKED_AT_ONCE_BYTES;
  DBUG_EXECUTE_IF("tablespace_map_by_block", n_at_once = m_n_kept = 0;);

  if (const char *reason = reader.open(source, st.st_size, n_at_once)) {
    return reason;
  }

  const auto &dirs = reader.summary().dirs;

  children.resize(dirs.size());
  for (uint32_t d = 0; d < dirs.size(); ++d) {
    if (dirs[d].parent != d) {
      children[dirs[d].parent].push_back(d);
    }
  }
  return nullptr;
}

/** Protects s_image and s_stop. Until start() the start-up thread changes them
alone; later only the thread that writes the map changes s_image, so that it
reads it without. No other latch is requested under it. */
std::mutex s_mutex;
Roots s_roots;
Image_ptr s_image;

/** Protects s_forgotten and s_waiting. No other latch is requested under it. */
std::mutex s_forgotten_mutex;
/** Tablespaces that were dropped since the map was written. */
std::unordered_set<space_id_t> s_forgotten;

/** True during the scan of the start-up. */
bool s_is_scanning = false;
/** True if looking for unlisted files is allowed. */
bool s_can_find = false;
/** For each directory of the map: was it not listed? Bytes, since several
threads write them. */
std::vector<uint8_t> s_is_skipped;
/** For each file of the map: was it listed, and is it the same? Bytes, too. */
std::vector<uint8_t> s_is_same;
/** True if the temporary file of the map's session is still there: the server
that wrote the map was the last to run, and ended without a shutdown. */
bool s_is_temp_file_same = false;
/** Why there is no map, or a remark. */
std::string s_reason;
std::atomic_size_t s_n_trusted{0};
/** Directories that were listed, and how many of them would be worth to be
trusted next time. A root is listed at most starts, since the server makes files
there. */
std::atomic_size_t s_n_listed{0};
std::atomic_size_t s_n_listed_again{0};
std::atomic_size_t s_n_matched{0};
std::atomic_size_t s_n_unknown{0};
std::atomic_bool s_has_collision{false};
/** True if the map turned out to be damaged when it was in use. */
bool s_was_damaged = false;
/** True if all files were as in the map. */
bool s_is_complete = false;
/** True if the map in the file is right, but for its session. */
bool s_is_file_right = false;
/** True if the dictionary was in order at this start. */
bool s_is_clean = false;
/** True if the dictionary was not read, since nothing had changed. */
bool s_is_unchanged = false;
/** True if the start does not need the objects of all tablespaces. */
bool s_may_wait = false;
/** Tablespaces whose objects were not made, although the dictionary was read.
Not changed after the validation. */
std::unordered_set<space_id_t> s_waiting;

/** Counts DDL on files. */
std::atomic<uint64_t> s_ddl_seq{1};
/** Value of s_ddl_seq when the map was written. */
std::atomic<uint64_t> s_written_seq{0};
std::atomic<int64_t> s_last_ddl_nsec{0};
std::condition_variable s_wakeup;
std::atomic_bool s_stop{false};
bool s_is_started = false;
/** True if a later map may know or trust more than the last one. */
bool s_is_racy = false;
/** True if the redo log will not grow any more. */
bool s_is_shutdown = false;
/** Held while the file of the map is written or removed. No other latch is
requested under it. */
std::mutex s_file_mutex;
IB_thread s_thread;
IB_thread s_verify_thread;
/** The map of the start-up, while the headers are read that were not read then;
s_is_skipped and s_is_same belong to it. */
Image_ptr s_start_image;

/** Split a path into root and the rest.
@param[in]   path    path
@param[in]   is_abs  true to compare with the absolute paths of the roots
@param[out]  root    number of the root
@param[out]  rest    the rest, without slash at its ends
@return false if it is not under a root */
bool split_root(std::string_view path, bool is_abs, uint32_t &root,
                std::string_view &rest) {
  for (root = 0; root < s_roots.size(); ++root) {
    const auto &prefix = is_abs ? s_roots[root].second : s_roots[root].first;

    if (path.substr(0, prefix.size()) == prefix) {
      rest = path.substr(prefix.size());
      while (!rest.empty() && rest.front() == '/') rest.remove_prefix(1);
      while (!rest.empty() && rest.back() == '/') rest.remove_suffix(1);
      return true;
    }
  }
  return false;
}

/** Split the path of an open file into root and the rest. A relative path is
relative to the data directory, which is the first root.
@param[in]   path  path
@param[out]  root  number of the root
@param[out]  rest  the rest
@return false if it is not under a root */
bool split_path(std::string_view path, uint32_t &root, std::string_view &rest) {
  if (split_root(path, false, root, rest) ||
      split_root(path, true, root, rest)) {
    return true;
  }
  root = 0;
  rest = path;
  return !s_roots.empty() && path.substr(0, 1) != "/" &&
         path.find("..") == std::string_view::npos;
}

std::string dir_path(uint32_t root, const std::string &path) {
  return s_roots[root].second + path;
}

std::string join(const std::string &dir, const std::string &name) {
  return dir.empty() || dir.back() == '/' ? dir + name : dir + '/' + name;
}

std::string make_config() {
  std::ostringstream out;

  out << MYSQL_VERSION_ID << ' ' << srv_page_size << '\n';
  for (const auto &root : s_roots) {
    out << root.first << '\n' << root.second << '\n';
  }
  return out.str();
}

std::string map_path(const char *name) {
  std::string path{MySQL_datadir_path.path()};
  return join(path, name);
}

/** Read the map. @return the reason why there is none, or nullptr */
const char *read_map() {
  const int fd = ::open(map_path(MAP_NAME).c_str(), O_RDONLY | O_CLOEXEC);

  if (fd < 0) {
    return "there is none";
  }

  auto image = std::make_shared<Image>();

  if (const char *reason = image->open(fd)) {
    return reason;
  }
  if (image->reader.summary().config != make_config()) {
    return "version, page size or directories are different";
  }
  s_image = std::move(image);
  return nullptr;
}

/** Asked by the parallel walk. */
bool skip(const std::string &path, std::vector<std::string> &dirs) {
  return skip_directory(
      path, true, [&dirs](const std::string &dir) { dirs.push_back(dir); });
}

}  // namespace

void begin_scan(Roots roots) {
  s_roots = std::move(roots);
  s_is_scanning = s_can_find = false;
  s_is_complete = s_is_temp_file_same = false;
  s_n_matched = s_n_unknown = s_n_trusted = 0;
  s_n_listed = s_n_listed_again = 0;
  s_is_skipped.clear();
  s_is_same.clear();
  s_image.reset();
  tablespace_scan::g_skip = nullptr;

  if (!g_enabled) {
    return;
  }
  /* After a collision the scan is repeated without the map. */
  if (s_has_collision) {
    g_status = {0, 0, "REJECTED", 0, 0};
    return;
  }
  if (srv_force_recovery > 0) {
    g_status.state = "NOT USED";
    s_reason = "innodb_force_recovery is set";
  } else if (const char *reason =
                 s_was_damaged ? "it is damaged" : read_map()) {
    g_status = {0, 0, "NONE", 0, 0};
    s_reason = reason;
  } else {
    File_identity temp_file;
    const auto &reader = s_image->reader;

    s_is_temp_file_same =
        file_identity(AT_FDCWD, reader.summary().temp_path, temp_file) &&
        reader.session().temp_file.is_same(temp_file);

    g_status.state = "USED";
    s_is_skipped.resize(reader.summary().dirs.size());
    s_is_same.resize(reader.n_files());
    s_is_scanning = s_can_find = true;
    tablespace_scan::g_skip = skip;
    return;
  }

  ib::info(ER_IB_MSG_383) << "Tablespace map not used: " << s_reason;
}

bool skip_directory(const std::string &path, bool is_recursive,
                    const std::function<void(const std::string &)> &push_dir) {
  uint32_t root;
  std::string_view rest;

  if (!s_is_scanning || !is_recursive || !split_root(path, true, root, rest)) {
    return false;
  }

  const auto d = s_image->reader.summary().find_dir(root, rest);
  Dir_identity id;

  if (d < 0 || !s_image->dir(d).is_trusted || !dir_identity(path, id) ||
      id != s_image->dir(d).identity) {
    ++s_n_listed;
    if (d >= 0 && !rest.empty() && s_image->dir(d).n_files > 0) {
      ++s_n_listed_again;
    }
    return false;
  }

  s_is_skipped[d] = true;
  s_n_trusted += s_image->dir(d).n_files;

  for (const auto child : s_image->children[d]) {
    push_dir(dir_path(root, s_image->dir(child).path));
  }
  return true;
}

space_id_t known_space_id(const std::string &path) {
  uint32_t root;
  std::string_view rest;

  if (!s_is_scanning || Fil_path::is_undo_tablespace_name(path)) {
    return SPACE_UNKNOWN;
  }

  if (split_root(path, false, root, rest)) {
    const auto pos = rest.rfind('/');
    const auto dir_rest =
        pos == std::string::npos ? std::string_view{} : rest.substr(0, pos);
    const auto name = pos == std::string::npos ? rest : rest.substr(pos + 1);
    const auto &reader = s_image->reader;
    const auto d = reader.summary().find_dir(root, dir_rest);
    Found found;
    File_identity id;

    if (d >= 0 && reader.find_file(d, name, found) &&
        file_identity(AT_FDCWD, path, id) && found.file.identity.is_same(id)) {
      s_is_same[found.no] = true;
      ++s_n_matched;
      return found.file.space_id;
    }
  }

  ++s_n_unknown;
  return SPACE_UNKNOWN;
}

void note_space_id(space_id_t space_id) {
  if (!s_is_scanning) {
    return;
  }
  Found found;

  if (s_image->reader.find(space_id, found) && s_is_skipped[found.dir]) {
    s_has_collision = true;
  }
}

bool end_scan() {
  if (!s_is_scanning) {
    return false;
  }
  s_is_scanning = false;
  tablespace_scan::g_skip = nullptr;

  if (s_has_collision) {
    ib::info(ER_IB_MSG_383) << "Tablespace map not used: a file has the ID of"
                            << " a file that was not read; reading all";
    return true;
  }
  if (s_image->reader.is_damaged()) {
    s_was_damaged = true;
    return true;
  }

  const size_t n_known = s_n_trusted + s_n_matched;

  g_status.files_trusted = n_known;
  g_status.directories_changed = s_n_listed;
  s_is_complete = s_n_unknown == 0 && n_known == s_image->reader.n_files();

  ib::info(ER_IB_MSG_383) << "Tablespace map: " << n_known << " of "
                          << s_image->reader.n_files()
                          << " files are as they were; " << s_n_listed
                          << " directories were listed and " << s_n_unknown
                          << " headers read";
  return false;
}

namespace {

bool is_forgotten(space_id_t space_id) {
  const std::lock_guard guard(s_forgotten_mutex);
  return s_forgotten.count(space_id) != 0;
}

}  // namespace

bool find_unlisted(space_id_t space_id, size_t &root, std::string &path) {
  if (!s_can_find || is_forgotten(space_id)) {
    return false;
  }
  Found found;

  if (!s_image->reader.find(space_id, found) || !s_is_skipped[found.dir]) {
    return false;
  }
  const auto &dir = s_image->dir(found.dir);

  root = dir.root;
  path = join(dir.path, found.file.name);
  return true;
}

bool must_scan() {
  if (!s_can_find || !s_image->reader.is_damaged()) {
    return false;
  }
  s_was_damaged = true;
  return true;
}

void end_late_scan(dberr_t err) {
  if (err != DB_SUCCESS) {
    ib::fatal(UT_LOCATION_HERE, ER_IB_MSG_383)
        << "Tablespace map is damaged, and the directories cannot be scanned: "
        << ut_strerr(err);
  }
}

void forget(space_id_t space_id) {
  if (g_enabled) {
    const std::lock_guard guard(s_forgotten_mutex);
    s_forgotten.insert(space_id);
  }
}

void end_recovery() { s_can_find = false; }

namespace {

/** @return why the start needs the objects of all tablespaces, or nullptr */
const char *why_open_all() {
  if (!ibuf_is_empty()) {
    return "the change buffer is not empty";
  }

  bool has_ddl = false;

  trx_sys_mutex_enter();
  for (const auto trx : trx_sys->rw_trx_list) {
    has_ddl = has_ddl || trx->ddl_operation;
  }
  trx_sys_mutex_exit();

  if (!has_ddl) {
    DDL_Log_Table ddl_log;
    DDL_Records records;

    has_ddl = ddl_log.search_all(records) != DB_SUCCESS || !records.empty();
    for (auto record : records) {
      ut::delete_(record);
    }
  }
  return has_ddl ? "DDL was under way" : nullptr;
}

/** @return why the dictionary has to be read in full, or nullptr */
const char *why_read_all() {
  if (!s_is_complete) {
    return "files have changed";
  }
  if (!s_image->reader.summary().is_clean) {
    return "it was not known to agree with the files";
  }
  if (!srv_redo_log) {
    return "the redo log is disabled";
  }
  /* Whatever a server does to the dictionary, it makes the redo log longer; and
  it makes a new temporary file before that. */
  if (log_sys->recovered_lsn != s_image->reader.session().end_lsn &&
      !s_is_temp_file_same) {
    return "another server may have changed it";
  }
  if (!s_forgotten.empty()) {
    return "the redo log drops tablespaces";
  }
  return nullptr;
}

/** Collect the names of the tablespaces that the start needs.
@param[out]  names  IDs (numbers, for undo) and names
@return false if that cannot be found out */
bool needed_names(std::map<std::string, space_id_t> &names) {
  std::unordered_set<uint32_t> undo_nums;

  for (const auto &undo : s_image->reader.summary().undo) {
    names[undo.second] = undo.first;
    undo_nums.insert(undo.first);
  }

  bool is_good = true;

  undo::spaces->s_lock();
  for (const auto space : undo::spaces->m_spaces) {
    is_good = is_good && undo_nums.erase(space->num()) == 1;
  }
  undo::spaces->s_unlock();

  if (!is_good || !undo_nums.empty()) {
    return false;
  }

  const auto add = [&](space_id_t space_id) {
    Found found;

    if (s_image->reader.find(space_id, found)) {
      names[space_name(s_image->dir(found.dir), found.file)] = space_id;
    } else {
      is_good = false;
    }
  };

  for (const auto space_id : s_image->reader.summary().opened_at_start) {
    add(space_id);
  }

  /* What recovery has opened. */
  const dberr_t err = Fil_iterator::for_each_file([&](fil_node_t *node) {
    const auto id = node->space->id;

    if (fsp_is_ibd_tablespace(id)) {
      add(id);
    }
    return DB_SUCCESS;
  });

  return is_good && err == DB_SUCCESS;
}

}  // namespace

bool fetch_tablespaces(dd::cache::Dictionary_client *client,
                       std::vector<const dd::Tablespace *> *tablespaces) {
  if (s_image == nullptr || !s_can_find) {
    return false;
  }

  const char *reason = why_open_all();
  s_may_wait = reason == nullptr;
  if (s_may_wait) {
    reason = why_read_all();
  }

  std::map<std::string, space_id_t> names;
  std::vector<const dd::Tablespace *> found;

  if (reason == nullptr && !needed_names(names)) {
    reason = "tablespaces are not those of the map";
  }

  for (auto it = names.begin(); reason == nullptr && it != names.end(); ++it) {
    const dd::Tablespace *space = nullptr;
    space_id_t space_id;

    if (client->acquire(dd::String_type(it->first.c_str()), &space) ||
        space == nullptr ||
        space->se_private_data().get(dd_space_key_strings[DD_SPACE_ID],
                                     &space_id) ||
        (fsp_is_undo_tablespace(space_id) ? undo::id2num(space_id)
                                          : space_id) != it->second) {
      reason = "a tablespace has another name";
    }
    found.push_back(space);
  }

  if (reason == nullptr) {
    for (const auto &name : names) {
      (void)fil_space_id_was_scanned(name.second);
    }
  } else {
    /* The threads of the validation look all files up. */
    const auto image = s_image;

    if (!image->reader.read_ids([](space_id_t space_id) {
          (void)fil_space_id_was_scanned(space_id);
        })) {
      (void)fil_space_id_was_scanned(SPACE_UNKNOWN);
    }
  }
  if (s_image == nullptr) {
    /* It was damaged, and all directories were scanned. */
    return false;
  }
  s_can_find = false;

  if (reason != nullptr) {
    ib::info(ER_IB_MSG_383)
        << "Tablespace map: the dictionary is read in full: " << reason;
    return false;
  }

  fil_set_max_space_id_if_bigger(s_image->reader.summary().max_space_id);

  tablespaces->insert(tablespaces->end(), found.begin(), found.end());
  s_is_unchanged = true;
  ib::info(ER_IB_MSG_383) << "Tablespace map: " << found.size()
                          << " tablespaces are read from the dictionary, the"
                          << " others when they are used";
  return true;
}

namespace {

/** @return the path of a file, as the server writes it
@param[in]  dir   directory
@param[in]  file  file in it */
std::string file_path(const Directory &dir, const File &file) {
  return s_roots[dir.root].first + join(dir.path, file.name);
}

/** @return the current map, or nullptr */
Image_ptr current_image() {
  const std::lock_guard guard(s_mutex);
  return s_image;
}

/** What the current map says of a tablespace. */
struct Known {
  /** Path of its file. */
  std::string path;
  /** Name of the tablespace. */
  std::string name;
  /** Identity of the file. */
  File_identity identity;
};

/** Find a tablespace in the current map.
@param[in]  space_id  tablespace ID
@return nothing if it is not there, or was dropped */
std::optional<Known> find_known(space_id_t space_id) {
  if (is_forgotten(space_id)) {
    return std::nullopt;
  }

  const auto image = current_image();
  Found found;

  if (image == nullptr || !image->reader.find(space_id, found)) {
    return std::nullopt;
  }
  const auto &dir = image->dir(found.dir);

  return Known{file_path(dir, found.file), space_name(dir, found.file),
               found.file.identity};
}

/** @return true if the header of a file was not read at start-up
@param[in]  dir  number of its directory in the map of the start-up
@param[in]  no   its number there */
bool is_unread(uint32_t dir, uint32_t no) {
  return s_is_skipped[dir] || s_is_same[no];
}

}  // namespace

bool is_lazy() { return s_is_unchanged || !s_waiting.empty(); }

bool is_unread(space_id_t space_id, const std::string &path) {
  if (s_image == nullptr || s_is_skipped.empty()) {
    return false;
  }
  Found found;

  if (!s_image->reader.find(space_id, found)) {
    return s_image->reader.is_damaged();
  }
  return is_unread(found.dir, found.no) &&
         file_path(s_image->dir(found.dir), found.file) == path;
}

bool can_wait(space_id_t space_id, uint32_t flags, const char *space_name,
              const std::string &path) {
  if (!s_may_wait || !is_unread(space_id, path) ||
      fsp_is_shared_tablespace(flags) || FSP_FLAGS_GET_ENCRYPTION(flags)) {
    return false;
  }

  const auto known = find_known(space_id);

  if (!known || known->name != space_name) {
    return false;
  }
  const std::lock_guard guard(s_forgotten_mutex);
  s_waiting.insert(space_id);
  return true;
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

void note_validation(bool is_clean) {
  s_is_clean = is_clean;

  if (!s_waiting.empty()) {
    ib::info(ER_IB_MSG_383) << "Tablespace map: " << s_waiting.size()
                            << " tablespaces are opened when they are used";
  }
}

namespace {

/** Read ID and flags of a tablespace file.
@param[in]   path      file name
@param[out]  space_id  the ID
@param[out]  flags     the flags
@param[out]  identity  of the file that was read; as it was if there is none
@return false if the header is not plain */
bool read_header(const std::string &path, space_id_t &space_id, uint32_t &flags,
                 File_identity &identity) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);

  if (fd < 0) {
    return false;
  }
  const auto guard = create_scope_guard([fd]() { close(fd); });

#ifdef POSIX_FADV_RANDOM
  (void)posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
#endif /* POSIX_FADV_RANDOM */

  byte buf[64];
  static_assert(FSP_HEADER_OFFSET + FSP_SPACE_FLAGS + 4 <= sizeof buf);

  if (!file_identity(fd, "", identity) ||
      ::pread(fd, buf, sizeof buf, 0) != ssize_t{sizeof buf}) {
    return false;
  }
  space_id = mach_read_from_4(buf + FIL_PAGE_SPACE_ID);
  flags = mach_read_from_4(buf + FSP_HEADER_OFFSET + FSP_SPACE_FLAGS);

  return space_id != 0 && space_id != SPACE_UNKNOWN &&
         space_id == mach_read_from_4(buf + FSP_HEADER_OFFSET + FSP_SPACE_ID);
}

/** What the header of a file says. */
struct File_header {
  /** Tablespace ID. */
  space_id_t space_id{SPACE_UNKNOWN};
  /** FSP flags. */
  uint32_t flags{0};
  /** Identity of the file that was read. */
  File_identity identity{0, 0};
};

/** Read the header of a file of the map, as the scan would have done.
@param[in]   known     the file
@param[in]   space_id  its tablespace ID in the map
@param[out]  header    what was read; as it was if there is no file
@return true if it has this ID */
bool has_known_id(const Known &known, space_id_t space_id,
                  File_header &header) {
  return read_header(known.path, header.space_id, header.flags,
                     header.identity) &&
         header.space_id == space_id && fsp_flags_is_valid(header.flags);
}

/** Read a header and compare it with the map.
@param[in]  space_id  tablespace ID */
void verify(space_id_t space_id) {
  const auto seq = s_ddl_seq.load();
  const auto known = find_known(space_id);

  if (!known) {
    return;
  }

  File_header header;
  const bool is_good = has_known_id(*known, space_id, header);

  ++g_status.files_verified;

  /* After DDL that is not in the map yet, there may be no file of that name, or
  another one; during DDL it may have any ID. Such a file is left to those who
  open it. */
  const bool is_ddl =
      s_ddl_seq != seq || is_forgotten(space_id) ||
      (s_written_seq != seq && !known->identity.is_same(header.identity));

  if (!is_good && !is_ddl) {
    ++g_status.files_differing;
    ib::warn(ER_IB_MSG_383)
        << "Tablespace map: file '" << known->path
        << "' was taken for tablespace " << space_id << ", name '"
        << known->name << "', and was changed in place: "
        << (header.space_id == SPACE_UNKNOWN
                ? std::string("it has no plain header")
                : "its header has the ID " + std::to_string(header.space_id));
  }
}

/** Read the headers that were not read at start-up. */
void verify_all() {
  /** How often the rate is looked at. */
  constexpr auto TICK = std::chrono::milliseconds(100);
  double budget = 0;

  /* Waits until a header may be read; returns false at shutdown. */
  const auto wait = [&budget, TICK]() {
    while (budget < 1) {
      std::unique_lock lock(s_mutex);
      if (s_wakeup.wait_for(lock, TICK, []() { return s_stop.load(); })) {
        return false;
      }
      budget = g_verify_rate == 0 ? 0 : budget + g_verify_rate / 10.0;
    }
    --budget;
    return !s_stop;
  };

  const auto image = std::move(s_start_image);

  for (uint32_t d = 0; image != nullptr && d < s_is_skipped.size(); ++d) {
    if (!image->reader.read_files(d, [&](const File &file, uint32_t no) {
          if (is_unread(d, no)) {
            if (!wait()) {
              return false;
            }
            verify(file.space_id);
          }
          return true;
        })) {
      return;
    }
  }
  s_is_skipped = {};
  s_is_same = {};

  ib::info(ER_IB_MSG_383) << "Tablespace map: " << g_status.files_verified
                          << " headers were read after startup, "
                          << g_status.files_differing << " were different";
}

/** @return true if the object of a tablespace was not made at start-up
@param[in]  space_id  tablespace ID; if the map has no such file, true may be
                      returned as well */
bool is_late(space_id_t space_id) {
  if (!g_enabled || !fsp_is_ibd_tablespace(space_id)) {
    return false;
  }
  if (s_is_unchanged) {
    return true;
  }
  const std::lock_guard guard(s_forgotten_mutex);
  return s_waiting.count(space_id) != 0;
}

}  // namespace

bool is_valid_by_id(space_id_t space_id) {
  if (recv_needed_recovery || !is_late(space_id)) {
    return false;
  }
  const auto known = find_known(space_id);
  File_header header;

  return known && has_known_id(*known, space_id, header);
}

void open(space_id_t space_id) {
  /* A file that was not where the dictionary says is not opened here. */
  if (!is_late(space_id) ||
      fil_space_exists_in_mem(space_id, nullptr, false, false)) {
    return;
  }

  const auto known = find_known(space_id);

  if (!known) {
    return;
  }

  /* As clone does: no other thread opens tables meanwhile. */
  IB_mutex_guard sys_mutex(&dict_sys->mutex, UT_LOCATION_HERE);

  File_header header;

  if (fil_space_exists_in_mem(space_id, nullptr, false, false) ||
      !has_known_id(*known, space_id, header)) {
    return;
  }
  /* As the validation at start-up, which looks closer after a crash. */
  (void)fil_ibd_open(recv_needed_recovery, FIL_TYPE_TABLESPACE, space_id,
                     header.flags, known->name.c_str(), known->path.c_str(),
                     false, false);
}

void open(const char *space_name) {
  if (!is_lazy()) {
    return;
  }

  const std::string_view name{space_name};
  const auto pos = name.find('/');
  const auto image = current_image();

  if (pos == std::string_view::npos || image == nullptr) {
    return;
  }

  const auto &reader = image->reader;
  const auto d = reader.summary().find_dir(0, name.substr(0, pos));
  Found found;

  if (d >= 0 &&
      reader.find_file(d, std::string(name.substr(pos + 1)) + dot_ext[IBD],
                       found)) {
    open(found.file.space_id);
  }
}

void note_ddl(space_id_t space_id, bool is_dropped) {
  /* Undo tablespaces are not looked up in the map. */
  if (!g_enabled || !fsp_is_ibd_tablespace(space_id)) {
    return;
  }
  if (is_dropped) {
    forget(space_id);
  }
  s_last_ddl_nsec = now_nsec();
  ++s_ddl_seq;
}

namespace {

/** @return what the map says of this server */
Session make_session() {
  Session session;

  if (!srv_redo_log) {
    return session;
  }
  if (s_is_shutdown) {
    session.end_lsn = log_get_lsn(*log_sys);
  } else {
    (void)file_identity(AT_FDCWD, srv_tmp_space.first_datafile()->filepath(),
                        session.temp_file);
  }
  return session;
}

/** Make a rename or removal of the map durable. */
void sync_data_directory() {
  const int fd =
      ::open(MySQL_datadir_path.path().c_str(), O_RDONLY | O_DIRECTORY);

  if (fd >= 0) {
    (void)fsync(fd);
    close(fd);
  }
}

/** A tablespace that the server has an object of. */
struct Space {
  space_id_t id;
  uint32_t flags;
  std::string name;
  bool is_seen;
};

/** Makes a new map. */
class Writer {
 public:
  ~Writer();

  /** Collect what is there, and write it to a temporary file.
  @return true if that is complete */
  bool make();

  /** Let the file take the place of the map.
  @return true if it did */
  bool put_in_place();

  /** @return true if the new map has a tablespace; after make()
  @param[in]  space_id  tablespace ID */
  bool has(space_id_t space_id) const;

  /** The new map, after make(). */
  Image_ptr m_image;

  /** True if a later map may know or trust more: a directory is too young, or a
  file is not known. */
  bool m_is_racy{false};

 private:
  void collect();
  void collect_spaces();
  void walk(uint32_t root, const std::string &path, uint32_t parent,
            uint32_t depth);
  bool carry_over(uint32_t old_no, const Directory &dir);
  void list(const std::string &phys, int64_t old_no, Directory &dir,
            std::vector<std::string> &children);
  void add(const Directory &dir, const File &file, const Space *space);
  Space *find_space(const Directory &dir, const std::string &name);
  std::string key(uint32_t root, const std::string &path) const {
    return std::to_string(root) + ':' + path;
  }

  Summary m_summary;
  Session m_session;
  /** The temporary file, until the image has it. */
  int m_fd{-1};
  /** True as long as there is a temporary file. */
  bool m_has_temp{false};
  Builder m_builder{[this](uint64_t offset, std::string_view bytes) {
    for (size_t n = 0; n < bytes.size();) {
      const auto done =
          ::pwrite(m_fd, bytes.data() + n, bytes.size() - n, offset + n);
      if (done <= 0) {
        return false;
      }
      n += done;
    }
    return true;
  }};

  /** What was dropped, as known when collect() began; what is dropped later
  counts as DDL, and this map is thrown away. */
  std::unordered_set<space_id_t> m_forgotten;
  std::unordered_map<std::string, Space> m_spaces;
  std::unordered_set<space_id_t> m_open_ids;
};

/** Deeper nesting is not looked into: its tablespaces are then missing, which
makes the map one that is not clean. */
constexpr uint32_t MAX_DEPTH = 64;

void Writer::collect_spaces() {
  const dberr_t err = Fil_iterator::for_each_file([this](fil_node_t *node) {
    const auto space = node->space;

    if (fsp_is_undo_tablespace(space->id)) {
      m_summary.undo.emplace_back(undo::id2num(space->id), space->name);
    } else if (fsp_is_ibd_tablespace(space->id) && !space->is_deleted() &&
               space->purpose == FIL_TYPE_TABLESPACE) {
      uint32_t root;
      std::string_view rest;

      m_open_ids.insert(space->id);
      if (split_path(node->name, root, rest)) {
        m_spaces[key(root, std::string(rest))] = {space->id, space->flags,
                                                  space->name, false};
      } else {
        /* Not in a known directory; each start warns of that. */
        m_summary.is_clean = false;
      }
    }
    return DB_SUCCESS;
  });

  if (err != DB_SUCCESS) {
    m_summary.is_clean = false;
  }
}

Space *Writer::find_space(const Directory &dir, const std::string &name) {
  const auto it = m_spaces.find(key(dir.root, join(dir.path, name)));

  return it == m_spaces.end() ? nullptr : &it->second;
}

void Writer::add(const Directory &dir, const File &file, const Space *space) {
  File out = file;

  if (space != nullptr) {
    out.flags = space->flags;
    out.space_name =
        space->name == default_space_name(dir, file.name) ? "" : space->name;
  }
  if (fsp_is_shared_tablespace(out.flags) ||
      FSP_FLAGS_GET_ENCRYPTION(out.flags)) {
    m_summary.opened_at_start.push_back(out.space_id);
  }
  if (!dict_sys_t::is_reserved(out.space_id)) {
    m_summary.max_space_id = std::max(m_summary.max_space_id, out.space_id);
  }
  m_builder.add(out);
}

bool Writer::carry_over(uint32_t old_no, const Directory &dir) {
  const auto &reader = s_image->reader;

  if (!reader.read_files(old_no, [&](const File &file, uint32_t) {
        const auto space = find_space(dir, file.name);

        return m_forgotten.count(file.space_id) == 0 &&
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

void Writer::list(const std::string &phys, int64_t old_no, Directory &dir,
                  std::vector<std::string> &children) {
  DIR *stream = opendir(phys.c_str());

  if (stream == nullptr) {
    dir.is_trusted = false;
    return;
  }

  std::vector<std::string> names;
  {
    const auto guard = create_scope_guard([stream]() { closedir(stream); });

    while (const auto *entry = readdir(stream)) {
      names.emplace_back(entry->d_name);
    }
  }
  std::sort(names.begin(), names.end());

  for (const auto &name : names) {
    const std::string path = join(phys, name);

    if (name == "." || name == "..") {
      continue;
    }

    struct stat st;

    /* What a link points to may change unseen. The walk says that it skips
    hidden files, and renames old partitions. */
    if (lstat(path.c_str(), &st) != 0 || name[0] == '.' ||
        !(S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)) ||
        is_old_partition(name)) {
      dir.is_trusted = false;
    }
    if (name[0] == '.') {
      continue;
    }
    if (stat(path.c_str(), &st) == 0 && S_ISDIR(st.st_mode)) {
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
    if (st.st_dev != dir.identity.dev) {
      /* A file that is mounted here. */
      dir.is_trusted = false;
    }

    const auto space = find_space(dir, name);
    Found known;
    File file;

    if (old_no >= 0 && s_image->reader.find_file(old_no, name, known) &&
        m_forgotten.count(known.file.space_id) == 0 &&
        (space == nullptr || space->id == known.file.space_id) &&
        file_identity(AT_FDCWD, path, file.identity) &&
        known.file.identity.is_same(file.identity)) {
      file = std::move(known.file);
    } else if (space == nullptr ||
               !read_header(path, file.space_id, file.flags, file.identity) ||
               file.space_id != space->id) {
      /* Not a tablespace of this server, or not the file that it uses: for
      import, perhaps, which gives it another ID; or it is just being made. */
      dir.is_trusted = false;
      m_is_racy = true;
      continue;
    } else {
      file.name = name;
    }

    if (space != nullptr) {
      space->is_seen = true;
    }
    add(dir, file, space);
  }
}

void Writer::walk(uint32_t root, const std::string &path, uint32_t parent,
                  uint32_t depth) {
  const std::string phys = dir_path(root, path);
  const auto no = static_cast<uint32_t>(m_summary.dirs.size());
  Directory dir{root, path, {}, true, depth == 0 ? no : parent};
  std::vector<std::string> children;

  if (depth > MAX_DEPTH || !dir_identity(phys, dir.identity)) {
    return;
  }
  dir.first_file = m_builder.n_files();

  const auto old_no =
      s_image == nullptr ? -1 : s_image->reader.summary().find_dir(root, path);

  const bool is_too_young = is_racy(dir.identity, now_nsec());

  dir.is_trusted = !is_coarse(dir.identity);

  if (!is_too_young && old_no >= 0 && s_image->dir(old_no).is_trusted &&
      s_image->dir(old_no).identity == dir.identity &&
      carry_over(old_no, dir)) {
    for (const auto child : s_image->children[old_no]) {
      const auto &child_path = s_image->dir(child).path;
      const auto pos = child_path.rfind('/');
      children.push_back(pos == std::string::npos ? child_path
                                                  : child_path.substr(pos + 1));
    }
  } else {
    list(phys, old_no, dir, children);

    Dir_identity after;
    if (!dir_identity(phys, after) || after != dir.identity || is_too_young) {
      /* One that is not trusted for other reasons need not be looked at
      again. */
      m_is_racy = m_is_racy || dir.is_trusted;
      dir.is_trusted = false;
    }
  }

  dir.n_files = m_builder.n_files() - dir.first_file;
  m_summary.dirs.push_back(std::move(dir));

  for (const auto &child : children) {
    walk(root, join(path, child), no, depth + 1);
  }
}

bool Writer::has(space_id_t space_id) const {
  const auto &ids = m_builder.ids();
  const auto it = std::lower_bound(ids.begin(), ids.end(),
                                   std::pair(space_id, uint32_t{0}));

  return it != ids.end() && it->first == space_id;
}

void Writer::collect() {
  {
    const std::lock_guard guard(s_forgotten_mutex);
    m_forgotten = s_forgotten;
  }
  m_summary.config = make_config();
  m_summary.is_clean = s_is_clean;
  m_summary.temp_path = srv_tmp_space.first_datafile()->filepath();
  m_session = make_session();
  collect_spaces();

  for (uint32_t root = 0; root < s_roots.size(); ++root) {
    walk(root, "", 0, 0);
  }

  for (const auto &space : m_spaces) {
    if (!space.second.is_seen) {
      m_summary.is_clean = false;
    }
  }

  /* A file that was there and that nobody dropped. */
  m_builder.sort_ids();
  if (s_image != nullptr) {
    (void)s_image->reader.read_ids([this](space_id_t space_id) {
      if (!has(space_id) && m_forgotten.count(space_id) == 0) {
        m_summary.is_clean = false;
      }
    });
  }
  std::sort(m_summary.undo.begin(), m_summary.undo.end());
}

bool Writer::make() {
  const std::string temp = map_path(TEMP_NAME);

  m_fd = ::open(temp.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC,
                S_IRUSR | S_IWUSR | S_IRGRP);
  if (m_fd < 0) {
    return false;
  }
  m_has_temp = true;

  DBUG_EXECUTE_IF("tablespace_map_crash_before_write", DBUG_SUICIDE(););
  collect();

  if (!m_builder.finish(m_summary, m_session) ||
      (s_image != nullptr && s_image->reader.is_damaged())) {
    return false;
  }

  /* What cannot be read must not be written. */
  m_image = std::make_shared<Image>();
  const char *reason = m_image->open(m_fd);
  m_fd = -1;
  m_image->keep_few();
  return reason == nullptr && m_image->reader.check();
}

Writer::~Writer() {
  if (m_fd >= 0) {
    close(m_fd);
  }
  if (m_has_temp) {
    (void)unlink(map_path(TEMP_NAME).c_str());
  }
}

bool Writer::put_in_place() {
  /* The dictionary may be ahead of the redo log now. */
  if (!srv_redo_log &&
      (m_session.end_lsn != 0 || m_session.temp_file.ino != 0)) {
    return false;
  }

  DBUG_EXECUTE_IF("tablespace_map_crash_before_fsync", DBUG_SUICIDE(););
  if (!m_image->sync()) {
    return false;
  }

  DBUG_EXECUTE_IF("tablespace_map_crash_before_rename", DBUG_SUICIDE(););
  if (rename(map_path(TEMP_NAME).c_str(), map_path(MAP_NAME).c_str()) != 0) {
    return false;
  }
  m_has_temp = false;

  DBUG_EXECUTE_IF("tablespace_map_crash_before_dir_fsync", DBUG_SUICIDE(););
  sync_data_directory();
  return true;
}

/** Write the session into the header of the map, which is as it should be
otherwise. If that is torn, the next start has no map.
@return true if it was written */
bool write_session() {
  const int fd = ::open(map_path(MAP_NAME).c_str(), O_RDWR | O_CLOEXEC);

  if (fd < 0) {
    return false;
  }
  const auto guard = create_scope_guard([fd]() { close(fd); });

  std::string header(HEADER_BYTES, '\0');
  const auto n_bytes = static_cast<ssize_t>(HEADER_BYTES);

  return ::pread(fd, header.data(), HEADER_BYTES, 0) == n_bytes &&
         set_session(header, make_session()) &&
         ::pwrite(fd, header.data(), HEADER_BYTES, 0) == n_bytes &&
         fdatasync(fd) == 0;
}

/** Make and write a map, and use it from now on. Only the thread that writes
the map may call it, or the last thread at shutdown.
@return true if it was written */
bool write_map() {
  const auto seq = s_ddl_seq.load();
  Writer writer;

  if (!writer.make()) {
    return false;
  }
  s_is_racy = writer.m_is_racy;

  {
    const std::lock_guard guard(s_file_mutex);

    if (s_ddl_seq != seq || !writer.put_in_place()) {
      return false;
    }
  }
  {
    const std::lock_guard guard(s_forgotten_mutex);
    for (auto it = s_forgotten.begin(); it != s_forgotten.end();) {
      it = writer.has(*it) ? ++it : s_forgotten.erase(it);
    }
  }
  {
    const std::lock_guard guard(s_mutex);
    s_image.swap(writer.m_image);
  }
  s_written_seq = seq;
  return true;
}

/** If the map is damaged, remove it, so that the next start scans all.
@return true if it is */
bool give_up_if_damaged() {
  if (s_image == nullptr || !s_image->reader.is_damaged()) {
    return false;
  }
  if (!s_was_damaged) {
    s_was_damaged = true;
    const std::lock_guard guard(s_file_mutex);
    (void)unlink(map_path(MAP_NAME).c_str());
    sync_data_directory();
    ib::warn(ER_IB_MSG_383) << "Tablespace map is damaged and was removed;"
                            << " the next start reads all files";
  }
  return true;
}

/** The map is written when there was no DDL for this time, */
constexpr int64_t QUIET_NSEC = 1'000'000'000;
/** or when it has waited for that for this time. */
constexpr int64_t MAX_WAIT_NSEC = 10'000'000'000;
/** When a directory was too young to be trusted, the map is written again after
this time, */
constexpr int64_t OLDER_NSEC = RACY_NSEC + QUIET_NSEC;
/** at most this many times. */
constexpr int MAX_RACY_WRITES = 3;
/** It is left alone for this many times of what it took to write it, */
constexpr int64_t BACKOFF = 50;
/** and for this time after it could not be written. */
constexpr int64_t FAILED_NSEC = 180'000'000'000;
/** How often to look. */
constexpr int64_t POLL_NSEC = 500'000'000;

/** Write the map when it is time to. Times are of the monotonic clock, except
that of the last DDL. */
void run() {
  int64_t rest_until = 0;
  int64_t dirty_since = 0;
  int64_t last_write = 0;
  int n_racy = 0;
  bool has_warned = false;

  const auto monotonic_nsec = []() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  };

  if (s_is_file_right && !write_session()) {
    s_written_seq = 0;
  }

  for (;;) {
    {
      std::unique_lock lock(s_mutex);
      if (s_wakeup.wait_for(lock, std::chrono::nanoseconds(POLL_NSEC),
                            []() { return s_stop.load(); })) {
        return;
      }
    }

    if (give_up_if_damaged()) {
      return;
    }

    const bool is_dirty = s_written_seq != s_ddl_seq;
    const auto now = monotonic_nsec();

    if (!is_dirty) {
      dirty_since = 0;
    } else if (dirty_since == 0) {
      dirty_since = now;
    }

    const bool is_quiet =
        std::abs(now_nsec() - s_last_ddl_nsec) >= QUIET_NSEC ||
        now - dirty_since >= MAX_WAIT_NSEC;
    const bool is_older = n_racy > 0 && n_racy <= MAX_RACY_WRITES &&
                          now - last_write >= OLDER_NSEC;

    if (now < rest_until || !(is_dirty ? is_quiet : is_older)) {
      continue;
    }

    const auto seq = s_ddl_seq.load();
    const bool is_written = write_map();

    last_write = monotonic_nsec();
    rest_until = last_write + BACKOFF * (last_write - now);

    if (is_written) {
      n_racy = s_is_racy ? (is_dirty ? 1 : n_racy + 1) : 0;
    } else if (seq == s_ddl_seq && !give_up_if_damaged()) {
      if (!has_warned) {
        ib::warn(ER_IB_MSG_383) << "Tablespace map cannot be written to '"
                                << map_path(TEMP_NAME) << "'";
        has_warned = true;
      }
      rest_until = last_write + FAILED_NSEC;
    }
  }
}

}  // namespace

void start() {
  end_recovery();

  if (!g_enabled || srv_read_only_mode || srv_force_recovery > 0) {
    return;
  }
  if (s_image != nullptr) {
    s_image->keep_few();
    s_start_image = s_image;
  }
  if (s_is_unchanged && s_is_clean &&
      s_image->reader.summary().temp_path ==
          srv_tmp_space.first_datafile()->filepath()) {
    s_is_file_right = true;
    if (s_n_listed_again == 0) {
      s_written_seq = s_ddl_seq.load();
    }
  }

  s_is_started = true;
  s_thread = os_thread_create(PFS_NOT_INSTRUMENTED, 0, run);
  s_thread.start();
  s_verify_thread = os_thread_create(PFS_NOT_INSTRUMENTED, 1, verify_all);
  s_verify_thread.start();
}

void before_import() {
  if (!s_is_started) {
    return;
  }
  ++s_ddl_seq;

  const std::lock_guard guard(s_file_mutex);
  (void)unlink(map_path(MAP_NAME).c_str());
  sync_data_directory();
}

void shutdown() {
  if (!s_is_started) {
    return;
  }
  s_is_started = false;
  s_is_shutdown = true;
  {
    const std::lock_guard guard(s_mutex);
    s_stop = true;
  }
  s_wakeup.notify_all();
  s_thread.join();
  s_verify_thread.join();

  if (!give_up_if_damaged() &&
      !(s_written_seq == s_ddl_seq && !s_is_racy && write_session()) &&
      !write_map() && !give_up_if_damaged()) {
    ib::warn(ER_IB_MSG_383) << "Tablespace map was not written";
  }
}

}  // namespace tablespace_map
