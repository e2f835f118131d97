/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file include/fil0ring.h
Reads the first bytes of many files, many at a time, by io_uring.

It knows nothing of tablespaces, and reports no errors: a file either was read
in full or it was not, and the caller finds out why by other means. */

#ifndef fil0ring_h
#define fil0ring_h

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

namespace tablespace_scan {

/** One io_uring instance with its buffers. For use by the thread that made it.

For each file it submits a chain of linked requests: open into a slot of the
ring's own file table, advise, read, close. No descriptor of the process is
used for a file. */
class Header_ring {
 public:
  /** Most files that one ring has under way. */
  static constexpr unsigned DEPTH = 32;

  /** Most bytes that are read of a file. */
  static constexpr size_t MAX_BYTES = 65536;

  /** How files are read. */
  struct Options {
    /** Bytes to read from the start: a power of two from 512 to MAX_BYTES. */
    size_t n_bytes;

    /** Open with O_DIRECT. */
    bool is_direct;

    /** Call posix_fadvise(POSIX_FADV_RANDOM). */
    bool is_random;
  };

  /** Names the next file.
  @param[out]  item  number of the file, for the caller's use
  @param[out]  path  its name
  @return false if there is none left */
  using Next = std::function<bool(size_t &item, std::string &path)>;

  /** Takes the outcome for one file. Called once for each one that Next named,
  in any order.
  @param[in]  item    number of the file
  @param[in]  header  its first bytes; nullptr if they could not be read in
                      full, whatever the reason */
  using Done = std::function<void(size_t item, const unsigned char *header)>;

  /** Make a ring, if this system lets us, and try it out.
  @param[in]   options  how files are read
  @param[out]  error    why there is no ring
  @return the ring; nullptr if there is none */
  static std::unique_ptr<Header_ring> create(const Options &options,
                                             std::string &error);

  ~Header_ring();

  Header_ring(const Header_ring &) = delete;
  Header_ring &operator=(const Header_ring &) = delete;

  /** Read files until there is none left.
  @param[in]  next  names files
  @param[in]  done  takes the outcomes
  @return false if the ring failed: done was called for each file that next
  named, but there may be more files, and the ring is of no more use */
  bool run(const Next &next, const Done &done);

 private:
  struct State;

  explicit Header_ring(std::unique_ptr<State> state);

  /** The ring and its buffers; nullptr after a failure. */
  std::unique_ptr<State> m_state;
};

}  // namespace tablespace_scan

#endif /* fil0ring_h */
