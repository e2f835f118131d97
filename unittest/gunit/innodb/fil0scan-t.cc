/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** Unit tests of fil0scan and fil0ring: reading real files by io_uring, and the
walk through real directories. */

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <ios>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <vector>

#include "storage/innobase/include/fil0check.h"
#include "storage/innobase/include/fil0ring.h"
#include "storage/innobase/include/fil0scan.h"

#ifdef __linux__

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace innodb_fil0scan_unittest {

using namespace tablespace_scan;
namespace fs = std::filesystem;

/** A directory that goes away with its files. */
class Temp_dir {
 public:
  Temp_dir() {
    auto name = (fs::temp_directory_path() / "fil0scan-XXXXXX").string();
    EXPECT_NE(nullptr, mkdtemp(name.data()));
    m_path = name;
  }

  ~Temp_dir() { fs::remove_all(m_path); }

  std::string operator/(const std::string &name) const {
    return (m_path / name).string();
  }

  /** Make a file. @return its path */
  std::string write(const std::string &name, const std::string &bytes) const {
    const auto path = *this / name;
    fs::create_directories(fs::path(path).parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }

 private:
  fs::path m_path;
};

/** What became of one file: its bytes, or nothing. */
struct Outcome {
  size_t n_times{0};
  bool is_read{false};
  std::string bytes;

  bool operator==(const Outcome &) const = default;
};

/** Read files with one ring. */
static std::vector<Outcome> read_all(const std::vector<std::string> &paths,
                                     const Header_ring::Options &options) {
  std::vector<Outcome> outcomes(paths.size());
  std::string error;
  const auto ring = Header_ring::create(options, error);
  EXPECT_NE(nullptr, ring) << error;

  size_t n_named = 0;
  size_t n_under_way = 0;

  const bool success = ring->run(
      [&](size_t &item, std::string &path) {
        if (n_named == paths.size()) {
          return false;
        }
        ++n_under_way;
        EXPECT_LE(n_under_way, Header_ring::DEPTH);
        item = n_named++;
        path = paths[item];
        return true;
      },
      [&](size_t item, const unsigned char *header) {
        --n_under_way;
        auto &outcome = outcomes[item];
        ++outcome.n_times;
        outcome.is_read = header != nullptr;
        if (header != nullptr) {
          outcome.bytes.assign(reinterpret_cast<const char *>(header),
                               options.n_bytes);
        }
      });

  EXPECT_TRUE(success);
  EXPECT_EQ(0U, n_under_way);

  return outcomes;
}

/** The ring tests mean nothing where the system has none. */
class fil0ring : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string error;
    if (Header_ring::create({4096, false, true}, error) == nullptr) {
      GTEST_SKIP() << "no io_uring here: " << error;
    }
  }

  Temp_dir m_dir;
};

constexpr Header_ring::Options LIGHT{4096, false, true};

TEST_F(fil0ring, odd_files) {
  const std::string page(4096, 'p');
  ASSERT_EQ(0, symlink("plain", (m_dir / "link").c_str()));
  ASSERT_EQ(0, symlink("nothing", (m_dir / "dangling").c_str()));
  ASSERT_EQ(0, symlink("loop", (m_dir / "loop").c_str()));
  fs::create_directory(m_dir / "dir");

  const auto outcomes = read_all(
      {m_dir.write("plain", page + "rest"), m_dir / "missing", m_dir / "dir",
       m_dir.write("empty", ""), m_dir.write("short", page.substr(1)),
       m_dir.write("exact", page), m_dir / "link", m_dir / "dangling",
       m_dir / "loop", m_dir / "plain/below", m_dir / std::string(300, 'x'),
       m_dir.write("zero", std::string(8192, '\0')), ""},
      LIGHT);

  const Outcome read{1, true, page};
  const Outcome not_read{1, false, ""};

  EXPECT_EQ(read, outcomes[0]);
  EXPECT_EQ(not_read, outcomes[1]);
  EXPECT_EQ(not_read, outcomes[2]);
  EXPECT_EQ(not_read, outcomes[3]);
  EXPECT_EQ(not_read, outcomes[4]);
  EXPECT_EQ(read, outcomes[5]);
  EXPECT_EQ(read, outcomes[6]);
  EXPECT_EQ(not_read, outcomes[7]);
  EXPECT_EQ(not_read, outcomes[8]);
  EXPECT_EQ(not_read, outcomes[9]);
  EXPECT_EQ(not_read, outcomes[10]);
  EXPECT_EQ((Outcome{1, true, std::string(4096, '\0')}), outcomes[11]);
  EXPECT_EQ(not_read, outcomes[12]);
}

TEST_F(fil0ring, mode_000) {
  if (geteuid() == 0) {
    GTEST_SKIP() << "for the superuser everything is readable";
  }
  const auto path = m_dir.write("secret", std::string(4096, 's'));
  ASSERT_EQ(0, chmod(path.c_str(), 0));
  EXPECT_EQ((Outcome{1, false, ""}), read_all({path}, LIGHT)[0]);
}

TEST_F(fil0ring, nothing_to_read) { EXPECT_TRUE(read_all({}, LIGHT).empty()); }

/** Many more files than slots, a third of which cannot be read: no slot is
lost, none holds what another file has left in it. */
TEST_F(fil0ring, many_files) {
  std::vector<std::string> paths;
  constexpr size_t n_files = 3000;

  for (size_t i = 0; i < n_files; ++i) {
    const auto name = std::to_string(i);
    std::string bytes = name;
    bytes.resize(4096, 'm');

    switch (i % 3) {
      case 0:
        paths.push_back(m_dir.write(name, bytes));
        break;
      case 1:
        paths.push_back(m_dir.write(name, bytes + bytes));
        break;
      default:
        paths.push_back(i % 2 == 0 ? m_dir / name
                                   : m_dir.write(name, "too short"));
    }
  }

  for (const Header_ring::Options &options :
       {LIGHT, Header_ring::Options{512, false, false}}) {
    const auto outcomes = read_all(paths, options);

    for (size_t i = 0; i < n_files; ++i) {
      EXPECT_EQ(1U, outcomes[i].n_times) << i;
      ASSERT_EQ(i % 3 != 2, outcomes[i].is_read) << i;
      if (outcomes[i].is_read) {
        EXPECT_EQ(std::to_string(i) + "m",
                  outcomes[i].bytes.substr(0, std::to_string(i).size() + 1));
        EXPECT_EQ(options.n_bytes, outcomes[i].bytes.size());
      }
    }
  }
}

TEST_F(fil0ring, every_page_size_and_direct) {
  /* On a file system that takes O_DIRECT, unlike tmpfs. */
  Temp_dir dir;
  const auto path = dir.write("large", std::string(65536, 'd'));
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECT);

  for (size_t n_bytes = 4096; n_bytes <= Header_ring::MAX_BYTES; n_bytes *= 2) {
    const Outcome read{1, true, std::string(n_bytes, 'd')};
    EXPECT_EQ(read, read_all({path}, {n_bytes, false, true})[0]);
    EXPECT_EQ(fd == -1 ? (Outcome{1, false, ""}) : read,
              read_all({path}, {n_bytes, true, false})[0]);
  }

  if (fd != -1) {
    close(fd);
  }
}

TEST_F(fil0ring, leaves_no_descriptor_open) {
  const auto count = []() {
    return std::distance(fs::directory_iterator("/proc/self/fd"),
                         fs::directory_iterator());
  };
  const auto path = m_dir.write("plain", std::string(4096, 'p'));
  const auto n_before = count();
  (void)read_all({path, m_dir / "missing", path}, LIGHT);
  EXPECT_EQ(n_before, count());
}

/** Run a function in a process of its own. @return its exit code */
template <typename F>
static int in_child(F &&f) {
  const pid_t pid = fork();

  if (pid == 0) {
    _exit(f());
  }

  int status = 0;
  EXPECT_EQ(pid, waitpid(pid, &status, 0));
  EXPECT_TRUE(WIFEXITED(status));

  return WEXITSTATUS(status);
}

/** @return whether there is no ring, for the given reason */
static bool is_refused(int err) {
  std::string error;
  return Header_ring::create(LIGHT, error) == nullptr &&
         error == std::strerror(err);
}

TEST_F(fil0ring, no_descriptor_to_be_had) {
  EXPECT_EQ(0, in_child([]() {
              const rlimit none{0, 0};
              return setrlimit(RLIMIT_NOFILE, &none) == 0 && is_refused(EMFILE)
                         ? 0
                         : 1;
            }));
}

/** Containers forbid io_uring in this way. */
TEST_F(fil0ring, forbidden_by_seccomp) {
  EXPECT_EQ(
      0, in_child([]() {
        sock_filter code[] = {
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
        const sock_fprog program{4, code};

        return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
                       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) ==
                           0 &&
                       is_refused(EPERM)
                   ? 0
                   : 1;
      }));
}

TEST(fil0scan, number_of_rings) {
  EXPECT_EQ(1U, n_rings(0, 0));
  EXPECT_EQ(1U, n_rings(MIN_FILES_PER_RING, 0));
  EXPECT_EQ(2U, n_rings(2 * MIN_FILES_PER_RING, 0));
  EXPECT_EQ(MAX_AUTO_RINGS, n_rings(1000000, 0));
  EXPECT_EQ(1U, n_rings(1000000, 1));
  EXPECT_EQ(256U, n_rings(1000000, 256));
  EXPECT_EQ(3U, n_rings(3 * MIN_FILES_PER_RING, 256));
}

/** Sets the variables of the check, and restores them. */
class Settings {
 public:
  Settings(bool light, uint n_threads, Io io)
      : m_fadvise(tablespace_check::g_fadvise),
        m_light(tablespace_check::g_light),
        m_threads(tablespace_check::g_threads),
        m_io(g_io) {
    tablespace_check::g_fadvise = false;
    tablespace_check::g_light = light;
    tablespace_check::g_threads = n_threads;
    g_io = static_cast<ulong>(io);
  }

  ~Settings() {
    tablespace_check::g_fadvise = m_fadvise;
    tablespace_check::g_light = m_light;
    tablespace_check::g_threads = m_threads;
    g_io = m_io;
  }

 private:
  bool m_fadvise;
  bool m_light;
  uint m_threads;
  ulong m_io;
};

static bool walk_nothing(bool recursive) {
  Temp_dir dir;
  return walk(dir / "", recursive, [](const auto &, size_t) {});
}

TEST(fil0scan, walks_only_when_asked_to) {
  const Settings settings(true, 1, Io::THREADS);
  EXPECT_FALSE(walk_nothing(true));
  {
    const Listing listing;
    EXPECT_TRUE(walk_nothing(true));
    EXPECT_TRUE(walk_nothing(false));
  }
  EXPECT_FALSE(walk_nothing(true));
  /* What is not below is walked at any time. */
  EXPECT_TRUE(walk_nothing(false));
}

TEST(fil0scan, does_not_walk_when_all_is_off) {
  for (const auto io : {Io::THREADS, Io::AUTO}) {
    const Settings settings(false, 0, io);
    const Listing listing;
    EXPECT_FALSE(walk_nothing(true));
    EXPECT_FALSE(walk_nothing(false));
  }

  const Settings settings(false, 0, Io::IO_URING);
  const Listing listing;
  EXPECT_TRUE(walk_nothing(true));
}

/** The same files as those of an independent walk, in the order of their
inodes, and known as files exactly if they are. */
TEST(fil0scan, walk_finds_every_file_once) {
  Temp_dir dir;

  for (size_t i = 0; i < 40; ++i) {
    const auto schema = "schema" + std::to_string(i) + "/";
    for (size_t j = 0; j < i; ++j) {
      dir.write(schema + std::to_string(j) + ".ibd", "");
    }
    dir.write(schema + "below/deeper/t.ibd", "");
  }

  dir.write("ibdata1", "");
  fs::create_directory(dir / "empty");
  ASSERT_EQ(0, symlink("ibdata1", (dir / "link_to_file").c_str()));
  ASSERT_EQ(0, symlink("schema7", (dir / "link_to_dir").c_str()));
#ifndef UNIV_DEBUG
  /* Dir_Walker::is_directory() asserts that what it is asked about exists. */
  ASSERT_EQ(0, symlink("nothing", (dir / "dangling").c_str()));
#endif /* !UNIV_DEBUG */
  ASSERT_EQ(0, mkfifo((dir / "fifo").c_str(), 0600));

  std::set<std::string> expected;
  std::set<std::string> not_known;

  for (const auto &entry : fs::recursive_directory_iterator(
           dir / "", fs::directory_options::follow_directory_symlink)) {
    std::error_code ignored;
    if (!fs::is_directory(entry.path(), ignored)) {
      expected.insert(entry.path());
      if (!entry.is_regular_file(ignored) || entry.is_symlink(ignored)) {
        not_known.insert(entry.path());
      }
    }
  }

#ifdef UNIV_DEBUG
  ASSERT_EQ(2U, not_known.size());
#else
  ASSERT_EQ(3U, not_known.size());
#endif /* UNIV_DEBUG */

  /* One thread, since there is no server that could give more. */
  const Settings settings(true, 1, Io::THREADS);
  const Listing listing;
  std::set<std::string> found;
  ino_t last = 0;

  ASSERT_TRUE(walk(dir / "", true, [&](const auto &path, size_t depth) {
    const auto name = path.substr((dir / "").size());
    EXPECT_EQ(std::count(name.begin(), name.end(), '/') + 1, depth) << path;
    EXPECT_TRUE(found.insert(path).second) << path;
    EXPECT_EQ(not_known.count(path) == 0, known_type(path) == OS_FILE_TYPE_FILE)
        << path;
    const auto copy = path;
    EXPECT_FALSE(known_type(copy));

    struct stat info;
    ASSERT_EQ(0, lstat(path.c_str(), &info));
    EXPECT_LE(last, info.st_ino) << path;
    last = info.st_ino;
  }));

  EXPECT_EQ(expected, found);
}

/** All entries of one directory, with their types exactly if they are regular
files or directories. */
TEST(fil0scan, walk_of_one_directory) {
  Temp_dir dir;

  dir.write("schema/t.ibd", "");
  dir.write("ibdata1", "");
  dir.write(".hidden", "");
  fs::create_directory(dir / "empty");
  ASSERT_EQ(0, symlink("ibdata1", (dir / "link_to_file").c_str()));
  ASSERT_EQ(0, symlink("schema", (dir / "link_to_dir").c_str()));
  ASSERT_EQ(0, symlink("nothing", (dir / "dangling").c_str()));
  ASSERT_EQ(0, mkfifo((dir / "fifo").c_str(), 0600));

  using Type = std::optional<os_file_type_t>;
  const std::map<std::string, Type> expected{
      {"schema", OS_FILE_TYPE_DIR},   {"empty", OS_FILE_TYPE_DIR},
      {"ibdata1", OS_FILE_TYPE_FILE}, {"link_to_file", std::nullopt},
      {"link_to_dir", std::nullopt},  {"dangling", std::nullopt},
      {"fifo", std::nullopt}};
  const Settings settings(true, 1, Io::THREADS);
  std::map<std::string, Type> found;

  ASSERT_TRUE(walk(dir / "", false, [&](const auto &path, size_t depth) {
    EXPECT_EQ(1U, depth);
    EXPECT_EQ(dir / "", fs::path(path).parent_path() / "");
    const auto name = fs::path(path).filename().string();
    EXPECT_TRUE(found.emplace(name, known_type(path)).second) << name;
    EXPECT_EQ(known_type(path) == OS_FILE_TYPE_DIR, is_known_directory(path));
  }));
  EXPECT_EQ(expected, found);

  found.clear();
  ASSERT_TRUE(walk(dir / "none", false, [&](const auto &path, size_t) {
    found.emplace(path, std::nullopt);
  }));
  EXPECT_TRUE(found.empty());
}

}  // namespace innodb_fil0scan_unittest

#endif /* __linux__ */
