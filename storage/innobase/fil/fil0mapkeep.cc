/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file fil/fil0mapkeep.cc
Writing the map. */

#include "fil0mapparts.h"

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fil0fil.h"
#include "fil0mapmsg.h"
#include "fsp0fsp.h"
#include "fsp0sysspace.h"
#include "log0log.h"
#include "my_dbug.h"
#include "srv0srv.h"
#include "trx0purge.h"

namespace tablespace_map {

namespace {

/** Makes a new map. */
class Writer : private Server {
 public:
  /** @param[in]  parts  what the server knows
  @param[in]  must_stop  asked time and again whether to give up
  @param[in]  may_carry  true if what the last map says of files in directories
                         that are as they were is still right
  @param[in]  times      what was found out about file systems */
  Writer(Parts &parts, std::function<bool()> must_stop, bool may_carry,
         Tested_times &times)
      : m_parts(parts),
        m_must_stop(std::move(must_stop)),
        m_lister(parts.roots, parts.current.own(), may_carry,
                 parts.changes.journal(), times, *this,
                 [this](uint64_t offset, std::string_view bytes) {
                   return write_all(m_fd, offset, bytes);
                 }) {}

  ~Writer() override {
    if (m_fd >= 0) {
      close(m_fd);
    }
    if (m_has_temp) {
      (void)unlink(map_path(TEMP_NAME).c_str());
    }
  }

  /** Collect what is there, and write it to a temporary file.
  @param[in]  is_clean  true if the dictionary was in order so far
  @return true if that is complete */
  bool make(bool is_clean) {
    const std::string temp = map_path(TEMP_NAME);

    (void)unlink(temp.c_str());
    m_fd = ::open(temp.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC,
                  S_IRUSR | S_IWUSR | S_IRGRP);
    if (m_fd < 0) {
      return false;
    }
    m_has_temp = true;

    DBUG_EXECUTE_IF("tablespace_map_crash_before_write", DBUG_SUICIDE(););

    auto &summary = m_lister.summary();

    summary.config = config_of(m_parts.roots);
    summary.is_clean = is_clean;
    summary.temp_path = srv_tmp_space.first_datafile()->filepath();
    const auto session = m_parts.current.make_session(false);
    m_lister.list(collect_spaces());

    if (!m_lister.finish(session)) {
      return false;
    }

    /* What cannot be read must not be written. */
    m_image = std::make_shared<Image>();
    const char *reason = m_image->open(m_fd);
    m_fd = -1;
    m_image->keep_few();
    return reason == nullptr && !m_lister.is_stopped() &&
           m_image->reader.check();
  }

  /** Let the file take the place of the map.
  @return true if it did */
  bool put_in_place() {
    /* The dictionary may be ahead of the redo log now. */
    const auto &session = m_image->reader.session();

    if (!srv_redo_log && (session.end_lsn != 0 || session.temp_file.ino != 0)) {
      return false;
    }

    DBUG_EXECUTE_IF("tablespace_map_crash_before_fsync", DBUG_SUICIDE(););
    if (!m_image->sync()) {
      return false;
    }

    DBUG_EXECUTE_IF("tablespace_map_crash_before_rename", DBUG_SUICIDE(););
    if (rename(map_path(TEMP_NAME).c_str(), map_path(MAP_NAME).c_str()) != 0) {
      return false;
    }
    m_has_temp = false;

    DBUG_EXECUTE_IF("tablespace_map_crash_before_dir_fsync", DBUG_SUICIDE(););
    sync_directory(MySQL_datadir_path.path());
    return true;
  }

  /** @return the new map, after make() */
  [[nodiscard]] const Image_ptr &image() const { return m_image; }

  /** @return what was found; after make() */
  [[nodiscard]] const Lister &lister() const { return m_lister; }

 private:
  bool must_stop() const override { return m_must_stop(); }
  bool is_dropped(space_id_t space_id) const override {
    return m_parts.current.is_dropped(space_id);
  }
  bool may_be_deferred(space_id_t space_id) const override {
    return !m_parts.deferred.is_validating() || m_parts.deferred.has(space_id);
  }
  bool is_ddl_under_way() const override {
    return m_n_ddl != 0 || m_seq != m_parts.changes.seq();
  }
  space_id_t read_id(const std::string &file,
                     const Dir_identity &dir) const override {
    return m_parts.read_ids.find(file, dir);
  }

  std::vector<Space> collect_spaces() {
    std::vector<Space> spaces;
    auto &summary = m_lister.summary();

    const dberr_t err = Fil_iterator::for_each_file([&](fil_node_t *node) {
      const auto space = node->space;

      if (fsp_is_undo_tablespace(space->id)) {
        summary.undo.emplace_back(undo::id2num(space->id), space->name);
      } else if (fsp_is_ibd_tablespace(space->id) && !space->is_deleted() &&
                 space->purpose == FIL_TYPE_TABLESPACE) {
        spaces.push_back({space->id, space->flags, space->name, node->name,
                          space->autoextend_size_in_bytes > 0 ||
                              m_parts.changes.is_looked_up(space->id),
                          false});
      }
      return DB_SUCCESS;
    });

    if (err != DB_SUCCESS) {
      summary.is_clean = false;
    }
    return spaces;
  }

  Parts &m_parts;
  const std::function<bool()> m_must_stop;
  /** DDL when make() began; in this order, the reverse of Changes::begin(). */
  const uint64_t m_seq{m_parts.changes.seq()};
  const uint64_t m_n_ddl{m_parts.changes.n_ddl()};
  Image_ptr m_image;
  /** The temporary file, until the image has it. */
  int m_fd{-1};
  /** True as long as there is a temporary file. */
  bool m_has_temp{false};
  Lister m_lister;
};

/** @return what looks directories up in a map
@param[in]  image  the map */
Journal::Find_base base_of(const Image_ptr &image) {
  return [image](uint32_t root, const std::string &path) {
    Journal::Base base;
    const auto d = image->reader.summary().find_dir(root, path);

    if (d >= 0) {
      base.is_there = true;
      base.is_partial = image->dir(d).is_partial;
      if (image->dir(d).is_trusted) {
        base.identity = image->dir(d).identity;
      }
    }
    return base;
  };
}

/** How often to look whether the map has to be written. */
constexpr auto POLL = std::chrono::milliseconds(500);
/** How long a shutdown may wait for a new map. */
constexpr auto MAX_SHUTDOWN = std::chrono::seconds(1);

int64_t monotonic_nsec() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

Written Keeper::write(const std::function<bool()> &must_stop) {
  auto &current = m_parts.current;
  auto &changes = m_parts.changes;
  const auto mark = changes.mark();

  if (changes.is_importing()) {
    /* The header of a file may change after it was read. */
    return Written::STOPPED;
  }

  /* The new map may get what is not in the last one. */
  current.dropped().limit(SPACE_UNKNOWN);

  changes.journal().begin_map();

  /* An import may have changed the ID of a file that has another name in a
  directory that is as it was. */
  Writer writer(m_parts, must_stop, m_carried_id_seq == mark.id_seq,
                m_tested_times);
  bool is_written = writer.make(m_is_clean);

  if (is_written) {
    const std::lock_guard guard(current.file_mutex());

    /* Who has found the map wrong meanwhile, has removed it. */
    is_written = changes.import_seq() == mark.import_seq &&
                 !current.is_given_up() && writer.put_in_place();
    if (is_written) {
      current.set(writer.image());
      changes.journal().end_map(map_path(JOURNAL_NAME),
                                writer.image()->reader.id(),
                                base_of(writer.image()));
    }
  }

  const auto &lister = writer.lister();

  if (!is_written) {
    changes.journal().cancel_map();
    current.dropped().use(current.max_id(), [](space_id_t) { return true; });
    return lister.was_stopped() || changes.import_seq() != mark.import_seq
               ? Written::STOPPED
               : Written::NO;
  }
  /* Not before: what is not in this map may have been in the last one. */
  current.dropped().use(current.max_id(),
                        [&lister](space_id_t id) { return lister.has(id); });
  /* The next map knows nothing of that file. */
  m_is_clean = m_is_clean && !lister.has_loss();
  m_is_racy = lister.may_trust_more();
  changes.note_written(mark);
  m_carried_id_seq = mark.id_seq;
  m_parts.read_ids.clear();

  if (!m_is_racy && !changes.is_ddl_since(mark.seq) &&
      m_obstacle != lister.obstacle()) {
    m_obstacle = lister.obstacle();
    if (!m_obstacle.empty()) {
      ib::info(MSG_OBSTACLE)
          << "Tablespace map: each start looks at more than it would have to: "
          << m_obstacle;
    }
  }
  return Written::YES;
}

bool Keeper::has_ended() {
  const auto &image = m_parts.current.own();

  if (image != nullptr && image->reader.is_damaged()) {
    m_parts.current.give_up(DAMAGED);
  }
  return m_parts.current.is_given_up();
}

bool Keeper::is_stale() const {
  const auto &image = m_parts.current.own();

  return m_parts.changes.is_stale() || image == nullptr ||
         m_parts.changes.journal().is_large(image->reader.n_bytes(),
                                            image->reader.n_files());
}

void Keeper::run() {
  Write_policy policy;
  bool has_warned = false;
  bool has_warned_of_journal = false;

  if (m_is_file_right && !m_parts.current.write_session(false)) {
    m_parts.changes.set_stale();
  }

  while (os_event_wait_time(m_stop, POLL) == OS_SYNC_TIME_EXCEEDED) {
    if (has_ended()) {
      return;
    }

    /* In this order: DDL that ends in between must not seem to be long ago. */
    const auto is_dirty = is_stale();
    const auto begin = monotonic_nsec();
    const auto quiet = std::abs(now_nsec() - m_parts.changes.last_nsec());

    if (!policy.must_write(begin, is_dirty, quiet)) {
      continue;
    }

    const auto written = write([this]() { return m_must_stop.load(); });

    policy.note(written, begin, monotonic_nsec(), m_is_racy);

    if (written == Written::YES) {
      if (!m_parts.changes.journal().is_written() && !has_warned_of_journal) {
        has_warned_of_journal = true;
        ib::warn(MSG_JOURNAL_NOT_WRITTEN)
            << "Tablespace map: its journal cannot be written to '"
            << map_path(JOURNAL_NAME) << "'; DDL makes a new map each time";
      }
    } else if (written == Written::NO && !has_ended() && !has_warned) {
      has_warned = true;
      ib::warn(MSG_NOT_WRITTEN) << "Tablespace map cannot be written to '"
                                << map_path(TEMP_NAME) << "'";
    }
  }
}

void Keeper::start(Replayed replayed, bool is_clean, bool is_all_known) {
  const auto image = m_parts.current.own();
  auto &changes = m_parts.changes;

  m_parts.current.dropped().limit(m_parts.current.max_id());
  if (image != nullptr) {
    image->keep_few();
  }
  m_is_clean = is_clean;
  if (m_parts.deferred.is_all() && m_is_clean &&
      image->reader.summary().temp_path ==
          srv_tmp_space.first_datafile()->filepath()) {
    m_is_file_right = true;
    if (is_all_known) {
      changes.note_start_written();
    }
  }
  if (image != nullptr) {
    const auto path = map_path(JOURNAL_NAME);

    if (replayed.is_valid) {
      (void)changes.journal().go_on(path, std::move(replayed), base_of(image));
    } else {
      (void)changes.journal().create(path, image->reader.id(), base_of(image));
    }
  }

  changes.serve(true);
  m_stop = os_event_create();
  m_thread = os_thread_create(PFS_NOT_INSTRUMENTED, 0, [this]() { run(); });
  m_thread.start();
  m_parts.verifier.start(image);
}

void Keeper::stop() {
  auto &current = m_parts.current;
  auto &journal = m_parts.changes.journal();
  const auto end = std::chrono::steady_clock::now() + MAX_SHUTDOWN;

  m_parts.changes.serve(false);
  current.set_shut_down();
  m_must_stop.store(true);
  os_event_set(m_stop);
  m_thread.join();
  os_event_destroy(m_stop);

  if (has_ended()) {
    return;
  }
  if (!is_stale() && !m_is_racy && journal.end() &&
      current.write_session(false)) {
    return;
  }

  const auto written =
      write([end]() { return std::chrono::steady_clock::now() >= end; });

  (void)journal.end();
  if (written != Written::YES && !has_ended()) {
    (void)current.write_session(true);
  }
  if (written == Written::STOPPED) {
    ib::info(MSG_NO_TIME)
        << "Tablespace map was not written, for shutdown not to wait; the"
        << " next start looks at what has changed since the last one";
  } else if (written == Written::NO && !has_ended()) {
    ib::warn(MSG_NOT_WRITTEN) << "Tablespace map was not written";
  }
}

}  // namespace tablespace_map
