/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file include/fil0mapfile.h
The file of the tablespace map: its format. No file is opened here, and nothing
of the server is used but the checksum. In it and in its journal, numbers are
big endian, and a string is its length in 4 bytes and its bytes. */

#ifndef fil0mapfile_h
#define fil0mapfile_h

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "my_inttypes.h"

#include "fil0probe.h"
#include "fil0types.h"
#include "ut0crc32.h"

namespace tablespace_map {

using namespace tablespace_probe;

/** Appends numbers and strings. */
class Out {
 public:
  explicit Out(std::string &bytes) : m_bytes(bytes) {}

  template <size_t N>
  void num(uint64_t n) {
    for (size_t i = N; i-- > 0;) {
      m_bytes.push_back(static_cast<char>(n >> (8 * i)));
    }
  }

  void str(std::string_view s) {
    num<4>(s.size());
    m_bytes.append(s);
  }

 private:
  std::string &m_bytes;
};

/** Takes numbers and strings; after the first that is not there, all are 0. */
class In {
 public:
  explicit In(std::string_view bytes) : m_bytes(bytes) {}

  template <size_t N>
  uint64_t num() {
    uint64_t n = 0;
    for (const auto c : take(N)) {
      n = n << 8 | static_cast<byte>(c);
    }
    return n;
  }

  std::string_view str() { return take(num<4>()); }

  bool is_bad() const { return m_is_bad; }
  bool is_at_end() const { return m_bytes.empty() && !m_is_bad; }
  size_t left() const { return m_bytes.size(); }

 private:
  std::string_view take(size_t n) {
    if (m_is_bad || n > m_bytes.size()) {
      m_is_bad = true;
      return {};
    }
    const auto s = m_bytes.substr(0, n);
    m_bytes.remove_prefix(n);
    return s;
  }

  std::string_view m_bytes;
  bool m_is_bad{false};
};

/** @return the CRC-32C of bytes */
inline uint32_t checksum(std::string_view s) {
  return ut_crc32(reinterpret_cast<const byte *>(s.data()), s.size());
}

/** The map is left alone for this many times of what it took to write it, */
constexpr int64_t REST_FACTOR = 50;

/** but for no longer than this, unless writing took longer still. It is left
alone as long after it could not be written. */
constexpr int64_t MAX_REST_NSEC = 180'000'000'000;

/** Size in bytes of the largest file that is taken for a map. */
constexpr uint64_t MAX_MAP_BYTES = uint64_t{1} << 31;

/** A map up to this size in bytes is checked as a whole when it is opened; a
larger one block by block, as it is read. */
constexpr uint64_t CHECKED_AT_ONCE_BYTES = 1 << 20;

/** Bytes at the start of the file that hold the session. */
constexpr size_t HEADER_BYTES = 60;

/** A block of files ends with the first that reaches this many bytes. */
constexpr size_t BLOCK_BYTES = 16384;

/** Tablespace IDs in a block of the index, but for the last. */
constexpr uint32_t IDS_PER_BLOCK = 2048;

/** @return how long the map is left alone after it was written, in nanoseconds
@param[in]  write_nsec  how long that took */
[[nodiscard]] int64_t rest_nsec(int64_t write_nsec);

/** A file of the map. */
struct File {
  /** Name in its directory. */
  std::string name;
  /** Identity. */
  File_identity identity;
  /** Tablespace ID. */
  space_id_t space_id;
  /** FSP flags. */
  uint32_t flags;
  /** Name of the tablespace in the data dictionary, empty if it follows from
  the path. */
  std::string space_name;
  /** True if the server that wrote the map did not know it. */
  bool is_stray{false};

  bool operator==(const File &) const = default;
};

/** What tells whether another server has used the data directory since the map
was written. */
struct Session {
  /** End of the redo log after a shutdown; 0 while the server runs. */
  uint64_t end_lsn{0};
  /** The files of temporary tablespaces, which every start makes anew,
  together; while the server runs. */
  File_identity temp_file{0, 0};
  /** True if the server may have done DDL since the map was made. */
  bool is_behind{false};
};

/** A directory of the map. */
struct Directory {
  /** Number of the root that it was found under. */
  uint32_t root;
  /** Path relative to the root, without slash at either end. */
  std::string path;
  /** Identity. */
  Dir_identity identity;
  /** True if it need not be listed as long as the identity is the same. */
  bool is_trusted;
  /** Number of the parent in the map; the root is its own parent. */
  uint32_t parent;
  /** Number of its files. */
  uint32_t n_files{0};
  /** Number of the first of them in the map; not written. */
  uint32_t first_file{0};
  /** True if the map does not have those of its files that were changed while
  it was made: they are in its journal. */
  bool is_partial{false};
};

/** @return what a map depends on of a server: its release series, of which all
patch releases have the same files, the version of its dictionary and the size
of its pages
@param[in]  version     the server's, as MYSQL_VERSION_ID is
@param[in]  dd_version  version of its dictionary
@param[in]  page_size   size of its pages */
[[nodiscard]] std::string server_config(uint32_t version, uint32_t dd_version,
                                        uint64_t page_size);

/** What is read of a map in any case. */
struct Summary {
  /** What the map depends on besides the directories: server_config() and the
  roots. Another value means another map. */
  std::string config;
  /** True if the dictionary was seen to agree with the files. */
  bool is_clean{false};
  /** Path of the file that the session describes. */
  std::string temp_path;
  /** Names of the undo tablespaces in the dictionary, with their numbers. */
  std::vector<std::pair<uint32_t, std::string>> undo;
  /** Largest tablespace ID that is not reserved. */
  space_id_t max_space_id{0};
  /** Tablespaces that each start opens: general ones. */
  std::vector<space_id_t> opened_at_start;
  /** Other encrypted tablespaces. */
  std::vector<space_id_t> encrypted;
  /** Directories, as walk_order() has them: a directory and what is under it,
  before the next. */
  std::vector<Directory> dirs;

  /** Find a directory.
  @param[in]  root  number of the root
  @param[in]  path  path relative to the root
  @return number of the directory, or -1 */
  [[nodiscard]] int64_t find_dir(uint32_t root, std::string_view path) const;
};

/** @return true if a directory comes before another in a map. The order is that
of the names from the root to the directory.
@param[in]  a  path of a directory
@param[in]  b  path of another under the same root */
[[nodiscard]] bool walk_order(std::string_view a, std::string_view b);

/** Writes a map. */
class Builder {
 public:
  /** Where the bytes go: called with an offset in the file and what to write
  there; returns false if that failed. */
  using Sink = std::function<bool(uint64_t offset, std::string_view bytes)>;

  explicit Builder(Sink sink) : m_sink(std::move(sink)) {}

  /** Add a file; those of a directory one after the other, sorted by name, in
  the order of the directories.
  @param[in]  file  what to add */
  void add(const File &file);

  /** @return number of files added */
  [[nodiscard]] uint32_t n_files() const {
    return static_cast<uint32_t>(m_ids.size());
  }

  /** Write the rest, after sort_ids().
  @param[in]  summary  what is written besides the files
  @param[in]  session  who writes it
  @return false if the sink failed, or two files have one ID */
  [[nodiscard]] bool finish(const Summary &summary, const Session &session);

  /** Sort the tablespace IDs; no file is added after that. */
  void sort_ids();

  /** @return tablespace IDs of the files, sorted, with the files' numbers;
  after sort_ids() */
  const std::vector<std::pair<space_id_t, uint32_t>> &ids() const {
    return m_ids;
  }

 private:
  void put(std::string_view bytes);
  void end_block();

  Sink m_sink;
  /** False after the sink failed. */
  bool m_is_good{true};
  /** End of what was written. */
  uint64_t m_offset{HEADER_BYTES};
  /** Files that are not written yet. */
  std::string m_block;
  uint32_t m_n_block_files{0};
  std::string m_block_name;
  /** Blocks of files, encoded for the summary. */
  std::string m_blocks;
  uint32_t m_n_blocks{0};
  std::vector<std::pair<space_id_t, uint32_t>> m_ids;
};

/** A file and its place. */
struct Found {
  File file;
  /** Number of the directory. */
  uint32_t dir;
  /** Number of the file. */
  uint32_t no;
};

/** Reads a map as much as is needed. Nothing is taken from a part whose
checksum or order is not right. Thread-safe after open(). */
class Reader {
 public:
  /** Where the bytes come from: called with an offset, a length, and where to
  put them; returns false if not all of them are there. */
  using Source = std::function<bool(uint64_t offset, size_t n_bytes, char *to)>;

  /** Begin to read a map.
  @param[in]  source     where the bytes come from
  @param[in]  n_bytes    size of the file
  @param[in]  n_at_once  size up to which it is checked as a whole
  @return nullptr if all is well, or what is wrong */
  [[nodiscard]] const char *open(Source source, uint64_t n_bytes,
                                 uint64_t n_at_once = CHECKED_AT_ONCE_BYTES);

  /** @return what is not about files */
  [[nodiscard]] const Summary &summary() const { return m_summary; }

  /** @return who wrote the map */
  [[nodiscard]] const Session &session() const { return m_session; }

  /** @return what tells this map from others of the same data directory */
  [[nodiscard]] uint64_t id() const { return m_id; }

  /** @return size of the file in bytes */
  [[nodiscard]] uint64_t n_bytes() const { return m_n_bytes; }

  /** @return number of files */
  [[nodiscard]] uint32_t n_files() const { return m_n_files; }

  /** Find a file by its tablespace ID.
  @param[in]   space_id  tablespace ID
  @param[out]  found     the file
  @return false if there is none, or the map is damaged there */
  [[nodiscard]] bool find(space_id_t space_id, Found &found) const;

  /** Find a file by its name.
  @param[in]   dir    number of the directory
  @param[in]   name   file name
  @param[out]  found  the file
  @return false if there is none, or the map is damaged there */
  [[nodiscard]] bool find_file(uint32_t dir, std::string_view name,
                               Found &found) const;

  /** Read the files of a directory, sorted by name.
  @param[in]  dir    number of the directory
  @param[in]  visit  called with each file and its number; returns false to stop
  @return false if it was stopped, or the map is damaged there */
  [[nodiscard]] bool read_files(
      uint32_t dir,
      const std::function<bool(const File &, uint32_t)> &visit) const;

  /** Read all tablespace IDs, sorted.
  @param[in]  visit  called with each
  @return false if the map is damaged */
  [[nodiscard]] bool read_ids(
      const std::function<void(space_id_t)> &visit) const;

  /** Read everything.
  @return false if the map is damaged */
  [[nodiscard]] bool check() const;

  /** @return true if something that was read was not right */
  [[nodiscard]] bool is_damaged() const { return m_is_damaged; }

  /** Keep fewer blocks in memory from now on.
  @param[in]  n_blocks  how many at most; the last that was read is kept in any
                        case */
  void keep(size_t n_blocks);

 private:
  /** A block of files or of IDs, as the summary describes it. */
  struct Block_place {
    uint64_t offset;
    uint32_t n_bytes;
    uint32_t crc;
    /** Number of the first file, or of the first ID. */
    uint32_t first;
    /** Files or IDs in it. */
    uint32_t n;
    /** First ID. */
    space_id_t first_id;
    /** Name of the first file. */
    std::string first_name;
  };

  /** A block that was read. */
  struct Block {
    std::string bytes;
    /** Where each file begins. */
    std::vector<uint32_t> offsets;
  };

  using Block_ptr = std::shared_ptr<const Block>;

  /** Read a block, or take it from memory.
  @return nullptr if it is damaged */
  Block_ptr get(size_t no) const;
  bool load(size_t no, Block &block) const;
  bool load_files(const Block_place &place, Block &block) const;
  bool load_ids(size_t no, const Block &block) const;
  bool read_summary(std::string_view bytes, uint64_t end);

  /** @return number of the block of a file */
  size_t block_of(uint32_t file_no) const;
  /** @return number of the directory of a file */
  uint32_t dir_of(uint32_t file_no) const;
  std::string_view name_at(const Block &block, uint32_t i) const;
  void decode(const Block &block, uint32_t i, File &file) const;

  Source m_source;
  Summary m_summary;
  Session m_session;
  uint64_t m_id{0};
  uint64_t m_n_bytes{0};
  uint32_t m_n_files{0};
  /** Blocks of files, then those of IDs. */
  std::vector<Block_place> m_places;
  size_t m_n_file_blocks{0};

  mutable std::atomic_bool m_is_damaged{false};
  /** Protects what is below. No other latch is requested under it. */
  mutable std::mutex m_mutex;
  /** Blocks in memory, by their number. */
  mutable std::vector<Block_ptr> m_blocks;
  mutable size_t m_n_kept{0};
  size_t m_max_kept{SIZE_MAX};
};

/** Tablespaces of a map that were dropped since it was written. Thread-safe. */
class Dropped {
 public:
  /** Set the largest tablespace ID of the map. IDs only grow, so that what is
  created and dropped after the map was written need not be remembered.
  @param[in]  max_id  no larger one is remembered from now on, unless it is
  being dropped */
  void limit(space_id_t max_id) {
    const std::lock_guard guard(m_mutex);
    m_max_id = max_id;
  }

  /** A tablespace is about to be dropped.
  @param[in]  space_id  tablespace ID */
  void begin(space_id_t space_id) {
    const std::lock_guard guard(m_mutex);
    m_under_way.insert(space_id);
  }

  /** A tablespace was dropped.
  @param[in]  space_id  tablespace ID */
  void end(space_id_t space_id) {
    const std::lock_guard guard(m_mutex);
    m_under_way.erase(space_id);
    if (space_id <= m_max_id) {
      m_ids.insert(space_id);
    }
  }

  /** @return true if a tablespace of the map was dropped, or any is being
  dropped
  @param[in]  space_id  tablespace ID */
  [[nodiscard]] bool has(space_id_t space_id) const {
    const std::lock_guard guard(m_mutex);
    return m_ids.count(space_id) != 0 || m_under_way.count(space_id) != 0;
  }

  /** @return true if a condition holds for all tablespaces that are remembered
  @param[in]  is_so  the condition */
  template <typename Is_so>
  [[nodiscard]] bool all(const Is_so &is_so) const {
    const std::lock_guard guard(m_mutex);
    return std::all_of(m_ids.begin(), m_ids.end(), is_so) &&
           std::all_of(m_under_way.begin(), m_under_way.end(), is_so);
  }

  /** @return number of tablespaces that are remembered */
  [[nodiscard]] size_t size() const {
    const std::lock_guard guard(m_mutex);
    return m_ids.size() + m_under_way.size();
  }

  /** Another map is used from now on.
  @param[in]  max_id  its largest tablespace ID
  @param[in]  is_in   tells whether it has a tablespace */
  template <typename Is_in>
  void use(space_id_t max_id, const Is_in &is_in) {
    const std::lock_guard guard(m_mutex);
    m_max_id = max_id;
    for (auto it = m_ids.begin(); it != m_ids.end();) {
      it = *it <= max_id && is_in(*it) ? std::next(it) : m_ids.erase(it);
    }
  }

 private:
  /** No other latch is requested under it. */
  mutable std::mutex m_mutex;
  std::unordered_set<space_id_t> m_ids;
  std::unordered_set<space_id_t> m_under_way;
  space_id_t m_max_id{0};
};

/** Change the session in the header of a map.
@param[in,out]  header   the first HEADER_BYTES of the file
@param[in]      session  the new session
@return false if that is no header */
[[nodiscard]] bool set_session(std::string &header, const Session &session);

}  // namespace tablespace_map

#endif /* fil0mapfile_h */
