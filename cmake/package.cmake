# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.

# Initial cache of the preset `package` (./redstart package). It is read before options.cmake, whose
# values give way to these:  cmake -C cmake/package.cmake -C cmake/options.cmake ...
# Everything that Debian's packages of MySQL hold, compiled as Debian's are. docs/packages.md lists what
# differs; `./redstart test stock` compares.

get_filename_component(clone "${CMAKE_CURRENT_LIST_DIR}" DIRECTORY)

# As in options.cmake: the help string tells upstream that a value was asked for.
function(package_option name type value)
  set(${name} "${value}" CACHE ${type}
    "No help, variable specified on the command line.")
endfunction()

foreach(name DEB_HOST_ARCH DEB_HOST_MULTIARCH)
  execute_process(
    COMMAND dpkg-architecture -q${name}
    OUTPUT_VARIABLE ${name}
    OUTPUT_STRIP_TRAILING_WHITESPACE
    COMMAND_ERROR_IS_FATAL ANY)
endforeach()

# Debian's paths.
package_option(INSTALL_LAYOUT STRING DEB)
package_option(CMAKE_INSTALL_PREFIX PATH /usr)
package_option(SYSCONFDIR PATH /etc/mysql)
package_option(INSTALL_LIBDIR STRING lib/${DEB_HOST_MULTIARCH})
package_option(INSTALL_PLUGINDIR STRING lib/mysql/plugin)
package_option(INSTALL_MYSQLSHAREDIR STRING share/mysql)
package_option(INSTALL_SUPPORTFILESDIR STRING share/mysql)
package_option(INSTALL_SCRIPTDIR STRING bin)
package_option(MYSQL_UNIX_ADDR STRING /var/run/mysqld/mysqld.sock)

# The X plugin, the plugins of the client library, telemetry, the MeCab parser.
package_option(WITH_MYSQLX BOOL ON)
package_option(WITH_AUTHENTICATION_CLIENT_PLUGINS BOOL ON)
package_option(WITH_AUTHENTICATION_WEBAUTHN BOOL ON)
package_option(WITH_FIDO STRING system)
package_option(WITH_KERBEROS STRING system)
package_option(WITH_CURL STRING system)
package_option(WITH_MECAB STRING system)

package_option(WITH_TCMALLOC BOOL ON)

# Upstream's own build, without precompiled headers: two builds of a commit are to be the same bytes.
package_option(BUILD_SPEED BOOL OFF)

# Debian's flags; these two it adds since Debian 13, and so has stock.
set(extra_flags "-fstack-clash-protection")
if(DEB_HOST_ARCH STREQUAL "arm64")
  string(APPEND extra_flags " -mbranch-protection=standard")
else()
  string(APPEND extra_flags " -fcf-protection")
endif()
# No path of the clone in what is shipped, neither in messages nor for the debugger.
string(APPEND extra_flags
  " -ffile-prefix-map=${clone}/build/source=. -ffile-prefix-map=${clone}/build/package=./obj")
foreach(kind CFLAGS CXXFLAGS CPPFLAGS LDFLAGS)
  execute_process(
    COMMAND ${CMAKE_COMMAND} -E env
      "DEB_BUILD_MAINT_OPTIONS=hardening=+all reproducible=-fixfilepath,-fixdebugpath"
      dpkg-buildflags --get ${kind}
    OUTPUT_VARIABLE ${kind}
    OUTPUT_STRIP_TRAILING_WHITESPACE
    COMMAND_ERROR_IS_FATAL ANY)
endforeach()
package_option(CMAKE_C_FLAGS STRING "${CFLAGS} ${CPPFLAGS} ${extra_flags}")
package_option(CMAKE_CXX_FLAGS STRING "${CXXFLAGS} ${CPPFLAGS} ${extra_flags}")
foreach(kind EXE MODULE SHARED)
  package_option(CMAKE_${kind}_LINKER_FLAGS STRING "${LDFLAGS}")
endforeach()
