// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <rondo/pin_error.hpp>

#include <tl/expected.hpp>

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>

namespace rondo::detail {

/// How much memory this process can have, and what stands in the way of more.
struct MemoryLimits {
    static constexpr auto none = std::numeric_limits<std::uint64_t>::max();

    std::uint64_t available_now = none;
    std::string now_limited_by = "64-bit address space";
    std::uint64_t ever = none;  ///< if nothing else ran
    std::string ever_limited_by = "64-bit address space";
};

/// The tightest of: the machine's memory (/proc/meminfo), its commit limit if it does not
/// overcommit, this process's resource limits, and every cgroup (v2 or v1) from the process's own
/// up to the root. A momentary reading, stale at once. A file that is missing or cannot be
/// understood is no limit. `root` is where `proc` and `sys` are looked for.
[[nodiscard]] MemoryLimits read_memory_limits(const std::filesystem::path& root = "/");

/// Errors: `RingMemory` when `wanted` bytes are more than can be had now, or ever.
[[nodiscard]] tl::expected<void, PinError> check_memory(std::uint64_t wanted,
                                                        const MemoryLimits& limits);

}  // namespace rondo::detail
