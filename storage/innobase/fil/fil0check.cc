/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file fil/fil0check.cc
The check of the tablespace files at start-up.

What is read. The ID of a tablespace stands at byte FIL_PAGE_SPACE_ID of page 0
and, as part of the tablespace header, right behind the page header. That is
within the first 64 bytes for every page size, row format, compression and
encryption, because page 0 is never compressed or encrypted as a whole. The
original code reads innodb_page_size bytes with O_DIRECT. A light read takes
LIGHT_READ_BYTES.

When it is trusted. The original code trusts the ID if a whole page could be
read and both copies of the ID agree and are not 0; otherwise it analyses the
file. A light read sees the same two copies. It does not see whether the rest of
the page can be read, so the size of the file stands in for that: a file shorter
than a page is left to the original code, as is all else that is not plain. The
one difference that remains is a page 0 whose later blocks give a read error:
the original code would analyse such a file, here its ID is taken. Whoever opens
the file then meets the error.

How it is read. With innodb_tablespace_check_fadvise the file is opened without
O_DIRECT and POSIX_FADV_RANDOM switches readahead off, so that exactly the
blocks asked for are read, and none when the page cache has them: a restart
without a reboot does not read the headers again. Without it, O_DIRECT is set as
the original code does, and every start reads the device. A file system that
refuses either call is read as it allows.

Who reads it. The files are handed out one by one to threads, whose number
follows the measured rate (see Thread_ramp). The threads get a THD, so that code
which they call may look at the dictionary. */

#include "fil0check.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include <fcntl.h>

#include "fsp0fsp.h"
#include "mach0data.h"
#include "os0file.h"
#include "os0thread-create.h"
#include "scope_guard.h"
#include "sql/current_thd.h"
#include "sql_thd_internal_api.h"
#include "srv0srv.h"
#include "ut0new.h"

namespace tablespace_check {

bool g_fadvise = true;
bool g_light = true;
uint g_threads = 0;
Status g_status{};
Check_all g_check_all;

namespace {

/** What Known_space_id knows; SPACE_UNKNOWN if there is none. */
thread_local space_id_t t_known_space_id = SPACE_UNKNOWN;

/** How often the number of threads is reconsidered. */
constexpr std::chrono::milliseconds WINDOW{20};

/** A window lasts until every thread has had about this many files, however
slow they are. */
constexpr size_t WINDOW_FILES_PER_THREAD = 2;

/** Counters of the check; the threads add to them. */
struct Counters {
  /** Files whose ID was asked for. */
  std::atomic<uint64_t> files{0};
  /** Headers that were read. */
  std::atomic<uint64_t> files_read{0};
  /** Bytes of these headers. */
  std::atomic<uint64_t> bytes_read{0};
};

Counters s_counters;

/** Open a file for a header read, as the variables say.
@param[in]   path     file name
@param[out]  success  true if the file is open
@return file handle */
pfs_os_file_t open_file(const char *path, bool *success) {
  const auto file = os_file_create_simple_no_error_handling(
      innodb_data_file_key, path, OS_FILE_OPEN, OS_FILE_READ_ONLY, true,
      success);

  if (!*success) {
    return file;
  }

#ifdef POSIX_FADV_RANDOM
  if (g_fadvise) {
    /* Advice only: if it is refused, readahead makes the read larger, not
    wrong. */
    (void)posix_fadvise(file.m_file, 0, 0, POSIX_FADV_RANDOM);
    return file;
  }
#endif /* POSIX_FADV_RANDOM */

  os_file_set_nocache(file.m_file, path, "open", true);
  return file;
}

}  // namespace

bool is_on() { return g_fadvise || g_light || g_threads != 0; }

Thread_ramp make_ramp(size_t n_items) {
  if (g_threads != 0) {
    const auto n_threads = std::clamp<size_t>(n_items, 1, g_threads);
    return Thread_ramp(n_threads, n_threads);
  }

  const auto useful =
      std::clamp<size_t>(n_items / MIN_FILES_PER_THREAD, 1, MAX_AUTO_THREADS);

  return Thread_ramp(std::min(MIN_AUTO_THREADS, useful), useful);
}

std::function<void()> start_server_thread(size_t thread_no,
                                          std::function<void()> body) {
  auto with_thd = [body = std::move(body)]() {
    THD *thd = current_thd == nullptr ? create_internal_thd() : nullptr;
    const auto guard = create_scope_guard([thd]() {
      if (thd != nullptr) {
        destroy_internal_thd(thd);
      }
    });

    body();
  };

  auto thread = os_thread_create(PFS_NOT_INSTRUMENTED, thread_no, with_thd);
  thread.start();

  return [thread]() mutable { thread.join(); };
}

space_id_t parse_space_id(const byte *header, size_t n_bytes,
                          uint64_t file_size_bytes, size_t page_size_bytes) {
  constexpr size_t second_copy = FSP_HEADER_OFFSET + FSP_SPACE_ID;

  if (n_bytes < second_copy + sizeof(space_id_t) ||
      file_size_bytes < page_size_bytes) {
    return SPACE_UNKNOWN;
  }

  const space_id_t space_id = mach_read_from_4(header + FIL_PAGE_SPACE_ID);

  if (space_id == 0 || space_id != mach_read_from_4(header + second_copy)) {
    return SPACE_UNKNOWN;
  }

  return space_id;
}

std::optional<space_id_t> read_space_id(const std::string &path) {
  s_counters.files.fetch_add(1, std::memory_order_relaxed);

  DBUG_EXECUTE_IF("invalid_header", return std::nullopt;);
  DBUG_EXECUTE_IF("fsp_header_get_space_id_failure", return std::nullopt;);

  if (t_known_space_id != SPACE_UNKNOWN) {
    return t_known_space_id;
  }

  if (!g_fadvise && !g_light) {
    return std::nullopt;
  }

  bool success;
  const auto file = open_file(path.c_str(), &success);

  if (!success) {
    return std::nullopt;
  }

  const auto guard = create_scope_guard([file]() { os_file_close(file); });

  const os_offset_t file_size_bytes = os_file_get_size(file);

  if (file_size_bytes == static_cast<os_offset_t>(-1) ||
      file_size_bytes < srv_page_size) {
    return std::nullopt;
  }

  static_assert(LIGHT_READ_BYTES <= UNIV_PAGE_SIZE_MIN);

  const size_t n_wanted = g_light ? LIGHT_READ_BYTES : srv_page_size;

  const auto buf = ut::make_unique_aligned<byte[]>(n_wanted, n_wanted);

  IORequest request(IORequest::READ);
  request.disable_partial_io_warnings();

  ulint n_read = 0;
  const dberr_t err = os_file_read_no_error_handling(
      request, path.c_str(), file, buf.get(), 0, n_wanted, &n_read);

  if (err != DB_SUCCESS || n_read != n_wanted) {
    return std::nullopt;
  }

  count_read(n_read);

  const auto space_id =
      parse_space_id(buf.get(), n_read, file_size_bytes, srv_page_size);

  return space_id != SPACE_UNKNOWN ? std::optional{space_id} : std::nullopt;
}

Known_space_id::Known_space_id(space_id_t space_id) {
  ut_ad(t_known_space_id == SPACE_UNKNOWN);
  t_known_space_id = space_id;
}

Known_space_id::~Known_space_id() { t_known_space_id = SPACE_UNKNOWN; }

void count_read(size_t n_bytes) {
  s_counters.files_read.fetch_add(1, std::memory_order_relaxed);
  s_counters.bytes_read.fetch_add(n_bytes, std::memory_order_relaxed);
}

Timer::~Timer() {
  using std::chrono::microseconds;

  g_status.files = s_counters.files;
  g_status.files_read = s_counters.files_read;
  g_status.bytes_read = s_counters.bytes_read;
  g_status.usec += std::chrono::duration_cast<microseconds>(
                       std::chrono::steady_clock::now() - m_start)
                       .count();
}

Thread_ramp::Thread_ramp(size_t n_start, size_t n_max)
    : m_max(n_max), m_target(n_start), m_best(n_start) {
  ut_a(n_start >= 1);
  ut_a(n_max >= n_start);
}

size_t Thread_ramp::on_window(double files_per_sec) {
  if (m_rest > 0) {
    if (--m_rest > 0) {
      return m_target;
    }
    /* The rate with m_best threads may have changed meanwhile: compare with
    what it is now. */
    m_best_rate = 0;
  }

  if (m_best_rate > 0 && files_per_sec < m_best_rate * MIN_GAIN) {
    m_target = m_best;
    m_rest = SETTLED_WINDOWS;
    return m_target;
  }

  m_best = m_target;
  m_best_rate = files_per_sec;
  m_target = std::min(m_target * 2, m_max);

  if (m_target == m_best) {
    /* At the limit: nothing to compare with. */
    m_best_rate = 0;
  }

  return m_target;
}

size_t share_work(size_t n_items, Thread_ramp ramp, const Start_thread &start,
                  const Check &check) {
  /** A thread that was started. */
  struct Worker {
    /** Waits for its end; empty if it was never started. */
    std::function<void()> join;
    /** False as soon as it has found that it is not needed. */
    std::atomic_bool is_running{false};
  };

  Work_share work{n_items};
  std::atomic_size_t n_wanted{1};
  std::array<Worker, MAX_THREADS> workers;
  bool can_start = true;
  size_t n_peak = 1;

  /* Give every thread number below the target a running thread. A thread
  whose number is no longer wanted leaves after its current item. */
  const auto adjust = [&](size_t target) {
    n_wanted = target;

    for (size_t no = 1; no < target && can_start; ++no) {
      auto &worker = workers[no];

      if (worker.is_running) {
        continue;
      }

      if (worker.join) {
        worker.join();
        worker.join = nullptr;
      }

      worker.is_running = true;

      try {
        worker.join = start(no, [&, no]() {
          size_t item;

          while (no < n_wanted.load(std::memory_order_relaxed) &&
                 work.next(item)) {
            check(item, no);
          }

          workers[no].is_running = false;
        });
        n_peak = std::max(n_peak, no + 1);
      } catch (const std::system_error &) {
        worker.is_running = false;
        can_start = false;
      }
    }
  };

  adjust(std::min<size_t>(ramp.target(), MAX_THREADS));

  using Clock = std::chrono::steady_clock;
  auto window_start = Clock::now();
  size_t window_first = work.n_taken();
  size_t item;

  while (work.next(item)) {
    check(item, 0);

    const auto elapsed = Clock::now() - window_start;
    const size_t n_done = work.n_taken() - window_first;

    if (elapsed < WINDOW || n_done < n_wanted * WINDOW_FILES_PER_THREAD) {
      continue;
    }

    const double sec = std::chrono::duration<double>(elapsed).count();

    adjust(std::min<size_t>(ramp.on_window(n_done / sec), MAX_THREADS));

    window_start = Clock::now();
    window_first = work.n_taken();
  }

  for (auto &worker : workers) {
    if (worker.join) {
      worker.join();
    }
  }

  return n_peak;
}

size_t n_additional_threads(size_t n_files, size_t n_stock) {
  return is_on() ? make_ramp(n_files).target() - 1 : n_stock;
}

bool run(size_t n_files, const Check &check) {
  if (!is_on() && !g_check_all) {
    return false;
  }

  auto last_report = std::chrono::steady_clock::now();
  std::atomic_size_t n_checked{0};
  bool reported = false;

  /* One thread reports for all of them. */
  const auto check_and_report = [&](size_t item, size_t thread_no) {
    check(item, thread_no);
    ++n_checked;

    if (thread_no != 0) {
      return;
    }

    const auto now = std::chrono::steady_clock::now();

    if (now - last_report >= PRINT_INTERVAL) {
      ib::info(ER_IB_MSG_375) << "Thread# " << thread_no << " - Checked "
                              << n_checked << "/" << n_files << " files";
      last_report = now;
      reported = true;
    }
  };

  if (g_check_all) {
    g_check_all(n_files, check_and_report);
  } else {
    const auto ramp = make_ramp(n_files);
    const auto n_peak =
        share_work(n_files, ramp, start_server_thread, check_and_report);

    if (n_peak > ramp.target()) {
      ib::info(ER_IB_MSG_382) << "Used up to " << n_peak << " threads to scan "
                              << n_files << " tablespace files";
    }
  }

  if (reported) {
    ib::info(ER_IB_MSG_376) << "Checked " << n_checked << " files";
  }

  return true;
}

namespace {

/** Checks the files. */
class Checker : public scan_observer::Observer {
 public:
  Checker() : Observer(scan_observer::Place::CHECK) {}

  void listed(const scan_observer::Files &files, size_t,
              size_t &n_threads) override {
    m_timer.emplace();
    n_threads = n_additional_threads(files.size(), n_threads);
  }

  bool check(size_t n_files, const Check &check) override {
    return run(n_files, check);
  }

  bool end(bool) override {
    m_timer.reset();
    return false;
  }

 private:
  /** Lives from when the files are known until the scan ends. */
  std::optional<Timer> m_timer;
};

Checker s_checker;

}  // namespace

}  // namespace tablespace_check
