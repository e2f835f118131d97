/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file include/fil0probe.h
Looking at tablespace files without opening the tablespaces: what is in a
directory and whether that has changed, under which of the scanned directories a
file is, which file it is, and what its header says.

Whoever lists tablespace files reads directories with what is here: the scan at
start-up, the map and its journal. How they go from a directory to those below
stays with them. The scan takes all directories of a depth at once, with several
threads, and sorts files by inode, so that headers are read in the order of the
disk. The map is made by one thread in the order of its file: sorted by name, a
directory before what is below it. */

#ifndef fil0probe_h
#define fil0probe_h

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#ifndef _WIN32
#include <dirent.h>
#endif /* !_WIN32 */

#include "fil0observe.h"
#include "fil0types.h"

namespace tablespace_probe {

#ifndef _WIN32
/** Reads the entries of a directory. */
class Dir_reader {
 public:
  /** @param[in]  path  its path */
  explicit Dir_reader(const std::string &path)
      : m_dir(opendir(path.c_str())), m_error(m_dir == nullptr ? errno : 0) {}

  ~Dir_reader() {
    if (m_dir != nullptr) {
      closedir(m_dir);
    }
  }

  Dir_reader(const Dir_reader &) = delete;
  Dir_reader &operator=(const Dir_reader &) = delete;

  /** @return false if it could not be opened */
  [[nodiscard]] bool is_open() const { return m_dir != nullptr; }

  /** @return errno of what failed, or 0: the directory was read to its end, or
  can be read on */
  [[nodiscard]] int error() const { return m_error; }

  /** @return the next entry but for "." and "..", or nullptr if there is none
  or reading has failed. Call it only if the directory is open. */
  [[nodiscard]] const dirent *next() {
    for (;;) {
      errno = 0;
      const dirent *entry = readdir(m_dir);

      if (entry == nullptr) {
        m_error = errno;
        return nullptr;
      }

      const std::string_view name(entry->d_name);

      if (name != "." && name != "..") {
        return entry;
      }
    }
  }

 private:
  DIR *const m_dir;
  int m_error;
};
#endif /* !_WIN32 */

/** A directory changed within this time of being looked at may change again
without a visible difference of its times, if they are coarse. */
constexpr int64_t RACY_NSEC = 2'000'000'000;

/** What tells one state of a directory from another. */
struct Dir_identity {
  /** File system: from its UUID, where it has one, or its device number. */
  uint64_t dev;
  /** Inode number. */
  uint64_t ino;
  /** Time of the last change of the content, in nanoseconds. */
  int64_t mtime_nsec;
  /** Time of the last change of the inode; cannot be set by users. */
  int64_t ctime_nsec;

  bool operator==(const Dir_identity &) const = default;
};

/** @return nanoseconds of the clock that files get their times from */
[[nodiscard]] int64_t now_nsec();

/** @return true if the directory may change again without its identity changing
@param[in]  id        the directory
@param[in]  now_nsec  time when it was looked at */
[[nodiscard]] bool is_racy(const Dir_identity &id, int64_t now_nsec);

/** @return true if the times of a directory may be those of a file system that
knows only whole seconds
@param[in]  id  the directory */
[[nodiscard]] bool is_coarse(const Dir_identity &id);

/** Get the identity of a directory.
@param[in]   path  its path
@param[out]  id    identity
@return false if there is no such directory */
[[nodiscard]] bool dir_identity(const std::string &path, Dir_identity &id);

/** Give a directory a time of change of our own, which the kernel would not:
whatever is changed in it next, even in the same tick of the kernel's clock,
makes it another one.
@param[in]   path  its path
@param[out]  id    identity after that
@return false if the directory does not keep the time, or there is none */
[[nodiscard]] bool stamp_directory(const std::string &path, Dir_identity &id);

/** Whether a file system gives directories another time when something is made
or removed in them. */
enum class Times {
  /** It does. */
  KEPT,
  /** It does not, or not soon enough. */
  NOT_KEPT,
  /** Nothing can be made there. */
  UNKNOWN
};

/** Try that in a directory, which changes its time.
@param[in]  path  its path
@return what was found; a file that this makes is removed */
[[nodiscard]] Times test_times(const std::string &path);

/** Knows of file systems what test_times() has found; of one thread. */
class Tested_times {
 public:
  /** @return what it has found; if it has to be tried, the directory gets
  another identity
  @param[in]      path    a directory
  @param[in,out]  id      its identity
  @param[in]      test    test_times(), while nothing else sets times of
                          directories
  @param[in]      report  called when it is found that times are not kept, if
                          they might be: one with whole seconds is too slow for
                          the test, and is not trusted anyway */
  [[nodiscard]] Times of(const std::string &path, Dir_identity &id,
                         const std::function<Times()> &test,
                         const std::function<void()> &report);

 private:
  /** By the identity of the file system. */
  std::unordered_map<uint64_t, Times> m_times;
};

/** @return what tells this boot of the machine from others; empty if that is
not known */
[[nodiscard]] std::string boot_id();

/** What tells one file from another of the same name. */
struct File_identity {
  /** Inode number. */
  uint64_t ino;
  /** Time of birth in nanoseconds; 0 if the file system has none. */
  int64_t btime_nsec;

  /** @return true if it is certain that this is the same file
  @param[in]  other  identity to compare with */
  [[nodiscard]] bool is_same(const File_identity &other) const {
    return btime_nsec != 0 && *this == other;
  }

  bool operator==(const File_identity &) const = default;
};

/** Get the identity of a file. A link is not followed: what it points to has
another path, which decides what the server thinks of the file.
@param[in]   fd    file descriptor, or AT_FDCWD
@param[in]   path  file name; empty for fd itself
@param[out]  id    identity; with inode 0 if the file has several names, since
                   what is done to it under another name is not seen here
@return false if it is not a regular file */
[[nodiscard]] bool file_identity(int fd, const std::string &path,
                                 File_identity &id);

/** What became of an attempt to read a header. */
enum class Header_state {
  /** It is one of a tablespace. */
  PLAIN,
  /** There is no file, or it holds something else. */
  ODD,
  /** It could not be read, which says nothing about it. */
  UNREADABLE
};

/** The header of a tablespace file. */
struct File_header {
  File_header();

  Header_state state{Header_state::UNREADABLE};
  /** Tablespace ID; SPACE_UNKNOWN unless something was read. */
  space_id_t space_id;
  /** FSP flags. */
  uint32_t flags{0};
  /** Identity of the file that was read. */
  File_identity identity{0, 0};

  /** @return true if it is the header of a tablespace
  @param[in]  id  tablespace ID */
  [[nodiscard]] bool is_of(space_id_t id) const;

  /** @return true if it is certainly not the header of a tablespace
  @param[in]  id  tablespace ID */
  [[nodiscard]] bool is_not_of(space_id_t id) const {
    return state != Header_state::UNREADABLE && !is_of(id);
  }
};

/** Read the header of a tablespace file. A link is not followed.
@param[in]  path      file name
@param[in]  n_wanted  bytes from the beginning of the file that are to be in the
                      page cache then, because they are read next
@return what was read */
[[nodiscard]] File_header read_header(const std::string &path,
                                      size_t n_wanted = 0);

/** Read from a file.
@param[in]   fd       the file
@param[in]   offset   where to begin
@param[in]   n_bytes  how much to read
@param[out]  to       where to put it
@return false if not all of that is there */
[[nodiscard]] bool read_all(int fd, uint64_t offset, size_t n_bytes, char *to);

/** @return true if a file name may be that of a partition from before the names
were all lower case; the scan renames such files
@param[in]  name  file name */
[[nodiscard]] bool is_old_partition(std::string_view name);

/** Read a file, which is not waited for. A link is not followed.
@param[in]  path       file name
@param[in]  max_bytes  of a larger one nothing is read
@return what is in it; empty if it is not a file, or cannot be read */
[[nodiscard]] std::string read_plain_file(const std::string &path,
                                          uint64_t max_bytes);

/** Write to a file.
@param[in]  fd      the file
@param[in]  offset  where to begin
@param[in]  bytes   what to write
@return false if not all of that was written */
[[nodiscard]] bool write_all(int fd, uint64_t offset, std::string_view bytes);

/** @return true if there is nothing in a directory. One that has been large is
not looked into: that could take long.
@param[in]  path  its path */
[[nodiscard]] bool is_empty_directory(const std::string &path);

/** Make what was renamed or removed in a directory durable.
@param[in]  path  its path */
void sync_directory(const std::string &path);

/** @return path of a file
@param[in]  dir   its directory, or nothing
@param[in]  name  its name in there */
[[nodiscard]] std::string join(const std::string &dir, const std::string &name);

/** @return what a path under a root is known by
@param[in]  root  number of the root
@param[in]  path  path relative to it */
[[nodiscard]] std::string key(uint32_t root, const std::string &path);

/** Where a file is: number of its root, and path relative to that. */
using Place = std::pair<uint32_t, std::string>;

/** The directories that are scanned. Set when a scan begins, by the thread that
starts the server, before any other asks. */
class Roots {
 public:
  void set(const scan_observer::Roots &roots) { m_roots = roots; }

  [[nodiscard]] uint32_t size() const {
    return static_cast<uint32_t>(m_roots.size());
  }

  /** Split a path into root and the rest.
  @param[in]   path    path
  @param[in]   is_abs  true to compare with the absolute paths of the roots
  @param[out]  root    number of the root
  @param[out]  rest    the rest, without slash at its ends
  @return false if it is not under a root */
  [[nodiscard]] bool split(std::string_view path, bool is_abs, uint32_t &root,
                           std::string_view &rest) const;

  /** @return absolute path of a directory
  @param[in]  root  number of its root
  @param[in]  path  path relative to that */
  [[nodiscard]] std::string dir_path(uint32_t root,
                                     const std::string &path) const {
    return m_roots[root].second + path;
  }

  /** @return the path of a file, as the server writes it
  @param[in]  place  where it is */
  [[nodiscard]] std::string file_path(const Place &place) const;

  /** @return the directories */
  [[nodiscard]] const scan_observer::Roots &dirs() const { return m_roots; }

 private:
  scan_observer::Roots m_roots;
};

/** Finds out where files are, whatever spelling of its directory the path of a
file has. */
class Place_finder {
 public:
  /** @param[in]  roots  where to look */
  explicit Place_finder(const Roots &roots) : m_roots(roots) {}

  /** @return nothing if the file is under none of the roots
  @param[in]  path  path of a file */
  [[nodiscard]] std::optional<Place> find(const std::string &path);

 private:
  [[nodiscard]] std::optional<Place> find_dir(const std::string &dir) const;

  const Roots &m_roots;
  /** Directories by the paths that files were asked for with. */
  std::unordered_map<std::string, std::optional<Place>> m_dirs;
};

/** The tablespace IDs that the scan has read from headers, for who would read
them once more. */
class Read_ids {
 public:
  /** A scan begins. */
  void begin() {
    clear();
    m_begin_nsec = now_nsec();
  }

  /** The header of a file was read. Thread-safe.
  @param[in]  file      key of the file
  @param[in]  space_id  its tablespace ID */
  void add(std::string file, space_id_t space_id) {
    const std::lock_guard guard(m_mutex);
    m_ids.emplace(std::move(file), space_id);
  }

  /** Look up what was read.
  @param[in]  file  key of the file
  @param[in]  dir   its directory, as it is now
  @return SPACE_UNKNOWN if the file was not read, or if there may be another of
  the same name by now */
  [[nodiscard]] space_id_t find(const std::string &file,
                                const Dir_identity &dir) const;

  /** @return all of them, by the keys of their files; when no thread adds any
   */
  const auto &ids() const { return m_ids; }

  /** Give the memory back. */
  void clear() { m_ids = {}; }

 private:
  std::mutex m_mutex;
  std::unordered_map<std::string, space_id_t> m_ids;
  /** When the scan began. */
  int64_t m_begin_nsec{0};
};

}  // namespace tablespace_probe

#endif /* fil0probe_h */
