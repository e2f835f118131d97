/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file log/log0copies.cc
Copies of pages in the doublewrite buffer: read when a start needs them.

When. MySQL reads the doublewrite files whole at each start, before it knows how
the last shutdown was: 16 MiB by default, more with more instances of the buffer
pool or a larger innodb_doublewrite_pages. After a clean shutdown nobody looks
at the copies, but for a damaged first page of the system tablespace. Here the
files are found, opened and looked at as ever, and closed again; they are read
when recovery begins, or when such a page is found. Until then nothing is
written through the doublewrite buffer: dblwr::open() adds zeros to files that
are shorter than the settings want, which restore nothing, as those that MySQL
finds in a file.

Once redo was read nothing is read any more, for the files are written then. A
page that is found damaged later, when the DDL log is replayed after a clean
shutdown, has no copy of the life before.

On Windows a file that is open to be written cannot be opened again, so they are
read at once. If a file cannot be read, MySQL's start ends in order, this one
with an assertion.

Which of them. MySQL reads each page of which there is a copy, to see whether it
is torn: up to 1,024 by default, one after the other, all of the files that were
written when the data directory was made among them. A page leaves the flush
list when it was written, and a checkpoint syncs all files before it passes the
LSN at which the page was first changed. So a page whose copy is older than the
checkpoint is whole, unless it was written again later. Then it has redo, and a
newer copy, which may be lost: with O_DIRECT, MySQL does not sync copies before
pages. So only pages that have redo are compared with copies of before the
checkpoint, each once, before its redo is applied. If there are several batches,
the first one may overwrite copies of pages of the next: then all pages of open
tablespaces are compared before it, and those of others as they are opened.

What for. MySQL restores a torn page when its tablespace is opened for redo. By
then the pages that were written, of a batch before or of other tablespaces,
have taken the place of copies, and a server that is killed leaves torn pages
for good. So they are restored before the first batch. */

#include "log0copies.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "fil0fil.h"
#include "fil0map.h"
#include "fsp0fsp.h"
#include "log0flush.h"
#include "log0recv.h"
#include "log0redo.h"
#include "mach0data.h"
#include "os0enc.h"
#include "os0file.h"
#include "page0page.h"
#include "srv0srv.h"
#include "ut0log.h"

namespace redo_recovery {

namespace {

/** What a file says of itself at its beginning. */
struct Head {
  /** Constructor.
  @param[in]  path  file */
  explicit Head(const std::string &path);

  /** Tablespace, and its flags; nothing if it cannot be read. */
  std::optional<std::pair<space_id_t, uint32_t>> space;
};

Head::Head(const std::string &path) {
  bool is_open;
  const auto file = os_file_create_simple_no_error_handling(
      innodb_data_file_key, path.c_str(), OS_FILE_OPEN, OS_FILE_READ_ONLY, true,
      &is_open);

  if (!is_open) {
    return;
  }

  /* From the beginning, so that the server takes it for no page to decrypt or
  to decompress. */
  IORequest request(IORequest::READ);
  byte head[FSP_HEADER_OFFSET + FSP_SPACE_FLAGS + sizeof(uint32_t)];

  request.disable_compression();
  request.disable_partial_io_warnings();

  const auto err = os_file_read_no_error_handling(
      request, path.c_str(), file, head, 0, sizeof(head), nullptr);

  os_file_close(file);

  if (err == DB_SUCCESS) {
    const auto header = head + FSP_HEADER_OFFSET;

    space.emplace(mach_read_from_4(header + FSP_SPACE_ID),
                  mach_read_from_4(header + FSP_SPACE_FLAGS));
  }
}

/** @return true if a tablespace gets its key when it is opened for redo
@param[in]  space_id  tablespace */
bool gets_key(space_id_t space_id) {
  return recv_sys->keys != nullptr &&
         std::any_of(recv_sys->keys->begin(), recv_sys->keys->end(),
                     [=](const auto &key) { return key.space_id == space_id; });
}

/** @return true if a file is that of a tablespace, as its first page says
@param[in]  path      file
@param[in]  space_id  tablespace ID */
bool is_file_of(const std::string &path, space_id_t space_id) {
  const auto space = Head{path}.space;

  return space && space->first == space_id;
}

}  // namespace

Copies g_copies;

bool is_undo_without_key(space_id_t space_id) {
  if (!fsp_is_undo_tablespace(space_id)) {
    return false;
  }
  const auto space = Head{fil_scanned_path(space_id)}.space;

  return space && space->first == space_id &&
         !FSP_FLAGS_GET_ENCRYPTION(space->second);
}

bool Copies::defer([[maybe_unused]] const std::string &path,
                   [[maybe_unused]] const dblwr::recv::Pages *pages,
                   [[maybe_unused]] Load load) {
#ifdef _WIN32
  return false;
#else
  if (!is_on() || m_state != State::DEFERRED) {
    return false;
  }

  m_files.emplace_back(path, std::move(load));
  m_pages = pages;

  return true;
#endif /* _WIN32 */
}

void Copies::note(const byte *page) {
  auto &space = m_spaces[mach_read_from_4(page + FIL_PAGE_SPACE_ID)];

  space.lsn = std::max(space.lsn, mach_read_from_8(page + FIL_PAGE_LSN));
  space.is_encrypted |= Encryption::is_encrypted_page(page);
}

void Copies::read(const dblwr::recv::Pages *pages) {
  if (m_state != State::DEFERRED || pages != m_pages) {
    return;
  }

  m_state = State::OVER;

  /* They stay open: to close one would take away the lock that dblwr::open()
  has got for it. */
  for (const auto &[path, load] : m_files) {
    bool is_open;
    const auto handle = os_file_create_simple_no_error_handling(
        innodb_dblwr_file_key, path.c_str(), OS_FILE_OPEN, OS_FILE_READ_ONLY,
        true, &is_open);

    if (!is_open || load(handle) != DB_SUCCESS) {
      ib::fatal(UT_LOCATION_HERE, ER_IB_MSG_383,
                ("Cannot read " + path + ", which recovery needs").c_str());
    }
  }

  copies_are_read();
}

bool Copies::is_old(lsn_t lsn) {
#ifndef _WIN32
  if (srv_unix_file_flush_method == SRV_UNIX_O_DIRECT_NO_FSYNC ||
      srv_unix_file_flush_method == SRV_UNIX_LITTLESYNC ||
      srv_unix_file_flush_method == SRV_UNIX_NOSYNC) {
    /* Checkpoints do not sync all files. */
    return false;
  }
#endif /* !_WIN32 */
  if (m_checkpoint_lsn == 0) {
    m_checkpoint_lsn = log_sys->last_checkpoint_lsn.load();
  }
  /* Changes that are not logged have the LSN at which they were made as their
  first and last one, and that can be the checkpoint's. */
  return lsn < m_checkpoint_lsn;
}

bool Copies::has_redo(const page_id_t &page_id) const {
  if (recv_sys->spaces == nullptr) {
    /* Redo was applied; it is the DDL log that opens the tablespace. */
    return false;
  }
  const auto space = recv_sys->spaces->find(page_id.space());

  return m_is_all || (space != recv_sys->spaces->end() &&
                      space->second.m_pages.count(page_id.page_no()) != 0);
}

bool Copies::is_left_out(lsn_t lsn) {
  return is_on() && (m_is_late || is_old(lsn));
}

bool Copies::is_left_out(const byte *page) {
  const page_id_t page_id = page_get_page_id(page);
  const lsn_t lsn = mach_read_from_8(page + FIL_PAGE_LSN);

  if (!is_on()) {
    return false;
  }
  if (!is_old(lsn)) {
    /* It was compared when its tablespace was opened. */
    return m_is_late;
  }
  /* A file has zeros where no copy was written yet. */
  return lsn == 0 || !has_redo(page_id) ||
         (m_is_late && gets_key(page_id.space())) ||
         !m_compared.insert(page_id).second;
}

void Copies::compare() {
  if (!is_on() || is_restored() || !recv_needed_recovery) {
    return;
  }

  /* Other batches follow. What this one writes takes the place of copies. */
  m_is_all = m_is_all || !recovery_flush::is_last_batch();

  /* Those of tablespaces that are not open, or have no key yet, are compared
  when they are opened. */
  m_is_late = true;
  recv_sys->dblwr->recover();
  m_is_late = false;
}

/** Pages whose copies are older than the checkpoint are in their files, or are
compared when their tablespaces are opened; the others have redo. What is
encrypted is opened now only if this batch has redo for it: its key may be in
redo that follows. */
void Copies::restore() {
  const auto spaces = std::exchange(m_spaces, {});

  if (!is_on() || is_restored() || !recv_needed_recovery) {
    return;
  }

  mutex_enter(&recv_sys->mutex);

  for (const auto &[space_id, found] : spaces) {
    if (found.lsn < recv_sys->checkpoint_lsn || space_id == TRX_SYS_SPACE ||
        (found.is_encrypted && recv_sys->spaces->count(space_id) == 0)) {
      continue;
    }

    const auto path = fil_scanned_path(space_id);

    if (!path.empty() && is_file_of(path, space_id) &&
        fil_tablespace_open_for_recovery(space_id) == DB_SUCCESS) {
      page_no_t page_no = 0;
      fil_node_t *file;

      /* MySQL does not sync the first page. The file may have been opened
      before, and closed again. */
      if (fil_prepare_file_for_io(space_id, page_no, &file) != DB_SUCCESS) {
        ib::fatal(UT_LOCATION_HERE, ER_IB_MSG_383,
                  ("Cannot open " + path + " to sync its first page").c_str());
      }
      os_file_flush(file->handle);
      fil_complete_write(space_id, file);
    }
  }

  mutex_exit(&recv_sys->mutex);
}

bool Copies::is_key_missing() const {
  return is_on() && !is_restored() &&
         std::any_of(m_spaces.begin(), m_spaces.end(), [](const auto &space) {
           return space.second.is_encrypted &&
                  space.second.lsn >= recv_sys->checkpoint_lsn &&
                  is_undo_without_key(space.first);
         });
}

}  // namespace redo_recovery
