# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
# Included by upstream's project() call (CMAKE_PROJECT_MySQL_INCLUDE), before upstream reads its version.

# SELECT @@version_comment. Nearly every source reads it.
set(COMPILATION_COMMENT_SERVER "Redstart, a fork of MySQL - GPL")
# REDSTART_PRISTINE: the tree is MySQL as released (./redstart build --pristine), compiled with the same headers as far as they
# are the same, so that the compiler cache serves both.
if(REDSTART_PRISTINE)
  set(MYSQL_SERVER_SUFFIX "-pristine")
  set(VERSION_COMMENT "\"MySQL as released, built to compare with - GPL\"")
  include(${CMAKE_CURRENT_LIST_DIR}/version_comment.cmake)
else()
  # SELECT @@version: 9.7.4-redstart, of a release 9.7.4-redstart1, with upstream's own suffixes (-debug, -asan) after it.
  set(MYSQL_SERVER_SUFFIX "-redstart${REDSTART_RELEASE}")
  if(REDSTART_COMMIT)
    set(VERSION_COMMENT "\"${COMPILATION_COMMENT_SERVER}, commit \" COMMIT")
    set(VERSION_COMMENT_INCLUDE "#include \"commit.h\"")
    include(${CMAKE_CURRENT_LIST_DIR}/version_comment.cmake)
  endif()
endif()

include(${CMAKE_CURRENT_LIST_DIR}/build_speed.cmake)
