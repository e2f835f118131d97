/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file include/os0ahead.h
Ask the system to read a part of a file into its page cache. */

#ifndef os0ahead_h
#define os0ahead_h

#include <algorithm>
#include <cstdint>

#include <fcntl.h>

/** Bytes that are asked for in one call. For a longer range Linux reads no more
than the largest I/O of the device or its read-ahead, whichever is more, and
passes over the rest in silence. This is what the read-ahead is by default. */
constexpr uint64_t OS_READ_AHEAD_PIECE = 128 * 1024;

/** Have a part of a file read into the page cache, without waiting for it. No
error is reported but that nothing was asked for: who reads it meets the others.
@param[in]  fd     file
@param[in]  begin  where it begins
@param[in]  end    where it ends
@return false if the system cannot be asked */
inline bool os_read_ahead(int fd [[maybe_unused]],
                          uint64_t begin [[maybe_unused]],
                          uint64_t end [[maybe_unused]]) {
#ifdef POSIX_FADV_WILLNEED
  for (; begin < end; begin += OS_READ_AHEAD_PIECE) {
    if (posix_fadvise(fd, begin, std::min(OS_READ_AHEAD_PIECE, end - begin),
                      POSIX_FADV_WILLNEED) != 0) {
      return false;
    }
  }
  return true;
#else
  return false;
#endif /* POSIX_FADV_WILLNEED */
}

#endif /* os0ahead_h */
