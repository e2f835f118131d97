/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** Unit tests of fil0observe: whom the scan for tablespace files tells of what,
in which order, and that it does as ever when nobody listens. */

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "storage/innobase/include/fil0observe.h"

namespace innodb_fil0observe_unittest {

using namespace scan_observer;

using Log = std::vector<std::string>;

/** Writes down what it is told. */
class Writer : public Observer {
 public:
  Writer(std::string name, Place place, Observers &observers, Log &log)
      : Observer(place, observers), m_name(std::move(name)), m_log(log) {}

  void begin(const Roots &roots) override {
    note("begin " + roots.front().first + "=" + roots.front().second);
  }
  void list() override { note("list"); }
  void found() override { note("found"); }
  void listed(const Files &files, size_t n_undo, size_t &n_threads) override {
    note("listed " + std::to_string(files.size()) + "+" +
         std::to_string(n_undo) + " by " + std::to_string(n_threads));
    n_threads += m_more_threads;
  }
  bool check(size_t n_files, const Check &check) override {
    note("check");
    for (size_t file = n_files; m_checks && file > 0; --file) {
      check(file - 1, 7);
    }
    return m_checks;
  }
  bool end(bool has_duplicates) override {
    note(has_duplicates ? "end with duplicates" : "end");
    return m_repeats;
  }

  bool m_checks{false};
  bool m_repeats{false};
  size_t m_more_threads{0};

 private:
  void note(const std::string &what) { m_log.push_back(m_name + ": " + what); }

  const std::string m_name;
  Log &m_log;
};

/** A directory as the scan has it. */
struct Dir {
  struct Root {
    std::string abs_path() const { return "/abs/"; }
  };
  std::string path() const { return "./"; }
  Root root() const { return {}; }
};

/** What the scan has found. */
struct Scanned {
  void clear() { ++n_cleared; }
  int n_cleared{0};
};

class fil0observe : public ::testing::Test {
 protected:
  /** Do what the scan does.
  @return whether it is to be repeated */
  bool scan(bool has_duplicates) {
    Scan scan{std::vector<Dir>(1), m_observers};
    scan.found();
    scan.listed(m_files, 3, m_n_threads);

    using It = Files::const_iterator;
    std::function<void(It, It, size_t, int *)> check = [this](It begin, It end,
                                                              size_t thread_no,
                                                              int *arg) {
      ++*arg;
      for (auto it = begin; it != end; ++it) {
        m_checked.push_back(it->second + " by " + std::to_string(thread_no));
      }
    };
    scan.check(m_files, m_n_threads, check, &m_n_calls);
    /* As the scan does. */
    check(m_files.begin(), m_files.end(), m_n_threads, &m_n_calls);
    return scan.end(has_duplicates, m_scanned);
  }

  Observers m_observers;
  Log m_log;
  const Files m_files{{0, "a.ibd"}, {0, "b.ibd"}};
  size_t m_n_threads{1};
  int m_n_calls{};
  Log m_checked;
  Scanned m_scanned;
};

TEST_F(fil0observe, nobody_listens) {
  EXPECT_FALSE(scan(true));
  EXPECT_EQ(1U, m_n_threads);
  EXPECT_EQ((Log{"a.ibd by 1", "b.ibd by 1"}), m_checked);
  EXPECT_EQ(1, m_n_calls);
  EXPECT_EQ(0, m_scanned.n_cleared);
}

TEST_F(fil0observe, all_are_told_in_order) {
  Writer last("i", Place::INPUT, m_observers, m_log);
  Writer first("r", Place::REPORT, m_observers, m_log);
  Writer second("m", Place::MEMORY, m_observers, m_log);
  Writer third("m2", Place::MEMORY, m_observers, m_log);
  third.m_more_threads = 4;

  EXPECT_FALSE(scan(false));
  EXPECT_EQ((Log{"r: begin ./=/abs/",
                 "m: begin ./=/abs/",
                 "m2: begin ./=/abs/",
                 "i: begin ./=/abs/",
                 "r: list",
                 "m: list",
                 "m2: list",
                 "i: list",
                 "r: found",
                 "m: found",
                 "m2: found",
                 "i: found",
                 "r: listed 2+3 by 1",
                 "m: listed 2+3 by 1",
                 "m2: listed 2+3 by 1",
                 "i: listed 2+3 by 5",
                 "r: check",
                 "m: check",
                 "m2: check",
                 "i: check",
                 "i: end",
                 "m2: end",
                 "m: end",
                 "r: end"}),
            m_log);
  EXPECT_EQ(5U, m_n_threads);
  EXPECT_EQ((Log{"a.ibd by 5", "b.ibd by 5"}), m_checked);
}

TEST_F(fil0observe, one_checks_for_all) {
  Writer checks("c", Place::CHECK, m_observers, m_log);
  Writer other("i", Place::INPUT, m_observers, m_log);
  checks.m_checks = other.m_checks = true;

  EXPECT_FALSE(scan(false));
  EXPECT_EQ(0U, m_n_threads);
  EXPECT_EQ((Log{"b.ibd by 7", "a.ibd by 7"}), m_checked);
  EXPECT_EQ(2, m_n_calls);
  EXPECT_EQ(1, std::count(m_log.begin(), m_log.end(), "c: check"));
  EXPECT_EQ(0, std::count(m_log.begin(), m_log.end(), "i: check"));
}

TEST_F(fil0observe, whoever_wants_it_repeated) {
  Writer first("r", Place::REPORT, m_observers, m_log);
  Writer wants("m", Place::MEMORY, m_observers, m_log);
  Writer last("i", Place::INPUT, m_observers, m_log);
  wants.m_repeats = true;

  EXPECT_TRUE(scan(true));
  EXPECT_EQ(1, m_scanned.n_cleared);
  /* All have ended before it begins again. */
  EXPECT_EQ((Log{"i: end with duplicates", "m: end with duplicates",
                 "r: end with duplicates"}),
            Log(m_log.end() - 3, m_log.end()));
}

}  // namespace innodb_fil0observe_unittest
