# SPDX-License-Identifier: Apache-2.0
# Every dependency comes from the system if it is there; a pinned release is fetched otherwise.
include(FetchContent)

# rondo_require(<package> <target> <version> REPOSITORY <url> TAG <tag> INCLUDE <dir>
#               [DEFINITIONS <definition>...])
#
# For header-only packages: makes sure that the imported <target> exists. A fetched copy becomes an
# imported target as well, so that rondo's own export only ever names it.
function(rondo_require package target version)
    cmake_parse_arguments(PARSE_ARGV 3 arg "" "REPOSITORY;TAG;INCLUDE" "DEFINITIONS")
    if(TARGET ${target})
        return()
    endif()
    find_package(${package} ${version} QUIET GLOBAL)
    if(TARGET ${target})
        return()
    endif()
    message(STATUS "rondo: ${package} is not installed, fetching ${arg_TAG}")
    string(MAKE_C_IDENTIFIER rondo_${package} content)
    FetchContent_Declare(
        ${content}
        GIT_REPOSITORY ${arg_REPOSITORY}
        GIT_TAG ${arg_TAG}
        GIT_SHALLOW ON
        SOURCE_SUBDIR no-build # headers only: never run the project's own CMakeLists.txt
    )
    FetchContent_MakeAvailable(${content})
    add_library(${target} INTERFACE IMPORTED GLOBAL)
    target_include_directories(${target} INTERFACE ${${content}_SOURCE_DIR}/${arg_INCLUDE})
    target_compile_definitions(${target} INTERFACE ${arg_DEFINITIONS})
endfunction()

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

rondo_require(
    asio asio::asio 1.22
    REPOSITORY https://github.com/chriskohlhoff/asio.git
    TAG asio-1-30-2
    INCLUDE asio/include
    DEFINITIONS ASIO_STANDALONE
)
rondo_require(
    tl-expected tl::expected 1.0
    REPOSITORY https://github.com/TartanLlama/expected.git
    TAG v1.1.0
    INCLUDE include
)
if(RONDO_BUILD_CLI OR RONDO_BUILD_BENCH)
    rondo_require(
        CLI11 CLI11::CLI11 2.1
        REPOSITORY https://github.com/CLIUtils/CLI11.git
        TAG v2.4.2
        INCLUDE include
    )
    rondo_require(
        nlohmann_json nlohmann_json::nlohmann_json 3.11
        REPOSITORY https://github.com/nlohmann/json.git
        TAG v3.11.3
        INCLUDE include
    )
endif()
if(RONDO_BUILD_TESTS)
    # Catch2 3 is a compiled library, so a fetched copy is built like a part of this project.
    find_package(Catch2 QUIET)
    if(NOT TARGET Catch2::Catch2)
        message(STATUS "rondo: Catch2 is not installed, fetching v3.7.1")
        FetchContent_Declare(
            Catch2
            GIT_REPOSITORY https://github.com/catchorg/Catch2.git
            GIT_TAG v3.7.1
            GIT_SHALLOW ON
            SYSTEM
        )
        FetchContent_MakeAvailable(Catch2)
    endif()
endif()

# For bench/: Google Benchmark, which is compiled like Catch2.
function(rondo_require_benchmark)
    find_package(benchmark QUIET GLOBAL)
    if(TARGET benchmark::benchmark)
        return()
    endif()
    message(STATUS "rondo: benchmark is not installed, fetching v1.9.1")
    set(BENCHMARK_ENABLE_TESTING OFF)
    set(BENCHMARK_ENABLE_INSTALL OFF)
    set(CMAKE_POLICY_DEFAULT_CMP0077 NEW)
    FetchContent_Declare(
        benchmark
        GIT_REPOSITORY https://github.com/google/benchmark.git
        GIT_TAG v1.9.1
        GIT_SHALLOW ON
        SYSTEM
    )
    FetchContent_MakeAvailable(benchmark)
endfunction()
