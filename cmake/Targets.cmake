# SPDX-License-Identifier: Apache-2.0
# rondo_own_target(<target>): what holds for every target of this project, and for no consumer.
function(rondo_own_target target)
    target_compile_options(
        ${target}
        PRIVATE -Wall -Wextra -Wpedantic -Wconversion -Wshadow $<$<BOOL:${RONDO_WERROR}>:-Werror>
    )
    set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF)
endfunction()

# rondo_executable(<target>): a program of this project (CLI, benchmark, test).
function(rondo_executable target)
    rondo_own_target(${target})
    target_link_libraries(${target} PRIVATE rondo::rondo)
    # -fPIC, not the -fPIE that CMake would choose: the precompiled header of the library is
    # accepted only with the very same code-generation flags.
    target_compile_options(${target} PRIVATE -fPIC)
    if(RONDO_PCH)
        target_precompile_headers(${target} REUSE_FROM rondo)
    endif()
endfunction()
