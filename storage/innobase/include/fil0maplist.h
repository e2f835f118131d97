/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file include/fil0maplist.h
What the directories hold, for a new map. */

#ifndef fil0maplist_h
#define fil0maplist_h

#include <cstdint>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "fil0journal.h"
#include "fil0mapimage.h"

namespace tablespace_map {

/** A tablespace that the server has an object of. */
struct Space {
  space_id_t id;
  uint32_t flags;
  std::string name;
  /** Path of its file, as the server has it. */
  std::string path;
  /** True if each start has to look it up and open it: the dictionary says by
  how much its file grows, or its name or its path may not be those. */
  bool must_open;
  /** True if it was found in a directory. */
  bool is_seen{false};
};

/** What a lister asks the server. */
class Server {
 public:
  virtual ~Server() = default;

  /** @return true if the list is not wanted any more; asked time and again */
  [[nodiscard]] virtual bool must_stop() const = 0;

  /** @return true if a tablespace was dropped, or is being dropped */
  [[nodiscard]] virtual bool is_dropped(space_id_t space_id) const = 0;

  /** @return true if a tablespace of the server may have no object yet */
  [[nodiscard]] virtual bool may_be_deferred(space_id_t space_id) const = 0;

  /** @return true if a file that no tablespace object has may yet get one, or
  have had one when they were collected */
  [[nodiscard]] virtual bool is_ddl_under_way() const = 0;

  /** @return tablespace ID that the start has read, or SPACE_UNKNOWN
  @param[in]  file  key of the file
  @param[in]  dir   its directory, as it is now */
  [[nodiscard]] virtual space_id_t read_id(const std::string &file,
                                           const Dir_identity &dir) const = 0;
};

/** Lists the directories for a map, and compares them with the last one. */
class Lister {
 public:
  /** @param[in]  roots      directories to list, with those below them
  @param[in]  last       the last map, or nullptr
  @param[in]  may_carry  true if what that says of files in directories that are
                         as they were is still right
  @param[in]  journal    gets what DDL does from when a directory is listed
  @param[in]  times      what was found out about file systems
  @param[in]  server     what the server knows
  @param[in]  sink       where the map is written to */
  Lister(const Roots &roots, Image_ptr last, bool may_carry, Journal &journal,
         Tested_times &times, const Server &server, Builder::Sink sink)
      : m_roots(roots),
        m_last(std::move(last)),
        m_may_carry(may_carry),
        m_journal(journal),
        m_times(times),
        m_server(server),
        m_builder(std::move(sink)) {}

  /** List all. What the caller knows is in summary() already.
  @param[in]  spaces  tablespaces that the server has objects of */
  void list(std::vector<Space> &&spaces);

  /** Write the rest of the map; after list().
  @param[in]  session  who writes it
  @return true if the map is complete */
  [[nodiscard]] bool finish(const Session &session);

  /** @return true if nothing more need be done, since there will be no map */
  [[nodiscard]] bool is_stopped() {
    m_is_stopped = m_is_stopped || m_server.must_stop();
    return m_is_stopped;
  }

  /** @return true if the new map has a tablespace; after list()
  @param[in]  space_id  tablespace ID */
  [[nodiscard]] bool has(space_id_t space_id) const;

  [[nodiscard]] Summary &summary() { return m_summary; }

  /** @return true if is_stopped() has found that */
  [[nodiscard]] bool was_stopped() const { return m_is_stopped; }

  /** @return true if a later map may trust more: a directory is too young */
  [[nodiscard]] bool may_trust_more() const { return m_is_racy; }

  /** @return true if a file is gone that nobody dropped */
  [[nodiscard]] bool has_loss() const { return m_has_loss; }

  /** @return why the next start has to read more than it should; empty if
  nothing keeps it from that */
  [[nodiscard]] const std::string &obstacle() const { return m_obstacle; }

 private:
  bool walk(uint32_t root, const std::string &path, uint32_t parent,
            uint32_t depth);
  bool carry_over(uint32_t old_no, const Directory &dir);
  void list(const std::string &phys, int64_t old_no, Directory &dir,
            std::vector<std::string> &children);
  bool list_file(const std::string &path, const std::string &name,
                 int64_t old_no, const Directory &dir);
  bool is_stray(space_id_t space_id);
  void add(const Directory &dir, const File &file, const Space *space);
  Space *find_space(const Directory &dir, const std::string &name);

  /** Take note that the map will be of less use than it could be.
  @param[in]  path  file or directory that is to blame
  @param[in]  why   what about it */
  void note_obstacle(const std::string &path, const char *why) {
    if (m_obstacle.empty()) {
      m_obstacle = "'" + path + "' " + why;
    }
  }

  /** @return true if the journal of the new map has a file: the map need not
  @param[in,out]  dir   its directory
  @param[in]      name  its name */
  bool is_touched(Directory &dir, const std::string &name) {
    const bool is_so = m_journal.is_touched({dir.root, dir.path}, name);

    dir.is_partial = dir.is_partial || is_so;
    return is_so;
  }

  const Roots &m_roots;
  const Image_ptr m_last;
  const bool m_may_carry;
  Journal &m_journal;
  Tested_times &m_times;
  const Server &m_server;
  Builder m_builder;
  Summary m_summary;
  bool m_is_stopped{false};
  bool m_is_racy{false};
  bool m_has_loss{false};
  /** True if a directory could not be listed to its end. */
  bool m_has_failed{false};
  std::string m_obstacle;
  std::unordered_map<std::string, Space> m_spaces;
  std::unordered_set<space_id_t> m_open_ids;
  /** Files that the last map said each start opens. */
  std::unordered_set<space_id_t> m_opened_before;
  /** Tablespace IDs of files that are not the server's. */
  std::unordered_set<space_id_t> m_stray_ids;
  /** What the directory that is listed was, before it got a time of our own. */
  Dir_identity m_before{};
};

}  // namespace tablespace_map

#endif /* fil0maplist_h */
