/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** Unit tests of log0keys: the records with the keys of tablespaces are found
in redo, however it is cut into pieces, and nothing else is. */

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "storage/innobase/include/log0keys.h"
#include "storage/innobase/include/mach0data.h"
#include "storage/innobase/include/mtr0types.h"
#include "storage/innobase/include/os0enc.h"

namespace innodb_log0keys_unittest {

using Bytes = std::vector<byte>;
using Found = std::vector<std::pair<space_id_t, Bytes>>;

/** Where a first page has the encryption info. */
constexpr size_t OFFSET = 10390;

/** IDs of one to five bytes. */
constexpr space_id_t IDS[] = {7,          300,        100000,
                              3000000,    0x10000000, 0xFFFFFE70,
                              0xFFFE0001, 0xFF000001, 0xFFFFFFEE};

/** @return encryption info with some key */
static Bytes info_of(byte seed) {
  Bytes info(Encryption::INFO_SIZE, seed);

  memcpy(info.data(), Encryption::KEY_MAGIC_V3, Encryption::MAGIC_SIZE);
  return info;
}

/** A record, as it is in redo. */
struct Written {
  int type{MLOG_WRITE_STRING};
  space_id_t space_id{0xFFFFFE70};
  ulint page_no{0};
  ulint offset{OFFSET};
  ulint length{Encryption::INFO_SIZE};
  Bytes info{info_of(1)};

  /** Add it to a stream. */
  void to(Bytes &stream) const {
    byte head[32];
    auto ptr = head;

    *ptr++ = static_cast<byte>(type);
    ptr += mach_write_compressed(ptr, space_id);
    ptr += mach_write_compressed(ptr, page_no);
    mach_write_to_2(ptr, offset);
    mach_write_to_2(ptr + 2, length);
    stream.insert(stream.end(), head, ptr + 4);
    stream.insert(stream.end(), info.begin(), info.end());
  }
};

/** @return what is found in a stream
@param[in]  stream   redo
@param[in]  n_bytes  how much is looked at in a call */
static Found found_in(const Bytes &stream, size_t n_bytes) {
  Found found;
  redo_recovery::Key_finder finder{
      OFFSET, [&](space_id_t space_id, const byte *info) {
        found.emplace_back(space_id, Bytes(info, info + Encryption::INFO_SIZE));
      }};

  for (size_t at = 0; at < stream.size(); at += n_bytes) {
    finder.add(stream.data() + at, std::min(n_bytes, stream.size() - at));
  }
  return found;
}

TEST(log0keys, every_record_in_pieces_of_every_size) {
  Bytes stream;
  Found expected;
  std::mt19937 random{1};

  for (const auto space_id : IDS) {
    for (const int flag : {0, static_cast<int>(MLOG_SINGLE_REC_FLAG)}) {
      Written record;

      record.type |= flag;
      record.space_id = space_id;
      record.info = info_of(static_cast<byte>(expected.size()));
      record.to(stream);
      expected.emplace_back(space_id, record.info);
      for (auto n = random() % 700; n > 0; --n) {
        stream.push_back(static_cast<byte>(random()));
      }
    }
  }
  for (size_t n_bytes = 1; n_bytes < 600; ++n_bytes) {
    ASSERT_EQ(expected, found_in(stream, n_bytes)) << n_bytes;
  }
  ASSERT_EQ(expected, found_in(stream, stream.size()));
}

TEST(log0keys, records_side_by_side_and_at_the_very_begin) {
  Bytes stream;

  for (int n = 0; n < 3; ++n) {
    Written{}.to(stream);
  }
  for (const size_t n_bytes : {1, 100, 496, 1000}) {
    EXPECT_EQ(3U, found_in(stream, n_bytes).size());
  }
}

TEST(log0keys, other_records) {
  const std::pair<const char *, void (*)(Written &)> others[] = {
      {"type", [](Written &w) { w.type = MLOG_WRITE_STRING + 1; }},
      {"page", [](Written &w) { w.page_no = 1; }},
      {"large page number", [](Written &w) { w.page_no = 1 << 14; }},
      {"offset", [](Written &w) { w.offset = OFFSET + 1; }},
      {"length", [](Written &w) { --w.length; }},
      {"version", [](Written &w) { w.info[2] = 'B'; }},
      {"no key", [](Written &w) { w.info.assign(Encryption::INFO_SIZE, 0); }},
      {"cut short", [](Written &w) { w.info.pop_back(); }}};

  for (const auto &[what, change] : others) {
    Written record;
    Bytes stream;

    change(record);
    record.to(stream);
    for (const size_t n_bytes : {1, 50, 496}) {
      EXPECT_TRUE(found_in(stream, n_bytes).empty()) << what;
    }
  }
}

TEST(log0keys, magic_without_a_record) {
  const auto info = info_of(1);

  EXPECT_TRUE(found_in(info, info.size()).empty());
  for (size_t n_before = 0; n_before < 20; ++n_before) {
    Bytes stream(n_before, 0x80 | MLOG_WRITE_STRING);

    stream.insert(stream.end(), info.begin(), info.end());
    EXPECT_TRUE(found_in(stream, stream.size()).empty());
  }
  EXPECT_TRUE(found_in({}, 1).empty());
}

}  // namespace innodb_log0keys_unittest
