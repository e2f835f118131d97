/* Copyright (c) 2026, the contributors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/** @file include/fil0mapmsg.h
Codes of what the tablespace map says in the error log.

Each is one of MySQL's general codes for InnoDB that no other message of the
server uses, so that log_error_suppression_list, which refuses codes that MySQL
does not know, can name one kind of message. docs/tablespace-map.md has the
numbers. */

#ifndef fil0mapmsg_h
#define fil0mapmsg_h

#include "mysqld_error.h"

namespace tablespace_map {

/* Of the start. */

/** There is no map, or it is not used. */
constexpr int MSG_NOT_USED = ER_IB_MSG_96;
/** How much of the map was as it is on the disk. */
constexpr int MSG_SCANNED = ER_IB_MSG_97;
/** What was taken from the journal. */
constexpr int MSG_JOURNAL = ER_IB_MSG_98;
/** Some tablespaces are looked up in the dictionary. */
constexpr int MSG_BY_DIFFERENCE = ER_IB_MSG_100;
/** All of the dictionary is read. */
constexpr int MSG_IN_FULL = ER_IB_MSG_101;
/** After that, tablespaces need not be opened. */
constexpr int MSG_DEFERRED = ER_IB_MSG_102;
/** The start fails, since the map was wrong. */
constexpr int MSG_WRONG = ER_IB_MSG_103;

/* Of the running server. */

/** All headers were read in the background. */
constexpr int MSG_VERIFIED = ER_IB_MSG_104;
/** A file was changed in place. */
constexpr int MSG_CHANGED_IN_PLACE = ER_IB_MSG_105;
/** The map is not used any more. */
constexpr int MSG_REMOVED = ER_IB_MSG_106;
/** The same, but its file cannot be removed. */
constexpr int MSG_NOT_REMOVED = ER_IB_MSG_107;
/** Key rotation or clone needs tablespaces that cannot be opened. */
constexpr int MSG_NOT_OPENED = ER_IB_MSG_108;
/** Key rotation leaves tablespaces out whose key is not in the keyring. */
constexpr int MSG_NO_KEYS = ER_IB_MSG_109;
/** What keeps starts from reading less. */
constexpr int MSG_OBSTACLE = ER_IB_MSG_110;
/** A file system does not keep times of directories. */
constexpr int MSG_NO_TIMES = ER_IB_MSG_132;
/** The map cannot be written. */
constexpr int MSG_NOT_WRITTEN = ER_IB_MSG_133;
/** The journal cannot be written. */
constexpr int MSG_JOURNAL_NOT_WRITTEN = ER_IB_MSG_145;
/** A shutdown had no time to write the map. */
constexpr int MSG_NO_TIME = ER_IB_MSG_183;

}  // namespace tablespace_map

#endif /* fil0mapmsg_h */
