/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file include/fil0map.h
A persisted map of the tablespace files, so that a start need not list
directories and read headers that are as they were. */

#ifndef fil0map_h
#define fil0map_h

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "my_inttypes.h"

#include "db0err.h"
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
@return true if there is one; if not, must_scan() may be true */
[[nodiscard]] bool find_unlisted(space_id_t space_id, size_t &root,
                                 std::string &path);

/** @return true if the map has turned out to be damaged after the scan, so that
all directories have to be scanned without it before a file is said to be
missing */
[[nodiscard]] bool must_scan();

/** All directories were scanned because of must_scan(). If that failed, the
server cannot go on.
@param[in]  err  what came of it */
void end_late_scan(dberr_t err);

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

/** @return true if the header of a file was not read, since the map knows it
@param[in]  space_id  tablespace ID
@param[in]  path      path of the file that is going to be opened for it; MySQL
                      may take another one than that with the ID */
[[nodiscard]] bool is_unread(space_id_t space_id, const std::string &path);

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
