// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace rondo::cli {

/// Counts values on a log-linear scale: 64 equal steps for each power of two, so that a percentile
/// is off by less than 1 % of its value, for any number of values, in 30 KiB.
class Histogram {
public:
    void add(std::uint64_t value) noexcept {
        ++counts_[index_of(value)];
        ++total_;
    }

    [[nodiscard]] std::uint64_t total() const noexcept { return total_; }

    /// The value that `fraction` (0 to 1) of the values do not exceed; 0 if there is none.
    [[nodiscard]] double percentile(double fraction) const noexcept;

private:
    static constexpr unsigned step_bits = 6;
    static constexpr std::uint64_t steps = std::uint64_t{1} << step_bits;

    // Below 2 x steps a value is its own index; above, its leading 7 bits and their place are.
    static constexpr std::size_t index_of(std::uint64_t value) noexcept {
        const auto width = static_cast<unsigned>(std::bit_width(value));
        const unsigned shift = width > step_bits + 1 ? width - (step_bits + 1) : 0;
        return static_cast<std::size_t>(shift * steps + (value >> shift));
    }

    std::array<std::uint64_t, (64 - step_bits + 1) * steps> counts_{};
    std::uint64_t total_ = 0;
};

}  // namespace rondo::cli
