/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file include/fil0map.h
A persisted map of the tablespace files, so that a start need not list
directories and read headers that are as they were.

Words:
- trusted: a directory of the map that need not be listed as long as its
identity is the same.
- recognised: a file that was listed and is the one of the map, by name, inode
  and birth time. Its header is not read.
- unread: a file whose header the start has not read, since it was recognised or
  its directory was not listed.
- journalled: a change of a file since the map was written that is in the
journal of the map.
- deferred (late, lazy, left out): a tablespace whose object the start has not
  made. Who needs the object makes it.
- dropped: a tablespace of the map that was removed since that was written. */

#ifndef fil0map_h
#define fil0map_h

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "my_inttypes.h"

#include "db0err.h"
#include "dict0types.h"
#include "fil0fil.h"
#include "fil0journal.h"
#include "fil0scan.h"
#include "fil0types.h"

class ha_tablespace_statistics;
class st_alter_tablespace;

namespace dd {
class Properties;
class Tablespace;
namespace cache {
class Dictionary_client;
}
}  // namespace dd

/** Look up the file of a tablespace among those that were scanned; in
fil0fil.cc.
@param[in]  space_id  tablespace ID
@return its path, or empty if there is none */
[[nodiscard]] std::string fil_scanned_path(space_id_t space_id);

/** Scan for tablespace files once more, without the map; in fil0fil.cc. What
the redo log has dropped is not found.
@return DB_SUCCESS if all goes well */
[[nodiscard]] dberr_t fil_scan_again();

namespace tablespace_map {

/** System variable innodb_tablespace_map. */
extern bool g_enabled;

/** System variable innodb_tablespace_map_verify_rate: files per second whose
headers are read after start-up, to see whether the map was right, and that are
opened. */
extern uint g_verify_rate;

/** Default and maximum of g_verify_rate. */
constexpr uint DEFAULT_VERIFY_RATE = 100;
constexpr uint MAX_VERIFY_RATE = 1'000'000;

/** Values of the status variables Innodb_tablespace_map_*. */
struct Status {
  /** Files taken from the map at start-up without reading them. */
  ulonglong files_trusted{0};
  /** Directories that had to be listed at start-up. */
  ulonglong directories_changed{0};
  /** What became of the map at start-up. */
  const char *state{"OFF"};
  /** Files whose header was read after start-up. */
  std::atomic<ulonglong> files_verified{0};
  /** Files whose header says something else than the map. */
  std::atomic<ulonglong> files_differing{0};
};

/** Status since start. */
extern Status g_status;

/* ---------------------------------------------------------------------------
Hooks of the start-up. */

/** Ask whether a directory need not be listed. Thread-safe.
@param[in]  path          absolute path of the directory
@param[in]  is_recursive  true if subdirectories are walked as well
@param[in]  push_dir      called with the path of each of its subdirectories
@param[in]  push_file     called with each file in it that the map does not
have, but its journal; empty if that cannot be done, and the directory has to be
listed then
@return true if it is as the map and its journal say */
[[nodiscard]] bool skip_directory(
    const std::string &path, bool is_recursive,
    const std::function<void(tablespace_scan::Dir &&)> &push_dir,
    const tablespace_scan::Push_file &push_file);

/** The same for the walk through directories.
@tparam Entry  a directory, and how deep it is; Stack: of those to be walked
@param[in]      dir           directory
@param[in]      is_recursive  true if subdirectories are walked as well
@param[in,out]  dirs          where to push its subdirectories
@return true if it is as the map says */
template <typename Entry, typename Stack>
[[nodiscard]] bool skip_dir(const Entry &dir, bool is_recursive, Stack &dirs) {
  return skip_directory(dir.m_path, is_recursive,
                        [&](tablespace_scan::Dir &&below) {
                          dirs.push(Entry(below.path, dir.m_depth + 1));
                        },
                        {});
}

/** Look up the ID of a file that was listed.
@param[in]  path  path of the file, beginning with that of its root
@return the ID, or nothing if its header has to be read */
[[nodiscard]] std::optional<space_id_t> known_space_id(const std::string &path);

/** Look up a file that was not listed. Not thread-safe; before the
dictionary is read only.
@param[in]   space_id  tablespace ID
@param[out]  root      number of the root
@param[out]  path      path relative to the root
@return true if there is one */
[[nodiscard]] bool find_unlisted(space_id_t space_id, size_t &root,
                                 std::string &path);

/** Ask whether a tablespace can be looked up. Before it is, all directories are
scanned without the map if that is damaged, or if recovery asks for a tablespace
while another server than the one of the map may have written the redo log, or
one whose file has another ID than the map says. Reads the header of each file
that recovery asks for, once.
@param[in]  space_id  tablespace ID
@return false if that scan failed or came too late; recovery fails then */
[[nodiscard]] bool can_look_up(space_id_t space_id);

/** Ask whether that has to be done since a tablespace was not found: the map
may have turned out to be damaged.
@return true if the tablespace has to be looked up again */
[[nodiscard]] bool must_scan();

/** Look up a tablespace that is not among the scanned files.
@param[in,out]  scanned   the scanned files, to look it up again
@param[in,out]  dirs      those of each root; the file is entered as if it had
                          been listed
@param[in]      space_id  tablespace ID
@return path of the root, and names of the file; nullptr if there is none */
template <typename Scanned, typename Dirs>
[[nodiscard]] typename Scanned::Result find_unlisted(Scanned &scanned,
                                                     Dirs &dirs,
                                                     space_id_t space_id) {
  size_t root;
  std::string path;

  if (find_unlisted(space_id, root, path) &&
      dirs[root].add(space_id, path) == 1) {
    return {dirs[root].path(), dirs[root].find_by_id(space_id)};
  }
  if (must_scan()) {
    return scanned.find_by_id(space_id);
  }
  return {"", nullptr};
}

/** If recovery has not found tablespaces, look for them in all directories,
before they are reported as missing.
@return true if recovery has to fail: the map was wrong, or a scan has failed */
[[nodiscard]] bool search_missing();

/** Compare the dictionary with the scanned files before it is validated. If a
file is not where the dictionary says, or another server may have run since the
map was written, all directories are scanned without the map first.
@param[in]  tablespaces  tablespaces of the dictionary
@return DB_SUCCESS unless a scan failed */
[[nodiscard]] dberr_t recheck(
    const std::vector<const dd::Tablespace *> &tablespaces);

/** A file is gone: forget it.
@param[in]  space_id  tablespace ID */
void forget(space_id_t space_id);

/** The scanned files are not needed any more. */
void end_recovery();

/** Fetch from the dictionary those tablespaces that the start needs, if the
others are known to be in order.
@param[in]      client       dictionary client
@param[in,out]  tablespaces  where to add them
@return false if all have to be fetched; nothing was added then */
[[nodiscard]] bool fetch_tablespaces(
    dd::cache::Dictionary_client *client,
    std::vector<const dd::Tablespace *> *tablespaces);

/** @return true if some tablespace objects were not made at start-up */
[[nodiscard]] bool is_lazy();

/** @return true if the object of a tablespace was not made at start-up, but
would have been without the map
@param[in]  space_id  tablespace ID; if the map has no such file, true may be
                      returned as well */
[[nodiscard]] bool is_late(space_id_t space_id);

/** @return true if what was read of the dictionary at start-up still holds: no
transaction that recovery has found changes it, and the objects that were made
need no other names */
[[nodiscard]] bool is_dictionary_read();

/** @return true if the object of a tablespace was left out at start-up, and its
file is where the dictionary says
@param[in]  space_id    tablespace ID
@param[in]  space_name  name in the dictionary
@param[in]  path        path of the file in the dictionary */
[[nodiscard]] bool is_left_out(space_id_t space_id, const char *space_name,
                               const char *path);

/** @return true if objects are made late, and never of this tablespace, since
it is discarded
@param[in]  space  tablespace in the dictionary */
[[nodiscard]] bool is_discarded(const dd::Tablespace *space);

/** @return true if the header of a file was not read, since the map knows it
@param[in]  space_id  tablespace ID
@param[in]  path      path of the file that is going to be opened for it,
                      however it is spelled; MySQL may take another one than
                      that with the ID */
[[nodiscard]] bool is_unread(space_id_t space_id, const std::string &path);

/** Ask whether a tablespace need not get its object at start-up: the map has
its file, as the dictionary says. What opens it later reads the header.
Thread-safe during validation.
@param[in]      state        how the file compares with the dictionary
@param[in]      space_id     tablespace ID
@param[in]      space_name   name in the dictionary
@param[in]      path         path of the file in the dictionary, normalized
@param[in]      options      options in the dictionary
@param[in,out]  n_validated  counts it if it can wait
@return true if it can wait */
[[nodiscard]] bool can_wait(Fil_state state, space_id_t space_id,
                            const char *space_name, const std::string &path,
                            const dd::Properties &options,
                            std::atomic_size_t &n_validated);

/** Take note of a tablespace that has an object before it is validated:
recovery has opened its file, wherever it was. A start that need not recover
would open the file that the dictionary names. Thread-safe.
@param[in]  space_id  tablespace ID
@param[in]  path      path of its file in the dictionary, normalized */
void note_opened(space_id_t space_id, const std::string &path);

/** Take note of how the dictionary compared with the files; says nothing if the
files were not looked at.
@param[in]  n_differing  tablespaces whose file is missing or elsewhere
@param[in]  n_left       tablespaces of which it is not known */
void note_validation(size_t n_differing, size_t n_left);

/** Ask how much of a file is needed to validate its first page.
@param[in]  fd       the file, open for this only
@param[in]  n_bytes  what would be read without the map
@return n_bytes or the page size */
[[nodiscard]] size_t first_page_bytes(int fd, size_t n_bytes);

/** Read the header of a file that was left out at start-up, after a crash all
of its first page, so that must_validate() need not, or finds it in memory: that
is called with latches that others wait for. This one may be called with none.
@param[in]  space_id  tablespace ID */
void read_ahead(space_id_t space_id);

/** Ask whether the first page of a file has to be validated when it is opened.
A start after a clean shutdown looks at nothing of a file but its ID; one that
was left out then is looked at in the same way when it is opened, whoever opens
it.
@param[in]  validate  what is to be done with other files
@param[in]  purpose   type of the tablespace; temporary ones are no matter of
ours
@param[in]  space_id  tablespace ID
@return true if it has to be validated */
[[nodiscard]] bool must_validate(bool validate, fil_type_t purpose,
                                 space_id_t space_id);

/** Make the object of a tablespace that was left out at start-up. The caller
must hold no latch that is requested after that of the dictionary.
@param[in]  space_id  tablespace ID */
void open(space_id_t space_id);

/** As open(), by name.
@param[in]  space_name  name of the tablespace */
void open(const char *space_name);

/** As open(), for a general tablespace that a table is about to be put into. If
the dictionary cannot be read, the session has an error, and nothing is made.
@param[in,out]  thd   session
@param[in]      name  name of the tablespace */
void open_general(THD *thd, const char *name);

/** As open(), for the tablespace of an SDI table, which is not opened by means
of the dictionary: purge and rollback would take it for dropped.
@param[in]  table_id     ID of any table
@param[in]  dict_locked  true if the caller holds the latch of the dictionary:
                         nothing is done then */
void open_sdi(table_id_t table_id, bool dict_locked);

/** Make the objects of all encrypted tablespaces that were left out at
start-up, since all of them are about to get another master key. If some cannot
be opened, their number is in a warning. No DDL runs, and the caller holds no
latch.
@param[in,out]  thd  session
@return false if the dictionary cannot be read; the session has an error then */
[[nodiscard]] bool open_encrypted(THD *thd);

/** Refuse to clone if tablespaces that were left out at start-up still have no
object: a clone would lack them. The session has an error then, and not the
backup lock any more.
@param[in,out]  thd     session, which has the backup lock
@param[in]      spaces  all of the dictionary
@return true if so */
[[nodiscard]] bool refuse_clone(
    THD *thd, const std::vector<const dd::Tablespace *> &spaces);

/** @return path of the file of a tablespace that has no object, to be freed by
ut::free(); nullptr if the map does not know it
@param[in]  space_id  tablespace ID */
[[nodiscard]] char *first_path(space_id_t space_id);

/** Tell what INFORMATION_SCHEMA.FILES shows of a tablespace that has no object.
It is what it would show if the object had been made at start-up.
@param[in]   space_id  tablespace ID
@param[out]  stats     what to show
@return false if there is an object, or the map does not know the tablespace */
[[nodiscard]] bool show_file(space_id_t space_id,
                             ha_tablespace_statistics &stats);

/* ---------------------------------------------------------------------------
Hooks of the running server. */

/** A tablespace is created, renamed or dropped as long as this object lives. */
class Ddl {
 public:
  /** @param[in]  space_id    tablespace ID
  @param[in]  is_dropped  true if its file will be gone */
  Ddl(space_id_t space_id, bool is_dropped);
  ~Ddl();

  Ddl(const Ddl &) = delete;
  Ddl &operator=(const Ddl &) = delete;

  /** The file is about to be created, renamed or removed. The sooner it is, the
  less often a start after a kill has to list its directory.
  @param[in]  path      its path
  @param[in]  new_name  name that the tablespace will have, if it is renamed
  @param[in]  new_path  path that the file will have then; nullptr for the usual
                        place of a tablespace of that name */
  void begin(const char *path, const char *new_name = nullptr,
             const char *new_path = nullptr);

  /** That is done; nothing else happens to its name, if all goes well. */
  void end();

 private:
  const bool m_is_noted;
  const space_id_t m_space_id;
  const bool m_is_dropped;
  /** What is changed, for the journal. */
  std::array<Change, 2> m_changes;
  /** False if the journal does not have all of it. */
  bool m_is_covered{true};
};

/** The dictionary says by how much the file of a tablespace grows. Each start
has to tell its object that, so that it cannot be left out.
@param[in]  space_id  tablespace ID
@param[in]  n_bytes   AUTOEXTEND_SIZE; 0 if it does not say it */
void note_autoextend(space_id_t space_id, uint64_t n_bytes);

/** A file that may be one of the map gets another tablespace ID as long as this
object lives: the map must not say otherwise from then on. */
class Import {
 public:
  Import();
  ~Import();

  Import(const Import &) = delete;
  Import &operator=(const Import &) = delete;

 private:
  const bool m_is_noted;
};

/** A general tablespace is created, altered or dropped as long as this object
lives. A new one has another name than its file, and nothing in any directory
says how one was altered: there is no map then until it can have that. */
class Alter {
 public:
  /** Make the object of the tablespace if it was left out at start-up. The
  caller holds no latch.
  @param[in]  what   what is done
  @param[in]  space  tablespace in the dictionary; nullptr if there is none yet
*/
  Alter(const st_alter_tablespace &what, const dd::Tablespace *space);
  ~Alter();

  Alter(const Alter &) = delete;
  Alter &operator=(const Alter &) = delete;

 private:
  bool m_is_created{false};
  bool m_is_altered{false};
};

/** Start the thread that writes the map. */
void start();

/** End the thread that reads headers after the start: it asks the keyring,
which is released before shutdown(). */
void stop_verifying();

/** Stop the thread and write the map if it is not up to date, and if that takes
no longer than a second. */
void shutdown();

}  // namespace tablespace_map

#endif /* fil0map_h */
