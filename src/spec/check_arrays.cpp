// SPDX-License-Identifier: Apache-2.0
#include "spec/check_arrays.hpp"

#include <cstdint>

namespace rondo::detail {
namespace {

// Divides instead of multiplying: `count` is the caller's and the product may overflow.
bool fits(std::size_t bytes, std::uint64_t item, std::size_t count) noexcept {
    return item == 0 ? bytes == 0 : bytes % item == 0 && bytes / item == count;
}

}  // namespace

std::optional<std::string> check_arrays(const SampleSpec& spec, std::span<const ArrayBytes> arrays,
                                        std::size_t count, std::string_view owner) {
    if (arrays.size() != spec.size()) {
        return "expected " + std::to_string(spec.size()) + " arrays, got " +
               std::to_string(arrays.size()) + "; the " + std::string{owner} + "'s spec is " +
               spec.text();
    }
    for (std::size_t i = 0; i < arrays.size(); ++i) {
        const std::uint64_t item = spec.array_bytes(i);
        if (fits(arrays[i].size(), item, count)) continue;
        return "array " + spec.arrays()[i].text() + " needs " + std::to_string(item) +
               " bytes per sample for " + std::to_string(count) + " samples, got " +
               std::to_string(arrays[i].size()) + " bytes";
    }
    return std::nullopt;
}

}  // namespace rondo::detail
