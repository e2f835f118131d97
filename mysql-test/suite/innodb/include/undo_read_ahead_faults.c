/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file include/undo_read_ahead_faults.c
Preloaded into a server by undo_read_ahead.pl: makes reads and writes of some
files fail, come short, or wait, while the server runs.

The directory FAULT_DIR has a file for each function that has to misbehave, of
the name of that function: preadv, pwrite, write. It holds

  PART ACTION

PART is a part of the path of the files that are meant. ACTION is "fail" (EIO),
"short" (half of the bytes) or "block" (waits until the file in FAULT_DIR is
removed or says something else). Each time a byte is added to FUNCTION.hits. */

#define _GNU_SOURCE

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum action { NONE, FAIL, SHORT, BLOCK };

/* What a call has to do; adds no hit. */
static enum action look_up(const char *function, int fd) {
  const char *dir = getenv("FAULT_DIR");
  char path[4096], link[64], rule[256], part[128], name[16];
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

  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  n = readlink(link, path, sizeof path - 1);
  if (n <= 0) return NONE;
  path[n] = '\0';
  if (strstr(path, part) == NULL) return NONE;

  return strcmp(name, "fail") == 0    ? FAIL
         : strcmp(name, "short") == 0 ? SHORT
         : strcmp(name, "block") == 0 ? BLOCK
                                      : NONE;
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
static enum action apply(const char *function, int fd) {
  const enum action action = look_up(function, fd);

  if (action != NONE) add_hit(function);
  if (action != BLOCK) return action;

  while (look_up(function, fd) == BLOCK) usleep(10000);
  return NONE;
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
