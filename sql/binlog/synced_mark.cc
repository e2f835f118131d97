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
#include <cstdint>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "my_byteorder.h"
#include "my_sys.h"
#include "mysql/binlog/event/binlog_event.h"
#include "mysql/components/services/log_builtins.h"
#include "mysqld_error.h"
#include "sql/binlog/checkpoint.h"
#include "sql/log_event.h"  // BIN_LOG_HEADER_SIZE, BINLOG_MAGIC

namespace binlog {

Synced_mark g_synced_mark{&g_checkpoint};

namespace {

constexpr unsigned char MAGIC[] = {'M', 'Y', 'B', 'L', 'S', 'Y', 'N', '1'};
constexpr unsigned char GTIDS_MAGIC[] = {'M', 'Y', 'B', 'L',
                                         'G', 'T', 'I', '1'};

constexpr unsigned char CHECKPOINT_MAGIC[] = {'M', 'Y', 'B', 'L',
                                              'C', 'H', 'K', '2'};

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
  return n_bytes <= Checkpoint_note::MAX_FILE_BYTES &&
         read_at(fd, 0, magic, n_there) &&
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
  errno = EINVAL;
  return -1;
}

/** @return all that stands in the open file with the note, empty if it cannot
be read */
std::string read_note(int fd) {
  struct stat status;
  if (::fstat(fd, &status) != 0 ||
      static_cast<uint64_t>(status.st_size) > Checkpoint_note::MAX_FILE_BYTES) {
    return {};
  }
  std::string content(status.st_size, '\0');
  return read_at(fd, 0, reinterpret_cast<unsigned char *>(content.data()),
                 content.size())
             ? content
             : std::string{};
}

/** @return what stands in the file with the note about a binary log */
std::string read_note(const std::string &path) {
  const int fd = open_note(Synced_mark::path_of(path), O_RDONLY);
  if (fd < 0) return {};
  const auto content = read_note(fd);
  ::close(fd);
  return content;
}

/** @return the first part of a note */
std::optional<Synced_note> decode_synced(const std::string &content) {
  if (content.size() < Synced_note::BYTES) return std::nullopt;
  Synced_note::Bytes bytes;
  std::copy_n(content.begin(), bytes.size(), bytes.begin());
  return Synced_note::decode(bytes);
}

/** @return what a note says of a binary log, 0 if it is about another one */
uint64_t bytes_by(const std::string &content, const std::string &path) {
  const auto note = decode_synced(content);
  if (!note) return 0;
  const int log_fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (log_fd < 0) return 0;
  const auto about = Synced_note::about(log_fd, path);
  ::close(log_fd);
  return about && about->same_file(*note) ? note->m_synced_bytes : 0;
}

/** @return the checkpoint that a note has of a binary log, nothing if it has
none or is about another one */
std::optional<Checkpoint_note> checkpoint_by(const std::string &content,
                                             const std::string &path) {
  auto note = Checkpoint_note::decode(content);
  if (note && note->m_end > bytes_by(content, path)) note.reset();
  return note;
}

/** @return the GTIDs that a note says are in a binary log, nothing if it does
not, or is about another one or another state of it */
std::optional<std::string> gtids_by(const std::string &content,
                                    const std::string &path) {
  const auto note = Closed_note::decode(content);
  const auto n_bytes = note ? bytes_by(content, path) : 0;
  if (n_bytes == 0) return std::nullopt;
  const int log_fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (log_fd < 0) return std::nullopt;
  const auto about = Closed_note::about(log_fd, n_bytes);
  ::close(log_fd);
  if (!about || !about->same_state(*note)) return std::nullopt;
  return note->m_gtids;
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

std::string Closed_note::encode(const Synced_note &synced) const {
  const auto first = synced.encode();
  std::string content(first.begin(), first.end());
  unsigned char head[HEAD_BYTES];
  memcpy(head, GTIDS_MAGIC, sizeof(GTIDS_MAGIC));
  int8store(head + 8, m_mtime_nsec);
  int4store(head + 16, m_tail_crc);
  int4store(head + 20, static_cast<uint32_t>(m_gtids.size()));
  content.append(head, head + sizeof(head)).append(m_gtids);
  unsigned char crc[CRC_BYTES];
  int4store(crc, crc_of(content.data(), content.size()));
  return content.append(crc, crc + sizeof(crc));
}

std::optional<Closed_note> Closed_note::decode(const std::string &content) {
  constexpr size_t other_bytes = Synced_note::BYTES + HEAD_BYTES + CRC_BYTES;
  if (content.size() < other_bytes ||
      content.size() > other_bytes + Logged_gtids::MAX_BYTES) {
    return std::nullopt;
  }
  const auto *bytes = reinterpret_cast<const unsigned char *>(content.data());
  const auto *head = bytes + Synced_note::BYTES;
  const size_t crc_at = content.size() - CRC_BYTES;
  if (memcmp(head, GTIDS_MAGIC, sizeof(GTIDS_MAGIC)) != 0 ||
      uint4korr(head + 20) != content.size() - other_bytes ||
      uint4korr(bytes + crc_at) != crc_of(bytes, crc_at)) {
    return std::nullopt;
  }
  Closed_note note;
  note.m_mtime_nsec = uint8korr(head + 8);
  note.m_tail_crc = uint4korr(head + 16);
  note.m_gtids = content.substr(Synced_note::BYTES + HEAD_BYTES,
                                content.size() - other_bytes);
  return note;
}

bool Closed_note::same_state(const Closed_note &other) const {
  return m_mtime_nsec == other.m_mtime_nsec && m_tail_crc == other.m_tail_crc;
}

std::optional<Closed_note> Closed_note::about(int fd, uint64_t n_bytes) {
  struct stat status;
  unsigned char tail[TAIL_BYTES];
  if (n_bytes < TAIL_BYTES || ::fstat(fd, &status) != 0 ||
      static_cast<uint64_t>(status.st_size) != n_bytes ||
      !read_at(fd, n_bytes - TAIL_BYTES, tail, TAIL_BYTES)) {
    return std::nullopt;
  }
  Closed_note note;
  note.m_mtime_nsec = status.st_mtim.tv_sec * uint64_t{1000000000} +
                      static_cast<uint64_t>(status.st_mtim.tv_nsec);
  note.m_tail_crc = crc_of(tail, sizeof(tail));
  return note;
}

/** @return checksum of the second part of a note and of what the first is about
@param[in] synced  the first part
@param[in] bytes   the second one, up to its checksum */
static uint32_t checkpoint_crc(Synced_note synced, const std::string &bytes) {
  synced.m_synced_bytes = 0;
  const auto about = synced.encode();
  /* With a checksum behind it, that of any bytes is the same. */
  std::string all(about.begin(), about.end() - Checkpoint_note::CRC_BYTES);
  all.append(bytes);
  return crc_of(all.data(), all.size());
}

std::string Checkpoint_note::encode(const Synced_note &synced) const {
  unsigned char head[HEAD_BYTES];
  memcpy(head, CHECKPOINT_MAGIC, sizeof(CHECKPOINT_MAGIC));
  int8store(head + 8, m_begin);
  int4store(head + 16, static_cast<uint32_t>(m_end - m_begin));
  int4store(head + 20, static_cast<uint32_t>(m_gtids.size()));
  int8store(head + 24, m_lsn);
  std::string bytes(head, head + sizeof(head));
  bytes.append(m_gtids);
  unsigned char crc[CRC_BYTES];
  int4store(crc, checkpoint_crc(synced, bytes));
  const auto first = synced.encode();
  return std::string(first.begin(), first.end())
      .append(bytes)
      .append(crc, crc + sizeof(crc));
}

std::optional<Checkpoint_note> Checkpoint_note::decode(
    const std::string &content) {
  const auto synced = decode_synced(content);
  constexpr size_t first_bytes = Synced_note::BYTES;
  if (!synced || content.size() < first_bytes + HEAD_BYTES + CRC_BYTES) {
    return std::nullopt;
  }
  const auto *head =
      reinterpret_cast<const unsigned char *>(content.data()) + first_bytes;
  const size_t n_gtids = uint4korr(head + 20);
  if (memcmp(head, CHECKPOINT_MAGIC, sizeof(CHECKPOINT_MAGIC)) != 0 ||
      n_gtids > content.size() - first_bytes - HEAD_BYTES - CRC_BYTES) {
    return std::nullopt;
  }
  const auto bytes = content.substr(first_bytes, HEAD_BYTES + n_gtids);
  if (uint4korr(head + bytes.size()) != checkpoint_crc(*synced, bytes)) {
    return std::nullopt;
  }
  Checkpoint_note note;
  note.m_begin = uint8korr(head + 8);
  note.m_end = note.m_begin + uint4korr(head + 16);
  note.m_lsn = uint8korr(head + 24);
  note.m_gtids = bytes.substr(HEAD_BYTES);
  return note;
}

std::string Synced_mark::path_of(const std::string &path) {
  const size_t dot = path.rfind('.');
  const size_t slash = path.rfind('/');
  const bool has_extension =
      dot != std::string::npos && (slash == std::string::npos || dot > slash);
  return path.substr(0, has_extension ? dot : path.size()) + ".startup";
}

Synced_mark::~Synced_mark() { close_files(); }

void Synced_mark::close_files() {
  if (m_log_fd >= 0) ::close(m_log_fd);
  if (m_note_fd >= 0) ::close(m_note_fd);
  m_log_fd = m_note_fd = -1;
}

bool Synced_mark::write(const std::string &content) {
  return ::pwrite(m_note_fd, content.data(), content.size(), 0) ==
         static_cast<ssize_t>(content.size());
}

void Synced_mark::begin(const std::string &path) {
  const std::lock_guard guard{m_mutex};
  close_files();
  ++m_file;
  m_former.clear();
  m_log_fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (m_log_fd < 0) return;
  const auto note = Synced_note::about(m_log_fd, path);
  if (!note) {
    close_files();
    return;
  }
  m_note = *note;
  m_note_fd = open_note(path_of(path), O_RDWR | O_CREAT);
  if (m_note_fd >= 0) m_former = read_note(m_note_fd);
  const auto former = decode_synced(m_former);
  if (former && former->same_file(m_note)) m_former.clear();
  /* One that is empty already need not be so on disk. */
  if (m_note_fd < 0 || ::ftruncate(m_note_fd, 0) != 0 ||
      ::fsync(m_note_fd) != 0) {
    close_files();
    if (std::exchange(m_has_warned, true)) return;
    const std::string text =
        "The file " + path_of(path) +
        " cannot be written. The next start will read the whole last binary "
        "log, whatever binlog_startup_scan is.";
    LogErr(WARNING_LEVEL, ER_LOG_PRINTF_MSG, text.c_str());
  }
}

bool Synced_mark::remove(const std::string &path) {
  const int fd = open_note(path_of(path), O_RDWR);
  if (fd < 0) return errno == ENOENT;
  const bool is_done = ::ftruncate(fd, 0) == 0 && ::fsync(fd) == 0;
  ::close(fd);
  return is_done;
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
  const auto checkpoint = mark.m_checkpoint != nullptr && m_bytes > 0
                              ? mark.m_checkpoint->take(m_bytes)
                              : std::nullopt;
  const std::lock_guard guard{mark.m_mutex};
  if (!end()) return;
  if (m_bytes < mark.m_note.m_synced_bytes + STEP_BYTES && !checkpoint) return;
  mark.m_note.m_synced_bytes = m_bytes;
  const auto bytes = mark.m_note.encode();
  /* The disk may be full. An older note, or a torn one, is as good. */
  if (!mark.write(checkpoint ? checkpoint->encode(mark.m_note)
                             : std::string(bytes.begin(), bytes.end()))) {
    mark.close_files();
  }
}

void Synced_mark::Sync::closed(uint64_t n_bytes,
                               const std::optional<std::string> &gtids) {
  if (m_mark == nullptr) return;
  Synced_mark &mark = *m_mark;
  const std::lock_guard guard{mark.m_mutex};
  struct stat status;
  if (end() && ::fstat(mark.m_log_fd, &status) == 0 &&
      static_cast<uint64_t>(status.st_size) == n_bytes) {
    mark.m_note.m_synced_bytes = n_bytes;
    auto closed =
        gtids ? Closed_note::about(mark.m_log_fd, n_bytes) : std::nullopt;
    if (closed) {
      closed->m_gtids = *gtids;
      const auto content = closed->encode(mark.m_note);
      /* A checkpoint may have been longer. */
      if (mark.write(content) &&
          ::ftruncate(mark.m_note_fd, content.size()) == 0) {
        (void)::fsync(mark.m_note_fd);
      }
    } else {
      const auto bytes = mark.m_note.encode();
      (void)mark.write({bytes.begin(), bytes.end()});
    }
  }
  ++mark.m_file;
  mark.close_files();
}

void Synced_mark::Sync::log_closed(bool is_synced, bool ends,
                                   uint64_t n_bytes) {
  if (m_mark == nullptr) return;
  if (is_synced) closed(n_bytes, ends ? g_logged_gtids.encode() : std::nullopt);
  g_logged_gtids.forget();
}

uint64_t Synced_mark::synced_bytes(const std::string &path) {
  return bytes_by(read_note(path), path);
}

uint64_t Synced_mark::known_bytes(const std::string &path) {
  const auto n_bytes = synced_bytes(path);
  const std::lock_guard guard{m_mutex};
  return n_bytes > 0 ? n_bytes : bytes_by(m_former, path);
}

std::optional<std::string> Synced_mark::known_gtids(const std::string &path) {
  auto gtids = gtids_by(read_note(path), path);
  const std::lock_guard guard{m_mutex};
  return gtids ? gtids : gtids_by(m_former, path);
}

std::optional<Checkpoint_note> Synced_mark::known_checkpoint(
    const std::string &path) {
  auto checkpoint = checkpoint_by(read_note(path), path);
  const std::lock_guard guard{m_mutex};
  return checkpoint ? checkpoint : checkpoint_by(m_former, path);
}

}  // namespace binlog
