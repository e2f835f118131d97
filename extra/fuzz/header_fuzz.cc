/* Copyright (c) 2026, the Redstart authors. GPL-2.0-only. */

/** libFuzzer target: any bytes as the beginning of a tablespace file.

Its ID is taken from them only if it stands there twice, and nothing is read
behind them. */

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "fil0check.h"
#include "fil0observe.h"
#include "right_inputs.h"
#include "sql/current_thd.h"
#include "sync0sync.h"
#include "ut0log.h"

/* The rest of the source refers to it; a function may be missing, but not a
variable, nor a function of which an address is kept, or which runs before
main(). */
mysql_pfs_key_t PFS_NOT_INSTRUMENTED;
decltype(mysql_pfs_key_t::s_count) mysql_pfs_key_t::s_count;
std::atomic_int os_thread_count;
uint32_t srv_max_n_threads;
thread_local THD *current_thd;
scan_observer::Observers scan_observer::g_observers;
scan_observer::Observer::Observer(Place place, Observers &) : m_place(place) {}
ib::logger::~logger() = default;

static uint32_t number_at(const uint8_t *data, size_t at) {
  return uint32_t{data[at]} << 24 | uint32_t{data[at + 1]} << 16 |
         uint32_t{data[at + 2]} << 8 | data[at + 3];
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
  constexpr size_t FIRST = 34, SECOND = 38, SIZES = 4;
  if (n_bytes < SIZES) return 0;

  /* Sizes first, then what was read, in memory of its own. */
  const size_t file_bytes = data[0] * 1024;
  const size_t page_bytes = size_t{1024} << data[1] % 7;
  const std::vector<uint8_t> header(data + SIZES, data + n_bytes);
  const auto id = tablespace_check::parse_space_id(header.data(), header.size(),
                                                   file_bytes, page_bytes);
  const bool is_plain =
      header.size() >= SECOND + 4 && file_bytes >= page_bytes &&
      number_at(header.data(), FIRST) == number_at(header.data(), SECOND) &&
      number_at(header.data(), FIRST) != 0;
  const uint32_t expected =
      is_plain ? number_at(header.data(), FIRST) : SPACE_UNKNOWN;

  g_right.n += is_plain;
  if (id != expected) {
    fprintf(stderr, "ID %u instead of %u\n", id, expected);
    abort();
  }
  return 0;
}
