// SPDX-License-Identifier: Apache-2.0
#pragma once

// Catch2 2 has one header, Catch2 3 another; the macros that we use are the same.
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
#else
#include <catch2/catch.hpp>
#endif

#include <string>

namespace rondo::test {

/// Matches a string that contains `part`, under the name that both versions of Catch2 know.
inline auto contains(const std::string& part) {
#if __has_include(<catch2/catch_all.hpp>)
    return Catch::Matchers::ContainsSubstring(part);
#else
    return Catch::Matchers::Contains(part);
#endif
}

/// Prints why the running test case is skipped. A program all of whose cases were skipped counts as
/// skipped in ctest.
void note_skip(const char* reason);

}  // namespace rondo::test

/// Ends the running test case (not a function that it calls) as skipped.
#define RONDO_SKIP(reason)                \
    do {                                  \
        ::rondo::test::note_skip(reason); \
        return;                           \
    } while (false)
