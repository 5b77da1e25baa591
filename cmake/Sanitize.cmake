# SPDX-License-Identifier: Apache-2.0
# RONDO_SANITIZE holds for everything that is built here, fetched dependencies included: a program
# that is instrumented in part reports races and overflows that are none.
if(RONDO_SANITIZE STREQUAL "")
    return()
elseif(RONDO_SANITIZE STREQUAL "address")
    set(flags -fsanitize=address,undefined -fno-sanitize-recover=all)
    if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
        # clang 14 puts the type tag of this check where a coroutine's split functions cannot reach
        # it ("Cannot represent a difference across sections").
        list(APPEND flags -fno-sanitize=function)
    else()
        # With its checks in between, g++ no longer sees that std::regex and std::function
        # initialise what they read. The release build keeps this warning.
        add_compile_options(-Wno-maybe-uninitialized)
    endif()
elseif(RONDO_SANITIZE STREQUAL "thread")
    set(flags -fsanitize=thread)
    # TSan cannot model atomic_thread_fence; g++ warns about each, clang would miss the ordering.
    add_compile_definitions(ASIO_DISABLE_FENCED_BLOCK)
else()
    message(FATAL_ERROR "RONDO_SANITIZE is '${RONDO_SANITIZE}'; '', 'address' or 'thread' expected")
endif()
add_compile_options(${flags} -fno-omit-frame-pointer)
add_link_options(${flags})
