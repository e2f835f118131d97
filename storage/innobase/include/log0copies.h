/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file include/log0copies.h
Copies of pages in the doublewrite buffer: read when a start needs them.

log/log0copies.cc has the design. */

#ifndef log0copies_h
#define log0copies_h

#include <functional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "buf0dblwr.h"
#include "buf0types.h"
#include "db0err.h"
#include "fil0types.h"
#include "log0types.h"
#include "os0file.h"
#include "univ.i"

namespace redo_recovery {

/** The copies, from the start until redo is applied. Only the thread of the
start uses them. */
class Copies {
 public:
  /** The pages of a doublewrite file are about to be read.
  @param[in]      file   file, a dblwr::File; it need not stay open
  @param[in,out]  pages  where its pages go to
  @param[in]      load   what reads them
  @return true if that is left to read(); false if innodb_redo_recovery is
  STOCK, or if recovery has begun or is over */
  template <typename File>
  [[nodiscard]] bool defer(const File &file, dblwr::recv::Pages *pages,
                           dberr_t (*load)(File &, dblwr::recv::Pages *)) {
    return defer(file.m_name, pages, [=](pfs_os_file_t handle) {
      File opened{file};
      opened.m_pfs = handle;
      return load(opened, pages);
    });
  }

  /** Copies are needed: read the files if that was left for later. Ends the
  server if a file cannot be read.
  @param[in]  pages  where copies are looked for */
  void read(const dblwr::recv::Pages *pages);

  /** Redo was read: what was not needed so far is not read any more. */
  void end_deferring() { m_state = State::OVER; }

  /** A copy of a page was found.
  @param[in]  page  copy */
  void note(const byte *page);

  /** @return true if a page is not compared with a copy of it now, see
  log/log0copies.cc; false if innodb_redo_recovery is STOCK
  @param[in]  page  copy */
  [[nodiscard]] bool is_left_out(const byte *page);

  /** The same for a page of which there is only a note.
  @param[in]  lsn  LSN of the page when it was noted */
  [[nodiscard]] bool is_left_out(lsn_t lsn);

  /** Compare the pages that were left out and have redo in the batch that
  comes, before it is applied. */
  void compare();

  /** Restore torn pages of all tablespaces before the first batch of redo;
  later calls do nothing. With innodb_redo_recovery=STOCK nothing is done. */
  void restore();

  /** @return true if there are encrypted pages of a tablespace for undo whose
  file has no key, newer than the checkpoint; false if innodb_redo_recovery is
  STOCK, or the copies were not read yet */
  [[nodiscard]] bool is_key_missing() const;

 private:
  /** Reads all pages of an open file. */
  using Load = std::function<dberr_t(pfs_os_file_t)>;

  /** The same for a file of any type.
  @param[in]  path   file
  @param[in]  pages  where its pages go to
  @param[in]  load   what reads them
  @return true if that is left to read() */
  bool defer(const std::string &path, const dblwr::recv::Pages *pages,
             Load load);

  /** What there is of a tablespace. */
  struct Space {
    /** LSN of the newest copy of a page. */
    lsn_t lsn{0};
    /** True if a copy is encrypted. */
    bool is_encrypted{false};
  };

  /** @return true if a page has redo in a batch that is collected or applied
  @param[in]  page_id  page */
  [[nodiscard]] bool has_redo(const page_id_t &page_id) const;

  /** @return true if a copy is older than the checkpoint
  @param[in]  lsn  its LSN */
  bool is_old(lsn_t lsn);

  /** Whether files were read. */
  enum class State {
    /** They are read when copies are needed. */
    DEFERRED,
    /** They were read, or need not be. */
    OVER
  };

  State m_state{State::DEFERRED};
  /** Files that were not read. */
  std::vector<std::pair<std::string, Load>> m_files;
  /** Where their pages go to. */
  const dblwr::recv::Pages *m_pages{nullptr};
  /** Pages that were compared with an old copy, which is done once: later they
  may be being written. */
  std::set<page_id_t> m_compared;
  /** The checkpoint of this start. */
  lsn_t m_checkpoint_lsn{0};
  /** True if all pages count as if they had redo. */
  bool m_is_all{false};
  /** True in compare(). */
  bool m_is_late{false};
  /** Tablespaces that have copies. */
  std::unordered_map<space_id_t, Space> m_spaces;
};

extern Copies g_copies;

/** @return true if a tablespace is one for undo, and its file has no key
@param[in]  space_id  tablespace */
[[nodiscard]] bool is_undo_without_key(space_id_t space_id);

}  // namespace redo_recovery

#endif /* log0copies_h */
