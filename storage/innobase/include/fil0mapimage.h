/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file include/fil0mapimage.h
The map that is in the data directory: its file, the directories that it is
about, the files that it describes, and what DDL has done to them since. */

#ifndef fil0mapimage_h
#define fil0mapimage_h

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include <sys/stat.h>
#include <unistd.h>

#include "fil0journal.h"
#include "fil0mapfile.h"

namespace tablespace_map {

constexpr char MAP_NAME[] = "#innodb_tablespace_map";
constexpr char TEMP_NAME[] = "#innodb_tablespace_map.tmp";
constexpr char JOURNAL_NAME[] = "#innodb_tablespace_map.log";

/** A reason not to use the map. */
constexpr char DAMAGED[] = "it is damaged";

/** @return the name of a tablespace that follows from the path of its file
@param[in]  dir   directory
@param[in]  file  file name */
[[nodiscard]] std::string default_space_name(const Directory &dir,
                                             const std::string &file);

/** @return the name of the tablespace of a file
@param[in]  dir   directory
@param[in]  file  file in it */
[[nodiscard]] std::string space_name(const Directory &dir, const File &file);

/** Blocks of a map that are kept in memory after the start; 1 MiB. */
constexpr size_t KEPT_BLOCKS = 64;

/** A map that is open. */
struct Image {
  Reader reader;
  /** Subdirectories of each directory. */
  std::vector<std::vector<uint32_t>> children;
  /** File systems that have directories which are trusted. */
  std::set<uint64_t> trusted_devs;

  /** Open the file of a map.
  @param[in]  fd  file descriptor; the image closes it
  @return nullptr if all is well, or what is wrong */
  const char *open(int fd);

  /** Keep only some blocks in memory from now on. */
  void keep_few() { reader.keep(m_n_kept); }

  /** @return true if the file is on the disk */
  bool sync() const { return fsync(m_fd) == 0; }

  /** @return true if it is the map of a file
  @param[in]  fd  descriptor of the file */
  bool is_file(int fd) const {
    struct stat mine;
    struct stat other;

    return fstat(m_fd, &mine) == 0 && fstat(fd, &other) == 0 &&
           mine.st_dev == other.st_dev && mine.st_ino == other.st_ino;
  }

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

/** @return where a file of the map is
@param[in]  dir   directory
@param[in]  file  file in it */
[[nodiscard]] inline Place place_of(const Directory &dir, const File &file) {
  return {dir.root, join(dir.path, file.name)};
}

/** @return true if paths are the same. MySQL spells that of a general
tablespace in the data directory with a leading "./" or without, as it was when
it was created. */
[[nodiscard]] inline bool is_same_path(std::string_view one,
                                       std::string_view other) {
  const auto plain = [](std::string_view path) {
    return path.substr(0, 2) == "./" ? path.substr(2) : path;
  };

  return plain(one) == plain(other);
}

/** @return what a map depends on besides directories and files
@param[in]  roots  directories that are scanned */
[[nodiscard]] std::string config_of(const Roots &roots);

/** @return path of a file of the map in the data directory
@param[in]  name  its name */
[[nodiscard]] std::string map_path(const char *name);

/** The map that is in use, and its file. */
class Current_map {
 public:
  /** @param[in]  roots  directories that a map has to be about */
  explicit Current_map(const Roots &roots) : m_roots(roots) {}

  /** @return the map, or nullptr */
  [[nodiscard]] Image_ptr image() const {
    const std::lock_guard guard(m_mutex);
    return m_image;
  }

  /** @return the same for the only thread that changes it: the one that starts
  the server, and later the keeper's */
  [[nodiscard]] const Image_ptr &own() const { return m_image; }

  /** Use another map. Only the thread that changes it may call this.
  @param[in]  image  the map, or nullptr */
  void set(Image_ptr image) {
    const std::lock_guard guard(m_mutex);
    m_image.swap(image);
  }

  /** Read the map. @return the reason why there is none, or nullptr */
  [[nodiscard]] const char *read();

  /** Tablespaces of the map that were dropped since it was written. */
  [[nodiscard]] Dropped &dropped() { return m_dropped; }

  /** @return true if a tablespace was dropped, or is being dropped
  @param[in]  space_id  tablespace ID */
  [[nodiscard]] bool is_dropped(space_id_t space_id) const {
    return m_dropped.has(space_id);
  }

  /** @return the largest tablespace ID of the map that the server can drop */
  [[nodiscard]] space_id_t max_id() const {
    return m_image == nullptr ? 0 : m_image->reader.summary().max_space_id;
  }

  /** @return true if the files of temporary tablespaces are still those of the
  server that wrote the map: it was the last to run, and ended without a
  shutdown */
  [[nodiscard]] bool is_of_last_run() const;

  /** @return why this server does not use the map any more; nullptr as long as
  it does */
  [[nodiscard]] const char *rejected() const { return m_rejected; }

  /** Do not use the map any more, but leave its file. Thread-safe.
  @param[in]  reason  why */
  void distrust(const char *reason) { m_rejected = reason; }

  /** The map cannot be right. Let the next start read all files, too.
  @param[in]  reason  what is wrong with it
  @return true if there is no map any more */
  bool reject(const char *reason);

  /** The running server finds that the map is wrong: it is not used by the next
  start, and not written again. Thread-safe.
  @param[in]  why  what is wrong with it */
  void give_up(const char *why);

  /** @return true if that was done */
  [[nodiscard]] bool is_given_up() const { return m_is_given_up; }

  /** Remove the file of the map. Thread-safe.
  @return true if there is none any more */
  bool remove();

  /** Held while the file of the map is written or removed. No other latch is
  requested under it but that of the journal. */
  [[nodiscard]] std::mutex &file_mutex() { return m_file_mutex; }

  /** The redo log will not grow any more. */
  void set_shut_down() { m_is_shut_down = true; }

  /** @return what the map says of this server
  @param[in]  is_behind  true if the server has done DDL since the map was made
*/
  [[nodiscard]] Session make_session(bool is_behind) const;

  /** Write the session into the header of the map. If that is torn, the next
  start has no map.
  @param[in]  is_behind  false if the map is as it should be otherwise
  @return true if it was written */
  bool write_session(bool is_behind);

 private:
  const Roots &m_roots;
  /** Protects m_image. No other latch is requested under it. */
  mutable std::mutex m_mutex;
  Image_ptr m_image;
  Dropped m_dropped;
  std::mutex m_file_mutex;
  std::atomic<const char *> m_rejected{nullptr};
  std::atomic_bool m_is_given_up{false};
  std::atomic_bool m_is_shut_down{false};
};

/** Counts DDL and IMPORT, and has the journal. Thread-safe. */
class Changes {
 public:
  static constexpr uint64_t FIRST_SEQ = 1;

  /** What a map has that is begun now. */
  struct Mark {
    uint64_t seq;
    uint64_t stale_seq;
    uint64_t import_seq;
    uint64_t id_seq;
  };

  /** @param[in]  roots    directories that are scanned
  @param[in]  current  the map that is in use */
  Changes(const Roots &roots, Current_map &current)
      : m_current(current), m_roots(roots), m_finder(roots) {}

  /** The journal is open: DDL is written to it from now on, or no more.
  @param[in]  is_serving  whether it is */
  void serve(bool is_serving) { m_is_serving = is_serving; }

  [[nodiscard]] bool is_serving() const { return m_is_serving; }

  /** DDL on a file begins. */
  void begin();

  /** It ends.
  @param[in]  is_covered  whether the journal has all of it */
  void end(bool is_covered);

  /** Begin a change of a file in the journal.
  @param[in]   space_id  tablespace ID
  @param[in]   path      path of the file
  @param[out]  change    the change
  @return false if the journal does not cover it */
  [[nodiscard]] bool begin_file(space_id_t space_id, const std::string &path,
                                Change &change);

  /** The dictionary says by how much a file grows: it is opened at each start
  from now on.
  @param[in]  space_id  tablespace ID */
  void note_autoextend(space_id_t space_id);

  /** A file gets another tablespace ID, or its tablespace something else that
  the map has: there is no map from now on.
  @param[in]  has_new_id  whether it is an ID */
  void begin_import(bool has_new_id);

  /** It has it.
  @param[in]  has_new_id  as before */
  void end_import(bool has_new_id);

  /** begin_import() for a tablespace that gets another name or other options,
  which the dictionary may take back: later starts look it up there.
  @param[in]  space_id  tablespace ID */
  void begin_alter(space_id_t space_id);

  /** Later starts look a tablespace up in the dictionary, and open it as that
  says.
  @param[in]  space_id  tablespace ID
  @param[in]  must      false if they need not */
  void look_up(space_id_t space_id, bool must = true) {
    const std::lock_guard guard(m_looked_up_mutex);
    if (must) {
      m_looked_up.insert(space_id);
    } else {
      m_looked_up.erase(space_id);
    }
  }

  /** @return true if they do
  @param[in]  space_id  tablespace ID */
  [[nodiscard]] bool is_looked_up(space_id_t space_id) const {
    const std::lock_guard guard(m_looked_up_mutex);
    return m_looked_up.count(space_id) != 0;
  }

  /** The journal of the map that the server keeps. */
  [[nodiscard]] Journal &journal() { return m_journal; }

  /** @return number of begins and ends of DDL */
  [[nodiscard]] uint64_t seq() const { return m_seq; }

  /** @return DDL that is under way */
  [[nodiscard]] uint64_t n_ddl() const { return m_n_ddl; }

  /** @return false if nothing has happened since, and nothing is under way
  @param[in]  seq  what seq() was */
  [[nodiscard]] bool is_ddl_since(uint64_t seq) const {
    return m_seq != seq || m_n_ddl != 0;
  }

  /** @return time of the last begin or end of DDL, by the clock of files */
  [[nodiscard]] int64_t last_nsec() const { return m_last_nsec; }

  /** @return number of begins and ends of imports */
  [[nodiscard]] uint64_t import_seq() const { return m_import_seq; }

  [[nodiscard]] bool is_importing() const { return m_n_imports != 0; }

  [[nodiscard]] Mark mark() const {
    return {m_seq, m_stale_seq, m_import_seq, m_id_seq};
  }

  /** @return seq() when the map was begun that is in the file */
  [[nodiscard]] uint64_t written_seq() const { return m_written_seq; }

  /** @return true if neither the map nor its journal has all that was done */
  [[nodiscard]] bool is_stale() const {
    return m_written_stale_seq != m_stale_seq;
  }

  /** A map was written.
  @param[in]  mark  mark() when it was begun */
  void note_written(const Mark &mark) {
    m_written_seq = mark.seq;
    m_written_stale_seq = mark.stale_seq;
  }

  /** The map of the start-up is right. DDL of the start itself is not in the
  journal. */
  void note_start_written() { note_written({m_seq, FIRST_SEQ, 0, 0}); }

  /** The map in the file is not right. */
  void set_stale() { m_written_stale_seq = 0; }

 private:
  Current_map &m_current;
  const Roots &m_roots;
  Journal m_journal;
  std::atomic_bool m_is_serving{false};
  /** Begins and ends of DDL on files, recovery's included. */
  std::atomic<uint64_t> m_seq{FIRST_SEQ};
  std::atomic<uint64_t> m_n_ddl{0};
  std::atomic<uint64_t> m_import_seq{0};
  std::atomic<uint64_t> m_id_seq{0};
  std::atomic<uint64_t> m_n_imports{0};
  std::atomic<uint64_t> m_written_seq{0};
  /** What neither the map nor its journal has, and what it was when the map was
  written. */
  std::atomic<uint64_t> m_stale_seq{FIRST_SEQ};
  std::atomic<uint64_t> m_written_stale_seq{0};
  std::atomic<int64_t> m_last_nsec{0};
  /** Protects m_finder. No other latch is requested under it. */
  std::mutex m_finder_mutex;
  Place_finder m_finder;
  /** Protects m_looked_up. No other latch is requested under it. */
  mutable std::mutex m_looked_up_mutex;
  std::unordered_set<space_id_t> m_looked_up;
};

}  // namespace tablespace_map

#endif /* fil0mapimage_h */
