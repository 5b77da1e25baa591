// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>

namespace rondo::cli {

/// Counts samples and says how fast they came.
class Throughput {
public:
    using Clock = std::chrono::steady_clock;

    /// Samples count for the rate from here on. Without it, the first `add` is the beginning, and
    /// its samples, which came before, do not.
    void start(Clock::time_point now) noexcept;

    /// So many more samples are there now.
    void add(std::uint64_t samples, Clock::time_point now) noexcept;

    [[nodiscard]] std::uint64_t samples() const noexcept { return samples_; }

    /// From the beginning to the last `add`.
    [[nodiscard]] double seconds() const noexcept;

    /// Samples per second over `seconds`; 0 if that is no time.
    [[nodiscard]] double per_second() const noexcept;

    /// Samples per second since the last call of this function (at first, since the beginning).
    [[nodiscard]] double recent_per_second(Clock::time_point now) noexcept;

private:
    Clock::time_point first_{};
    Clock::time_point last_{};
    std::uint64_t samples_ = 0;
    std::uint64_t before_first_ = 0;
    Clock::time_point asked_at_{};
    std::uint64_t asked_samples_ = 0;
    bool started_ = false;
};

}  // namespace rondo::cli
