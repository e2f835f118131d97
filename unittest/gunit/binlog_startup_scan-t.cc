/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** Unit tests of the scan of the binary log from transaction to transaction:
what counts as the end of a transaction, the note about what is synced, and
checkpoints. */

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <ios>
#include <iterator>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "my_byteorder.h"
#include "sql/binlog/checkpoint.h"
#include "sql/binlog/logged_gtids.h"
#include "sql/binlog/startup_scan.h"
#include "sql/binlog/synced_mark.h"
#include "sql/rpl_gtid.h"

namespace binlog_startup_scan_unittest {
namespace {

/** A file whose syncs are watched, and the sizes that it had. */
std::string s_watched;
std::vector<off_t> s_synced_sizes;

void watch(int fd) {
  struct stat status;
  struct stat watched;
  if (!s_watched.empty() && fstat(fd, &status) == 0 &&
      stat(s_watched.c_str(), &watched) == 0 &&
      status.st_ino == watched.st_ino) {
    s_synced_sizes.push_back(status.st_size);
  }
}

}  // namespace
}  // namespace binlog_startup_scan_unittest

/** Stands before that of the C library. */
extern "C" int fsync(int fd) {
  binlog_startup_scan_unittest::watch(fd);
  return static_cast<int>(syscall(SYS_fsync, fd));
}

namespace binlog_startup_scan_unittest {

using binlog::Checkpoint;
using binlog::Checkpoint_note;
using binlog::Closed_note;
using binlog::Logged_gtids;
using binlog::Startup_scan;
using binlog::Synced_mark;
using binlog::Synced_note;
using mysql::binlog::event::BINLOG_CHECKSUM_ALG_CRC32;
using mysql::binlog::event::BINLOG_CHECKSUM_ALG_OFF;
using mysql::binlog::event::enum_binlog_checksum_alg;
using mysql::binlog::event::STOP_EVENT;
using mysql::binlog::event::XID_EVENT;
using Bytes = std::vector<unsigned char>;

static Bytes xid_event(enum_binlog_checksum_alg checksum, uint64_t end) {
  const size_t n_bytes = Startup_scan::event_bytes(XID_EVENT, checksum);
  Bytes event(n_bytes);
  int4store(event.data(), 1767225600);
  event[EVENT_TYPE_OFFSET] = mysql::binlog::event::XID_EVENT;
  int4store(event.data() + SERVER_ID_OFFSET, 1);
  int4store(event.data() + EVENT_LEN_OFFSET, n_bytes);
  int4store(event.data() + LOG_POS_OFFSET, static_cast<uint32_t>(end));
  int8store(event.data() + LOG_EVENT_MINIMAL_HEADER_LEN, 4711);
  if (checksum == BINLOG_CHECKSUM_ALG_CRC32) {
    int4store(event.data() + n_bytes - 4, mysql::binlog::event::checksum_crc32(
                                              0, event.data(), n_bytes - 4));
  }
  return event;
}

TEST(BinlogStartupScan, XidEvent) {
  for (const auto checksum :
       {BINLOG_CHECKSUM_ALG_CRC32, BINLOG_CHECKSUM_ALG_OFF}) {
    for (const uint64_t end : {31ULL, 1000000ULL, (5ULL << 32) + 17}) {
      Bytes event = xid_event(checksum, end);
      const Bytes before = event;
      EXPECT_TRUE(
          Startup_scan::is_event(event.data(), XID_EVENT, checksum, end));
      EXPECT_EQ(before, event);
      EXPECT_FALSE(
          Startup_scan::is_event(event.data(), XID_EVENT, checksum, end + 1));
    }
  }
  EXPECT_EQ(31u,
            Startup_scan::event_bytes(XID_EVENT, BINLOG_CHECKSUM_ALG_CRC32));
  EXPECT_EQ(27u, Startup_scan::event_bytes(XID_EVENT, BINLOG_CHECKSUM_ALG_OFF));
}

TEST(BinlogStartupScan, DamagedXidEvent) {
  const Bytes good = xid_event(BINLOG_CHECKSUM_ALG_CRC32, 100000);
  for (size_t bit = 0; bit < good.size() * 8; ++bit) {
    Bytes event = good;
    event[bit / 8] ^= 1 << (bit % 8);
    EXPECT_FALSE(Startup_scan::is_event(event.data(), XID_EVENT,
                                        BINLOG_CHECKSUM_ALG_CRC32, 100000))
        << "bit " << bit;
  }
  /* Without checksums, what says that it is an event that ends here. */
  const Bytes bare = xid_event(BINLOG_CHECKSUM_ALG_OFF, 100000);
  for (const size_t at :
       {EVENT_TYPE_OFFSET, EVENT_LEN_OFFSET, LOG_POS_OFFSET}) {
    Bytes event = bare;
    event[at] ^= 1;
    EXPECT_FALSE(Startup_scan::is_event(event.data(), XID_EVENT,
                                        BINLOG_CHECKSUM_ALG_OFF, 100000));
  }
  Bytes zeros(31);
  EXPECT_FALSE(Startup_scan::is_event(zeros.data(), XID_EVENT,
                                      BINLOG_CHECKSUM_ALG_CRC32, 0));
}

TEST(BinlogStartupScan, StopEvent) {
  for (const auto checksum :
       {BINLOG_CHECKSUM_ALG_CRC32, BINLOG_CHECKSUM_ALG_OFF}) {
    const size_t n_bytes = Startup_scan::event_bytes(STOP_EVENT, checksum);
    EXPECT_EQ(checksum == BINLOG_CHECKSUM_ALG_CRC32 ? 23u : 19u, n_bytes);
    Bytes event(n_bytes);
    event[EVENT_TYPE_OFFSET] = STOP_EVENT;
    int4store(event.data() + EVENT_LEN_OFFSET, n_bytes);
    int4store(event.data() + LOG_POS_OFFSET, 5000);
    if (n_bytes == 23) {
      int4store(event.data() + 19,
                mysql::binlog::event::checksum_crc32(0, event.data(), 19));
    }
    EXPECT_TRUE(
        Startup_scan::is_event(event.data(), STOP_EVENT, checksum, 5000));
    EXPECT_FALSE(
        Startup_scan::is_event(event.data(), STOP_EVENT, checksum, 5001));
    EXPECT_FALSE(
        Startup_scan::is_event(event.data(), XID_EVENT, checksum, 5000));
  }
}

TEST(BinlogSyncedNote, Format) {
  Synced_note note;
  note.m_inode = 0x1122334455667788;
  note.m_synced_bytes = 16ULL << 20;
  note.m_name_crc = 0xdeadbeef;
  note.m_first_event_crc = 0x01020304;
  const auto bytes = note.encode();
  EXPECT_EQ(0, memcmp(bytes.data(), "MYBLSYN1", 8));
  EXPECT_EQ(0x88, bytes[8]);
  EXPECT_EQ(0x01, bytes[19]);
  EXPECT_EQ(0xef, bytes[24]);
  EXPECT_EQ(0x04, bytes[28]);

  const auto read = Synced_note::decode(bytes);
  ASSERT_TRUE(read);
  EXPECT_TRUE(read->same_file(note));
  EXPECT_EQ(note.m_synced_bytes, read->m_synced_bytes);

  for (size_t i = 0; i < bytes.size(); ++i) {
    auto damaged = bytes;
    damaged[i] ^= 0x40;
    EXPECT_FALSE(Synced_note::decode(damaged)) << "byte " << i;
  }
  EXPECT_FALSE(Synced_note::decode(Synced_note::Bytes{}));
}

TEST(BinlogClosedNote, Format) {
  Synced_note synced;
  synced.m_inode = 7;
  synced.m_synced_bytes = 4711;
  Closed_note note;
  note.m_mtime_nsec = 0x1122334455667788;
  note.m_tail_crc = 0xdeadbeef;
  for (const size_t n_bytes : {size_t{0}, size_t{8}, Logged_gtids::MAX_BYTES}) {
    note.m_gtids.assign(n_bytes, 'g');
    const std::string content = note.encode(synced);
    ASSERT_EQ(68 + n_bytes, content.size());
    const auto first = synced.encode();
    EXPECT_EQ(0, memcmp(content.data(), first.data(), first.size()));
    EXPECT_EQ("MYBLGTI1", content.substr(40, 8));
    EXPECT_EQ('\x88', content[48]);
    EXPECT_EQ('\xef', content[56]);
    const auto read = Closed_note::decode(content);
    ASSERT_TRUE(read);
    EXPECT_TRUE(read->same_state(note));
    EXPECT_EQ(note.m_gtids, read->m_gtids);
    EXPECT_FALSE(Closed_note::decode(content + '\0'));
  }
  note.m_gtids.push_back('g');
  EXPECT_FALSE(Closed_note::decode(note.encode(synced))) << "too large";

  note.m_gtids = "a set of GTIDs";
  const std::string good = note.encode(synced);
  for (size_t i = 0; i < good.size(); ++i) {
    std::string damaged = good;
    damaged[i] ^= 0x40;
    EXPECT_FALSE(Closed_note::decode(damaged)) << "byte " << i;
    EXPECT_FALSE(Closed_note::decode(good.substr(0, i))) << i << " bytes";
    std::string holed = good;
    std::fill(holed.begin() + i, holed.end(), '\0');
    EXPECT_FALSE(Closed_note::decode(holed)) << "zeros from " << i;
  }
}

TEST(BinlogCheckpointNote, Format) {
  Synced_note synced;
  synced.m_inode = 7;
  synced.m_synced_bytes = 4711;
  Checkpoint_note note;
  note.m_begin = 0x1122334455667788;
  note.m_end = note.m_begin + 0xfedc;
  note.m_lsn = 0x99aabbccddeeff00;
  for (const size_t n_bytes : {size_t{0}, size_t{8}, Logged_gtids::MAX_BYTES}) {
    note.m_gtids.assign(n_bytes, 'g');
    const std::string content = note.encode(synced);
    ASSERT_EQ(76 + n_bytes, content.size());
    ASSERT_GE(Checkpoint_note::MAX_FILE_BYTES, content.size());
    EXPECT_EQ("MYBLCHK2", content.substr(40, 8));
    EXPECT_EQ('\x88', content[48]);
    EXPECT_EQ('\xdc', content[56]);
    EXPECT_FALSE(Closed_note::decode(content));
    /* What is left of a longer one may follow. */
    for (const char *left : {"", "left"}) {
      const auto read = Checkpoint_note::decode(content + left);
      ASSERT_TRUE(read);
      EXPECT_EQ(note.m_begin, read->m_begin);
      EXPECT_EQ(note.m_end, read->m_end);
      EXPECT_EQ(note.m_lsn, read->m_lsn);
      EXPECT_EQ(note.m_gtids, read->m_gtids);
    }
  }

  note.m_gtids = "a set of GTIDs";
  const std::string good = note.encode(synced);
  for (size_t i = 0; i < good.size(); ++i) {
    std::string damaged = good;
    damaged[i] ^= 0x40;
    EXPECT_FALSE(Checkpoint_note::decode(damaged)) << "byte " << i;
    EXPECT_FALSE(Checkpoint_note::decode(good.substr(0, i))) << i << " bytes";
  }

  /* The first part is written again when more was synced. */
  const auto with_first = [&](const Synced_note &other) {
    const auto first = other.encode();
    return std::string(first.begin(), first.end()) + good.substr(first.size());
  };
  synced.m_synced_bytes = 5000;
  EXPECT_TRUE(Checkpoint_note::decode(with_first(synced)));
  synced.m_inode = 8;
  EXPECT_FALSE(Checkpoint_note::decode(with_first(synced))) << "another file";
}

/** While it lives, the server counts GTIDs, in a map of its own. */
class Counting_gtids {
 public:
  Counting_gtids() {
    Startup_scan::s_mode = Startup_scan::TRANSACTIONS;
    m_lock = std::exchange(global_tsid_lock, new Checkable_rwlock);
    m_map = std::exchange(global_tsid_map, new Tsid_map{global_tsid_lock});
  }
  ~Counting_gtids() {
    Startup_scan::s_mode = Startup_scan::EVENTS;
    delete std::exchange(global_tsid_map, m_map);
    delete std::exchange(global_tsid_lock, m_lock);
  }

  /** A file begins.
  @param[in,out] gtids  what counts
  @param[in]     text   the GTIDs of the files before */
  static void begin(Logged_gtids &gtids, const std::string &text) {
    global_tsid_lock->wrlock();
    Gtid_set set{global_tsid_map, global_tsid_lock};
    EXPECT_EQ(RETURN_STATUS_OK, set.add_gtid_text(text.c_str()));
    const Previous_gtids_log_event event{&set};
    global_tsid_lock->unlock();
    gtids.written(event);
  }

 private:
  Checkable_rwlock *m_lock;
  Tsid_map *m_map;
};

/** The set is what the events say, not more and not less. */
class BinlogLoggedGtidsTest : public ::testing::Test {
 protected:
  /** @return the encoded set that a text says */
  static std::string encoded(const std::string &text) {
    Tsid_map map{nullptr};
    Gtid_set set{&map};
    EXPECT_EQ(RETURN_STATUS_OK, set.add_gtid_text(text.c_str()));
    std::string bytes(set.get_encoded_length(), '\0');
    set.encode(reinterpret_cast<unsigned char *>(bytes.data()));
    return bytes;
  }

  void begin(const std::string &text) { Counting_gtids::begin(m_gtids, text); }

  void write(const std::string &uuid_and_tag, rpl_gno gno,
             bool is_wrong = false) {
    mysql::gtid::Tsid tsid;
    ASSERT_NE(0u, tsid.from_cstring(uuid_and_tag.c_str()));
    Gtid_specification spec;
    global_tsid_lock->wrlock();
    spec.set(global_tsid_map->add_tsid(tsid), gno);
    global_tsid_lock->unlock();
    m_gtids.transaction_written(
        Gtid_log_event{1, true, 0, 1, false, 0, 0, spec, 90700, 90700},
        is_wrong);
  }

  const Counting_gtids m_counting;
  Logged_gtids m_gtids;
  const std::string A = "4b7a1c52-9d3e-11f0-8e6b-0242ac120002";
  const std::string B = "4b7a1c52-9d3e-11f0-8e6b-0242ac120003";
};

TEST_F(BinlogLoggedGtidsTest, FollowsTheEvents) {
  write(A, 1);
  EXPECT_FALSE(m_gtids.encode()) << "the file has no Previous_gtids event";

  begin("");
  EXPECT_EQ(encoded(""), m_gtids.encode());
  write(A, 1);
  write(A, 2);
  write(B, 7);
  write(A, 9);
  write(A + ":tag", 3);
  EXPECT_EQ(encoded(A + ":1-2:9:tag:3," + B + ":7"), m_gtids.encode());
  write(A, 2);
  EXPECT_EQ(encoded(A + ":1-2:9:tag:3," + B + ":7"), m_gtids.encode());

  write(B, 8, true);
  EXPECT_FALSE(m_gtids.encode()) << "a part of it may be there";
  write(B, 9);
  EXPECT_FALSE(m_gtids.encode());

  begin(B + ":1-5");
  EXPECT_EQ(encoded(B + ":1-5"), m_gtids.encode()) << "another file";
  write(B, 6);
  EXPECT_EQ(encoded(B + ":1-6"), m_gtids.encode());
  m_gtids.forget();
  EXPECT_FALSE(m_gtids.encode());
  write(B, 7);
  EXPECT_FALSE(m_gtids.encode());

  Startup_scan::s_mode = Startup_scan::EVENTS;
  begin("");
  EXPECT_FALSE(m_gtids.encode()) << "not asked for";
}

TEST_F(BinlogLoggedGtidsTest, TooLarge) {
  begin("");
  const auto n_fit = (Logged_gtids::MAX_BYTES - 8 - 24) / 16;
  for (size_t i = 0; i < n_fit; ++i) write(A, 1 + 2 * i);
  ASSERT_TRUE(m_gtids.encode());
  EXPECT_EQ(Logged_gtids::MAX_BYTES, m_gtids.encode()->size());
  write(A, 1 + 2 * n_fit);
  EXPECT_FALSE(m_gtids.encode());
  /* It is given up when that is looked at, and does not come back. */
  for (size_t i = 0; i < Logged_gtids::CHECK_EVERY; ++i) write(B, 1 + i);
  for (size_t i = 0; i <= n_fit; ++i) write(A, 2 + 2 * i);
  EXPECT_FALSE(m_gtids.encode());
}

class BinlogCheckpointTest : public BinlogLoggedGtidsTest {
 protected:
  void SetUp() override {
    s_n_flushes = 0;
    s_can_flush = true;
    begin("");
    m_checkpoint.begin();
  }

  /** A transaction is written that is to be committed. */
  void prepare(uint64_t end, uint64_t n_bytes = 100) {
    m_checkpoint.written(n_bytes, false, false);
    m_checkpoint.prepared(end);
  }

  /** @return the end of the checkpoint that is taken, 0 if there is none */
  uint64_t take(uint64_t synced_bytes = ~0ULL) {
    const auto note = m_checkpoint.take(synced_bytes);
    return note ? note->m_end : 0;
  }

  static std::optional<uint64_t> flush() {
    ++s_n_flushes;
    return s_can_flush ? std::optional<uint64_t>{4711} : std::nullopt;
  }

  static constexpr uint64_t STEP = Checkpoint::STEP_BYTES;
  static int s_n_flushes;
  static bool s_can_flush;
  Checkpoint m_checkpoint{flush, m_gtids};
};

int BinlogCheckpointTest::s_n_flushes;
bool BinlogCheckpointTest::s_can_flush;

TEST_F(BinlogCheckpointTest, WaitsForCommits) {
  write(A, 1);
  prepare(STEP - 1);
  m_checkpoint.committed(STEP - 1);
  EXPECT_EQ(0u, take()) << "too early";

  /* Two are to be committed, in any order; a third one comes later. */
  prepare(STEP - 1);
  prepare(STEP + 100);
  write(A, 2);
  prepare(STEP + 300);
  EXPECT_EQ(0u, take());
  m_checkpoint.committed(STEP + 300);
  EXPECT_EQ(0u, take());
  m_checkpoint.committed(STEP + 100);
  EXPECT_EQ(0u, take());
  EXPECT_EQ(0, s_n_flushes);
  m_checkpoint.committed(STEP - 1);
  EXPECT_EQ(0u, take(STEP + 99)) << "not synced";
  EXPECT_EQ(0, s_n_flushes);
  const auto note = m_checkpoint.take(STEP + 100);
  ASSERT_TRUE(note);
  EXPECT_EQ(STEP, note->m_begin);
  EXPECT_EQ(STEP + 100, note->m_end);
  EXPECT_EQ(4711u, note->m_lsn);
  EXPECT_EQ(encoded(A + ":1"), note->m_gtids) << "not those behind it";
  EXPECT_EQ(1, s_n_flushes);
  EXPECT_EQ(0u, take()) << "taken";
}

TEST_F(BinlogCheckpointTest, NotDurable) {
  prepare(STEP);
  m_checkpoint.committed(STEP);
  s_can_flush = false;
  EXPECT_EQ(0u, take());
  s_can_flush = true;
  EXPECT_EQ(0u, take()) << "given up";
  prepare(2 * STEP);
  m_checkpoint.committed(2 * STEP);
  EXPECT_EQ(2 * STEP, take());
}

TEST_F(BinlogCheckpointTest, HowOften) {
  const auto is_due = [&](uint64_t end) {
    prepare(end);
    m_checkpoint.committed(end);
    return take() == end;
  };
  EXPECT_TRUE(is_due(STEP));
  EXPECT_FALSE(is_due(2 * STEP - 1));
  EXPECT_TRUE(is_due(2 * STEP));
  constexpr uint64_t large = 1ULL << 30;
  EXPECT_TRUE(is_due(large));
  EXPECT_FALSE(is_due(large + 16 * 1024 * 1024));
  EXPECT_TRUE(is_due(large + 17 * 1024 * 1024));
}

TEST_F(BinlogCheckpointTest, LongTransactions) {
  const auto longest = Checkpoint::MAX_TRANSACTION_BYTES;
  prepare(3 * STEP, longest + 1);
  m_checkpoint.committed(3 * STEP);
  EXPECT_EQ(0u, take());
  prepare(4 * STEP, longest);
  m_checkpoint.committed(4 * STEP);
  EXPECT_EQ(4 * STEP, take());
}

TEST_F(BinlogCheckpointTest, Blocked) {
  for (const bool is_xa : {true, false}) {
    m_checkpoint.begin();
    begin("");
    m_checkpoint.written(100, !is_xa, is_xa);
    prepare(STEP);
    m_checkpoint.committed(STEP);
    EXPECT_EQ(0u, take());
  }
  m_checkpoint.begin();
  prepare(STEP);
  /* The one under way lies before it. */
  m_checkpoint.written(100, false, true);
  m_checkpoint.committed(STEP);
  EXPECT_EQ(STEP, take());
  prepare(9 * STEP);
  m_checkpoint.committed(9 * STEP);
  EXPECT_EQ(0u, take());

  /* The GTIDs are not known. */
  m_checkpoint.begin();
  m_gtids.forget();
  prepare(STEP);
  m_checkpoint.committed(STEP);
  EXPECT_EQ(0u, take());
}

TEST_F(BinlogCheckpointTest, StillPrepared) {
  /* The one under way is before or behind that which was not committed. */
  for (const bool is_before : {true, false}) {
    m_checkpoint.begin();
    prepare(STEP);
    prepare(2 * STEP);
    m_checkpoint.committed(is_before ? 2 * STEP : STEP, false);
    m_checkpoint.committed(is_before ? STEP : 2 * STEP);
    EXPECT_EQ(0u, take());
    prepare(3 * STEP);
    m_checkpoint.committed(3 * STEP);
    EXPECT_EQ(0u, take());
  }
  m_checkpoint.begin();
  prepare(STEP);
  m_checkpoint.committed(STEP);
  EXPECT_EQ(STEP, take()) << "another file";
}

TEST_F(BinlogCheckpointTest, AnotherFile) {
  prepare(STEP);
  m_checkpoint.committed(STEP);
  m_checkpoint.begin();
  EXPECT_EQ(0u, take()) << "of the file before";

  /* Some of the file before are still to be committed: which ones are told
  later is not known. */
  prepare(STEP);
  prepare(2 * STEP);
  m_checkpoint.begin();
  m_checkpoint.committed(STEP);
  prepare(3 * STEP);
  m_checkpoint.committed(2 * STEP);
  EXPECT_EQ(0u, take());
  m_checkpoint.committed(3 * STEP);
  EXPECT_EQ(0u, take());
  m_checkpoint.begin();
  prepare(STEP);
  m_checkpoint.committed(STEP);
  EXPECT_EQ(STEP, take());
}

/** Whatever the order of commits: what is before a checkpoint is committed. */
TEST_F(BinlogCheckpointTest, AnyOrder) {
  std::mt19937 random{4711};
  int n_taken = 0;
  for (int run = 0; run < 50; ++run) {
    m_checkpoint.begin();
    std::vector<uint64_t> waiting;
    uint64_t end = 0;
    for (int step = 0; step < 2000; ++step) {
      if (waiting.empty() || (waiting.size() < 40 && random() % 2 == 0)) {
        const uint64_t n_bytes = 100 + random() % 5000;
        end += n_bytes;
        waiting.push_back(end);
        prepare(end, n_bytes);
      } else {
        const auto it = waiting.begin() + random() % waiting.size();
        m_checkpoint.committed(*it);
        waiting.erase(it);
      }
      if (const auto checkpoint = take()) {
        ++n_taken;
        for (const auto other : waiting) ASSERT_GT(other, checkpoint);
      }
    }
    for (const auto other : waiting) m_checkpoint.committed(other);
  }
  EXPECT_LT(500, n_taken);
}

TEST(BinlogSyncedNote, SameFile) {
  Synced_note note;
  note.m_inode = 1;
  note.m_name_crc = 2;
  note.m_first_event_crc = 3;
  for (auto member :
       {&Synced_note::m_name_crc, &Synced_note::m_first_event_crc}) {
    Synced_note other = note;
    ++(other.*member);
    EXPECT_FALSE(note.same_file(other));
  }
  Synced_note other = note;
  ++other.m_inode;
  EXPECT_FALSE(note.same_file(other));
}

TEST(BinlogSyncedMark, PathOf) {
  EXPECT_EQ("./binlog.startup", Synced_mark::path_of("./binlog.000001"));
  EXPECT_EQ("/a.b/log.startup", Synced_mark::path_of("/a.b/log"));
  EXPECT_EQ("host-bin.startup", Synced_mark::path_of("host-bin.999999"));
}

class BinlogSyncedMarkTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name =
        (std::filesystem::temp_directory_path() / "binlog_startup_scan-XXXXXX")
            .string();
    ASSERT_NE(nullptr, mkdtemp(name.data()));
    m_folder = name;
    m_log = m_folder + "/binlog.000007";
  }
  void TearDown() override { std::filesystem::remove_all(m_folder); }

  /** Make a binary log that has only its first event. */
  void make_log(uint32_t time, unsigned char flags = 0,
                const char *magic = "\xfe\x62\x69\x6e") {
    unsigned char event[40]{};
    int4store(event, time);
    event[EVENT_TYPE_OFFSET] = mysql::binlog::event::FORMAT_DESCRIPTION_EVENT;
    int4store(event + EVENT_LEN_OFFSET, sizeof(event));
    event[FLAGS_OFFSET] = flags;
    std::ofstream file(m_log, std::ios::binary);
    file.write(magic, 4);
    file.write(reinterpret_cast<char *>(event), sizeof(event));
    ASSERT_TRUE(file.good());
  }

  void set_length(uint64_t n_bytes) {
    ASSERT_EQ(0, truncate(m_log.c_str(), n_bytes));
  }

  static void sync(Synced_mark &mark) { Synced_mark::Sync{&mark}.succeeded(); }
  void close_log(Synced_mark &mark) {
    std::error_code error;
    Synced_mark::Sync{&mark}.closed(std::filesystem::file_size(m_log, error));
  }
  static void fail_to_sync(Synced_mark &mark) {
    const Synced_mark::Sync failing{&mark};
  }

  static constexpr uint64_t STEP = Synced_mark::STEP_BYTES;
  std::string m_folder;
  std::string m_log;
};

TEST_F(BinlogSyncedMarkTest, IsRemoved) {
  EXPECT_TRUE(Synced_mark::remove(m_log)) << "there is none";
  make_log(1000, LOG_EVENT_BINLOG_IN_USE_F);
  {
    Synced_mark mark;
    mark.begin(m_log);
    set_length(STEP);
    sync(mark);
  }
  EXPECT_EQ(STEP, Synced_mark::synced_bytes(m_log));
  EXPECT_TRUE(Synced_mark::remove(m_log));
  EXPECT_EQ(0u, Synced_mark::synced_bytes(m_log));
  EXPECT_TRUE(Synced_mark::remove(m_log));

  std::ofstream(Synced_mark::path_of(m_log)) << "another file";
  errno = ENOENT;
  EXPECT_FALSE(Synced_mark::remove(m_log)) << "it is nobody's to remove";
}

TEST_F(BinlogSyncedMarkTest, FollowsTheFile) {
  make_log(1000, LOG_EVENT_BINLOG_IN_USE_F);
  EXPECT_EQ(0u, Synced_mark::synced_bytes(m_log));

  Synced_mark mark;
  set_length(2 * STEP);
  sync(mark);
  EXPECT_EQ(0u, Synced_mark::synced_bytes(m_log)) << "no file";
  make_log(1000, LOG_EVENT_BINLOG_IN_USE_F);
  mark.begin(m_log);
  set_length(STEP - 1);
  sync(mark);
  EXPECT_EQ(0u, Synced_mark::synced_bytes(m_log)) << "less than a step";

  set_length(STEP + 5);
  {
    Synced_mark::Sync covers{&mark};
    set_length(STEP + 100);
    covers.succeeded();
  }
  EXPECT_EQ(STEP + 5, Synced_mark::synced_bytes(m_log))
      << "only what was written before the sync began";

  set_length(2 * STEP);
  sync(mark);
  EXPECT_EQ(STEP + 5, Synced_mark::synced_bytes(m_log)) << "less than a step";
  set_length(2 * STEP + 5);
  sync(mark);
  EXPECT_EQ(2 * STEP + 5, Synced_mark::synced_bytes(m_log));

  /* The flag that the file is in use is changed in place. */
  const int fd = open(m_log.c_str(), O_WRONLY);
  ASSERT_EQ(1, pwrite(fd, "\0", 1, 4 + FLAGS_OFFSET));
  close(fd);
  EXPECT_EQ(2 * STEP + 5, Synced_mark::synced_bytes(m_log));

  /* Of a relay log nothing is noted, nor lost by a failure. */
  set_length(4 * STEP);
  Synced_mark::Sync{nullptr}.succeeded();
  Synced_mark::Sync{nullptr}.closed(4 * STEP);
  { const Synced_mark::Sync failing{nullptr}; }
  EXPECT_EQ(2 * STEP + 5, Synced_mark::synced_bytes(m_log));
  sync(mark);
  EXPECT_EQ(4 * STEP, Synced_mark::synced_bytes(m_log));
}

TEST_F(BinlogSyncedMarkTest, AfterAnError) {
  make_log(1000);
  Synced_mark mark;
  mark.begin(m_log);
  set_length(STEP);
  sync(mark);
  set_length(3 * STEP);
  fail_to_sync(mark);
  sync(mark);
  EXPECT_EQ(STEP, Synced_mark::synced_bytes(m_log));
  close_log(mark);
  EXPECT_EQ(STEP, Synced_mark::synced_bytes(m_log));

  m_log = m_folder + "/binlog.000008";
  make_log(1001);
  mark.begin(m_log);
  set_length(STEP);
  sync(mark);
  EXPECT_EQ(STEP, Synced_mark::synced_bytes(m_log)) << "another file";
}

/** Two syncs at a time, A and B, and what each of them says: the kernel tells
one of them of an error that concerns both. */
TEST_F(BinlogSyncedMarkTest, TwoAtATime) {
  for (const std::string order :
       {"AaBb", "ABab", "ABba", "BAab", "BAba", "BbAa"}) {
    for (const char fails : {'-', 'a', 'b'}) {
      for (const bool b_closes : {false, true}) {
        SCOPED_TRACE(order + " " + fails + (b_closes ? " closed" : ""));
        std::filesystem::remove_all(m_folder);
        std::filesystem::create_directory(m_folder);
        make_log(1000);
        Synced_mark mark;
        mark.begin(m_log);
        std::unique_ptr<Synced_mark::Sync> syncs[2];
        uint64_t length = 0;
        uint64_t noted = 0;
        bool is_over = false;
        for (size_t i = 0; i < order.size(); ++i) {
          const char step = order[i];
          auto &one = syncs[step == 'B' || step == 'b'];
          if (step < 'a') {
            set_length(length += STEP);
            one = std::make_unique<Synced_mark::Sync>(&mark);
            continue;
          }
          const bool closes = step == 'b' && b_closes;
          if (step == fails) {
            one.reset();
          } else if (closes) {
            one->closed(length);
          } else {
            one->succeeded();
          }
          const bool is_alone = order[i - 1] == step - 'a' + 'A';
          const bool was_alone = order == "AaBb" || order == "BbAa";
          if (step != fails && is_alone && was_alone && !is_over) {
            noted = length;
          }
          is_over = is_over || step == fails || closes;
          EXPECT_EQ(noted, Synced_mark::synced_bytes(m_log)) << step;
        }
        set_length(length += STEP);
        sync(mark);
        EXPECT_EQ(is_over ? noted : length, Synced_mark::synced_bytes(m_log))
            << "alone again";
      }
    }
  }
}

TEST_F(BinlogSyncedMarkTest, ClosedFile) {
  make_log(1000);
  Synced_mark mark;
  mark.begin(m_log);
  set_length(777);
  close_log(mark);
  EXPECT_EQ(777u, Synced_mark::synced_bytes(m_log)) << "less than a step, too";
  set_length(3 * STEP);
  sync(mark);
  EXPECT_EQ(777u, Synced_mark::synced_bytes(m_log)) << "after it was closed";

  /* The next file has another name. */
  const std::string closed = m_log;
  m_log = m_folder + "/binlog.000008";
  make_log(1001);
  mark.begin(m_log);
  EXPECT_EQ(0u, Synced_mark::synced_bytes(closed));
  EXPECT_EQ(0u, Synced_mark::synced_bytes(m_log));
  EXPECT_EQ(777u, mark.known_bytes(closed))
      << "in memory, when a server starts";
  EXPECT_EQ(0u, mark.known_bytes(m_log));

  /* The first file once more, which now has name and inode of that noted. */
  set_length(STEP);
  sync(mark);
  EXPECT_EQ(STEP, mark.known_bytes(m_log));
  mark.begin(m_log);
  EXPECT_EQ(0u, mark.known_bytes(m_log));
  EXPECT_EQ(0u, mark.known_bytes(closed));
}

/** An older version of the note may come back after a power cut. So that none
is there that fits a file of the same name, inode and second, the note is empty
and synced whenever a file begins. */
TEST_F(BinlogSyncedMarkTest, RemovedDurably) {
  const std::string first = m_log;
  const std::string second = m_folder + "/binlog.000008";
  make_log(1000);
  Synced_mark mark;
  mark.begin(m_log);
  set_length(STEP);
  sync(mark);
  ASSERT_EQ(STEP, Synced_mark::synced_bytes(m_log));
  /* Rotated; RESET, which makes the first file again; once more. */
  for (const std::string &log : {second, first, first}) {
    m_log = log;
    make_log(1000);
    s_synced_sizes.clear();
    s_watched = Synced_mark::path_of(m_log);
    mark.begin(m_log);
    s_watched.clear();
    EXPECT_EQ(std::vector<off_t>{0}, s_synced_sizes);
    EXPECT_EQ(0u, Synced_mark::synced_bytes(m_log));
    EXPECT_EQ(0u, std::filesystem::file_size(Synced_mark::path_of(m_log)));
  }
}

TEST_F(BinlogSyncedMarkTest, NotANote) {
  make_log(1000);
  const std::string note = Synced_mark::path_of(m_log);
  const auto is_refused = [&] {
    Synced_mark mark;
    mark.begin(m_log);
    set_length(STEP);
    sync(mark);
    return Synced_mark::synced_bytes(m_log) == 0;
  };
  const std::string texts[] = {
      "somebody's own file, which is longer than a note",
      "somebody's",
      "MYBLSYN2",
      "MYBLSYN",
      std::string("MYBLSYN1") +
          std::string(Checkpoint_note::MAX_FILE_BYTES, '\0'),
      std::string(Checkpoint_note::MAX_FILE_BYTES + 1, '\0')};
  for (const std::string &text : texts) {
    std::ofstream(note) << text;
    const bool is_torn = text == "MYBLSYN";
    EXPECT_EQ(!is_torn, is_refused()) << text;
    std::ifstream file(note, std::ios::binary);
    const std::string found{std::istreambuf_iterator<char>(file), {}};
    EXPECT_EQ(!is_torn, found == text) << text;
    std::filesystem::remove(note);
  }
  ASSERT_EQ(0, mkfifo(note.c_str(), 0600));
  EXPECT_TRUE(is_refused());
  std::filesystem::remove(note);
  std::filesystem::create_symlink(m_folder + "/elsewhere", note);
  EXPECT_TRUE(is_refused());
  EXPECT_FALSE(std::filesystem::exists(m_folder + "/elsewhere"));
  std::filesystem::remove(note);
  std::ofstream(note).close();
  std::filesystem::create_hard_link(note, m_folder + "/second");
  EXPECT_TRUE(is_refused());
  std::filesystem::remove(m_folder + "/second");
  EXPECT_FALSE(is_refused());
}

/** What a crash may leave of a note says nothing, and is written anew. */
TEST_F(BinlogSyncedMarkTest, TornNote) {
  make_log(1000);
  const std::string path = Synced_mark::path_of(m_log);
  Synced_note note;
  note.m_inode = 4711;
  note.m_synced_bytes = STEP;
  const auto bytes = note.encode();
  for (size_t n_right = 0; n_right < bytes.size(); ++n_right) {
    for (const size_t n_bytes : {n_right, bytes.size()}) {
      std::string text(n_bytes, '\0');
      std::copy_n(bytes.begin(), n_right, text.begin());
      std::ofstream(path, std::ios::binary) << text;
      EXPECT_EQ(0u, Synced_mark::synced_bytes(m_log));
      Synced_mark mark;
      make_log(1000);
      mark.begin(m_log);
      set_length(STEP);
      sync(mark);
      EXPECT_EQ(STEP, Synced_mark::synced_bytes(m_log))
          << n_right << " of " << n_bytes << " bytes";
    }
  }
}

TEST_F(BinlogSyncedMarkTest, AnotherFileOfTheName) {
  make_log(1000);
  Synced_mark mark;
  mark.begin(m_log);
  set_length(STEP);
  sync(mark);
  ASSERT_EQ(STEP, Synced_mark::synced_bytes(m_log));

  /* The same content, another inode. */
  std::filesystem::rename(m_log, m_folder + "/old");
  make_log(1000);
  EXPECT_EQ(0u, Synced_mark::synced_bytes(m_log));
  /* The same inode, another first event. */
  std::filesystem::rename(m_folder + "/old", m_log);
  ASSERT_EQ(STEP, Synced_mark::synced_bytes(m_log));
  make_log(1001);
  EXPECT_EQ(0u, Synced_mark::synced_bytes(m_log));
  /* The same file under another name. */
  make_log(1000);
  ASSERT_EQ(STEP, Synced_mark::synced_bytes(m_log));
  std::filesystem::rename(m_log, m_folder + "/binlog.000008");
  EXPECT_EQ(0u, Synced_mark::synced_bytes(m_folder + "/binlog.000008"));
}

TEST_F(BinlogSyncedMarkTest, GtidsOfAClosedFile) {
  const std::string set = "a set";
  const std::string note = Synced_mark::path_of(m_log);
  const auto close_with_gtids = [&] {
    make_log(1000);
    Synced_mark mark;
    mark.begin(m_log);
    set_length(STEP + 1);
    /* The clock of the file system is coarse. */
    std::filesystem::last_write_time(
        m_log,
        std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
    s_synced_sizes.clear();
    s_watched = note;
    Synced_mark::Sync{&mark}.closed(STEP + 1, set);
    s_watched.clear();
  };
  const auto known = [&] { return Synced_mark{}.known_gtids(m_log); };

  close_with_gtids();
  EXPECT_EQ((std::vector<off_t>{static_cast<off_t>(68 + set.size())}),
            s_synced_sizes)
      << "durable";
  EXPECT_EQ(STEP + 1, Synced_mark::synced_bytes(m_log));
  EXPECT_EQ(set, known());

  /* The next server moves it into memory; the one after that has lost it. */
  const std::string closed = m_log;
  m_log = m_folder + "/binlog.000008";
  make_log(1001);
  {
    Synced_mark mark;
    mark.begin(m_log);
    EXPECT_EQ(0u, std::filesystem::file_size(note));
    EXPECT_EQ(set, mark.known_gtids(closed));
    EXPECT_FALSE(mark.known_gtids(m_log));
    mark.begin(m_log);
    EXPECT_FALSE(mark.known_gtids(closed));
  }
  m_log = closed;
  EXPECT_FALSE(known());

  /* Whatever is done to the file. */
  close_with_gtids();
  set_length(STEP + 2);
  EXPECT_FALSE(known()) << "larger";
  set_length(STEP + 1);
  EXPECT_FALSE(known()) << "changed, but of the same size";

  close_with_gtids();
  set_length(STEP);
  EXPECT_FALSE(known()) << "smaller";

  const auto time_of = [&] { return std::filesystem::last_write_time(m_log); };
  const auto set_byte = [&](off_t at) {
    const auto time = time_of();
    const int fd = open(m_log.c_str(), O_WRONLY);
    ASSERT_EQ(1, pwrite(fd, "x", 1, at));
    close(fd);
    std::filesystem::last_write_time(m_log, time);
  };
  close_with_gtids();
  set_byte(STEP);
  EXPECT_FALSE(known()) << "another end";

  close_with_gtids();
  const auto time = time_of();
  std::filesystem::last_write_time(m_log, time + std::chrono::nanoseconds(1));
  EXPECT_FALSE(known()) << "another time";
  std::filesystem::last_write_time(m_log, time);
  EXPECT_EQ(set, known());
  std::filesystem::copy(m_log, m_folder + "/copy");
  std::filesystem::rename(m_folder + "/copy", m_log);
  std::filesystem::last_write_time(m_log, time);
  EXPECT_FALSE(known()) << "a copy";

  /* A note that is torn, or in which only the first part is right. */
  close_with_gtids();
  for (const uintmax_t n_bytes : {72, 68, 41, 40, 39, 0}) {
    std::filesystem::resize_file(note, n_bytes);
    EXPECT_FALSE(known()) << n_bytes;
    EXPECT_EQ(n_bytes < 40 ? 0 : STEP + 1, Synced_mark::synced_bytes(m_log));
  }

  /* A write has lost some bytes, or written more than it said. */
  for (const uint64_t n_bytes : {STEP, STEP + 2}) {
    make_log(1000);
    Synced_mark mark;
    mark.begin(m_log);
    set_length(STEP + 1);
    Synced_mark::Sync{&mark}.closed(n_bytes, set);
    EXPECT_FALSE(known()) << n_bytes;
    EXPECT_EQ(0u, Synced_mark::synced_bytes(m_log)) << n_bytes;
  }

  /* Not all of the file could be synced, or the set is not known. */
  make_log(1000);
  {
    Synced_mark mark;
    mark.begin(m_log);
    set_length(STEP + 1);
    fail_to_sync(mark);
    Synced_mark::Sync{&mark}.closed(STEP + 1, set);
  }
  EXPECT_FALSE(known());
  {
    Synced_mark mark;
    mark.begin(m_log);
    close_log(mark);
  }
  EXPECT_FALSE(known());
  EXPECT_EQ(40u, std::filesystem::file_size(note));
}

/** Checkpoints as they stand in the note about a file. */
class BinlogSyncedCheckpointTest : public BinlogSyncedMarkTest {
 protected:
  void SetUp() override {
    BinlogSyncedMarkTest::SetUp();
    Counting_gtids::begin(m_gtids, "");
    make_log(1000);
    m_checkpoint.begin();
    m_mark.begin(m_log);
  }
  /** A transaction is written and committed, and the file is synced. */
  void write_until(uint64_t end) {
    set_length(end);
    m_checkpoint.written(100, false, false);
    m_checkpoint.prepared(end);
    m_checkpoint.committed(end);
    sync(m_mark);
  }

  static uint64_t known(Synced_mark &mark, const std::string &path) {
    const auto note = mark.known_checkpoint(path);
    return note ? note->m_end : 0;
  }
  uint64_t known() {
    Synced_mark mark;
    return known(mark, m_log);
  }

  const Counting_gtids m_counting;
  Logged_gtids m_gtids;
  Checkpoint m_checkpoint{[] { return std::optional<uint64_t>{4711}; },
                          m_gtids};
  Synced_mark m_mark{&m_checkpoint};
};

TEST_F(BinlogSyncedCheckpointTest, IsNoted) {
  EXPECT_EQ(0u, known());
  write_until(STEP + 5);
  EXPECT_EQ(STEP + 5, known());
  EXPECT_EQ(STEP + 5, Synced_mark::synced_bytes(m_log));

  /* More is synced, without another checkpoint. */
  set_length(3 * STEP);
  sync(m_mark);
  EXPECT_EQ(STEP + 5, known());
  EXPECT_EQ(3 * STEP, Synced_mark::synced_bytes(m_log));
  set_length(4 * STEP - 1);
  write_until(4 * STEP - 1);
  EXPECT_EQ(4 * STEP - 1, known());
  EXPECT_EQ(4 * STEP - 1, Synced_mark::synced_bytes(m_log)) << "with it";

  /* A sync that fails: what was noted holds, no more is noted. */
  fail_to_sync(m_mark);
  write_until(9 * STEP);
  EXPECT_EQ(4 * STEP - 1, known());

  /* The next server moves it into memory. */
  const std::string former = m_log;
  m_log = m_folder + "/binlog.000008";
  make_log(1001);
  m_mark.begin(m_log);
  EXPECT_EQ(0u, std::filesystem::file_size(Synced_mark::path_of(m_log)));
  EXPECT_EQ(4 * STEP - 1, known(m_mark, former));
  EXPECT_EQ(0u, known(m_mark, m_log));
}

TEST_F(BinlogSyncedCheckpointTest, OfAnotherFile) {
  write_until(STEP);
  std::filesystem::copy(m_log, m_folder + "/copy");
  std::filesystem::rename(m_log, m_folder + "/old");
  std::filesystem::rename(m_folder + "/copy", m_log);
  EXPECT_EQ(0u, known()) << "a copy";
  std::filesystem::rename(m_folder + "/old", m_log);
  EXPECT_EQ(STEP, known());
}

TEST_F(BinlogSyncedCheckpointTest, ClosedFile) {
  write_until(STEP);
  Synced_mark::Sync{&m_mark}.closed(STEP, "");
  EXPECT_EQ(68u, std::filesystem::file_size(Synced_mark::path_of(m_log)));
  EXPECT_EQ(0u, known());
  EXPECT_EQ("", Synced_mark{}.known_gtids(m_log));
}

TEST_F(BinlogSyncedMarkTest, SyncOfTheFileBefore) {
  make_log(1000);
  Synced_mark mark;
  mark.begin(m_log);
  set_length(3 * STEP);
  Synced_mark::Sync before{&mark};
  m_log = m_folder + "/binlog.000008";
  make_log(1001);
  mark.begin(m_log);
  set_length(3 * STEP);
  before.succeeded();
  EXPECT_EQ(0u, Synced_mark::synced_bytes(m_log));

  /* It may have found the next file already. */
  Synced_mark::Sync again{&mark};
  m_log = m_folder + "/binlog.000009";
  make_log(1002);
  mark.begin(m_log);
  set_length(3 * STEP);
  {
    Synced_mark::Sync with_it{&mark};
    again.succeeded();
    with_it.succeeded();
  }
  EXPECT_EQ(0u, Synced_mark::synced_bytes(m_log));
  sync(mark);
  EXPECT_EQ(3 * STEP, Synced_mark::synced_bytes(m_log));
}

TEST_F(BinlogSyncedMarkTest, Unusable) {
  Synced_mark mark;
  const auto is_noted = [&] {
    mark.begin(m_log);
    sync(mark);
    close_log(mark);
    return std::filesystem::exists(Synced_mark::path_of(m_log)) &&
           std::filesystem::file_size(Synced_mark::path_of(m_log)) > 0;
  };
  EXPECT_FALSE(is_noted()) << "no file";

  make_log(1000, 0, "\xfd\x62\x69\x6e");
  set_length(STEP);
  EXPECT_FALSE(is_noted()) << "encrypted";

  make_log(1000);
  set_length(30);
  EXPECT_FALSE(is_noted()) << "no whole first event";

  make_log(1000);
  set_length(STEP);
  EXPECT_TRUE(is_noted());
  ASSERT_EQ(STEP, Synced_mark::synced_bytes(m_log));
  ASSERT_EQ(0, truncate(Synced_mark::path_of(m_log).c_str(), 39));
  EXPECT_EQ(0u, Synced_mark::synced_bytes(m_log)) << "torn note";
}

}  // namespace binlog_startup_scan_unittest
