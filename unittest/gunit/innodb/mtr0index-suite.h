/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** What unit tests need that build dictionary objects from descriptions of
indexes, as redo has them. */

#ifndef mtr0index_suite_h
#define mtr0index_suite_h

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "storage/innobase/include/os0event.h"
#include "storage/innobase/include/srv0srv.h"
#include "storage/innobase/include/sync0debug.h"
#include "storage/innobase/include/ut0crc32.h"

namespace innodb_mtr0index_suite {

using Bytes = std::vector<byte>;

/** Append two bytes. */
inline void put_2(Bytes &bytes, uint32_t value) {
  bytes.push_back(value >> 8);
  bytes.push_back(value & 0xff);
}

/** Dictionary objects have mutexes. */
class Suite : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    srv_max_n_threads = srv_sync_array_size + 1;
    os_event_global_init();
    sync_check_init(srv_max_n_threads);
    ut_crc32_init();
  }
  static void TearDownTestSuite() {
    sync_check_close();
    os_event_global_destroy();
  }
};

}  // namespace innodb_mtr0index_suite

#endif /* mtr0index_suite_h */
