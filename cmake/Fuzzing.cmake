# SPDX-License-Identifier: Apache-2.0
if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "RONDO_BUILD_FUZZ needs clang (libFuzzer); this is ${CMAKE_CXX_COMPILER_ID}")
endif()

# The fuzzer steers by coverage, so the library is instrumented too.
target_compile_options(rondo PRIVATE -fsanitize=fuzzer-no-link)
target_link_options(rondo INTERFACE $<BUILD_INTERFACE:-fsanitize=fuzzer-no-link>)

# rondo_fuzz(<name> <source>...)
#
# A libFuzzer program at <build>/fuzz/<name>. Its seeds and past failures live in corpus/<name>
# beside the source; ctest replays them, `make fuzz` searches for new ones.
function(rondo_fuzz name)
    set(target fuzz_${name})
    add_executable(${target} ${ARGN})
    rondo_own_target(${target})
    target_link_libraries(${target} PRIVATE rondo::rondo)
    target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src)
    target_compile_options(${target} PRIVATE -fsanitize=fuzzer)
    target_link_options(${target} PRIVATE -fsanitize=fuzzer)
    set_target_properties(
        ${target} PROPERTIES OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/fuzz
    )
    file(GLOB seeds CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/corpus/${name}/*)
    add_test(NAME fuzz.${name} COMMAND ${target} -runs=1 ${seeds})
    set_tests_properties(fuzz.${name} PROPERTIES TIMEOUT 300 LABELS fuzz)
endfunction()
