/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file include/mtr0index.h
Index objects for redo records, kept as long as recovery goes on.

mtr/mtr0index.cc has the design. */

#ifndef mtr0index_h
#define mtr0index_h

#include <cstddef>

#include "univ.i"

struct dict_index_t;

namespace mtr_index {

/** Keeps the objects from its construction to its destruction. Only one may
exist. No record may be parsed or applied by another thread when it is
destroyed, and none of the objects used afterwards. */
class Keeper {
 public:
  /** Constructor.
  @param[in]  is_on  false to keep nothing */
  explicit Keeper(bool is_on);
  ~Keeper();

  Keeper(const Keeper &) = delete;
  Keeper &operator=(const Keeper &) = delete;

  /** @return how many objects were made, by all threads. Not while others parse
  or apply records. */
  static size_t n_made();

  /** @return how many times an object was used again, as above */
  static size_t n_found();
};

/** Looks for the object of a description when it is constructed, and keeps the
one that was made if there was none when it is destroyed. */
class Lookup {
 public:
  /** Constructor.
  @param[in,out]  ptr      start of the description; moved to its end if there
  is an object for it. At destruction, the end of what was parsed, or nullptr if
  it was not whole.
  @param[in]      end_ptr  end of the log buffer
  @param[in,out]  index    the object. At destruction, the one that was made. */
  Lookup(const byte *&ptr, const byte *end_ptr, dict_index_t **index);
  ~Lookup();

  Lookup(const Lookup &) = delete;
  Lookup &operator=(const Lookup &) = delete;

  /** @return true if there was an object */
  [[nodiscard]] bool found() const { return m_found; }

 private:
  /** Position in the log. */
  const byte *&m_ptr;
  /** Where the description begins. */
  const byte *const m_start;
  /** Its object. */
  dict_index_t **const m_index;
  /** Length of the part of the description by which it is looked for; 0 if it
  is not looked for. */
  size_t m_n_key_bytes{0};
  /** True if there was an object. */
  bool m_found{false};
};

/** Find the end of a description, without an object.
@param[in]  ptr      its start
@param[in]  end_ptr  end of the log buffer
@return its end; nullptr if it is not there as a whole, or is of another
format */
[[nodiscard]] const byte *skip(const byte *ptr, const byte *end_ptr);

/** The caller is about to free an object.
@param[in,out]  index  object or nullptr; nullptr if it is kept */
void release(dict_index_t *&index);

}  // namespace mtr_index

#endif /* mtr0index_h */
