/* Copyright (c) 2026, the Redstart authors. GPL-2.0-only. */

/** How many inputs of a libFuzzer target were what it is made for, told at the
end: cli.py reads it. */

#ifndef right_inputs_h
#define right_inputs_h

#include <cstdint>
#include <cstdio>

static struct Right_inputs {
  uint64_t n{0};
  ~Right_inputs() { fprintf(stderr, "stat::right_inputs: %lu\n", n); }
} g_right;

#endif /* right_inputs_h */
