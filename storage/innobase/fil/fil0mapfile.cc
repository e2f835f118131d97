/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file fil/fil0mapfile.cc
The file of the tablespace map.

All numbers are big endian. A string is its length in 4 bytes and its bytes.

  header, the only part that is written in place:
    8  magic, with the version of the format, which must be raised when what
       stands here comes to mean something else: patch releases share maps
    8  offset of the summary
    8  length of the summary, which is the end of the file
    4  CRC-32C of the summary
    8  end of the redo log after a shutdown, 0 while the server runs
    8  inode of the file of the global temporary tablespace, and 1,000,003 times
       that of the first for sessions
    8  the sum of their birth times
    4  1 = the server may have done DDL since the map was made
    4  CRC-32C of the 56 bytes before
  blocks of files, of about 16 KiB, for each file:
    string name, 8 inode, 8 birth time, 4 tablespace ID, 4 FSP flags,
    string tablespace name, empty if it follows from the path,
    1 not a tablespace of the server that wrote the map
  blocks of the index, of 2,048 entries but for the last, for each file:
    4 tablespace ID, 4 number of the file
  summary:
    string  configuration
    1       1 = the dictionary agreed with the files
    string  path of the file of the global temporary tablespace
    4       number of undo tablespaces, and for each
            4 number, string name in the dictionary
    4       largest tablespace ID that is not reserved
    4       number of tablespaces that each start opens, and for each 4 ID,
            sorted
    4       number of other encrypted tablespaces, and for each 4 ID, sorted
    4       number of directories, and for each
            4 root, string path, 8 file system, 8 inode, 8 mtime, 8 ctime,
            1 = trusted, 2 = trusted with the journal, 4 parent, 4 number of
            files
    4       number of blocks of files, and for each
            4 length, 4 CRC-32C, 4 number of files, string name of the first
    4       number of blocks of the index, and for each
            4 CRC-32C, 4 first tablespace ID

Directories are sorted as they are walked, files by name in their directory, the
index by ID; IDs are unique. Whatever is not exactly so, is not a map. Times are
nanoseconds.

A start reads the header, the summary, and the blocks in which it looks
something up; of the summary, 40 bytes or so for 370 files grow with the number
of files. */

#include "fil0mapfile.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fil0fil.h"

namespace tablespace_map {

namespace {

constexpr char MAGIC[8] = {'I', 'B', 'T', 'S', 'M', 'A', 'P', 9};

/** Least bytes of things in the summary, so that a number of them that cannot
be is seen before memory is taken. */
constexpr size_t MIN_DIR_BYTES = 49;
constexpr size_t MIN_BLOCK_BYTES = 16;

/** Bytes of an entry of the index. */
constexpr size_t ID_BYTES = 8;

bool is_possible_id(space_id_t space_id) {
  return space_id != 0 && space_id != SPACE_UNKNOWN;
}

/** The header, decoded. */
struct Header {
  uint64_t summary_offset;
  uint64_t n_summary;
  uint32_t summary_crc;
  Session session;
};

std::string make_header(const Header &header) {
  std::string bytes(MAGIC, sizeof MAGIC);
  Out out(bytes);

  out.num<8>(header.summary_offset);
  out.num<8>(header.n_summary);
  out.num<4>(header.summary_crc);
  out.num<8>(header.session.end_lsn);
  out.num<8>(header.session.temp_file.ino);
  out.num<8>(header.session.temp_file.btime_nsec);
  out.num<4>(header.session.is_behind);
  out.num<4>(checksum(bytes));
  ut_a(bytes.size() == HEADER_BYTES);
  return bytes;
}

bool parse_header(std::string_view bytes, Header &header) {
  if (bytes.size() < HEADER_BYTES ||
      memcmp(bytes.data(), MAGIC, sizeof MAGIC) != 0) {
    return false;
  }

  In in(bytes.substr(sizeof MAGIC, HEADER_BYTES - sizeof MAGIC));
  header.summary_offset = in.num<8>();
  header.n_summary = in.num<8>();
  header.summary_crc = in.num<4>();
  header.session.end_lsn = in.num<8>();
  header.session.temp_file.ino = in.num<8>();
  header.session.temp_file.btime_nsec = in.num<8>();
  header.session.is_behind = in.num<4>() != 0;
  return in.num<4>() == checksum(bytes.substr(0, HEADER_BYTES - 4));
}

/** @return an entry of a block of the index: ID and number of the file
@param[in]  bytes  the block
@param[in]  i      number of the entry */
std::pair<space_id_t, uint32_t> id_at(const std::string &bytes, uint32_t i) {
  In in(std::string_view(bytes).substr(i * ID_BYTES, ID_BYTES));
  const space_id_t id = in.num<4>();
  return {id, static_cast<uint32_t>(in.num<4>())};
}

}  // namespace

int64_t rest_nsec(int64_t write_nsec) {
  const auto limit = std::max(write_nsec, MAX_REST_NSEC);

  /* Not the product, which may be too large. */
  return write_nsec < limit / REST_FACTOR ? write_nsec * REST_FACTOR : limit;
}

bool walk_order(std::string_view a, std::string_view b) {
  /* A slash comes before all that can be in a name. */
  const auto rank = [](char c) {
    return c == '/' ? 0 : static_cast<unsigned char>(c);
  };
  return std::lexicographical_compare(
      a.begin(), a.end(), b.begin(), b.end(),
      [&rank](char x, char y) { return rank(x) < rank(y); });
}

std::string server_config(uint32_t version, uint32_t dd_version,
                          uint64_t page_size) {
  return std::to_string(version / 100) + ' ' + std::to_string(dd_version) +
         ' ' + std::to_string(page_size) + '\n';
}

int64_t Summary::find_dir(uint32_t root, std::string_view path) const {
  const auto it = std::partition_point(
      dirs.begin(), dirs.end(), [root, path](const Directory &dir) {
        return dir.root < root ||
               (dir.root == root && walk_order(dir.path, path));
      });

  if (it == dirs.end() || it->root != root || it->path != path) {
    return -1;
  }
  return it - dirs.begin();
}

/* Writing. */

void Builder::put(std::string_view bytes) {
  m_is_good = m_is_good && m_sink(m_offset, bytes);
  m_offset += bytes.size();
}

void Builder::add(const File &file) {
  if (m_n_block_files++ == 0) {
    m_block_name = file.name;
  }

  Out out(m_block);
  out.str(file.name);
  out.num<8>(file.identity.ino);
  out.num<8>(file.identity.btime_nsec);
  out.num<4>(file.space_id);
  out.num<4>(file.flags);
  out.str(file.space_name);
  out.num<1>(file.is_stray);

  m_ids.emplace_back(file.space_id, n_files());
  if (m_block.size() >= BLOCK_BYTES) {
    end_block();
  }
}

void Builder::end_block() {
  Out out(m_blocks);

  out.num<4>(m_block.size());
  out.num<4>(checksum(m_block));
  out.num<4>(m_n_block_files);
  out.str(m_block_name);
  ++m_n_blocks;

  put(m_block);
  m_block.clear();
  m_n_block_files = 0;
}

void Builder::sort_ids() { std::sort(m_ids.begin(), m_ids.end()); }

bool Builder::finish(const Summary &summary, const Session &session) {
  if (m_n_block_files > 0) {
    end_block();
  }

  for (size_t i = 0; i < m_ids.size(); ++i) {
    if (!is_possible_id(m_ids[i].first) ||
        (i > 0 && m_ids[i].first == m_ids[i - 1].first)) {
      return false;
    }
  }

  std::string index;
  uint32_t n_id_blocks = 0;
  {
    Out out(index);
    std::string block;

    for (size_t first = 0; first < m_ids.size(); first += IDS_PER_BLOCK) {
      const auto end = std::min<size_t>(first + IDS_PER_BLOCK, m_ids.size());
      Out ids(block);

      for (auto i = first; i < end; ++i) {
        ids.num<4>(m_ids[i].first);
        ids.num<4>(m_ids[i].second);
      }
      out.num<4>(checksum(block));
      out.num<4>(m_ids[first].first);
      ++n_id_blocks;
      put(block);
      block.clear();
    }
  }

  std::string bytes;
  Out out(bytes);

  out.str(summary.config);
  out.num<1>(summary.is_clean);
  out.str(summary.temp_path);
  out.num<4>(summary.undo.size());
  for (const auto &undo : summary.undo) {
    out.num<4>(undo.first);
    out.str(undo.second);
  }
  out.num<4>(summary.max_space_id);
  for (const auto ids : {&summary.opened_at_start, &summary.encrypted}) {
    out.num<4>(ids->size());
    for (const auto id : *ids) {
      out.num<4>(id);
    }
  }
  out.num<4>(summary.dirs.size());
  for (const auto &dir : summary.dirs) {
    out.num<4>(dir.root);
    out.str(dir.path);
    out.num<8>(dir.identity.dev);
    out.num<8>(dir.identity.ino);
    out.num<8>(dir.identity.mtime_nsec);
    out.num<8>(dir.identity.ctime_nsec);
    out.num<1>(!dir.is_trusted ? 0 : dir.is_partial ? 2 : 1);
    out.num<4>(dir.parent);
    out.num<4>(dir.n_files);
  }
  out.num<4>(m_n_blocks);
  bytes += m_blocks;
  out.num<4>(n_id_blocks);
  bytes += index;

  const auto offset = m_offset;
  put(bytes);
  return m_is_good && m_sink(0, make_header({offset, bytes.size(),
                                             checksum(bytes), session}));
}

bool set_session(std::string &header, const Session &session) {
  Header old;

  if (!parse_header(header, old)) {
    return false;
  }
  old.session = session;
  header = make_header(old);
  return true;
}

/* Reading. */

const char *Reader::open(Source source, uint64_t n_bytes, uint64_t n_at_once) {
  static const char *const DAMAGED = "it is damaged";
  static const char *const UNREADABLE = "it cannot be read";

  if (n_bytes > MAX_MAP_BYTES) {
    return "it is not a file of reasonable size";
  }
  if (n_bytes < HEADER_BYTES) {
    return DAMAGED;
  }

  const bool is_small = n_bytes <= n_at_once;

  if (is_small) {
    const auto all = std::make_shared<std::string>(n_bytes, '\0');

    if (!source(0, n_bytes, all->data())) {
      return UNREADABLE;
    }
    m_source = [all](uint64_t offset, size_t n, char *to) {
      memcpy(to, all->data() + offset, n);
      return true;
    };
  } else {
    m_source = source;
  }

  std::string bytes(HEADER_BYTES, '\0');
  Header header;

  if (!m_source(0, HEADER_BYTES, bytes.data())) {
    return UNREADABLE;
  }
  if (memcmp(bytes.data(), MAGIC, sizeof MAGIC - 1) == 0 &&
      bytes[sizeof MAGIC - 1] != MAGIC[sizeof MAGIC - 1]) {
    return "it has the format of another version";
  }
  if (!parse_header(bytes, header) || header.summary_offset > n_bytes ||
      header.summary_offset < HEADER_BYTES ||
      header.n_summary != n_bytes - header.summary_offset) {
    return DAMAGED;
  }

  bytes.resize(header.n_summary);
  if (!m_source(header.summary_offset, bytes.size(), bytes.data())) {
    return UNREADABLE;
  }
  if (checksum(bytes) != header.summary_crc ||
      !read_summary(bytes, header.summary_offset)) {
    return DAMAGED;
  }
  m_session = header.session;
  m_id = uint64_t{header.summary_crc} << 32 | (n_bytes & 0xffffffff);
  m_n_bytes = n_bytes;
  m_blocks.resize(m_places.size());

  if (is_small && !check()) {
    return DAMAGED;
  }
  m_source = std::move(source);
  return nullptr;
}

bool Reader::read_summary(std::string_view bytes, uint64_t end) {
  In in(bytes);

  m_summary.config = in.str();
  const auto is_clean = in.num<1>();
  m_summary.is_clean = is_clean == 1;
  m_summary.temp_path = in.str();
  for (auto n = in.num<4>(); n > 0 && !in.is_bad(); --n) {
    const uint32_t no = in.num<4>();
    m_summary.undo.emplace_back(no, in.str());
  }
  m_summary.max_space_id = in.num<4>();
  for (const auto ids : {&m_summary.opened_at_start, &m_summary.encrypted}) {
    for (auto n = in.num<4>(); n > 0 && !in.is_bad(); --n) {
      ids->push_back(in.num<4>());
    }
  }

  auto &dirs = m_summary.dirs;
  const auto n_dirs = in.num<4>();

  if (in.is_bad() || is_clean > 1 || n_dirs > in.left() / MIN_DIR_BYTES) {
    return false;
  }

  uint64_t n_files = 0;

  dirs.resize(n_dirs);
  for (uint32_t d = 0; d < n_dirs; ++d) {
    auto &dir = dirs[d];
    dir.root = in.num<4>();
    dir.path = in.str();
    dir.identity.dev = in.num<8>();
    dir.identity.ino = in.num<8>();
    dir.identity.mtime_nsec = in.num<8>();
    dir.identity.ctime_nsec = in.num<8>();
    const auto trust = in.num<1>();
    dir.is_trusted = trust != 0;
    dir.is_partial = trust == 2;
    dir.parent = in.num<4>();
    dir.n_files = in.num<4>();
    dir.first_file = n_files;
    n_files += dir.n_files;

    /* A directory comes behind its parent. */
    if (in.is_bad() || trust > 2 ||
        n_files > std::numeric_limits<uint32_t>::max() ||
        (dir.path.empty() ? dir.parent != d : dir.parent >= d) ||
        dirs[dir.parent].root != dir.root) {
      return false;
    }
    if (d > 0 && (dirs[d - 1].root > dir.root ||
                  (dirs[d - 1].root == dir.root &&
                   !walk_order(dirs[d - 1].path, dir.path)))) {
      return false;
    }
  }
  m_n_files = n_files;

  uint64_t offset = HEADER_BYTES;
  uint64_t first = 0;
  m_n_file_blocks = in.num<4>();

  if (in.is_bad() || m_n_file_blocks > in.left() / MIN_BLOCK_BYTES) {
    return false;
  }
  for (size_t b = 0; b < m_n_file_blocks; ++b) {
    Block_place place;
    place.offset = offset;
    place.n_bytes = in.num<4>();
    place.crc = in.num<4>();
    place.first = first;
    place.n = in.num<4>();
    place.first_id = 0;
    place.first_name = in.str();
    offset += place.n_bytes;
    first += place.n;

    if (in.is_bad() || place.n == 0 || first > n_files || offset > end) {
      return false;
    }
    m_places.push_back(std::move(place));
  }

  const auto n_id_blocks = in.num<4>();

  if (in.is_bad() || first != n_files ||
      n_id_blocks != (n_files + IDS_PER_BLOCK - 1) / IDS_PER_BLOCK ||
      end - offset != n_files * ID_BYTES) {
    return false;
  }
  first = 0;
  for (size_t b = 0; b < n_id_blocks; ++b) {
    Block_place place;
    place.offset = offset;
    place.crc = in.num<4>();
    place.first = first;
    place.n = std::min<uint64_t>(IDS_PER_BLOCK, n_files - first);
    place.n_bytes = place.n * ID_BYTES;
    place.first_id = in.num<4>();
    offset += place.n_bytes;
    first += place.n;

    if (b > 0 && m_places.back().first_id >= place.first_id) {
      return false;
    }
    m_places.push_back(std::move(place));
  }
  return in.is_at_end();
}

bool Reader::load_files(const Block_place &place, Block &block) const {
  In in(block.bytes);
  std::string_view last;
  auto dir = m_summary.dirs.begin() + dir_of(place.first);

  block.offsets.reserve(place.n);
  for (uint32_t i = 0; i < place.n; ++i) {
    block.offsets.push_back(block.bytes.size() - in.left());

    const auto name = in.str();
    (void)in.num<8>();
    (void)in.num<8>();
    const space_id_t space_id = in.num<4>();
    (void)in.num<4>();
    (void)in.str();
    const auto is_stray = in.num<1>();

    const auto no = place.first + i;
    const bool is_next = i > 0 && no < dir->first_file + dir->n_files;
    if (!is_next) {
      dir = m_summary.dirs.begin() + dir_of(no);
    }
    if (in.is_bad() || is_stray > 1 || name.size() <= 4 ||
        !is_possible_id(space_id) || (is_next && last >= name) ||
        (i == 0 && name != place.first_name)) {
      return false;
    }
    last = name;
  }
  return in.is_at_end();
}

bool Reader::load_ids(size_t no, const Block &block) const {
  const auto &place = m_places[no];

  if (id_at(block.bytes, 0).first != place.first_id) {
    return false;
  }
  for (uint32_t i = 0; i < place.n; ++i) {
    const auto [id, file_no] = id_at(block.bytes, i);

    if (!is_possible_id(id) || file_no >= m_n_files ||
        (i > 0 && id_at(block.bytes, i - 1).first >= id)) {
      return false;
    }
  }
  return no + 1 == m_places.size() ||
         id_at(block.bytes, place.n - 1).first < m_places[no + 1].first_id;
}

bool Reader::load(size_t no, Block &block) const {
  const auto &place = m_places[no];

  block.bytes.resize(place.n_bytes);
  return m_source(place.offset, place.n_bytes, block.bytes.data()) &&
         checksum(block.bytes) == place.crc &&
         (no < m_n_file_blocks ? load_files(place, block)
                               : load_ids(no, block));
}

Reader::Block_ptr Reader::get(size_t no) const {
  const std::lock_guard guard(m_mutex);

  if (m_blocks[no] == nullptr) {
    auto block = std::make_shared<Block>();

    if (!load(no, *block)) {
      m_is_damaged = true;
      return nullptr;
    }
    if (m_n_kept >= m_max_kept) {
      m_blocks.assign(m_blocks.size(), nullptr);
      m_n_kept = 0;
    }
    m_blocks[no] = std::move(block);
    ++m_n_kept;
  }
  return m_blocks[no];
}

void Reader::keep(size_t n_blocks) {
  const std::lock_guard guard(m_mutex);

  m_max_kept = n_blocks;
  m_blocks.assign(m_blocks.size(), nullptr);
  m_n_kept = 0;
}

size_t Reader::block_of(uint32_t file_no) const {
  const auto end = m_places.begin() + m_n_file_blocks;
  const auto it = std::partition_point(
      m_places.begin(), end,
      [file_no](const Block_place &place) { return place.first <= file_no; });

  return it - m_places.begin() - 1;
}

uint32_t Reader::dir_of(uint32_t file_no) const {
  const auto &dirs = m_summary.dirs;
  const auto it = std::partition_point(
      dirs.begin(), dirs.end(),
      [file_no](const Directory &dir) { return dir.first_file <= file_no; });

  return it - dirs.begin() - 1;
}

std::string_view Reader::name_at(const Block &block, uint32_t i) const {
  return In(std::string_view(block.bytes).substr(block.offsets[i])).str();
}

void Reader::decode(const Block &block, uint32_t i, File &file) const {
  In in(std::string_view(block.bytes).substr(block.offsets[i]));

  file.name = in.str();
  file.identity.ino = in.num<8>();
  file.identity.btime_nsec = in.num<8>();
  file.space_id = in.num<4>();
  file.flags = in.num<4>();
  file.space_name = in.str();
  file.is_stray = in.num<1>() == 1;
}

bool Reader::find(space_id_t space_id, Found &found) const {
  const auto begin = m_places.begin() + m_n_file_blocks;
  const auto it = std::partition_point(begin, m_places.end(),
                                       [space_id](const Block_place &place) {
                                         return place.first_id <= space_id;
                                       });

  if (it == begin) {
    return false;
  }

  const auto ids = get(it - m_places.begin() - 1);

  if (ids == nullptr) {
    return false;
  }

  uint32_t low = 0;
  uint32_t high = (it - 1)->n;

  while (high - low > 1) {
    const auto mid = low + (high - low) / 2;
    (id_at(ids->bytes, mid).first <= space_id ? low : high) = mid;
  }

  const auto [id, no] = id_at(ids->bytes, low);

  if (id != space_id) {
    return false;
  }

  const auto b = block_of(no);
  const auto block = get(b);

  if (block == nullptr) {
    return false;
  }
  decode(*block, no - m_places[b].first, found.file);
  found.dir = dir_of(no);
  found.no = no;

  if (found.file.space_id != space_id) {
    m_is_damaged = true;
    return false;
  }
  return true;
}

bool Reader::find_file(uint32_t dir_no, std::string_view name,
                       Found &found) const {
  const auto &dir = m_summary.dirs[dir_no];

  if (dir.n_files == 0) {
    return false;
  }

  const auto end = dir.first_file + dir.n_files;
  const auto low = block_of(dir.first_file);
  /* Those behind the first block that has files of the directory begin with one
  of them. */
  const auto it = std::partition_point(
      m_places.begin() + low + 1, m_places.begin() + block_of(end - 1) + 1,
      [name](const Block_place &place) { return place.first_name <= name; });
  const auto &place = *(it - 1);
  const auto block = get(it - 1 - m_places.begin());

  if (block == nullptr) {
    return false;
  }

  auto i = std::max(dir.first_file, place.first) - place.first;
  auto n = std::min(end, place.first + place.n) - place.first - i;

  while (n > 0) {
    const auto half = n / 2;

    if (name_at(*block, i + half) < name) {
      i += half + 1;
      n -= half + 1;
    } else {
      n = half;
    }
  }
  if (place.first + i >= end || i >= place.n || name_at(*block, i) != name) {
    return false;
  }
  decode(*block, i, found.file);
  found.dir = dir_no;
  found.no = place.first + i;
  return true;
}

bool Reader::read_files(
    uint32_t dir_no,
    const std::function<bool(const File &, uint32_t)> &visit) const {
  const auto &dir = m_summary.dirs[dir_no];
  File file;

  for (auto no = dir.first_file; no < dir.first_file + dir.n_files;) {
    const auto b = block_of(no);
    const auto &place = m_places[b];
    const auto block = get(b);

    if (block == nullptr) {
      return false;
    }
    for (; no < std::min(dir.first_file + dir.n_files, place.first + place.n);
         ++no) {
      decode(*block, no - place.first, file);
      if (!visit(file, no)) {
        return false;
      }
    }
  }
  return true;
}

bool Reader::read_ids(const std::function<void(space_id_t)> &visit) const {
  for (auto b = m_n_file_blocks; b < m_places.size(); ++b) {
    const auto block = get(b);

    if (block == nullptr) {
      return false;
    }
    for (uint32_t i = 0; i < m_places[b].n; ++i) {
      visit(id_at(block->bytes, i).first);
    }
  }
  return true;
}

bool Reader::check() const {
  std::vector<space_id_t> ids(m_n_files);

  for (uint32_t d = 0; d < m_summary.dirs.size(); ++d) {
    std::string last;

    if (!read_files(d, [&ids, &last](const File &file, uint32_t no) {
          ids[no] = file.space_id;
          const bool is_sorted = last < file.name;
          last = file.name;
          return is_sorted;
        })) {
      m_is_damaged = true;
      return false;
    }
  }
  for (auto b = m_n_file_blocks; b < m_places.size(); ++b) {
    const auto block = get(b);

    for (uint32_t i = 0; block != nullptr && i < m_places[b].n; ++i) {
      const auto [id, no] = id_at(block->bytes, i);
      m_is_damaged = m_is_damaged || ids[no] != id;
    }
  }
  return !m_is_damaged;
}

}  // namespace tablespace_map
