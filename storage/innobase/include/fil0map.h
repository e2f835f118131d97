/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file include/fil0map.h
A persisted map of the tablespace files, so that a start need not list
directories and read headers that are as they were. */

#ifndef fil0map_h
#define fil0map_h

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "my_inttypes.h"

#include "fil0types.h"

namespace dd {
class Tablespace;
namespace cache {
class Dictionary_client;
}
}  // namespace dd

namespace tablespace_map {

/** System variable innodb_tablespace_map. */
extern bool g_enabled;

/** System variable innodb_tablespace_map_verify_rate: files per second whose
headers are read after start-up, to see whether the map was right. */
extern uint g_verify_rate;

/** Default and maximum of g_verify_rate. */
constexpr uint DEFAULT_VERIFY_RATE = 100;
constexpr uint MAX_VERIFY_RATE = 1'000'000;

/** Values of the status variables Innodb_tablespace_map_*. */
struct Status {
  /** Files taken from the map at start-up without reading them. */
  ulonglong files_trusted;
  /** Directories that had to be listed at start-up. */
  ulonglong directories_changed;
  /** What became of the map at start-up. */
  const char *state;
  /** Files whose header was read after start-up. */
  ulonglong files_verified;
  /** Files whose header says something else than the map. */
  ulonglong files_differing;
};

/** Status since start. */
extern Status g_status;

/* ---------------------------------------------------------------------------
The format and the decisions: no I/O, no server. */

/** A directory changed within this time of being looked at may change again
without a visible difference of its times, if they are coarse. */
constexpr int64_t RACY_NSEC = 2'000'000'000;

/** Size in bytes of the largest file that is taken for a map. */
constexpr uint64_t MAX_MAP_BYTES = uint64_t{1} << 31;

/** What tells one state of a directory from another. */
struct Dir_identity {
  /** Device. */
  uint64_t dev;
  /** Inode number. */
  uint64_t ino;
  /** Time of the last change of the content, in nanoseconds. */
  int64_t mtime_nsec;
  /** Time of the last change of the inode; cannot be set by users. */
  int64_t ctime_nsec;

  bool operator==(const Dir_identity &) const = default;
};

/** What tells one file from another of the same name. */
struct File_identity {
  /** Inode number. */
  uint64_t ino;
  /** Time of birth in nanoseconds; 0 if the file system has none. */
  int64_t btime_nsec;

  /** @return true if it is certain that this is the same file
  @param[in]  other  identity to compare with */
  [[nodiscard]] bool is_same(const File_identity &other) const {
    return btime_nsec != 0 && ino == other.ino &&
           btime_nsec == other.btime_nsec;
  }
};

/** @return true if the directory may change again without its identity changing
@param[in]  id        the directory
@param[in]  now_nsec  time when it was looked at */
[[nodiscard]] bool is_racy(const Dir_identity &id, int64_t now_nsec);

/** A file of the map. */
struct File {
  /** Name in its directory. */
  std::string name;
  /** Identity. */
  File_identity identity;
  /** Tablespace ID. */
  space_id_t space_id;
  /** FSP flags. */
  uint32_t flags;
  /** Name of the tablespace in the data dictionary. */
  std::string space_name;
  /** True if it was listed at start-up and is the same; not written. */
  bool is_same{false};
};

/** What tells whether another server has used the data directory since the map
was written. */
struct Session {
  /** End of the redo log after a shutdown; 0 while the server runs. */
  uint64_t end_lsn{0};
  /** The file of the global temporary tablespace, which every start makes
  anew; while the server runs. */
  File_identity temp_file{0, 0};
};

/** A directory of the map. */
struct Directory {
  /** Number of the root that it was found under. */
  uint32_t root;
  /** Path relative to the root, without slash at either end. */
  std::string path;
  /** Identity. */
  Dir_identity identity;
  /** True if it need not be listed as long as the identity is the same. */
  bool is_trusted;
  /** Number of the parent in the map; the root is its own parent. */
  uint32_t parent;
  /** Files, sorted by name. */
  std::vector<File> files;
};

/** A whole map, decoded. */
struct Content {
  /** What the map depends on besides the directories: roots, page size,
  version. Another value means another map. */
  std::string config;
  /** True if the dictionary was seen to agree with the files. */
  bool is_clean{false};
  /** Directories, sorted by root and path. */
  std::vector<Directory> dirs;
  /** Names of the undo tablespaces in the dictionary, with their numbers. */
  std::vector<std::pair<uint32_t, std::string>> undo;
  /** Path of the file that session.temp_file describes. */
  std::string temp_path;
  /** Who has written it. */
  Session session;
};

/** Bytes at the start of the file that hold the session. */
constexpr size_t HEADER_BYTES = 48;

/** Encode a map.
@param[in]  content  what to encode; sorted
@return the bytes of the file */
[[nodiscard]] std::string encode(const Content &content);

/** Decode a map. Accepts nothing but what encode() makes.
@param[in]   bytes    the bytes of the file
@param[out]  content  the map; undefined if false is returned
@return true if all is well */
[[nodiscard]] bool decode(std::string_view bytes, Content &content);

/** Change the session in the header of a map.
@param[in,out]  header   the first HEADER_BYTES of the file
@param[in]      session  the new session
@return false if that is no header */
[[nodiscard]] bool set_session(std::string &header, const Session &session);

/** @return true if the times of a directory may be those of a file system that
knows only whole seconds
@param[in]  id  the directory */
[[nodiscard]] bool is_coarse(const Dir_identity &id);

/** @return true if a file name may be that of a partition from before the names
were all lower case; the scan renames such files
@param[in]  name  file name */
[[nodiscard]] bool is_old_partition(std::string_view name);

/** Find a directory.
@param[in]  content  the map
@param[in]  root     number of the root
@param[in]  path     path relative to the root
@return number of the directory, or -1 */
[[nodiscard]] int64_t find_dir(const Content &content, uint32_t root,
                               std::string_view path);

/** Find a file in a directory.
@param[in]  dir   the directory
@param[in]  name  file name
@return the file, or nullptr */
[[nodiscard]] const File *find_file(const Directory &dir,
                                    std::string_view name);

/* ---------------------------------------------------------------------------
Hooks of the start-up. */

/** Roots of the scan: path as given, absolute path; both end with a slash. */
using Roots = std::vector<std::pair<std::string, std::string>>;

/** The scan of the directories begins: read the map.
@param[in]  roots  what will be scanned */
void begin_scan(Roots roots);

/** Ask whether a directory need not be listed. Thread-safe.
@param[in]  path          absolute path of the directory
@param[in]  is_recursive  true if subdirectories are walked as well
@param[in]  push_dir      called with the path of each of its subdirectories
@return true if it is as the map says */
[[nodiscard]] bool skip_directory(
    const std::string &path, bool is_recursive,
    const std::function<void(const std::string &)> &push_dir);

/** Look up the ID of a file that was listed.
@param[in]  path  path of the file, beginning with that of its root
@return the ID, or SPACE_UNKNOWN if its header has to be read */
[[nodiscard]] space_id_t known_space_id(const std::string &path);

/** Take note of an ID that was found in a listed file.
@param[in]  space_id  the ID */
void note_space_id(space_id_t space_id);

/** The headers are read.
@return true if the scan has to be repeated without the map */
[[nodiscard]] bool end_scan();

/** Look up a file that was not listed. Not thread-safe; before the
dictionary is read only.
@param[in]   space_id  tablespace ID
@param[out]  root      number of the root
@param[out]  path      path relative to the root
@return true if there is one */
[[nodiscard]] bool find_unlisted(space_id_t space_id, size_t &root,
                                 std::string &path);

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

/** @return true if the header of a tablespace was not read, since the map
knows its file
@param[in]  space_id  tablespace ID */
[[nodiscard]] bool is_unread(space_id_t space_id);

/** Ask whether a tablespace need not get its object at start-up: the map has
its file, as the dictionary says. What opens it later reads the header.
Thread-safe during validation.
@param[in]  space_id    tablespace ID
@param[in]  flags       FSP flags in the dictionary
@param[in]  space_name  name in the dictionary
@param[in]  path        path of the file in the dictionary, normalized
@return true if it can wait */
[[nodiscard]] bool can_wait(space_id_t space_id, uint32_t flags,
                            const char *space_name, const std::string &path);

/** Take note of how the dictionary compared with the files.
@param[in]  is_clean  true if there was no difference at all */
void note_validation(bool is_clean);

/** Ask how much of a file is needed to validate its first page.
@param[in]  fd       the file, open for this only
@param[in]  n_bytes  what would be read without the map
@return n_bytes or the page size */
[[nodiscard]] size_t first_page_bytes(int fd, size_t n_bytes);

/** Ask whether a file is valid by its ID alone. A start after a clean shutdown
looks at nothing else of a file; one that was left out then is opened in the
same way later. Reads the header.
@param[in]  space_id  tablespace ID
@return true if the first page need not be validated */
[[nodiscard]] bool is_valid_by_id(space_id_t space_id);

/** Make the object of a tablespace that was left out at start-up. The caller
must hold no latch.
@param[in]  space_id  tablespace ID */
void open(space_id_t space_id);

/** As open(), by name.
@param[in]  space_name  name of the tablespace */
void open(const char *space_name);

/* ---------------------------------------------------------------------------
Hooks of the running server. */

/** A tablespace was or is about to be created, renamed or dropped.
@param[in]  space_id    tablespace ID
@param[in]  is_dropped  true if its file will be gone */
void note_ddl(space_id_t space_id, bool is_dropped);

/** A file that may be one of the map is about to get another tablespace ID: the
map must not say otherwise from now on. */
void before_import();

/** Start the thread that writes the map. */
void start();

/** Stop the thread and write the map if it is not up to date. */
void shutdown();

}  // namespace tablespace_map

#endif /* fil0map_h */
