/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file include/log0keys.h
Keys of undo tablespaces, found in redo before it is parsed.

log/log0keys.cc has the design. */

#ifndef log0keys_h
#define log0keys_h

#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include "log0types.h"
#include "univ.i"

struct log_t;

namespace redo_recovery {

/** Finds the records of redo that write the key of a tablespace to its first
page, in a stream of redo without the headers and trailers of its blocks. */
class Key_finder {
 public:
  /** Called for each record.
  @param[in]  space_id  tablespace
  @param[in]  info      its Encryption::INFO_SIZE bytes of encryption info */
  using Found = std::function<void(space_id_t space_id, const byte *info)>;

  /** Constructor.
  @param[in]  offset  where a first page has the encryption info
  @param[in]  found   is called for each record, in the order of the stream */
  Key_finder(size_t offset, Found found)
      : m_offset(offset), m_found(std::move(found)) {}

  /** Look at what follows in the stream.
  @param[in]  data     its bytes
  @param[in]  n_bytes  how many */
  void add(const byte *data, size_t n_bytes);

 private:
  /** @return true if a record writes encryption info; its tablespace is given
  @param[in]   info      begin of the info
  @param[out]  space_id  tablespace */
  bool is_record(const byte *info, space_id_t &space_id) const;

  /** Where a first page has the encryption info. */
  const size_t m_offset;
  /** Is called for each record. */
  const Found m_found;
  /** The end of the stream, in which a record may begin. */
  std::vector<byte> m_bytes;
};

/** Give recovery the keys that redo has of undo tablespaces whose files have
none.
@param[in,out]  log  redo log
@param[in]      lsn  where redo begins, in a block */
void find_keys(log_t &log, lsn_t lsn);

}  // namespace redo_recovery

#endif /* log0keys_h */
