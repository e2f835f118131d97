/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file fil/fil0probe.cc
Looking at tablespace files without opening the tablespaces. */

#include "fil0probe.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#ifdef __linux__
#include <sys/ioctl.h>
#include <sys/vfs.h>
#endif /* __linux__ */
#include <unistd.h>

#include "fil0check.h"
#include "fil0fil.h"
#include "fsp0fsp.h"
#include "mach0data.h"
#include "scope_guard.h"
#include "srv0srv.h"

namespace tablespace_probe {

namespace {

/** File that is made and removed by test_times(). DROP DATABASE takes what ends
like this for its own, and removes it. */
constexpr char TEST_NAME[] = "#innodb_tablespace_map.TMD";

/** Kernels give files the time of the last tick, which come 100 times a second
at least. */
constexpr auto LONGER_THAN_TICK = std::chrono::milliseconds(30);

constexpr int64_t SEC = 1'000'000'000;

int64_t nsec(const struct timespec &t) {
  return int64_t{t.tv_sec} * SEC + t.tv_nsec;
}

/** @return what a file system is known by, whatever device number it gets when
it is mounted
@param[in]  fd   a directory on it
@param[in]  dev  its device number, which is returned if there is nothing else
*/
uint64_t read_filesystem_id(int fd, uint64_t dev) {
#ifdef __linux__
  /* What Linux 6.9 and newer have; headers may be older. */
  struct {
    uint8_t n_bytes;
    uint8_t uuid[16];
  } id{};
  constexpr auto GET_UUID = _IOR(0x15, 0, decltype(id));

  if (ioctl(fd, GET_UUID, &id) == 0 && id.n_bytes == sizeof id.uuid) {
    uint64_t halves[2];
    memcpy(halves, id.uuid, sizeof halves);
    return halves[0] ^ halves[1];
  }

  /* Of these two it is made of the UUID; of others of the device number. */
  constexpr auto EXT4 = 0xEF53;
  constexpr auto BTRFS = 0x9123683E;
  struct statfs st;

  if (fstatfs(fd, &st) == 0 && (st.f_type == EXT4 || st.f_type == BTRFS)) {
    uint64_t fsid;
    static_assert(sizeof fsid == sizeof st.f_fsid);
    memcpy(&fsid, &st.f_fsid, sizeof fsid);
    if (fsid != 0) {
      return fsid;
    }
  }
#endif /* __linux__ */
  return dev;
}

/** @return the same
@param[in]  path  path of a directory
@param[in]  dev   device number */
uint64_t filesystem_id(const std::string &path, uint64_t dev) {
  static std::mutex s_mutex;
  /** What was read, by device number. */
  static std::map<uint64_t, uint64_t> s_ids;

  const std::lock_guard guard(s_mutex);
  const auto [it, is_new] = s_ids.emplace(dev, dev);

  if (is_new) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
      it->second = read_filesystem_id(fd, dev);
      close(fd);
    } else {
      s_ids.erase(it);
      return dev;
    }
  }
  return it->second;
}

Dir_identity identity_of(const std::string &path, const struct stat &st) {
  return {filesystem_id(path, st.st_dev), st.st_ino, nsec(st.st_mtim),
          nsec(st.st_ctim)};
}

}  // namespace

int64_t now_nsec() {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return nsec(t);
}

bool is_racy(const Dir_identity &id, int64_t now) {
  return std::max(id.mtime_nsec, id.ctime_nsec) > now - RACY_NSEC;
}

bool is_coarse(const Dir_identity &id) {
  constexpr int64_t SEC = 1'000'000'000;
  return id.mtime_nsec % SEC == 0 && id.ctime_nsec % SEC == 0;
}

bool dir_identity(const std::string &path, Dir_identity &id) {
  struct stat st;

  if (stat(path.c_str(), &st) != 0 || !S_ISDIR(st.st_mode)) {
    return false;
  }
  id = identity_of(path, st);
  return true;
}

bool stamp_directory(const std::string &path, Dir_identity &id) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

  if (fd < 0) {
    return false;
  }

  std::array<struct timespec, 2> times{};
  struct timespec tick {};
  struct stat st;

  times[0].tv_nsec = UTIME_OMIT;
  clock_gettime(CLOCK_REALTIME, &times[1]);
#ifdef CLOCK_REALTIME_COARSE
  clock_gettime(CLOCK_REALTIME_COARSE, &tick);
#endif /* CLOCK_REALTIME_COARSE */
  /* Neither the time of a tick nor a whole second. */
  if (times[1].tv_nsec == tick.tv_nsec || times[1].tv_nsec == 0) {
    times[1].tv_nsec ^= 1;
  }

  const bool is_good = futimens(fd, times.data()) == 0 && fstat(fd, &st) == 0;

  close(fd);
  if (!is_good) {
    return false;
  }
  id = identity_of(path, st);
  return id.mtime_nsec == nsec(times[1]);
}

Times test_times(const std::string &path) {
  const auto file = path + '/' + TEST_NAME;
  Dir_identity before;
  Dir_identity after;
  const auto make = [&]() {
    const int fd = ::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                          S_IRUSR | S_IWUSR);
    if (fd >= 0) {
      close(fd);
    }
    return fd >= 0;
  };
  /* Where times cannot be set, both changes would come in one tick. */
  const auto begin = [&]() {
    if (!stamp_directory(path, before)) {
      std::this_thread::sleep_for(LONGER_THAN_TICK);
    }
    return dir_identity(path, before);
  };

  /* Of a server that is gone. */
  (void)unlink(file.c_str());
  if (!make() || unlink(file.c_str()) != 0 || !begin() || !make()) {
    return Times::UNKNOWN;
  }

  const bool is_making_seen = dir_identity(path, after) && after != before;
  const bool can_begin = begin();

  if (unlink(file.c_str()) != 0 || !can_begin) {
    return Times::UNKNOWN;
  }
  return is_making_seen && dir_identity(path, after) && after != before
             ? Times::KEPT
             : Times::NOT_KEPT;
}

Times Tested_times::of(const std::string &path, Dir_identity &id,
                       const std::function<Times()> &test,
                       const std::function<void()> &report) {
  const auto it = m_times.find(id.dev);

  if (it != m_times.end()) {
    return it->second;
  }

  const auto dev = id.dev;
  const bool is_known_coarse = is_coarse(id);
  const auto times = test();

  if (times == Times::UNKNOWN || !dir_identity(path, id) || id.dev != dev) {
    return Times::UNKNOWN;
  }
  if (times == Times::NOT_KEPT && !is_known_coarse) {
    report();
  }
  m_times[dev] = times;
  return times;
}

std::string boot_id() {
  const int fd =
      ::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);

  if (fd < 0) {
    return {};
  }
  std::array<char, 64> buf;
  const auto n = ::read(fd, buf.data(), buf.size());

  close(fd);
  return n <= 0 ? std::string{} : std::string(buf.data(), n);
}

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

File_header read_header(const std::string &path, size_t n_wanted) {
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

  constexpr size_t HEAD_BYTES = 64;
  static_assert(FSP_HEADER_OFFSET + FSP_SPACE_FLAGS + 4 <= HEAD_BYTES);
  byte buf[HEAD_BYTES];

  if (!file_identity(fd, "", header.identity)) {
    return header;
  }

#ifdef POSIX_FADV_WILLNEED
  /* All with one I/O. */
  if (n_wanted > 0) {
    (void)posix_fadvise(fd, 0, n_wanted, POSIX_FADV_WILLNEED);
  }
#endif /* POSIX_FADV_WILLNEED */
  const auto n_bytes = ::pread(fd, buf, HEAD_BYTES, 0);

  if (n_bytes < 0) {
    return header;
  }
  header.state = Header_state::ODD;
  if (n_bytes < ssize_t{HEAD_BYTES}) {
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
    if (tablespace_check::parse_space_id(buf, HEAD_BYTES, file_bytes,
                                         page_bytes) != SPACE_UNKNOWN) {
      header.state = Header_state::PLAIN;
    }
  }
  if (n_wanted > 0) {
    std::vector<byte> wanted(n_wanted);
    /* Who validates it reports what is wrong. */
    (void)!::pread(fd, wanted.data(), n_wanted, 0);
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

bool is_old_partition(std::string_view name) {
  const auto pos = std::min(name.find("#P#"), name.find("#p#"));

  return pos != std::string_view::npos &&
         std::any_of(name.begin() + pos, name.end(),
                     [](char c) { return c >= 'A' && c <= 'Z'; });
}

std::string read_plain_file(const std::string &path, uint64_t max_bytes) {
  const int fd =
      ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  std::string bytes;
  struct stat st;

  if (fd < 0) {
    return {};
  }
  if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
      static_cast<uint64_t>(st.st_size) <= max_bytes) {
    bytes.resize(st.st_size);
    if (!read_all(fd, 0, bytes.size(), bytes.data())) {
      bytes.clear();
    }
  }
  close(fd);
  return bytes;
}

bool write_all(int fd, uint64_t offset, std::string_view bytes) {
  for (size_t n = 0; n < bytes.size();) {
    const auto done =
        ::pwrite(fd, bytes.data() + n, bytes.size() - n, offset + n);
    if (done <= 0) {
      return false;
    }
    n += done;
  }
  return true;
}

bool is_empty_directory(const std::string &path) {
  constexpr off_t MAX_SIZE = 65536;
  struct stat st;

  if (stat(path.c_str(), &st) != 0 || st.st_size > MAX_SIZE) {
    return false;
  }

  Dir_reader reader(path);

  return reader.is_open() && reader.next() == nullptr && reader.error() == 0;
}

void sync_directory(const std::string &path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY);

  if (fd >= 0) {
    (void)fsync(fd);
    close(fd);
  }
}

std::string join(const std::string &dir, const std::string &name) {
  return dir.empty() || dir.back() == '/' ? dir + name : dir + '/' + name;
}

std::string key(uint32_t root, const std::string &path) {
  return std::to_string(root) + ':' + path;
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
  return Place{it->second->first, join(it->second->second, path.substr(pos))};
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

space_id_t Read_ids::find(const std::string &file,
                          const Dir_identity &dir) const {
  const auto it = m_ids.find(file);

  return it == m_ids.end() || is_racy(dir, m_begin_nsec) ? SPACE_UNKNOWN
                                                         : it->second;
}

}  // namespace tablespace_probe
