/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** Unit tests of fil0map: the format of the map against hostile bytes, and what
counts as the same directory and the same file. */

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "storage/innobase/include/fil0fil.h"
#include "storage/innobase/include/fil0map.h"
#include "storage/innobase/include/ut0crc32.h"

namespace innodb_fil0map_unittest {

using namespace tablespace_map;

class fil0map : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { ut_crc32_init(); }

  /** A map with two roots, an empty directory and general tablespaces. */
  static Content sample() {
    Content content;
    content.config = "90704 16384\n./\n/data/\n";
    content.is_clean = true;
    content.temp_path = "./ibtmp1";
    content.session = {4711, {20, 21}};
    content.undo = {{1, "innodb_undo_001"}, {2, "innodb_undo_002"}};
    content.dirs = {
        {0,
         "",
         {1, 2, 3, 4},
         false,
         0,
         {{"mysql.ibd", {7, 8}, 99, 5, "mysql"}}},
        {0,
         "test",
         {1, 9, -5, 6},
         true,
         0,
         {{"t1.ibd", {10, 11}, 1, 16417, ""},
          {"t2.ibd", {12, 0}, 2, 16417, "test/t-2"}}},
        {0, "test/sub", {1, 10, 3, 4}, true, 1, {}},
        {1, "", {2, 9, 5, 6}, true, 3, {{"g.ibd", {13, 14}, 3, 18432, "g"}}},
    };
    return content;
  }

  static bool is_map(const Content &content) {
    Content out;
    return decode(encode(content), out);
  }
};

TEST_F(fil0map, RoundTrip) {
  const auto in = sample();
  Content out;
  ASSERT_TRUE(decode(encode(in), out));

  EXPECT_EQ(in.config, out.config);
  EXPECT_TRUE(out.is_clean);
  EXPECT_EQ(in.undo, out.undo);
  EXPECT_EQ(in.temp_path, out.temp_path);
  EXPECT_EQ(in.session.end_lsn, out.session.end_lsn);
  EXPECT_TRUE(in.session.temp_file.is_same(out.session.temp_file));
  ASSERT_EQ(in.dirs.size(), out.dirs.size());
  for (size_t d = 0; d < in.dirs.size(); ++d) {
    const auto &a = in.dirs[d];
    const auto &b = out.dirs[d];
    EXPECT_EQ(a.root, b.root);
    EXPECT_EQ(a.path, b.path);
    EXPECT_EQ(a.identity, b.identity);
    EXPECT_EQ(a.is_trusted, b.is_trusted);
    EXPECT_EQ(a.parent, b.parent);
    ASSERT_EQ(a.files.size(), b.files.size());
    for (size_t f = 0; f < a.files.size(); ++f) {
      EXPECT_EQ(a.files[f].name, b.files[f].name);
      EXPECT_EQ(a.files[f].identity.ino, b.files[f].identity.ino);
      EXPECT_EQ(a.files[f].identity.btime_nsec, b.files[f].identity.btime_nsec);
      EXPECT_EQ(a.files[f].space_id, b.files[f].space_id);
      EXPECT_EQ(a.files[f].flags, b.files[f].flags);
      EXPECT_EQ(a.files[f].space_name, b.files[f].space_name);
    }
  }
  EXPECT_EQ(encode(in), encode(out));
}

TEST_F(fil0map, Empty) {
  EXPECT_TRUE(is_map(Content()));
  Content out;
  EXPECT_FALSE(decode("", out));
}

TEST_F(fil0map, EveryTruncationIsRefused) {
  const auto bytes = encode(sample());
  Content out;
  for (size_t n = 0; n < bytes.size(); ++n) {
    EXPECT_FALSE(decode(std::string_view(bytes).substr(0, n), out)) << n;
  }
  EXPECT_FALSE(decode(bytes + '\0', out));
}

TEST_F(fil0map, EveryBitFlipIsRefused) {
  auto bytes = encode(sample());
  Content out;
  for (size_t n = 0; n < bytes.size(); ++n) {
    for (int bit = 0; bit < 8; ++bit) {
      bytes[n] ^= 1 << bit;
      EXPECT_FALSE(decode(bytes, out)) << n << ' ' << bit;
      bytes[n] ^= 1 << bit;
    }
  }
}

/** Bytes with right checksums but any content: no crash, nothing odd. */
TEST_F(fil0map, HostileBodies) {
  std::mt19937 random(4711);
  const auto good = encode(sample());
  size_t n_accepted = 0;

  for (int i = 0; i < 200000; ++i) {
    auto body = good.substr(HEADER_BYTES);
    const auto n_changes = 1 + random() % 4;
    for (size_t c = 0; c < n_changes; ++c) {
      body[random() % body.size()] = static_cast<char>(random());
    }
    if (random() % 4 == 0) {
      body.resize(random() % (body.size() + 1));
    }

    std::string bytes = good.substr(0, 8);
    const auto put = [&bytes](uint64_t n, int n_bytes) {
      for (int b = n_bytes - 1; b >= 0; --b) {
        bytes.push_back(static_cast<char>(n >> (8 * b)));
      }
    };
    const auto crc = [](const std::string &s) {
      return ut_crc32(reinterpret_cast<const byte *>(s.data()), s.size());
    };
    put(body.size(), 8);
    put(crc(body), 4);
    put(random(), 8);
    put(random(), 8);
    put(random(), 8);
    put(crc(bytes), 4);

    Content out;
    if (decode(bytes + body, out)) {
      ++n_accepted;
      /* What is accepted is well formed. */
      for (uint32_t d = 0; d < out.dirs.size(); ++d) {
        ASSERT_LE(out.dirs[d].parent, d);
        ASSERT_EQ(d, find_dir(out, out.dirs[d].root, out.dirs[d].path));
      }
    }
  }
  EXPECT_GT(n_accepted, 0u);
}

/** Only the header is written in place. */
TEST_F(fil0map, NewSession) {
  auto bytes = encode(sample());
  auto header = bytes.substr(0, HEADER_BYTES);
  ASSERT_TRUE(set_session(header, {0, {33, 44}}));
  ASSERT_EQ(HEADER_BYTES, header.size());
  bytes.replace(0, HEADER_BYTES, header);

  Content out;
  ASSERT_TRUE(decode(bytes, out));
  EXPECT_EQ(0u, out.session.end_lsn);
  EXPECT_TRUE(out.session.temp_file.is_same({33, 44}));
  EXPECT_EQ(4u, out.dirs.size());

  for (size_t n = 0; n < HEADER_BYTES; ++n) {
    auto bad = header;
    bad[n] ^= 1;
    EXPECT_FALSE(set_session(bad, {})) << n;
    /* Torn: the first n bytes are new. */
    bad = header.substr(0, n) + encode(sample()).substr(n);
    const auto is_old = bad == encode(sample());
    const auto is_new = bad == bytes;
    EXPECT_EQ(is_old || is_new, decode(bad, out)) << n;
  }
  header.pop_back();
  EXPECT_FALSE(set_session(header, {}));
}

/** Maps of the format before and after this one. */
TEST_F(fil0map, OtherFormats) {
  auto bytes = encode(sample());
  Content out;
  for (const char version : {0, 1, 3}) {
    bytes[7] = version;
    EXPECT_FALSE(decode(bytes, out));
  }
}

TEST_F(fil0map, WrongOrderIsRefused) {
  auto content = sample();
  std::swap(content.dirs[1].files[0], content.dirs[1].files[1]);
  EXPECT_FALSE(is_map(content));

  content = sample();
  content.dirs[2].path = "test";
  EXPECT_FALSE(is_map(content));

  content = sample();
  content.dirs[1].parent = 2;
  EXPECT_FALSE(is_map(content));

  content = sample();
  content.dirs[3].parent = 0;
  EXPECT_FALSE(is_map(content));
}

TEST_F(fil0map, DuplicateAndReservedIdsAreRefused) {
  auto content = sample();
  content.dirs[1].files[1].space_id = 3;
  EXPECT_FALSE(is_map(content));

  content = sample();
  content.dirs[1].files[0].space_id = 0;
  EXPECT_FALSE(is_map(content));

  content = sample();
  content.dirs[1].files[0].space_id = SPACE_UNKNOWN;
  EXPECT_FALSE(is_map(content));
}

TEST_F(fil0map, Find) {
  const auto content = sample();
  EXPECT_EQ(0, find_dir(content, 0, ""));
  EXPECT_EQ(2, find_dir(content, 0, "test/sub"));
  EXPECT_EQ(3, find_dir(content, 1, ""));
  EXPECT_EQ(-1, find_dir(content, 1, "test"));
  EXPECT_EQ(-1, find_dir(content, 2, ""));

  ASSERT_NE(nullptr, find_file(content.dirs[1], "t2.ibd"));
  EXPECT_EQ(2u, find_file(content.dirs[1], "t2.ibd")->space_id);
  EXPECT_EQ(nullptr, find_file(content.dirs[1], "t3.ibd"));
  EXPECT_EQ(nullptr, find_file(content.dirs[1], ""));
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
