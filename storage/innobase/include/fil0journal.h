/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file include/fil0journal.h
The journal of the tablespace map: which files the server has made, renamed and
removed since the map was written. With it one DDL statement costs a few bytes,
not a new map; and a start after a kill need not list the directory. */

#ifndef fil0journal_h
#define fil0journal_h

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "fil0mapfile.h"

namespace tablespace_map {

/** A journal of this many bytes is not continued. */
constexpr uint64_t MAX_JOURNAL_BYTES = uint64_t{16} << 20;

/** A new map is made when the journal has this many bytes, and a quarter of the
size of the map, */
constexpr uint64_t LARGE_JOURNAL_BYTES = 65536;

/** or when a start would have to open this many files that the map does not
 * know,
 */
constexpr size_t MANY_JOURNAL_FILES = 256;

/** or one for so many that it knows, */
constexpr size_t MAP_FILES_PER_JOURNAL_FILE = 64;

/** but not for fewer than this. */
constexpr size_t FEW_JOURNAL_FILES = 16;

/** Number of a root, and path of a directory relative to it. */
using Dir_key = std::pair<uint32_t, std::string>;

/** What the journal says of a directory. */
struct Watched_dir {
  /** Its identity after the last change. */
  Dir_identity identity{};
  /** True if that is known. */
  bool is_known{false};
  /** True if there was nothing in it before the first change: what the map says
  of a directory of that name is not about it. */
  bool is_whole{false};
  /** True if others have changed it, or it does not keep a time: the journal
  says nothing of it. */
  bool is_lost{false};
  /** Changes that have begun and not ended. */
  std::set<uint64_t> open;
  /** Files that were changed, by name; true if they are there. */
  std::map<std::string, bool> files;

  /** @return true if the directory is as the map and these files say, if its
  identity is the same */
  [[nodiscard]] bool is_settled() const {
    return is_known && !is_lost && open.empty();
  }
};

using Watched_dirs = std::map<Dir_key, Watched_dir>;

/** What a journal says. */
struct Replayed {
  /** True if it can be used. */
  bool is_valid{false};
  /** Bytes of it that are right; what is behind them is not looked at. */
  uint64_t n_bytes{0};
  /** Larger than the number of any change. */
  uint64_t next_no{1};
  Watched_dirs dirs;
  /** Tablespaces that have to be looked up in the dictionary. */
  std::set<space_id_t> looked_up;

  /** @return what it says of a directory, or nullptr
  @param[in]  root  number of the root
  @param[in]  path  path relative to it */
  [[nodiscard]] const Watched_dir *find(uint32_t root,
                                        std::string_view path) const;
};

/** Read a journal.
@param[in]  bytes   all of it
@param[in]  map_id  of the map that is used
@param[in]  boot    boot_id(); a journal of another boot is valid only if its
                    server was shut down
@return what it says; not valid if it is of another map */
[[nodiscard]] Replayed replay_journal(std::string_view bytes, uint64_t map_id,
                                      std::string_view boot);

/** A change of a file that the server makes. */
struct Change {
  /** Its number; 0 if it was not begun. */
  uint64_t no{0};
  /** Directory of the file. */
  Dir_key dir;
  /** Path of the directory. */
  std::string dir_path;
  /** Name of the file in it. */
  std::string name;
  /** Tablespace ID of the file. */
  space_id_t space_id{0};
};

/** Writes the journal of a map. Nothing is synced but at shutdown: it has to
survive the server, not the machine. Thread-safe. */
class Journal {
 public:
  /** What the map says of a directory. */
  struct Base {
    /** True if it has the directory. */
    bool is_there{false};
    /** Its identity, if it is trusted. */
    std::optional<Dir_identity> identity;
    /** True if files that were touched are not in the map: without the journal
    it says nothing of the directory. */
    bool is_partial{false};
  };

  using Find_base = std::function<Base(uint32_t root, const std::string &path)>;

  ~Journal();

  /** Begin an empty journal.
  @param[in]  file    path of the file
  @param[in]  map_id  of the map
  @param[in]  base    looks directories up in the map
  @return false if it cannot be written; nothing is covered then */
  bool create(const std::string &file, uint64_t map_id, Find_base base);

  /** Go on with a journal that was read.
  @param[in]  file      path of the file
  @param[in]  replayed  what it says
  @param[in]  base      looks directories up in the map
  @return false if it cannot be written; nothing is covered then */
  bool go_on(const std::string &file, Replayed replayed, Find_base base);

  /** End it at shutdown: all is synced.
  @return true if it is complete and on disk */
  bool end();

  /** A file is about to be made, renamed or removed. end_change() is called
  next or later.
  @param[in,out]  change  the change; gets its number
  @return false if the journal does not cover it */
  bool begin_change(Change &change);

  /** The directory entry was changed; nothing else of this change will touch
  it, if all goes well.
  @param[in]  change  the change
  @return false if the journal does not cover it */
  bool note_changed(const Change &change);

  /** The change is over.
  @param[in]  change  the change
  @return false if the journal does not cover it */
  bool end_change(const Change &change);

  /** The next start has to look a tablespace up in the dictionary: that says
  more of it than the map.
  @param[in]  space_id  tablespace ID */
  void note_looked_up(space_id_t space_id);

  /** The same as the function of that name, while nothing else sets times of
  directories.
  @param[in]  path  path of a directory
  @return what was found */
  [[nodiscard]] Times test_times(const std::string &path);

  /** A map is being made from now on: what is changed meanwhile is remembered.
   */
  void begin_map();

  /** @return true if a map is being made */
  [[nodiscard]] bool is_mapping();

  /** The map was made and is in place.
  @param[in]  file    path of the file of the journal
  @param[in]  map_id  of the new map
  @param[in]  base    looks directories up in it */
  void end_map(const std::string &file, uint64_t map_id, Find_base base);

  /** No map was made. */
  void cancel_map();

  /** A directory is about to be listed for the map. From now on the journal has
  what the server changes in it.
  @param[in]   key     directory
  @param[in]   path    its path
  @param[out]  id      its identity, maybe with a time of our own
  @param[out]  before  the identity that it had before that
  @return false if changes during the listing may get lost */
  bool watch(const Dir_key &key, const std::string &path, Dir_identity &id,
             Dir_identity &before);

  /** @return true if nobody but the server has changed a directory since
  watch()
  @param[in]  key  directory
  @param[in]  id   its identity now */
  [[nodiscard]] bool is_watched(const Dir_key &key, const Dir_identity &id);

  /** @return true if the server has changed a file since begin_map(), or is
  doing so: the journal of the new map has it
  @param[in]  key   its directory
  @param[in]  name  its name */
  [[nodiscard]] bool is_touched(const Dir_key &key, const std::string &name);

  /** @return true if a file of the tablespace was
  @param[in]  space_id  tablespace ID */
  [[nodiscard]] bool is_touched(space_id_t space_id);

  /** @return true if it can be written */
  [[nodiscard]] bool is_written();

  /** @return true if a new map is worth its cost
  @param[in]  map_bytes    size of the map
  @param[in]  n_map_files  number of its files */
  [[nodiscard]] bool is_large(uint64_t map_bytes, size_t n_map_files);

 private:
  bool begin(const Dir_key &key, const std::string &path, Watched_dir &dir,
             bool is_new);
  bool record(const Change &change, Watched_dir &dir);
  bool write(std::string_view records);
  void lose(const Dir_key &key, Watched_dir &dir);
  void touch(const Change &change);
  void end_mapping();
  bool open_file(const std::string &file, int flags);
  bool replace_file(const std::string &file, std::string_view bytes);
  void close_file();

  /** Protects everything. No other latch is requested under it. */
  std::mutex m_mutex;
  int m_fd{-1};
  /** Path of the file. */
  std::string m_file;
  uint64_t m_n_bytes{0};
  size_t m_n_files{0};
  uint64_t m_next_no{1};
  Find_base m_base;
  Watched_dirs m_dirs;
  /** Changes that were begun and not ended. */
  std::unordered_map<uint64_t, Change> m_live;
  /** True while a map is being made. */
  bool m_is_mapping{false};
  /** What was changed meanwhile. */
  std::map<Dir_key, std::set<std::string>> m_touched;
  std::set<space_id_t> m_touched_ids;
  std::set<space_id_t> m_looked_up;
  /** Directories that only the new map will know. */
  std::set<Dir_key> m_found_again;
  /** Directories that were made, maybe once more, while a map is being made. */
  std::set<Dir_key> m_made;
};

}  // namespace tablespace_map

#endif /* fil0journal_h */
