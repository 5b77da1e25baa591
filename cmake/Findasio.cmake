# SPDX-License-Identifier: Apache-2.0
# Finds stand-alone Asio, which ships no CMake package of its own. Installed with rondo, so that
# a consumer finds Asio the same way.
#
# Defines asio::asio, asio_FOUND and asio_VERSION. Set asio_INCLUDE_DIR to choose another copy.
find_path(asio_INCLUDE_DIR asio.hpp)
mark_as_advanced(asio_INCLUDE_DIR)

if(asio_INCLUDE_DIR)
    file(STRINGS ${asio_INCLUDE_DIR}/asio/version.hpp _asio_version
         REGEX "^#define ASIO_VERSION [0-9]+"
    )
    string(REGEX MATCH "[0-9]+" _asio_version "${_asio_version}")
    math(EXPR _asio_major "${_asio_version} / 100000")
    math(EXPR _asio_minor "${_asio_version} / 100 % 1000")
    math(EXPR _asio_patch "${_asio_version} % 100")
    set(asio_VERSION ${_asio_major}.${_asio_minor}.${_asio_patch})
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(
    asio
    REQUIRED_VARS asio_INCLUDE_DIR
    VERSION_VAR asio_VERSION
)

if(asio_FOUND AND NOT TARGET asio::asio)
    add_library(asio::asio INTERFACE IMPORTED GLOBAL)
    set_target_properties(
        asio::asio
        PROPERTIES INTERFACE_INCLUDE_DIRECTORIES ${asio_INCLUDE_DIR}
                   INTERFACE_COMPILE_DEFINITIONS ASIO_STANDALONE
    )
endif()
