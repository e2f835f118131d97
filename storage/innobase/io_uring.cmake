# Copyright (c) 2026, the contributors.
#
# This program is free software; you can redistribute it and/or modify it under
# the terms of the GNU General Public License, version 2.0, as published by the
# Free Software Foundation. It is distributed without any warranty.

# io_uring, by liburing, for innodb_tablespace_check_io. Without it that
# variable's value IO_URING does what THREADS does, and says so.

IF(LINUX)
  INCLUDE(CheckIncludeFiles)
  INCLUDE(CheckLibraryExists)

  # The newest function that is used; liburing 2.1 has it.
  CHECK_INCLUDE_FILES(liburing.h HAVE_LIBURING_H)
  CHECK_LIBRARY_EXISTS(uring io_uring_register_iowq_max_workers "" HAVE_LIBURING)

  IF(HAVE_LIBURING_H AND HAVE_LIBURING)
    LINK_LIBRARIES(uring)
    # Of this source only, so that no other one depends on it.
    SET_SOURCE_FILES_PROPERTIES(fil/fil0ring.cc PROPERTIES
      COMPILE_DEFINITIONS HAVE_LIBURING
      SKIP_PRECOMPILE_HEADERS ON)
  ENDIF()
ENDIF()
