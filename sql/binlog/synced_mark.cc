/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file sql/binlog/synced_mark.cc
How far the binary log that is being written is known to be on disk. */

#include "sql/binlog/synced_mark.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "my_byteorder.h"
#include "my_sys.h"
#include "mysql/binlog/event/binlog_event.h"
#include "mysql/components/services/log_builtins.h"
#include "mysqld_error.h"
#include "sql/log_event.h"  // BIN_LOG_HEADER_SIZE, BINLOG_MAGIC

namespace binlog {

Synced_mark g_synced_mark;

namespace {

constexpr unsigned char MAGIC[] = {'M', 'Y', 'B', 'L', 'S', 'Y', 'N', '1'};

/** Longest first event that is looked at; a format description event has some
hundred bytes. */
constexpr size_t MAX_FIRST_EVENT_BYTES = 16384;

uint32_t crc_of(const void *data, size_t n_bytes) {
  return mysql::binlog::event::checksum_crc32(
      0, static_cast<const unsigned char *>(data), n_bytes);
}

/** Read bytes at an offset of a file.
@return true if all of them could be read */
bool read_at(int fd, uint64_t offset, unsigned char *buffer, size_t n_bytes) {
  size_t done = 0;
  while (done < n_bytes) {
    const ssize_t n =
        ::pread(fd, buffer + done, n_bytes - done, (off_t)(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    done += n;
  }
  return true;
}

/** @return true if an open file is a note, or may be what a crash has left of
one: it is no longer than one, and of the magic each byte is right, zero or not
there */
bool is_note(int fd, uint64_t n_bytes) {
  unsigned char magic[sizeof(MAGIC)];
  const auto n_there = std::min<uint64_t>(n_bytes, sizeof(magic));
  return n_bytes <= Synced_note::BYTES && read_at(fd, 0, magic, n_there) &&
         std::equal(magic, magic + n_there, MAGIC, [](auto found, auto right) {
           return found == right || found == 0;
         });
}

/** Open the file with the note, if it is one or is new: nothing else is written
to, and nothing is waited for.
@return a descriptor, or -1 */
int open_note(const std::string &path, int flags) {
  const int fd =
      ::open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK,
             my_umask & 0666);
  if (fd < 0) return -1;
  struct stat status;
  if (::fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
      status.st_nlink == 1 && is_note(fd, status.st_size)) {
    return fd;
  }
  ::close(fd);
  return -1;
}

/** @return what an open file says, nothing if it is torn */
std::optional<Synced_note> read_note(int fd) {
  Synced_note::Bytes bytes;
  return read_at(fd, 0, bytes.data(), bytes.size()) ? Synced_note::decode(bytes)
                                                    : std::nullopt;
}

/** @return what a note says of a binary log, 0 if it is about another one */
uint64_t bytes_by(const std::optional<Synced_note> &note,
                  const std::string &path) {
  if (!note) return 0;
  const int log_fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (log_fd < 0) return 0;
  const auto about = Synced_note::about(log_fd, path);
  ::close(log_fd);
  return about && about->same_file(*note) ? note->m_synced_bytes : 0;
}

}  // namespace

Synced_note::Bytes Synced_note::encode() const {
  Bytes bytes{};
  memcpy(bytes.data(), MAGIC, sizeof(MAGIC));
  int8store(bytes.data() + 8, m_inode);
  int8store(bytes.data() + 16, m_synced_bytes);
  int4store(bytes.data() + 24, m_name_crc);
  int4store(bytes.data() + 28, m_first_event_crc);
  int4store(bytes.data() + BYTES - 4, crc_of(bytes.data(), BYTES - 4));
  return bytes;
}

std::optional<Synced_note> Synced_note::decode(const Bytes &bytes) {
  if (memcmp(bytes.data(), MAGIC, sizeof(MAGIC)) != 0 ||
      uint4korr(bytes.data() + BYTES - 4) != crc_of(bytes.data(), BYTES - 4)) {
    return std::nullopt;
  }
  Synced_note note;
  note.m_inode = uint8korr(bytes.data() + 8);
  note.m_synced_bytes = uint8korr(bytes.data() + 16);
  note.m_name_crc = uint4korr(bytes.data() + 24);
  note.m_first_event_crc = uint4korr(bytes.data() + 28);
  return note;
}

bool Synced_note::same_file(const Synced_note &other) const {
  return m_inode == other.m_inode && m_name_crc == other.m_name_crc &&
         m_first_event_crc == other.m_first_event_crc;
}

std::optional<Synced_note> Synced_note::about(int fd, const std::string &path) {
  struct stat status;
  if (::fstat(fd, &status) != 0) return std::nullopt;

  /* The magic number tells a plain binary log from an encrypted one. */
  unsigned char head[BIN_LOG_HEADER_SIZE + LOG_EVENT_MINIMAL_HEADER_LEN];
  if (!read_at(fd, 0, head, sizeof(head)) ||
      memcmp(head, BINLOG_MAGIC, BIN_LOG_HEADER_SIZE) != 0) {
    return std::nullopt;
  }
  const size_t event_bytes =
      uint4korr(head + BIN_LOG_HEADER_SIZE + EVENT_LEN_OFFSET);
  if (event_bytes < LOG_EVENT_MINIMAL_HEADER_LEN ||
      event_bytes > MAX_FIRST_EVENT_BYTES) {
    return std::nullopt;
  }
  std::vector<unsigned char> event(event_bytes);
  if (!read_at(fd, BIN_LOG_HEADER_SIZE, event.data(), event_bytes)) {
    return std::nullopt;
  }
  event[FLAGS_OFFSET] &= ~LOG_EVENT_BINLOG_IN_USE_F;

  const std::string name = path.substr(path.rfind('/') + 1);
  Synced_note note;
  note.m_inode = status.st_ino;
  note.m_name_crc = crc_of(name.data(), name.size());
  note.m_first_event_crc = crc_of(event.data(), event.size());
  return note;
}

std::string Synced_mark::path_of(const std::string &path) {
  const size_t dot = path.rfind('.');
  const size_t slash = path.rfind('/');
  const bool has_extension =
      dot != std::string::npos && (slash == std::string::npos || dot > slash);
  return path.substr(0, has_extension ? dot : path.size()) + ".synced";
}

Synced_mark::~Synced_mark() { close_files(); }

void Synced_mark::close_files() {
  if (m_log_fd >= 0) ::close(m_log_fd);
  if (m_note_fd >= 0) ::close(m_note_fd);
  m_log_fd = m_note_fd = -1;
}

bool Synced_mark::write() {
  const auto bytes = m_note.encode();
  return ::pwrite(m_note_fd, bytes.data(), bytes.size(), 0) ==
         static_cast<ssize_t>(bytes.size());
}

void Synced_mark::begin(const std::string &path) {
  const std::lock_guard guard{m_mutex};
  close_files();
  ++m_file;
  m_former.reset();
  m_log_fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (m_log_fd < 0) return;
  const auto note = Synced_note::about(m_log_fd, path);
  if (!note) {
    close_files();
    return;
  }
  m_note = *note;
  m_note_fd = open_note(path_of(path), O_RDWR | O_CREAT);
  m_former = m_note_fd < 0 ? std::nullopt : read_note(m_note_fd);
  if (m_former && m_former->same_file(m_note)) m_former.reset();
  /* One that is empty already need not be so on disk. */
  if (m_note_fd < 0 || ::ftruncate(m_note_fd, 0) != 0 ||
      ::fsync(m_note_fd) != 0) {
    close_files();
    const std::string text =
        "The file " + path_of(path) +
        " cannot be written. A start after a crash will read the whole last "
        "binary log, whatever binlog_startup_scan is.";
    LogErr(WARNING_LEVEL, ER_LOG_PRINTF_MSG, text.c_str());
  }
}

Synced_mark *Synced_mark::of(bool is_relay_log) {
  return is_relay_log ? nullptr : &g_synced_mark;
}

Synced_mark::Sync::Sync(Synced_mark *mark) : m_mark(mark) {
  if (mark == nullptr) return;
  const std::lock_guard guard{mark->m_mutex};
  m_is_first = mark->m_n_under_way++ == 0;
  m_number = ++mark->m_n_begun;
  m_file = mark->m_file;
  struct stat status;
  /* Only what has been written before the sync begins is covered by it. */
  if (mark->m_note_fd >= 0 && ::fstat(mark->m_log_fd, &status) == 0) {
    m_bytes = status.st_size;
  }
}

bool Synced_mark::Sync::end() {
  Synced_mark &mark = *std::exchange(m_mark, nullptr);
  --mark.m_n_under_way;
  return m_is_first && m_number == mark.m_n_begun && m_bytes > 0 &&
         m_file == mark.m_file && mark.m_note_fd >= 0;
}

Synced_mark::Sync::~Sync() {
  if (m_mark == nullptr) return;
  Synced_mark &mark = *m_mark;
  const std::lock_guard guard{mark.m_mutex};
  (void)end();
  mark.close_files();
}

void Synced_mark::Sync::succeeded() {
  if (m_mark == nullptr) return;
  Synced_mark &mark = *m_mark;
  const std::lock_guard guard{mark.m_mutex};
  if (!end() || m_bytes < mark.m_note.m_synced_bytes + STEP_BYTES) return;
  mark.m_note.m_synced_bytes = m_bytes;
  /* The disk may be full. An older note, or a torn one, is as good. */
  if (!mark.write()) mark.close_files();
}

void Synced_mark::Sync::closed() {
  if (m_mark == nullptr) return;
  Synced_mark &mark = *m_mark;
  const std::lock_guard guard{mark.m_mutex};
  struct stat status;
  if (end() && ::fstat(mark.m_log_fd, &status) == 0) {
    mark.m_note.m_synced_bytes = status.st_size;
    (void)mark.write();
  }
  ++mark.m_file;
  mark.close_files();
}

uint64_t Synced_mark::synced_bytes(const std::string &path) {
  const int note_fd = open_note(path_of(path), O_RDONLY);
  if (note_fd < 0) return 0;
  const auto note = read_note(note_fd);
  ::close(note_fd);
  return bytes_by(note, path);
}

uint64_t Synced_mark::known_bytes(const std::string &path) {
  const auto n_bytes = synced_bytes(path);
  const std::lock_guard guard{m_mutex};
  return n_bytes > 0 ? n_bytes : bytes_by(m_former, path);
}

}  // namespace binlog
