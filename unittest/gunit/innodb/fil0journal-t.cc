/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** Unit test of the journal of the tablespace map. */

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "storage/innobase/include/fil0journal.h"
#include "storage/innobase/include/ut0crc32.h"

namespace innodb_fil0journal_unittest {

using namespace tablespace_map;

namespace fs = std::filesystem;

constexpr uint64_t MAP_ID = 4711;

/** A map as far as the journal knows one: names of files. */
struct Map {
  struct Dir {
    Dir_identity identity;
    bool is_trusted;
    std::set<std::string> names;
    bool is_partial{false};
  };
  uint64_t id{MAP_ID};
  std::map<Dir_key, Dir> dirs;

  Journal::Find_base base() const {
    return [map = *this](uint32_t root, const std::string &path) {
      Journal::Base found;
      const auto it = map.dirs.find({root, path});

      if (it != map.dirs.end()) {
        found.is_there = true;
        if (it->second.is_trusted) {
          found.identity = it->second.identity;
          found.is_partial = it->second.is_partial;
        }
      }
      return found;
    };
  }
};

class fil0journal : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { ut_crc32_init(); }

  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "fil0journalXXXXXX");
    ASSERT_NE(nullptr, mkdtemp(name.data()));
    m_root = name;
    m_file = m_root + "/journal";
  }

  void TearDown() override { fs::remove_all(m_root); }

  std::string path(const std::string &dir) const { return m_root + '/' + dir; }

  std::string path(const std::string &dir, const std::string &name) const {
    return path(dir) + '/' + name;
  }

  void make_dir(const std::string &dir) { fs::create_directory(path(dir)); }

  static void make_file(const std::string &path) { std::ofstream(path) << "x"; }

  std::string bytes() const {
    std::ifstream in(m_file, std::ios::binary);
    std::stringstream out;
    out << in.rdbuf();
    return out.str();
  }

  Change change(const std::string &dir, const std::string &name) const {
    Change change;
    change.dir = {0, dir};
    change.dir_path = path(dir);
    change.name = name;
    change.space_id = 7;
    return change;
  }

  /** Make a file as the server does. */
  bool create(const std::string &dir, const std::string &name) {
    auto made = change(dir, name);
    const bool is_begun = m_journal.begin_change(made);
    make_file(path(dir, name));
    const bool is_noted = m_journal.note_changed(made);
    return m_journal.end_change(made) && is_begun && is_noted;
  }

  /** Remove a file as the server does. */
  bool remove(const std::string &dir, const std::string &name) {
    auto removed = change(dir, name);
    const bool is_begun = m_journal.begin_change(removed);
    unlink(path(dir, name).c_str());
    return m_journal.end_change(removed) && is_begun;
  }

  std::set<std::string> names(const std::string &dir) const {
    std::set<std::string> found;
    for (const auto &entry : fs::directory_iterator(path(dir))) {
      found.insert(entry.path().filename());
    }
    return found;
  }

  /** List a directory for a map that nobody disturbs. */
  void add_to_map(const std::string &dir) {
    Map::Dir &in_map = m_map.dirs[{0, dir}];
    ASSERT_TRUE(stamp_directory(path(dir), in_map.identity));
    in_map.is_trusted = true;
    in_map.names = names(dir);
  }

  Replayed replay(const std::string &boot = boot_id()) const {
    return replay_journal(bytes(), m_map.id, boot);
  }

  /** What a start knows of a directory that it does not list.
  @param[out]  known  names of the files
  @return false if it lists the directory */
  bool is_known(const Replayed &replayed, const std::string &dir,
                std::set<std::string> &known) const {
    const auto watched = replayed.find(0, dir);
    const auto in_map = m_map.dirs.find({0, dir});
    const bool is_in_map = in_map != m_map.dirs.end();
    Dir_identity id;
    Dir_identity before;

    if (!dir_identity(path(dir), id)) {
      return false;
    }
    known.clear();
    if (watched == nullptr) {
      if (!is_in_map || !in_map->second.is_trusted ||
          in_map->second.is_partial || in_map->second.identity != id) {
        return false;
      }
      known = in_map->second.names;
      return true;
    }
    if (!watched->is_settled() || watched->identity != id ||
        !(watched->is_whole || (is_in_map && in_map->second.is_trusted))) {
      return false;
    }
    if (!watched->is_whole) {
      known = in_map->second.names;
    }
    for (const auto &[name, is_there] : watched->files) {
      if (is_there) {
        known.insert(name);
      } else {
        known.erase(name);
      }
    }
    return true;
  }

  std::string m_root;
  std::string m_file;
  Map m_map;
  Journal m_journal;
};

TEST_F(fil0journal, StampIsKeptUntilTheNextChange) {
  make_dir("d");
  Dir_identity stamped;
  Dir_identity now;

  ASSERT_TRUE(stamp_directory(path("d"), stamped));
  ASSERT_TRUE(dir_identity(path("d"), now));
  EXPECT_EQ(stamped, now);

  /* In the same tick of the kernel's clock, most of the times. */
  for (int i = 0; i < 200; ++i) {
    const auto file = path("d", "f" + std::to_string(i));
    ASSERT_TRUE(stamp_directory(path("d"), stamped));
    make_file(file);
    ASSERT_TRUE(dir_identity(path("d"), now));
    EXPECT_NE(stamped, now);
    ASSERT_TRUE(stamp_directory(path("d"), stamped));
    unlink(file.c_str());
    ASSERT_TRUE(dir_identity(path("d"), now));
    EXPECT_NE(stamped, now);
  }
  EXPECT_FALSE(stamp_directory(path("none"), stamped));
  EXPECT_FALSE(dir_identity(path("none"), stamped));
}

TEST_F(fil0journal, ChangesAreKnown) {
  make_dir("d");
  make_file(path("d", "a.ibd"));
  make_file(path("d", "b.ibd"));
  add_to_map("d");
  ASSERT_TRUE(m_journal.create(m_file, MAP_ID, m_map.base()));

  EXPECT_TRUE(create("d", "c.ibd"));
  EXPECT_TRUE(remove("d", "a.ibd"));

  std::set<std::string> known;
  const std::set<std::string> expected{"b.ibd", "c.ibd"};

  EXPECT_TRUE(is_known(replay(), "d", known));
  EXPECT_EQ(expected, known);

  /* A rename within a directory is two changes of it. */
  auto from = change("d", "b.ibd");
  auto to = change("d", "z.ibd");
  EXPECT_TRUE(m_journal.begin_change(from));
  EXPECT_TRUE(m_journal.begin_change(to));
  EXPECT_FALSE(is_known(replay(), "d", known));
  ASSERT_EQ(0, rename(path("d", "b.ibd").c_str(), path("d", "z.ibd").c_str()));
  EXPECT_FALSE(is_known(replay(), "d", known));
  EXPECT_TRUE(m_journal.end_change(from));
  EXPECT_FALSE(is_known(replay(), "d", known));
  EXPECT_TRUE(m_journal.end_change(to));
  EXPECT_TRUE(is_known(replay(), "d", known));
  EXPECT_EQ((std::set<std::string>{"c.ibd", "z.ibd"}), known);
}

TEST_F(fil0journal, NewDirectoryIsWhole) {
  ASSERT_TRUE(m_journal.create(m_file, MAP_ID, m_map.base()));
  make_dir("n");

  std::set<std::string> known;

  EXPECT_TRUE(create("n", "a.ibd"));
  EXPECT_TRUE(is_known(replay(), "n", known));
  EXPECT_EQ((std::set<std::string>{"a.ibd"}), known);

  /* Removed and made again: what was in the first one is no matter. */
  EXPECT_TRUE(remove("n", "a.ibd"));
  fs::remove(path("n"));
  make_dir("n");
  EXPECT_TRUE(create("n", "b.ibd"));
  EXPECT_TRUE(is_known(replay(), "n", known));
  EXPECT_EQ((std::set<std::string>{"b.ibd"}), known);

  /* One that the map does not have, with files in it. */
  make_dir("o");
  make_file(path("o", "x"));
  EXPECT_FALSE(create("o", "a.ibd"));
  EXPECT_FALSE(is_known(replay(), "o", known));
}

TEST_F(fil0journal, ChangesOfOthersAreNoticed) {
  make_dir("d");
  add_to_map("d");
  ASSERT_TRUE(m_journal.create(m_file, MAP_ID, m_map.base()));

  std::set<std::string> known;

  EXPECT_TRUE(create("d", "a.ibd"));
  make_file(path("d", "stray.ibd"));
  EXPECT_FALSE(is_known(replay(), "d", known));
  EXPECT_FALSE(create("d", "b.ibd"));
  EXPECT_FALSE(is_known(replay(), "d", known));
  EXPECT_FALSE(remove("d", "b.ibd"));
  unlink(path("d", "stray.ibd").c_str());
  EXPECT_FALSE(create("d", "c.ibd"));
  EXPECT_FALSE(is_known(replay(), "d", known));

  /* Until there is another map. */
  m_journal.begin_map();
  Dir_identity id;
  Dir_identity before;
  EXPECT_TRUE(m_journal.watch({0, "d"}, path("d"), id, before));
  EXPECT_FALSE(is_known(replay(), "d", known));
  m_map.id = MAP_ID + 1;
  m_map.dirs[{0, "d"}] = {id, true, names("d")};
  m_journal.end_map(m_file, m_map.id, m_map.base());
  EXPECT_TRUE(is_known(replay(), "d", known));
  EXPECT_TRUE(create("d", "e.ibd"));
  EXPECT_TRUE(is_known(replay(), "d", known));
  EXPECT_EQ(names("d"), known);
}

TEST_F(fil0journal, MapThatIsNotMade) {
  make_dir("d");
  add_to_map("d");
  ASSERT_TRUE(m_journal.create(m_file, MAP_ID, m_map.base()));
  EXPECT_TRUE(create("d", "a.ibd"));
  make_file(path("d", "stray.ibd"));

  /* The new map would have the stray file, the old one has not. */
  std::set<std::string> known;
  Dir_identity id;
  Dir_identity before;
  m_journal.begin_map();
  EXPECT_TRUE(m_journal.watch({0, "d"}, path("d"), id, before));
  (void)create("d", "b.ibd");
  EXPECT_FALSE(is_known(replay(), "d", known));
  m_journal.cancel_map();
  EXPECT_FALSE(create("d", "c.ibd"));
  EXPECT_FALSE(is_known(replay(), "d", known));
}

TEST_F(fil0journal, OtherMapsAndBoots) {
  make_dir("d");
  add_to_map("d");
  ASSERT_TRUE(m_journal.create(m_file, MAP_ID, m_map.base()));
  EXPECT_TRUE(create("d", "a.ibd"));

  EXPECT_TRUE(replay().is_valid);
  EXPECT_FALSE(replay("another").is_valid);
  EXPECT_FALSE(replay("").is_valid);
  EXPECT_FALSE(replay_journal(bytes(), MAP_ID + 1, boot_id()).is_valid);
  EXPECT_FALSE(replay_journal("", MAP_ID, boot_id()).is_valid);

  ASSERT_TRUE(m_journal.end());
  EXPECT_TRUE(replay("another").is_valid);
  EXPECT_TRUE(replay("").is_valid);
  /* Nothing is covered after the end. */
  EXPECT_FALSE(create("d", "b.ibd"));
  std::set<std::string> known;
  EXPECT_FALSE(is_known(replay(), "d", known));
  unlink(path("d", "b.ibd").c_str());

  /* The next server goes on. What happened meanwhile is seen. */
  ASSERT_TRUE(m_journal.go_on(m_file, replay(), m_map.base()));
  EXPECT_FALSE(replay("another").is_valid);
  EXPECT_TRUE(replay().is_valid);
  EXPECT_FALSE(create("d", "c.ibd"));
}

TEST_F(fil0journal, ChangesOfADeadServer) {
  make_dir("d");
  make_dir("e");
  add_to_map("d");
  add_to_map("e");
  ASSERT_TRUE(m_journal.create(m_file, MAP_ID, m_map.base()));
  EXPECT_TRUE(create("e", "a.ibd"));
  auto made = change("d", "a.ibd");
  EXPECT_TRUE(m_journal.begin_change(made));

  /* It was killed here. */
  Journal next;
  std::set<std::string> known;
  ASSERT_TRUE(next.go_on(m_file, replay(), m_map.base()));
  EXPECT_FALSE(is_known(replay(), "d", known));
  EXPECT_TRUE(is_known(replay(), "e", known));
  auto other = change("d", "b.ibd");
  EXPECT_FALSE(next.begin_change(other));
  make_file(path("d", "b.ibd"));
  EXPECT_FALSE(next.end_change(other));
  EXPECT_FALSE(is_known(replay(), "d", known));
  other = change("e", "b.ibd");
  EXPECT_TRUE(next.begin_change(other));
  make_file(path("e", "b.ibd"));
  EXPECT_TRUE(next.end_change(other));
  EXPECT_TRUE(is_known(replay(), "e", known));
  EXPECT_EQ(names("e"), known);
}

TEST_F(fil0journal, EveryTruncationAndBitFlip) {
  make_dir("d");
  make_file(path("d", "a.ibd"));
  add_to_map("d");
  ASSERT_TRUE(m_journal.create(m_file, MAP_ID, m_map.base()));
  EXPECT_TRUE(create("d", "b.ibd"));
  EXPECT_TRUE(remove("d", "a.ibd"));
  EXPECT_TRUE(create("d", "c.ibd"));
  const auto whole = bytes();
  size_t n_known = 0;

  const auto check = [&](const std::string &damaged) {
    std::set<std::string> known;
    const auto replayed = replay_journal(damaged, MAP_ID, boot_id());

    if (is_known(replayed, "d", known)) {
      EXPECT_EQ(names("d"), known);
      ++n_known;
    }
  };

  check(whole);
  EXPECT_EQ(1, n_known);
  for (size_t n = 0; n < whole.size(); ++n) {
    check(whole.substr(0, n));
    for (int bit = 0; bit < 8; ++bit) {
      auto damaged = whole;
      damaged[n] ^= 1 << bit;
      check(damaged);
    }
  }
  /* Only the whole one has the last identity. */
  EXPECT_EQ(1, n_known);

  /* What is torn off is not in the way of what comes next. */
  ASSERT_EQ(0, truncate(m_file.c_str(), whole.size() - 1));
  Journal next;
  ASSERT_TRUE(next.go_on(m_file, replay(), m_map.base()));
  EXPECT_TRUE(replay().is_valid);
  EXPECT_EQ(bytes().size(), replay().n_bytes);
}

TEST_F(fil0journal, HostileRecords) {
  std::mt19937 random(4711);
  make_dir("d");
  add_to_map("d");
  ASSERT_TRUE(m_journal.create(m_file, MAP_ID, m_map.base()));
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(create("d", std::to_string(i) + ".ibd"));
  }
  m_journal.note_looked_up(7);
  const auto whole = bytes();

  /* With right checksums. */
  std::vector<size_t> begins;
  for (size_t pos = 20; pos < whole.size();) {
    begins.push_back(pos);
    pos += 8 + (static_cast<uint8_t>(whole[pos + 2]) << 8 |
                static_cast<uint8_t>(whole[pos + 3]));
  }
  begins.push_back(whole.size());
  size_t n_refused = 0;
  for (int i = 0; i < 50000; ++i) {
    auto damaged = whole;
    const auto no = random() % (begins.size() - 1);
    const auto begin = begins[no] + 8;
    const auto n = begins[no + 1] - begin;
    for (auto k = random() % 4 + 1; k > 0; --k) {
      damaged[begin + random() % n] = static_cast<char>(random() % 8);
    }
    const auto crc =
        ut_crc32(reinterpret_cast<const uint8_t *>(&damaged[begin]), n);
    for (int b = 0; b < 4; ++b) {
      damaged[begin - 4 + b] = static_cast<char>(crc >> (24 - 8 * b));
    }
    const auto replayed = replay_journal(damaged, MAP_ID, boot_id());
    n_refused += !replayed.is_valid;
    ASSERT_LE(replayed.n_bytes, damaged.size());
    for (const auto &dir : replayed.dirs) {
      for (const auto &file : dir.second.files) {
        ASSERT_FALSE(file.first.empty());
        ASSERT_EQ(std::string::npos, file.first.find('/'));
      }
    }
  }
  EXPECT_LT(1000, n_refused);

  for (int i = 0; i < 50000; ++i) {
    auto damaged = whole;
    for (auto n = random() % 8 + 1; n > 0; --n) {
      damaged[random() % damaged.size()] = static_cast<char>(random());
    }
    damaged.resize(random() % (damaged.size() + 1));
    (void)replay_journal(damaged, MAP_ID, boot_id());
  }
}

TEST_F(fil0journal, TablespacesThatAreLookedUp) {
  using Ids = std::set<uint32_t>;

  make_dir("d");
  add_to_map("d");
  ASSERT_TRUE(m_journal.create(m_file, MAP_ID, m_map.base()));
  m_journal.note_looked_up(7);
  EXPECT_TRUE(create("d", "a.ibd"));
  m_journal.note_looked_up(8);
  EXPECT_TRUE(replay().is_valid);
  EXPECT_EQ((Ids{7, 8}), replay().looked_up);

  /* A torn record is none. */
  const auto whole = bytes();
  EXPECT_EQ(Ids{7},
            replay_journal(whole.substr(0, whole.size() - 1), MAP_ID, boot_id())
                .looked_up);

  /* The next server goes on with them. */
  Journal next;
  ASSERT_TRUE(next.go_on(m_file, replay(), m_map.base()));
  EXPECT_EQ((Ids{7, 8}), replay().looked_up);

  /* A new map has those of before; those that came while it was made may have
  been too late for it. */
  next.begin_map();
  next.note_looked_up(9);
  next.end_map(m_file, MAP_ID, m_map.base());
  EXPECT_EQ(Ids{9}, replay().looked_up);

  /* If no map is made, the journal still has them. */
  next.begin_map();
  next.note_looked_up(10);
  next.cancel_map();
  EXPECT_EQ((Ids{9, 10}), replay().looked_up);
  next.begin_map();
  next.end_map(m_file, MAP_ID, m_map.base());
  EXPECT_TRUE(replay().is_valid);
  EXPECT_TRUE(replay().looked_up.empty());
}

TEST_F(fil0journal, CannotBeWritten) {
  make_dir("d");
  add_to_map("d");
  EXPECT_FALSE(m_journal.create(path("none", "journal"), MAP_ID, m_map.base()));
  EXPECT_FALSE(create("d", "a.ibd"));

  m_journal.begin_map();
  Dir_identity id;
  Dir_identity before;
  EXPECT_TRUE(m_journal.watch({0, "d"}, path("d"), id, before));
  m_map.dirs[{0, "d"}] = {id, true, names("d")};
  m_journal.end_map(path("none", "journal"), MAP_ID, m_map.base());
  EXPECT_FALSE(create("d", "b.ibd"));
  EXPECT_FALSE(m_journal.end());

  /* No room for more than the header of another. */
  ASSERT_TRUE(m_journal.create(m_file, MAP_ID, m_map.base()));
  add_to_map("d");
  ASSERT_TRUE(m_journal.create(m_file, MAP_ID, m_map.base()));
  struct rlimit limit;
  ASSERT_EQ(0, getrlimit(RLIMIT_FSIZE, &limit));
  const auto old_handler = signal(SIGXFSZ, SIG_IGN);
  struct rlimit small = limit;
  small.rlim_cur = bytes().size() + 10;
  ASSERT_EQ(0, setrlimit(RLIMIT_FSIZE, &small));
  EXPECT_FALSE(create("d", "c.ibd"));
  EXPECT_FALSE(m_journal.is_written());
  EXPECT_FALSE(fs::exists(m_file));
  EXPECT_FALSE(create("d", "e.ibd"));
  ASSERT_EQ(0, setrlimit(RLIMIT_FSIZE, &limit));
  signal(SIGXFSZ, old_handler);
  EXPECT_FALSE(create("d", "f.ibd"));
  std::set<std::string> known;
  EXPECT_FALSE(is_known(replay(), "d", known));

  /* What has its name is no file of ours. */
  fs::remove(m_file);
  make_dir("journal");
  EXPECT_FALSE(m_journal.create(m_file, MAP_ID, m_map.base()));
  fs::remove(m_file);
  ASSERT_EQ(0, mkfifo(m_file.c_str(), 0600));
  EXPECT_FALSE(m_journal.go_on(m_file, {}, m_map.base()));
  EXPECT_TRUE(m_journal.create(m_file, MAP_ID, m_map.base()));
  EXPECT_TRUE(fs::is_regular_file(m_file));
}

/** Schemas that come and go leave nothing behind. */
TEST_F(fil0journal, DirectoriesThatAreGone) {
  ASSERT_TRUE(m_journal.create(m_file, MAP_ID, m_map.base()));
  const auto make_map = [&]() {
    m_journal.begin_map();
    m_map.id += 1;
    m_journal.end_map(m_file, m_map.id, m_map.base());
    return bytes().size();
  };
  const auto n_bytes = make_map();

  for (int i = 0; i < 10; ++i) {
    const auto dir = "d" + std::to_string(i);
    make_dir(dir);
    EXPECT_TRUE(create(dir, "a.ibd"));
    EXPECT_TRUE(remove(dir, "a.ibd"));
    fs::remove(path(dir));
  }
  EXPECT_LT(n_bytes, bytes().size());
  EXPECT_EQ(n_bytes, make_map());
}

/** A directory that is made changes the one above it. */
TEST_F(fil0journal, DirectoriesThatAreMade) {
  make_dir("d");
  add_to_map("d");
  ASSERT_TRUE(m_journal.create(m_file, MAP_ID, m_map.base()));

  /* While another thread makes a file there. */
  auto file = change("d", "a.ibd");
  EXPECT_TRUE(m_journal.begin_change(file));
  auto below = change("d/e", "b.ibd");
  EXPECT_TRUE(m_journal.begin_change(below));
  make_dir("d/e");
  make_file(path("d/e", "b.ibd"));
  EXPECT_TRUE(m_journal.end_change(below));
  make_file(path("d", "a.ibd"));
  EXPECT_FALSE(m_journal.end_change(file));
  std::set<std::string> known;
  EXPECT_FALSE(is_known(replay(), "d", known));
  EXPECT_TRUE(is_known(replay(), "d/e", known));
}

TEST_F(fil0journal, SizeIsBounded) {
  make_dir("d");
  add_to_map("d");
  ASSERT_TRUE(m_journal.create(m_file, MAP_ID, m_map.base()));
  constexpr uint64_t BYTES = 1 << 20;
  constexpr size_t FILES = 64 * 100;

  for (size_t i = 0; i < 350; ++i) {
    EXPECT_EQ(i >= 16, m_journal.is_large(BYTES, 0)) << i;
    EXPECT_EQ(i >= 100, m_journal.is_large(BYTES, FILES)) << i;
    EXPECT_EQ(i >= 256, m_journal.is_large(BYTES, 1000 * FILES)) << i;
    ASSERT_TRUE(create("d", std::to_string(i) + ".ibd"));
  }
  for (size_t i = 0; i < 350; ++i) {
    ASSERT_TRUE(remove("d", std::to_string(i) + ".ibd"));
  }
  /* No files are left, but its bytes are: a quarter of a map of this size. */
  EXPECT_LT(LARGE_JOURNAL_BYTES, bytes().size());
  EXPECT_FALSE(m_journal.is_large(bytes().size() * 4 + 4, 0));
  EXPECT_TRUE(m_journal.is_large(bytes().size() * 4, 0));
  EXPECT_TRUE(m_journal.is_large(0, 0));
}

/** Random changes by the server and by others, maps that are made meanwhile,
and after each step what a start would believe if the server died there. */
TEST_F(fil0journal, WhatIsBelievedIsSo) {
  /* More than a few were run once; see docs/tablespace-map.md. */
  const char *const wanted = getenv("FIL0JOURNAL_SEEDS");
  const unsigned SEEDS = wanted == nullptr ? 20 : std::stoul(wanted);
  size_t n_believed = 0;
  size_t n_not = 0;
  size_t n_quiet = 0;
  size_t n_quiet_believed = 0;
  size_t n_maps = 0;

  for (unsigned seed = 1; seed <= SEEDS; ++seed) {
    std::mt19937 random(seed);
    const std::vector<std::string> dirs{"a", "b", "c"};
    const bool has_others = seed % 2 == 0;
    Journal journal;

    fs::remove_all(m_root);
    fs::create_directory(m_root);
    m_map = {};

    const auto check = [&](bool is_quiet) {
      const auto replayed = replay();

      for (const auto &dir : dirs) {
        std::set<std::string> known;

        if (!fs::exists(path(dir))) {
          continue;
        }
        n_quiet += is_quiet;
        if (is_known(replayed, dir, known)) {
          ASSERT_EQ(names(dir), known) << "seed " << seed << ", " << dir;
          ++n_believed;
          n_quiet_believed += is_quiet;
        } else {
          ++n_not;
        }
      }
    };

    std::vector<Change> live;

    const auto change_file = [&](bool may_stay) {
      const auto &dir = dirs[random() % dirs.size()];
      const auto name = std::to_string(random() % 12) + ".ibd";

      for (const auto &other : live) {
        if (other.dir.second == dir && other.name == name) {
          return;
        }
      }
      if (!fs::exists(path(dir)) && random() % 2 == 0) {
        make_dir(dir);
      }
      auto made = change(dir, name);
      (void)journal.begin_change(made);
      check(false);
      if (fs::exists(path(dir, name))) {
        unlink(path(dir, name).c_str());
      } else {
        fs::create_directory(path(dir));
        make_file(path(dir, name));
      }
      check(false);
      if (random() % 2 == 0) {
        (void)journal.note_changed(made);
        check(false);
        if (may_stay && live.size() < 3) {
          live.push_back(made);
          return;
        }
      }
      (void)journal.end_change(made);
    };

    const auto end_one = [&]() {
      if (!live.empty()) {
        if (random() % 8 == 0) {
          /* It has failed after all. */
          unlink(path(live.back().dir.second, live.back().name).c_str());
        }
        (void)journal.end_change(live.back());
        live.pop_back();
      }
    };

    /* A directory is removed and made again, if it has nothing of others. */
    const auto remake = [&]() {
      const auto &dir = dirs[random() % dirs.size()];
      if (!live.empty() || !fs::exists(path(dir))) {
        return;
      }
      for (const auto &name : names(dir)) {
        if (name.find("other") == std::string::npos) {
          auto removed = change(dir, name);
          (void)journal.begin_change(removed);
          unlink(path(dir, name).c_str());
          (void)journal.end_change(removed);
        }
      }
      check(false);
      std::error_code error;
      if (fs::remove(path(dir), error)) {
        make_dir(dir);
        auto made = change(dir, "made.ibd");
        (void)journal.begin_change(made);
        make_file(path(dir, "made.ibd"));
        (void)journal.end_change(made);
      }
      check(false);
    };

    const auto make_map = [&]() {
      Map map;
      map.id = m_map.id + 1;
      journal.begin_map();
      for (const auto &dir : dirs) {
        Dir_identity id;
        Dir_identity before;
        if (random() % 2 == 0) change_file(true);
        if (!dir_identity(path(dir), id)) {
          continue;
        }
        const Dir_key key{0, dir};
        const bool is_watched = journal.watch(key, path(dir), id, before);
        if (random() % 2 == 0) change_file(true);
        if (!fs::exists(path(dir))) {
          continue;
        }
        const auto listed = names(dir);
        if (random() % 2 == 0) change_file(true);
        if (random() % 2 == 0) end_one();
        Map::Dir in_map{id, is_watched, {}, false};
        for (const auto &name : listed) {
          if (journal.is_touched(key, name)) {
            in_map.is_partial = true;
          } else {
            in_map.names.insert(name);
          }
        }
        if (has_others && random() % 8 == 0) {
          make_file(path(dir, "other" + std::to_string(random() % 3)));
        }
        if (random() % 2 == 0) change_file(true);
        Dir_identity after;
        in_map.is_trusted = in_map.is_trusted &&
                            dir_identity(path(dir), after) &&
                            journal.is_watched(key, after);
        map.dirs[key] = in_map;
        check(false);
        if (random() % 4 == 0) remake();
      }
      if (random() % 4 == 0) {
        journal.cancel_map();
        return;
      }
      ++n_maps;
      m_map = map;
      /* Here the journal is that of another map. */
      check(false);
      journal.end_map(m_file, map.id, map.base());
    };

    ASSERT_TRUE(journal.create(m_file, m_map.id, m_map.base()));
    for (int step = 0; step < 300; ++step) {
      switch (random() % 8) {
        case 0:
          make_map();
          break;
        case 1: {
          const auto dir = path(dirs[random() % dirs.size()]);
          /* Others change nothing while the server does: that is not seen. */
          if (has_others && live.empty() && fs::exists(dir)) {
            const auto file = dir + "/other" + std::to_string(random() % 3);
            if (unlink(file.c_str()) != 0) make_file(file);
          }
          break;
        }
        case 2: {
          const auto dir = path(dirs[random() % dirs.size()]);
          if (live.empty()) {
            std::error_code error;
            fs::remove(dir, error);
          }
          break;
        }
        case 3:
          end_one();
          break;
        default:
          change_file(true);
      }
      check(live.empty() && !has_others);
    }
  }

  /* The test would pass if nothing were ever believed. */
  std::cout << n_maps << " maps; a directory was believed " << n_believed
            << " times and not " << n_not << " times; with nothing going on "
            << n_quiet_believed << " of " << n_quiet << " times\n";
  EXPECT_LT(SEEDS * 20, n_maps);
  EXPECT_LT(SEEDS * 500, n_believed);
  EXPECT_LT(SEEDS * 50, n_not);
  EXPECT_LT(n_quiet * 8 / 10, n_quiet_believed);
}

/** Whether directories change their times is tried without a trace. */
TEST_F(fil0journal, TestOfTimes) {
  make_dir("d");

  Dir_identity before;
  Dir_identity after;
  ASSERT_TRUE(dir_identity(path("d"), before));
  EXPECT_EQ(Times::KEPT, test_times(path("d")));
  EXPECT_TRUE(names("d").empty());
  ASSERT_TRUE(dir_identity(path("d"), after));
  EXPECT_NE(before.mtime_nsec, after.mtime_nsec);

  /* A server has died in it. */
  make_file(path("d", "#innodb_tablespace_map.TMD"));
  EXPECT_EQ(Times::KEPT, test_times(path("d")));
  EXPECT_TRUE(names("d").empty());

  EXPECT_EQ(Times::UNKNOWN, test_times(path("none")));
  /* Nothing can be made there, whoever asks. */
  EXPECT_EQ(Times::UNKNOWN, test_times("/proc/self"));
}

/** Threads that make and remove files while maps are made. */
TEST_F(fil0journal, Threads) {
  make_dir("d");
  add_to_map("d");
  ASSERT_TRUE(m_journal.create(m_file, MAP_ID, m_map.base()));

  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this, t]() {
      for (int i = 0; i < 300; ++i) {
        const auto name =
            std::to_string(t) + '-' + std::to_string(i % 7) + ".ibd";
        if (fs::exists(path("d", name))) {
          (void)remove("d", name);
        } else {
          (void)create("d", name);
        }
      }
    });
  }
  int n_good = 0;
  int n_partial = 0;
  for (int i = 0; i < 20; ++i) {
    Dir_identity id;
    Dir_identity before;
    Dir_identity after;
    const Dir_key key{0, "d"};

    m_journal.begin_map();
    if (!m_journal.watch(key, path("d"), id, before)) {
      m_journal.cancel_map();
      continue;
    }
    std::set<std::string> listed;
    bool is_partial = false;
    for (const auto &name : names("d")) {
      if (m_journal.is_touched(key, name)) {
        is_partial = true;
      } else {
        listed.insert(name);
      }
    }
    const bool is_good =
        dir_identity(path("d"), after) && m_journal.is_watched(key, after);
    m_map.id = MAP_ID + 1 + i;
    m_map.dirs[key] = {id, is_good, listed, is_partial};
    m_journal.end_map(m_file, m_map.id, m_map.base());
    n_good += is_good;
    n_partial += is_partial;
  }
  for (auto &thread : threads) {
    thread.join();
  }
  std::cout << n_good << " of 20 maps good, " << n_partial << " in part\n";
  EXPECT_LT(0, n_good);

  std::set<std::string> known;
  if (is_known(replay(), "d", known)) {
    EXPECT_EQ(names("d"), known);
  }
  /* Whatever came in between, the next map is right. */
  Dir_identity id;
  Dir_identity before;
  m_journal.begin_map();
  ASSERT_TRUE(m_journal.watch({0, "d"}, path("d"), id, before));
  m_map.id += 1;
  m_map.dirs[{0, "d"}] = {id, true, names("d")};
  m_journal.end_map(m_file, m_map.id, m_map.base());
  EXPECT_TRUE(is_known(replay(), "d", known));
  EXPECT_EQ(names("d"), known);
}

}  // namespace innodb_fil0journal_unittest
