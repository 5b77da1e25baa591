// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>

namespace rondo {

/// `a + b`, or nothing if that exceeds 64 bits.
[[nodiscard]] constexpr std::optional<std::uint64_t> checked_add(std::uint64_t a,
                                                                 std::uint64_t b) noexcept {
    std::uint64_t sum = 0;
    if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
    return sum;
}

/// `a * b`, or nothing if that exceeds 64 bits.
[[nodiscard]] constexpr std::optional<std::uint64_t> checked_mul(std::uint64_t a,
                                                                 std::uint64_t b) noexcept {
    std::uint64_t product = 0;
    if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
    return product;
}

/// The product of `factors` (1 if there is none), or nothing if that exceeds 64 bits. A factor of
/// 0 makes it 0 wherever it stands: `[2^40, 2^40, 0]` does not overflow.
[[nodiscard]] constexpr std::optional<std::uint64_t> checked_product(
    std::span<const std::uint64_t> factors) noexcept {
    if (std::ranges::find(factors, std::uint64_t{0}) != factors.end()) return 0;
    std::optional<std::uint64_t> product{1};
    for (const std::uint64_t factor : factors) {
        product = checked_mul(*product, factor);
        if (!product) return std::nullopt;
    }
    return product;
}

}  // namespace rondo
