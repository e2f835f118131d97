/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file fil/fil0mapdefer.cc
Tablespaces whose objects the start has not made. */

#include "fil0mapparts.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>

#include "clone0clone.h"
#include "dict0dd.h"
#include "dict0dict.h"
#include "fil0map.h"
#include "fil0mapmsg.h"
#include "fsp0fsp.h"
#include "log0recv.h"
#include "my_dbug.h"
#include "my_sys.h"
#include "mysql/service_mysql_alloc.h"
#include "mysqld_error.h"
#include "os0enc.h"
#include "scope_guard.h"
#include "sql/dd/cache/dictionary_client.h"
#include "sql/dd/properties.h"
#include "sql/dd/types/tablespace.h"
#include "sql/handler.h"
#include "sql/mdl.h"
#include "sql/sql_backup_lock.h"
#include "sql/sql_class.h"
#include "sql/sql_error.h"
#include "srv0srv.h"

namespace tablespace_map {

namespace {

/** @return true if a tablespace has an object */
bool has_object(space_id_t space_id) {
  return fil_space_exists_in_mem(space_id, nullptr, false, false);
}

/** @return true if a master key is known: whatever opens an encrypted
tablespace learns the ID of its own */
bool is_key_known() {
  return Encryption::get_master_key_id() != Encryption::DEFAULT_MASTER_KEY_ID;
}

/** @return true if the keyring has the newest master key that is known */
bool has_key() {
  uint32_t key_id;
  byte *key = nullptr;

  if (!is_key_known()) {
    return false;
  }
  Encryption::get_master_key(&key_id, &key);
  my_free(key);
  return key != nullptr;
}

/** How many encrypted tablespaces are tried while no master key is known: the
keyring may not be there, and each of them would say so. */
constexpr size_t MAX_KEY_ATTEMPTS = 16;

/** The header of a file that was left out at start-up, read ahead by this
thread. */
thread_local struct {
  space_id_t space_id{SPACE_UNKNOWN};
  std::string path;
  File_header header;

  /** @return true if it is of a tablespace, and of the file that is there now.
  It holds for one question only.
  @param[in]  id  tablespace ID */
  bool is_of(space_id_t id) {
    File_identity now;

    return std::exchange(space_id, SPACE_UNKNOWN) == id && header.is_of(id) &&
           !parts().current.is_dropped(id) &&
           file_identity(AT_FDCWD, path, now) && now.is_same(header.identity);
  }
} t_read_ahead;

/** Read of a file that was left out at start-up what is needed to open it.
@param[in]  known  the file */
File_header read_for_object(const Known &known) {
  /* The key of an encrypted tablespace is in the page, too. */
  return read_header(
      known.path, recv_needed_recovery || FSP_FLAGS_GET_ENCRYPTION(known.flags)
                      ? srv_page_size
                      : 0);
}

/** The header of a file that was left out was read.
@param[in]  space_id  tablespace ID
@param[in]  known     the file
@param[in]  header    its header */
void set_read_ahead(space_id_t space_id, const Known &known,
                    File_header header) {
  t_read_ahead.path = known.path;
  t_read_ahead.header = std::move(header);
  t_read_ahead.space_id = space_id;
}

/** Make the object of a tablespace that was left out, whose header was read
ahead.
@param[in]  space_id  tablespace ID
@param[in]  known     its file
@param[in]  must      false if nobody has asked for it: it is left out if its
                      file is not the one of that header any more */
void make_object(space_id_t space_id, const Known &known, bool must) {
  /* Who loads the buffer pool has no session that debug sync could name. */
  while (DBUG_EVALUATE_IF("tablespace_map_before_open", true, false)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }

  /* As clone does: no other thread opens tables meanwhile. */
  IB_mutex_guard sys_mutex(&dict_sys->mutex, UT_LOCATION_HERE);

  /* Who drops a tablespace lets the map forget it before its object goes. */
  if (has_object(space_id) || parts().current.is_dropped(space_id)) {
    return;
  }

  if (!t_read_ahead.is_of(space_id)) {
    if (!must) {
      return;
    }
    t_read_ahead.header = read_header(known.path);
  }
  if (!t_read_ahead.header.is_of(space_id)) {
    return;
  }
  t_read_ahead.space_id = space_id;
  /* As the validation at start-up, which looks closer after a crash. */
  (void)fil_ibd_open(recv_needed_recovery, FIL_TYPE_TABLESPACE, space_id,
                     t_read_ahead.header.flags, known.name.c_str(),
                     known.path.c_str(), false, false);
}

/** Make the object of a tablespace that was left out, which somebody needs.
@param[in]  space_id  tablespace ID
@param[in]  known     its file */
void open_known(space_id_t space_id, const Known &known) {
  set_read_ahead(space_id, known, read_for_object(known));
  make_object(space_id, known, true);
}

/** A tablespace of the dictionary that was left out at start-up and has no
object. */
struct Left_out {
  space_id_t id;
  /** What the dictionary says of it. */
  Known known;
};

/** @return those that are left out, the largest ID first
@param[in]  spaces  all of the dictionary */
std::vector<Left_out> left_out(
    const std::vector<const dd::Tablespace *> &spaces) {
  std::vector<Left_out> found;

  for (const auto space : spaces) {
    const auto &data = space->se_private_data();
    space_id_t id;
    uint32_t flags;

    if (space->engine() == innobase_hton_name && !space->files().empty() &&
        !data.get(dd_space_key_strings[DD_SPACE_ID], &id) &&
        !data.get(dd_space_key_strings[DD_SPACE_FLAGS], &flags) &&
        is_late(id) && !has_object(id) && !dd_tablespace_is_discarded(space)) {
      found.push_back({id,
                       {(*space->files().begin())->filename().c_str(),
                        space->name().c_str(),
                        flags,
                        {}}});
    }
  }
  std::sort(found.begin(), found.end(),
            [](const auto &a, const auto &b) { return a.id > b.id; });
  return found;
}

/** Say which tablespaces have no object.
@param[in]  what   that they are missing for
@param[in]  names  their names
@return what was said, without the names */
std::string report_missing(const char *what,
                           const std::vector<std::string> &names) {
  /** How many are named. */
  constexpr size_t MAX_NAMED = 10;
  std::ostringstream out;
  std::ostringstream named;

  out << names.size() << what;
  for (size_t i = 0; i < std::min(names.size(), MAX_NAMED); ++i) {
    named << (i == 0 ? ": " : ", ") << names[i];
  }
  if (names.size() > MAX_NAMED) {
    named << ", ...";
  }
  ib::warn(MSG_NOT_OPENED) << "Tablespace map: " << out.str() << named.str();
  return out.str();
}

}  // namespace

std::optional<Known> Deferred::find(space_id_t space_id) const {
  if (m_current.is_dropped(space_id)) {
    return std::nullopt;
  }

  const auto image = m_current.image();
  Found found;

  if (image == nullptr || !image->reader.find(space_id, found) ||
      found.file.is_stray ||
      (image->reader.id() == m_start_map_id && m_added.count(space_id) != 0)) {
    return std::nullopt;
  }
  const auto &dir = image->dir(found.dir);

  return Known{m_roots.file_path(place_of(dir, found.file)),
               space_name(dir, found.file), found.file.flags,
               found.file.identity};
}

bool Deferred::has(space_id_t space_id) const {
  if (!g_enabled || !m_is_validating || m_has_ended ||
      !fsp_is_ibd_tablespace(space_id)) {
    return false;
  }
  if (m_is_all) {
    return m_added.count(space_id) == 0;
  }
  const std::lock_guard guard(m_mutex);
  return m_ids.count(space_id) != 0;
}

void Deferred::note_dropped(space_id_t space_id) {
  /* What was made since the start has another ID. */
  if (has(space_id) && (!m_is_all || space_id <= m_max_id)) {
    const std::lock_guard guard(m_mutex);
    m_gone.insert(space_id);
  }
}

void Deferred::end() {
  if (!any()) {
    return;
  }
  m_has_ended = true;

  /* Clone need not ask the dictionary for them any more. One that is under way
  may be just doing that. */
  mutex_enter(clone_sys->get_mutex());
  if (!std::get<0>(clone_sys->check_active_clone())) {
    clone_sys->set_space_initialized();
  }
  mutex_exit(clone_sys->get_mutex());
}

void Deferred::learn_key() const {
  size_t n_attempts = 0;

  if (m_current.own() == nullptr) {
    return;
  }
  const auto &ids = m_current.own()->reader.summary().encrypted;

  for (auto id = ids.rbegin();
       id != ids.rend() && !is_key_known() && n_attempts < MAX_KEY_ATTEMPTS;
       ++id) {
    if (has(*id) && find(*id)) {
      tablespace_map::open(*id);
      ++n_attempts;
    }
  }
}

File_header Deferred::verify(space_id_t space_id) {
  /* What has an object was compared when that was made, and its file is locked:
  to close it, in whatever way it was opened, would give the lock up. */
  if (has_object(space_id)) {
    return {};
  }
  const auto seq = m_changes.seq();
  /* Before the file is looked up, which may be in the map before this one. */
  const auto written_seq = m_changes.written_seq();
  const auto known = find(space_id);

  if (!known || m_current.is_given_up()) {
    return {};
  }

  auto header = read_for_object(*known);

  if (header.state != Header_state::UNREADABLE) {
    ++g_status.files_verified;
  }

  /* After DDL that is not in the map yet, there may be no file of that name, or
  another one; during DDL it may have any ID. Such a file is left to those who
  open it. */
  const bool is_ddl = m_changes.is_ddl_since(seq) ||
                      m_current.is_dropped(space_id) ||
                      (written_seq != seq && seq != Changes::FIRST_SEQ &&
                       !known->identity.is_same(header.identity));

  if (header.is_not_of(space_id) && !is_ddl) {
    ++g_status.files_differing;
    ib::warn(MSG_CHANGED_IN_PLACE)
        << "Tablespace map: file '" << known->path
        << "' was taken for tablespace " << space_id << ", name '"
        << known->name << "', and was changed in place: "
        << (header.space_id == SPACE_UNKNOWN
                ? std::string("it has no plain header")
                : "its header has the ID " + std::to_string(header.space_id));
    m_current.give_up("a file was changed in place");
  }
  return header;
}

bool Deferred::make(space_id_t space_id, File_header header) {
  /* A file that was not where the dictionary says is not opened here. */
  if (!has(space_id)) {
    return true;
  }
  const auto known = find(space_id);

  if (known && header.is_of(space_id) && !has_object(space_id)) {
    set_read_ahead(space_id, *known, std::move(header));
    make_object(space_id, *known, false);
  }
  /* In this order: who drops a tablespace says so before its object goes. */
  if (has_object(space_id)) {
    return true;
  }
  const std::lock_guard guard(m_mutex);
  return m_gone.count(space_id) != 0;
}

bool is_late(space_id_t space_id) { return parts().deferred.has(space_id); }

bool is_lazy() { return parts().deferred.any(); }

bool is_discarded(const dd::Tablespace *space) {
  /* Clone asks in the middle of what it does, and may have begun before all
  were open. */
  return parts().deferred.were_any() && dd_tablespace_is_discarded(space);
}

bool is_left_out(space_id_t space_id, const char *space_name,
                 const char *path) {
  if (!is_late(space_id)) {
    return false;
  }
  const auto known = parts().deferred.find(space_id);
  std::string normalized{path};

  Fil_path::normalize(normalized);
  return known && known->name == space_name &&
         is_same_path(known->path, normalized);
}

void read_ahead(space_id_t space_id) {
  if (!is_late(space_id)) {
    return;
  }
  if (const auto known = parts().deferred.find(space_id)) {
    set_read_ahead(space_id, *known, read_for_object(*known));
  }
}

bool must_validate(bool validate, fil_type_t purpose, space_id_t space_id) {
  if (purpose != FIL_TYPE_TABLESPACE || !is_late(space_id)) {
    return validate;
  }
  /* After a crash all of the first page, whoever opens it. */
  if (recv_needed_recovery) {
    return true;
  }
  if (t_read_ahead.is_of(space_id)) {
    return false;
  }
  const auto known = parts().deferred.find(space_id);

  if (known && read_header(known->path).is_of(space_id)) {
    return false;
  }
  (void)parts().deferred.verify(space_id);
  return true;
}

void open(space_id_t space_id) {
  /* A file that was not where the dictionary says is not opened here. */
  if (!is_late(space_id) || has_object(space_id)) {
    return;
  }
  if (const auto known = parts().deferred.find(space_id)) {
    open_known(space_id, *known);
  }
}

void open_general(const dd::Tablespace &space) {
  for (const auto &found : left_out({&space})) {
    open_known(found.id, found.known);
  }
}

void open_general(THD *thd, const char *name) {
  if (!is_lazy() || fil_space_get_id_by_name(name) != SPACE_UNKNOWN) {
    return;
  }

  /* Who makes a temporary table has no lock of it. Others have the same one,
  and what is being altered or dropped is not waited for. */
  auto &locks = thd->mdl_context;
  MDL_request request;

  request.ticket = nullptr;
  if (!locks.owns_equal_or_stronger_lock(MDL_key::TABLESPACE, "", name,
                                         MDL_INTENTION_EXCLUSIVE)) {
    MDL_REQUEST_INIT(&request, MDL_key::TABLESPACE, "", name,
                     MDL_INTENTION_EXCLUSIVE, MDL_EXPLICIT);
    if (locks.try_acquire_lock(&request) || request.ticket == nullptr) {
      return;
    }
  }
  /* After what the dictionary client has taken is released. */
  const auto lock_guard = create_scope_guard([&]() {
    if (request.ticket != nullptr) {
      locks.release_lock(request.ticket);
    }
  });
  const auto client = dd::get_dd_client(thd);
  const dd::cache::Dictionary_client::Auto_releaser releaser(client);
  const dd::Tablespace *space = nullptr;

  if (!client->acquire(dd::String_type(name), &space) && space != nullptr) {
    open_general(*space);
  }
}

void open_sdi(table_id_t table_id, bool dict_locked) {
  if (!dict_locked && is_lazy() && dict_table_is_sdi(table_id)) {
    open(dict_sdi_get_space_id(table_id));
  }
}

bool open_encrypted(THD *thd) {
  size_t n_attempts = 0;
  size_t n_without_key = 0;
  std::vector<std::string> missing;
  std::vector<const dd::Tablespace *> spaces;

  /* Without the keyring rotation fails, and each of them would say so. */
  if (!is_lazy() || (is_key_known() && !has_key())) {
    return true;
  }

  const auto client = dd::get_dd_client(thd);
  const dd::cache::Dictionary_client::Auto_releaser releaser(client);

  /* The dictionary knows what the map may not: a file may have got a second
  name, or be unreadable when the map was written. */
  if (client->fetch_global_components(&spaces)) {
    return false;
  }
  for (const auto &space : left_out(spaces)) {
    if (!FSP_FLAGS_GET_ENCRYPTION(space.known.flags)) {
      continue;
    }
    bool is_right = true;

    if (is_key_known() || n_attempts++ < MAX_KEY_ATTEMPTS) {
      auto header = read_for_object(space.known);

      is_right = header.is_of(space.id);
      set_read_ahead(space.id, space.known, std::move(header));
      make_object(space.id, space.known, true);
    }
    if (!has_object(space.id)) {
      if (is_right) {
        ++n_without_key;
      } else {
        missing.push_back(space.known.name);
      }
    }
  }
  if (n_without_key > 0) {
    /* They would not have been opened at start-up either; of each that was
    tried the error log says so. */
    ib::info(MSG_NO_KEYS)
        << "Tablespace map: the keys of " << n_without_key
        << " encrypted tablespaces are not in the keyring; they keep the master"
        << " key that they have";
  }
  if (!missing.empty()) {
    push_warning(thd, Sql_condition::SL_WARNING, ER_UNKNOWN_ERROR,
                 report_missing(" encrypted tablespaces could not be opened; "
                                "they keep the master key that they have",
                                missing)
                     .c_str());
  }
  return true;
}

bool refuse_clone(THD *thd, const std::vector<const dd::Tablespace *> &spaces) {
  std::vector<std::string> missing;

  if (is_lazy()) {
    for (const auto &space : left_out(spaces)) {
      missing.push_back(space.known.name);
    }
  }
  if (missing.empty()) {
    return false;
  }
  const auto said =
      report_missing(" tablespaces could not be opened to be cloned", missing);

  my_error(ER_INTERNAL_ERROR, MYF(0), (said + ": " + missing[0]).c_str());
  release_backup_lock(thd);
  return true;
}

char *first_path(space_id_t space_id) {
  if (!is_late(space_id)) {
    return nullptr;
  }
  const auto known = parts().deferred.find(space_id);

  return known ? mem_strdup(known->path.c_str()) : nullptr;
}

bool show_file(space_id_t space_id, ha_tablespace_statistics &stats) {
  if (!is_late(space_id) || has_object(space_id)) {
    return false;
  }
  const auto known = parts().deferred.find(space_id);

  if (!known) {
    return false;
  }

  /* Nothing of the file has been read, as after any clean start. */
  const page_size_t page_size{known->flags};
  const auto n_bytes = page_size.physical();

  stats.m_id = space_id;
  stats.m_type = "TABLESPACE";
  stats.m_free_extents = 0;
  stats.m_total_extents = 0;
  stats.m_extent_size = fsp_get_extent_size_in_pages(page_size) * n_bytes;
  stats.m_initial_size = 0;
  stats.m_maximum_size = ~0ULL;
  stats.m_autoextend_size = fsp_get_pages_to_extend_ibd(page_size, 0) * n_bytes;
  stats.m_data_free = 0;
  stats.m_status = "NORMAL";
  return true;
}

void open(const char *space_name) {
  if (!is_lazy()) {
    return;
  }

  const std::string_view name{space_name};
  const auto pos = name.find('/');
  const auto image = parts().current.image();

  if (pos == std::string_view::npos || image == nullptr) {
    return;
  }

  const auto &reader = image->reader;
  /* One that is elsewhere is left to those who open it. */
  const auto place =
      Place_finder{parts().roots}.find("./" + std::string(name) + dot_ext[IBD]);

  if (!place) {
    return;
  }

  const auto slash = place->second.rfind('/');
  const auto d = reader.summary().find_dir(
      place->first, std::string_view(place->second).substr(0, slash));
  Found found;

  if (d >= 0 &&
      reader.find_file(d, std::string_view(place->second).substr(slash + 1),
                       found)) {
    open(found.file.space_id);
  }
}

void Verifier::start(Image_ptr image) {
  m_image = std::move(image);
  m_stop = os_event_create();
  m_thread = os_thread_create(PFS_NOT_INSTRUMENTED, 1, [this]() { run(); });
  m_thread.start();
}

void Verifier::stop() {
  m_must_stop.store(true);
  os_event_set(m_stop);
  m_thread.join();
  os_event_destroy(m_stop);
}

void Verifier::run() {
  /** How often the rate is looked at. */
  constexpr auto TICK = std::chrono::milliseconds(100);
  double budget = 0;
  bool is_keyring_there = true;

  /* Waits until a header may be read; returns false at shutdown. */
  const auto wait = [this, &budget, TICK]() {
    while (budget < 1) {
      if (os_event_wait_time(m_stop, TICK) != OS_SYNC_TIME_EXCEEDED) {
        return false;
      }
      budget = g_verify_rate == 0 ? 0 : budget + g_verify_rate / 10.0;
    }
    --budget;
    return !m_must_stop.load();
  };

  const auto image = std::move(m_image);
  size_t n_left = 0;

  for (uint32_t d = 0; image != nullptr && d < m_unread.n_dirs(); ++d) {
    if (!image->reader.read_files(d, [&](const File &file, uint32_t no) {
          if (m_unread.has(d, no) && !file.is_stray) {
            const bool is_encrypted = FSP_FLAGS_GET_ENCRYPTION(file.flags);

            if (!wait()) {
              return false;
            }
            auto header = m_deferred.verify(file.space_id);
            const bool is_right = header.is_of(file.space_id);

            if (m_must_stop) {
              return false;
            }
            if (is_encrypted && !is_keyring_there) {
              /* Each of them would say that it is not. */
              header = {};
            }
            if (!m_deferred.make(file.space_id, std::move(header))) {
              ++n_left;
              if (is_encrypted && is_right) {
                is_keyring_there = is_keyring_there && has_key();
              }
            }
          }
          return true;
        })) {
      return;
    }
  }
  m_unread.begin(0, 0);
  if (n_left == 0) {
    m_deferred.end();
  }

  ib::info(MSG_VERIFIED) << "Tablespace map: " << g_status.files_verified
                         << " headers were read after startup, "
                         << g_status.files_differing << " were different, "
                         << n_left << " tablespaces were not opened";
}

}  // namespace tablespace_map
