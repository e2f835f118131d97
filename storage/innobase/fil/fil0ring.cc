/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file fil/fil0ring.cc
Reads the first bytes of many files by io_uring.

A chain is open, advise, read, close. The open puts the file into a slot of the
ring's file table, which the later requests name, so the chain can be submitted
as a whole. If the open fails, the kernel cancels the rest. What follows it is
linked hard: advice that is refused stops nothing, and the file is closed
whatever the read did. A slot is used again when all of its chain has
completed, so it is empty then.

This needs requests that look up their slot when they run, not when they are
submitted (Linux 5.19). A chain on the current directory tells: its read must
be refused because that is a directory, not because the slot is empty. */

#include "fil0ring.h"

#include <memory>
#include <string>
#include <utility>

#ifdef HAVE_LIBURING

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <liburing.h>
#include <unistd.h>

namespace tablespace_scan {

namespace {

/** Step of a chain; with the slot it makes up the user data of a request. */
enum Step : uint64_t { OPEN, ADVISE, READ, CLOSE, N_STEPS };

/** How often a submission that found no memory is tried again, and the pause
between. */
constexpr unsigned MAX_RETRIES = 100;
constexpr std::chrono::milliseconds RETRY_PAUSE{1};

/** Memory that is aligned as O_DIRECT wants it. */
struct Free {
  void operator()(void *memory) const { std::free(memory); }
};
using Buffer = std::unique_ptr<unsigned char, Free>;

}  // namespace

struct Header_ring::State {
  /** A file that is under way. */
  struct Slot {
    /** Number of the file. */
    size_t item;
    /** Its name. */
    std::string path;
    /** Requests that have not completed yet. */
    unsigned n_left;
    /** Results of the requests, by step. */
    std::array<int, N_STEPS> result;
  };

  explicit State(const Options &options) : m_options(options) {}

  ~State() {
    if (m_is_open) {
      io_uring_queue_exit(&m_ring);
    }
  }

  /** Set up the ring and its file table. @return 0 or an error number */
  int open() {
    /* Completions are wanted only while waiting for them. Kernels that do not
    know a flag refuse it. */
    unsigned flags = 0;
#ifdef IORING_SETUP_DEFER_TASKRUN
    flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN;
#endif /* IORING_SETUP_DEFER_TASKRUN */

    int err = -io_uring_queue_init(DEPTH * N_STEPS, &m_ring, flags);

    if (err == EINVAL && flags != 0) {
      err = -io_uring_queue_init(DEPTH * N_STEPS, &m_ring, 0);
    }

    if (err != 0) {
      return err;
    }

    m_is_open = true;

    std::array<int, DEPTH> empty;
    empty.fill(-1);
    err = -io_uring_register_files(&m_ring, empty.data(), DEPTH);

    if (err != 0) {
      return err;
    }

    m_buffer.reset(static_cast<unsigned char *>(
        std::aligned_alloc(m_options.n_bytes, m_options.n_bytes * DEPTH)));

    for (unsigned no = DEPTH; no > 0; --no) {
      m_free.push_back(no - 1);
    }

    return m_buffer == nullptr ? ENOMEM : 0;
  }

  /** @return the buffer of a slot */
  unsigned char *buffer(unsigned no) const {
    return m_buffer.get() + m_options.n_bytes * no;
  }

  /** Queue the chain of the file in a slot. */
  void queue(unsigned no, int open_flags) {
    auto &slot = m_slots[no];
    slot.n_left = 0;
    slot.result.fill(0);

    const auto link = [&](io_uring_sqe *sqe, Step step, unsigned flags) {
      sqe->flags |= flags;
      sqe->user_data = no * uint64_t{N_STEPS} + step;
      ++slot.n_left;
    };

    auto sqe = io_uring_get_sqe(&m_ring);
    io_uring_prep_openat_direct(sqe, AT_FDCWD, slot.path.c_str(), open_flags, 0,
                                no);
    link(sqe, OPEN, IOSQE_IO_LINK);

    if (m_options.is_random) {
      sqe = io_uring_get_sqe(&m_ring);
      io_uring_prep_fadvise(sqe, no, 0, 0, POSIX_FADV_RANDOM);
      link(sqe, ADVISE, IOSQE_FIXED_FILE | IOSQE_IO_HARDLINK);
    }

    sqe = io_uring_get_sqe(&m_ring);
    io_uring_prep_read(sqe, no, buffer(no), m_options.n_bytes, 0);
    link(sqe, READ, IOSQE_FIXED_FILE | IOSQE_IO_HARDLINK);

    sqe = io_uring_get_sqe(&m_ring);
    io_uring_prep_close_direct(sqe, no);
    link(sqe, CLOSE, 0);
  }

  /** Submit what is queued and wait for a completion.
  @return false if the kernel refuses for good */
  bool submit() {
    for (unsigned tries = 0; tries < MAX_RETRIES; ++tries) {
      const int ret = io_uring_submit_and_wait(&m_ring, 1);

      if (ret >= 0 || io_uring_cq_ready(&m_ring) > 0) {
        return true;
      }

      if (ret != -EINTR && ret != -EAGAIN && ret != -EBUSY) {
        return false;
      }

      std::this_thread::sleep_for(RETRY_PAUSE);
    }

    return false;
  }

  /** Take the completions that there are.
  @param[out]  ended  slots whose chain has completed */
  void reap(std::vector<unsigned> &ended) {
    unsigned head;
    unsigned n = 0;
    io_uring_cqe *cqe;

    io_uring_for_each_cqe(&m_ring, head, cqe) {
      const unsigned no = cqe->user_data / N_STEPS;
      auto &slot = m_slots[no];

      slot.result[cqe->user_data % N_STEPS] = cqe->res;
      ++n;

      if (--slot.n_left == 0) {
        ended.push_back(no);
      }
    }

    io_uring_cq_advance(&m_ring, n);
  }

  /** Find out whether chains work. @return 0 or an error number */
  int probe() {
    m_slots[0].path = ".";
    queue(0, O_RDONLY);

    for (std::vector<unsigned> ended; ended.empty();) {
      if (!submit()) {
        return EIO;
      }
      reap(ended);
    }

    const auto &result = m_slots[0].result;

    if (result[OPEN] > 0) {
      /* An old kernel: it knows no slots and has opened a descriptor. */
      ::close(result[OPEN]);
      return ENOSYS;
    }

    if (result[OPEN] < 0) {
      return -result[OPEN];
    }

    return result[READ] == -EBADF || result[READ] == -ECANCELED ||
                   result[CLOSE] != 0
               ? ENOSYS
               : 0;
  }

  /** How files are read. */
  const Options m_options;

  /** The ring. */
  io_uring m_ring;

  /** Whether there is a ring to close. */
  bool m_is_open{false};

  /** Files under way. */
  std::array<Slot, DEPTH> m_slots;

  /** Slots without a file. */
  std::vector<unsigned> m_free;

  /** Where the files are read into. */
  Buffer m_buffer;
};

std::unique_ptr<Header_ring> Header_ring::create(const Options &options,
                                                 std::string &error) {
  auto state = std::make_unique<State>(options);

  int err = state->open();

  if (err == 0) {
    err = state->probe();
  }

  if (err != 0) {
    error = std::strerror(err);
    return nullptr;
  }

  return std::unique_ptr<Header_ring>(new Header_ring(std::move(state)));
}

bool Header_ring::run(const Next &next, const Done &done) {
  if (m_state == nullptr) {
    return false;
  }

  const auto &options = m_state->m_options;
  /* Not O_CLOEXEC: a slot is no descriptor that a new program could inherit. */
  const int open_flags = O_RDONLY | (options.is_direct ? O_DIRECT : 0);
  auto &free_slots = m_state->m_free;
  std::vector<unsigned> ended;
  bool has_next = true;

  for (;;) {
    while (has_next && !free_slots.empty()) {
      const unsigned no = free_slots.back();
      auto &slot = m_state->m_slots[no];

      has_next = next(slot.item, slot.path);

      if (has_next) {
        free_slots.pop_back();
        m_state->queue(no, open_flags);
      }
    }

    if (free_slots.size() == DEPTH) {
      return true;
    }

    if (!m_state->submit()) {
      break;
    }

    ended.clear();
    m_state->reap(ended);

    for (const auto no : ended) {
      const auto &slot = m_state->m_slots[no];
      const bool is_read =
          slot.result[READ] == static_cast<int>(options.n_bytes);

      free_slots.push_back(no);
      done(slot.item, is_read ? m_state->buffer(no) : nullptr);
    }
  }

  /* What was submitted may still be written to, so the buffers are given up
  for good. This does not happen but when the kernel has run out of memory. */
  const State *state = m_state.release();
  std::array<bool, DEPTH> is_free{};

  for (const auto no : state->m_free) {
    is_free[no] = true;
  }

  for (unsigned no = 0; no < DEPTH; ++no) {
    if (!is_free[no]) {
      done(state->m_slots[no].item, nullptr);
    }
  }

  return false;
}

#else /* HAVE_LIBURING */

namespace tablespace_scan {

struct Header_ring::State {};

std::unique_ptr<Header_ring> Header_ring::create(const Options &,
                                                 std::string &error) {
  error = "this server was built without liburing";
  return nullptr;
}

bool Header_ring::run(const Next &, const Done &) { return false; }

#endif /* HAVE_LIBURING */

Header_ring::Header_ring(std::unique_ptr<State> state)
    : m_state(std::move(state)) {}

Header_ring::~Header_ring() = default;

}  // namespace tablespace_scan
