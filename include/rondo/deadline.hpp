// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

namespace rondo {

/// When a wait gives up: a point of the steady clock, or never.
///
/// Converts from a duration (counted from the conversion) and from a point in time, so
/// `server.sample({.deadline = 5s})` reads as it should. Trivially copyable. A deadline that has
/// passed still lets an operation succeed that need not wait.
class Deadline {
public:
    using Clock = std::chrono::steady_clock;

    /// Never.
    constexpr Deadline() noexcept = default;

    constexpr Deadline(Clock::time_point at) noexcept
        : at_{at} {}  // NOLINT: a conversion by design

    /// `patience` from now. A duration that the clock cannot hold means never.
    template <typename Rep, typename Period>
    Deadline(std::chrono::duration<Rep, Period> patience)  // NOLINT: a conversion by design
        : Deadline{after(std::chrono::duration<double>{patience})} {}

    [[nodiscard]] constexpr bool never() const noexcept { return at_ == Clock::time_point::max(); }
    [[nodiscard]] constexpr Clock::time_point at() const noexcept { return at_; }
    [[nodiscard]] bool passed() const noexcept { return !never() && Clock::now() >= at_; }

private:
    static Deadline after(std::chrono::duration<double> patience) noexcept {
        constexpr std::chrono::duration<double> century = std::chrono::hours{24 * 36'525};
        if (patience >= century) return {};
        return Clock::now() + std::chrono::duration_cast<Clock::duration>(patience);
    }

    Clock::time_point at_ = Clock::time_point::max();
};

}  // namespace rondo
