/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file include/fil0scan.h
The scan for tablespace files at start-up: list the directories with little
I/O, and read the headers of the files by io_uring if that is asked for.

fil/fil0scan.cc has the design; docs of the variable:
innodb_tablespace_check_io. Everything here builds on fil0check.h. */

#ifndef fil0scan_h
#define fil0scan_h

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "typelib.h"

#include "fil0observe.h"
#include "os0file.h"
#include "univ.i"

namespace tablespace_scan {

/** Values of innodb_tablespace_check_io. */
enum class Io : ulong {
  /** Threads, each with one file at a time. */
  THREADS,
  /** io_uring, if the system has it. */
  IO_URING,
  /** THREADS, at present. */
  AUTO
};

/** innodb_tablespace_check_io, an Io. */
extern ulong g_io;

/** Names of the values of innodb_tablespace_check_io. */
extern TYPELIB g_io_typelib;

/** Most io_uring instances, each with a thread of its own, if
innodb_tablespace_check_threads leaves the number to us. */
constexpr size_t MAX_AUTO_RINGS = 8;

/** With fewer files than this per ring, fewer rings are made. */
constexpr size_t MIN_FILES_PER_RING = 64;

/** Lives as long as the scan: meanwhile walk() lists directories for the thread
that made it, unless all variables leave things as they were. */
class Listing {
 public:
  Listing();
  ~Listing();

  Listing(const Listing &) = delete;
  Listing &operator=(const Listing &) = delete;
};

/** Called for each file.
@param[in]  path   its name
@param[in]  depth  number of directories between it and where the walk began,
                   plus 1 */
using Visit = std::function<void(const std::string &path, size_t depth)>;

/** Called with the name and the number of the inode of a file. */
using Push_file = std::function<void(const std::string &name, uint64_t inode)>;

/** A directory that is to be listed. */
struct Dir {
  /** Number of its inode. */
  uint64_t inode;
  /** Its path. */
  std::string path;
};

/** Asked for each directory before it is listed, by several threads at once.
@param[in]   path       its path
@param[out]  dirs       the directories in it, if true is returned
@param[in]   push_file  called with each file in it that has to be visited,
which is a regular file
@return true if it need not be listed */
using Skip = bool (*)(const std::string &path, std::vector<Dir> &dirs,
                      const Push_file &push_file);

/** If it is set, walk() asks it. */
extern Skip g_skip;

/** Asked for each file before its header is read by a ring, by several threads
at once.
@param[in]  path  its path
@return true if the check does not need the header */
using Is_known = bool (*)(const std::string &path);

/** If it is set, rings leave known files to the check. */
extern Is_known g_is_known;

/** Visit all files below a directory, in the order of their inodes, or what is
in it, directories as well. Of what the directory says to be a regular file or a
directory nothing else is asked.
@param[in]  directory  where to begin
@param[in]  recursive  whether to enter directories below
@param[in]  visit      called by this thread for each file, or entry
@return false if the original walk has to do it; nothing was done */
[[nodiscard]] bool walk(const std::string &directory, bool recursive,
                        const Visit &visit);

/** @param[in]  path  the string that walk() has passed to the visitor, or any
other
@return what it is, a regular file or a directory, if walk() is visiting it and
its directory says that; otherwise nothing */
[[nodiscard]] std::optional<os_file_type_t> known_type(const std::string &path);

/** @return true if known_type() is that of a directory, and no link to one
@param[in]  path  the same */
[[nodiscard]] bool is_known_directory(const std::string &path);

/** @return true if it is also the path that Fil_path::get_real_path() would
make of it, if walk() was given such a path; not where that turns letters into
lower case
@param[in]  path  the same */
[[nodiscard]] bool is_real_path(const std::string &path);

/** Lives as long as the check of the files: meanwhile their headers are read
by io_uring if innodb_tablespace_check_io says so and the system has it. */
class Ring_check {
 public:
  using Files = scan_observer::Files;

  /** Gives the path of a directory of the list, with a separator at its end. */
  using Dir_path = std::function<const std::string &(size_t dir_no)>;

  /** Constructor. Writes a note to the error log if io_uring was asked for.
  @param[in]      files      the files that will be checked
  @param[in]      dir_path   gives the path of a directory
  @param[in,out]  n_threads  number of additional threads; changed if it is
                             another with io_uring */
  Ring_check(const Files &files, Dir_path dir_path, size_t &n_threads);
  ~Ring_check();

  Ring_check(const Ring_check &) = delete;
  Ring_check &operator=(const Ring_check &) = delete;
};

/** How many rings to use.
@param[in]  n_files    number of files
@param[in]  n_threads  innodb_tablespace_check_threads
@return a number between 1 and that variable's maximum */
[[nodiscard]] size_t n_rings(size_t n_files, size_t n_threads);

}  // namespace tablespace_scan

#endif /* fil0scan_h */
