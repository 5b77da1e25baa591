# SPDX-License-Identifier: Apache-2.0
# rondo_test(<name> <source>... [LABELS <label>...])
#
# One executable per topic, and one ctest test per executable: a process per test case would cost
# more than the cases. `<build>/tests/<name> "[tag]"` runs a part of it by hand.
function(rondo_test name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "LABELS")
    set(target test_${name})
    add_executable(${target} ${arg_UNPARSED_ARGUMENTS})
    rondo_executable(${target})
    target_link_libraries(${target} PRIVATE rondo_test_main)
    target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src)
    set_target_properties(
        ${target} PROPERTIES OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests
    )
    rondo_add_test(NAME ${name} COMMAND ${target} LABELS ${arg_LABELS})
endfunction()

# rondo_add_test(NAME <name> COMMAND <command>... [LABELS <label>...]
#                [WORKING_DIRECTORY <directory>]): add_test with the limits that hold for all tests.
function(rondo_add_test)
    cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME;WORKING_DIRECTORY" "COMMAND;LABELS")
    if(NOT arg_WORKING_DIRECTORY)
        set(arg_WORKING_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})
    endif()
    add_test(
        NAME ${arg_NAME}
        COMMAND ${arg_COMMAND}
        WORKING_DIRECTORY ${arg_WORKING_DIRECTORY}
    )
    set(timeout 300)
    if(RONDO_SANITIZE STREQUAL "address")
        set(timeout 600)
    elseif(RONDO_SANITIZE STREQUAL "thread")
        set(timeout 900)
    endif()
    set_tests_properties(
        ${arg_NAME}
        PROPERTIES
            TIMEOUT ${timeout}
            SKIP_RETURN_CODE 77
            LABELS "${arg_LABELS}"
            ENVIRONMENT
            "ASAN_OPTIONS=detect_stack_use_after_return=1;UBSAN_OPTIONS=print_stacktrace=1;TSAN_OPTIONS=halt_on_error=1 second_deadlock_stack=1"
    )
endfunction()
