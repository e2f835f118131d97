# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.

# Initial cache for every preset:  cmake -C <clone>/cmake/options.cmake ...
# The build type (and -DWITH_DEBUG=1, -DWITH_ASAN=1, ...) comes from the preset.

# Where the compiler cache takes paths from; MySQL as released has a folder of its own, laid out like a clone.
if(REDSTART_PRISTINE)
  set(clone "${REDSTART_PRISTINE}")
else()
  get_filename_component(clone "${CMAKE_CURRENT_LIST_DIR}" DIRECTORY)
endif()

# Upstream lets WITH_SYSTEM_LIBS overrule every WITH_<library> except those
# given on the command line, which it recognises by this very help string.
function(option_default name type value)
  set(${name} "${value}" CACHE ${type}
    "No help, variable specified on the command line.")
endfunction()

# Third-party code: the distribution's, except rapidjson, whose packaged
# version is too old.
option_default(WITH_SYSTEM_LIBS BOOL ON)
option_default(WITH_RAPIDJSON STRING bundled)

# Parts of the upstream tree that are not built.
option_default(WITH_NDB BOOL OFF)
option_default(WITH_NDBCLUSTER BOOL OFF)
option_default(WITH_NDBCLUSTER_STORAGE_ENGINE BOOL OFF)
option_default(WITH_ROUTER BOOL OFF)
option_default(WITH_MYSQLX BOOL OFF)
option_default(WITH_AUTHENTICATION_LDAP BOOL OFF)
option_default(WITH_AUTHENTICATION_KERBEROS BOOL OFF)
option_default(WITH_AUTHENTICATION_WEBAUTHN BOOL OFF)
option_default(WITH_FIDO STRING none)
option_default(WITH_CURL STRING none)

# Configured, but built only when asked for by name.
option_default(WITH_UNIT_TESTS BOOL ON)

option_default(WITH_LD STRING lld)

# Upstream's own release flags; no debugging information.
option_default(CMAKE_C_FLAGS_RELEASE STRING "-O3 -DNDEBUG -g0")
option_default(CMAKE_CXX_FLAGS_RELEASE STRING "-O3 -DNDEBUG -g0")

# The server's name, precompiled headers and unity sources.
option_default(CMAKE_PROJECT_MySQL_INCLUDE FILEPATH
  "${CMAKE_CURRENT_LIST_DIR}/project_hook.cmake")

# Compiler cache, shared by clones at any path: see ccache-launcher.
find_program(CCACHE_PROGRAM ccache)
mark_as_advanced(CCACHE_PROGRAM)
if(CCACHE_PROGRAM)
  set(launcher "${CMAKE_CURRENT_LIST_DIR}/ccache-launcher" ${clone} ${CCACHE_PROGRAM})
  option_default(CMAKE_C_COMPILER_LAUNCHER STRING "${launcher}")
  option_default(CMAKE_CXX_COMPILER_LAUNCHER STRING "${launcher}")
endif()
