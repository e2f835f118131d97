/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file fil/fil0probe.cc
Looking at tablespace files without opening the tablespaces. */

#include "fil0probe.h"

#include <algorithm>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fil0check.h"
#include "fil0fil.h"
#include "fsp0fsp.h"
#include "mach0data.h"
#include "scope_guard.h"
#include "srv0srv.h"

namespace tablespace_probe {

bool file_identity(int fd, const std::string &path, File_identity &id) {
#ifdef STATX_BTIME
  struct statx st;

  if (statx(fd, path.c_str(),
            path.empty() ? AT_EMPTY_PATH : AT_SYMLINK_NOFOLLOW,
            STATX_BASIC_STATS | STATX_BTIME, &st) != 0 ||
      !S_ISREG(st.stx_mode)) {
    return false;
  }
  id = {0, 0};
  if (st.stx_nlink != 1) {
    return true;
  }
  id.ino = st.stx_ino;
  if (st.stx_mask & STATX_BTIME) {
    id.btime_nsec =
        int64_t{st.stx_btime.tv_sec} * 1'000'000'000 + st.stx_btime.tv_nsec;
  }
  return true;
#else
  return false;
#endif /* STATX_BTIME */
}

File_header::File_header() : space_id(SPACE_UNKNOWN) {}

bool File_header::is_of(space_id_t id) const {
  return state == Header_state::PLAIN && space_id == id &&
         fsp_flags_is_valid(flags);
}

File_header read_header(const std::string &path, bool with_page) {
  File_header header;
  const int fd =
      ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

  if (fd < 0) {
    if (errno == ENOENT || errno == ENOTDIR || errno == ELOOP) {
      header.state = Header_state::ODD;
    }
    return header;
  }
  const auto guard = create_scope_guard([fd]() { close(fd); });

#ifdef POSIX_FADV_RANDOM
  (void)posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
#endif /* POSIX_FADV_RANDOM */

  byte buf[64];
  static_assert(FSP_HEADER_OFFSET + FSP_SPACE_FLAGS + 4 <= sizeof buf);

  if (!file_identity(fd, "", header.identity)) {
    return header;
  }

  const auto n_bytes = ::pread(fd, buf, sizeof buf, 0);

  if (n_bytes < 0) {
    return header;
  }
  header.state = Header_state::ODD;
  if (n_bytes != ssize_t{sizeof buf}) {
    return header;
  }
  const auto flags =
      mach_read_from_4(buf + FSP_HEADER_OFFSET + FSP_SPACE_FLAGS);
  const auto page_bytes =
      fsp_flags_is_valid(flags) ? page_size_t(flags).physical() : srv_page_size;

  const auto file_bytes = lseek(fd, 0, SEEK_END);

  /* No page can be read of a file that is shorter. */
  if (file_bytes >= static_cast<off_t>(page_bytes)) {
    header.space_id = mach_read_from_4(buf + FIL_PAGE_SPACE_ID);
    header.flags = flags;
    if (tablespace_check::parse_space_id(buf, sizeof buf, file_bytes,
                                         page_bytes) != SPACE_UNKNOWN) {
      header.state = Header_state::PLAIN;
    }
  }
  if (with_page) {
    std::vector<byte> page(std::max<size_t>(page_bytes, srv_page_size));
    /* Who validates it reports what is wrong. */
    (void)!::pread(fd, page.data(), page.size(), 0);
  }
  return header;
}

bool read_all(int fd, uint64_t offset, size_t n_bytes, char *to) {
  for (size_t n = 0; n < n_bytes;) {
    const auto got = ::pread(fd, to + n, n_bytes - n, offset + n);
    if (got <= 0) {
      return false;
    }
    n += got;
  }
  return true;
}

bool Roots::split(std::string_view path, bool is_abs, uint32_t &root,
                  std::string_view &rest) const {
  for (root = 0; root < m_roots.size(); ++root) {
    const auto &prefix = is_abs ? m_roots[root].second : m_roots[root].first;

    if (path.substr(0, prefix.size()) == prefix) {
      rest = path.substr(prefix.size());
      while (!rest.empty() && rest.front() == '/') rest.remove_prefix(1);
      while (!rest.empty() && rest.back() == '/') rest.remove_suffix(1);
      return true;
    }
  }
  return false;
}

std::string Roots::file_path(const Place &place) const {
  const auto &[prefix, abs_prefix] = m_roots[place.first];
  const auto &rest = place.second;
  const auto abs = abs_prefix + rest;
  const auto home = MySQL_datadir_path.abs_path();

  /* A root may be above the data directory. */
  return abs.compare(0, home.size(), home) == 0 ? "./" + abs.substr(home.size())
                                                : prefix + rest;
}

std::optional<Place> Place_finder::find(const std::string &path) {
  const auto pos = path.rfind('/') + 1;
  const auto dir = path.substr(0, pos);
  auto it = m_dirs.find(dir);

  if (it == m_dirs.end()) {
    it = m_dirs.emplace(dir, find_dir(dir)).first;
  }
  if (!it->second) {
    return std::nullopt;
  }
  const auto &[root, below] = *it->second;
  return Place{root, (below.empty() ? below : below + '/') + path.substr(pos)};
}

std::optional<Place> Place_finder::find_dir(const std::string &dir) const {
  uint32_t root;
  std::string_view rest;
  const bool is_plain = dir.find("..") == std::string::npos;
  /* `rest` is a part of what is split. */
  const auto absolute = dir.substr(0, 2) == "./"
                            ? MySQL_datadir_path.abs_path() + dir.substr(2)
                            : std::string{};

  if (is_plain &&
      (m_roots.split(dir, false, root, rest) ||
       m_roots.split(dir, true, root, rest) ||
       (!absolute.empty() && m_roots.split(absolute, true, root, rest)))) {
    return Place{root, rest};
  }

  const auto real = Fil_path::get_real_path(dir.empty() ? "./" : dir);

  if (m_roots.split(real, true, root, rest)) {
    return Place{root, rest};
  }
  return std::nullopt;
}

}  // namespace tablespace_probe
