/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** Unit tests of fil0check: what a header is trusted for, and how the work is
shared among threads. */

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "storage/innobase/include/fil0check.h"
#include "storage/innobase/include/fil0types.h"
#include "storage/innobase/include/fsp0fsp.h"
#include "storage/innobase/include/fsp0types.h"
#include "storage/innobase/include/mach0data.h"

namespace innodb_fil0check_unittest {

using namespace tablespace_check;

constexpr size_t PAGE_SIZES[] = {4096, 8192, 16384, 32768, 65536};

/** The first bytes of a tablespace file. */
class Header {
 public:
  explicit Header(size_t n_bytes, space_id_t space_id = 0)
      : m_bytes(n_bytes, 0) {
    set_page_id(space_id);
    set_fsp_id(space_id);
  }

  void set_page_id(space_id_t id) { put(FIL_PAGE_SPACE_ID, id); }

  void set_fsp_id(space_id_t id) { put(FSP_HEADER_OFFSET + FSP_SPACE_ID, id); }

  void set_flags(uint32_t flags) {
    put(FSP_HEADER_OFFSET + FSP_SPACE_FLAGS, flags);
  }

  void set_page_type(uint16_t type) {
    mach_write_to_2(m_bytes.data() + FIL_PAGE_TYPE, type);
  }

  byte &operator[](size_t i) { return m_bytes[i]; }

  size_t size() const { return m_bytes.size(); }

  /** What the check makes of these bytes as the start of a file. */
  space_id_t parse(uint64_t file_size_bytes, size_t page_size_bytes) const {
    return parse_space_id(m_bytes.data(), m_bytes.size(), file_size_bytes,
                          page_size_bytes);
  }

 private:
  void put(size_t offset, uint32_t value) {
    mach_write_to_4(m_bytes.data() + offset, value);
  }

  std::vector<byte> m_bytes;
};

TEST(fil0check, header_of_every_page_size) {
  for (const auto page_size : PAGE_SIZES) {
    const Header light(LIGHT_READ_BYTES, 4711);
    EXPECT_EQ(4711U, light.parse(7 * page_size, page_size)) << page_size;

    const Header page(page_size, 4711);
    EXPECT_EQ(4711U, page.parse(7 * page_size, page_size)) << page_size;
  }
}

TEST(fil0check, id_lies_within_first_64_bytes) {
  const Header header(64, 4711);
  EXPECT_EQ(4711U, header.parse(16384, 16384));
}

TEST(fil0check, ids_at_the_limits) {
  for (const space_id_t id :
       {1U, 2U, 0x7FFFFFFFU, 0x80000000U, 0xFFFFFFF0U, 0xFFFFFFFEU}) {
    EXPECT_EQ(id, Header(LIGHT_READ_BYTES, id).parse(65536, 16384));
  }

  /* These mean nothing or "unknown": the caller must look closer. */
  EXPECT_EQ(SPACE_UNKNOWN, Header(LIGHT_READ_BYTES, 0).parse(65536, 16384));
  EXPECT_EQ(SPACE_UNKNOWN,
            Header(LIGHT_READ_BYTES, SPACE_UNKNOWN).parse(65536, 16384));
}

/** The original check does not look at the flags, so neither does this. */
TEST(fil0check, flags_do_not_matter) {
  Header header(LIGHT_READ_BYTES, 12);

  for (uint32_t bit = 0; bit < 32; ++bit) {
    header.set_flags(1U << bit);
    EXPECT_EQ(12U, header.parse(114688, 16384)) << bit;
  }

  header.set_flags(0xFFFFFFFFU);
  EXPECT_EQ(12U, header.parse(114688, 16384));
}

TEST(fil0check, page_type_does_not_matter) {
  Header header(LIGHT_READ_BYTES, 12);

  for (const uint16_t type :
       {FIL_PAGE_TYPE_FSP_HDR, FIL_PAGE_COMPRESSED, FIL_PAGE_ENCRYPTED,
        FIL_PAGE_COMPRESSED_AND_ENCRYPTED, FIL_PAGE_ENCRYPTED_RTREE,
        FIL_PAGE_TYPE_ALLOCATED}) {
    header.set_page_type(type);
    EXPECT_EQ(12U, header.parse(114688, 16384)) << type;
  }
}

TEST(fil0check, copies_of_the_id_must_agree) {
  Header header(LIGHT_READ_BYTES, 12);
  header.set_fsp_id(13);
  EXPECT_EQ(SPACE_UNKNOWN, header.parse(114688, 16384));

  header.set_fsp_id(0);
  EXPECT_EQ(SPACE_UNKNOWN, header.parse(114688, 16384));

  header.set_fsp_id(12);
  header.set_page_id(0);
  EXPECT_EQ(SPACE_UNKNOWN, header.parse(114688, 16384));
}

/** A file shorter than a page cannot be read by the original check either,
which then analyses it: so must this. A table of KEY_BLOCK_SIZE=1 begins with 7
KiB. */
TEST(fil0check, file_shorter_than_a_page) {
  const Header header(LIGHT_READ_BYTES, 12);

  EXPECT_EQ(SPACE_UNKNOWN, header.parse(0, 4096));
  EXPECT_EQ(SPACE_UNKNOWN, header.parse(4095, 4096));
  EXPECT_EQ(12U, header.parse(4096, 4096));
  EXPECT_EQ(SPACE_UNKNOWN, header.parse(4096, 16384));
  EXPECT_EQ(SPACE_UNKNOWN, header.parse(7 * 1024, 16384));
  EXPECT_EQ(SPACE_UNKNOWN, header.parse(16383, 16384));
  EXPECT_EQ(12U, header.parse(16384, 16384));
  EXPECT_EQ(SPACE_UNKNOWN, header.parse(65535, 65536));
}

TEST(fil0check, truncated_reads) {
  for (size_t n_bytes = 1; n_bytes < 64; ++n_bytes) {
    std::vector<byte> bytes(n_bytes, 1);
    const auto id = parse_space_id(bytes.data(), n_bytes, 114688, 16384);

    /* The second copy of the ID ends at byte 42. */
    EXPECT_EQ(n_bytes < 42 ? SPACE_UNKNOWN : 0x01010101U, id) << n_bytes;
  }
}

/** Whatever the bytes are: the answer is the ID that stands there twice, or
unknown. */
TEST(fil0check, hostile_bytes) {
  std::mt19937 random{20260101};
  size_t n_known = 0;

  for (int round = 0; round < 20000; ++round) {
    Header header(64);

    for (size_t i = 0; i < header.size(); ++i) {
      header[i] = static_cast<byte>(random());
    }

    const auto id = mach_read_from_4(&header[34]);

    if (round % 2 == 0) {
      header.set_fsp_id(id);
    }

    const bool is_plain =
        id != 0 && id != SPACE_UNKNOWN && mach_read_from_4(&header[38]) == id;

    ASSERT_EQ(is_plain ? id : SPACE_UNKNOWN, header.parse(114688, 16384));
    n_known += is_plain;
  }

  EXPECT_GE(n_known, 9900U);
}

TEST(fil0check, work_share_hands_out_each_item_once) {
  constexpr size_t n_items = 100000;
  Work_share work(n_items);
  std::vector<std::atomic_int> taken(n_items);
  std::vector<std::thread> threads;

  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&]() {
      size_t item;
      while (work.next(item)) {
        ++taken[item];
      }
    });
  }

  for (auto &thread : threads) {
    thread.join();
  }

  for (const auto &n : taken) {
    ASSERT_EQ(1, n.load());
  }

  EXPECT_EQ(n_items, work.n_taken());
  size_t item;
  EXPECT_FALSE(work.next(item));
  EXPECT_EQ(n_items, work.n_taken());
}

TEST(fil0check, work_share_without_items) {
  Work_share work(0);
  size_t item;
  EXPECT_FALSE(work.next(item));
  EXPECT_EQ(0U, work.n_taken());
}

/** Feed a ramp with the rates of a volume and return where it settles.
@param[in]  rate  files per second for a number of threads */
template <typename F>
static size_t settle(Thread_ramp ramp, F rate) {
  for (int i = 0; i < 20; ++i) {
    ramp.on_window(rate(ramp.target()));
  }
  return ramp.target();
}

/** 1 ms a read, any number in flight: as many threads as allowed. */
TEST(fil0check, ramp_on_latency) {
  EXPECT_EQ(64U,
            settle(Thread_ramp(4, 64), [](size_t n) { return n * 1000.0; }));
}

/** 3,000 IOPS at 1 ms: 3 threads do, so that nothing is gained by more. */
TEST(fil0check, ramp_on_limited_iops) {
  EXPECT_EQ(4U, settle(Thread_ramp(4, 64),
                       [](size_t n) { return std::min(3000.0, n * 1000.0); }));
}

/** 16,000 IOPS at 1 ms: 16 threads. */
TEST(fil0check, ramp_finds_iops_times_latency) {
  EXPECT_EQ(16U, settle(Thread_ramp(4, 64), [](size_t n) {
              return std::min(16000.0, n * 1000.0);
            }));
}

/** More threads make it slower: the better number is kept. */
TEST(fil0check, ramp_goes_back) {
  EXPECT_EQ(8U, settle(Thread_ramp(4, 64), [](size_t n) {
              return n <= 8 ? n * 100.0 : 800.0 / n;
            }));
}

TEST(fil0check, ramp_keeps_a_fixed_number) {
  for (const size_t n : {1U, 7U, 256U}) {
    Thread_ramp ramp(n, n);
    for (const double rate : {0.0, 1.0, 1e9, 5.0}) {
      EXPECT_EQ(n, ramp.on_window(rate));
    }
  }
}

TEST(fil0check, ramp_stays_within_limits) {
  std::mt19937 random{7};
  Thread_ramp ramp(3, 50);

  for (int i = 0; i < 10000; ++i) {
    const auto n = ramp.on_window(random() % 100000);
    ASSERT_GE(n, 3U);
    ASSERT_LE(n, 50U);
  }
}

/** After a rest, more threads are tried again: the first windows may have been
measured while something else used the volume. */
TEST(fil0check, ramp_tries_again) {
  Thread_ramp ramp(4, 64);
  double rate_per_thread = 0;

  const auto windows = [&](size_t n) {
    for (size_t i = 0; i < n; ++i) {
      ramp.on_window(rate_per_thread > 0 ? ramp.target() * rate_per_thread
                                         : 1000.0);
    }
  };

  windows(10);
  EXPECT_EQ(4U, ramp.target());

  rate_per_thread = 1000;
  windows(2 * Thread_ramp::SETTLED_WINDOWS);
  EXPECT_EQ(64U, ramp.target());
}

static std::function<void()> start_std_thread(size_t,
                                              std::function<void()> body) {
  auto thread = std::make_shared<std::thread>(std::move(body));
  return [thread]() { thread->join(); };
}

TEST(fil0check, share_work_checks_each_item_once) {
  for (const size_t n_threads : {1U, 2U, 16U, 256U}) {
    for (const size_t n_items : {0U, 1U, 15U, 5000U}) {
      std::vector<std::atomic_int> checked(n_items);

      const auto n_peak =
          share_work(n_items, Thread_ramp(n_threads, n_threads),
                     start_std_thread, [&](size_t item, size_t thread_no) {
                       EXPECT_LT(thread_no, n_threads);
                       ++checked[item];
                     });

      EXPECT_EQ(n_threads, n_peak);
      for (const auto &n : checked) {
        ASSERT_EQ(1, n.load());
      }
    }
  }
}

/** Items that cost very different time do not leave threads idle: one item
blocks its thread until all the others are done. */
TEST(fil0check, share_work_is_dynamic) {
  constexpr size_t n_items = 1000;
  std::atomic_size_t n_checked{0};

  share_work(
      n_items, Thread_ramp(2, 2), start_std_thread, [&](size_t item, size_t) {
        if (item == 0) {
          const auto give_up =
              std::chrono::steady_clock::now() + std::chrono::seconds(60);
          while (n_checked < n_items - 1 &&
                 std::chrono::steady_clock::now() < give_up) {
            std::this_thread::yield();
          }
          EXPECT_EQ(n_items - 1, n_checked);
        }
        ++n_checked;
      });

  EXPECT_EQ(n_items, n_checked);
}

/** Where every item waits 1 ms, the number of threads grows. */
TEST(fil0check, share_work_adapts) {
  std::atomic_size_t n_checked{0};

  const auto n_peak = share_work(
      8000, Thread_ramp(4, 64), start_std_thread, [&](size_t, size_t) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        ++n_checked;
      });

  EXPECT_EQ(8000U, n_checked);
  EXPECT_GE(n_peak, 16U);
  EXPECT_LE(n_peak, 64U);
}

/** When the system has no more threads, those that are there do all the work.
 */
TEST(fil0check, share_work_without_threads) {
  for (const size_t n_available : {0U, 1U, 5U}) {
    size_t n_started = 0;
    std::mutex mutex;
    std::set<size_t> seen;
    std::atomic_size_t n_checked{0};

    const auto start = [&](size_t no, std::function<void()> body) {
      if (n_started == n_available) {
        throw std::system_error(
            std::make_error_code(std::errc::resource_unavailable_try_again));
      }
      ++n_started;
      return start_std_thread(no, std::move(body));
    };

    const auto n_peak =
        share_work(2000, Thread_ramp(8, 64), start, [&](size_t, size_t no) {
          ++n_checked;
          const std::lock_guard<std::mutex> guard(mutex);
          seen.insert(no);
        });

    EXPECT_EQ(2000U, n_checked);
    EXPECT_EQ(n_available + 1, n_peak);
    EXPECT_LE(seen.size(), n_available + 1);
  }
}

TEST(fil0check, additional_threads) {
  const auto restore = [f = g_fadvise, l = g_light, t = g_threads]() {
    g_fadvise = f;
    g_light = l;
    g_threads = t;
  };

  /* All off: what the original rule says. */
  g_fadvise = g_light = false;
  g_threads = 0;
  EXPECT_EQ(0U, n_additional_threads(7999, 0));
  EXPECT_EQ(4U, n_additional_threads(100000, 4));

  /* Automatic. */
  for (const auto &[fadvise, light] :
       {std::pair{true, false}, {false, true}, {true, true}}) {
    g_fadvise = fadvise;
    g_light = light;
    EXPECT_EQ(0U, n_additional_threads(0, 0));
    EXPECT_EQ(0U, n_additional_threads(7, 0));
    EXPECT_EQ(1U, n_additional_threads(16, 0));
    EXPECT_EQ(3U, n_additional_threads(1000, 0));
    EXPECT_EQ(3U, n_additional_threads(100000, 4));
  }

  /* As asked for, but never more than there are files. */
  g_threads = 256;
  EXPECT_EQ(255U, n_additional_threads(100000, 4));
  EXPECT_EQ(9U, n_additional_threads(10, 0));
  EXPECT_EQ(0U, n_additional_threads(0, 0));
  g_threads = 1;
  EXPECT_EQ(0U, n_additional_threads(100000, 4));

  restore();
}

}  // namespace innodb_fil0check_unittest
