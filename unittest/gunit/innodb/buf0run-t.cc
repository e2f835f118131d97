/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** Unit tests of buf0run: which pages are read together. */

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <utility>
#include <vector>

#include "storage/innobase/include/buf0run.h"

namespace innodb_buf0run_unittest {

using namespace buf_run;

constexpr page_no_t MOST = 64;

static std::vector<std::vector<page_no_t>> runs_of(
    std::vector<page_id_t> pages) {
  std::vector<std::vector<page_no_t>> found;
  for (const auto &run : make_runs(std::move(pages), MOST)) {
    found.push_back({run.space_id, run.low, run.high});
  }
  return found;
}

using Found = std::vector<std::vector<page_no_t>>;

TEST(buf0run, no_pages_no_runs) { EXPECT_EQ(Found{}, runs_of({})); }

TEST(buf0run, neighbours_are_one_run) {
  EXPECT_EQ((Found{{7, 3, 5}, {7, 9, 9}}),
            runs_of({{7, 5}, {7, 3}, {7, 9}, {7, 4}}));
}

TEST(buf0run, a_page_is_read_once) {
  EXPECT_EQ((Found{{7, 3, 4}}), runs_of({{7, 4}, {7, 3}, {7, 4}, {7, 3}}));
}

TEST(buf0run, a_run_is_of_one_tablespace) {
  EXPECT_EQ((Found{{7, 3, 3}, {8, 3, 4}}), runs_of({{8, 4}, {7, 3}, {8, 3}}));
}

TEST(buf0run, a_run_is_not_too_long) {
  std::vector<page_id_t> pages;
  for (page_no_t page_no = 0; page_no < MOST + 1; ++page_no) {
    pages.emplace_back(1, page_no);
  }
  EXPECT_EQ((Found{{1, 0, MOST - 1}, {1, MOST, MOST}}), runs_of(pages));
}

TEST(buf0run, runs_have_each_page_and_no_other) {
  std::mt19937 random{1};

  for (int round = 0; round < 200; ++round) {
    std::vector<page_id_t> pages;
    std::set<page_id_t> wanted;

    for (int i = 0; i < 300; ++i) {
      pages.emplace_back(random() % 3, random() % 400);
      wanted.insert(pages.back());
    }

    std::set<page_id_t> found;
    for (const auto &run : make_runs(pages, MOST)) {
      EXPECT_LT(run.high - run.low, MOST);
      for (auto page_no = run.low; page_no <= run.high; ++page_no) {
        EXPECT_TRUE(found.emplace(run.space_id, page_no).second);
      }
    }
    EXPECT_EQ(wanted, found);
  }
}

}  // namespace innodb_buf0run_unittest
