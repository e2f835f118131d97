/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file include/redo_no_hang.c
Preloaded into a server by redo_no_hang.pl: a device that completes asynchronous
requests only when there was no new one for READ_USEC microseconds, as long as
the file READ_SLOWLY is there. So a thread that requests pages gets as far as it
can before redo is applied to any of them, as it may with a volume on a network,
and need not be lucky. */

#define _GNU_SOURCE

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static atomic_long last_usec;

static long now_usec(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000L + now.tv_nsec / 1000;
}

int io_submit(void *context, long n, void **requests) {
  static int (*real)(void *, long, void **);

  if (real == NULL) real = dlsym(RTLD_NEXT, "io_submit");
  last_usec = now_usec();
  return real(context, n, requests);
}

int io_getevents(void *context, long min_events, long max_events, void *events,
                 struct timespec *timeout) {
  static int (*real)(void *, long, long, void *, struct timespec *);

  if (real == NULL) real = dlsym(RTLD_NEXT, "io_getevents");
  while (access(getenv("READ_SLOWLY"), F_OK) == 0 &&
         now_usec() - last_usec < atol(getenv("READ_USEC")))
    usleep(10000);
  return real(context, min_events, max_events, events, timeout);
}
