/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file sql/binlog/synced_mark.h
How far the binary log that is being written is known to be on disk.

After a power cut, what was written and not synced may be there in part: the
end of a transaction without its middle. A start that looks at the end alone
must therefore know up to where the file was synced. The server notes that in a
file of its own, `<base name of the binary log>.startup`, each time that another
Synced_mark::STEP_BYTES have been synced. The note is written after the sync of
what it speaks of, so whichever version of it survives is true; it is not
synced itself.

Format, 40 bytes, integers little-endian:

  offset  size
       0     8  magic, "MYBLSYN1"
       8     8  inode number of the binary log
      16     8  size, in bytes, up to which the binary log was synced
      24     4  CRC-32 of the name of the binary log, without directory
      28     4  CRC-32 of its first event, without the "in use" flag
      32     4  zero
      36     4  CRC-32 of the bytes before

The name, the inode and the first event say which file the note is about: the
name is used again after RESET BINARY LOGS AND GTIDS. A note that is torn, or
about another file, counts as none.

The last note about a file is written when it is closed, if all of it could be
synced. That a file is marked as closed does not say so: the mark, and what was
not synced before, are synced together. When a sync fails, no more is noted
about the file: the kernel reports an error once, to one of those that sync, and
the next sync succeeds without the pages. When the next file is begun, the note
is removed.

With a checkpoint, see checkpoint.h, the server adds where the last transaction
before it begins, how long that is, up to which LSN InnoDB had flushed its redo,
and the GTIDs that a start would find in the file up to its end. This is written
after the binary log was synced up to there:

  offset  size
      40     8  magic, "MYBLCHK2"
      48     8  offset at which the transaction begins
      56     4  its length in bytes
      60     4  size n of the set in bytes, at most Logged_gtids::MAX_BYTES
      64     8  the LSN
      72     n  the set, encoded as in a Previous_gtids event
    72+n     4  CRC-32 of the first 36 bytes, as they are in a note that says
                that 0 bytes were synced, and of the bytes from offset 40 on

What follows is what is left of a longer one. As long as the file is the one
that the note is about, and InnoDB has what it had then, the checkpoint holds:
nobody writes to the file but at its end. InnoDB may have less if its files were
put back to an earlier state: then it does not reach the LSN.

A server that shuts down adds the GTIDs that a start would find in the file, see
logged_gtids.h. Then the note is longer, and is synced:

  offset  size
      40     8  magic, "MYBLGTI1"
      48     8  time of the last change of the binary log, in nanoseconds
      56     4  CRC-32 of its last Closed_note::TAIL_BYTES bytes
      60     4  size n of the set in bytes, at most Logged_gtids::MAX_BYTES
      64     n  the set, encoded as in a Previous_gtids event
    64+n     4  CRC-32 of the bytes before, from offset 0

in the place of the checkpoint. The set counts if the whole binary log is noted
as synced and has still that size, time and end. So nobody has written to it
since, be it a server or a copy that was put in its place. */

#ifndef BINLOG_SYNCED_MARK_H
#define BINLOG_SYNCED_MARK_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "sql/binlog/logged_gtids.h"

namespace binlog {

class Checkpoint;

/** What a note is about, and what it says. */
struct Synced_note {
  static constexpr size_t BYTES = 40;
  using Bytes = std::array<unsigned char, BYTES>;

  uint64_t m_inode{};
  uint64_t m_synced_bytes{};
  uint32_t m_name_crc{};
  uint32_t m_first_event_crc{};

  /** @return the note as it stands in the file */
  Bytes encode() const;

  /** @param[in] bytes  what stands in the file
  @return the note, or nothing if it is none or damaged */
  static std::optional<Synced_note> decode(const Bytes &bytes);

  /** @return true if both notes are about the same file */
  bool same_file(const Synced_note &other) const;

  /** Describe a binary log.
  @param[in] fd    the open file
  @param[in] path  its path
  @return a note about it that says 0 bytes; nothing if the file is encrypted,
          has no whole first event, or cannot be read */
  static std::optional<Synced_note> about(int fd, const std::string &path);
};

/** What a server notes in addition when it has closed its last file. */
struct Closed_note {
  static constexpr size_t HEAD_BYTES = 24;
  static constexpr size_t CRC_BYTES = 4;
  /** A Stop event with checksum. */
  static constexpr size_t TAIL_BYTES = 23;

  uint64_t m_mtime_nsec{};
  uint32_t m_tail_crc{};
  /** The set, encoded. */
  std::string m_gtids;

  /** @param[in] synced  the note that it is added to
  @return what stands in the file, both notes */
  std::string encode(const Synced_note &synced) const;

  /** @param[in] content  what stands in the file
  @return the note, or nothing if it is none or damaged */
  static std::optional<Closed_note> decode(const std::string &content);

  /** @param[in] other  another note
  @return true if both are about the same state of a file */
  bool same_state(const Closed_note &other) const;

  /** Describe a binary log.
  @param[in] fd       the open file
  @param[in] n_bytes  size that it has to have
  @return a note without GTIDs; nothing if it has another size, is short, or
          cannot be read */
  static std::optional<Closed_note> about(int fd, uint64_t n_bytes);
};

/** What a server notes in addition while it writes to the file. */
struct Checkpoint_note {
  static constexpr size_t HEAD_BYTES = 32;
  static constexpr size_t CRC_BYTES = 4;
  /** Longest file with a note. */
  static constexpr size_t MAX_FILE_BYTES =
      Synced_note::BYTES + HEAD_BYTES + Logged_gtids::MAX_BYTES + CRC_BYTES;

  /** Offsets at which the last transaction before the checkpoint begins and
  ends. */
  uint64_t m_begin{};
  uint64_t m_end{};
  /** LSN of InnoDB up to which what it has committed is durable. */
  uint64_t m_lsn{};
  /** The GTIDs of the file up to its end, encoded. */
  std::string m_gtids;

  /** @param[in] synced  the note that it is added to
  @return what stands in the file, both notes */
  std::string encode(const Synced_note &synced) const;

  /** @param[in] content  what stands in the file
  @return the checkpoint, or nothing if there is none or it is damaged */
  static std::optional<Checkpoint_note> decode(const std::string &content);
};

/** Keeps the note about the binary log that is being written. Thread-safe. */
class Synced_mark {
 public:
  /** The note is written again after so many more bytes. A start after a crash
  reads that much event by event, the transaction in which the note ends, and
  what was not synced. */
  static constexpr uint64_t STEP_BYTES = 65536;

  /** @param[in,out] checkpoint  what checkpoints are taken from; nullptr if
                              none are noted */
  explicit Synced_mark(Checkpoint *checkpoint = nullptr)
      : m_checkpoint(checkpoint) {}
  Synced_mark(const Synced_mark &) = delete;
  Synced_mark &operator=(const Synced_mark &) = delete;
  ~Synced_mark();

  /** The server writes to another file now. What was noted before is removed,
  durably: an older version of the note may be on disk, and may fit a file that
  has got name and inode of a former one. Where no note can be kept, which the
  error log says, the next start reads event by event.
  @param[in] path  the binary log; its first event has been written */
  void begin(const std::string &path);

  /** One sync of the binary log: made before it, told of it afterwards. If it
  is destroyed without having been told, the sync has failed, and nothing is
  noted until begin().

  Two threads may sync at once: one that commits, and one that closes the file.
  The kernel reports an error to one of them only. So a sync is believed only if
  no other one was under way at any moment of it. */
  class Sync {
   public:
    /** @param[in,out] mark  the note; nullptr if none is kept about the file */
    explicit Sync(Synced_mark *mark);
    Sync(const Sync &) = delete;
    Sync &operator=(const Sync &) = delete;
    ~Sync();

    /** There was no error: what had been written before the sync is synced. A
    checkpoint within that is noted, too. */
    void succeeded();

    /** There was no error, nobody has written to the file since, and nobody
    will: all of it is synced. A file of another size lacks what an earlier
    write has lost; then nothing is noted.
    @param[in] n_bytes  size that the file has to have
    @param[in] gtids    if the server ends: what a start will find in the file,
                        encoded, if that is known */
    void closed(uint64_t n_bytes,
                const std::optional<std::string> &gtids = std::nullopt);

    /** The server has closed its binary log, or a relay log, for which nothing
    is noted.
    @param[in] is_synced  there was no error, see closed()
    @param[in] ends       the server ends; what g_logged_gtids knows is noted
    @param[in] n_bytes    bytes that were given to the file to be written */
    void log_closed(bool is_synced, bool ends, uint64_t n_bytes);

   private:
    /** The sync has ended; to be called with the mutex of the mark.
    @return true if no other one was under way in the meantime, and it is of the
            file that is being written */
    bool end();

    Synced_mark *m_mark;
    /** Number of begin() calls and closed files before. */
    uint64_t m_file{};
    /** Bytes of the file before the sync, 0 if no note is kept. */
    uint64_t m_bytes{};
    /** Number of this sync. */
    uint64_t m_number{};
    /** True if no other sync was under way when this one began. */
    bool m_is_first{};
  };

  /** @param[in] path  a binary log
  @return bytes of it that are known to have been synced, 0 if not known */
  static uint64_t synced_bytes(const std::string &path);

  /** The same, also by the note that the last begin() has removed: when the
  server starts it makes a new file before it has read the last one for GTIDs.
  @param[in] path  a binary log
  @return bytes of it that are known to have been synced, 0 if not known */
  uint64_t known_bytes(const std::string &path);

  /** @param[in] is_relay_log  whether a file is no binary log
  @return the note about the file; nullptr if none is kept */
  static Synced_mark *of(bool is_relay_log);

  /** GTIDs that were noted when the server ended that wrote a binary log, also
  by the note that the last begin() has removed.
  @param[in] path  a binary log, which is closed
  @return the set, encoded; nothing if it is not known */
  std::optional<std::string> known_gtids(const std::string &path);

  /** The last checkpoint that was noted of a binary log, also by the note that
  the last begin() has removed.
  @param[in] path  a binary log
  @return the checkpoint; nothing if none is known */
  std::optional<Checkpoint_note> known_checkpoint(const std::string &path);

  /** Remove the note, durably.
  @param[in] path  a binary log to which this server does not write
  @return false if that has failed */
  static bool remove(const std::string &path);

  /** @param[in] path  a binary log
  @return path of the file with the note */
  static std::string path_of(const std::string &path);

 private:
  void close_files();

  /** Write the note.
  @param[in] content  what is to stand in the file
  @return false if that has failed; then it is as it was, torn, or absent */
  bool write(const std::string &content);

  Checkpoint *const m_checkpoint;
  std::mutex m_mutex;
  int m_log_fd{-1};
  int m_note_fd{-1};
  uint64_t m_file{};
  /** Syncs that have begun. */
  uint64_t m_n_begun{};
  /** Syncs under way. One that began before begin() counts: it may have found
  the new file already. */
  uint64_t m_n_under_way{};
  Synced_note m_note;
  /** The error log says once that no note can be kept. */
  bool m_has_warned{};
  /** What the file with the note held before the last begin(), if that was
  about another binary log. */
  std::string m_former;
};

/** The note about the server's own binary log. */
extern Synced_mark g_synced_mark;

}  // namespace binlog

#endif  // BINLOG_SYNCED_MARK_H
