/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file include/fil0mapparts.h
The objects that the hooks of fil0map.cc use. */

#ifndef fil0mapparts_h
#define fil0mapparts_h

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "db0err.h"
#include "fil0fil.h"
#include "fil0mapimage.h"
#include "fil0maplist.h"
#include "fil0observe.h"
#include "fil0scan.h"
#include "os0event.h"
#include "os0thread-create.h"

namespace dd {
class Properties;
class Tablespace;
namespace cache {
class Dictionary_client;
}
}  // namespace dd

namespace tablespace_map {

/** Files of the map whose headers the start has not read. Several threads tell
what they find while directories are listed and files are checked; after that it
does not change until the verifier clears it. */
class Unread {
 public:
  /** A scan begins, or nobody asks any more.
  @param[in]  n_dirs   directories of the map
  @param[in]  n_files  its files */
  void begin(size_t n_dirs, size_t n_files) {
    m_is_skipped = std::vector<uint8_t>(n_dirs);
    m_is_recognised = std::vector<uint8_t>(n_files);
    m_journalled = {};
    m_journalled_dirs = {};
  }

  /** A directory need not be listed. */
  void skip(uint32_t dir) { m_is_skipped[dir] = true; }

  /** A file was listed, and is the same. */
  void recognise(uint32_t no) { m_is_recognised[no] = true; }

  /** A directory is as the map and its journal say.
  @param[in]  key      directory
  @param[in]  changed  files of the map that are not as that says */
  void add_journalled(const Dir_key &key,
                      const std::vector<uint32_t> &changed) {
    const std::lock_guard guard(m_mutex);
    m_journalled.insert(changed.begin(), changed.end());
    m_journalled_dirs.insert(key);
  }

  [[nodiscard]] bool is_skipped(uint32_t dir) const {
    return m_is_skipped[dir];
  }

  /** @return true if the directory of a file was not listed, and the journal
  says nothing else of the file */
  [[nodiscard]] bool is_skipped(uint32_t dir, uint32_t no) const {
    return m_is_skipped[dir] && m_journalled.count(no) == 0;
  }

  /** @return true if the header of a file was not read */
  [[nodiscard]] bool has(uint32_t dir, uint32_t no) const {
    return is_skipped(dir, no) || m_is_recognised[no];
  }

  /** @return number of directories of the map; 0 if nobody asks any more */
  [[nodiscard]] size_t n_dirs() const { return m_is_skipped.size(); }

  /** @return directories that the journal has */
  [[nodiscard]] const std::set<Dir_key> &journalled_dirs() const {
    return m_journalled_dirs;
  }

 private:
  /** By the number of a directory, and of a file. Bytes, since several threads
  write them. */
  std::vector<uint8_t> m_is_skipped;
  std::vector<uint8_t> m_is_recognised;
  /** Protects what is below while directories are listed. No other latch is
  requested under it. */
  std::mutex m_mutex;
  std::unordered_set<uint32_t> m_journalled;
  std::set<Dir_key> m_journalled_dirs;
};

/** What the current map says of a tablespace. */
struct Known {
  /** Path of its file. */
  std::string path;
  /** Name of the tablespace. */
  std::string name;
  uint32_t flags;
  File_identity identity;
};

/** Tablespaces whose objects the start has not made, because the map has their
files: who needs one makes it. */
class Deferred {
 public:
  Deferred(const Roots &roots, Current_map &current, const Changes &changes)
      : m_roots(roots), m_current(current), m_changes(changes) {}

  /** The dictionary is about to be read.
  @param[in]  is_validating  false if this start validates no tablespace files,
                             and makes no objects of them, because
                             innodb_validate_tablespace_paths is OFF */
  void begin(bool is_validating) { m_is_validating = is_validating; }

  [[nodiscard]] bool is_validating() const { return m_is_validating; }

  /** All tablespaces are deferred that the start has not fetched, since the
  dictionary is known to agree with the files but for those that have changed.
  @param[in]  map_id  map of the start
  @param[in]  max_id  the largest ID that one of them may have
  @param[in]  added   tablespaces whose headers were read, since the journal has
                      their files and the map has not: they are opened now. If
                      that map has such an ID, the file is elsewhere. */
  void add_all(uint64_t map_id, space_id_t max_id,
               std::unordered_set<space_id_t> added) {
    m_start_map_id = map_id;
    m_max_id = max_id;
    m_added = std::move(added);
    m_is_all = true;
  }

  /** @return true if that was done */
  [[nodiscard]] bool is_all() const { return m_is_all; }

  /** One is deferred: its file is where the dictionary says. Thread-safe.
  @param[in]  space_id  tablespace ID */
  void add(space_id_t space_id) {
    const std::lock_guard guard(m_mutex);
    m_ids.insert(space_id);
  }

  /** @return number of those that were deferred one by one */
  [[nodiscard]] size_t n_added() const { return m_ids.size(); }

  /** @return true if a tablespace may be one; is_late()
  @param[in]  space_id  tablespace ID */
  [[nodiscard]] bool has(space_id_t space_id) const;

  /** @return true if there are any */
  [[nodiscard]] bool any() const { return !m_has_ended && were_any(); }

  /** @return true if there were any when the server had started */
  [[nodiscard]] bool were_any() const { return m_is_all || !m_ids.empty(); }

  /** A tablespace is being dropped. Thread-safe.
  @param[in]  space_id  tablespace ID */
  void note_dropped(space_id_t space_id);

  /** All of them have objects, or were dropped: there are none any more, as
  after a start without the map. */
  void end();

  /** Find a tablespace in the current map.
  @param[in]  space_id  tablespace ID
  @return nothing if it is not there, or was dropped */
  [[nodiscard]] std::optional<Known> find(space_id_t space_id) const;

  /** Read a header and compare it with the map.
  @param[in]  space_id  tablespace ID
  @return the header, if it was read */
  File_header verify(space_id_t space_id);

  /** Make the object of a deferred tablespace that nobody has asked for.
  @param[in]  space_id  tablespace ID
  @param[in]  header    header of its file
  @return false if it is left without one */
  [[nodiscard]] bool make(space_id_t space_id, File_header header);

  /** Open one encrypted tablespace after the other until a master key is known,
  the newest tablespace first: it has the newest key, which new tablespaces get.
  */
  void learn_key() const;

 private:
  const Roots &m_roots;
  Current_map &m_current;
  const Changes &m_changes;
  /* Not changed after the dictionary was read. */
  bool m_is_validating{false};
  bool m_is_all{false};
  uint64_t m_start_map_id{0};
  space_id_t m_max_id{0};
  std::unordered_set<space_id_t> m_added;
  std::atomic_bool m_has_ended{false};
  /** Protects what is below; m_ids do not change after the validation. No other
  latch is requested under it. */
  mutable std::mutex m_mutex;
  std::unordered_set<space_id_t> m_ids;
  /** Those that were dropped since the start. */
  std::unordered_set<space_id_t> m_gone;
};

/** Reads the headers after the start that were not read then, and opens the
tablespaces that were left out. */
class Verifier {
 public:
  Verifier(Unread &unread, Deferred &deferred)
      : m_unread(unread), m_deferred(deferred) {}

  /** Start the thread.
  @param[in]  image  the map of the start, or nullptr */
  void start(Image_ptr image);

  /** End it. */
  void stop();

 private:
  void run();

  Unread &m_unread;
  Deferred &m_deferred;
  /** The map of the start, until the thread has it. */
  Image_ptr m_image;
  os_event_t m_stop{nullptr};
  /** The same, for a look without a wait. */
  std::atomic_bool m_must_stop{false};
  IB_thread m_thread;
};

/** The map is written when there was no DDL for this time, */
constexpr int64_t QUIET_NSEC = 1'000'000'000;
/** or when it has waited for that for this time. */
constexpr int64_t MAX_WAIT_NSEC = 10'000'000'000;
/** When a directory was too young to be trusted, the map is written again after
this time, */
constexpr int64_t OLDER_NSEC = RACY_NSEC + QUIET_NSEC;
/** at most this many times. */
constexpr int MAX_RACY_WRITES = 3;

/** What became of writing a map. */
enum class Written { YES, NO, STOPPED };

/** Decides when the map is written, and how long the thread rests after that.
Times are of one clock that never goes back. */
class Write_policy {
 public:
  /** Ask whether it is time to write; the thread asks twice a second.
  @param[in]  now_nsec   what time it is
  @param[in]  is_stale   true if the next start would not know all that it could
  @param[in]  quiet_nsec for how long there was no DDL
  @return true if so; note() is called next */
  [[nodiscard]] bool must_write(int64_t now_nsec, bool is_stale,
                                int64_t quiet_nsec) {
    m_is_stale = is_stale;
    if (!is_stale) {
      m_stale_since = 0;
    } else if (m_stale_since == 0) {
      m_stale_since = now_nsec;
    }

    const bool is_quiet =
        quiet_nsec >= QUIET_NSEC || now_nsec - m_stale_since >= MAX_WAIT_NSEC;
    const bool is_older = m_n_racy > 0 && m_n_racy <= MAX_RACY_WRITES &&
                          now_nsec - m_last_write >= OLDER_NSEC;

    return now_nsec >= m_rest_until && (is_stale ? is_quiet : is_older);
  }

  /** That was tried.
  @param[in]  written     what became of it
  @param[in]  begin_nsec  when it began
  @param[in]  end_nsec    when it ended
  @param[in]  is_racy     true if a later map may trust more */
  void note(Written written, int64_t begin_nsec, int64_t end_nsec,
            bool is_racy) {
    m_last_write = end_nsec;
    m_rest_until =
        end_nsec + (written == Written::NO ? MAX_REST_NSEC
                                           : rest_nsec(end_nsec - begin_nsec));
    m_stale_since = 0;
    if (written == Written::YES) {
      m_n_racy = is_racy ? (m_is_stale ? 1 : m_n_racy + 1) : 0;
    }
  }

 private:
  int64_t m_rest_until{0};
  /** Since when the map is stale; 0 if it is not. */
  int64_t m_stale_since{0};
  int64_t m_last_write{0};
  /** Maps in a row that a later one may trust more than. */
  int m_n_racy{0};
  /** What must_write() was told. */
  bool m_is_stale{false};
};

struct Parts;

/** @return the ID of a tablespace of the dictionary, or SPACE_UNKNOWN
@param[in]  space  tablespace, or nullptr */
[[nodiscard]] space_id_t space_id_of(const dd::Tablespace *space);

/** Make the object of a tablespace that was left out at start-up, as the
dictionary says: the map may not know its file any more.
@param[in]  space  tablespace in the dictionary */
void open_general(const dd::Tablespace &space);

/** Writes the map when it is time to, with a thread of its own, and uses it
from then on. */
class Keeper {
 public:
  explicit Keeper(Parts &parts) : m_parts(parts) {}

  /** The server has started: go on with the journal, and start the threads.
  @param[in]  replayed      what the journal says
  @param[in]  is_clean      true if the dictionary agrees with the files
  @param[in]  is_all_known  true if the map and its journal have all directories
                            as they are */
  void start(Replayed replayed, bool is_clean, bool is_all_known);

  /** End the thread. Write the map if it is not up to date, and if that takes
  no longer than a second. */
  void stop();

 private:
  /** Make and write a map. DDL that goes on meanwhile changes directories,
  which the next start sees; the map is then written again. Only the thread may
  call this, or who has ended it.
  @param[in]  must_stop  asked time and again whether to give up
  @return what became of it */
  Written write(const std::function<bool()> &must_stop);

  /** @return true if there is nothing to be written any more: the map was found
  to be wrong or damaged */
  bool has_ended();

  /** @return true if the next start would not know all that it could */
  [[nodiscard]] bool is_stale() const;

  void run();

  Parts &m_parts;
  Tested_times m_tested_times;
  /** True if the dictionary was in order at this start, and no file was lost.
   */
  bool m_is_clean{false};
  /** True if the map in the file and its journal were right at the start, but
  for the session. */
  bool m_is_file_right{false};
  /** True if a later map may know or trust more than the last one. */
  bool m_is_racy{false};
  /** Changes of IDs before the last map. */
  uint64_t m_carried_id_seq{0};
  /** What keeps starts from reading less, as it was said last. */
  std::string m_obstacle;
  os_event_t m_stop{nullptr};
  /** The same, for a look without a wait. */
  std::atomic_bool m_must_stop{false};
  IB_thread m_thread;
};

/** What a start takes from the map, from the first look at a directory to the
last into the dictionary. The functions that are not explained are the hooks of
the same names in fil0map.h. */
class Start : public scan_observer::Observer {
 public:
  Start(Roots &roots, Current_map &current, Changes &changes, Unread &unread,
        Deferred &deferred, Read_ids &read_ids)
      : Observer(scan_observer::Place::MEMORY),
        m_roots(roots),
        m_current(current),
        m_changes(changes),
        m_unread(unread),
        m_deferred(deferred),
        m_read_ids(read_ids) {}

  /** The scan of the directories begins: read the map. */
  void begin(const scan_observer::Roots &roots) override;

  /** Take note of an ID that was found in a listed file. */
  void checked(space_id_t space_id) override;

  /** The headers are read. */
  bool end(bool has_duplicates) override;

  bool skip_directory(
      const std::string &path, bool is_recursive,
      const std::function<void(tablespace_scan::Dir &&)> &push_dir,
      const tablespace_scan::Push_file &push_file);
  std::optional<space_id_t> known_space_id(const std::string &path);

  /** Find a file of the map that the scan has listed.
  @param[in]   path   path of the file, beginning with that of its root
  @param[out]  found  the file
  @return true if its header need not be read */
  bool recognise(const std::string &path, Found &found) const;

  bool find_unlisted(space_id_t space_id, size_t &root, std::string &path);
  bool can_look_up(space_id_t space_id);
  bool must_scan();
  bool search_missing();
  dberr_t recheck(const std::vector<const dd::Tablespace *> &tablespaces);
  void end_recovery() { m_can_find = false; }
  bool fetch_tablespaces(dd::cache::Dictionary_client *client,
                         std::vector<const dd::Tablespace *> *tablespaces);
  bool is_dictionary_read() const;
  bool is_unread(space_id_t space_id, const std::string &path) const;
  bool can_wait(Fil_state state, space_id_t space_id, const char *space_name,
                const std::string &path, const dd::Properties &options,
                std::atomic_size_t &n_validated);
  void note_opened(space_id_t space_id, const std::string &path);
  void note_validation(size_t n_differing, size_t n_left);

  /** The server has started.
  @param[in,out]  keeper  keeps the map from now on */
  void finish(Keeper &keeper);

  /** @return true if it is certain that no other server has run since the map
  was written; known when recovery has ended */
  [[nodiscard]] bool is_ours() const { return m_is_ours; }

 private:
  struct Ddl_log;
  struct Difference;

  [[nodiscard]] const Image_ptr &map() const { return m_current.own(); }

  /** Take the files of a directory from the map and its journal.
  @param[in]  key        directory
  @param[in]  dir        what the journal says
  @param[in]  d          its number in the map, or -1
  @param[in]  push_file  called with each file that is not the map's
  @return false if it has to be listed */
  bool take_from_journal(const Dir_key &key, const Watched_dir &dir, int64_t d,
                         const std::string &path,
                         const tablespace_scan::Push_file &push_file);

  /** A directory that the map or its journal knows has to be listed all the
  same. */
  void note_listed_again(const std::string &path);

  /** Scan again without the map, which was rejected, in the middle of recovery.
  What was read of the redo log for a tablespace that only this scan finds is
  lost to this start, which fails then.
  @return true if recovery may go on */
  bool scan_in_recovery();

  /** What neither the dictionary nor any directory has was dropped: the next
  map has not lost it. */
  void forget_dropped(const std::vector<const dd::Tablespace *> &tablespaces);

  /** @return true if no other server has run since the map was written.
  Whatever a server does to the dictionary or to files, it makes the redo log
  longer; and it makes a new temporary file before that. The proof is the one
  that the dictionary names: a server with another innodb_temp_data_file_path
  would have left it alone, and its own name there. */
  bool is_ours(dd::cache::Dictionary_client *client) const;

  /** @return true if all that has changed since the map was written is in its
  journal: no file can be missing that only the dictionary knows */
  bool is_all_journalled() const;

  /** Find out how the files differ from those of the map.
  @return why that cannot be looked up in the dictionary, or nullptr */
  const char *find_difference(Difference &difference) const;

  /** Collect the names of the tablespaces of the map that the start needs.
  @param[in]   difference  how the files differ
  @param[in]   ddl_log     what it says
  @param[in]   has_ddl     true if DDL is rolled back or forward
  @param[out]  names       IDs (numbers, for undo) and names
  @param[out]  maybe       names that need not be in the dictionary any more
  @return false if that cannot be found out */
  bool needed_names(const Difference &difference, const Ddl_log &ddl_log,
                    bool has_ddl, std::map<std::string, space_id_t> &names,
                    std::unordered_set<std::string> &maybe);

  Roots &m_roots;
  Current_map &m_current;
  Changes &m_changes;
  Unread &m_unread;
  Deferred &m_deferred;
  Read_ids &m_read_ids;
  /** True during the scan of the start-up. */
  bool m_is_scanning{false};
  /** True if looking for unlisted files is allowed. */
  bool m_can_find{false};
  /** What the journal said when the server started. */
  Replayed m_replayed;
  /** Files that the journal has where the map has others or none. */
  std::atomic_size_t m_n_journal_files{0};
  /** True if the temporary file of the map's session is still there: the server
  that wrote the map was the last to run, and ended without a shutdown. */
  bool m_is_temp_file_same{false};
  std::atomic_size_t m_n_trusted{0};
  /** Directories that were listed, and how many of them would be worth to be
  trusted next time. A root is listed at most starts, since the server makes
  files there. */
  std::atomic_size_t m_n_listed{0};
  std::atomic_size_t m_n_listed_again{0};
  /** The first of these, for the error log, and what protects it. */
  std::string m_listed_dir;
  std::mutex m_listed_dir_mutex;
  std::atomic_size_t m_n_matched{0};
  std::atomic_size_t m_n_unknown{0};
  /** Tablespaces whose header was compared with the map for recovery. */
  std::unordered_set<space_id_t> m_compared;
  /** True if no transaction that recovery has found changes the dictionary, and
  no tablespace that was fetched of it is discarded. */
  bool m_is_settled{false};
  /** True if recovery has opened a file that is not where the dictionary says.
   */
  std::atomic_bool m_is_elsewhere{false};
  /** True if a scan without the map has failed, or came too late. */
  bool m_has_failed{false};
  /** True if it is certain that no other server has run since the map was
  written; known when recovery has ended. */
  bool m_is_ours{false};
  /** True if the start does not need the objects of all tablespaces. */
  bool m_may_wait{false};
  /** True if the dictionary was in order at this start. */
  bool m_is_clean{false};
};

/** All of them. */
struct Parts {
  Roots roots;
  Current_map current{roots};
  Changes changes{roots, current};
  Unread unread;
  Deferred deferred{roots, current, changes};
  Verifier verifier{unread, deferred};
  /** What the scan learned from headers that the map could not spare it. */
  Read_ids read_ids;
  Start start{roots, current, changes, unread, deferred, read_ids};
  Keeper keeper{*this};
};

/** @return those of the server. They stay until the process ends: threads may
be waiting for their mutexes then. */
[[nodiscard]] Parts &parts();

}  // namespace tablespace_map

#endif /* fil0mapparts_h */
