# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.

# Cheaper cold builds without touching the upstream tree.
#
# Injected with  -DCMAKE_PROJECT_MySQL_INCLUDE=<this file>, so it runs right
# after project(MySQL ...), before upstream defines any target.  It therefore
# only schedules a function for the end of the top directory, when every
# target exists, and applies precompiled headers there.
#
#   -DBUILD_SPEED=OFF   leaves the upstream build exactly as it is.

option(BUILD_SPEED "Precompiled headers and unity sources for the server" ON)

# ---------------------------------------------------------------------------
# Header sets.  Written <...> or "..." so that CMake copies them verbatim: a
# plain name would be turned into an absolute path, and absolute paths in the
# generated header break compiler cache hits between clones.
# ---------------------------------------------------------------------------

# Nearly every server source pulls these in; none is affected by a macro which
# an upstream source defines before its first include.
set(BUILD_SPEED_STL
  <algorithm> <array> <atomic> <cassert> <cctype> <cerrno> <cfloat>
  <cinttypes> <climits> <cmath> <cstdarg> <cstddef> <cstdint> <cstdio>
  <cstdlib> <cstring> <ctime> <deque> <functional> <iomanip> <iostream>
  <iterator> <limits> <list> <map> <memory> <mutex> <new> <numeric>
  <optional> <queue> <random> <set> <span> <sstream> <stack> <string>
  <string_view> <tuple> <type_traits> <unordered_map> <unordered_set>
  <utility> <vector>)

# The session, table, item and parse tree classes.
set(BUILD_SPEED_SQL
  <sql/sql_class.h> <sql/sql_lex.h> <sql/item.h> <sql/item_func.h>
  <sql/item_cmpfunc.h> <sql/item_subselect.h>
  <sql/sql_select.h>)

# What two thirds of the InnoDB sources reach, usually through
# btr0cur.h, trx0trx.h or row0mysql.h.  lock0priv.h must stay out: the sources
# of the lock module define a macro before it.
set(BUILD_SPEED_INNODB
  <univ.i> <buf0buf.h> <dict0dict.h> <trx0trx.h> <btr0btr.h> <btr0cur.h>
  <btr0pcur.h> <page0page.h> <page0cur.h> <row0mysql.h> <srv0srv.h>
  <srv0start.h> <lock0lock.h> <trx0sys.h> <trx0undo.h> <trx0purge.h>
  <trx0roll.h> <que0que.h> <row0row.h> <row0upd.h> <row0sel.h> <row0log.h>
  <fts0fts.h> <dict0stats.h> <log0buf.h> <log0chkp.h> <lob0lob.h>)

# Functions on geometries: boost's templates, 1,800 headers of them.
set(BUILD_SPEED_GIS
  <boost/geometry.hpp> <sql/gis/geometries.h> <sql/gis/geometries_cs.h>
  <sql/gis/geometries_traits.h> <sql/gis/box.h> <sql/gis/box_traits.h>
  <sql/gis/functor.h> <sql/gis/relops.h> <sql/gis/mbr_utils.h>
  <sql/gis/gc_utils.h> <sql/dd/types/spatial_reference_system.h>
  <sql/sql_exception_handler.h>)

# Performance schema: its own tables plus what table.h and handler.h reach.
set(BUILD_SPEED_PFS
  <sql/table.h> <sql/field.h> <sql/plugin_table.h> <sql/rpl_gtid.h>
  <storage/perfschema/pfs_server.h> <storage/perfschema/pfs_instr.h>
  <storage/perfschema/pfs_instr_class.h> <storage/perfschema/pfs_global.h>
  <storage/perfschema/pfs_engine_table.h> <storage/perfschema/table_helper.h>
  <storage/perfschema/pfs_buffer_container.h>)

# ---------------------------------------------------------------------------

# Sources that must not see a precompiled header: they define macros which
# the headers above react to (generated scanners and parsers, mostly), or
# they gain nothing.
function(build_speed_skip target)
  get_target_property(dir ${target} SOURCE_DIR)
  foreach(source IN LISTS ARGN)
    # Absolute: a relative path would be relative to the top directory here.
    get_filename_component(path ${source} ABSOLUTE BASE_DIR ${dir})
    set_property(SOURCE ${path} TARGET_DIRECTORY ${target}
      PROPERTY SKIP_PRECOMPILE_HEADERS ON)
  endforeach()
endfunction()

# A precompiled header of the target's own.  -fpch-preprocess is what the
# compiler cache needs to see which precompiled header a source used.
function(build_speed_pch target)
  if(TARGET ${target})
    target_precompile_headers(${target} PRIVATE ${ARGN})
    target_compile_options(${target} PRIVATE
      $<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)
  endif()
endfunction()

# One header for several targets: build_speed_shared_pch(owner model headers)
# makes it, build_speed_use_pch(owner targets) uses it.
#
# GCC accepts a precompiled header if every macro given on the command line
# that made it is given to its user too; a user may have more, as long as the
# headers do not look at them.  The owner is therefore an object library of
# ours with the definitions that all users share: those of <model> without
# the few which no header in the set looks at.
function(build_speed_shared_pch owner model)
  set(source ${CMAKE_BINARY_DIR}/build_speed/${owner}.cc)
  if(NOT EXISTS ${source})
    file(WRITE ${source} "")
  endif()
  add_library(${owner} OBJECT EXCLUDE_FROM_ALL ${source})
  get_target_property(dir ${model} SOURCE_DIR)
  get_property(definitions DIRECTORY ${dir} PROPERTY COMPILE_DEFINITIONS)
  set_target_properties(${owner} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_include_directories(${owner} PRIVATE
    $<TARGET_PROPERTY:${model},INCLUDE_DIRECTORIES>)
  target_compile_definitions(${owner} PRIVATE ${definitions}
    "$<FILTER:$<TARGET_PROPERTY:${model},COMPILE_DEFINITIONS>,EXCLUDE,HAVE_EXT_BACKTRACE|BOOST_NO_CXX98_FUNCTION_BASE>")
  add_dependencies(${owner} GenError)
  build_speed_pch(${owner} ${ARGN})
endfunction()

function(build_speed_use_pch owner)
  foreach(target IN LISTS ARGN)
    if(TARGET ${target})
      target_precompile_headers(${target} REUSE_FROM ${owner})
      target_compile_options(${target} PRIVATE
        $<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)
    endif()
  endforeach()
endfunction()

# ---------------------------------------------------------------------------
# Unity sources: several upstream sources compiled as one.
#
# CMake's own UNITY_BUILD writes absolute paths into the generated sources,
# which defeats the compiler cache in another clone.  Ours are relative to the
# top of the source tree, which is on the include path of every target.
#
# A source stays alone if it is generated or outside the tree, if it has
# compiler flags of its own other than warnings, if it defines or undefines any macro (so nothing
# leaks into its neighbours), or if it is listed in EXCEPT because its names
# clash with those of another.
function(build_speed_unity target)
  cmake_parse_arguments(arg "" "BATCH" "EXCEPT" ${ARGN})
  if(NOT TARGET ${target})
    return()
  endif()
  get_target_property(dir ${target} SOURCE_DIR)
  get_target_property(sources ${target} SOURCES)
  list(REMOVE_DUPLICATES sources)
  set(alone "")
  set(joined "")
  foreach(source IN LISTS sources)
    get_filename_component(name "${source}" NAME)
    get_filename_component(path "${source}" ABSOLUTE BASE_DIR ${dir})
    set(macros "")
    if(EXISTS ${path})
      file(STRINGS ${path} macros LIMIT_COUNT 1
        REGEX "^[ \t]*#[ \t]*(define|undef)")
    endif()
    get_property(flags SOURCE ${path} TARGET_DIRECTORY ${target}
      PROPERTY COMPILE_FLAGS)
    string(REGEX REPLACE "-W[^ ]*| " "" flags "${flags}")
    file(RELATIVE_PATH path ${CMAKE_SOURCE_DIR} ${path})
    if(name IN_LIST arg_EXCEPT OR macros OR flags
        OR NOT path MATCHES "^[^.].*[.](cc|cpp)$")
      list(APPEND alone ${source})
    else()
      list(APPEND joined ${path})
    endif()
  endforeach()

  list(LENGTH joined total)
  set(start 0)
  while(start LESS total)
    list(SUBLIST joined ${start} ${arg_BATCH} batch)
    list(TRANSFORM batch REPLACE "(.+)" "#include \"\\1\"\n")
    list(JOIN batch "" text)
    set(file ${CMAKE_BINARY_DIR}/build_speed/${target}/unity_${start}.cc)
    file(CONFIGURE OUTPUT ${file} CONTENT "${text}" @ONLY)
    # Sources included here count as headers, for which an anonymous namespace
    # is suspicious; builds with MySQL's -Werror would end.
    set_property(SOURCE ${file} TARGET_DIRECTORY ${target}
      PROPERTY COMPILE_OPTIONS -Wno-subobject-linkage)
    list(APPEND alone ${file})
    math(EXPR start "${start} + ${arg_BATCH}")
  endwhile()
  set_property(TARGET ${target} PROPERTY SOURCES ${alone})
endfunction()

function(build_speed_apply)
  build_speed_shared_pch(build_speed_sql rpl
    ${BUILD_SPEED_STL} ${BUILD_SPEED_SQL})
  build_speed_use_pch(build_speed_sql
    sql_main sql_dd binlog rpl rpl_source rpl_replica
    mysql_server_component_services)
  build_speed_skip(sql_main ${CMAKE_BINARY_DIR}/sql/sql_yacc.cc
    ${CMAKE_BINARY_DIR}/sql/sql_hints.yy.cc
    engine_combination_tracker.cc)

  build_speed_pch(sql_gis ${BUILD_SPEED_STL} ${BUILD_SPEED_GIS})
  # boost's templates again: a sixth of the build at -O3, and nothing here measures them.
  if(TARGET sql_gis)
    target_compile_options(sql_gis PRIVATE $<$<CONFIG:Release>:-O1>)
  endif()

  build_speed_pch(innobase ${BUILD_SPEED_STL} ${BUILD_SPEED_INNODB})
  build_speed_skip(innobase fts/fts0blex.cc fts/fts0tlex.cc fts/fts0pars.cc
    pars/lexyy.cc pars/pars0grm.cc)

  build_speed_pch(perfschema ${BUILD_SPEED_STL} ${BUILD_SPEED_PFS})
  build_speed_skip(perfschema pfs.cc)

  build_speed_unity(perfschema BATCH 16
    EXCEPT table_keyring_keys.cc table_replication_group_members.cc
      table_replication_group_member_stats.cc)
  build_speed_unity(sql_dd BATCH 10
    EXCEPT column_impl.cc index_impl.cc parameter_impl.cc partition_impl.cc
      routine_impl.cc tablespace_impl.cc
      table_constraints_extensions.cc tablespaces_extensions.cc
      dd.cc server.cc)
  build_speed_unity(mysql_server_component_services BATCH 10
    EXCEPT mysql_statement_service_imp.cc mysql_signal_handler_imp.cc
      mysql_library_imp.cc)
  build_speed_unity(myisam_library BATCH 10
    EXCEPT ft_boolean_search.cc ft_nlq_search.cc ft_parser.cc ft_static.cc
      ft_stopwords.cc ft_update.cc mi_check.cc mi_create.cc mi_locking.cc)
  build_speed_unity(mysql_binlog_event BATCH 10)
  build_speed_unity(temptable BATCH 10)
endfunction()

if(BUILD_SPEED AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  cmake_language(DEFER DIRECTORY ${CMAKE_SOURCE_DIR} CALL build_speed_apply)
endif()
