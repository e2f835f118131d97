/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file include/fil0mapimage.h
The map that is in the data directory: its file, the directories that it is
about, and the files that it describes. */

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

}  // namespace tablespace_map

#endif /* fil0mapimage_h */
