// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "metrics/striped.hpp"
#include <rondo/metrics.hpp>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

namespace rondo::detail {

/// Counts durations on a log-linear scale: 32 equal steps for each power of two of nanoseconds, so
/// that what is read is off by at most 1/64 (1.6 %) of its value, and exact below 64 ns. Anything
/// above `longest` counts as that.
///
/// A record is one addition to one bucket, and buckets only grow: `reset` remembers what they held,
/// and later readings subtract that. So a value is in the reading that `reset` returns or in later
/// ones, in one of them and whole, however recorders race with it. Minimum, maximum and mean come
/// from the buckets too: a sum of its own would be a second addition, which a reset could come
/// between.
///
/// Thread-safety: every member may be called from any thread. Recorders never wait.
class Histogram {
public:
    static constexpr unsigned longest_bits = 40;  // 18 minutes
    static constexpr std::uint64_t longest = (std::uint64_t{1} << longest_bits) - 1;

    Histogram();

    void record(std::uint64_t ns, std::uint64_t times = 1) noexcept {
        buckets_->mine()[index_of(ns)].fetch_add(times, std::memory_order_relaxed);
    }

    /// What was recorded since the last reset.
    [[nodiscard]] HistSnapshot read() const;

    /// The same, and begins anew.
    HistSnapshot reset();

private:
    static constexpr unsigned step_bits = 5;
    static constexpr std::uint64_t steps = std::uint64_t{1} << step_bits;
    static constexpr std::size_t size = (longest_bits - step_bits + 1) * steps;

    // Below 2 x steps a value is its own index; above, its leading 6 bits and their place are.
    static constexpr std::size_t index_of(std::uint64_t ns) noexcept {
        ns = ns < longest ? ns : longest;
        const auto width = static_cast<unsigned>(std::bit_width(ns));
        const unsigned shift = width > step_bits + 1 ? width - (step_bits + 1) : 0;
        return static_cast<std::size_t>(shift * steps + (ns >> shift));
    }

    // The middle of the values that share a bucket: half a step off at most.
    static constexpr std::uint64_t value_of(std::size_t index) noexcept {
        const std::size_t shift = index < 2 * steps ? 0 : index / steps - 1;
        const std::uint64_t lowest = (index - shift * steps) << shift;
        return lowest + ((std::uint64_t{1} << shift) - 1) / 2;
    }

    using Buckets = std::array<Counter, size>;
    using Counts = std::array<std::uint64_t, size>;
    [[nodiscard]] Counts totals() const noexcept;
    [[nodiscard]] static Counts difference(const Counts& now, const Counts& before) noexcept;
    [[nodiscard]] static HistSnapshot summary(const Counts& counts) noexcept;
    [[nodiscard]] static std::uint64_t value_at(const Counts& counts, std::uint64_t rank) noexcept;

    const std::unique_ptr<Striped<Buckets>> buckets_;

    // Readers take turns, so that each sees what the one before it saw, or more.
    mutable std::mutex mutex_;
    Counts at_reset_{};
};

}  // namespace rondo::detail
