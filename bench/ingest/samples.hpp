// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <rondo/sample.hpp>

#include <cstddef>
#include <random>
#include <span>
#include <vector>

namespace rondo::bench {

/// Sources take turns, so that one sample does not stay in the first-level cache for ever.
inline constexpr std::size_t sources = 8;

/// Fills memory with bytes that are not 0: untouched pages are all the same page to the kernel, and
/// so always cached.
inline void fill_random(std::span<std::byte> bytes, unsigned seed) {
    std::mt19937 random{seed};
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(1 + random() % 255);
}

[[nodiscard]] inline std::vector<Sample> random_samples(const SampleSpec& spec) {
    std::vector<Sample> samples(sources, Sample{spec});
    for (unsigned seed = 0; Sample & sample : samples) {
        for (std::size_t i = 0; i < spec.size(); ++i) {
            fill_random(sample.array<std::byte>(i), ++seed);
        }
    }
    return samples;
}

}  // namespace rondo::bench
