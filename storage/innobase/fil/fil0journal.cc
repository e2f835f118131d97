/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file fil/fil0journal.cc
The journal of the tablespace map.

Numbers are big endian. A string is its length in 4 bytes and its bytes.

  header:
    8  magic, with the version of the format
    8  the map that it belongs to (Reader::id())
    4  CRC-32C of the 16 bytes before
  records, each
    4  length of what follows the checksum
    4  CRC-32C of that
    1  kind, and then
       BOOT   string boot of the machine; a server writes from here on
       BEGIN  8 number of the change, 4 root, string path of the directory,
              string name of the file, 1 there is nothing in the directory
       END    the same numbers and strings, 1 the file is there, 8 file system,
              8 inode, 8 mtime, 8 ctime of the directory
       LOST   4 root, string path of the directory
       CLOSED nothing; the server was shut down, and all before is on disk
       LOOK_UP
              4 tablespace of which the dictionary says more than the map

Reading ends at the first record that is not whole. What is lost by that is a
directory that has another identity, and is listed; or by how much a file grows
until it is used.

Why it can be believed:
- A directory is believed if its identity is the one that the last END says, and
  each BEGIN has its END. That identity has a time that the server has set after
  the change; any change by others gives the directory another.
- Before a change, the identity has to be that of the last one, or of the map,
or the directory has to be empty. Otherwise somebody else has changed it, and it
is LOST until the next map. What others do to a directory between BEGIN and END
of any change in it is not noticed.
- Records are not synced. After a crash of the machine the boot is another one,
  and the journal is not used unless it was CLOSED. */

#include "fil0journal.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fil0probe.h"

namespace tablespace_map {

namespace {

constexpr char MAGIC[8] = {'I', 'B', 'T', 'S', 'J', 'R', 'N', 1};

constexpr size_t HEADER_SIZE = sizeof MAGIC + 12;

/** Bytes of a record before its kind. */
constexpr size_t PREFIX_SIZE = 8;

/** A record is no longer than this. */
constexpr size_t MAX_RECORD = 16384;

enum class Kind : uint8_t {
  BOOT = 1,
  BEGIN = 2,
  END = 3,
  LOST = 4,
  CLOSED = 5,
  LOOK_UP = 6
};

/** @return a record
@param[in]  kind  its kind
@param[in]  fill  called with what takes the rest */
template <typename Fill>
std::string make_record(Kind kind, const Fill &fill) {
  std::string body;
  Out out(body);
  out.num<1>(static_cast<uint64_t>(kind));
  fill(out);

  std::string bytes;
  Out prefix(bytes);
  prefix.num<4>(body.size());
  prefix.num<4>(checksum(body));
  return bytes + body;
}

void put_file(Out &out, uint64_t no, const Dir_key &dir,
              const std::string &name) {
  out.num<8>(no);
  out.num<4>(dir.first);
  out.str(dir.second);
  out.str(name);
}

std::string make_boot(const std::string &boot) {
  return make_record(Kind::BOOT, [&boot](Out &out) { out.str(boot); });
}

std::string make_begin(uint64_t no, const Dir_key &dir, const std::string &name,
                       bool is_whole) {
  return make_record(Kind::BEGIN, [&](Out &out) {
    put_file(out, no, dir, name);
    out.num<1>(is_whole);
  });
}

std::string make_end(uint64_t no, const Dir_key &dir, const std::string &name,
                     bool is_there, const Dir_identity &id) {
  return make_record(Kind::END, [&](Out &out) {
    put_file(out, no, dir, name);
    out.num<1>(is_there);
    out.num<8>(id.dev);
    out.num<8>(id.ino);
    out.num<8>(id.mtime_nsec);
    out.num<8>(id.ctime_nsec);
  });
}

std::string make_lost(const Dir_key &dir) {
  return make_record(Kind::LOST, [&dir](Out &out) {
    out.num<4>(dir.first);
    out.str(dir.second);
  });
}

std::string make_look_up(space_id_t space_id) {
  return make_record(Kind::LOOK_UP,
                     [space_id](Out &out) { out.num<4>(space_id); });
}

std::string make_closed() {
  return make_record(Kind::CLOSED, [](Out &) {});
}

std::string make_header(uint64_t map_id) {
  std::string bytes(MAGIC, sizeof MAGIC);
  Out out(bytes);
  out.num<8>(map_id);
  out.num<4>(checksum(bytes));
  return bytes;
}

/** @return number of the files of a directory that are there
@param[in]  dir  directory */
size_t n_there(const Watched_dir &dir) {
  return std::count_if(dir.files.begin(), dir.files.end(),
                       [](const auto &file) { return file.second; });
}

/** @return true if the file of a change is there
@param[in]  change  the change */
bool is_there(const Change &change) {
  struct stat st;
  return lstat((change.dir_path + '/' + change.name).c_str(), &st) == 0;
}

/** Take one record into account.
@param[in]      in        what follows the kind
@param[in]      kind      its kind
@param[in,out]  replayed  what the journal says
@return false if it is not right */
bool replay_change(In &in, Kind kind, Replayed &replayed) {
  const auto no = in.num<8>();
  const uint32_t root = in.num<4>();
  const Dir_key key{root, in.str()};
  const std::string name{in.str()};
  const auto flag = in.num<1>();
  Dir_identity id{};

  if (kind == Kind::END) {
    id.dev = in.num<8>();
    id.ino = in.num<8>();
    id.mtime_nsec = in.num<8>();
    id.ctime_nsec = in.num<8>();
  }
  if (!in.is_at_end() || flag > 1 || name.empty() ||
      name.find('/') != std::string::npos) {
    return false;
  }

  auto &dir = replayed.dirs[key];

  replayed.next_no = std::max(replayed.next_no, no + 1);
  if (kind == Kind::BEGIN) {
    if (flag == 1) {
      dir = {};
      dir.is_whole = true;
    }
    dir.open.insert(no);
  } else {
    dir.open.erase(no);
    dir.files[name] = flag == 1;
    dir.identity = id;
    dir.is_known = true;
  }
  return true;
}

}  // namespace

const Watched_dir *Replayed::find(uint32_t root, std::string_view path) const {
  if (!is_valid) {
    return nullptr;
  }
  const auto it = dirs.find(Dir_key{root, std::string(path)});
  return it == dirs.end() ? nullptr : &it->second;
}

Replayed replay_journal(std::string_view bytes, uint64_t map_id,
                        std::string_view boot) {
  Replayed replayed;

  if (bytes.size() < HEADER_SIZE ||
      bytes.substr(0, HEADER_SIZE) != make_header(map_id)) {
    return replayed;
  }

  std::string_view last_boot;
  bool is_closed = true;
  auto rest = bytes.substr(HEADER_SIZE);

  for (;;) {
    In prefix(rest.substr(0, std::min(rest.size(), PREFIX_SIZE)));
    const auto n_body = prefix.num<4>();
    const auto crc = prefix.num<4>();

    if (prefix.is_bad() || n_body == 0 || n_body > MAX_RECORD ||
        n_body > rest.size() - PREFIX_SIZE) {
      break;
    }
    const auto body = rest.substr(PREFIX_SIZE, n_body);
    if (checksum(body) != crc) {
      break;
    }

    In in(body);
    const auto kind = static_cast<Kind>(in.num<1>());
    bool is_good = !is_closed;

    switch (kind) {
      case Kind::BOOT:
        last_boot = in.str();
        is_closed = false;
        is_good = in.is_at_end();
        break;
      case Kind::BEGIN:
      case Kind::END:
        is_good = is_good && replay_change(in, kind, replayed);
        break;
      case Kind::LOST: {
        const uint32_t root = in.num<4>();
        const Dir_key key{root, in.str()};
        is_good = is_good && in.is_at_end();
        if (is_good) {
          replayed.dirs[key].is_lost = true;
        }
        break;
      }
      case Kind::LOOK_UP:
        replayed.looked_up.insert(in.num<4>());
        is_good = is_good && in.is_at_end();
        break;
      case Kind::CLOSED:
        is_closed = true;
        is_good = is_good && in.is_at_end();
        break;
      default:
        is_good = false;
    }
    if (!is_good) {
      /* No server has written this. */
      return {};
    }
    rest.remove_prefix(PREFIX_SIZE + n_body);
  }

  replayed.n_bytes = bytes.size() - rest.size();
  replayed.is_valid = is_closed || (!boot.empty() && last_boot == boot);
  return replayed;
}

Journal::~Journal() { close_file(); }

void Journal::close_file() {
  if (m_fd >= 0) {
    close(m_fd);
    m_fd = -1;
  }
}

bool Journal::open_file(const std::string &file, int flags) {
  struct stat st;

  close_file();
  m_fd =
      ::open(file.c_str(),
             O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | flags,
             S_IRUSR | S_IWUSR | S_IRGRP);
  m_n_bytes = 0;
  if (m_fd >= 0 &&
      (fstat(m_fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_nlink != 1)) {
    close_file();
  }
  return m_fd >= 0;
}

bool Journal::replace_file(const std::string &file, std::string_view bytes) {
  const auto temp = file + ".tmp";

  m_file = temp;
  (void)unlink(temp.c_str());
  if (!open_file(temp, O_CREAT | O_EXCL) || !write(bytes) ||
      rename(temp.c_str(), file.c_str()) != 0) {
    (void)unlink(temp.c_str());
    close_file();
    /* As in write(). */
    (void)unlink(file.c_str());
  }
  m_file = file;
  return m_fd >= 0;
}

bool Journal::write(std::string_view records) {
  if (m_fd < 0) {
    return false;
  }
  /* Half a record ends the journal for who reads it, so it has to end here. */
  if (m_n_bytes + records.size() > MAX_JOURNAL_BYTES ||
      ::write(m_fd, records.data(), records.size()) !=
          static_cast<ssize_t>(records.size())) {
    /* What comes now is in none: the next start must not take it for the doing
    of others. */
    close_file();
    (void)unlink(m_file.c_str());
    return false;
  }
  m_n_bytes += records.size();
  return true;
}

bool Journal::create(const std::string &file, uint64_t map_id, Find_base base) {
  const std::lock_guard guard(m_mutex);

  m_base = std::move(base);
  m_dirs.clear();
  m_n_files = 0;
  return replace_file(file, make_header(map_id) + make_boot(boot_id()));
}

bool Journal::go_on(const std::string &file, Replayed replayed,
                    Find_base base) {
  const std::lock_guard guard(m_mutex);

  m_base = std::move(base);
  m_dirs = std::move(replayed.dirs);
  m_next_no = replayed.next_no;
  m_n_files = 0;
  m_file = file;
  if (!open_file(file, 0) || ftruncate(m_fd, replayed.n_bytes) != 0) {
    close_file();
    (void)unlink(file.c_str());
    return false;
  }
  m_n_bytes = replayed.n_bytes;
  (void)write(make_boot(boot_id()));

  for (auto &[key, dir] : m_dirs) {
    if (!dir.open.empty()) {
      /* Those changes were begun by a server that is gone. */
      dir.open.clear();
      lose(key, dir);
    }
    m_n_files += n_there(dir);
  }
  return m_fd >= 0;
}

bool Journal::end() {
  const std::lock_guard guard(m_mutex);
  const bool is_good =
      m_live.empty() && write(make_closed()) && fdatasync(m_fd) == 0;
  close_file();
  return is_good;
}

void Journal::lose(const Dir_key &key, Watched_dir &dir) {
  if (!dir.is_lost) {
    dir.is_lost = true;
    (void)write(make_lost(key));
  }
}

void Journal::touch(const Change &change) {
  if (m_is_mapping) {
    m_touched[change.dir].insert(change.name);
    m_touched_ids.insert(change.space_id);
  }
}

/** See whether only the server has changed a directory.
@param[in]      key     directory
@param[in]      path    its path
@param[in,out]  dir     what is known of it
@param[in]      is_new  true if that is nothing
@return true if it begins anew, with nothing in it */
bool Journal::begin(const Dir_key &key, const std::string &path,
                    Watched_dir &dir, bool is_new) {
  Dir_identity now;
  const bool exists = dir_identity(path, now);

  if (exists) {
    std::optional<Dir_identity> expected;

    if (dir.is_known) {
      expected = dir.identity;
    } else if (is_new && m_base) {
      const auto in_map = m_base(key.first, key.second);
      if (!in_map.is_partial) {
        expected = in_map.identity;
      }
    }
    if (expected && *expected == now) {
      return false;
    }
  }
  if (!exists || is_empty_directory(path)) {
    m_n_files -= n_there(dir);
    dir = {};
    dir.is_whole = true;
    if (m_is_mapping) {
      m_made.insert(key);
    }
    /* It will be made, and maybe those above it, which changes one of them. */
    for (auto path_of = key.second; !exists && !path_of.empty();) {
      const auto end = path_of.rfind('/');
      path_of.resize(end == std::string::npos ? 0 : end);
      const auto above = m_dirs.find({key.first, path_of});
      if (above != m_dirs.end()) {
        lose(above->first, above->second);
      }
    }
    return true;
  }
  lose(key, dir);
  return false;
}

bool Journal::begin_change(Change &change) {
  const std::lock_guard guard(m_mutex);

  if (m_fd < 0 && !m_is_mapping) {
    return false;
  }

  const auto [it, is_new] = m_dirs.try_emplace(change.dir);
  auto &dir = it->second;
  bool is_whole = false;

  if (!dir.is_lost && dir.open.empty()) {
    is_whole = begin(change.dir, change.dir_path, dir, is_new);
  }
  change.no = m_next_no++;
  dir.open.insert(change.no);
  m_live.emplace(change.no, change);
  touch(change);
  return !dir.is_lost &&
         write(make_begin(change.no, change.dir, change.name, is_whole));
}

/** The directory entry of a change is as it will be.
@param[in]      change  the change
@param[in,out]  dir     its directory
@return false if the journal does not cover it */
bool Journal::record(const Change &change, Watched_dir &dir) {
  const bool exists = is_there(change);

  dir.open.erase(change.no);
  touch(change);

  if (dir.is_lost && !m_is_mapping) {
    /* The next map will have it. */
    dir.files.erase(change.name);
  } else {
    const auto [it, is_new] = dir.files.emplace(change.name, exists);
    m_n_files -= !is_new && it->second;
    m_n_files += exists;
    it->second = exists;
  }
  if (dir.is_lost) {
    return false;
  }
  if (!stamp_directory(change.dir_path, dir.identity) && dir.open.empty()) {
    dir.is_known = false;
    lose(change.dir, dir);
    return false;
  }
  dir.is_known = true;
  return write(
      make_end(change.no, change.dir, change.name, exists, dir.identity));
}

bool Journal::note_changed(const Change &change) {
  const std::lock_guard guard(m_mutex);
  const auto it = m_dirs.find(change.dir);

  return it != m_dirs.end() && it->second.open.count(change.no) != 0 &&
         record(change, it->second);
}

bool Journal::end_change(const Change &change) {
  const std::lock_guard guard(m_mutex);

  m_live.erase(change.no);

  const auto it = m_dirs.find(change.dir);

  if (it == m_dirs.end()) {
    return false;
  }

  auto &dir = it->second;

  if (dir.open.count(change.no) == 0) {
    const auto file = dir.files.find(change.name);

    if (file != dir.files.end() && file->second == is_there(change)) {
      return !dir.is_lost && m_fd >= 0;
    }
    /* It has failed, and was undone without a BEGIN. */
    lose(change.dir, dir);
  }
  return record(change, dir);
}

void Journal::note_looked_up(space_id_t space_id) {
  const std::lock_guard guard(m_mutex);

  if (m_is_mapping) {
    m_looked_up.insert(space_id);
  }
  (void)write(make_look_up(space_id));
}

Times Journal::test_times(const std::string &path) {
  const std::lock_guard guard(m_mutex);

  return tablespace_probe::test_times(path);
}

void Journal::begin_map() {
  const std::lock_guard guard(m_mutex);

  end_mapping();
  m_is_mapping = true;
  if (m_fd < 0) {
    /* What has happened since is not known. */
    m_dirs.clear();
    m_live.clear();
    m_n_files = 0;
  }
  for (const auto &[no, change] : m_live) {
    auto &dir = m_dirs[change.dir];

    touch(change);
    if (dir.open.count(no) == 0) {
      dir.files.insert_or_assign(change.name, is_there(change));
    }
  }
}

bool Journal::is_mapping() {
  const std::lock_guard guard(m_mutex);
  return m_is_mapping;
}

void Journal::cancel_map() {
  const std::lock_guard guard(m_mutex);

  for (const auto &key : m_found_again) {
    m_dirs[key].is_lost = true;
  }
  end_mapping();
}

/** What was remembered while a map was made is not needed any more. */
void Journal::end_mapping() {
  m_is_mapping = false;
  m_touched.clear();
  m_touched_ids.clear();
  m_looked_up.clear();
  m_found_again.clear();
  m_made.clear();
}

void Journal::end_map(const std::string &file, uint64_t map_id,
                      Find_base base) {
  const std::lock_guard guard(m_mutex);
  std::string records = make_header(map_id) + make_boot(boot_id());

  m_base = std::move(base);
  m_n_files = 0;

  for (auto it = m_dirs.begin(); it != m_dirs.end();) {
    const auto &key = it->first;
    auto &dir = it->second;
    auto in_map = m_base(key.first, key.second);
    const auto touched = m_touched.find(key);

    if (m_made.count(key) != 0) {
      /* The map may have one of the same name, which is gone. */
      in_map = {};
    }
    if (in_map.is_there) {
      /* The map has what was not touched meanwhile. */
      dir.is_whole = false;
      if (!in_map.identity) {
        dir.is_lost = true;
      }
      for (auto f = dir.files.begin(); f != dir.files.end();) {
        f = touched != m_touched.end() && touched->second.count(f->first) != 0
                ? std::next(f)
                : dir.files.erase(f);
      }
    }
    /* Of one that the map does not have, it is worth something only if it was
    made meanwhile, and is there. */
    if (dir.open.empty() &&
        (in_map.is_there ? dir.files.empty()
                         : !dir.is_whole || dir.is_lost || n_there(dir) == 0 ||
                               touched == m_touched.end())) {
      it = m_dirs.erase(it);
      continue;
    }
    if (!in_map.is_there && !dir.is_whole) {
      dir.is_lost = true;
    }

    bool is_first = dir.is_whole;
    std::string ends;

    /* All of the first before any of the second: not settled until all are
    there. */
    for (const auto &[name, exists] : dir.files) {
      const auto no = m_next_no++;
      records += make_begin(no, key, name, std::exchange(is_first, false));
      ends += make_end(no, key, name, exists, dir.identity);
      m_n_files += exists;
    }
    for (const auto no : dir.open) {
      const auto live = m_live.find(no);
      if (live != m_live.end()) {
        records += make_begin(no, key, live->second.name,
                              std::exchange(is_first, false));
      }
    }
    records += ends;
    if (dir.is_lost) {
      records += make_lost(key);
    }
    ++it;
  }

  for (const auto space_id : m_looked_up) {
    records += make_look_up(space_id);
  }

  end_mapping();

  (void)replace_file(file, records);
}

bool Journal::watch(const Dir_key &key, const std::string &path,
                    Dir_identity &id, Dir_identity &before) {
  /** How long to wait for changes that are being made, in milliseconds. */
  constexpr int MAX_WAIT = 20;

  for (int i = 0; i < MAX_WAIT; ++i) {
    {
      const std::lock_guard guard(m_mutex);

      if (!m_is_mapping) {
        return false;
      }
      auto &dir = m_dirs[key];

      if (dir.open.empty()) {
        if (!dir_identity(path, id)) {
          return false;
        }
        before = id;
        if (dir.is_known && !dir.is_lost && dir.identity == id) {
          return true;
        }
        /* Others may have changed it since the last map, to which what is
        written until the new one is in place belongs. */
        lose(key, dir);
        if (!stamp_directory(path, id)) {
          return false;
        }
        m_found_again.insert(key);
        m_made.erase(key);
        dir.identity = id;
        dir.is_known = true;
        dir.is_lost = dir.is_whole = false;
        return true;
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

bool Journal::is_watched(const Dir_key &key, const Dir_identity &id) {
  const std::lock_guard guard(m_mutex);
  const auto it = m_dirs.find(key);

  return it != m_dirs.end() && it->second.is_known && !it->second.is_lost &&
         (!it->second.open.empty() || it->second.identity == id);
}

bool Journal::is_touched(const Dir_key &key, const std::string &name) {
  const std::lock_guard guard(m_mutex);
  const auto it = m_touched.find(key);

  return it != m_touched.end() && it->second.count(name) != 0;
}

bool Journal::is_touched(space_id_t space_id) {
  const std::lock_guard guard(m_mutex);
  return m_touched_ids.count(space_id) != 0;
}

bool Journal::is_written() {
  const std::lock_guard guard(m_mutex);
  return m_fd >= 0;
}

bool Journal::is_large(uint64_t map_bytes, size_t n_map_files) {
  const std::lock_guard guard(m_mutex);
  return m_n_files >= std::clamp(n_map_files / MAP_FILES_PER_JOURNAL_FILE,
                                 FEW_JOURNAL_FILES, MANY_JOURNAL_FILES) ||
         m_n_bytes >= std::max(LARGE_JOURNAL_BYTES, map_bytes / 4);
}

}  // namespace tablespace_map
