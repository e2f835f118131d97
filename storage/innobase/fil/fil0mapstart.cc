/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file fil/fil0mapstart.cc
What the start takes from the map. */

#include "fil0mapparts.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "btr0pcur.h"
#include "dict0dd.h"
#include "dict0dict.h"
#include "fil0fil.h"
#include "fil0map.h"
#include "fil0mapmsg.h"
#include "fsp0fsp.h"
#include "ibuf0ibuf.h"
#include "log0log.h"
#include "log0recv.h"
#include "mach0data.h"
#include "scope_guard.h"
#include "sql/dd/cache/dictionary_client.h"
#include "sql/dd/properties.h"
#include "sql/dd/types/tablespace.h"
#include "srv0srv.h"
#include "trx0purge.h"
#include "trx0sys.h"
#include "trx0trx.h"

namespace tablespace_map {

namespace {

constexpr char FOREIGN[] = "another server may have run since it was written";

/** Asked by the parallel walk. */
bool skip(const std::string &path, std::vector<tablespace_scan::Dir> &dirs,
          const tablespace_scan::Push_file &push_file) {
  return parts().start.skip_directory(
      path, true,
      [&dirs](tablespace_scan::Dir &&dir) { dirs.push_back(std::move(dir)); },
      push_file);
}

/** Asked by the rings. */
bool is_recognised(const std::string &path) {
  Found found;
  return parts().start.recognise(path, found);
}

/** What known_space_id() did not know; checked() is told next, by the
same thread, what it is. Empty if it knew it. */
thread_local std::string t_unknown_file;

/** @return the same, but the number of an undo tablespace, whose ID changes
@param[in]  space  tablespace, or nullptr */
space_id_t id_of(const dd::Tablespace *space) {
  const auto space_id = space_id_of(space);

  return fsp_is_undo_tablespace(space_id) ? undo::id2num(space_id) : space_id;
}

/** A look-up of a tablespace in the dictionary costs as much as reading so many
of them one after the other. */
constexpr size_t LOOK_UP_COST = 8;

/** More differences than this are not looked up one by one in any case. */
constexpr size_t MAX_DIFFERENCES = 10000;

/** @return true if a transaction that recovery has found does DDL */
bool is_ddl_recovered() {
  bool has_ddl = false;

  trx_sys_mutex_enter();
  for (const auto trx : trx_sys->rw_trx_list) {
    has_ddl = has_ddl || trx->ddl_operation;
  }
  trx_sys_mutex_exit();
  return has_ddl;
}

/** @return true if a file is certainly the tablespace of one table
@param[in]  path      its path
@param[in]  space_id  tablespace ID */
bool is_single(const std::string &path, space_id_t space_id) {
  const auto header = read_header(path);

  return header.is_of(space_id) && !fsp_is_shared_tablespace(header.flags);
}

/** Do something with each file of a table or a general tablespace that recovery
has opened.
@param[in]  use  called with each file
@return false if that failed */
template <typename Use>
bool for_each_opened(Use &&use) {
  return Fil_iterator::for_each_file([&](fil_node_t *file) {
           if (fsp_is_ibd_tablespace(file->space->id)) {
             use(*file);
           }
           return DB_SUCCESS;
         }) == DB_SUCCESS;
}

/** Look a tablespace up in the dictionary.
@param[in]   client  dictionary client
@param[in]   name    its name
@param[out]  space   what is found, or nullptr
@return false if that failed */
bool look_up(dd::cache::Dictionary_client *client, const std::string &name,
             const dd::Tablespace *&space) {
  space = nullptr;
  return !client->acquire(dd::String_type(name.c_str()), &space);
}

/** @return true if a tablespace has an object with another name than in the
dictionary: recovery names it after its file
@param[in]  space  tablespace in the dictionary */
bool has_other_name(const dd::Tablespace *space) {
  const auto id = space_id_of(space);

  if (!fsp_is_ibd_tablespace(id)) {
    return false;
  }
  const auto object = fil_space_get(id);
  return object != nullptr && space->name() != object->name;
}

}  // namespace

space_id_t space_id_of(const dd::Tablespace *space) {
  space_id_t space_id;

  return space == nullptr || space->se_private_data().get(
                                 dd_space_key_strings[DD_SPACE_ID], &space_id)
             ? SPACE_UNKNOWN
             : space_id;
}

bool Start::recognise(const std::string &path, Found &found) const {
  uint32_t root;
  std::string_view rest;

  if (!m_roots.split(path, false, root, rest)) {
    return false;
  }

  const auto pos = rest.rfind('/');
  const auto dir_rest =
      pos == std::string::npos ? std::string_view{} : rest.substr(0, pos);
  const auto name = pos == std::string::npos ? rest : rest.substr(pos + 1);
  const auto &reader = map()->reader;
  const auto d = reader.summary().find_dir(root, dir_rest);
  File_identity id;

  return d >= 0 && reader.find_file(d, name, found) &&
         file_identity(AT_FDCWD, path, id) && found.file.identity.is_same(id);
}

void Start::begin(const scan_observer::Roots &roots) {
  m_roots.set(roots);
  m_is_scanning = m_can_find = false;
  m_is_temp_file_same = false;
  m_n_matched = m_n_unknown = m_n_trusted = 0;
  m_n_listed = m_n_listed_again = 0;
  m_listed_dir.clear();
  m_unread.begin(0, 0);
  m_replayed = {};
  m_n_journal_files = 0;
  m_current.set(nullptr);
  m_read_ids.begin();
  tablespace_scan::g_skip = nullptr;
  tablespace_scan::g_is_known = nullptr;

  if (!g_enabled) {
    return;
  }
  const char *reason;

  if (m_current.rejected() != nullptr) {
    /* The scan is repeated without the map. */
    g_status.files_trusted = g_status.directories_changed = 0;
    g_status.state = "REJECTED";
    reason = m_current.rejected();
  } else if (srv_force_recovery > 0) {
    g_status.state = "NOT USED";
    reason = "innodb_force_recovery is set";
  } else if (reason = m_current.read(); reason != nullptr) {
    g_status.state = "NONE";
  } else {
    const auto &reader = map()->reader;

    m_is_temp_file_same = m_current.is_of_last_run();

    g_status.state = "USED";
    if (const auto bytes =
            read_plain_file(map_path(JOURNAL_NAME), MAX_JOURNAL_BYTES);
        !bytes.empty()) {
      m_replayed = replay_journal(bytes, reader.id(), boot_id());
    }
    m_unread.begin(reader.summary().dirs.size(), reader.n_files());
    m_is_scanning = m_can_find = true;
    m_current.dropped().limit(SPACE_UNKNOWN);
    tablespace_scan::g_skip = skip;
    tablespace_scan::g_is_known = is_recognised;
    return;
  }

  ib::info(MSG_NOT_USED) << "Tablespace map not used: " << reason;
}

bool Start::take_from_journal(const Dir_key &key, const Watched_dir &dir,
                              int64_t d, const std::string &path,
                              const tablespace_scan::Push_file &push_file) {
  Dir_identity id;

  if (!dir.is_settled() ||
      !(dir.is_whole || (d >= 0 && map()->dir(d).is_trusted)) ||
      !dir_identity(path, id) || id != dir.identity ||
      map()->trusted_devs.count(id.dev) == 0) {
    return false;
  }

  const bool is_in_map = d >= 0 && !dir.is_whole;
  std::vector<std::pair<std::string, uint64_t>> there;
  std::vector<uint32_t> changed;

  for (const auto &[name, is_there] : dir.files) {
    struct stat st;
    Found found;
    const bool exists = lstat(join(path, name).c_str(), &st) == 0;

    if (exists != is_there || (exists && !S_ISREG(st.st_mode))) {
      return false;
    }
    if (exists) {
      there.emplace_back(name, st.st_ino);
    }
    if (is_in_map && map()->reader.find_file(d, name, found)) {
      changed.push_back(found.no);
    }
  }
  if (map()->reader.is_damaged()) {
    return false;
  }

  if (is_in_map) {
    m_unread.skip(d);
    m_n_trusted += map()->dir(d).n_files - changed.size();
  }
  m_unread.add_journalled(key, changed);
  for (const auto &[name, inode] : there) {
    push_file(name, inode);
  }
  m_n_journal_files += there.size();
  return true;
}

void Start::note_listed_again(const std::string &path) {
  const std::lock_guard guard(m_listed_dir_mutex);

  ++m_n_listed_again;
  if (m_listed_dir.empty()) {
    m_listed_dir = path;
  }
}

bool Start::skip_directory(
    const std::string &path, bool is_recursive,
    const std::function<void(tablespace_scan::Dir &&)> &push_dir,
    const tablespace_scan::Push_file &push_file) {
  uint32_t root;
  std::string_view rest;

  if (!m_is_scanning || !is_recursive ||
      !m_roots.split(path, true, root, rest)) {
    return false;
  }

  const auto d = map()->reader.summary().find_dir(root, rest);
  const auto watched = m_replayed.find(root, rest);
  Dir_identity id;

  if (watched != nullptr) {
    if (!push_file || !take_from_journal({root, std::string(rest)}, *watched, d,
                                         path, push_file)) {
      ++m_n_listed;
      if (!rest.empty()) {
        note_listed_again(path);
      }
      return false;
    }
    if (watched->is_whole) {
      return true;
    }
  } else if (d < 0 || !map()->dir(d).is_trusted || map()->dir(d).is_partial ||
             !dir_identity(path, id) || id != map()->dir(d).identity) {
    ++m_n_listed;
    if (d >= 0 && !rest.empty() && map()->dir(d).n_files > 0) {
      note_listed_again(path);
    }
    return false;
  } else {
    m_unread.skip(d);
    m_n_trusted += map()->dir(d).n_files;
  }

  for (const auto child : map()->children[d]) {
    const auto &dir = map()->dir(child);
    push_dir({dir.identity.ino, m_roots.dir_path(root, dir.path)});
  }
  return true;
}

std::optional<space_id_t> Start::known_space_id(const std::string &path) {
  t_unknown_file.clear();

  if (!g_enabled || Fil_path::is_undo_tablespace_name(path)) {
    return std::nullopt;
  }

  Found found;

  if (m_is_scanning && recognise(path, found)) {
    m_unread.recognise(found.no);
    ++m_n_matched;
    return found.file.space_id;
  }

  t_unknown_file = path;
  return std::nullopt;
}

void Start::checked(space_id_t space_id) {
  if (!t_unknown_file.empty()) {
    uint32_t root;
    std::string_view rest;
    struct stat st;

    ++m_n_unknown;
    if (space_id != 0 && space_id != SPACE_UNKNOWN &&
        m_roots.split(t_unknown_file, false, root, rest)) {
      m_read_ids.add(key(root, std::string(rest)), space_id);
    }
    /* The other name may be in a directory that is not listed. IMPORT by a
    server without the map would have changed the ID under both. */
    if (m_is_scanning && lstat(t_unknown_file.c_str(), &st) == 0 &&
        S_ISREG(st.st_mode) && st.st_nlink > 1) {
      m_current.distrust("a file that it does not know has more than one name");
    }
    t_unknown_file.clear();
  }

  Found found;

  if (m_is_scanning && map()->reader.find(space_id, found) &&
      m_unread.is_skipped(found.dir, found.no)) {
    m_current.distrust("a file has the ID of a file that was not read");
  }
}

bool Start::end(bool has_duplicates) {
  if (!m_is_scanning) {
    return false;
  }
  m_is_scanning = false;
  tablespace_scan::g_skip = nullptr;
  tablespace_scan::g_is_known = nullptr;

  if (m_current.rejected() == nullptr && map()->reader.is_damaged()) {
    m_current.distrust(DAMAGED);
  }
  if (m_current.rejected() == nullptr && has_duplicates) {
    /* The start will be refused: the list of them has to be complete. */
    m_current.distrust("a tablespace has more than one file");
  }

  const size_t n_known = m_n_trusted + m_n_matched;

  ib::info(MSG_SCANNED) << "Tablespace map: " << n_known << " of "
                        << map()->reader.n_files()
                        << " files are as they were; " << m_n_listed
                        << " directories were listed and " << m_n_unknown
                        << " headers read"
                        << (m_listed_dir.empty()
                                ? ""
                                : "; one that had changed is '" + m_listed_dir +
                                      "'");

  if (m_current.rejected() != nullptr) {
    if (n_known > 0) {
      return true;
    }
    /* All was read anyway. */
    m_can_find = false;
    m_current.set(nullptr);
    g_status.state = "REJECTED";
    ib::info(MSG_NOT_USED) << "Tablespace map not used: "
                           << m_current.rejected();
    return false;
  }

  g_status.files_trusted = n_known;
  g_status.directories_changed = m_n_listed;
  if (!m_unread.journalled_dirs().empty()) {
    ib::info(MSG_JOURNAL) << "Tablespace map: its journal has the changes of "
                          << m_unread.journalled_dirs().size()
                          << " directories, with " << m_n_journal_files
                          << " files";
  }
  return false;
}

bool Start::scan_in_recovery() {
  const dberr_t err = fil_scan_again();
  /* As long as nothing has failed they are looked up. */
  bool is_any_found = false;

  for (const auto missing_id : recv_sys->missing_ids) {
    if (!fil_scanned_path(missing_id).empty()) {
      ib::error(MSG_WRONG) << "Tablespace map was wrong about tablespace "
                           << missing_id
                           << " and was removed; start the server again";
      is_any_found = true;
    }
  }
  m_has_failed = m_has_failed || is_any_found || err != DB_SUCCESS;
  recv_sys->found_corrupt_fs = recv_sys->found_corrupt_fs || m_has_failed;
  return !m_has_failed;
}

bool Start::find_unlisted(space_id_t space_id, size_t &root,
                          std::string &path) {
  if (!m_can_find || m_current.is_dropped(space_id)) {
    return false;
  }
  Found found;

  if (!map()->reader.find(space_id, found) ||
      !m_unread.is_skipped(found.dir, found.no)) {
    return false;
  }
  const auto &dir = map()->dir(found.dir);

  root = dir.root;
  path = join(dir.path, found.file.name);
  return true;
}

bool Start::can_look_up(space_id_t space_id) {
  Found found;

  if (!m_can_find) {
    return !m_has_failed;
  }
  if (m_current.rejected() == nullptr && recv_recovery_is_on() &&
      fsp_is_ibd_tablespace(space_id)) {
    if (!m_is_temp_file_same) {
      /* It, or its IMPORT, has written the redo log. */
      (void)m_current.reject(FOREIGN);
    } else if (m_compared.insert(space_id).second &&
               !m_current.is_dropped(space_id) &&
               map()->reader.find(space_id, found) &&
               m_unread.has(found.dir, found.no) &&
               /* It is opened then, which reads so much. */
               read_header(m_roots.file_path(
                               place_of(map()->dir(found.dir), found.file)),
                           2 * srv_page_size)
                   .is_not_of(space_id)) {
      (void)m_current.reject("a file has another tablespace ID than it says");
    }
  }
  return m_current.rejected() == nullptr || scan_in_recovery();
}

bool Start::must_scan() {
  if (!m_can_find || m_current.rejected() != nullptr ||
      !map()->reader.is_damaged()) {
    return false;
  }
  (void)m_current.reject(DAMAGED);
  return true;
}

bool Start::search_missing() {
  const auto &ids = recv_sys->missing_ids;

  if (m_can_find && m_current.rejected() == nullptr &&
      std::any_of(ids.begin(), ids.end(), [](space_id_t space_id) {
        return fsp_is_ibd_tablespace(space_id) &&
               fil_scanned_path(space_id).empty();
      })) {
    (void)m_current.reject("recovery misses a tablespace");
    (void)scan_in_recovery();
  }
  return recv_sys->found_corrupt_fs;
}

void Start::forget_dropped(
    const std::vector<const dd::Tablespace *> &tablespaces) {
  std::unordered_set<space_id_t> known;

  for (const auto *space : tablespaces) {
    space_id_t space_id;

    /* The number of an undo tablespace is no ID. */
    if (!space->se_private_data().get(dd_space_key_strings[DD_SPACE_ID],
                                      &space_id)) {
      known.insert(space_id);
    }
  }
  (void)map()->reader.read_ids([&](space_id_t space_id) {
    if (known.count(space_id) == 0 && fil_scanned_path(space_id).empty()) {
      m_current.dropped().end(space_id);
    }
  });
}

dberr_t Start::recheck(const std::vector<const dd::Tablespace *> &tablespaces) {
  if (recv_sys->found_corrupt_fs) {
    /* A scan has failed since recovery ended. */
    return DB_ERROR;
  }
  if (map() == nullptr) {
    return DB_SUCCESS;
  }
  if (!m_is_ours) {
    (void)m_current.reject(FOREIGN);
    return fil_scan_again();
  }
  if (!m_deferred.is_validating()) {
    return DB_SUCCESS;
  }
  /* The last directories that were compared. */
  std::pair<std::string, std::string> last;
  Place_finder finder{m_roots};

  const auto is_lost = [&](const dd::Tablespace &space) {
    const auto &p = space.se_private_data();
    space_id_t space_id;

    if (space.engine() != innobase_hton_name ||
        p.get(dd_space_key_strings[DD_SPACE_ID], &space_id) ||
        !fsp_is_ibd_tablespace(space_id) || space.files().size() != 1 ||
        dd_tablespace_get_state_enum(&p, space_id) ==
            DD_SPACE_STATE_DISCARDED) {
      return false;
    }

    std::string in_dict{(*space.files().begin())->filename().c_str()};
    Fil_path::normalize(in_dict);
    const auto scanned = fil_scanned_path(space_id);

    /* Of a file in none of the scanned directories the map says nothing. */
    if (scanned == in_dict || (scanned.empty() && !finder.find(in_dict))) {
      return false;
    }

    const auto dir_of = [](const std::string &path) {
      const auto dir = path.substr(0, path.rfind('/') + 1);
      return dir.empty() ? std::string{"./"} : dir;
    };
    auto dirs = std::pair(dir_of(in_dict), dir_of(scanned));

    if (scanned.empty() ||
        (dirs != last && Fil_path::get_real_path(dirs.first) !=
                             Fil_path::get_real_path(dirs.second))) {
      return true;
    }
    last = std::move(dirs);
    return false;
  };

  if (std::none_of(tablespaces.begin(), tablespaces.end(),
                   [&](const auto *space) { return is_lost(*space); })) {
    forget_dropped(tablespaces);
    return DB_SUCCESS;
  }
  m_current.distrust("a file is not where the dictionary says");
  return fil_scan_again();
}

/** What the DDL log says of DDL that was under way. */
struct Start::Ddl_log {
  /** Tablespaces that it names. There may be more than those of DDL that was
  under way: a transaction marks its records as deleted, and what it has marked
  counts again when it is rolled back. */
  std::unordered_set<space_id_t> ids;
  /** True if it has records that are not marked: it will be replayed. */
  bool is_pending{false};

  /** Read the DDL log. */
  Ddl_log();
};

Start::Ddl_log::Ddl_log() {
  const auto table = dict_sys->ddl_log;
  const auto index = table->first_index();
  size_t col = 0;

  while (strcmp(table->get_col_name(col), "space_id") != 0) {
    ++col;
    ut_a(col < table->get_n_user_cols());
  }
  const auto field = index->get_col_pos(col);

  mem_heap_t *heap = nullptr;
  ulint *offsets = nullptr;
  mtr_t mtr;
  btr_pcur_t pcur;

  mtr_start(&mtr);
  for (pcur.open_at_side(true, index, BTR_SEARCH_LEAF, true, 0, &mtr);
       pcur.move_to_next_user_rec(&mtr) == DB_SUCCESS;) {
    const auto rec = pcur.get_rec();
    ulint n_bytes;

    offsets = rec_get_offsets(rec, index, offsets, ULINT_UNDEFINED,
                              UT_LOCATION_HERE, &heap);
    is_pending =
        is_pending || !rec_get_deleted_flag(rec, dict_table_is_comp(table));

    const auto data = rec_get_nth_field(index, rec, offsets, field, &n_bytes);
    if (n_bytes == 4) {
      ids.insert(mach_read_from_4(data));
    }
  }
  pcur.close();
  mtr_commit(&mtr);

  if (heap != nullptr) {
    mem_heap_free(heap);
  }
}

bool Start::is_ours(dd::cache::Dictionary_client *client) const {
  if (log_sys->recovered_lsn == map()->reader.session().end_lsn) {
    return true;
  }
  const dd::Tablespace *space;

  return m_is_temp_file_same &&
         look_up(client, dict_sys_t::s_temp_space_name, space) &&
         space != nullptr && space->files().size() == 1 &&
         (*space->files().begin())->filename().c_str() ==
             map()->reader.summary().temp_path;
}

/** How the files differ from those of the map. */
struct Start::Difference {
  /** Names of the tablespaces whose files the map does not have, as they follow
  from the paths of the files. */
  std::map<std::string, space_id_t> added;
  /** Paths of these files, by tablespace ID. */
  std::map<space_id_t, std::string> added_paths;
  /** Tablespaces whose files are not where the map has them, and their names.
   */
  std::map<space_id_t, std::string> gone;
};

bool Start::is_all_journalled() const {
  if (!m_replayed.is_valid) {
    return false;
  }
  /* A directory that is not in it was changed by others only, and they make no
  files that the dictionary knows. */
  for (const auto &[key, dir] : m_replayed.dirs) {
    if (m_unread.journalled_dirs().count(key) != 0) {
      continue;
    }

    /* It is not there, or was not asked for. */
    struct stat st;

    if (!dir.is_settled() ||
        lstat(m_roots.dir_path(key.first, key.second).c_str(), &st) == 0 ||
        std::any_of(dir.files.begin(), dir.files.end(),
                    [](const auto &file) { return file.second; })) {
      return false;
    }
  }
  return true;
}

const char *Start::find_difference(Difference &difference) const {
  constexpr auto CHANGED = "files have changed";
  constexpr auto TOO_MANY = "many files have changed";
  /* To ask for a file may find out that the map is damaged, and begin anew. */
  const auto image = map();
  const auto &reader = image->reader;
  const auto max_n = std::min<size_t>(
      MAX_DIFFERENCES, std::max<size_t>(reader.n_files() / LOOK_UP_COST, 1000));
  const auto end_of_dir = [](const std::string &path) {
    const auto pos = path.rfind('/');
    return pos == std::string::npos ? size_t{0} : pos;
  };

  if (!is_all_journalled()) {
    return CHANGED;
  }
  const auto read_ids = m_read_ids.ids();

  if (read_ids.size() > max_n) {
    return TOO_MANY;
  }
  for (const auto &[place, space_id] : read_ids) {
    const auto colon = place.find(':');
    const auto end_of_place = std::max(end_of_dir(place), colon + 1);
    const Dir_key key{std::stoul(place.substr(0, colon)),
                      place.substr(colon + 1, end_of_place - colon - 1)};

    if (m_unread.journalled_dirs().count(key) == 0) {
      return CHANGED;
    }
    const auto path = fil_scanned_path(space_id);

    if (map() != image) {
      return DAMAGED;
    }
    if (path.empty() || m_current.is_dropped(space_id)) {
      /* The redo log has dropped it. */
      continue;
    }

    Directory dir;
    const auto end = end_of_dir(path);
    dir.path = path.substr(0, end);
    difference.added[default_space_name(dir, path.substr(end + 1))] = space_id;
    difference.added_paths[space_id] = path;
  }

  for (uint32_t d = 0; d < reader.summary().dirs.size(); ++d) {
    const auto &dir = reader.summary().dirs[d];
    const auto watched = m_replayed.find(dir.root, dir.path);

    if (m_unread.is_skipped(d) && watched == nullptr) {
      continue;
    }
    const char *reason = nullptr;

    if (!reader.read_files(d, [&](const File &file, uint32_t no) {
          if (m_unread.has(d, no)) {
            return true;
          }
          difference.gone.emplace(file.space_id, space_name(dir, file));
          if (watched == nullptr ||
              (!watched->is_whole && watched->files.count(file.name) == 0)) {
            reason = CHANGED;
          } else if (difference.gone.size() > max_n) {
            reason = TOO_MANY;
          }
          return reason == nullptr;
        })) {
      return reason == nullptr ? DAMAGED : reason;
    }
  }
  return nullptr;
}

bool Start::needed_names(const Difference &difference, const Ddl_log &ddl_log,
                         bool has_ddl, std::map<std::string, space_id_t> &names,
                         std::unordered_set<std::string> &maybe) {
  std::unordered_set<uint32_t> undo_nums;

  for (const auto &undo : map()->reader.summary().undo) {
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

  const auto add = [&](space_id_t space_id, const fil_node_t *file = nullptr) {
    Found found;

    if (difference.added_paths.count(space_id) != 0 ||
        difference.gone.count(space_id) != 0) {
      return;
    }
    if (map()->reader.find(space_id, found)) {
      const auto &dir = map()->dir(found.dir);
      auto name = space_name(dir, found.file);

      if (has_ddl || file == nullptr || found.file.is_stray ||
          name != file->space->name ||
          m_roots.file_path(place_of(dir, found.file)) != file->name) {
        names[std::move(name)] = space_id;
      } else if (names.count(name) == 0) {
        m_changes.look_up(space_id, false);
      }
    } else {
      is_good = false;
    }
  };

  for (const auto space_id : map()->reader.summary().opened_at_start) {
    add(space_id);
  }

  for (const auto space_id : m_replayed.looked_up) {
    Found found;

    /* It may have been made and dropped since the map was. */
    if (map()->reader.find(space_id, found)) {
      add(space_id);
    }
  }

  /* What recovery has opened, if that is not as the map has it. Of the others
  the dictionary says what the map does, as of those that are not open. */
  const bool is_good_end =
      for_each_opened([&](const auto &file) { add(file.space->id, &file); });

  for (const auto space_id : ddl_log.ids) {
    Found found;

    /* What is being made, or was removed, need not be in the map. */
    if (!m_current.is_dropped(space_id) &&
        map()->reader.find(space_id, found)) {
      const auto name = space_name(map()->dir(found.dir), found.file);

      if (names.count(name) == 0) {
        add(space_id);
      }
      maybe.insert(name);
    }
  }

  return is_good && is_good_end;
}

bool Start::fetch_tablespaces(
    dd::cache::Dictionary_client *client,
    std::vector<const dd::Tablespace *> *tablespaces) {
  m_deferred.begin(srv_validate_tablespace_paths || recv_needed_recovery ||
                   !ibuf_is_empty());

  /* Until it is known that the dictionary has them as recovery has opened them:
  it may say nothing of them before transactions are committed. */
  if (g_enabled) {
    (void)for_each_opened(
        [this](const auto &file) { m_changes.look_up(file.space->id); });
  }

  if (map() == nullptr || !m_can_find) {
    return false;
  }

  m_is_ours = is_ours(client);
  if (!m_is_ours) {
    end_recovery();
    return false;
  }
  if (!srv_read_only_mode) {
    /* A server that ends from here on, before it writes a map, is no other. */
    (void)m_current.write_session(true);
  }

  const Ddl_log ddl_log;
  const bool has_ddl = ddl_log.is_pending || is_ddl_recovered();
  const char *reason = nullptr;

  if (!ibuf_is_empty()) {
    reason = "the change buffer is not empty";
  } else if (!map()->reader.summary().is_clean ||
             map()->reader.session().is_behind) {
    reason = "it was not known to agree with the files";
  } else if (!srv_redo_log) {
    reason = "the redo log is disabled";
  }

  /* Who needs an object is opened if only those are fetched. */
  m_may_wait = ibuf_is_empty() && !has_ddl;

  Difference difference;
  std::map<std::string, space_id_t> names;
  std::unordered_set<std::string> maybe;
  std::vector<const dd::Tablespace *> found;
  const dd::Tablespace *space;

  if (reason == nullptr) {
    reason = find_difference(difference);
  }
  if (reason == nullptr &&
      !needed_names(difference, ddl_log, has_ddl, names, maybe)) {
    reason = "tablespaces are not those of the map";
  }

  for (auto it = names.begin(); reason == nullptr && it != names.end(); ++it) {
    if (look_up(client, it->first, space) && id_of(space) == it->second) {
      found.push_back(space);
    } else if (maybe.count(it->first) == 0) {
      /* What is being dropped may have left the dictionary. */
      reason = "a tablespace has another name";
    }
  }
  for (auto it = difference.added.begin();
       reason == nullptr && it != difference.added.end(); ++it) {
    if (look_up(client, it->first, space) && id_of(space) == it->second) {
      found.push_back(space);
      names[it->first] = it->second;
    } else if (ddl_log.ids.count(it->second) == 0 ||
               difference.gone.count(it->second) != 0 ||
               it->first.find('@') != std::string::npos ||
               !is_single(difference.added_paths[it->second], it->second)) {
      /* What is being made is not in the dictionary yet. One with other than
      plain letters may be there under a name that is spelled otherwise, and a
      general one has a name of its own. */
      reason = "a file is not in the dictionary under its own name";
    }
  }
  for (auto it = difference.gone.begin();
       reason == nullptr && it != difference.gone.end(); ++it) {
    if (!look_up(client, it->second, space) ||
        (space != nullptr && difference.added_paths.count(id_of(space)) == 0)) {
      reason = "a file of the dictionary is not where it was";
    }
  }
  if (reason == nullptr && !m_current.dropped().all([&](space_id_t space_id) {
        Found file;
        return difference.gone.count(space_id) != 0 ||
               ddl_log.ids.count(space_id) != 0 ||
               !map()->reader.find(space_id, file);
      })) {
    reason = "the redo log drops a tablespace whose file is there";
  }

  if (reason == nullptr) {
    for (const auto &name : names) {
      (void)fil_scanned_path(name.second);
    }
  } else if (map() != nullptr) {
    /* The threads of the validation look all files up. */
    const auto image = map();

    if (!image->reader.read_ids(
            [](space_id_t space_id) { (void)fil_scanned_path(space_id); })) {
      (void)fil_scanned_path(SPACE_UNKNOWN);
    }
  }
  if (map() == nullptr) {
    /* It was damaged, and all directories were scanned. */
    return false;
  }
  m_can_find = false;

  if (reason != nullptr) {
    ib::info(MSG_IN_FULL) << "Tablespace map: the dictionary is read in full: "
                          << reason;
    return false;
  }

  fil_set_max_space_id_if_bigger(map()->reader.summary().max_space_id);
  std::unordered_set<space_id_t> added;
  for (const auto &file : difference.added_paths) {
    added.insert(file.first);
  }
  for (const auto &[space_id, name] : difference.gone) {
    if (difference.added_paths.count(space_id) == 0) {
      m_current.dropped().end(space_id);
    }
  }

  tablespaces->insert(tablespaces->end(), found.begin(), found.end());
  m_deferred.add_all(map()->reader.id(), map()->reader.summary().max_space_id,
                     std::move(added));
  m_is_settled =
      !has_ddl &&
      std::none_of(found.begin(), found.end(), [](const auto *other) {
        return dd_tablespace_is_discarded(other) || has_other_name(other);
      });
  ib::info(MSG_BY_DIFFERENCE)
      << "Tablespace map: " << found.size()
      << " tablespaces are read from the dictionary, the"
      << " others when they are used; " << difference.added.size()
      << " files were new, " << difference.gone.size() << " gone";
  return true;
}

bool Start::is_dictionary_read() const {
  if (m_deferred.is_all() && !m_is_settled && trx_sys->found_prepared_trx) {
    ib::info(MSG_IN_FULL)
        << "Tablespace map: the dictionary is read in full: a crash has left a"
           " prepared transaction, and DDL, or a name or a tablespace is gone";
  }
  return m_deferred.is_all() && m_is_settled;
}

void Start::note_opened(space_id_t space_id, const std::string &path) {
  const auto space = fil_space_get(space_id);

  if (!g_enabled || !fsp_is_ibd_tablespace(space_id) || space == nullptr ||
      space->files.empty()) {
    return;
  }
  /* Behind a link, say, recovery finds it under another name. */
  const bool is_same = is_same_path(path, space->files.front().name);
  m_changes.look_up(space_id, !is_same);
  if (is_same) {
    return;
  }
  Place_finder finder{m_roots};
  if (finder.find(path) != finder.find(space->files.front().name)) {
    m_is_elsewhere = true;
  }
}

void Start::note_validation(size_t n_differing, size_t n_left) {
  m_is_clean = (n_differing == 0 && n_left == 0 && m_deferred.is_validating() &&
                !m_is_elsewhere);

  if (m_deferred.n_added() != 0) {
    ib::info(MSG_DEFERRED) << "Tablespace map: " << m_deferred.n_added()
                           << " tablespaces are opened when they are used";
  }
  m_deferred.learn_key();
}

bool Start::is_unread(space_id_t space_id, const std::string &path) const {
  if (map() == nullptr || m_unread.n_dirs() == 0) {
    return false;
  }
  Found found;

  if (!map()->reader.find(space_id, found)) {
    return map()->reader.is_damaged();
  }

  const auto &dir = map()->dir(found.dir);

  return m_unread.has(found.dir, found.no) &&
         Place_finder{m_roots}.find(path) == place_of(dir, found.file);
}

bool Start::can_wait(Fil_state state, space_id_t space_id,
                     const char *space_name, const std::string &path,
                     const dd::Properties &options,
                     std::atomic_size_t &n_validated) {
  if (state != Fil_state::MATCHES) {
    return false;
  }
  uint64_t autoextend_size = 0;

  if (options.exists(autoextend_size_str)) {
    (void)options.get(autoextend_size_str, &autoextend_size);
  }
  if (!m_may_wait || m_deferred.is_all() || autoextend_size > 0 ||
      !is_unread(space_id, path)) {
    return false;
  }

  const auto known = m_deferred.find(space_id);

  /* Its object is made later with the path that the map has. */
  if (!known || known->name != space_name || !is_same_path(known->path, path)) {
    return false;
  }
  m_deferred.add(space_id);
  ++n_validated;
  return true;
}

void Start::finish(Keeper &keeper) {
  end_recovery();
  m_compared = {};

  if (!g_enabled || srv_read_only_mode || srv_force_recovery > 0) {
    m_read_ids.clear();
    return;
  }
  keeper.start(std::exchange(m_replayed, {}), m_is_clean,
               m_n_listed_again == 0);
}

}  // namespace tablespace_map
