/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file log/log0keys.cc
Keys of undo tablespaces, found in redo before it is parsed.

Why. With innodb_undo_log_encrypt=ON an undo tablespace gets its key while it is
used. The key goes to the first page, by redo; pages that are written from then
on are encrypted, and the first page may be written later. After a crash MySQL
opens the tablespace for the first batch of redo. If the key is in redo that
follows, it can neither read these pages nor repair them from the doublewrite
buffer, and the server ends at each start.

How. If the doublewrite buffer has encrypted pages of an undo tablespace, and
the first page in the file has no key, redo is read to its end once more, before
it is parsed, for the records with the keys of all such tablespaces: pages of
the others may be encrypted in their files, and not be in the doublewrite buffer
any more. A record is found by its looks: the magic number of encryption info,
behind the header of a record that writes so many bytes to that place of a first
page. The info itself has a checksum, which is looked at when its key is
decrypted. A tablespace never gets another key.

If the doublewrite buffer has no such page of any of them, nothing is looked
for, and a recovery of several batches fails as MySQL's does: to look at all
pages of the files, or to read redo twice in each such recovery, takes too long.

The key is then given to recovery as if it had been parsed: it reaches the
tablespace when that is opened. All this needs a crash soon after undo was
encrypted, so redo is read twice then. */

#include "log0keys.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <vector>

#include "dict0dict.h"
#include "fil0fil.h"
#include "fsp0fsp.h"
#include "log0copies.h"
#include "log0encryption.h"
#include "log0files_io.h"
#include "log0log.h"
#include "log0recv.h"
#include "log0sys.h"
#include "mach0data.h"
#include "mtr0types.h"
#include "os0enc.h"
#include "ut0byte.h"
#include "ut0log.h"
#include "ut0new.h"

namespace redo_recovery {

namespace {

/** Bytes that are read at a time. */
constexpr size_t READ_SIZE = 1024 * 1024;

/** Most bytes of the ID of a tablespace in a record. */
constexpr size_t MAX_ID = 5;

/** What is between that and the info: page number 0, offset, length. */
constexpr size_t N_FIXED = 1 + 2 + 2;

/** What is before the info in a record, with its type. */
constexpr size_t MAX_HEADER = 1 + MAX_ID + N_FIXED;

/** Give recovery a key.
@param[in]  space_id  tablespace
@param[in]  info      encryption info
@return false if the keyring has not the key that it was encrypted with, or if
these bytes are something else */
bool give(space_id_t space_id, const byte *info) {
  byte key[Encryption::KEY_LEN]{};
  byte iv[Encryption::KEY_LEN]{};
  Encryption_key e_key{key, iv};

  if (!Encryption::decode_encryption_info(dict_sys_t::s_invalid_space_id, e_key,
                                          info, true)) {
    return false;
  }
  if (recv_sys->keys == nullptr) {
    recv_sys->keys =
        ut::new_withkey<recv_sys_t::Encryption_Keys>(UT_NEW_THIS_FILE_PSI_KEY);
  }

  recv_sys_t::Encryption_Key given;
  const auto copy = [](const byte *bytes) {
    const auto copied = static_cast<byte *>(
        ut::malloc_withkey(UT_NEW_THIS_FILE_PSI_KEY, Encryption::KEY_LEN));

    return static_cast<byte *>(memcpy(copied, bytes, Encryption::KEY_LEN));
  };

  given.space_id = space_id;
  given.ptr = copy(key);
  given.iv = copy(iv);
  /* Older than any that the first page of the file has. */
  given.lsn = 0;
  recv_sys->keys->push_back(given);
  return true;
}

/** @return true if a block of redo is the one that begins at an LSN
@param[in]   block   block
@param[in]   lsn     LSN
@param[out]  header  what its header says */
bool is_block_of(const byte *block, lsn_t lsn, Log_data_block_header &header) {
  return log_data_block_header_deserialize(block, header) &&
         header.m_hdr_no == log_block_convert_lsn_to_hdr_no(lsn) &&
         header.m_epoch_no == log_block_convert_lsn_to_epoch_no(lsn) &&
         header.m_data_len >= LOG_BLOCK_HDR_SIZE;
}

/** Read redo.
@param[in,out]  log     redo log
@param[in,out]  file    its file
@param[in]      offset  where to read
@param[in]      n       bytes
@param[out]     buffer  what was read
@return true if it was */
bool read(log_t &log, Log_file_handle &file, os_offset_t offset, size_t n,
          byte *buffer) {
  const auto err = log_data_blocks_read(file, offset, n, buffer);

  return err == DB_SUCCESS ||
         (err == DB_IO_DECRYPT_FAIL && log_encryption_read(log) == DB_SUCCESS &&
          log_data_blocks_read(file, offset, n, buffer) == DB_SUCCESS);
}

/** Read redo to its end.
@param[in,out]  log     redo log
@param[in]      lsn     where it begins
@param[in,out]  finder  is given what it holds */
void read_all(log_t &log, lsn_t lsn, Key_finder &finder) {
  std::vector<byte> memory(READ_SIZE + OS_FILE_LOG_BLOCK_SIZE);
  const auto buffer =
      static_cast<byte *>(ut_align(memory.data(), OS_FILE_LOG_BLOCK_SIZE));

  lsn = ut_uint64_align_down(lsn, OS_FILE_LOG_BLOCK_SIZE);

  for (auto file = log.m_files.find(lsn); file != log.m_files.end();
       file = log.m_files.find(lsn)) {
    auto handle = file->open(Log_file_access_mode::READ_ONLY);
    size_t n;

    if (!handle.is_open()) {
      return;
    }
    for (auto offset = file->offset(lsn); offset < file->m_size_in_bytes;
         offset += n) {
      n = std::min<os_offset_t>(READ_SIZE, file->m_size_in_bytes - offset);
      if (!read(log, handle, offset, n, buffer)) {
        return;
      }
      for (size_t at = 0; at < n; at += OS_FILE_LOG_BLOCK_SIZE) {
        Log_data_block_header header;

        if (!is_block_of(buffer + at, lsn, header)) {
          return;
        }
        finder.add(buffer + at + LOG_BLOCK_HDR_SIZE,
                   std::min<size_t>(header.m_data_len,
                                    LOG_BLOCK_HDR_SIZE + LOG_BLOCK_DATA_SIZE) -
                       LOG_BLOCK_HDR_SIZE);
        if (header.m_data_len < OS_FILE_LOG_BLOCK_SIZE) {
          return;
        }
        lsn += OS_FILE_LOG_BLOCK_SIZE;
      }
    }
  }
}

}  // namespace

void Key_finder::add(const byte *data, size_t n_bytes) {
  constexpr auto n_magic = Encryption::MAGIC_SIZE;
  const byte *magic = reinterpret_cast<const byte *>(Encryption::KEY_MAGIC_V3);

  m_bytes.insert(m_bytes.end(), data, data + n_bytes);

  const auto end = m_bytes.data() + m_bytes.size();
  const byte *at = m_bytes.data();

  while (true) {
    at =
        std::search(at, static_cast<const byte *>(end), magic, magic + n_magic);
    if (static_cast<size_t>(end - at) < Encryption::INFO_SIZE) {
      break;
    }

    space_id_t space_id;

    if (is_record(at, space_id)) {
      m_found(space_id, at);
    }
    ++at;
  }

  /* Of an info that is not there as a whole, or not there at all yet. */
  const auto n_left =
      std::max<size_t>(end - at, std::min(m_bytes.size(), n_magic - 1)) +
      MAX_HEADER;

  if (n_left < m_bytes.size()) {
    m_bytes.erase(m_bytes.begin(), m_bytes.end() - n_left);
  }
}

bool Key_finder::is_record(const byte *info, space_id_t &space_id) const {
  const auto n_before = static_cast<size_t>(info - m_bytes.data());

  for (size_t n_id = 1; n_id <= MAX_ID && 1 + n_id + N_FIXED <= n_before;
       ++n_id) {
    auto ptr = info - N_FIXED - n_id;
    const auto type = ptr[-1] & ~MLOG_SINGLE_REC_FLAG;
    const auto id = mach_parse_compressed(&ptr, info);

    if (type == MLOG_WRITE_STRING && ptr == info - N_FIXED && ptr[0] == 0 &&
        mach_read_from_2(ptr + 1) == m_offset &&
        mach_read_from_2(ptr + 3) == Encryption::INFO_SIZE) {
      space_id = id;
      return true;
    }
  }
  return false;
}

void find_keys(log_t &log, lsn_t lsn) {
  /* Of an ID that was used again the last one is that of the file. */
  std::map<space_id_t, std::vector<byte>> infos;
  Key_finder finder{fsp_header_get_encryption_offset(univ_page_size),
                    [&](space_id_t space_id, const byte *info) {
                      infos[space_id].assign(info,
                                             info + Encryption::INFO_SIZE);
                    }};

  read_all(log, lsn, finder);

  const auto n_given =
      std::count_if(infos.begin(), infos.end(), [](const auto &info) {
        return is_undo_without_key(info.first) &&
               give(info.first, info.second.data());
      });

  ib::info(ER_IB_MSG_383)
      << "Redo recovery: there are encrypted pages of undo tablespaces whose "
      << "files have no key; redo has " << n_given << " keys of such.";
}

}  // namespace redo_recovery
