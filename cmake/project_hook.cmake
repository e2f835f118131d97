# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
# Included by upstream's project() call (CMAKE_PROJECT_MySQL_INCLUDE), before upstream reads its version.

# REDSTART_PRISTINE: the tree is MySQL as released (./redstart build --pristine).
if(REDSTART_PRISTINE)
  set(MYSQL_SERVER_SUFFIX "-pristine")
  set(COMPILATION_COMMENT_SERVER "MySQL as released, built to compare with - GPL")
else()
  # SELECT @@version: 9.7.4-redstart, of a release 9.7.4-redstart1, with upstream's own suffixes (-debug, -asan) after it.
  set(MYSQL_SERVER_SUFFIX "-redstart${REDSTART_RELEASE}")
  # SELECT @@version_comment.
  set(COMPILATION_COMMENT_SERVER "Redstart, a fork of MySQL - GPL")
  if(REDSTART_COMMIT)
    include(${CMAKE_CURRENT_LIST_DIR}/version_comment.cmake)
  endif()
endif()

include(${CMAKE_CURRENT_LIST_DIR}/build_speed.cmake)
