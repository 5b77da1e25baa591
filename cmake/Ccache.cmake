# SPDX-License-Identifier: Apache-2.0
# Compiles through ccache when it is there and the user chose no launcher.
find_program(RONDO_CCACHE ccache)
mark_as_advanced(RONDO_CCACHE)
if(RONDO_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
    # Without this sloppiness ccache declines every file that uses a precompiled header.
    set(CMAKE_CXX_COMPILER_LAUNCHER
        ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${RONDO_CCACHE}
    )
endif()
