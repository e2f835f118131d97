/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file fil/fil0scan.cc
The scan for tablespace files at start-up.

Listing. The original walk asks for the type of each file twice, in the order of
the directory, which in ext4 is that of a hash. On a cold start each such
question reads an inode. Linux says the type in the directory itself, so that
only what is not a regular file (a directory, a link, an odd file) and what is
on a file system that does not tell needs to be asked for. The directories of
one depth are listed by several threads, in the order of their inodes.

The data directory itself. MySQL walks it three more times at each start, for
the files of the doublewrite buffer and for the directories of schemas, and asks
up to eleven times what a directory is. The listing knows that, too, so that
these walks ask nothing of a schema.

Order. Files are visited in the order of their inode numbers, which is the
order of their inodes on disk and, more often than not, of their data. So the
headers are read in that order too. The set of files is that of the original
walk.

Reading by io_uring. Each of a few threads has a ring, and takes files from a
common supply. It asks for the size of a file itself, which brings the
inode into the cache, so that the open within the ring need not wait; then the
chain of open, advise, read and close runs in the kernel (see fil0ring.cc). What
is too short, not read in full, or not a plain header is
given to the check as it is, which opens it by itself and decides and reports.
So each kind of file comes out as with threads. */

#include "fil0scan.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#ifndef _WIN32
#include <dirent.h>
#endif /* !_WIN32 */

#include "fil0check.h"
#include "fil0fil.h"
#include "fil0probe.h"
#include "fil0ring.h"
#include "os0file.h"
#include "scope_guard.h"
#include "sql/mysqld.h"
#include "srv0srv.h"

namespace tablespace_scan {

using namespace tablespace_check;

namespace {

const char *s_io_names[] = {"THREADS", "IO_URING", "AUTO", nullptr};

/** Whether this thread's recursive walks are ours. */
thread_local bool t_is_listing = false;

/** What walk() visits, if its directory says what it is. */
thread_local const std::string *t_known = nullptr;

/** What that is. */
thread_local os_file_type_t t_known_type = OS_FILE_TYPE_UNKNOWN;

bool is_ring_wanted() { return g_io == static_cast<ulong>(Io::IO_URING); }

#ifndef _WIN32
/** A file that was listed. */
struct File {
  /** Number of the inode. */
  uint64_t inode;
  /** Index of the directory among those of its depth. */
  size_t dir_no;
  /** Whether its directory says that it is a regular file. */
  bool is_known;
  /** Name in the directory. */
  std::string name;
};

/** What one directory holds. */
struct Dir_contents {
  /** Files, and whatever else is not a directory. */
  std::vector<File> files;
  /** The directories. */
  std::vector<Dir> dirs;
};

/** @return what a directory says that an entry is; OS_FILE_TYPE_UNKNOWN if it
does not, or if it is something else */
os_file_type_t type_of(const dirent &entry [[maybe_unused]]) {
#ifdef DT_REG
  if (entry.d_type == DT_REG) {
    return OS_FILE_TYPE_FILE;
  }
  if (entry.d_type == DT_DIR) {
    return OS_FILE_TYPE_DIR;
  }
#endif /* DT_REG */
  return OS_FILE_TYPE_UNKNOWN;
}

/** @return path of a file. As in MySQL's walk a backslash at the end of a
directory's name is a separator, which it is not for the map.
@param[in]  dir   its directory
@param[in]  name  its name in there */
std::string join(const std::string &dir, const std::string &name) {
  std::string path;
  path.reserve(dir.size() + 1 + name.size());
  path = dir;

  if (!Fil_path::is_separator(path.back())) {
    path += OS_PATH_SEPARATOR;
  }

  return path += name;
}

/** Read a directory, but for what is hidden.
@param[in]  dir  its path
@param[in]  use  called with each entry and its path */
template <typename Use>
void read_directory(const std::string &dir, const Use &use) {
  tablespace_probe::Dir_reader reader(dir);

  if (!reader.is_open()) {
    ib::info(ER_IB_MSG_784) << "Failed to walk directory '" << dir << "'";
    return;
  }

  while (const dirent *entry = reader.next()) {
    auto path = join(dir, entry->d_name);

    if (Fil_path::is_hidden(path)) {
      ib::info(ER_IB_MSG_SKIP_HIDDEN_DIR, path.c_str());
      continue;
    }

    use(*entry, std::move(path));
  }
}

/** List one directory.
@param[in]   dir       its path
@param[in]   dir_no    its number
@param[out]  contents  what it holds */
void list(const std::string &dir, size_t dir_no, Dir_contents &contents) {
  if (g_skip != nullptr &&
      g_skip(dir, contents.dirs, [&](const std::string &name, uint64_t inode) {
        contents.files.push_back({inode, dir_no, true, name});
      })) {
    return;
  }

  read_directory(dir, [&](const dirent &entry, std::string &&path) {
    const auto inode = static_cast<uint64_t>(entry.d_ino);
    const auto type = type_of(entry);

    if (type == OS_FILE_TYPE_DIR ||
        (type == OS_FILE_TYPE_UNKNOWN && Dir_Walker::is_directory(path))) {
      contents.dirs.push_back({inode, std::move(path)});
    } else {
      contents.files.push_back(
          {inode, dir_no, type == OS_FILE_TYPE_FILE, entry.d_name});
    }
  });
}

/** Tell what is being visited. */
class Visiting {
 public:
  /** @param[in]  path  its path
  @param[in]  type  what it is; OS_FILE_TYPE_UNKNOWN if that is not known */
  Visiting(const std::string &path, os_file_type_t type) {
    t_known = type == OS_FILE_TYPE_UNKNOWN ? nullptr : &path;
    t_known_type = type;
  }

  ~Visiting() { t_known = nullptr; }

  Visiting(const Visiting &) = delete;
  Visiting &operator=(const Visiting &) = delete;
};

#endif /* !_WIN32 */

/** Read headers with one ring until the common supply of files is used up.
@param[in]  options    how files are read
@param[in]  path_of    gives the name of a file
@param[in]  work       the supply
@param[in]  thread_no  number of this thread
@param[in]  check      checks a file */
void check_by_ring(const Header_ring::Options &options,
                   const std::function<std::string(size_t)> &path_of,
                   Work_share &work, size_t thread_no, const Check &check) {
  const uint64_t page_size_bytes = srv_page_size;

  const auto next = [&](size_t &item, std::string &path) {
    while (work.next(item)) {
      path = path_of(item);

      if (g_is_known != nullptr && g_is_known(path)) {
        check(item, thread_no);
        continue;
      }

      /* If there is no such file, the size is large and the ring finds out. */
      if (os_file_get_size(path.c_str()).m_total_size >= page_size_bytes) {
        return true;
      }

      check(item, thread_no);
    }

    return false;
  };

  const auto done = [&](size_t item, const byte *header) {
    const auto space_id =
        header == nullptr ? SPACE_UNKNOWN
                          : parse_space_id(header, options.n_bytes,
                                           page_size_bytes, page_size_bytes);

    if (space_id == SPACE_UNKNOWN) {
      check(item, thread_no);
      return;
    }

    count_read(options.n_bytes);
    const Known_space_id known(space_id);
    check(item, thread_no);
  };

  std::string error;

  if (const auto ring = Header_ring::create(options, error)) {
    (void)ring->run(next, done);
  }

  /* What is left if this ring could not be made, or failed. */
  for (size_t item; work.next(item);) {
    check(item, thread_no);
  }
}

/** Check files with several rings.
@param[in]  n_files  number of files
@param[in]  path_of  gives the name of a file
@param[in]  options  how files are read
@param[in]  check    checks a file */
void check_by_rings(size_t n_files,
                    const std::function<std::string(size_t)> &path_of,
                    const Header_ring::Options &options, const Check &check) {
  Work_share work{n_files};
  std::vector<std::function<void()>> joins;

  try {
    for (size_t no = 1; no < n_rings(n_files, g_threads); ++no) {
      joins.push_back(start_server_thread(
          no, [&, no]() { check_by_ring(options, path_of, work, no, check); }));
    }
  } catch (const std::system_error &) {
    /* Those that there are do the work. */
  }

  check_by_ring(options, path_of, work, 0, check);

  for (const auto &join : joins) {
    join();
  }
}

}  // namespace

ulong g_io = static_cast<ulong>(Io::AUTO);

Skip g_skip = nullptr;

Is_known g_is_known = nullptr;

TYPELIB g_io_typelib = {array_elements(s_io_names) - 1, "tablespace_check_io",
                        s_io_names, nullptr};

Listing::Listing() {
#ifndef _WIN32
  t_is_listing = is_on() || is_ring_wanted();
#endif /* !_WIN32 */
}

Listing::~Listing() { t_is_listing = false; }

bool walk(const std::string &directory, bool recursive, const Visit &visit) {
#ifdef _WIN32
  return false;
#else
  if (recursive ? !t_is_listing : !is_on() && !is_ring_wanted()) {
    return false;
  }
  if (Fil_path::is_hidden(directory)) {
    ib::info(ER_IB_MSG_SKIP_HIDDEN_DIR, directory.c_str());
    return true;
  }
  if (!recursive) {
    read_directory(directory, [&](const dirent &entry, std::string &&path) {
      const Visiting visiting(path, type_of(entry));
      visit(path, 1);
    });
    return true;
  }

  /* Directories of one depth, and then of the next. */
  std::vector<std::vector<Dir>> dirs{{{0, directory}}};
  /** A file and the depth of its directory. */
  std::vector<std::pair<File, size_t>> files;

  for (size_t depth = 0; !dirs[depth].empty(); ++depth) {
    const auto &level = dirs[depth];
    std::vector<Dir_contents> contents(level.size());

    share_work(level.size(), make_ramp(level.size()), start_server_thread,
               [&](size_t dir_no, size_t) {
                 list(level[dir_no].path, dir_no, contents[dir_no]);
               });

    std::vector<Dir> below;

    for (auto &dir : contents) {
      std::move(dir.dirs.begin(), dir.dirs.end(), std::back_inserter(below));
      for (auto &file : dir.files) {
        files.emplace_back(std::move(file), depth);
      }
      dir.files.clear();
    }

    std::sort(below.begin(), below.end(),
              [](const auto &a, const auto &b) { return a.inode < b.inode; });
    dirs.push_back(std::move(below));
  }

  std::sort(files.begin(), files.end(), [](const auto &a, const auto &b) {
    return a.first.inode < b.first.inode;
  });

  for (const auto &[file, depth] : files) {
    const auto path = join(dirs[depth][file.dir_no].path, file.name);
    const Visiting visiting(
        path, file.is_known ? OS_FILE_TYPE_FILE : OS_FILE_TYPE_UNKNOWN);
    visit(path, depth + 1);
  }

  return true;
#endif /* _WIN32 */
}

std::optional<os_file_type_t> known_type(const std::string &path) {
  return t_known == &path ? std::optional(t_known_type) : std::nullopt;
}

bool is_known_directory(const std::string &path) {
  return known_type(path) == OS_FILE_TYPE_DIR;
}

bool is_real_path(const std::string &path) {
  return !lower_case_file_system && is_known_directory(path);
}

size_t n_rings(size_t n_files, size_t n_threads) {
  const auto useful = std::max<size_t>(n_files / MIN_FILES_PER_RING, 1);

  return std::min(useful, n_threads != 0 ? n_threads : MAX_AUTO_RINGS);
}

Ring_check::Ring_check(const Files &files, Dir_path dir_path,
                       size_t &n_threads) {
  /* A scan that is repeated has other files. */
  g_check_all = nullptr;

  if (!is_ring_wanted() || files.empty()) {
    return;
  }

  const Header_ring::Options options{
      g_light ? LIGHT_READ_BYTES : static_cast<size_t>(srv_page_size),
      !g_fadvise, g_fadvise};

  std::string error;

  if (Header_ring::create(options, error) == nullptr) {
    ib::info(ER_IB_MSG_382)
        << "io_uring is not available (" << error << "); using only "
        << "threads to scan tablespace files";
    return;
  }

  n_threads = n_rings(files.size(), g_threads) - 1;

  ib::info(ER_IB_MSG_382) << "Using io_uring, with up to " << Header_ring::DEPTH
                          << " files at a time in each of " << n_threads + 1
                          << " threads to scan tablespace files";

  g_check_all = [&files, dir_path = std::move(dir_path), options](
                    size_t n_files, const Check &check) {
    ut_a(n_files == files.size());

    const auto path_of = [&](size_t item) {
      const auto &[dir_no, name] = files[item];
      return dir_path(dir_no) + name;
    };

    check_by_rings(n_files, path_of, options, check);
  };
}

Ring_check::~Ring_check() { g_check_all = nullptr; }

namespace {

/** Lists the directories and reads the headers. */
class Reader : public scan_observer::Observer {
 public:
  Reader() : Observer(scan_observer::Place::INPUT) {}

  void begin(const scan_observer::Roots &roots) override {
    m_roots = &roots;
    m_listing.emplace();
  }

  void listed(const scan_observer::Files &files, size_t,
              size_t &n_threads) override {
    m_ring_check.emplace(
        files,
        [this](size_t dir_no) -> const std::string & {
          return (*m_roots)[dir_no].first;
        },
        n_threads);
  }

  bool end(bool) override {
    m_ring_check.reset();
    m_listing.reset();
    return false;
  }

 private:
  /** Directories that are scanned. */
  const scan_observer::Roots *m_roots{};
  /** Lives as long as the scan. */
  std::optional<Listing> m_listing;
  /** Lives from when the files are known until the scan ends. */
  std::optional<Ring_check> m_ring_check;
};

Reader s_reader;

}  // namespace

}  // namespace tablespace_scan
