// SPDX-License-Identifier: Apache-2.0
// Runs the fragments that are to be run; included by the generated main.cpp alone.
#pragma once

#include <asio.hpp>

#include <cstdio>
#include <exception>

inline bool finished(const char* where, bool ok, const char* why) {
    std::printf("%s: %s%s\n", where, ok ? "ok" : "failed: ", ok ? "" : why);
    return ok;
}

inline bool run(const char* where, int (*fragment)()) {
    return finished(where, fragment() == 0, "it returned an error");
}

inline bool run(const char* where, asio::awaitable<void> (*fragment)()) {
    asio::io_context context{1};
    bool ended = false;
    // An exception of the fragment ends the program, with its text.
    asio::co_spawn(context, fragment(), [&ended](std::exception_ptr error) {
        if (error) std::rethrow_exception(error);
        ended = true;
    });
    context.run();
    return finished(where, ended, "it waits for something that never comes");
}
