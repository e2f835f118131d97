/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file include/buf0load.h
Load the buffer pool from a dump with large reads, and write the dump from time
to time.

buf/buf0load.cc has the design. */

#ifndef buf0load_h
#define buf0load_h

#include <cstddef>
#include <cstdint>

#include "buf0run.h"
#include "os0event.h"
#include "univ.i"

namespace pool_load {

/** innodb_buffer_pool_load_by_runs. */
extern bool g_by_runs;

/** innodb_buffer_pool_load_when_open. */
extern bool g_when_open;

/** innodb_buffer_pool_dump_interval, in seconds; 0 = only on request and at a
shutdown. */
extern uint g_dump_interval;

/** Most entries of a dump that are read at a time: 16 MiB of 16 KiB pages. */
constexpr size_t MAX_ENTRIES = 1024;

/** And at most this part of the pages of the buffer pool. */
constexpr size_t POOL_SHARE = 32;

/** Threads that read. Few: users want to read, too. */
constexpr size_t MAX_THREADS = 4;

/** Reads the pages of a dump before they are loaded one by one. */
class Loader {
 public:
  /** Before a dump is read. While the server starts, waits until it is open, if
  it is to. If it ends instead, the dump is left as it is: what is in the buffer
  pool by then must not take its place. */
  Loader();
  /** Says in the error log what was read. */
  ~Loader();

  Loader(const Loader &) = delete;
  Loader &operator=(const Loader &) = delete;

  /** @return whether the server has ended before it was open: nothing is to be
  loaded */
  [[nodiscard]] bool is_cancelled() const { return m_is_cancelled; }

  /** An entry is about to be loaded. From time to time, read its page and those
  of the next entries; when this returns they are in the buffer pool, as far as
  that was possible.
  @param[in]  dump       sorted entries: tablespace, and page in the low 32 bits
  @param[in]  n_entries  number of entries
  @param[in]  i          the entry */
  void before_entry(const uint64_t *dump, size_t n_entries, size_t i);

 private:
  /** First entry for which nothing was done yet. */
  size_t m_end{0};
  /** See is_cancelled(). */
  bool m_is_cancelled{false};
  /** Reads. */
  buf_run::Readers m_readers{MAX_THREADS};
};

/** Wait until the thread that dumps and loads has something to do.
@param[in]  event  set when that is so
@return true if it is time to write a dump; false if the event is set */
[[nodiscard]] bool wait_for_dump(os_event_t event);

/** A dump was written. If dumps are written from time to time, sync it, and put
it in the place of the last one at once, so that there is one of the two
whenever the server dies.
@param[in]  was_cut_off   whether a shutdown has cut it off: it is removed
@param[in]  tmp_filename  where it was written to
@param[in]  filename      where it belongs
@return false if the caller has to do that, in MySQL's way */
[[nodiscard]] bool end_dump(bool was_cut_off, const char *tmp_filename,
                            const char *filename);

}  // namespace pool_load

#endif /* buf0load_h */
