/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** Unit tests of fil0maplist: real directories, and a server that answers what
the test says. */

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "storage/innobase/include/dict0dict.h"
#include "storage/innobase/include/fil0fil.h"
#include "storage/innobase/include/fil0maplist.h"
#include "storage/innobase/include/fsp0fsp.h"
#include "storage/innobase/include/mach0data.h"
#include "storage/innobase/include/ut0crc32.h"

namespace innodb_fil0maplist_unittest {

using namespace tablespace_map;

namespace fs = std::filesystem;

/** A tablespace of one table: DYNAMIC, with SDI. */
constexpr uint32_t FLAGS = 16417;

class Fake_server : public Server {
 public:
  bool must_stop() const override { return m_n_asked++ >= m_n_before_stop; }
  bool is_dropped(space_id_t id) const override { return m_dropped.count(id); }
  bool may_be_deferred(space_id_t id) const override {
    return m_deferred.count(id);
  }
  bool is_ddl_under_way() const override { return m_is_ddl; }
  space_id_t read_id(const std::string &file,
                     const Dir_identity &) const override {
    const auto it = m_read.find(file);
    return it == m_read.end() ? SPACE_UNKNOWN : it->second;
  }

  size_t m_n_before_stop{SIZE_MAX};
  mutable size_t m_n_asked{0};
  std::set<space_id_t> m_dropped;
  std::set<space_id_t> m_deferred;
  bool m_is_ddl{false};
  std::map<std::string, space_id_t> m_read;
};

/** What became of a list. */
struct Made {
  /** The map; nullptr if there is none. */
  Image_ptr image;
  bool is_clean;
  bool has_loss;
  bool was_stopped;
  std::string obstacle;
};

class fil0maplist : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { ut_crc32_init(); }

  void SetUp() override {
    std::string name = fs::temp_directory_path() / "fil0maplistXXXXXX";
    ASSERT_NE(nullptr, mkdtemp(name.data()));
    m_temp = fs::canonical(name);
    m_data = m_temp + "/data/";
    fs::create_directory(m_data);
    m_old_home = MySQL_datadir_path;
    MySQL_datadir_path = Fil_path{m_data, true};
    m_roots.set({{m_data, m_data}});
  }

  void TearDown() override {
    MySQL_datadir_path = m_old_home;
    fs::remove_all(m_temp);
  }

  /** Write the header of a tablespace into a file, which need not be there. */
  void write_header(const std::string &file, space_id_t id,
                    uint32_t flags = FLAGS) {
    std::vector<byte> page(UNIV_PAGE_SIZE_ORIG);
    mach_write_to_4(page.data() + FIL_PAGE_SPACE_ID, id);
    mach_write_to_4(page.data() + FSP_HEADER_OFFSET + FSP_SPACE_ID, id);
    mach_write_to_4(page.data() + FSP_HEADER_OFFSET + FSP_SPACE_FLAGS, flags);

    const int fd = ::open((m_data + file).c_str(), O_WRONLY | O_CREAT, 0600);
    ASSERT_LE(0, fd);
    ASSERT_EQ(static_cast<ssize_t>(page.size()),
              ::pwrite(fd, page.data(), page.size(), 0));
    close(fd);
  }

  /** Make a file, and the object that the server has of it. */
  void make_table(const std::string &dir, const std::string &table,
                  space_id_t id, uint32_t flags = FLAGS) {
    const auto name = dir + '/' + table;

    fs::create_directory(m_data + dir);
    write_header(name + ".ibd", id, flags);
    m_spaces.push_back({id, flags, name, "./" + name + ".ibd", false});
  }

  Made list(const Image_ptr &last = nullptr, bool may_carry = true) {
    std::string bytes;
    Lister lister(
        m_roots, last, may_carry, m_journal, m_times, m_server,
        [&bytes](uint64_t offset, std::string_view s) {
          bytes.resize(std::max<size_t>(bytes.size(), offset + s.size()));
          bytes.replace(offset, s.size(), s);
          return true;
        });

    m_journal.begin_map();
    lister.summary().is_clean = true;
    lister.list(std::vector<Space>(m_spaces));

    Made made{nullptr, lister.summary().is_clean, lister.has_loss(), false,
              lister.obstacle()};

    if (lister.finish({})) {
      made.image = open(bytes);
    }
    made.was_stopped = lister.was_stopped();
    m_journal.cancel_map();
    return made;
  }

  /** Open a map as the server does. */
  Image_ptr open(const std::string &bytes) {
    const auto path = m_temp + "/map";
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
    auto image = std::make_shared<Image>();

    EXPECT_LE(0, fd);
    EXPECT_EQ(static_cast<ssize_t>(bytes.size()),
              ::pwrite(fd, bytes.data(), bytes.size(), 0));
    EXPECT_EQ(nullptr, image->open(fd));
    /* The next one is another file. */
    unlink(path.c_str());
    return image;
  }

  static bool has(const Made &made, space_id_t id) {
    Found found;
    return made.image->reader.find(id, found);
  }

  static tablespace_map::File file(const Made &made, space_id_t id) {
    Found found;
    EXPECT_TRUE(made.image->reader.find(id, found));
    return found.file;
  }

  static bool is_trusted(const Made &made, const std::string &dir) {
    const auto no = made.image->reader.summary().find_dir(0, dir);
    EXPECT_LE(0, no);
    return no >= 0 && made.image->dir(no).is_trusted;
  }

  std::string m_temp;
  std::string m_data;
  Fil_path m_old_home;
  Roots m_roots;
  Journal m_journal;
  Tested_times m_times;
  Fake_server m_server;
  std::vector<Space> m_spaces;
};

TEST_F(fil0maplist, ListsAll) {
  make_table("b", "t2", 2);
  make_table("b", "t1", 1);
  make_table("a", "x", 7, FLAGS | FSP_FLAGS_MASK_ENCRYPTION);
  fs::create_directory(m_data + "a/below");
  fs::create_directory(m_data + "empty");

  const auto made = list();
  ASSERT_NE(nullptr, made.image);
  EXPECT_TRUE(made.is_clean);
  EXPECT_FALSE(made.has_loss);
  EXPECT_EQ("", made.obstacle);

  const auto &summary = made.image->reader.summary();
  std::vector<std::string> dirs;
  for (const auto &dir : summary.dirs) {
    dirs.push_back(dir.path);
    EXPECT_TRUE(dir.is_trusted) << dir.path;
  }
  EXPECT_EQ((std::vector<std::string>{"", "a", "a/below", "b", "empty"}), dirs);
  EXPECT_EQ(3U, made.image->reader.n_files());
  EXPECT_EQ("t1.ibd", file(made, 1).name);
  EXPECT_EQ("", file(made, 1).space_name);
  EXPECT_EQ(FLAGS, file(made, 2).flags);
  EXPECT_EQ(7U, summary.max_space_id);
  EXPECT_EQ(std::vector<space_id_t>{7}, summary.encrypted);
  EXPECT_TRUE(summary.opened_at_start.empty());
}

TEST_F(fil0maplist, WhatEachStartHasToOpen) {
  make_table("a", "grows", 1);
  m_spaces.back().must_open = true;
  make_table("a", "elsewhere", 2);
  m_spaces.back().path = m_data + "a/elsewhere.ibd";
  make_table("a", "general", 3, FLAGS | FSP_FLAGS_MASK_SHARED);
  make_table("a", "plain", 4);
  make_table("", "mysql", dict_sys_t::s_dict_space_id,
             FLAGS | FSP_FLAGS_MASK_SHARED);

  const auto made = list();
  ASSERT_NE(nullptr, made.image);
  EXPECT_EQ((std::vector<space_id_t>{1, 2, dict_sys_t::s_dict_space_id}),
            made.image->reader.summary().opened_at_start);
  EXPECT_EQ(4U, made.image->reader.summary().max_space_id);
}

TEST_F(fil0maplist, HowPathsInTheDataDirectoryAreSpelled) {
  using tablespace_map::is_same_path;

  EXPECT_TRUE(is_same_path("g.ibd", "./g.ibd"));
  EXPECT_TRUE(is_same_path("./a/t.ibd", "./a/t.ibd"));
  EXPECT_FALSE(is_same_path("./a/t.ibd", "./t.ibd"));
  EXPECT_FALSE(is_same_path("/g.ibd", "./g.ibd"));
}

TEST_F(fil0maplist, WhatKeepsADirectoryFromBeingTrusted) {
  const struct {
    const char *what;
    std::function<int(const std::string &dir)> make;
  } cases[] = {
      {"is hidden",
       [](const auto &dir) { return mkdir((dir + "/.x").c_str(), 0700); }},
      {"is neither a file nor a directory",
       [](const auto &dir) { return symlink("t.ibd", (dir + "/x").c_str()); }},
      {"is neither a file nor a directory",
       [](const auto &dir) { return symlink("..", (dir + "/x").c_str()); }},
      {"is neither a file nor a directory",
       [](const auto &dir) { return mkfifo((dir + "/x").c_str(), 0600); }},
      {"has the name of an old partition",
       [](const auto &dir) {
         return mknod((dir + "/x#P#A.ibd").c_str(), S_IFREG | 0600, 0);
       }},
      {"is no tablespace of this server, or has several names",
       [](const auto &dir) {
         return mknod((dir + "/x.ibd").c_str(), S_IFREG | 0600, 0);
       }},
      {"is no tablespace of this server, or has several names",
       [](const auto &dir) {
         return link((dir + "/t.ibd").c_str(), (dir + "/x.ibd").c_str());
       }},
      {"",
       [](const auto &dir) {
         return mknod((dir + "/undo_001").c_str(), S_IFREG | 0600, 0);
       }},
  };

  space_id_t id = 0;
  for (const auto &[what, make] : cases) {
    const auto dir = "d" + std::to_string(++id);
    SCOPED_TRACE(dir + ": " + what);

    make_table(dir, "t", id);
    make_table("good", "t" + dir, 100 + id);
    ASSERT_EQ(0, make(m_data + dir));

    const auto made = list();
    ASSERT_NE(nullptr, made.image);
    EXPECT_FALSE(is_trusted(made, dir));
    EXPECT_TRUE(is_trusted(made, "good"));
    EXPECT_EQ(*what == 0, made.obstacle.empty()) << made.obstacle;
    EXPECT_NE(std::string::npos, made.obstacle.find(what)) << made.obstacle;

    fs::remove_all(m_data + dir);
    m_spaces.erase(m_spaces.end() - 2);
  }
}

TEST_F(fil0maplist, FilesThatAreNotOfTheServer) {
  make_table("a", "t", 1);
  write_header("a/left_over.ibd", 2);

  auto made = list();
  ASSERT_NE(nullptr, made.image);
  EXPECT_TRUE(is_trusted(made, "a"));
  EXPECT_TRUE(file(made, 2).is_stray);
  EXPECT_FALSE(file(made, 1).is_stray);
  EXPECT_EQ(1U, made.image->reader.summary().max_space_id);

  /* It may be a table that nobody has used yet, or one that is being made or
  removed: then nothing is said of it, and the next start looks. */
  m_server.m_deferred = {2};
  made = list();
  EXPECT_FALSE(has(made, 2));
  EXPECT_FALSE(is_trusted(made, "a"));

  m_server.m_deferred = {};
  m_server.m_is_ddl = true;
  made = list();
  EXPECT_FALSE(has(made, 2));
  EXPECT_FALSE(is_trusted(made, "a"));

  m_server.m_is_ddl = false;
  m_server.m_dropped = {2};
  made = list();
  EXPECT_FALSE(has(made, 2));
  EXPECT_FALSE(is_trusted(made, "a"));

  /* A copy of a table has the ID of that. */
  m_server.m_dropped = {};
  write_header("a/left_over.ibd", 1);
  made = list();
  EXPECT_EQ("t.ibd", file(made, 1).name);
  EXPECT_FALSE(is_trusted(made, "a"));
}

TEST_F(fil0maplist, AFileWithAnotherIdIsNotInTheMap) {
  make_table("a", "t", 1);
  make_table("a", "u", 2);
  write_header("a/t.ibd", 3);

  const auto made = list();
  ASSERT_NE(nullptr, made.image);
  EXPECT_FALSE(has(made, 1));
  EXPECT_FALSE(has(made, 3));
  EXPECT_TRUE(has(made, 2));
  EXPECT_FALSE(is_trusted(made, "a"));
  EXPECT_FALSE(made.is_clean);
}

TEST_F(fil0maplist, TakesWhatIsAsItWasFromTheLastMap) {
  make_table("a", "t", 1);
  const auto first = list();
  ASSERT_NE(nullptr, first.image);
  ASSERT_TRUE(is_trusted(first, "a"));

  /* That is not seen in the directory. Were the header read, it would be. */
  write_header("a/t.ibd", 99);
  const auto second = list(first.image);
  ASSERT_NE(nullptr, second.image);
  EXPECT_EQ("t.ibd", file(second, 1).name);
  EXPECT_TRUE(is_trusted(second, "a"));

  const auto third = list(first.image, false);
  ASSERT_NE(nullptr, third.image);
  EXPECT_FALSE(has(third, 1));
  EXPECT_FALSE(is_trusted(third, "a"));
  EXPECT_FALSE(third.is_clean);

  /* In a directory that has changed, files are recognised. */
  make_table("a", "u", 2);
  const auto fourth = list(first.image);
  ASSERT_NE(nullptr, fourth.image);
  EXPECT_EQ(file(first, 1).identity.btime_nsec != 0, has(fourth, 1));
  EXPECT_TRUE(has(fourth, 2));
}

TEST_F(fil0maplist, ALossIsToldFromWhatWasDropped) {
  make_table("a", "t", 1);
  make_table("a", "u", 2);
  const auto first = list();
  ASSERT_NE(nullptr, first.image);

  fs::remove(m_data + "a/u.ibd");
  m_spaces.pop_back();
  auto made = list(first.image);
  ASSERT_NE(nullptr, made.image);
  EXPECT_FALSE(has(made, 2));
  EXPECT_TRUE(made.has_loss);
  EXPECT_FALSE(made.is_clean);

  m_server.m_is_ddl = true;
  made = list(first.image);
  EXPECT_FALSE(made.has_loss);
  EXPECT_FALSE(made.is_clean);

  m_server.m_is_ddl = false;
  m_server.m_dropped = {2};
  made = list(first.image);
  ASSERT_NE(nullptr, made.image);
  EXPECT_FALSE(made.has_loss);
  EXPECT_TRUE(made.is_clean);
}

TEST_F(fil0maplist, WhatTheStartHasReadIsNotReadAgain) {
  make_table("a", "t", 1);
  write_header("a/t.ibd", 99);
  m_server.m_read[key(0, "a/t.ibd")] = 1;

  const auto made = list();
  ASSERT_NE(nullptr, made.image);
  EXPECT_TRUE(has(made, 1));
  EXPECT_TRUE(is_trusted(made, "a"));
}

TEST_F(fil0maplist, StopsWhereverItIsToldTo) {
  make_table("a", "t", 1);
  make_table("b", "u", 2);
  size_t n_stops = 0;

  for (;; ++n_stops) {
    m_server.m_n_before_stop = n_stops;
    m_server.m_n_asked = 0;
    const auto made = list();
    EXPECT_EQ(made.image == nullptr, made.was_stopped);
    if (!made.was_stopped) {
      break;
    }
  }
  /* Once for each directory and each entry, at least. */
  EXPECT_LE(7U, n_stops);
}

TEST_F(fil0maplist, DoesNotLookDeeperThan64Directories) {
  std::string path;
  for (int depth = 1; depth <= 66; ++depth) {
    path += path.empty() ? "d" : "/d";
    fs::create_directory(m_data + path);
  }

  const auto made = list();
  ASSERT_NE(nullptr, made.image);

  const auto &dirs = made.image->reader.summary().dirs;
  ASSERT_EQ(65U, dirs.size());
  EXPECT_TRUE(dirs[63].is_trusted);
  EXPECT_FALSE(dirs[64].is_trusted);
  EXPECT_NE(std::string::npos, made.obstacle.find("cannot be looked into"));
}

}  // namespace innodb_fil0maplist_unittest
