/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file include/tablespace_check_faults.c
Preloaded into a server by tablespace_check_faults.pl: makes calls for some
files fail, come short, or wait, while the server runs; or counts them.

The directory FAULT_DIR has a file for each function that has to misbehave, of
the name of that function: header, page, preadv, pwrite, statx, unlink, write.
It holds

  PART ACTION

PART is a part of the path of the files that are meant, or of the name of the
thread. ACTION is "fail" (EIO),
"short" (half of the bytes), "late" (takes 5 ms longer, as on a busy volume),
"slow" (takes 0.1 s longer), "block" (waits until the file in FAULT_DIR is
removed or says something else) or "count" (nothing).
Each time a byte is added to FUNCTION.hits. Not every function can do all of it:
see below.

"header" is a pread() of less than a page, as the tablespace map makes them;
"page" is one of a page or more. */

#define _GNU_SOURCE

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum action { NONE, COUNT, FAIL, SHORT, LATE, SLOW, BLOCK };

/* The smallest page that InnoDB reads. */
#define PAGE_BYTES 1024

/* What a call for the file of a path has to do; adds no hit. */
static enum action look_up(const char *function, const char *of) {
  static const char *const names[] = {"",     "count", "fail", "short",
                                      "late", "slow",  "block"};
  const char *dir = getenv("FAULT_DIR");
  char path[4096], rule[256], part[128], name[16];
  char thread[16] = "";
  ssize_t n;
  int file;

  if (dir == NULL) return NONE;

  snprintf(path, sizeof path, "%s/%s", dir, function);
  file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return NONE;
  n = read(file, rule, sizeof rule - 1);
  close(file);
  if (n <= 0) return NONE;
  rule[n] = '\0';
  if (sscanf(rule, "%127s %15s", part, name) != 2) return NONE;
  prctl(PR_GET_NAME, thread);
  if (strstr(of, part) == NULL && strstr(thread, part) == NULL) return NONE;

  for (int i = BLOCK; i > NONE; --i) {
    if (strcmp(name, names[i]) == 0) return i;
  }
  return NONE;
}

static void add_hit(const char *function) {
  char path[4096];
  int file;

  snprintf(path, sizeof path, "%s/%s.hits", getenv("FAULT_DIR"), function);
  file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (file >= 0) {
    syscall(SYS_write, file, "x", 1);
    close(file);
  }
}

/* Wait if the call has to. Returns what else it has to do. */
static enum action apply_path(const char *function, const char *path) {
  const enum action action = look_up(function, path);

  if (action != NONE) add_hit(function);
  if (action == LATE) usleep(5000);
  if (action == SLOW) usleep(100000);
  if (action != BLOCK) return action;

  while (look_up(function, path) == BLOCK) usleep(10000);
  return NONE;
}

/* The same for a file that is open. */
static enum action apply(const char *function, int fd) {
  char link[64], path[4096];
  ssize_t n;

  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  n = readlink(link, path, sizeof path - 1);
  if (n <= 0) return NONE;
  path[n] = '\0';
  return apply_path(function, path);
}

static void *original(const char *name) { return dlsym(RTLD_NEXT, name); }

/* Half of a vectored read: its first half of buffers, at least one. */
#define PREADV(name, offset_t)                                                \
  ssize_t name(int fd, const struct iovec *buffers, int n, offset_t offset) { \
    ssize_t (*call)(int, const struct iovec *, int, offset_t) =               \
        original(#name);                                                      \
    switch (apply("preadv", fd)) {                                            \
      case FAIL:                                                              \
        errno = EIO;                                                          \
        return -1;                                                            \
      case SHORT: {                                                           \
        struct iovec half = buffers[0];                                       \
        half.iov_len /= 2;                                                    \
        return n > 1 ? call(fd, buffers, n / 2, offset)                       \
                     : call(fd, &half, 1, offset);                            \
      }                                                                       \
      default:                                                                \
        return call(fd, buffers, n, offset);                                  \
    }                                                                         \
  }

#define PWRITE(name, offset_t)                                                \
  ssize_t name(int fd, const void *buffer, size_t n_bytes, offset_t offset) { \
    ssize_t (*call)(int, const void *, size_t, offset_t) = original(#name);   \
    if (apply("pwrite", fd) == FAIL) {                                        \
      errno = EIO;                                                            \
      return -1;                                                              \
    }                                                                         \
    return call(fd, buffer, n_bytes, offset);                                 \
  }

#define PREAD(name, offset_t)                                           \
  ssize_t name(int fd, void *buffer, size_t n_bytes, offset_t offset) { \
    ssize_t (*call)(int, void *, size_t, offset_t) = original(#name);   \
    if (apply(n_bytes < PAGE_BYTES ? "header" : "page", fd) == FAIL) {  \
      errno = EIO;                                                      \
      return -1;                                                        \
    }                                                                   \
    return call(fd, buffer, n_bytes, offset);                           \
  }

PREAD(pread, off_t)
PREAD(pread64, off64_t)
PREADV(preadv, off_t)
PREADV(preadv64, off64_t)
PWRITE(pwrite, off_t)
PWRITE(pwrite64, off64_t)

ssize_t write(int fd, const void *buffer, size_t n_bytes) {
  ssize_t (*call)(int, const void *, size_t) = original("write");

  if (apply("write", fd) == FAIL) {
    errno = EIO;
    return -1;
  }
  return call(fd, buffer, n_bytes);
}

int unlink(const char *path) {
  int (*call)(const char *) = original("unlink");

  if (apply_path("unlink", path) == FAIL) {
    errno = EIO;
    return -1;
  }
  return call(path);
}

int statx(int fd, const char *restrict path, int flags, unsigned mask,
          struct statx *restrict out) {
  int (*call)(int, const char *, int, unsigned, struct statx *) =
      original("statx");

  if (apply_path("statx", path) == FAIL) {
    errno = EIO;
    return -1;
  }
  return call(fd, path, flags, mask, out);
}
