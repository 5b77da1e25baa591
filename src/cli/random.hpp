// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace rondo::cli {

/// SplitMix64 (Steele, Lea and Flood 2014): the same numbers for a seed on every machine and with
/// every standard library.
class Random {
public:
    explicit constexpr Random(std::uint64_t seed) noexcept : state_{seed} {}

    [[nodiscard]] constexpr std::uint64_t next() noexcept {
        std::uint64_t z = (state_ += 0x9e3779b97f4a7c15);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
        z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
        return z ^ (z >> 31);
    }

    /// Uniform in [0, 1).
    [[nodiscard]] constexpr double unit() noexcept {
        return static_cast<double>(next() >> 11) * 0x1p-53;
    }

private:
    std::uint64_t state_;
};

}  // namespace rondo::cli
