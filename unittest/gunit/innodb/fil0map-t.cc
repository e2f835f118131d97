/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** Unit tests of fil0map: the format of the map against hostile bytes, what
counts as the same directory and the same file, and when a map is written. */

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "storage/innobase/include/fil0fil.h"
#include "storage/innobase/include/fil0mapfile.h"
#include "storage/innobase/include/fil0mapparts.h"
#include "storage/innobase/include/ut0crc32.h"
#include "unittest/gunit/innodb/fil0map-content.h"

namespace innodb_fil0map_unittest {

using namespace tablespace_map;
using namespace tablespace_map_content;

class fil0map : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { ut_crc32_init(); }

  /** A map with two roots, an empty directory and general tablespaces. */
  static Content sample() {
    Content content;
    content.session = {4711, {20, 21}};
    content.summary.config =
        server_config(90704, 90200, 16384) + "./\n/data/\n";
    content.summary.is_clean = true;
    content.summary.temp_path = "./ibtmp1";
    content.summary.undo = {{1, "innodb_undo_001"}, {2, "innodb_undo_002"}};
    content.summary.max_space_id = 3;
    content.summary.opened_at_start = {99, 3};
    content.summary.encrypted = {5, 7, 200};
    content.summary.dirs = {{0, "", {1, 2, 3, 4}, false, 0},
                            {0, "test", {1, 9, -5, 6}, true, 0},
                            {0, "test/sub", {1, 10, 3, 4}, true, 1},
                            {1, "", {2, 9, 5, 6}, true, 3}};
    content.files = {{{"mysql.ibd", {7, 8}, 99, 5, "mysql"}},
                     {{"t1.ibd", {10, 11}, 1, 16417, ""},
                      {"t2.ibd", {12, 0}, 2, 16417, "test/t-2"},
                      {"u.ibd", {15, 16}, 4, 16417, "", true}},
                     {},
                     {{"g.ibd", {13, 14}, 3, 18432, "g"}}};
    return content;
  }

  /** A map of so many files that it has many blocks, and is not checked as a
  whole when it is opened. IDs are in another order than the names. */
  static Content large() {
    Content content;
    content.summary.config = "large";
    content.summary.dirs.push_back({0, "", {1, 2, 3, 4}, true, 0});
    content.files.emplace_back();
    for (int d = 0; d < 5; ++d) {
      /* Every other directory is empty. */
      const auto n_files = d % 2 == 0 ? 20000 : 0;
      content.summary.dirs.push_back(
          {0, "d" + std::to_string(d), {1, 2, 3, 4}, true, 0});
      content.files.emplace_back();
      for (int f = 0; f < n_files; ++f) {
        const uint32_t id = 1 + (d * 20000 + f) * 7919u % 1000003u;
        content.files.back().push_back(
            {"table_" + std::to_string(10000000 + f) + ".ibd",
             {id, id},
             id,
             16417,
             ""});
      }
    }
    return content;
  }

  /** Open a map and read all of it. */
  static bool is_map(const std::string &bytes) {
    Reader reader;
    return open(bytes, reader) && reader.check();
  }

  static bool is_map(const Content &content) {
    const auto bytes = encode(content);
    return !bytes.empty() && is_map(bytes);
  }

  static std::vector<Map_file> files(const Reader &reader, uint32_t dir) {
    std::vector<Map_file> result;
    EXPECT_TRUE(
        reader.read_files(dir, [&result](const Map_file &file, uint32_t) {
          result.push_back(file);
          return true;
        }));
    return result;
  }

  static uint32_t crc(const std::string &s) {
    return ut_crc32(reinterpret_cast<const byte *>(s.data()), s.size());
  }

  static void put(std::string &bytes, uint64_t n, int n_bytes) {
    for (int b = n_bytes - 1; b >= 0; --b) {
      bytes.push_back(static_cast<char>(n >> (8 * b)));
    }
  }

  /** Look everything up in a map: what is found is what was asked for. */
  static void look_around(const Reader &reader) {
    for (uint32_t d = 0; d < reader.summary().dirs.size(); ++d) {
      const auto &dir = reader.summary().dirs[d];
      ASSERT_LE(dir.parent, d);
      ASSERT_EQ(d, reader.summary().find_dir(dir.root, dir.path));
      (void)reader.read_files(d, [&](const Map_file &file, uint32_t no) {
        Found found;
        EXPECT_LT(no, reader.n_files());
        if (reader.find_file(d, file.name, found)) {
          EXPECT_EQ(file.name, found.file.name);
          EXPECT_EQ(d, found.dir);
        }
        return true;
      });
    }
    for (const space_id_t id : {1, 2, 3, 4, 99, 100}) {
      Found found;
      if (reader.find(id, found)) {
        EXPECT_EQ(id, found.file.space_id);
      }
    }
  }
};

TEST_F(fil0map, maps_are_shared_by_patch_releases) {
  const auto config = server_config(90704, 90200, 16384);

  EXPECT_EQ("907 90200 16384\n", config);
  EXPECT_EQ(config, server_config(90702, 90200, 16384));
  EXPECT_EQ(config, server_config(90799, 90200, 16384));
  EXPECT_NE(config, server_config(90604, 90200, 16384));
  EXPECT_NE(config, server_config(90804, 90200, 16384));
  EXPECT_NE(config, server_config(90704, 90201, 16384));
  EXPECT_NE(config, server_config(90704, 90200, 8192));
}

TEST_F(fil0map, RoundTrip) {
  const auto in = sample();
  const auto bytes = encode(in);
  Reader out;
  ASSERT_TRUE(open(bytes, out));

  const auto &a = in.summary;
  const auto &b = out.summary();
  EXPECT_EQ(a.config, b.config);
  EXPECT_TRUE(b.is_clean);
  EXPECT_EQ(a.undo, b.undo);
  EXPECT_EQ(a.temp_path, b.temp_path);
  EXPECT_EQ(a.max_space_id, b.max_space_id);
  EXPECT_EQ(a.opened_at_start, b.opened_at_start);
  EXPECT_EQ(a.encrypted, b.encrypted);
  EXPECT_EQ(in.session.end_lsn, out.session().end_lsn);
  EXPECT_TRUE(in.session.temp_file.is_same(out.session().temp_file));
  ASSERT_EQ(a.dirs.size(), b.dirs.size());
  for (size_t d = 0; d < a.dirs.size(); ++d) {
    EXPECT_EQ(a.dirs[d].root, b.dirs[d].root);
    EXPECT_EQ(a.dirs[d].path, b.dirs[d].path);
    EXPECT_EQ(a.dirs[d].identity, b.dirs[d].identity);
    EXPECT_EQ(a.dirs[d].is_trusted, b.dirs[d].is_trusted);
    EXPECT_EQ(a.dirs[d].parent, b.dirs[d].parent);
    EXPECT_TRUE(in.files[d] == files(out, d)) << d;
  }
}

TEST_F(fil0map, Empty) {
  EXPECT_TRUE(is_map(Content()));
  EXPECT_FALSE(is_map(""));
}

TEST_F(fil0map, EveryTruncationIsRefused) {
  const auto bytes = encode(sample());
  for (size_t n = 0; n < bytes.size(); ++n) {
    EXPECT_FALSE(is_map(bytes.substr(0, n))) << n;
  }
  EXPECT_FALSE(is_map(bytes + '\0'));
}

/** A small map is refused as a whole when it is opened. */
TEST_F(fil0map, EveryBitFlipIsRefused) {
  auto bytes = encode(sample());
  for (size_t n = 0; n < bytes.size(); ++n) {
    for (int bit = 0; bit < 8; ++bit) {
      Reader reader;
      bytes[n] ^= 1 << bit;
      EXPECT_FALSE(open(bytes, reader)) << n << ' ' << bit;
      bytes[n] ^= 1 << bit;
    }
  }
}

TEST_F(fil0map, Large) {
  const auto in = large();
  const auto bytes = encode(in);
  ASSERT_GT(bytes.size(), CHECKED_AT_ONCE_BYTES);

  for (const bool is_few : {false, true}) {
    Reader reader;
    ASSERT_TRUE(open(bytes, reader));
    if (is_few) {
      reader.keep(3);
    }
    EXPECT_EQ(60000u, reader.n_files());

    uint32_t no = 0;
    for (uint32_t d = 0; d < in.files.size(); ++d) {
      for (const auto &file : in.files[d]) {
        Found found;
        ASSERT_TRUE(reader.find(file.space_id, found));
        ASSERT_TRUE(file == found.file);
        ASSERT_EQ(d, found.dir);
        ASSERT_EQ(no, found.no);
        ASSERT_TRUE(reader.find_file(d, file.name, found));
        ASSERT_TRUE(file == found.file);
        ASSERT_EQ(no, found.no);
        /* Between two files. */
        ASSERT_FALSE(reader.find_file(d, file.name + "x", found));
        ++no;
      }
      Found found;
      EXPECT_FALSE(reader.find_file(d, "a.ibd", found));
      EXPECT_FALSE(reader.find_file(d, "z.ibd", found));
      EXPECT_TRUE(in.files[d] == files(reader, d));
    }
    Found found;
    EXPECT_FALSE(reader.find(0, found));
    EXPECT_FALSE(reader.find(1000004, found));
    EXPECT_FALSE(reader.is_damaged());
    EXPECT_TRUE(reader.check());

    std::vector<space_id_t> ids;
    EXPECT_TRUE(reader.read_ids([&ids](space_id_t id) { ids.push_back(id); }));
    EXPECT_EQ(60000u, ids.size());
    EXPECT_TRUE(std::is_sorted(ids.begin(), ids.end()));
  }
}

/** What a start reads of a large map does not grow with the files. */
TEST_F(fil0map, LargeIsNotReadAsAWhole) {
  const auto bytes = encode(large());
  size_t n_read = 0;
  Reader reader;
  ASSERT_EQ(nullptr, reader.open(
                         [&](uint64_t offset, size_t n, char *to) {
                           memcpy(to, bytes.data() + offset, n);
                           n_read += n;
                           return true;
                         },
                         bytes.size()));
  EXPECT_LT(n_read, 10000u);
  n_read = 0;

  Found found;
  ASSERT_TRUE(reader.find(1, found));
  ASSERT_TRUE(reader.find(1, found));
  EXPECT_LT(n_read, 2 * BLOCK_BYTES + 100);
}

/** Damage in a large map is seen when the block is read, and nothing of the
block is used. */
TEST_F(fil0map, DamagedBlock) {
  const auto in = large();
  const auto good = encode(in);
  std::mt19937 random(4712);

  for (int i = 0; i < 200; ++i) {
    auto bytes = good;
    const auto pos = HEADER_BYTES + random() % (bytes.size() - HEADER_BYTES);
    bytes[pos] ^= 1 << random() % 8;

    Reader reader;
    if (!open(bytes, reader)) {
      continue;
    }
    EXPECT_FALSE(reader.is_damaged());
    EXPECT_FALSE(reader.check());
    EXPECT_TRUE(reader.is_damaged());

    Reader other;
    ASSERT_TRUE(open(bytes, other));
    size_t n_missing = 0;
    for (const auto &file : in.files[1]) {
      Found found;
      if (other.find(file.space_id, found)) {
        ASSERT_TRUE(file == found.file);
      } else {
        ++n_missing;
      }
    }
    EXPECT_EQ(n_missing > 0, other.is_damaged());
    EXPECT_LT(n_missing, in.files[1].size());
  }
}

/** As far as a map is not checked at once, a flipped bit is seen by who reads
it, or by the check of everything. */
TEST_F(fil0map, EveryBitFlipIsSeen) {
  auto bytes = encode(sample());
  const auto source = [&bytes](uint64_t offset, size_t n, char *to) {
    memcpy(to, bytes.data() + offset, n);
    return true;
  };
  for (size_t n = 0; n < bytes.size(); ++n) {
    for (int bit = 0; bit < 8; ++bit) {
      Reader reader;
      bytes[n] ^= 1 << bit;
      if (reader.open(source, bytes.size(), 0) == nullptr) {
        Found found;
        if (reader.find(2, found)) {
          EXPECT_EQ("t2.ibd", found.file.name);
          EXPECT_EQ(1u, found.dir);
        }
        EXPECT_FALSE(reader.check()) << n << ' ' << bit;
        EXPECT_TRUE(reader.is_damaged());
      }
      bytes[n] ^= 1 << bit;
    }
  }
}

/** A block that cannot be read is damaged as well. */
TEST_F(fil0map, ReadError) {
  const auto bytes = encode(large());
  bool is_good = true;
  Reader reader;
  ASSERT_EQ(nullptr, reader.open(
                         [&](uint64_t offset, size_t n, char *to) {
                           memcpy(to, bytes.data() + offset, n);
                           return is_good;
                         },
                         bytes.size()));
  is_good = false;
  Found found;
  EXPECT_FALSE(reader.find(1, found));
  EXPECT_TRUE(reader.is_damaged());
}

/** A sink that fails at some point, as a full disk does. */
TEST_F(fil0map, WriteError) {
  for (int n_good = 0; n_good < 5; ++n_good) {
    int n = 0;
    Builder builder([&](uint64_t, std::string_view) { return n++ < n_good; });
    builder.add({"t1.ibd", {1, 1}, 1, 0, ""});
    builder.sort_ids();
    Summary summary;
    summary.dirs.push_back({0, "", {1, 2, 3, 4}, true, 0, 1});
    /* A block of files, one of IDs, the summary, the header. */
    EXPECT_EQ(n_good >= 4, builder.finish(summary, Session()));
  }
}

/** Bytes with right checksums but any content: no crash, nothing odd. */
TEST_F(fil0map, HostileBytes) {
  std::mt19937 random(4711);
  const auto good = encode(sample());
  /* The summary begins where the header says. */
  const auto get = [&good](size_t pos, int n_bytes) {
    uint64_t n = 0;
    for (int b = 0; b < n_bytes; ++b) {
      n = n << 8 | static_cast<unsigned char>(good[pos + b]);
    }
    return n;
  };
  const auto offset = get(8, 8);
  size_t n_accepted = 0;

  for (int i = 0; i < 200000; ++i) {
    auto blocks = good.substr(HEADER_BYTES, offset - HEADER_BYTES);
    auto summary = good.substr(offset);
    const bool is_block = random() % 2 == 0;
    const auto n_changes = 1 + random() % 4;

    for (size_t c = 0; c < n_changes; ++c) {
      auto &part = is_block ? blocks : summary;
      part[random() % part.size()] = static_cast<char>(random());
    }
    if (is_block) {
      /* One block of files, 4 IDs; their checksums are at the end. */
      const auto n_ids = 4 * 8;
      std::string sums;
      put(sums, crc(blocks.substr(0, blocks.size() - n_ids)), 4);
      const auto tail = std::string("mysql.ibd");
      const auto pos = summary.rfind(tail);
      ASSERT_NE(std::string::npos, pos);
      /* 4 CRC, 4 number of files, 4 length of the name come before it. */
      summary.replace(pos - 12, 4, sums);
      sums.clear();
      put(sums, crc(blocks.substr(blocks.size() - n_ids)), 4);
      summary.replace(summary.size() - 8, 4, sums);
    } else if (random() % 4 == 0) {
      summary.resize(random() % (summary.size() + 1));
    }

    std::string bytes = good.substr(0, 8);
    put(bytes, offset, 8);
    put(bytes, summary.size(), 8);
    put(bytes, crc(summary), 4);
    put(bytes, random(), 8);
    put(bytes, random(), 8);
    put(bytes, random(), 8);
    put(bytes, random() % 2, 4);
    put(bytes, crc(bytes), 4);
    bytes += blocks + summary;

    Reader reader;
    if (open(bytes, reader)) {
      ++n_accepted;
      look_around(reader);
    }
  }
  EXPECT_GT(n_accepted, 1000u);
}

/** Only the header is written in place. */
TEST_F(fil0map, NewSession) {
  const auto old = encode(sample());
  auto bytes = old;
  auto header = bytes.substr(0, HEADER_BYTES);
  ASSERT_TRUE(set_session(header, {0, {33, 44}, true}));
  ASSERT_EQ(HEADER_BYTES, header.size());
  bytes.replace(0, HEADER_BYTES, header);

  Reader reader;
  ASSERT_TRUE(open(bytes, reader));
  EXPECT_EQ(0u, reader.session().end_lsn);
  EXPECT_TRUE(reader.session().temp_file.is_same({33, 44}));
  EXPECT_TRUE(reader.session().is_behind);
  EXPECT_EQ(4u, reader.summary().dirs.size());

  for (size_t n = 0; n < HEADER_BYTES; ++n) {
    auto bad = header;
    bad[n] ^= 1;
    EXPECT_FALSE(set_session(bad, {})) << n;
    /* Torn: the first n bytes are new. */
    bad = header.substr(0, n) + old.substr(n);
    EXPECT_EQ(bad == old || bad == bytes, is_map(bad)) << n;
  }
  header.pop_back();
  EXPECT_FALSE(set_session(header, {}));
}

/** Maps of the format before and after this one. */
TEST_F(fil0map, OtherFormats) {
  auto bytes = encode(sample());
  for (const char version : {0, 1, 2, 3, 4, 5, 6, 7, 8, 10}) {
    bytes[7] = version;
    EXPECT_FALSE(is_map(bytes));
  }
}

TEST_F(fil0map, WrongOrderIsRefused) {
  auto content = sample();
  std::swap(content.files[1][0], content.files[1][1]);
  EXPECT_FALSE(is_map(content));

  content = sample();
  content.summary.dirs[2].path = "test";
  EXPECT_FALSE(is_map(content));

  content = sample();
  content.summary.dirs[1].parent = 2;
  EXPECT_FALSE(is_map(content));

  content = sample();
  content.summary.dirs[3].parent = 0;
  EXPECT_FALSE(is_map(content));

  /* Where one block ends and the next begins. */
  content = large();
  auto &files = content.files[1];
  std::rotate(files.begin(), files.begin() + 1, files.end());
  EXPECT_FALSE(is_map(content));
}

TEST_F(fil0map, DuplicateAndReservedIdsAreRefused) {
  for (const space_id_t id : {space_id_t{3}, space_id_t{0}, SPACE_UNKNOWN}) {
    auto content = sample();
    content.files[1][1].space_id = id;
    EXPECT_FALSE(is_map(content)) << id;
  }
}

/** A directory, what is under it, then the next. */
TEST_F(fil0map, WalkOrder) {
  EXPECT_TRUE(walk_order("", "a"));
  EXPECT_TRUE(walk_order("a", "a/b"));
  EXPECT_TRUE(walk_order("a/b", "a-b"));
  EXPECT_TRUE(walk_order("a/z", "a!"));
  EXPECT_TRUE(walk_order("a", "\xc3\xa4"));
  EXPECT_FALSE(walk_order("a-b", "a/b"));
  EXPECT_FALSE(walk_order("a", "a"));
}

TEST_F(fil0map, Find) {
  const auto bytes = encode(sample());
  Reader reader;
  ASSERT_TRUE(open(bytes, reader));
  const auto &summary = reader.summary();
  EXPECT_EQ(0, summary.find_dir(0, ""));
  EXPECT_EQ(2, summary.find_dir(0, "test/sub"));
  EXPECT_EQ(3, summary.find_dir(1, ""));
  EXPECT_EQ(-1, summary.find_dir(1, "test"));
  EXPECT_EQ(-1, summary.find_dir(2, ""));

  Found found;
  ASSERT_TRUE(reader.find_file(1, "t2.ibd", found));
  EXPECT_EQ(2u, found.file.space_id);
  EXPECT_FALSE(reader.find_file(1, "t3.ibd", found));
  EXPECT_FALSE(reader.find_file(1, "", found));
  EXPECT_FALSE(reader.find_file(2, "t1.ibd", found));
  ASSERT_TRUE(reader.find(99, found));
  EXPECT_EQ("mysql.ibd", found.file.name);
  EXPECT_EQ(0u, found.dir);
  EXPECT_FALSE(reader.find(98, found));
  EXPECT_FALSE(reader.is_damaged());
}

TEST_F(fil0map, WhatWasNeverInTheMapIsNotRemembered) {
  Dropped dropped;
  const auto drop = [&dropped](space_id_t id) {
    dropped.begin(id);
    EXPECT_TRUE(dropped.has(id));
    dropped.end(id);
  };

  dropped.limit(1000);
  drop(7);
  drop(1000);
  for (space_id_t id = 1001; id < 100'000; ++id) {
    drop(id);
  }
  EXPECT_EQ(dropped.size(), 2u);
  EXPECT_TRUE(dropped.has(7));
  EXPECT_FALSE(dropped.has(1001));

  /* While a map is made, anything may get into it. */
  dropped.begin(2600);
  dropped.limit(SPACE_UNKNOWN);
  drop(2000);
  drop(3000);
  EXPECT_EQ(dropped.size(), 5u);
  dropped.use(2500, [](space_id_t id) { return id != 7; });
  EXPECT_TRUE(dropped.has(1000));
  EXPECT_TRUE(dropped.has(2000));
  EXPECT_TRUE(dropped.has(2600));
  EXPECT_FALSE(dropped.has(7));
  EXPECT_FALSE(dropped.has(3000));
  dropped.end(2600);
  EXPECT_FALSE(dropped.has(2600));
  EXPECT_EQ(dropped.size(), 2u);
}

TEST_F(fil0map, RacyDirectories) {
  constexpr int64_t SEC = 1'000'000'000;
  const int64_t now = 1'000'000 * SEC;
  const auto racy = [now](int64_t mtime, int64_t ctime) {
    return is_racy({1, 2, mtime, ctime}, now);
  };
  EXPECT_FALSE(racy(now - 3 * SEC, now - 3 * SEC));
  EXPECT_TRUE(racy(now - SEC, now - 3 * SEC));
  EXPECT_TRUE(racy(now - 3 * SEC, now - SEC));
  /* Times of whole seconds: a change in the second of the look. */
  EXPECT_TRUE(racy(now - 2 * SEC + 1, now - 9 * SEC));
  EXPECT_FALSE(racy(now - 2 * SEC, now - 2 * SEC));
  /* The clock was set back. */
  EXPECT_TRUE(racy(now + 3600 * SEC, now - 3 * SEC));
  EXPECT_TRUE(racy(now - 3 * SEC, now + 3600 * SEC));
}

TEST_F(fil0map, Rest) {
  constexpr int64_t SEC = 1'000'000'000;
  EXPECT_EQ(0, rest_nsec(0));
  EXPECT_EQ(50, rest_nsec(1));
  EXPECT_EQ(50 * SEC, rest_nsec(SEC));
  EXPECT_EQ(180 * SEC - 50, rest_nsec(18 * SEC / 5 - 1));
  /* A slow volume. */
  EXPECT_EQ(180 * SEC, rest_nsec(18 * SEC / 5));
  EXPECT_EQ(180 * SEC, rest_nsec(20 * SEC));
  EXPECT_EQ(180 * SEC, rest_nsec(180 * SEC));
  /* So slow that without a rest nothing else would be done. */
  EXPECT_EQ(600 * SEC, rest_nsec(600 * SEC));
  EXPECT_EQ(INT64_MAX, rest_nsec(INT64_MAX));
}

/** Asks a policy in steps of a tenth of a second.
@return the first time at which the map is written, in tenths of a second */
int64_t first_write(Write_policy &policy, int64_t from, int64_t until,
                    bool is_stale, int64_t quiet_nsec) {
  for (auto now = from; now < until; ++now) {
    if (policy.must_write(now * 100'000'000, is_stale, quiet_nsec)) {
      return now;
    }
  }
  return until;
}

TEST_F(fil0map, PolicyWaitsForQuiet) {
  constexpr int64_t SEC = 1'000'000'000;
  Write_policy policy;

  /* Nothing to be written. */
  EXPECT_EQ(9000, first_write(policy, 1000, 9000, false, 3600 * SEC));
  EXPECT_TRUE(policy.must_write(900 * SEC, true, SEC));
  EXPECT_FALSE(policy.must_write(900 * SEC, true, SEC - 1));
  /* DDL goes on: ten seconds after the map was found stale. */
  EXPECT_EQ(9100, first_write(policy, 9000, 9999, true, 0));
  /* It was not, for a moment. */
  EXPECT_EQ(9200, first_write(policy, 9101, 9200, false, 0));
  EXPECT_EQ(9300, first_write(policy, 9200, 9999, true, 0));
}

TEST_F(fil0map, PolicyRests) {
  constexpr int64_t SEC = 1'000'000'000;
  Write_policy policy;

  ASSERT_TRUE(policy.must_write(100 * SEC, true, SEC));
  /* Two seconds: 50 times as long after the end. */
  policy.note(Written::YES, 100 * SEC, 102 * SEC, false);
  EXPECT_EQ(2020, first_write(policy, 1020, 9999, true, SEC));
  /* One that was stopped counts as well. */
  policy.note(Written::STOPPED, 202 * SEC, 203 * SEC, false);
  EXPECT_EQ(2530, first_write(policy, 2030, 9999, true, SEC));
  /* One that failed, as long as any. */
  policy.note(Written::NO, 253 * SEC, 253 * SEC, false);
  EXPECT_EQ(4330, first_write(policy, 2530, 9999, true, SEC));
  /* A slow volume. */
  policy.note(Written::YES, 433 * SEC, 443 * SEC, false);
  EXPECT_EQ(6230, first_write(policy, 4430, 9999, true, SEC));
  /* The wait for quiet begins anew after each. */
  policy.note(Written::YES, 623 * SEC, 623 * SEC, false);
  EXPECT_EQ(6330, first_write(policy, 6230, 9999, true, 0));
}

TEST_F(fil0map, PolicyWritesAgainWhenDirectoriesWereYoung) {
  constexpr int64_t SEC = 1'000'000'000;
  Write_policy policy;

  ASSERT_TRUE(policy.must_write(100 * SEC, true, SEC));
  policy.note(Written::YES, 100 * SEC, 100 * SEC, true);
  /* Three times at most, whatever DDL does; three seconds after the last. */
  EXPECT_EQ(1030, first_write(policy, 1000, 9999, false, 0));
  policy.note(Written::YES, 103 * SEC, 103 * SEC, true);
  EXPECT_EQ(1060, first_write(policy, 1030, 9999, false, 0));
  policy.note(Written::YES, 106 * SEC, 106 * SEC, true);
  EXPECT_EQ(1090, first_write(policy, 1060, 9999, false, 0));
  policy.note(Written::YES, 109 * SEC, 109 * SEC, true);
  EXPECT_EQ(9999, first_write(policy, 1090, 9999, false, 0));
  /* A stale one is written, and what is young then has three again. */
  EXPECT_EQ(10000, first_write(policy, 10000, 19999, true, SEC));
  policy.note(Written::YES, 1000 * SEC, 1000 * SEC, true);
  EXPECT_EQ(10030, first_write(policy, 10000, 19999, false, 0));
  /* If it could not be written, later; if nothing is young any more, never. */
  policy.note(Written::NO, 1003 * SEC, 1003 * SEC, false);
  EXPECT_EQ(11830, first_write(policy, 10030, 19999, false, 0));
  policy.note(Written::YES, 1183 * SEC, 1183 * SEC, false);
  EXPECT_EQ(19999, first_write(policy, 11830, 19999, false, 0));
}

TEST_F(fil0map, CoarseTimes) {
  constexpr int64_t SEC = 1'000'000'000;
  EXPECT_TRUE(is_coarse({1, 2, 5 * SEC, 6 * SEC}));
  EXPECT_FALSE(is_coarse({1, 2, 5 * SEC + 1, 6 * SEC}));
  EXPECT_FALSE(is_coarse({1, 2, 5 * SEC, 6 * SEC + 1}));
}

TEST_F(fil0map, OldPartitions) {
  EXPECT_TRUE(is_old_partition("t1#P#p0.ibd"));
  EXPECT_TRUE(is_old_partition("t1#p#P0.ibd"));
  EXPECT_TRUE(is_old_partition("t1#p#p0#SP#p0sp0.ibd"));
  EXPECT_FALSE(is_old_partition("t1#p#p0#sp#p0sp0.ibd"));
  EXPECT_FALSE(is_old_partition("T1#p#p0.ibd"));
  EXPECT_FALSE(is_old_partition("T1.ibd"));
}

TEST_F(fil0map, SameDirectory) {
  const Dir_identity id{1, 2, 3, 4};
  EXPECT_TRUE(id == (Dir_identity{1, 2, 3, 4}));
  EXPECT_FALSE(id == (Dir_identity{9, 2, 3, 4}));
  EXPECT_FALSE(id == (Dir_identity{1, 9, 3, 4}));
  EXPECT_FALSE(id == (Dir_identity{1, 2, 9, 4}));
  /* A copy that sets the mtime back cannot set the ctime back. */
  EXPECT_FALSE(id == (Dir_identity{1, 2, 3, 9}));
}

TEST_F(fil0map, SameFile) {
  EXPECT_TRUE((File_identity{1, 2}.is_same({1, 2})));
  EXPECT_FALSE((File_identity{1, 2}.is_same({3, 2})));
  /* The inode number was used again. */
  EXPECT_FALSE((File_identity{1, 2}.is_same({1, 3})));
  /* A file system without birth times. */
  EXPECT_FALSE((File_identity{1, 0}.is_same({1, 0})));
}

}  // namespace innodb_fil0map_unittest
