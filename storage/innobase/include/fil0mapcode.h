/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file include/fil0mapcode.h
Numbers and strings in the files of the tablespace map: big endian; a string is
its length in 4 bytes and its bytes. */

#ifndef fil0mapcode_h
#define fil0mapcode_h

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "my_inttypes.h"

#include "ut0crc32.h"

namespace tablespace_map {

/** Appends numbers and strings. */
class Out {
 public:
  explicit Out(std::string &bytes) : m_bytes(bytes) {}

  template <size_t N>
  void num(uint64_t n) {
    for (size_t i = N; i-- > 0;) {
      m_bytes.push_back(static_cast<char>(n >> (8 * i)));
    }
  }

  void str(std::string_view s) {
    num<4>(s.size());
    m_bytes.append(s);
  }

 private:
  std::string &m_bytes;
};

/** Takes numbers and strings; after the first that is not there, all are 0. */
class In {
 public:
  explicit In(std::string_view bytes) : m_bytes(bytes) {}

  template <size_t N>
  uint64_t num() {
    uint64_t n = 0;
    for (const auto c : take(N)) {
      n = n << 8 | static_cast<byte>(c);
    }
    return n;
  }

  std::string_view str() { return take(num<4>()); }

  bool is_bad() const { return m_is_bad; }
  bool is_at_end() const { return m_bytes.empty() && !m_is_bad; }
  size_t left() const { return m_bytes.size(); }

 private:
  std::string_view take(size_t n) {
    if (m_is_bad || n > m_bytes.size()) {
      m_is_bad = true;
      return {};
    }
    const auto s = m_bytes.substr(0, n);
    m_bytes.remove_prefix(n);
    return s;
  }

  std::string_view m_bytes;
  bool m_is_bad{false};
};

/** @return the CRC-32C of bytes */
inline uint32_t checksum(std::string_view s) {
  return ut_crc32(reinterpret_cast<const byte *>(s.data()), s.size());
}

}  // namespace tablespace_map

#endif /* fil0mapcode_h */
