/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** A map of the tablespace files as a test writes it down, and its bytes. */

#ifndef fil0map_content_h
#define fil0map_content_h

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "storage/innobase/include/fil0fil.h"
#include "storage/innobase/include/fil0mapfile.h"

namespace tablespace_map_content {

using Map_file = tablespace_map::File;

/** A map, as a test writes it down. */
struct Content {
  tablespace_map::Summary summary;
  tablespace_map::Session session;
  /** Files of each directory. */
  std::vector<std::vector<Map_file>> files;
};

/** @return the bytes of a map, or nothing if it cannot be written */
inline std::string encode(const Content &content) {
  std::string bytes;
  tablespace_map::Builder builder(
      [&bytes](uint64_t offset, std::string_view s) {
        bytes.resize(std::max<size_t>(bytes.size(), offset + s.size()));
        bytes.replace(offset, s.size(), s);
        return true;
      });
  auto summary = content.summary;

  for (size_t d = 0; d < summary.dirs.size(); ++d) {
    summary.dirs[d].n_files = content.files[d].size();
    for (const auto &file : content.files[d]) {
      builder.add(file);
    }
  }
  builder.sort_ids();
  return builder.finish(summary, content.session) ? bytes : "";
}

/** Open a map that is in memory.
@param[in]   bytes    the map
@param[out]  reader   reads it
@param[in]   at_once  size up to which it is checked as a whole
@return false if it is none */
inline bool open(const std::string &bytes, tablespace_map::Reader &reader,
                 uint64_t at_once = tablespace_map::CHECKED_AT_ONCE_BYTES) {
  return reader.open(
             [&bytes](uint64_t offset, size_t n, char *to) {
               if (offset > bytes.size() || n > bytes.size() - offset) {
                 return false;
               }
               memcpy(to, bytes.data() + offset, n);
               return true;
             },
             bytes.size(), at_once) == nullptr;
}

}  // namespace tablespace_map_content

#endif /* fil0map_content_h */
