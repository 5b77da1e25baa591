// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace rondo::bench {

/// CLOCK_MONOTONIC, which all processes of a machine share.
[[nodiscard]] std::uint64_t now_ns() noexcept;

/// Ages of samples at their lease, in ns: of each one, and of the youngest of each batch. The first
/// contain the time that a batch takes to fill, the second only the way.
struct Ages {
    std::vector<std::uint64_t> all;
    std::vector<std::uint64_t> youngest;
};

/// A server's end of the pipe to run.py: says `{"port": N}`, then answers every line `mark` with a
/// reading of its counters, and ends the process when stdin ends.
class Driver {
public:
    explicit Driver(std::uint16_t port);
    Driver(const Driver&) = delete;
    Driver& operator=(const Driver&) = delete;
    ~Driver() = delete;  // it lives as long as the process

    /// Whether a reading is asked for. To be asked right after a batch, so that the samples and the
    /// time of two readings belong together.
    [[nodiscard]] bool wants_reading() noexcept {
        return wanted_.load(std::memory_order_relaxed) && wanted_.exchange(false);
    }

    /// Prints `samples`, the time, and what the process has used so far; clears `ages`.
    static void print_reading(std::uint64_t samples, Ages& ages);

private:
    std::atomic<bool> wanted_{false};
    std::thread reader_;
};

}  // namespace rondo::bench
