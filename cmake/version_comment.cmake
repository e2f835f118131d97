# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
# Injected by project_hook.cmake: another `version_comment`, and where else the server tells it (the error log
# at a start, the head of the other logs). VERSION_COMMENT is a C++ expression for it, VERSION_COMMENT_INCLUDE what that needs.
#
# Upstream has the text as a macro in a header that nearly every source reads: with the commit in it, each commit would
# compile the server anew. Here the sources that use it take it from an object of its own, which alone changes. The
# commit is not an option, since a change of those begins the build tree anew, precompiled headers included: it stands in
# commit.h of the build tree, which `./redstart build package` writes.

function(version_comment_apply)
  set(dir ${CMAKE_BINARY_DIR}/version_comment)
  file(CONFIGURE OUTPUT ${dir}/version_comment.h CONTENT [[
#include "mysql_version.h"
extern const char version_comment[];
#undef MYSQL_COMPILATION_COMMENT_SERVER
#define MYSQL_COMPILATION_COMMENT_SERVER version_comment
]] @ONLY)
  file(CONFIGURE OUTPUT ${dir}/version_comment.cc CONTENT [[
@VERSION_COMMENT_INCLUDE@
extern const char version_comment[];
const char version_comment[] = @VERSION_COMMENT@;
]] @ONLY)
  target_sources(sql_main PRIVATE ${dir}/version_comment.cc)
  set_property(SOURCE ${dir}/version_comment.cc TARGET_DIRECTORY sql_main
    PROPERTY SKIP_PRECOMPILE_HEADERS ON)
  set_property(SOURCE ${dir}/version_comment.cc TARGET_DIRECTORY sql_main
    PROPERTY INCLUDE_DIRECTORIES ${CMAKE_BINARY_DIR})
  foreach(name log.cc mysqld.cc sql_parse.cc sys_vars.cc)
    set_property(SOURCE ${CMAKE_SOURCE_DIR}/sql/${name} TARGET_DIRECTORY sql_main
      APPEND PROPERTY COMPILE_OPTIONS -include ${dir}/version_comment.h)
  endforeach()
  if(REDSTART_PRISTINE)
    # `mysqld --version`, which clients share.
    file(CONFIGURE OUTPUT ${dir}/version_literal.h CONTENT [[
#include "mysql_version.h"
#undef MYSQL_COMPILATION_COMMENT_SERVER
#define MYSQL_COMPILATION_COMMENT_SERVER @VERSION_COMMENT@
]] @ONLY)
    set_property(SOURCE ${CMAKE_SOURCE_DIR}/mysys/print_version.cc DIRECTORY ${CMAKE_SOURCE_DIR}/mysys
      APPEND PROPERTY COMPILE_OPTIONS -include ${dir}/version_literal.h)
  endif()
endfunction()

cmake_language(DEFER DIRECTORY ${CMAKE_SOURCE_DIR} CALL version_comment_apply)
