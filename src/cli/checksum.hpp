// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace rondo::cli {

/// The hash of no bytes.
inline constexpr std::uint64_t fnv1a_basis = 0xcbf29ce484222325;

/// FNV-1a with 64 bits. Pass an earlier result as `hash` to go on where it ended.
[[nodiscard]] constexpr std::uint64_t fnv1a(std::span<const std::byte> bytes,
                                            std::uint64_t hash = fnv1a_basis) noexcept {
    constexpr std::uint64_t prime = 0x100000001b3;
    for (const std::byte byte : bytes) {
        hash = (hash ^ std::to_integer<std::uint64_t>(byte)) * prime;
    }
    return hash;
}

}  // namespace rondo::cli
