/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file include/fil0dir.h
Reading one directory. Whoever lists tablespace files does it with this: the
scan at start-up, the map and its journal. How they go from a directory to those
below stays with them. The scan takes all directories of a depth at once, with
several threads, and sorts files by inode, so that headers are read in the order
of the disk. The map is written by one thread, in the order of its file: sorted
by name, a directory before what is below it. */

#ifndef fil0dir_h
#define fil0dir_h

#ifndef _WIN32

#include <cerrno>
#include <string>
#include <string_view>

#include <dirent.h>

namespace tablespace_scan {

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

}  // namespace tablespace_scan

#endif /* !_WIN32 */

#endif /* fil0dir_h */
