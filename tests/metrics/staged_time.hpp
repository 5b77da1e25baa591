// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>

namespace rondo::test {

// For durations that the test does not choose, but knows bounds of: it looks at the same clock
// before and after.

using SteadyTime = std::chrono::steady_clock::time_point;

inline SteadyTime now() {
    return std::chrono::steady_clock::now();
}

inline std::uint64_t ns_since(SteadyTime from, SteadyTime to) {
    return static_cast<std::uint64_t>(std::chrono::nanoseconds{to - from}.count());
}

/// Makes a duration long enough to be told from others: returns when the clock has moved.
inline SteadyTime let_time_pass() {
    const SteadyTime from = now();
    SteadyTime to = from;
    while (to - from < std::chrono::milliseconds{2}) to = now();
    return to;
}

// What a histogram says, compared with a bound of the duration: it may be 1/64 off.
inline bool at_least(std::uint64_t read_ns, std::uint64_t bound_ns) {
    return read_ns + read_ns / 63 + 1 >= bound_ns;
}
inline bool at_most(std::uint64_t read_ns, std::uint64_t bound_ns) {
    return read_ns <= bound_ns + bound_ns / 64;
}

}  // namespace rondo::test
