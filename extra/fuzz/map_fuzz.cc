/* Copyright (c) 2026, the Redstart authors. GPL-2.0-only. */

/** libFuzzer target: any bytes as the file of the tablespace map.

Nothing may be read outside of them. What is taken for a map must be found in it
again in every way that the server asks, and after it was written anew. All
checksums are 0 here, so that they keep nothing out. */

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "unittest/gunit/innodb/fil0map-content.h"
#include "right_inputs.h"
#include "ut0crc32.h"

using namespace tablespace_map;
using namespace tablespace_map_content;

static uint32_t no_checksum(const byte *, size_t) { return 0; }
ut_crc32_func_t ut_crc32 = no_checksum;

[[noreturn]] void ut_dbg_assertion_failed(const char *expr, const char *file,
                                          uint64_t line) {
  fprintf(stderr, "assertion failed: %s at %s:%lu\n", expr, file, line);
  abort();
}

static void require(bool is_right, const char *what) {
  if (!is_right) {
    fprintf(stderr, "not right: %s\n", what);
    abort();
  }
}

static Content read(const Reader &reader) {
  Content content{reader.summary(), reader.session(), {}};

  for (uint32_t d = 0; d < content.summary.dirs.size(); ++d) {
    auto &files = content.files.emplace_back();
    const auto first = content.summary.dirs[d].first_file;
    const bool is_read = reader.read_files(d, [&](const Map_file &file, uint32_t no) {
      require(no == first + files.size(), "number of a file");
      files.push_back(file);
      return true;
    });
    require(is_read, "a checked map is read");
    require(files.size() == content.summary.dirs[d].n_files, "number of files");
  }
  return content;
}

/** Ask a map that is right for all that it holds. */
static void ask(const Reader &reader, const Content &content) {
  Found found;
  size_t n_ids = 0;

  for (uint32_t d = 0; d < content.files.size(); ++d) {
    const auto &dir = content.summary.dirs[d];
    require(reader.summary().find_dir(dir.root, dir.path) == int64_t{d},
            "a directory is found");
    for (const auto &file : content.files[d]) {
      require(reader.find(file.space_id, found) && found.file == file &&
                  found.dir == d,
              "a file is found by its ID");
      require(reader.find_file(d, file.name, found) && found.file == file,
              "a file is found by its name");
      ++n_ids;
    }
    require(!reader.find_file(d, "none", found),
            "what is not there is not found");
  }

  space_id_t last = 0;
  require(reader.read_ids([&](space_id_t id) {
    require(id > last, "IDs are sorted");
    last = id;
    --n_ids;
  }) && n_ids == 0,
          "all IDs are read");
}

/** Ask one that was not checked as a whole: answers, or it is damaged. */
static void ask_anything(const Reader &reader) {
  Found found;

  for (uint32_t d = 0; d < reader.summary().dirs.size(); ++d) {
    (void)reader.find_file(d, "t1.ibd", found);
    (void)reader.read_files(d, [&](const Map_file &file, uint32_t) {
      (void)reader.find(file.space_id, found);
      return true;
    });
  }
  (void)reader.read_ids([&](space_id_t id) { (void)reader.find(id, found); });
  (void)reader.check();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
  const std::string bytes(reinterpret_cast<const char *>(data), n_bytes);
  Reader whole;
  const bool is_map = open(bytes, whole, n_bytes);

  if (is_map) {
    ++g_right.n;
    const auto content = read(whole);
    ask(whole, content);

    const auto again = encode(content);
    Reader second;
    require(!again.empty() && open(again, second, again.size()),
            "it is a map when it is written anew");
    ask(second, content);
    require(encode(read(second)) == again, "nothing is lost when it is read");
  }

  Reader by_block;
  if (open(bytes, by_block, 0)) {
    by_block.keep(bytes[0] & 3);
    ask_anything(by_block);
    require(by_block.is_damaged() != is_map, "damage is seen");
  } else {
    require(!is_map, "a map is one block by block, too");
  }

  std::string header = bytes.substr(0, HEADER_BYTES);
  (void)set_session(header, {1, {2, 3}, true});
  return 0;
}

/** What a map begins with: the magic of this version of the format. */
static std::string g_magic;

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t n, size_t max);

/** The summary must end with the file, which hardly any change leaves so. */
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t max,
                                          unsigned int seed) {
  n = LLVMFuzzerMutate(data, n, max);
  if (n < HEADER_BYTES || seed % 4 == 0) return n;

  memcpy(data, g_magic.data(), g_magic.size());
  uint64_t offset = 0;
  for (int i = 8; i < 16; ++i) offset = offset << 8 | data[i];
  if (offset < HEADER_BYTES || offset > n) offset = HEADER_BYTES;
  const uint64_t length = n - offset;
  for (int i = 0; i < 8; ++i) {
    data[8 + i] = static_cast<uint8_t>(offset >> (56 - 8 * i));
    data[16 + i] = static_cast<uint8_t>(length >> (56 - 8 * i));
  }
  memset(data + 24, 0, 4);
  memset(data + HEADER_BYTES - 4, 0, 4);
  return n;
}

/** Give the files of a map two blocks instead of one, as only a large one has.
@param[in]  bytes        the map
@param[in]  first_files  files of the first block */
static std::string split_block(const std::string &bytes, size_t first_files) {
  Reader reader;
  require(open(bytes, reader, bytes.size()), "a map to split");
  const auto content = read(reader);

  /* What the summary says of a block: length, checksum, number, first name. */
  size_t n_files = 0, first_bytes = 0;
  std::string first, second;
  const auto number = [](size_t n) {
    return std::string{char(n >> 24), char(n >> 16), char(n >> 8), char(n)};
  };
  size_t block_bytes = 0;

  for (const auto &files : content.files) {
    for (const auto &file : files) {
      auto &name = n_files < first_files ? first : second;
      if (name.empty()) name = file.name;
      block_bytes += 4 + file.name.size() + 24 + 4 + file.space_name.size() + 1;
      if (++n_files == first_files) first_bytes = block_bytes;
    }
  }
  require(n_files > first_files, "files for a second block");

  const auto one = number(1) + number(block_bytes) + number(0) +
                   number(n_files) + number(first.size()) + first;
  const auto two = number(2) + number(first_bytes) + number(0) +
                   number(first_files) + number(first.size()) + first +
                   number(block_bytes - first_bytes) + number(0) +
                   number(n_files - first_files) + number(second.size()) +
                   second;
  const auto at = bytes.find(one);
  require(at != std::string::npos, "the block of a map is found");

  auto split = bytes;
  split.replace(at, one.size(), two);
  const auto length = number(0) + number(two.size() - one.size() +
                                         (uint8_t(bytes[22]) << 8) +
                                         uint8_t(bytes[23]));
  split.replace(16, 8, length);
  return split;
}

/** Maps to begin with, written to the directory FUZZ_SEEDS. */
extern "C" int LLVMFuzzerInitialize(int *, char ***) {
  const char *folder = getenv("FUZZ_SEEDS");
  if (folder == nullptr) return 0;

  constexpr size_t MAGIC_BYTES = 8;

  const auto write = [folder](const char *name, const Content &content,
                              size_t first_files = 0) {
    const auto bytes = first_files == 0
                           ? encode(content)
                           : split_block(encode(content), first_files);
    Reader reader;
    require(open(bytes, reader, bytes.size()), "a seed is a map");
    std::ofstream(std::string(folder) + '/' + name, std::ios::binary) << bytes;
  };

  Content content;
  content.summary.config = "c";
  content.summary.dirs = {{0, "", {1, 2, 3, 4}, true, 0}};
  content.files = {{}};
  g_magic = encode(content).substr(0, MAGIC_BYTES);
  write("empty", content);

  content.session = {4711, {20, 21}, true};
  content.summary.is_clean = true;
  content.summary.temp_path = "./ibtmp1";
  content.summary.undo = {{1, "innodb_undo_001"}};
  content.summary.max_space_id = 3;
  content.summary.opened_at_start = {3, 99};
  content.summary.encrypted = {5, 7};
  content.summary.dirs = {{0, "", {1, 2, 3, 4}, false, 0, 1},
                          {0, "d", {1, 9, -5, 6}, true, 0, 3},
                          {0, "d/e", {1, 10, 3, 4}, true, 1, 0},
                          {1, "", {2, 9, 5, 6}, true, 3, 1}};
  content.files = {{{"m.ibd", {7, 8}, 99, 5, "mysql"}},
                   {{"t1.ibd", {10, 11}, 1, 16417, ""},
                    {"t2.ibd", {12, 0}, 2, 16417, "d/t-2"},
                    {"u.ibd", {15, 16}, 4, 16417, "", true}},
                   {},
                   {{"g.ibd", {13, 14}, 3, 18432, "g"}}};
  write("small", content);
  write("blocks", content, 3);
  return 0;
}
